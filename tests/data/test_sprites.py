"""dSprites: the official lattice, the published frames, and the pixel rule derived again without any shortcut."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.path import Path

import jaxdis.data
from jaxdis.data import _sprites as sprites

GOLDEN = json.loads((pathlib.Path(__file__).parent.parent / "golden" / "dsprites_frames.json").read_text())
SOME = sprites.SPACE.sample(jax.random.key(0), 200)


@pytest.fixture(scope="module")
def draw():
    _, render = jaxdis.data.dsprites()
    return jax.jit(render)


def test_factor_table_and_lattice_order_are_the_official_ones():
    space, _ = jaxdis.data.dsprites()
    assert space.names == ("shape", "scale", "orientation", "x", "y")
    assert space.sizes == (3, 6, 40, 32, 32)
    assert space.num_lattice == 737_280
    assert space.values[0] == (1, 2, 3)
    np.testing.assert_allclose(space.values[1], [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    np.testing.assert_allclose(space.values[2], np.arange(40) * 2 * np.pi / 39)
    np.testing.assert_allclose(space.values[3], np.arange(32) / 31)
    np.testing.assert_allclose(space.values[4], np.arange(32) / 31)
    # The bases of the published reloading example, its color (one value) left out.
    np.testing.assert_array_equal(space.index(jnp.eye(5, dtype=jnp.int32)), np.array([245_760, 40_960, 1_024, 32, 1]))


@pytest.mark.parametrize("frame", GOLDEN["bitmaps"], ids=lambda frame: str(frame["factors"]))
def test_published_frames_are_reproduced(draw, frame):
    published = np.zeros((64, 64), int)
    for number, row in enumerate(frame["rows"]):
        published[frame["first_row"] + number] = [int(bit) for bit in f"{int(row, 16):064b}"]
    drawn = np.asarray(draw(jnp.array(frame["factors"])))[..., 0]
    # No published frame differs by more than 2 pixels, and no square by any.
    assert (drawn != published).sum() <= (0 if frame["factors"][0] == 0 else 2)


def test_published_areas_are_reproduced(draw):
    factors = jnp.array([frame["factors"] for frame in GOLDEN["counts"]])
    drawn = np.asarray(draw(factors)).sum((1, 2, 3))
    away = np.abs(drawn - np.array([frame["pixels"] for frame in GOLDEN["counts"]]))
    assert away.max() <= 2
    assert (away == 0).mean() >= 0.85


def rule(shape, scale, orientation, x, y):
    """The pixel rule in float64 over all 64 × 64 pixels; the heart by its curve, not by its radii."""
    size, angle = sprites.SPACE.values[1][scale], sprites.SPACE.values[2][orientation]
    pixel = np.arange(64) + 0.5
    dx = (pixel - (16 + 32 * x / 31))[None, :] / size
    dy = (pixel - (16 + 32 * y / 31))[:, None] / size
    u, v = np.cos(angle) * dx - np.sin(angle) * dy, np.sin(angle) * dx + np.cos(angle) * dy
    if shape == 0:
        return np.maximum(abs(u), abs(v)) <= 9.598
    if shape == 1:
        return (u / 12.765) ** 2 + (v / 7.215) ** 2 <= 1
    t = np.linspace(0, 1, 200)[:, None]
    a, b = (
        (1 - t) ** 3 * p[0] + 3 * t * (1 - t) ** 2 * p[1] + 3 * t**2 * (1 - t) * p[2] + t**3 * p[3]
        for p in np.array(
            [
                [[0, 9.71445], [1.219567, 4.805724], [10.214288, 1.415738], [9.564553, -4.773542]],
                [[9.564553, -4.773542], [8.677134, -10.203724], [1.716731, -11.331278], [0, -5.107036]],
            ]
        )
    )
    half = np.concatenate([a, b])
    outline = np.concatenate([half, half[::-1] * [-1, 1]])
    return Path(outline).contains_points(np.stack([u.ravel(), v.ravel()], axis=1)).reshape(64, 64)


def test_the_rule_holds_pixel_by_pixel(draw):
    drawn = np.asarray(draw(SOME))[..., 0] > 0
    ruled = np.stack([rule(*factors) for factors in np.asarray(SOME)])
    wrong = (drawn != ruled).sum((1, 2))
    heart = np.asarray(SOME)[:, 0] == 2
    # The heart's tabulated radii move single pixels at its edge; the other outlines are the rule itself.
    assert wrong[~heart].max() == 0
    assert wrong[heart].max() <= 3


def test_words_and_pixels_are_inverse():
    bits = np.random.default_rng(0).integers(0, 2, (5, 64, 64), dtype=np.uint8)
    np.testing.assert_array_equal(sprites.unpack(jnp.asarray(sprites.pack(bits))), bits)
    assert sprites.pack(np.eye(64, dtype=np.uint8))[40].tolist() == [0, 2**8]


def test_dtypes_and_axes(draw):
    floats = np.asarray(draw(SOME[:6].reshape(2, 3, 5)))
    assert floats.shape == (2, 3, 64, 64, 1)
    assert floats.dtype == np.float32
    assert set(np.unique(floats)) == {0, 1}
    _, bytes_ = jaxdis.data.dsprites(dtype="uint8")
    assert bytes_(SOME[:6]).dtype == np.uint8
    np.testing.assert_array_equal(bytes_(SOME[:6]), floats.reshape(6, 64, 64, 1) * 255)
    np.testing.assert_array_equal(draw(SOME[0]), floats[0, 0])


def test_bad_input_is_refused(tmp_path):
    _, render = jaxdis.data.dsprites()
    with pytest.raises(ValueError, match=r"factors: must have shape \[..., 5\], got \(3, 6\)"):
        render(jnp.zeros((3, 6), jnp.int32))
    with pytest.raises(ValueError, match="dtype: must be one of float32, uint8, got 'float16'"):
        jaxdis.data.dsprites(dtype="float16")
    with pytest.raises(FileNotFoundError, match="b331c4447a651c44bf5e8ae09022e230"):
        jaxdis.data.dsprites(source=tmp_path / "absent.npz")
