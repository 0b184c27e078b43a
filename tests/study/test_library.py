"""The studies that come with the library, at toy size."""

import csv
import dataclasses
import inspect

import numpy as np
import pytest

from jaxdis.papers.harness import Finished
from jaxdis.papers.locatello2020._run import locatello2020
from jaxdis.papers.mahon2024 import _tables as tables
from jaxdis.papers.mahon2024._run import DATA, HELD_OUT, mahon2024
from jaxdis.papers.mahon2024._tables import write_alignments
from jaxdis.study import STUDIES, Study
from jaxdis.study._run_study import WORKS, Work, run, work_of
from jaxdis.study._trained_work import TrainedWork
from jaxdis.study.report._report import write_report
from jaxdis.study.report._statistics import settings_of


def test_mahon2024_holds_out_reads_out_and_correlates(tmp_path):
    study = mahon2024(
        seeds=1,
        steps=2,
        train_samples=150,
        test_samples=80,
        data=("dsprites",),
        models=("beta",),
        combinations=1,
        metrics=("mig", "sap_r2"),
        network="mlp",
    )
    rows = list(csv.DictReader(run(study, tmp_path).read_text().splitlines()))
    assert [row["model"] for row in rows] == ["beta"] * 2
    assert [row["held_out"] for row in rows] == ["scale 0, shape 0", ""]
    for row in rows[::2]:
        assert 0 <= float(row["novel_combination"]) <= 1
        assert 0 <= float(row["novel_combination.familiar"]) <= 1
    assert not any(np.isfinite(float(row["novel_combination"] or "nan")) for row in rows[1::2])  # there is no pair
    page = write_report(study, tmp_path).read_text()
    section = page[page.index(">Novel combinations</h2>") :]
    assert "Pearson correlation" in section
    assert "data:image/png" in section
    members = tables.read(Finished(study, tmp_path))
    for number in (2, 3, 4, 6, 7, 8):
        assert getattr(tables, f"table_{number}")(members)
    assert {"table_09_beta_dsprites", "table_27_beta_dsprites"} <= tables.per_factor_tables(members).keys()
    table, *figures = write_alignments(study, tmp_path)
    assert table.read_text().startswith("id,data,model,seed,held_out,code,factors,aligned\n")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures)


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
    configs = [training.config for training in study.trainings]
    steps = {(config.data, *config.method.trained): config.steps for config in configs}
    assert steps["dsprites", "beta"] == 1_152_000
    assert steps["shapes3d", "parted_vae"] == 750_000
    assert steps["dsprites", "weak_de"] == 72_000
    assert steps["dsprites", "labelled_partition"] == 115_200


def test_presets_of_probes_are_chosen_for_all_of_them():
    plan = dict(mahon2024(data=("dsprites",), probes="mahon2024_paper").metrics)
    probes = {name for name, metric in plan.items() if metric.all_options.get("preset") == "mahon2024_paper"}
    assert probes == {"nk", "linear_probe", "mlp_probe", "novel_combination"}


def test_locatello2020_is_six_by_six():
    study = locatello2020(seeds=2, data=("dsprites",))
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
    with pytest.raises(ValueError, match="data: must be some of dsprites"):
        mahon2024(data=("cars3d",))
    with pytest.raises(ValueError, match="model: must be one of beta, .*, got 'mtd'"):
        mahon2024(models=("mtd",))
    with pytest.raises(ValueError, match="network: must be 'paper' or 'mlp', got 'cnn'"):
        mahon2024(network="cnn")
    with pytest.raises(ValueError, match="network: must be 'paper' or 'mlp', got 'cnn'"):
        locatello2020(network="cnn")


def test_settings_are_told_apart_by_all_columns():
    columns = {"model": ["a", "a"], "beta": [1.0, 2.0], "seed": [0, 0], "mig": [0.1, 0.2]}
    table = {name: np.array(values) for name, values in columns.items()}
    assert len(set(settings_of(table))) == 2


def test_every_study_has_its_work():
    found = {name: work_of(make()) for name, make in STUDIES.items()}
    assert all(isinstance(work, Work) for work in found.values())
    assert {type(work) for work in found.values()} == set(WORKS.values())

    class Mine(Study):
        """A class without a row."""

    study = STUDIES["quickstart"]()
    mine = Mine(**{field.name: getattr(study, field.name) for field in dataclasses.fields(study)})
    assert type(work_of(mine)) is TrainedWork
    with pytest.raises(TypeError, match="study: must be one of Study, Calibration, Teapots, Combinations, got dict"):
        work_of({})
