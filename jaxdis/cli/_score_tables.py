"""Scores of files: in which turn they are computed, what has arrived, and tables for a terminal, as CSV and as JSON."""

import contextlib
import csv
import dataclasses
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxdis._core.display import duration, tell_now_and_then
from jaxdis._core.files import column_of_texts, csv_text, read_csv, write_whole
from jaxdis._core.finite import finite, mean
from jaxdis._core.options import look_up
from jaxdis.cli import _terminal as terminal
from jaxdis.evaluation import _costs as costs
from jaxdis.evaluation._costs import Load, Size
from jaxdis.evaluation._score_core import CHANCE, INTERVAL, SPREAD, added, as_json, chance, csv_columns, together
from jaxdis.evaluation._scores import Scores
from jaxdis.metrics import METRICS
from jaxdis.metrics._metric import Column
from jaxdis.metrics._plan import lower_is_better

# With more files, each has a row instead of a column.
MOST_COLUMNS = 4
# With more files, the table shows the best and the worst.
MOST_ROWS = 20
# Letters of a file's name; of a longer one the end is shown.
LONGEST_FILE = 28
# Letters of a metric's name; a longer one continues below where there is no more room.
LONGEST_METRIC = 24
# What a star behind an error means.
REMARK = "* The bias by the bootstrap exceeds the standard error; use more samples."


def say_seconds(arrays, plan: Mapping, count: int, bootstrap: int, null: int) -> None:
    """Say how long so many files take, by the first one; nothing about a zoo or slots."""
    if isinstance(arrays, Path) or arrays.codes.ndim not in (2, 3):
        return
    members = count * (1 if arrays.codes.ndim == 2 else len(arrays.codes))
    size = Size.of(*arrays.codes.shape[-2:], arrays.factors.sizes)
    load = Load.of(size, 0, members, batch_size=None, devices=None, bootstrap=bootstrap, null=null)
    costs.say_seconds(tuple(plan.items()), load)


def now_and_then(write: Callable) -> Callable:
    """A function that writes what another one gives, for a tenth of the time at most: many rows take a second."""
    due = 0.0

    def write_if_due(given: Callable):
        nonlocal due
        began = time.monotonic()
        if began >= due:
            write(given())
            due = 10 * time.monotonic() - 9 * began

    return write_if_due


def joined(arrived: Sequence[Scores]) -> Scores:
    """The columns that have arrived, for the members that they all have.

    Members come in chunks: the first chunk's metrics arrive one after the other, then the next chunk's.
    """
    columns, replicates = _whole(arrived, "columns"), _whole(arrived, "replicates")
    if any(map(np.ndim, columns.values())):
        count = min(map(len, columns.values()))
        columns, replicates = ({name: rows[:count] for name, rows in each.items()} for each in (columns, replicates))
    return Scores(columns, {}, arrived[0].factor_names, replicates)


def by_file(arrived: Sequence[Scores], names: Sequence[str]) -> dict[str, Scores]:
    """The columns that have arrived for a file, or for several, each of which is a member."""
    if len(names) == 1:
        return {names[0]: joined(arrived)}
    found, tables = {}, [_whole(arrived, field) for field in ("columns", "replicates")]
    for row, name in enumerate(names):
        columns, replicates = ({key: each[row] for key, each in table.items() if row < len(each)} for table in tables)
        if columns:
            found[name] = Scores(columns, {}, arrived[0].factor_names, replicates)
    return found


def merged(tables: Sequence[Scores], order: Iterable[str] = ()) -> Scores:
    """Join the same members' columns from several evaluations, in the metrics' order."""
    first, *others = tables
    if not others:
        return first
    tables_of = "columns", "parts", "replicates", "nulls", "relations", "axes"
    fields = {field: {name: each for t in tables for name, each in getattr(t, field).items()} for field in tables_of}
    places = {metric: place for place, metric in enumerate(order)}
    columns = sorted(fields["columns"], key=lambda column: places.get(column.metric, len(places)))
    fields["columns"] = {column: fields["columns"][column] for column in columns}
    records = [table.evaluation for table in tables if table.evaluation]
    evaluation = dict(records[0]) if records else {}
    for record in records[1:]:
        evaluation |= {name: evaluation.get(name, {}) | record.get(name, {}) for name in ("options", "metrics")}
        evaluation["held_out"] = evaluation["held_out"] or record["held_out"]
    for name in ("notes", "errors"):
        fields[name] = tuple(dict.fromkeys(each for table in tables for each in getattr(table, name)))
    return dataclasses.replace(first, **fields, evaluation=evaluation)


