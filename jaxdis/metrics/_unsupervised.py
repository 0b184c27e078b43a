"""Scores that need no factors: dependence among codes, by a Gaussian or by histograms."""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import finite_codes, over_samples, power_of_two_below, rounding_of, safe_divide
from jaxdis._core.factorizations import eigh, eigvalsh
from jaxdis._core.kernels.contingency import pair_sums, pair_tables
from jaxdis._core.loops import each, repeat
from jaxdis._core.options import Bins
from jaxdis._core.platforms import on_cpu
from jaxdis._core.spec import metric
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binning import equal_width_bins
from jaxdis.relations._information import RESOLUTION, information_of_tables

# Two codes closer to one another than this share of a standard deviation are duplicates to float32.
SMALLEST_EIGENVALUE = 1e-7
# Codes of a smaller share of the largest deviation are left out of a distance, to which they add 1e-12 of its unit.
LEAST_SHARE = 1e-6
# If no eigenvalue of the correlation is smaller, theirs in float32 give the total correlation to 2e-6 of itself.
WELL_CONDITIONED = 0.03
# A root is found if what its equation misses is a smaller share of it, which moves the distance by twice that share.
CLOSE = 4e-5
# Most steps to the square root of a covariance; codes that nearly copy each other take most.
NEWTON_STEPS = 30
CONJUGATE_STEPS = 60
# A result of these steps farther than this share of all variance from that by eigenvalues is another root.
ROOTS_APART = 0.005
# Bins of the codes of a block. The joint tables of two blocks, 26 MB, are read soon after they are counted.
BLOCK_BINS = 2560
# With more samples, the logarithms of counts are computed: a table of them would be a large part of the program.
MOST_COUNTS = 2**17
_multiply = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


class Dependence(NamedTuple):
    """``score []``: total correlation, nats; ``wasserstein []``: distance to independence, also normalized."""

    score: Float[Array, ""]
    wasserstein: Float[Array, ""]
    wasserstein_normalized: Float[Array, ""]


class CodeInformation(NamedTuple):
    """``score []``: mean mutual information between two codes, in nats; ``matrix [d, d]``, 0 on the diagonal."""

    score: Float[Array, ""]
    matrix: Float[Array, "d d"]


