"""Monotonicity and smoothness: against the outputs of latte on given paths, and on codes of which they are known."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics._interpolation import Paths

PLACES = np.linspace(-1, 1, 9)
PATHS = (PLACES, PLACES**3 + 0.2 * PLACES, np.sign(PLACES - 0.1), np.sin(3 * PLACES), np.cos(5 * PLACES))
# Of latte-metrics 0.0.1a6 (latte.functional.interpolatability) on PATHS at PLACES, with liad_thresh=0.05.
LATTE = {
    "monotonicity": (1, 1, 1, 0, 0),
    "smoothness": (1, 0.6111111111111112, 0, 0.6579875141734927, 0.5182148266789315),
}


@pytest.mark.parametrize("name", LATTE)
def test_scores_of_a_path_are_those_of_latte(name):
    value = jnp.asarray(np.tile(PATHS, (5, 1, 1)), jnp.float32)
    yes = jnp.ones(5, bool)
    paths = Paths(value, jnp.full(5, 0.25), yes, yes, jnp.array(True))
    exact = {"tolerance": 1e-3} if name == "smoothness" else {}
    score = METRICS[name].score.with_options(reg_dim=(0, 1, 2, 3, 4), **exact)(paths)
    np.testing.assert_allclose(score.per_factor, LATTE[name], atol=1e-5)
    assert score.score == pytest.approx(np.mean(LATTE[name]), abs=1e-5)


@pytest.mark.slow
def test_codes_that_rise_bend_and_jump():
    values = np.random.default_rng(0).uniform(-1, 1, size=(5000, 4)).astype(np.float32)
    folded = np.where(values[:, 2] > 0, 3 - values[:, 2], values[:, 2])  # the middle values lie at both ends of a gap
    codes = np.stack([-values[:, 0], np.cbrt(values[:, 1]), folded, values[:, 3]], axis=1)
    values[:, 3] = values[:, 3] > 0
    scores = evaluate(codes, Factors.of(values, (None, None, None, 2)), ("monotonicity", "smoothness"))
    np.testing.assert_allclose(scores.part("monotonicity.per_factor")[[0, 1, 3]], 1)
    assert scores.part("monotonicity.per_factor")[2] < 0.9
    smooth = scores.part("smoothness.per_factor")
    assert smooth[0] == 1
    assert smooth[1] > 0.6 > 0.4 > smooth[3]
