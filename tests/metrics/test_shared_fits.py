"""Learning curves beside the metric whose fit they share."""

import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics import downstream

SIZES, OPTIONS = (20, 200), {"splitter": "histogram", "stages": 3}


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, size, 300) for size in (2, 5)], axis=1)
    codes = (values @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(300, 3))).astype(np.float32)
    return codes[:200], Factors.of(values[:200], (2, 5)), (codes[200:], Factors.of(values[200:], (2, 5)))


def scores(arrays, *names, bootstrap=0):
    codes, factors, test = arrays
    metrics = {name: METRICS[name].with_options(**OPTIONS) for name in names}
    metrics["downstream_trees"] = metrics["downstream_trees"].with_options(sizes=SIZES)
    return evaluate(codes, factors, metrics, test=test, bootstrap=bootstrap)


def accuracy(found):
    return found.part("downstream_trees.accuracy")


def test_a_curve_is_the_same_beside_dci(arrays):
    np.testing.assert_array_equal(
        accuracy(scores(arrays, "dci", "downstream_trees")), accuracy(scores(arrays, "downstream_trees"))
    )


def test_replicates_of_a_curve_are_the_same_beside_dci(arrays):
    """A bootstrap weighs samples for DCI and repeats them for the curve, which must not matter."""
    beside, alone = (
        scores(arrays, *names, bootstrap=3).error("downstream_trees")
        for names in (("dci", "downstream_trees"), ("downstream_trees",))
    )
    assert beside == alone > 0


def test_the_fit_to_all_samples_is_that_of_dci(arrays, monkeypatch):
    sizes, fit = [], downstream.fit_boosting
    monkeypatch.setattr(
        downstream,
        "fit_boosting",
        lambda codes, *rest, **options: sizes.append(len(codes)) or fit(codes, *rest, **options),
    )
    codes, factors, (test_codes, test_factors) = arrays
    scores((codes[:199], Factors.of(factors.values[:199], (2, 5)), (test_codes, test_factors)), "downstream_trees")
    assert sizes == [20]
