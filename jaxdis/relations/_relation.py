"""What a relation is, and training, held-out and validation samples as every learner reads them."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core import options
from jaxdis._core.arrays import finite_codes, safe_divide
from jaxdis._core.display import html_table
from jaxdis._core.precision import exact_products, single_precision
from jaxdis._learners.classes import Groups
from jaxdis.factors import Codes, Factors, Sample

# What accuracy counts as chance.
Chance = Literal["squared", "majority"]
# Numbers of a block of codes. Temporaries of a block are 4 to 15 times as large, 130 to 500 MB.
BLOCK_NUMBERS = 1 << 23
# Codes of a block are no fewer, however many samples there are, and no more: a joint table of 20 bins and 100 classes
# takes 8 kB.
FEWEST_CODES, MOST_CODES = 64, 8192


class Samples(NamedTuple):
    """What :func:`read` returns: codes and class numbers of the training, held-out and validation samples.

    A code that is not ``shown`` (active and ``finite`` in all samples) is 0 throughout; a continuous factor is a single
    class. ``usable`` discrete factors have several classes in the training samples, ``judged`` ones in the held-out
    samples, too: predictions of a constant say nothing. ``groups`` says which training samples belong together.
    """

    train: Float[Array, "n d"]
    held_out: Float[Array, "m d"] | None
    classes: Int[Array, "n k"]
    truth: Int[Array, "m k"] | None
    validation: Float[Array, "v d"] | None
    sizes: tuple[int, ...]
    shown: Bool[Array, " d"]
    finite: Bool[Array, " d"]
    usable: Bool[Array, " k"]
    judged: Bool[Array, " k"]
    groups: Int[Array, " n"] | None = None

    @property
    def defined(self) -> Bool[Array, " k"]:
        """The factors with a score: the judged ones if all codes are finite, otherwise none."""
        return self.judged & self.finite.all()

    def by_factor(self, values: Float[Array, "... k"]) -> Float[Array, "... k"]:
        """The values, NaN for factors without a score."""
        return jnp.where(jnp.broadcast_to(self.defined, values.shape), values, jnp.nan)

    def by_pair(self, values: Float[Array, "k k"]) -> Float[Array, "k k"]:
        """The values, NaN for pairs in which a factor has no score."""
        return jnp.where(self.defined[:, None] & self.defined[None, :], values, jnp.nan)

    def mean(self, values: Float[Array, " k"]) -> Float[Array, ""]:
        """Mean over the judged factors; NaN if there are none, or if a code is not finite."""
        mean = jnp.where(self.judged, values, 0.0).sum() / self.judged.sum().astype(jnp.float32)
        return jnp.where(self.finite.all(), mean, jnp.nan)

    def chance(self, kind: Chance = "squared") -> Float[Array, " k"]:
        """Return the accuracy of guessing training classes as often as they occur, ``Σ_c p_c²``, or the held-out
        accuracy of always naming the most frequent one."""
        n = self.classes.shape[0]
        columns = enumerate(self.sizes)
        counts = [jnp.zeros(size).at[self.classes[:, j]].add(1.0, mode="promise_in_bounds") for j, size in columns]
        if kind == "squared":
            return jnp.stack([((count / n) ** 2).sum() for count in counts])
        named = jnp.stack([jnp.argmax(count) for count in counts]).astype(jnp.int32)
        judged = self.classes if self.truth is None else self.truth
        return (judged == named[None, :]).astype(jnp.float32).mean(axis=0)


def read(
    codes: Codes,
    factors: Factors,
    test: Sample | None,
    active: Bool[Array, " d"] | None,
    validation: Sample | None = None,
    groups: Int[Array, " n"] | None = None,
) -> Samples:
    """Clean codes and factors on training, held-out and validation samples."""
    finite = finite_codes(codes)
    for role in (test, validation):
        finite = finite if role is None else finite & finite_codes(role.codes)
    shown = finite if active is None else finite & active
    sizes = tuple(size or 1 for size in factors.sizes)
    last = np.array([sizes], np.int32) - 1

    def clean(codes):
        return jnp.where(shown[None, :], codes, 0.0)

    def classes_of(factors):
        return jnp.clip(factors.values.astype(jnp.int32), 0, last)

    classes = classes_of(factors)
    usable = varied(classes)
    held_out, truth = (None, None) if test is None else (clean(test.codes), classes_of(test.factors))
    judged = usable if truth is None else usable & varied(truth)
    validating = None if validation is None else clean(validation.codes)
    return Samples(clean(codes), held_out, classes, truth, validating, sizes, shown, finite, usable, judged, groups)


def varied(values: Float[Array, "n k"] | Int[Array, "n k"]) -> Bool[Array, " k"]:
    """Which factors have more than one value."""
    return values.max(axis=0) > values.min(axis=0)


def indicators(factors: Factors) -> tuple[Float[Array, "n c"], Groups]:
    """Write factors as columns: a nominal factor's classes as indicators, other factors' values or class numbers."""
    nominal = factors.nominal or (False,) * len(factors.sizes)
    groups = Groups.of(tuple(size if each else 1 for size, each in zip(factors.sizes, nominal, strict=True)))
    values = factors.values.astype(jnp.float32)
    columns = [
        jax.nn.one_hot(values[:, j].astype(jnp.int32), groups.sizes[j]) if each else values[:, j : j + 1]
        for j, each in enumerate(nominal)
    ]
    return jnp.concatenate(columns, axis=1), groups


def candidates(option: str, values: int | float | tuple, validation: Sample | None) -> tuple[tuple, Sample | None]:
    """An option's values, and the validation samples that decide between them: None for a single value."""
    values = values if isinstance(values, tuple) else (values,)
    if len(values) > 1 and validation is None:
        raise ValueError(
            f"validation: needs samples on which to choose {option} among {options.shown(values)}, got none"
        )
    return values, validation if len(values) > 1 else None


def above_chance(accuracy: Float[Array, "..."], chance: Float[Array, "..."]) -> Float[Array, "..."]:
    """``max(0, (a − r) / (1 − r))``: 0 at chance, 1 for perfect accuracy."""
    return jnp.clip(safe_divide(accuracy - chance, 1 - chance), 0.0, 1.0)  # a mean of ones may exceed 1 by rounding


def joint_accuracy(correct: Float[Array, "n k"]) -> Float[Array, "k k"]:
    """How often both factors are classified correctly, from what is right (1) and wrong (0) in each."""
    return correct.T @ correct / correct.shape[0]


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
