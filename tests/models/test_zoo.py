import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxdis import models
from jaxdis.models import archive, networks, presets, progress, run, step, traversal
from jaxdis.models.config import describe, restored
from jaxdis.models.source import as_source, fingerprint
from tests.models.conftest import largest_difference


@pytest.fixture(scope="module")
def zoo(images):
    sweep = {"beta": {"beta": [1.0, 4.0]}, "dip_i": {"lambda_off_diagonal": 5.0}}
    keys, hyper, labels = models.members(sweep, seeds=2)
    config = models.Config(
        data="squares", objective=("beta", "dip_i"), network=models.Mlp((16,), 3), steps=20, batch_size=8
    )
    return models.train(config, keys, hyper, labels=labels, data=images, log_every=5)


def same(left: models.Zoo, right: models.Zoo) -> bool:
    trees = [(z.params, z.hyperparameters, z.losses, z.stopped) for z in (left, right)]
    leaves = zip(*map(jax.tree.leaves, trees), strict=True)
    return left.config == right.config and left.labels == right.labels and all(np.array_equal(a, b) for a, b in leaves)


# ---- what a zoo does ----------------------------------------------------------------------------------------------


def test_encoding_is_the_networks_own_whatever_the_batch(zoo, images):
    posterior = zoo.encode(images, batch_size=7)
    assert posterior.mean.shape == posterior.variance.shape == (6, 40, 3)
    for i in range(6):
        mean, log_variance = zoo.config.network.encode(zoo.export(i)["params"], jnp.asarray(images))
        np.testing.assert_allclose(posterior.mean[i], mean, atol=1e-5)
        np.testing.assert_allclose(posterior.variance[i], np.exp(log_variance), rtol=1e-5)
    np.testing.assert_allclose(zoo.encode(images).mean, posterior.mean, atol=1e-6)
    np.testing.assert_allclose(zoo.encode((images * 255).astype(np.uint8)).mean, posterior.mean, atol=1e-5)


def test_encoding_factors_with_a_renderer_is_encoding_their_images(zoo, images):
    def render(factors):
        return jnp.asarray(images)[factors[:, 0]]

    factors = np.arange(40)[:, None]
    np.testing.assert_allclose(zoo.encode(factors, render=render).mean, zoo.encode(images).mean, atol=1e-6)


def test_reconstruction_is_decoding_the_mean(zoo, images):
    made = zoo.reconstruct(images[:5])
    logits = zoo.config.network.decode(zoo.export(2)["params"], jnp.asarray(zoo.encode(images[:5]).mean[2]))
    np.testing.assert_allclose(made[2], jax.nn.sigmoid(logits), atol=1e-6)
    sheet = traversal.reconstructions(zoo, images[:5])
    assert sheet.shape == (6, 5, 2, 8, 8, 1)
    np.testing.assert_array_equal(sheet[3, :, 0], images[:5])
    np.testing.assert_array_equal(sheet[:, :, 1], made)


def test_a_traversal_moves_one_code_and_leaves_the_others(zoo, images):
    values = [-1.5, 0.0, 2.0]
    grid = traversal.traversals(zoo, images[:2], values=values)
    assert grid.shape == (6, 2, 3, 3, 8, 8, 1)
    codes = zoo.encode(images[:2]).mean[4, 1].copy()
    codes[2] = -1.5
    logits = zoo.config.network.decode(zoo.export(4)["params"], jnp.asarray(codes[None]))
    np.testing.assert_allclose(grid[4, 1, 2, 0], jax.nn.sigmoid(logits)[0], atol=1e-6)


def test_a_relative_traversal_is_in_standard_deviations(zoo, images):
    codes = zoo.encode(images).mean
    relative = traversal.traversals(zoo, images, values=[0.0, 1.0], relative=True)
    wanted = codes[0, 7].copy()
    wanted[1] = codes[0, :, 1].mean() + codes[0, :, 1].std()
    logits = zoo.config.network.decode(zoo.export(0)["params"], jnp.asarray(wanted[None]))
    np.testing.assert_allclose(relative[0, 7, 1, 1], jax.nn.sigmoid(logits)[0], atol=1e-5)
    with pytest.raises(ValueError, match="at least 2 images"):
        traversal.traversals(zoo, images[:1], relative=True)


