"""Teapots: their pictures against a rasterizer of triangles in NumPy, their gap, and files of the official form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import minimum_filter

import jaxdis
from jaxdis.data import _teapot as teapot
from jaxdis.data._teapot import CONTROL_POINTS

SPACE, RENDER = jaxdis.data.teapots(side=64)


@pytest.fixture(scope="module")
def draw():
    return jax.jit(RENDER)


def curve(points, t):
    """Points of a cubic Bézier curve by repeated interpolation (de Casteljau), ``[t, …]``."""
    t = t.reshape(-1, *(1,) * points.ndim)
    level = np.broadcast_to(points, (len(t), *points.shape))
    while level.shape[1] > 1:
        level = (1 - t) * level[:, :-1] + t * level[:, 1:]
    return level[:, 0]


def triangles(steps):
    """Corners ``[t, 3, 3]`` of the surface."""
    at = np.linspace(0, 1, steps + 1)
    grids = [curve(curve(patch, at).swapaxes(0, 1), at) for patch in CONTROL_POINTS]
    quads = [np.stack([g[:-1, :-1], g[1:, :-1], g[1:, 1:], g[:-1, 1:]], 2).reshape(-1, 4, 3) for g in grids]
    return np.concatenate([np.concatenate(quads)[:, [0, 1, 2]], np.concatenate(quads)[:, [0, 2, 3]]])


def rasterized(azimuth, elevation, side, steps=10, over=4):
    """Brightness by a depth buffer over flat triangles, with the camera of a look-at matrix."""
    corners = triangles(steps) - teapot.CENTER
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    size = np.linalg.norm(normal, axis=1)
    corners, normal = corners[size > 1e-9], (normal / np.maximum(size, 1e-9)[:, None])[size > 1e-9]
    # The camera at the front (−y) is raised, then carried around the z axis.
    lift = np.array([[1, 0, 0], [0, np.cos(elevation), np.sin(elevation)], [0, -np.sin(elevation), np.cos(elevation)]])
    turn = np.array([[np.cos(azimuth), -np.sin(azimuth), 0], [np.sin(azimuth), np.cos(azimuth), 0], [0, 0, 1]])
    frame = turn @ lift  # columns: right, into the picture, up
    eye = -teapot.DISTANCE * frame[:, 1]
    view = (corners - eye) @ frame
    n, focal = side * over, side * over / (2 * teapot.REACH)
    x, y = n / 2 + focal * view[..., 0] / view[..., 1], n / 2 - focal * view[..., 2] / view[..., 1]
    towards = np.sign((normal * (eye - corners[:, 0])).sum(1))
    shade = teapot.AMBIENT + teapot.SLOPE * towards * (normal @ teapot.LAMP)
    depth, image = np.full((n, n), np.inf), np.zeros((n, n))
    for px, py, pz, light in zip(x, y, view[..., 1], shade, strict=True):
        columns, rows = (np.arange(int(np.floor(p.min())), int(np.ceil(p.max())) + 1) for p in (px, py))
        grid = np.stack(np.meshgrid(columns + 0.5, rows + 0.5), -1) - [px[0], py[0]]
        base = np.array([[px[1] - px[0], px[2] - px[0]], [py[1] - py[0], py[2] - py[0]]])
        if abs(np.linalg.det(base)) < 1e-9:
            continue
        a, b = np.moveaxis(grid @ np.linalg.inv(base).T, -1, 0)
        far = pz[0] + a * (pz[1] - pz[0]) + b * (pz[2] - pz[0])
        place = np.ix_(rows, columns)
        nearer = (a >= 0) & (b >= 0) & (a + b <= 1) & (far < depth[place])
        depth[place] = np.where(nearer, far, depth[place])
        image[place] = np.where(nearer, light, image[place])
    return image.reshape(side, over, side, over).mean((1, 3))


@pytest.mark.parametrize(("azimuth", "elevation"), [(0.6, 0.3), (2.4, 1.1), (4.4, 0.02)])
def test_pictures_are_those_of_a_rasterizer(draw, azimuth, elevation):
    image = np.asarray(draw(jnp.array([azimuth, elevation, 1.0, 0.5, 0.0])))
    found, expected = image[..., 0], rasterized(azimuth, elevation, 64)
    # A point counts wherever it falls in a sample, a triangle only at its middle: outlines are half a sample wider.
    assert np.abs(found - expected).mean() < 0.015
    covered, wanted = found > 0.1, expected > 0.1
    assert (covered & wanted).sum() / (covered | wanted).sum() > 0.95
    inside = minimum_filter(expected, 3) > 0.1
    assert np.abs(found - expected)[inside].mean() < 0.03
    np.testing.assert_allclose(image[..., 1], 0.5 * found, atol=1e-6)
    assert not image[..., 2].any()


def test_handle_spout_and_lid_are_at_their_sides(draw):
    def extent(azimuth, elevation):
        rows, columns = np.nonzero(np.asarray(draw(jnp.array([azimuth, elevation, 1.0, 1, 1])))[..., 0])
        return columns.min() + columns.max() - 63, rows.min() + rows.max() - 63, rows, columns

    # The spout (3.43 long) reaches further than the handle (3), and higher.
    _, _, rows, columns = extent(0.0, 0.0)
    assert rows[columns == columns.max()].max() < rows[columns == columns.min()].min() + 2
    assert columns[rows == rows.min()].mean() == pytest.approx(31.5 - 0.2 * 64 / 7.2, abs=1)  # the knob on top
    _, _, rows, columns = extent(np.pi, 0.0)
    assert rows[columns == columns.min()].max() < rows[columns == columns.max()].min() + 2
    _, _, rows, columns = extent(1.5 * np.pi, np.pi / 2)  # from above, behind the handle: the spout points up
    assert np.ptp(rows) > 1.4 * np.ptp(columns)
    assert len(np.unique(columns[rows <= rows.min() + 3])) < len(np.unique(columns[rows >= rows.max() - 1])) + 3


def test_there_are_no_holes(draw, monkeypatch):
    """Where four times as many points give a smooth surface, these points leave no sample of it empty."""
    factors = SPACE.sample(jax.random.key(0), 20).at[:, 2:].set(1.0)
    shade = np.asarray(draw(factors))[..., 0]
    monkeypatch.setattr(teapot, "_DENSITY", 2 * teapot._DENSITY)
    teapot.lit_surface.cache_clear()
    jax.clear_caches()
    dense = np.asarray(jax.jit(lambda rows: jaxdis.data.teapots(side=64)[1](rows))(factors))[..., 0]
    teapot.lit_surface.cache_clear()
    jax.clear_caches()
    assert (dense != shade).any()
    around = np.stack([np.roll(dense, (i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)])
    smooth = (around.min(0) > 0) & (around.max(0) - around.min(0) < 0.1)
    assert smooth.mean() > 0.05
    # One of the four samples of a pixel that shows the background or the far side would change it by a fifth or so.
    assert (np.abs(shade - dense)[smooth] > 0.05).mean() < 0.003


@pytest.mark.parametrize(("rule", "share"), [("printed", 0.18), ("released", 0.1024)])
def test_the_gap_has_its_share_of_the_space(rule, share):
    gap = teapot.Gap(rule)
    # ½ · ∫ P(red > green + .15 …): .5 · .85²/2 and .5 · .85³/3.
    exact = {"printed": 0.5 * 0.85**2 / 2, "released": 0.5 * 0.85**3 / 3}[rule]
    assert exact == pytest.approx(share, abs=1e-3)
    inside = np.asarray(gap(SPACE.sample(jax.random.key(2), 40_000))).mean()
    assert abs(inside - exact) < 5 * np.sqrt(exact / 40_000)
    assert not gap(SPACE.outside(gap).sample(jax.random.key(3), 500)).any()
    assert gap(SPACE.inside(gap).sample(jax.random.key(3), 500)).all()


@pytest.fixture
def official(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 64, 64, 3)).astype(np.int32)
    factors = rng.uniform(0, [2 * np.pi, np.pi / 2, 1, 1, 1], (40, 5))
    np.savez(tmp_path / "teapots.npz", images=images, gts=factors)
    return tmp_path / "teapots.npz", images, factors


def test_the_official_file_gives_its_images(official):
    path, images, factors = official
    space, render = jaxdis.data.teapots(path, dtype="uint8")
    assert render.source == "file:teapots.npz"
    drawn = space.sample(jax.random.key(0), 400)
    rows = np.abs(np.asarray(drawn)[:, None] - factors[None].astype(np.float32)).sum(-1).argmin(1)
    assert set(rows) == set(range(40))
    np.testing.assert_array_equal(render(drawn), images[rows])
    gap = teapot.Gap()
    assert not gap(space.outside(gap).sample(jax.random.key(1), 300)).any()
    held_out, _ = jaxdis.data.teapots(path, part="test")
    assert set(np.asarray(held_out.sample(jax.random.key(1), 200))[:, 0]) == set(factors[36:, 0].astype(np.float32))
    assert space == jaxdis.data.teapots(path)[0] != held_out
    for refused in (lambda: space.fix(jax.random.key(0), 0, 2), lambda: space.only({"red": 0.5})):
        with pytest.raises(ValueError, match="must be called on a data set that is rendered"):
            refused()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda images, factors: (images[:, :32], factors), r"holds images \(40, 32, 64, 3\); needs \[n, 64, 64, 3\]"),
        (lambda images, factors: (images + 1, factors), "int32 pixels 1 to 256; needs whole numbers 0 to 255"),
        (lambda images, factors: (images, factors[:, :4]), r"holds factors \(40, 4\)"),
        (lambda images, factors: (images, factors + 1), "holds azimuth from .* needs 0 to 6.28"),
    ],
)
def test_a_file_that_is_not_of_teapots_is_refused(official, change, words):
    path, images, factors = official
    images, factors = change(images, factors)
    np.savez(path, images=images, gts=factors)
    with pytest.raises(ValueError, match=words):
        jaxdis.data.teapots(path)
