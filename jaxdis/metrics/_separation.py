"""What posteriors say: how separately and independently codes inform about images, without factors (SEPIN, INDIN and
their averages), and what one code and no combination of others says about a factor (UniBound)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import entr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import class_counts, finite_codes, moments, safe_divide
from jaxdis._core.options import Bins, Count, Positive
from jaxdis._core.spec import metric
from jaxdis._learners.linear import standardized
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binning import factor_classes
from jaxdis.scores._gaps import CodeScore, FactorScore

# Posteriors narrower than this share of a code's deviation count as so wide.
NARROWEST = 1e-4
# Samples at a time, whose distances to all others stay in the cache.
CHUNK = 8
# How much of the frequencies is in predicted classes: a class without a neighbor is unlikely, not impossible.
PRIOR = 0.01


class Separation(NamedTuple):
    """What each code says about the image, in nats.

    ``informative [d]``: ``I(x; z_i)``; ``separate [d]``: ``I(x; z_i | z_rest)``, which no other code says;
    ``independent [d]``: ``I(x; z_i) − I(z_i; z_rest)``; ``shown [d]``: the codes that count; ``finite []``.
    """

    informative: Float[Array, " d"]
    separate: Float[Array, " d"]
    independent: Float[Array, " d"]
    shown: Bool[Array, " d"]
    finite: Bool[Array, ""]


@metric()
def separation(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    samples: Count = 500,
    noise: Positive = 0.1,
    variances: Float[Array, "n d"] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Separation:
    """What Gaussian posteriors say about images: each code, beside the others, and independently of them.

    Codes have the density that all images' posteriors mix to. The entropies of ``z``, of each ``z_i`` and of all but
    ``z_i`` are estimated from one posterior draw for each of ``samples`` random images.

    Shapes: codes (posterior means) ``[n, d]``, variances ``[n, d]``; factors are not read.

    Options:
      samples: how many draws; time grows with draws and images.
      noise: all posteriors' deviation, as a share of the code's own deviation, where variances are not given: a code
        without noise says infinitely much.

    Contract:

    - In nats. No information exceeds ``log n``, which tells all images apart: 9.2 for 10,000. If all codes but one do
      so already, what that one says is not separate: many informative codes need many images.
    - ``sepin`` and ``indin`` are means over active codes, in which a constant code counts 0; ``wsepin`` and ``windin``
      weight each code by its share of ``informative``, so that it does not count. Non-negative but for estimation
      noise.
    - Given an image, codes are drawn independently, so that by information's chain rule ``I(x; z_i | z_rest) = I(x;
      z_i) − I(z_i; z_rest)``: ``indin`` equals ``sepin``, and ``windin`` ``wsepin``.
    - Invariant under affine maps, code by code, with the variances or without any. Stochastic; random numbers go with a
      code by its moments, so that their order matters only where these are equal.
    - Any non-finite code gives NaN.

    Reference: Do & Tran 2020 (with densities estimated by a mixture). Their code cuts densities at 1e-8, which changes
    the entropies where there are many codes; here logarithms are added.
    """
    n, d = codes.shape
    model = posteriors(key, codes, variances, active, samples, noise)

    def densities(sample):
        return jax.scipy.special.logsumexp(log_densities(model, sample), axis=0)

    marginal = jnp.log(jnp.float32(n)) - jax.lax.map(densities, model.drawn, batch_size=CHUNK).mean(axis=0)
    alone, without, together = marginal[:d], marginal[d : 2 * d], marginal[2 * d]
    # Given its image, a code is the draw of its own Gaussian.
    own = 0.5 * model.noise**2 + jnp.log(model.deviations[model.rows])
    own = jnp.where(model.varies, own.mean(axis=0), 0.0)
    informative = alone - own
    separate = (together - own.sum()) - (without - (own.sum() - own))
    independent = informative - (alone + without - together)
    parts = (jnp.where(model.varies, part, 0.0) for part in (informative, separate, independent))
    return Separation(*parts, jnp.ones(d, bool) if active is None else active, model.finite)


class Posteriors(NamedTuple):
    """Gaussian posteriors for standardized codes ``[n, d]``, and draws ``drawn [s, d]`` for the images ``rows [s]``.

    ``noise [s, d]``, the draws' standard normal numbers; ``varies [d]``, the codes that are read; ``finite []``.
    """

    means: Float[Array, "n d"]
    deviations: Float[Array, "n d"]
    drawn: Float[Array, "s d"]
    rows: Int[Array, " s"]
    noise: Float[Array, "s d"]
    varies: Bool[Array, " d"]
    finite: Bool[Array, ""]


def posteriors(key, codes: Codes, variances, active, samples: int, noise: float) -> Posteriors:
    """Posteriors for all images and draws for some; without variances, all deviate by ``noise``."""
    finite = finite_codes(codes) if variances is None else finite_codes(codes) & finite_codes(variances)
    shown = finite if active is None else finite & active
    which, draw = jax.random.split(key)
    rows = jax.random.permutation(which, codes.shape[0])[: min(samples, codes.shape[0])]
    _, scale = moments(codes)
    varies = shown & (scale > 0)
    means = standardized(jnp.where(varies[None, :], codes, 0.0))
    if variances is None:
        deviations = jnp.full(means.shape, noise)
    else:
        wide = jnp.sqrt(variances) / jnp.where(varies, scale, 1.0)[None, :]
        deviations = jnp.maximum(jnp.where(varies[None, :], wide, 1.0), NARROWEST)
    standard = noise_of_codes(draw, means, len(rows))
    return Posteriors(
        means, deviations, means[rows] + deviations[rows] * standard, rows, standard, varies, finite.all()
    )


def log_densities(model: Posteriors, drawn: Float[Array, " d"]) -> Float[Array, "n c"]:
    """Log densities, without constants, that each posterior gives one draw: ``d`` codes, all but each, and all."""
    each = -0.5 * ((drawn[None, :] - model.means) / model.deviations) ** 2 - jnp.log(model.deviations)
    each = jnp.where(model.varies[None, :], each, 0.0)
    together = each.sum(axis=1)[:, None]
    return jnp.concatenate([each, together - each, together], axis=1)


def noise_of_codes(key, means: Float[Array, "n d"], count: int) -> Float[Array, "s d"]:
    """Standard normal noise that goes with each code, whatever its place and sign, by its fourth and third moments."""
    place = jnp.argsort(jnp.argsort((means**4).mean(axis=0)))
    sign = jnp.where((means**3).mean(axis=0) < 0, -1.0, 1.0)
    return random.normal(key, (count, means.shape[1]))[:, place] * sign[None, :]


@metric()
def sepin(codes: Separation) -> CodeScore:
    """What each code says about the image and no other code says, in nats, averaged over codes: SEPIN."""
    return _mean(codes.separate, codes, jnp.ones_like(codes.separate))


@metric()
def wsepin(codes: Separation) -> CodeScore:
    """SEPIN, weighted by how informative each code is: WSEPIN."""
    return _mean(codes.separate, codes, codes.informative)


@metric()
def indin(codes: Separation) -> CodeScore:
    """What each code says about the image less what it says about the other codes, in nats, averaged over codes:
    INDIN."""
    return _mean(codes.independent, codes, jnp.ones_like(codes.independent))


@metric()
def windin(codes: Separation) -> CodeScore:
    """INDIN, weighted by how informative each code is: WINDIN."""
    return _mean(codes.independent, codes, codes.informative)


def _mean(per_code, codes: Separation, weights) -> CodeScore:
    weights = jnp.where(codes.shown, jnp.maximum(weights, 0.0), 0.0)
    mean = safe_divide((weights * per_code).sum(), weights.sum())
    return CodeScore(jnp.where(codes.finite, mean, jnp.nan), jnp.where(codes.finite, per_code, jnp.nan))


@metric(distinct_samples=True)
def unibound(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    samples: Count = 500,
    noise: Positive = 0.1,
    bins: Bins = 20,
    variances: Float[Array, "n d"] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> FactorScore:
    """Bound from below what the best code alone says about each factor, as a share of its entropy (UniBound).

    ``max_i max(0, I(z_i; y_j) − I(z_rest; y_j)) / H(y_j)``: what code ``i`` says about factor ``j`` exceeds what all
    other codes together say by no more than what it alone says. MIG subtracts the best other code, and overlooks what
    they say in combination.

    The information is ``H(y) + mean log p(y | z)`` for ``samples`` draws of ``z`` from random images' posteriors; ``p(y
    | z)`` compares ``z``'s densities under the posteriors for all other images in each class, and 1 % of it is these
    images' class frequencies: an image without a neighbor in its class costs at most ``log 100``, not infinity.

    Shapes: codes (posterior means) ``[n, d]``, variances ``[n, d]``, factors ``[n, k]``.

    Options:
      samples: how many draws; time grows with draws and images.
      noise: all posteriors' deviation, as a share of the code's own deviation, where variances are not given. It
        decides how near images are, and with it which of two representations scores higher: give ``variances`` where a
        model has them.
      bins: equal-width bins for a continuous factor.

    Contract:

    - In [0, 1]; with enough samples, 0 for a factor that is encoded twice, or that the other codes determine together,
      as a third bit that is the sum of two others. A constant code changes nothing; 0 if all are constant.
    - With few images that are close in all codes but one, information that takes several codes is missed, and the bound
      is too high: for four factors with five values, each in two codes, whose bound is 0, it is .61 with 1,000 samples,
      .15 with 2,000, and .001 with 10,000, where 16 share all values.
    - The image itself is not among those that tell its class, in whose frequencies ``H(y)`` counts it: with classes of
      few images the bound is high, .69 with 20 classes of 3 images, and .66 with 300 each.
    - Codes of noise score exactly 0 more often than not, as do permuted ones: ``p_value`` is then 1.
    - Stochastic, but independent of the codes' order and signs.
    - One-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Tokui & Sato 2022 (there over whole data sets, an image among those that make its density).
    """
    d = codes.shape[1]
    model = posteriors(key, codes, variances, active, samples, noise)
    classes, sizes = factor_classes(factors, bins)

    def gained(draw_and_row):
        """How much likelier each code alone, and all but it, make each true class: logarithms ``[2 d, k]``."""
        drawn, row = draw_and_row
        parts = log_densities(model, drawn)[:, : 2 * d]
        others = (jnp.arange(len(codes)) != row)[:, None]
        parts = jnp.where(others, parts, -jnp.inf)
        density = jnp.exp(parts - parts.max(axis=0)[None, :])
        same = jnp.where(others & (classes == classes[row][None, :]), 1.0, 0.0)
        share = jnp.matmul(density.T, same) / density.sum(axis=0)[:, None]
        frequency = same.sum(axis=0) / (len(codes) - 1)
        told = jnp.log((1 - PRIOR) * share + PRIOR * frequency[None, :]) - jnp.log(frequency)[None, :]
        return jnp.where(frequency[None, :] > 0, told, 0.0)  # no other image has the class

    information = jnp.maximum(jax.lax.map(gained, (model.drawn, model.rows), batch_size=CHUNK).mean(axis=0), 0.0)
    entropy = entr(class_counts(classes, sizes) / len(codes)).sum(axis=1)
    varies = entropy > 0
    excess = jnp.where(model.varies[:, None], information[:d] - information[d:], 0.0)
    share = jnp.maximum(excess, 0.0).max(axis=0) / jnp.where(varies, entropy, 1.0)
    return FactorScore.over(varies, model.finite, jnp.minimum(share, 1.0))
