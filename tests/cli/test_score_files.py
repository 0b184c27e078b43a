"""Many files in the shell: they are scored as one zoo, named everywhere, and shown in a table that fits."""

import csv
import json
import re

import jax
import numpy as np
import pytest

import jaxdis
from jaxdis.cli import main
from jaxdis.cli._score_tables import folded, print_scores
from jaxdis.evaluation._evaluate import evaluate
from jaxdis.evaluation._score_core import added
from tests.draws import representations

RNG = np.random.default_rng(0)
VALUES = representations()[1]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def codes_of(noise):
    return (VALUES[:, [0, 1, 0]] + noise * RNG.normal(size=(200, 3))).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    """Six files: the codes of the last are the factors themselves."""
    for number in range(6):
        codes = codes_of((5 - number) / 5)
        np.savez(tmp_path / f"run{number}.npz", codes=codes, factors=VALUES, names=["shape", "size"])
    return tmp_path


def scored(folder, *arguments, files="*.npz"):
    out = folder / "scores.csv"
    assert main(["score", str(folder / files), "--csv", str(out), *arguments]) == 0
    return list(csv.DictReader(out.read_text().splitlines()))


def test_a_bias_beyond_the_error_is_marked(folder, capsys):
    """Noise with few samples: redrawn ones share more information with the factors by chance."""
    assert main(["score", str(folder / "run*.npz"), "--metrics", "med", "--bootstrap", "20"]) == 0
    printed = capsys.readouterr().out
    assert "6 files; [low, high] is the 95 % interval by bootstrap" in printed
    assert "* The bias by the bootstrap exceeds the standard error" in " ".join(printed.split())
    marked = [line for line in printed.splitlines() if "*" in line]
    assert any("run0" in line for line in marked)


def test_files_that_differ_are_scored_apart(folder):
    np.savez(folder / "run1.npz", codes=codes_of(0.1)[:150], factors=VALUES[:150])
    np.savez(folder / "run2.npz", codes=np.stack([codes_of(0.1)] * 2), factors=VALUES)
    np.savez(folder / "run4.npz", codes=codes_of(0.1), factors=VALUES[::-1])
    rows = scored(folder, "--metrics", "mig")
    assert [row["file"] for row in rows] == [f"run{number}.npz" for number in (0, 1, 2, 2, 3, 4, 5)]
    with np.load(folder / "run4.npz") as arrays:
        expected = evaluate(arrays["codes"], arrays["factors"], "mig")
    assert float(rows[5]["mig"]) == pytest.approx(float(expected["mig"]), rel=1e-6)


def test_a_file_with_nan_is_named_and_touches_no_other(folder, capsys):
    codes = codes_of(0.1)
    codes[3] = np.nan
    np.savez(folder / "run4.npz", codes=codes, factors=VALUES, names=["shape", "size"])
    rows = scored(folder, "--metrics", "mig")
    assert [np.isnan(float(row["mig"])) for row in rows] == [number == 4 for number in range(6)]
    assert "warning: run4.npz: codes: 3 non-finite values" in " ".join(capsys.readouterr().err.split())


def test_a_file_that_is_refused_stops_no_other_of_its_group(folder, capsys):
    codes = codes_of(0.1)
    np.savez(folder / "run1.npz", codes=codes.astype(np.complex64), factors=VALUES, names=["shape", "size"])
    np.savez(folder / "run2.npz", codes=codes * np.float32(1e35), factors=VALUES, names=["shape", "size"])
    np.savez(folder / "run4.npz", codes=codes, variances=-codes, factors=VALUES, names=["shape", "size"])
    np.savez(folder / "run5.npz", codes=codes * np.float64(1e300), factors=VALUES, names=["shape", "size"])
    np.savez(folder / "run6.npz", codes=np.float32(1), factors=VALUES, names=["shape", "size"])
    out = folder / "scores.csv"
    assert main(["score", str(folder / "*.npz"), "--csv", str(out), "--metrics", "mig"]) == 2
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["file"] for row in rows] == ["run0.npz", "run2.npz", "run3.npz"]
    said = " ".join(capsys.readouterr().err.split())
    assert "4 of 7 files were not scored: run1.npz: codes: must be real numbers" in said
    assert "run4.npz: variances: must be numbers of at least 0" in said
    assert "run5.npz: codes: must be numbers that float32 can hold" in said
    assert "warning: run2.npz: codes: must lie within 1e-30" in said


