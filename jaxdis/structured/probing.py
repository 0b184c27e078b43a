"""Probing a representation whose slots come in any order: Algorithm 1."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis.learners.assignment import assign
from jaxdis.structured.orders import best_orders, take_slots
from jaxdis.structured.targets import Encoding, Plan, basis, make_plan, mixing
from jaxdis.typing import Factors

Start = Literal["given", "best"]
ROUNDS = 8


class Probe(NamedTuple):
    """What Algorithm 1 found.

    ``orders [n, s]``: position ``p`` takes slot ``orders[:, p]``. ``codes [n, s, p]``: in these orders, standardized.
    ``targets [n, c]``: standardized factors as they were regressed on. ``trace [i]``: the penalized squared error of
    the training samples, a sample and target, after each M-step; it never rises, and stands still after ``iterations``
    of them, when no order changes any more.
    """

    orders: Int[Array, "n s"]
    codes: Float[Array, "n s p"]
    targets: Float[Array, "n c"]
    trace: Float[Array, " i"]
    iterations: Int[Array, ""]


class _Fit(NamedTuple):
    coefficients: Float[Array, "s p c"]
    intercept: Float[Array, " c"]
    targets: Float[Array, "n c"]
    error: Float[Array, ""]


def probe(
    codes: Float[Array, "n s p"],
    factors: Factors,
    *,
    train: Bool[Array, " n"] | None = None,
    categorical: tuple[int, ...] = (),
    encoding: Encoding = "ordered",
    objects: Sequence[Sequence[int]] = (),
    start: Start = "best",
    penalty: float = 1.0,
    iterations: int = 100,
    exact: bool | None = None,
) -> Probe:
    """Finds, for each sample, the order of its slots that one linear model of all factors fits best.

    M-step: ridge regression from all slots, in their present order, to all factors, in closed form. E-step: for each
    sample the order of least squared error (:func:`jaxdis.structured.orders.best_orders`: exact up to 7 slots).
    Repeated until no order changes, at most ``iterations`` times.

    Args:
      codes: ``[n, s, p]``, ``s`` slots of ``p`` codes.
      train: ``[n]``, the samples of the M-step; all when None. Every sample is put in order by its own factors.
      categorical: columns of factors that are classes without order; the others are numbers.
      encoding: of those, ``"ordered"`` as the paper (equally spaced values in the order of the classes that is
        predicted best) or ``"one_hot"``.
      objects: for each object the columns of its properties, the same in the same order; for ``start="best"``.
      start: ``"given"``, the order as it comes (the paper). ``"best"``: of that order, of the order that clusters slots
        around positions, and of the order in which one linear model shared by all slots reads the objects (when there
        are ``objects``), the one from which the first M-step has the least error. From slots in random order
        Algorithm 1 as printed recovers planted orders in groups as wide as those of the paper's table 7, in about ten
        iterations; in narrower and noisier ones, where objects differ much more than samples do, it ends in poor local
        minima (2 to 10 % recovered for ± 3 of 40 values in every property and noise of two thirds of their spread).
      penalty: of the ridge; the paper does not state it (scikit-learn's default is 1).

    Codes are first divided by their deviation over samples and slots, factors by theirs over training samples, neither
    of which the paper states; a dim of slots or a factor that does not vary is 0. With non-finite codes everything is
    NaN, and orders mean nothing. Deterministic.

    Reference: Dang-Nhu 2022, §4 (Algorithm 1) and App. C.4.
    """
    n, slots, _ = codes.shape
    plan = make_plan(factors.sizes, tuple(categorical), encoding)
    seen = jnp.ones(n) if train is None else train.astype(jnp.float32)
    codes = _scaled(codes)
    columns = basis(plan, factors.values.astype(jnp.float32))
    columns = columns - (seen @ columns / seen.sum())[None]
    # The scale of a number is for the mix to choose; here it only matters to rounding.
    numbers = jnp.asarray(np.repeat(np.array(plan.sizes) == 1, plan.sizes))
    largest = jnp.maximum(jnp.abs(columns).max(axis=0), 1e-6)
    columns = columns / jnp.where(numbers, largest, 1.0)[None]

    def m_step(orders):
        return _ridge(plan, take_slots(codes, orders), columns, seen, penalty)

    def iterate(state):
        orders, trace, count, _ = state
        fit = m_step(orders)
        found = best_orders(codes, fit.targets - fit.intercept[None], fit.coefficients, orders, exact=exact)
        trace = jnp.where(jnp.arange(iterations) >= count, fit.error, trace)
        return found, trace, count + 1, (found != orders).any()

    def going(state):
        return state[3] & (state[2] < iterations)

    orders = jnp.broadcast_to(jnp.arange(slots, dtype=jnp.int32), (n, slots))
    if start == "best" and slots > 1:
        orders = _best_start(codes, orders, factors.values.astype(jnp.float32), objects, m_step)
    state = (orders, jnp.zeros(iterations), jnp.int32(0), jnp.array(True))
    orders, trace, count, _ = jax.lax.while_loop(going, iterate, state)
    return Probe(orders, take_slots(codes, orders), m_step(orders).targets, trace, count)


def _ridge(plan: Plan, codes, columns, seen, penalty) -> _Fit:
    """The M-step: solved for the basis of all factors at once, of which every encoding is a mixture."""
    n, slots, dims = codes.shape
    total = seen.sum()
    inputs = codes.reshape(n, slots * dims)
    mean = seen @ inputs / total
    inputs = inputs - mean[None]
    weighed = inputs * seen[:, None]
    gram = jnp.dot(weighed.T, inputs, precision="highest") + penalty * jnp.eye(slots * dims)
    cross = jnp.dot(weighed.T, columns, precision="highest")
    solution = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(gram), cross)
    own = jnp.dot((columns * seen[:, None]).T, columns, precision="highest") / total
    left = own - jnp.dot(cross.T, solution, precision="highest") / total
    mix = mixing(plan, own, left)
    coefficients = jnp.dot(solution, mix, precision="highest")
    error = jnp.einsum("tc,tu,uc->", mix, left, mix, precision="highest") / mix.shape[1]
    targets = jnp.dot(columns, mix, precision="highest")
    intercept = -jnp.dot(mean, coefficients, precision="highest")
    return _Fit(coefficients.reshape(slots, dims, -1), intercept, targets, error)


def _best_start(codes, given, values, objects, m_step):
    starts = [given, _clustered(codes)]
    if len(objects) and codes.shape[1] > 1:
        starts.append(_shared(codes, values, objects))
    starts = jnp.stack(starts)
    errors = jax.lax.map(lambda orders: m_step(orders).error, starts)
    return starts[jnp.argmin(errors)]


def _clustered(codes):
    """Orders that put each sample's slots next to the positions' means, in turn with these means."""

    def step(means, _):
        distance = ((codes[:, :, None] - means[None, None]) ** 2).sum(axis=3)
        orders = jax.vmap(lambda cost: assign(cost, method="optax").row)(distance)
        return take_slots(codes, orders).mean(axis=0), orders

    return jax.lax.scan(step, codes[0], None, length=ROUNDS)[1][-1]


def _shared(codes, values, objects):
    """Orders in which one linear model, the same for every slot, reads object ``o`` from position ``o``.

    It starts from the regression of the sum over objects on the sum over slots, which knows no order.
    """
    n, slots, _ = codes.shape
    read = min(slots, len(objects))
    wanted = values[:, np.array([list(columns) for columns in objects[:read]])]
    wanted = _scaled(wanted)

    def line(inputs, outputs):
        mean, middle = inputs.mean(axis=0, keepdims=True), outputs.mean(axis=0, keepdims=True)
        gram = jnp.dot((inputs - mean).T, inputs - mean, precision="highest") + jnp.eye(inputs.shape[1])
        cross = jnp.dot((inputs - mean).T, outputs - middle, precision="highest")
        slope = jax.scipy.linalg.solve(gram, cross, assume_a="pos")
        return slope, middle - jnp.dot(mean, slope, precision="highest")

    def step(model, _):
        slope, intercept = model
        says = jnp.einsum("nsi,if->nsf", codes, slope, precision="highest") + intercept[None]
        distance = ((says[:, :, None] - wanted[:, None]) ** 2).sum(axis=3)
        row = jax.vmap(lambda cost: assign(cost, method="optax").row)(distance)
        matched = take_slots(codes, row).reshape(n * read, -1)
        return line(matched, wanted.reshape(n * read, -1)), row

    first = line(codes.sum(axis=1), wanted.sum(axis=1) * (slots / read))
    row = jax.lax.scan(step, first, None, length=ROUNDS)[1][-1]
    if read == slots:
        return row
    # Slots that read no object follow in the order in which they came.
    taken = jnp.zeros((n, slots), bool).at[jnp.arange(n)[:, None], row].set(True)
    rest = jnp.argsort(taken, axis=1, stable=True)[:, : slots - read].astype(jnp.int32)
    return jnp.concatenate([row, rest], axis=1)


def _scaled(array: Float[Array, "n s p"]) -> Float[Array, "n s p"]:
    """Each dim with mean 0 and variance 1 over samples and slots, which no order of slots changes; constants are 0."""
    first = array[:1, :1]
    centered = array - first
    centered = centered - centered.mean(axis=(0, 1), keepdims=True)
    variance = (centered**2).mean(axis=(0, 1), keepdims=True)
    floor = (4 * jnp.finfo(jnp.float32).eps * jnp.abs(array).max(axis=(0, 1), keepdims=True)) ** 2
    still = variance <= floor
    return jnp.where(still, 0.0, centered * jax.lax.rsqrt(jnp.where(still, 1.0, variance)))
