import inspect
from typing import get_args

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis.models.objectives import _losses
from jaxdis.models.objectives._losses import Estimator, _log_weights, decompose
from tests.models import reference
from tests.programs import compiled_whole


def batch(n=16, d=4, seed=0):
    mean, log_variance, noise = np.random.default_rng(seed).normal(size=(3, n, d)).astype(np.float32)
    log_variance -= 1
    return tuple(map(jnp.asarray, (mean + np.exp(log_variance / 2) * noise, mean, log_variance)))


parts = compiled_whole(decompose)


@pytest.mark.parametrize("estimator", get_args(Estimator))
def test_against_float64(estimator):
    got = parts(*batch(), num_data=1000, estimator=estimator)
    wanted = reference.parts(*(np.float64(a) for a in batch()), 1000, estimator)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def test_the_sum_does_not_depend_on_the_estimator():
    sums = [sum(map(float, parts(*batch(), num_data=1000, estimator=name))) for name in get_args(Estimator)]
    np.testing.assert_allclose(sums, sums[0], atol=2e-4)
    codes, mean, log_variance = batch()
    difference = reference.log_density(codes, mean, log_variance) - reference.log_density(codes, 0.0, 0.0)
    np.testing.assert_allclose(sums[0], difference.sum(1).mean(), atol=2e-4)


def test_weighted_sampling_differs_from_the_released_form_by_a_constant():
    n, d, num_data = 16, 4, 1000
    weighted = parts(*batch(), num_data=num_data, estimator="mws").total_correlation
    plain = parts(*batch(), num_data=num_data, estimator="locatello2020").total_correlation
    np.testing.assert_allclose(weighted - plain, (d - 1) * np.log(num_data * n), rtol=1e-5)


def test_a_batch_larger_than_its_data_set_is_refused():
    with pytest.raises(ValueError, match="no smaller than the batch"):
        decompose(*batch(n=16), num_data=8, estimator="mss")


def test_an_unknown_estimator_is_refused(monkeypatch):
    monkeypatch.setattr(_losses, "estimable", lambda n, num_data, estimator: True)  # types are checked in tests alone
    with pytest.raises(ValueError, match="estimator: must be one of mss, .*, got 'msw'"):
        inspect.unwrap(_log_weights)(4, 10, "msw")
