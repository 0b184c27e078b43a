"""Z-max variance: which factor alone varies in a batch, predicted from the code that varies most."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import finite_codes, stable_order
from jaxdis._core.options import Batches, BatchSize, Bins, NonNegative
from jaxdis._core.spec import metric
from jaxdis.factors import Codes, Factors
from jaxdis.metrics.interventions._fixed_draws import Draws
from jaxdis.metrics.interventions._votes import Votes, batch_variances, judge_votes
from jaxdis.relations._binning import equal_width_bins


def draw_varied(
    key: PRNGKeyArray,
    factors: Factors,
    *,
    num_train: int = 800,
    num_eval: int = 800,
    batch: int = 200,
    factor_bins: int | None = 3,
) -> Draws:
    """Batches whose samples agree in all factors but one; ``factor`` is that one.

    Ordered factors with more than ``factor_bins`` values are cut into equal-width bins. A factor can vary if some
    samples, in each half, share all others and differ in it.
    """
    n, k = factors.values.shape
    which, halves, first, rest = jax.random.split(key, 4)
    held_out = jnp.zeros(n, jnp.int32).at[jax.random.permutation(halves, n)[n // 2 :]].set(1)
    values = factors.values.astype(jnp.float32)
    columns = values if factor_bins is None else equal_width_bins(values, factor_bins)
    nominal = factors.nominal or (False,) * k
    small = [j for j, size in enumerate(factors.sizes) if size and (size <= (factor_bins or size) or nominal[j])]
    place = jnp.array(small, jnp.int32)
    columns = columns.astype(jnp.int32).at[:, place].set(factors.values[:, place].astype(jnp.int32))

    def cells(parts):
        """Samples by their half and all other factors' values: their order, and each one's run in it."""
        number, own = parts
        order = stable_order(number)
        start = jnp.searchsorted(number[order], number, side="left").astype(jnp.int32)
        end = jnp.searchsorted(number[order], number, side="right").astype(jnp.int32)
        least = jnp.full(n, n, jnp.int32).at[start].min(own)[start]
        most = jnp.full(n, -1, jnp.int32).at[start].max(own)[start]
        return order, start, end - start, most > least

    order, start, count, differs = jax.lax.map(cells, (numbered_by_others(columns.T, held_out), columns.T))
    of_half = jnp.stack([differs & (held_out == half)[None, :] for half in (0, 1)])  # [2, k, n]
    chances = of_half.sum(axis=2)
    varies = (chances > 0).all(axis=0)
    usable = jnp.nonzero(varies, size=k, fill_value=0)[0].astype(jnp.int32)
    drawn = random.uniform(which, (num_train + num_eval,)) * jnp.maximum(varies.sum(), 1).astype(jnp.float32)
    factor = usable[jnp.minimum(jnp.floor(drawn).astype(jnp.int32), k - 1)]
    half = (jnp.arange(num_train + num_eval) >= num_train).astype(jnp.int32)
    anchors = jnp.argsort(~of_half, axis=2, stable=True).astype(jnp.int32)
    anchor = anchors[half, factor, _below(first, chances[half, factor])]
    step = _below(rest, jnp.broadcast_to(count[factor, anchor], (batch, len(factor))))
    return Draws(factor, order[factor[None, :], start[factor, anchor][None, :] + step], None, varies.sum())


def numbered(number: Int[Array, " n"], values: Int[Array, " n"]) -> Int[Array, " n"]:
    """Numbers below ``n`` for the different pairs in two columns."""
    by_values = stable_order(values)
    order = by_values[stable_order(number[by_values])]
    new = (jnp.diff(number[order]) != 0) | (jnp.diff(values[order]) != 0)
    return jnp.zeros_like(number).at[order[1:]].set(jnp.cumsum(new).astype(jnp.int32))


def numbered_by_others(columns: Int[Array, "k n"], first: Int[Array, " n"]) -> Int[Array, "k n"]:
    """For each column, number the different combinations of ``first`` and all other columns, in their order."""
    _, before = jax.lax.scan(lambda number, column: (numbered(number, column), number), first, columns)
    none = jnp.zeros_like(first)
    _, behind = jax.lax.scan(lambda number, column: (numbered(column, number), number), none, columns, reverse=True)
    return jax.lax.map(lambda pair: numbered(*pair), (before, behind))


def _below(key, counts: Int[Array, "..."]) -> Int[Array, "..."]:
    """Random whole numbers below each count."""
    place = jnp.floor(random.uniform(key, counts.shape) * counts.astype(jnp.float32)).astype(jnp.int32)
    return jnp.clip(place, 0, jnp.maximum(counts - 1, 0))


@metric(needs_classes=True, prepare=draw_varied)
def z_max(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    num_train: Batches = 800,
    num_eval: Batches = 800,
    batch: BatchSize = 200,
    prune: NonNegative = 0.05,
    rescale: bool = False,
    factor_bins: Bins | None = 3,
    prepared: Draws | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Votes:
    """Predict which factor alone varies from the code that varies most (Z-max variance, RF-VAE's score): the accuracy.

    A batch's samples agree in all factors but one. Its vote is the code with the largest variance in the batch, as a
    share of its variance over all samples. Each code predicts the factor for which it got most votes in ``num_train``
    batches; the score is the accuracy in ``num_eval`` others, drawn from the other half of the samples.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      num_train, num_eval: how many batches.
      batch: samples per batch, drawn with repetition from those that share the values.
      prune: codes with a standard deviation below this do not compete.
      rescale: map chance to 0, ``(a − 1/k) / (1 − 1/k)``.
      factor_bins: ordered factors with more values, and continuous ones, are cut into this many equal-width bins, since
        few samples agree exactly in many factors. None holds exact values, and no continuous factor.

    Contract:

    - In [0, 1] (unless rescaled); chance is 1 / k, where k factors can vary alone; 0 if every code is pruned.
    - NaN if fewer than two factors can vary alone: with too many factors for the samples, lower ``factor_bins``.
    - Within a bin other factors still vary a little, so that a perfect code need not score 1.
    - Invariant under scaling a code, unless it is pruned. Any non-finite code gives NaN.

    Reference: Kim et al. 2019 (RF-VAE); Carbonneau et al. 2022 and its code (three bins; batches, and votes rescaled).
    """
    draws = prepared
    if draws is None:
        options = {"num_train": num_train, "num_eval": num_eval, "batch": batch, "factor_bins": factor_bins}
        draws = draw_varied(key, factors, **options)
    variances, spread, competes = batch_variances(codes, draws.rows, prune, active)
    share = jnp.where(competes[None, :], variances / jnp.where(competes, spread, 1.0)[None, :], -jnp.inf)
    vote = jnp.argmax(share, axis=1).astype(jnp.int32)
    usable = finite_codes(codes).all() & (draws.varying > 1)
    result = judge_votes(vote, draws.factor, competes, usable, factors.num_factors, num_train)
    if not rescale:
        return result
    chance = 1 / jnp.maximum(draws.varying, 2).astype(jnp.float32)
    return result._replace(score=(result.score - chance) / (1 - chance), train=(result.train - chance) / (1 - chance))
