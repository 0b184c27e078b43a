import dataclasses
import importlib
import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import data, models
from jaxdis._core import resources
from jaxdis.models.methods._vae import permute
from jaxdis.models.networks._architectures import apply, functions_of
from jaxdis.models.objectives import _losses as distributions
from jaxdis.models.training import _train as runner
from jaxdis.models.training._image_source import as_source
from tests.models.conftest import changed, interrupted_and_resumed, largest_difference
from tests.models.methods.derived import first_step
from tests.models.methods.toy import ToyGan

pytestmark = pytest.mark.two_devices

# The function of the same name hides the module from an import.
train_module = importlib.import_module("jaxdis.models.training._train")
TINY = models.Discriminator(layers=2, width=8)
AGAINST = models.DiscriminatorTraining(network=TINY)
SMALL_CONVOLUTIONS = models.Convolutional(
    channels=(4, 4), kernels=(4, 2), hidden=(8,), decoder_hidden=(8,), decoder_channels=(4, 4), num_codes=3
)


def trained(config, members, images, **arguments):
    return models.train(config, *members, data=images, **arguments)


MIXED = {
    "beta": {"beta": 4.0},
    "annealed": {"capacity": 5.0, "capacity_steps": 10.0},
    "beta_tc": {"beta": 6.0},
    "dip_i": {},
    "dip_ii": {},
}


def mixed(objective: str) -> tuple[str | tuple[str, ...], models.Members]:
    if objective == "mixed":
        return tuple(MIXED), models.members(MIXED, seeds=1)
    return objective, models.members({objective: {models.OBJECTIVES[objective].swept: [2.0, 8.0]}}, seeds=2)


@pytest.mark.parametrize(
    ("objective", "network"), [("mixed", SMALL_CONVOLUTIONS), ("factor", models.Mlp((16,), 3))], ids=["mixed", "factor"]
)
def test_together_apart_and_alone_agree(objective, network, config, images):
    name, members = mixed(objective)
    config = changed(config, objective=name, network=network, discriminator=AGAINST)
    mapped = trained(config, members, images, execution="map")
    together = trained(config, members, images, execution="vmap")
    train_one = jax.jit(models.make_train(config, images))
    for i, key in enumerate(members.keys):
        alone = train_one(key, jax.tree.map(lambda leaf, i=i: leaf[i], members.hyperparameters))
        for zoo in (mapped, together):
            assert largest_difference(jax.tree.map(lambda leaf, i=i: leaf[i], zoo.params), alone.params) < 1e-5
        np.testing.assert_allclose(mapped.losses.loss[i], alone.losses.loss, rtol=1e-5)


@pytest.mark.parametrize(
    ("objective", "network"), [("beta_tc", SMALL_CONVOLUTIONS), ("factor", models.Mlp((16,), 3))], ids=["tc", "factor"]
)
def test_micro_batches_do_not_matter(objective, network, config, images):
    name, members = mixed(objective)
    config = changed(config, objective=name, network=network, discriminator=AGAINST)
    whole, parts = (trained(changed(config, micro_batch=size), members, images) for size in (8, 2))
    assert largest_difference(parts.params, whole.params) < 1e-5


def test_temporary_memory_grows_with_the_members_together(config, members, images):
    source = as_source(images)
    config = train_module.resolved_config(config, source)
    zoo = runner.Runner(config.method, *members[:2], source, jax.devices()[:1], "vmap", 1)
    one, eight = zoo.memory(1), zoo.memory(8)
    assert 0 < one < eight < 20 * one


def test_a_sweep_and_a_longer_run_compile_nothing_new(config, images):
    counts = []
    for beta, steps in ((1.0, 12), (7.0, 12), (3.0, 30)):
        members = models.members({"beta": {"beta": beta}}, seeds=2)
        trained(dataclasses.replace(config, steps=steps), members, images, log_every=8)
        counts.append(runner._advance._cache_size())
    assert counts[0] == counts[1] == counts[2]


def test_losses_are_means_over_blocks(images, monkeypatch):
    monkeypatch.setitem(models.METHODS, "toy_gan", ToyGan)
    config = models.Config("squares", method=ToyGan(), steps=12)
    members, labelled = models.members({"toy_gan": {"pull": [1.0, 2.0]}}, 2, ToyGan()), (images, np.arange(40)[:, None])
    fine, coarse = (trained(config, members, labelled, log_every=every).losses.critic for every in (1, 5))
    assert fine.shape == (4, 12)
    assert coarse.shape == (4, 3)
    assert not np.isclose(fine[::2, -1], fine[1::2, -1], rtol=1e-3).any()  # of other seeds
    wanted = np.stack([fine[:, :5].mean(1), fine[:, 5:10].mean(1), fine[:, 10:].mean(1)], 1)
    np.testing.assert_allclose(coarse, wanted, rtol=1e-5)


