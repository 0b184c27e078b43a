"""UniBound: how much information about a factor is in one code and in no combination among the others."""

import jax
import jax.numpy as jnp
from jax.scipy.special import entr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core.arrays import class_counts
from jaxdis._core.options import Bins, Count, Positive
from jaxdis._core.spec import metric
from jaxdis.factors import Codes, Factors
from jaxdis.metrics._separation import CHUNK, log_densities, posteriors
from jaxdis.relations._binning import factor_classes
from jaxdis.scores._gaps import FactorScore

# How much of the frequencies is in predicted classes: a class without a neighbor is unlikely, not impossible.
PRIOR = 0.01


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
    share = jnp.where(varies & model.finite, jnp.minimum(share, 1.0), jnp.nan)
    return FactorScore(jnp.where(varies, share, 0.0).sum() / varies.sum().astype(jnp.float32), share)
