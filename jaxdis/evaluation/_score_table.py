"""Scores as columns for table tools: wide, with a row per member, or long, with a row per number."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxdis._core.display import html_table
from jaxdis._core.finite import finite, mean
from jaxdis._core.options import some_of
from jaxdis.evaluation._score_core import ScoreCore
from jaxdis.metrics._metric import Column

SPREAD = "± is the standard deviation over members"
INTERVAL = "[low, high] is the 95 % interval by bootstrap"
CHANCE = "null is the mean over permuted factors, p how often they are as good"


def wide(scores: ScoreCore, *, per_factor: bool = False) -> dict[str, Sequence]:
    """A table's columns, with one row per member: name, metadata, scores; after a bootstrap ``.error``, ``.bias``,
    ``.low`` and ``.high``, with permutations ``.null``, ``.above_null``, ``.p``; on request ``metric.part[factor]``."""
    columns = metadata(scores.members) | {name: np.atleast_1d(column) for name, column in numbers(scores).items()}
    if per_factor:
        for name, part in scores.parts.items():
            if scores.axes.get(name) == ("k",):
                each = np.moveaxis(part, -1, 0)
                columns |= {
                    f"{name}[{factor}]": np.atleast_1d(values)
                    for factor, values in zip(scores.factor_names, each, strict=True)
                }
    return columns


def numbers(scores: ScoreCore) -> dict[str, np.ndarray | np.generic]:
    """Columns, each followed by its error, bias and 95 % interval if it has replicates, and by what chance gives."""
    found = {}
    for name, column in scores.items():
        found[name] = column
        found |= {f"{name}.{field}": values for field, values in chance(scores, name).items()}
        if name in scores.replicates:
            bounds = scores.interval(name)
            fields = {"error": scores.error(name), "bias": scores.bias(name)}
            fields |= {"low": bounds[..., 0], "high": bounds[..., 1]}
            found |= {f"{name}.{field}": values for field, values in fields.items()}
    return found


def chance(scores: ScoreCore, name: str) -> dict[str, np.ndarray | np.generic]:
    """What permuted factors say about a column; nothing if it has none."""
    if name not in scores.nulls:
        return {}
    return {"null": scores.null(name), "above_null": scores.above_null(name), "p": scores.p_value(name)}


def metadata(members: Sequence[dict]) -> dict[str, list]:
    """What is known about the members, as columns; None where a member lacks an entry."""
    names = dict.fromkeys(name for row in members for name in row)
    return {name: [row.get(name) for row in members] for name in names}


def long(scores: ScoreCore) -> dict[str, Sequence]:
    """A table's columns, with one row per number: ``member``, metadata, ``metric``, ``field``, ``factor``, ``code``,
    ``index`` and ``value``.

    ``factor`` is a factor's name, ``code`` a number, and ``index`` a number along any other axis that a part has; each
    is None where the number has none.
    """
    blocks = [_block(scores, name, column, ()) for name, column in scores.items()]
    for name, part in scores.parts.items():
        rank = part.ndim - (not scores.single)
        blocks.append(_block(scores, name, part, scores.axes.get(name) or ("",) * rank))
    heads = list(dict.fromkeys(head for block in blocks for head in block))
    return {head: [value for block in blocks for value in block[head]] for head in heads}


def _block(scores: ScoreCore, column: Column, values, letters: Sequence[str]) -> dict[str, list]:
    values = np.asarray(values)[None] if scores.single else np.asarray(values)
    each = int(np.prod(values.shape[1:]))
    places = np.indices(values.shape[1:]).reshape(len(letters), each)
    axes = {"factor": [None] * each, "code": [None] * each, "index": [None] * each}
    for letter, place in zip(letters, places.tolist(), strict=True):
        kind = {"k": "factor", "d": "code"}.get(letter, "index")
        kind = kind if axes[kind][:1] in ([], [None]) else "index"  # of a square of codes, the second one
        axes[kind] = [scores.factor_names[at] for at in place] if kind == "factor" else place
    members = {name: np.repeat(np.array(column, object), each) for name, column in metadata(scores.members).items()}
    size = values.size
    repeated = {name: column * len(values) for name, column in axes.items()}
    return {
        **{name: column.tolist() for name, column in members.items()},
        **{
            "metric": [column.metric] * size,
            "field": [column.field] * size,
            **repeated,
            "value": values.ravel().tolist(),
        },
    }


def as_html(scores: ScoreCore) -> str:
    """A row per score for a single member, with its factors beside it; a row per member for a zoo."""
    notes = together(scores.notes)
    if not scores.single:
        known, columns = metadata(scores.members), {}
        for name, values in scores.items():
            columns |= {name: values} | {f"{name}.{field}": each for field, each in chance(scores, name).items()}
        head = [*known, *columns]
        ends = [
            [label, *[None] * (len(known) - 1), *map(reduce, columns.values())]
            for label, reduce in (("mean", mean), ("±", spread))
        ]
        rows = zip(*known.values(), *(column.tolist() for column in columns.values()), strict=True)
        title = f"Scores of {len(scores.members):,} members; {'; '.join([SPREAD, *[CHANCE] * bool(scores.nulls)])}"
        return html_table(title, head, [*ends, *rows], notes)
    factors = {name: part for name, part in scores.parts.items() if scores.axes.get(name) == ("k",)}
    shown = scores.factor_names if any(f"{name}.per_factor" in factors for name in scores) else ()
    drawn = ("low", "high") if scores.replicates else ()
    judged = ("null", "above_null", "p") if scores.nulls else ()
    rows = []
    for name, value in scores.items():
        bounds = [*scores.interval(name).tolist()] if name in scores.replicates else [None] * len(drawn)
        part = factors.get(f"{name}.per_factor")
        bounds += [chance(scores, name).get(field) for field in judged]
        rows.append([name, value, *bounds, *([None] * len(shown) if part is None else part.tolist())])
    title = "; ".join(["Scores of one representation", *[INTERVAL] * bool(drawn), *[CHANCE] * bool(judged)])
    return html_table(title, ["metric", "score", *drawn, *judged, *shown], rows, notes)


def spread(values: np.ndarray) -> float:
    """The standard deviation over members whose score is defined; NaN if there is none."""
    defined = finite(values)
    return float(defined.std()) if defined.size else float("nan")


def as_text(scores: ScoreCore) -> str:
    """One line per score, under a head that says what stands beside it."""
    width = max(map(len, scores), default=0)
    heads = {True: "one representation", False: f"{len(scores.members):,} members"}
    beside = [INTERVAL] * bool(scores.replicates) if scores.single else [SPREAD]
    lines = ["; ".join([f"Scores of {heads[scores.single]}", *beside, *[CHANCE] * bool(scores.nulls)])]
    for name, values in scores.items():
        if not scores.single:
            text = f"{mean(values):.4f} ± {spread(values):.4f}"
        elif name in scores.replicates:
            text = "{:.4f} [{:.4f}, {:.4f}]".format(values, *scores.interval(name))
        else:
            text = f"{values:.4f}"
        if name in scores.nulls:
            text += f"; null {mean(np.atleast_1d(scores.null(name))):.4f}"
            text += f", p = {scores.p_value(name):.3f}" if scores.single else ""
        lines.append(f"  {name:<{width}}  {text}")
    return "\n".join(lines + together(scores.notes))


def together(notes: tuple[tuple[str, str], ...]) -> list[str]:
    """Lines for a reader: each note once, after the metrics that it is about."""
    metrics: dict[str, list[str]] = {}
    for metric, note in notes:
        metrics.setdefault(note, []).append(metric)
    return [f"{some_of(names)}: {note}" for note, names in metrics.items()]


_COUNTED = re.compile(r"(.*?)([\d,]+) of [\d,]+ members (.*)", re.DOTALL)
_OF_ONE = re.compile(r"((?:\w+: )?)-?[\d.]+ is (what codes score .*)", re.DOTALL)
_OF_ALL = re.compile(r"((?:\w+: )?)(?:all members reach|the score reaches) (.*)", re.DOTALL)


def added(tables: Sequence[tuple[Sequence[tuple[str, str]], int]]) -> tuple[tuple[str, str], ...]:
    """Notes on several tables' members together: ``25 of 672 members`` and 1 of 8 are ``26 of 680 members``.

    Args:
      tables: each one's notes, and how many members it has.
    """
    total = sum(count for _, count in tables)
    counts: dict[tuple[str, str, str], int | None] = {}
    for notes, count in tables:
        for metric, text in notes:
            if found := _COUNTED.fullmatch(text):
                key, number = (metric, found[1], found[3]), int(found[2].replace(",", ""))
            elif found := _OF_ONE.fullmatch(text):
                key, number = (metric, found[1], f"score {found[2]}"), 1
            elif found := _OF_ALL.fullmatch(text):
                key, number = (metric, found[1], f"reach {found[2]}"), count
            else:
                key, number = (metric, text, ""), None
            counts[key] = None if number is None else (counts.get(key) or 0) + number
    if len(tables) == 1:
        return tuple(dict.fromkeys(tables[0][0]))
    return tuple((metric, _counted(before, number, total, after)) for (metric, before, after), number in counts.items())


def _counted(before: str, number: int | None, total: int, after: str) -> str:
    if number is None:
        return before
    who = "all members" if number == total and after.startswith("reach ") else f"{number:,} of {total:,} members"
    return f"{before}{who} {after}"


def csv_columns(scores: ScoreCore, *, long_form: bool = False) -> dict[str, Sequence]:
    """A CSV file's columns; the last one, ``evaluation``, holds JSON that says how the scores were computed: any reader
    takes a column, unlike a comment line, and rows from several files can be joined."""
    columns = long(scores) if long_form else wide(scores, per_factor=True)
    if not scores.evaluation:
        return columns
    brief = {name: value for name, value in scores.evaluation.items() if name != "metrics"}  # long, and the defaults
    return {**columns, "evaluation": [json.dumps(brief, ensure_ascii=False)] * len(next(iter(columns.values())))}


def as_json(scores: ScoreCore) -> dict[str, Any]:
    """Columns by name; then ``members``, ``parts``, ``notes`` and ``evaluation``. None marks an undefined number, since
    JSON has no NaN."""
    found = {name: _or_null(np.asarray(column).tolist()) for name, column in numbers(scores).items()}
    parts = {name: _or_null(part.tolist()) for name, part in scores.parts.items()}
    return found | {
        "members": [{name: _or_null(value) for name, value in row.items()} for row in scores.members],
        "parts": parts,
        "notes": [list(note) for note in scores.notes],
        "evaluation": scores.evaluation,
    }


def _or_null(value):
    if isinstance(value, list):
        return [_or_null(entry) for entry in value]
    finite = not isinstance(value, float) or (value == value and abs(value) != float("inf"))
    return value if finite else None
