"""``jaxdis study``, ``jaxdis quickstart`` and ``jaxdis reproduce``: a report from one command, or a paper's page."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal

import tyro

from jaxdis._core.display import duration, tell_now_and_then
from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache, DataOptions, Executor, Sources


@dataclasses.dataclass(frozen=True)
class Quickstart:
    """Run the whole pipeline in minutes: draw images, train a small zoo, score it and write an HTML report.

    Running the same command again resumes it.
    """

    out: Path = Path("jaxdis-quickstart")
    """The study's folder, for its results, results.csv and report.html."""
    seeds: int = 5
    """Number of seeds per objective and regularization strength."""
    steps: int = 3000
    """Number of updates of each member."""
    data: tuple[str, ...] = ("hearts",)
    """Names of `jaxdis list data`."""
    source: Sources = ()
    data_option: DataOptions = ()
    cache: Cache = None
    cells = ""  # where finished ones are, below the folder

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis.data import DATASETS
        from jaxdis.data._data_source import check_used, sources_of
        from jaxdis.study import work_of
        from jaxdis.study._definition import quickstart

        terminal.check_pictures()
        sources = sources_of(self.source, self.data_option, DATASETS)
        check_used(sources, self.data)
        study = quickstart(seeds=self.seeds, steps=self.steps, data=self.data, sources=sources)
        _run_study(work_of(study), self.out, extend=False)


@dataclasses.dataclass(frozen=True)
class Study:
    """Run a study, show its progress, write its report, or verify its records.

    Stored results are never recomputed: after any failure, running the same command again resumes the study.
    """

    action: tyro.conf.Positional[Literal["run", "status", "report", "verify"]]
    """run: compute missing results, then write the report. status: show progress. report: write the report.
    verify: read every record again and remove damaged ones, whatever the options."""
    name: tyro.conf.Positional[str]
    """Name of a study of `jaxdis list studies`."""
    out: Path
    """The study's folder."""
    seeds: int | None = None
    """Number of seeds per setting; the study's own number by default."""
    steps: int | None = None
    """Number of updates of each member; the study's own number by default."""
    train_samples: int | None = None
    """Number of samples on which metrics are computed and learners trained; the study's own number by default.
    For the study calibration, the number of samples per representation."""
    test_samples: int | None = None
    """Number of held-out samples on which learners are evaluated; the study's own number by default."""
    keep: tuple[int, ...] = ()
    """Numbers of updates after which members are kept and scored, too; the report draws scores along training."""
    metrics: tuple[str, ...] = ("all",)
    """Names of `jaxdis list metrics`, or all; options are written as mig:bins=30 or nk:preset=mahon2024_paper.
    The study calibration also accepts table2: the metrics of its paper's Table II."""
    data: tuple[str, ...] = ()
    """Names of `jaxdis list data`; by default the study's own data sets."""
    source: Sources = ()
    data_option: DataOptions = ()
    network: Literal["paper", "mlp", "narrow"] | None = None
    """mlp, or narrow in eastwood2018, trains in minutes on a laptop; by default the study's own network."""
    parts: tuple[Literal["cases", "sweeps", "sizes"], ...] = ()
    """Parts of the study calibration; all by default. The cases show what each metric responds to."""
    extend: bool = False
    """Extend the smaller version of this study that the folder holds, with fewer seeds, settings or metrics."""
    executor: Executor = None
    plan: bool = False
    """With run: print the number of cells, FLOPs, time and disk space, and run nothing."""
    cache: Cache = None
    cells = ""

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis.data._data_source import check_used
        from jaxdis.study import STUDIES, Store, StoreError, work_of

        if self.name not in STUDIES:
            raise ValueError(f"study: must be one of {', '.join(STUDIES)}, got {self.name!r}")
        for name in ("plan", "extend", "executor"):
            if self.action != "run" and getattr(self, name) not in (None, False):
                raise ValueError(f"{name}: must be given to `study run`, got `study {self.action}`")
        if self.action != "run" and not Store(self.out).begun:
            raise StoreError(f"out: must be the folder of a study, got {self.out}, which holds none")
        if self.action == "verify":
            damaged = list(Store(self.out).verify())
            for kind, name, reason in damaged:
                terminal.write_line(f"removed {kind} {name}: {terminal.one_line(reason)}")
            advice = "; run the study again to recompute them" if damaged else ""
            terminal.write_line(f"{len(damaged)} damaged records{advice}")
        else:
            options = self._options(STUDIES[self.name])
            study = STUDIES[self.name](**options)
            if self.keep:
                if not hasattr(study, "trainings"):
                    raise ValueError(f"keep: must be left out for {self.name}, which trains no models")
                kept = tuple(dataclasses.replace(training, keep=self.keep) for training in study.trainings)
                study = dataclasses.replace(study, trainings=kept)
            if "sources" in options:
                check_used(options["sources"], [training.config.data for training in study.trainings])
            self._act(work_of(study))

    def _act(self, work) -> None:
        from jaxdis.study import Store, status
        from jaxdis.study._executors import check_name, opened

        if self.action == "run" and self.plan:
            if self.executor is not None:
                check_name(self.executor)
            print_plan(work, self.out, extend=self.extend)
        elif self.action == "run":
            terminal.check_pictures()
            with opened(self.executor, self.cache) as executor:
                _run_study(work, self.out, extend=self.extend, executor=executor)
        elif self.action == "report":
            terminal.check_pictures()
            progress = status(work, self.out)
            if not progress.complete:
                done, total = (sum(cells.values()) for cells in progress)
                raise ValueError(f"out: must be all {total} cells of the study, got {done} in {self.out}; run it first")
            terminal.write_line(f"report: {work.report(Store(self.out))}")
        else:
            progress = status(work, self.out)
            for kind, total in progress.total.items():
                terminal.write_line(f"{kind}: {progress.done[kind]} of {total}")

    def _options(self, make) -> dict:
        """The given options, after checking that this study has them."""
        from jaxdis.cli._metric_texts import plan_of_texts
        from jaxdis.data import DATASETS
        from jaxdis.data._data_source import sources_of

        names = ("seeds", "steps", "train_samples", "test_samples", "data", "network", "parts")
        values = {name: getattr(self, name) for name in names}
        options = {name: value for name, value in values.items() if value not in (None, ())}
        if self.source or self.data_option:
            options["sources"] = sources_of(self.source, self.data_option, DATASETS)
        parameters = inspect.signature(make).parameters
        for name in options:
            if name not in parameters:
                given = [option for option in parameters if option in (*names, "metrics")]
                raise ValueError(f"{name}: the study {self.name} takes {', '.join(given)}")
        if any(":" in entry for entry in self.metrics):
            plan = plan_of_texts(self.metrics)
            return {**options, "metrics": {text.partition(":")[0]: metric for text, metric in plan.items()}}
        names = [name for entry in self.metrics for name in entry.split(",") if name]
        return options if names == ["all"] else {**options, "metrics": names}


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
    cells = "*/*/"

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis._core.options import look_up
        from jaxdis.data import DATASETS
        from jaxdis.data._data_source import sources_of
        from jaxdis.papers import PAPERS
        from jaxdis.study._executors import check_name

        if not self.plan:
            terminal.check_pictures()
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
        from jaxdis._core.files import read_csv
        from jaxdis.papers import reproduce
        from jaxdis.papers.harness._page import in_number
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
        verdicts = [*{row["claim"]: row["verdict"] for row in read_csv(page.parent / "claims.csv")}.values()]
        counts = ((verdicts.count(one), one) for one in dict.fromkeys(verdicts))
        counted = ", ".join(f"{count} {in_number(one, count)}" for count, one in counts)
        claims = "claim" if len(verdicts) == 1 else "claims"
        terminal.write_line(f"{len(verdicts)} {claims} checked: {counted}")
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


