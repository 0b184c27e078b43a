"""Commands that read what another one wrote, as the README puts them together: each on the first one's real output."""

import json

import numpy as np
import pytest

import jaxdis
from jaxdis._core.files import read_csv
from jaxdis.cli import main
from tests.draws import representations

RNG = np.random.default_rng(0)
VALUES = representations()[1]
RUNS = [(beta, seed) for beta in (1, 4) for seed in range(3)]
METRICS = "--metrics", "mig", "sap_r2"


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Six files of codes, a table of their settings, and what `jaxdis score` writes about them."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "codes").mkdir()
    rows = []
    for beta, seed in RUNS:
        codes = (VALUES[:, [0, 1, 0]] + 0.3 * beta * RNG.normal(size=(200, 3))).astype(np.float32)
        np.savez(folder / "codes" / f"b{beta}_s{seed}.npz", codes=codes, factors=VALUES, names=["shape", "size"])
        rows.append(f"b{beta}_s{seed}.npz,{beta},{seed},{'sprites' if seed else 'hearts'}")
    (folder / "runs.csv").write_text("\n".join(["file,beta,seed,data", *rows]) + "\n")
    for name, pattern in (("s", "*"), ("a", "b1*"), ("b", "b4*")):
        arguments = [str(folder / "codes" / f"{pattern}.npz"), *METRICS, "--csv", str(folder / f"{name}.csv")]
        assert main(["score", *arguments, "--json", str(folder / f"{name}.json")]) == 0
    return folder


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_scores_of_several_files_are_compared_in_pairs_and_by_settings(scored, ending, tmp_path, capsys):
    meta, out = ["--meta", str(scored / "runs.csv")], tmp_path / "found.csv"
    sets = [str(scored / f"{name}.{ending}") for name in "ab"]
    assert main(["compare", *sets, "--paired", "seed", *meta, "--csv", str(out)]) == 0
    pairs = read_csv(out)
    first, second = (np.array([float(row["mig"]) for row in read_csv(scored / f"{name}.csv")]) for name in "ab")
    assert [row["metric"] for row in pairs] == ["mig", "sap_r2"]
    assert float(pairs[0]["difference"]) == pytest.approx((second - first).mean(), abs=1e-6)
    assert main(["compare", str(scored / f"s.{ending}"), "--by", "beta", *meta, "--csv", str(out)]) == 0
    assert abs(float(read_csv(out)[0]["difference"])) == pytest.approx(abs((second - first).mean()), abs=1e-6)
    assert main(["compare", str(scored / f"s.{ending}"), "--by", "seed", "--across", "beta", *meta]) == 0
    assert main(["compare", *sets, "--paired", "file"]) == 2  # no file is in both
    assert main(["compare", *sets, "--paired", "seed"]) == 2
    assert "got 'seed' for a; meta= (--meta FILE) adds columns" in capsys.readouterr().err


def test_a_table_of_scores_is_metadata_of_its_files(scored):
    """Each of its rows is the member 0 of its file."""
    known = read_csv(scored / "runs.csv")
    table = {**{name: [row[name] for row in known] for name in known[0]}, "member": [0] * 6}
    found = [jaxdis.compare(scored / "s.csv", by="beta", meta=meta) for meta in (scored / "runs.csv", table)]
    assert [row[2:] for row in found[0].rows] == [row[2:] for row in found[1].rows]
    table["file"] = ["b1_s0.npz"] * 6
    with pytest.raises(ValueError, match="meta: must have one row for each member, got several for b1_s0.npz"):
        jaxdis.compare(scored / "s.csv", by="beta", meta=table)


def test_members_of_several_files_are_told_apart_by_file_and_member(tmp_path):
    for name in ("x", "y"):
        codes = (VALUES[:, [0, 1, 0]] + RNG.normal(size=(2, 200, 3))).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", codes=codes, factors=VALUES, names=["shape", "size"])
    assert main(["score", str(tmp_path / "*.npz"), *METRICS, "--csv", str(tmp_path / "s.csv")]) == 0
    table = {"file": ["x.npz", "x.npz", "y.npz", "y.npz"], "member": [0, 1, 0, 1], "beta": [1, 2, 1, 2]}
    found = jaxdis.compare(tmp_path / "s.csv", by="beta", meta=table)
    rows = read_csv(tmp_path / "s.csv")
    low, high = (np.mean([float(rows[row]["mig"]) for row in pair]) for pair in ((0, 2), (1, 3)))
    assert abs(found.rows[0].difference) == pytest.approx(abs(high - low), abs=1e-6)


def test_the_table_of_a_report_is_compared(scored, tmp_path):
    arguments = [*METRICS, "--meta", str(scored / "runs.csv"), "--out", str(tmp_path / "report")]
    assert main(["report", str(scored / "codes" / "*.npz"), *arguments]) == 0
    assert main(["compare", str(tmp_path / "report" / "results.csv"), "--by", "beta"]) == 0


def test_codes_that_were_scored_are_shown_and_varied(scored, tmp_path):
    codes = str(scored / "codes" / "b1_s0.npz")
    assert main(["show", codes, "--out", str(tmp_path / "codes.png")]) == 0
    options = ["--metrics", "mig", "--options", "bins=5,10", "--samples", "100", "200"]
    assert main(["sensitivity", str(scored / "codes" / "*.npz"), *options, "--csv", str(tmp_path / "found.csv")]) == 0
    assert set(json.loads((scored / "s.json").read_text())) == {f"b{beta}_s{seed}.npz" for beta, seed in RUNS}
