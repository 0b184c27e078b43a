"""PartedVAE against float64 NumPy, and what its released code does that one would not expect."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax

from jaxdis import models
from jaxdis.models.methods._parted_vae import LABELLED, Plateau, capacity_at, overlap
from tests.models.methods.derived import (
    adam,
    assert_close,
    differences,
    first_step,
    flat,
    layer,
    leaky,
    nested,
    squares,
)
from tests.programs import compiled_whole

PRIORS = ((0.2, 0.3, 0.5), (0.6, 0.4))
SMALL = models.PartedVae(
    network=models.Stacks(hidden=(6,), decoder_hidden=(5,), hidden_slope=0.1),
    num_z=2,
    num_u=2,
    priors=PRIORS,
    labelled=True,
    label_factors=(0, 1),
    batch_size=5,
    num_labelled=7,
).resolved((4, 4, 1))
SETTINGS = (
    models.METHODS["parted_vae"]
    .variants["parted_vae"]
    .settings(learning_rate=1e-3, labelled_learning_rate=2e-3, capacity_steps=50.0, overlap_threshold=0.05)
)
update = jax.jit(SMALL.update)


def parts(columns):
    return [columns[:, :3], columns[:, 3:]]


def reference(params, images, draws, step, h):
    """The loss and its parts, with sums over classes, pairs and variables written out."""
    x = images.reshape(len(images), -1).astype(np.float64)
    features = leaky(layer(params["encoder"]["dense_0"], x), 0.1)
    logits = layer(params["category"], features)
    gumbel = -np.log(-np.log(draws.uniform + 1e-12) + 1e-12)
    means, log_variances = np.split(layer(params["z"], features), 2, axis=1)
    z_kl = 0.5 * (means**2 + np.exp(log_variances) - log_variances - 1).sum() / len(x)
    all_means, all_logs = [means], [log_variances]
    u_kl = category_kl = entropy = shared = 0.0
    slope = min(8.0, 1 + 2e-4 * (step + 1))
    starts = (0, 3)
    for i, (one, noise) in enumerate(zip(parts(logits), parts(gumbel), strict=True)):
        gate = expit(slope * layer(params["gate"][f"of_{i}"], softmax((one + noise) / 0.67, axis=1)))
        mean, log_variance = np.split(layer(params["u"][f"of_{i}"], features * gate), 2, axis=1)
        all_means.append(mean)
        all_logs.append(log_variance)
        q = softmax(one, axis=1)
        size = q.shape[1]
        m = params["prior"]["mean"][starts[i] : starts[i] + size]
        lv = 2 * np.tanh(params["prior"]["before_tanh"][starts[i] : starts[i] + size]) - 1
        for c in range(size):
            kl = 0.5 * (lv[c] - log_variance - 1 + (np.exp(log_variance) + (mean - m[c]) ** 2) / np.exp(lv[c]))
            u_kl += (q[:, c] * kl.sum(1)).mean()
            category_kl += q[:, c].mean() * np.log(q[:, c].mean() / PRIORS[i][c])
            entropy -= (q[:, c] * np.log(q[:, c])).mean()
        for c, other in itertools.combinations(range(size), 2):
            between = (np.exp(lv[c]) + np.exp(lv[other])) / 2
            distance = ((m[c] - m[other]) ** 2 / between).sum() / 8
            distance += 0.5 * np.log(between.prod() / np.sqrt(np.exp(lv[c]).prod() * np.exp(lv[other]).prod()))
            shared += max(0.0, np.exp(-distance) - h.overlap_threshold)
    mean, log_variance = np.concatenate(all_means, 1), np.concatenate(all_logs, 1)
    codes = mean + np.exp(log_variance / 2) * draws.normal
    hidden = np.maximum(layer(params["decoder"]["dense_0"], codes), 0)
    p = expit(layer(params["decoder"]["to_image"], hidden))
    reconstruction = -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum() / len(x)
    rise = min(1.0, (step + 1) / h.capacity_steps)
    loss = (
        reconstruction
        + h.z_weight * abs(h.z_capacity * rise - z_kl)
        + h.u_weight * abs(h.u_capacity * rise - u_kl)
        + h.category_weight * category_kl
        + h.entropy_weight * entropy
        + h.overlap_weight * shared
    )
    return loss, reconstruction, z_kl, u_kl, category_kl, entropy, shared


def cross_entropy(params, images, factors):
    """Of the labels, summed over variables."""
    features = leaky(layer(params["encoder"]["dense_0"], images.reshape(len(images), -1).astype(np.float64)), 0.1)
    rows = np.arange(len(images))
    named = zip(parts(layer(params["category"], features)), np.asarray(factors).T, strict=True)
    return -sum(log_softmax(logits, axis=1)[rows, values].mean() for logits, values in named)


def started(key=3):
    state = jax.jit(SMALL.begin)(jax.random.key(key))
    # Priors that overlap, so that their penalty has a gradient.
    return state._replace(
        params={**state.params, "prior": jax.tree.map(lambda leaf: 0.3 * leaf, state.params["prior"])}
    )


def drawn(key, source):
    """The batches and random numbers of an update."""

    def draw(key):
        labelled, data, noise = jax.random.split(key, 3)
        return source.examples(labelled, 5, 7), source.images(data, 5), SMALL.draws(noise, 5)

    examples, images, numbers = jax.jit(draw)(key)
    numbers = type(numbers)(*(np.asarray(part, np.float64) for part in numbers))
    return [np.asarray(part) for part in examples], np.asarray(images), numbers


@pytest.mark.parametrize("step", [0, 30, 60_000])
def test_losses_are_those_of_the_paper(step):
    params, (_, images, numbers) = started().params, drawn(jax.random.key(1), squares())
    draws = jax.tree.map(jnp.float32, numbers)
    got = compiled_whole(SMALL.loss)(params, jnp.asarray(images), draws, jnp.int32(step), SETTINGS)[1]
    wanted = reference(nested(flat(params)), images, numbers, step, SETTINGS)
    np.testing.assert_allclose(got[:-1], wanted, rtol=1e-4)


def test_an_update_follows_labels_first_and_then_the_loss_at_the_parameters_moved():
    source, state, key = squares(), started(), jax.random.key(5)
    (labelled, factors), images, numbers = drawn(key, source)
    new, losses = update(state, jnp.int32(10), key, SETTINGS, source)
    params = nested(flat(state.params))
    moved = {name: params[name] for name in LABELLED}
    of_labels = differences(lambda moved: cross_entropy(moved, labelled, factors), moved)
    assert_close(jax.tree.map(lambda leaf: leaf / 0.1, adam(new.labelled_moments)[0]), of_labels)
    params |= first_step(moved, of_labels, 2e-3)
    of_loss = differences(lambda params: reference(params, images, numbers, 10, SETTINGS)[0], params)
    assert_close(jax.tree.map(lambda leaf: leaf / 0.1, adam(new.moments)[0]), of_loss)
    # Two Adams on shared parameters, each with moments of its own, and both have counted one update.
    assert adam(new.labelled_moments)[2] == adam(new.moments)[2] == 1
    np.testing.assert_allclose(losses.labelled, cross_entropy(nested(flat(state.params)), labelled, factors), rtol=1e-4)


def test_there_is_one_labelled_batch_per_update_from_the_labelled_images():
    calls = []

    class Recorded:
        num_data = 12

        def examples(self, key, n, among=None):
            calls.append((n, among))
            return source.examples(key, n, among)

        def images(self, key, n):
            calls.append(n)
            return source.images(key, n)

    source, state = squares(), started()
    jax.eval_shape(lambda key, h: SMALL.update(state, jnp.int32(0), key, h, Recorded()), jax.random.key(0), SETTINGS)
    assert calls == [(5, 7), 5]


def test_without_labels_there_is_no_second_optimizer():
    free = models.PartedVae(network=SMALL.network, num_z=2, batch_size=5).resolved((4, 4, 1))
    state = jax.eval_shape(free.begin, jax.random.key(0))
    assert state.labelled_moments == state.labelled_schedule == ()
    assert not free.needs_labels
    assert free.trained == ("parted_vae",)
    assert SMALL.trained == ("parted_vae_ss",)


def test_representations_are_means_for_the_most_probable_category_with_the_steepest_gate():
    params, images = started().params, jnp.asarray(drawn(jax.random.key(1), squares())[1])
    seen = SMALL.represent(params, images)
    assert seen.mean.shape == (5, 2 + 2 * 2)
    p = nested(flat(params))
    features = leaky(layer(p["encoder"]["dense_0"], np.asarray(images, np.float64).reshape(5, -1)), 0.1)
    wanted = [np.split(layer(p["z"], features), 2, axis=1)[0]]
    for i, one in enumerate(parts(layer(p["category"], features))):
        gate = expit(8 * layer(p["gate"][f"of_{i}"], np.eye(one.shape[1])[one.argmax(1)]))
        wanted.append(np.split(layer(p["u"][f"of_{i}"], features * gate), 2, axis=1)[0])
    np.testing.assert_allclose(seen.mean, np.concatenate(wanted, 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(SMALL.categories(params, images).sum(1), 2, rtol=1e-5)


def test_the_gate_is_steepest_after_35_000_updates():
    """Below, a later step changes the loss; beyond, it does not."""
    params, (_, images, numbers) = started().params, drawn(jax.random.key(1), squares())
    draws = jax.tree.map(jnp.float32, numbers)
    at = jax.jit(lambda step: SMALL.loss(params, jnp.asarray(images), draws, step, SETTINGS)[1].u_kl)
    assert at(jnp.int32(34_000)) != at(jnp.int32(36_000)) == at(jnp.int32(70_000))


def test_the_capacity_is_above_0_at_the_first_update_and_ends_at_its_maximum():
    got = [float(capacity_at(30.0, jnp.int32(step), 300_000.0)) for step in (0, 149_999, 299_999, 10**6)]
    np.testing.assert_allclose(got, [30 / 300_000, 15, 30, 30], rtol=1e-6)


def test_classes_of_different_variables_may_overlap():
    same = jnp.zeros((5, 1))
    np.testing.assert_allclose(compiled_whole(overlap)(same, same, (3, 2), 0.1), (3 + 1) * 0.9, rtol=1e-6)


class Released:
    """The schedule of PyTorch's documentation, with plain branches."""

    def __init__(self, plateau, rate):
        self.plateau, self.rate = plateau, rate
        self.best, self.bad, self.rest = np.inf, 0, 0

    def step(self, loss):
        if loss < self.best * (1 - self.plateau.threshold):
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        if self.rest > 0:
            self.rest -= 1
            self.bad = 0
        if self.bad > self.plateau.patience:
            lower = self.rate * self.plateau.factor
            if self.rate - lower > self.plateau.smallest_change:
                self.rate = lower
            self.rest, self.bad = self.plateau.cooldown, 0


