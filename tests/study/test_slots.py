"""Studies of slots whose truth is planted."""

import csv
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import Factors
from jaxdis._core.store import Store
from jaxdis.data import DATASETS, SceneSamples, multi_dsprites
from jaxdis.data._scenes import pooled_masks
from jaxdis.encoders._evaluate_slots import (
    SLOT_METRICS,
    MemberSlots,
    Structured,
    drawn_scenes,
    hard_masks,
    slots_scored,
)
from jaxdis.models import METHODS, Config, Mlp, Slots, Vae
from jaxdis.study import Sampling, Study, Training
from jaxdis.study import _compute_cells as compute
from jaxdis.study._definition import cells
from jaxdis.study._run_study import run, status
from jaxdis.study.report._report import write_report
from tests.study.planted import ROW, SPACE, Planted, planted


@pytest.fixture(scope="module", autouse=True)
def _planted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DATASETS, "planted", ROW)
        patch.setitem(METHODS, "planted", Planted)
        yield


@pytest.fixture(scope="module")
def finished(_planted, tmp_path_factory):
    out = tmp_path_factory.mktemp("slots")
    return out, run(planted(), out).read_bytes()


def test_planted_slots_have_the_scores_of_their_truth(finished):
    out, table = finished
    clean, _, noisy, _ = csv.DictReader(table.decode().splitlines())
    for level in ("object", "property", "identity"):
        assert float(clean[f"structured_slots.{level}.disentanglement"]) > 0.95
        assert float(clean[f"structured_slots.{level}.completeness"]) > 0.95
    assert float(clean["structured_slots.informativeness"]) < 0.1
    drawn = compute.scenes_of(planted().trainings[0], planted().sampling)
    objects = drawn.rows.reshape(400, 3, 2)
    told_apart = np.mean([len(np.unique(scene, axis=0)) == 3 for scene in objects])  # equal objects have no order
    assert 1 - 1e-6 >= float(clean["structured_slots.order_agreement"]) >= told_apart > 0.8
    assert float(clean["structured_slots.order_mismatch"]) <= 2 * (1 - told_apart)
    assert float(noisy["structured_slots.object.disentanglement"]) < 0.5
    assert float(noisy["structured_slots.informativeness"]) > 0.5
    for row in (clean, noisy):
        for name in ("ari", "ari_foreground", "covering", "scaled_covering_foreground"):
            assert float(row[f"segmentation.{name}"]) == pytest.approx(1, abs=1e-6)


def test_kinds_of_codes_are_a_level_of_structure():
    n, scenes = 300, dataclasses.replace(ROW.scenes, extrinsic=("level",))
    factors = SPACE.wrap(SPACE.sample(jax.random.key(0), n))
    of_objects = np.asarray(factors.values, np.float32).reshape(n, 3, 2)  # level and hue
    codes = np.concatenate([of_objects, np.zeros((n, 1, 2), np.float32)], axis=1)[None]
    segments = np.zeros((1, n, 8, 6), np.uint8)
    metric = Structured(start="given", iterations=0, final=Structured().final.with_options(depth=6))
    scores = metric.score(MemberSlots(codes, segments, scenes.samples(SPACE, factors), 1, [0], ("where", "what")))
    joint = scores.part("kind.joint")[0]
    np.testing.assert_allclose(joint, [[0.5, 0], [0, 0.5]], atol=0.02)  # levels are extrinsic, hues are not
    assert scores["kind.disentanglement"][0] > 0.95
    assert scores.part("orders").shape == (1, 16, 4)
    assert (scores.part("completeness.per_factor") > 0.95).all()


def test_cells_hold_codes_and_the_slot_of_each_pixel(tmp_path):
    study = Study.of("planted", planted().trainings, ["segmentation"], sampling=planted().sampling)
    run(study, tmp_path)
    member = next(iter(cells(study)))
    arrays = Store(tmp_path).arrays("encode", member.encode)
    assert arrays["codes"].shape == (400, 4, 2)
    assert arrays["segments"].shape == (400, 8, 6)
    assert arrays["segments"].dtype == np.uint8
    orders = arrays["segments"][:, ::2, 0]
    assert len(np.unique(orders, axis=0)) > 6
    drawn = compute.scenes_of(planted().trainings[0], planted().sampling)
    truth = drawn.rows.reshape(400, 3, 2) / 8 + 0.25
    read = np.take_along_axis(arrays["codes"], orders[:, :3, None], axis=1)
    np.testing.assert_allclose(read, truth, atol=1e-5)


def test_a_lost_cell_is_computed_again_with_the_same_bytes(finished, tmp_path):
    out, table = finished
    store = Store(out)
    for kind in ("score", "encode", "train"):
        for name in list(store.ids(kind))[:2]:
            store.path(kind, name).unlink()
        assert not status(planted(), out).complete
        assert run(planted(), out).read_bytes() == table
    assert list(store.verify()) == []


def test_a_member_has_the_same_scores_alone(finished, tmp_path):
    """Random numbers follow from a member's own id, not from its place among others."""
    training = Training.of(Config("planted", method=Planted()), {"planted": {"noise": 1.0}}, 1)
    study = Study.of("planted", [training], sampling=planted().sampling)
    [alone] = csv.DictReader(run(study, tmp_path).read_text().splitlines())
    noisy = list(csv.DictReader(finished[1].decode().splitlines()))[2]
    assert alone.keys() == noisy.keys()
    assert alone["id"] == noisy["id"]
    for name in alone:
        if name.startswith(
            ("structured_slots", "segmentation")
        ):  # forests magnify rounding; another key moves these by .01
            assert float(alone[name]) == pytest.approx(float(noisy[name]), abs=1e-3)


