"""dSprites: the official lattice, the published frames, and the pixel rule derived again without any shortcut."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis.data
from jaxdis.data import _sprites as sprites

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "dsprites_frames.json").read_text())
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
    """The pixel rule in float64 over all 64 × 64 pixels; the heart by winding about its curve, not by its radii."""
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
    away = np.arctan2(outline[:, 1, None, None] - v, outline[:, 0, None, None] - u)
    turns = np.diff(np.concatenate([away, away[:1]]), axis=0)
    return np.abs(((turns + np.pi) % (2 * np.pi) - np.pi).sum(0)) > np.pi


def test_the_rule_holds_pixel_by_pixel(draw):
    drawn = np.asarray(draw(SOME))[..., 0] > 0
    ruled = np.stack([rule(*factors) for factors in np.asarray(SOME)])
    wrong = (drawn != ruled).sum((1, 2))
    heart = np.asarray(SOME)[:, 0] == 2
    # The heart's tabulated radii move single pixels at its edge; the other outlines are the rule itself.
    assert wrong[~heart].max() == 0
    assert wrong[heart].max() <= 3


def test_orientations_0_and_39_coincide(draw):
    factors = np.array([[a, b, 0, x, y] for a in range(3) for b in range(6) for x in (0, 13, 31) for y in (0, 7, 31)])
    np.testing.assert_array_equal(draw(jnp.array(factors)), draw(jnp.array(factors + [0, 0, 39, 0, 0])))
    assert (np.asarray(draw(jnp.array(factors))) != np.asarray(draw(jnp.array(factors + [0, 0, 1, 0, 0])))).any()


def test_no_sprite_touches_the_border(draw):
    corners = np.array([[a, 5, o, x, y] for a in range(3) for o in range(40) for x in (0, 31) for y in (0, 31)])
    drawn = np.asarray(draw(jnp.array(corners)))
    assert drawn[:, [0, -1]].sum() == 0
    assert drawn[:, :, [0, -1]].sum() == 0


def test_position_moves_the_center_right_and_down(draw):
    factors = np.array([[0, 5, 0, x, y] for x, y in ((0, 0), (31, 0), (0, 31))])
    drawn = np.asarray(draw(jnp.array(factors)))[..., 0]
    row, column = np.mgrid[0:64, 0:64] + 0.5
    centers = [((image * column).sum() / image.sum(), (image * row).sum() / image.sum()) for image in drawn]
    np.testing.assert_allclose(centers, [(16, 16), (48, 16), (16, 48)], atol=1e-4)


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


def test_jit_eager_and_vmap_agree_and_equal_renders_share_a_trace():
    _, render = jaxdis.data.dsprites()
    _, again = jaxdis.data.dsprites()
    eager = render(SOME[:4])
    np.testing.assert_array_equal(jax.vmap(render)(SOME[:4]), eager)
    traced = []
    call = jax.jit(lambda render, factors: (traced.append(1), render(factors))[1], static_argnums=0)
    np.testing.assert_array_equal(call(render, SOME[:4]), eager)
    np.testing.assert_array_equal(call(again, SOME[:4]), eager)
    assert len(traced) == 1


def test_bad_input_is_refused(tmp_path):
    _, render = jaxdis.data.dsprites()
    with pytest.raises(ValueError, match=r"factors: must have shape \[..., 5\], got \(3, 6\)"):
        render(jnp.zeros((3, 6), jnp.int32))
    with pytest.raises(ValueError, match="dtype: must be one of float32, uint8, got 'float16'"):
        jaxdis.data.dsprites(dtype="float16")
    with pytest.raises(FileNotFoundError, match="b331c4447a651c44bf5e8ae09022e230"):
        jaxdis.data.dsprites(source=tmp_path / "absent.npz")
