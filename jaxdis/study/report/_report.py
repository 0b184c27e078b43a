"""The reports, pages that answer the papers' questions: from a study's cells, or from scores for codes."""

import csv
import datetime
import html
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from jaxdis import plots
from jaxdis._core import files
from jaxdis._core.precision import single_precision
from jaxdis._core.store import Store, StoreError, publish
from jaxdis._core.version import __version__
from jaxdis.evaluation import Scores, relate
from jaxdis.evaluation._notes import known
from jaxdis.evaluation._score_core import together
from jaxdis.factors import Factors
from jaxdis.metrics import Metric
from jaxdis.models import Variant
from jaxdis.study._definition import Member, Study, cells, metric_of
from jaxdis.study.report import _figures as figures
from jaxdis.study.report import _sections as sections
from jaxdis.study.report._answer import answer, best_member
from jaxdis.study.report._figures import RELATION
from jaxdis.study.report._html import folded, image, listed, page, pictures
from jaxdis.study.report._html import table as table_of
from jaxdis.study.report._subject import Subject

# Seeds of a setting whose losses are drawn.
MOST_CURVES = 5
# Members whose scores are all listed.
MOST_ROWS = 300
# Members whose table is open, and those that it lists.
MOST_OPEN, MOST_LISTED = 50, 1000
# Columns of metadata that tables of results have under these names; others are settings.
_NAMED = ("data", "model", "seed")
_HEADS = {"id": "member"}
# Images in a row.
PICTURES = 9
# More are not drawn over the factors.
MOST_CODES = 12


@single_precision
def write_report(study: Study, out: str | Path, members: Sequence[Member] | None = None) -> Path:
    """Write ``report.html`` into a study's directory from its published cells and ``results.csv``; returns its path."""
    store, members = Store(out), list(cells(study)) if members is None else members
    store.check({**study.describe(), "name": store.description().get("name")})  # a report may be called otherwise
    everything = Subject.of(study, _results(study, store, members))
    subject = everything.last(members)
    members = [member for member in members if member.last]
    each = lambda section, rows=subject: sections.by_data(section, rows)  # noqa: E731
    by_id = {member.train: member for member in members}
    opening = _opening(subject, store, by_id)
    versions = {"jaxdis": __version__, "jax": jax.__version__, "python": platform.python_version()}
    configuration = json.dumps({"versions": versions, **study.describe()}, indent=1, ensure_ascii=False, default=str)
    chapters = [
        ("Scores", each(sections.scores)),
        ("How dependent are codes on each other?", each(lambda rows: pictures(figures.dependence(rows)))),
        ("How metrics agree", each(sections.agreement)),
        ("Do scores depend on the relation?", each(lambda rows: pictures(figures.blends(rows), shown=0))),
        ("Which factors are encoded together?", each(lambda rows: _together(rows, store, by_id))),
        ("Can scores be predicted without labels?", each(sections.unsupervised)),
        ("Do scores go with downstream performance?", each(lambda rows: pictures(figures.learning(rows)))),
        ("What explains a score", each(sections.explained)),
        ("Do good settings carry over?", sections.carried(subject)),
        ("Novel combinations", sections.novel(subject)),
        ("Training", _training(subject, store, members)),
        ("Scores along training", each(sections.along, everything)),
        ("What each metric asks", sections.glossary(subject)),
        ("All members", _all_members(subject)),
        ("Configuration", f"<pre>{html.escape(configuration)}</pre>"),
    ]
    path = store.root / "report.html"
    publish(path, page(study.title or study.name, chapters, opening).encode(), replace=True)
    return path


def _all_members(subject: Subject) -> str:
    """The table; if there are many members, with the main scores only."""
    text, names, labels = "", subject.names, list(subject.table)
    if len(subject) > MOST_ROWS:
        text, names = "<p>With the chief scores; all are in results.csv.</p>", subject.headline_columns()
    ends = [place for place, name in enumerate(labels) if name.startswith("final_")] or [4]
    return text + _listed(subject, [*(name for name in labels[: ends[0]] if name != "id"), *names])


def _listed(subject: Subject, names: Sequence[str]) -> str:
    """A table with a row per member, folded away if there are many; of very many, the best by the chief score."""
    columns, count, chief = subject.table, len(subject), subject.headline_columns(1)
    text, title = "", f"{count:,} members"
    if count > MOST_LISTED and chief:
        sign = 1 if subject.lower_is_better(chief[0]) else -1
        best = np.argsort(sign * columns[chief[0]], kind="stable")[:MOST_LISTED]
        columns = {name: columns[name][best] for name in names}
        words = f"the best {MOST_LISTED:,} members by {subject.titles[chief[0]]}"
        text, title = f"<p>Of {count:,} members, the best by one score; all are in results.csv.</p>", words
    rows = table_of([_HEADS.get(name, name) for name in names], {_HEADS.get(n, n): columns[n] for n in names})
    return text + (folded(title, rows) if count > MOST_OPEN else rows)