def _whole(arrived: Sequence[Scores], field: str) -> dict:
    tables = [getattr(scores, field) for scores in arrived]
    pieces = {name: [table[name] for table in tables if name in table] for table in tables for name in table}
    return {name: np.concatenate(piece) if len(piece) > 1 else piece[0] for name, piece in pieces.items()}


def to_csv(file_scores: Mapping, factors: Mapping[str, str], *, several: bool) -> str:
    """One row per member; several files share a table, with their names in the first column.

    The last columns say what the factors are and, in the first of the rows for which that is the same, how the scores
    were computed: any reader of CSV takes a column, unlike a line of comment, and rows of several tables can be joined.
    """
    rows, said = [], ""
    for name, scores in file_scores.items():
        columns = csv_columns(scores)
        for row in zip(*columns.values(), strict=True):
            named = dict(zip(columns, row, strict=True))
            if (told := named.get("evaluation")) == said:
                named["evaluation"] = ""
            said = told or said
            rows.append({**({"file": name} if several else {}), **named, "factors": factors.get(name, "")})
    head = dict.fromkeys(column for row in rows for column in row)  # zoos have some columns that files lack
    last = [column for column in ("factors", "evaluation") if column in head]
    return csv_text([*(column for column in head if column not in last), *last], rows)


def append(path: Path, file_scores: Mapping, factors: Mapping[str, str]) -> None:
    """Add the rows of :func:`to_csv` to a CSV or Parquet file, which is made if there is none."""
    rows = [*csv.DictReader(io.StringIO(to_csv(file_scores, factors, several=True)))]
    if path.suffix == ".csv":
        rows = (read_csv(path) if path.exists() else []) + rows
        csv_text(list(dict.fromkeys(name for row in rows for name in row)), rows, path)
        return
    import pyarrow
    from pyarrow import parquet

    columns = {name: column_of_texts([row[name] for row in rows]) for name in rows[0]}
    new = pyarrow.table({name: pyarrow.array(column, from_pandas=True) for name, column in columns.items()})
    tables = [parquet.read_table(path), new] if path.exists() else [new]
    whole = pyarrow.concat_tables(tables, promote_options="permissive")
    write_whole(path.resolve(), lambda file: parquet.write_table(whole, file))


def to_json(file_scores: Mapping, factors: Mapping[str, str], *, several: bool) -> str:
    """Columns by name, then ``members``, ``parts``, ``notes``, ``evaluation``, and ``factors`` in words; for several
    files, one such object for each."""
    objects = {
        name: as_json(scores) | ({"factors": factors[name]} if name in factors else {})
        for name, scores in file_scores.items()
    }
    return json.dumps(objects if several else objects.popitem()[1], indent=1) + "\n"


def print_scores(file_scores: Mapping, notes: Sequence, *, several: bool, out: Path | None) -> None:
    """Print what fits: one file as a table, a few beside each other, a row for each up to twenty, or a summary.

    ``notes`` are, for metrics computed in turn, those on files that were scored together, and how many members these
    have.
    """
    if not several:
        ((name, scores),) = file_scores.items()
        _print_one(scores, terminal.one_line(name))
    elif len(file_scores) > MOST_ROWS:
        columns = {
            column: np.array([mean(scores[column]) if column in scores else np.nan for scores in file_scores.values()])
            for column in _columns_of(file_scores)
        }
        _print_summary(list(file_scores), columns)
        where = f"in {out}" if out is not None else "written by --csv FILE"
        terminal.write(f"the scores of each of the {len(file_scores):,} files are {where}")
    else:
        _print_several(file_scores)
    if len(file_scores) <= MOST_ROWS and any(_mark(s, column) for s in file_scores.values() for column in s):
        terminal.write(REMARK)
    for line in together(tuple(note for tables in notes for note in added(tables))):
        terminal.write_sentence(line)


def _mark(scores, column: str) -> str:
    """Mark the score of a single member whose bias exceeds its error."""
    if np.ndim(scores[column]) or column not in scores.replicates:
        return ""
    return "*" if abs(scores.bias(column)) > scores.error(column) else ""


