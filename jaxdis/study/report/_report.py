"""The report of a study: one page that answers the questions of the papers from its published cells."""

import csv
import html
import json
import platform
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from jaxdis import plots
from jaxdis._core import files
from jaxdis._core.precision import single_precision
from jaxdis._core.version import __version__
from jaxdis.study._cells import Member, cells
from jaxdis.study._definition import Study, metric_of
from jaxdis.study._store import Store, StoreError, publish
from jaxdis.study.report import _sections as sections
from jaxdis.study.report._along import along
from jaxdis.study.report._answer import answer, best_member, ranking
from jaxdis.study.report._blends import blends
from jaxdis.study.report._code_groups import merges, structure
from jaxdis.study.report._dependence import dependence
from jaxdis.study.report._glossary import glossary
from jaxdis.study.report._html import image, page, pictures
from jaxdis.study.report._html import table as table_of
from jaxdis.study.report._learning import learning
from jaxdis.study.report._member_pictures import closer
from jaxdis.study.report._scene_pictures import closer as scene_closer
from jaxdis.study.report._subject import Subject, setting_in_words

# Seeds of a setting whose losses are drawn.
MOST_CURVES = 5
# Members whose scores are all listed.
MOST_ROWS = 300


@single_precision
def write_report(study: Study, out: str | Path, members: Sequence[Member] | None = None) -> Path:
    """Write ``report.html`` into a study's directory from its published cells and ``results.csv``; returns its path.

    Raises:
      StoreError: if the directory holds another study, or a table without all its members.
    """
    store, members = Store(out), list(cells(study)) if members is None else members
    store.check({**study.describe(), "name": store.description().get("name")})  # a report may be called otherwise
    everything = Subject.of(study, _results(study, store, members))
    subject = everything.last(members)
    members = [member for member in members if member.last]
    each_of = sections.by_data
    each = lambda section: each_of(section, subject)  # noqa: E731
    by_id = {member.train: member for member in members}
    opening = _opening(subject, store, by_id)
    chapters = [
        ("Scores", each(sections.scores)),
        ("How dependent are codes on each other?", each(lambda rows: pictures(dependence(rows)))),
        ("How metrics agree", each(sections.agreement)),
        ("Do scores depend on the relation?", each(lambda rows: pictures(blends(rows), shown=0))),
        ("Which factors are encoded together?", each(lambda rows: _together(rows, store, by_id))),
        ("Can scores be predicted without labels?", each(sections.unsupervised)),
        ("Do scores go with downstream performance?", each(lambda rows: pictures(learning(rows)))),
        ("What explains a score", each(sections.explained)),
        ("Do good settings carry over?", sections.carried(subject)),
        ("Novel combinations", sections.novel(subject)),
        ("Training", _training(study, store, members)),
        ("Scores along training", each_of(along, everything)),
        ("What each metric asks", glossary(subject)),
        ("All members", _all_members(subject)),
        ("Configuration", _configuration(study)),
    ]
    path = store.root / "report.html"
    text = page(study.title or study.name, [(title, body) for title, body in chapters if body], opening)
    publish(path, text.encode(), replace=True)
    return path


def _all_members(subject: Subject) -> str:
    """The table; if there are many members, with the main scores only."""
    few = len(subject) <= MOST_ROWS
    names = subject.names if few else subject.headline_columns()
    text = "" if few else "<p>With the chief scores; all are in results.csv.</p>"
    return text + table_of([*_labels(subject.table), *names], subject.table)


def _opening(subject: Subject, store: Store, members: dict[str, Member]) -> str:
    """For every data set: which setting is best, and its best member in pictures."""
    parts = []
    several = len(np.unique(subject.table["data"])) > 1
    for data, rows in subject.each():
        verdict, chosen = answer(rows), list(rows.headlines().values())
        row = best_member(rows, ranking(rows, chosen)) if chosen else _best(rows)
        member = members[str(rows.table["id"][row])]
        name = html.escape(f"{setting_in_words(subject.study, member.label)}, seed {member.label['seed']}")
        title = f"Which setting disentangles best{' on ' + html.escape(data) if several else ''}?"
        heading = f"<h2>{title}</h2>" if verdict else f"<h2>{html.escape(data)}</h2>"
        seen = scene_closer if subject.study.has_slots else closer
        pictures = f"<h3>Its best member: {name}</h3>{seen(subject.study, store, member)}"
        parts.append(heading + verdict + pictures)
    return "".join(parts)


