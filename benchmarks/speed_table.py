"""Write the table of speeds, and the rows of it that the README has, from the records of benchmarks.

    python -m pytest benchmarks -o addopts= --benchmark-timer=time.process_time --benchmark-json=speed.json
    python benchmarks/speed_table.py speed.json

A row needs the record of its benchmark and of at least one peer, from one run, so that both ran on the same cores;
records of several runs can be passed, and the last run that has both counts. Rows without records stay as they are.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE, README = ROOT / "notebooks" / "speed.md", ROOT / "README.md"
HEAD = ("| metrics | time per member | compared with | times faster |", "| --- | --- | --- | --- |")


class Row(NamedTuple):
    """A line of the table: a benchmark, and the names and labels of its peers in the same group."""

    title: str
    group: str
    benchmark: str
    peers: Sequence[tuple[str, str]]


_PROBES = "NK, 10 perceptrons × 75 epochs: ms per member"
_TREES = "boosted trees, dsprites: ms per member"
ROWS = (
    Row(
        "the mutual-information family",
        "mutual information, dsprites: ms per member",
        "bench_family[dsprites-256]",
        [("bench_peer[dsprites]", "scikit-learn's `mutual_info_score` on numpy histograms")],
    ),
    Row("SNC", "SNC: ms per member", "bench_snc[paper]", [("bench_peer_snc", "the released algorithm in numpy")]),
    Row("SAP", "SAP: ms per member", "bench_sap", [("bench_peer_sap", "scikit-learn's `LinearSVC`")]),
    Row("IRS", "irs: ms per member", "bench_zoo[irs-64]", [("bench_peer[irs]", "the released loops in numpy")]),
    Row(
        "FactorVAE score",
        "factor_vae: ms per member",
        "bench_zoo[factor_vae-64]",
        [("bench_peer[factor_vae]", "the released loops in numpy")],
    ),
    Row(
        "BetaVAE score",
        "beta_vae: ms per member",
        "bench_zoo[beta_vae-64]",
        [("bench_peer[beta_vae]", "the released loops in numpy, `LogisticRegression`")],
    ),
    Row(
        "total correlation",
        "total_correlation: ms per member",
        "bench_zoo[total_correlation-64]",
        [("bench_peer[total_correlation]", "the released formulas in numpy")],
    ),
    Row(
        "information by nearest neighbors",
        "neighbors, 50 pairs with discrete factors",
        "bench_discrete",
        [("bench_discrete_peer", "`mutual_info_classif`")],
    ),
    Row(
        "explicitness",
        "explicitness: ms per member",
        "bench_explicitness",
        [("bench_peer_explicitness", "`LogisticRegression`, `roc_auc_score`")],
    ),
    Row(
        "logistic regression, ten penalties × five folds",
        "LR-CV, 10 penalties × 5 folds: ms per member",
        "bench_cross_validation",
        [("bench_peer_cross_validation", "`LogisticRegressionCV`")],
    ),
    Row(
        "NK, ten probes for 75 epochs",
        _PROBES,
        "bench_probes[mahon2024_paper]",
        [
            ("bench_torch_probes[released recipe]", "the released recipe in torch"),
            ("bench_torch_probes[tight loop]", "a tight loop in torch"),
            ("bench_peer_probes", "`MLPClassifier`"),
        ],
    ),
    Row(
        "DCI, boosted trees, every threshold (default)",
        _TREES,
        "bench_boosted[exact]",
        [("bench_peer_scikit_learn", "`GradientBoostingClassifier`")],
    ),
    Row(
        'DCI, `splitter="histogram"`',
        _TREES,
        "bench_boosted[histogram]",
        [
            ("bench_peer_scikit_learn", "`GradientBoostingClassifier`"),
            ("bench_histogram_library[lightgbm]", "LightGBM"),
            ("bench_histogram_library[scikit-learn histogram]", "`HistGradientBoostingClassifier`"),
        ],
    ),
    *(
        Row(
            f"an update of a {name} VAE, one of 16",
            f"zoo {kind}",
            f"bench_zoo[{kind}-16-float32]",
            [(f"bench_peer_torch_loop[{kind}]", "a loop over updates in torch")],
        )
        for kind, name in (("convolutional", "convolutional"), ("mlp", "fully connected"))
    ),
)


def seconds_of(record: Mapping) -> dict[tuple[str, str], float]:
    """Seconds per member by group and name, of the JSON that pytest-benchmark writes."""
    return {
        (bench["group"], bench["name"]): bench["stats"]["median"] / bench["extra_info"].get("each", 1)
        for bench in record["benchmarks"]
    }


def line_of(row: Row, runs: Sequence[Mapping[tuple[str, str], float]]) -> str | None:
    """The row by the last run with its benchmark and a peer; None if there is none."""
    for seconds in reversed(runs):
        mine = seconds.get((row.group, row.benchmark))
        peers = [(seconds.get((row.group, name)), label) for name, label in row.peers]
        peers = [(theirs, label) for theirs, label in peers if theirs is not None]
        if mine is not None and peers:
            labels, ratios = "; ".join(label for _, label in peers), "; ".join(digits(each / mine) for each, _ in peers)
            return f"| {row.title} | {duration(mine)} | {labels} | {ratios} |"
    return None


def duration(seconds: float) -> str:
    return f"{digits(seconds)} s" if seconds >= 0.95 else f"{digits(1e3 * seconds)} ms"


def digits(number: float) -> str:
    """Two significant digits: benchmarks repeat no better."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:.0f}" if rounded >= 10 else f"{rounded:g}"


def rewritten(text: str, runs: Sequence[Mapping[tuple[str, str], float]], *, add: bool = True) -> str:
    """The page with the rows that were measured, in the order of ``ROWS``; others stay as they are.

    Without ``add``, only rows that the page has.
    """
    old = re.search(rf"{re.escape(HEAD[0])}\n(?:\|.*\n)+", text)
    if old is None:
        raise ValueError(f"text: must have a table with the head {HEAD[0]!r}, got none")
    before = {line.split(" | ")[0].removeprefix("| "): line for line in old[0].splitlines()[2:]}
    rows = [row for row in ROWS if add or row.title in before]
    lines = [line_of(row, runs) or before.get(row.title) for row in rows]
    table = "\n".join([*HEAD, *(line for line in lines if line)]) + "\n"
    return text[: old.start()] + table + text[old.end() :]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = [seconds_of(json.loads(Path(path).read_text(encoding="utf-8"))) for path in sys.argv[1:]]
    for page in (PAGE, README):
        text = rewritten(page.read_text(encoding="utf-8"), found, add=page is PAGE)
        page.write_text(text, encoding="utf-8")
    for row in ROWS:
        print(line_of(row, found) or f"| {row.title} | not measured in these runs")
