"""Errands in the shell: score files and zoos with options and errors, encode, show, benchmark."""

import importlib.util
import io
import json
import os
import re

import numpy as np
import pytest

from jaxdis import METRICS
from jaxdis.cli import main
from jaxdis.cli._metric_texts import plan_of_texts
from jaxdis.evaluation._arrays_file import load_arrays
from jaxdis.models import load
from jaxdis.study._trained_work import Cost
from tests.draws import representations


@pytest.fixture
def seeds(tmp_path):
    """Three files of codes of one model under three seeds."""
    codes, values = representations(3)
    for seed in range(3):
        np.savez(tmp_path / f"seed{seed}.npz", codes=codes[seed], factors=values, names=["shape", "size"])
    return tmp_path


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A zoo of two members, hardly trained."""
    out = tmp_path_factory.mktemp("zoo") / "run"
    assert main(["train", "--data", "hearts", "--beta", "1", "4", "--steps", "3", "--out", str(out)]) == 0
    return out


def test_what_is_wrong_with_every_file_is_said_once(seeds, capsys):
    names = [str(seeds / f"seed{seed}.npz") for seed in range(3)]
    assert main(["score", *names, "--metrics", "mig_ksg:neighbors=500"]) == 2
    said = capsys.readouterr().err
    assert said == "jaxdis: neighbors: must have fewer than the 200 samples, got 500 for mig_ksg:neighbors=500\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.timeout(60)
def test_pipes_are_refused_by_name_and_not_waited_for(tmp_path, capsys):
    codes, array, record = (str(tmp_path / name) for name in ("pipe.npz", "pipe.npy", "pipe.json"))
    for path in (codes, array, record):
        os.mkfifo(path)
    for arguments in (
        ["score", codes],
        ["score", array, "--factors", array],
        ["show", codes],
        ["encode", codes, "--out", str(tmp_path / "out.npz")],
        ["encode", str(tmp_path), "--images", codes, "--out", str(tmp_path / "out.npz")],
        ["benchmark", "--compare", record, record],
        ["data", "show", "mpi3d", "--source", codes, "--out", str(tmp_path / "sheet.png")],
        ["data", "show", "scream_dsprites", "--source", codes, "--out", str(tmp_path / "sheet.png")],
        ["train", "--data", "mpi3d", "--source", f"mpi3d={codes}", "--out", str(tmp_path / "run")],
    ):
        assert main(arguments) == 2, arguments
        assert str(tmp_path) in capsys.readouterr().err


def test_a_terminal_shows_how_a_zoo_is_encoded_and_scored(zoo, monkeypatch):
    from rich.console import Console

    shown = {error: Console(file=io.StringIO(), force_terminal=error, width=100) for error in (False, True)}
    monkeypatch.setattr("jaxdis.cli._terminal.console", lambda *, error=False: shown[error])
    assert main(["score", str(zoo / "zoo.npz"), "--metrics", "irs", "mig", "--samples", "200"]) == 0
    meanwhile = re.sub(r"\x1b\[[\d;?]*\w", "", shown[True].file.getvalue())
    # Half as many are held out; IRS measures the spread on 192, and moves each of 6 + 32 + 16 values in 256.
    assert re.search(r"images encoded: [\d,]+ of 14,316", meanwhile)
    assert re.search(r"2/2 metrics.* irs 0\.\d", meanwhile)  # interventions come last


def test_a_code_with_nan_is_shown_as_nan(tmp_path, capsys):
    values = np.arange(60)[:, None] % 3
    codes = np.c_[values, values].astype(np.float32)
    codes[7, 1] = np.nan
    np.savez(tmp_path / "codes.npz", codes=codes, factors=values)
    assert main(["show", str(tmp_path / "codes.npz")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("1.00") == 1
    assert printed.count("nan") == 1


def test_commands_do_not_overwrite_what_they_read(zoo, tmp_path, capsys):
    codes, images = tmp_path / "codes.npz", tmp_path / "images.npy"
    rng = np.random.default_rng(0)
    np.savez(codes, codes=rng.normal(size=(50, 3)), factors=np.arange(50)[:, None] % 3)
    np.save(images, rng.random((4, 32, 32, 1)).astype(np.float32))
    run = zoo / "run.json"
    for path, option, arguments in (
        (codes, "--out", ["show", str(codes)]),
        (images, "--out", ["encode", str(zoo), "--images", str(images)]),
        (zoo / "zoo.npz", "--out", ["encode", str(zoo)]),
        (run, "--out", ["encode", str(zoo / "zoo.npz")]),
        (zoo / "zoo.npz", "--csv", ["score", str(zoo), "--metrics", "mig"]),
        (run, "--json", ["score", str(zoo), "--metrics", "mig"]),
    ):
        before = path.read_bytes()
        assert main([*arguments, option, str(path)]) == 2
        assert f"{option}: must be another file than the input" in capsys.readouterr().err
        assert path.read_bytes() == before


def test_encoded_files_can_be_scored_and_shown(zoo, tmp_path, capsys):
    codes, picture = tmp_path / "codes.npz", tmp_path / "new" / "picture.png"
    assert main(["encode", str(zoo), "--out", str(codes), "--samples", "200"]) == 0
    assert f"jaxdis score {codes}" in capsys.readouterr().out
    arrays = load_arrays(codes)
    assert arrays.codes.shape == arrays.variances.shape == (2, 200, 10)
    assert arrays.factors.names == ("scale", "x", "y")
    assert arrays.factors.sizes == (6, 32, 16)
    assert main(["show", str(codes), "--member", "1", "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "scale" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["show", str(codes), "--member", "2"]) == 2
    assert "--member: must be a number from 0 to 1, got 2" in capsys.readouterr().err


def test_images_of_ones_own_are_encoded_as_those_of_the_data_set(zoo, tmp_path, capsys):
    rng = np.random.default_rng(0)
    images = rng.random((5, 32, 32, 1), dtype=np.float32)
    np.savez(tmp_path / "images.npz", images=images, factors=np.arange(5)[:, None])
    out = tmp_path / "codes.npz"
    assert main(["encode", str(zoo), "--images", str(tmp_path / "images.npz"), "--out", str(out)]) == 0
    expected = load(zoo / "zoo.npz").encode(images)
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["codes"], expected.mean)
        np.testing.assert_array_equal(arrays["factors"][:, 0], np.arange(5))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"images": np.zeros((0, 32, 32, 1), np.float32)},
            "images.npz: must have at least one image, got shape (0, 32",
        ),
        (
            {"images": np.zeros((4, 32, 32, 1), np.float32), "factors": np.zeros((3, 1), int)},
            "images.npz: must have one row of factors per image, got factors (3, 1) of images (4, 32, 32, 1)",
        ),
        ({"images": np.zeros((4, 8, 8, 1), np.float32)}, "must have images of shape (32, 32, 1), got (8, 8, 1)"),
    ],
)
def test_images_that_cannot_be_encoded_are_refused(arrays, words, zoo, tmp_path, capsys):
    np.savez(tmp_path / "images.npz", **arrays)
    assert main(["encode", str(zoo), "--images", str(tmp_path / "images.npz"), "--out", str(tmp_path / "x.npz")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "x.npz").exists()


def test_a_data_set_of_another_image_shape_is_refused(zoo, tmp_path, capsys):
    assert main(["encode", str(zoo), "--data", "dsprites", "--out", str(tmp_path / "x.npz")]) == 2
    assert "render: must have images of shape (32, 32, 1), got (64, 64, 1)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("score", "{codes}", "--metrics", "mig"), "--csv"),
        (("score", "{codes}", "--metrics", "mig"), "--json"),
        (("encode", "{zoo}"), "--out"),
        (("benchmark", "--metrics", "mig"), "--out"),
        (("benchmark", "--metrics", "mig"), "--plot"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_at_once(command, option, seeds, zoo, monkeypatch, capsys):
    monkeypatch.setattr("jaxdis.cli._terminal.first_sign", lambda what: pytest.fail("it began to compute"))
    monkeypatch.setattr("jaxdis.cli._throughput.measure", lambda *_, **__: pytest.fail("it began to measure"))
    given = [argument.format(codes=seeds / "seed0.npz", zoo=zoo) for argument in command]
    (seeds / "file").write_text("")
    assert main([*given, option, str(seeds / "file" / "x")]) == 2
    assert f"{option}: cannot be written" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    assert main([*given, option, str(seeds / "x")]) == 2
    assert f"{option}: cannot be written in" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ("quickstart", "--out", "{folder}/out"),
        ("study", "run", "calibration", "--out", "{folder}/out"),
        ("reproduce", "mahon2024", "--out", "{folder}/out"),
        ("show", "{folder}/seed0.npz", "--out", "{folder}/out/show.png"),
        ("benchmark", "--plot", "{folder}/plot.png"),
    ],
)
def test_without_matplotlib_pictures_are_refused_before_anything_is_computed(command, seeds, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "matplotlib" else found(name, *a))
    assert main([argument.format(folder=seeds) for argument in command]) == 2
    assert "pictures: need matplotlib" in capsys.readouterr().err
    assert not (seeds / "out").exists()


def test_the_plan_of_a_training_trains_nothing(tmp_path, capsys):
    arguments = ["train", "--data", "hearts", "--out", str(tmp_path / "run"), "--plan"]
    assert main([*arguments, "--beta", "1", "4", "--seeds", "3", "--steps", "50"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("6 members × 50 updates of 9.8e+07 FLOPs and 300,308 parameters: about ")
    assert said.endswith("nothing was trained\n")
    assert main([*arguments, "--model", "labelled_partition"]) == 2
    assert "data: must have at least 5 factors, got 3" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_plan_adds_up_its_studies(tmp_path, capsys, monkeypatch):
    """Under a title for each, megabytes as the tables have them, and a total over all."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    cost = {name: Cost(2, 2, 1e9, 90.0, size, 3e5) for name, size in (("train", 6e7), ("encode", 9e6), ("score", 1e6))}
    monkeypatch.setattr("jaxdis.study._trained_work.plan", lambda *_, **__: cost)
    assert main(["reproduce", "julka2024", "--plan"]) == 0
    said = capsys.readouterr().out
    titles = re.findall("study (.*)", said)
    assert len(titles) == len(set(titles)) > 1
    assert said.count("total: about 4 min and 70 MB on disk; memory") == len(titles)
    assert f"all {len(titles)} studies: total: about {len(titles) * 270 / 60:.0f} min" in said.replace("\n", " ")
    assert f"and {70 * len(titles)} MB on disk" in said
    assert "0.3 MB" in said
    assert "nothing was run" in said
    assert not list(tmp_path.iterdir())


