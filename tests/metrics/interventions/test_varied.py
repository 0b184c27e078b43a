"""Z-max variance: against the code of Carbonneau et al., and on codes of which the answer is known."""

import jax
import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics.interventions import draw_varied, numbered_by_others

MIXING = np.array([[1, 0.95, 0.3], [0.7, 1, 0.8], [0.95, 0.4, 1]])


def test_the_score_is_that_of_carbonneau_et_al():
    """Means of six runs of ``z_max_var`` of ubisoft-laforge-disentanglement-metrics (commit 05d5667), ±.01 each.

    Its held-out batches come from the samples of training, which gains it a little.
    """
    rng, n = np.random.default_rng(3), 20_000
    free = rng.uniform(size=(n, 3))
    codes = [free @ MIXING + 0.6 * rng.normal(size=(n, 3))]
    classes = rng.integers(0, 3, (n, 3))
    codes.append(classes @ MIXING + 1.5 * rng.normal(size=(n, 3)))
    plan = {"z_max": METRICS["z_max"].with_options(rescale=True)}
    for given, factors, expected in zip(codes, (Factors.of(free, (None,) * 3), classes), (0.298, 0.392), strict=True):
        scores = [evaluate(given.astype(np.float32), factors, plan, seed)["z_max"] for seed in range(4)]
        assert np.mean(scores) == pytest.approx(expected, abs=0.03)


def test_all_factors_but_one_are_equal_within_a_batch():
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, size, 3000) for size in (2, 3, 8)], axis=1)
    draws = draw_varied(jax.random.key(0), Factors.of(values), num_train=30, num_eval=20, batch=50)
    bins = np.c_[values[:, :2], np.minimum(values[:, 2] * 3 // 7, 2)]
    assert draws.varying == 3
    for batch, factor in zip(np.asarray(draws.rows).T, np.asarray(draws.factor), strict=True):
        assert [j for j in range(3) if np.ptp(bins[batch, j]) > 0] == [factor]
    trained, held_out = (set(np.unique(part)) for part in np.split(np.asarray(draws.rows), [30], axis=1))
    assert not trained & held_out


def test_perfect_codes_score_one_and_one_code_of_all_factors_a_third():
    values = np.random.default_rng(0).integers(0, 3, (1000, 3))
    one = np.c_[values @ [1, 3, 9], np.ones((1000, 2))]
    scores = evaluate(np.stack([values, one]).astype(np.float32), values, "z_max")
    np.testing.assert_allclose(scores["z_max"], [1, 1 / 3], atol=0.05)
    # Every sample has values of its own: no factor varies alone.
    alone = np.random.default_rng(0).permutation(1000).reshape(-1, 2)
    exact = {"z_max": METRICS["z_max"].with_options(factor_bins=None)}
    assert np.isnan(evaluate(alone.astype(np.float32), alone, exact)["z_max"])


@pytest.mark.parametrize("k", [1, 2, 5])
def test_combinations_of_all_other_columns_are_numbered_in_order(k):
    rng = np.random.default_rng(k)
    columns, first = rng.integers(-2, 2, (k, 60)).astype(np.int32), rng.integers(0, 2, 60).astype(np.int32)
    numbers = jax.jit(numbered_by_others)(columns, first)
    for j in range(k):
        others = np.c_[first, np.delete(columns, j, axis=0).T]
        np.testing.assert_array_equal(numbers[j], np.unique(others, axis=0, return_inverse=True)[1].ravel())
