"""Color, noise, painting, and many objects: what each may and may not do to the sprite."""

import functools
import struct
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from publishers import synthetic_painting

import jaxdis.data
from jaxdis.data import _multi_sprites as multi_sprites
from jaxdis.data import _sprites as sprites

FACTORS = np.asarray(sprites.SPACE.sample(jax.random.key(0), 40))
KEY = jax.random.key(1)


@functools.cache
def inside_of_sprites():
    """One program, at the first test that asks: operations one by one are 87, and are compiled by every worker."""
    return np.asarray(jax.jit(lambda factors: sprites.draw((), factors))(FACTORS))[..., 0] > 0


def variants():
    painting = synthetic_painting()
    return {
        "color": jaxdis.data.color_dsprites(),
        "noisy": jaxdis.data.noisy_dsprites(),
        "scream": jaxdis.data.scream_dsprites(painting),
    }


@pytest.mark.parametrize("name", ["color", "noisy", "scream"])
def test_noise_is_the_keys_and_the_keys_alone(name):
    space, render = variants()[name]
    assert space == sprites.SPACE
    images = np.asarray(render(FACTORS, KEY))
    assert images.shape == (40, 64, 64, 3)
    assert images.min() >= 0
    assert images.max() <= 1
    np.testing.assert_array_equal(images, render(FACTORS, key=KEY))
    assert (images != np.asarray(render(FACTORS, jax.random.key(2)))).any((1, 2, 3)).all()
    np.testing.assert_allclose(jax.jit(lambda r, f, k: r(f, k))(render, FACTORS, KEY), images, atol=1e-6)
    with pytest.raises(ValueError, match="key: must be a typed key for a data set that draws noise"):
        render(FACTORS)


def test_color_is_one_a_sprite_from_a_half_to_one():
    _, render = jaxdis.data.color_dsprites()
    images = np.asarray(render(FACTORS, KEY))
    assert (images[~inside_of_sprites()] == 0).all()
    colors = []
    for image, inside in zip(images, inside_of_sprites(), strict=True):
        (color,) = np.unique(image[inside], axis=0)
        colors.append(color)
    colors = np.array(colors)
    assert colors.min() >= 0.5
    assert colors.max() < 1
    assert abs(colors.mean() - 0.75) < 0.05
    assert abs(np.corrcoef(colors.T)[0, 1]) < 0.5


def test_noise_fills_the_ground_and_leaves_the_sprite_white():
    _, render = jaxdis.data.noisy_dsprites()
    images = np.asarray(render(FACTORS, KEY))
    assert (images[inside_of_sprites()] == 1).all()
    ground = images[~inside_of_sprites()]
    assert abs(ground.mean() - 0.5) < 0.005
    assert abs(ground.var() - 1 / 12) < 0.001
    assert abs(np.corrcoef(ground[:, 0], ground[:, 1])[0, 1]) < 0.01


def test_the_sprite_is_the_negative_of_a_piece_of_the_painting():
    painting = synthetic_painting(90, 80)
    _, render = jaxdis.data.scream_dsprites(painting)
    images = np.asarray(render(FACTORS, KEY))
    ground = np.where(inside_of_sprites()[..., None], 1 - images, images)
    corners = []
    for image in ground:
        # Twice the ground less the piece at the right corner is one color; the corner is found by search.
        rest = [
            (float(np.ptp(2 * image - painting[row : row + 64, column : column + 64], axis=(0, 1)).max()), row, column)
            for row in range(27)
            for column in range(17)
        ]
        away, row, column = min(rest)
        assert away < 1e-5
        color = (2 * image - painting[row : row + 64, column : column + 64])[0, 0]
        assert (color >= -1e-6).all()
        assert (color < 1 + 1e-6).all()
        corners.append((row, column))
    # 90 − 64 = 26 rows and 80 − 64 = 16 columns are in reach, their upper ends not among them.
    rows, columns = np.array(corners).T
    assert rows.max() <= 25
    assert columns.max() <= 15
    assert np.unique(rows).size > 10


def test_a_painting_is_read_and_shrunk_from_a_file(tmp_path):
    from PIL import Image

    picture = np.zeros((548, 300, 3), np.uint8)
    picture[:, :150] = [200, 100, 50]
    path = tmp_path / "painting.png"
    Image.fromarray(picture).save(path)
    loaded = sprites.load_painting(path)
    assert loaded.shape == (274, 150, 3)
    np.testing.assert_allclose(loaded[100, 30], np.array([200, 100, 50]) / 255, atol=1e-6)
    _, render = jaxdis.data.scream_dsprites(path)
    np.testing.assert_array_equal(render.tables[-1], loaded)


