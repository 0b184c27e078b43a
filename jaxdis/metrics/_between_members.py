"""How far a zoo's members agree, which needs no factors: UDR, linear CKA, SVCCA, and cosines of two dictionaries."""

import dataclasses
import functools
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import power_of_two_below, product_over_samples, rounding_of, safe_divide
from jaxdis._core.factorizations import eigh, singular_values
from jaxdis._core.kernels.assignment import Solver, assign
from jaxdis._core.options import CheckedFields, Positive, Share
from jaxdis._core.precision import single_precision
from jaxdis._core.spec import metric
from jaxdis._learners.linear import lasso, standardized
from jaxdis.metrics._metric import About
from jaxdis.relations._correlation import length_one, mid_ranks

# An eigenvalue of a smaller share of the largest is rounding in float32.
LEAST_SHARE = 1e-6


class Agreement(NamedTuple):
    """``score [m]``: each member's median agreement with the others; ``pairs [m, m]``."""

    score: Float[Array, " m"]
    pairs: Float[Array, "m m"]


@metric()
def udr(codes, active=None, *, kind: Literal["lasso", "spearman"] = "lasso", penalty: Positive = 0.1) -> Agreement:
    """Rank members without labels (UDR): how well do each member's codes map one to one onto those of others?

    For members ``i`` and ``j`` on the same samples, ``R`` holds the absolute lasso coefficients from all codes in ``i``
    to each code in ``j`` (or absolute Spearman correlations), standardized. A row or column scores ``max² / sum``; the
    agreement is the mean over columns averaged with the mean over rows, over active codes. A member's score is the
    median over the others.

    Args:
      codes: ``[m, n, d]``, one model trained with ``m`` seeds.
      active: ``[m, d]``, the informative codes (KL to the prior above 0.01 in the paper); all that vary when None.
      kind: ``"lasso"`` or ``"spearman"``.
      penalty: weight of the L1 norm.

    Contract:

    - About 1 for members that are permuted copies and whose codes are uncorrelated (slightly less with ``"lasso"``,
      because of the penalty). Correlations among a member's own codes lower ``"spearman"`` much more.
    - 0 for members without active codes; NaN for a single member. A member with a non-finite code is NaN, and others'
      medians leave it out.
    - Codes are read as float32, which keeps little precision in codes that lie far from 0: center these beforehand.

    Reference: Duan et al. 2020, §4; the released code of disentanglement_lib.
    """
    codes, finite = _readable(codes)
    return _udr(codes, finite, None if active is None else jnp.asarray(active, bool), kind, penalty)


@functools.partial(jax.jit, static_argnames="kind")
def _udr(codes, finite, active, kind: str, penalty) -> Agreement:
    columns = jax.vmap(standardized)(jax.vmap(mid_ranks)(codes) if kind == "spearman" else codes)
    varies = jnp.abs(columns).max(axis=1) > 0
    shown = varies if active is None else active & varies
    columns = jnp.where(shown[:, None, :], columns, 0.0)

    def agree(one, other):
        (left, mask_left), (right, mask_right) = one, other
        if kind == "lasso":
            relation = jnp.abs(lasso(left, right, penalty))
        else:
            relation = jnp.abs(product_over_samples(left, right)) / left.shape[0]

        def mean_over(axis, mask):
            share = safe_divide(relation.max(axis=axis) ** 2, relation.sum(axis=axis))
            return safe_divide(jnp.where(mask, share, 0.0).sum(), mask.sum().astype(jnp.float32))

        return (mean_over(0, mask_right) + mean_over(1, mask_left)) / 2

    return _agreement(agree, (columns, shown), finite)


@metric()
def linear_cka(codes) -> Agreement:
    """Compute linear centered kernel alignment: do members place samples alike, up to a rotation and a scale?

    ``‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖)`` with Frobenius norms and two members' centered codes ``X`` and ``Y`` on the same samples.
    A member's score is the median over the others.

    >>> codes, _, _ = jaxdis.data.example()
    >>> jaxdis.metrics.linear_cka(codes[:4]).pairs.shape
    (4, 4)

    Args:
      codes: ``[m, n, d]``; members with fewer codes are padded with constant ones (:func:`jaxdis.stack`).

    Contract:

    - Codes are centered, unlike directions in :func:`matched_cosine`.
    - In [0, 1] and symmetric; 1 for members that are rotations, permutations or multiples of one another. A code with
      large variance counts most: members are not standardized. Independent codes score about ``d / n``.
    - Entangled and disentangled members may agree fully: this does not measure disentanglement.
    - 0 for a member whose codes are constant; NaN for a single member. A member with a non-finite code is NaN, and
      others' medians leave it out.

    Reference: Kornblith et al. 2019.
    """
    return _linear_cka(*_readable(codes))


