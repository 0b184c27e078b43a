"""``jaxdis score``: scores of the codes in files, and of trained zoos."""

import dataclasses
import glob
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import tyro

from jaxdis.cli import terminal
from jaxdis.cli.outputs import check_not_input, make_room


@dataclasses.dataclass(frozen=True)
class Score:
    """Score codes in files, or trained zoos, with disentanglement metrics.

    A file of codes is an .npz with arrays `codes` [samples, codes] or [members, samples, codes] and `factors` [samples,
    factors] (class numbers), and optionally `names`, `sizes` (0 marks a continuous factor) and `variances`. A zoo is a
    folder that `jaxdis train` wrote; its members encode new images of its data set, and FactorVAE, BetaVAE and IRS
    intervene in it.
    """

    files: tyro.conf.Positional[tuple[str, ...]] = ()
    """.npz files, .npy files of codes alone together with --factors, or folders of zoos.
    Patterns such as 'runs/*.npz' are allowed. Several are scored one by one and reported in one table."""
    factors: Path | None = None
    """Factors, if files hold codes alone: an .npy, or a .csv or .parquet table with a header."""
    columns: tuple[str, ...] = ()
    """Columns of such a table; all by default. Whole numbers and text are classes; other numbers are continuous."""
    test: Path | None = None
    """.npz of held-out codes and factors, for metrics that train learners; by default these hold out a third."""
    metrics: tuple[str, ...] = ("all",)
    """Names of `jaxdis list metrics`, or all; with options as mig:bins=30 or dci:splitter=histogram:stages=5."""
    list_options: bool = False
    """Print the options of the metrics, and compute nothing."""
    bootstrap: int = 0
    """Number of bootstrap replicates for standard errors and 95 % intervals; each costs one evaluation."""
    samples: int = 10_000
    """For zoos: number of images on which metrics are computed; half as many are held out."""
    csv: Path | None = None
    """CSV file to write, with one row per member."""
    json: Path | None = None
    """JSON file to write, with one list per column."""
    seed: int = 0
    """Random seed."""
    batch_size: int | None = None
    """Members per batch on each device; by default chosen by backend and memory."""
    cache: Path | None = None
    """Folder for compiled programs (default: ~/.cache/jaxdis/programs)."""

    def run(self) -> None:
        from jaxdis.cli.metric_texts import options_in_words, plan_of_texts
        from jaxdis.evaluation.arrays_file import printable
        from jaxdis.options import Seed, checked_value

        checked_value("--seed", Seed, self.seed)
        if self.list_options:
            terminal.write(options_in_words(plan_of_texts(self.metrics)), wrap=False)
            return
        paths = self._paths()
        self._check_outputs(paths)
        terminal.start(self.cache)
        plan = plan_of_texts(self.metrics)
        for option, path in (("--csv", self.csv), ("--json", self.json)):
            make_room(option, path)  # before hours of scoring
        terminal.first_sign("scoring")
        file_scores, refused = {}, {}
        for name, path in _names(paths).items():
            try:
                with terminal.naming(name if len(paths) > 1 else None):
                    file_scores[name] = self._score(path, plan)
            except ValueError as error:
                if len(paths) == 1:
                    raise
                refused[name] = str(error).removeprefix(f"{printable(path)}: ")
                continue
            self._write(file_scores, last=False)
        if file_scores:
            self._write(file_scores, last=True)  # before a terminal that may fail
            print_scores(file_scores, several=len(paths) > 1)
        if refused:
            raise ValueError(_refusal(refused, len(paths)))

    def _paths(self) -> list[Path]:
        """The files, with patterns resolved."""
        paths = [path for text in self.files for path in (sorted(glob.glob(text)) or [text])]
        if not paths:
            raise ValueError("files: needs at least one file, got none")
        return list(dict.fromkeys(map(Path, paths)))

    def _write(self, file_scores: Mapping, *, last: bool) -> None:
        """Write what has been scored, to pipes only the last time."""
        from jaxdis.files import write_text

        several = len(self._paths()) > 1
        # JSON has no NaN: null marks an undefined score.
        columns = {name: _columns(scores) for name, scores in file_scores.items()}
        texts = {
            self.csv: to_csv(file_scores, several=several),
            self.json: json.dumps(columns if several else columns.popitem()[1], indent=1) + "\n",
        }
        for path, text in texts.items():
            if path is not None and (last or path.is_file() or not path.exists()):
                write_text(path, text)

    def _score(self, path: Path, plan: Mapping):
        import jax

        from jaxdis.cli.zoos import is_zoo
        from jaxdis.evaluation.arrays_file import load_arrays
        from jaxdis.evaluation.evaluate import evaluate
        from jaxdis.evaluation.stages import stages_of

        key = jax.random.key(self.seed)
        how = {"bootstrap": self.bootstrap, "batch_size": self.batch_size}
        if is_zoo(path):
            return self._score_zoo(path, plan, key, how)
        arrays = load_arrays(path, self.factors, self.columns)
        test = None
        if self.test is not None:
            held_out = load_arrays(self.test)
            test = (held_out.codes, held_out.factors)
        stages = [tuple(dict(stage)) for stage in stages_of(tuple(plan.items()))]
        with terminal.latest_scores(stages, _in_brief) as (arrived, bar):
            how |= {"arrived": self._kept_too(arrived, path), "progress": bar("members")}
            return evaluate(arrays.codes, arrays.factors, plan, key, test=test, variances=arrays.variances, **how)

    def _score_zoo(self, path: Path, plan: Mapping, key, how: Mapping):
        from jaxdis.cli.zoos import load_zoo
        from jaxdis.evaluation.encoder import evaluate_encoder, names_in_turn

        for name in ("factors", "test", "columns"):
            if getattr(self, name):
                raise ValueError(f"--{name}: goes with files of codes; a zoo encodes images of its own data set")
        zoo = load_zoo(path)
        config = zoo.config
        samples = {"samples": self.samples, "test_samples": max(1, self.samples // 2)}
        with terminal.latest_scores(names_in_turn(plan), _in_brief) as (arrived, bar):
            how |= {"arrived": self._kept_too(arrived, path), "progress": bar("images encoded") or False}
            return evaluate_encoder(zoo, config.data, plan, key, source=config.source, **samples, **how)

    def _kept_too(self, arrived: Callable | None, path: Path) -> Callable | None:
        """A callback that also writes what has arrived: of a single file, whose metrics may take hours."""
        if len(self._paths()) > 1 or not (self.csv or self.json):
            return arrived
        from jaxdis.cli.arrivals import joined

        tables = []

        def write_too(scores):
            tables.append(scores)
            self._write({path.name: joined(tables)}, last=False)
            if arrived is not None:
                arrived(scores)

        return write_too

    def _check_outputs(self, paths: list[Path]) -> None:
        """Check, before anything is computed, that outputs can be written and are not inputs."""
        inputs = [path for path in (*paths, self.factors, self.test) if path is not None]
        for option, path in (("--csv", self.csv), ("--json", self.json)):
            if path is None:
                continue
            check_not_input(option, path, inputs)
            if path.is_dir():
                raise ValueError(f"{option}: needs a file, got the folder {path}")
        if self.csv is not None and self.json is not None and self.csv.resolve() == self.json.resolve():
            raise ValueError(f"--json: needs another file than --csv, got {self.json}")


def _names(paths: list[Path]) -> dict[str, Path]:
    """Files by their names, or by their paths where names repeat."""
    names = [path.name for path in paths]
    return {path.name if names.count(path.name) == 1 else str(path): path for path in paths}


def _refusal(refused: Mapping[str, str], count: int) -> str:
    """What was wrong with some of several files, or with all of them alike."""
    if len(refused) == count and len(set(refused.values())) == 1:
        return next(iter(refused.values()))
    told = "; ".join(f"{name}: {words}" for name, words in refused.items())
    return f"{len(refused)} of {count} files were not scored: {told}"


def to_csv(file_scores: Mapping, *, several: bool) -> str:
    """One row per member; several files share a table, with their names in the first column."""
    import csv
    import io

    from jaxdis.files import csv_text

    if not several:
        return next(iter(file_scores.values())).to_csv()
    rows = [
        {"file": name, **row}
        for name, scores in file_scores.items()
        for row in csv.DictReader(io.StringIO(scores.to_csv()))
    ]
    head = list(dict.fromkeys(column for row in rows for column in row))  # zoos have some columns that files lack
    return csv_text(head, rows)


def print_scores(file_scores: Mapping, *, several: bool) -> None:
    """Print a table: for one file a value, or mean and spread over members; for several, one column per file."""
    from rich.table import Table
    from rich.text import Text

    if not several:
        ((name, scores),) = file_scores.items()
        _print_one(scores, name)
        return
    table = Table(title=f"{len(file_scores)} files")
    table.add_column("metric", overflow="fold")
    for name in file_scores:
        table.add_column(Text(terminal.one_line(name)), overflow="fold")
    columns = dict.fromkeys(column for scores in file_scores.values() for column in scores)
    for column in columns:
        table.add_row(column, *(_in_brief(scores, column) for scores in file_scores.values()))
    terminal.console().print(table)


def _in_brief(scores, column: str) -> str:
    """``0.412 ± 0.013``: a score and its bootstrap error, or mean and spread over members."""
    import numpy as np

    values = np.atleast_1d(scores[column]) if column in scores else np.empty(0)
    values = values[~np.isnan(values)]
    if not values.size:
        return ""
    if values.size > 1:
        return f"{values.mean():.3f} ± {values.std():.3f}"
    error = scores.replicates.get(column)
    return f"{values[0]:.3f}" + (f" ± {np.std(error, ddof=1):.3f}" if error is not None else "")


def _print_one(scores, title: str) -> None:
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    zoo = any(np.ndim(column) for column in scores.values())
    members = max(np.size(column) for column in scores.values())
    errors = ["error"] if scores.replicates else []
    heads = ["mean", "spread", "lowest", "highest", "undefined"] if zoo else ["score", *errors]
    table = Table(title=Text(f"{title}: {members} members" if zoo else title))
    table.add_column("metric", overflow="fold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for name, column in scores.items():
        values = np.atleast_1d(column)
        defined = values[~np.isnan(values)]
        if not zoo:
            error = [f"{scores.error(name):.4f}" if name in scores.replicates else ""] if errors else []
            table.add_row(name, f"{values[0]:.4f}", *error)
        elif defined.size:
            numbers = defined.mean(), defined.std(), defined.min(), defined.max()
            table.add_row(name, *(f"{number:.4f}" for number in numbers), str(len(values) - len(defined) or ""))
        else:
            table.add_row(name, "", "", "", "", str(len(values)))
    terminal.console().print(table)


def _columns(scores) -> dict:
    return {name: _or_null(column) for name, column in scores.to_dict().items()}


def _or_null(column):
    if isinstance(column, list):
        return [_or_null(value) for value in column]
    return column if column == column and abs(column) != float("inf") else None