def test_bfloat16_is_near_and_keeps_float32_parameters(config, members, images):
    config = dataclasses.replace(config, steps=60)
    full = trained(config, members, images, log_every=60)
    half = trained(changed(config, precision="bfloat16"), members, images, log_every=60)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(half.params))
    np.testing.assert_allclose(half.losses.loss, full.losses.loss, rtol=2e-2)
    assert largest_difference(half.params, full.params) > 0


def test_subtracting_the_entropy_changes_the_report_by_a_constant_and_no_parameter(config, members, images):
    gray = 0.25 + images / 2
    plain = trained(config, members, gray, log_every=12)
    less = trained(changed(config, subtract_entropy=True), members, gray, log_every=12)
    entropy = -64 * (0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    np.testing.assert_allclose(plain.losses.reconstruction - less.losses.reconstruction, entropy, rtol=1e-3)
    assert largest_difference(plain.params, less.params) < 1e-6


# ---- FactorVAE's two updates --------------------------------------------------------------------------------------


def factor_step(order: str, images, **changes):
    """One update by the library, and what it read: (before, after, losses, and what is needed to redo it by hand)."""
    settings = models.DiscriminatorTraining(order=order, network=TINY, **changes)
    vae = models.Vae("factor", models.Mlp((8,), 3), 8, discriminator=settings).resolved(images.shape[1:])
    key, source = jax.random.key(0), as_source(images)
    hyper = models.OBJECTIVES["factor"].settings(gamma=5.0, learning_rate=1e-2, discriminator_learning_rate=1e-2)
    hyper = jax.tree.map(jnp.float32, hyper)
    before = runner.begin(vae, key)
    after, losses = jax.jit(lambda state: runner.update(vae, state, key, hyper, source))(before)
    keys = jax.random.split(jax.random.fold_in(key, 0), 3)
    batch = source.images(keys[0], 16 if order == "split_batch" else 8)
    return vae, before.learner, after.learner, losses, keys, batch


def codes_of(vae, params, key, images):
    mean, log_variance = functions_of(vae.network).encode(params, images)
    return distributions.sample(key, mean, log_variance)


def discriminator_loss(params, joint, permuted):
    real, fake = apply(TINY, params, joint), apply(TINY, params, permuted)
    return -0.5 * jax.nn.log_softmax(real)[:, 0].mean() - 0.5 * jax.nn.log_softmax(fake)[:, 1].mean()


@pytest.mark.parametrize("order", ["simultaneous", "split_batch", "sequential"])
def test_the_discriminator_is_updated_in_its_order(order, images):
    vae, before, after, losses, (_, noise, update_key), batch = factor_step(order, images)
    permutation, fresh = jax.random.split(update_key)
    first, second = (batch[:8], batch[8:]) if order == "split_batch" else (batch, batch)
    joint = codes_of(vae, before.params, noise, first)
    if order == "split_batch":
        marginal = codes_of(vae, before.params, fresh, second)
    elif order == "sequential":
        joint = marginal = codes_of(vae, after.params, fresh, batch)
    else:
        marginal = joint
    loss, gradients = jax.value_and_grad(discriminator_loss)(
        before.discriminator, joint, permute(permutation, marginal)
    )
    np.testing.assert_allclose(losses.discriminator, loss, rtol=1e-5)
    assert largest_difference(after.discriminator, first_step(before.discriminator, gradients, 1e-2)) < 1e-4


@pytest.mark.parametrize("sees", [False, True])
def test_the_autoencoder_sees_the_discriminators_loss_only_if_asked(sees, images):
    vae, before, after, losses, (_, noise, _), batch = factor_step(
        "split_batch", images, encoder_sees_discriminator=sees
    )

    def loss(params):
        mean, log_variance = functions_of(vae.network).encode(params, batch[:8])
        codes = distributions.sample(noise, mean, log_variance)
        logits = functions_of(vae.network).decode(params, codes)
        rec = distributions.negative_log_likelihood(logits, batch[:8]) / 8
        kl = 0.5 * (mean**2 + jnp.exp(log_variance) - log_variance - 1).sum(1).mean()
        of_codes = apply(TINY, before.discriminator, codes)
        extra = -0.5 * jax.nn.log_softmax(of_codes)[:, 0].mean() if sees else 0.0
        return rec + kl + 5.0 * (of_codes[:, 0] - of_codes[:, 1]).mean() + extra

    gradients = jax.jit(jax.grad(loss))(before.params)
    assert largest_difference(after.params, first_step(before.params, gradients, 1e-2)) < 1e-4


def test_permuting_keeps_every_column_and_breaks_the_rows():
    codes = jnp.arange(40.0).reshape(20, 2)
    permuted = np.asarray(permute(jax.random.key(0), codes))
    np.testing.assert_array_equal(np.sort(permuted, axis=0), codes)
    assert not np.array_equal(np.argsort(permuted[:, 0]), np.argsort(permuted[:, 1]))


# ---- what comes in ------------------------------------------------------------------------------------------------


class Lattice:
    """A space of a user's own, of eight cells."""

    num_cells = 8

    def sample(self, key, n):
        return jax.random.randint(key, (n, 1), 0, 8)


LATTICE = Lattice()


def stripes(factors):
    lit = factors[:, 0][:, None] == jnp.arange(8, dtype=jnp.int32)[None]
    return jnp.broadcast_to(lit[:, :, None, None], (factors.shape[0], 8, 8, 1)).astype(jnp.float32)


def test_spaces_that_hold_out_other_combinations_share_a_program():
    space = data.FactorSpace.of(shape=3, size=4, x=8)
    first, second = (as_source((space.without({"shape": 0, "size": size}), _blank)) for size in (1, 2))
    assert jax.tree.structure(first) == jax.tree.structure(second)
    draw = jax.jit(lambda source, key: source.examples(key, 3000)[1])
    for size, source in ((1, first), (2, second)):
        factors = np.asarray(draw(source, jax.random.key(0)))
        held_out = (factors[:, 0] == 0) & (factors[:, 1] == size)
        np.testing.assert_array_equal(factors[:, :2].max(0), (2, 3))
        assert not held_out.any()
    assert draw._cache_size() == 1


def _blank(factors):
    return jnp.zeros((len(factors), 8, 8, 1))


images_of = jax.jit(lambda source, key, n: source.images(key, n), static_argnums=2)


def test_every_member_has_its_own_data_order_and_sees_all_images():
    source = as_source((LATTICE, stripes))
    first, second = (np.asarray(images_of(source, jax.random.key(seed), 64))[:, :, 0, 0].argmax(1) for seed in (0, 1))
    assert not np.array_equal(first, second)
    assert set(first) == set(range(8))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, bool])