def test_the_report_shows_scores_slots_and_the_objects_they_hold(finished):
    page = write_report(planted(), finished[0]).read_text()
    for words in (
        "structured_slots.object.disentanglement",
        "segmentation.ari",
        "What each slot shows",
        "objects in slots",
    ):
        assert words in page
    assert page.count("data:image/png") > 4


def test_true_masks_have_the_size_of_pooled_images():
    scenes = drawn_scenes("multi_dsprites", None, 20, groups=2, key=0).samples()
    masks = scenes.masks
    small = pooled_masks(masks, 32, 32)
    blocks = masks.reshape(20, 32, 2, 32, 2).swapaxes(2, 3).reshape(-1, 4)
    counts = np.array([np.bincount(block, minlength=5) for block in blocks])
    np.testing.assert_array_equal(small.ravel(), counts.argmax(1))
    plan = {"segmentation": SLOT_METRICS["segmentation"]}
    for segments, ari in ((small, 1), (small[::-1], 0)):
        given = MemberSlots(np.zeros((1, 20, 5, 2)), segments[None], scenes, 2, [0])
        scores = slots_scored(plan, given)["segmentation"]
        np.testing.assert_allclose(scores["segmentation.ari"], ari, atol=0.1)
    with pytest.raises(ValueError, match="masks: must have sides that are multiples of 24 and 32"):
        pooled_masks(masks, 24, 32)


def test_groups_are_local_and_masks_are_true(monkeypatch):
    scenes = DATASETS["multi_dsprites"].scenes
    space, _ = multi_dsprites(2)
    draw = jax.jit(scenes.draw, static_argnames=("space", "n", "groups"))
    factors = space.wrap(draw(space, jax.random.key(0), 20, groups=2))
    samples = scenes.samples(space, factors)
    assert samples.labels[:4] == (
        ("background", "red"),
        ("background", "green"),
        ("background", "blue"),
        ("object 1", "red"),
    )
    assert len(samples.labels) == samples.factors.num_factors == 3 + 2 * 8
    assert [samples.labels[j][1] for j in samples.categorical] == ["shape"] * 2
    assert samples.masks.shape == (20, 64, 64)
    assert samples.masks.max() == 2
    x = np.asarray(samples.factors.values)[:, samples.labels.index(("object 2", "x"))].reshape(2, 10)
    assert (np.ptp(x, axis=1) <= 4).all()
    assert np.ptp(x) > 4


SMALL = Config("dsprites", method=Vae(network=Mlp((4,), 2)), steps=2)


@pytest.mark.parametrize(
    ("make_study", "message"),
    [
        (lambda: planted(groups=3), "groups: must divide the 400 samples, got 3"),
        (
            lambda: Study.of("x", [Training.of(SMALL, {"beta": {}}, 1)], {"structured_slots": Structured()}),
            "metrics: structured_slots need a method that represents images by slots",
        ),
        (
            lambda: Study.of("x", [Training.of(Config("dsprites", method=Planted()), {"planted": {}}, 1)]),
            r"data: slots need a data set of scenes \(multi_dsprites, clevr6, planted\), got 'dsprites'",
        ),
        (
            lambda: Study.of("x", [*planted().trainings, Training.of(SMALL, {"beta": {}}, 1)]),
            "trainings: need methods that all represent images by codes or all by slots, got both",
        ),
        (
            lambda: planted(groups=50),
            "groups: must be groups of at least 10 of 400 samples, got 50",
        ),
        (
            lambda: Study.of("x", [Training.of(SMALL, {"beta": {}}, 1)], sampling=Sampling(100, 50, groups=2)),
            "groups: need a method that represents images by slots, got 2",
        ),
        (
            lambda: Study.of("x", [dataclasses.replace(planted().trainings[0], held_out_share=0.1)]),
            "held_out: slots are scored on all scenes",
        ),
        (lambda: Study.of("x", []), "trainings: must have at least one, got none"),
        (lambda: Training.of(SMALL, {"beta": {}}, [3, 3]), "seeds: must be distinct seeds"),
        (
            lambda: Study.of("x", planted().trainings, ["mig"], sampling=Sampling(40, 10)),
            "metrics: unknown metric 'mig'; the metrics are structured_slots, segmentation",
        ),
    ],
)
def test_what_does_not_suit_slots_is_refused_in_one_line(make_study, message):
    with pytest.raises(ValueError, match=message) as refused:
        make_study()
    assert "\n" not in str(refused.value)


def test_metrics_of_slots_are_described():
    descriptions = [metric.describe() for metric in SLOT_METRICS.values()]
    assert descriptions[0]["threshold"] == Structured().threshold
    assert len({str(text) for text in descriptions}) == 2
    as_given = Structured(start="given", iterations=0)
    assert len({metric.about.title for metric in (*SLOT_METRICS.values(), as_given)}) == 3


def test_masks_that_are_not_finite_are_no_segments():
    codes, masks = jnp.zeros((3, 4, 2)), jnp.asarray(np.random.default_rng(0).random((3, 4, 8, 6)), jnp.float32)
    hard = hard_masks(Slots(codes, masks.at[1, 2, 3, 4].set(jnp.nan)))
    assert (hard.masks[1] == 255).all()
    np.testing.assert_array_equal(hard.masks[0], masks[0].argmax(0))
    truth = SceneSamples(Factors.of(np.zeros((3, 1), int), sizes=(2,)), (), (), None, np.zeros((3, 8, 6), np.uint8))
    segments = np.stack([hard.masks, np.where(hard.masks == 255, 0, hard.masks)])
    scores = SLOT_METRICS["segmentation"].score(MemberSlots(np.zeros((2, 3, 4, 2)), segments, truth, 1, [0, 1]))
    assert np.isnan(scores["covering"][0])
    assert np.isfinite(scores["covering"][1])
