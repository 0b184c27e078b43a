"""Official files behind training and studies: identified by content, wherever they lie."""

import csv
import json
import shutil

import jax
import numpy as np
import pytest
from PIL import Image

from jaxdis.cli import main
from jaxdis.data import DATASETS, DataSource
from jaxdis.data._data_source import sources_of
from jaxdis.models import Config, Mlp, Vae
from jaxdis.models._config import describe, restored
from jaxdis.study import Sampling, Study, Training
from jaxdis.study._definition import cells
from jaxdis.study._run_study import run
from tests.data.publishers import (
    arm_images,
    car_files,
    car_views,
    synthetic_painting,
    toy_arrays,
    write_archive,
    write_toys,
)


def write_arm(folder):
    np.savez(folder / "mpi3d_real.npz", images=arm_images())
    return folder / "mpi3d_real.npz"


def write_painting(folder):
    picture = (synthetic_painting() * 255).astype(np.uint8)
    Image.fromarray(picture).save(folder / "painting.png")
    return folder / "painting.png"


FILES = {
    "mpi3d": write_arm,
    "cars3d": lambda folder: write_archive(folder, car_files(car_views())),
    "smallnorb": lambda folder: write_toys(folder, toy_arrays(), ".mat"),
    "scream_dsprites": write_painting,
}


@pytest.fixture(params=FILES)
def source(request, tmp_path, miniature):
    """A data set, and its file in the publisher's layout with few images."""
    folder = tmp_path / "files"
    folder.mkdir()
    return request.param, FILES[request.param](folder)


def changed(path):
    """One more byte, or another pixel."""
    if path.suffix == ".png":
        picture = np.asarray(Image.open(path)).copy()
        picture[0, 0] ^= 1
        Image.fromarray(picture).save(path)
        return
    if path.is_file():
        path.write_bytes(path.read_bytes() + b"\0")
        return
    file = next(file for file in path.iterdir() if "dat" in file.name)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_a_zoo_trains_on_a_file_resumes_after_a_move_and_refuses_another(source, tmp_path, capsys):
    name, path = source
    out = tmp_path / "zoo"

    def train(path):
        return main(["train", "--data", name, "--source", f"{name}={path}", "--steps", "2", "--out", str(out)])

    assert train(path) == 0
    assert "trained for 2 updates" in capsys.readouterr().out
    moved = path.rename(tmp_path / f"moved{path.suffix}")
    assert train(moved) == 0
    assert "already complete" in capsys.readouterr().out
    changed(moved)
    assert train(moved) == 2
    assert "source" in (error := capsys.readouterr().err)
    assert len(error.strip().splitlines()) == 1


def study_on(name, path, steps: int = 2) -> Study:
    config = Config(name, DataSource.of(path), Vae("beta", Mlp((8,), num_codes=3), 4), steps=steps)
    training = Training.of(config, {"beta": {"beta": 1}}, 2)
    return Study.of("files", [training], ("modularity",), sampling=Sampling(60, 30))


def test_a_study_on_a_file_has_the_same_cells_after_a_move(source, tmp_path):
    name, path = source
    study = study_on(name, path)
    table = run(study, tmp_path / "study")
    before = table.read_bytes()
    assert len(list(csv.DictReader(before.decode().splitlines()))) == 2
    assert str(tmp_path) not in (tmp_path / "study" / "study.json").read_text()
    moved = shutil.move(path, tmp_path / f"moved{path.suffix}")
    again = study_on(name, moved)
    assert [member.train for member in cells(again)] == [member.train for member in cells(study)]
    table.unlink()
    assert run(again, tmp_path / "study").read_bytes() == before
    changed(moved)
    other = study_on(name, moved)
    assert [member.train for member in cells(other)] != [member.train for member in cells(study)]


def test_the_quickstart_takes_a_file(source, tmp_path, monkeypatch):
    name, path = source
    asked = []
    monkeypatch.setattr("jaxdis.cli._study_commands._run_study", lambda work, out, **_: asked.append(work.study))
    command = ["quickstart", "--data", name, "dsprites", "--source", f"{name}={path}", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    [study] = asked
    assert [training.config.data for training in study.trainings] == [name, "dsprites"]
    assert study.trainings[0].config.source == DataSource.of(path)
    assert study.trainings[1].config.source is None


def test_a_source_is_its_content_and_options_but_not_its_path(tmp_path):
    first, second = tmp_path / "a.bin", tmp_path / "b.bin"
    first.write_bytes(b"content")
    second.write_bytes(b"content")
    assert DataSource.of(first, variant="real") == DataSource.of(second, variant="real")
    assert DataSource.of(first, variant="real") != DataSource.of(first, variant="toy")
    config = Config("mpi3d", DataSource.of(first, variant="real"))
    text = json.dumps(describe(config))
    assert str(tmp_path) not in text
    assert restored(json.loads(text)) == config


def test_a_file_that_has_changed_is_not_opened(source):
    name, path = source
    given = DataSource.of(path)
    DATASETS[name].open(name, given)
    changed(path)
    with pytest.raises(ValueError, match="source: must have the SHA-256 .* got another content in"):
        DATASETS[name].open(name, given)


def test_what_the_shell_passes(tmp_path, capsys):
    (tmp_path / "a=b.npz").write_bytes(b"x")
    found = sources_of((f"mpi3d={tmp_path}/a=b.npz",), ("mpi3d.variant=real",), DATASETS)
    assert found["mpi3d"].options == (("variant", "real"),)
    for arguments, message in (
        (["--source", "mpi3d"], "source: must be NAME=PATH, got 'mpi3d'"),
        (["--source", "dsprite=x"], "source: must be one of dsprites,"),
        (["--source", "hearts=x"], "source: hearts is drawn and reads no file, got 'x'"),
        (["--source", f"mpi3d={tmp_path}/none.npz"], "source: must be a file or a folder, got"),
        (["--source", f"mpi3d={tmp_path}/a=b.npz"], "source: must be a data set that is used (dsprites), got mpi3d"),
        (["--data-option", "mpi3d.variant=real"], "data-option: must be NAME.OPTION=VALUE for a data set"),
        (["--data", "mpi3d"], "source: mpi3d cannot be drawn and needs its file (official npz; Gondal et al. 2019"),
    ):
        assert main(["train", "--out", str(tmp_path / "out"), *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.strip().splitlines()) == 1
        assert not (tmp_path / "out").exists()


def test_pooled_images_are_means_of_blocks():
    source = DataSource(options=(("pool", 2),))
    for name in ("dsprites", "color_dsprites"):
        space, render = DATASETS[name].open(name, source)
        whole = DATASETS[name].open(name)[1]
        factors, key = space.sample(jax.random.key(0), 5), jax.random.key(1)
        blocks = np.asarray(whole(factors, key)).reshape(5, 32, 2, 32, 2, -1).mean(axis=(2, 4))
        assert render.shape == (32, 32, whole.shape[2])
        np.testing.assert_allclose(render(factors, key), blocks, atol=1e-6)
    with pytest.raises(ValueError, match="pool: must be a divisor of the sides 64 and 64, got 3"):
        DATASETS["dsprites"].open("dsprites", DataSource(options=(("pool", 3),)))
