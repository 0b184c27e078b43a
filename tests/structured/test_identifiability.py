"""Blocks of codes that identify blocks of factors: against scikit-learn, and where the score is known."""

import jax
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

from jaxdis import Factors
from jaxdis.metrics._identifiability import linear_prediction
from jaxdis.structured import _identifiability, block_identifiability, slot_identifiability

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(500, 4)).astype(np.float32)  # two objects of two properties
OBJECTS = ((0, 1), (2, 3))
TRAIN, TEST = np.arange(400), np.arange(400, 500)


def halves(codes, values=VALUES):
    factors = Factors.of(values, (None,) * values.shape[1])
    return codes[TRAIN].astype(np.float32), factors.take(TRAIN), (codes[TEST].astype(np.float32), factors.take(TEST))


def slots_of(first, second):
    return np.stack([first, second], axis=1)


def test_the_matrix_is_that_of_kernel_ridge_regression():
    mixed = slots_of(np.tanh(VALUES[:, 2:]) + 0.3 * VALUES[:, :2], VALUES[:, :2] ** 3)
    train, factors, test = halves(mixed)
    found = slot_identifiability(train, factors, test=test, objects=OBJECTS)
    expected = np.zeros((2, 2))
    targets = (VALUES - VALUES[TRAIN].mean(0)) / VALUES[TRAIN].std(0)
    for slot in range(2):
        inputs = (mixed[:, slot] - mixed[TRAIN, slot].mean(0)) / mixed[TRAIN, slot].std(0)
        for thing, columns in enumerate(OBJECTS):
            learner = KernelRidge(kernel="rbf", alpha=1.0).fit(inputs[TRAIN], targets[TRAIN][:, columns])
            expected[slot, thing] = max(0, r2_score(targets[TEST][:, columns], learner.predict(inputs[TEST])))
    np.testing.assert_allclose(found.matrix, expected, atol=1e-4)
    np.testing.assert_array_equal(found.block, [1, 0])
    own, other = expected[[1, 0], [0, 1]], expected[[0, 1], [0, 1]]
    assert found.matched == pytest.approx(own.mean(), abs=1e-4)
    assert found.others == pytest.approx(other.mean(), abs=1e-4)
    assert found.score == pytest.approx((own - other).mean(), abs=1e-4)


def test_slots_of_one_object_each_score_one_and_copies_of_everything_zero():
    turned = VALUES[:, :2] @ np.linalg.qr(RNG.normal(size=(2, 2)))[0]
    scores = []
    for slots in (slots_of(VALUES[:, 2:] * 3, turned), slots_of(VALUES, VALUES)):
        train, factors, test = halves(slots)
        scores.append(
            float(slot_identifiability(train, factors, test=test, objects=OBJECTS, regression="linear").score)
        )
    assert scores[0] == pytest.approx(1, abs=0.03)  # 0.01 by chance for either code of the other slot
    assert scores[1] == pytest.approx(0, abs=1e-6)


def test_blocks_of_unequal_width_and_too_few_of_them():
    codes = VALUES[:, [3, 0, 1, 2]]
    train, factors, test = halves(codes)
    how = {"factor_blocks": ((0, 1, 2), (3,)), "regression": "linear"}
    found = block_identifiability(train, factors, test=test, blocks=((0,), (1, 2, 3)), **how)
    np.testing.assert_allclose(found.matrix, [[0, 1], [1, 0]], atol=0.05)
    alone = block_identifiability(train, factors, test=test, blocks=((1, 2, 3),), **how)
    np.testing.assert_array_equal(alone.block, [0, -1])
    assert alone.matched == pytest.approx(0.5, abs=1e-4)


def test_blocks_of_one_width_are_traced_once(monkeypatch):
    train, factors, test = halves(VALUES)
    traced = []

    def counted(*given, **options):
        traced.append(given)
        return linear_prediction(*given, **options)

    monkeypatch.setattr(_identifiability, "linear_prediction", counted)
    how = {"test": test, "factor_blocks": ((0, 1), (2, 3)), "regression": "linear"}
    found = block_identifiability(train, factors, blocks=((2, 3), (0, 1)), **how)
    assert len(traced) == 1
    np.testing.assert_array_equal(found.block, [1, 0])


def test_what_is_no_block_is_refused():
    train, factors, test = halves(VALUES)
    with pytest.raises(ValueError, match="blocks: must be lists of numbers from 0 to 3, got"):
        block_identifiability(train, factors, test=test, blocks=((0, 4),), factor_blocks=((0,),))
    with pytest.raises(ValueError, match=r"codes: must be slots \[n, s, d\], got shape \(400, 4\)"):
        slot_identifiability(train, factors, test=test, objects=OBJECTS)


def test_a_nan_is_seen():
    train, factors, test = halves(slots_of(VALUES[:, 2:], VALUES[:, :2]))
    train[3, 0, 0] = np.nan
    run = jax.jit(lambda codes: slot_identifiability(codes, factors, test=test, objects=OBJECTS, regression="linear"))
    assert np.isnan(run(train).score)


def test_a_second_call_compiles_nothing(compiled):
    train, factors, test = halves(slots_of(VALUES[:, :2], VALUES[:, 2:]))
    slot_identifiability(train, factors, test=test, objects=OBJECTS, regression="linear")
    before = len(compiled)
    slot_identifiability(train + 1, factors, test=test, objects=OBJECTS, regression="linear")
    assert len(compiled) == before
