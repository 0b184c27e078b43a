import dataclasses
import json
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import data, models
from jaxdis._core.files import read_arrays, write_arrays
from jaxdis.cli._zoo_commands import train_to_directory
from jaxdis.models.objectives._losses import Losses
from jaxdis.models.training import _train as runner
from jaxdis.models.training._image_source import as_source, fingerprint
from tests.models.conftest import changed, same
from tests.models.methods.toy import ToyGan

pytestmark = pytest.mark.two_devices

SWEEP = {"toy_gan": {"pull": [1, 4]}}


@pytest.fixture
def config(monkeypatch):
    """Of a method that compiles in no time."""
    monkeypatch.setitem(models.METHODS, "toy_gan", ToyGan)
    return models.Config(data="squares", method=ToyGan(), steps=12)


@pytest.fixture
def members():
    return models.members(SWEEP, 2, ToyGan())


@pytest.fixture
def labelled(images):
    return images, np.arange(len(images))[:, None] % 3


@pytest.fixture
def resumed(tmp_path, config, members, labelled):
    """A run of 12 updates with checkpoints at 8 and 12, and a function that runs it again."""

    def again(directory=tmp_path, **changes):
        return models.train(
            changed(config, **changes),
            members.keys,
            members.hyperparameters,
            data=labelled,
            directory=directory,
            log_every=4,
            checkpoint_every=4,
        )

    return again


def paths(directory):
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def count_updates(monkeypatch) -> list:
    counted, advance = [], runner.Runner.advance
    monkeypatch.setattr(runner.Runner, "advance", lambda self, *a: counted.append(1) or advance(self, *a))
    return counted


def test_a_complete_run_trains_no_more(resumed, tmp_path, monkeypatch):
    first = resumed()
    assert paths(tmp_path) == ["step_000000008.npz", "step_000000012.npz"]
    counted = count_updates(monkeypatch)
    assert same(resumed(), first)
    assert not counted


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "altered", "deep"])
def test_a_bad_checkpoint_is_skipped_for_the_one_before(damage, resumed, tmp_path, monkeypatch):
    first = resumed()
    newest = tmp_path / "checkpoints" / "step_000000012.npz"
    if damage == "foreign":
        resumed(tmp_path / "other", batch_size=4)
        newest.write_bytes((tmp_path / "other" / "checkpoints" / newest.name).read_bytes())
    elif damage == "altered":
        header, arrays = read_arrays(newest)
        np.savez(newest, header=np.frombuffer(json.dumps(header | {"checksum": "0"}).encode(), np.uint8), **arrays)
    elif damage == "deep":
        np.savez(newest, header=np.frombuffer(b"[" * 100_000, np.uint8))
    else:
        newest.write_bytes(newest.read_bytes()[:1000] if damage == "truncated" else b"")
    counted = count_updates(monkeypatch)
    with pytest.warns(UserWarning, match="checkpoint skipped"):
        second = resumed()
    assert len(counted) == 1
    assert same(second, first)


def test_a_directory_of_another_run_is_refused(resumed):
    resumed()
    with pytest.raises(ValueError, match=r"holds another run \(config\.method\.batch_size is 8, asked for 4\); choose"):
        resumed(batch_size=4)


def test_renderers_of_one_name_are_told_apart():
    space = data.FactorSpace.of(shade=4, row=2)
    zeros = lambda factors: jnp.zeros((len(factors), 8, 8, 1))  # noqa: E731
    ones = lambda factors: jnp.ones((len(factors), 8, 8, 1))  # noqa: E731

    def of(level):
        return lambda factors: jnp.full((len(factors), 8, 8, 1), level)

    def by_default(level):
        return lambda factors, *, level=level: jnp.broadcast_to(level, (len(factors), 8, 8, 1))

    def make(number):
        arrays = np.float32([0.1, 0.2, 0.3])
        return (zeros, ones, of(0.25), of(0.5), jax.jit(of(0.75)), by_default(arrays[0]), by_default(arrays[1]))[number]

    prints = [fingerprint(as_source((space, make(number)))) for number in range(7)]
    assert len(set(prints)) == 7
    assert prints == [fingerprint(as_source((space, make(number)))) for number in range(7)]


def test_a_renderer_of_whole_numbers_is_refused():
    space = data.FactorSpace.of(shade=4, row=2)
    with pytest.raises(ValueError, match=r"images: must be uint8 .*, got dtype int32"):
        as_source((space, lambda factors: jnp.full((len(factors), 8, 8, 1), 200, jnp.int32)))


def test_a_renderer_of_bytes_as_floats_is_refused():
    space = data.FactorSpace.of(shade=4, row=2)
    with pytest.raises(ValueError, match=r"data: must be values in \[0, 1\] .*, got 200 to 200"):
        as_source((space, lambda factors: jnp.full((len(factors), 8, 8, 1), 200.0)))


def test_a_run_can_be_resumed_on_another_number_of_devices(tmp_path, config, members, labelled):
    def part(steps, directory, devices):
        members_three = members.keys[:3], jax.tree.map(lambda leaf: leaf[:3], members.hyperparameters)
        return models.train(
            dataclasses.replace(config, steps=steps),
            *members_three,
            data=labelled,
            directory=directory,
            log_every=4,
            devices=devices,
            checkpoint_every=4,
        )

    whole = part(12, tmp_path / "one", jax.devices()[:1])
    (tmp_path / "one" / "checkpoints" / "step_000000012.npz").unlink()
    assert same(part(12, tmp_path / "one", jax.devices()), whole)