@metric(errors=("score", "wasserstein", "wasserstein_normalized"))
def total_correlation(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    representation: Literal["mean", "sampled"] = "mean",
    variances: Float[Array, "n d"] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Dependence:
    """Compute total correlation of a Gaussian with the codes' covariance, in nats, and its distance to independence.

    ``TC = −½ log det Corr`` over the codes that vary; the distance (Wasserstein) is ``W = 2 tr Cov − 2 tr (D^½ Cov
    D^½)^½`` with ``D`` the covariance's diagonal, and ``W / tr Cov``.

    Shapes: codes ``[n, d]`` (posterior means), variances ``[n, d]``; factors are not read.

    Options:
      representation: ``"sampled"`` adds the posterior's noise, drawn once, to each mean.

    Contract:

    - At least 0. Collapsed (constant) and inactive codes are dropped; fewer than two codes that vary give 0.
    - For a singular covariance (duplicate codes, or no more samples than codes) total correlation is infinite. Here
      correlation eigenvalues below 1e-7 count as 1e-7, about 8 nats each. The released code takes the logarithm where
      the determinant is float64 rounding error, which gives infinity or an arbitrary number.
    - The distance is accurate to a relative 1e-4 (or 1e-12 of the largest variance, below which a code's part is left
      out). Where codes nearly copy others or outnumber the samples, it is accurate to 0.004 of the codes' variance.
    - Total correlation is invariant under affine maps, code by code. The distance grows with the codes' variances;
      relative to them it is invariant under a common scale.
    - Any non-finite code gives NaN.
    - Mean codes are far more dependent than sampled ones (Locatello et al. 2020, §5.2): state which you report.

    Reference: Locatello et al. 2020, §4.2.9 and App. G. The released code fails on a constant code.
    """
    n, wide = codes.shape[0], codes.shape[1] > codes.shape[0]
    gaussian = _Gaussian.of(_represented(key, codes, representation, variances), active, correlated=not wide)
    varies, deviation = gaussian.scale > 0, gaussian.deviation
    largest = deviation.max()
    share = jnp.where(varies, deviation / jnp.where(largest > 0, largest, 1.0), 1.0)
    if wide:
        tc, distance_share = _by_products_of_samples(gaussian, jnp.where(varies, share, 0.0))
    else:
        tc, counted = _total_correlation(gaussian), share > LEAST_SHARE
        pairs = counted[:, None] & counted[None, :] & ~jnp.eye(len(share), dtype=bool)
        distance_share = _distance_to_independence(
            jnp.where(counted, share, 1.0), jnp.where(pairs, gaussian.correlation, 0.0)
        )
    usable = jnp.where(gaussian.finite.all(), 1.0, jnp.nan)
    normalized = safe_divide(distance_share, jnp.where(varies, share**2, 0.0).sum())
    distance = distance_share * (n / (n - 1)) * largest * largest  # variances of this metric are over n − 1 samples
    return Dependence(usable * tc, usable * distance, usable * normalized)


def _represented(key, codes: Codes, representation: str, variances) -> Codes:
    """The mean codes, or one draw from each posterior."""
    if representation == "mean":
        return codes
    if variances is None:
        raise ValueError("variances: the sampled representation needs posterior variances [n, d], got None")
    return codes + jnp.sqrt(variances) * random.normal(key, codes.shape)


class _Gaussian(NamedTuple):
    """Codes as one Gaussian: ``rows [d, n]``, centered; ``scale [d]``, which brings each to unit deviation, 0 for a
    code that is left out; ``correlation [d, d]``, None where it is not asked for; ``deviation [d]``; ``finite [d]``."""

    rows: Float[Array, "d n"]
    scale: Float[Array, " d"]
    correlation: Float[Array, "d d"] | None
    deviation: Float[Array, " d"]
    finite: Bool[Array, " d"]

    @classmethod
    def of(cls, codes: Codes, active: Bool[Array, " d"] | None, *, correlated: bool) -> "_Gaussian":
        finite = finite_codes(codes)
        codes = jnp.where(finite[None, :], codes, 0.0)
        first, low, high = codes[0], over_samples(jnp.min, codes), over_samples(jnp.max, codes)
        reach = jnp.maximum(high - first, first - low)
        unit = power_of_two_below(reach)  # division by it is exact, and squares stay within float32
        rows = ((codes - first[None, :]) / unit[None, :]).T  # with samples last, passes fill the registers
        rows = rows - (_multiply(rows, jnp.ones(len(codes))) / len(codes))[:, None]
        covariance = _multiply(rows, rows.T) / len(codes) if correlated else None
        deviation = jnp.sqrt(jnp.diagonal(covariance) if correlated else (rows**2).mean(axis=1))
        varies = deviation * unit > rounding_of(jnp.abs(first) + reach)
        varies = varies if active is None else varies & active
        scale = jnp.where(varies, 1 / jnp.where(varies, deviation, 1.0), 0.0)
        deviation = jnp.where(varies, deviation * unit, 0.0)
        if not correlated:
            return cls(rows, scale, None, deviation, finite)
        both = varies[:, None] & varies[None, :]
        correlation = jnp.where(both, covariance * scale[:, None] * scale[None, :], 0.0)
        return cls(rows, scale, correlation, deviation, finite)


def _by_products_of_samples(codes: _Gaussian, share: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Total correlation, and distance in units of the largest variance, for more codes than samples.

    ``XᵀX`` and ``XXᵀ`` have the same eigenvalues but for zeros; those of the smaller one, ``[n, n]``, are computed. The
    correlation's zeros count as the smallest eigenvalue; zeros in ``D^½ Cov D^½`` add nothing to its root.
    """
    unit = codes.rows * codes.scale[:, None]
    n, varied = unit.shape[1], (codes.scale > 0).sum(dtype=jnp.int32)

    def eigenvalues(rows):
        return eigvalsh(_multiply(rows.T, rows) / n)

    logs = jnp.log(jnp.clip(eigenvalues(unit), SMALLEST_EIGENVALUE, None))
    # The largest eigenvalues are those of the codes that vary, fewer than all where most codes are constant.
    counted = np.arange(n, dtype=np.int32)[::-1] < varied
    missing = jnp.maximum(varied - n, 0).astype(jnp.float32) * np.float32(np.log(SMALLEST_EIGENVALUE))
    tc = -0.5 * (jnp.where(counted, logs, 0.0).sum() + missing)
    squares = jnp.maximum(eigenvalues(unit * (share**2)[:, None]), 0.0)
    roots = jnp.where(counted, jnp.sqrt(squares), 0.0).sum()
    return jnp.maximum(tc, 0.0), jnp.maximum(2 * ((share**2).sum() - roots), 0.0)


def _total_correlation(codes: _Gaussian) -> Float[Array, ""]:
    """``−½ log det Corr``, refined once if eigenvalues are small.

    A float32 correlation matrix has eigenvalues accurate to 1e-6 of the largest. For small ones the codes are therefore
    rotated and scaled by them, and the resulting covariance, close to the identity, gives the remainder.
    """
    missing = jnp.diag(jnp.where(codes.scale > 0, 0.0, 1.0))  # a collapsed code is independent of the others
    eigenvalues, vectors = eigh(codes.correlation + missing)
    eigenvalues = jnp.maximum(eigenvalues, SMALLEST_EIGENVALUE)

    def remainder():
        turn = vectors / jnp.sqrt(eigenvalues)[None, :]
        turned = _multiply(turn.T * codes.scale[None, :], codes.rows)
        rest = _multiply(turned, turned.T) / codes.rows.shape[1] + turn.T @ missing @ turn
        # It refines, and must not undo the floor above.
        return jnp.log(jnp.maximum(eigvalsh(rest), 0.1)).sum()

    rest = jax.lax.cond(eigenvalues.min() > WELL_CONDITIONED, lambda: jnp.zeros(()), remainder)
    return jnp.maximum(-0.5 * (jnp.log(eigenvalues).sum() + rest), 0.0)


def _distance_to_independence(deviation: Float[Array, " d"], correlation: Float[Array, "d d"]) -> Float[Array, ""]:
    """``2 tr D − 2 tr S`` with ``S² = D Corr D``, ``D = deviation²``; ``correlation`` has 0 on its diagonal.

    The difference of traces loses small codes' variances beside large ones'. With ``X = S − D`` it equals ``Σ_ij X_ij²
    / D_i``, all terms positive, and ``X`` solves ``D X + X D + X² = D Corr D − D²``. The ``X`` from the eigenvectors of
    ``S²`` does so for codes with similar variances, at least after one Newton step, whose linear system they solve as
    well. Where it misses, Newton's method starts from 0, and conjugate gradients, scaled by the diagonal, solve its
    linear systems: each entry keeps its digits.

    Where the covariance is singular, Newton's method may miss the root. The difference of traces, whose float32
    eigenvalues are within 1e-7 of the largest and their roots within 1e-3, then is the result.
    """
    variance, apiece = deviation**2, deviation[:, None]
    goal = variance[:, None] * variance[None, :] * correlation
    diagonal = variance[:, None] + variance[None, :]

    def size(matrix):  # entries in units of what they can be
        return jnp.sqrt(((matrix / apiece / apiece.T) ** 2 / diagonal).sum())

    def missing(excess):
        return goal - diagonal * excess - _multiply(excess, excess)

    def newton(state):
        count, excess, _ = state

        def apply(step):
            moved = _multiply(excess, step)
            return diagonal * step + moved + moved.T

        step, _ = jax.scipy.sparse.linalg.cg(
            apply, missing(excess), M=lambda residual: residual / diagonal, tol=1e-4, maxiter=CONJUGATE_STEPS
        )
        step = (step + step.T) / 2
        return count + 1, excess + step, size(step) > 1e-6 * size(excess + step)

    eigenvalues, vectors = eigh(goal + jnp.diag(variance**2))
    roots = jnp.sqrt(jnp.maximum(eigenvalues, 0.0))
    by_vectors = _multiply(vectors * roots[None, :], vectors.T) - jnp.diag(variance)

    def close(excess):
        whole = size(excess)
        return jnp.isfinite(whole) & (size(missing(excess) / diagonal) <= CLOSE * whole)

    def refined():
        rest = _multiply(_multiply(vectors.T, missing(by_vectors)), vectors)
        step = _multiply(_multiply(vectors, rest / (roots[:, None] + roots[None, :])), vectors.T)
        return by_vectors + (step + step.T) / 2

    found = jax.lax.cond(close(by_vectors), lambda: by_vectors, refined)
    start = jnp.int32(0), jnp.where(close(found), found, 0.0), ~close(found)
    excess = repeat("roots", lambda state: (state[0] < NEWTON_STEPS) & state[2], newton, start)[1]
    distances = ((excess / apiece) ** 2).sum()
    by_traces = jnp.maximum(2 * (variance.sum() - roots.sum()), 0.0)
    return jnp.where(jnp.abs(distances - by_traces) <= ROOTS_APART * variance.sum(), distances, by_traces)


@metric(errors=("score",))
def code_information(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    bins: Bins = 20,
    representation: Literal["mean", "sampled"] = "mean",
    variances: Float[Array, "n d"] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> CodeInformation:
    """Compute the mean mutual information between two different codes, each cut into equal-width bins, in nats.

    Shapes: codes ``[n, d]`` (posterior means), variances ``[n, d]``; factors are not read.

    Options:
      bins: bins per code.
      representation: ``"sampled"`` adds the posterior's noise, drawn once, to each mean.

    Contract:

    - At least 0; 0 for a single code; biased upwards as :func:`jaxdis.relations.mutual_information`.
    - A constant code shares nothing and counts as a code; inactive codes do not count. Any non-finite code gives NaN.

    Reference: Locatello et al. 2020, App. G ("average mutual information"). The text describes factors and codes; the
    captions and the released code pair codes, as here.
    """
    d, finite = codes.shape[1], finite_codes(codes).all()
    number = equal_width_bins(_represented(key, codes, representation, variances), bins)
    information = _information_of_pairs(number, bins)
    shown = jnp.ones(d, bool) if active is None else active
    counted = shown[:, None] & shown[None, :] & ~jnp.eye(d, dtype=bool)
    matrix = jnp.where(counted, information, 0.0)
    score = safe_divide(matrix.sum(), counted.sum().astype(jnp.float32))
    return CodeInformation(jnp.where(finite, score, jnp.nan), matrix)


def _information_of_pairs(number: Int[Array, "n d"], bins: int) -> Float[Array, "d d"]:
    """Mutual information between each two columns with bin numbers, block by block; two blocks in one order only."""
    n, d = number.shape
    blocks = -(-d // max(1, BLOCK_BINS // bins))
    width = -(-d // blocks)
    # Columns that fill up the last block have a single bin.
    columns = jnp.pad(number, ((0, 0), (0, blocks * width - d))).T.reshape(blocks, width, n)

    def of_blocks(pair):
        rows, others = columns[pair[0]].T, columns[pair[1]].T
        if n <= MOST_COUNTS and on_cpu():
            return _information_by_terms(rows, others, bins)
        return information_of_tables(pair_tables(rows, others, bins), (bins,) * width)[0]

    left, right = (side.astype(np.int32) for side in np.triu_indices(blocks))
    found = jax.lax.map(of_blocks, jnp.stack([left, right], axis=1))
    matrix = jnp.zeros((blocks, blocks, width, width))
    matrix = matrix.at[right, left].set(jnp.swapaxes(found, 1, 2)).at[left, right].set(found)
    return jnp.swapaxes(matrix, 1, 2).reshape(blocks * width, blocks * width)[:d, :d]


def _information_by_terms(left: Int[Array, "n d"], right: Int[Array, "n e"], bins: int) -> Float[Array, "d e"]:
    """Mutual information from ``c log c`` of counts: ``n`` times it is their sum over cells, less rows, less columns,
    plus ``n log n``.

    These are read from a table, as two integers, so that no sum rounds: whole units, of which the result is at most
    2^30, and finer ones, of which all cells, rows and columns make at most 2^30. Whole units may wrap on the way.
    """
    n = left.shape[0]
    unit, finer = (2.0 ** np.floor(30 - np.log2(most)) for most in (n * np.log(bins + 1), (bins + 1) ** 2))
    count = np.arange(n + 1, dtype=np.float64)
    exact = unit * count * np.log(np.maximum(count, 1))
    whole = np.floor(exact)
    terms = jnp.asarray(np.stack([whole, np.round((exact - whole) * finer)]).astype(np.int64).astype(np.int32))

    def of_codes(number):
        counts = each(lambda column: jnp.zeros(bins, jnp.int32).at[column].add(1), number.T)
        return terms[:, counts].sum(axis=2)

    rows, columns = of_codes(left)[:, :, None], of_codes(right)[:, None, :]
    sums = pair_sums(left, right, bins, terms) - rows - columns + terms[:, n, None, None]
    whole, fine = sums.astype(jnp.float32)
    information = (whole + fine / finer) / (n * unit)
    return jnp.where(information < RESOLUTION, 0.0, information)
