"""Tables 2 to 47 of Mahon et al. 2024, in the paper's order, from the scores of a finished study.

The tables follow the text. Where the print departs from it, their docstrings say so.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdis._core.files import write_csv
from jaxdis._core.finite import finite
from jaxdis._core.finite import mean as finite_mean
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.store import Store, number, publish
from jaxdis.data import DATASETS
from jaxdis.evaluation._evaluate import relate
from jaxdis.papers.harness._printed import printed_in, words_in
from jaxdis.papers.mahon2024._run import HELD_OUT, MODELS
from jaxdis.study._compute_cells import samples_of
from jaxdis.study._definition import Study, cells
from jaxdis.study._trained_work import TrainedWork
from jaxdis.study.report._statistics import pearson

# Columns of the tables per factor, by data set: of the normal test set, and of new combinations.
NORMAL_COLUMNS, NOVEL_COLUMNS = (words_in(__package__)[f"{of}_columns"] for of in ("normal", "novel"))
# Named for what it is wherever it stands in a table.
PARTITION = "labelled_partition"


class Table(NamedTuple):
    """A head, and rows of text and numbers."""

    head: list[str]
    rows: list[list]

    def under(self, key: tuple[str, ...]) -> dict[str, float]:
        """Return the numbers by head of the last row that begins with these texts; none if there is no such row."""
        count = len(key)
        rows = {tuple(row[:count]): row[count:] for row in self.rows}
        return dict(zip(self.head[count:], rows[key], strict=True)) if key in rows else {}


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


def read(study: Study, out: str | Path) -> list[Scored]:
    """All members of a finished study."""
    store = Store(out)
    store.check({**study.describe(), "name": store.description().get("name")})
    scored_members = []
    for member in cells(study):
        training = study.trainings[member.training]
        columns: dict[str, float] = {}
        parts: dict[str, np.ndarray] = {}
        for (name, _), score in zip(study.metrics, member.scores, strict=True):
            result = store.score(score, name)
            columns |= {column: number(value) for column, value in result["columns"].items()}
            parts |= {part: np.array(value, float) for part, value in result["parts"].items()}
        pair = tuple(dict(training.held_out).values()) or None
        model, seed = member.label["model"], member.label["seed"]
        scored_members.append(Scored(training.config.data, model, seed, pair, columns, parts))
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


def table_2(members: Sequence[Scored]) -> Table:
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
    rows = []
    for data in data_of(members):
        for name, value in measures.items():
            row: list = [data, name]
            for model in models:
                percents = finite([100 * value(member) for member in of(members, data, model, normal=True)])
                row += [finite_mean(percents), percents.std(ddof=1) if len(percents) > 1 else np.nan]
            rows.append(row)
    return Table(["data", "measure", *(head for model in models for head in (model, f"{model} s.d."))], rows)


def table_3(members: Sequence[Scored]) -> Table:
    """Accuracy for shape, size and both on new combinations (MLP and linear) and on the normal test set (MLP).

    Percent, ``max(0, (a − r) / (1 − r))`` of the mean accuracy over combinations or runs; chance r is that of uniform
    factors, and of both the product. In the print, the heads of shape and size are exchanged, those two have ``a − r``,
    and the last row has the mean over all factors for both.
    """
    sets = data_of(members)
    rows = []
    for model in models_of(members):
        for name, probe in (("CG", ""), ("linear CG", "linear_"), ("normal test set", "mlp_probe")):
            values = []
            for data in sets:
                of_model = of(members, data, model, normal=probe == "mlp_probe")
                values += _of_pair(of_model, data, probe)
            rows.append([model, name, *values])
    return Table(["model", "set", *(f"{data} {head}" for data in sets for head in ("shape", "size", "both"))], rows)


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


def table_7(members: Sequence[Scored]) -> Table:
    """SNC, NK and existing metrics of each model, mean over factors; percent.

    The caption says that SNC and NK are products over size and shape; the numbers printed are the means of Table 2.
    """
    rows = []
    for data, model in _pairs(members):
        scores = metrics_of(members, data, model)
        percents = [100 * scores[name] for name in _TABLE_7[2:]]
        rows.append([data, model, scores["SNC mean"], scores["NK mean"], *percents])
    return Table(["data", "model", *_TABLE_7], rows)


def table_8(members: Sequence[Scored]) -> Table:
    """All metrics and their variants, a column per data set and model; see :func:`metrics_of`."""
    pairs = _pairs(members)
    scores = [metrics_of(members, *pair) for pair in pairs]
    rows = [[name, *(columns[name] for columns in scores)] for name in _TABLE_8]
    return Table(["metric", *(f"{data} {model}" for data, model in pairs)], rows)


def correlations(members: Sequence[Scored], names: Sequence[str], data: str | None = None) -> list[float]:
    """Pearson's r of each metric with accuracy on new combinations (both, MLP) over models on one or all data sets."""
    pairs = [pair for pair in _pairs(members) if data in (None, pair[0])]
    novel = [_of_pair(of(members, *pair, normal=False), pair[0], "")[2] for pair in pairs]
    scores = [metrics_of(members, *pair) for pair in pairs]
    return [pearson(np.array([columns[name] for columns in scores]), np.array(novel)).r for name in names]


