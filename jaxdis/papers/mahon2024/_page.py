"""The page of Mahon et al. 2024: Tables 1 to 47, the correlations that follow from print, and the figures."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxdis import plots
from jaxdis._core.files import read_csv
from jaxdis.data import DATASETS
from jaxdis.papers.harness import _readings as readings
from jaxdis.papers.harness import _verdict as verdicts
from jaxdis.papers.harness._page import Beside, Content, Figure, Measured, differences_in, section
from jaxdis.papers.harness._paper import Reproduction
from jaxdis.papers.harness._printed import Table as Printed
from jaxdis.papers.harness._printed import printed_in, words_in
from jaxdis.papers.harness._scale import Level
from jaxdis.papers.harness._verdict import Finding, Part, by_member, by_seed, exact, findings
from jaxdis.papers.mahon2024 import _tables as tables
from jaxdis.papers.mahon2024._tables import PARTITION, TABLE_4, Rows, Scored, data_of, models_of, pairs_of
from jaxdis.study.report._html import folded
from jaxdis.study.report._statistics import Interval, Table, coefficient, fisher_comparison, pearson

# Columns of the metrics of Table 7, of members of the normal test set.
EXISTING: Mapping[str, str] = words_in(__package__)["existing"]


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
    six = _without_partition(table)

    def means(sample):
        return {m: readings.mean(readings.of(sample, model=m)["snc"]) for m in ("beta", "beta_tc", "factor")}

    def above_snc(name):
        return by_member(six, lambda sample: readings.share_above(sample[EXISTING[name]], sample["snc"]))

    def correlation(first, second):
        return by_member(six, lambda sample: coefficient(sample[first], sample[second]))

    columns = {"SNC": "snc", "NK": "nk", **EXISTING}

    def low(sample):
        means = {
            a: readings.mean([coefficient(sample[columns[a]], sample[columns[b]]) for b in columns if b != a])
            for a in ("MIG", "MED", "IRS", "SAP")
        }
        return min(means["MIG"], means["MED"]) - max(means["IRS"], means["SAP"])

    def redundant(sample):
        return min(coefficient(sample[EXISTING[a]], sample[EXISTING[b]]) for a, b in itertools.combinations("DCI", 2))

    collided = [row["id"] for row in read_csv(folder / "alignment.csv")]
    hit = {m: np.isin(readings.of(table, model=m)["id"].astype(str), collided) for m in readings.models_of(table)}
    marginal = by_member(six, lambda sample: readings.share_above(-sample["nk"], -0.2))
    thresholds = {"D": 0.9, "IRS": 0.9, "C": 0.5, "I": 0.5}
    higher = [
        *(Part(f"share of members with {n} above SNC", above_snc(n), above=least) for n, least in thresholds.items()),
        *(Part(f"share of members with {n} above SNC", above_snc(n), below=0.5) for n in ("MIG", "SAP", "MED")),
    ]
    return {
        "greedy_alignment_collides": [
            Part(f"share of members, {m}", verdicts.of_values(row, np.mean), above=0) for m, row in hit.items()
        ],
        "snc_below_mlp": verdicts.per_data(
            six,
            lambda sample: float(np.mean(sample["mlp_probe"] - sample["snc"])),
            models=readings.models_of(six),
            above=0,
        ),
        "nk_marginal": [Part("share of members below .2", marginal, above=0.5)],
        "beta_tc_best_snc_dsprites": [
            Part(f"β-TCVAE minus {other}", by_seed(rows, lambda s, o=other: means(s)["beta_tc"] - means(s)[o]), above=0)
            for _, rows in readings.each_data(readings.of(six, data="dsprites"))
            for other in ("beta", "factor")
        ],
        "factor_lowest_snc": verdicts.per_data(
            six, lambda sample: readings.lead_of("factor", means(sample), min), "FactorVAE minus the next", below=0
        ),
        "others_score_higher": higher,
        "med_mig_agree": [
            Part("r(MIG, MED)", correlation("mig", "med.disentanglement"), above=0.8),
            Part("lower of MIG and MED minus higher of IRS and SAP, row means", by_member(six, low), above=0),
        ],
        "dci_parts_redundant": [Part("smallest r of D, C and I", by_member(six, redundant), above=0.9)],
        "snc_nk_moderate": [Part("r(SNC, NK)", correlation("snc", "nk"), above=0.4, below=0.8)],
    }


def _without_partition(table: Table) -> Table:
    return readings.of(table, model=tuple(m for m in readings.models_of(table) if m != PARTITION))


def _novel(table: Table) -> dict[str, list[Part]]:
    """Claims on combinations that were left out."""
    six, supervised = _without_partition(table), readings.of(table, model=PARTITION)
    sprites, rooms = readings.of(six, data="dsprites"), readings.of(six, data="shapes3d")

    def mean(sample):
        return readings.mean(sample["novel_combination"])

    def means(sample):
        return {m: mean(readings.of(sample, model=m)) for m in readings.models_of(sample)}

    def linear(sample):
        return readings.mean(sample["novel_combination.linear"] - sample["novel_combination"])

    def easier(sample):
        return _difference(*(mean(readings.of(sample, data=name)) for name in ("shapes3d", "dsprites")))

    def with_labels(sample):
        accuracy = means(sample)  # without some models in draws of a few members
        return _difference(*(accuracy.get(model, float("nan")) for model in ("parted_vae_ss", "parted_vae")))

    def without_labels(sample):
        alone = {m: v for m, v in means(sample).items() if m != "parted_vae_ss"}
        return readings.lead_of("parted_vae", alone) if max(alone.values(), default=0) > 0 else float("nan")

    def falls(sample):
        return readings.mean(sample["novel_combination.familiar"] - sample["novel_combination"] > 0.3)

    parts = {
        "novel_low": [Part("share of members whose accuracy falls by .3", by_member(six, falls), above=0.9)],
        "linear_no_better": [Part("mean of linear minus MLP", by_member(six, linear), below=1e-9)],
    }
    if len(sprites["model"]):
        median = by_member(sprites, lambda sample: readings.median(sample["novel_combination"]))
        parts["novel_low"].append(Part("median on dSprites", median, below=0.05))
    if {"dsprites", "shapes3d"}.issubset(readings.data_of(six)):
        parts["3dshapes_easier"] = [Part("Shapes3D minus dSprites", by_member(six, easier), above=0)]
    if len(supervised["model"]):
        parts["supervised_also_fails"] = [Part("mean accuracy above chance", by_member(supervised, mean), below=0.1)]
    if {"parted_vae", "parted_vae_ss"}.issubset(readings.models_of(rooms)):
        parts["parted_ss_best"] = [
            Part("with labels minus without", by_member(rooms, with_labels), above=0),
            Part("without labels minus the others", by_member(rooms, without_labels), above=0),
        ]
    return parts


def _difference(accuracy: float, other: float) -> float:
    """Undefined if neither is above 0: then no probe names a combination that it never saw, and nothing is compared."""
    return accuracy - other if max(accuracy, other) > 0 else float("nan")


def _correlated(members: Sequence[Scored]) -> dict[str, list[Part]]:
    """Claims on Table 4, over data set × model; pairs of data set and model are resampled."""
    pairs = pairs_of(members)
    groups = {pair: [member for member in members if (member.data, member.model) == pair] for pair in pairs}

    def over(statistic) -> Interval:
        def of_rows(rows):
            # A pair that is drawn twice counts twice: it is given another name.
            drawn = [
                member._replace(model=f"{member.model} {copy}")
                for copy, row in enumerate(rows)
                for member in groups[pairs[row]]
            ]
            return statistic(dict(zip(TABLE_4, tables.correlations(drawn, TABLE_4), strict=True)))

        return verdicts.resampled(len(pairs), of_rows)

    def lead(name, *left_out):
        """By how much a coefficient exceeds the largest of the others."""
        return over(lambda r: r[name] - max(value for other, value in r.items() if other not in (name, *left_out)))

    return {
        "all_correlate": [Part(f"r of {name}", over(lambda r, n=name: r[n]), above=0) for name in TABLE_4],
        "snc_correlates_best": [
            Part("SNC minus the next", lead("SNC"), above=0),
            Part("NK minus the next but SNC", lead("NK", "SNC"), above=0),
        ],
        "snc_beats_nk": [Part("SNC minus NK", over(lambda r: r["SNC"] - r["NK"]), above=0)],
    }


# Printed names of models → names here. The labelled partition is not MTD: it stands in its rows, and says so.
MODELS = {"beta_vae": "beta", "beta_tcvae": "beta_tc", "factor_vae": "factor", "mtd": "labelled_partition"}


def content(made: Reproduction) -> Content:
    finished, folder = made.finished("combinations"), made.out / "combinations"
    members, printed = tables.read(finished), printed_in(__package__).tables
    config = finished.study.trainings[0].config
    models, data = ", ".join(models_of(members)).replace("_", " "), ", ".join(data_of(members))
    done = f"{config.steps:,} updates, scored on {finished.study.sampling.in_words()}."
    return Content(
        f"{len(members)} models: {models} on {data}, {done}",
        differences_in(__package__),
        claims(finished.table, members, made.pieces, folder, small=made.size != "paper"),
        [*_main(printed, members, made.pieces), *from_print(printed)],
        _figures(finished.table, folder, printed),
        [("Tables 9 to 47", _per_factor(printed, members))],
        _levels(printed["table_2"], members),
    )


def _levels(printed: Printed, members: Sequence[Scored]) -> list[Level]:
    """Accuracy of the perceptron on the normal test set, mean over models."""
    made, levels = tables.table_2(members), []
    for row in printed.rows:
        if row.key["measure"] == "MLP" and (values := made.get((row.key["dataset"], "MLP"))):
            both = [(row.values[name], values[_name(name)].value) for name in row.values if _name(name) in values]
            theirs, ours = np.nanmean(np.array(both, float), axis=0)
            levels.append(Level(f"accuracy of the MLP on {row.key['dataset']}, %", theirs, ours))
    return levels


def _main(printed: Mapping[str, Printed], members: Sequence[Scored], pieces: Mapping) -> list[Beside]:
    """Tables 1 to 8 and Figure 14."""
    remarks = words_in(__package__)["tables"]
    toy = Beside.of(
        printed["table_1"], lambda row, name: Measured(pieces["toy"][name][row.key["metric"]]), remarks["table_1"]
    )

    def beside(name: str, key_of: Callable[[Mapping], tuple], **how) -> Beside:
        return _beside(printed[name], getattr(tables, name)(members), key_of, **how)

    # The heads of shape and size are exchanged in print.
    exchanged = {"shape": "size", "size": "shape"}
    adjusted = {"head_of": _parts_named(lambda head: exchanged.get(head, head)), "remark": remarks["table_3"]}
    over = {"head_of": str, "remark": remarks["correlations"]}
    comparisons = [
        toy,
        beside("table_2", lambda key: (key["dataset"], key["measure"]), remark=remarks["table_2"], defined=False),
        beside("table_3", lambda key: (_name(key["model"]), _PROBES[key["probe"]]), **adjusted),
        beside("table_4", lambda key: tuple(key.values())[:1], **over),
        beside("table_6", lambda key: tuple(key.values())[:1], **over),
        beside("table_7", lambda key: (key["dataset"], _name(key["model"])), head_of=str, defined=False),
        beside("table_8", lambda key: (key["metric"],), head_of=_parts_named(_name)),
    ]
    return [comparison for comparison in comparisons if comparison.measured]


# Printed names of probes → those of Table 3.
_PROBES = {"MLP": "CG", "linear": "linear CG", "normal": "normal test set"}


def _parts_named(name: Callable[[str], str]) -> Callable[[str], str]:
    """The head of ``dsprites.shape``, with its second part by this name."""
    return lambda column: " ".join((column.partition(".")[0], name(column.partition(".")[2])))


def _name(model: str) -> str:
    return MODELS.get(model, model)


def _beside(
    printed: Printed,
    made: Rows,
    key_of: Callable[[Mapping], tuple],
    head_of: Callable[[str], str] = _name,
    *,
    remark: str = "",
    defined: bool = True,
) -> Beside:
    """Set a table beside its print: ``key_of`` a printed row the texts that its row begins with, ``head_of`` a column
    its head. Undefined numbers are left out if ``defined``."""

    def measure(row, column: str) -> Measured | None:
        number = made.get(key_of(row.key), {}).get(head_of(column))
        if number is None or (defined and np.isnan(number)):
            return None
        return number if isinstance(number, Measured) else Measured(number)

    return Beside.of(printed, measure, remark)


def _per_factor(printed: Mapping[str, Printed], members: Sequence[Scored]) -> str:
    """Tables 9 to 47 as far as they were measured, each folded away."""
    parts = []
    for name, made in tables.per_factor_tables(members).items():
        number = int(re.match(r"table_(\d+)", name)[1])
        theirs = printed[f"table_{number}"]
        beside = _beside(theirs, made, lambda key: (key["set"], key["row"]), str)
        parts.append(folded(f"{theirs.label}: {theirs.title}", section(beside)))
    return "".join(parts)


def from_print(printed: Mapping[str, Printed]) -> list[Beside]:
    """Table 4 recomputed from the printed Tables 3 and 8: what follows from print, and what does not."""
    accuracy = {}
    for row in printed["table_3"].rows:
        if row.key["probe"] == "MLP" and row.key["model"] != "mtd":
            accuracy |= {
                (data, row.key["model"]): row.values[f"{data}.both"] for data in ("dsprites", "shapes3d", "mpi3d")
            }
    # Printed as a − r beside cells that are adjusted: 19.11 is the adjusted accuracy (its neighbor cell).
    accuracy["shapes3d", "parted_vae"] = 19.11
    rows = {row.key["metric"]: row.values for row in printed["table_8"].rows}

    def recomputed(row, name: str) -> Measured:
        wanted = [key for key in accuracy if row.key["over"] in ("all", key[0])]
        values = np.array([rows[name][f"{data}.{model}"] for data, model in wanted], float)
        return Measured(pearson(values, np.array([accuracy[key] for key in wanted], float)).r)

    remark = words_in(__package__)["tables"]["from_print"]
    title = f"{printed['table_4'].title} (recomputed from print)"
    table = printed["table_4"]._replace(id="table_4_from_print", label="Table 4 from print", title=title)
    return [Beside.of(table, recomputed, remark)]


def _figures(table, folder, printed: Mapping[str, Printed]) -> list[Figure]:
    figures = []
    usual = readings.of(table, held_out="")
    columns = {"SNC": "snc", "NK": "nk", **EXISTING}
    for path in sorted((folder / "figures").glob("hinton_*.png"))[:12]:
        data = next(name for name in DATASETS if path.stem.endswith(name))
        model = path.stem.removeprefix("hinton_").removesuffix(f"_{data}").replace("_", " ")
        caption = f"Hinton diagram of {model} on {data}: two factors have the same most informative code"
        figures.append(Figure("Figures 1, 3–13", caption, path.read_bytes()))
    matrix = np.array([[pearson(usual[a], usual[b]).r for b in columns.values()] for a in columns.values()])
    caption = "Pearson correlation between metrics over members of the normal test set"
    figures.append(Figure("Figure 14", caption, plots.rank_map(matrix, list(columns))))
    names = [name for name in TABLE_4 if name != "DCI"]
    for label, place, n in (("Figure 15", "all", 18), ("Figure 16", "shapes3d", 6)):
        row = printed["table_4"].row(over=place)
        p = fisher_comparison(np.array([row.values[name] for name in names], float), n, samples=1)
        caption = (
            f"From print: p-values that the row's metric correlates more than the column's, over {n} models, with the"
            " variance of one correlation"
        )
        figures.append(Figure(label, caption, plots.heat_map(p, names, names, most=1.0)))
    return figures
