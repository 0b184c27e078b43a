"""``jaxdis list`` and ``jaxdis data``: the library's tables as text, and pictures of its data sets."""

import dataclasses
import importlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import tyro

from jaxdis._core.references import REFERENCES, bibliography, cited_in
from jaxdis._core.version import __version__
from jaxdis.cli import _terminal as terminal
from jaxdis.cli._terminal import plain

# Metrics that need more than codes and factors of one member: documented functions, not rows of METRICS.
FUNCTIONS = (
    "jaxdis.evaluate_structured",
    *(f"jaxdis.structured.{name}" for name in ("ari", "mean_segmentation_covering")),
    *(f"jaxdis.metrics.{name}" for name in ("udr", "linear_cka", "svcca", "matched_cosine", "novel_combination")),
    *(f"jaxdis.metrics.{name}" for name in ("compositional_generalization", "zero_shot", "downstream_logistic")),
    *(f"jaxdis.metrics.{name}" for name in ("knockout_curve", "knockout_table")),
    *(f"jaxdis.encoders.{name}" for name in ("factor_vae", "beta_vae", "irs")),
)
_UNCLAIMED = "without a claim by their authors"


class Row(NamedTuple):
    """One row in a table: a list shows ``name`` and ``title`` on one line under ``group``; ``detail`` is all text."""

    name: str
    title: str
    group: str
    references: tuple[str, ...]
    detail: str


def _of_docstring(name: str, thing, more: str = "", group: str = "") -> Row:
    """The row of anything with a docstring, whose first line is the title and whose citations are references."""
    doc = inspect.getdoc(thing) or ""
    text = plain(doc)
    return Row(name, text.split("\n")[0], group, tuple(cited_in(doc)), f"{text}\n\n{more}".rstrip())


def _metrics() -> Iterator[Row]:
    from jaxdis.encoders._evaluate_slots import SLOT_METRICS
    from jaxdis.metrics import METRICS
    from jaxdis.metrics._between_members import SEED_METRICS

    rows = [_of_metric(name, metric) for name, metric in METRICS.items()]
    yield from sorted(rows, key=lambda row: (row.group == _UNCLAIMED, row.group.count(","), row.group))
    for table, subject in ((SEED_METRICS, "of the seeds of a setting"), (SLOT_METRICS, "of slots and their masks")):
        for name, metric in table.items():  # which studies compute from more than one member's codes
            title, doc = f"{metric.about.title}. {metric.about.question}", plain(inspect.getdoc(type(metric)) or "")
            yield Row(name, title, f"{subject}, in studies", metric.about.references, f"{title}\n\n{doc}")
    for path in FUNCTIONS:
        module, _, name = path.rpartition(".")
        function = getattr(importlib.import_module(module), name)
        yield _of_docstring(path, function, group="functions for more than the codes and factors of one member")


def _of_metric(name: str, metric) -> Row:
    from jaxdis.metrics import Blend
    from jaxdis.metrics._plan import STANDARD, STANDARD_OF_ENCODERS

    about = metric.about
    parts = (metric.relation, metric.score) if isinstance(metric, Blend) else (metric.function,)
    claimed = ", ".join(dict.fromkeys(itertools.chain(*about.claims.values())))
    title = f"{about.title}. {about.question}"
    if name in STANDARD_OF_ENCODERS:
        title += " [standard]" if name in STANDARD else " [standard for encoders]"
    title += " [differentiable]" if about.differentiable else ""
    claims = f"Claims to measure: {claimed or 'none of modularity, compactness and explicitness'}."
    text = "\n\n".join((title, claims, _facts(metric), _costs(metric), *map(_of_spec, parts)))
    return Row(name, title, claimed or _UNCLAIMED, about.references, text)


def _facts(metric) -> str:
    """What a metric reads and how to read it, as a list; what it does not read has no line."""
    from jaxdis.metrics._plan import without_order

    source, about = metric.source, metric.about
    cut = ", unless factor_bins cuts them" if "factor_bins" in source.all_options else ""
    discrete = f"discrete ones only; continuous ones are left out{cut}"
    factors = discrete if source.needs_classes else "discrete or continuous"
    ranges = (
        f"{'' if field == 'score' else f'{field} '}{low:g} to {high:g}" for field, (low, high) in about.chance.items()
    )
    chance = f"{', '.join(ranges)} (2,000 samples; see jaxdis.metrics.About.chance)"
    gradient = "0 almost everywhere" + (", unless variances are given" if source.reads.variances else "")
    if about.differentiable:
        gradient = "finite, and not 0 for codes that vary smoothly: the metric may be a term of a loss"
    facts = {
        "Best value": "the lowest" if "score" in metric.errors else "the highest",
        "Without information": chance if about.chance else "not stated: the metric does not read factors",
        "Factors": f"{factors}; those without an order {without_order(source)}" if about.reads_factors else "",
        "Held-out samples": "needed" if source.reads.test else "",
        "Posterior variances": "read if they are given" if source.reads.variances else "",
        "Gradient with respect to codes": gradient,
        "Simulator": "used by evaluate_encoder and jaxdis score ZOO to fix factors" if about.intervenes else "",
    }
    return "\n".join(f"- {name}: {fact}." for name, fact in facts.items() if fact)


