"""Scenes of CLEVR6: the rules by which they are drawn, whatever is held, fixed, left out or near a center."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare, kstest

import jaxdis
from jaxdis.data import DATASETS
from jaxdis.data import _clevr_render as clevr
from jaxdis.data._clevr_render import View

KEY = jax.random.key(0)
SPACE = clevr.space(view=View(side=192))
FEW = clevr.space(3, 1, jitter=False, view=View(side=24, rotation="degrees"))
LEVEL = np.arange(6) / 5


def objects_of(rows, space=SPACE):
    """``[n, o, 9]`` and the number of objects of each scene."""
    rows = np.asarray(rows)
    first = rows.shape[1] - 9 * sum(name.endswith("_rotation") for name in space.names)
    return rows[:, first:].reshape(len(rows), -1, 9), rows[:, 0].astype(int) + int(space.values[0][0])


def follow_the_rules(rows, space=SPACE):
    """Gaps and margins of the released code, in its own form: for each object, those before it."""
    behind = -np.asarray(clevr.CAMERA[:2]) / np.linalg.norm(clevr.CAMERA[:2])
    directions = [behind, -behind, [behind[1], -behind[0]], [-behind[1], behind[0]]]
    for objects, count in zip(*objects_of(rows, space), strict=True):
        for i in range(count):
            for j in range(i):
                away = objects[i, 7:] - objects[j, 7:]
                sizes = sum(clevr.SIZES[int(objects[k, 5])] for k in (i, j))
                if np.hypot(*away) - sizes < 0.25 - 1e-5:
                    return False
                if any(0 < away @ direction < 0.4 - 1e-5 for direction in directions):
                    return False
    return True


@pytest.fixture(scope="module")
def scenes():
    return np.asarray(jax.jit(lambda key: SPACE.sample(key, 1000))(KEY))


def test_a_thousand_scenes_follow_the_rules(scenes):
    assert follow_the_rules(scenes)
    assert not follow_the_rules(np.concatenate([scenes[:, :-9], scenes[:, -18:-9]], 1)[scenes[:, 0] == 3])
    assert np.asarray(jax.jit(SPACE.allowed)(scenes)).all()
    objects, count = objects_of(scenes)
    here = np.arange(6)[None] < count[:, None]
    assert np.abs(objects[..., 7:]).max() <= 3
    colors = np.unique(objects[..., :3].reshape(-1, 3), axis=0)
    np.testing.assert_allclose(colors, np.unique(np.array(clevr.PALETTE) / 255, axis=0), atol=1e-7)
    masks = np.asarray(jax.jit(SPACE.masks)(scenes[:100]))
    pixels = (masks[..., None] == np.arange(1, 7)).sum((1, 2))
    # 22.2 of a ninth of the pixels are needed, of which an outline's share is uncertain.
    assert pixels[here[:100]].min() > 150
    assert (pixels[~here[:100]] == 0).all()


def test_what_the_rules_do_not_concern_is_uniform(scenes):
    objects, count = objects_of(scenes)
    assert chisquare(np.bincount(count)[3:]).pvalue > 1e-3
    assert kstest(scenes[:, 1], "uniform", (-0.5, 1)).pvalue > 1e-3
    assert kstest(scenes[:, 5], "uniform", (-1, 2)).pvalue > 1e-3
    shown = objects[np.arange(6)[None] < count[:, None]]
    for column, size in ((3, 3), (4, 2)):
        share = np.bincount(shown[:, column].astype(int), minlength=size) / len(shown)
        np.testing.assert_allclose(share, 1 / size, atol=0.04)
    assert kstest(shown[:, 6], "uniform", (0, 360)).pvalue > 1e-3
    # Large objects find less room, and small ones are more often hidden.
    assert 0.4 < shown[:, 5].mean() < 0.6


def test_scenes_that_are_drawn_together_are_those_drawn_alone(monkeypatch):
    """An accelerator draws batches, in which finished scenes wait for the last."""
    alone = np.asarray(FEW.sample(KEY, 10))
    monkeypatch.setattr(clevr, "one_by_one", lambda function, rows: jax.lax.map(function, rows, batch_size=4))
    np.testing.assert_allclose(FEW.sample(KEY, 10), alone, atol=1e-5)


def test_evaluation_has_all_objects_in_colors_of_the_levels():
    space = SPACE.complete()
    rows = np.asarray(jax.jit(lambda key: space.sample(key, 200))(KEY))
    objects, count = objects_of(rows)
    assert (count == 6).all()
    assert follow_the_rules(rows)
    found, shares = np.unique(np.round(objects[..., :3], 4), return_counts=True)
    np.testing.assert_allclose(found, LEVEL, atol=1e-4)
    assert chisquare(shares).pvalue > 1e-3


def test_local_groups_follow_table_7():
    space = SPACE.complete()
    radius = clevr.radius(space)
    draw = jax.jit(lambda key: space.local_groups(key, radius, groups=3, samples=60))
    rows = np.asarray(draw(KEY))
    assert follow_the_rules(rows)
    objects, count = objects_of(rows)
    assert (count == 6).all()
    groups = objects.reshape(3, 60, 6, 9)
    spread = np.ptp(groups, axis=1)
    assert (spread[..., 7:] <= 1.4 + 1e-5).all()
    assert (spread[..., 7:] > 0.1).all()
    assert spread[..., :3].max() < 0.4 + 1e-5
    assert np.isclose(groups[..., :3, None], LEVEL, atol=1e-5).any(-1).all()
    assert (np.round(spread[..., :3] * 5) >= 1).all()
    for column, free in ((3, 2), (4, 1), (5, 1)):
        assert (spread[..., column] == free).all()
    assert (spread[..., 6] > 200).all()
    # Groups differ from one another.
    assert (np.ptp(groups.mean(1)[..., 7:], axis=0) > 1.4).any()


def test_neighborhoods_of_other_factors():
    turning = {"object_1_rotation": 20.0, "object_2_size": 0, "object_1_x": 0.3}
    space = FEW.only({"object_1_rotation": 5.0, "object_2_size": 1})
    center = np.asarray(space.local_group(KEY, 40, turning))
    assert (center[:, FEW.position("object_1_rotation")] == 5).all()
    assert (center[:, FEW.position("object_2_size")] == 1).all()
    rows = np.asarray(FEW.local_group(KEY, 40, turning))
    assert len(np.unique(rows[:, FEW.position("object_2_size")])) == 1
    assert np.ptp(rows[:, FEW.position("object_1_x")]) <= 0.6
    angle = np.radians(rows[:, FEW.position("object_1_rotation")])
    middle = np.angle(np.exp(1j * angle).mean())
    assert np.abs(np.angle(np.exp(1j * (angle - middle)))).max() < np.radians(40)
    assert 0 <= angle.min() <= angle.max() <= 2 * np.pi
    # Colors of the palette have no neighbors: they remain colors of the palette.
    colors = objects_of(rows, FEW)[0][..., :3].reshape(-1, 1, 3)
    assert np.isclose(colors, np.array(clevr.PALETTE) / 255).all(-1).any(-1).all()


@pytest.mark.parametrize("factor", ["num_objects", "object_1_x", "object_2_shape", "object_1_red"])
def test_a_held_factor_has_one_value_and_scenes_follow_the_rules(factor):
    place = jnp.int32(FEW.position(factor))
    rows = np.asarray(_fixed(KEY, place))
    assert len(np.unique(rows[:, int(place)])) == 1
    assert follow_the_rules(rows, FEW)
    others = np.arange(FEW.num_factors) != int(place)
    assert (np.ptp(rows, axis=0)[others] > 0).all()


_fixed = jax.jit(lambda key, place: FEW.fix(key, place, 40))


def not_left(factors):
    return factors[:, FEW.position("object_1_x")] > 0


def test_fixed_values_regions_and_combinations():
    space = FEW.only({"object_1_x": 0.25, "object_2_red": 0.5, "num_objects": 2})
    rows = np.asarray(space.sample(KEY, 40))
    assert (rows[:, FEW.position("object_1_x")] == np.float32(0.25)).all()
    assert (rows[:, FEW.position("object_2_red")] == 0.5).all()
    assert follow_the_rules(rows, FEW)
    half = dataclasses.replace(FEW, regions=(not_left,))
    assert (np.asarray(half.sample(KEY, 60))[:, FEW.position("object_1_x")] <= 0).all()
    without = FEW.without({"object_1_shape": 0, "object_1_size": 1})
    shape, size = (np.asarray(without.sample(KEY, 200))[:, FEW.position(f"object_1_{n}")] for n in ("shape", "size"))
    assert not ((shape == 0) & (size == 1)).any()
    assert len(np.unique(2 * shape + size)) == 5
    with pytest.raises(ValueError, match="local_group: must be a space without"):
        half.local_group(KEY, 3, {})


def test_what_cannot_be_placed_is_returned_after_the_last_try(monkeypatch):
    monkeypatch.setattr("jaxdis.data._factor_space.MOST_REDRAWS", 20)
    both = {f"object_{i}_{axis}": 1.0 for i in (1, 2) for axis in "xy"}
    rows = FEW.only({**both, "num_objects": 2}).sample(KEY, 2)
    assert np.isfinite(np.asarray(rows)).all()
    assert not np.asarray(FEW.allowed(rows)).any()


def test_rules_ask_for_pixels_that_are_seen():
    """Two objects behind one another: both are apart, and the farther is hidden but for a rest."""
    ray = clevr.CAMERA[:2] / np.linalg.norm(clevr.CAMERA[:2])
    side = np.array([ray[1], -ray[0]])
    near, hidden, beside = 2.4 * ray, 0.6 * ray + 0.41 * side, -0.5 * ray + 1.9 * side

    def scene(place):
        one = [1, 0, 0, 1, 0, 1, 0, *near]
        other = [0, 1, 0, 1, 0, 0, 0, *place]
        return np.array([1, *one, *other, *other], np.float32)

    rows = np.stack([scene(hidden), scene(beside)])
    assert follow_the_rules(rows, FEW)
    assert np.asarray(FEW.allowed(rows)).tolist() == [False, True]
    assert np.asarray(dataclasses.replace(FEW, min_pixels=0).allowed(rows)).tolist() == [True, True]


def test_scenes_of_slots_have_labels_and_masks():
    scenes, space = DATASETS["clevr6"].scenes, clevr.space(view=View(side=16))
    assert DATASETS["clevr6"].space == clevr.space()
    factors = space.wrap(scenes.draw(space, KEY, 20, groups=2))
    samples = scenes.samples(space, factors)
    assert samples.labels[:2] == (("object 1", "red"), ("object 1", "green"))
    assert len(samples.labels) == samples.factors.num_factors == 6 * 9
    assert [samples.labels[j][1] for j in samples.categorical] == ["shape", "material"] * 6
    assert samples.masks.shape == (20, 16, 16)
    assert samples.masks.max() == 6
    assert samples.background is None
    x = np.asarray(samples.factors.values)[:, samples.labels.index(("object 2", "x"))].reshape(2, 10)
    assert (np.ptp(x, axis=1) <= 1.4 + 1e-5).all()
    jaxdis.Factors.checked(samples.factors)
