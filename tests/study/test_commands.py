"""``jaxdis study`` as a user runs it: every refusal is one line, before anything is run."""

import os
import re

import pytest

from jaxdis._core.store import Store
from jaxdis.cli import main
from jaxdis.study import STUDIES, Study
from tests.cli.test_cli import refused
from tests.study.tiny import tiny

QUICK = ("quickstart", "--steps", "2", "--train-samples", "60", "--test-samples", "30", "--metrics", "mig,modularity")
SMALL = ("calibration", "--metrics", "mig,sap_r2", "--seeds", "2", "--train-samples", "60", "--parts", "cases")


def study(action: str, options, out, *more) -> list[str]:
    return ["study", action, *options, "--out", str(out), *map(str, more)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("quickstart", "--train-samples", "0"), "train_samples: must be 10 to"),
        (("quickstart", "--seeds", "1000000000", "--plan"), "seeds: must be 1 to 100,000, got 1,000,000,000"),
        (("quickstart", "--network", "mlp"), "network: the study quickstart takes"),
        (("quickstart", "--executor", "nonsense", "--plan"), "executor: must be processes:COUNT"),
        (("locatello2020", "--data", "mpi3d", "--plan"), "mpi3d cannot be drawn and needs its file (official npz"),
        (("locatello2020", "--data", "scream_dsprites"), "scream_dsprites needs a photograph"),
        (
            ("nonsense",),
            "study: must be one of quickstart, mahon2024, locatello2020, eastwood2018, julka2024, calibration,"
            " dangnhu2022, got 'nonsense'",
        ),
        (("calibration", "--data", "dsprites"), "data: the study calibration takes seeds, train_samples, parts"),
        (("calibration", "--executor", "nonsense"), "executor: must be processes:COUNT"),
        (("calibration", "--seeds", "0"), "seeds: must be 1 to 10,000, got 0"),
        (("calibration", "--train-samples", "1"), "samples: must have 10 to 100,000,000 samples, got 1"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAXDIS_CACHE", str(tmp_path / "cache"))
    assert message in refused(capsys, *study("run", options, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_terminal_is_logged_now_and_then(tmp_path, capsys, monkeypatch):
    def run(study, out, *, progress, **_):
        progress("train", 1.5)
        return out / "results.csv"

    monkeypatch.setattr("jaxdis.study.run", run)
    monkeypatch.setattr("jaxdis.study.TrainedWork.report", lambda self, store: store.root / "report.html")
    monkeypatch.setattr("jaxdis.study.TrainedWork.digest", lambda self, store: None)
    monkeypatch.setattr("jaxdis._core.display.EVERY", 0.0)
    assert main(study("run", (*QUICK, "--seeds", "1"), tmp_path)) == 0
    assert capsys.readouterr().err == "quickstart: train 1.5 of 3, encode 0 of 3, score 0 of 6\n"


@pytest.mark.parametrize("action", ["status", "report", "verify"])
@pytest.mark.parametrize("options", [QUICK, SMALL], ids=["study", "calibration"])
def test_a_folder_without_a_study_is_refused(action, options, tmp_path, capsys):
    for out in (tmp_path, tmp_path / "none", "/dev/null"):
        assert "must be the folder of a study" in refused(capsys, *study(action, options, out))
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_a_folder_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for arguments in (
        study("run", QUICK, tmp_path / "file"),
        ("train", "--data", "hearts", "--out", str(tmp_path / "file")),
    ):
        assert f"jaxdis: {tmp_path}/file: File exists" in refused(capsys, *arguments)


def test_a_data_set_twice_is_refused(tmp_path, capsys):
    assert "the same one on hearts 2 times" in refused(
        capsys, "quickstart", "--data", "hearts", "hearts", "--out", str(tmp_path)
    )


@pytest.mark.parametrize("option", ["--plan", "--extend"])
def test_options_of_run_go_with_run(option, tmp_path, capsys):
    assert "must be given to `study run`, got" in refused(capsys, *study("status", QUICK, tmp_path, option))


def test_the_quickstart_is_run_and_reported(tmp_path):
    assert main(study("run", QUICK, tmp_path, "--seeds", "2")) == 0
    assert "60 samples (learners are evaluated on 30 others)" in (tmp_path / "report.html").read_text()


def of_sizes(seeds: int = 1, steps: int = 3) -> Study:
    return tiny(steps, seeds)


TINY = ("tiny",)


@pytest.fixture(scope="module")
def finished(tiny_copy):
    """The tiny study as one with a name, with its report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "tiny", of_sizes)
        patch.setattr("jaxdis.plots.png", lambda figure: b"")
        assert main(study("run", TINY, tiny_copy, "--seeds", "2")) == 0
        yield tiny_copy


@pytest.mark.parametrize("action", ["status", "report"])
@pytest.mark.parametrize("options", [("--seeds", "1"), ("--seeds", "3"), ("--seeds", "2", "--steps", "4")], ids=str)
def test_other_options_than_the_folders_are_refused(finished, action, options, capsys):
    assert "holds a study that differs" in refused(capsys, *study(action, TINY, finished, *options))


def test_status_and_report_of_the_same_options(finished, capsys):
    assert main(study("status", TINY, finished, "--seeds", "2")) == 0
    assert "train: 6 of 6" in capsys.readouterr().out
    assert main(study("report", TINY, finished, "--seeds", "2")) == 0


@pytest.mark.parametrize("spoil", ["", "id,mig\n", "cut", "shuffled"])
def test_a_spoilt_table_is_no_report(finished, spoil, capsys):
    path = finished / "results.csv"
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    spoilt = {"cut": "".join(lines[:-3]), "shuffled": "".join([lines[0], *lines[:0:-1]])}.get(spoil, spoil)
    path.write_text(spoilt)
    try:
        assert "results.csv: must have a row for each of 6 members" in refused(
            capsys, *study("report", TINY, finished, "--seeds", "2")
        )
    finally:
        path.write_text(whole)


def test_a_damaged_record_says_what_removes_it_and_verify_does(finished, capsys):
    store = Store(finished)
    path = store.path("score", min(store.ids("score")))
    path.write_text("[" * 100_000)
    run = study("run", TINY, finished, "--seeds", "2")
    assert "`jaxdis study verify` removes it" in refused(capsys, *run).replace("\n", " ")
    assert main(study("verify", TINY, finished)) == 0
    assert re.search(r"removed score .*nested too deep.*1 damaged records", " ".join(capsys.readouterr().out.split()))
    assert main(run) == 0


def test_a_calibration_is_planned_looked_at_verified_and_reported(tmp_path, capsys):
    out = tmp_path / "certificate"
    assert main(study("run", SMALL, out, "--plan")) == 0
    planned = " ".join(capsys.readouterr().out.split())
    assert re.search(r"score │ +16 │ +16 │.*nothing was run", planned)
    assert not out.exists()
    assert main(study("run", SMALL, out, "--executor", "processes:1")) == 0
    assert "responds to it" in capsys.readouterr().out
    assert main(study("status", SMALL, out)) == 0
    assert "score: 16 of 16" in capsys.readouterr().out
    assert {path.name for path in out.glob("[a-z]*.*")} == {"study.json", "cases.csv", "responses.csv"}
    cases = (out / "cases.csv").read_text()
    (out / "cases.csv").unlink()
    assert main(study("report", SMALL, out)) == 0
    assert (out / "cases.csv").read_text() == cases
    store = Store(out)
    store.path("score", min(store.ids("score"))).write_text("{}")
    assert main(study("verify", SMALL, out)) == 0
    assert "1 damaged records" in capsys.readouterr().out
    assert "must be all 16 cells of the study, got 15" in refused(capsys, *study("report", SMALL, out))
    assert "holds a study that differs" in refused(capsys, *study("status", SMALL, out, "--seeds", "3"))


def test_training_into_a_studys_folder_is_refused(finished, capsys):
    error = refused(capsys, "train", "--out", finished, "--steps", "2")
    assert "which holds a study" in error
    assert not (finished / "run.json").exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes with names")
def test_a_pipe_in_a_records_place_does_not_hang(finished, capsys):
    store = Store(finished)
    path = store.path("score", max(store.ids("score")))
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    try:
        assert "must be a regular file" in refused(capsys, *study("run", TINY, finished, "--seeds", "2"))
    finally:
        path.unlink()
        path.write_bytes(content)