def test_images_of_any_dtype_are_the_same_images(dtype, images):
    given = (images * 255).astype(np.uint8) if dtype == np.uint8 else images.astype(dtype)
    drawn, expected = (images_of(as_source(each), jax.random.key(0), 5) for each in (given, images))
    np.testing.assert_allclose(drawn, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.zeros((4, 8, 8, 1), np.int32)}, "data: must be uint8"),
        ({"data": np.full((4, 8, 8, 1), 7.0)}, r"data: must be values in \[0, 1\]"),
        ({"data": np.full((4, 8, 8, 1), np.nan)}, r"data: must be values in \[0, 1\]"),
        ({"data": np.zeros((4, 8))}, "data: must have images of shape"),
        ({"data": None}, "data: must be one of dsprites"),
        (
            {"hyperparameters": models.OBJECTIVES["factor"].settings()},
            "hyperparameters: the objective beta has no discriminator",
        ),
        (
            {"config": {"network": models.Mlp(image_shape=(9, 9, 1))}},
            r"data: must be images of shape \(9, 9, 1\), the network's",
        ),
        ({"config": {"objective": "vae"}}, "objective: must be one of beta"),
        (
            {"config": {"objective": ("beta", "factor")}},
            "in a mixed zoo, must be objectives that share one",
        ),
        (
            {"config": {"batch_size": 64}, "objective": "beta_tc"},
            "batch_size: mss needs at least 2 and at most the number of images, 40",
        ),
        ({"hyperparameters": {"beta": 4.0}}, "hyperparameters: must be what the settings of a variant return"),
        ({"labels": [{}]}, "labels: must have 4 entries"),
        ({"config": {"micro_batch": 3}}, "micro_batch: must be a divisor of the batch size 8"),
        ({"execution": "loop"}, "execution: must be 'auto', 'map' or 'vmap'"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, message, config, members, images):
    change = dict(change)
    objective = change.pop("objective", "beta")
    members = models.members({objective: {"beta": [2.0, 4.0]}}, seeds=2)
    arguments = {"data": images, "keys": members.keys, "hyperparameters": members.hyperparameters} | change
    fields = {"objective": objective, **arguments.pop("config", {})}
    keys, hyperparameters = arguments.pop("keys"), arguments.pop("hyperparameters")
    with pytest.raises(ValueError, match=message):
        models.train(changed(config, **fields), keys, hyperparameters, **arguments)


@pytest.mark.parametrize("sweep", [{}, {"vae": {}}, {"beta": {"gamma": 1.0}}, {"beta": {"beta": []}}])
def test_bad_sweeps_are_refused(sweep):
    with pytest.raises(ValueError, match="members|sweep|settings"):
        models.members(sweep)


