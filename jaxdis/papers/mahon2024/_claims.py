"""The claims of Mahon et al. 2024 as statistics with thresholds."""

import csv
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness._verdict import Finding, Part, by_member, by_seed, exact, findings, resampled
from jaxdis.papers.mahon2024._tables import PARTITION, Scored, correlations, data_of, models_of
from jaxdis.study.report._statistics import Interval, Table

# Columns of the metrics of Table 7, of members of the normal test set.
EXISTING = {
    "MIG": "mig",
    "SAP": "sap",
    "IRS": "irs",
    "D": "dci.disentanglement",
    "C": "dci.completeness",
    "I": "dci.informativeness",
    "MED": "med.disentanglement",
}
TABLE_4 = ("SNC", "NK", "MIG", "SAP", "IRS", "D", "C", "I", "DCI", "MED")


def claims(
    table: Table, members: Sequence[Scored], pieces: Mapping, folder: Path, *, small: bool = False
) -> list[Finding]:
    """Every claim that the members allow to check."""
    usual = readings.of(table, held_out="")
    novel = {name: column[np.asarray(table["held_out"]) != ""] for name, column in table.items()}
    exact_parts = _exact(pieces)
    parts = exact_parts | _normal(usual, folder) | _novel(novel) | _correlated(members)
    return findings(__package__, parts, "combinations", untrained=exact_parts, small=small)


def _exact(pieces: Mapping) -> dict[str, list[Part]]:
    toy, distributed, times = pieces["toy"], pieces["distributed"], pieces["times"]
    change = {name: toy["M2"][name] - toy["M1"][name] for name in toy["M1"]}
    order = [Part(name, exact(change[name]), below=-0.01) for name in ("MIG", "SAP", "DCI", "MED")]
    order += [Part("SNC", exact(change["SNC"]), above=0.01), Part("NK", exact(change["NK"]), above=-0.01, below=0.01)]
    positive = []
    for n, row in distributed.items():
        for field in ("disentanglement", "completeness"):
            positive.append(
                Part(f"{n} factors, {field} minus 1 − 2 / log₂ n", exact(row[field] - row["bound"]), above=0)
            )
        tells = row["information"] - row["limit"]
        positive.append(Part(f"{n} factors, largest information minus its limit by chance", exact(tells), below=0.001))
    return {
        "toy_order": order,
        "dci_false_positive": positive,
        "nk_faster_than_dci": [Part("seconds of NK over those of DCI", exact(times["nk"] / times["dci"]), below=1)],
    }


def _normal(table: Table, folder: Path) -> dict[str, list[Part]]:
    """Claims on the normal test set."""
    six = readings.of(table, model=tuple(m for m in readings.models_of(table) if m != PARTITION))
    parts: dict[str, list[Part]] = {name: [] for name in ("below", "best", "lowest", "higher")}
    for (data, rows), model in itertools.product(list(readings.each_data(six)), readings.models_of(six)):
        gap = lambda sample: float(np.mean(sample["mlp_probe"] - sample["snc"]))  # noqa: E731
        parts["below"].append(Part(f"{data}, {model}", by_seed(readings.of(rows, model=model), gap), above=0))

    def means(sample):
        return {m: float(np.mean(readings.of(sample, model=m)["snc"])) for m in ("beta", "beta_tc", "factor")}

    for data, rows in readings.each_data(six):
        if data == "dsprites":
            for other in ("beta", "factor"):
                lead = lambda sample, o=other: means(sample)["beta_tc"] - means(sample)[o]  # noqa: E731
                parts["best"].append(Part(f"β-TCVAE minus {other}", by_seed(rows, lead), above=0))
        lowest = lambda sample: readings.lead_of("factor", means(sample), min)  # noqa: E731
        parts["lowest"].append(Part(f"{data}, FactorVAE minus the next", by_seed(rows, lowest), below=0))
    for name in ("D", "IRS", "C", "I"):
        exceeds = lambda sample, c=EXISTING[name]: readings.share_above(sample[c], sample["snc"])  # noqa: E731
        least = 0.9 if name in ("D", "IRS") else 0.5
        parts["higher"].append(Part(f"share of members with {name} above SNC", by_member(six, exceeds), above=least))
    for name in ("MIG", "SAP", "MED"):
        exceeds = lambda sample, c=EXISTING[name]: readings.share_above(sample[c], sample["snc"])  # noqa: E731
        parts["higher"].append(Part(f"share of members with {name} above SNC", by_member(six, exceeds), below=0.5))
    columns = {"SNC": "snc", "NK": "nk", **EXISTING}

    def row_means(sample):
        return {
            a: readings.mean([_pearson(sample, columns[a], columns[b]) for b in columns if b != a]) for a in columns
        }

    def redundant(sample):
        return min(_pearson(sample, EXISTING[a], EXISTING[b]) for a, b in itertools.combinations("DCI", 2))

    def low(sample):
        means = row_means(sample)
        return min(means[name] for name in ("MIG", "MED")) - max(means[name] for name in ("IRS", "SAP"))

    return {
        "greedy_alignment_collides": _collisions(table, folder),
        "snc_below_mlp": parts["below"],
        "nk_marginal": [
            Part(
                "share of members below .2",
                by_member(six, lambda sample: readings.share_above(-sample["nk"], -0.2)),
                above=0.5,
            )
        ],
        "beta_tc_best_snc_dsprites": parts["best"],
        "factor_lowest_snc": parts["lowest"],
        "others_score_higher": parts["higher"],
        "med_mig_agree": [
            Part(
                "r(MIG, MED)", by_member(six, lambda sample: _pearson(sample, "mig", "med.disentanglement")), above=0.8
            ),
            Part("lower of MIG and MED minus higher of IRS and SAP, row means", by_member(six, low), above=0),
        ],
        "dci_parts_redundant": [Part("smallest r of D, C and I", by_member(six, redundant), above=0.9)],
        "snc_nk_moderate": [
            Part("r(SNC, NK)", by_member(six, lambda sample: _pearson(sample, "snc", "nk")), above=0.4, below=0.8)
        ],
    }


