"""Formulas of bytes against the compiler's analysis, of seconds against their forms; what does not fit is refused."""

import dataclasses
import logging
import subprocess
import sys

import jax
import numpy as np
import pytest

from benchmarks.measure_seconds import FEW_SIZES, TEN_CODES, fitted_few, sources
from jaxdis import METRICS, evaluate
from jaxdis._core import executor, resources
from jaxdis.cli._listing import rows_of
from jaxdis.evaluation import _costs
from jaxdis.evaluation._costs import (
    FEW_CODES,
    USUAL,
    Load,
    Seconds,
    Size,
    _table,
    bytes_by,
    bytes_of,
    seconds_at,
    seconds_of,
    usual_seconds,
)
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member_often
from jaxdis.evaluation._run import seconds_of as stage_seconds
from jaxdis.evaluation._run import shared_by
from jaxdis.factors import Factors
from jaxdis.metrics._metric import LIGHT_SECONDS, About
from jaxdis.study._trained_work import score_seconds

SIZES = (3, 6, 40, 32, 32)
# The functions that have a formula of bytes.
NAMES = {name.partition(",")[0] for name in _table("bytes.json")}
# Compiles for minutes with thousands of codes.
UNCOMPILED = {"impact_intensity"}
# Also counted where samples are most of what there is.
MANY_SAMPLES = {
    "random_forest", "infoe", "dci_es", "mutual_information_neighbors", "logistic_accuracy", "neighbor_alignment"
}  # fmt: skip


def compiled_bytes(metric, samples, codes, sizes=SIZES) -> int:
    """Temporaries and results of the program of one member."""
    plan, rng = (("metric", metric),), np.random.default_rng(0)
    factors = Factors.of(rng.integers(0, sizes, (samples, len(sizes))), sizes)
    members, shared, _ = bind(np.zeros((1, samples, codes), np.float32), factors, 0, split=metric.source.reads.test)
    layout = executor.Layout.over(jax.devices()[:1], 1)
    arguments = score_member_often, (plan, 0), layout, members, np.ones(1, np.int32), shared_by(plan, shared)
    analysis = executor._run.lower(*arguments).compile().memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


@pytest.mark.parametrize("name", sorted(NAMES - UNCOMPILED))
def test_bytes_are_those_of_the_compiler(name):
    """With fewer samples than codes, some functions factor a matrix of samples, and have a formula of their own."""
    metric = sources()[name]
    few = [(2000, 6000)] if f"{name}, few samples" in _table("bytes.json") else []
    for samples, codes in ((10_000, 2500), *few, *(((100_000, 10),) if name in MANY_SAMPLES else ())):
        size = Size.of(samples, codes, SIZES)
        assert bytes_of(metric.source, size) / compiled_bytes(metric, samples, codes) == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize(
    ("samples", "codes", "sizes"),
    [(10_000, 4800, SIZES), (30_000, 300, (4, 10, 10))],
)
@pytest.mark.parametrize("name", ["boosted_trees", "downstream_trees"])
def test_bytes_of_histograms_are_those_of_the_compiler(name, samples, codes, sizes):
    metric = sources()[name].with_options(splitter="histogram")
    counted = bytes_of(metric.source, Size.of(samples, codes, sizes))
    assert counted / compiled_bytes(metric, samples, codes, sizes) == pytest.approx(1, abs=0.3)


def test_every_metric_and_relation_has_both_formulas():
    assert sources().keys() == NAMES  # a new one: add it, and run python -m benchmarks.measure_seconds NAME
    assert not [name for name, metric in sources().items() if seconds_of(metric.source) is None]


def test_boosting_takes_as_long_as_its_stages_and_splitter():
    boosted = sources()["boosted_trees"]
    exact, few, histogram = (
        seconds_of(boosted.with_options(**options).source)
        for options in ({}, {"stages": 25}, {"splitter": "histogram"})
    )
    assert few.seconds == exact.seconds / 4
    assert 0 < histogram.seconds < exact.seconds / 2


# CPU seconds of one member with 10,000 samples × 10 codes: two factors of four classes, ten of four, dSprites'.
MEASURED = {
    "nk": (0.243, 1.88, 2.47),
    "linear_probe": (0.040, 0.264, 0.905),
    "mlp_probe": (0.194, 1.30, 1.65),
    "dci_forest": (0.244, 1.17, 0.567),
}


@pytest.mark.parametrize("name", MEASURED)
def test_seconds_announced_for_few_codes_are_those_measured(name):
    spec = METRICS[name].source
    announced = [seconds_at(spec, Size.of(10_000, TEN_CODES, sizes)) for sizes in FEW_SIZES]
    assert announced == pytest.approx(MEASURED[name], rel=1 / 3)
    below, above = (seconds_at(spec, Size.of(10_000, FEW_CODES - less, FEW_SIZES[-1])) for less in (1, 0))
    assert 1 / 3 < below / above < 3


def test_powers_of_samples_codes_classes_and_factors_are_found_again():
    planted = Seconds(2.0, 0.8, 0.5, 0.7, 0.3, TEN_CODES)
    sizes = [Size.of(10_000, TEN_CODES, sizes) for sizes in FEW_SIZES]
    others = Size.of(2000, TEN_CODES, FEW_SIZES[-1]), Size.of(10_000, 10 * TEN_CODES, FEW_SIZES[-1])
    found = fitted_few([planted.of(size) for size in sizes], *(planted.of(size) for size in others))
    assert found == pytest.approx(planted, rel=0.01)


