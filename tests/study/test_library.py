"""The studies that come with the library, at toy size."""

import csv
import inspect

import numpy as np
import pytest

from jaxdis.study.library import HELD_OUT, STUDIES, flaws, sober_look
from jaxdis.study.report.report import write_report
from jaxdis.study.report.transfer import settings_of
from jaxdis.study.run import run


def test_flaws_holds_out_reads_out_and_correlates(tmp_path):
    study = flaws(
        seeds=1,
        steps=2,
        train_samples=150,
        test_samples=80,
        data=("dsprites",),
        combinations=1,
        metrics=("mig", "sap_r2"),
        network="mlp",
    )
    rows = list(csv.DictReader(run(study, tmp_path).read_text().splitlines()))
    assert [row["model"] for row in rows] == ["beta", "beta_tc", "factor"]
    assert {row["held_out"] for row in rows} == {"scale 0, shape 0"}
    for row in rows:
        assert 0 <= float(row["novel_combination"]) <= 1
        assert 0 <= float(row["novel_combination.familiar"]) <= 1
    page = write_report(study, tmp_path).read_text()
    section = page[page.index(">Novel combinations</h2>") :]
    assert "Pearson correlation" in section
    assert "data:image/png" in section


def test_the_papers_combinations():
    study = flaws(data=tuple(name for name in HELD_OUT if name != "mpi3d"), seeds=5)
    assert len(study.trainings) == (5 + 8 + 6) * 3
    held_out = {(training.config.data, training.held_out) for training in study.trainings}
    assert ("shapes3d", (("scale", 7), ("shape", 3))) in held_out
    assert sum(len(training.members().labels) for training in study.trainings) == 19 * 3 * 5


def test_the_sober_look_is_six_by_six():
    study = sober_look(seeds=2, data=("dsprites",))
    labels = [label for training in study.trainings for label in training.members().labels]
    assert len(labels) == 6 * 6 * 2
    assert len({label["model"] for label in labels}) == 6


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_described(name):
    sizes = {"seeds": 1, "steps": 1, "train_samples": 100, "test_samples": 50}
    taken = inspect.signature(STUDIES[name]).parameters
    study = STUDIES[name](**{size: value for size, value in sizes.items() if size in taken})
    assert study.describe()["name"] == name
    assert study.title


def test_unknown_data_and_networks_are_refused():
    with pytest.raises(ValueError, match="data: needs some of dsprites"):
        flaws(data=("cars3d",))
    with pytest.raises(ValueError, match="network: needs 'paper' or 'mlp', got 'cnn'"):
        sober_look(network="cnn")


def test_settings_are_told_apart_by_all_columns():
    columns = {"model": ["a", "a"], "beta": [1.0, 2.0], "seed": [0, 0], "mig": [0.1, 0.2]}
    table = {name: np.array(values) for name, values in columns.items()}
    assert len(set(settings_of(table))) == 2
