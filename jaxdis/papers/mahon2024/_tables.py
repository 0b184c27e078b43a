"""Tables 2 to 47 of Mahon et al. 2024, in the paper's order, from the scores of a finished study.

The tables follow the text. Where the print departs from it, their docstrings say so.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdis._core.files import csv_text
from jaxdis._core.finite import finite
from jaxdis._core.finite import mean as finite_mean
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.store import Store, publish
from jaxdis.data import DATASETS
from jaxdis.evaluation._evaluate import relate
from jaxdis.papers.harness._page import Measured
from jaxdis.papers.harness._paper import Finished
from jaxdis.papers.harness._printed import printed_in, words_in
from jaxdis.papers.mahon2024._run import HELD_OUT, MODELS
from jaxdis.study._compute_cells import samples_of
from jaxdis.study._definition import Study
from jaxdis.study._trained_work import TrainedWork
from jaxdis.study.report._statistics import pearson

# Columns of the tables per factor, by data set: of the normal test set, and of new combinations.
NORMAL_COLUMNS, NOVEL_COLUMNS = (words_in(__package__)[f"{of}_columns"] for of in ("normal", "novel"))
# Not MTD, in whose rows it stands.
PARTITION = "labelled_partition"
# A table: its numbers by the texts that a row begins with, then by head.
Rows = dict[tuple[str, ...], dict[str, float | Measured]]


class Scored(NamedTuple):
    """One member: its label, ``pair`` (size, shape) of the combination held out or None, scores and their parts."""

    data: str
    model: str
    seed: int
    pair: tuple[int, int] | None
    columns: dict[str, float]
    parts: dict[str, np.ndarray]

    def column(self, name: str) -> float:
        return self.columns.get(name, float("nan"))

    def part(self, name: str) -> np.ndarray:
        """A part of a score, with NaN for every factor if the study has none of this name."""
        return self.parts.get(name, np.full(len(DATASETS[self.data].space.sizes), np.nan))

    def joint(self, name: str) -> float:
        """The entry for size and shape of a part ``[k, k]``."""
        table = self.parts.get(name)
        return float("nan") if table is None else float(table[*size_and_shape(self.data)])


def read(finished: Finished) -> list[Scored]:
    scored_members = []
    for member in finished.members:
        training, (model, seed) = finished.study.trainings[member.training], map(member.label.get, ("model", "seed"))
        pair = tuple(dict(training.held_out).values()) or None
        scored_members.append(Scored(training.config.data, model, seed, pair, *finished.scores(member)))
    return scored_members


def size_and_shape(data: str) -> tuple[int, int]:
    space = DATASETS[data].space
    return tuple(space.position(name) for name in HELD_OUT[data][0])


def chance(data: str) -> tuple[float, float]:
    """Chance accuracy for size and for shape; for both it is the product."""
    return tuple(1 / DATASETS[data].space.sizes[position] for position in size_and_shape(data))


def above(accuracy: float, chance: float) -> float:
    """Percent: ``100 max(0, (a − r) / (1 − r))``."""
    return 100 * max(0.0, (accuracy - chance) / (1 - chance)) if np.isfinite(accuracy) else float("nan")


def mean(members: Sequence[Scored], value: Callable[[Scored], float]) -> float:
    """The mean over the members for which the value is defined."""
    return finite_mean([value(member) for member in members])


def of(members: Sequence[Scored], data: str, model: str, *, normal: bool) -> list[Scored]:
    """Members of a model on a data set: of the normal test set, or with combinations held out."""
    return [one for one in members if (one.data, one.model, one.pair is None) == (data, model, normal)]


def data_of(members: Sequence[Scored]) -> list[str]:
    return list(dict.fromkeys(member.data for member in members))


def models_of(members: Sequence[Scored]) -> list[str]:
    return list(dict.fromkeys(member.model for member in members))


def table_2(members: Sequence[Scored]) -> Rows:
    """SNC, linear probe, MLP and NK on the normal test set: mean over factors and runs, with standard deviations.

    Percent. SNC is adjusted for chance, the others are raw, as printed (the caption says otherwise). In the print, the
    deviations of MLP and NK are exchanged.
    """
    models = [model for model in models_of(members) if model != PARTITION]
    measures: dict[str, Callable[[Scored], float]] = {
        "SNC": lambda member: member.column("snc"),
        "linear": lambda member: finite_mean(member.part("linear_probe.accuracy")),
        "MLP": lambda member: finite_mean(member.part("mlp_probe.accuracy")),
        "NK": lambda member: member.column("nk"),
    }

    def over_runs(data: str, model: str, value: Callable[[Scored], float]) -> Measured:
        percents = finite([100 * value(member) for member in of(members, data, model, normal=True)])
        return Measured(finite_mean(percents), percents.std(ddof=1) if len(percents) > 1 else np.nan)

    pairs = itertools.product(data_of(members), measures.items())
    return {(data, name): {model: over_runs(data, model, value) for model in models} for data, (name, value) in pairs}


def table_3(members: Sequence[Scored]) -> Rows:
    """Accuracy for shape, size and both on new combinations (MLP and linear) and on the normal test set (MLP).

    Percent, ``max(0, (a − r) / (1 − r))`` of the mean accuracy over combinations or runs; chance r is that of uniform
    factors, and of both the product. In the print, the heads of shape and size are exchanged, those two have ``a − r``,
    and the last row has the mean over all factors for both.
    """
    probes, rows = {"CG": "", "linear CG": "linear_", "normal test set": "mlp_probe"}, {}
    for model, (name, probe), data in itertools.product(models_of(members), probes.items(), data_of(members)):
        values = _of_pair(of(members, data, model, normal=probe == "mlp_probe"), data, probe)
        named = zip(("shape", "size", "both"), values, strict=True)
        rows.setdefault((model, name), {}).update({f"{data} {head}": value for head, value in named})
    return rows


def _of_pair(members: Sequence[Scored], data: str, probe: str) -> list[float]:
    """Shape, size and both, adjusted."""
    size, shape = size_and_shape(data)
    of_size, of_shape = chance(data)
    part, both = f"novel_combination.{probe}accuracy", lambda member: member.column(f"novel_combination.{probe}both")
    if probe == "mlp_probe":
        part, both = "mlp_probe.accuracy", lambda member: member.joint("mlp_probe.joint")
    return [
        above(mean(members, lambda member: member.part(part)[shape]), of_shape),
        above(mean(members, lambda member: member.part(part)[size]), of_size),
        above(mean(members, both), of_size * of_shape),
    ]


def metrics_of(members: Sequence[Scored], data: str, model: str) -> dict[str, float]:
    """Table 8's rows for a model on a data set, with SNC and NK from Table 7 as ``SNC mean`` and ``NK mean``.

    SNC and NK are of the normal test set, and their products over size and shape are of means over runs, adjusted for
    chance, in percent; the others are means over the trainings without a combination, as fractions. ``2p`` is the
    product over size and shape, ``2m`` the mean. DCI, which the paper does not define, is the mean of D, C and I.
    """
    normal, novel = (of(members, data, model, normal=normal) for normal in (True, False))
    pair = list(size_and_shape(data))

    def over_pair(part: str, reduce) -> float:
        return mean(novel, lambda member: float(reduce(member.part(part)[pair])))

    def product(part: str) -> float:
        return 100 * float(np.prod([max(0.0, mean(normal, lambda member, j=j: member.part(part)[j])) for j in pair]))

    single = {"MIG": "mig", "SAP": "sap", "IRS": "irs", "MED": "med.disentanglement"}
    single |= {name: f"dci.{field}" for name, field in zip("DCI", DCI_FIELDS, strict=True)}
    scores = {name: mean(novel, lambda member, column=column: member.column(column)) for name, column in single.items()}
    scores["DCI"] = float(np.mean([scores[name] for name in "DCI"]))
    for name, part in {"MIG": "mig.per_factor", "SAP": "sap.per_factor", "C": "dci.per_factor", "I": "dci.fit"}.items():
        scores |= {f"{name}2p": over_pair(part, np.prod), f"{name}2m": over_pair(part, np.mean)}
    for name, column in {"SNC mean": "snc", "NK mean": "nk"}.items():
        scores[name] = 100 * mean(normal, lambda member, column=column: member.column(column))
    return scores | {"SNC": product("snc.per_factor"), "NK": product("nk.adjusted")}


DCI_FIELDS = ("disentanglement", "completeness", "informativeness")
# The metrics of tables, in the order of the print.
TABLE_4, _TABLE_7 = (printed_in(__package__).tables[name].columns for name in ("table_4", "table_7"))
_TABLE_6, _TABLE_8 = (
    [row.key["metric"] for row in printed_in(__package__).tables[name].rows] for name in ("table_6", "table_8")
)


def table_7(members: Sequence[Scored]) -> Rows:
    """SNC, NK and existing metrics of each model, mean over factors; percent.

    The caption says that SNC and NK are products over size and shape; the numbers printed are the means of Table 2.
    """
    rows = {}
    for pair in pairs_of(members):
        scores = metrics_of(members, *pair)
        rows[pair] = {name: scores[f"{name} mean"] for name in _TABLE_7[:2]}  # SNC and NK
        rows[pair] |= {name: 100 * scores[name] for name in _TABLE_7[2:]}
    return rows


def table_8(members: Sequence[Scored]) -> Rows:
    """All metrics and their variants, a column per data set and model; see :func:`metrics_of`."""
    scores = {f"{data} {model}": metrics_of(members, data, model) for data, model in pairs_of(members)}
    return {(name,): {head: columns[name] for head, columns in scores.items()} for name in _TABLE_8}


def correlations(members: Sequence[Scored], names: Sequence[str], data: str | None = None) -> list[float]:
    """Pearson's r of each metric with accuracy on new combinations (both, MLP) over models on one or all data sets."""
    pairs = [pair for pair in pairs_of(members) if data in (None, pair[0])]
    novel = [_of_pair(of(members, *pair, normal=False), pair[0], "")[2] for pair in pairs]
    scores = [metrics_of(members, *pair) for pair in pairs]
    return [pearson(np.array([columns[name] for columns in scores]), np.array(novel)).r for name in names]


