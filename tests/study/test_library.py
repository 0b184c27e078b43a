"""The studies that come with the library, at toy size."""

import dataclasses

import pytest

from jaxdis.papers.locatello2020._run import locatello2020
from jaxdis.papers.mahon2024._run import DATA, HELD_OUT, mahon2024
from jaxdis.study import STUDIES, Study
from jaxdis.study._run_study import WORKS, Work, work_of
from jaxdis.study._trained_work import TrainedWork


def test_the_papers_models_combinations_and_normal_test_set():
    study = mahon2024()  # without the file of MPI3D
    assert study.novel == ("novel_combination",)
    labels = [(training.config.data, label) for training in study.trainings for label in training.members().labels]
    six = [(data, label) for data, label in labels if label["model"] != "labelled_partition"]
    assert len(six) == 6 * (2 * 5 + 5 + 8)
    assert len(labels) - len(six) == 2 * 5 + 5 + 8
    combinations = sum(len(pairs) for _, pairs in HELD_OUT.values())
    assert 6 * (len(DATA) * 5 + combinations) == 204  # the "∼ 200 models" of the paper
    held_out = {(training.config.data, training.held_out) for training in study.trainings}
    assert ("shapes3d", (("scale", 7), ("shape", 3))) in held_out
    assert {training.held_out_share for training in study.trainings if not training.held_out} == {0.2}


def test_unknown_data_and_networks_are_refused():
    with pytest.raises(ValueError, match="data: must be some of dsprites"):
        mahon2024(data=("cars3d",))
    with pytest.raises(ValueError, match="model: must be one of beta, .*, got 'mtd'"):
        mahon2024(models=("mtd",))
    with pytest.raises(ValueError, match="network: must be 'paper' or 'mlp', got 'cnn'"):
        locatello2020(network="cnn")


def test_every_study_has_its_work_and_can_be_described():
    studies = {name: make() for name, make in STUDIES.items()}
    assert all(study.describe()["name"] == name and study.title for name, study in studies.items())
    found = {name: work_of(study) for name, study in studies.items()}
    assert all(isinstance(work, Work) for work in found.values())
    assert {type(work) for work in found.values()} == set(WORKS.values())

    class Mine(Study):
        """A class without a row."""

    study = STUDIES["quickstart"]()
    mine = Mine(**{field.name: getattr(study, field.name) for field in dataclasses.fields(study)})
    assert type(work_of(mine)) is TrainedWork
    with pytest.raises(TypeError, match="study: must be one of Study, Calibration, Teapots, Combinations, got dict"):
        work_of({})