@jax.jit
def _linear_cka(codes, finite) -> Agreement:
    rows = _centered(codes)

    def size(left, right):
        return (product_over_samples(left, right) ** 2).sum()

    own = jax.lax.map(lambda member: jnp.sqrt(size(member, member)), rows)

    def agree(left, right):
        return safe_divide(size(left[0], right[0]), left[1] * right[1])

    return _agreement(agree, (rows, own), finite)


@metric()
def svcca(codes, *, kept: Share = 0.99) -> Agreement:
    """Compute singular vector canonical correlation: do members span the same directions, whatever their scales?

    Each member's centered codes are reduced to the principal directions that hold a share ``kept`` of their variance.
    Two members agree by the mean canonical correlation between what remains, over as many directions as the smaller one
    has. A member's score is the median over the others.

    Args:
      codes: ``[m, n, d]``; members with fewer codes are padded with constant ones (:func:`jaxdis.stack`).
      kept: what share of the variance is kept.

    Contract:

    - In [0, 1] and symmetric; 1 for members that an invertible linear map turns into one another, if both keep the same
      directions. Independent codes score about ``√(d / n)``: there must be many more samples than codes.
    - Entangled and disentangled members may agree fully: this does not measure disentanglement.
    - 0 for a member whose codes are constant; NaN for a single member. A member with a non-finite code is NaN, and
      others' medians leave it out.

    Reference: Raghu et al. 2017.
    """
    return _svcca(*_readable(codes), kept)


@jax.jit
def _svcca(codes, finite, kept) -> Agreement:
    def directions(rows):
        """Orthonormal columns ``[n, d]``, 0 for the directions that are left out, and how many remain."""
        variances, vectors = eigh(product_over_samples(rows, rows))
        variances, vectors = jnp.maximum(variances[::-1], 0.0), vectors[:, ::-1]
        before = jnp.cumsum(variances) - variances
        counted = (before < kept * variances.sum()) & (variances > LEAST_SHARE * variances[0])
        scale = jnp.where(counted, 1 / jnp.sqrt(jnp.where(counted, variances, 1.0)), 0.0)
        turned = jnp.matmul(rows, vectors * scale[None, :], precision=jax.lax.Precision.HIGHEST)
        return turned, counted.sum().astype(jnp.float32)

    def agree(left, right):
        correlations = singular_values(product_over_samples(left[0], right[0]))
        return safe_divide(jnp.minimum(correlations, 1.0).sum(), jnp.minimum(left[1], right[1]))

    return _agreement(agree, jax.lax.map(directions, _centered(codes)), finite)


class MatchedCosine(NamedTuple):
    """``score []``, the mean over pairs; ``per_direction [a]``, NaN for one without a partner; ``match [a]``, its
    partner in the second set, −1 for none; ``nearest [a]``, the largest cosine with any direction of that set."""

    score: Float[Array, ""]
    per_direction: Float[Array, " a"]
    match: Int[Array, " a"]
    nearest: Float[Array, " a"]


@metric()
def matched_cosine(first, second, *, assignment: Solver = "auto") -> MatchedCosine:
    """Match two sets of directions one to one, such as the decoders of two sparse autoencoders: mean ``|cosine|``.

    Pairs are chosen so that their sum is largest (the Hungarian method). This is PW-MCC, the pairwise dictionary mean
    correlation coefficient, with absolute values: the code released for it keeps signs, which differs if matched
    directions are opposite. The mean of ``nearest`` is MMCS, the mean maximum cosine similarity, with absolute values
    as well. MCC elsewhere (``METRICS["mcc"]``) is the mean of correlations, which center.

    >>> decoder = np.random.default_rng(0).normal(size=(16, 5)) + 1.0
    >>> found = jaxdis.metrics.matched_cosine(decoder, -2 * decoder[:, ::-1])
    >>> float(found.score.round(3)), found.match.tolist()
    (1.0, [4, 3, 2, 1, 0])

    Args:
      first: ``[w, a]``, directions as columns.
      second: ``[w, b]``, in the same space.
      assignment: as in :func:`jaxdis.scores.matching`.

    Contract:

    - In [0, 1], and symmetric; 1 for the same directions in any order, with any lengths and signs. The smaller set's
      directions have partners. A direction of length 0 has cosine 0 with all.
    - Directions are not centered: an offset that all share raises every cosine. Random ones match at about ``√(2 log b
      / w)``.
    - Any number that is not finite gives NaN. Deterministic.

    Reference: Song et al. 2025 (PW-MCC); Sharkey et al. 2022 (MMCS); Paulo & Belrose 2025, who match by the Hungarian
    method.
    """
    shapes = jnp.shape(first), jnp.shape(second)
    for name, shape in zip(("first", "second"), shapes, strict=True):
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"{name}: must have shape [width, directions], got {shape}")
    if shapes[0][0] != shapes[1][0]:
        raise ValueError(f"second: must have the width of first, {shapes[0][0]}, got {shapes[1][0]}")
    return _matched_cosine(*(jnp.asarray(each, jnp.float32) for each in (first, second)), assignment)