def test_held_out_samples_are_those_of_every_file(folder):
    codes, values = codes_of(0.1), VALUES
    (folder / "held").mkdir()
    np.savez(folder / "held" / "out.npz", codes=codes, factors=values)
    rows = scored(folder, "--metrics", "r2_linear", "--test", str(folder / "held" / "out.npz"))
    with np.load(folder / "run2.npz") as arrays:
        expected = evaluate(arrays["codes"], VALUES, "r2_linear", jax.random.key(0), test=(codes, values))
    assert float(rows[2]["r2_linear"]) == pytest.approx(float(expected["r2_linear"]), abs=1e-6)


def test_every_output_says_what_the_factors_are(folder, capsys):
    (folder / "labels.csv").write_text("shape,size\n" + "\n".join(",".join(map(str, row)) for row in VALUES.tolist()))
    np.save(folder / "codes.npy", codes_of(0.1))
    given = ["--factors", str(folder / "labels.csv"), "--columns", "shape", "size:continuous", "--metrics", "mig"]
    (row,) = scored(folder, *given, "--json", str(folder / "scores.json"), files="codes.npy")
    words = "shape (3 classes), size (continuous)"
    assert f"factors: {words}\n" in capsys.readouterr().out
    assert row["factors"] == json.loads((folder / "scores.json").read_text())["factors"] == words
    assert 0 < float(row["mig"]) == pytest.approx(json.loads((folder / "scores.json").read_text())["mig"])
    rows = scored(folder, "--metrics", "mig", "--json", str(folder / "scores.json"))
    found = json.loads((folder / "scores.json").read_text())
    assert {row["factors"] for row in rows} == {each["factors"] for each in found.values()}
    assert capsys.readouterr().out.count("factors: shape (3 classes), size (4 classes)\n") == 1


def test_rows_without_a_value_are_dropped_from_codes_and_factors(folder, capsys):
    lines = [",".join(map(str, row)) for row in VALUES.tolist()]
    lines[7] = "NA,1"
    (folder / "labels.csv").write_text("\n".join(["shape,size", *lines]))
    codes = codes_of(0.1)
    np.save(folder / "codes.npy", codes)
    given = ["--factors", str(folder / "labels.csv"), "--metrics", "mig"]
    assert main(["score", str(folder / "codes.npy"), *given]) == 2
    assert "labels.csv: must have a value in every row, got none in 1 of 200 rows of shape" in capsys.readouterr().err
    (row,) = scored(folder, *given, "--missing", "drop", files="codes.npy")
    expected = evaluate(np.delete(codes, 7, 0), np.delete(VALUES, 7, 0), "mig")
    assert float(row["mig"]) == pytest.approx(float(expected["mig"]), rel=1e-6)
    assert main(["show", str(folder / "codes.npy"), "--factors", str(folder / "labels.csv"), "--missing", "drop"]) == 0


def test_held_out_samples_need_the_numbers_of_the_table(folder, capsys):
    (folder / "labels.csv").write_text("degrees\n" + "\n".join(str(20 * row[0]) for row in VALUES.tolist()))
    np.save(folder / "codes.npy", codes_of(0.1))
    np.savez(folder / "test.npz", codes=codes_of(0.1), factors=20 * VALUES[:, :1])
    given = ["--factors", str(folder / "labels.csv"), "--metrics", "sap", "--test", str(folder / "test.npz")]
    assert main(["score", str(folder / "codes.npy"), *given]) == 2
    assert "--test: must be numbered as the table of factors, got classes of degrees" in capsys.readouterr().err


@pytest.mark.parametrize("count", [2, 4, 20, 21])
def test_tables_of_files_hold_names_and_numbers_in_80_columns(count, tmp_path, capsys):
    for number in range(count):
        noise = 0.02 + 0.01 * abs(number - 1)  # the second file is the best, the last the worst
        np.savez(tmp_path / f"a-long-name-of-run-{number:04d}.npz", codes=codes_of(noise), factors=VALUES)
    metrics = ["mig", "med", "modularity:bins=10", "sap_r2"]
    rows = scored(tmp_path, "--metrics", *metrics)
    assert len(rows) == count
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    words = ["mig", "disentanglement", "completeness", "modularity", "bins=10", "sap_r2", f"{count} files"]
    assert all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", printed) for word in words)
    shown = re.findall(r"-run-(\d+)\.npz", printed)
    if count > 20:
        assert set(shown) < {f"{number:04d}" for number in range(count)}
        best = max(rows, key=lambda row: float(row["mig"]))
        assert best["file"][-8:] in printed
        assert f"{float(best['mig']):.4f}" in printed
        assert re.search(rf"the scores of each of the {count} files are in", printed)
    else:
        assert set(shown) == {f"{number:04d}" for number in range(count)}
        assert all(f"{float(row['mig']):.3f}" in printed for row in rows)


