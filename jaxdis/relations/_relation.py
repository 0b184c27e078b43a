"""What a relation is: how strongly each code encodes each factor, and how strongly a perfect code would."""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxdis._core.display import html_table
from jaxdis._core.precision import exact_products, single_precision


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Relation:
    """The relation of ``d`` codes to ``k`` factors.

    Attributes:
      strength: ``[d, k]`` ≥ 0, in the relation's own unit (nats, accuracy, …). A constant code's row is 0; a row is NaN
        if the code has a non-finite value, a column if the factor has one value.
      ceiling: ``[k]``, how strong a code is that determines the factor (its entropy, 1, …); 0 marks a one-valued
        factor, which scores leave out.
      fit: ``[k]``, how well all codes together predict the factor (held-out accuracy, …); None if not measured.
      code_ceiling: ``[d]``, how strong a factor is that determines the code; NaN where this has no meaning.
      active: ``[d]``, the codes that scores average over. An inactive code's row is 0.
      chosen: ``[k]``, the option value (a penalty, a depth) that was chosen for each factor; None if none was.
      capacity: the largest ``code_ceiling`` that the estimator can return (the log of its number of bins).
    """

    strength: Float[Array, "... d k"]
    ceiling: Float[Array, "... k"]
    fit: Float[Array, "... k"] | None
    code_ceiling: Float[Array, "... d"]
    active: Bool[Array, "... d"]
    chosen: Float[Array, "... k"] | None = None
    capacity: float = dataclasses.field(default=math.nan, metadata={"static": True})

    def __repr__(self) -> str:
        return f"Relation(strength of shape {getattr(self.strength, 'shape', ())})"

    def _repr_html_(self) -> str | None:
        if self.strength.ndim != 2:
            return None  # of several members; the text is shown
        d, k = self.strength.shape
        rows = [["ceiling", *self.ceiling.tolist()]]
        rows += [[f"code {i}", *row] for i, row in enumerate(self.strength.tolist())]
        title = f"Relation of {d} codes and {k} factors: strength, below its ceiling"
        return html_table(title, ["", *(f"factor {j}" for j in range(k))], rows)

    def plot(self, names=None, *, ax=None):
        """Draw one member's strengths as a Hinton diagram, on a new figure or on matplotlib axes.

        Args:
          names: what the factors are called; their numbers when None.
          ax: axes to draw on.

        Returns:
          The figure.
        """
        from jaxdis import plots

        names = [f"factor_{j}" for j in range(self.strength.shape[-1])] if names is None else names
        return plots.hinton(self.strength, names, ax=ax)

    @classmethod
    def of(
        cls, strength, ceiling, *, fit=None, code_ceiling=None, active=None, finite=None, chosen=None, capacity=math.nan
    ):
        """Assemble a relation, applying the rules on one-valued factors, non-finite codes and inactive codes.

        Args:
          finite: ``[d]``, False for a code with a non-finite value; all True when not given.
          active: ``[d]``; all True when not given.
        """
        num_codes = strength.shape[0]
        active = jnp.ones(num_codes, bool) if active is None else active
        strength = jnp.where(active[:, None], strength, 0.0)
        if finite is not None:
            strength = jnp.where(finite[:, None], strength, jnp.nan)
        strength = jnp.where((ceiling > 0)[None, :], strength, jnp.nan)
        code_ceiling = jnp.full(num_codes, jnp.nan) if code_ceiling is None else code_ceiling
        chosen = None if chosen is None else jnp.where(ceiling > 0, chosen, jnp.nan)
        return cls(strength, ceiling, fit, code_ceiling, active, chosen, capacity)


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