def table_4(members: Sequence[Scored]) -> Table:
    """Correlation of metrics with accuracy on new combinations: over each data set, and over all."""
    rows = [[data or "all", *correlations(members, TABLE_4, data)] for data in (*data_of(members), None)]
    return Table(["over", *TABLE_4], rows)


def table_6(members: Sequence[Scored]) -> Table:
    """Table 4 with variants of the metrics: all data sets, then each."""
    sets = (None, *data_of(members))
    columns = [correlations(members, _TABLE_6, data) for data in sets]
    rows = [list(row) for row in zip(_TABLE_6, *columns, strict=True)]
    return Table(["metric", *(data or "all" for data in sets)], rows)


def _pairs(members: Sequence[Scored]) -> list[tuple[str, str]]:
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


def per_factor_tables(members: Sequence[Scored]) -> dict[str, Table]:
    """All tables of the paper's data sets by name, such as ``table_09_beta_dsprites``; percent, as measured.

    Tables 9 to 26: SNC, linear probe, NK1 and MLP on the normal test set. Tables 27 to 44: both probes on every
    combination held out. Tables 45 to 47, of MTD in the paper and of a labelled partition here: the MLP on
    combinations, then on normal test sets.
    """
    found = {}
    for data in (name for name in data_of(members) if name in _ORDER):
        for place, model in enumerate(MODELS):
            normal, novel = (of(members, data, model, normal=normal) for normal in (True, False))
            of_normal = [_normal(one, name, NORMAL_COLUMNS[data]) for one in normal for name in _NORMAL]
            of_novel = [_novel(one, name, NOVEL_COLUMNS[data]) for one in novel for name in _NOVEL]
            first = 9 + 6 * _ORDER[data] + place
            tables = {first: (NORMAL_COLUMNS, of_normal), first + 18: (NOVEL_COLUMNS, of_novel)}
            if model == PARTITION:
                rows = [[row[0], "MLP", *row[2:]] for row in of_novel if row[1] == "CG"]
                rows += [_normal(one, "MLP", NOVEL_COLUMNS[data]) for one in normal]
                tables = {45 + _ORDER[data]: (NOVEL_COLUMNS, rows)}
            of_what = "set (not MTD)" if model == PARTITION else "set"
            for count, (columns, rows) in tables.items():
                if rows:
                    head = [of_what, "row", *columns[data], "both"]
                    found[f"table_{count:02d}_{model}_{data}"] = Table(head, rows)
    return dict(sorted(found.items()))


def _normal(member: Scored, name: str, columns: Mapping[str, str]) -> list:
    part, joint = _NORMAL[name]
    both = 100 * member.joint(joint) if joint else float("nan")
    return [f"normal test set {member.seed}", name, *_of_factors(member, part, columns), both]


def _novel(member: Scored, name: str, columns: Mapping[str, str]) -> list:
    probe, pair = f"novel_combination.{_NOVEL[name]}", "-".join(map(str, member.pair))
    values = _of_factors(member, f"{probe}accuracy", columns)
    return [f"NC {pair}", name, *values, 100 * member.column(f"{probe}both")]


def _of_factors(member: Scored, part: str, columns: Mapping[str, str]) -> list[float]:
    space = DATASETS[member.data].space
    return [100 * float(member.part(part)[space.position(name)]) for name in columns.values()]


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

    store = Store(out)
    store.check({**study.describe(), "name": store.description().get("name")})
    folder = store.root / "figures"
    folder.mkdir(exist_ok=True)
    rows, paths = [], []
    for member in cells(study):
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
    write_csv(table, ["id", "data", "model", "seed", "held_out", "code", "factors", "aligned"], rows)
    return [table, *paths]


class CombinationsWork(TrainedWork):
    def report(self, store: Store) -> Path:
        """The report of any study, and the Hinton diagrams of collisions."""
        write_alignments(self.study, store.root)
        return super().report(store)
