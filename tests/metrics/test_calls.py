"""Rows of METRICS can be called with one representation, also in traced code, and say if they are differentiable."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from tests.metrics.test_contracts import SOURCES, quick_if

RNG = np.random.default_rng(0)
VALUES = RNG.integers(0, (3, 4), (120, 2))
FACTORS = Factors.of(VALUES)
# Codes that vary smoothly with both factors.
CODES = (np.tanh(VALUES @ RNG.normal(size=(2, 3)) * 0.6) + 0.3 * RNG.normal(size=(120, 3))).astype(np.float32)
# A blend with no gradient, one with, and one that splits samples.
QUICK = {"mig", "mcc", "r2_linear"}


def rows(names=METRICS):
    return quick_if(names, QUICK.__contains__)


def numbers(result) -> dict:
    return {field: value for field, value in result._asdict().items() if value is not None}


@pytest.mark.parametrize("name", rows(SOURCES))
def test_a_call_is_an_evaluation_of_one_member(name):
    result, scores = METRICS[name](CODES, FACTORS, 3), evaluate(CODES, FACTORS, name, 3)
    for field, value in numbers(result).items():
        column = name if field == "score" else f"{name}.{field}"
        expected = scores[column] if column in scores else scores.part(f"{name}.{field}")
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", rows(SOURCES))
def test_a_call_is_traced_and_batched(name):
    zoo = np.stack([CODES, CODES[:, ::-1]])
    # What does not depend on held-out samples of its own: these are given.
    test = (CODES[::-1], VALUES[::-1])
    each = [METRICS[name](codes, FACTORS, 3, test=test) for codes in zoo]

    @jax.jit
    def together(zoo, factors):
        return jax.vmap(lambda codes: METRICS[name](codes, factors, 3, test=test))(zoo)

    for field, value in numbers(together(zoo, FACTORS)).items():
        expected = np.stack([getattr(result, field) for result in each])
        np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-4)


def gradients(name, codes, **arguments) -> list[np.ndarray]:
    """Of each number in the result, with respect to codes."""
    return list(map(np.asarray, jacobians(name, codes, arguments)))


@functools.partial(jax.jit, static_argnums=0)
def jacobians(name, codes, arguments):
    def columns(codes):
        result = numbers(METRICS[name](codes, FACTORS, 3, **arguments)).values()
        return [value for value in result if value.ndim == 0 and value.dtype == jnp.float32]

    return jax.jacrev(columns)(codes)


@pytest.mark.parametrize("name", rows())
def test_a_differentiable_row_has_a_gradient_and_others_none(name):
    found = gradients(name, CODES)
    assert all(np.isfinite(gradient).all() for gradient in found)
    assert [bool(gradient.any()) for gradient in found] == [METRICS[name].about.differentiable] * len(found)


@pytest.mark.parametrize("name", rows(name for name, metric in METRICS.items() if metric.about.differentiable))
def test_a_gradient_is_the_slope(name):
    """Along the gradient the score rises as fast as it says, between ties."""
    gradient, step = gradients(name, CODES)[0], 1e-3
    direction = gradient / np.linalg.norm(gradient)
    ends = [METRICS[name](CODES + sign * step * direction, FACTORS, 3)[0] for sign in (-1, 1)]
    slope = float(ends[1] - ends[0]) / (2 * step)
    assert slope == pytest.approx(np.linalg.norm(gradient), rel=0.15)


@pytest.mark.parametrize("name", ["mcc", "r2_linear"])
def test_a_constant_code_leaves_gradients_finite(name):
    codes = np.concatenate([CODES[:, :2], np.full((120, 1), 2.0, np.float32)], axis=1)
    assert all(np.isfinite(gradient).all() for gradient in gradients(name, codes))


@pytest.mark.parametrize("name", [pytest.param("rmig", marks=pytest.mark.slow), "jemmig"])
def test_sampled_codes_have_a_gradient(name):
    (gradient, *_) = gradients(name, CODES, variances=np.full_like(CODES, 0.05))
    assert np.isfinite(gradient).all()
    assert gradient.any()


def test_arguments_are_those_of_an_evaluation():
    groups = np.repeat(np.arange(12), 10)
    metric, names = METRICS["r2_linear"], ("r2_linear",)
    alone = metric(CODES, VALUES, 3, groups=groups).score
    assert alone == pytest.approx(float(evaluate(CODES, VALUES, names, 3, groups=groups)["r2_linear"]), abs=1e-5)
    assert alone != metric(CODES, VALUES, 3).score
    weights, active = RNG.integers(0, 3, 120), np.array([True, False, True])
    scores = evaluate(CODES, VALUES, "mcc", weights=weights)
    assert METRICS["mcc"](CODES, VALUES, weights=weights).score == pytest.approx(float(scores["mcc"]), abs=1e-6)
    scores = evaluate(CODES, VALUES, "mcc", active=active)
    assert METRICS["mcc"](CODES, VALUES, active=active).score == pytest.approx(float(scores["mcc"]), abs=1e-6)


def test_what_would_be_misread_is_refused():
    table = {"shape": [None, *VALUES[1:, 0].tolist()], "size": VALUES[:, 1].tolist()}
    with pytest.raises(ValueError, match="factors: must have a value in every sample"):
        METRICS["mig"](CODES, Factors.from_table(table, missing="each"))
    one, other = (Factors.from_table({"shape": [*names] * 40}) for names in (("a", "b", "c"), ("b", "c", "d")))
    with pytest.raises(ValueError, match="number classes alike"):
        METRICS["r2_linear"](CODES, one, test=(CODES, other))


def test_traced_factors_must_say_their_sizes():
    with pytest.raises(ValueError, match="factors: must be jaxdis.Factors where they are traced"):
        jax.jit(lambda values: METRICS["mig"](CODES, values).score)(VALUES)
    with pytest.raises(ValueError, match="groups: must be known outside of traced code"):
        jax.jit(lambda groups: METRICS["r2_linear"](CODES, VALUES, groups=groups).score)(np.arange(120))
