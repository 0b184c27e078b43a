"""Tables 2 to 8 of Mahon et al. 2024 as CSV, in the paper's order, from the scores of a finished study.

The tables follow the text. Where the print departs from it, their docstrings say so.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from jaxdis._core.finite import finite
from jaxdis._core.finite import mean as finite_mean
from jaxdis.papers.mahon2024._per_factor import per_factor_tables
from jaxdis.papers.mahon2024._scored import (
    PARTITION,
    Scored,
    Table,
    above,
    chance,
    data_of,
    mean,
    models_of,
    of,
    read,
    size_and_shape,
)
from jaxdis.study._definition import Study
from jaxdis.study.report._seed_statistics import pearson


def write_tables(study: Study, out: str | Path) -> list[Path]:
    """Write all tables of a finished study into ``tables`` in its folder, and return their paths.

    Raises:
      StoreError: if the folder holds another study, or a record is damaged.
    """
    members = read(study, out)
    tables = {
        "table_2": table_2(members),
        "table_3": table_3(members),
        "table_4": table_4(members),
        "table_5": table_2(members),  # printed again, in Appendix C
        "table_6": table_6(members),
        "table_7": table_7(members),
        "table_8": table_8(members),
        **per_factor_tables(members),
    }
    folder = Path(out) / "tables"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}.csv" for name in tables]
    for path, table in zip(paths, tables.values(), strict=True):
        table.write(path)
    return paths


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
    if probe == "mlp_probe":
        part, both = "mlp_probe.accuracy", lambda member: member.joint("mlp_probe.joint")
    else:
        part, both = (
            f"novel_combination.{probe}accuracy",
            lambda member: member.column(f"novel_combination.{probe}both"),
        )
    return [
        above(mean(members, lambda member: member.part(part)[shape]), of_shape),
        above(mean(members, lambda member: member.part(part)[size]), of_size),
        above(mean(members, both), of_size * of_shape),
    ]


def metrics_of(members: Sequence[Scored], data: str, model: str) -> dict[str, float]:
    """The rows of Table 8 for a model on a data set, with SNC and NK of Table 7 as ``SNC mean`` and ``NK mean``.

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
    scores |= {
        f"{name} mean": 100 * mean(normal, lambda member, n=name: member.column(n.lower())) for name in ("SNC", "NK")
    }
    return scores | {"SNC": product("snc.per_factor"), "NK": product("nk.adjusted")}


DCI_FIELDS = ("disentanglement", "completeness", "informativeness")
_TABLE_8 = ("SNC", "NK", "MIG2p", "MIG", "MIG2m", "SAP", "SAP2p", "SAP2m", "IRS", "C2p", "C2m", "I2p", "I2m", "D", "C")
_TABLE_8 += ("I", "DCI", "MED")
_TABLE_6 = ("SNC", "NK", "MIG", "MIG2p", "MIG2m", "SAP", "SAP2p", "SAP2m", "IRS", "D", "C", "C2p", "C2m", "I", "I2p")
_TABLE_6 += ("I2m", "DCI")
_TABLE_4 = ("SNC", "NK", "MIG", "SAP", "IRS", "D", "C", "I", "DCI", "MED")
_TABLE_7 = ("SNC", "NK", "MIG", "SAP", "IRS", "D", "C", "I", "MED")


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
    rows = [[data or "all", *correlations(members, _TABLE_4, data)] for data in (*data_of(members), None)]
    return Table(["over", *_TABLE_4], rows)


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
