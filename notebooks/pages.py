"""Pages of the documentation that are written from the library: one for each row of its tables, and one per package."""

import functools
import importlib
import inspect
import json
import math
import re
import shutil
import statistics
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from html import escape as as_text
from pathlib import Path

from latex2mathml.converter import convert
from sphinx.ext.napoleon import Config, GoogleDocstring

import gallery
import jaxdis
import outputs
from jaxdis._core.references import REFERENCES
from jaxdis.cli._listing import rows_of
from jaxdis.evaluation._costs import Size, seconds_at
from jaxdis.metrics import METRICS, Blend
from jaxdis.metrics._plan import (
    PRESETS,
    STANDARD,
    STANDARD_OF_ENCODERS,
    without_order,
)
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
    "presets": "Published trainings",
    "data": "Data sets",
    "studies": "Studies",
}
# By which words a table is found, beside its title.
TERMS = {
    "metrics": (
        "metrics",
        "list of metrics",
        "disentanglement metrics",
        "all metrics",
        "scores of disentanglement",
    ),
    "data": ("dataset", "datasets", "data set", "images"),
    "models": ("architectures", "autoencoder", "VAE"),
    "objectives": ("loss functions", "objective"),
}
FORMULAS = tomllib.loads(
    Path(__file__).with_name("formulas.toml").read_text(encoding="utf-8")
)
# What symbols mean, and the formulas that have them.
SYMBOLS = {
    "": "Codes are z₁ … z_d, factors y₁ … y_k.",
    r"r_|tilde": "A relation has strengths r_ij of code i and factor j.",
    r"c_|tilde": "Its ceilings are c_j.",
    r"tilde": "r̃ is r / c.",
    r"\(1\)|\(2\)|\(i\)": "(1), (2) are places in descending order.",
    r"pi": "π assigns codes to factors one to one.",
    r"V_": "V_j are the values of factor j.",
    r"(?<![A-Za-z])A(?![A-Za-z])": "A are the codes that vary.",
}
PACKAGES = ("jaxdis", *(f"jaxdis.{name}" for name in sorted(set(dir(jaxdis)) & {
    "codes", "data", "encoders", "metrics", "models", "papers", "plots", "relations", "scores", "structured", "study",
})))  # fmt: skip


