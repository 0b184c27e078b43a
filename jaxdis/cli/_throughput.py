"""A machine's throughput: members scored per second, training updates per second, and what compiling costs.

What is scored are 10,000 samples (and 5,000 held-out ones) with ten codes and dSprites' five factors; what is trained
is a small β-VAE on hearts.
"""

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdis._core.files import read_json
from jaxdis._core.version import __version__
from jaxdis.cli import _terminal as terminal
from jaxdis.evaluation._costs import usual_seconds
from jaxdis.evaluation._evaluate import evaluate
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Metric
from jaxdis.models import Config, Mlp, Vae, members, train

NUM_CODES, SIZES = 10, (3, 6, 40, 32, 32)
# Zoo sizes, and what a first call is expected to spend on compiling, in seconds.
ZOO_SIZES = (1, 16, 256)
COMPILING = 10.0
TRAINING = "training"
# Updates of the two runs whose difference gives the time of an update.
FEW_UPDATES, MANY_UPDATES = 50, 250
_FORMAT = 1


class Row(NamedTuple):
    """One measurement: ``per_second`` members (or, for training, updates of one member) after ``compile_seconds``.

    ``compile_seconds`` is the first call's time minus the second's, or the time to load the program if another process
    has cached it on disk. Zoo sizes for one metric may share a program.
    """

    name: str
    zoo_size: int
    compile_seconds: float
    run_seconds: float
    per_second: float


class Record(NamedTuple):
    """All measurements on a machine, those skipped for lack of time, and the peak memory in bytes (None if unknown)."""

    machine: Mapping[str, Any]
    samples: int
    rows: tuple[Row, ...]
    left_out: tuple[tuple[str, int], ...]
    peak_bytes: int | None


def measure(
    metrics: Mapping[str, Metric] | None = None,
    zoo_sizes: Sequence[int] = ZOO_SIZES,
    *,
    minutes: float = 8.0,
    samples: int = 10_000,
    progress: Callable[[int, int, str], None] | None = None,
) -> Record:
    """Measure training and every metric at every zoo size, the most expensive last, within given minutes.

    A measurement begins only if it is expected to end in time, according to the metric's row (``About.seconds``) or to
    the time per member at a smaller size. ``progress`` is called before it: how many are done, of how many, and what
    comes next.
    """
    end = time.perf_counter() + 60 * minutes
    metrics = dict(METRICS if metrics is None else metrics)
    seconds = {name: expected(metric) for name, metric in metrics.items()}
    tasks = [(name, size) for name in (TRAINING, *metrics) for size in zoo_sizes]
    seconds[TRAINING] = 4e-3 * (2 * FEW_UPDATES + MANY_UPDATES)
    rows, left_out, compiled = [], [], set()
    first = TRAINING, min(zoo_sizes)

    def cost(task: tuple[str, int]) -> float:
        return seconds[task[0]] * task[1] + COMPILING * (task[0] not in compiled)

    while tasks:
        name, size = task = min(tasks, key=lambda task: (task != first, cost(task)))
        tasks.remove(task)
        left = end - time.perf_counter()
        if cost(task) > left:
            left_out.append(task)
            continue
        if progress is not None:
            progress(len(rows), len(rows) + len(tasks) + 1, f"{name}, zoo of {size}")
        row = _training(size) if name == TRAINING else _scoring(name, metrics[name], size, samples)
        rows.append(row)
        compiled.add(name)
        seconds[name] = row.run_seconds / size * (2 if name != TRAINING else 1)  # scored twice
    return Record(machine(), samples, tuple(rows), tuple(left_out), peak_bytes())


def expected(metric: Metric) -> float:
    """Expected seconds per member, scored twice."""
    return 2 * usual_seconds(metric)


