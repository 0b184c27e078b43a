"""Scores during a training."""

import inspect
import sys
import textwrap
import types

import numpy as np
import pytest

import jaxdis
from jaxdis import Monitor, evaluate
from tests.draws import representations

CODES, VALUES = representations()


def test_batches_are_scored_as_one_array_at_the_end_of_an_epoch():
    monitor = Monitor(VALUES, ["mig", "r2_linear"], 3)
    for codes in (CODES, CODES[::-1]):
        memory = np.empty((50, 3), np.float32)
        for batch in np.split(codes, 4):
            memory[:] = batch  # as loaders reuse it
            monitor.update(memory)
        assert monitor.compute().to_dict() == evaluate(codes, VALUES, ["mig", "r2_linear"], 3).to_dict()


def test_epochs_between_are_neither_scored_nor_kept():
    monitor = Monitor(VALUES, "mig", every=3)
    due, scores = [], []
    for _ in range(6):
        monitor.update(CODES)
        due.append(monitor.due)
        scores.append(monitor.compute())
    assert due == [score is not None for score in scores] == [False, False, True, False, False, True]


def test_codes_that_do_not_fit_are_refused():
    monitor = Monitor(VALUES, "mig")
    monitor.update(CODES[:50])
    with pytest.raises(ValueError, match=r"codes: must have shape \[b, 3\] \(samples, codes\), got \(40, 2\)"):
        monitor.update(np.ones((40, 2)))
    with pytest.raises(ValueError, match=r"codes: must have shape \[b, 3\] \(samples, codes\), got \(2,\)"):
        monitor.update(np.ones(2))
    with pytest.raises(ValueError, match="codes: must be 200 samples in all, got 50; call update first"):
        monitor.compute()
    monitor.update(CODES)
    assert monitor.compute() is not None  # the incomplete epoch is forgotten
    for wrong in ({"metrics": "gim"}, {"every": 0}, {"smaples": 3}):
        with pytest.raises(
            ValueError, match="metrics: unknown metric 'gim'|every: must|arguments: must have names among"
        ):
            Monitor(VALUES, **wrong)


def test_the_example_with_lightning_runs(monkeypatch):
    """With a stand-in: what the library calls in a validation loop, in this order."""
    text = inspect.cleandoc(Monitor.__doc__).partition("With Lightning::")[2]

    class LightningModule:
        def log_dict(self, values):
            self.logged = values

        def encode(self, batch):
            return batch

    monkeypatch.setitem(sys.modules, "lightning", types.SimpleNamespace(LightningModule=LightningModule))
    torch = pytest.importorskip("torch")
    names = {"lightning": sys.modules["lightning"], "jaxdis": jaxdis, "validation_factors": VALUES}
    exec(textwrap.dedent(text).replace("every=10", "every=1"), names)
    model = names["Model"]()
    model.on_fit_start()
    for number, batch in enumerate(np.split(CODES, 4)):
        model.validation_step(torch.tensor(batch, requires_grad=True), number)
    model.on_validation_epoch_end()
    assert model.logged == evaluate(CODES, VALUES, ["mig", "mcc"]).to_dict("val/")
    assert all(isinstance(value, float) for value in model.logged.values())
