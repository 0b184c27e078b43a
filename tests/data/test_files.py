"""The official files: small ones in each publisher's layout, read by the real path; and spoiled ones, refused."""

import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from publishers import ARM, ROOMS, SPRITES, WRITERS, arm_images, room_arrays, sprite_arrays, write_hdf5, write_npz

import jaxdis.data
from jaxdis.data import _sprites as sprites
from jaxdis.data._lattice import HostGather, open_array
from jaxdis.data.files import _image_files as image_files


def swap(array, a, b):
    array[[a, b]] = array[[b, a]]


SPOILED_SPRITES = {
    "an image is missing": (lambda a: a.update(imgs=a["imgs"][:-1]), r"\(71, 64, 64\); needs uint8 \(72"),
    "another image size": (lambda a: a.update(imgs=a["imgs"][:, :32]), r"images \(72, 32, 64\)"),
    "another dtype": (lambda a: a.update(imgs=a["imgs"].astype(np.int16)), "holds int16 images"),
    "pixels of 255": (lambda a: a.update(imgs=a["imgs"] * 255), "pixels of 255; needs 0 and 1 only"),
    "two rows of labels swapped": (lambda a: swap(a["latents_classes"], 3, 9), "not in lattice order: row 3"),
    "labels of another lattice": (lambda a: a.update(latents_classes=a["latents_classes"][:, :-1]), "class numbers"),
    "another value": (lambda a: a["latents_values"].__setitem__((5, 2), 0.6), "row 5 holds factor values"),
    "a value that is not a number": (lambda a: a["latents_values"].__setitem__((5, 2), np.nan), "row 5 holds factor"),
    "a full turn that differs": (lambda a: a["imgs"].__setitem__(0, a["imgs"][1]), "1 images differ between orient"),
    "no images": (lambda a: a.pop("imgs"), "needs an array 'imgs'"),
    "no labels": (lambda a: a.pop("latents_classes"), "latents.classes"),
}  # fmt: skip


@pytest.mark.parametrize("layout", WRITERS)
@pytest.mark.parametrize("fault", SPOILED_SPRITES)
def test_spoiled_dsprites_are_refused(tmp_path, cache, layout, fault):
    spoil, message = SPOILED_SPRITES[fault]
    arrays = sprite_arrays()
    spoil(arrays)
    path = WRITERS[layout](tmp_path / f"dsprites.{layout}", arrays)
    with pytest.raises(ValueError, match=message):
        image_files.dsprites_words(path, SPRITES)
    assert not cache.exists() or not any(cache.iterdir())


def test_files_that_are_not_what_they_seem_are_refused(tmp_path):
    path = write_npz(tmp_path / "whole.npz", sprite_arrays())
    for name, data in {"cut": path.read_bytes()[:-500], "noise": b"\x00" * 1000, "empty": b""}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match="neither a whole npz nor an hdf5 file"):
            image_files.dsprites_words(tmp_path / name, SPRITES)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"imgs.npy") + 300] ^= 255
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with pytest.raises(ValueError, match="damaged"):
        image_files.dsprites_words(tmp_path / "damaged.npz", SPRITES)
    cut = write_hdf5(tmp_path / "whole.hdf5", sprite_arrays())
    (tmp_path / "cut.hdf5").write_bytes(cut.read_bytes()[:2000])
    with pytest.raises(ValueError, match="not a whole hdf5 file"):
        image_files.dsprites_words(tmp_path / "cut.hdf5", SPRITES)


def test_pickled_arrays_are_never_loaded(tmp_path):
    arrays = sprite_arrays()
    arrays["imgs"] = arrays["imgs"].astype(object)
    np.savez_compressed(tmp_path / "pickled.npz", **arrays)
    with pytest.raises(ValueError, match="never unpickled"):
        image_files.dsprites_words(tmp_path / "pickled.npz", SPRITES)


