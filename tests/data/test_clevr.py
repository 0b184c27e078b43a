"""CLEVR6: the camera against a published scene, pictures against a ray caster of scalars, and what light does."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import jaxdis.data
from jaxdis.data import _clevr_render as clevr
from jaxdis.data._clevr_render import Draw, View

GRAY, RED, BLUE, GREEN = (np.array(color) / 255 for color in clevr.PALETTE[:4])
CUBE, BALL, CYLINDER = range(3)
RUBBER, METAL = range(2)
SMALL, LARGE = range(2)
VIEW = View(32, "degrees", min_objects=1)


def row(*objects, moved=None):
    """Factors of a scene from (color, shape, material, size, rotation, x, y)."""
    head = [len(objects) - 1, *([] if moved is None else np.ravel(moved))]
    absent = np.zeros(9 * (4 - len(objects)))  # rows of one length are drawn by one program
    return np.array([*head, *(value for color, *rest in objects for value in (*color, *rest)), *absent], np.float32)


SCENE = row(
    (RED, CUBE, METAL, LARGE, 30, 0.9, -1.2),
    (BLUE, BALL, RUBBER, LARGE, 0, -1.2, -0.6),
    (GREEN, CYLINDER, METAL, SMALL, 0, 0.2, 0.9),
    (GRAY, BALL, METAL, SMALL, 0, 2.1, 0.1),
    moved=np.array([[0.3, -0.2, 0.1], [0.5, -0.8, 0.2], [0.0, 0.4, -0.3], [-0.6, 0.1, 0.7]]),
)


frame, camera_rays = jax.jit(clevr.frame), jax.jit(clevr.camera_rays, static_argnums=1)


@functools.cache
def compiled(of):
    return jax.jit(of.image if isinstance(of, Draw) else of.mask)


def drawn(of, factors):
    return np.asarray(compiled(of)(jnp.asarray(factors)))


def linear(picture):
    return np.where(picture <= 0.04045, picture / 12.92, ((picture + 0.055) / 1.055) ** 2.4)


# ---- the camera ------------------------------------------------------------------------------------------------------


# The first validation scene of CLEVR 1.0 (Johnson et al. 2017, CC BY 4.0), whose pictures have 480 × 320 pixels: the
# centers of objects; their column, row and depth; and two directions on the ground.
PUBLISHED = np.array(
    [
        [-1.4937210083007812, -1.9936031103134155, 0.699999988079071],
        [1.555708646774292, -2.104736566543579, 0.699999988079071],
        [-2.342184543609619, -0.5205014944076538, 0.3499999940395355],
        [-0.8073106408119202, 1.914123773574829, 0.699999988079071],
        [2.6763813495635986, 0.03453871235251427, 0.3499999940395355],
    ]
)
SEEN = np.array(
    [
        [119, 131, 10.801968574523926],
        [198, 190, 8.60103988647461],
        [161, 118, 12.372727394104004],
        [282, 100, 12.495001792907715],
        [337, 195, 9.161211967468262],
    ]
)
RIGHT, BEHIND = [0.6563112735748291, 0.7544902563095093], [-0.754490315914154, 0.6563112735748291]


def pixel(points, eye, side):
    """(row, column) in the crop where points are seen; the center of the first pixel is at (0.5, 0.5)."""
    right, up, into = np.asarray(frame(-eye)) @ (np.asarray(points) - np.asarray(eye)).T
    scale = clevr.PICTURE[1] / 2 / clevr.HALF_WIDTH
    row, column = clevr.PICTURE[0] / 2 - scale * up / into, clevr.PICTURE[1] / 2 + scale * right / into
    return np.stack([row - clevr.CROP_TOP, column - clevr.CROP_LEFT], 1) * (side / clevr.CROP_SIDE)


def test_the_camera_sees_a_published_scene_where_it_was_seen():
    """The place of the camera, which was moved at random, is fitted: three numbers to fifteen."""

    def seen(eye):
        eye = jnp.asarray(eye, jnp.float32)
        found = pixel(PUBLISHED, eye, clevr.CROP_SIDE)
        row, column = found.T + np.array([[clevr.CROP_TOP], [clevr.CROP_LEFT]])
        depth = np.asarray((PUBLISHED - np.asarray(eye)) @ np.asarray(frame(-eye)[2]))
        return np.stack([1.5 * column, 160 + 1.5 * (row - 120), depth], 1)

    # Pixels are whole numbers; a difference step of 0.01 is above the rounding of float32.
    fit = least_squares(lambda eye: ((seen(eye) - SEEN) / [1, 1, 0.02]).ravel(), clevr.CAMERA, diff_step=1e-3)
    assert np.abs(fit.x - clevr.CAMERA).max() < 0.5
    away = np.abs(seen(fit.x) - SEEN)
    assert away[:, :2].max() < 0.5
    assert away[:, 2].max() < 5e-3
    # The directions are those of the camera before it was moved.
    np.testing.assert_allclose(clevr._axes(), [RIGHT, BEHIND], atol=1e-6)


def test_rays_pass_through_the_pixels_where_points_are_seen():
    eye = jnp.asarray(clevr.CAMERA)
    rays = np.stack([np.asarray(ray) for ray in camera_rays(eye, 16)], 1)
    np.testing.assert_allclose(np.linalg.norm(rays, axis=1), 1, atol=1e-6)
    points = clevr.CAMERA + 7 * rays
    centers = np.stack(np.mgrid[:16, :16], -1).reshape(-1, 2) + 0.5
    np.testing.assert_allclose(pixel(points, eye, 16), centers, atol=1e-4)


# ---- a ray caster of scalars -----------------------------------------------------------------------------------------


def corner(place, angle, size, x, y, z):
    c, s = np.cos(angle), np.sin(angle)
    return place + size * np.array([c * x - s * y, s * x + c * y, z])


def hits_cube(start, ray, place, angle, size):
    """Each of the six faces is a square."""
    axes = [corner(0, angle, 1, *axis) for axis in np.eye(3)]
    for axis, others in ((axes[0], axes[1:]), (axes[1], axes[::2]), (axes[2], axes[:2])):
        for sign in (-1, 1):
            normal = sign * axis
            if normal @ ray < 0:
                t = (size - normal @ (start - place)) / (normal @ ray)
                point = start + t * ray - place
                if all(abs(other @ point) <= size for other in others):
                    yield t, normal


def hits_ball(start, ray, place, size):
    middle = (place - start) @ ray
    off = np.linalg.norm(start + middle * ray - place)
    if off < size:
        t = middle - np.sqrt(size**2 - off**2)
        yield t, (start + t * ray - place) / size


def hits_cylinder(start, ray, place, size):
    flat = np.hypot(ray[0], ray[1])
    if flat > 0:
        roots = np.roots([flat**2, 2 * (start - place)[:2] @ ray[:2], np.sum((start - place)[:2] ** 2) - size**2])
        t = roots.real.min() if np.isreal(roots).all() else np.inf
        point = start + t * ray - place if np.isfinite(t) else np.full(3, np.inf)
        if abs(point[2]) <= size:
            yield t, np.array([point[0], point[1], 0]) / size
    t = (place[2] - np.sign(ray[2]) * size - start[2]) / ray[2]
    point = start + t * ray - place
    if np.hypot(point[0], point[1]) <= size:
        yield t, np.array([0, 0, -np.sign(ray[2])])


def first_hit(objects, start, ray, ground=True):
    """(t, normal, object or None) of the nearest surface; t is infinite for the sky."""
    best = (np.inf, None, None)
    if ground and ray[2] < 0:
        best = (-start[2] / ray[2], np.array([0, 0, 1.0]), None)
    for thing in objects:
        _, shape, _, size, angle, x, y = thing
        size = clevr.SIZES[int(size)]
        place = np.array([x, y, size])
        found = {
            CUBE: lambda: hits_cube(start, ray, place, np.radians(angle), size),  # noqa: B023
            BALL: lambda: hits_ball(start, ray, place, size),  # noqa: B023
            CYLINDER: lambda: hits_cylinder(start, ray, place, size),  # noqa: B023
        }[int(shape)]()
        for t, normal in found:
            if 0 < t < best[0]:
                best = (t, normal, thing)
    return best


def seen_along(objects, lamps, start, ray, *, bounce, depth=0):
    t, normal, thing = first_hit(objects, start, ray)
    if not np.isfinite(t):
        return np.zeros(3)
    point = start + t * ray
    clear = point + clevr._CLEAR * normal
    matte, gloss, shine = np.zeros(3), np.zeros(3), np.zeros(3)
    for place, power, is_sun in lamps:
        to = (place - clear) / np.linalg.norm(place - clear)
        distance = np.linalg.norm(place - clear)
        if normal @ to <= 0 or first_hit(objects, clear, to, ground=False)[0] < distance:
            continue
        aimed = 1 if is_sun else max(to @ place / np.linalg.norm(place), 0) / distance**2
        half = (to - ray) / np.linalg.norm(to - ray)
        matte += power * aimed * (normal @ to)
        gloss += power * aimed * clevr._RUBBER_GLOSS * (normal @ half) ** clevr._RUBBER_POWER
        shine += power * aimed * clevr._METAL_GLOSS * (normal @ half) ** clevr._METAL_POWER
    if thing is None:
        return clevr.GROUND * matte
    color, metal = np.array(thing[0]), thing[2] > 0
    if not metal:
        return color * matte + gloss
    if depth or not bounce:
        return color * (matte + shine)
    away = ray - 2 * (ray @ normal) * normal
    mirrored = seen_along(objects, lamps, clear, away, bounce=bounce, depth=1)
    share = clevr._METAL_MATTE
    return color * (share * matte + (1 - share) * mirrored + shine)


def cast(factors, side, bounce):
    moved, objects = factors[1:13].reshape(4, 3).astype(float), factors[13:].reshape(-1, 9).astype(float)
    objects = [(thing[:3], *thing[3:]) for thing in objects]
    eye = clevr.CAMERA + moved[0]
    lamps = [
        (place + move, power * color / (4 * np.pi), False)
        for place, move, power, color in zip(
            clevr.LAMPS.astype(float), moved[1:], clevr.LAMP_POWERS, clevr.LAMP_COLORS, strict=True
        )
    ]
    ax, ay, az = clevr._SUN_ANGLES
    turns = (
        np.array([[np.cos(az), -np.sin(az), 0], [np.sin(az), np.cos(az), 0], [0, 0, 1]]),
        np.array([[np.cos(ay), 0, np.sin(ay)], [0, 1, 0], [-np.sin(ay), 0, np.cos(ay)]]),
        np.array([[1, 0, 0], [0, np.cos(ax), -np.sin(ax)], [0, np.sin(ax), np.cos(ax)]]),
    )
    sun = functools.reduce(np.matmul, turns) @ [0, 0, 1]
    lamps.append((100 * sun, clevr.SUN_STRENGTH / np.pi * np.ones(3), True))
    into = -eye / np.linalg.norm(eye)
    right = np.array([into[1], -into[0], 0]) / np.hypot(into[0], into[1])
    up = np.cross(right, into)
    image = np.zeros((side, side, 3))
    for i, j in np.ndindex(side, side):
        row, column = 29 + (i + 0.5) * 192 / side, 64 + (j + 0.5) * 192 / side
        ray = into + 16 / 35 * ((column - 160) / 160 * right + (120 - row) / 160 * up)
        image[i, j] = seen_along(objects, lamps, eye, ray / np.linalg.norm(ray), bounce=bounce)
    return np.clip(image, 0, 1)


@pytest.mark.parametrize("bounce", [False, True])
def test_pictures_are_those_of_a_ray_caster_of_scalars(bounce):
    expected = cast(SCENE, 32, bounce)
    found = linear(drawn(Draw(VIEW, bounce), SCENE))
    # Rounding moves outlines, edges of shadows and of what is mirrored by less than a pixel: few pixels differ. A
    # highlight is the 150th power of a cosine, whose error of 1e-6 near outlines is that of float32.
    wrong = (np.abs(found - expected) > 1e-3).any(-1)
    assert wrong.mean() < 0.01
    mask = drawn(VIEW, SCENE)
    assert np.bincount(mask.ravel(), minlength=5).min() > 10
    assert all(wrong[mask == number].mean() < 0.1 for number in range(5))


# ---- masks -----------------------------------------------------------------------------------------------------------


def test_the_nearer_object_hides_the_farther_in_any_order():
    ray = clevr.CAMERA[:2] / np.linalg.norm(clevr.CAMERA[:2])
    near, far = ((RED, BALL, RUBBER, LARGE, 0, *(at * ray)) for at in (1.5, -0.2))
    first, second = drawn(VIEW, row(near, far)), drawn(VIEW, row(far, near))
    np.testing.assert_array_equal(first, np.array([0, 2, 1])[second])
    alone = [drawn(VIEW, row(thing)) > 0 for thing in (near, far)]
    np.testing.assert_array_equal(first == 1, alone[0])
    np.testing.assert_array_equal(first == 2, alone[1] & ~alone[0])
    assert (alone[0] & alone[1]).any()


def test_masks_hold_every_object_of_a_scene_once_and_absent_ones_never():
    assert set(np.unique(drawn(VIEW, SCENE))) == {0, 1, 2, 3, 4}
    fewer = SCENE.copy()
    fewer[0] = 1
    assert set(np.unique(drawn(VIEW, fewer))) == {0, 1, 2}
    np.testing.assert_array_equal(np.asarray(VIEW.masks(jnp.asarray([SCENE, fewer])))[1], drawn(VIEW, fewer))


@pytest.mark.parametrize("shape", [CUBE, BALL, CYLINDER])
def test_a_large_object_covers_four_times_the_pixels_of_a_small_one(shape):
    view = dataclasses.replace(VIEW, side=96)
    small, large = (int((drawn(view, row((RED, shape, RUBBER, size, 20, 0, 0))) > 0).sum()) for size in (SMALL, LARGE))
    # The large one's middle is higher and nearer to the camera by 2 % of its distance.
    assert large / small == pytest.approx(4, rel=0.08)


def test_rotation_is_in_radians_as_released_and_round_solids_do_not_turn():
    released = dataclasses.replace(VIEW, rotation="released")
    cube, ball, can = ([row((RED, shape, RUBBER, LARGE, angle, 0, 0)) for angle in (0, 57, 1)] for shape in range(3))
    degrees = np.degrees(57) % 360
    np.testing.assert_array_equal(drawn(released, cube[1]), drawn(VIEW, row((RED, CUBE, RUBBER, LARGE, degrees, 0, 0))))
    assert (drawn(released, cube[0]) != drawn(released, cube[2])).any()
    for rows in (ball, can):
        np.testing.assert_array_equal(drawn(released, rows[0]), drawn(released, rows[2]))


def test_the_camera_moves_outlines_and_lamps_move_light():
    still, moved_lamp, moved_camera = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((4, 3))
    moved_lamp[1], moved_camera[0] = [-1, -1, -1], [0.5, -0.5, 0.5]
    scene = (RED, CUBE, RUBBER, LARGE, 20, 0.4, 0.7)
    base, lamp, camera = (row(scene, moved=moved) for moved in (still, moved_lamp, moved_camera))
    draw = Draw(VIEW, bounce=False)
    np.testing.assert_array_equal(drawn(VIEW, base), drawn(VIEW, row(scene)))
    np.testing.assert_array_equal(drawn(VIEW, base), drawn(VIEW, lamp))
    assert np.abs(drawn(draw, base) - drawn(draw, lamp)).max() > 0.02
    assert (drawn(VIEW, base) != drawn(VIEW, camera)).any()


# ---- light -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("color", clevr.PALETTE)
def test_rubber_shows_its_color_as_linear_light(color):
    """A color c of the palette multiplies matte light by c/255; gloss is white."""
    draw = Draw(VIEW, bounce=False)
    color = np.array(color) / 255
    black, white, seen = (
        linear(drawn(draw, row((c, BALL, RUBBER, LARGE, 0, 0, 0)))) for c in (np.zeros(3), np.ones(3), color)
    )
    np.testing.assert_allclose(seen, black + color * (white - black), atol=2e-5)
    inside = drawn(VIEW, row((color, BALL, RUBBER, LARGE, 0, 0, 0))) > 0
    np.testing.assert_allclose(seen[~inside], white[~inside], atol=1e-6)


def test_brightness_follows_colors_and_lamps():
    """Balls are as bright, one to another, as their colors, and brightest on the side of the strongest lamp."""
    inside = drawn(VIEW, row((RED, BALL, RUBBER, LARGE, 0, 0, 0))) > 0
    draw = Draw(VIEW, bounce=False)
    balls = [linear(drawn(draw, row((np.array(c) / 255, BALL, RUBBER, LARGE, 0, 0, 0)))) for c in clevr.PALETTE]
    seen, colors = (np.array([np.mean(ball[inside]) for ball in balls]), np.mean(clevr.PALETTE, 1))
    assert (seen.argsort() == colors.argsort(kind="stable")).all()
    # The key lamp is to the right of the camera, the weaker fill lamp to its left.
    columns = np.nonzero(inside)[1]
    light = balls[0].mean(-1)[inside]
    assert light[columns > columns.mean()].mean() > 1.1 * light[columns < columns.mean()].mean()


def test_metal_is_the_only_material_with_sharp_highlights():
    pictures = [linear(drawn(Draw(VIEW), row((GRAY, BALL, material, LARGE, 0, 0, 0)))) for material in (RUBBER, METAL)]
    inside = drawn(VIEW, row((GRAY, BALL, RUBBER, LARGE, 0, 0, 0))) > 0
    peaks = [picture[inside].max() / np.median(picture[inside]) for picture in pictures]
    assert peaks[0] < 2.5
    assert peaks[1] > 3.5


# ---- the data set ----------------------------------------------------------------------------------------------------


def test_pictures_alone_in_batches_and_compiled_are_the_same():
    draw = Draw(VIEW)
    rows = jnp.stack([jnp.asarray(SCENE), jnp.asarray(SCENE).at[0].set(1), jnp.asarray(SCENE).at[20].add(0.5)])
    batch = jax.jit(lambda rows: draw((), rows))
    together = np.asarray(batch(rows))
    np.testing.assert_array_equal(together, batch(rows))
    np.testing.assert_array_equal(together[1], batch(rows[1:2])[0])
    alone = np.stack([drawn(draw, of) for of in rows])
    # Another order of operations moves highlights and pixels on outlines.
    for others in (alone, jax.jit(jax.vmap(draw.image))(rows)):
        assert (np.abs(together - np.asarray(others)) > 1e-4).any(-1).mean() < 0.005


def test_several_rays_a_pixel_are_averaged_as_light():
    fine = linear(drawn(Draw(dataclasses.replace(VIEW, side=32), bounce=False), SCENE))
    coarse = linear(drawn(Draw(dataclasses.replace(VIEW, side=16), bounce=False, supersampled=2), SCENE))
    np.testing.assert_allclose(coarse, fine.reshape(16, 2, 16, 2, 3).mean((1, 3)), atol=1e-5)


def test_the_data_set_draws_as_it_says():
    space, render = jaxdis.data.clevr6(2, 1, side=16, bounce=False, jitter=False, rotation="degrees", dtype="uint8")
    assert space.num_factors == 1 + 2 * 9
    assert space.names[1:10] == tuple(f"object_1_{name}" for name in clevr.OBJECT_FACTORS)
    factors = jnp.asarray(row((RED, BALL, METAL, LARGE, 0, 0, 0), (BLUE, CUBE, RUBBER, SMALL, 0, 2, 0)))[None, :19]
    view = View(16, "degrees", 1)
    assert (space.view, render.draw) == (view, Draw(view, bounce=False))
    np.testing.assert_allclose(render(factors)[0], np.round(255 * drawn(render.draw, factors[0])), atol=1)
    np.testing.assert_array_equal(space.masks(factors)[0], drawn(view, factors[0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jaxdis.data.clevr6(7), "max_objects: must be 1 ≤ min_objects ≤ max_objects ≤ 6, got 3 and 7"),
        (lambda: jaxdis.data.clevr6(rotation="radians"), "rotation: must"),
        (lambda: jaxdis.data.clevr6(side=0), "side: must"),
        (lambda: jaxdis.data.clevr6(colors="all"), "colors: must"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
