"""Cars3D and SmallNORB: small files in their layouts, read by the real path; and spoiled ones, refused."""

import gzip
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from publishers import (
    CAR_WRITERS,
    CARS,
    TOYS,
    car_files,
    car_views,
    shrunk,
    toy_arrays,
    write_archive,
    write_matrix,
    write_toys,
)
from scipy.io import savemat

import jaxdis.data
from jaxdis.data.files import _image_files as image_files
from jaxdis.data.files._image_files import TESTING, TRAINING


@pytest.mark.parametrize("layout", CAR_WRITERS)
def test_cars_are_in_the_order_of_the_list(tmp_path, miniature, layout):
    views = car_views()
    path = CAR_WRITERS[layout](tmp_path, car_files(views))
    space, render = jaxdis.data.cars3d(path, dtype="uint8")
    factors = np.asarray(space.sample(jax.random.key(0), 12))
    drawn = np.asarray(render(jnp.asarray(factors)))
    for image, (elevation, azimuth, number) in zip(drawn, factors, strict=True):
        np.testing.assert_array_equal(image, shrunk(np.ascontiguousarray(views[number, ..., azimuth, elevation])))


def test_cars_have_the_official_lattice():
    assert jaxdis.data.DATASETS["cars3d"].space.sizes == (4, 24, 183)
    assert jaxdis.data.DATASETS["cars3d"].space.names == ("elevation", "azimuth", "object_type")


def other_matrix(**arrays):
    buffer = io.BytesIO()
    savemat(buffer, arrays)
    return buffer.getvalue()


