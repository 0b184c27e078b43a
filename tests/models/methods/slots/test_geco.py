"""GECO against a loop in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis.models.methods.slots._base import Geco


def scripted(errors, goal, step, least):
    """Multipliers before each update, and that after the last."""
    beta, average, trace = 1.0, None, [1.0]
    for error in errors:
        average = error if average is None else 0.99 * average + 0.01 * error
        distance = goal - average
        rate = 10 * step if distance > 0 else step
        beta = min(max(beta * np.exp(rate * distance), least), 1e10)
        trace.append(beta)
    return trace


@pytest.mark.parametrize(("least", "step"), [(1e-10, 1e-3), (1.0, 1e-3), (1e-10, 0.1)])
def test_the_multiplier_follows_the_errors(least, step):
    # Far above the goal, then far below it, so that the average crosses it, and above it again.
    errors = np.concatenate([np.full(30, 120.0), np.full(200, -60.0), np.linspace(-60, 900, 60)])
    after = jax.jit(Geco.after)
    geco, trace = Geco.begin(), [1.0]
    for error in errors:
        geco = after(geco, *(jnp.float32(value) for value in (error, 40.0, step, least)))
        trace.append(float(geco.multiplier))
    wanted = scripted(errors, 40.0, step, least)
    # Rounding of 290 averages, of which steps of 0.1 make exponents of a hundred.
    np.testing.assert_allclose(trace, wanted, rtol=2e-4 if step < 0.1 else 2e-3)
    assert min(wanted) == least or least == 1e-10
    assert max(wanted) == 1e10 or step < 0.1
    assert min(np.diff(wanted)) < 0 < max(np.diff(wanted))