@pytest.mark.parametrize("plateau", [Plateau(), Plateau(2, 0.1, 0), Plateau(0, 0.1, 1, smallest_change=1e-4)])
def test_the_schedule_is_that_of_pytorch(plateau):
    rng, rate, epoch = np.random.default_rng(0), jnp.float32(1e-3), 3
    losses = np.asarray(10 * np.exp(-np.arange(90) / 20) + 4 + 2 * rng.random(90), np.float32)
    state, wanted = plateau.begin(), Released(plateau, float(rate))
    after = jax.jit(lambda state, loss, rate, step: plateau.after(state, loss, rate, step, epoch))
    scales = []
    for step, loss in enumerate(losses):
        state = after(state, loss, rate, jnp.int32(step))
        if step % epoch == epoch - 1:
            wanted.step(losses[step - epoch + 1 : step + 1].astype(np.float64).mean())
        np.testing.assert_allclose(rate * state.scale, wanted.rate, rtol=1e-5)
        scales.append(float(state.scale))
    assert len(set(scales)) > 2


def test_the_schedule_watches_the_loss_with_its_moving_capacities():
    source, state = squares(), started()
    new, losses = update(state, jnp.int32(0), jax.random.key(5), SETTINGS, source)
    np.testing.assert_allclose(new.schedule.total, losses.loss, rtol=1e-6)
    np.testing.assert_allclose(new.labelled_schedule.total, losses.labelled, rtol=1e-6)
    assert SMALL.epoch(source.num_data) == 3  # the last batch is smaller


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (1, "factor 1 must have class numbers from 0 to 2, got 0 to 7"),
        (2, "data: must have at least 3 factors, got 2"),
    ],
)
def test_labels_that_do_not_suit_are_refused(factor, message):
    """Even a single one, among more labels than a sample of them would show."""
    method = models.PartedVae(labelled=True, label_factors=(factor,))
    factors = np.stack([np.arange(6000) % 3] * 2, axis=1)
    factors[4321, 1] = 7
    config, members = models.Config("x", method=method), models.members({"parted_vae_ss": {}}, 1, method)
    with pytest.raises(ValueError, match=message):
        models.train(config, *members, data=(np.zeros((6000, 8, 8, 1), np.float32), factors))
