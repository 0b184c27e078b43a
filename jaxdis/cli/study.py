"""``jaxdis study`` and ``jaxdis quickstart``: a report from one command."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal

import tyro

from jaxdis.cli import terminal


@dataclasses.dataclass(frozen=True)
class Quickstart:
    """Run the whole pipeline in minutes: render dSprites, train a small zoo, score it and write an HTML report.

    Running the same command again resumes it.
    """

    out: Path = Path("jaxdis-quickstart")
    """The study's folder, for its results, results.csv and report.html."""
    seeds: int = 2
    """Number of seeds per objective and regularization strength."""
    steps: int = 1500
    """Number of updates of each member."""
    data: tuple[str, ...] = ("dsprites",)
    """Names of `jaxdis list data`."""
    source: tuple[str, ...] = ()
    """NAME=PATH: the official file of a data set that is read from one."""
    data_option: tuple[str, ...] = ()
    """NAME.OPTION=VALUE: an option of such a data set, for example mpi3d.variant=real."""
    cache: Path | None = None
    """Folder for compiled programs."""

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis.data import DATASETS
        from jaxdis.data.source import sources_of
        from jaxdis.study.library import quickstart

        sources = sources_of(self.source, self.data_option, DATASETS)
        study = quickstart(seeds=self.seeds, steps=self.steps, data=self.data, sources=sources)
        _run_study(study, self.out, extend=False)


@dataclasses.dataclass(frozen=True)
class Study:
    """Run a study, show its progress, write its report, or verify its records.

    Stored results are never recomputed: after any failure, running the same command again resumes the study.
    """

    action: tyro.conf.Positional[Literal["run", "status", "report", "verify"]]
    """run: compute missing results, then write the report. status: show progress. report: write the report. verify:
    read every record again and remove damaged ones."""
    name: tyro.conf.Positional[str]
    """Name of a study of `jaxdis list studies`."""
    out: Path
    """The study's folder."""
    seeds: int | None = None
    """Number of seeds per setting; the study's own number by default."""
    steps: int | None = None
    """Number of updates of each member; the study's own number by default."""
    train_samples: int | None = None
    """Number of samples on which metrics are computed and learners trained (for the study calibration, samples per
    representation); the study's own number by default."""
    test_samples: int | None = None
    """Number of held-out samples on which learners are evaluated; the study's own number by default."""
    metrics: tuple[str, ...] = ("all",)
    """Names of `jaxdis list metrics`, or all. The study calibration also accepts table2: the metrics of its paper's
    Table II."""
    data: tuple[str, ...] = ()
    """Names of `jaxdis list data`; by default the study's own data sets."""
    source: tuple[str, ...] = ()
    """NAME=PATH: the official file of a data set that is read from one."""
    data_option: tuple[str, ...] = ()
    """NAME.OPTION=VALUE: an option of such a data set, for example mpi3d.variant=real."""
    network: Literal["paper", "mlp"] | None = None
    """mlp trains in minutes on a laptop; by default the study's own network."""
    parts: tuple[Literal["cases", "sweeps", "sizes"], ...] = ()
    """Parts of the study calibration; all by default. The cases show what each metric responds to."""
    extend: bool = False
    """Extend the smaller version of this study that the folder holds."""
    executor: str | None = None
    """processes:COUNT for workers on this machine, or dask://HOST:PORT for those of a Dask scheduler, which must see
    the folder under the same path; by default everything runs in this process."""
    plan: bool = False
    """With run: print the number of cells, FLOPs, time and disk space, and run nothing."""
    cache: Path | None = None
    """Folder for compiled programs."""

    def run(self) -> None:
        terminal.start(self.cache)
        from jaxdis.study.library import STUDIES
        from jaxdis.study.store import Store, StoreError

        if self.name not in STUDIES and self.name != "calibration":
            raise ValueError(f"study: needs one of {', '.join([*STUDIES, 'calibration'])}, got {self.name!r}")
        for name in ("plan", "extend", "executor"):
            if self.action != "run" and getattr(self, name) not in (None, False):
                raise ValueError(f"{name}: needs `study run`, got `study {self.action}`")
        if self.action != "run" and not Store(self.out).begun:
            raise StoreError(f"out: needs the folder of a study, got {self.out}, which holds none")
        if self.action == "verify":
            _verify(self.out)
        elif self.name == "calibration":
            self._calibrate()
        else:
            self._act(STUDIES[self.name](**self._options(STUDIES[self.name])))

    def _act(self, study) -> None:
        from jaxdis.study.executors import check_name, opened
        from jaxdis.study.report.report import write_report
        from jaxdis.study.run import status

        if self.action == "run" and self.plan:
            if self.executor is not None:
                check_name(self.executor)
            _print_plan(study, self.out, extend=self.extend)
        elif self.action == "run":
            with opened(self.executor, self.cache) as executor:
                _run_study(study, self.out, extend=self.extend, executor=executor)
        elif self.action == "report":
            terminal.console().print(f"report: {write_report(study, self.out)}", markup=False)
        else:
            progress = status(study, self.out)
            for kind, total in progress.total.items():
                terminal.console().print(f"{kind}: {progress.done[kind]} of {total}", markup=False)

    def _options(self, make) -> dict:
        """The given options, after checking that this study has them."""
        from jaxdis.data import DATASETS
        from jaxdis.data.source import sources_of

        names = ("seeds", "steps", "train_samples", "test_samples", "data", "network", "parts")
        values = {name: getattr(self, name) for name in names}
        options = {name: value for name, value in values.items() if value not in (None, ())}
        if self.source or self.data_option:
            options["sources"] = sources_of(self.source, self.data_option, DATASETS)
        known = inspect.signature(make).parameters
        for name in options:
            if name not in known:
                raise ValueError(f"{name}: the study {self.name} takes {', '.join(known)}")
        names = [name for entry in self.metrics for name in entry.split(",") if name]
        return options if names == ["all"] else {**options, "metrics": names}

    def _calibrate(self) -> None:
        """Compute the certificate of metrics, which trains no models."""
        from jaxdis.study.certificate.calibration import calibrate, status
        from jaxdis.study.certificate.write import write_certificate

        for name in ("steps", "test_samples", "data", "source", "data_option", "network", "extend", "executor"):
            if (given := getattr(self, name)) not in (None, (), False):
                takes = "metrics, seeds, train_samples and parts"
                raise ValueError(f"{name}: the study calibration takes {takes}, got {name} {given}")
        calibration = self._calibration()
        done, total = status(calibration, self.out)
        if self.plan:
            message = f"{total:,} cells in total, {total - done:,} missing; nothing was run"
            terminal.console().print(message, markup=False)
            return
        if self.action == "status":
            terminal.console().print(f"score: {done} of {total}", markup=False)
            return
        if self.action == "report" and done < total:
            raise ValueError(f"out: needs all {total} cells of the calibration, got {done} in {self.out}; run it first")
        with terminal.members_bar() as progress:
            certificate = calibrate(calibration, self.out, progress=progress)
        written = write_certificate(calibration, certificate, self.out)
        if certificate.cases:
            _print_responses(certificate)
        for path in written:
            terminal.console().print(f"wrote {path}", markup=False)

    def _calibration(self):
        """The requested calibration, with ``train_samples`` samples per representation."""
        from jaxdis.study.certificate.calibration import Calibration
        from jaxdis.study.certificate.published import table_two_metrics

        names = [name for entry in self.metrics for name in entry.split(",") if name]
        sizes = {} if self.seeds is None else {"seeds": self.seeds, "size_seeds": self.seeds}
        if (n := self.train_samples) is not None:
            smaller = tuple(size for size in (100, 1000, 10_000, 50_000) if size < n)
            sizes.update(case_samples=n, sweep_samples=n, sizes=smaller, full_size=n)
        if self.parts and "cases" not in self.parts:
            sizes.update(case_samples=0)
        if self.parts and "sweeps" not in self.parts:
            sizes.update(warp=(), rotation=(), noise=())
        if self.parts and "sizes" not in self.parts:
            sizes.update(sizes=())
        metrics = {"all": "all", "table2": table_two_metrics()}.get(",".join(names), names)
        return Calibration.of(metrics, **sizes)


