"""Which library says what: metrics of the example zoo by every library that is installed, beside jaxdis.

    python -m benchmarks.agreement            # the page of the record, on standard output
    python -m benchmarks.agreement measure    # first score with all libraries that are here, and keep the numbers

Libraries from PyPI are found by their names; they may be installed with ``--no-deps``, because only the modules that
compute metrics are imported. The code of Carbonneau et al. is looked for in ``$CARBONNEAU``, a checkout of
github.com/ubisoft/ubisoft-laforge-disentanglement-metrics. Rows of libraries that are not here keep their last numbers.
"""

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np

import jaxdis
from jaxdis._core.files import write_text
from jaxdis.cli._metric_texts import plan_of_texts

ROOT = Path(__file__).parent.parent
RECORD, PAGE = ROOT / "tests" / "golden" / "agreement.json", ROOT / "notebooks" / "agreement.md"
# Members of the example zoo: β-VAE with β = 1 and 4 (which has codes that do not vary), β-TCVAE, DIP-VAE-II.
MEMBERS = (4, 8, 16, 28)
TRAINING = 1500


class Row(NamedTuple):
    """A metric of a library, and what of jaxdis computes the same, or comes nearest: ``preset/metric`` or a metric as
    in the shell. ``remark`` says why they differ."""

    library: str
    metric: str
    jaxdis: str
    remark: str = ""


_ENTROPY = "the library estimates the entropy of a factor, too, from nearest neighbors of its class numbers"
ROWS = (
    Row("disent", "MIG", "disent/mig"),
    Row("disent", "SAP", "disent/sap"),
    Row("disent", "SAP (continuous)", "disent/sap_r2"),
    Row("disent", "total correlation", "disent/total_correlation"),
    Row("disent", "Wasserstein distance", "total_correlation.wasserstein"),
    Row("disent", "information between codes", "disent/code_information"),
    Row("carbonneau", "MIG", "carbonneau/mig"),
    Row("carbonneau", "DCIMIG", "carbonneau/dcimig"),
    Row("carbonneau", "JEMMIG", "carbonneau/jemmig"),
    Row("carbonneau", "modularity", "carbonneau/modularity"),
    Row(
        "carbonneau",
        "IRS",
        "carbonneau/irs",
        "rounding puts values on an edge of the library's bins into the bin below; of factors cut by its edges, the"
        " scores are equal to 5 decimals",
    ),
    Row("carbonneau", "MIG-sup", "carbonneau/mig_sup"),
    Row("latte", "MIG", "latte/mig", _ENTROPY),
    Row("latte", "modularity", "latte/modularity"),
    Row("latte", "SAP", "latte/sap"),
    *(
        Row("latte", name, f"{name.lower()}:estimator=neighbors:reg_dim=(0,1,2,3,4)", _ENTROPY)
        for name in ("XMIG", "DMIG", "DLIG")
    ),
    *(
        Row("drvi", f"{score}-{similarity}", f"drvi/{score}-{similarity}")
        for score in ("LMS", "MSAS", "MSGS")
        for similarity in ("SMI", "SPN", "ASC")
    ),
    Row(
        "reliably",
        "MIG",
        "mig",
        "the library cuts class numbers into 20 bins, which merges classes of a factor with more of them",
    ),
    Row("reliably", "SAP", "sap_r2"),
    Row(
        "reliably",
        "IRS",
        "irs",
        "the library returns exp(−mean difference of two group means), which is not the score of Suter et al. 2019",
    ),
    Row(
        "reliably",
        "FactorVAE",
        "factor_vae",
        "the library draws batches from all samples and never holds a factor: its score is chance",
    ),
    Row(
        "latentverse",
        "MIG",
        "mig_ksg",
        "the library takes the class numbers of a factor with more than two classes as values of a continuous one",
    ),
    Row(
        "latentverse",
        "SAP",
        "sap_r2",
        "the library judges R² on held-out samples and sets negative gaps to 0",
    ),
    Row(
        "latentverse",
        "total correlation",
        "total_correlation",
        "the library adds 1e-6 to every variance, and returns 0 if the product of the variances is below 1e-10",
    ),
)


