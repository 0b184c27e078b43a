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


def test_a_batch_larger_than_its_data_set_is_refused():
    with pytest.raises(ValueError, match="no smaller than the batch"):
        decompose(*batch(n=16), num_data=8, estimator="mss")


def test_an_unknown_estimator_is_refused(monkeypatch):
    monkeypatch.setattr(_losses, "estimable", lambda n, num_data, estimator: True)  # types are checked in tests alone
    with pytest.raises(ValueError, match="estimator: must be one of mss, .*, got 'msw'"):
        inspect.unwrap(_log_weights)(4, 10, "msw")
