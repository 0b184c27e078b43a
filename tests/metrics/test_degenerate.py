"""Codes that collapsed or know nothing: what scores say of them, and the range of chance that each row states."""

import functools

import jax
import numpy as np
import pytest

from jaxdis import METRICS, Blend, Factors, Scores, codes, evaluate
from tests.metrics.test_contracts import SOURCES, family, quick_if_older, shortened, shortened_plan

SCORES = ("factor_vae", "beta_vae", "irs", "total_correlation", "code_information")
QUICK = {"num_train": 1000, "num_eval": 500}
# Enough to see whether a mask is heeded.
FEW = {**QUICK, "stages": 5, "trees": 3, "epochs": 3, "sizes": (100,)}
SIZES = (3, 4, 5)


def plan():
    chosen = {name: METRICS[name] for name in SCORES}
    return {n: m.with_options(**QUICK) if n.endswith("vae") else m for n, m in chosen.items()}


# Of those that score a relation, only information also reads a code's own entropy; the contracts of relations say that
# an inactive code has no strength, whatever it holds.
READ_MORE = [name for name in SOURCES if not isinstance(METRICS[name], Blend) or name in ("mig", "rmig")]


@pytest.fixture(scope="module")
def zoo():
    """Whole; half of the codes collapsed (a deviation of 0.02); all collapsed to constants; a single code alive."""
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, size, 2000) for size in SIZES], axis=1)
    whole = np.c_[values, values @ rng.normal(size=(3, 3))] + 0.3 * rng.normal(size=(2000, 6))
    half = whole.copy()
    half[:, 3:] = 0.02 * rng.normal(size=(2000, 3))
    single = np.zeros_like(whole)
    single[:, 2] = whole[:, 1]
    return np.stack([whole, half, np.full_like(whole, 1.5), single]).astype(np.float32), values


@pytest.fixture(scope="module")
def scores(zoo):
    return evaluate(*zoo, plan())


def test_half_collapsed(zoo, scores):
    array, values = zoo
    alive = evaluate(array[1, :, :3], values, plan())
    # Pruned codes never get a vote; features of 0.02 tell a classifier with a penalty of 1 nothing.
    assert scores["factor_vae"][1] == alive["factor_vae"]
    assert scores.part("factor_vae.votes")[1, 3:].sum() == 0
    assert scores["beta_vae"][1] == pytest.approx(float(alive["beta_vae"]), abs=0.01)
    # They weigh by their largest deviation, 0.02 × 3.5 each against 2 or so.
    assert scores["irs"][1] == pytest.approx(float(alive["irs"]), abs=0.05)
    # Noise is independent of everything; information per pair is spread over 30 pairs instead of 6.
    assert scores["total_correlation"][1] == pytest.approx(float(alive["total_correlation"]), abs=0.02)


def test_a_single_code_alive(zoo, scores):
    array, values = zoo
    # It answers with one factor whatever is held.
    assert scores["factor_vae"][3] == pytest.approx(1 / 3, abs=0.08)
    votes = scores.part("factor_vae.votes")[3]
    assert votes[2].sum() == QUICK["num_train"]
    assert votes.sum() == QUICK["num_train"]
    alone = evaluate(array[3, :, 2:3], values, plan())
    assert scores["irs"][3] == pytest.approx(float(alone["irs"]), abs=1e-5)
    assert scores["total_correlation"][3] == pytest.approx(0, abs=1e-6)
    assert scores["code_information"][3] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", quick_if_older(READ_MORE))
def test_masks_take_collapsed_codes_out_of_every_metric(zoo, name):
    """What an inactive code holds then does not matter to any of them."""
    array, values = zoo[0][:, :300], zoo[1][:300]
    active = codes.active(zoo[0])
    metrics = {
        own: METRICS[own].with_options(**{o: value for o, value in FEW.items() if o in METRICS[own].all_options})
        for own in family(name)
    }
    noise = 50 * np.random.default_rng(1).normal(size=array.shape)
    loud = np.where(active[:, None, :], array, noise).astype(np.float32)
    one = jax.devices()[:1]
    left, right = (evaluate(given, values, metrics, active=active, devices=one) for given in (array, loud))
    for column in left:
        np.testing.assert_allclose(left[column], right[column], atol=2e-3, err_msg=column)


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
