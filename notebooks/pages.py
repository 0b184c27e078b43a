"""Pages of the documentation that are written from the library: one for each row of its tables, and one per package."""

import importlib
import inspect
import re
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from html import escape as as_text
from pathlib import Path

from latex2mathml.converter import convert
from sphinx.ext.napoleon import Config, GoogleDocstring

import jaxdis
from jaxdis._core.references import REFERENCES
from jaxdis.cli._listing import rows_of
from jaxdis.metrics import METRICS
from jaxdis.metrics._plan import without_order
from jaxdis.papers import PAPERS
from jaxdis.papers.harness import printed_in

# Sections of docstrings that are lists of names, besides those that napoleon knows.
SECTIONS = (("Options", "params_style"), ("Fields", "params_style"))
TABLES = {
    "metrics": "Metrics",
    "relations": "Relations",
    "scores": "Scores",
    "objectives": "Objectives",
    "models": "Models",
    "presets": "Settings of papers",
    "data": "Data sets",
    "studies": "Studies",
}
FORMULAS = tomllib.loads(Path(__file__).with_name("formulas.toml").read_text(encoding="utf-8"))
SYMBOLS = (
    "Codes are z₁ … z_d, factors y₁ … y_k. A relation has strengths r_ij of code i and factor j, with ceilings c_j; r̃"
    " is r / c, and (1), (2) are places in descending order. π assigns codes to factors one to one, V_j are the values"
    " of factor j, and A the codes that vary."
)
PACKAGES = ("jaxdis", *(f"jaxdis.{name}" for name in sorted(set(dir(jaxdis)) & {
    "codes", "data", "encoders", "metrics", "models", "papers", "plots", "relations", "scores", "structured", "study",
})))  # fmt: skip


