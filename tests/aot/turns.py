"""Count how often loops turn whose end depends on the data: ``python -m tests.aot.turns [METRIC …]``, minutes.

Each metric scores two members of the workload together in the forms of accelerators, on the CPU. A loop of several
members turns until the last is done, so that this is a lower bound for more of them. The counts are written to
``jaxdis/cli/turns.json``, from which ``jaxdis benchmark --target`` reads them.
"""

import json
import os
import sys
from pathlib import Path

os.environ["JAXDIS_FORMS"] = "gpu"

import jax
import numpy as np

import jaxdis
from jaxdis._core import programs
from jaxdis.cli._throughput import NUM_CODES, SIZES
from tests.turns import counting

FILE = Path(jaxdis.__file__).parent / "cli" / "turns.json"


def encoded(n: int, seed: int) -> tuple[np.ndarray, jaxdis.Factors]:
    """A member that has one code per factor, one that mixes all factors, and the factors."""
    rng, mixing = np.random.default_rng(seed), np.random.default_rng(7).normal(size=(len(SIZES), NUM_CODES))
    values = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    centered = (values / np.array(SIZES) - 0.5) * 3.4
    silent = np.zeros((n, NUM_CODES - len(SIZES)))
    apart = np.concatenate([centered, silent], axis=1) + 0.05 * rng.normal(size=(n, NUM_CODES))
    mixed = centered @ mixing + 0.1 * rng.normal(size=(n, NUM_CODES))
    return np.stack([apart, mixed]).astype(np.float32), jaxdis.Factors.of(values, SIZES)


def main(names: list[str]) -> None:
    programs.keep_in(None)
    (codes, factors), test = encoded(10_000, 1), encoded(5_000, 2)
    turns = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or list(jaxdis.METRICS):
        with counting() as observed:
            jaxdis.evaluate(codes, factors, name, jax.random.key(0), test=test, batch_size=2)
        turns[name] = {loop: round(float(np.mean(counts)), 1) for loop, counts in sorted(observed.items())}
        FILE.write_text(json.dumps(turns, indent=1, sort_keys=True) + "\n")
        sys.stdout.write(f"{name} {turns[name]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
