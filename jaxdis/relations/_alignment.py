"""Whether neighbors align: do samples that are next to each other along a code share their class?"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import finite_codes, ordered_keys, safe_divide
from jaxdis._core.kernels.order import float_order
from jaxdis._core.loops import each
from jaxdis._core.options import Bins
from jaxdis._core.spec import metric
from jaxdis._learners.classes import Groups
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binning import factor_classes
from jaxdis.relations._relation import Relation


@metric(distinct_samples=True)
def neighbor_alignment(
    codes: Codes, factors: Factors, *, bins: Bins = 20, active: Bool[Array, " d"] | None = None
) -> Relation:
    """Measure how much more often than by chance samples next to each other along a code share the factor's class.

    With ``n_v`` samples in class ``v``, a share ``a_v = pairs / (n_v − 1)`` of them followed by another one when sorted
    by code ``i``: ``strength[i, j] = mean_v max(0, (a_v − n_v / n) / (1 − n_v / n))``. For a factor with two values,
    such as a one-hot column, class 1 alone is read. ``ceiling`` is 1.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      bins: equal-width bins for a continuous factor.

    Contract:

    - In [0, 1]; a constant code's row is 0. Samples with equal codes count as if in random order, by the expected
      number of pairs: deterministic.
    - Invariant under increasing maps, code by code, and under sign. A class with one sample counts 0.
    - A code need not be monotone in the factor, and a class need not be in one piece; noise within a piece is ignored.

    Reference: Moinfar & Theis 2024 (SPN, the alignment of nearest neighbors).
    """
    classes, sizes = factor_classes(factors, bins)
    presence = jnp.concatenate([_presence(classes[:, j], size) for j, size in enumerate(sizes)], axis=1)
    member = Groups.of(tuple(1 if size == 2 else size for size in sizes)).member
    count = presence.sum(axis=0)
    expected, occurring = count / len(codes), jnp.where(count > 0, 1.0, 0.0)

    def one_code(keys):
        order = float_order(keys)
        rows, new = presence[order], jnp.diff(keys[order]) != 0

        def tied():
            run = jnp.cumsum(jnp.pad(new, (1, 0))).astype(jnp.int32)
            inside = jnp.zeros_like(rows).at[run].add(rows, indices_are_sorted=True)
            length = jnp.zeros(len(keys)).at[run].add(1.0, indices_are_sorted=True)[:, None]
            share = safe_divide(inside, length)
            return (share * (inside - 1)).sum(axis=0) + (share[:-1] * share[1:]).sum(axis=0)

        pairs = jax.lax.cond(new.all(), lambda: (rows[:-1] * rows[1:]).sum(axis=0), tied)
        aligned = safe_divide(pairs, count - 1) - expected
        aligned = jnp.where(count > 1, jnp.clip(safe_divide(aligned, 1 - expected), 0.0, 1.0), 0.0)
        return (aligned @ member) / jnp.maximum(occurring @ member, 1.0)

    strength = each(one_code, ordered_keys(jnp.nan_to_num(codes).T))
    varies = (classes.max(axis=0) > classes.min(axis=0)).astype(jnp.float32)
    return Relation.of(strength, varies, active=active, finite=finite_codes(codes))


def _presence(classes: Int[Array, " n"], size: int) -> Float[Array, "n c"]:
    """A column for each class; with two classes, for the second."""
    return classes[:, None].astype(jnp.float32) if size == 2 else jax.nn.one_hot(classes, size)