def test_members_are_picked_by_index_slice_and_label(zoo, images):
    assert len(zoo) == 6
    assert zoo[1].labels == ({"objective": "beta", "beta": 1.0, "seed": 1},)
    assert same(zoo[2:4], zoo.select(beta=4.0))
    assert zoo.select(objective="dip_i", seed=[1]).labels == (zoo.labels[5],)
    np.testing.assert_array_equal(zoo[-1].encode(images).mean[0], zoo.encode(images).mean[5])
    assert same(models.concatenate([zoo[:2], zoo[2:]]), zoo)
    with pytest.raises(ValueError, match="needs a label among"):
        zoo.select(gamma=1)
    with pytest.raises(ValueError, match="no member has"):
        zoo.select(beta=3.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((2, 9, 9, 1)), r"shape \(8, 8, 1\)"),
        (np.full((2, 8, 8, 1), 255.0), r"in \[0, 1\]"),
        (np.zeros(3), "shape"),
    ],
)
def test_images_that_do_not_suit_are_refused(wrong, message, zoo):
    with pytest.raises(ValueError, match=message):
        zoo.encode(wrong)


def test_codes_that_do_not_suit_are_refused(zoo):
    with pytest.raises(ValueError, match="codes: needs shape"):
        zoo.decode(np.zeros((2, 5, 3)))


# ---- files --------------------------------------------------------------------------------------------------------


def test_a_saved_zoo_is_the_same_zoo(zoo, tmp_path):
    zoo.save(tmp_path / "zoo.npz")
    assert same(models.load(tmp_path / "zoo.npz"), zoo)
    assert os.listdir(tmp_path) == ["zoo.npz"]


def test_no_file_is_unpickled_and_damage_is_found(zoo, tmp_path):
    path = tmp_path / "zoo.npz"
    zoo.save(path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], b"", b"not a zip"):
        path.write_bytes(damaged)
        with pytest.raises(archive.DamagedFile):
            models.load(path)
    np.savez(path, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(archive.DamagedFile):
        models.load(path)


def test_an_altered_array_fails_the_checksum(zoo, tmp_path):
    path = tmp_path / "zoo.npz"
    zoo.save(path)
    with np.load(path) as file:
        contents = dict(file)
    contents["a/stopped"] = contents["a/stopped"] + 1
    np.savez(path, **contents)
    with pytest.raises(archive.DamagedFile, match="checksum"):
        models.load(path)


def test_a_zoo_whose_arrays_do_not_fit_its_network_is_refused(zoo, tmp_path):
    other = dataclasses.replace(zoo, config=dataclasses.replace(zoo.config, network=models.Mlp((17,), 3, (8, 8, 1))))
    other.save(tmp_path / "zoo.npz")
    with pytest.raises(archive.DamagedFile, match="needs float32"):
        models.load(tmp_path / "zoo.npz")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(zoo, tmp_path, monkeypatch):
    path = tmp_path / "zoo.npz"
    zoo.save(path)
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        zoo[0].save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["zoo.npz"]


def test_configs_survive_json():
    for preset in (*presets.locatello2020(seeds=1), *presets.mahon2024(seeds=1), *presets.julka2024(seeds=1)):
        assert restored(json.loads(json.dumps(describe(preset.config)))) == preset.config
        assert hash(preset.config) == hash(restored(describe(preset.config)))
    with pytest.raises(ValueError, match="type among"):
        restored({"type": "os.system"})
    with pytest.raises(ValueError, match="unexpected"):
        restored({"type": "Mlp", "widths": [3]})


def test_an_exported_member_is_a_flax_tree_for_ordinary_convolutions(images):
    network = models.Convolutional(
        channels=(4, 4), kernels=(4, 2), hidden=(8,), decoder_hidden=(8,), decoder_channels=(4, 4), num_codes=3
    )
    keys, hyper, _ = models.members({"beta": {}})
    zoo = models.train(models.Config(network=network, steps=3, batch_size=8), keys, hyper, data=images)
    module = networks.module(dataclasses.replace(zoo.config.network, compute="conv"))
    mean, _ = module.apply(zoo.export(0), jnp.asarray(images), method="encode")
    np.testing.assert_allclose(mean, zoo.encode(images).mean[0], atol=1e-5)


# ---- a run that is killed -----------------------------------------------------------------------------------------

KILLED = """
    import sys
    import numpy as np
    from jaxdis import models, runtime

    runtime.use_cpu_devices(2)
    runtime.use_compilation_cache()
    images = np.random.default_rng(0).random((32, 8, 8, 1), np.float32)
    keys, hyper, labels = models.members({"factor": {"gamma": [5, 10]}}, seeds=2)
    adversary = models.Adversary(network=models.Discriminator(2, 16))
    config = models.Config(data="noise", objective="factor", network=models.Mlp((32,), 3), steps=3000, batch_size=8,
                           adversary=adversary)
    zoo = models.train(config, keys, hyper, labels=labels, data=images, directory=sys.argv[1], log_every=25,
                       checkpoint_every=25)
    zoo.save(sys.argv[2])
"""


def start(directory, file) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(KILLED), str(directory), str(file)], env=os.environ)