def write(folder: Path) -> None:
    """Write all pages into a folder, whose former content is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for what, title in TABLES.items():
        _of_table(folder, what, title)
    _of_presets(folder)
    _of_gallery(folder)
    _of_papers(folder)
    _of_packages(folder)
    _of_references(folder)


def escape(app, what, name, thing, options, lines: list[str]) -> None:
    """Keep bars, as of ``|x|``, and stars from being markup in docstrings."""
    lines[:] = [_plain_bars(line) for line in lines]


def shorten(app, what, name, thing, options, signature, returned):
    """Leave out the arguments of objects that are defaults, and what Flax adds."""
    if signature is None:
        return None
    signature = re.sub(r", parent=<[^>]*>, name=None", "", signature)
    for _ in range(3):  # as deep as they are nested
        signature = re.sub(r"(=\w+)\([^()…]+\)", r"\1(…)", signature)
    return signature, returned


def _plain_bars(line: str) -> str:
    parts = re.split(r"(``.*?``)", line)
    return "".join(
        part if part.startswith("``") else part.replace("|", r"\|") for part in parts
    )


def _of_table(folder: Path, what: str, title: str) -> None:
    rows = rows_of(what)
    groups: dict[str, list] = {}
    for row in rows.values():
        groups.setdefault(row.group, []).append(row)
    lines = [
        *_heading(title, "="),
        *(f".. index:: ! {term}" for term in TERMS.get(what, ())),
        "",
    ]
    if what == "metrics":
        lines += [
            "[standard]: computed when you name no metric. [differentiable]: may be :doc:`a term of a loss"
        ]
        lines += ["</metric_as_a_loss>`. :doc:`/which_metric` helps you choose.", ""]
    for group, members in groups.items():
        lines += _heading(group[:1].upper() + group[1:], "-") if group else []
        lines += [".. list-table::", "   :widths: 30 70", ""]
        for row in members:
            lines += [
                f"   * - :doc:`{row.name} <{what}/{_file(row.name)}>`",
                f"     - {_literal_free(row.title)}",
            ]
        lines += [""]
    lines += _of_orders() if what == "metrics" else []
    lines += [
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   {what}/{_file(name)}" for name in rows),
    ]
    _save(folder / f"{what}.rst", lines)
    for row in rows.values():
        metric = METRICS.get(row.name) if what == "metrics" else None
        page = _page_of(row) if metric is None else _page_of_metric(row, metric)
        _save(folder / what / f"{_file(row.name)}.rst", page)


def _of_orders() -> list[str]:
    """What all metrics do with factors whose classes have no order."""
    kinds: dict[str, list[str]] = {}
    for name, metric in METRICS.items():
        if metric.about.reads_factors:
            kinds.setdefault(without_order(metric.source), []).append(
                f":doc:`{name} <metrics/{_file(name)}>`"
            )
    said = "Text and unordered categories have no order. No score depends on how their classes are numbered:"
    lines = [f"- {kind}: {', '.join(names)}." for kind, names in sorted(kinds.items())]
    return [*_heading("Factors without an order", "-"), said, "", *lines, ""]


def _page_of(row) -> list[str]:
    """What ``jaxdis list TABLE NAME`` prints, as a page, and the sources."""
    summary, _, rest = row.detail.partition("\n\n")
    spec = jaxdis.RELATIONS.get(row.name) or jaxdis.SCORES.get(row.name)
    lines = [
        *_heading(row.name, "="),
        f".. index:: ! {row.name}",
        "",
        *_prose(summary),
        "",
        *_formulas(row.name),
    ]
    if row.name.startswith("jaxdis."):
        module, _, name = row.name.rpartition(".")
        doc = inspect.getdoc(getattr(importlib.import_module(module), name)).partition(
            "\n\n"
        )[2]
        return [*lines, *_docs(doc), "", *_sources(row)]
    if spec is not None and rest:
        options = ", ".join(
            f"{key}={value!r}" for key, value in spec.all_options.items()
        )
        doc = _without_formula(inspect.getdoc(spec.function) or "")
        return [
            *lines,
            f"``{spec.name}({options})``",
            "",
            *_docs(doc),
            "",
            *_sources(row),
        ]
    return [*lines, *_prose(rest), "", *_sources(row)]


def _sources(row) -> list[str]:
    cited = [key for key in row.references if key in REFERENCES]
    return [
        *(_heading("Sources", "-") if cited else []),
        *(f"- {_in_full(key)}" for key in cited),
    ]


# What objectives of the example are called.
OBJECTIVES = {"beta": "β-VAE", "beta_tc": "β-TCVAE", "dip_ii": "DIP-VAE-II"}
# Samples × codes for which a page says how long a metric takes.
SIZES = ((1_000, 10), (10_000, 10), (100_000, 10), (10_000, 100), (10_000, 1_000))
DSPRITES = (3, 6, 40, 32, 32)


def _page_of_metric(row, metric) -> list[str]:
    """A metric: what it asks, facts, a call with its output, the formula, when it misleads, cost, options, sources."""
    name, about = row.name, metric.about
    acronym = re.search(r"\(([A-Za-z-]+)\)$", about.title)
    terms = dict.fromkeys(
        [name, *([acronym[1]] if acronym else []), about.title.partition(" (")[0]]
    )
    lines = [
        *_heading(about.title, "="),
        *(f".. index:: ! {term}" for term in terms),
        "",
    ]
    lines += [f"*{_literal_free(about.question)}*", "", *_pairs(_facts(name, metric))]
    lines += [*_heading("Call", "-"), ".. code-block:: python", ""]
    lines += [f"   {line}" for line in outputs.CALL.replace("NAME", name).splitlines()]
    printed = json.loads(outputs.RECORD.read_text(encoding="utf-8"))[name]
    lines += [
        "",
        ".. code-block:: text",
        "",
        *(f"   {line}" for line in printed.splitlines()),
        "",
        *_of_zoo(name),
    ]
    formulas = _formulas(name)
    lines += [*(_heading("Formula", "-") if formulas else []), *formulas]
    lines += [*_planted(name), *_cost(metric), *_heading("Options and contract", "-")]
    for spec in metric.specs:
        lines += _of_spec(spec)
    return [*lines, "", *_sources(row)]


def _facts(name: str, metric) -> Iterator[tuple[str, str]]:
    """What to know of a metric at a glance: pairs of a word and what follows it."""
    about, source = metric.about, metric.source
    standard = " It is computed when you name no metric." if name in STANDARD else ""
    if name in STANDARD_OF_ENCODERS and not standard:
        standard = " It is computed for encoders when you name no metric."
    yield "Name", f"``{name}``, in Python and in the shell.{standard}"
    if claimed := ", ".join(
        dict.fromkeys(aspect for each in about.claims.values() for aspect in each)
    ):
        yield "Measures", f"{claimed}, by its authors' claim"
    yield "Best value", "the lowest" if "score" in metric.errors else "the highest"
    if about.chance:
        fields = {
            field: f"{low:g} to {high:g}" for field, (low, high) in about.chance.items()
        }
        ranges = (
            text if field == "score" else f"{field} {text}"
            for field, text in fields.items()
        )
        yield "Chance level", f"{', '.join(ranges)}, at 2,000 samples"
    if about.reads_factors:
        kinds = (
            "discrete; continuous ones are left out"
            if source.needs_classes
            else "discrete or continuous"
        )
        kinds += (
            ", unless ``factor_bins`` cuts them"
            if "factor_bins" in source.all_options
            else ""
        )
        yield (
            "Factors",
            f"{kinds}. Those without an order {_literal_free(without_order(source))}.",
        )
    if source.reads.test:
        yield "Held-out samples", "needed: ``test=``, or a third of the samples"
    if source.reads.variances:
        yield "Posterior variances", "read, if given by ``variances=``"
    if about.intervenes:
        yield (
            "Simulator",
            "``evaluate_encoder`` renders images with a factor held; ``evaluate`` groups the samples",
        )
    told = (
        "yes: it may be :doc:`a term of a loss </metric_as_a_loss>`"
        if about.differentiable
        else "no"
    )
    if not about.differentiable and source.reads.variances:
        told += ", unless variances are given"
    yield "Differentiable", told
    if related := _related(name, metric):
        yield "Related", related


def _related(name: str, metric) -> str:
    """The relation and the score of a metric, and other metrics of the same."""
    told = []
    for table, spec in (
        zip(("relation", "score"), metric.specs, strict=False)
        if isinstance(metric, Blend)
        else ()
    ):
        known = spec.name in getattr(jaxdis, f"{table.upper()}S")
        page = (
            f":doc:`{spec.name} </reference/{table}s/{spec.name}>`"
            if known
            else f"``{spec.name}``"
        )
        told.append(f"{table} {page}")
    others = {other: each for other, each in METRICS.items() if other != name}
    same = [
        other
        for other, each in others.items()
        if each.source.function == metric.source.function
    ]
    if claims := () if same else metric.about.claims.get("score", ()):
        same = [
            other
            for other, each in others.items()
            if each.about.claims.get("score", ()) == claims
        ]
    told += (
        [", ".join(f":doc:`{other} <{_file(other)}>`" for other in same[:8])]
        if same
        else []
    )
    return "; ".join(told)


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    lines = [
        ".. list-table::",
        "   :widths: 22 78",
        "   :stub-columns: 1",
        "   :class: facts",
        "",
    ]
    for word, rest in pairs:
        lines += [f"   * - {word}", f"     - {rest}"]
    return [*lines, ""]


def _cost(metric) -> list[str]:
    """How long one member takes at several sizes, by the formulas with which an evaluation is announced."""
    told = [
        (n, d, seconds_at(metric.source, Size.of(n, d, DSPRITES))) for n, d in SIZES
    ]
    if not all(seconds for *_, seconds in told):
        return []
    lines = [
        *_heading("Cost", "-"),
        "Time of one member on one core, with the factors of dSprites:",
        "",
    ]
    lines += [
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - samples × codes",
        "     - about",
    ]
    for n, d, seconds in told:
        lines += [f"   * - {n:,} × {d:,}", f"     - {_about(seconds)}"]
    others = "Metrics that share a relation or a learner compute it once when they are scored together."
    return [
        *lines,
        "",
        f"{others} :doc:`/every_metric` compares all, :doc:`/growth` says how times grow.",
        "",
    ]


def _about(seconds: float) -> str:
    """One significant digit, in the unit that suits."""
    for unit, size in (("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.1g}'):,.0f} {unit}"
    return f"{float(f'{1e3 * seconds:.1g}'):g} ms"


def _of_spec(spec) -> list[str]:
    """The docstring of a relation or a score: a link to its page and the options alone, if it has one."""
    for table in ("relations", "scores"):
        if spec.name in getattr(jaxdis, table.upper()):
            page = f":doc:`{spec.name} </reference/{table}/{spec.name}>`"
            options = _docs(_options_in(inspect.getdoc(spec.function) or ""))
            said = f"The {table[:-1]}, {page}" + (
                ", takes" if options else ", has no options."
            )
            defaults = ", ".join(
                f"``{key}={value!r}``" for key, value in spec.all_options.items()
            )
            return [f"{said} {defaults}:" if options else said, "", *options, ""]
    defaults = ", ".join(f"{key}={value!r}" for key, value in spec.all_options.items())
    return [
        f"``{spec.name}({defaults})``",
        "",
        *_docs(_without_formula(inspect.getdoc(spec.function) or "")),
        "",
    ]


def _options_in(doc: str) -> str:
    found = re.search(r"^Options:\n(?:[ ].*\n?|\n(?=[ ]))+", doc, re.MULTILINE)
    return found[0] if found else ""


def _without_formula(doc: str) -> str:
    """A docstring without the formulas that begin paragraphs, which the page has drawn."""
    instead = {": ": "", ", ": "Here ", " with ": "With ", ". ": "", ".": ""}

    def rest(match: re.Match) -> str:
        return instead[match[2]] if len(match[1]) > 24 else match[0]

    formula = r"(?<=\n\n)``([^`]*[Σ√/][^`]*)``(: |, | with |\. |\.)"
    return re.sub(formula, rest, doc)


def _docs(doc: str) -> list[str]:
    """A docstring as reStructuredText, with its roles."""
    config = Config(
        napoleon_custom_sections=list(SECTIONS),
        napoleon_use_rtype=False,
        napoleon_use_ivar=True,
    )
    return GoogleDocstring(
        [_plain_bars(line) for line in doc.splitlines()], config
    ).lines()


_LOG = "<mi>log</mi>"


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
    drawn = [
        convert(line, display="block").replace(_LOG, f'{_LOG}<mspace width="0.17em"/>')
        for line in lines
    ]
    spaced = (f'   <div class="formula">{formula}</div>' for formula in drawn)
    words = " ".join(
        word for symbol, word in SYMBOLS.items() if re.search(symbol, " ".join(lines))
    )
    return [".. raw:: html", "", *spaced, "", _literal_free(words), ""]


# What cases of the page of properties are, in words; in which of them no code mixes factors, and in which codes do.
WHOLE = {
    "dead": "constant codes beside the right ones",
    "4 noise": "4 codes of noise beside the right ones",
    "16 noise": "16 codes of noise beside the right ones",
    "bent": "a monotone map of each factor",
    "shuffled": "a map of each factor that is not monotone",
    "dependent": "factors that depend on each other",
    "unbalanced": "unbalanced classes",
    "few": "few samples (200)",
}
COPIED = {"twice": "a second code for each factor", "copied": "a copy of each code"}
MIXED = {
    "15°": "codes rotated by 15°",
    "30°": "codes rotated by 30°",
    "45°": "codes rotated by 45°",
    "swirled": "codes mixed by a map that is not linear",
    "synergy": "codes that know a factor only together",
}
# A change of the score, as a share of that of one code per factor, from which on a case counts as noticed.
NOTICED = 0.1


@functools.cache
def _cases() -> tuple[list[str], dict[str, list[str]]]:
    """The cases of the page of properties, and the cells of each column of a metric."""
    text = Path(__file__).with_name("properties.md").read_text(encoding="utf-8")
    head, _, *rows = (
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith("|")
    )
    cases = [re.sub(r"\[(.*)\]\(.*\)", r"\1", cell) for cell in head[1:]]
    return cases, {column.strip("`"): cells for column, *cells in rows}


def _planted(name: str) -> list[str]:
    """When a metric misleads, and a picture of the scores of planted cases, for each of its columns."""
    cases, columns = _cases()
    own = {
        column: cells
        for column, cells in columns.items()
        if column == name or column.startswith(f"{name}.")
    }
    if not own or name not in METRICS:
        return []
    misleading = [
        line
        for column, cells in own.items()
        for line in _misleads(column, cases, cells, METRICS[name])
    ]
    words = "Scores of planted cases with 95 % intervals; :doc:`/properties` describes the cases."
    pictures = [f"   {_bars(column, cases, cells)}" for column, cells in own.items()]
    told = [*_heading("When it misleads", "-"), *misleading, ""] if misleading else []
    return [
        *told,
        *_heading("What it responds to", "-"),
        words,
        "",
        ".. raw:: html",
        "",
        *pictures,
        "",
    ]


def _misleads(
    column: str, cases: Sequence[str], cells: Sequence[str], metric
) -> list[str]:
    """What lowers a column though no code mixes factors, and which mixtures do not lower it."""
    numbers = {
        case: float(cell.split(" ± ")[0])
        for case, cell in zip(cases, cells, strict=True)
    }
    ideal = numbers["one each"]
    if metric.errors or not 0.5 <= ideal <= 1.05:
        return []

    def listed(words: dict[str, str], lowered: bool) -> str:
        found = [
            case for case in words if (numbers[case] < ideal * (1 - NOTICED)) == lowered
        ]
        return ", ".join(f"{words[case]} ({numbers[case]:.2f})" for case in found)

    lines = []
    if low := listed(WHOLE, True):
        lines.append(
            f"- ``{column}``, {ideal:.2f} for one code per factor, falls without any mixing: {low}."
        )
    if low := listed(COPIED, True):
        lines.append(
            f"- ``{column}`` falls where nothing but a redundant code is added: {low}."
        )
    if high := listed(MIXED, False):
        lines.append(
            f"- ``{column}`` stays within 10 % of {ideal:.2f} although codes mix factors: {high}."
        )
    return lines


# Of pictures: the width of words at the left and of what is drawn beside them, and the height of a line.
LEFT, WIDTH, STEP = 100, 340, 17


def _of_zoo(name: str) -> list[str]:
    """A picture of a metric's scores of all models of the example, from what ``outputs.py`` records."""
    columns, objectives = _scores_of_zoo()
    own = {
        column: numbers
        for column, numbers in columns.items()
        if column.partition(".")[0] == name and any(map(math.isfinite, numbers))
    }
    if not own:
        return []
    words = "All 30 models of the example, a point each. Filled ones are those above, lines are medians:"
    pictures = (f"   {_points(column, objectives, own[column])}" for column in own)
    return [words, "", ".. raw:: html", "", *pictures, ""]


