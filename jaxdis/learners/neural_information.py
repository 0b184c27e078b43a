"""Mutual information by a small network that tells samples of two variables from shuffled ones: MINE."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxdis.learners.linear import standardized

Judge = Literal["held_out", "in_sample"]

HIDDEN_LAYERS = 4
LEARNING_RATE = 1e-3
BATCH = 256
# Weight of a new batch in the running mean that the gradient divides by.
AVERAGE_RATE = 0.01
# Training stops when this many epochs have passed since the first that came within TOLERANCE nats of the best.
PATIENCE = 5
TOLERANCE = 0.05
# Of the samples, those that judge when they are not those that train.
HELD_OUT_SHARE = 1 / 3
# Shuffled copies of the held-out samples, against which the samples themselves are held.
SHUFFLES = 4
# Rows that pass through a judging network at a time: what lies between its layers stays in a core's cache.
ROWS = 1000


class Estimate(NamedTuple):
    """``information []`` in nats, and ``epochs []`` that were trained."""

    information: Float[Array, "..."]
    epochs: Int[Array, "..."]


def neural_information(
    key: PRNGKeyArray,
    left: Float[Array, "n a"],
    right: Float[Array, "n b"],
    *,
    judge: Judge = "held_out",
    max_epochs: int = 200,
    width: int = 32,
) -> Estimate:
    """A lower bound on the mutual information of ``left`` and ``right`` in nats, 0 at least.

    A network ``T`` of four hidden layers, each ``width · (a + b)`` wide, climbs the Donsker–Varadhan value
    ``⟨T(x, y)⟩ − log ⟨exp T(x, y')⟩``, ``y'`` shuffled within a batch of 256, with Adam at 1e-3. The gradient divides
    by a running mean of ``⟨exp T⟩``, which takes out most of a batch's bias. Inputs are standardized. Training stops
    when more than five epochs have passed since the first that came within 0.05 nats of the best, or after
    ``max_epochs``.

    Args:
      judge: ``"held_out"``: a third of the samples is kept from training and judges each epoch, against four shuffles
        of itself; the result is the best epoch's value. ``"in_sample"``, the authors' form: all samples train and
        judge, one shuffle each; the result is the best of the last five epochs, which what the network knows by heart
        can push above the truth.

    Contract: a constant side gives 0; a non-finite value gives NaN; stochastic in ``key``. A bound cannot much exceed
    the log of the judging samples, and falls short where the information is large (a copy of a continuous variable,
    whose information is infinite, is told as 3 to 5 nats).

    Reference: Belghazi et al. 2018, Alg. 1 and §3.2 (the running mean); Julka et al. 2024 and its released code (width,
    stop). That code scales single inputs by their standard deviation and joint ones not at all.
    """
    sample = jnp.concatenate([standardized(left), standardized(right)], axis=1)
    n = sample.shape[0]
    split_key, init_key, key = jax.random.split(key, 3)
    sample = sample[jax.random.permutation(split_key, n)]
    cut = max(2, n - int(n * HELD_OUT_SHARE)) if judge == "held_out" and n > 3 else n
    train, judging = sample[:cut], sample[cut:] if cut < n else sample
    split = left.shape[1]
    shuffles = SHUFFLES if judge == "held_out" else 1
    params = _init(init_key, sample.shape[1], width)
    start = _State(
        params,
        jax.tree.map(jnp.zeros_like, (params, params)),
        jnp.float32(0),
        jnp.float32(1),
        jnp.full(max_epochs, -jnp.inf, jnp.float32),
        jnp.int32(0),
    )

    def train_on(state):
        epoch_key = jax.random.fold_in(key, state.epoch)
        state = _epoch(epoch_key, state, train, split)
        value = _bound(jax.random.fold_in(epoch_key, 1), state.params, judging, split, shuffles)
        return state._replace(history=state.history.at[state.epoch].set(value), epoch=state.epoch + 1)

    state = jax.lax.while_loop(lambda state: _improves(state, max_epochs), train_on, start)
    if judge == "held_out":
        found = state.history.max()
    else:
        position = jnp.arange(max_epochs)
        last = (position < state.epoch) & (position >= state.epoch - PATIENCE)
        found = jnp.where(last, state.history, -jnp.inf).max()
    found = jnp.where(_varies(left) & _varies(right), jnp.maximum(found, 0.0), 0.0)
    finite = jnp.isfinite(left).all() & jnp.isfinite(right).all()
    return Estimate(jnp.where(finite, found, jnp.nan), state.epoch)


def pairwise_neural_information(
    key: PRNGKeyArray, left: Float[Array, "n d"], right: Float[Array, "n k"], **options
) -> Float[Array, "d k"]:
    """:func:`neural_information` of each column of ``left`` with each of ``right``.

    All pairs share random numbers, so that the order of columns does not matter. One after the other on CPU, side by
    side on accelerators.
    """
    d, k = left.shape[1], right.shape[1]
    pairs = jnp.repeat(left.T, k, axis=0), jnp.tile(right.T, (d, 1))

    def one(pair):
        return neural_information(key, pair[0][:, None], pair[1][:, None], **options).information

    return _each(one, pairs).reshape(d, k)


def joint_neural_information(
    key: PRNGKeyArray, left: Float[Array, "n d"], right: Float[Array, "n k"], **options
) -> Float[Array, " k"]:
    """:func:`neural_information` of all columns of ``left`` together with each of ``right``."""
    return _each(lambda column: neural_information(key, left, column[:, None], **options).information, right.T)


def _each(function, tasks):
    count = jax.tree.leaves(tasks)[0].shape[0]
    return jax.lax.map(function, tasks, batch_size=None if jax.default_backend() == "cpu" else count)


class _State(NamedTuple):
    params: list
    moments: tuple[list, list]
    step: Float[Array, ""]
    average: Float[Array, ""]
    history: Float[Array, " e"]
    epoch: Int[Array, ""]


def _improves(state: _State, max_epochs: int):
    """Not yet ``PATIENCE`` epochs without a step towards the best. The first epoch near the best counts from 0."""
    near = jnp.argmax(state.history >= state.history.max() - TOLERANCE).astype(jnp.int32)
    waited = (state.epoch > PATIENCE) & (state.epoch - near > PATIENCE)
    return (state.epoch < max_epochs) & ~waited


def _init(key, inputs: int, width: int) -> list:
    """Weights and biases uniform in ± 1 / √(inputs of the layer)."""
    sizes = [inputs, *[width * inputs] * HIDDEN_LAYERS, 1]
    layers = []
    for layer_key, rows, columns in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
        bound = rows**-0.5
        weight_key, bias_key = jax.random.split(layer_key)
        weight = jax.random.uniform(weight_key, (columns, rows), minval=-bound, maxval=bound)
        layers.append((weight, jax.random.uniform(bias_key, (columns,), minval=-bound, maxval=bound)))
    return layers


def _apply(params: list, inputs: Float[Array, "n c"]) -> Float[Array, " n"]:
    inputs = inputs.T  # features first: the gradients' products are an eighth faster so on CPU
    for weight, bias in params[:-1]:
        inputs = jax.nn.relu(weight @ inputs + bias[:, None])
    weight, bias = params[-1]
    return (weight @ inputs)[0] + bias


def _shuffled(batch, split: int, by):
    """The left side of each row with the right side of another: rows of a batch come in random order."""
    return jnp.concatenate([batch[:, :split], jnp.roll(batch[:, split:], by, axis=0)], axis=1)


def _epoch(key, state: _State, train, split: int) -> _State:
    """One pass over the training samples in random batches; what does not fill a batch is left for another epoch."""
    size = min(BATCH, train.shape[0])
    batches = train.shape[0] // size
    order = _random_order(key, train.shape[0])[: batches * size].reshape(batches, size)

    def step(carry, rows):
        params, moments, count, average = carry
        batch = train[rows]
        inputs = jnp.concatenate([batch, _shuffled(batch, split, 1)])

        def loss(params):
            output = _apply(params, inputs)
            shuffled = jnp.exp(output[size:]).mean()
            updated = jax.lax.stop_gradient((1 - AVERAGE_RATE) * average + AVERAGE_RATE * shuffled)
            return shuffled / updated - output[:size].mean(), updated

        gradient, average = jax.grad(loss, has_aux=True)(params)
        count = count + 1
        params, moments = _adam(params, gradient, moments, count)
        return (params, moments, count, average), None

    carry = jax.lax.scan(step, (state.params, state.moments, state.step, state.average), order)[0]
    return state._replace(params=carry[0], moments=carry[1], step=carry[2], average=carry[3])


def _random_order(key, n: int) -> Int[Array, " n"]:
    """0 … n − 1, by one sort of random numbers that end in the index: a tenth of the time of a permutation.

    Numbers that agree in their random bits stay in order, which says nothing of samples that lie in random order.
    """
    index = jnp.arange(n, dtype=jnp.uint32)
    ending = jnp.uint32((1 << max(n - 1, 1).bit_length()) - 1)
    numbers = (jax.random.bits(key, (n,)) & ~ending) | index
    # As signed numbers, which sort faster.
    ordered = jax.lax.sort(jax.lax.bitcast_convert_type(numbers, jnp.int32), is_stable=True)
    return ordered & ending.astype(jnp.int32)


def _adam(params, gradient, moments, count):
    """One update (Kingma & Ba 2015, Alg. 1), with the moments' corrections folded into the step."""
    first = jax.tree.map(lambda moment, slope: 0.9 * moment + 0.1 * slope, moments[0], gradient)
    second = jax.tree.map(lambda moment, slope: 0.999 * moment + 0.001 * slope**2, moments[1], gradient)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, one, two: p - rate * one / (jnp.sqrt(two) + 1e-8), params, first, second)
    return params, (first, second)


