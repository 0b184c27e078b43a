"""``jaxdis score``: scores of the codes in a file."""

import dataclasses
import json
from pathlib import Path

import tyro

from jaxdis.cli import terminal


@dataclasses.dataclass(frozen=True)
class Score:
    """Score codes in a file with disentanglement metrics.

    The file is an .npz with arrays `codes` [samples, codes] or [members, samples, codes] and `factors`
    [samples, factors] (class numbers), and optionally `names`, `sizes` (0 marks a continuous factor) and `variances`.
    """

    file: tyro.conf.Positional[Path]
    """.npz, or .npy of codes alone together with --factors."""
    factors: Path | None = None
    """.npy of factors, if FILE is an .npy."""
    metrics: tuple[str, ...] = ("all",)
    """Names of `jaxdis list metrics`, or all."""
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
        import jax

        from jaxdis.evaluation.arrays_file import load_arrays
        from jaxdis.evaluation.evaluate import evaluate
        from jaxdis.options import Seed, checked_value

        checked_value("--seed", Seed, self.seed)
        self._check_outputs()
        terminal.start(self.cache)
        for path in filter(None, (self.csv, self.json)):
            path.resolve().parent.mkdir(parents=True, exist_ok=True)  # fail before hours of scoring
        arrays = load_arrays(self.file, self.factors)
        names = [name for entry in self.metrics for name in entry.split(",") if name]
        with terminal.members_bar() as progress:
            scores = evaluate(
                arrays.codes,
                arrays.factors,
                "all" if names == ["all"] else names,
                jax.random.key(self.seed),
                variances=arrays.variances,
                batch_size=self.batch_size,
                progress=progress,
            )
        # Files first, so that a failing terminal loses no results.
        if self.csv is not None:
            _write(self.csv, scores.to_csv())
        if self.json is not None:
            # JSON has no NaN: null marks an undefined score.
            columns = {name: _or_null(column) for name, column in scores.to_dict().items()}
            _write(self.json, json.dumps(columns, indent=1, allow_nan=False) + "\n")
        print_scores(scores, self.file.name)

    def _check_outputs(self) -> None:
        """Check, before anything is computed, that outputs can be written and are not inputs."""
        inputs = [path for path in (self.file, self.factors) if path is not None]
        for option, path in (("--csv", self.csv), ("--json", self.json)):
            if path is None:
                continue
            if any(path.resolve() == given.resolve() for given in inputs):
                raise ValueError(f"{option}: needs another file than the input, got {path}")
            if path.is_dir():
                raise ValueError(f"{option}: needs a file, got the folder {path}")
        if self.csv is not None and self.json is not None and self.csv.resolve() == self.json.resolve():
            raise ValueError(f"--json: needs another file than --csv, got {self.json}")


def _write(path: Path, text: str) -> None:
    """Write a complete file or none, following links; write directly into a pipe or a device."""
    from jaxdis.files import write_whole

    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    write_whole(path, lambda file: file.write(text.encode()))


def print_scores(scores, title: str) -> None:
    """Print a table: one value per metric for a single representation, mean and spread over members for a zoo."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    zoo = any(np.ndim(column) for column in scores.values())
    members = max(np.size(column) for column in scores.values())
    heads = ["mean", "spread", "lowest", "highest", "undefined"] if zoo else ["score"]
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
    terminal.console().print(table)


def _or_null(column):
    if isinstance(column, list):
        return [_or_null(value) for value in column]
    return column if column == column and abs(column) != float("inf") else None