@functools.cache
def _scores_of_zoo() -> tuple[dict[str, list[float]], list[str]]:
    """The recorded columns, and each model's objective."""
    *_, table = jaxdis.data.example()
    recorded = json.loads(outputs.ZOO.read_text(encoding="utf-8"))
    return recorded, [OBJECTIVES[row["objective"]] for row in table]


def _points(column: str, objectives: Sequence[str], numbers: Sequence[float]) -> str:
    """A row of points for each objective, as a picture in the color of the text."""
    finite = [number for number in numbers if math.isfinite(number)]
    low, high = min(0.0, *finite), max(0.0, *finite)
    if high == 0 or 0.3 < high < 1:  # of small scores, what is there fills the width
        high = 1.0

    def at(value: float) -> float:
        return LEFT + WIDTH * (value - low) / (high - low)

    drawn = [f'<text x="{LEFT}" y="11" font-weight="bold">{as_text(column)}</text>']
    rows = list(dict.fromkeys(objectives))
    for place, row in enumerate(rows, 1):
        y = place * STEP + 7
        own = [
            (at(number), model in outputs.MODELS)
            for model, number in enumerate(numbers)
            if objectives[model] == row and math.isfinite(number)
        ]
        drawn += [
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{as_text(row)}</text>',
            f'<path d="M{LEFT} {y}h{WIDTH}" stroke="currentColor" opacity=".2"/>',
        ]
        drawn += [
            f'<circle cx="{x:.1f}" cy="{y}" r="3.5" stroke="currentColor" fill-opacity="{".8" if called else ".15"}"/>'
            for x, called in own
        ]
        if own:
            middle = statistics.median(x for x, _ in own)
            drawn += [
                f'<path d="M{middle:.1f} {y - 7}v14" stroke="currentColor" stroke-width="2"/>'
            ]
    y = (len(rows) + 1) * STEP + 8
    drawn += [
        f'<text x="{at(value):.1f}" y="{y}" text-anchor="middle">{value:.3g}</text>'
        for value in (low, (low + high) / 2, high)
    ]
    said = f"{as_text(column)} of {len(numbers)} models, by objective: {min(finite):.2g} to {max(finite):.2g}"
    return _picture(f"Points: {said}", drawn, y + 6)