def _together(subject: Subject, store: Store, members: dict[str, Member]) -> str:
    """Relations and merges of the best, the median and the worst member, folded away."""
    columns = subject.headline_columns()
    if subject.study.has_slots or not columns or len(subject) < 3:
        return ""
    return pictures([*structure(subject, store, members, columns[0]), *merges(subject, store, members)], shown=0)


def _best(subject: Subject) -> int:
    """The member with the best value in the first column of scores; the first member if none is defined."""
    name = subject.names[0]
    column = np.asarray(subject.table[name], float) * (-1 if subject.lower_is_better(name) else 1)
    return int(np.nanargmax(column)) if np.isfinite(column).any() else 0


def _results(study: Study, store: Store, members: Sequence[Member]) -> dict[str, np.ndarray]:
    """``results.csv``, after checking that it has a row for each member, in order, and a score of each metric."""
    path = store.root / "results.csv"
    advice = "run the study: the table is derived from its records"
    try:
        table = files.read_csv_columns(path)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; {advice}") from None
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise StoreError(f"{path}: is damaged ({error}); {advice}") from None
    ids = list(map(str, table.get("id", ())))
    if ids != [member.train for member in members]:
        raise StoreError(f"{path}: must have a row for each of {len(members)} members, got {len(ids)} rows; {advice}")
    scored = {metric_of(study, name) for name, column in table.items() if column.dtype.kind == "f"}
    missing = [name for name, _ in study.metrics if name not in scored]
    if missing:
        raise StoreError(f"{path}: must have columns of numbers of {', '.join(missing[:3])}; {advice}")
    return table


def _training(study: Study, store: Store, members: Sequence[Member]) -> str:
    """Losses of every setting by update: mean and standard deviation over its first seeds."""
    parts = [f"<p>Means and standard deviations over up to {MOST_CURVES} seeds of each setting.</p>"]
    data_of = [training.config.data for training in study.trainings]
    for data in dict.fromkeys(data_of):
        trained = [member for member in members if data_of[member.training] == data]
        parts.append(f"<h3>{html.escape(data)}</h3>")
        by_setting: dict[str, list[Member]] = {}
        for member in trained:
            by_setting.setdefault(setting_in_words(study, member.label), []).append(member)
        curves: dict[tuple[int, str], dict[str, list[np.ndarray]]] = {}
        for setting, alike in by_setting.items():
            for member in alike[:MOST_CURVES]:
                log_every, losses = losses_of(store, member.train)
                for field, curve in losses.items():
                    if np.any(curve):
                        curves.setdefault((log_every, field), {}).setdefault(setting, []).append(curve)
        for (log_every, field), lines in curves.items():
            parts.append(image(plots.loss_curves(lines, log_every, field), f"{field} by update"))
    return "".join(parts)


def losses_of(store: Store, train: str) -> tuple[int, dict[str, np.ndarray]]:
    """Updates per entry, and the curves of a trained member, without making a zoo of it."""
    header, arrays = files.read_arrays(store.path("train", train, ".npz"))
    kept = {name.removeprefix("losses/"): curve[0] for name, curve in arrays.items() if name.startswith("losses/")}
    return header["log_every"], kept


def _configuration(study: Study) -> str:
    versions = {"jaxdis": __version__, "jax": jax.__version__, "python": platform.python_version()}
    text = json.dumps({"versions": versions, **study.describe()}, indent=1, ensure_ascii=False, default=str)
    return f"<pre>{html.escape(text)}</pre>"


def _labels(table) -> list[str]:
    first = next((name for name in table if name.startswith("final_")), None)
    names = list(table)
    return [name for name in names[: names.index(first)] if name != "id"] if first else names[1:4]