@pytest.mark.parametrize("layout", WRITERS)
def test_a_dsprites_file_feeds_every_set_of_sprites(tmp_path, monkeypatch, layout):
    """The public functions on a whole lattice: a file of the small space, taken for the official one."""
    monkeypatch.setattr(sprites, "SPACE", SPRITES)
    arrays = sprite_arrays()
    path = WRITERS[layout](tmp_path / f"dsprites.{layout}", arrays)
    space, render = jaxdis.data.dsprites(source=path, dtype="uint8")
    assert (space, render.source) == (SPRITES, f"file:dsprites.{layout}")
    factors = space.factors(jnp.arange(72, dtype=jnp.int32))
    images = arrays["imgs"][..., None]
    np.testing.assert_array_equal(render(factors), images * 255)
    _, noisy = jaxdis.data.noisy_dsprites(source=path)
    drawn = np.asarray(noisy(factors, jax.random.key(1)))
    assert (drawn[np.broadcast_to(images == 1, drawn.shape)] == 1).all()
    assert drawn[np.broadcast_to(images == 0, drawn.shape)].mean() < 0.6
    space, several = jaxdis.data.multi_dsprites(1, source=path, dtype="uint8")
    scene = np.zeros((1, 12), np.int32)
    scene[0, 4:7] = 4
    scene[0, 7:] = np.asarray(factors)[0]
    np.testing.assert_array_equal(np.asarray(several(jnp.asarray(scene)))[0, ..., :1], images[0] * 255)


# ---- Shapes3D --------------------------------------------------------------------------------------------------------


SPOILED_ROOMS = {
    "an image is missing": (lambda a: a.update(images=a["images"][:-1]), r"\(47, 64, 64, 3\)"),
    "gray images": (lambda a: a.update(images=a["images"][..., :1]), r"\(48, 64, 64, 1\)"),
    "floats": (lambda a: a.update(images=a["images"] / 255.0), "holds float64 images"),
    "two rows of labels swapped": (lambda a: swap(a["labels"], 0, 40), "not in lattice order: row 0"),
    "scales from 0 to 1": (lambda a: a["labels"].__setitem__((slice(None), 3), 0), "not in lattice order"),
    "another sky": (lambda a: a["images"].__setitem__((31, 0, 0, 2), 240), "first pixel 9 away from the sky"),
    "no labels": (lambda a: a.pop("labels"), "needs an array 'labels'"),
}


@pytest.mark.parametrize("fault", SPOILED_ROOMS)
def test_spoiled_shapes3d_are_refused(tmp_path, cache, fault):
    spoil, message = SPOILED_ROOMS[fault]
    arrays = room_arrays()
    spoil(arrays)
    with pytest.raises(ValueError, match=message):
        image_files.shapes3d_images(write_hdf5(tmp_path / "3dshapes.h5", arrays), ROOMS)
    assert not cache.exists() or not any(cache.iterdir())


@pytest.mark.parametrize("layout", WRITERS)
def test_shapes3d_by_the_public_function(tmp_path, monkeypatch, layout):
    path = WRITERS[layout](tmp_path / f"3dshapes.{layout}", room_arrays())
    with pytest.raises(ValueError, match=r"needs uint8 \(480000, 64, 64, 3\)"):
        jaxdis.data.shapes3d(source=path)
    monkeypatch.setattr(image_files, "SHAPES3D_SPACE", ROOMS)
    monkeypatch.setattr("jaxdis.data._datasets.SHAPES3D_SPACE", ROOMS)
    for resident in (False, True):
        space, render = jaxdis.data.shapes3d(source=path, resident=resident, dtype="uint8")
        factors = space.sample(jax.random.key(0), 9)
        np.testing.assert_array_equal(render(factors), room_arrays()["images"][np.asarray(space.index(factors))])


def test_a_changed_file_is_read_anew(tmp_path):
    arrays = room_arrays()
    path = write_hdf5(tmp_path / "3dshapes.h5", arrays)
    first = np.array(image_files.shapes3d_images(path, ROOMS))
    arrays["images"][5, 9] = 0
    write_hdf5(path, arrays)
    again = np.array(image_files.shapes3d_images(path, ROOMS))
    np.testing.assert_array_equal(again, arrays["images"])
    assert (first != again).any()


# ---- MPI3D -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mpi3d_is_read_in_place(tmp_path, cache, save):
    images = arm_images()
    # A member before the images moves their offset in the file.
    save(tmp_path / "mpi3d_toy.npz", first=np.arange(1000), images=images)
    path = image_files.checked_mpi3d(tmp_path / "mpi3d_toy.npz", "toy", ARM)
    array = image_files.open_mpi3d(str(path))
    assert isinstance(array, np.memmap)
    np.testing.assert_array_equal(array, images)
    assert cache.exists() == (save is np.savez_compressed)