def _picture(label: str, drawn: Sequence[str], height: int) -> str:
    """What is drawn, in the color of the text, with words for those who do not see it."""
    size = f'viewBox="0 0 {LEFT + WIDTH + 60} {height}" width="{LEFT + WIDTH + 60}"'
    style = 'font-size="11" font-family="inherit" fill="currentColor" style="max-width: 100%; margin: 1em 0"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" {size} {style}>'
    return f"{begin}{''.join(drawn)}</svg>"


def _bars(column: str, cases: Sequence[str], cells: Sequence[str]) -> str:
    """Bars with intervals, as a picture in the color of the text."""
    numbers = [[float(number) for number in cell.split(" ± ")] for cell in cells]
    means, halves = (
        [mean for mean, *_ in numbers],
        [half[0] if half else 0.0 for _, *half in numbers],
    )
    low, high = min(0.0, *means), max(1.0, *means)

    def at(value: float) -> float:
        return LEFT + WIDTH * (min(max(value, low), high) - low) / (high - low)

    drawn = [f'<text x="{LEFT}" y="11" font-weight="bold">{as_text(column)}</text>']
    for place, (case, mean, half) in enumerate(
        zip(cases, means, halves, strict=True), 1
    ):
        y, ends = place * STEP, sorted((at(0), at(mean)))
        drawn += [
            f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{as_text(case)}</text>',
            f'<rect x="{ends[0]:.1f}" y="{y + 2}" width="{ends[1] - ends[0]:.1f}" height="11" opacity=".45"/>',
            f'<path d="M{at(mean - half):.1f} {y + 7}H{at(mean + half):.1f}" stroke="currentColor"/>',
            f'<text x="{LEFT + WIDTH + 8}" y="{y + 11}">{mean:.2f}</text>',
        ]
    label = f"Bars: scores of {as_text(column)} in {len(cases)} planted cases"
    return _picture(label, drawn, (len(cases) + 1) * STEP + 4)


