"""MINE: mutual information by a small network that distinguishes samples of two variables from shuffled ones."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.loops import each, repeat
from jaxdis._core.platforms import on_cpu
from jaxdis._learners.linear import standardized

Judge = Literal["held_out", "in_sample"]

HIDDEN_LAYERS = 4
LEARNING_RATE = 1e-3
BATCH = 256
# Weight of a new batch in the running mean that the gradient divides by.
AVERAGE_RATE = 0.01
# Training stops when this many epochs have passed since the first that came within TOLERANCE nats of the best.
PATIENCE = 5
TOLERANCE = 0.05
# Share of the samples that evaluate the network instead of training it.
HELD_OUT_SHARE = 1 / 3
# Number of shuffled copies against which the held-out samples are compared.
SHUFFLES = 4
# Rows evaluated at once: the activations stay in a core's cache.
ROWS = 1000


class Estimate(NamedTuple):
    """``information []`` in nats, and how many ``epochs []`` training took."""

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
    groups: Int[Array, " n"] | None = None,
) -> Estimate:
    """A lower bound on the mutual information of ``left`` and ``right`` in nats, at least 0.

    A network ``T`` of four hidden layers, each ``width · (a + b)`` wide, maximizes the Donsker–Varadhan value ``⟨T(x,
    y)⟩ − log ⟨exp T(x, y')⟩``, where ``y'`` is shuffled within a batch of 256, with Adam at 1e-3. The gradient is
    divided by a running mean of ``⟨exp T⟩``, which removes most of a batch's bias. Inputs are standardized. Training
    stops when more than five epochs have passed since the first that came within 0.05 nats of the best.

    Args:
      judge: which samples evaluate each epoch. ``"held_out"``: a third of the samples, kept from training, against four
        shuffles of themselves; the result is the value of the best epoch. ``"in_sample"`` (the authors' form): the
        training samples themselves, with one shuffle; the result is the best of the last five epochs, which
        memorization can push above the true value.
      width: hidden units per input.
      groups: equal numbers for samples that belong together; none is trained on and evaluated.

    Contract:

    - Stochastic in ``key``. If either variable is constant, the result is 0; a non-finite value gives NaN.
    - The bound cannot exceed the logarithm of the number of evaluating samples by much, and falls short where the
      information is large: a copy of a continuous variable, whose information is infinite, gives 3 to 5 nats.
    - Training may stop before the network has learned anything, since the rule, which is the authors', counts epochs:
      while the value is below 0.05 nats, it waits six of them. With fewer than 768 samples (``"held_out"``) an epoch is
      one step: a copy of nine classes, 2.2 nats, gives .05 with 500 samples and 2.2 with 1,000. Relations that are not
      monotone need still more: the parity of six intervals, .69 nats, gives .02 with 1,000 samples, .07 or .48 with
      3,000 and .57 with 10,000, where nearest neighbors give .69 throughout.
    - Not invariant under increasing maps: long tails (a lognormal variable and itself) give below 0.4 nats.

    Reference: Belghazi et al. 2018, Alg. 1 and §3.2 (the running mean); Julka et al. 2024 and its released code (width,
    stopping). That code divides single inputs by their standard deviation and does not scale joint ones.
    """
    sample = jnp.concatenate([standardized(left), standardized(right)], axis=1)
    n = sample.shape[0]
    split_key, init_key, key = jax.random.split(key, 3)
    cut = max(2, n - int(n * HELD_OUT_SHARE)) if judge == "held_out" and n > 3 else n
    if groups is None or cut == n:
        sample = sample[jax.random.permutation(split_key, n)]
        train, judging = sample[:cut], sample[cut:] if cut < n else sample
    else:
        judging, train = (sample[rows] for rows in random.divided_rows(split_key, groups, n, n - cut))
    split = left.shape[1]
    shuffles = SHUFFLES if judge == "held_out" else 1
    params = _init(init_key, sample.shape[1], width)
    moments, history = jax.tree.map(jnp.zeros_like, (params, params)), jnp.full(max_epochs, -jnp.inf, jnp.float32)
    start = _State(params, moments, jnp.float32(0), jnp.float32(1), history, jnp.int32(0))

    def train_on(state):
        epoch_key = jax.random.fold_in(key, state.epoch)
        state = _epoch(epoch_key, state, train, split)
        value = _bound(jax.random.fold_in(epoch_key, 1), state.params, judging, split, shuffles)
        return state._replace(history=state.history.at[state.epoch].set(value), epoch=state.epoch + 1)

    def improves(state):
        """Whether at most ``PATIENCE`` epochs have passed since the first that came near the best."""
        near = jnp.argmax(state.history >= state.history.max() - TOLERANCE).astype(jnp.int32)
        waited = (state.epoch > PATIENCE) & (state.epoch - near > PATIENCE)
        return (state.epoch < max_epochs) & ~waited

    state = repeat("mine", improves, train_on, start)
    if judge == "held_out":
        bound = state.history.max()
    else:
        position = jnp.arange(max_epochs)
        last = (position < state.epoch) & (position >= state.epoch - PATIENCE)
        bound = jnp.where(last, state.history, -jnp.inf).max()
    bound = jnp.where(_varies(left) & _varies(right), jnp.maximum(bound, 0.0), 0.0)
    finite = jnp.isfinite(left).all() & jnp.isfinite(right).all()
    return Estimate(jnp.where(finite, bound, jnp.nan), state.epoch)


def pairwise_neural_information(
    key: PRNGKeyArray, left: Float[Array, "n d"], right: Float[Array, "n k"], **options
) -> Float[Array, "d k"]:
    """:func:`neural_information` of each column of ``left`` with each of ``right``; passes ``options`` on.

    All pairs share random numbers, so the order of columns does not matter. Pairs run one after the other on CPU and
    side by side on accelerators.
    """
    d, k = left.shape[1], right.shape[1]
    pairs = jnp.repeat(left.T, k, axis=0), jnp.tile(right.T, (d, 1))

    def one_pair(pair):
        return neural_information(key, pair[0][:, None], pair[1][:, None], **options).information

    return each(one_pair, pairs).reshape(d, k)


def joint_neural_information(
    key: PRNGKeyArray, left: Float[Array, "n d"], right: Float[Array, "n k"], **options
) -> Float[Array, " k"]:
    """:func:`neural_information` of all columns of ``left`` together with each of ``right``; passes ``options`` on."""
    return each(lambda column: neural_information(key, left, column[:, None], **options).information, right.T)


class _State(NamedTuple):
    params: list
    moments: tuple[list, list]
    step: Float[Array, ""]
    average: Float[Array, ""]
    history: Float[Array, " e"]
    epoch: Int[Array, ""]


def _init(key, inputs: int, width: int) -> list:
    """Weights and biases uniform in ± 1 / √(inputs of the layer)."""
    sizes = [inputs, *[width * inputs] * HIDDEN_LAYERS, 1]
    layers = []
    for layer_key, rows, columns in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
        bound = rows**-0.5
        weight_key, bias_key = jax.random.split(layer_key)
        weight = random.uniform(weight_key, (columns, rows), minval=-bound, maxval=bound)
        layers.append((weight, random.uniform(bias_key, (columns,), minval=-bound, maxval=bound)))
    return layers


def _apply(params: list, inputs: Float[Array, "n c"]) -> Float[Array, " n"]:
    inputs = inputs.T  # features first: the products of the gradients are then an eighth faster on CPU
    for weight, bias in params[:-1]:
        inputs = jax.nn.relu(weight @ inputs + bias[:, None])
    weight, bias = params[-1]
    return (weight @ inputs)[0] + bias


def _shuffled(batch, split: int, by):
    """The left side of each row with the right side of another; the rows of a batch are in random order."""
    return jnp.concatenate([batch[:, :split], jnp.roll(batch[:, split:], by, axis=0)], axis=1)


def _epoch(key, state: _State, train, split: int) -> _State:
    """One pass over the training samples in random batches; an incomplete last batch is skipped."""
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
    """0 … n − 1 in random order, by one sort of random numbers that end in the index; ten times as fast as permuting.

    Numbers with equal random bits stay in order, which does no harm because the samples are already in random order.
    """
    index = jnp.arange(n, dtype=jnp.uint32)
    ending = jnp.uint32((1 << max(n - 1, 1).bit_length()) - 1)
    numbers = (random.bits(key, (n,)) & ~ending) | index
    # Signed numbers sort faster.
    ordered = jax.lax.sort(jax.lax.bitcast_convert_type(numbers, jnp.int32), is_stable=True)
    return ordered & ending.astype(jnp.int32)


def _adam(params, gradient, moments, count):
    """One update (Kingma & Ba 2015, Alg. 1), with the bias corrections of the moments folded into the step."""
    first = jax.tree.map(lambda moment, slope: 0.9 * moment + 0.1 * slope, moments[0], gradient)
    second = jax.tree.map(lambda moment, slope: 0.999 * moment + 0.001 * slope**2, moments[1], gradient)
    rate = LEARNING_RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, mean, square: p - rate * mean / (jnp.sqrt(square) + 1e-8), params, first, second)
    return params, (first, second)


def _bound(key, params, sample, split: int, shuffles: int) -> Float[Array, ""]:
    """The Donsker–Varadhan value of a sample in random order, against distinct shifts of itself."""
    n = sample.shape[0]
    first = random.randint(key, (), 1, max(2, n // shuffles))
    shifts = first + jnp.arange(shuffles, dtype=jnp.int32) * (n // shuffles)
    shuffled = jax.vmap(lambda by: _shuffled(sample, split, by))(shifts)
    together, shuffled_scores = jnp.split(_apply_to_many(params, jnp.concatenate([sample, *shuffled])), [n])
    return together.mean() - jax.nn.logsumexp(shuffled_scores) + jnp.log(jnp.float32(n * shuffles))


def _apply_to_many(params, inputs: Float[Array, "n c"]) -> Float[Array, " n"]:
    """:func:`_apply` to ``ROWS`` rows at a time on CPU."""
    n = inputs.shape[0]
    chunks = -(-n // ROWS) if on_cpu() else 1
    size = -(-n // chunks)
    padded = jnp.pad(inputs, ((0, chunks * size - n), (0, 0))).reshape(chunks, size, -1)
    return jax.lax.map(lambda rows: _apply(params, rows), padded).reshape(-1)[:n]


def _varies(columns):
    return (columns.max(axis=0) > columns.min(axis=0)).any()