@pytest.mark.timeout(300)
def test_a_killed_run_carries_on_to_the_same_bits(tmp_path):
    assert start(tmp_path / "whole", tmp_path / "whole.npz").wait() == 0
    checkpoints = tmp_path / "killed" / "checkpoints"
    kills = 0
    for _ in range(3):
        if (tmp_path / "killed.npz").exists():  # a machine that outran the killer
            break
        had = set(checkpoints.glob("step_*"))
        process = start(tmp_path / "killed", tmp_path / "killed.npz")
        while process.poll() is None and set(checkpoints.glob("step_*")) == had:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.3))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills > 0
    assert start(tmp_path / "killed", tmp_path / "killed.npz").wait() == 0
    assert same(models.load(tmp_path / "killed.npz"), models.load(tmp_path / "whole.npz"))


@pytest.fixture
def carried_on(tmp_path, config, members, images):
    """A run of 12 updates with checkpoints at 8 and 12, and a function that runs it again."""
    config = dataclasses.replace(config, steps=12)

    def again(directory=tmp_path, **changes):
        return models.train(
            dataclasses.replace(config, **changes),
            members.keys,
            members.hyperparameters,
            data=images,
            directory=directory,
            log_every=4,
            checkpoint_every=4,
        )

    return again


def paths(directory):
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def count_updates(monkeypatch) -> list:
    from jaxdis.models import spread

    counted, advance = [], spread.Runner.advance
    monkeypatch.setattr(spread.Runner, "advance", lambda self, *a: counted.append(1) or advance(self, *a))
    return counted


def test_a_complete_run_trains_no_more(carried_on, tmp_path, monkeypatch):
    first = carried_on()
    assert paths(tmp_path) == ["step_000000008.npz", "step_000000012.npz"]
    counted = count_updates(monkeypatch)
    assert same(carried_on(), first)
    assert not counted


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "altered"])
def test_a_bad_checkpoint_is_passed_over_for_the_one_before(damage, carried_on, tmp_path, monkeypatch):
    first = carried_on()
    newest = tmp_path / "checkpoints" / "step_000000012.npz"
    if damage == "foreign":
        carried_on(tmp_path / "other", batch_size=4)
        newest.write_bytes((tmp_path / "other" / "checkpoints" / newest.name).read_bytes())
    elif damage == "altered":
        header, arrays = archive.read(newest)
        np.savez(newest, header=np.frombuffer(json.dumps(header | {"checksum": "0"}).encode(), np.uint8), **arrays)
    else:
        newest.write_bytes(newest.read_bytes()[:1000] if damage == "truncated" else b"")
    counted = count_updates(monkeypatch)
    with pytest.warns(UserWarning, match="checkpoint passed over"):
        second = carried_on()
    assert len(counted) == 1
    assert same(second, first)


def test_all_checkpoints_bad_means_from_the_beginning(carried_on, tmp_path, monkeypatch):
    first = carried_on()
    for path in (tmp_path / "checkpoints").iterdir():
        path.write_bytes(b"")
    counted = count_updates(monkeypatch)
    with pytest.warns(UserWarning, match="checkpoint passed over"):
        second = carried_on()
    assert len(counted) == 3
    assert same(second, first)