def test_a_run_directory_trains_once(tmp_path, config, labelled):
    first, first_said = train_to_directory(config, SWEEP, 2, tmp_path, data=labelled, progress=False)
    again, again_said = train_to_directory(config, SWEEP, 2, tmp_path, data=labelled, progress=False)
    assert first_said.startswith("trained for 12 updates: 4 members in")
    assert again_said.startswith("already complete, 12 updates")
    assert same(first, again)
    assert same(models.load(tmp_path / "zoo.npz"), first)
    with pytest.raises(ValueError, match="members is 4, asked for 6; other seeds or settings of members"):
        train_to_directory(config, SWEEP, 3, tmp_path, data=labelled, progress=False)
    with pytest.raises(ValueError, match=r"another run \(other images\)"):
        train_to_directory(config, SWEEP, 2, tmp_path, data=tuple(each[:30] for each in labelled), progress=False)


def test_progress_shows_the_losses(config, members, labelled, capsys, monkeypatch):
    monkeypatch.setattr("jaxdis._core.display.EVERY", 0.0)
    models.train(config, members.keys, members.hyperparameters, data=labelled, progress=True)
    assert re.search("training: 12 of 12 updates; critic .*generator", capsys.readouterr().err)


def test_a_run_knows_its_renderer_in_every_process():
    first, again = (fingerprint(as_source(data.dsprites())) for _ in range(2))
    assert first == again
    assert fingerprint(as_source(data.color_dsprites())) != first
    assert fingerprint(as_source(data.dsprites(dtype="uint8"))) != first
    space, render = data.dsprites()
    assert fingerprint(as_source((space.without({"shape": 0, "scale": 1}), render))) != first
    source = as_source(data.dsprites())
    assert "0x" not in source.draw.identity(source.arrays)


def test_progress_says_what_happens():
    losses = Losses(*(np.array([v, np.nan, v + 2]) for v in (5.0, 3.0, 2.0, 0.0)))
    assert runner.summary(losses) == "loss 6, reconstruction 4, kl 3, discriminator 1, 1 stopped"
    gone = Losses(*(np.array([np.nan]) for _ in range(4)))
    assert runner.summary(gone) == "no member has a finite loss"


def forged(path, change):
    """The checkpoint with another header, or without some arrays, and a checksum that fits."""
    header, arrays = read_arrays(path)
    header.pop("checksum", None)
    write_arrays(path, *change(header, arrays))


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: (header | {"done": 500}, arrays),
        lambda header, arrays: (header | {"done": 12.0}, arrays),
        lambda header, arrays: ({"identity": header["identity"]}, arrays),
        lambda header, arrays: (header, {name: a for name, a in arrays.items() if not name.startswith("losses")}),
        lambda header, arrays: (header, {name: a[:1] if name[:6] == "losses" else a for name, a in arrays.items()}),
        lambda header, arrays: ({}, {}),
    ],
    ids=["later", "no integer", "without updates", "without losses", "short losses", "empty"],
)
def test_a_checkpoint_that_contradicts_itself_is_skipped(change, resumed, tmp_path):
    first = resumed()
    forged(tmp_path / "checkpoints" / "step_000000012.npz", change)
    with pytest.warns(UserWarning, match="checkpoint skipped"):
        assert same(resumed(), first)


def test_files_that_are_no_checkpoints_are_left_alone(resumed, tmp_path):
    first = resumed()
    for name in ("step_abc.npz", "step_1.npz", "step_000000099.txt"):
        (tmp_path / "checkpoints" / name).touch()
    assert same(resumed(), first)
    assert (tmp_path / "checkpoints" / "step_abc.npz").exists()


@pytest.mark.parametrize("content", ["[]", "3", "null", '"x"', "[" * 100_000, "{"])
def test_a_record_of_a_run_that_is_none_says_so(content, resumed, tmp_path):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match="directory: .*run.json needs the JSON of a run.*remove it"):
        resumed()


def test_files_have_the_modes_that_the_user_chose(resumed, tmp_path):
    before = os.umask(0o027)
    try:
        resumed().save(tmp_path / "zoo.npz")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_zoo_is_written_again_and_the_message_says_what_was_done(damage, config, labelled, tmp_path):
    def again():
        _, said = train_to_directory(config, SWEEP, 2, tmp_path, data=labelled, progress=False, **often)
        return said

    often = {"log_every": 4, "checkpoint_every": 4}
    assert again().startswith("trained for 12 updates")
    assert again().startswith("already complete")
    file = tmp_path / "zoo.npz"
    whole = file.read_bytes()
    middle = len(whole) // 2
    spoilt = {"cut": whole[:middle], "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]}
    file.write_bytes(spoilt[damage]) if damage in spoilt else file.unlink()
    assert again().startswith("written again from the checkpoint of update 12")
    assert file.read_bytes() == whole
    for path in (tmp_path / "checkpoints").iterdir():
        path.write_bytes(b"")
    with pytest.warns(UserWarning, match="checkpoint skipped"):
        assert again().startswith("trained for 12 updates")
    assert file.read_bytes() == whole
