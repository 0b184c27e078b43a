"""DCI by regressions in full, as recorded and on copies of factors; DCI-ES, on curves as released and hidden codes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS, Direct, Factors, Spec, evaluate
from jaxdis.data._teapot import Gap
from jaxdis.metrics._extended_dci import explicitness_of
from jaxdis.papers.eastwood2018._run import forest_regression, lasso_regression
from tests.golden_values import arrays, numbers

LASSO, FOREST = Direct(Spec(lasso_regression)), Direct(Spec(forest_regression))


def test_the_lasso_has_the_recorded_errors_inside_and_outside_the_gap():
    golden, stored = numbers("qedr")["values"]["lasso_alpha0.02"], arrays("qedr")
    gap, number = np.asarray(Gap()(stored["factors"])), np.arange(len(stored["codes"]))
    errors = np.array(golden["nrmse_train_dev_test_zeroshot"])
    for column, where in ((2, ~gap & (number >= 9000)), (3, gap)):
        train, test = ((stored["codes"][w], Factors.of(stored["factors"][w], (None,) * 5)) for w in (_fit(gap), where))
        scores = evaluate(*train, {"lasso": LASSO.with_options(penalty=0.02)}, test=test)
        np.testing.assert_allclose(scores.part("lasso.error"), errors[:, column], atol=1e-3)
        assert scores["lasso"] == pytest.approx(errors[:, column].mean(), abs=1e-3)
    np.testing.assert_allclose(scores.part("lasso.importance"), golden["R"], atol=1e-4)


def _fit(gap):
    return ~gap & (np.arange(len(gap)) < 8000)


def test_a_copied_factor_has_almost_no_error():
    """256 bins and depth 12 leave less than a fiftieth; chosen on validation samples."""
    values = np.random.default_rng(0).uniform(size=(6000, 2)).astype(np.float32)
    codes = np.concatenate([values, np.random.default_rng(1).normal(size=(6000, 1))], 1).astype(np.float32)
    parts = np.split(np.arange(6000), [4000, 5000])
    train, test, validation = ((codes[part], Factors.of(values[part], (None, None))) for part in parts)
    metrics = {"lasso": LASSO, "forest": FOREST.with_options(depth=(6, 12), trees=4)}
    scores = evaluate(*train, metrics, test=test, validation=validation)
    assert scores.part("forest.error").max() < 0.02
    assert (scores.part("forest.chosen") == 12).all()
    assert scores.part("lasso.error").max() < 0.001
    assert scores["forest.disentanglement"] > 0.99
    assert scores["forest.completeness"] == pytest.approx(scores.part("forest.per_factor").mean(), abs=1e-6)


def test_a_factor_that_is_constant_where_it_is_tested_has_no_error():
    values = np.random.default_rng(0).uniform(size=(300, 2)).astype(np.float32)
    constant = values.copy()
    constant[:, 1] = 0.5
    train, test = (values, Factors.of(values, (None, None))), (constant, Factors.of(constant, (None, None)))
    for metric in (LASSO.with_options(penalty=0.01), FOREST.with_options(depth=3, trees=2)):
        error = evaluate(*train, {"one": metric}, test=test, key=jax.random.key(0)).part("one.error")
        assert np.isfinite(error[0])
        assert np.isnan(error[1])


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
