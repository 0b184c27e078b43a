"""Do blocks of codes, such as slots, identify blocks of factors, such as an object's properties?"""

import functools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.kernels.assignment import assign
from jaxdis._core.loops import each
from jaxdis._core.options import Positive, checked, shown
from jaxdis.factors import Factors, Sample
from jaxdis.metrics._identifiability import explained_variance, kernel_prediction, linear_prediction

Blocks = Sequence[Sequence[int]]


class Identified(NamedTuple):
    """``score []``, ``matched []`` less ``others []``; ``matrix [a, b]``, how much variance in each factor block each
    code block explains; ``block [b]``, each factor block's code block, −1 for none."""

    score: Float[Array, ""]
    matched: Float[Array, ""]
    others: Float[Array, ""]
    matrix: Float[Array, "a b"]
    block: Int[Array, " b"]


@checked
def block_identifiability(
    codes,
    factors: Factors,
    *,
    test: tuple,
    blocks: Blocks,
    factor_blocks: Blocks,
    regression: Literal["kernel", "linear"] = "kernel",
    penalty: Positive | None = None,
) -> Identified:
    """Explain each block of factors by one code block, and ask how much other blocks explain.

    Ridge regression from each code block to each factor block gives the mean share of held-out variance that it
    explains, R², or 0 if it is negative. Blocks are matched one to one so that the sum is largest. The score is the
    matched R² less the largest by any other block, averaged over factor blocks.

    >>> values = np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32)
    >>> factors, codes = jaxdis.Factors.of(values, (None, None)), values[:, ::-1]
    >>> train, test, each = np.arange(200), np.arange(200, 300), ((0,), (1,))
    >>> how = {"blocks": each, "factor_blocks": each, "regression": "linear"}
    >>> found = jax.jit(lambda codes, other: jaxdis.structured.block_identifiability(
    ...     codes, factors.take(train), test=(other, factors.take(test)), **how,
    ... ))(codes[train], codes[test])  # fmt: skip
    >>> found.block.tolist(), round(float(found.matched), 2)
    ([1, 0], 1.0)

    Args:
      codes: ``[n, d]``.
      factors: ``[n, k]``; class numbers are taken as values.
      test: held-out codes ``[m, d]`` and factors.
      blocks: the numbers of each block's codes.
      factor_blocks: the numbers of each block's factors, such as one object's.
      regression: ``"kernel"`` as ``r2_kernel``, or ``"linear"`` as ``r2_linear``.
      penalty: for the ridge regression; 1 for kernels, 1e-4 for linear maps when None.

    Raises:
      ValueError: for blocks that are empty or name codes or factors that there are not, and for more or fewer samples
        of codes than of factors.

    Contract:

    - In [−1, 1]: 1 if each factor block is a smooth (or linear) function of its code block and no other block says
      anything about it; 0 if the blocks know equally much. ``matched`` alone is block identifiability.
    - Blocks of factors that depend on each other are explained by each other's codes, which lowers the score.
    - A factor block without a code block counts 0 in ``matched``. One-valued factors are left out. Any non-finite code
      gives NaN. Deterministic.

    Reference: Brady et al. 2023 and its released code for latents in a fixed order (kernel ridge regression with
    penalty 1, and the difference); von Kügelgen et al. 2021 (R² for a block).
    """
    codes, test_codes = (
        jnp.asarray(of.at_rows(table, 0), jnp.float32) for table, of in ((codes, factors), (test[0], test[1]))
    )
    for name, table, of in (("codes", codes, factors), ("test", test_codes, test[1])):
        if len(table) != of.num_samples:
            raise ValueError(f"{name}: must have as many samples as factors, {of.num_samples}, got {len(table)}")
    counts = {"blocks": (blocks, codes.shape[1]), "factor_blocks": (factor_blocks, factors.num_factors)}
    for name, (rows, count) in counts.items():
        if not rows or not all(len(row) and all(0 <= number < count for number in row) for row in rows):
            raise ValueError(f"{name}: must be lists of numbers from 0 to {count - 1}, got {shown(rows)}")
    predict, least = (kernel_prediction, 1.0) if regression == "kernel" else (linear_prediction, 1e-4)
    penalty, columns = least if penalty is None else penalty, [tuple(block) for block in blocks]
    # Blocks of one size share a program.
    groups = [columns] if len({len(block) for block in columns}) == 1 else [[block] for block in columns]
    found = [
        _explained(np.array(group, np.int32), codes, factors, test_codes, test[1], predict, penalty) for group in groups
    ]
    share, known = (jnp.concatenate(parts) for parts in zip(*found, strict=True))
    rows = [np.array(tuple(row), np.int32) for row in factor_blocks]
    matrix = jnp.stack([share[:, row].sum(axis=1) / known[:, row].sum(axis=1) for row in rows], axis=1)
    return _identified(jnp.maximum(matrix, 0.0))


@jax.jit
def _identified(matrix: Float[Array, "b f"]) -> Identified:
    """The result, from how much variance in each factor block each code block explains."""
    block = assign(matrix, maximize=True).row
    own = jnp.arange(len(matrix))[:, None] == block[None, :]
    matched = jnp.where(own, matrix, 0.0).sum(axis=0)
    others = jnp.where(own, 0.0, matrix).max(axis=0)
    return Identified((matched - others).mean(), matched.mean(), others.mean(), matrix, block)


@functools.partial(jax.jit, static_argnames=("predict", "penalty"))
def _explained(columns, codes, factors: Factors, test_codes, test_factors: Factors, predict, penalty):
    """What share of each factor each code block ``[a, w]`` explains, and 1 where there is one, both else 0."""

    def of_block(columns):
        held_out = Sample(test_codes[:, columns], test_factors)
        found = predict(codes[:, columns], factors, test=held_out, penalty=penalty)
        known = found.defined
        return jnp.where(known, explained_variance(found).per_factor, 0.0), known.astype(jnp.float32)

    return each(of_block, columns)


def slot_identifiability(
    codes,
    factors: Factors,
    *,
    test: tuple,
    objects: Blocks,
    regression: Literal["kernel", "linear"] = "kernel",
    penalty: Positive | None = None,
) -> Identified:
    """Score slot identifiability: is each object explained by one slot, and by no other?

    :func:`block_identifiability` with a slot's codes as a block, and an object's properties.

    Args:
      codes: ``[n, s, d]``, slots in the same order in all samples: put them into the order that :func:`probe` finds by
        :func:`take_slots`.
      factors: ``[n, k]``.
      test: held-out slots ``[m, s, d]`` and factors.
      objects: for each object its properties' columns.
      regression, penalty: as there.

    Raises:
      ValueError: as there, and for slots of another shape.
    """
    if jnp.ndim(codes) != 3:
        raise ValueError(f"codes: must be slots [n, s, d], got shape {jnp.shape(codes)}")
    slots, width = jnp.shape(codes)[1:]
    flat, held_out = (jnp.asarray(table).reshape(len(table), slots * width) for table in (codes, test[0]))
    blocks = [range(slot * width, (slot + 1) * width) for slot in range(slots)]
    how = {"regression": regression, "penalty": penalty}
    return block_identifiability(flat, factors, test=(held_out, test[1]), blocks=blocks, factor_blocks=objects, **how)