def test_mpi3d_render_reads_rows_by_factors(tmp_path, miniature):
    images = arm_images()
    np.savez(tmp_path / "mpi3d_real.npz", images=images)
    for resident in (False, True):
        space, render = jaxdis.data.mpi3d(tmp_path / "mpi3d_real.npz", "real", resident=resident, dtype="uint8")
        factors = space.sample(jax.random.key(0), 8)
        wanted = images[np.asarray(space.index(factors))]
        np.testing.assert_array_equal(render(factors), wanted)
        np.testing.assert_array_equal(jax.jit(lambda r, f: r(f))(render, factors), wanted)
        np.testing.assert_array_equal(jax.vmap(render)(factors), wanted)
        np.testing.assert_array_equal(render(factors.reshape(2, 4, 3)), wanted.reshape(2, 4, 64, 64, 3))
        assert render.source == "file:mpi3d_real.npz"


def test_mpi3d_factor_tables_are_the_official_ones():
    assert image_files.mpi3d_space("real").sizes == (6, 6, 2, 3, 3, 40, 40)
    assert image_files.mpi3d_space("toy").num_lattice == 1_036_800
    assert image_files.mpi3d_space("complex").sizes == (4, 4, 2, 3, 3, 40, 40)
    assert image_files.mpi3d_space("challenge").num_lattice == 460_800


def sparse_npz(path, count, dtype="|u1"):
    """A stored npz of the given number of images whose pixels are a hole in the file."""
    header = {"descr": dtype, "fortran_order": False, "shape": (count, 64, 64, 3)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        info = zipfile.ZipInfo("images.npy")
        with archive.open(info, "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
    return path


@pytest.mark.parametrize(
    ("count", "variant", "message"),
    [
        (460_800, "toy", "holds 460800 images, 4 colors × 4 shapes, and was opened as variant 'toy' with 6 × 6"),
        (460_800, "real", "use the full file of 'real'"),
        (1_036_800, "complex", r"needs uint8 \(460800, 64, 64, 3\)"),
        (1000, "toy", r"needs uint8 \(1036800, 64, 64, 3\)"),
        (1_036_800, "toy", "ends inside 'images'; the file is truncated"),
    ],
)
def test_spoiled_mpi3d_is_refused(tmp_path, count, variant, message):
    path = sparse_npz(tmp_path / "mpi3d.npz", count)
    with pytest.raises(ValueError, match=message):
        jaxdis.data.mpi3d(path, variant)


def test_mpi3d_of_another_dtype_or_name_is_refused(tmp_path):
    path = sparse_npz(tmp_path / "mpi3d.npz", 1_036_800, "<f4")
    with pytest.raises(ValueError, match="holds float32 images"):
        jaxdis.data.mpi3d(path, "toy")
    np.savez(tmp_path / "other.npz", pictures=arm_images())
    with pytest.raises(ValueError, match="holds pictures; needs an array 'images'"):
        jaxdis.data.mpi3d(tmp_path / "other.npz", "toy")
    with pytest.raises(
        ValueError, match="variant: must be one of toy, realistic, real, complex, challenge, got 'fake'"
    ):
        jaxdis.data.mpi3d(path, "fake")
    with pytest.raises(FileNotFoundError, match="55889cb7c7dfc655d6e0277beee88868"):
        jaxdis.data.mpi3d(tmp_path / "absent.npz", "toy")


def test_host_gather_inside_a_scan(tmp_path):
    images = arm_images()
    np.save(tmp_path / "images.npy", images)
    draw = HostGather(open_array, str(tmp_path / "images.npy"), ARM.sizes, (64, 64, 3))
    factors = ARM.factors(jnp.arange(12, dtype=jnp.int32)).reshape(4, 3, 3)
    _, drawn = jax.jit(lambda f: jax.lax.scan(lambda carry, rows: (carry, draw((), rows)), 0, f))(factors)
    np.testing.assert_array_equal(drawn.reshape(12, 64, 64, 3), images)
