"""Metrics beside the one whose fit they share."""

import functools

import jax
import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.factors import Sample
from jaxdis.metrics import Traits
from jaxdis.metrics import _downstream as downstream
from jaxdis.metrics import _probe_accuracy as probes
from tests.programs import compiled_whole

SIZES, OPTIONS = (20, 200), {"splitter": "histogram", "stages": 2, "depth": 1}


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


def test_a_shared_fit_changes_nothing(arrays):
    codes, factors, (test_codes, test_factors) = arrays
    test = Sample(test_codes, test_factors)
    fitted = compiled_whole(functools.partial(downstream.downstream_trees, sizes=SIZES, **OPTIONS))
    alone = fitted(codes, factors, test=test).accuracy
    beside = scores(arrays, "dci", "downstream_trees").part("downstream_trees.accuracy")
    np.testing.assert_allclose(beside, alone, atol=1e-6)  # counts of 100 samples, in float32


def test_knockout_takes_the_accuracies_of_the_perceptron(arrays, monkeypatch):
    """Both draw the same random numbers; beside the perceptron, only probes without the aligned code are trained."""
    codes, factors, test = arrays
    # A factor of one value is left out.
    factors, test = (Factors.of(np.pad(f.values, ((0, 0), (0, 1))), (2, 5, 1)) for f in (factors, test[1]))
    masks, fit = [], probes.predict_with_probes
    monkeypatch.setattr(
        probes,
        "predict_with_probes",
        lambda *arrays, **options: masks.append(len(arrays[-1])) or fit(*arrays, **options),
    )
    metrics = {name: METRICS[name].with_options(epochs=4, width=16) for name in ("nk", "mlp_probe")}
    both = evaluate(codes, factors, metrics, test=(arrays[2][0], test))
    assert sorted(masks) == [1, 1]
    alone = evaluate(codes, factors, {"nk": metrics["nk"]}, test=(arrays[2][0], test))
    assert masks[2:] == [2]
    np.testing.assert_allclose(both.part("nk.full"), both.part("mlp_probe.accuracy"))
    for part in ("full", "knocked", "per_factor", "adjusted"):
        np.testing.assert_allclose(both.part(f"nk.{part}"), alone.part(f"nk.{part}"), atol=0.02)
    assert np.isnan(both.part("nk.full")).tolist() == [False, False, True]
    assert float(both["nk"]) == pytest.approx(float(alone["nk"]), abs=0.01)


def test_replicates_that_share_a_fit_are_those_that_do_not(arrays, monkeypatch):
    """A bootstrap weights samples for DCI and repeats them for the curve: their fits differ, and are not shared."""
    shared = scores(arrays, "downstream_trees", bootstrap=3).error("downstream_trees")
    monkeypatch.setattr(downstream.downstream_trees, "traits", Traits(needs_classes=True))
    jax.clear_caches()
    apart = scores(arrays, "downstream_trees", bootstrap=3).error("downstream_trees")
    assert shared == pytest.approx(apart, rel=1e-5)
    assert apart > 0


def test_the_fit_to_all_samples_is_that_of_dci(arrays, monkeypatch):
    sizes, fit = [], downstream.fit_boosting
    monkeypatch.setattr(
        downstream,
        "fit_boosting",
        lambda codes, *rest, **options: sizes.append(len(codes)) or fit(codes, *rest, **options),
    )
    codes, factors, (test_codes, test_factors) = arrays
    fewer = codes[:199], Factors.of(factors.values[:199], (2, 5)), (test_codes, test_factors)
    scores(fewer, "dci", "downstream_trees")
    assert sizes == [20]
    scores(fewer, "downstream_trees")
    assert sizes == [20, 20, 199]
