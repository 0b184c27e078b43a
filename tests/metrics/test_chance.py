"""What codes that know nothing of the factors score: within the range that each row states."""

import functools

import numpy as np
import pytest

from jaxdis import METRICS, Factors, Scores, evaluate
from tests.metrics.test_contracts import family, shortened, shortened_plan


def uninformed(n: int = 2000) -> np.ndarray:
    """Members that know nothing of any factor: constant codes, noise, and rare spikes."""
    rng = np.random.default_rng(0)
    spikes = np.where(rng.random((n, 4)) < 0.9, 0, rng.random((n, 4)))
    return np.stack([np.ones((n, 4)), rng.normal(size=(n, 4)), spikes]).astype(np.float32)


def balanced_values(rng) -> np.ndarray:
    return np.stack([rng.integers(0, size, 2000) for size in (3, 4, 2)], axis=1)


def rare_values(rng) -> np.ndarray:
    return (rng.random((2000, 3)) < (0.02, 0.1, 0.02)).astype(int)


@functools.cache
def scores_of_family(names: tuple[str, ...]) -> tuple[Scores, Scores]:
    """Of factors whose values are equally frequent, and of rare ones."""
    rng = np.random.default_rng(1)
    both = Factors.of(balanced_values(rng)), Factors.of(rare_values(rng))
    return tuple(evaluate(uninformed(), factors, shortened_plan(names)) for factors in both)


READ_FACTORS = [name for name, metric in METRICS.items() if metric.about.reads_factors]


@pytest.mark.parametrize("name", READ_FACTORS)
def test_codes_without_information_score_within_the_stated_range(name):
    stated = METRICS[name].about.chance
    assert stated
    for scores in scores_of_family(family(name)):
        for field, (low, high) in stated.items():
            column = scores[name if field == "score" else f"{name}.{field}"]
            rounding = 1e-6
            within = (low - rounding <= column) & (column <= high + rounding)
            assert (within | np.isnan(column)).all(), (field, column)


@pytest.mark.parametrize("name", ["snc", "linear_probe", "mlp_probe"])
def test_by_majority_codes_without_information_score_nothing_on_rare_values(name):
    metric = shortened(METRICS[name]).with_options(chance="majority")
    scores = evaluate(uninformed(), Factors.of(rare_values(np.random.default_rng(1))), {name: metric})
    assert (scores[name] < 0.05).all()


# Where they leave the stated range, in draws of rare values.
FARTHER = {"sap": (0, 0.5), "snc": (0, 0.65), "explicitness": (0.4, 0.6)}


def test_other_draws_of_rare_values_move_what_weighs_classes_equally():
    plan = {name: METRICS[name] for name in FARTHER} | {"unweighted": METRICS["sap"].with_options(balanced=False)}
    left = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        for values, is_rare in ((balanced_values(rng), False), (rare_values(rng), True)):
            scores = evaluate(uninformed(), Factors.of(values), plan if is_rare else list(FARTHER))
            for name, (least, most) in FARTHER.items():
                low, high = METRICS[name].about.chance["score"]
                outside = (scores[name] < low).any() or (scores[name] > high).any()
                assert is_rare or not outside, (seed, name)
                assert not is_rare or ((least <= scores[name]) & (scores[name] <= most)).all(), (seed, name)
                left |= {name} if outside else set()
            assert not is_rare or (scores["unweighted"] < 0.01).all(), seed
    assert left == set(FARTHER)