Scores = dict[str, Callable[[], float]]


def disent(codes, values, test_codes, test_values) -> Scores:
    metrics = "disent.metrics."
    mig, sap, alone = (
        part_of(metrics + name, {"disent.dataset": {"DisentDataset": object}})
        for name in ("_mig", "_sap", "_unsupervised")
    )

    def gap(continuous):
        return sap._compute_sap(codes.T, values.T, test_codes.T, test_values.T, continuous)["sap.score"]

    def information():
        bins = mig.utils.histogram_discretize(codes.T, num_bins=20)
        pairs = mig.utils.discrete_mutual_info(bins, bins)
        return (pairs.sum() - np.trace(pairs)) / (len(bins) * (len(bins) - 1))

    return {
        "MIG": lambda: mig._compute_mig(codes.T, values.T)["mig.discrete_score"],
        "SAP": lambda: gap(False),
        "SAP (continuous)": lambda: gap(True),
        "total correlation": lambda: alone._gaussian_total_correlation(np.cov(codes.T)),
        "Wasserstein distance": lambda: alone._gaussian_wasserstein_correlation(np.cov(codes.T)),
        "information between codes": information,
    }


def carbonneau(codes, values, test_codes, test_values) -> Scores:
    for old, new in {"float": float, "int": int, "bool": bool}.items():
        setattr(np, old, new)  # names of NumPy 1, which the library reads
    sys.modules["numpy.core.numeric"] = types.SimpleNamespace(NaN=np.nan)
    folder = os.environ["CARBONNEAU"]
    sys.path[:0] = [f"{folder}/src", f"{folder}/src/metrics"]
    names = {"MIG": "mig", "DCIMIG": "dcimig", "JEMMIG": "jemmig", "modularity": "modularity", "IRS": "irs"}
    names["MIG-sup"] = "mig_sup"
    return {
        # Its IRS cuts all factors into ten bins by default, and jaxdis in this preset; the others keep classes.
        name: partial(getattr(importlib.import_module(module), module), values, codes, continuous_factors=name == "IRS")
        for name, module in names.items()
    }


def latte(codes, values, test_codes, test_values) -> Scores:
    own = list(range(values.shape[1]))
    information, modularity, sap = (
        importlib.import_module("latte.functional.disentanglement." + name)
        for name in ("mutual_info", "modularity", "sap")
    )
    calls = {
        "MIG": partial(information.mig, codes, values, discrete=True),
        "modularity": partial(modularity.modularity, codes, values, discrete=True),
        "SAP": partial(sap.sap, codes, values, discrete=True),
        "XMIG": partial(information.xmig, codes, values, own, True),
        "DMIG": partial(information.dmig, codes, values, own, True),
        "DLIG": partial(information.dlig, codes, values, own, True),
    }
    return {name: lambda call=call: call().mean() for name, call in calls.items()}


def drvi(codes, values, test_codes, test_values) -> Scores:
    pairs, aggregate = (part_of(f"drvi.utils.metrics.{name}") for name in ("_pairwise", "_aggregation"))
    cells = np.eye(values[:, 1].max() + 1, dtype=int)[values[:, 1]]  # the classes of one factor, as types of cells
    similarity = {
        "SMI": pairs.discrete_scaled_mutual_info_score,
        "SPN": pairs.nn_alignment_score,
        "ASC": pairs.spearman_correlation_score,
    }
    scores = {
        "LMS": aggregate.latent_matching_score,
        "MSAS": aggregate.most_similar_averaging_score,
        "MSGS": aggregate.most_similar_gap_score,
    }

    def score(aggregation, kind):
        return scores[aggregation](np.abs(similarity[kind](codes, gt_one_hot=cells)))

    return {f"{which}-{kind}": partial(score, which, kind) for which in scores for kind in similarity}