def table_4(members: Sequence[Scored], names: Sequence[str] = TABLE_4) -> Rows:
    """Correlation of metrics with accuracy on new combinations: over each data set, and over all."""
    sets = (*data_of(members), None)
    return {(data or "all",): dict(zip(names, correlations(members, names, data), strict=True)) for data in sets}


def table_6(members: Sequence[Scored]) -> Rows:
    """Table 4 with variants of the metrics, each in a row."""
    columns = table_4(members, _TABLE_6)
    return {(name,): {over: column[name] for (over,), column in columns.items()} for name in _TABLE_6}


def pairs_of(members: Sequence[Scored]) -> list[tuple[str, str]]:
    """Data sets × the six models."""
    models = [model for model in models_of(members) if model != PARTITION]
    return [(data, model) for data in data_of(members) for model in models]


# Row → (part per factor, part for size and shape). NK1 is the accuracy without the aligned code.
_NORMAL = {
    "SNC": ("snc.accuracy", "snc.joint"),
    "linear": ("linear_probe.accuracy", "linear_probe.joint"),
    "NK1": ("nk.knocked", None),
    "MLP": ("mlp_probe.accuracy", "mlp_probe.joint"),
}
_NOVEL = {"CG linear": "linear_", "CG": ""}
_ORDER = {"dsprites": 0, "shapes3d": 1, "mpi3d": 2}