def test_without_the_painting_the_error_says_what_to_put_where(cache):
    with pytest.raises(FileNotFoundError, match="The_Scream.jpg") as caught:
        jaxdis.data.scream_dsprites()
    assert str(cache / "the_scream.jpg") in str(caught.value)
    with pytest.raises(ValueError, match="more than 64 pixels each way"):
        jaxdis.data.scream_dsprites(np.zeros((64, 100, 3), np.float32))
    with pytest.raises(ValueError, match=r"values in \[0, 1\]"):
        jaxdis.data.scream_dsprites(np.full((100, 100, 3), 255, np.float32))


def test_an_image_of_hearts_is_the_frame_of_dsprites_averaged_over_four_pixels():
    space, render = jaxdis.data.hearts()
    whole, frames = jaxdis.data.dsprites()
    rows = np.array([[0, 0, 0], [5, 31, 15], [3, 10, 7]], np.int32)
    scale, x, y = rows.T
    same = np.stack([0 * x + 2, scale, 0 * x, x, y + 8], axis=1).astype(np.int32)
    expected = np.asarray(frames(jnp.asarray(same))).reshape(3, 32, 2, 32, 2, 1).mean(axis=(2, 4))
    np.testing.assert_array_equal(np.asarray(render(jnp.asarray(rows))), expected)
    assert space.num_cells == 6 * 32 * 16
    for name, row in zip(space.names, rows.T, strict=True):
        values = np.array(space.values[space.position(name)])[row]
        of_dsprites = np.array(whole.values[whole.position(name)])[same[:, whole.position(name)]]
        np.testing.assert_array_equal(values, of_dsprites)


# ---- many objects ----------------------------------------------------------------------------------------------------


def painted(factors, min_objects):
    """The scene painted object by object, the later over the earlier."""
    count, background = factors[0] + min_objects, factors[1:4]
    image = np.tile(np.array(multi_sprites.COLORS)[background], (64, 64, 1))
    mask = np.zeros((64, 64), int)
    for number in range(count):
        part = factors[4 + 8 * number : 12 + 8 * number]
        inside = np.asarray(sprites.draw((), jnp.asarray(part[None, 3:])))[0, :, :, 0] > 0
        image[inside] = np.array(multi_sprites.COLORS)[part[:3]]
        mask[inside] = number + 1
    return image, mask


@pytest.mark.parametrize(("most", "least"), [(4, 1), (5, 2), (1, 1)])
def test_scenes_are_painted_in_order(most, least):
    space, render = jaxdis.data.multi_dsprites(most, least, dtype="uint8")
    factors = space.sample(jax.random.key(3), 30)
    scene = multi_sprites.scene(factors, least)
    for number, row in enumerate(np.asarray(factors)):
        image, mask = painted(row, least)
        np.testing.assert_array_equal(scene.images[number], image)
        np.testing.assert_array_equal(scene.masks[number], mask)
    np.testing.assert_array_equal(render(factors), scene.images)
    counts = np.asarray(multi_sprites.parts(factors, least).count)
    assert set(counts) == set(range(least, most + 1))


def test_local_groups_follow_table_7():
    space = multi_sprites.space(2).only({"num_objects": 1})
    steps = multi_sprites.steps(space)
    group = np.asarray(jax.jit(lambda key: space.local_group(key, 500, steps))(jax.random.key(6)))
    bounds = {"red": 2, "green": 2, "blue": 2, "scale": 2, "orientation": 6, "x": 4, "y": 4}
    for name, spread in zip(space.names, np.ptp(group, axis=0), strict=True):
        if name == "num_objects":
            assert spread == 0
        elif name.endswith("shape"):
            assert spread == 2
        else:
            assert 1 <= spread <= bounds[name.split("_")[-1]]


def test_a_wrong_number_of_objects_is_refused():
    with pytest.raises(ValueError, match="1 ≤ min_objects ≤ max_objects ≤ 5, got 1 and 6"):
        jaxdis.data.multi_dsprites(6)
    with pytest.raises(ValueError, match="got 3 and 2"):
        jaxdis.data.multi_dsprites(2, 3)


def test_a_picture_that_is_larger_than_it_looks_is_refused_before_it_is_decoded(tmp_path):
    header = struct.pack(">IIBBBBB", 12_000, 12_000, 8, 2, 0, 0, 0)
    blocks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    path = tmp_path / "bomb.png"
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in blocks
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    with pytest.raises(ValueError, match="at most 100,000,000 pixels, got 12,000"):
        sprites.load_painting(path)


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_a_damaged_painting_is_refused(tmp_path, content):
    path = tmp_path / "painting.png"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="painting: must be a whole JPEG, PNG or WebP"):
        sprites.load_painting(path)