@functools.partial(jax.jit, static_argnames="assignment")
def _matched_cosine(first, second, assignment: Solver) -> MatchedCosine:
    finite = jnp.isfinite(first).all() & jnp.isfinite(second).all()
    (first, _), (second, _) = (length_one(jnp.nan_to_num(each)) for each in (first, second))
    strength = jnp.minimum(jnp.abs(product_over_samples(first, second)) / len(first), 1.0)
    match = assign(strength, maximize=True, method=assignment).column
    matched = jnp.take_along_axis(strength, jnp.maximum(match, 0)[:, None], axis=1)[:, 0]
    each = jnp.where(match >= 0, matched, jnp.nan)
    score = jnp.where(finite, jnp.nanmean(each), jnp.nan)
    each, nearest = (jnp.where(finite, values, jnp.nan) for values in (each, strength.max(axis=1)))
    return MatchedCosine(score, each, match, nearest)


def _readable(codes) -> tuple[Float[Array, "m n d"], Bool[Array, " m"]]:
    """Codes in float32, set to 0 for a member that has a non-finite one, and which members have none."""
    if jnp.ndim(codes) != 3:
        raise ValueError(f"codes: must have shape [m, n, d] (members, samples, codes), got {jnp.shape(codes)}")
    codes = jnp.asarray(codes, jnp.float32)
    finite = jnp.isfinite(codes).all(axis=(1, 2))
    return jnp.where(finite[:, None, None], codes, 0.0), finite


def _centered(codes: Float[Array, "m n d"]) -> Float[Array, "m n d"]:
    """Codes less their means, constant ones 0, in units in which squares stay within float32."""
    moved = codes - codes[:, :1]
    reach = jnp.abs(moved).max(axis=1, keepdims=True)
    varies = reach > rounding_of(jnp.abs(codes).max(axis=1, keepdims=True))
    unit = power_of_two_below(reach.max(axis=2, keepdims=True))
    rows = jnp.where(varies, moved, 0.0) / unit
    return rows - rows.mean(axis=1, keepdims=True)


def _agreement(agree, members, finite: Bool[Array, " m"]) -> Agreement:
    """``agree`` for every two members, and the medians."""
    m = len(finite)
    pairs = jax.lax.map(lambda left: jax.lax.map(lambda right: agree(left, right), members), members)
    pairs = jnp.where(finite[:, None] & finite[None, :], pairs, jnp.nan)
    off_diagonal = jnp.where(np.eye(m, dtype=bool), jnp.nan, pairs)
    return Agreement(jnp.nanmedian(off_diagonal, axis=0) if m > 1 else jnp.full(m, jnp.nan), pairs)


@dataclasses.dataclass(frozen=True)
class Udr(CheckedFields):
    """Unsupervised disentanglement ranking for each member among its setting's seeds.

    Attributes:
      kind, penalty: as in :func:`jaxdis.metrics.udr`.
      least_kl: a code is informative if its mean KL divergence from the prior exceeds this many nats; for a method
        without a posterior, whose codes have variance 0, all codes that vary are informative.
    """

    kind: Literal["lasso", "spearman"] = "lasso"
    penalty: Positive = 0.1
    least_kl: Positive = 0.01

    about: ClassVar[About] = About(
        "Unsupervised disentanglement ranking (UDR)",
        "How well do the codes of a member map one to one onto those of other seeds?",
        ("duan2020",),
        reads_factors=False,
    )
    errors: ClassVar[tuple[str, ...]] = ()
    axes: ClassVar[dict[str, tuple[str, ...]]] = {}

    def describe(self) -> dict:
        return {"of_seeds": "udr", **dataclasses.asdict(self)}

    @single_precision
    def score(self, codes: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """``[m]`` from posterior means and variances ``[m, n, d]``; NaN for a single member, or non-finite codes."""
        codes, variances = (jnp.asarray(array, jnp.float32) for array in (codes, variances))
        active = informative(codes, variances, self.least_kl)
        return np.asarray(udr(codes, active, kind=self.kind, penalty=self.penalty).score, float)


def informative(means: Float[Array, "m n d"], variances: Float[Array, "m n d"], least: float) -> Bool[Array, "m d"]:
    """Codes whose mean KL divergence from a standard normal exceeds ``least`` nats; all if variances are 0."""
    safe = jnp.where(variances > 0, variances, 1.0)
    divergence = 0.5 * (means**2 + variances - jnp.log(safe) - 1)
    return jnp.where((variances > 0).all(axis=1), divergence.mean(axis=1) > least, True)


SEED_METRICS = {"udr": Udr()}
