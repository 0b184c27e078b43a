"""Flatness and factored components, against disent, and where they are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis.data import FactorSpace, Interval
from jaxdis.encoders import factored_components, flatness

SPACE = FactorSpace.of(a=3, b=1, c=5, d=4)
# Outputs of disent 0.8.0 (metric_flatness, metric_linearity; PyTorch 2.13) on `bent` of a grid of the factors a, c, d.
FLATNESS = 0.7407040596
LINEARITY = {"axis_ratio": 0.5986486673, "linear_ratio": 0.9736292362, "axis_alignment": 0.6148630977}


def render(factors):
    return factors.astype(jnp.float32)[:, None, None, :] / 8


def bent(images):
    """Codes that are sums of functions of single factors: a traversal is the same whatever the other factors are."""
    a, b, c, d = 8 * images.reshape(-1, 4).T
    return jnp.stack([a**2 + 0.3 * d, c, jnp.sin(c) + 0.1 * a, 0.5 * d - c, 0 * b], axis=1)


def along_axes(images):
    return images.reshape(-1, 4)


def scored(metric, encode):
    return metric(jax.random.key(0), encode, SPACE, render, repeats=4)


@pytest.mark.golden
def test_scores_are_those_of_disent():
    assert scored(flatness, bent).score == pytest.approx(FLATNESS, abs=2e-6)
    found = scored(factored_components, bent)
    for name, expected in LINEARITY.items():
        assert getattr(found, name) == pytest.approx(expected, abs=2e-6), name


def test_codes_along_axes_score_one_and_across_them_less():
    def across(images):  # both codes hold the sum of the factors
        return jnp.stack([images.reshape(-1, 4).sum(axis=1)] * 2, axis=1)

    assert scored(flatness, along_axes).score == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(scored(factored_components, along_axes).per_factor, 1, atol=1e-5)
    assert scored(flatness, across).score == pytest.approx(np.sqrt(0.5), abs=1e-5)  # the diagonal of a square
    np.testing.assert_allclose(scored(factored_components, across).per_factor, [[0, 1, 0]] * 3, atol=1e-5)


def test_members_are_scored_together_and_constant_codes_score_zero():
    def zoo(images):
        codes = along_axes(images)
        return jnp.stack([codes, 0 * codes])

    np.testing.assert_allclose(scored(flatness, zoo).score, [1, 0], atol=1e-5)
    np.testing.assert_allclose(scored(factored_components, zoo).axis_ratio, [1, 0], atol=1e-5)


def test_a_space_without_values_to_go_through_is_refused():
    with pytest.raises(ValueError, match="must be a discrete factor with several values"):
        flatness(jax.random.key(0), along_axes, FactorSpace.of(a=Interval(0, 1)), render)