def test_every_place_takes_the_seconds_of_a_metric_from_the_table():
    """The pages of metrics are what ``jaxdis list metrics NAME`` prints."""
    rows = rows_of("metrics")
    for name, metric in METRICS.items():
        assert metric.about.measured_seconds is None  # what metrics outside the library state
        seconds, usual = seconds_at(metric.source, USUAL), usual_seconds(metric)
        assert usual == max(seconds, LIGHT_SECONDS) == stage_seconds(((name, metric),))
        said = "less than 0.1 s" if usual < 0.1 else f"about {seconds:.2g} s"
        assert f"Takes {said} per member of 10,000 samples × 10 codes" in rows[name].detail
        assert score_seconds([(name, metric)], 10_000, 10) == usual
    own = dataclasses.replace(METRICS["mig"], about=About("Mine", "What?", (), measured_seconds=7.0))
    assert usual_seconds(own) == 7


def test_seconds_of_few_samples_grow_with_the_codes_as_products_do():
    spec = sources()["total_correlation"].source
    square, wide = (seconds_at(spec, Size.of(1000, codes, (2,))) for codes in (1000, 20_000))
    assert wide == pytest.approx(20 * square)
    # Measured: 15 s of a core, on one that was shared.
    assert 5 < wide < 45


def test_formulas_as_numbers():
    size = Size.of(300, 10, (4, None), held_out=60)
    assert size == Size(300, 60, 10, 2, 24)
    assert bytes_by({"nd": 2.0, "ddk": 3.0}, size) == 4 * (2 * 360 * 10 + 3 * 100 * 2)
    assert bytes_by({"tables": 1.0, "least": 1.0}, size, 7) == 4 * max(10 * 7 * 24, 360 * 10)
    assert Seconds(3.0, 1.0, 2.0, 0.0).of(Size(20_000, 0, 2000, 2, 24)) == pytest.approx(3 * 2 * 4)


VALUES = np.arange(200)[:, None] % 2
CODES = np.random.default_rng(0).normal(size=(200, 30)).astype(np.float32)


@pytest.fixture
def limited(monkeypatch):
    """Memory for MIG, and not for total correlation."""
    size = Size.of(200, 30, (2,))
    needs = [Load.of(size, CODES.nbytes, 1, batch_size=None, devices=jax.devices()[:1], bootstrap=0) for _ in range(2)]
    small, large = (run.bytes(METRICS[name]) for run, name in zip(needs, ("mig", "total_correlation"), strict=True))
    assert small < large
    monkeypatch.setattr(_costs, "SMALL", 0)
    monkeypatch.setattr(resources, "free_bytes", lambda device: (small + large) / 2)


def test_what_does_not_fit_is_refused_with_what_would(limited):
    with pytest.raises(
        ValueError, match=r"metrics: must fit the memory .*, got total_correlation, which needs .*B for"
    ) as e:
        evaluate(CODES, VALUES, ("mig", "total_correlation"))
    assert all(words in str(e.value) for words in ("mig would fit", 'on_memory="skip"', "codes at most"))


def test_skipped_metrics_are_missing_with_a_reason(limited):
    alone = evaluate(CODES, VALUES, "mig")
    scores = evaluate(CODES, VALUES, ("total_correlation", "mig"), on_memory="skip")
    assert list(scores.columns) == [*METRIC_COLUMNS, "mig"]
    assert np.isnan([scores[name] for name in METRIC_COLUMNS]).all()
    assert scores["mig"] == alone["mig"]
    assert any("needs" in note and "left out" in note for name, note in scores.notes if name == "total_correlation")
    zoo = evaluate(np.stack([CODES, CODES]), VALUES, "total_correlation", on_memory="skip")
    assert zoo["total_correlation"].shape == (2,)


METRIC_COLUMNS = (
    "total_correlation",
    "total_correlation.wasserstein",
    "total_correlation.wasserstein_normalized",
)


def test_members_at_once_are_refused_where_one_by_one_would_fit(monkeypatch):
    size, device = Size.of(200, 30, (2,)), jax.devices()[:1]
    one = Load.of(size, CODES.nbytes, 8, batch_size=1, devices=device, bootstrap=0).bytes(METRICS["mig"])
    monkeypatch.setattr(_costs, "SMALL", 0)
    monkeypatch.setattr(resources, "free_bytes", lambda device: 2 * one)
    with pytest.raises(ValueError, match="batch_size=1"):
        evaluate(np.stack([CODES] * 8), VALUES, "mig", batch_size=8, devices=device)


def test_a_long_evaluation_is_announced(monkeypatch, caplog):
    monkeypatch.setattr(_costs, "MANY_SECONDS", 0)
    with caplog.at_level(logging.WARNING, "jaxdis"):
        evaluate(CODES, VALUES, "mig")
    assert "of one CPU core (mig " in caplog.text


LIMITED = """
import resource, numpy as np
from jaxdis import evaluate
codes, values = np.ones((1000, 20_000), np.float32), np.arange(1000)[:, None] % 2
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
try:
    evaluate(codes, values, "dci_lasso")
except ValueError as error:
    print(error)
"""


def test_limit_on_the_process():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert done.stdout.startswith("metrics: must fit the memory that is free, "), done.stderr
