"""The command line: ``jaxdis score``, ``jaxdis list``, …; ``jaxdis COMMAND --help`` explains each."""

import dataclasses
import json
import sys
import warnings
from pathlib import Path
from typing import Literal

import tyro

EXIT_BAD_INPUT = 2


@dataclasses.dataclass(frozen=True)
class Score:
    """Score codes in a file with disentanglement metrics.

    The file is an .npz with arrays `codes` [samples, codes] or [members, samples, codes] and `factors`
    [samples, factors] (class numbers), and optionally `names`, `sizes` (0 marks a continuous factor) and `variances`.
    """

    file: tyro.conf.Positional[Path]
    """.npz, or .npy of codes alone together with --factors."""
    factors: Path | None = None
    """.npy of factors, when FILE is an .npy."""
    metrics: tuple[str, ...] = ("all",)
    """Names as `jaxdis list metrics` shows them, or all."""
    csv: Path | None = None
    """Write one row a member here."""
    json: Path | None = None
    """Write columns here."""
    seed: int = 0
    """Of everything random."""
    batch_size: int | None = None
    """Members at one time on one device; chosen by backend and memory when not given."""
    cache: Path | None = None
    """Folder for compiled programs (default: ~/.cache/jaxdis/programs)."""

    def run(self) -> None:
        import jax

        from jaxdis.evaluate import evaluate
        from jaxdis.inputs import load_arrays

        start(self.cache)
        arrays = load_arrays(self.file, self.factors)
        names = [name for given in self.metrics for name in given.split(",") if name]
        with members_bar() as progress:
            scores = evaluate(
                arrays.codes,
                arrays.factors,
                "all" if names == ["all"] else names,
                jax.random.key(self.seed),
                variances=arrays.variances,
                batch_size=self.batch_size,
                progress=progress,
            )
        print_scores(scores, self.file.name)
        if self.csv is not None:
            scores.to_csv(self.csv)
        if self.json is not None:
            # NaN is no JSON: null says that a score is undefined.
            columns = {name: _or_null(column) for name, column in scores.to_dict().items()}
            self.json.write_text(json.dumps(columns, indent=1, allow_nan=False) + "\n", encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a zoo of autoencoders: every objective × setting × seed in one program.

    Run the same command again and it carries on where it stopped, or says that it is complete.
    """

    out: Path
    """The run's own folder: run.json, checkpoints/, zoo.npz."""
    data: str = "dsprites"
    """A data set that can be drawn, as `jaxdis list data` shows them."""
    objective: tuple[str, ...] = ("beta",)
    """Rows of `jaxdis list models`; several train together when they share a loss."""
    beta: tuple[float, ...] = ()
    """Strengths of beta and beta_tc."""
    gamma: tuple[float, ...] = ()
    """Strengths of factor (and the weight of annealed's capacity)."""
    capacity: tuple[float, ...] = ()
    """Final capacities of annealed."""
    lambda_off_diagonal: tuple[float, ...] = ()
    """Strengths of dip_i and dip_ii."""
    learning_rate: float | None = None
    """Of all objectives; each has its paper's default."""
    seeds: int = 1
    """Seeds 0, 1, … of every setting."""
    steps: int = 3000
    """Updates of each member."""
    network: Literal["mlp", "locatello", "burgess"] = "mlp"
    """mlp trains in minutes on a laptop; the others are the papers' convolutions."""
    cache: Path | None = None
    """Folder for compiled programs."""

    def run(self) -> None:
        start(self.cache)
        from jaxdis import models
        from jaxdis.models.run import train_to_directory

        networks = {"mlp": models.Mlp, "locatello": models.locatello, "burgess": models.burgess}
        objective = self.objective[0] if len(self.objective) == 1 else self.objective
        config = models.Config(data=self.data, objective=objective, network=networks[self.network](), steps=self.steps)
        sweep = {name: self._settings(name) for name in self.objective}
        finished = train_to_directory(
            config, sweep[objective] if isinstance(objective, str) else sweep, self.seeds, self.out
        )
        console().print(finished.message, markup=False)

    def _settings(self, objective: str) -> dict:
        """The settings given that this objective has."""
        import inspect

        from jaxdis.models import OBJECTIVES

        if objective not in OBJECTIVES:
            raise ValueError(f"objective: needs one of {', '.join(OBJECTIVES)}, got {objective!r}")
        known = inspect.signature(OBJECTIVES[objective].settings).parameters
        given = {name: getattr(self, name) for name in ("beta", "gamma", "capacity", "lambda_off_diagonal")}
        settings = {name: values for name, values in given.items() if values and name in known}
        return settings if self.learning_rate is None else {**settings, "learning_rate": self.learning_rate}


@dataclasses.dataclass(frozen=True)
class Data:
    """Look at a data set: a contact sheet with one row for each factor, traversed."""

    action: tyro.conf.Positional[Literal["show"]]
    """Draw the sheet."""
    name: tyro.conf.Positional[str]
    """As `jaxdis list data` shows it."""
    out: Path = Path("sheet.png")
    """The picture to write."""
    source: Path | None = None
    """The official file, for sets that are read."""
    seed: int = 0
    """Of the point from which factors are traversed."""
    zoom: int = 2
    """Screen pixels a pixel."""

    def run(self) -> None:
        start(None)
        from jaxdis.data.show import save_sheet

        save_sheet(self.name, self.out, self.source, self.seed, self.zoom)
        console().print(f"wrote {self.out}", markup=False)


@dataclasses.dataclass(frozen=True)
class Quickstart:
    """The whole pipeline in minutes: draw dSprites, train a small zoo, score it, write a report for the browser.

    Run the same command again and it carries on where it stopped.
    """

    out: Path = Path("jaxdis-quickstart")
    """The study's folder: results, results.csv, report.html."""
    seeds: int = 2
    """Seeds of each objective and strength."""
    steps: int = 1500
    """Updates of each member."""
    cache: Path | None = None
    """Folder for compiled programs."""

    def run(self) -> None:
        start(self.cache)
        from jaxdis.study.library import quickstart

        _run_study(quickstart(seeds=self.seeds, steps=self.steps), self.out, extend=False)


@dataclasses.dataclass(frozen=True)
class Study:
    """Run a study, see how far it is, write its report, or check every record.

    Nothing that is finished is made again: run the same command after any failure and it carries on.
    """

    action: tyro.conf.Positional[Literal["run", "status", "report", "verify"]]
    """run: make what is missing, then the report. verify: re-read every record; damaged ones are removed."""
    name: tyro.conf.Positional[str]
    """As `jaxdis list studies` shows it."""
    out: Path
    """The study's folder."""
    seeds: int | None = None
    """Of each setting; the study's own number when not given."""
    steps: int | None = None
    """Updates of each member; the study's own number when not given."""
    num_samples: int | None = None
    """Samples that are scored; the study's own number when not given."""
    metrics: tuple[str, ...] = ("all",)
    """Names as `jaxdis list metrics` shows them, or all."""
    extend: bool = False
    """Let a folder that holds a smaller version of this study grow."""
    cache: Path | None = None
    """Folder for compiled programs."""

    def run(self) -> None:
        start(self.cache)
        if self.name == "calibration":
            self._calibrate()
            return
        from jaxdis.study.library import STUDIES
        from jaxdis.study.report import write_report
        from jaxdis.study.run import status
        from jaxdis.study.store import Store

        if self.name not in STUDIES:
            raise ValueError(f"study: needs one of {', '.join([*STUDIES, 'calibration'])}, got {self.name!r}")
        sizes = {name: getattr(self, name) for name in ("seeds", "steps", "num_samples")}
        sizes = {name: size for name, size in sizes.items() if size is not None}
        metrics = None if self.metrics == ("all",) else self.metrics
        study = STUDIES[self.name](**sizes, metrics=metrics)
        if self.action == "run":
            _run_study(study, self.out, extend=self.extend)
        elif self.action == "report":
            console().print(f"report: {write_report(study, self.out)}", markup=False)
        elif self.action == "status":
            found = status(study, self.out)
            for kind, total in found.total.items():
                console().print(f"{kind}: {found.done[kind]} of {total}", markup=False)
        else:
            damaged = list(Store(self.out).verify())
            for kind, name, reason in damaged:
                console().print(f"removed {kind} {name}: {reason}", markup=False)
            console().print(f"{len(damaged)} damaged records; run the study again to make them anew", markup=False)

    def _calibrate(self) -> None:
        """The certificate of metrics, which trains nothing. ``num_samples`` is that of every representation."""
        from rich.table import Table

        from jaxdis.study.calibration import Calibration, calibrate
        from jaxdis.study.certificate import response_table, write_certificate

        if self.action != "run" or self.steps is not None or self.extend:
            raise ValueError("calibration: takes `run` with --metrics, --seeds, --num-samples and --out alone")
        names = [name for given in self.metrics for name in given.split(",") if name]
        sizes = {} if self.seeds is None else {"seeds": self.seeds, "size_seeds": self.seeds}
        if (n := self.num_samples) is not None:
            smaller = tuple(size for size in (100, 1000, 10_000, 50_000) if size < n)
            sizes.update(case_samples=n, sweep_samples=n, sizes=smaller, full_size=n)
        calibration = Calibration.of("all" if names == ["all"] else names, **sizes)
        with members_bar() as progress:
            certificate = calibrate(calibration, self.out, progress=progress)
        heads, rows = response_table(certificate)
        table = Table(*heads, title="What each metric responds to")
        for row in rows:
            table.add_row(*row)
        console().print(table)
        for path in write_certificate(calibration, certificate, self.out):
            console().print(f"wrote {path}", markup=False)


def _run_study(study, out: Path, *, extend: bool) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from jaxdis.study.report import write_report
    from jaxdis.study.run import run, status

    found = status(study, out)
    columns = TextColumn("{task.description:<7}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console(error=True)) as bar:
        tasks = {
            kind: bar.add_task(kind, total=total, completed=found.done[kind]) for kind, total in found.total.items()
        }
        seen = dict(found.done)

        def progress(kind: str, done: float) -> None:
            bar.update(tasks[kind], completed=round(seen[kind] + done, 1))

        run(study, out, extend=extend, progress=progress)
        for kind, total in found.total.items():
            bar.update(tasks[kind], completed=total)
    report = write_report(study, out)
    console().print(f"table:  {out / 'results.csv'}", markup=False)
    console().print(f"report: {report.resolve().as_uri()}", markup=False)


@dataclasses.dataclass(frozen=True)
class List:
    """Show what there is: each name with what it is and its options."""

    what: tyro.conf.Positional[Literal["metrics", "relations", "scores", "models", "data", "studies"]]
    """Which table."""

    def run(self) -> None:
        from rich.table import Table
        from rich.text import Text

        from jaxdis.listing import listing

        heads, rows = listing(self.what)
        table = Table(*heads, title=self.what)
        for row in rows:
            table.add_row(*map(Text, row))
        console().print(table)


COMMANDS = {
    "quickstart": Quickstart,
    "score": Score,
    "train": Train,
    "study": Study,
    "data": Data,
    "list": List,
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 when it went well, 2 and one line when the input was bad."""
    command = tyro.extras.subcommand_cli_from_dict(COMMANDS, args=arguments, prog="jaxdis", description=__doc__)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_: console(error=True).print(f"[yellow]warning:[/] {message}")
            command.run()
    except (ValueError, OSError) as error:
        sys.stderr.write(f"jaxdis: {' '.join(str(error).split())}\n")
        return EXIT_BAD_INPUT
    return 0


def start(cache: Path | None) -> None:
    """All cores as devices and compiled programs kept, before JAX makes its first array."""
    from jaxdis import runtime

    runtime.use_cpu_devices()
    runtime.use_compilation_cache(cache)


def console(*, error: bool = False):
    from rich.console import Console

    return Console(stderr=error, highlight=False)


class members_bar:
    """A progress bar over members, as the ``progress`` callback of :func:`jaxdis.evaluate`."""

    def __enter__(self):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TextColumn("members"), TimeRemainingColumn()
        self._bar = Progress(*columns, console=console(error=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("scoring", total=None)
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_):
        self._bar.stop()


def print_scores(scores, title: str) -> None:
    """A table to read: a value for one representation, mean and spread over members for a zoo."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    zoo = any(np.ndim(column) for column in scores.values())
    members = max(np.size(column) for column in scores.values())
    heads = ["mean", "± spread", "lowest", "highest", "undefined"] if zoo else ["score"]
    table = Table("metric", *heads, title=Text(f"{title}: {members} members" if zoo else title))
    for name, column in scores.items():
        values = np.atleast_1d(column)
        defined = values[~np.isnan(values)]
        if not zoo:
            table.add_row(name, f"{values[0]:.4f}")
        elif defined.size:
            numbers = defined.mean(), defined.std(), defined.min(), defined.max()
            table.add_row(name, *(f"{number:.4f}" for number in numbers), str(len(values) - len(defined) or ""))
        else:
            table.add_row(name, "", "", "", "", str(len(values)))
    console().print(table)


def _or_null(column):
    if isinstance(column, list):
        return [_or_null(value) for value in column]
    return column if column == column and abs(column) != float("inf") else None