def _print_responses(certificate) -> None:
    """Print one line per column, in at most 80 characters."""
    from rich.table import Table

    from jaxdis.study.certificate.write import short_response_table

    heads, rows = short_response_table(certificate)
    table = Table(
        box=None,
        pad_edge=False,
        title="How far each aspect moves each score from low to high",
        caption="* responds to it",
    )
    for position, head in enumerate(heads):
        table.add_column(head, no_wrap=True, justify="right" if position else "left")
    for row in rows:
        table.add_row(*row)
    terminal.console().print(table)


def _verify(out: Path) -> None:
    """Read every record of a folder again, whatever study it holds."""
    from jaxdis.study.store import Store

    damaged = list(Store(out).verify())
    for kind, name, reason in damaged:
        terminal.console().print(f"removed {kind} {name}: {terminal.one_line(reason)}", markup=False)
    advice = "; run the study again to recompute them" if damaged else ""
    terminal.console().print(f"{len(damaged)} damaged records{advice}", markup=False)


def _print_plan(study, out: Path, *, extend: bool) -> None:
    from rich.table import Table

    from jaxdis.study.cost import plan

    table = Table("cells", "total", "missing", "FLOPs", "time here (approx.)", "disk", title=f"study {study.name}")
    costs = plan(study, out, extend=extend)
    for kind, cost in costs.items():
        flops = f"{cost.flops:.2g}" if cost.flops else ""
        disk = f"{cost.disk_bytes / 1e6:,.0f} MB"
        table.add_row(kind, f"{cost.cells:,}", f"{cost.missing:,}", flops, _duration(cost.seconds), disk)
    terminal.console().print(table)
    seconds, disk = sum(cost.seconds for cost in costs.values()), sum(cost.disk_bytes for cost in costs.values()) / 1e6
    terminal.console().print(f"total: about {_duration(seconds)} and {disk:,.0f} MB; nothing was run", markup=False)


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _run_study(study, out: Path, *, extend: bool, executor=None) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from jaxdis.study.report.report import write_report
    from jaxdis.study.run import run, status

    before = status(study, out, extend=extend)
    columns = TextColumn("{task.description:<7}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = terminal.console(error=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        tasks = {
            kind: bar.add_task(kind, total=total, completed=before.done[kind]) for kind, total in before.total.items()
        }
        seen = dict(before.done)

        def progress(kind: str, done: float | int) -> None:
            bar.update(tasks[kind], completed=round(seen[kind] + done, 1))

        run(study, out, extend=extend, executor=executor, progress=progress)
        for kind, total in before.total.items():
            bar.update(tasks[kind], completed=total)
    report = write_report(study, out)
    terminal.console().print(f"table:  {out / 'results.csv'}", markup=False)
    terminal.console().print(f"report: {report.resolve().as_uri()}", markup=False)
