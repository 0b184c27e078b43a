"""Files that are scored into a folder: resumed, extended, shared by workers, and read by other commands."""

import concurrent.futures
import csv
import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest

import jaxdis
from jaxdis._core.arrays import LARGEST, SMALLEST
from jaxdis._core.files import read_csv_columns
from jaxdis.cli import main
from jaxdis.evaluation import _kept, _run
from jaxdis.evaluation._arrays_file import Arrays, _sound
from jaxdis.metrics._plan import plan_of
from jaxdis.study import _given_codes as given_codes
from tests.draws import representations
from tests.study.test_faults import Failing

VALUES = representations()[1]
METRICS = ("mig", "sap_r2", "sepin")  # the last one draws by the number of the member


def write_zoo(folder: Path, count: int = 6, **arrays) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        noise = np.random.default_rng(number).normal(size=(200, 3))
        codes = (VALUES[:, [0, 1, 0]] + number / 4 * noise).astype(np.float32)
        np.savez(folder / f"run{number}.npz", codes=codes, factors=VALUES, **arrays)
    return folder


@pytest.fixture
def zoo(tmp_path) -> Path:
    return write_zoo(tmp_path / "zoo")


@pytest.fixture(autouse=True)
def arranged(monkeypatch):
    monkeypatch.setattr("jaxdis.plots.png", lambda figure: b"")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(_run, "seconds_of", lambda stage: float(stage[0][0] == "sepin"))


@pytest.fixture
def computed(monkeypatch) -> list[tuple[str, int]]:
    calls, compute = [], _run.compute

    def noted(request, arrived=None):
        calls.extend((name, len(request.rows)) for name, _ in request.plan)
        return compute(request, arrived)

    monkeypatch.setattr(_run, "compute", noted)
    return calls


def given_of(folder: Path, **fields) -> given_codes.Given:
    given = given_codes.Given(folder.resolve(), plan_of(METRICS), False, {}, None, 0, {})
    return dataclasses.replace(given, **fields)


def files_of(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(folder.glob("*.npz"))}


def score(zoo: Path, out: Path, *options: str, code: int = 0, metrics=METRICS) -> list[dict]:
    assert main(["score", f"{zoo}/*.npz", "--out", str(out), "--metrics", *metrics, *options]) == code
    return list(csv.DictReader((out / "results.csv").read_text().splitlines()))


def records(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "score").rglob("*.*")}


def test_the_table_has_the_scores_of_an_evaluation(zoo, tmp_path, capsys):
    rows = score(zoo, tmp_path / "out")
    codes, factors, names = jaxdis.load(f"{zoo}/*.npz")
    scores = jaxdis.evaluate(codes, factors, METRICS, 0, numbers=[0] * 6)
    assert [row["member"] for row in rows] == list(names)
    for name, column in scores.items():
        np.testing.assert_array_equal(np.float32([row[name] for row in rows]), column)
    of_factors = np.float32([[row[f"mig.per_factor[factor_{j}]"] for j in range(2)] for row in rows])
    np.testing.assert_array_equal(of_factors, scores.part("mig.per_factor"))
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "out" / "results.parquet")
    np.testing.assert_array_equal(parquet["mig"], scores["mig"])
    assert "run0.npz" in capsys.readouterr().out


def test_a_second_run_computes_what_is_new(zoo, tmp_path, computed, capsys):
    out = tmp_path / "out"
    before = score(zoo, out)
    computed.clear()
    (zoo / "run5.npz").rename(zoo / "moved.npz")
    write_zoo(zoo, 5)
    assert [row["mig"] for row in score(zoo, out)] == [before[5]["mig"], *(row["mig"] for row in before[:5])]
    assert computed == []
    np.savez(zoo / "run2.npz", codes=np.load(zoo / "run1.npz")["codes"][:, ::-1], factors=VALUES)
    capsys.readouterr()
    score(zoo, out)
    assert computed == [("mig", 1), ("sap_r2", 1), ("sepin", 1)]
    assert "1 files hold other codes than in the last run and were scored anew: run2.npz" in capsys.readouterr().out
    computed.clear()
    assert main(["score", f"{zoo}/*.npz", "--out", str(out), "--metrics", "mig", "mig:bins=5"]) == 0
    assert computed == [("mig:bins=5", 6)]


