"""How uncertain a score is, by the bootstrap: how far it spreads over samples redrawn from the given ones."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.spec import Spec
from jaxdis.factors import Sample
from jaxdis.metrics._metric import metric_seed

SEED = metric_seed("bootstrap")


class Again(NamedTuple):
    """One replicate in three forms: ``weighted``, the same rows with counts as weights; ``drawn``, rows drawn with
    replacement; ``halved``, half the rows at random, without repetition."""

    weighted: Sample
    drawn: Sample
    halved: Sample

    def version_for(self, spec: Spec) -> Sample:
        """The form that a function can read."""
        if spec.distinct_samples:
            return self.halved
        return self.weighted if spec.reads.weights else self.drawn


def replicate(key: PRNGKeyArray, sample: Sample) -> Again:
    """Draw ``n`` from ``n`` samples with replacement: as multinomial counts that weight them, and as rows.

    Both forms are the same draw: a metric that takes weights reads the first, which moves no data, and others read the
    second. Functions that need distinct samples, such as nearest-neighbor estimates, would misread repeated samples;
    for these a replicate is half the samples at random. To first order, the estimate on half the samples scatters
    around that on all samples with the variance that the latter has itself: ``σ² (2 / n − 1 / n) = σ² / n``.

    Samples that belong together are drawn as whole groups until there are ``n`` samples, or half as many; the last
    group is cut.

    Reference: Efron & Tibshirani 1993, §6; Politis et al. 1999, §2 (subsampling); Davison & Hinkley 1997, §3.8 (whole
    groups).
    """
    n = sample.codes.shape[0]
    rows = random.drawn_rows(key, sample.groups, n)
    counts = jnp.zeros(n).at[rows].add(1.0)
    weights = counts if sample.weights is None else counts * sample.weights
    half = random.shuffled_rows(jax.random.fold_in(key, 1), sample.groups, n)[: max(1, n // 2)]
    return Again(sample._replace(weights=weights), sample.take(rows), sample.take(half))


def centered(replicates: jax.Array, score: jax.Array) -> jax.Array:
    """Shift scores ``[count, …]`` on half the samples so that their mean is the score on all samples.

    With fewer samples, such estimates are systematically smaller or larger. That difference does not estimate the bias
    at ``n``, which need not fall as ``1 / n``.
    """
    return replicates - replicates.mean(axis=0)[None] + score[None]


def interval(score: np.ndarray | np.generic, replicates: np.ndarray, level: float, kind: str) -> np.ndarray:
    """Return bounds ``[…, 2]`` around ``score […]`` from ``replicates […, count]``; see :meth:`Scores.interval`.

    Raises:
      ValueError: if the level is outside (0, 1), or the kind is unknown.
    """
    if not 0 < level < 1:
        raise ValueError(f"level: must be a number between 0 and 1, got {level}")
    if kind not in ("normal", "basic", "percentile"):
        raise ValueError(f"kind: must be 'normal', 'basic' or 'percentile', got {kind!r}")
    tail = (1 - level) / 2
    deviations = replicates - replicates.mean(axis=-1, keepdims=True)
    if kind == "normal":
        from scipy.special import stdtrit

        reach = -stdtrit(deviations.shape[-1] - 1, tail) * deviations.std(axis=-1, ddof=1)
        below, above = -reach, reach
    else:
        below, above = np.quantile(deviations, [tail, 1 - tail], axis=-1)
        below, above = (-above, -below) if kind == "basic" else (below, above)
    # Quantiles of few skewed replicates may all lie on one side of their mean.
    return np.stack([score + np.minimum(below, 0), score + np.maximum(above, 0)], axis=-1)