def _pearson(table: Table, first: str, second: str) -> float:
    x, y = table[first], table[second]
    defined = np.isfinite(x) & np.isfinite(y)
    if defined.sum() < 3 or np.ptp(x[defined]) == 0 or np.ptp(y[defined]) == 0:
        return float("nan")
    return float(np.corrcoef(x[defined], y[defined])[0, 1])


def _collisions(table: Table, folder: Path) -> list[Part]:
    """What share of each objective's members the list of collisions names."""
    with open(folder / "alignment.csv", newline="", encoding="utf-8") as file:
        named = {row["id"] for row in csv.DictReader(file)}
    parts = []
    for model in readings.models_of(table):
        rows = readings.of(table, model=model)
        hit = np.array([str(name) in named for name in rows["id"]])
        parts.append(
            Part(f"share of members, {model}", resampled(len(hit), lambda rows, h=hit: float(h[rows].mean())), above=0)
        )
    return parts


def _novel(table: Table) -> dict[str, list[Part]]:
    """Claims on combinations that were left out."""
    six = readings.of(table, model=tuple(m for m in readings.models_of(table) if m != PARTITION))
    low = [
        Part(
            "share of members whose accuracy falls by .3",
            by_member(six, lambda sample: readings.mean(_fall(sample) > 0.3)),
            above=0.9,
        )
    ]
    sprites = readings.of(six, data="dsprites")
    if len(sprites["model"]):
        low.append(
            Part(
                "median on dSprites",
                by_member(sprites, lambda sample: readings.median(sample["novel_combination"])),
                below=0.05,
            )
        )
    linear = lambda sample: readings.mean(sample["novel_combination.linear"] - sample["novel_combination"])  # noqa: E731
    parts_by_claim = {
        "novel_low": low,
        "linear_no_better": [Part("mean of linear minus MLP", by_member(six, linear), below=1e-9)],
    }
    if {"dsprites", "shapes3d"}.issubset(readings.data_of(six)):
        easier = lambda sample: _difference(  # noqa: E731
            *(readings.mean(readings.of(sample, data=name)["novel_combination"]) for name in ("shapes3d", "dsprites"))
        )
        parts_by_claim["3dshapes_easier"] = [Part("Shapes3D minus dSprites", by_member(six, easier), above=0)]
    supervised = readings.of(table, model=PARTITION)
    if len(supervised["model"]):
        mean = lambda sample: readings.mean(sample["novel_combination"])  # noqa: E731
        parts_by_claim["supervised_also_fails"] = [
            Part("mean accuracy above chance", by_member(supervised, mean), below=0.1)
        ]
    rooms = readings.of(six, data="shapes3d")
    if {"parted_vae", "parted_vae_ss"}.issubset(readings.models_of(rooms)):

        def leads(sample):
            means = {
                m: readings.mean(readings.of(sample, model=m)["novel_combination"]) for m in readings.models_of(sample)
            }
            missing = float("nan")  # in some draws of a few members
            alone = {m: v for m, v in means.items() if m != "parted_vae_ss"}
            return (
                _difference(means.get("parted_vae_ss", missing), means.get("parted_vae", missing)),
                readings.lead_of("parted_vae", alone) if max(alone.values(), default=0) > 0 else missing,
            )

        parts_by_claim["parted_ss_best"] = [
            Part("with labels minus without", by_member(rooms, lambda sample: leads(sample)[0]), above=0),
            Part("without labels minus the others", by_member(rooms, lambda sample: leads(sample)[1]), above=0),
        ]
    return parts_by_claim


def _difference(accuracy: float, other: float) -> float:
    """Undefined if neither is above 0: then no probe names a combination that it never saw, and nothing is compared."""
    return accuracy - other if max(accuracy, other) > 0 else float("nan")


def _fall(table: Table) -> np.ndarray:
    return table["novel_combination.familiar"] - table["novel_combination"]


def _correlated(members: Sequence[Scored]) -> dict[str, list[Part]]:
    """Claims on Table 4, over data set × model; pairs of data set and model are resampled."""
    pairs = [(data, model) for data in data_of(members) for model in models_of(members) if model != PARTITION]
    groups = {pair: [member for member in members if (member.data, member.model) == pair] for pair in pairs}

    def over(statistic) -> Interval:
        def of_rows(rows):
            # A pair that is drawn twice counts twice: it is given another name.
            drawn = [
                member._replace(model=f"{member.model} {copy}")
                for copy, row in enumerate(rows)
                for member in groups[pairs[row]]
            ]
            return statistic(dict(zip(TABLE_4, correlations(drawn, TABLE_4), strict=True)))

        return resampled(len(pairs), of_rows)

    best = lambda coefficients: coefficients["SNC"] - max(v for n, v in coefficients.items() if n != "SNC")  # noqa: E731
    second = lambda coefficients: coefficients["NK"] - max(v for n, v in coefficients.items() if n not in ("SNC", "NK"))  # noqa: E731
    return {
        "all_correlate": [
            Part(f"r of {name}", over(lambda coefficients, n=name: coefficients[n]), above=0) for name in TABLE_4
        ],
        "snc_correlates_best": [
            Part("SNC minus the next", over(best), above=0),
            Part("NK minus the next but SNC", over(second), above=0),
        ],
        "snc_beats_nk": [
            Part("SNC minus NK", over(lambda coefficients: coefficients["SNC"] - coefficients["NK"]), above=0)
        ],
    }