def write(folder: Path) -> None:
    """Write all pages into a folder, whose former content is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for what, title in TABLES.items():
        _of_table(folder, what, title)
    _of_papers(folder)
    _of_packages(folder)
    _of_references(folder)


def escape(app, what, name, thing, options, lines: list[str]) -> None:
    """Keep bars, as of ``|x|``, and stars from being markup in docstrings."""
    lines[:] = [_plain_bars(line) for line in lines]


def _plain_bars(line: str) -> str:
    parts = re.split(r"(``.*?``)", line)
    return "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def _of_table(folder: Path, what: str, title: str) -> None:
    rows = rows_of(what)
    groups: dict[str, list] = {}
    for row in rows.values():
        groups.setdefault(row.group, []).append(row)
    lines = _heading(title, "=")
    for group, members in groups.items():
        lines += _heading(group[:1].upper() + group[1:], "-") if group else []
        lines += [".. list-table::", "   :widths: 30 70", ""]
        for row in members:
            lines += [f"   * - :doc:`{row.name} <{what}/{_file(row.name)}>`", f"     - {_literal_free(row.title)}"]
        lines += [""]
    lines += _of_orders() if what == "metrics" else []
    lines += [".. toctree::", "   :hidden:", "", *(f"   {what}/{_file(name)}" for name in rows)]
    _save(folder / f"{what}.rst", lines)
    for row in rows.values():
        _save(folder / what / f"{_file(row.name)}.rst", _page_of(row))


def _of_orders() -> list[str]:
    """What all metrics do with factors whose classes have no order."""
    kinds: dict[str, list[str]] = {}
    for name, metric in METRICS.items():
        if metric.about.reads_factors:
            kinds.setdefault(without_order(metric.source), []).append(f":doc:`{name} <metrics/{_file(name)}>`")
    said = "Text and unordered categories have no order. No score depends on how their classes are numbered:"
    lines = [f"- {kind}: {', '.join(names)}." for kind, names in sorted(kinds.items())]
    return [*_heading("Factors without an order", "-"), said, "", *lines, ""]


def _page_of(row) -> list[str]:
    """What ``jaxdis list TABLE NAME`` prints, as a page, and the sources."""
    summary, _, rest = row.detail.partition("\n\n")
    lines = [*_heading(row.name, "="), *_prose(summary), "", *_formulas(row.name), *_prose(rest)]
    lines += ["", *_planted(row.name)]
    cited = [key for key in row.references if key in REFERENCES]
    lines += ["", *(_heading("Sources", "-") if cited else [])]
    return [*lines, *(f"- {_in_full(key)}" for key in cited)]


def _formulas(name: str) -> list[str]:
    """The formulas of a row, which browsers draw without a script."""
    metric = METRICS.get(name)
    if hasattr(metric, "relation"):
        names = [("relations", metric.relation.name), ("scores", metric.score.name)]
    else:
        names = [(table, name) for table in FORMULAS]
    lines = [line for table, of in names for line in FORMULAS[table].get(of, ())]
    if not lines:
        return []
    drawn = [convert(line, display="block") for line in lines]
    spaced = (f'   <div style="margin: 1em 0; font-size: 1.1em">{formula}</div>' for formula in drawn)
    return [".. raw:: html", "", *spaced, "", f"*{_literal_free(SYMBOLS)}*", ""]


def _planted(name: str) -> list[str]:
    """A picture of the scores of planted cases, from the page of properties, for each column of a metric."""
    text = Path(__file__).with_name("properties.md").read_text(encoding="utf-8")
    head, _, *rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|"))
    cases = [re.sub(r"\[(.*)\]\(.*\)", r"\1", cell) for cell in head[1:]]
    pictures = [
        f"   {_bars(column.strip('`'), cases, cells)}"
        for column, *cells in rows
        if name in METRICS and re.fullmatch(rf"`{re.escape(name)}(\..*)?`", column)
    ]
    if not pictures:
        return []
    words = "Scores of planted cases with 95 % intervals; :doc:`/properties` describes the cases."
    return [*_heading("What it responds to", "-"), words, "", ".. raw:: html", "", *pictures, ""]


def _bars(column: str, cases: Sequence[str], cells: Sequence[str]) -> str:
    """Bars with intervals, as a picture in the color of the text."""
    numbers = [[float(number) for number in cell.split(" ± ")] for cell in cells]
    means, halves = [mean for mean, *_ in numbers], [half[0] if half else 0.0 for _, *half in numbers]
    low, high = min(0.0, *means), max(1.0, *means)
    left, width, step = 100, 340, 17

    def at(value: float) -> float:
        return left + width * (min(max(value, low), high) - low) / (high - low)

    drawn = [f'<text x="{left}" y="11" font-weight="bold">{as_text(column)}</text>']
    for place, (case, mean, half) in enumerate(zip(cases, means, halves, strict=True), 1):
        y, ends = place * step, sorted((at(0), at(mean)))
        drawn += [
            f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{as_text(case)}</text>',
            f'<rect x="{ends[0]:.1f}" y="{y + 2}" width="{ends[1] - ends[0]:.1f}" height="11" opacity=".45"/>',
            f'<path d="M{at(mean - half):.1f} {y + 7}H{at(mean + half):.1f}" stroke="currentColor"/>',
            f'<text x="{left + width + 8}" y="{y + 11}">{mean:.2f}</text>',
        ]
    size = f'viewBox="0 0 {left + width + 60} {(len(cases) + 1) * step + 4}" width="{left + width + 60}"'
    style = 'font-size="11" font-family="inherit" fill="currentColor" style="max-width: 100%; margin: 1em 0"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {style}>{"".join(drawn)}</svg>'


def _of_papers(folder: Path) -> None:
    lines = _heading("Five papers", "=")
    lines += ["``jaxdis reproduce PAPER --out DIR`` runs a paper's protocol and writes its page.", ""]
    for key in PAPERS:
        printed = printed_in(f"jaxdis.papers.{key}")
        page = [*_heading(key, "="), _literal_free(printed.citation), "", "::", ""]
        page += [f"   jaxdis reproduce {key} --out papers --plan", "", *_heading("Claims that are checked", "-")]
        page += [f"- {_literal_free(claim.says)} ({_literal_free(claim.where)})" for claim in printed.claims.values()]
        page += ["", *_heading("Tables that are compared", "-")]
        tables = printed.tables.values() if hasattr(printed.tables, "values") else printed.tables
        page += [f"- {_literal_free(f'{table.label}: {table.title}')}" for table in tables]
        _save(folder / "papers" / f"{key}.rst", page)
    _save(folder / "papers.rst", [*lines, *_contents(f"papers/{key}" for key in PAPERS)])


def _of_packages(folder: Path) -> None:
    described: dict[int, str] = {}
    for name in PACKAGES:
        module = importlib.import_module(name)
        lines = [*_heading(name, "="), f".. automodule:: {name}", "   :no-members:", ""]
        for member in sorted(module.__all__, key=str.lower):
            thing, path = getattr(module, member), f"{name}.{member}"
            first = described.setdefault(id(thing), path)
            lines += _of_name(path, thing) if first == path else [f"``{path}`` is :py:obj:`{first}`.", ""]
        _save(folder / "api" / f"{name}.rst", lines)
    _save(
        folder / "api.rst", [*_heading("Packages", "="), ".. toctree::", "", *(f"   api/{name}" for name in PACKAGES)]
    )


def _of_name(path: str, thing) -> list[str]:
    if inspect.isclass(thing):
        return [f".. autoclass:: {path}", "   :members:", "   :inherited-members: dict, tuple", ""]
    if isinstance(thing, dict):
        return [f".. py:data:: {path}", "", f"   {len(thing)} entries by name: {', '.join(map(str, thing))}.", ""]
    return [f".. autofunction:: {path}", ""] if callable(thing) else []


def _of_references(folder: Path) -> None:
    lines = [*_heading("References", "="), "``jaxdis list references --bibtex KEY`` prints an entry to cite.", ""]
    lines += [f"- {_in_full(key)}" for key in sorted(REFERENCES)]
    _save(folder / "sources.rst", lines)


def _prose(text: str) -> list[str]:
    """Plain text with lists and sections of names, as reStructuredText."""
    config = Config(napoleon_custom_sections=list(SECTIONS), napoleon_use_rtype=False, napoleon_use_ivar=True)
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("- ") and lines and lines[-1] and not lines[-1].startswith(("- ", "  ")):
            lines.append("")
        signature = re.fullmatch(r"\w+\(.*\)", line)
        lines.append(f"``{line}``" if signature else _literal_free(line))
    return GoogleDocstring(lines, config).lines()


def _in_full(key: str) -> str:
    """A publication with the key by which it is cited, and where to read it."""
    source = REFERENCES[key]
    authors = ", ".join(" ".join(reversed(author.split(", "))) for author in source.authors)
    words = _literal_free(f"{authors} ({source.year}). {source.title}. {source.place}.")
    return rf"\ {words} `{key} <{source.url}>`__"  # initials alone would begin a numbered list


def _contents(names: Iterable[str]) -> list[str]:
    return [".. toctree::", "", *(f"   {name}" for name in names)]


def _heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _file(name: str) -> str:
    return name.replace("/", "_")


def _literal_free(text: str) -> str:
    """Text in which nothing is markup."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def _save(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