def in_brief(scores, column: str) -> str:
    """``0.412 ± 0.013``: mean and spread over members; ``0.412 [0.387, 0.437]``: a score and its bootstrap interval;
    ``0.412 (p .048)``: and how often permuted factors are as good."""
    values = finite(scores[column]) if column in scores else np.empty(0)
    if not values.size:
        return ""
    if values.size > 1:
        return f"{values.mean():.3f} ± {values.std():.3f}"
    by_chance = f" (p {np.ravel(scores.p_value(column))[0]:.3f})" if column in scores.nulls else ""
    if column not in scores.replicates:
        return f"{values[0]:.3f}{by_chance}"
    low, high = np.ravel(scores.interval(column))
    return f"{values[0]:.3f} [{low:.3f}, {high:.3f}]{_mark(scores, column)}{by_chance}"


def folded(name: str, width: int = LONGEST_METRIC) -> str:
    """A metric's name on several lines, if it is long, cut before its options and its field."""
    lines = [""]
    for part in re.split(r"(?=:)|(?=\.[a-z])", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _columns_of(file_scores: Mapping) -> list[str]:
    return list(dict.fromkeys(column for scores in file_scores.values() for column in scores))


def _file(name: str, longest: int = LONGEST_FILE) -> str:
    line = terminal.one_line(name)
    return line if len(line) <= longest else "…" + line[1 - longest :]


def _print_several(file_scores: Mapping) -> None:
    """Print a row for each metric and a column for each file, if that fits; else a row for each file, in as many tables
    as the columns of scores need."""
    tables, console, files = file_scores.values(), terminal.console(), list(map(_file, file_scores))
    beside = [SPREAD] * any(not scores.single for scores in tables)
    beside += [INTERVAL] * any(scores.single and scores.replicates for scores in tables)
    beside += [CHANCE] * any(scores.nulls for scores in tables)
    title = "; ".join([f"{len(tables)} files", *beside])
    cells = {column: [in_brief(scores, column) for scores in tables] for column in _columns_of(file_scores)}
    if len(files) <= MOST_COLUMNS:
        rows = ([folded(column), *row] for column, row in cells.items())
        table = terminal.table(["metric", *files], rows, no_wrap=True, title=title)
        if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
            console.print(table)
            return
    blocks, room = [], 0
    for column, row in cells.items():
        head = folded(column, 1)
        width = 3 + max(map(len, (*head.split("\n"), *row)))
        if not blocks or width > room:
            blocks.append([])
            room = console.width - 4 - max(map(len, files))
        blocks[-1].append((head, *row))
        room -= width
    for number, block in enumerate(blocks):
        heads, *rows = zip(("file", *files), *block, strict=True)
        terminal.print_table(heads, rows, no_wrap=True, title=None if number else title)


@contextlib.contextmanager
def growing(by: str | None, folder: Path) -> Iterator[Callable]:
    """Yield what shows a growing table of members, best first, and writes it; each for a tenth of the time at most."""
    from rich.console import Group
    from rich.live import Live

    console = terminal.console(error=True)
    live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None

    def show(given) -> None:
        table, words = given
        table.write(folder)
        if live is not None:
            live.update(Group(_best(table.columns(), by), words), refresh=True)

    show = now_and_then(show)
    with contextlib.nullcontext() if live is None else live:

        def told(table, done: int, total: int, left: float) -> None:
            words = f"{done:,} of {total:,} files × metrics; the rest takes about {duration(left)}"
            if live is None:
                tell_now_and_then(f"scoring: {words}")
            if table.members and done < total:
                show(lambda: (table, words))

        yield told


def _best(columns: Mapping[str, Sequence], by: str | None):
    """The best members by a column, as a table."""
    names, *numbers = columns
    scores = [name for name in numbers if "[" not in name]
    by = look_up(by, columns, "column") if by is not None and by not in scores else by or scores[0]
    values = np.asarray(columns[by]) * (-1 if lower_is_better(by) else 1)
    rows = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[:MOST_ROWS]
    heads = [by, *(name for name in scores if name != by)][:MOST_COLUMNS]
    texts = ([columns[names][row], *(f"{columns[head][row]:.4f}" for head in heads)] for row in rows)
    return terminal.table([names, *map(folded, heads)], texts, title=f"best of {len(values):,} by {by}")


def print_members(names: Sequence[str], columns: Mapping[str, np.ndarray]) -> None:
    """Print a folder's table: a row for each of few members, or a summary."""
    columns = {name: column for name, column in columns.items() if "[" not in name}
    if len(names) > MOST_ROWS:
        _print_summary(names, columns)
        return
    known = {name: Column.read(name, METRICS) for name in columns}
    rows = {name: {known[c]: column[row] for c, column in columns.items()} for row, name in enumerate(names)}
    _print_several({name: Scores(row, {}, ()) for name, row in rows.items()})


def _print_summary(files: Sequence[str], columns: Mapping[str, np.ndarray]) -> None:
    room = (terminal.console().width - LONGEST_METRIC - 28) // 2  # less what the other columns need
    names, rows, medians = [_file(name, min(LONGEST_FILE, max(room, 8))) for name in files], [], {}
    for column, values in columns.items():
        if np.isnan(values).all():
            rows.append([folded(column), "", "", "", ""])
            continue
        order = [np.nanargmin(values), np.nanargmax(values)]
        best, worst = order if lower_is_better(column) else order[::-1]
        ends = (f"{values[end]:.4f}\n{names[end]}" for end in (best, worst))
        middle = np.argsort(values)[np.isfinite(values).sum() // 2]
        medians.setdefault(Column.read(column, METRICS).metric, f"{column}: the median file is {files[middle]}")
        rows.append([folded(column), f"{np.nanmean(values):.4f}", f"{np.nanstd(values):.4f}", *ends])
    heads = ["metric", "mean", "spread", "best", "worst"]
    terminal.print_table(heads, rows, no_wrap=True, title=f"{len(files):,} files")
    for sentence in medians.values():
        terminal.write_sentence(sentence)


def _print_one(scores, title: str) -> None:
    if scores.single:
        heads = [
            "score",
            *["error", "bias"] * bool(scores.replicates),
            *["null", "above null", "p"] * bool(scores.nulls),
        ]
    else:
        title = f"{title}: {len(scores.members):,} members"
        heads = ["mean", "spread", "lowest", "highest", "undefined", *["null", "largest p"] * bool(scores.nulls)]
    rows = [[name, *(_cells(scores, name).get(head, "") for head in heads)] for name in scores]
    heads = ["metric", *heads]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    room = terminal.console().width - sum(3 + width for width in widths[1:]) - 4  # beside other columns and lines
    rows = ([folded(name, max(room, LONGEST_METRIC)), *row] for name, *row in rows)
    terminal.print_table(heads, rows, no_wrap=True, title=title)
    firsts: dict[str, str] = {}  # the members to look at, by each metric's first column
    for column in scores if not scores.single and len(scores.members) > 2 else ():
        firsts.setdefault(column.metric, column)
    for column in firsts.values():
        if names := [row["member"] for row in scores.rank(column) if np.isfinite(row[column])]:
            words = f"{column}: the best member is {names[0]}, the median one {names[len(names) // 2]}"
            terminal.write_sentence(words)


def _cells(scores, name: str) -> dict[str, str]:
    """What the table of one file tells of a column, by head."""
    values, by_chance = np.atleast_1d(scores[name]), chance(scores, name)
    if scores.single:
        cells = {"score": f"{values[0]:.4f}"}
        if name in scores.replicates:
            bias = f"{scores.bias(name):+.4f}{_mark(scores, name)}"
            cells |= {"error": f"{scores.error(name):.4f}", "bias": bias}
        if by_chance:
            null, above, p = by_chance.values()
            cells |= {"null": f"{null:.4f}", "above null": f"{above:+.4f}", "p": f"{p:.3f}"}
        return cells
    defined = finite(values)
    cells = {"undefined": str(len(values) - len(defined) or "")}
    if defined.size:
        numbers = {"mean": defined.mean(), "spread": defined.std(), "lowest": defined.min(), "highest": defined.max()}
        cells |= {head: f"{number:.4f}" for head, number in numbers.items()}
    if by_chance:
        cells |= {"null": f"{mean(by_chance['null']):.4f}", "largest p": f"{np.max(by_chance['p']):.3f}"}
    return cells
