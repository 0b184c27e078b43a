"""``jaxdis sensitivity``: how far the models' ranking depends on metrics' options, samples and seeds."""

import dataclasses
import html
from pathlib import Path

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache
from jaxdis.cli._outputs import check_outputs, check_pictures
from jaxdis.cli._terminal import number


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """Compute how far the models' ranking by each metric depends on options, sample sizes and seeds.

    Codes are read as by `jaxdis score`; several files, or members in one file, are the models that are ranked.
    """

    files: tyro.conf.Positional[tuple[str, ...]]
    """Files of codes, patterns such as 'runs/*.npz', or the folder of a zoo."""
    factors: Path | None = None
    """Factors, if files hold codes alone."""
    metrics: tuple[str, ...] = ("standard",)
    """Names of `jaxdis list metrics`, or standard. Options that stay are written as mig:bins=30."""
    options: tuple[str, ...] = ()
    """Values to try for options of the metrics, such as bins=10,20,50."""
    samples: tuple[int, ...] = ()
    """Numbers of samples to try; all samples by default."""
    seeds: int = 1
    """How many seeds to try; each draws other samples and other random numbers."""
    seed: int = 0
    """Random seed of everything."""
    csv: Path | None = None
    """CSV file to write, with a row for every value that was tried."""
    out: Path | None = None
    """Page to write."""
    cache: Cache = None

    def run(self) -> None:
        from jaxdis._core.files import write_text
        from jaxdis.cli._metric_texts import plan_of_texts, values_of_texts
        from jaxdis.encoders import load
        from jaxdis.evaluation import sensitivity

        check_outputs({"--csv": self.csv, "--out": self.out}, map(Path, self.files))
        if self.out is not None:
            check_pictures()
        terminal.start(self.cache)
        plan, options = plan_of_texts(self.metrics), values_of_texts(self.options)
        codes, factors, _ = load(self.files, self.factors)
        how = {"options": options, "samples": self.samples or None, "seeds": self.seeds, "progress": True}
        found = sensitivity(codes, factors, plan, self.seed, **how)
        self._print(found)
        if self.csv is not None:
            found.to_csv(self.csv)
        if self.out is not None:
            write_text(self.out, _page(found))

    def _print(self, found) -> None:
        from rich.table import Table

        heads = "metric", "choice", "default", "share of variance", "lowest τ", "most pairs reversed"
        table = Table(*heads, title="which choices move the ranking", box=None)
        for row in found.choices:
            texts = number(row.share, ".1%"), number(row.tau, ".2f"), number(row.flipped, ".1%")
            table.add_row(row.metric, row.choice, str(row.default), *texts)
        terminal.console().print(table)
        for sentence in found.sentences():
            terminal.write_sentence(sentence)


def _page(found) -> str:
    from jaxdis.study.report._html import image, page, table

    def columns(rows) -> dict:
        return {name: [getattr(row, name) for row in rows] for name in rows[0]._fields}

    heat = image(found.plot(), "share of the variance between models that each choice explains, by metric")
    choices, settings = columns(found.choices), columns(found.settings)
    sections = [
        ("Shares of variance", heat + table(list(choices), choices)),
        ("Every value", table(list(settings), settings)),
    ]
    said = "".join(f"<li>{html.escape(sentence)}.</li>" for sentence in found.sentences())
    return page("How far do rankings depend on choices?", sections, f"<ul>{said}</ul>", note="")