def _costs(metric) -> str:
    """The time and the memory at a usual size, by the formulas with which an evaluation is announced or refused."""
    from jaxdis._core.resources import in_words
    from jaxdis.evaluation._costs import USUAL, bytes_of, usual_seconds

    seconds = usual_seconds(metric)
    return (
        f"Takes {'less than 0.1 s' if seconds < 0.1 else f'about {seconds:.2g} s'} per member of 10,000 samples × 10 "
        f"codes with dSprites' factors on one core, and about {in_words(bytes_of(metric.source, USUAL))} of memory; "
        "evaluate says what other sizes need if that is long or does not fit."
    )


def _of_spec(spec) -> str:
    options = ", ".join(f"{name}={value!r}" for name, value in spec.all_options.items())
    return f"{spec.name}({options})\n\n{plain(inspect.getdoc(spec.function) or '')}"


def _each(package: str, table: str, row: Callable) -> Callable[[], Iterator[Row]]:
    """A function that makes the rows ``row(name, entry)`` of a package's table, which it imports first."""
    return lambda: itertools.starmap(row, getattr(importlib.import_module(package), table).items())


def _of_part(name: str, spec) -> Row:
    """A relation or a score."""
    title = spec.title or spec.summary
    return _of_docstring(name, spec.function)._replace(title=title, detail=f"{title}.\n\n{_of_spec(spec)}")


def _presets() -> Iterator[Row]:
    from jaxdis.papers import PAPERS

    return (_of_training(name, p.preset.about, p.preset.make) for name, p in PAPERS.items() if p.preset is not None)


def _of_training(name: str, about, function: Callable) -> Row:
    """An objective, or a published training run."""
    if about is None:
        return _of_docstring(name, function)
    title, doc, settings = f"{about.title}. {about.summary}", plain(inspect.getdoc(function) or ""), []
    for option, parameter in inspect.signature(function).parameters.items():
        value = parameter.default
        stated = f"{about.settings.get(option, '')} (default {value:g})" if isinstance(value, float) else None
        settings.append(f"  {option}: {stated or f'default {value!r}'}")
    return Row(name, title, "", about.references, "\n".join((f"{title}\n\n{doc}\n\nSettings:", *settings)))


def _of_model(name: str, method) -> Row:
    title = f"{method.about.title}. {method.about.summary}"
    needs = "Needs images with factors." if method().needs_labels else "Needs images alone."
    text = f"{title} {needs}\n\n{plain(inspect.getdoc(method) or '')}"
    if len(method.variants) > 1:
        text += f"\n\nVariants (jaxdis list objectives shows their settings): {', '.join(method.variants)}."
    return Row(name, title, "", method.about.references, text.rstrip())


def _of_paper(name: str, paper) -> Row:
    studies = f"Studies: {', '.join(paper.studies) or 'none'}."
    return _of_docstring(name, importlib.import_module(paper.package), studies)


def _of_study(name: str, make: Callable) -> Row:
    parameters = inspect.signature(make).parameters
    defaults = "\n".join(f"  {n}: {p.default!r}" for n, p in parameters.items() if n != "metrics")
    return _of_docstring(name, make, f"Defaults:\n{defaults}")


# In which order data sets are listed: by whether they are drawn, and read from a file.
_DRAWN_OR_READ = {
    (True, True): "drawn by jaxdis, or read from the official file",
    (True, False): "drawn by jaxdis",
    (False, True): "read from the official file",
}


def _data() -> list[Row]:
    from jaxdis.data import DATASETS

    rows = []
    for name, row in DATASETS.items():
        sizes = (size or "continuous" for size in row.space.sizes)
        factors = ", ".join(f"{factor} {size}" for factor, size in zip(row.space.names, sizes, strict=True))
        source = " or ".join(part for part in ("drawn" if row.renders else "", row.reads) if part)
        height, width, channels = row.shape
        title, group = f"{row.title}: {row.description}", _DRAWN_OR_READ[bool(row.renders), bool(row.reads)]
        text = (
            f"{title}.\n\nFactors and their numbers of values: {factors}.\n\n"
            f"Images: {height} × {width} × {channels}, {source}.\n\nOrigin and terms: {row.origin}."
        )
        rows.append(Row(name, title, group, row.references, text))
    return sorted(rows, key=lambda row: [*_DRAWN_OR_READ.values()].index(row.group))


def _of_reference(key: str, each) -> Row:
    return Row(key, f"{each.title} ({each.year})", "", (key,), str(each))


