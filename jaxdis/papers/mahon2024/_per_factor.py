"""Tables 9 to 47 of Mahon et al. 2024: every run of every model, accuracies of each factor, in the paper's order."""

from collections.abc import Sequence

from jaxdis.data import DATASETS
from jaxdis.papers.mahon2024._models import MODELS
from jaxdis.papers.mahon2024._scored import NORMAL_COLUMNS, NOVEL_COLUMNS, PARTITION, Scored, Table, data_of, of

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
    """All tables of the paper's data sets by name, such as ``table_09_beta_dsprites``."""
    tables_by_name = {}
    for data in (name for name in data_of(members) if name in _ORDER):
        for place, model in enumerate(MODELS):
            normal, novel = (of(members, data, model, normal=normal) for normal in (True, False))
            if model == PARTITION:
                tables = {45 + _ORDER[data]: partition_table(normal, novel)}
            else:
                first = 9 + 6 * _ORDER[data] + place
                tables = {first: normal_table(normal), first + 18: novel_table(novel)}
            tables_by_name |= {
                f"table_{count:02d}_{model}_{data}": table for count, table in tables.items() if table is not None
            }
    return dict(sorted(tables_by_name.items()))


def normal_table(members: Sequence[Scored]) -> Table | None:
    """Tables 9 to 26: SNC, linear probe, NK1 and MLP on the normal test set; percent, not adjusted for chance."""
    if not members:
        return None
    columns = NORMAL_COLUMNS[members[0].data]
    rows = [
        [
            f"normal test set {member.seed}",
            name,
            *_of_factors(member, part, columns),
            _percent(joint and member.joint(joint)),
        ]
        for member in members
        for name, (part, joint) in _NORMAL.items()
    ]
    return Table(["set", "row", *columns, "both"], rows)


def novel_table(members: Sequence[Scored]) -> Table | None:
    """Tables 27 to 44: both probes on every combination held out; percent, not adjusted for chance."""
    if not members:
        return None
    columns = NOVEL_COLUMNS[members[0].data]
    rows = [
        [_combination(member), name, *_novel(member, probe, columns)]
        for member in members
        for name, probe in _NOVEL.items()
    ]
    return Table(["set", "row", *columns, "both"], rows)


def partition_table(normal: Sequence[Scored], novel: Sequence[Scored]) -> Table | None:
    """Tables 45 to 47, of MTD in the paper: the MLP on combinations, then on normal test sets. These are not of MTD."""
    if not normal and not novel:
        return None
    columns = NOVEL_COLUMNS[(*normal, *novel)[0].data]
    rows = [[_combination(member), "MLP", *_novel(member, "", columns)] for member in novel]
    for member in normal:
        values = _of_factors(member, "mlp_probe.accuracy", columns)
        rows.append([f"normal test set {member.seed}", "MLP", *values, _percent(member.joint("mlp_probe.joint"))])
    return Table(["set (not MTD)", "row", *columns, "both"], rows)


def _novel(member: Scored, probe: str, columns) -> list[float]:
    both = member.column(f"novel_combination.{probe}both")
    return [*_of_factors(member, f"novel_combination.{probe}accuracy", columns), _percent(both)]


def _of_factors(member: Scored, part: str, columns) -> list[float]:
    space = DATASETS[member.data].space
    return [_percent(member.part(part)[space.position(name)]) for name in columns.values()]


def _combination(member: Scored) -> str:
    return f"NC {member.pair[0]}-{member.pair[1]}"


def _percent(value: float | None) -> float:
    return float("nan") if value is None else 100 * float(value)
