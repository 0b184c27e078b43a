"""Every number printed in the tables of five papers, their claims as statements to check, and what is wrong in print.

The file ``printed.json`` of each paper's folder was copied from the papers' texts and compared with them in a second
reading: each table has the text's numbers. Values are as printed, wrong ones too: flags say what is wrong, and
``recomputed`` holds what follows from other tables in the same paper. Beside it, ``page.json`` holds what the page says
in words: differences of protocol, and remarks on claims, of the small form too.
"""

import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A printed row: what it is of, its numbers by column (None where there is a dash), and their spreads, if any."""

    key: Mapping[str, Any]
    values: Mapping[str, float | None]
    spread: Mapping[str, float | None]


class Flag(NamedTuple):
    """An error or open question in print: the cells (empty: the whole table), its kind, and its description."""

    where: Mapping[str, Any]
    kind: str
    issue: str


class Table(NamedTuple):
    """A printed table. ``statistic`` says what is averaged and what the spread is; ``runs`` over how many.

    ``rounding`` is half a unit of the last printed decimal; 0 if rows differ in it.
    """

    id: str
    label: str
    title: str
    unit: str
    statistic: str
    runs: Any
    protocol: str
    rows: tuple[Row, ...]
    flags: tuple[Flag, ...]
    rounding: float = 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in self.rows for name in row.values))

    def row(self, **key) -> Row:
        """The row whose key has these entries."""
        matches = [row for row in self.rows if all(row.key.get(name) == value for name, value in key.items())]
        if len(matches) != 1:
            raise KeyError(f"{self.id}: {len(matches)} rows with {key}")
        return matches[0]


class Claim(NamedTuple):
    """A finding that a program can check: where it is, and what it says. Thresholds stand where it is checked."""

    id: str
    where: str
    says: str
    note: str


class Printed(NamedTuple):
    """What is printed in a paper."""

    key: str
    citation: str
    tables: Mapping[str, Table]
    claims: Mapping[str, Claim]
    figures: tuple[Mapping[str, Any], ...]
    open: tuple[str, ...]
    recomputed: Mapping[str, Any]


@functools.cache
def printed_in(package: str) -> Printed:
    """Everything that is printed in a paper: ``printed.json`` in the package of its folder (``__package__``)."""
    document = json.loads(read_text(package, "printed.json"))
    tables = [_table(row) for row in document["tables"] if "rows" in row]
    claims = [Claim(row["id"], row["where"], row["says"], row.get("note", "")) for row in document["claims"]]
    by_id = [{row.id: row for row in rows} for rows in (tables, claims)]
    others = tuple(document["figures"]), tuple(document["open"]), document.get("recomputed", {})
    return Printed(package.rpartition(".")[2], document["citation"], *by_id, *others)


def _table(row: dict) -> Table:
    rows = tuple(Row(one["key"], _numbers(one["values"]), _numbers(one.get("spread") or {})) for one in row["rows"])
    flags = tuple(Flag(flag["where"], flag["kind"], flag["issue"]) for flag in row["flags"])
    unit = row["unit"]
    unit = unit if isinstance(unit, str) else "; ".join(f"{name}: {value}" for name, value in unit.items())
    decimals = row.get("decimals")
    decimals = decimals["values"] if isinstance(decimals, dict) else decimals
    rounding = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    words = (row["id"], row["label"], row["title"], unit, row.get("statistic", ""), row["runs"], row["protocol"])
    return Table(*words, rows, flags, rounding)


def _numbers(values: dict) -> dict[str, float | None]:
    """The values without text columns, such as "increase"."""
    numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
    return {name: None if value is None else float(value) for name, value in numbers.items()}


@functools.cache
def words_in(package: str) -> Mapping[str, Any]:
    """What the page of a paper says in words: ``page.json`` in the package of its folder."""
    return json.loads(read_text(package, "page.json"))


def read_text(package: str, name: str) -> str:
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")