def reliably(codes, values, test_codes, test_values) -> Scores:
    names = {"MIG": "mig.mig", "SAP": "sap.sap", "IRS": "irs.irs", "FactorVAE": "factorvae.factorvae_metric"}
    modules = {name: path.split(".") for name, path in names.items()}
    calls = {
        name: partial(getattr(importlib.import_module(f"reliably.repr.{module}"), function), codes, values, ci=None)
        for name, (module, function) in modules.items()
    }
    return {name: lambda call=call: call().value for name, call in calls.items()}


def latentverse(codes, values, test_codes, test_values) -> Scores:
    module = part_of("latentverse.evaluations.disentanglement")
    module.compute_informativeness_score = lambda *arguments, **options: 0.0  # perceptrons, which no row reads
    found = cache(lambda: module.run_disentanglement(codes, values)["metrics"])
    names = {"MIG": "MIG", "SAP": "SAP", "total correlation": "TC"}
    return {name: lambda key=key: found()[key] for name, key in names.items()}


LIBRARIES: dict[str, tuple[Callable, str]] = {
    "disent": (disent, "disent"),
    "carbonneau": (carbonneau, "ubisoft-laforge-disentanglement-metrics"),
    "latte": (latte, "latte-metrics"),
    "drvi": (drvi, "drvi-py"),
    "reliably": (reliably, "reliably-metrics"),
    "latentverse": (latentverse, "latentverse"),
}


def part_of(path: str, stubs: dict[str, dict] | None = None) -> types.ModuleType:
    """A module of a package without what the packages above it import, which is their trainers."""
    parents = path.split(".")[:-1]
    for name in (".".join(parents[: depth + 1]) for depth in range(len(parents))):
        if name not in sys.modules:
            found = importlib.util.find_spec(name)  # of the last part; those above it are in sys.modules
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = list(found.submodule_search_locations)
    for name, names in (stubs or {}).items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(names)
    return importlib.import_module(path)


def samples():
    """Codes ``[m, n, d]`` and factors for training, and the same for tests."""
    codes, factors, table = jaxdis.data.example()
    # They are stored in half precision, and libraries differ in what they do with equal codes: here none are.
    noise = np.random.default_rng(0).uniform(-1, 1, codes.shape)
    codes = (codes * (1 + 2.0**-11 * noise)).astype(np.float32)
    cut = np.arange(TRAINING), np.arange(TRAINING, codes.shape[1])
    given = [(codes[list(MEMBERS)][:, rows], factors.take(rows)) for rows in cut]
    names = [f"{table[m]['objective']} {table[m]['strength']:g}" for m in MEMBERS]
    return *given, names


def of_jaxdis(texts) -> dict[str, list[float]]:
    """The score of every member by each metric, as rows write them."""
    (codes, factors), test, _ = samples()
    by_preset: dict[str, dict[str, str]] = {}
    for text in texts:
        preset, _, metric = text.rpartition("/")
        by_preset.setdefault(preset, {})[text] = metric
    found = {}
    for preset, columns in by_preset.items():
        if preset == "drvi":
            types_of_cells = jaxdis.Factors.of(np.asarray(factors.values[:, 1:2])).one_hot()
            scores = jaxdis.evaluate(codes, types_of_cells, list(columns.values()), preset=preset)
        elif preset == "latte":  # it judges machines by the samples of their training
            scores = jaxdis.evaluate(codes, factors, list(columns.values()), preset=preset, test=(codes, factors))
        elif preset:
            scores = jaxdis.evaluate(codes, factors, list(columns.values()), preset=preset, test=test)
        else:
            metrics = plan_of_texts([column.removesuffix(".wasserstein") for column in columns])
            scores = jaxdis.evaluate(codes, factors, metrics, test=test)
        found |= {text: np.asarray(scores[column], float).tolist() for text, column in columns.items()}
    return found