def test_notes_count_all_members(zoo, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(given_codes, "MOST_FILES", 2)
    noise = np.random.default_rng(9).normal(size=(200, 3))
    for number in (1, 4):
        np.savez(zoo / f"run{number}.npz", codes=noise.astype(np.float32), factors=VALUES)
    monkeypatch.setattr("jaxdis.evaluation._notes.FEW_SAMPLES", 100)
    score(zoo, tmp_path / "out")
    assert "2 of 6 members are at chance level" in " ".join(capsys.readouterr().out.split())


def test_quick_metrics_come_before_slow_ones(zoo, tmp_path, computed, monkeypatch):
    monkeypatch.setattr(given_codes, "MOST_FILES", 2)
    score(zoo, tmp_path / "out")
    assert [name for name, _ in computed] == ["mig", "sap_r2"] * 3 + ["sepin"] * 3


@pytest.mark.parametrize("stopped_at", [1, 3, 5])
def test_a_stopped_run_ends_in_the_same_bytes(stopped_at, zoo, tmp_path, monkeypatch):
    monkeypatch.setattr(given_codes, "MOST_FILES", 2)
    score(zoo, tmp_path / "whole")
    calls, compute = [], _run.compute

    def stopped(request, arrived=None):
        calls.append(request)
        if len(calls) == stopped_at:
            raise KeyboardInterrupt
        return compute(request, arrived)

    monkeypatch.setattr(_run, "compute", stopped)
    assert main(["score", f"{zoo}/*.npz", "--out", str(tmp_path / "out"), "--metrics", *METRICS]) == 130
    score(zoo, tmp_path / "out")
    assert records(tmp_path / "out") == records(tmp_path / "whole")
    for name in ("results.csv", "files.json", "study.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_files_that_cannot_be_scored_are_named_and_others_are_scored(zoo, tmp_path, capsys):
    np.savez(zoo / "short.npz", codes=np.zeros((3, 2), np.float32), factors=VALUES)
    np.savez(zoo / "wide.npz", codes=np.eye(200, 5, dtype=np.float32), factors=VALUES)
    (zoo / "torn.npz").write_bytes((zoo / "run1.npz").read_bytes()[:900])
    rows = score(zoo, tmp_path / "out", code=2, metrics=["mig"])
    assert [row["member"] for row in rows] == [*(f"run{number}.npz" for number in range(6)), "wide.npz"]
    error = capsys.readouterr().err
    assert "2 of 9 files were not scored" in error
    assert "short.npz: codes: must have as many samples as factors" in error


def test_codes_that_change_while_they_are_read_are_refused(zoo, tmp_path, monkeypatch):
    given, scored = given_of(tmp_path / "out"), given_codes._scored

    def meddled(given, names, group, places):
        piece = scored(given, names, group, places)
        if "mig" in names:
            np.savez(zoo / "run3.npz", codes=np.ones((200, 3), np.float32), factors=VALUES)
        return piece

    monkeypatch.setattr(given_codes, "_scored", meddled)
    with pytest.raises(ValueError, match=r"run3.npz: must stay as it is while it is scored"):
        given_codes.score_given(given, files_of(zoo))


def test_files_of_several_members_and_of_groups(tmp_path):
    zoo = write_zoo(tmp_path / "zoo", 1, episode=np.arange(200) // 10)
    one = np.load(zoo / "run0.npz")["codes"]
    np.savez(zoo / "two.npz", codes=np.stack([one, -one]), factors=VALUES, episode=np.arange(200) // 10)
    metrics = ("mig", "r2_linear")  # one that splits samples
    held_out = "--test", str(zoo / "run0.npz")
    rows = score(zoo, tmp_path / "out", "--groups", "episode", *held_out, code=2, metrics=("mig",))
    assert [row["member"] for row in rows] == ["run0.npz"]  # held-out codes of one member do not suit two
    rows = score(zoo, tmp_path / "out", "--groups", "episode", metrics=metrics)
    assert [row["member"] for row in rows] == ["run0.npz", "two.npz[0]", "two.npz[1]"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--csv", "a.csv"], "--csv: must be left out with --out"),
        (["--levels", "object", "property"], "--levels: must be left out with --out"),
    ],
)
def test_options_that_do_not_go_together(options, words, zoo, tmp_path, capsys):
    assert main(["score", f"{zoo}/*.npz", "--out", str(tmp_path / "out"), *options]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_of_something_else_is_refused(zoo, tmp_path, capsys):
    (tmp_path / "study.json").write_text(json.dumps({"name": "quickstart"}))
    assert main(["score", f"{zoo}/*.npz", "--out", str(tmp_path)]) == 2
    assert "must be a folder of scores, or a new one, got one with a study" in capsys.readouterr().err


def test_tasks_of_dead_workers_are_given_to_others(zoo, tmp_path):
    died = concurrent.futures.process.BrokenProcessPool("a worker died")
    table = given_codes.score_given(given_of(tmp_path / "out"), files_of(zoo), Failing(died, 3))
    assert len(table.members) == 6
    assert not np.isnan(table.columns()["sepin"]).any()
    with pytest.raises(RuntimeError, match="tasks made no progress; the last failure: a worker died"):
        given_codes.score_given(given_of(tmp_path / "other"), files_of(zoo), Failing(died, 10**6))


def test_a_full_disk_says_what_is_kept(zoo, tmp_path, monkeypatch):
    def full(*arguments, **named):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("jaxdis._core.store.publish", full)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "study.json").write_text(json.dumps({"scores": _kept.FORMAT}))
    with pytest.raises(OSError, match="what is finished is kept: make room and run again"):
        given_codes.score_given(given_of(tmp_path / "out"), files_of(zoo))


def test_show_and_compare_read_the_folder(zoo, tmp_path, capsys):
    out = tmp_path / "out"
    score(zoo, out)
    capsys.readouterr()
    assert main(["show", str(out)]) == 0
    assert "run0.npz" in capsys.readouterr().out
    assert main(["compare", str(out), str(out)]) == 0


def test_report_and_sensitivity_take_what_the_folder_holds(zoo, tmp_path, computed):
    out = tmp_path / "out"
    score(zoo, out)
    computed.clear()
    assert main(["report", str(out), "--out", str(tmp_path / "page")]) == 0
    assert computed == []
    sensitive = ["sensitivity", str(out), "--metrics", "mig", "--options", "bins=5,10"]
    assert main(sensitive) == 0
    computed.clear()
    assert main(sensitive) == 0
    assert computed == []


def test_codes_alone_are_read_again_as_they_were_scored(tmp_path, computed):
    """With factors in another file, whose column says which rows belong together, held-out codes and a seed."""
    table = ["shape,size,episode", *(f"{one},{other},{row // 10}" for row, (one, other) in enumerate(VALUES))]
    (tmp_path / "factors.csv").write_text("\n".join(table))
    for number in range(3):
        codes = VALUES + np.random.default_rng(number).normal(size=VALUES.shape)
        np.save(tmp_path / f"run{number}.npy", codes.astype(np.float32))
    for how in (["--groups", "episode"], ["--test", str(tmp_path / "test.npz"), "--columns", "shape:classes", "size"]):
        np.savez(tmp_path / "test.npz", codes=np.float32(VALUES[:60]), factors=VALUES[:60])
        options = ["--factors", str(tmp_path / "factors.csv"), "--seed", "3", "--metrics", "sap_r2", "mcc_test", *how]
        out = tmp_path / how[0]
        assert main(["score", f"{tmp_path}/*.npy", "--out", str(out), *options]) == 0
        computed.clear()
        page = tmp_path / "page"
        assert main(["report", str(out), "--out", str(page)]) == 0
        assert computed == []
        one, other = (read_csv_columns(folder / "results.csv")["mcc_test"] for folder in (out, page))
        np.testing.assert_array_equal(np.float32(one), np.float32(other))
        assert jaxdis.load(out).factors.names == ("shape", "size")


def test_metrics_of_a_preset_are_those_of_the_report(zoo, tmp_path, computed):
    out, options = tmp_path / "out", ["--metrics", "mig", "--preset", "disentanglement_lib"]
    assert main(["score", f"{zoo}/*.npz", "--out", str(out), *options]) == 0
    computed.clear()
    assert main(["report", str(out), "--out", str(tmp_path / "page")]) == 0
    assert computed == []


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int8, bool])
def test_what_is_usual_in_codes_is_found_by_their_bounds(kind):
    """Files that are warned of or refused are scored alone, others together: the plain rule, column by column."""
    rng, cases = np.random.default_rng(0), []
    for value in (0, 1, -128, 1e-20, 1e30, np.nan, np.inf, -np.inf):
        for rows in (slice(0, 1), slice(3, 4), slice(None)):
            codes = rng.normal(size=(6, 3)) * 3
            codes[rows, 1] = value
            with np.errstate(over="ignore", invalid="ignore"):
                cases.append(codes.astype(kind))
    for codes in cases:
        largest = np.abs(codes.astype(np.float64)).max(axis=0)
        plain = ((largest == 0) | ((largest >= SMALLEST) & (largest <= LARGEST))).all()
        assert _sound(Arrays(codes, None, None)) == plain
