"""tensorflow-datasets without TensorFlow: the real preparation of small sources, the real reader, and spoiled ones.

Only the download is replaced: it returns a file in the publisher's layout.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow_datasets
from publishers import ROOMS, SPRITES, TOYS, room_arrays, shrunk, sprite_arrays, toy_arrays, write_hdf5, write_toys

import jaxdis.data
from jaxdis.data import FactorSpace
from jaxdis.data import _sprites as sprites
from jaxdis.data.files import _image_files as image_files
from jaxdis.data.files import _tfds as tfds

MANAGER = tensorflow_datasets.download.DownloadManager


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """``prepare(name, source)``: the real preparation, into a folder of its own, from a local file or folder."""

    def run(name, source):
        def local(manager, urls):
            if isinstance(urls, dict):
                # Unpacked, and as tensorflow-datasets does, still under the packed file's name.
                names = {key: source / url.rsplit("/", 1)[1] for key, url in urls.items()}
                for path in names.values():
                    path.write_bytes(path.with_suffix("").read_bytes())
                return names
            return source

        monkeypatch.setattr(MANAGER, "download", local)
        monkeypatch.setattr(MANAGER, "download_and_extract", local)
        folder = tmp_path / "prepared"
        version = tfds.prepare(name, folder)
        assert version == folder / name / "2.0.0"
        assert sorted(path.name for path in version.glob("*.json")) == ["dataset_info.json", "features.json"]
        assert list(version.glob(f"{name}-train.array_record*"))
        return folder

    yield run
    assert "tensorflow" not in sys.modules


def test_dsprites_round_trip(tmp_path, prepare, monkeypatch):
    arrays = sprite_arrays()
    folder = prepare("dsprites", write_hdf5(tmp_path / "source.hdf5", arrays))
    source = tensorflow_datasets.builder_from_directory(folder / "dsprites" / "2.0.0").as_data_source(split="train")
    stored = [source[number]["label_x_position"] for number in range(len(source))]
    # What this guards against: the records are not in lattice order.
    assert stored != arrays["latents_classes"][:, 4].tolist()
    words = tfds.images("dsprites", folder, SPRITES)
    np.testing.assert_array_equal(sprites.unpack(jnp.asarray(words)), arrays["imgs"])
    np.testing.assert_array_equal(tfds.images("dsprites", folder / "dsprites" / "2.0.0", SPRITES), words)
    monkeypatch.setattr(sprites, "SPACE", SPRITES)
    monkeypatch.setitem(tfds.SETS, "dsprites", tfds.SETS["dsprites"]._replace(space=SPRITES))
    space, render = jaxdis.data.dsprites(source=folder, dtype="uint8")
    factors = space.sample(jax.random.key(0), 20)
    np.testing.assert_array_equal(render(factors)[..., 0], 255 * arrays["imgs"][np.asarray(space.index(factors))])


def test_shapes3d_round_trip(tmp_path, prepare, monkeypatch):
    arrays = room_arrays()
    folder = prepare("shapes3d", write_hdf5(tmp_path / "source.h5", arrays))
    np.testing.assert_array_equal(tfds.images("shapes3d", folder, ROOMS), arrays["images"])
    monkeypatch.setattr("jaxdis.data._datasets.SHAPES3D_SPACE", ROOMS)
    monkeypatch.setitem(tfds.SETS, "shapes3d", tfds.SETS["shapes3d"]._replace(space=ROOMS))
    space, render = jaxdis.data.shapes3d(source=folder, dtype="uint8")
    factors = space.sample(jax.random.key(0), 20)
    np.testing.assert_array_equal(render(factors), arrays["images"][np.asarray(space.index(factors))])


def test_smallnorb_round_trip(tmp_path, prepare, monkeypatch, miniature):
    halves = toy_arrays()
    (tmp_path / "matrices").mkdir()
    folder = prepare("smallnorb", write_toys(tmp_path / "matrices", halves, ".mat"))
    images = tfds.images("smallnorb", folder, TOYS)
    np.testing.assert_array_equal(images, image_files.smallnorb_images(tmp_path / "matrices", TOYS))
    first = halves[image_files.TRAINING]
    cell = np.ravel_multi_index((first["cat"][0], 1, first["info"][0, 1], first["info"][0, 2] // 2, 0), TOYS.sizes)
    np.testing.assert_array_equal(images[cell, ..., 0], shrunk(first["dat"][0, 0]))
    monkeypatch.setitem(tfds.SETS, "smallnorb", tfds.SETS["smallnorb"]._replace(space=TOYS))
    _, render = jaxdis.data.smallnorb(folder, dtype="uint8")
    drawn = np.asarray(render(jnp.array([[1, 0, 2, 0]]), jax.random.key(0)))[0]
    both = np.array(images).reshape(*TOYS.sizes, 64, 64, 1)[1, :, 0, 2, 0]
    assert sorted((drawn == image).all() for image in both) == [False, True]


def repeat_row(arrays):
    for name in arrays:
        arrays[name][5] = arrays[name][6]


def turn(arrays):
    arrays["imgs"][0] = arrays["imgs"][1]


def gray(arrays):
    arrays["imgs"] = arrays["imgs"] * 255


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (repeat_row, "1 are missing and 1 come more than once"),
        (turn, "1 images differ between orientations"),
        (gray, "pixels of 255; needs 0 and 1 only"),
    ],
)
def test_spoiled_sets_are_refused(tmp_path, cache, prepare, spoil, message):
    arrays = sprite_arrays()
    spoil(arrays)
    folder = prepare("dsprites", write_hdf5(tmp_path / "source.hdf5", arrays))
    with pytest.raises(ValueError, match=message):
        tfds.images("dsprites", folder, SPRITES)
    assert not any(cache.iterdir())


def test_a_label_outside_the_lattice_is_refused(tmp_path, prepare):
    folder = prepare("dsprites", write_hdf5(tmp_path / "source.hdf5", sprite_arrays()))
    narrow = FactorSpace.of(**dict(zip(SPRITES.names, (3, 1, 3, 2, 2), strict=True)))
    with pytest.raises(ValueError, match="holds the label 1 of factor 'scale'; needs 0 to 0"):
        tfds.images("dsprites", folder, narrow)


def test_another_sky_is_refused(tmp_path, prepare):
    arrays = room_arrays()
    arrays["images"][31, 0, 0] = 0
    folder = prepare("shapes3d", write_hdf5(tmp_path / "source.h5", arrays))
    with pytest.raises(ValueError, match="first pixel 249 away from the sky"):
        tfds.images("shapes3d", folder, ROOMS)


def test_what_is_not_prepared_is_named(tmp_path, prepare):
    with pytest.raises(FileNotFoundError, match=r"tfds.prepare\('dsprites', folder\)"):
        tfds.images("dsprites", tmp_path / "absent", SPRITES)
    with pytest.raises(FileNotFoundError, match="found no shapes3d/<version>/dataset_info.json"):
        tfds.images("shapes3d", tmp_path, ROOMS)
    folder = prepare("dsprites", write_hdf5(tmp_path / "source.hdf5", sprite_arrays()))
    with pytest.raises(ValueError, match="holds the set 'dsprites'; needs 'shapes3d'"):
        tfds.images("shapes3d", folder / "dsprites" / "2.0.0", ROOMS)
    information = folder / "dsprites" / "2.0.0" / "dataset_info.json"
    assert json.loads(information.read_text())["fileFormat"] == "array_record"