def test_a_long_name_is_whole_where_there_is_room(capsys, monkeypatch):
    name = "dci:splitter=histogram.disentanglement"
    for columns in (80, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_scores({"a": jaxdis.Scores({name: np.float32(0.5)}, {})}, [], several=False, out=None)
        printed = capsys.readouterr().out
        assert (name in printed) == (columns == 80)
        assert max(map(len, printed.splitlines())) <= columns


def test_long_names_are_cut_between_their_parts():
    assert folded("dci:splitter=histogram.disentanglement").split("\n") == [
        "dci:splitter=histogram",
        ".disentanglement",
    ]
    assert folded("dci_lasso:penalty=(0.1,0.2)", 12).split("\n") == ["dci_lasso", ":penalty=(0.1,0.2)"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_are_added_to_a_table_over_time(tmp_path, ending):
    table = tmp_path / f"scores.{ending}"
    for name in ("monday", "tuesday"):
        np.savez(tmp_path / f"{name}.npz", codes=codes_of(1.0), factors=VALUES)
        assert main(["score", str(tmp_path / f"{name}.npz"), "--metrics", "mig", "--append", str(table)]) == 0
    rows = jaxdis.compare({"mig": [0.0]}, table).rows
    assert [row.metric for row in rows] == ["mig"]
    text = table.read_text() if ending == "csv" else str(pytest.importorskip("pyarrow.parquet").read_table(table))
    assert "monday" in text
    assert "tuesday" in text
    assert main(["score", str(tmp_path / "monday.npz"), "--append", str(tmp_path / "x.txt")]) == 2


def interrupted_at(count, monkeypatch):
    """Let evaluate be interrupted when it is called for the nth time, after its first metric has arrived."""
    calls = []

    def interrupted(codes, factors, metrics, *arguments, arrived=None, **named):
        calls.append((np.shape(codes)[0], list(metrics), named.get("numbers")))
        if len(calls) < count:
            return evaluate(codes, factors, metrics, *arguments, arrived=arrived, **named)

        def last(scores):
            arrived(scores)
            raise KeyboardInterrupt

        return evaluate(codes, factors, metrics, *arguments, arrived=last, **named)

    monkeypatch.setattr("jaxdis.evaluation._evaluate.evaluate", interrupted)
    return calls


@pytest.fixture
def rows_of_two(monkeypatch):
    """Groups of two files."""
    monkeypatch.setattr("jaxdis.evaluation._arrays_file.GROUP_BYTES", 2 * 200 * 3 * 4)


def test_what_was_computed_for_many_files_is_kept(folder, monkeypatch, rows_of_two, capsys):
    out = folder / "scores.csv"
    arguments = ["score", str(folder / "*.npz"), "--csv", str(out), "--metrics", "mig", "sap_r2"]
    interrupted_at(3, monkeypatch)
    at_once = lambda write: lambda given: write(given())  # noqa: E731
    monkeypatch.setattr("jaxdis.cli._score_tables.now_and_then", at_once)  # else quick ones after the first wait
    assert main(arguments) == 130
    assert "what was computed until then is in" in capsys.readouterr().err
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["file"] for row in rows] == [f"run{number}.npz" for number in range(len(rows))]
    assert len(rows) >= 4
    assert all(float(row["mig"]) > 0 for row in rows)


def test_quick_metrics_are_computed_for_all_files_first(folder, monkeypatch, rows_of_two):
    """A file has the scores that it has alone: among others, it keeps the random numbers of the member 0."""
    monkeypatch.setattr("jaxdis.evaluation._run.seconds_of", lambda stage: stage[0][0] == "sap_r2")
    calls, metrics = interrupted_at(99, monkeypatch), ["--metrics", "sap_r2", "mig", "mcc"]
    rows = scored(folder, *metrics, "--json", str(folder / "scores.json"))
    assert calls == [(2, ["mig", "mcc"], [0, 0])] * 3 + [(2, ["sap_r2"], [0, 0])] * 3
    monkeypatch.undo()
    (alone,) = scored(folder, *metrics, "--json", str(folder / "alone.json"), files="run3.npz")
    together = json.loads((folder / "scores.json").read_text())["run3.npz"]
    expected = json.loads((folder / "alone.json").read_text())
    assert together.keys() == expected.keys()
    assert {**together["evaluation"], "metrics": 0} == {**expected["evaluation"], "metrics": 0}
    assert together["evaluation"]["metrics"] == expected["evaluation"]["metrics"]
    for column, value in alone.items():
        if column not in ("member", "factors", "evaluation"):
            assert float(rows[3][column]) == pytest.approx(float(value), abs=1e-6), column


def test_notes_and_times_are_about_all_files(tmp_path, monkeypatch, capsys, caplog, rows_of_two):
    """As many members are at chance, and as many seconds announced, as if all were one zoo."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 3, (600, 2))
    codes = np.stack([values + (0.1 if number == 3 else 100) * rng.normal(size=values.shape) for number in range(5)])
    for number, member in enumerate(codes.astype(np.float32)):
        np.savez(tmp_path / f"run{number}.npz", codes=member, factors=values)
    monkeypatch.setattr("jaxdis.evaluation._costs.MANY_SECONDS", 0)
    with caplog.at_level("WARNING", "jaxdis"):
        assert main(["score", str(tmp_path / "*.npz"), "--metrics", "mig"]) == 0
    assert "mig: 4 of 5 members are at chance level" in " ".join(capsys.readouterr().out.split())
    assert len(caplog.records) == 1
    files = caplog.records[0].message
    caplog.clear()
    with caplog.at_level("WARNING", "jaxdis"):
        evaluate(codes.astype(np.float32), values, "mig")
    assert caplog.records[0].message == files


def test_notes_of_several_tables_are_counted_together():
    rng = np.random.default_rng(2)
    values = rng.integers(0, 3, (600, 2))
    noise, good = rng.normal(size=(4, 600, 2)), np.stack([values] * 2).astype(float)
    tables = [evaluate(codes, values, "mig") for codes in (noise, good, np.concatenate([noise[:1], good]))]
    assert ("mig", "5 of 9 members are at chance level (0 to 0.03)") in (jaxdis.Scores.concat(tables).notes)
    alone = [evaluate(codes, values, "mig") for codes in (noise[0], good[0])]
    assert [text.split(" members")[0] for _, text in added([(each.notes, 1) for each in alone])] == ["1 of 2"]


def test_few_of_many_descriptions_of_factors_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jaxdis.cli._score_command.MOST_SAID", 1)
    for number in range(3):
        np.savez(tmp_path / f"run{number}.npz", codes=codes_of(1.0), factors=VALUES, names=[f"a{number}", "b"])
    assert main(["score", str(tmp_path / "*.npz"), "--metrics", "sap_r2"]) == 0
    assert len(re.findall("factors: ", capsys.readouterr().out)) == 2


def test_rows_that_belong_together_are_named_by_a_column(tmp_path, capsys):
    """From the table of factors, an .npz, or cells' annotations; the column is no factor."""
    rng = np.random.default_rng(0)
    episode = np.repeat(np.arange(20), 12)
    goal = rng.permutation(np.arange(20) % 2)[episode]
    codes = (rng.normal(size=(20, 4))[episode] + 0.05 * rng.normal(size=(240, 4))).astype(np.float32)
    names = [f"e{number:02}" for number in episode]
    np.save(tmp_path / "codes.npy", codes)
    np.savez(tmp_path / "both.npz", codes=codes, factors=goal, episode=names)
    rows = "\n".join(f"{g},{e}" for g, e in zip(goal, names, strict=True))
    (tmp_path / "labels.csv").write_text(f"goal,episode\n{rows}")
    wanted = float(evaluate(codes, goal, "r2_linear", 0, groups=names)["r2_linear"])
    for given in (
        ["codes.npy", "--factors", "labels.csv"],
        ["both.npz"],
        ["codes.npy", "codes.npy", "--factors", "labels.csv"],
    ):
        paths = [str(tmp_path / text) if text.endswith((".npy", ".npz", ".csv")) else text for text in given]
        table = tmp_path / "scores.csv"
        assert main(["score", *paths, "--groups", "episode", "--metrics", "r2_linear", "--csv", str(table)]) == 0
        with table.open() as file:
            assert float(next(csv.DictReader(file))["r2_linear"]) == pytest.approx(wanted, abs=1e-6)
        assert "20 classes" not in capsys.readouterr().out
    shifted = ["score", str(tmp_path / "both.npz"), "--groups", "episode", "--metrics", "sap_r2", "--null", "shift:3"]
    assert main(shifted) == 0
    assert "1.000" in capsys.readouterr().out  # a factor that is constant in each group stays as it is
    assert main(["score", str(tmp_path / "both.npz"), "--groups", "no", "--metrics", "sap_r2"]) == 2
    assert "--groups: must be an array in the file, or a column of --factors, got 'no'" in capsys.readouterr().err