def _scoring(name: str, metric: Metric, size: int, samples: int) -> Row:
    codes, factors = zoo(size, samples, seed=0)
    held_out = zoo(size, samples // 2, seed=1)

    def once() -> float:
        start = time.perf_counter()
        evaluate(codes, factors, {name: metric}, test=held_out, variances=np.full_like(codes, 0.1))
        return time.perf_counter() - start

    first, second = once(), once()
    return Row(name, size, max(0.0, first - second), second, size / second)


def zoo(size: int, samples: int, *, seed: int) -> tuple[np.ndarray, Factors]:
    """Noisy mixtures of the factors, a different mixture for every member."""
    rng, mixing = np.random.default_rng(seed), np.random.default_rng(2)
    values = np.stack([rng.integers(0, count, samples) for count in SIZES], axis=1)
    mixtures = mixing.normal(size=(size, len(SIZES), NUM_CODES)).astype(np.float32)
    codes = (values / np.array(SIZES)).astype(np.float32) @ mixtures
    codes += 0.1 * rng.standard_normal(codes.shape, dtype=np.float32)
    return codes, Factors.of(values, SIZES)


def _training(size: int) -> Row:
    """Train one β-VAE under several seeds as a zoo; count all members' updates per second."""
    method = Vae("beta", Mlp((128, 128), num_codes=6))
    trained = members({"beta": {"beta": 4, "learning_rate": 1e-3}}, size, method)
    seconds = []
    for steps in (FEW_UPDATES, FEW_UPDATES, MANY_UPDATES):
        start = time.perf_counter()
        train(Config("hearts", method=method, steps=steps), *trained, log_every=FEW_UPDATES)
        seconds.append(time.perf_counter() - start)
    first, few, many = seconds
    update = max(many - few, 1e-9) / (MANY_UPDATES - FEW_UPDATES)
    return Row(TRAINING, size, max(0.0, first - few), sum(seconds), size / update)


def machine() -> dict[str, Any]:
    first, *others = jax.devices()
    devices = {"device": first.device_kind, "platform": first.platform, "devices": 1 + len(others)}
    return {**devices, "jaxdis": __version__, "jax": jax.__version__, "python": platform.python_version()}


def peak_bytes() -> int | None:
    """Peak of device memory so far, or on CPU the process's; None where neither is known."""
    stats = jax.devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return int(stats["peak_bytes_in_use"])
    try:
        import resource
    except ImportError:  # not on every system
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def to_json(record: Record) -> str:
    contents = {**record._asdict(), "rows": [row._asdict() for row in record.rows], "format": _FORMAT}
    return json.dumps(contents, indent=1, allow_nan=False) + "\n"


def read_record(path: str | Path) -> Record:
    try:
        record = read_json(path)
        if record.pop("format") != _FORMAT:
            raise ValueError("another format")
        rows = tuple(Row(**row) for row in record.pop("rows"))
        left_out = tuple((str(name), int(size)) for name, size in record.pop("left_out"))
        return Record(**record, rows=rows, left_out=left_out)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: must be a record of jaxdis benchmark ({type(error).__name__}: {error})") from None


def ratios(one: Record, other: Record) -> Iterator[tuple[str, int, float, float, float]]:
    """What both records measured: name, zoo size, both throughputs, and how many times as fast the second is."""
    if one.samples != other.samples:
        both = f"{one.samples:,} and {other.samples:,}"
        raise ValueError(f"samples: must have records of equally many samples, got {both}")
    theirs = {(row.name, row.zoo_size): row.per_second for row in other.rows}
    common = [row for row in one.rows if (row.name, row.zoo_size) in theirs]
    if not common:
        raise ValueError("records: need a measurement in common, got none")
    for row in common:
        second = theirs[row.name, row.zoo_size]
        yield row.name, row.zoo_size, row.per_second, second, second / row.per_second


def print_ratios(rows, first: str, second: str) -> None:
    texts = ((name, str(size), f"{a:.3g}", f"{b:.3g}", f"{ratio:.2f}") for name, size, a, b, ratio in rows)
    terminal.print_table(("per second", "zoo", first, second, "ratio"), texts, title="second ÷ first")


def print_record(record: Record) -> None:
    sizes = sorted({row.zoo_size for row in record.rows})
    kind = f"{record.machine['devices']} × {record.machine['device']}, {record.machine['platform']}"
    caption = f"members per second of {record.samples:,} samples; training: updates per second"
    texts, rows = [], {(row.name, row.zoo_size): row for row in record.rows}
    for name in dict.fromkeys(row.name for row in record.rows):
        measured = [rows.get((name, size)) for size in sizes]
        compiling = max(row.compile_seconds for row in measured if row is not None)
        speeds = ("" if row is None else f"{row.per_second:,.3g}" for row in measured)
        texts.append((name, f"{compiling:.1f} s", *speeds))
    terminal.print_table(("", "compiling", *(f"zoo of {size}" for size in sizes)), texts, title=kind, caption=caption)
    if record.peak_bytes is not None:
        terminal.write_line(f"peak of memory: {record.peak_bytes / 1e9:.2f} GB")
    for size in sorted({size for _, size in record.left_out}):
        names = ", ".join(name for name, other in record.left_out if other == size)
        terminal.write(f"no time was left, at a zoo of {size}, for {names}")