def test_options_of_metrics_are_given_in_place():
    plan = plan_of_texts(["mig:bins=30,sap", "dci:splitter=histogram:stages=5"])
    assert list(plan) == ["mig:bins=30", "sap", "dci:splitter=histogram:stages=5"]
    assert plan["mig:bins=30"] == METRICS["mig"].with_options(bins=30)
    assert plan["dci:splitter=histogram:stages=5"] == METRICS["dci"].with_options(splitter="histogram", stages=5)
    assert plan_of_texts(["dci_lasso:penalty=(0.1,0.2)"]).popitem()[1].all_options["penalty"] == (0.1, 0.2)
    assert list(plan_of_texts(["all"])) == list(METRICS)
    for text, words in (
        ("mig:bin=3", "mig has the options bins"),
        ("mig:bins", "OPTION=VALUE"),
        ("mgi", "'mig'"),
        ("mig:bins=5:bins=6", "metrics: must give each option once, got bins twice in 'mig:bins=5:bins=6'"),
    ):
        with pytest.raises(ValueError, match=words):
            plan_of_texts([text])


def test_options_are_listed_with_and_without_files(capsys):
    for files in ([], ["none.npz"]):
        assert main(["score", *files, "--list-options", "--metrics", "mig:bins=7"]) == 0
        assert "bins=7" in capsys.readouterr().out
    assert main(["score"]) == 2
    assert "files: must have at least one file, got none" in capsys.readouterr().err


