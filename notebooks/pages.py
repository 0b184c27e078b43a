"""Pages of the documentation that are written from the library: one for each row of its tables, and one per package."""

import importlib
import inspect
import re
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from latex2mathml.converter import convert
from sphinx.ext.napoleon import Config, GoogleDocstring

import jaxdis
from jaxdis._core.references import REFERENCES
from jaxdis.cli._listing import rows_of
from jaxdis.metrics import METRICS
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
    lines += [".. toctree::", "   :hidden:", "", *(f"   {what}/{_file(name)}" for name in rows)]
    _save(folder / f"{what}.rst", lines)
    for row in rows.values():
        _save(folder / what / f"{_file(row.name)}.rst", _page_of(row))


def _page_of(row) -> list[str]:
    """What ``jaxdis list TABLE NAME`` prints, as a page, and the sources."""
    summary, _, rest = row.detail().partition("\n\n")
    lines = [*_heading(row.name, "="), *_prose(summary), "", *_formulas(row.name), *_prose(rest)]
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
        return [f".. autoclass:: {path}", "   :members:", ""]
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
    return f"{words} `{key} <{source.url}>`__"


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