def _opening(subject: Subject, store: Store, members: dict[str, Member]) -> str:
    """For every data set: which setting is best, and its best member in pictures."""
    parts = []
    several = len(np.unique(subject.table["data"])) > 1
    for data, rows in subject.each():
        verdict, chosen = answer(rows), list(rows.headlines().values())
        row = best_member(rows, chosen) if chosen else _best(rows)
        member = members[str(rows.table["id"][row])]
        name = html.escape(f"{subject.setting_of(member.label)}, seed {member.label['seed']}")
        title = f"Which setting disentangles best{' on ' + html.escape(data) if several else ''}?"
        heading = f"<h2>{title}</h2>" if verdict else f"<h2>{html.escape(data)}</h2>"
        pictures = f"<h3>Best member of the best setting: {name}</h3>{figures.closer(subject.study, store, member)}"
        parts.append(heading + verdict + pictures)
    return "".join(parts)


def _together(subject: Subject, store: Store, members: dict[str, Member]) -> str:
    """Relations and merges of the best, the median and the worst member, folded away."""
    columns = subject.headline_columns()
    if subject.study.has_slots or not columns or len(subject) < 3:
        return ""
    relations = figures.structure(subject, store, members, columns[0])
    return pictures([*relations, *figures.merges(subject, store, members)], shown=0)


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


def _training(subject: Subject, store: Store, members: Sequence[Member]) -> str:
    """Losses of every setting by update: mean and standard deviation over its first seeds."""
    parts = [f"<p>Means and standard deviations over up to {MOST_CURVES} seeds of each setting.</p>"]
    data_of = [training.config.data for training in subject.study.trainings]
    for data in dict.fromkeys(data_of):
        trained = [member for member in members if data_of[member.training] == data]
        parts.append(f"<h3>{html.escape(data)}</h3>")
        by_setting: dict[str, list[Member]] = {}
        for member in trained:
            by_setting.setdefault(subject.setting_of(member.label), []).append(member)
        curves: dict[tuple[int, str], dict[str, list[np.ndarray]]] = {}
        for setting, alike in by_setting.items():
            for member in alike[:MOST_CURVES]:
                header, arrays = files.read_arrays(store.path("train", member.train, ".npz"))  # makes no zoo of it
                for name, curve in arrays.items():
                    field = name.removeprefix("losses/")
                    if field != name and np.any(curve[0]):
                        curves.setdefault((header["log_every"], field), {}).setdefault(setting, []).append(curve[0])
        for (log_every, field), lines in curves.items():
            parts.append(image(plots.loss_curves(lines, log_every, field), f"{field} by update"))
    return "".join(parts)


def write_codes_report(
    out: Path,
    scores: Scores,
    plan: Mapping[str, Metric],
    codes: np.ndarray,
    factors: Factors,
    title: str,
    images: np.ndarray | None = None,
) -> Path:
    """Write ``report.html`` and ``results.csv`` into a folder that exists; return the path of the former.

    The :attr:`~jaxdis.Scores.members` of ``scores`` hold seeds and settings; ``codes [m, n, d]`` and ``factors`` are
    what was scored, and ``images [n, h, w, c]``, real in [0, 1] or uint8, show the same samples.
    """
    subject = _subject(scores, plan, factors)
    several = len(np.unique(subject.table["data"])) > 1
    each = lambda section: sections.by_data(section, subject)  # noqa: E731
    # Metrics with their options, versions, samples, device and date.
    now = {"date": f"{datetime.datetime.now():%Y-%m-%d %H:%M}", "device": jax.devices()[0].device_kind}
    computed = json.dumps(now | scores.evaluation, indent=1, ensure_ascii=False)
    chapters = [
        ("Scores", each(sections.scores)),
        ("How metrics agree", each(sections.agreement)),
        ("Which factors are encoded where?", "" if several else _where(subject, codes, factors)),
        ("What do the codes of the best member show?", _shown(subject, codes, factors, images)),
        ("What explains a score", each(sections.explained)),
        ("Do good settings carry over?", sections.carried(subject)),
        ("What each metric asks", sections.glossary(subject)),
        ("All members", _listed(subject, list(subject.table))),
        ("How scores were computed", f"{listed(together(scores.notes))}<pre>{html.escape(computed)}</pre>"),
    ]
    scores.to_csv(out / "results.csv")
    opening = "".join(_opening_of_codes(rows) for _, rows in subject.each())
    path = out / "report.html"
    files.write_text(path, page(title, chapters, opening))
    return path