def test_a_benchmark_keeps_to_its_time_and_can_be_compared(tmp_path, capsys, monkeypatch):
    out = tmp_path / "record.json"
    size = ["--zoo-sizes", "1", "2", "--samples", "100", "--minutes", "8"]
    monkeypatch.setattr("jaxdis.cli._throughput.MANY_UPDATES", 60)
    # What is expected to take days is left out.
    monkeypatch.setattr("jaxdis.cli._throughput.expected", lambda metric: 1e6 if metric == METRICS["dci"] else 1e-3)
    picture = ["--plot", str(tmp_path / "plot.png")]
    assert main(["benchmark", "--metrics", "mig", "mcc", "dci", "--out", str(out), *picture, *size]) == 0
    printed = capsys.readouterr().out
    assert "no time was left, at a zoo of 1, for dci" in printed
    record = json.loads(out.read_text())
    assert {(row["name"], row["zoo_size"]) for row in record["rows"]} == {
        (name, size) for name in ("training", "mig", "mcc") for size in (1, 2)
    }
    assert all(row["per_second"] > 0 for row in record["rows"])
    for row in record["rows"]:
        row["per_second"] *= 2
    twice = tmp_path / "twice.json"
    twice.write_text(json.dumps(record))
    assert main(["benchmark", "--compare", str(out), str(twice)]) == 0
    assert capsys.readouterr().out.count("2.00") == 6
    for factor, expected in ((1e-9, 0), (1e9, 2)):  # far slower and far faster than now
        rows = [row | {"per_second": row["per_second"] * factor} for row in record["rows"] if row["name"] == "mcc"]
        twice.write_text(json.dumps(record | {"rows": rows}))
        assert main(["benchmark", "--metrics", "mcc", "--against", str(twice), *size]) == expected
    assert "slower than 0.8 times" in capsys.readouterr().err
    twice.write_text("{}")
    assert main(["benchmark", "--compare", str(out), str(twice)]) == 2
    assert "must be a record of jaxdis benchmark" in capsys.readouterr().err


def test_a_zoo_is_trained_on_correlated_factors_without_a_combination(tmp_path, capsys, monkeypatch):
    spaces = []
    monkeypatch.setattr(
        "jaxdis.cli._zoo_commands.train_to_directory",
        lambda *_, data, **__: spaces.append(data[0]) or (None, "trained"),
    )
    command = ["train", "--data", "hearts", "--out", str(tmp_path / "zoo")]
    assert main([*command, "--correlate", "x:y:0.2", "--hold-out", "x=3", "y=5"]) == 0
    (space,) = spaces
    positions = dict(zip(space.names, range(9), strict=False))
    assert space.correlations == ((positions["x"], positions["y"], 0.2),)
    assert space.excluded == (tuple(sorted([(positions["x"], 3), (positions["y"], 5)])),)
    assert main([*command, "--correlate", "x:y"]) == 2
    assert "must be FACTOR:FACTOR:SPREAD, got 'x:y'" in capsys.readouterr().err
    assert main([*command, "--hold-out", "x"]) == 2