def _of_presets(folder: Path) -> None:
    """What ``evaluate(preset=…)`` knows, from the library's own table."""
    lines = [
        *_heading("Presets: numbers of other libraries", "="),
        ".. index:: ! preset, ! presets",
        "",
    ]
    lines += [
        "``jaxdis.evaluate(codes, factors, preset='latte')`` or ``jaxdis score codes.npz --preset latte`` computes"
    ]
    lines += [
        "all metrics of a preset, and ``metrics=`` some of them. Options that differ from the defaults are listed;"
    ]
    lines += [
        ":doc:`/agreement` has the numbers side by side, and :doc:`/coming_from` the names in the libraries.",
        "",
    ]
    for preset, table in PRESETS.items():
        lines += [
            *_heading(preset, "-"),
            ".. list-table::",
            "   :header-rows: 1",
            "   :widths: 30 70",
            "",
        ]
        lines += ["   * - metric", "     - as jaxdis computes it"]
        for name, metric in table.items():
            page = (
                f":doc:`{name} <metrics/{_file(name)}>`"
                if name in METRICS
                else f"``{name}``"
            )
            lines += [f"   * - {page}", f"     - {_computed(name, metric)}"]
        lines += [""]
    _save(folder / "other_libraries.rst", lines)


def _computed(name: str, metric) -> str:
    """Functions with the options that differ from those of the metric of the same name."""
    usual = METRICS.get(name)
    if usual is not None and metric.specs == usual.specs:
        return "by its defaults"
    parts = []
    for spec in metric.specs:
        options = ", ".join(f"{key}={value!r}" for key, value in spec.options)
        parts.append(f"``{spec.name}({options})``" if options else f"``{spec.name}``")
    return " → ".join(parts)