def _subject(scores: Scores, plan: Mapping[str, Metric], factors: Factors) -> Subject:
    """The table of a report: names, data, model, settings, seed, then scores."""
    rows = scores.members
    metadata = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    names = list(map(str, metadata.pop("member")))
    columns = {}
    for name, values in metadata.items():  # numbers where all entries are, else texts
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        columns[name] = np.array(values, float) if numbers else np.array([str("" if v is None else v) for v in values])
    settings = {name: column for name, column in columns.items() if name not in _NAMED}
    keys = list(zip(*(map(str, column) for column in settings.values()), strict=True)) or [()] * len(rows)
    named = {name: columns[name].tolist() for name in _NAMED if name in columns}
    texts = {n: np.array([f"{v:g}" if isinstance(v, float) else str(v) for v in column]) for n, column in named.items()}
    # The number of a member of its setting stands for a seed that is not told.
    numbered = np.array([str(keys[:place].count(key)) for place, key in enumerate(keys)])
    table = {"id": np.array(names), "data": texts.get("data", np.full(len(rows), "these codes"))}
    table |= {"model": texts.get("model", np.full(len(rows), "")), **settings, "seed": texts.get("seed", numbered)}
    table |= {name: np.asarray(column, float) for name, column in scores.items()}
    swept = next((name for name, column in settings.items() if column.dtype.kind == "f" and np.ptp(column) > 0), None)
    variants = {name: Variant(dict, swept) for name in table["model"]}
    held_out = scores.evaluation.get("held_out")
    others = f" (learners are evaluated on {held_out:,} that they are not trained on)" if held_out else ""
    sampled = f"{factors.num_samples:,} samples{others}"
    metrics = tuple(plan.items())
    return Subject(metrics, variants, factors.num_samples, sampled, table, tuple(scores), tuple(known(factors)))


def _opening_of_codes(subject: Subject) -> str:
    verdict, chosen = answer(subject), list(subject.headlines().values())
    if not verdict:
        return ""
    data = f" on {html.escape(str(subject.table['data'][0]))}"
    row = best_member(subject, chosen)
    name, seed = (subject.table[column][row] for column in ("id", "seed"))
    best = html.escape(f"{name} ({subject.settings[row]}, seed {seed})")
    return f"<h2>Which setting disentangles best{data}?</h2>{verdict}<p>Best member of the best setting: {best}.</p>"


def _where(subject: Subject, codes: np.ndarray, factors: Factors) -> str:
    """Mutual information of codes and factors, of the best, the median and the worst member."""
    columns = subject.headline_columns()
    if not columns or len(subject) < 3:
        return ""
    panels = []
    for which, row in figures.chosen_members(subject, columns[0]).items():
        strength = np.asarray(relate(codes[row], factors, RELATION).strength)
        panels.append((f"{which}: {subject.table['id'][row]}", strength))
    words = f"the best, the median and the worst member by {subject.titles[columns[0]]}"
    text = f"<p>{html.escape(RELATION.title or RELATION.name)} of every code and factor, for {html.escape(words)}.</p>"
    drawn = plots.relation_panels(panels, factors.names, len(panels))
    return text + image(drawn, f"relation of codes and factors: {words}")


def _shown(subject: Subject, codes: np.ndarray, factors: Factors, images: np.ndarray | None) -> str:
    """Each code of the best member over each factor, whose classes are named; images in the order of codes."""
    chosen = list(subject.headlines().values())
    if not chosen:
        return ""
    row = best_member(subject, chosen)
    strength = np.nan_to_num(np.asarray(relate(codes[row], factors, RELATION).strength))
    name, parts = subject.table["id"][row], []
    if strength.shape[0] <= MOST_CODES:
        words = f"Codes of the member {name} over the factors; the squares on the left are {RELATION.title.lower()}."
        values = np.asarray(factors.values)
        parts.append((plots.codes_and_factors(strength, codes[row], values, factors.names, factors.classes), words))
    if images is not None:
        best = strength.argmax(axis=0)
        places = np.linspace(0, len(images) - 1, PICTURES).round().astype(int)
        sheet = np.stack([images[np.argsort(codes[row][:, code], kind="stable")[places]] for code in best])
        names = [f"{factor}: code {code}" for factor, code in zip(factors.names, best, strict=True)]
        words = f"value of the code that says most about each factor, of the member {name}."
        parts.append((plots.image_grid(sheet, names), f"Images from the lowest to the highest {words}"))
    return "".join(f"<p>{html.escape(words)}</p>" + image(figure, words) for figure, words in parts)