def per_factor_tables(members: Sequence[Scored]) -> dict[str, Rows]:
    """All tables of the paper's data sets by name, such as ``table_09_beta_dsprites``; percent, as measured.

    Tables 9 to 26: SNC, linear probe, NK1 and MLP on the normal test set. Tables 27 to 44: both probes on every
    combination held out. Tables 45 to 47, of MTD in the paper and of a labelled partition here: the MLP on
    combinations, then on normal test sets.
    """
    found = {}
    for data in (name for name in data_of(members) if name in _ORDER):
        for place, model in enumerate(MODELS):
            normal, novel = (of(members, data, model, normal=normal) for normal in (True, False))
            first = 9 + 6 * _ORDER[data] + place
            tables = {first: _normal(normal, NORMAL_COLUMNS[data]), first + 18: _novel(novel, NOVEL_COLUMNS[data])}
            if model == PARTITION:
                both = _novel(novel, NOVEL_COLUMNS[data]) | _normal(normal, NOVEL_COLUMNS[data])
                perceptrons = {key[0]: row for key, row in both.items() if key[1] in ("CG", "MLP")}
                tables = {45 + _ORDER[data]: {(of_set, "MLP"): row for of_set, row in perceptrons.items()}}
            found |= {f"table_{count:02d}_{model}_{data}": rows for count, rows in tables.items() if rows}
    return dict(sorted(found.items()))


