"""What all codes together tell of each factor: explicitness."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis.learners.linear import standardised
from jaxdis.learners.logistic import Groups, fit_logistic, log_probabilities, one_hot_of, roc_auc
from jaxdis.relations.relation import finite_codes
from jaxdis.typing import Codes, Factors, Sample


class Explicitness(NamedTuple):
    """``score []`` and ``per_factor [k]`` on held-out samples, ``train []`` on the training samples."""

    score: Float[Array, ""]
    train: Float[Array, ""]
    per_factor: Float[Array, " k"]


def explicitness(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    classifier: Literal["multinomial", "one_vs_rest"] = "multinomial",
    rescale: bool = False,
    strength: float = 1.0,
    active: Bool[Array, " d"] | None = None,
) -> Explicitness:
    """Area under the ROC curve of a linear classifier of each factor on all codes: mean over classes, then factors.

    Codes are standardised by the training samples; logistic regression is fitted to its regularised optimum
    (:func:`jaxdis.learners.logistic.fit_logistic`); each class is told from all others by its probability, ties sharing
    the middle. ``one_vs_rest`` fits one binary classifier for each class instead of one multinomial for each factor.
    ``rescale`` maps chance to 0: ``2 (AUC − 1/2)``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.
    Contract: 0.5 is chance, 1 perfect (unless rescaled); averages run over the classes that the samples judged hold;
    a one-valued factor and a continuous one are left out and NaN in their part; a constant code changes nothing; any
    non-finite code gives NaN; deterministic.

    Reference: Ridgeway & Mozer 2018, §3 (one against rest); Locatello et al. 2020, §4.2.4 (multinomial, not rescaled:
    the default). The released code stops the solver after 100 iterations, which moves areas by up to 2e-4; it fails on
    a code that is constant and on a class missing from the test samples, and misnames classes when one is missing from
    the training samples.
    """
    discrete = [j for j, size in enumerate(factors.sizes) if size is not None]
    if not discrete:
        undefined = jnp.full((), jnp.nan)
        return Explicitness(undefined, undefined, jnp.full(factors.num_factors, jnp.nan))
    sizes = tuple(factors.sizes[j] for j in discrete)
    shown = jnp.ones(codes.shape[1], bool) if active is None else active
    inputs = jnp.where(shown[None, :], standardised(jnp.nan_to_num(codes)), 0.0)
    held_out = jnp.where(shown[None, :], standardised(jnp.nan_to_num(test.codes), like=jnp.nan_to_num(codes)), 0.0)
    classes, truth = factors.discrete(), test.factors.discrete()
    if classifier == "multinomial":
        model = fit_logistic(inputs, classes, sizes, strength=strength)
        judged = [log_probabilities(model, sample, sizes) for sample in (inputs, held_out)]
    else:
        pairs = (2,) * sum(sizes)
        model = fit_logistic(inputs, one_hot_of(classes, sizes).astype(jnp.int32), pairs, strength=strength)
        judged = [log_probabilities(model, sample, pairs)[:, 1::2] for sample in (inputs, held_out)]
    train, held = (
        _mean_area(probability, labels, sizes, classes)
        for probability, labels in zip(judged, (classes, truth), strict=True)
    )
    train, held = (2 * (area - 0.5) if rescale else area for area in (train, held))
    usable = (finite_codes(codes) & finite_codes(test.codes)).all()
    per_factor = jnp.full(factors.num_factors, jnp.nan).at[np.array(discrete)].set(jnp.where(usable, held, jnp.nan))
    score = jnp.where(usable, jnp.nanmean(held), jnp.nan)
    return Explicitness(score, jnp.where(usable, jnp.nanmean(train), jnp.nan), per_factor)


def _mean_area(log_probability, labels, sizes, trained_on) -> Float[Array, " j"]:
    """Mean area over the classes present among the labels; NaN for a factor with one value in training."""
    areas = roc_auc(log_probability.T, one_hot_of(labels, sizes).T > 0)
    present = jnp.isfinite(areas)
    member = jnp.asarray(Groups.of(sizes).member)
    mean = (jnp.where(present, areas, 0.0) @ member) / (present.astype(jnp.float32) @ member)
    several = trained_on.max(axis=0) > trained_on.min(axis=0)
    return jnp.where(several, mean, jnp.nan)