SPOILED_CARS = {
    "a car is missing": (lambda f: f.pop("cars/car_001_mesh.mat"), "lacks 1 of the cars in .*the first car_001_mesh"),
    "no list": (lambda f: f.pop("cars/list.txt"), "found no cars/list.txt"),
    "a shorter list": (lambda f: f.update({"cars/list.txt": b"car_007_mesh\n"}), "names 1 cars; needs 4"),
    "a car listed twice": (lambda f: f.update({"cars/list.txt": b"car_007_mesh\n" * 4}), "names 1 cars; needs 4"),
    "another size": (
        lambda f: f.update({"cars/car_020_mesh.mat": other_matrix(im=np.zeros((64, 64, 3, 3, 2), np.uint8))}),
        r"needs an array 'im', uint8 \(128, 128, 3, 3, 2\); got uint8 \(64",
    ),
    "another dtype": (
        lambda f: f.update({"cars/car_020_mesh.mat": other_matrix(im=np.zeros((128, 128, 3, 3, 2)))}), "got float64"
    ),
    "no images": (lambda f: f.update({"cars/car_020_mesh.mat": other_matrix(mask=np.zeros(3))}), "got none"),
    "a torn car": (
        lambda f: f.update({"cars/car_020_mesh.mat": f["cars/car_020_mesh.mat"][:-500]}), "not a whole Matlab file"
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", CAR_WRITERS)
@pytest.mark.parametrize("fault", SPOILED_CARS)
def test_spoiled_cars_are_refused(tmp_path, cache, layout, fault):
    spoil, message = SPOILED_CARS[fault]
    files = car_files(car_views())
    spoil(files)
    with pytest.raises(ValueError, match=message):
        image_files.cars3d_images(CAR_WRITERS[layout](tmp_path, files), CARS)
    assert not cache.exists() or not any(cache.iterdir())


def test_a_torn_archive_of_cars_is_refused(tmp_path):
    path = write_archive(tmp_path, car_files(car_views()))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="not a whole tar archive"):
        image_files.cars3d_images(path, CARS)
    with pytest.raises(FileNotFoundError, match="4e866a7919c1beedf53964e6f7a23686"):
        jaxdis.data.cars3d(tmp_path / "absent.tar.gz")


def test_a_member_of_an_archive_that_claims_too_much_is_not_read(tmp_path, monkeypatch):
    files = car_files(car_views())
    monkeypatch.setattr(image_files, "_MOST_BYTES", max(map(len, files.values())))
    files["cars/list.txt"] = b"x" * (image_files._MOST_BYTES + 1)
    with pytest.raises(ValueError, match="claims .* bytes for data/cars/list.txt; it is not the official file"):
        image_files.cars3d_images(write_archive(tmp_path, files), CARS)


# ---- SmallNORB -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".mat", ".mat.gz"])
def test_smallnorb_round_trip_puts_images_where_their_labels_say(tmp_path, suffix):
    halves = toy_arrays()
    images = image_files.smallnorb_images(write_toys(tmp_path, halves, suffix), TOYS)
    for parts in halves.values():
        for pair, category, (instance, elevation, azimuth, lighting) in zip(
            parts["dat"], parts["cat"], parts["info"], strict=True
        ):
            cell = np.ravel_multi_index((category, instance, elevation, azimuth // 2, lighting), TOYS.sizes)
            np.testing.assert_array_equal(images[cell, ..., 0], shrunk(pair[0]))


def test_smallnorb_draws_the_hidden_instance(tmp_path, miniature):
    write_toys(tmp_path, toy_arrays(), ".mat")
    images = np.array(image_files.smallnorb_images(tmp_path, TOYS)).reshape(*TOYS.sizes, 64, 64, 1)
    space, render = jaxdis.data.smallnorb(tmp_path, dtype="uint8")
    assert space.names == ("category", "elevation", "azimuth", "lighting")
    factors = jnp.tile(jnp.array([[1, 0, 2, 0]]), (200, 1))
    drawn = np.asarray(render(factors, jax.random.key(0)))
    first, second = ((drawn == images[1, instance, 0, 2, 0]).all((1, 2, 3)) for instance in range(2))
    assert (first ^ second).all()
    assert 60 < first.sum() < 140
    with pytest.raises(ValueError, match="must be a typed key"):
        render(factors)


def test_smallnorb_has_the_official_lattice():
    assert image_files.SMALLNORB_SPACE.sizes == (5, 9, 18, 6)
    assert image_files.SMALLNORB_SPACE.values[1] == (30, 35, 40, 45, 50, 55, 60, 65, 70)
    assert image_files.SMALLNORB_SPACE.values[2][-1] == 340
    assert image_files.SMALLNORB_FULL_SPACE.num_lattice == 48_600


def change(half, part, function):
    return lambda halves: halves[half].update({part: function(halves[half][part])})


def with_value(at, value):
    def changed(array):
        array = array.copy()
        array[at] = value
        return array

    return changed


SPOILED_TOYS = {
    "a cell comes twice": (
        lambda halves: [array.__setitem__(1, array[0]) for p, array in halves[TESTING].items() if p != "dat"],
        "1 are missing and 1 come more than once",
    ),
    "an image is missing": (
        lambda halves: [halves[TESTING].update({p: a[1:]}) for p, a in halves[TESTING].items()],
        "1 are missing and 0 come more than once, the first at {'category': ",
    ),
    "an instance in both halves": (
        change(TESTING, "info", with_value((slice(None), 0), 1)), "12 are missing and 12 come more than once"
    ),
    "a category too many": (change(TRAINING, "cat", with_value(3, 5)), "label 5 of factor 'category'"),
    "an odd azimuth": (change(TRAINING, "info", with_value((4, 2), 3)), "label -1 of factor 'azimuth'"),
    "one camera": (change(TRAINING, "dat", lambda a: a[:, :1]), r"needs uint8 \(n, 2, 96, 96\)"),
    "images as int32": (change(TRAINING, "dat", lambda a: a.astype(np.int32)), "holds int32"),
    "fewer labels": (change(TRAINING, "cat", lambda a: a[:-1]), "needs one row per image"),
}  # fmt: skip


@pytest.mark.parametrize("fault", SPOILED_TOYS)
def test_spoiled_smallnorb_is_refused(tmp_path, cache, fault):
    spoil, message = SPOILED_TOYS[fault]
    halves = toy_arrays()
    spoil(halves)
    with pytest.raises(ValueError, match=message):
        image_files.smallnorb_images(write_toys(tmp_path, halves, ".mat"), TOYS)
    assert not cache.exists() or not any(cache.iterdir())


def test_spoiled_matrices_are_refused(tmp_path):
    path = tmp_path / "x.mat"
    write_matrix(path, np.arange(6, dtype=np.int32).reshape(2, 3))
    np.testing.assert_array_equal(image_files.read_matrix(path), [[0, 1, 2], [3, 4, 5]])
    whole = path.read_bytes()
    for data, message in (
        (whole[:-1], "holds 43 bytes; needs 44"),
        (whole + b"\x00", "holds 45 bytes; needs 44"),
        (b"\x00" + whole[1:], "needs 507333717 or 507333716"),
        (whole[:10], "needs a whole header"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            image_files.read_matrix(path)
    (tmp_path / "x.mat.gz").write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        image_files.read_matrix(tmp_path / "x.mat.gz")


def test_a_missing_matrix_is_named(tmp_path):
    write_toys(tmp_path, toy_arrays(), ".mat")
    (tmp_path / f"{TESTING}-cat.mat").unlink()
    with pytest.raises(FileNotFoundError, match="smallnorb-5x01235x9x18x6x2x96x96-testing-cat.mat or "):
        image_files.smallnorb_images(tmp_path, TOYS)