def _of_gallery(folder: Path) -> None:
    """Pictures of everything that the library draws, with the lines that draw them."""
    gallery.draw(folder / "pictures")
    lines = [
        *_heading("Gallery", "="),
        ".. index:: ! gallery, ! figures, ! plots, ! pictures, ! matplotlib",
        "",
    ]
    lines += [
        "Figures that jaxdis draws, here of the codes in the package. Functions return figures of matplotlib.",
        "",
    ]
    lines += [".. container:: gallery", ""]
    for drawn in gallery.FIGURES:
        lines += [
            f"   .. image:: pictures/{drawn.name}.svg",
            f"      :alt: {drawn.words}",
        ]
        lines += [f"      :target: #{drawn.name.replace('_', '-')}", ""]
    lines += ["All begin with", "", ".. code-block:: python", ""]
    lines += [*(f"   {line}" for line in gallery.BEGIN.splitlines()), ""]
    for drawn in gallery.FIGURES:
        lines += [
            f".. _{drawn.name.replace('_', '-')}:",
            "",
            *_heading(drawn.name.replace("_", " ").capitalize(), "-"),
        ]
        lines += [f"{drawn.words} :py:obj:`{drawn.function}`", ""]
        lines += [
            f".. image:: pictures/{drawn.name}.svg",
            f"   :alt: {drawn.words}",
            "   :class: drawn",
            "",
        ]
        lines += [
            ".. raw:: html",
            "",
            "   <details><summary>Code</summary>",
            "",
            ".. code-block:: python",
            "",
        ]
        lines += [*(f"   {line}" for line in drawn.lines.splitlines()), ""]
        lines += [".. raw:: html", "", "   </details>", ""]
    _save(folder / "gallery.rst", lines)


