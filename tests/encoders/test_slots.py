"""Models of slots from outside, on scenes whose truth is planted: three bands of an image hold three objects."""

import csv
import json

import jax
import numpy as np
import pytest

import jaxdis
from jaxdis.cli import main
from jaxdis.data import DATASETS
from jaxdis.encoders._evaluate_slots import SLOT_METRICS, Structured
from jaxdis.models import METHODS
from tests.study.planted import BANDS, ROW, SLOTS, Planted, planted

SMALL = {"samples": 400, "groups": 2, "batch": 100}


@pytest.fixture(autouse=True)
def _planted(monkeypatch):
    monkeypatch.setitem(DATASETS, "planted", ROW)
    monkeypatch.setitem(METHODS, "planted", Planted)


def bands(images):
    """The two properties of each band, and the bands as masks, in an order that differs from image to image."""
    assert isinstance(images, np.ndarray)
    rng = np.random.default_rng(int(images.sum() * 1000) % 2**32)
    slots = images.mean(axis=2).reshape(len(images), SLOTS, 2, 2).mean(axis=2)
    masks = np.broadcast_to(BANDS.T[None, :, :, None], (len(images), SLOTS, 8, 6))
    orders = rng.permuted(np.tile(np.arange(SLOTS), (len(images), 1)), axis=1)
    return np.take_along_axis(slots, orders[..., None], 1), np.take_along_axis(masks, orders[..., None, None], 1)


def test_true_slots_have_the_scores_of_their_truth():
    scores = jaxdis.evaluate_slots(bands, "planted", **SMALL)
    assert scores["structured_slots.object.disentanglement"] > 0.95
    assert scores["structured_slots.property.completeness"] > 0.95
    assert scores["segmentation.ari"] == pytest.approx(1, abs=1e-6)
    noise = lambda images: (np.random.default_rng(0).normal(size=(len(images), SLOTS, 2)), bands(images)[1])  # noqa: E731
    both = jaxdis.evaluate_slots([bands, noise], "planted", members=["true", "noise"], **SMALL)
    assert both["structured_slots.object.disentanglement"][0] == pytest.approx(
        scores["structured_slots.object.disentanglement"], abs=1e-6
    )
    assert both["structured_slots.informativeness"][1] > 0.5
    assert [row["member"] for row in both.members] == ["true", "noise"]


def test_without_masks_there_is_no_segmentation(monkeypatch):
    quick = Structured(iterations=20, final=Structured().final.with_options(depth=4))
    monkeypatch.setitem(SLOT_METRICS, "structured_slots", quick)
    scores = jaxdis.evaluate_slots(lambda images: bands(images)[0], "planted", **SMALL)
    assert scores["structured_slots.object.disentanglement"] > 0.95
    assert not [name for name in scores if "segmentation" in name or "order" in name]
    with pytest.raises(ValueError, match="without segmentation for a model that returns no masks"):
        jaxdis.evaluate_slots(lambda images: bands(images)[0], "planted", ["segmentation"], **SMALL)


def test_a_zoo_of_slots_is_scored_in_python_and_in_the_shell(tmp_path):
    config = planted().trainings[0].config
    zoo = jaxdis.models.train(config, *jaxdis.models.members({"planted": {"noise": (0.0, 1.0)}}, 1, config.method))
    scores = jaxdis.evaluate_slots(zoo, "planted", samples=400)
    clean, noisy = scores["structured_slots.object.disentanglement"]
    assert clean > 0.95 > noisy
    one = jax.tree.map(lambda leaf: leaf[0], zoo.params)
    slots = jax.jit(lambda images: zoo.config.method.represent(one, images))
    alone = jaxdis.evaluate_slots(lambda images: tuple(slots(images))[:2], "planted", samples=400)
    np.testing.assert_allclose(alone["segmentation.ari"], scores["segmentation.ari"][0], atol=1e-6)
    zoo.save(tmp_path / "zoo.npz")
    assert main(["score", str(tmp_path / "zoo.npz"), "--samples", "400", "--csv", str(tmp_path / "s.csv")]) == 0
    assert "segmentation.ari" in (tmp_path / "s.csv").read_text()
    # Encoded in one command and scored in another; then as a stranger's file, whose levels are named in the shell.
    out, table = tmp_path / "slots.npz", tmp_path / "t.csv"
    assert main(["encode", str(tmp_path / "zoo.npz"), "--samples", "400", "--out", str(out)]) == 0
    assert main(["score", str(out), "--csv", str(table)]) == 0
    arrays = dict(np.load(out))
    assert arrays["codes"].shape == (2, 400, SLOTS, 2)
    assert arrays["segments"].shape == (2, 400, 8, 6)
    del arrays["levels"], arrays["groups"]
    np.savez(tmp_path / "own.npz", **{**arrays, "codes": arrays["codes"][0]})
    levels = ["--levels", "object", "property", "--slot-groups", "2", "--json", str(tmp_path / "own.json")]
    assert main(["score", str(tmp_path / "own.npz"), *levels]) == 0
    rows = list(csv.DictReader(table.read_text().splitlines()))
    own = json.loads((tmp_path / "own.json").read_text())
    for name in (name for name in scores if name.startswith("structured_slots") and ".order_" not in name):
        np.testing.assert_allclose([float(row[name]) for row in rows], scores[name], atol=1e-6)
        np.testing.assert_allclose(own[name], scores[name][0], atol=1e-6)
    assert main(["score", str(tmp_path / "own.npz"), "--levels", "object"]) == 2


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (bands, {"data": "hearts"}, "data: must be a data set of scenes"),
        (bands, {"samples": 401}, "multiple of 2 groups"),
        (lambda images: images[:, 0, 0], {}, r"slots \[100, s, d\], got \(100, 2\)"),
        (lambda images: (bands(images)[0], images), {}, r"masks \[n, 4, h, w\]"),
        (lambda images: bands(images) * 2, {}, "got 4 arrays"),
        (bands, {"metrics": {"x": jaxdis.METRICS["mig"]}}, "metrics: must be metrics of slots"),
    ],
)
def test_what_is_not_a_model_of_slots_is_refused(model, change, message):
    with pytest.raises(ValueError, match=message):
        jaxdis.evaluate_slots(model, **({"data": "planted", "metrics": "all"} | SMALL | change))
