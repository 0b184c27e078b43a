"""CLEVR of tensorflow-datasets: the real preparation of a small source of the published layout, and the real reader."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow_datasets
from PIL import Image

import jaxdis.data
from jaxdis.data import _clevr_render as clevr
from jaxdis.data import _clevr_render as clevr_space
from jaxdis.data.files import _clevr_files as clevr_files
from jaxdis.data.files import _tfds as tfds

NAMES = dict(
    zip(map(tuple, clevr.PALETTE), ["gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"], strict=True)
)
SPACE = clevr_space.space()


def published(row):
    """The description of a scene, and where its camera sees the centers of objects in a picture of 480 × 320."""
    cut = clevr.parts(jnp.asarray(row))
    eye, objects = clevr.View().eye(cut), np.asarray(cut.objects)[np.asarray(cut.present)]
    centers = np.concatenate([objects[:, 7:], np.array(clevr.SIZES)[objects[:, 5].astype(int), None]], 1)
    points = jnp.asarray(centers, jnp.float32)
    # At 288 pixels the square is that of the published picture, whose middle is that of the smaller one.
    row, column = np.asarray(clevr.pixel(points, eye, 288)).T + np.array([[160 + 1.5 * (29 - 120)], [96]])
    depth = np.asarray((points - eye[None]) @ clevr.frame(eye)[2])
    return [
        {
            "color": NAMES[tuple(np.round(255 * thing[:3]).astype(int))],
            "shape": clevr.SHAPES[int(thing[3])],
            "material": clevr.MATERIALS[int(thing[4])],
            "size": ("small", "large")[int(thing[5])],
            "rotation": float(thing[6]),
            "3d_coords": center.tolist(),
            "pixel_coords": [round(float(c)), round(float(r)), float(z)],
        }
        for thing, center, r, c, z in zip(objects, centers, row, column, depth, strict=True)
    ]


@pytest.fixture(scope="module")
def scenes():
    """Three scenes; the second has as many objects as there may be."""
    rows = np.array(SPACE.sample(jax.random.key(0), 3))
    rows[1] = SPACE.only({"num_objects": 3}).sample(jax.random.key(1), 1)[0]
    return rows, [published(row) for row in rows]


RAMP = np.stack(np.broadcast_arrays(np.arange(480)[None] / 2, np.arange(320)[:, None] / 2, 7.0), -1).astype(np.uint8)


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """``prepare(train, validation)``: the real preparation of scenes, each a list of objects; one more without any."""

    def run(train, validation):
        source = tmp_path / "CLEVR_v1.0"
        for folder in ("scenes", "questions"):
            (source / folder).mkdir(parents=True)
        for split, described in (("train", train), ("val", validation), ("test", None)):
            (source / "images" / split).mkdir(parents=True)
            for number in range(len(described or [0])):
                Image.fromarray(RAMP).save(source / "images" / split / f"CLEVR_{split}_{number:06d}.png")
            (source / "questions" / f"CLEVR_{split}_questions.json").write_text('{"questions": []}')
            if described is not None:
                text = json.dumps({"scenes": [{"objects": objects} for objects in described]})
                (source / "scenes" / f"CLEVR_{split}_scenes.json").write_text(text)
        manager = tensorflow_datasets.download.DownloadManager
        monkeypatch.setattr(manager, "download_and_extract", lambda self, url: tmp_path)
        folder = tmp_path / "prepared"
        assert tfds.prepare("clevr", folder) == folder / "clevr" / "3.1.0"
        return folder

    yield run
    assert "tensorflow" not in sys.modules


def test_the_set_has_the_interface_of_the_renderer(scenes, prepare):
    rows, described = scenes
    folder = prepare([described[0], described[1] + described[0], described[1]], [described[2]])
    space, render = jaxdis.data.clevr6(source=folder, side=96, dtype="uint8", min_pixels=1)
    assert space.names == clevr_space.space(jitter=False).names
    factors = np.asarray(space.listing.values)
    # The scene of too many objects is left out, and so are pictures without a description. The records are shuffled.
    assert len(factors) == 3
    factors = factors[np.abs(factors[None, :, 1:4] - rows[:, None, 13:16]).sum(-1).argmin(1)]
    np.testing.assert_array_equal(factors[:, 0], rows[:, 0])
    expected = clevr.parts(jnp.asarray(rows))
    found = clevr.parts(jnp.asarray(factors))
    present = np.asarray(expected.present)
    np.testing.assert_allclose(np.asarray(found.objects)[present], np.asarray(expected.objects)[present], atol=1e-5)
    # The camera is fitted to rounded pixels: it moves few outlines, and these by a pixel.
    masks = np.asarray(space.masks(jnp.asarray(factors)))
    exact = np.asarray(clevr.View(96).masks(jnp.asarray(rows)))
    assert (masks != exact).mean() < 0.005
    assert masks.max() == 6
    unmoved = rows.copy()
    unmoved[:, 1:13] = 0
    assert (np.asarray(clevr.View(96).masks(jnp.asarray(unmoved))) != exact).mean() > 0.01
    # The square of 192 × 192 in a picture of 320 × 240 is one of 288 × 288 here, of which three pixels are averaged.
    at = 3 * np.arange(96) + 1
    inside = np.asarray(render(jnp.asarray(factors)))[:, 1:-1, 1:-1].astype(float)
    np.testing.assert_allclose(inside[..., 0], np.broadcast_to((96 + at[None, 1:-1]) / 2, inside.shape[:3]), atol=0.76)
    np.testing.assert_allclose(
        inside[..., 1], np.broadcast_to((23.5 + at[1:-1, None]) / 2, inside.shape[:3]), atol=0.76
    )


def test_scenes_are_kept_whose_objects_are_all_seen(scenes, prepare):
    rows, described = scenes
    seen = jax.jit(lambda row: clevr.View().mask(row, 192))
    shown = [np.bincount(np.asarray(seen(jnp.asarray(row))).ravel())[1:].min() for row in rows]
    least = int(np.sort(shown)[:2].mean())
    kept = clevr_files.read(prepare(described, described[:1]), 16, least)
    assert len(kept.factors) == sum((np.array(shown) >= least)[[0, 1, 2, 0]])
    assert 0 < len(kept.factors) < 4


def far(objects):
    objects[0]["3d_coords"][0] = 3.5


def lifted(objects):
    objects[0]["3d_coords"][2] += 0.1


def elsewhere(objects):
    objects[0]["pixel_coords"][0] += 20


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (far, r"'CLEVR_train_000000.png' of .* holds places .* to 3.5; needs -3 to 3"),
        (lifted, "holds heights above sizes"),
        (elsewhere, "shows objects .* pixels from where CLEVR's camera sees them"),
    ],
)
def test_spoiled_scenes_are_refused(scenes, prepare, cache, spoil, message):
    objects = json.loads(json.dumps(scenes[1][0]))
    spoil(objects)
    folder = prepare([objects], [])
    with pytest.raises(ValueError, match=message):
        clevr_files.read(folder, 16)
    assert not any(cache.iterdir())


def test_a_missing_set_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="tensorflow-datasets"):
        jaxdis.data.clevr6(source=tmp_path)