def _normal(members: Sequence[Scored], columns: Mapping[str, str]) -> Rows:
    rows = {}
    for member, (name, (part, joint)) in itertools.product(members, _NORMAL.items()):
        both = 100 * member.joint(joint) if joint else float("nan")
        rows[f"normal test set {member.seed}", name] = _of_factors(member, part, columns) | {"both": both}
    return rows


def _novel(members: Sequence[Scored], columns: Mapping[str, str]) -> Rows:
    rows = {}
    for member, (name, probe) in itertools.product(members, _NOVEL.items()):
        both = 100 * member.column(f"novel_combination.{probe}both")
        values = _of_factors(member, f"novel_combination.{probe}accuracy", columns)
        rows[f"NC {'-'.join(map(str, member.pair))}", name] = values | {"both": both}
    return rows


def _of_factors(member: Scored, part: str, columns: Mapping[str, str]) -> dict[str, float]:
    space = DATASETS[member.data].space
    return {head: 100 * float(member.part(part)[space.position(name)]) for head, name in columns.items()}


# The relation by which SNC aligns codes.
RELATION = "mutual_information_equal_count"


class Collision(NamedTuple):
    """A code that is the most informative about several factors, and the codes that the alignment gives to these.

    −1 stands for no code.
    """

    code: int
    factors: tuple[str, ...]
    aligned: tuple[int, ...]


def collisions(strength: np.ndarray, names: tuple[str, ...]) -> list[Collision]:
    """The collisions of a relation ``[d, k]``; factors whose column is not finite are left out."""
    known = [j for j in range(len(names)) if np.isfinite(strength[:, j]).all()]
    best = {j: int(strength[:, j].argmax()) for j in known}
    aligned = np.asarray(assign(jnp.asarray(strength), maximize=True).row)
    sharing = {code: [j for j in known if best[j] == code] for code in dict.fromkeys(best.values())}
    return [
        Collision(code, tuple(names[j] for j in both), tuple(int(aligned[j]) for j in both))
        for code, both in sharing.items()
        if len(both) > 1
    ]


def write_alignments(study: Study, out: str | Path) -> list[Path]:
    """Write ``alignment.csv``, a row per collision, and a Hinton diagram of each model's first member that has one.

    Diagrams are PNG files in ``figures``, one per data set and model, however many seeds it has.
    """
    from jaxdis import plots  # matplotlib is not needed for tables
    from jaxdis.plots import png

    finished = Finished(study, out)
    store, folder = finished.store, finished.store.root / "figures"
    folder.mkdir(exist_ok=True)
    rows, paths = [], []
    for member in finished.members:
        training = study.trainings[member.training]
        data, model = training.config.data, member.label["model"]
        factors = samples_of(training, study.sampling).train
        codes = store.arrays("encode", member.encode)["mean"]
        strength = np.asarray(relate(codes, factors, RELATION).strength)  # nats
        label = [member.train, data, model, str(member.label["seed"]), member.label.get("held_out", "")]
        collided = collisions(strength, factors.names)
        rows += [[*label, str(code), " ".join(names), " ".join(map(str, aligned))] for code, names, aligned in collided]
        path = folder / f"hinton_{model}_{data}.png"
        if collided and path not in paths:
            publish(path, png(plots.hinton(strength, factors.names)), replace=True)
            paths.append(path)
    table = store.root / "alignment.csv"
    csv_text(["id", "data", "model", "seed", "held_out", "code", "factors", "aligned"], rows, table)
    return [table, *paths]


class CombinationsWork(TrainedWork):
    def report(self, store: Store) -> Path:
        """The report of any study, and the Hinton diagrams of collisions."""
        write_alignments(self.study, store.root)
        return super().report(store)
