"""Training, held-out and validation samples as every learner reads them: cleaned once, all factors as classes."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core import options
from jaxdis._core.arrays import finite_codes, safe_divide
from jaxdis._learners.classes import Groups
from jaxdis.factors import Codes, Factors, Sample

# What accuracy counts as chance.
Chance = Literal["squared", "majority"]


class Samples(NamedTuple):
    """What :func:`read` returns.

    Attributes:
      train: ``[n, d]`` training codes; a code that is not active, or not finite in some sample, is 0 throughout.
      held_out: ``[m, d]``, likewise; None without a test set.
      classes: ``[n, k]`` class numbers in the training samples. A continuous factor is a single class.
      truth: ``[m, k]`` class numbers in the held-out samples; None without a test set.
      validation: ``[v, d]``, codes on the validation samples, treated like the training ones; None without any.
      sizes: how many classes each of ``k`` factors has.
      shown: ``[d]``, the codes that are active and finite.
      finite: ``[d]``, the codes that are finite in all samples.
      usable: ``[k]``, the discrete factors with several classes in the training samples.
      judged: ``[k]``, those that have several in the held-out samples, too: predictions of a constant say nothing.
      groups: ``[n]``, which training samples belong together; None if none do.
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
