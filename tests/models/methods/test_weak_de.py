"""WeakDE against float64 NumPy, and what its released code does that one would not expect."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import erf, expit

from jaxdis import models
from jaxdis.models.methods._weak_de import (
    DSPRITES_CLASSES,
    DSPRITES_RELATIONS,
    SHAPES3D_CLASSES,
    SHAPES3D_RELATIONS,
    ClassPriors,
    augmented,
    class_of,
    sizes_of,
    targets_of,
)
from tests.draws import normal
from tests.models.methods.derived import (
    adam,
    assert_close,
    differences,
    double,
    flat,
    layer,
    leaky,
    nested,
    squares,
)
from tests.models.methods.slots.written_out import correlate
from tests.programs import compiled_whole

SMALL = models.WeakDe(
    network=models.Stacks(hidden=(5,), decoder_hidden=(4,), hidden_slope=0.1, decoder_slope=0.1),
    num_codes=2,
    classes=((0, (0, 1, 2)), (1, (0, 1))),
    relations=((0, 1, True), (1, -1, False)),
    opponents=(3, 4),
    batch_size=6,
    relation_batch=3,
    num_labelled=12,
    augmented=False,
).resolved((4, 4, 1))
SETTINGS = jax.tree.map(
    jnp.float32, models.WeakDe.variants["weak_de"].settings(learning_rate=1e-2, warmup_steps=5, relation_weight=0.7)
)
update = jax.jit(SMALL.update)


ADAM = optax.adam(1e-2)


def encode(params, images):
    features = leaky(layer(params["stack"]["dense_0"], images.reshape(len(images), -1)), 0.1)
    return layer(params["code"], features)


def reconstruction(params, images):
    """Mean over pixels, not a sum."""
    hidden = leaky(layer(params["decoder"]["dense_0"], encode(params["encoder"], images)), 0.1)
    p = expit(layer(params["decoder"]["to_image"], hidden))
    x = images.reshape(len(images), -1)
    return -(x * np.log(p) + (1 - x) * np.log(1 - p)).mean()


def perceptron(params, x):
    for i in range(len(params) - 1):
        x = np.tanh(layer(params[f"dense_{i}"], x))
    return layer(params[f"dense_{len(params) - 1}"], x)


def odds(discriminator, codes):
    """The discriminator sees zeros in place of labels."""
    return perceptron(discriminator, np.concatenate([np.zeros((len(codes), 6)), codes], axis=1))


@functools.cache
def started():
    return jax.jit(SMALL.begin)(jax.random.key(2))


@pytest.mark.parametrize("step", [3, 5])
def test_an_update_takes_four_steps_in_the_released_order(step):
    source, key = squares(), jax.random.key(9)
    state = started()
    new, losses = update(state, jnp.int32(step), key, SETTINGS, source)
    data_key, _, class_key, normal_key = jax.random.split(key, 4)
    images = np.asarray(source.images(data_key, 6), np.float64)
    params = nested(flat(state.params))
    adams = {name: ADAM.init(params[name]) for name in params}

    def step_of(name, gradients):
        with jax.numpy_dtype_promotion("standard"):  # optax's Adam mixes types
            moves, adams[name] = ADAM.update(gradients, adams[name])
        params[name] = double(optax.apply_updates(params[name], moves))

    # 1. Autoencoder.
    both = {name: params[name] for name in ("encoder", "decoder")}
    np.testing.assert_allclose(losses.reconstruction, reconstruction(both, images), rtol=1e-4)
    of_both = differences(lambda both: reconstruction(both, images), both)
    for name in both:
        step_of(name, of_both[name])

    # 2. Relations, after warm-up.
    classes, normal = SMALL._draws(new.priors, class_key, normal_key)
    normal = np.asarray(normal, np.float64)
    mean, factor = np.asarray(new.priors.mean, np.float64), np.asarray(new.priors.factor, np.float64)
    if step == 5:
        first = np.asarray(classes)[6:]
        second = targets_of(SMALL.classes, SMALL.relations)[np.repeat([0, 1], 3), first]
        sources, targets = (
            mean[c] + np.einsum("nij,nj->ni", factor[c], z) for c, z in ((first, normal[6:12]), (second, normal[12:]))
        )
        known = np.asarray(new.priors.present)[second]  # no draw stands for a class without images
        which = np.repeat(np.eye(2), 3, axis=0)

        def error(relation):
            predicted = perceptron(relation, np.concatenate([sources, which], axis=1))
            return 0.7 * ((predicted - targets)[known] ** 2).mean()

        np.testing.assert_allclose(losses.relation, error(params["relation"]), rtol=1e-4)
        step_of("relation", differences(error, params["relation"]))
        prior = mean[np.asarray(classes)[:6]] + np.einsum("nij,nj->ni", factor[np.asarray(classes)[:6]], normal[:6])
    else:
        prior = erf(normal[:6] / np.sqrt(2))

    # 3. Generator, with the Adam of step 1.
    def fooling(encoder):
        return 0.2 * np.logaddexp(0, -odds(params["discriminator"], encode(encoder, images))).mean()

    np.testing.assert_allclose(losses.generator, fooling(params["encoder"]), rtol=1e-4)
    step_of("encoder", differences(fooling, params["encoder"]))

    # 4. Discriminator, against the encoder as it now is.
    codes = encode(params["encoder"], images)

    def telling(discriminator):
        of_codes, of_prior = np.logaddexp(0, odds(discriminator, codes)), np.logaddexp(0, -odds(discriminator, prior))
        return 0.2 * 0.5 * (of_codes.mean() + of_prior.mean())

    np.testing.assert_allclose(losses.discriminator, telling(params["discriminator"]), rtol=1e-4)
    of_discriminator = differences(telling, params["discriminator"])
    step_of("discriminator", of_discriminator)

    for name, moments in new.moments.items():
        mu, _, count = adam(moments)
        assert count == adams[name][0].count, name
        if count:
            assert_close(mu, adams[name][0].mu)
    counts = [int(adams[name][0].count) for name in ("encoder", "decoder", "discriminator", "relation")]
    assert counts == [2, 1, 1, step == 5]


def test_priors_are_fitted_once_to_the_labelled_images_of_each_class():
    source = squares()
    state = started()
    new, _ = update(state, jnp.int32(5), jax.random.key(9), SETTINGS, source)
    assert not state.priors.present.any()
    images, factors = (np.asarray(part) for part in source.arrays)
    codes = encode(nested(flat(state.params["encoder"])), np.asarray(images, np.float64))
    classes = factors[:, 0] * 2 + factors[:, 1]
    for c in range(6):
        mine = codes[classes == c]
        assert bool(new.priors.present[c]) == (len(mine) >= 2)
        if len(mine) < 2:
            continue
        np.testing.assert_allclose(new.priors.mean[c], mine.mean(0), rtol=1e-4, atol=1e-6)
        covariance = 0.1 * np.cov(mine, rowvar=False)
        got = new.priors.factor[c] @ new.priors.factor[c].T
        np.testing.assert_allclose(got, covariance, rtol=1e-3, atol=1e-5 * covariance.max())
    later, _ = update(new, jnp.int32(6), jax.random.key(0), SETTINGS, source)
    assert all(map(np.array_equal, later.priors, new.priors))


@pytest.mark.parametrize("num_codes", [8, 64])
def test_priors_of_classes_with_few_images_have_factors(num_codes):
    """Two images of a class leave a covariance of rank one, which rounding must not make indefinite."""
    codes = normal(0, (400, num_codes)) * np.logspace(-2, 1, num_codes, dtype=np.float32)[None]
    priors = compiled_whole(ClassPriors.fitted)(codes, np.arange(400, dtype=np.int32) // 2, 200, share=jnp.float32(0.1))
    assert np.isfinite(priors.factor).all()


def test_classes_are_drawn_uniformly_among_those_with_images():
    priors = ClassPriors.blank(5, 2)._replace(present=jnp.array([False, True, True, False, True]))
    drawn = np.bincount(compiled_whole(priors.draw_classes)(jax.random.key(0), 3000), minlength=5)
    assert not drawn[[0, 3]].any()
    # Three standard deviations of 1000 ± 26.
    assert np.abs(drawn[[1, 2, 4]] - 1000).max() < 78


def test_the_zeroed_labels_of_the_released_code_leave_one_gaussian():
    means = np.repeat(np.arange(6, dtype=np.float32), 2).reshape(6, 2)
    priors = ClassPriors(means, np.zeros((6, 2, 2), np.float32), np.ones(6, bool))
    given = priors, np.int32([0, 5, 3, 1, 2, 4]), np.zeros((6, 2), np.float32), np.bool_(True)
    released = dataclasses.replace(SMALL, as_released=True)
    intended, zeroed = (np.asarray(jax.jit(method._prior)(*given)) for method in (SMALL, released))
    np.testing.assert_array_equal(intended[:, 0], [0, 5, 3, 1, 2, 4])
    assert not zeroed.any()


def test_the_prior_is_uniform_during_warm_up():
    many = dataclasses.replace(SMALL, batch_size=4000)
    given = ClassPriors.blank(6, 2), np.zeros(4000, np.int32), normal(0, (4000, 2)), np.bool_(False)
    drawn = np.sort(jax.jit(many._prior)(*given), axis=0)
    # Kolmogorov's statistic exceeds 1.95 / √n once in a thousand.
    assert np.abs(drawn - np.linspace(-1, 1, 4000)[:, None]).max() / 2 < 1.95 / np.sqrt(4000)


def test_without_adversary_the_encoder_only_reconstructs():
    """The released configuration for Shapes3D."""
    alone = dataclasses.replace(SMALL, adversarial=False)

    @jax.jit  # of these alone, of which most of an update is no part
    def counts(state):
        new, _ = alone.update(state, jnp.int32(5), jax.random.key(9), SETTINGS, squares())
        return {name: moments.count for name, moments in new.moments.items()}

    assert jax.tree.map(int, counts(started())) == {"encoder": 1, "decoder": 1, "discriminator": 0, "relation": 1}


def test_running_statistics_move_three_times_per_update_in_the_encoder_and_once_in_the_decoder():
    convolutional = dataclasses.replace(
        SMALL,
        network=models.Stacks(
            channels=(3, 2), hidden=(4,), decoder_hidden=(3,), decoder_channels=(2, 3), slope=0.1, normalized=True
        ),
    )
    state, source, key = convolutional.begin(jax.random.key(0)), squares(), jax.random.key(4)
    still = SETTINGS._replace(learning_rate=jnp.float32(0))
    new, _ = jax.jit(convolutional.update)(state, jnp.int32(0), key, still, source)
    images = source.images(jax.random.split(key, 4)[0], 6)
    kernel = np.asarray(state.params["encoder"]["stack"]["convolution_0"]["kernel"], np.float64)
    rows = correlate(np.asarray(images, np.float64), kernel, 2, 1).reshape(-1, 3)
    seen = new.running["encoder"]["normalization_0"]
    np.testing.assert_allclose(seen["mean"], (1 - 0.9**3) * rows.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(seen["var"], 0.9**3 + (1 - 0.9**3) * rows.var(0, ddof=1), rtol=1e-4)
    moved = new.running["decoder"]["normalization_0"]["var"]
    assert ((moved > 0.9) & (moved < 1)).all()
    assert "normalization_1" not in new.running["decoder"]
    assert set(state.params["decoder"]["transposed_1"]) == {"kernel"}


NAMES = [f"{x}{y}{shape}" for shape in "SEH" for x in "<x>" for y in "^xv"]


@pytest.mark.parametrize(
    ("relation", "place", "order"), [(0, 0, ">x<"), (1, 0, "<x>"), (2, 1, "vx^"), (3, 1, "^xv"), (4, 2, "SEH")]
)
def test_relations_of_dsprites_are_those_of_the_released_tables(relation, place, order):
    """Left, right, up, down and the next shape, each returning to its start after three."""
    targets = targets_of(DSPRITES_CLASSES, DSPRITES_RELATIONS)[relation]
    for name, target in zip(NAMES, targets, strict=True):
        moved = list(name)
        moved[place] = order[(order.index(name[place]) + 1) % 3]
        assert NAMES[target] == "".join(moved)


def test_hues_and_sizes_of_shapes3d_end_where_shapes_start_over():
    targets = targets_of(SHAPES3D_CLASSES, SHAPES3D_RELATIONS)
    assert targets.shape == (5, 120)
    last = np.ravel_multi_index((9, 3, 2), (10, 4, 3))
    np.testing.assert_array_equal(targets[:, last], [last, last - 12, last, last - 1, last - 9])


_ENDS_AND_MIDDLE = tuple(0 if v <= 4 else 1 if 13 <= v <= 17 else 2 if v >= 27 else -1 for v in range(32))
# Those of the released code, which trains on images with a class alone: 1.6 % of dSprites.
DSPRITES_REGIONS = (
    (0, (0, 1, 2)),
    (3, _ENDS_AND_MIDDLE),
    (4, _ENDS_AND_MIDDLE),
    (1, (-1, -1, 0, 0, 0, -1)),
    (2, tuple(0 if v <= 2 or v >= 37 else -1 for v in range(40))),
)


def test_classes_of_dsprites():
    """Released: regions at the ends and in the middle, of middle sizes and nearly upright: 12 150 images."""
    values = np.indices((3, 6, 40, 32, 32), np.int32).reshape(5, -1).T
    number = jax.jit(class_of, static_argnums=1)
    released = np.asarray(number(values, DSPRITES_REGIONS))
    assert np.bincount(released[released >= 0]).tolist() == [450] * 27
    assert sizes_of(DSPRITES_REGIONS) == (3, 3, 3, 1, 1)
    everything = np.asarray(number(values, DSPRITES_CLASSES))
    assert everything.min() == 0
    assert NAMES[everything[-1]] == ">vH"
    assert (everything[released >= 0] == released[released >= 0]).all()


def test_augmentation_changes_six_of_seven_images():
    images = np.repeat(np.float32([1, 0.5]), 2)[None, None, :, None] * np.ones((700, 4, 1, 1), np.float32)
    changed = np.asarray(jax.jit(augmented)(jax.random.key(0), images))
    assert changed.min() >= 0
    assert changed.max() <= 1
    kept = (changed == np.asarray(images)).all((1, 2, 3))
    dropped = (changed[:, :, 2:] == 0).any((1, 2, 3))
    gray = changed[dropped][:, :, 2:]
    # Shares of 700 images within four standard deviations.
    assert abs(kept.mean() - 1 / 7) < 4 * np.sqrt(6 / 49 / 700)
    assert abs(dropped.mean() - 3 / 7 * (1 - 0.7**8)) < 4 * np.sqrt(1 / 4 / 700)
    assert set(np.unique(gray)) == {0.0, 0.5}
    assert (changed[~kept & ~dropped][:, :, 2:] == 0.5).all()
