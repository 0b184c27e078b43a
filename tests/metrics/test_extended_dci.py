"""DCI-ES: explicitness of loss curves as released, DCI as by forests, and codes that only large probes can read."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics._extended_dci import explicitness_of

CAPACITIES = (4, 16, 64, 256)
CURVES = ((0.9, 0.5, 0.3, 0.1), (0.2, 0.2, 0.25, 0.19), (1, 1, 1, 0), (0.4, 0.41, 0.4, 0.4))
# Of the released code (andreinicolicioiu/DCI-ES, metrics/explitcitness.py) on CURVES at the logarithms of CAPACITIES.
RELEASED = (0.33333333333333326, 0.9833333333333333, -0.666666666666667, 1.0)


def test_explicitness_of_curves_is_that_released():
    found = explicitness_of(np.asarray(CURVES, np.float32).T, CAPACITIES)
    np.testing.assert_allclose(found, RELEASED, atol=1e-6)


@pytest.mark.parametrize("capacities", [(4,), (16, 4), (4, 4)])
def test_capacities_ascend(capacities):
    with pytest.raises(ValueError, match="capacities: must be at least two ascending numbers"):
        explicitness_of(jnp.zeros((len(capacities), 1)), capacities)


def test_a_code_that_hides_its_factor_is_less_explicit():
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, size=(3000, 2)).astype(np.float32)
    hidden = np.c_[values[:, 0] + 2.5 * rng.integers(0, 2, 3000), values[:, 1]]  # which piece says nothing
    codes = np.stack([values, hidden]).astype(np.float32)
    plan = {name: METRICS[name].with_options(trees=2, depth=3) for name in ("dci_es", "dci_forest")}
    scores = evaluate(codes, Factors.of(values, (None, None)), plan)
    explicit = scores.part("dci_es.explicitness_per_factor")
    assert explicit[0].min() > 0.7  # the smallest probe has four random features
    assert explicit[1, 0] < explicit[0].min() - 0.2
    losses = scores.part("dci_es.losses")
    assert losses[0, -1].max() < 0.01
    assert (scores["dci_es.size"] == 1).all()
    for field in ("disentanglement", "completeness", "informativeness"):
        np.testing.assert_array_equal(scores[f"dci_es.{field}"], scores[f"dci_forest.{field}"])
