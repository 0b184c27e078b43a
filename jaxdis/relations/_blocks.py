"""Relations that take codes one by one, computed block by block: temporaries stay as small as a block needs."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxdis._core.precision import exact_products, single_precision
from jaxdis.relations._relation import Relation

# Numbers of a block of codes. Temporaries of a block are 4 to 15 times as large, 130 to 500 MB.
BLOCK_NUMBERS = 1 << 23
# Codes of a block are no fewer, however many samples there are, and no more: a joint table of 20 bins and 100 classes
# takes 8 kB.
FEWEST_CODES, MOST_CODES = 64, 8192


def width_of(samples: int, codes: int) -> int:
    """How many codes make a block: among nearly equal blocks, the largest that :data:`BLOCK_NUMBERS` allows."""
    most = min(max(FEWEST_CODES, BLOCK_NUMBERS // samples), MOST_CODES)
    blocks = -(-codes // most)
    return -(-codes // blocks)


def by_code(relation: Callable[..., Relation]) -> Callable[..., Relation]:
    """Compute a relation whose rows do not depend on each other block by block, where there are many codes.

    Numbers are the same as for all codes at once, up to how sums are ordered. The last two blocks overlap if codes do
    not divide evenly, so that all have one shape.
    """

    @single_precision
    @exact_products
    @functools.wraps(relation)
    def in_blocks(codes, factors, *, test=None, variances=None, active=None, **options) -> Relation:
        n, d = codes.shape
        given = {"test": test, "variances": variances, "active": active}
        given = {name: array for name, array in given.items() if array is not None}
        width = width_of(n, d)
        if width == d:
            return relation(codes, factors, **given, **options)

        def of_block(start):
            def cut(array, axis=1):
                return None if array is None else jax.lax.dynamic_slice_in_dim(array, start, width, axis)

            arrays = {name: cut(array, -1) for name, array in given.items() if name != "test"}
            if test is not None:
                arrays["test"] = test._replace(codes=cut(test.codes), variances=cut(test.variances))
            return relation(cut(codes), factors, **arrays, **options)

        starts = [*range(0, d - width, width), d - width]
        blocks = jax.lax.map(of_block, jnp.array(starts, jnp.int32))

        def joined(field):
            rows = getattr(blocks, field)
            last = d - width * (len(starts) - 1)
            return jnp.concatenate([rows[:-1].reshape(-1, *rows.shape[2:]), rows[-1, width - last :]])

        first = jax.tree.map(lambda field: field[0], blocks)
        rows = {field: joined(field) for field in ("strength", "code_ceiling", "active")}
        return dataclasses.replace(first, **rows)

    in_blocks.rows_alone = True
    return in_blocks