def _print_digest(digest) -> None:
    how = {"box": None, "pad_edge": False, "title": digest.title, "caption": digest.remark}
    terminal.print_table(digest.heads, digest.rows, numbers=True, **how)


def print_plan(work, out: Path, *, extend: bool, title: str | None = None) -> tuple[float, float]:
    """Print what a study's cells cost; returns the seconds and the bytes on disk that are missing."""
    from jaxdis.study._trained_work import plan

    costs, rows = plan(work, out, extend=extend), []
    for kind, cost in costs.items():
        flops = f"{cost.flops:.2g}" if cost.flops else ""
        sizes = map(megabytes, (cost.memory_bytes, cost.disk_bytes))
        rows.append((kind, f"{cost.cells:,}", f"{cost.missing:,}", flops, duration(cost.seconds), *sizes))
    heads = ("cells", "total", "missing", "FLOPs", "time, about", "memory", "disk")
    terminal.print_table(heads, rows, title=f"study {terminal.one_line(title or work.study.name)}")
    seconds, disk = (float(sum(getattr(cost, of) for cost in costs.values())) for of in ("seconds", "disk_bytes"))
    terminal.write(f"{in_total(seconds, disk)}; memory is that of one model at a time; nothing was run")
    return seconds, disk


def in_total(seconds: float, disk: float) -> str:
    return f"total: about {duration(seconds)} and {megabytes(disk)} on disk"


def megabytes(size: float | int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 or not size else f"{size / 1e6:.1g} MB"


def _run_study(work, out: Path, *, extend: bool, executor=None) -> None:
    from jaxdis.study import Store

    table, report = run_with_progress(work, out, extend=extend, executor=executor)
    if digest := work.digest(Store(out)):
        _print_digest(digest)
    terminal.write_line(f"table:  {table}")
    terminal.write_line(f"report: {report.resolve().as_uri()}")


def run_with_progress(work, out: Path, *, extend: bool, executor=None) -> tuple[Path, Path]:
    """Run a study with a progress bar on a terminal; returns the paths of its table and its report."""
    from rich import progress as bars

    from jaxdis.study import Store, run, status

    before = status(work, out, extend=extend)
    times = bars.TimeElapsedColumn(), bars.TextColumn("left:"), bars.TimeRemainingColumn()
    columns = bars.TextColumn("{task.description:<7}"), bars.BarColumn(), bars.MofNCompleteColumn(), *times
    console = terminal.console(error=True)
    with bars.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        seen, totals = before.done, before.total.items()
        tasks = {kind: bar.add_task(kind, total=total, completed=seen[kind]) for kind, total in totals}

        def progress(kind: str, done: float | int) -> None:
            bar.update(tasks[kind], completed=round(seen[kind] + done, 1))
            if not console.is_terminal:
                counts = (f"{task.description} {task.completed:g} of {task.total:g}" for task in bar.tasks)
                tell_now_and_then(f"{work.study.name}: {', '.join(counts)}")

        table = run(work, out, extend=extend, executor=executor, progress=progress)
        for kind, total in totals:
            bar.update(tasks[kind], completed=total)
    with console.status("writing the report"):
        report = work.report(Store(out))
    return table, report
