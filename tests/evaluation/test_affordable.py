"""Metrics that do not fit in memory are refused or left out before anything is computed, and long times are said."""

import logging
import subprocess
import sys

import jax
import numpy as np
import pytest

from jaxdis import METRICS, evaluate
from jaxdis._core import resources
from jaxdis.evaluation import _costs
from jaxdis.evaluation._costs import Load, Size

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
