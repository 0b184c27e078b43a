"""Zoos whose codes collapsed: what the scores by intervention and without factors say of them."""

import jax
import numpy as np
import pytest

from jaxdis import METRICS, Blend, codes, evaluate
from tests.metrics.test_contracts import SOURCES, family, quick_if_older

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
