"""The report on codes of models that were trained elsewhere: the sections of a study's report, from scores alone."""

import datetime
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from jaxdis import plots
from jaxdis._core.files import write_text
from jaxdis.evaluation import Scores, relate
from jaxdis.evaluation._notes import known
from jaxdis.evaluation._score_table import together
from jaxdis.factors import Factors
from jaxdis.metrics import Metric
from jaxdis.models import Variant
from jaxdis.study.report import _sections as sections
from jaxdis.study.report._answer import answer, best_member, ranking
from jaxdis.study.report._code_groups import RELATION, chosen_members
from jaxdis.study.report._glossary import glossary
from jaxdis.study.report._html import image, page
from jaxdis.study.report._html import table as table_of
from jaxdis.study.report._subject import Outside, SomeSamples, Subject, setting_in_words

# Columns of metadata that tables of results have under these names; others are settings.
_NAMED = ("data", "model", "seed")
# Images in a row.
PICTURES = 9
# More are not drawn over the factors.
MOST_CODES = 12


def write_codes_report(
    out: Path,
    scores: Scores,
    plan: Mapping[str, Metric],
    codes: np.ndarray,
    factors: Factors,
    title: str,
    images: np.ndarray | None = None,
) -> Path:
    """Write ``report.html`` and ``results.csv`` into a folder; return the path of the former.

    Args:
      out: the folder, which exists.
      scores: for a zoo, whose :attr:`~jaxdis.Scores.members` hold seeds and settings.
      plan: the metrics by their names.
      codes, factors: ``[m, n, d]``, and what was scored.
      title: the page's title.
      images: ``[n, h, w, c]`` on the same samples, real in [0, 1] or uint8; None leaves out pictures.
    """
    subject = _subject(scores, plan, factors)
    several = len(np.unique(subject.table["data"])) > 1
    each = lambda section: sections.by_data(section, subject)  # noqa: E731
    chapters = [
        ("Scores", each(sections.scores)),
        ("How metrics agree", each(sections.agreement)),
        ("Which factors are encoded where?", "" if several else _where(subject, codes, factors)),
        ("What do the codes of the best member show?", _shown(subject, codes, factors, images)),
        ("What explains a score", each(sections.explained)),
        ("Do good settings carry over?", sections.carried(subject)),
        ("What each metric asks", glossary(subject)),
        ("All members", _all_members(subject)),
        ("How scores were computed", _configuration(scores)),
    ]
    scores.to_csv(out / "results.csv")
    opening = "".join(_opening(rows) for _, rows in subject.each())
    path = out / "report.html"
    write_text(path, page(title, [(name, body) for name, body in chapters if body], opening))
    return path


def _subject(scores: Scores, plan: Mapping[str, Metric], factors: Factors) -> Subject:
    """The table of a report: names, data, model, settings, seed, then scores."""
    rows = scores.members
    metadata = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    names = list(map(str, metadata.pop("member")))
    columns = {name: _column(values) for name, values in metadata.items()}
    settings = {name: column for name, column in columns.items() if name not in _NAMED}
    keys = list(zip(*(map(str, column) for column in settings.values()), strict=True)) or [()] * len(rows)
    table = {"id": np.array(names), "data": _texts(columns.get("data"), len(rows), "these codes")}
    table |= {"model": _texts(columns.get("model"), len(rows), "model"), **settings}
    table["seed"] = _texts(columns["seed"], len(rows), "") if "seed" in columns else _numbered(keys)
    table |= {name: np.asarray(column, float) for name, column in scores.items()}
    swept = next((name for name, column in settings.items() if column.dtype.kind == "f" and np.ptp(column) > 0), None)
    variants = {name: Variant(dict, swept) for name in table["model"]}
    samples = SomeSamples(factors.num_samples, scores.evaluation.get("held_out"))
    return Subject.of(Outside(tuple(plan.items()), variants, samples, tuple(known(factors))), table)


def _column(values: Sequence) -> np.ndarray:
    """Numbers where all entries are, else texts."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return np.array(values, float) if numbers else np.array(["" if value is None else str(value) for value in values])


def _texts(column: np.ndarray | None, count: int, missing: str) -> np.ndarray:
    if column is None:
        return np.array([missing] * count)
    return np.array([f"{value:g}" if isinstance(value, float) else str(value) for value in column.tolist()])


def _numbered(keys: Sequence[tuple]) -> np.ndarray:
    """Numbers of the members of each setting, which stand for seeds that are not told."""
    return np.array([str(keys[:place].count(key)) for place, key in enumerate(keys)])


def _opening(subject: Subject) -> str:
    verdict, chosen = answer(subject), list(subject.headlines().values())
    if not verdict:
        return ""
    data = f" on {html.escape(str(subject.table['data'][0]))}"
    row = best_member(subject, ranking(subject, chosen))
    label = {name: column[row] for name, column in subject.table.items()}
    names = list(subject.table)
    setting = {name: label[name] for name in names[names.index("model") : names.index("seed")]}
    best = html.escape(f"{label['id']} ({setting_in_words(subject.study, setting)}, seed {label['seed']})")
    return f"<h2>Which setting disentangles best{data}?</h2>{verdict}<p>Its best member is {best}.</p>"


def _where(subject: Subject, codes: np.ndarray, factors: Factors) -> str:
    """Mutual information of codes and factors, of the best, the median and the worst member."""
    columns = subject.headline_columns()
    if not columns or len(subject) < 3:
        return ""
    panels = []
    for which, row in chosen_members(subject, columns[0]).items():
        strength = np.asarray(relate(codes[row], factors, RELATION).strength)
        panels.append((f"{which}: {subject.table['id'][row]}", strength))
    words = f"the best, the median and the worst member by {subject.titles[columns[0]]}"
    text = f"<p>{html.escape(RELATION.title or RELATION.name)} of every code and factor, for {html.escape(words)}.</p>"
    return text + image(
        plots.relation_panels(panels, factors.names, len(panels)), f"relation of codes and factors: {words}"
    )


def _shown(subject: Subject, codes: np.ndarray, factors: Factors, images: np.ndarray | None) -> str:
    """Each code of the best member over each factor, whose classes are named; images in the order of codes."""
    chosen = list(subject.headlines().values())
    if not chosen:
        return ""
    row = best_member(subject, ranking(subject, chosen))
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
        words = (
            "Images from the lowest to the highest value of the code that says most about each factor, of the member "
        )
        parts.append((plots.image_grid(sheet, names), f"{words}{name}."))
    return "".join(f"<p>{html.escape(words)}</p>" + image(figure, words) for figure, words in parts)


def _all_members(subject: Subject) -> str:
    columns = {("member" if name == "id" else name): column for name, column in subject.table.items()}
    return table_of(list(columns), columns)


def _configuration(scores: Scores) -> str:
    """Metrics with their options, versions, samples, device and date; and notes on the scores."""
    computed = {"date": f"{datetime.datetime.now():%Y-%m-%d %H:%M}", "device": jax.devices()[0].device_kind}
    notes = "".join(f"<li>{html.escape(line)}.</li>" for line in together(scores.notes))
    text = json.dumps(computed | scores.evaluation, indent=1, ensure_ascii=False)
    return f"<ul>{notes}</ul><pre>{html.escape(text)}</pre>"
