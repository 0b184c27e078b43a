"""An encoder's consistency and restrictiveness, by holding or changing one factor in a simulator."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from jaxdis._core.arrays import safe_divide
from jaxdis.data._factor_space import FactorSpace
from jaxdis.encoders._simulated import Looking, free_factors, masked
from jaxdis.metrics.interventions._changes import Changes, judge_consistency, judge_restrictiveness
from jaxdis.models._images import noise_key


def consistency(
    key: PRNGKeyArray,
    encode: Callable,
    space: FactorSpace,
    render: Callable,
    *,
    num_pairs: int = 2000,
    active: Bool[Array, "... d"] | None = None,
) -> Changes:
    """Score consistency by interventions in a simulator, which renders image pairs that share a factor's value.

    Result as :func:`jaxdis.metrics.interventions.consistency`, which has only samples. ``num_pairs`` are rendered for
    each factor.

    Reference: Shu et al. 2020.
    """
    look = Looking(encode, render, space)
    held, _, variance, finite = _changed(key, look, space, num_pairs, active)
    varies = jnp.asarray(np.isin(np.arange(len(space.sizes)), free_factors(space)))
    judge = jax.jit(jax.vmap(lambda held, variance, finite: judge_consistency(held, varies, variance, finite)))
    return look.as_given(judge(held, variance, finite))


def restrictiveness(
    key: PRNGKeyArray,
    encode: Callable,
    space: FactorSpace,
    render: Callable,
    *,
    num_pairs: int = 2000,
    active: Bool[Array, "... d"] | None = None,
) -> Changes:
    """Score restrictiveness by interventions in a simulator, which renders image pairs that differ in one factor.

    Result as :func:`jaxdis.metrics.interventions.restrictiveness`, which has only samples. ``num_pairs`` are rendered
    for each factor. The value that a factor changes to is drawn without regard to the others.

    Reference: Shu et al. 2020.
    """
    look = Looking(encode, render, space)
    held, changed, variance, finite = _changed(key, look, space, num_pairs, active)
    varies = jnp.asarray(np.isin(np.arange(len(space.sizes)), free_factors(space)))
    judge = jax.vmap(lambda *shares: judge_restrictiveness(shares[0], varies, shares[1], varies, *shares[2:]))
    return look.as_given(jax.jit(judge)(held, changed, variance, finite))


def _changed(key, look: Looking, space: FactorSpace, num_pairs: int, active):
    """How much of the codes' variance remains while a factor is held, and while it alone changes, ``[m, d, k]``;
    variances as a share of the largest ``[m, d]``; whether all codes are finite ``[m]``."""
    base_key, pair_key = jax.random.split(key)
    left = space.sample(base_key, num_pairs)
    base = look.at_many(left, noise_key(base_key))
    shift = jnp.nan_to_num(base[:, :1])
    shown = masked(jnp.ones(base[:, 0].shape, bool), active)
    moved = jnp.nan_to_num(base) - shift
    spread = jnp.where(shown & (jnp.ptp(moved, axis=1) > 0), jnp.var(moved, axis=1, ddof=1), 0.0)

    def half_squares(task, left, shift, moved):
        key, factor = task
        held_key, new_key, *keys = jax.random.split(key, 4)
        others = jnp.arange(space.num_factors) != factor
        cells = [
            space.given(held_key, factor, left[:, factor]),
            jnp.where(others[None, :], left, space.sample(new_key, num_pairs)),
        ]
        codes = [look.at_many(rows, noise_key(key)) for rows, key in zip(cells, keys, strict=True)]
        squares = [((jnp.nan_to_num(each) - shift - moved) ** 2).mean(axis=1) / 2 for each in codes]
        return jnp.stack(squares), jnp.stack([jnp.isfinite(each).all(axis=(1, 2)) for each in codes])

    factors = jnp.arange(space.num_factors, dtype=jnp.int32)
    tasks = jax.random.split(pair_key, len(factors)), factors
    squares, finite = look.map(half_squares, tasks, left, shift, moved)
    shares = safe_divide(squares, jnp.broadcast_to(spread, squares.shape))  # [k, 2, m, d]
    held, changed = jnp.moveaxis(shares, 0, 3)
    largest = jnp.broadcast_to(spread.max(axis=1, keepdims=True), spread.shape)
    return held, changed, safe_divide(spread, largest), finite.all(axis=(0, 1)) & jnp.isfinite(base).all(axis=(1, 2))
