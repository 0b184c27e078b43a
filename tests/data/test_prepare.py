"""Files of data sets from the shell: downloads, and what to do without one."""

import numpy as np
import pytest

from jaxdis.cli import main
from jaxdis.data.files import _tfds as tfds


def test_a_set_is_downloaded_into_a_folder(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(tfds, "prepare", lambda name, folder: asked.append((name, folder)) or folder / "1.0.0")
    assert main(["data", "prepare", "smallnorb", "--out", str(tmp_path)]) == 0
    assert asked == [("smallnorb", tmp_path)]
    assert "1.0.0 is complete; use it by --source" in " ".join(capsys.readouterr().out.split())


def test_without_a_network_it_is_said_what_to_download(tmp_path, monkeypatch, capsys):
    def offline(name, folder):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(tfds, "prepare", offline)
    assert main(["data", "prepare", "shapes3d", "--out", str(tmp_path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "shapes3d: cannot be downloaded (ConnectionError: no route to host); download it (official hdf5" in said
    assert said.endswith("give its path: jaxdis data prepare shapes3d --source PATH")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cars3d", "for a download, got cars3d; download it"),
        ("hearts", "name: must be a data set that reads files, got hearts, which is drawn"),
        ("dsprite", "did you mean 'dsprites'"),
    ],
)
def test_sets_that_cannot_be_downloaded_are_refused(name, words, capsys):
    assert main(["data", "prepare", name]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_files_of_the_user_are_checked(tmp_path, capsys):
    np.savez(tmp_path / "dsprites.npz", imgs=np.zeros((3, 64, 64), np.uint8))
    assert main(["data", "prepare", "dsprites", "--source", str(tmp_path / "dsprites.npz")]) == 2
    assert "dsprites.npz" in capsys.readouterr().err
