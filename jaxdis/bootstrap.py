"""How sure a score is: the same score on samples drawn again, with replacement, from those given."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.metrics import metric_seed
from jaxdis.typing import Sample

SEED = metric_seed("bootstrap")


class Again(NamedTuple):
    """One replicate of a sample: the same rows with counts as ``weighted`` has them, or rows drawn again."""

    weighted: Sample
    drawn: Sample


def replicate(key: jax.Array, sample: Sample) -> Again:
    """Draw ``n`` of ``n`` samples with replacement: as multinomial counts that weigh them, and as rows.

    Both are the same draw; a metric that takes weights reads the first, which moves no data, others read the second.
    """
    n = sample.codes.shape[0]
    rows = jax.random.randint(key, (n,), 0, n)
    counts = jnp.zeros(n).at[rows].add(1.0)
    weights = counts if sample.weights is None else counts * sample.weights
    variances = None if sample.variances is None else sample.variances[rows]
    drawn_weights = None if sample.weights is None else sample.weights[rows]
    drawn = Sample(sample.codes[rows], sample.factors.take(rows), drawn_weights, variances)
    return Again(sample._replace(weights=weights), drawn)


def interval(score: np.ndarray | np.generic, replicates: np.ndarray, level: float, kind: str) -> np.ndarray:
    """``[…, 2]`` bounds from ``score […]`` and ``replicates […, count]``.

    Raises:
      ValueError: for a level outside (0, 1) or another kind.
    """
    if not 0 < level < 1:
        raise ValueError(f"level: needs a number between 0 and 1, got {level}")
    if kind not in ("basic", "percentile"):
        raise ValueError(f"kind: needs 'basic' or 'percentile', got {kind!r}")
    tail = (1 - level) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail], axis=-1)
    if kind == "percentile":
        return np.stack([low, high], axis=-1)
    return np.stack([2 * score - high, 2 * score - low], axis=-1)