def _bound(key, params, sample, split: int, shuffles: int) -> Float[Array, ""]:
    """The Donsker–Varadhan value of a sample in random order, against distinct shifts of itself."""
    n = sample.shape[0]
    first = jax.random.randint(key, (), 1, max(2, n // shuffles))
    shifts = first + jnp.arange(shuffles, dtype=jnp.int32) * (n // shuffles)
    shuffled = jax.vmap(lambda by: _shuffled(sample, split, by))(shifts)
    together, apart = jnp.split(_apply_to_many(params, jnp.concatenate([sample, *shuffled])), [n])
    return together.mean() - jax.nn.logsumexp(apart) + jnp.log(jnp.float32(n * shuffles))


def _apply_to_many(params, inputs: Float[Array, "n c"]) -> Float[Array, " n"]:
    """:func:`_apply` to ``ROWS`` rows at a time."""
    n = inputs.shape[0]
    chunks = -(-n // ROWS)
    size = -(-n // chunks)
    padded = jnp.pad(inputs, ((0, chunks * size - n), (0, 0))).reshape(chunks, size, -1)
    return jax.lax.map(lambda rows: _apply(params, rows), padded).reshape(-1)[:n]


def _varies(columns):
    return (columns.max(axis=0) > columns.min(axis=0)).any()
