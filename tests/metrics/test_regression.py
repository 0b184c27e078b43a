"""DCI by regressions in full: against the recorded output of the code of Eastwood & Williams, and copies of factors."""

import jax
import numpy as np
import pytest

from jaxdis import Direct, Factors, Spec, evaluate
from jaxdis.data._teapot import Gap
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