def test_a_sweep_has_every_combination():
    keys, hyper, labels = models.members({"beta": {"beta": [1, 4]}, "dip_i": {"lambda_off_diagonal": 3}}, seeds=[7, 9])
    assert labels[1] == {"model": "beta", "beta": 1.0, "seed": 9}
    assert [label["seed"] for label in labels] == [7, 9] * 3
    assert hyper.kl.tolist() == [1, 1, 4, 4, 1, 1]
    assert hyper.mean_diagonal.tolist() == [0, 0, 0, 0, 30, 30]
    assert keys[1] == jax.random.key(9)


def test_convolutions_on_cpu_take_micro_batches():
    convolutions = models.Vae(network=SMALL_CONVOLUTIONS)
    for batch_size, size in ((64, 8), (100, 5), (12, 6), (8, None), (4, None), (37, None)):
        assert dataclasses.replace(convolutions, batch_size=batch_size).tuned("cpu").micro_batch == size
    assert dataclasses.replace(convolutions, micro_batch=2).tuned("cpu").micro_batch == 2
    assert convolutions.tuned("gpu").micro_batch is models.Vae().tuned("cpu").micro_batch is None


def test_zoos_of_one_and_of_two_share_a_program(monkeypatch):
    """On two devices; the second has no member to train in a zoo of one."""
    traced, whole = [], runner.run_block
    monkeypatch.setattr(runner, "run_block", lambda method, *given: traced.append(1) or whole(method, *given))
    images = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 1)).astype(np.uint8)
    config = models.Config(method=models.Vae(network=models.Mlp((5,), num_codes=2), batch_size=4), steps=2)
    one, two = (trained(config, models.members({"beta": {"beta": 4.0}}, n), images) for n in (1, 2))
    assert len(traced) == 1
    assert largest_difference(one.params, jax.tree.map(lambda leaf: leaf[:1], two.params)) < 1e-6


def test_members_are_kept_along_training_and_over_a_resumed_run(config, images, tmp_path):
    config = dataclasses.replace(config, steps=40)
    of_both = models.members({"beta": {"beta": (1.0, 4.0)}}, seeds=1)
    how = {"log_every": 10, "checkpoint_every": 10}
    plain = trained(config, of_both, images, **how)
    zoo = trained(config, of_both, images, keep=(0, 20), **how)
    assert [(label["beta"], label["updates"]) for label in zoo.labels] == [
        (beta, done) for done in (0, 20, 40) for beta in (1.0, 4.0)
    ]
    assert largest_difference(zoo[[4, 5]].params, plain.params) == 0
    halfway = trained(dataclasses.replace(config, steps=20), of_both, images, **how)
    assert largest_difference(zoo[[2, 3]].params, halfway.params) == 0
    np.testing.assert_array_equal(zoo.losses.loss[2:4, :2], plain.losses.loss[:, :2])
    np.testing.assert_array_equal(zoo.losses.loss[2:4, 2:], plain.losses.loss[:, [1, 1]])
    assert np.isnan(zoo.losses.loss[:2]).all()
    again = interrupted_and_resumed(30, config, *of_both, data=images, keep=(0, 20), directory=tmp_path, **how)
    assert largest_difference(again.params, zoo.params) == 0
    assert again.labels == zoo.labels
    with pytest.raises(ValueError, match="keep: must be given from the start, got 10"):
        trained(config, of_both, images, keep=(10,), directory=tmp_path, **how)
    for wrong, message in (((5,), "multiples of 10"), ((50,), "up to 40"), (3, "must be numbers of updates")):
        with pytest.raises(ValueError, match=message):
            trained(config, of_both, images, keep=wrong, **how)


# ---- large models on the CPU devices of one machine ------------------------------------------------------------------


DEVICES = tuple(jax.devices())
IMAGES = np.zeros((2, 64, 64, 3), np.uint8)
# A scene under IODINE takes several hundred MB in training, and four are trained on at a time.
IODINE = models.Iodine().resolved((64, 64, 3))


@pytest.mark.parametrize(
    ("method", "free", "count", "said"),
    [
        (IODINE, math.inf, len(DEVICES), False),
        (IODINE, 3e9, 1, False),
        (IODINE, 1e9, 1, True),
        (models.Vae().resolved((64, 64, 3)), 1e6, len(DEVICES), False),
    ],
)
def test_as_many_devices_train_as_have_room_for_a_member(method, free, count, said, monkeypatch, caplog):
    assert len(DEVICES) > 1
    monkeypatch.setattr(resources, "free_bytes", lambda device: free)
    hyperparameters = jax.tree.map(lambda value: jnp.full(2, value, jnp.float32), method.settings())
    with caplog.at_level(logging.WARNING, "jaxdis"):
        assert runner.devices_that_fit(method, hyperparameters, as_source(IMAGES), DEVICES) == DEVICES[:count]
    assert ("of memory, of which 1 GB are free" in caplog.text) == said