def _of_papers(folder: Path) -> None:
    lines = _heading("Five papers", "=")
    lines += [
        "``jaxdis reproduce PAPER --out DIR`` runs a paper's protocol and writes its page.",
        "",
    ]
    for key in PAPERS:
        printed = printed_in(f"jaxdis.papers.{key}")
        page = [*_heading(_title_of(key), "="), f".. index:: ! {key}", ""]
        page += [_literal_free(printed.citation), "", ".. code-block:: sh", ""]
        page += [
            f"   jaxdis reproduce {key} --out papers --plan",
            "",
            *_heading("Claims that are checked", "-"),
        ]
        page += [
            f"- {_literal_free(claim.says)} ({_literal_free(claim.where)})"
            for claim in printed.claims.values()
        ]
        page += ["", *_heading("Tables that are compared", "-")]
        tables = (
            printed.tables.values()
            if hasattr(printed.tables, "values")
            else printed.tables
        )
        page += [
            f"- {_literal_free(f'{table.label}: {table.title}')}" for table in tables
        ]
        _save(folder / "papers" / f"{key}.rst", page)
    _save(
        folder / "papers.rst", [*lines, *_contents(f"papers/{key}" for key in PAPERS)]
    )


def _title_of(paper: str) -> str:
    """The title of a paper, and its year."""
    source = REFERENCES[paper]
    return f"{source.title} ({source.year})"