def test_a_directory_of_another_run_is_refused(carried_on):
    carried_on()
    with pytest.raises(ValueError, match="holds another run; config differ"):
        carried_on(batch_size=4)


def test_a_run_can_carry_on_with_another_number_of_devices(tmp_path, config, members, images):
    def part(steps, directory, devices):
        members_three = members.keys[:3], jax.tree.map(lambda leaf: leaf[:3], members.hyperparameters)
        return models.train(
            dataclasses.replace(config, steps=steps),
            *members_three,
            data=images,
            directory=directory,
            log_every=4,
            devices=devices,
            checkpoint_every=4,
        )

    whole = part(12, tmp_path / "one", jax.devices()[:1])
    (tmp_path / "one" / "checkpoints" / "step_000000012.npz").unlink()
    assert same(part(12, tmp_path / "one", jax.devices()), whole)


# ---- the command line's function ----------------------------------------------------------------------------------


def test_a_run_directory_trains_once(tmp_path, config, images):
    first = run.train_to_directory(config, {"beta": [1, 4]}, 2, tmp_path, data=images, progress=False)
    again = run.train_to_directory(config, {"beta": [1, 4]}, 2, tmp_path, data=images, progress=False)
    assert first.message.startswith("trained for 12 updates: 4 members in")
    assert again.message.startswith("already complete, 12 updates")
    assert same(first.zoo, again.zoo)
    assert same(models.load(tmp_path / "zoo.npz"), first.zoo)
    with pytest.raises(ValueError, match="members, numbers differ"):
        run.train_to_directory(config, {"beta": [1, 4]}, 3, tmp_path, data=images, progress=False)
    with pytest.raises(ValueError, match="data differ"):
        run.train_to_directory(config, {"beta": [1, 4]}, 2, tmp_path, data=images[:30], progress=False)


def test_a_progress_bar_shows_the_losses(config, members, images, capsys):
    models.train(config, members.keys, members.hyperparameters, data=images, progress=True)
    assert "12/12" in capsys.readouterr().out


def test_a_run_knows_its_renderer_in_every_process():
    from jaxdis import data

    first, again = (fingerprint(as_source(data.dsprites())) for _ in range(2))
    assert first == again
    assert fingerprint(as_source(data.color_dsprites())) != first
    assert fingerprint(as_source(data.dsprites(dtype="uint8"))) != first
    space, render = data.dsprites()
    assert fingerprint(as_source((space.without({"shape": 0, "scale": 1}), render))) != first
    assert "0x" not in as_source(data.dsprites()).draw.identity(render)


def test_progress_says_what_happens():
    losses = step.Losses(*(np.array([v, np.nan, v + 2]) for v in (5.0, 3.0, 2.0, 0.0)))
    assert progress.summary(losses) == "loss 6 (reconstruction 4, KL 3, 1 stopped)"
    gone = step.Losses(*(np.array([np.nan]) for _ in range(4)))
    assert progress.summary(gone) == "no member has a finite loss"


# ---- presets ------------------------------------------------------------------------------------------------------


def test_locatello2020_has_its_thirty_six_settings():
    plain, factor = presets.locatello2020(seeds=2)
    settings = {
        tuple((k, v) for k, v in label.items() if k != "seed") for p in (plain, factor) for label in p.members.labels
    }
    assert len(settings) == 36
    assert len(plain.members.labels) + len(factor.members.labels) == 72
    assert plain.config.network.kernels == (4, 4, 2, 2)
    assert plain.config.steps == factor.config.steps == 300_000
    assert presets.locatello2020(seeds=1, literal_steps=True)[1].config.steps == 150_000
    assert presets.locatello2020(seeds=1, kernel="paper")[0].config.network.kernels == (4, 4, 4, 4)


