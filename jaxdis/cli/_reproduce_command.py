"""``jaxdis reproduce``: a page that shows a paper's printed tables, figures and claims next to the measured ones."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache, Executor, Sources
from jaxdis.cli._outputs import check_pictures, kept_cells


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Reproduce a paper and write a page that shows its printed numbers next to the measured ones.

    The page also redraws the figures and gives a verdict on each of the paper's claims.

    Running the same command again resumes it.
    """

    paper: tyro.conf.Positional[str]
    """Name of a paper of `jaxdis list papers`, or all."""
    out: Path = Path("jaxdis-papers")
    """Folder; each paper has a folder of its own below, with its studies and page.html."""
    size: Literal["minutes", "hour", "day", "paper"] = "minutes"
    """minutes: small forms of the studies, under 30 minutes per paper on two cores. paper: the published protocol.
    hour, day: as much of it as one H100 is estimated to run in that time."""
    updates: int | None = None
    """Number of updates of the longest training of each study; all others change in proportion."""
    seeds: int | None = None
    """Number of seeds."""
    data: tuple[str, ...] = ()
    """Data sets of the size that are kept; all by default."""
    samples: int | None = None
    """Number of samples for scoring."""
    network: Literal["small"] | None = None
    """small: networks that train in minutes on a laptop, in place of the paper's."""
    metrics: tuple[str, ...] = ()
    """Metrics to add, or to compute with other options: mig:bins=30, nk:preset=converged."""
    study: tuple[Path, ...] = ()
    """Folders of studies, or of papers, that were run elsewhere, as a whole or in parts.
    What they hold of the studies of this paper and size is taken over before the rest is computed."""
    source: Sources = ()
    executor: Executor = None
    plan: bool = False
    """Print the number of cells, FLOPs, time and disk space of each study, and run nothing."""
    cache: Cache = None

    @property
    def kept(self) -> str:
        return kept_cells(self.out, "*/*/")

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis._core.lookup import look_up
        from jaxdis.cli._study_commands import in_total
        from jaxdis.data import DATASETS
        from jaxdis.data._data_source import sources_of
        from jaxdis.papers import PAPERS
        from jaxdis.study._executors import check_name

        if not self.plan:
            check_pictures()
        if self.executor is not None:
            check_name(self.executor)
        sources = sources_of(self.source, (), DATASETS)
        papers = list(PAPERS.values()) if self.paper == "all" else [look_up(self.paper, PAPERS, "paper")]
        costs = []
        for paper in papers:
            if self.plan:
                costs += self._plan(paper, sources)
            else:
                self._reproduce(paper, sources)
        if len(costs) > 1:
            terminal.write(f"all {len(costs)} studies: {in_total(*map(sum, zip(*costs, strict=True)))}")

    def _scale(self):
        from jaxdis.cli._metric_texts import plan_of_texts
        from jaxdis.papers import Scale

        metrics = {text.partition(":")[0]: metric for text, metric in plan_of_texts(self.metrics).items()}
        return Scale(self.updates, self.seeds, self.data, self.samples, self.network, metrics)

    def _plan(self, paper, sources) -> list[tuple[float, float]]:
        """Print a paper's plan; returns each study's seconds and bytes on disk."""
        from jaxdis.cli._study_commands import print_plan
        from jaxdis.papers.harness._scale import scale_in_words
        from jaxdis.study import work_of

        studies, pieces = paper.planned(self.size, sources, self._scale())
        published = paper.runs("paper", sources)
        costs = []
        for name, study in studies.items():
            work = work_of(study)
            title = name if name == work.study.name else f"{work.study.name}, {name}"
            costs.append(print_plan(work, self.out / paper.key / name, extend=True, title=title))
            for line in scale_in_words(work, published.get(name)):
                terminal.write_line(line)
        for name in published.keys() - studies.keys():
            terminal.write_line(f"without the study {name}")
        if pieces:
            terminal.write_line(f"{paper.key}: besides, without a plan: {', '.join(pieces)}")
        return costs

    def _reproduce(self, paper, sources) -> None:
        from jaxdis.cli._study_commands import run_with_progress
        from jaxdis.papers import reproduce
        from jaxdis.study import Store, work_of
        from jaxdis.study._executors import opened

        out = self.out / paper.key
        with opened(self.executor, self.cache) as executor:

            def step(kind: str, name: str, thing) -> None:
                terminal.write_line(f"{paper.key}: {name}", error=True)
                if kind == "study":
                    work, extend = work_of(thing), Store(out / name).described
                    self._take_over(work, out / name, extend)
                    run_with_progress(work, out / name, extend=extend, executor=executor)

            page = reproduce(paper, out, size=self.size, sources=sources, scale=self._scale(), step=step)
        _print_verdicts(page.parent / "claims.csv")
        terminal.write_line(f"page: {page.resolve().as_uri()}")

    def _take_over(self, work, out: Path, extend: bool) -> None:
        """Copy what the given folders, or folders in them, hold from a study."""
        from jaxdis.study import Store, StoreError

        given = [found for folder in self.study for found in (folder, *folder.glob("*"), *folder.glob("*/*"))]
        stores = [Store(folder) for folder in given if folder.is_dir() and Store(folder).begun]
        if not stores and self.study:
            raise StoreError(f"study: must be folders of studies, got {', '.join(map(str, self.study))}")
        own = Store(out)
        if stores:
            own.open(work.describe(), extend=extend)
        copied = sum(own.adopt(other, work.wanted()) for other in stores if other.root.resolve() != out.resolve())
        if self.study:
            terminal.write_line(f"{copied:,} finished cells taken over from {len(stores)} folders", error=True)


def _print_verdicts(path: Path) -> None:
    """How many claims there are by verdict."""
    import csv

    from jaxdis.papers.harness._page import in_number

    with open(path, newline="", encoding="utf-8") as file:
        verdicts = [*{row["claim"]: row["verdict"] for row in csv.DictReader(file)}.values()]
    counts = ((verdicts.count(one), one) for one in dict.fromkeys(verdicts))
    counted = ", ".join(f"{count} {in_number(one, count)}" for count, one in counts)
    claims = "claim" if len(verdicts) == 1 else "claims"
    terminal.write_line(f"{len(verdicts)} {claims} checked: {counted}")
