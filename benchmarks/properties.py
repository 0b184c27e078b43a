"""Which property of a representation does each metric respond to? ``python -m benchmarks.properties [METRIC …]``

Writes ``notebooks/properties.md``: scores of all metrics on planted representations of one property each, as means
over seeds with their 95 % intervals. Names of metrics print the table of these alone.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from scipy.stats import t as student

import jaxdis
from jaxdis._core.files import write_text
from jaxdis.metrics._plan import plan_of

PAGE = Path(__file__).parent.parent / "notebooks" / "properties.md"
SEEDS, SAMPLES, FEW, FACTORS, VALUES = 3, 2000, 200, 4, 5
NOISE = 0.02  # of codes, whose values are whole numbers less their mean
NUMBERS = {"num_train": 1000, "num_eval": 500}


def uniform(rng, n: int) -> np.ndarray:
    return rng.integers(0, VALUES, (n, FACTORS))


def noisy(rng, codes: np.ndarray) -> np.ndarray:
    return codes - codes.mean(axis=0) + NOISE * rng.normal(size=codes.shape)


def one_each(rng, values):
    """One code per factor, with noise of 2 % of the distance between values."""
    return noisy(rng, values)


def twice(rng, values):
    """Redundancy: every factor is in two codes."""
    return noisy(rng, np.repeat(values, 2, axis=1))


def copied(rng, values):
    """One code per factor, and an exact copy of each."""
    return np.tile(noisy(rng, values), 2)


def dead(rng, values):
    """One code per factor, and as many that are constant."""
    return np.c_[noisy(rng, values), np.zeros(values.shape)]


def noise_codes(count: int) -> Callable:
    def codes(rng, values):
        return np.c_[noisy(rng, values), rng.normal(size=(len(values), count))]

    codes.__doc__ = f"One code per factor, and {count} codes of noise."
    return codes


def synergy(rng, values):
    """Synergy: two codes per factor, whose sum modulo 5 is the factor. Either alone is independent of it (XOR)."""
    keys = rng.integers(0, VALUES, values.shape)
    return noisy(rng, np.c_[keys, (values - keys) % VALUES])


def bent(rng, values):
    """A monotone map of each factor: the values 0, 1, 8, 27 and 64."""
    return noisy(rng, values**3)


def shuffled(rng, values):
    """An invertible map of each factor that is not monotone: the values 2, 0, 3, 1 and 4."""
    return noisy(rng, np.array([2, 0, 3, 1, 4])[values])


def rotated(degrees: int) -> Callable:
    def codes(rng, values):
        angle = np.radians(degrees)
        turn = np.kron(np.eye(FACTORS // 2), [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        return noisy(rng, values @ turn)

    codes.__doc__ = f"Pairs of codes, one per factor, rotated by {degrees}°."
    return codes


def swirled(rng, values):
    """An invertible map of pairs of factors that is not linear: each point is rotated by 30° times its radius."""
    points = (values - VALUES // 2)[:, ::2] + 1j * (values - VALUES // 2)[:, 1::2]
    points = points * np.exp(1j * np.radians(30) * np.abs(points))
    return noisy(rng, np.stack([points.real, points.imag], axis=2).reshape(len(values), -1))


def dependent(rng, n: int) -> np.ndarray:
    values = uniform(rng, n)
    values[:, 1::2] = np.where(rng.random((n, FACTORS // 2)) < 0.6, values[:, ::2], values[:, 1::2])
    return values


def unbalanced(rng, n: int) -> np.ndarray:
    return np.where(rng.random((n, FACTORS)) < 0.8, 0, uniform(rng, n))


# Name, what it is, how factors are drawn, how codes follow from them, and the number of samples.
CASES: dict[str, tuple[str, Callable, Callable, int]] = {
    name: (words or codes.__doc__, factors, codes, samples)
    for name, words, factors, codes, samples in (
        ("one each", "", uniform, one_each, SAMPLES),
        ("twice", "", uniform, twice, SAMPLES),
        ("copied", "", uniform, copied, SAMPLES),
        ("synergy", "", uniform, synergy, SAMPLES),
        ("dead", "", uniform, dead, SAMPLES),
        ("4 noise", "", uniform, noise_codes(4), SAMPLES),
        ("16 noise", "", uniform, noise_codes(16), SAMPLES),
        ("bent", "", uniform, bent, SAMPLES),
        ("shuffled", "", uniform, shuffled, SAMPLES),
        ("swirled", "", uniform, swirled, SAMPLES),
        ("15°", "", uniform, rotated(15), SAMPLES),
        ("30°", "", uniform, rotated(30), SAMPLES),
        ("45°", "", uniform, rotated(45), SAMPLES),
        (
            "dependent",
            "One code per factor; the second and fourth factor equal the one before them in 60 % of the samples.",
            dependent,
            one_each,
            SAMPLES,
        ),
        ("unbalanced", "One code per factor; 84 % of the values are 0.", unbalanced, one_each, SAMPLES),
        ("few", f"One code per factor, in {FEW} samples.", uniform, one_each, FEW),
    )
}


def drawn(case: str, seed: int) -> tuple[np.ndarray, jaxdis.Factors]:
    """Codes ``[n, d]`` and factors of a case."""
    _, factors, codes, samples = CASES[case]
    rng = np.random.default_rng(seed)
    values = factors(rng, samples)
    return codes(rng, values).astype(np.float32), jaxdis.Factors.of(values, (VALUES,) * FACTORS)


def scored(metrics) -> dict[str, dict[str, np.ndarray]]:
    """For each case the scores of all seeds, by column."""
    plan = {
        name: metric.with_options(**{option: n for option, n in NUMBERS.items() if option in metric.all_options})
        for name, metric in plan_of(metrics)
    }
    found = {}
    for case in CASES:
        print(case, file=sys.stderr, flush=True)
        each = [jaxdis.evaluate(*drawn(case, seed), plan, jax.random.key(seed)) for seed in range(SEEDS)]
        found[case] = {column: np.array([float(scores[column]) for scores in each]) for column in each[0]}
    return found


def page(found: dict[str, dict[str, np.ndarray]]) -> str:
    """The table, and what each case is."""
    columns = list(next(iter(found.values())))
    head = "| metric | " + " | ".join(f"[{case}](#{anchor(case)})" for case in CASES) + " |"
    lines = [
        f"| `{column}` | " + " | ".join(interval(found[case][column]) for case in CASES) + " |" for column in columns
    ]
    cases = "\n\n".join(f"### {name}\n\n{words}" for name, (words, *_) in CASES.items())
    return PROSE.format(
        table="\n".join([head, "| --- " * (len(CASES) + 1) + "|", *lines]), cases=cases, seeds=SEEDS, samples=SAMPLES
    )


def anchor(heading: str) -> str:
    """What links to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def interval(scores: np.ndarray) -> str:
    """The mean over seeds and half of its 95 % interval (Student's), ``.98 ± .01``; the mean alone below .005."""
    half = student.ppf(0.975, len(scores) - 1) * scores.std(ddof=1) / np.sqrt(len(scores))
    numbers = (f"{value:.2f}".replace("-0.00", "0.00") for value in (scores.mean(), half))
    mean, half = (re.sub(r"^(-?)0\.", r"\1.", number) for number in numbers)
    return mean if half in (".00", "nan") else f"{mean} ± {half}"


PROSE = """# Which property does each metric respond to?

Scores of planted representations of four factors with five values each, which have one property at a time. The first
column is the ideal: one code per factor. Where another column is lower, the metric takes the property for a fault;
where it is not, the metric does not see it. Each cell is a mean over {seeds} seeds with half of its 95 % interval, if
this is at least .01; the name of a column leads to its case. `total_correlation`, `code_information` and `amari` are
best when they are low, and `sepin` and its kin are in nats. Some are low even for the ideal: one linear machine does
not separate five values of a code (`sap`), factors of few values jump (`smoothness`), and without its code a factor is
still guessed in one of five cases (`nk`).

{table}

## Cases

{cases}

## How this was made

`python -m benchmarks.properties` draws the cases, {samples:,} samples each unless said otherwise, and scores them by
all metrics; `python -m benchmarks.properties NAME` prints the rows of one.
"""


if __name__ == "__main__":
    text = page(scored(sys.argv[1:] or tuple(jaxdis.METRICS)))
    if not sys.argv[1:]:
        write_text(PAGE, text)
    print(text)