def _of_packages(folder: Path) -> None:
    described: dict[int, str] = {}
    for name in PACKAGES:
        module = importlib.import_module(name)
        lines = [*_heading(name, "="), f".. automodule:: {name}", "   :no-members:", ""]
        for member in sorted(module.__all__, key=str.lower):
            thing, path = getattr(module, member), f"{name}.{member}"
            first = described.setdefault(id(thing), path)
            lines += (
                _of_name(path, thing)
                if first == path
                else [f"``{path}`` is :py:obj:`{first}`.", ""]
            )
        _save(folder / "api" / f"{name}.rst", lines)
    _save(
        folder / "api.rst",
        [*_heading("Packages", "="), *_contents(f"api/{name}" for name in PACKAGES)],
    )


def _of_name(path: str, thing) -> list[str]:
    if inspect.isclass(thing):
        return [
            f".. autoclass:: {path}",
            "   :members:",
            "   :inherited-members: dict, tuple",
            "",
        ]
    if isinstance(thing, dict):
        return [
            f".. py:data:: {path}",
            "",
            f"   {len(thing)} entries by name: {', '.join(map(str, thing))}.",
            "",
        ]
    return [f".. autofunction:: {path}", ""] if callable(thing) else []


def _of_references(folder: Path) -> None:
    lines = [
        *_heading("References", "="),
        "``jaxdis list references --bibtex KEY`` prints an entry to cite.",
        "",
    ]
    lines += [f"- {_in_full(key)}" for key in sorted(REFERENCES)]
    _save(folder / "sources.rst", lines)


def _prose(text: str) -> list[str]:
    """Plain text with lists and sections of names, as reStructuredText."""
    config = Config(
        napoleon_custom_sections=list(SECTIONS),
        napoleon_use_rtype=False,
        napoleon_use_ivar=True,
    )
    lines: list[str] = []
    for line in text.split("\n"):
        if (
            line.startswith("- ")
            and lines
            and lines[-1]
            and not lines[-1].startswith(("- ", "  "))
        ):
            lines.append("")
        signature = re.fullmatch(r"\w+\(.*\)", line)
        lines.append(f"``{line}``" if signature else _literal_free(line))
    return GoogleDocstring(lines, config).lines()


def _in_full(key: str) -> str:
    """A publication with the key by which it is cited, and where to read it."""
    source = REFERENCES[key]
    authors = ", ".join(
        " ".join(reversed(author.split(", "))) for author in source.authors
    )
    words = _literal_free(f"{authors} ({source.year}). {source.title}. {source.place}.")
    return rf"\ {words} `{key} <{source.url}>`__"  # initials alone would begin a numbered list


def _contents(names: Iterable[str]) -> list[str]:
    return [".. toctree::", "   :maxdepth: 1", "", *(f"   {name}" for name in names)]


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