def measured(record: dict) -> dict:
    """The record with the numbers of every library that is here."""
    (codes, factors), (test_codes, test_factors), names = samples()
    values, test_values = (np.asarray(each.values) for each in (factors, test_factors))
    record = record | {"members": names}
    for library, (score, package) in LIBRARIES.items():
        try:
            release = released(library, package)
        except (PackageNotFoundError, KeyError):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            each = [
                score(mine.astype(float), values, theirs.astype(float), test_values)
                for mine, theirs in zip(codes, test_codes, strict=True)
            ]
            numbers = {name: [float(member[name]()) for member in each] for name in each[0]}
        record[library] = {"package": package, "version": release, "values": numbers}
    record["jaxdis"] = of_jaxdis(row.jaxdis for row in ROWS if row.library in record)
    record["scikit-learn"] = version("scikit-learn")
    return record


def released(library: str, package: str) -> str:
    if library != "carbonneau":
        return version(package)
    head = ["git", "-C", os.environ["CARBONNEAU"], "rev-parse", "--short", "HEAD"]
    return "commit " + subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()


def decimals(left, right) -> int:
    """To how many decimals all numbers agree, at most 6."""
    worst = float(np.abs(np.subtract(left, right)).max())
    return 6 if worst < 5e-7 else max(0, math.floor(-math.log10(2 * worst)))


def page(record: dict) -> str:
    """The table of the record, and below it why numbers differ."""
    rows = [row for row in ROWS if row.library in record]
    lines, remarks = [], []
    for row in sorted(rows, key=lambda row: row.metric.lower()):
        theirs, ours = record[row.library]["values"][row.metric], record["jaxdis"][row.jaxdis]
        agree = decimals(theirs, ours)
        cells = [f"{a:.4f}" if agree >= 3 else f"{a:.4f} ({b:.4f})" for a, b in zip(theirs, ours, strict=True)]
        lines.append(f"| {row.metric} | {row.library} | {agree} | `{row.jaxdis}` | {' | '.join(cells)} |")
        if agree < 3:
            remarks.append(f"- **{row.metric}, {row.library}**: {row.remark}.")
    releases = ", ".join(
        f"{name} ({record[name]['package']} {record[name]['version']})" for name in LIBRARIES if name in record
    )
    head = f"| metric | library | decimals | in jaxdis | {' | '.join(record['members'])} |"
    return PROSE.format(
        releases=releases,
        learn=record["scikit-learn"],
        training=TRAINING,
        table="\n".join([head, "| --- " * (head.count("|") - 1) + "|", *lines]),
        remarks="\n".join(remarks),
    )


PROSE = """# Which library says what?

One name stands for several numbers. The table has metrics of four models of `jaxdis.data.example()` by the libraries
that compute them, from {training} samples each, and what of jaxdis equals them: `preset/metric` is
`evaluate(codes, factors, ["metric"], preset="preset")`, or `--preset preset` in the shell; others are metrics with
options, as in the shell. Columns are models, by objective and strength. `decimals` says to how many decimals the four
numbers agree, at most 6. Where they agree to fewer than three, the numbers of jaxdis are in parentheses, and the reason
is below the table.

{table}

## Why some differ

{remarks}

## How this was made

`python -m benchmarks.agreement measure` scored the models with all libraries in one run: {releases}; scikit-learn
{learn}. Codes are stored in half precision; noise below that precision was added, since libraries differ in what they
do with equal codes. disentanglement_lib needs TensorFlow 1 and is not among them; the functions of disent are ports of
its own. Scores that depend on random draws, those by boosted trees and by votes, agree only in distribution and are not
compared, but for a FactorVAE score that is not one.
"""


if __name__ == "__main__":
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if sys.argv[1:] == ["measure"]:
        record = measured(record)
        write_text(RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    write_text(PAGE, page(record))
    print(page(record))
