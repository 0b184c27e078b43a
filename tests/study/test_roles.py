"""Samples of a study by role: validation samples are drawn apart, name their cells, and are asked for in time."""

import csv
import dataclasses

import numpy as np
import pytest

from jaxdis import METRICS
from jaxdis._core.store import Store
from jaxdis.study import STUDIES, Sampling
from jaxdis.study import _compute_cells as compute
from jaxdis.study._definition import cells
from jaxdis.study._run_study import run
from jaxdis.study._trained_work import plan
from tests.study.tiny import tiny

CHOOSING = {"lasso": METRICS["dci_lasso"].with_options(penalty=(0.3, 0.01)), "mig": METRICS["mig"]}
SAMPLING = Sampling(128, 64, validation=32)


def test_validation_samples_are_drawn_apart_and_others_stay():
    training = tiny().trainings[0]
    samples, without = (compute.samples_of(training, sampling) for sampling in (SAMPLING, Sampling(128, 64)))
    assert without.validation is None
    for role, size in (("train", 128), ("test", 64)):
        np.testing.assert_array_equal(getattr(samples, role).values, getattr(without, role).values)
        assert (np.asarray(samples.validation.values) != np.asarray(getattr(samples, role).values)[:32]).any()
        assert getattr(samples, role).num_samples == size
    assert samples.validation.num_samples == 32


def test_validation_samples_are_like_those_of_training_where_combinations_are_held_out():
    training = dataclasses.replace(tiny().trainings[0], held_out=(("shape", 1), ("scale", 3)), held_out_share=0.1)
    samples = compute.samples_of(training, Sampling(4000, 400, validation=4000))
    seen, held = ({*map(tuple, np.asarray(part.values))} for part in (samples.validation, samples.test))
    assert not seen & held
    assert not any(row[:2] == (1, 3) for row in seen)


def test_validation_samples_are_part_of_the_identity_of_a_cell():
    ids = [next(cells(tiny(sampling=Sampling(128, 64, size)))) for size in (0, 32, 33)]
    assert len({member.encode for member in ids}) == len({member.scores for member in ids}) == 3
    assert len({member.train for member in ids}) == 1


def test_a_metric_that_chooses_is_refused_without_validation_samples():
    with pytest.raises(ValueError, match="^validation: needs samples on which lasso can choose an option, got none"):
        tiny(metrics=CHOOSING)
    with pytest.raises(ValueError, match="^validation: needs samples on which lasso can choose"):
        STUDIES["quickstart"](metrics=CHOOSING)
    assert STUDIES["quickstart"](metrics=CHOOSING, validation_samples=100).sampling.validation == 100


@pytest.mark.parametrize("size", [-1, 1, 9, 10**9])
def test_bad_numbers_of_validation_samples_are_refused(size):
    with pytest.raises(ValueError, match="^validation_samples: must be 0 or 10 to 100,000,000, got"):
        Sampling(128, 64, size)


def test_a_study_chooses_on_its_validation_samples(tmp_path):
    study = tiny(metrics=CHOOSING, sampling=SAMPLING)
    assert plan(study)["encode"].disk_bytes > plan(tiny(metrics=("mig", "med")))["encode"].disk_bytes
    rows = list(csv.DictReader(run(study, tmp_path).read_text().splitlines()))
    for row in rows:
        assert [row[f"{role}_samples"] for role in ("train", "test", "validation")] == ["128", "64", "32"]
        assert np.isfinite(float(row["lasso.disentanglement"]))
    arrays = Store(tmp_path).arrays("encode", next(cells(study)).encode)
    assert arrays["validation_mean"].shape == (32, 3)
    assert study.sampling.in_words() == "128 samples (learners are evaluated on 64 others, options chosen on 32 more)"