# What one row of each table is called, and a function that makes all rows.
_TABLES = {
    "metrics": ("metric", _metrics),
    "relations": ("relation", _each("jaxdis.relations", "RELATIONS", _of_part)),
    "scores": ("score", _each("jaxdis.scores", "SCORES", _of_part)),
    "objectives": (
        "objective",
        _each("jaxdis.models", "OBJECTIVES", lambda name, row: _of_training(name, row.about, row.settings)),
    ),
    "models": ("model", _each("jaxdis.models", "METHODS", _of_model)),
    "presets": ("preset", _presets),
    "data": ("data set", _data),
    "studies": ("study", _each("jaxdis.study", "STUDIES", _of_study)),
    "papers": ("paper", _each("jaxdis.papers", "PAPERS", _of_paper)),
    "references": ("reference", _each("jaxdis._core.references", "REFERENCES", _of_reference)),
}


def rows_of(what: str) -> dict[str, Row]:
    return {row.name: row for row in _TABLES[what][1]()}


def cited_by(name: str) -> tuple[str, ...]:
    """Keys for the publications behind a row in any table."""
    for what in reversed(_TABLES):
        if name in (rows := rows_of(what)):
            return rows[name].references
    raise ValueError(f"names: must be names of {', '.join(_TABLES)}, got {name!r}")


# The library itself, as .github/CITATION.cff has it.
OWN = f"""@software{{jaxdis,
  title = {{jaxdis: disentanglement metrics and model zoos on {{JAX}}}},
  author = {{{{The jaxdis authors}}}},
  version = {{{__version__}}},
  license = {{Apache-2.0}}
}}"""


@dataclasses.dataclass(frozen=True)
class List:
    """Show the library's tables; with names after a table, show these rows in full.

    The command `jaxdis list references --bibtex jaxdis mig dsprites` prints BibTeX entries for what was used.
    """

    what: tyro.conf.Positional[
        Literal["metrics", "relations", "scores", "objectives", "models", "presets", "data", "studies", "papers"]
        | Literal["references"]
    ]
    """The table."""
    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Rows to show in full; for references, any rows whose publications to show."""
    bibtex: bool = False
    """Print references as BibTeX entries."""

    def run(self) -> None:
        if self.bibtex and self.what != "references":
            raise ValueError(f"--bibtex: must be given with the table references, got {self.what}")
        if self.what == "references" and (self.names or self.bibtex):
            own, names = "jaxdis" in self.names, [name for name in self.names if name != "jaxdis"]
            keys = dict.fromkeys(key for name in names or (() if own else REFERENCES) for key in cited_by(name))
            texts = [bibliography([key]) if self.bibtex else str(REFERENCES[key]) for key in keys]
            terminal.write("\n\n".join([OWN] * own + texts), wrap=not self.bibtex)
        elif self.names:
            from jaxdis._core.options import look_up

            rows, kind = rows_of(self.what), _TABLES[self.what][0]
            kinds = self.what if kind == "study" else f"{kind}s"
            for row in [look_up(name, rows, kind, kinds) for name in self.names]:
                entries = "".join(f"\n- {key}: {REFERENCES[key]}" for key in row.references)
                terminal.write(f"{row.name}\n\n{row.detail}" + (f"\n\nReferences:\n{entries}" if entries else ""))
        else:
            rows, target = list(rows_of(self.what).values()), terminal.console()
            column = max(len(row.name) for row in rows if len(row.name) <= terminal.LONGEST_NAME) + 2
            for group, members in itertools.groupby(rows, key=lambda row: row.group):
                if group:
                    terminal.write("\n" + group, wrap=False)
                for row in members:
                    target.print(terminal.entry(row.name, row.title, column, target.width), soft_wrap=True)


@dataclasses.dataclass(frozen=True)
class Data:
    """Draw a data set's contact sheet, or fetch the files for one that is read from files."""

    action: tyro.conf.Positional[Literal["show", "prepare"]]
    """show: draw the sheet, with one row of images per factor.
    prepare: download the set by tensorflow-datasets into --out, or check the official files given by --source."""
    name: tyro.conf.Positional[str]
    """A name of `jaxdis list data`."""
    out: Path | None = None
    """show: the picture to write; sheet.png by default. prepare: the folder to fill; ./NAME by default."""
    source: Path | None = None
    """The official file, for data sets that are read from one."""
    seed: int = 0
    """Seed for the cell from which each factor is traversed."""
    zoom: int = 2
    """Enlarge the picture by this factor."""

    def run(self) -> None:
        from jaxdis._core.options import Seed, checked_value

        checked_value("--seed", Seed, self.seed)
        if self.action == "prepare":
            from jaxdis.data._datasets import prepared

            terminal.start(None)
            place = prepared(self.name, self.out or Path(self.name), self.source)
            terminal.write_line(f"{place} is complete; use it by --source {place}")
            return
        out = self.out or Path("sheet.png")
        terminal.make_room("--out", out)
        terminal.start(None)
        from jaxdis.data._datasets import save_sheet

        save_sheet(self.name, out, self.source, self.seed, self.zoom)
        terminal.write_line(f"wrote {out}")
