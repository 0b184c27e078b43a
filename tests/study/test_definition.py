"""Held-out combinations and the cost of a study."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxdis import METRICS
from jaxdis._core.store import Store, cell_id
from jaxdis.data import DATASETS
from jaxdis.data._factor_space import RandomCells
from jaxdis.metrics._plan import NOT_IN_STUDIES
from jaxdis.models import Config, Mlp, Vae
from jaxdis.study import STUDIES, Sampling, Study, Training, status, work_of
from jaxdis.study import _compute_cells as compute
from jaxdis.study._definition import cells, encode_spec, metric_of, score_spec, study_plan, train_spec
from jaxdis.study._run_study import run
from jaxdis.study._trained_work import SCORE_SECONDS, model_cost, plan
from tests.study.tiny import tiny

PAIR = {"shape": 1, "scale": 3}


def held_out(**fields) -> Study:
    config = Config(method=Vae(network=Mlp((8,), num_codes=3), batch_size=4), steps=2)
    training = Training.of(config, {"beta": {"beta": 1}}, 1, pool=64, held_out=PAIR)
    return Study.of("held_out", [training], ("mig",), sampling=Sampling(400, 200), **fields)


def has_pair(factors: np.ndarray) -> np.ndarray:
    return (factors[:, 0] == 1) & (factors[:, 1] == 3)


def test_a_held_out_combination_is_not_trained_on_and_is_kept_apart(tmp_path):
    study = held_out()
    training = study.trainings[0]
    samples = compute.samples_of(training, study.sampling)
    for factors in (samples.train, samples.test):
        assert not has_pair(np.asarray(factors.values)).any()
    assert not np.array_equal(samples.train.values[:200], samples.test.values)
    novel = np.asarray(compute.novel_samples_of(training, study.sampling).values)
    assert has_pair(novel).all()
    assert len(np.unique(novel, axis=0)) > 100  # everything else varies
    run(study, tmp_path)
    member = next(cells(study))
    arrays = Store(tmp_path).arrays("encode", member.encode)
    assert arrays["mean"].shape == (400, 3)
    assert arrays["novel_mean"].shape == arrays["test_mean"].shape == (200, 3)
    np.testing.assert_array_equal(arrays["novel_factors"], novel)
    assert member.label["held_out"] == "shape 1, scale 3"


def test_a_random_share_of_the_combinations_is_held_out_of_training_and_is_what_learners_are_tested_on():
    study = held_out()
    training = dataclasses.replace(study.trainings[0], held_out=(), held_out_share=0.1)
    samples = compute.samples_of(training, Sampling(4000, 1000))
    held = RandomCells(0.1)
    assert not np.asarray(held(samples.train.values)).any()
    assert np.asarray(held(samples.test.values)).all()
    space = DATASETS["dsprites"].space
    left = space.outside(held).num_cells / space.num_lattice
    assert left == pytest.approx(0.9, abs=0.002)  # 73,728 of 737,280, to four standard deviations
    assert next(cells(dataclasses.replace(study, trainings=(training,)))).train != next(cells(study)).train
    both = dataclasses.replace(training, held_out=tuple(PAIR.items()))
    assert not has_pair(np.asarray(compute.samples_of(both, Sampling(400, 400)).test.values)).any()
    with pytest.raises(ValueError, match="held_out_share: must be a share from 0 to less than 1, got 1"):
        dataclasses.replace(training, held_out_share=1.0)


def test_a_combination_that_is_not_there_is_refused():
    training = dataclasses.replace(tiny().trainings[0], held_out=(("shape", 7),))
    with pytest.raises(ValueError, match="class number from 0 to 2, got 7"):
        dataclasses.replace(tiny(), trainings=(training,))
    with pytest.raises(ValueError, match="held_out: needs a combination"):
        tiny(novel=("mig",))


def test_columns_belong_to_the_longest_name():
    study = tiny(metrics={"a": tiny().metrics[0][1], "a.b": tiny().metrics[0][1]})
    assert [metric_of(study, name) for name in ("a", "a.x", "a.b", "a.b.c", "b")] == ["a", "a", "a.b", "a.b", None]


def test_the_plan_counts_cells_bytes_and_operations(tmp_path):
    """A dense layer of a × b costs 2ab operations an image forward and twice that backward."""
    study = tiny()
    widths = [64 * 64, 8, 2 * 3], [3, 8, 64 * 64]
    products = sum(a * b for layers in widths for a, b in zip(layers, layers[1:], strict=False))
    flops, of_image, parameters, width, update_bytes, _ = model_cost(study.trainings[0])
    encoder = sum(a * b for a, b in zip(widths[0], widths[0][1:], strict=False))
    assert width == 3
    assert 2 * encoder <= of_image < 2.1 * encoder
    assert parameters == products + sum(sum(layers[1:]) for layers in widths)
    # Six operations a weight and image, less the gradient of the image; Adam's fifteen or so a weight, over 4 images.
    assert 4 < flops / (4 * products) < 12
    before = plan(study, tmp_path)
    assert [cost.missing for cost in before.values()] == [3, 3, 6]
    assert before["train"].flops == pytest.approx(3 * 3 * flops)
    # Of 4 bytes: gradients, both moments, and the new ones of these and of the weights.
    assert before["train"].memory_bytes == update_bytes > 3 * 4 * parameters
    assert before["score"].memory_bytes > 4 * study.sampling.train * width
    run(study, tmp_path)
    after = plan(study, tmp_path)
    assert [cost.missing for cost in after.values()] == [0, 0, 0]
    assert all(cost.seconds == 0 for cost in after.values())
    written = sum(path.stat().st_size for kind in ("train", "encode") for path in (tmp_path / kind).rglob("*.npz"))
    promised = before["train"].disk_bytes + before["encode"].disk_bytes
    assert 0.3 * promised < written < 3 * promised


def test_measured_times_are_of_metrics_that_exist():
    of_studies = {name for make_study in STUDIES.values() for name, _ in make_study().metrics}
    assert set(SCORE_SECONDS) <= of_studies - set(METRICS)
    costly = plan(tiny(metrics={"dci": METRICS["dci"]}))["score"].seconds
    light = plan(tiny(metrics={"mig": METRICS["mig"]}))["score"].seconds
    assert costly > 50 * light


@pytest.mark.parametrize("name", ["seed", "id", "model", "beta", "final_loss", "validation_samples"])
def test_a_metric_is_not_called_like_a_column(name):
    training = Training.of(Config(), {"beta": {"beta": [1.0]}}, 1)
    with pytest.raises(ValueError, match=f"metrics: must have names other than those of columns.*got '{name}'"):
        Study.of("x", [training], {name: METRICS["mig"]})


def test_ids_are_those_of_the_whole_specifications():
    """They are made from texts that have all but one id in common."""
    config = Config("dsprites", method=Vae("beta", Mlp((8,), num_codes=3)), steps=2)
    training = Training.of(config, {"beta": {"beta": (1, 4)}}, 2, held_out={"shape": 0, "scale": 1})
    study = Study.of("ids", [training], ["mig", "dci", "udr"], sampling=Sampling(100, 50), novel=("dci",))
    _, hyperparameters, _ = training.members()
    for member in cells(study):
        assert member.train == cell_id(train_spec(training, hyperparameters, member.label, member.row))
        assert member.encode == cell_id(encode_spec(study, member.train))
        specs = (score_spec(study, member.encode, name, member.seeds) for name, _ in study.metrics)
        assert member.scores == tuple(map(cell_id, specs))


def test_a_work_is_made_once():
    study = STUDIES["quickstart"](seeds=1, steps=1)
    work = work_of(study)
    assert work_of(work) is work
    assert status(work, "nowhere") == status(study, "nowhere")


def test_correlated_factors_are_part_of_what_is_trained():
    plain = tiny()
    training = dataclasses.replace(plain.trainings[0], correlated=(("shape", "scale", 0.2),))
    other = dataclasses.replace(plain, trainings=(training,))
    assert [member.train for member in cells(plain)] != [member.train for member in cells(other)]
    assert "correlated" not in str(plain.describe())  # what was trained before keeps its ids
    assert "correlated" in str(other.describe())
    space, _ = compute._seen(training)
    shape, scale = np.asarray(space.sample(jax.random.key(0), 2000))[:, :2].T
    assert np.corrcoef(shape, scale)[0, 1] > 0.8


def test_all_metrics_of_a_study_are_those_it_was_stored_with():
    """Rows that the library has gained since are studied by name."""
    plan = dict(study_plan("all"))
    assert {"mig", "edi", "udr"} <= plan.keys()
    assert not plan.keys() & NOT_IN_STUDIES
    assert [name for name, _ in study_plan(["mig", "r2_linear"])] == ["mig", "r2_linear"]