def test_mahon2024_is_the_released_defaults():
    beta, tc, factor = presets.mahon2024(seeds=1)
    assert beta.members.hyperparameters.warmup_steps.tolist() == [10_000]
    assert tc.config.estimator == "mss_yann"
    assert (tc.members.hyperparameters.mutual_information[0], tc.members.hyperparameters.total_correlation[0]) == (1, 6)
    assert factor.config.adversary.order == "split_batch"
    assert factor.config.adversary.encoder_sees_discriminator
    assert factor.members.hyperparameters.discriminator_learning_rate[0] == np.float32(5e-5)
    assert presets.mahon2024(seeds=1, variant="yann_dsprites")[2].members.hyperparameters.adversary[0] == np.float32(
        6.4
    )
    assert not presets.mahon2024(seeds=1, literal=False)[2].config.adversary.encoder_sees_discriminator


def test_julka2024_updates_the_discriminator_afterwards():
    beta, factor = presets.julka2024()
    assert len(beta.members.labels) + len(factor.members.labels) == 45
    assert factor.config.adversary.order == "sequential"


@pytest.mark.parametrize("make", [presets.locatello2020, presets.mahon2024, presets.julka2024])
def test_every_preset_trains(make, images):
    large = np.kron(images, np.ones((1, 2, 2, 1)))
    for config, members in make(seeds=1, steps=2):
        small = {"channels": (2,) * 4, "decoder_channels": (2,) * 4, "hidden": (4,), "decoder_hidden": (4,)}
        config = dataclasses.replace(
            config,
            network=dataclasses.replace(config.network, **small),
            adversary=dataclasses.replace(config.adversary, network=models.Discriminator(1, 4)),
            batch_size=8,
        )
        zoo = models.train(config, members.keys, members.hyperparameters, labels=members.labels, data=large)
        assert (zoo.stopped == -1).all()


# ---- a user's own model -------------------------------------------------------------------------------------------


def plain_init(key):
    return {"in": jax.random.normal(key, (64, 6)) * 0.1, "out": jnp.zeros((3, 64))}


def plain_encode(params, images):
    return jnp.split(images.reshape(-1, 64) @ params["in"], 2, axis=1)


def plain_decode(params, codes):
    return (codes @ params["out"]).reshape(-1, 8, 8, 1)


class Autoencoder(nnx.Module):
    def __init__(self, rngs):
        self.inwards = nnx.Linear(64, 6, rngs=rngs)
        self.outwards = nnx.Linear(3, 64, rngs=rngs)

    def encode(self, images):
        return jnp.split(self.inwards(images.reshape(-1, 64)), 2, axis=1)

    def decode(self, codes):
        return self.outwards(codes).reshape(-1, 8, 8, 1)


GRAPH = nnx.split(nnx.eval_shape(lambda: Autoencoder(nnx.Rngs(0))))[0]


def nnx_init(key):
    return nnx.to_pure_dict(nnx.split(Autoencoder(nnx.Rngs(key)))[1])


def nnx_encode(params, images):
    return nnx.merge(GRAPH, params).encode(images)


def nnx_decode(params, codes):
    return nnx.merge(GRAPH, params).decode(codes)


class Bare:
    """Three methods and nothing else; hashable by identity."""

    init, encode, decode = staticmethod(plain_init), staticmethod(plain_encode), staticmethod(plain_decode)


OWN = {
    "plain": models.Own(plain_init, plain_encode, plain_decode, name="plain"),
    "nnx": models.Own(nnx_init, nnx_encode, nnx_decode, name="nnx"),
    "object": Bare(),
}


@pytest.mark.parametrize("name", list(OWN))
def test_a_users_own_network_is_trained_saved_and_read(name, images, tmp_path):
    keys, hyper, labels = models.members({"beta": {"beta": 1.0, "learning_rate": 1e-2}}, seeds=2)
    config = models.Config(data="squares", network=OWN[name], steps=200, batch_size=8)
    zoo = models.train(config, keys, hyper, labels=labels, data=images)
    assert (zoo.losses.loss[:, -1] < zoo.losses.loss[:, 0]).all()
    zoo.save(tmp_path / "zoo.npz")
    with pytest.raises(ValueError, match="pass it to load"):
        models.load(tmp_path / "zoo.npz")
    read = models.load(tmp_path / "zoo.npz", network=OWN[name])
    assert largest_difference(read.encode(images), zoo.encode(images)) == 0
