"""Probing a representation whose slots are in any order: Algorithm 1 in Dang-Nhu 2022.

Which order a linear model fits best is found among all orders up to 7 slots, and by a search for more.
"""

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import rounding_of, safe_divide
from jaxdis._core.factorizations import solve_positive
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.options import Natural, Positive, checked, listed, shown
from jaxdis.factors import Factors

# All orders are tried for up to this many slots; a table of 8! = 40,320 orders would not pay off.
MOST_EXACT = 7
# Samples and orders processed at once: temporaries stay below 24 MB, and 256 samples were fastest on a CPU.
SAMPLES = 256
ORDERS = 720
SWEEPS = 20


class Costs(NamedTuple):
    """Squared error of an order ``π`` up to a constant: ``Σ_p single[π(p), p] + Σ_{p≠q} pair[π(p), p, π(q), q]``."""

    single: Float[Array, "n s s"]
    pair: Float[Array, "n s s s s"]


@checked
def best_orders(
    codes: Float[Array, "n s p"],
    targets: Float[Array, "n c"],
    coefficients: Float[Array, "s p c"],
    current: Int[Array, "n s"],
    *,
    exact: bool | None = None,
) -> Int[Array, "n s"]:
    """Find for each sample the slot order ``π`` with the least ``‖targets − Σ_p codes[π(p)] · coefficients[p]‖²``.

    Slot ``s`` contributes ``a[s, p] = codes[s] · coefficients[p]`` in position ``p``. An order's error is a sum of
    inner products between these, which are computed once. This is not an assignment problem: every position contributes
    to every target, so the error is quadratic in the order. Up to ``MOST_EXACT`` slots every order is tried, in chunks.

    With more slots, a search starts from ``current``. It takes the best assignment for the error linearized there, if
    that is better, and then, up to ``SWEEPS`` times, exchanges the two slots that lower the error most, until no
    exchange does. It never returns a worse order than ``current`` but may end in a local minimum, and costs ``s³`` per
    sample and sweep.

    Args:
      exact: whether to try all orders; by the number of slots when None.

    Returns:
      ``[n, s]``, position ``p`` takes slot ``orders[:, p]``.
    """
    n, slots = codes.shape[:2]
    for name, shape, needed in (
        ("targets", targets.shape[:1], (n,)),
        ("coefficients", coefficients.shape, (*codes.shape[1:], targets.shape[1])),
        ("current", current.shape, (n, slots)),
    ):
        if shape != needed:
            raise ValueError(f"{name}: must have shape {needed}, as codes and targets imply, got {shape}")
    exact = slots <= MOST_EXACT if exact is None else exact

    def block(samples):
        codes, targets, current = samples
        costs = _costs(codes, targets, coefficients)
        return _every_order(costs) if exact else jax.vmap(_search)(costs, current)

    blocks = -(-n // SAMPLES)

    def cut(array):
        padding = ((0, blocks * SAMPLES - n), *((0, 0),) * (array.ndim - 1))
        return jnp.pad(array, padding).reshape(blocks, SAMPLES, *array.shape[1:])

    orders = jax.lax.map(block, (cut(codes), cut(targets), cut(current)))
    return orders.reshape(blocks * SAMPLES, slots)[:n]


@checked
def take_slots(codes: Float[Array, "n s p"], orders: Int[Array, "n q"]) -> Float[Array, "n q p"]:
    """Put codes' slots (or some of them) into the given orders.

    Raises:
      ValueError: for more or fewer samples, or orders that name no slot; traced orders are not looked at.
    """
    if codes.shape[0] != orders.shape[0]:
        raise ValueError(f"orders: must have the {codes.shape[0]} samples of codes, got {orders.shape[0]}")
    last = codes.shape[1] - 1
    if not isinstance(orders, jax.core.Tracer) and not ((orders >= 0) & (orders <= last)).all():
        raise ValueError(f"orders: must be slots from 0 to {last}, got {int(orders.min())} to {int(orders.max())}")
    return jnp.take_along_axis(codes, orders[:, :, None], axis=1)


def _costs(codes, targets, coefficients) -> Costs:
    n, slots = codes.shape[:2]
    contributions = jnp.einsum("nsi,pic->nspc", codes, coefficients, precision="highest").reshape(n, slots * slots, -1)
    products = jnp.einsum("nac,nbc->nab", contributions, contributions, precision="highest")
    alone = jnp.diagonal(products, axis1=1, axis2=2)
    single = alone - 2 * jnp.einsum("nac,nc->na", contributions, targets, precision="highest")
    return Costs(single.reshape(n, slots, slots), products.reshape(n, slots, slots, slots, slots))


def _every_order(costs: Costs) -> Int[Array, "n s"]:
    """The best order: costs are multiplied by a table with zeros and ones, one column per order."""
    n, slots = costs.single.shape[:2]
    orders = np.array(list(itertools.permutations(range(slots))), np.int32)
    p, q = np.triu_indices(slots, 1)
    first, second = (axis.ravel() for axis in np.where(~np.eye(slots, dtype=bool)))
    # Every pair of different slots in every pair of positions p < q.
    s, t = np.tile(first, len(p)), np.tile(second, len(p))
    p, q = np.repeat(p, len(first)), np.repeat(q, len(first))
    features = jnp.concatenate([costs.single.reshape(n, -1), 2 * costs.pair[:, s, p, t, q]], axis=1)

    def chunk(best, orders):
        lies = orders.T[None] == jnp.arange(slots, dtype=jnp.int32)[:, None, None]  # slot, position, order
        table = jnp.concatenate([lies.reshape(slots * slots, -1), lies[s, p] & lies[t, q]]).astype(jnp.float32)
        cost = jnp.dot(features, table, precision="highest")
        index = jnp.argmin(cost, axis=1)
        least = jnp.take_along_axis(cost, index[:, None], axis=1)[:, 0]
        better = least < best[0]
        return (jnp.where(better, least, best[0]), jnp.where(better[:, None], orders[index], best[1])), None

    size = min(len(orders), ORDERS)  # 720 divides 7!
    start = (jnp.full(n, jnp.inf), jnp.broadcast_to(jnp.arange(slots, dtype=jnp.int32), (n, slots)))
    return jax.lax.scan(chunk, start, jnp.asarray(orders.reshape(-1, size, slots)))[0][1]


def _search(costs: Costs, current: Int[Array, " s"]) -> Int[Array, " s"]:
    """A better order of one sample's slots: an assignment, then exchanges."""
    slots = current.shape[0]
    position = jnp.arange(slots, dtype=jnp.int32)
    p, q = (jnp.asarray(axis, jnp.int32) for axis in np.triu_indices(slots, 1))

    def error(order):
        placed = costs.pair[order[:, None], position[:, None], order[None], position[None]]
        return costs.single[order, position].sum() + jnp.where(jnp.eye(slots, dtype=bool), 0.0, placed).sum()

    pair_costs = costs.pair[:, :, current, position]  # slot, position, and the slots in other positions
    elsewhere = position[:, None] != position[None]
    linear = costs.single + 2 * jnp.where(elsewhere[None], pair_costs, 0.0).sum(axis=2)
    assigned = assign(linear, method="optax").row
    order = jnp.where(error(assigned) < error(current), assigned, current)

    def exchanged(order, p, q):
        return order.at[p].set(order[q]).at[q].set(order[p])

    def sweep(state):
        order, least, _, count = state
        trials = jax.vmap(exchanged, (None, 0, 0))(order, p, q)
        errors = jax.vmap(error)(trials)
        best = jnp.argmin(errors)
        better = errors[best] < least
        return jnp.where(better, trials[best], order), jnp.minimum(errors[best], least), better, count + 1

    state = (order, error(order), jnp.array(True), 0)
    return jax.lax.while_loop(lambda state: state[2] & (state[3] < SWEEPS), sweep, state)[0]


Encoding = Literal["ordered", "one_hot"]
# All v! / 2 orders of a category's classes are tried up to this many classes.
MOST_ORDERED = 6


class Layout(NamedTuple):
    """Which columns in the basis and the targets belong to which factor; static.

    ``sizes [k]``: how many classes a category has, 1 for a number. The basis ``[n, t]`` has one column per number and
    one per class in a category. Targets ``[n, c]`` are the basis times a matrix ``mix [t, c]``.
    """

    sizes: tuple[int, ...]
    encoding: Encoding

    @property
    def basis(self) -> list[slice]:
        return _spans(self.sizes)

    @property
    def targets(self) -> list[slice]:
        return _spans(self.sizes if self.encoding == "one_hot" else (1,) * len(self.sizes))

    @property
    def owner(self) -> np.ndarray:
        """``[c, k]``, 1 where a target belongs to a factor."""
        widths = [span.stop - span.start for span in self.targets]
        return np.eye(len(self.sizes), dtype=np.float32)[np.repeat(np.arange(len(self.sizes)), widths)]


def layout_of(sizes: tuple[int | None, ...], categorical: tuple[int, ...], encoding: Encoding) -> Layout:
    """The layout for factors of these sizes."""
    for j in categorical:
        if sizes[j] is None:
            raise ValueError(f"categorical: must be discrete factors, got the continuous factor {j}")
        if encoding == "ordered" and sizes[j] > MOST_ORDERED:
            raise ValueError(
                f"categorical: factor {j} has {sizes[j]} classes; all their orders are tried up to {MOST_ORDERED}, "
                "beyond use encoding='one_hot'"
            )
    return Layout(tuple(int(sizes[j]) if j in categorical else 1 for j in range(len(sizes))), encoding)


def basis(layout: Layout, values: Float[Array, "n k"]) -> Float[Array, "n t"]:
    """Numbers, and indicators of classes."""
    columns = [
        values[:, j : j + 1] if size == 1 else values[:, j : j + 1] == jnp.arange(size, dtype=jnp.float32)[None]
        for j, size in enumerate(layout.sizes)
    ]
    return jnp.concatenate([column.astype(jnp.float32) for column in columns], axis=1)


def mixing(layout: Layout, gram: Float[Array, "t t"], error: Float[Array, "t t"]) -> Float[Array, "t c"]:
    """The matrix from the basis to targets with variance 1 per factor and each category's classes in the best order.

    ``"ordered"``: classes have equally spaced values from −1 to 1, in the order with the least error relative to the
    variance; two classes are −1 and 1. ``"one_hot"``: indicators, whose variances add to 1. A factor that does not vary
    is 0. ``gram`` is ``TᵀT / n`` for the centered basis ``T``, ``error`` that for what a linear model leaves
    unexplained in it.

    Reference: Dang-Nhu 2022, App. C.4 ("−1, 0 and −1", where the last should be 1: "we match the classes to these
    values in order to minimize prediction error").
    """
    mix = jnp.zeros((gram.shape[0], layout.targets[-1].stop))
    for size, rows, columns in zip(layout.sizes, layout.basis, layout.targets, strict=True):
        own, left = gram[rows, rows], error[rows, rows]
        if size > 1 and layout.encoding == "ordered":
            orders = np.array([o for o in itertools.permutations(range(size)) if o[0] < o[-1]], np.float32)
            values = jnp.asarray(2 * orders / (size - 1) - 1)
            variance = jnp.einsum("ov,vw,ow->o", values, own, values, precision="highest")
            remains = jnp.einsum("ov,vw,ow->o", values, left, values, precision="highest")
            best = jnp.argmin(jnp.where(variance > 0, safe_divide(remains, variance), jnp.inf))
            block = values[best][:, None] * _inverse_root(variance[best])
        else:
            block = jnp.eye(size) * _inverse_root(jnp.trace(own))
        mix = mix.at[rows, columns].set(block)
    return mix


def _inverse_root(variance):
    varies = variance > 1e-10
    return jnp.where(varies, 1 / jnp.sqrt(jnp.where(varies, variance, 1.0)), 0.0)


def _spans(widths) -> list[slice]:
    ends = np.cumsum(widths)
    return [slice(int(end - width), int(end)) for width, end in zip(widths, ends, strict=True)]


Start = Literal["given", "best"]
ROUNDS = 8


class Probe(NamedTuple):
    """What Algorithm 1 returns.

    - ``orders [n, s]``: position ``p`` takes slot ``orders[:, p]``.
    - ``codes [n, s, p]``: the codes in these orders, standardized.
    - ``targets [n, c]``: the standardized factors used in the regression.
    - ``trace [i]``: the penalized squared error on the training samples after each M-step, per sample and target. It
      never increases, and is constant after ``iterations`` M-steps, when no order changes any more.
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


@checked
def probe(
    codes: Float[Array, "n s p"],
    factors: Factors,
    *,
    train: Bool[Array, " n"] | None = None,
    categorical: tuple[int, ...] = (),
    encoding: Encoding = "ordered",
    objects: Sequence[Sequence[int]] = (),
    start: Start = "best",
    penalty: Positive = 1.0,
    iterations: Natural = 100,
    exact: bool | None = None,
) -> Probe:
    """Find, for each sample, in which order of its slots a single linear model fits all factors best.

    M-step: ridge regression from all slots, in their present order, to all factors, in closed form. E-step: for each
    sample the order with the least squared error (:func:`jaxdis.structured.best_orders`: exact up to 7 slots).
    Both repeat until no order changes, at most ``iterations`` times.

    Args:
      codes: ``[n, s, p]``, ``s`` slots with ``p`` codes each.
      train: ``[n]``, the samples in the M-step; all when None. Every sample is ordered by its own factors.
      categorical: columns whose classes have no order; the others are numbers.
      encoding: targets for categorical factors. ``"ordered"`` as in the paper (equally spaced values, with classes in
        the order that is predicted best) or ``"one_hot"``.
      objects: for each object its properties' columns, in the same order for all objects; used by ``start="best"``.
      start: ``"given"``, the input's order (the paper). ``"best"``: whichever has the least error in the first M-step:
        this order, the order that clusters slots around positions and, if there are ``objects``, the order in which one
        linear model shared by all slots predicts the objects.
      penalty: for the ridge regression; the paper does not state it (scikit-learn's default is 1).
      iterations: the most M- and E-steps.
      exact: whether the E-step tries all orders; by the number of slots when None.

    ``"given"`` suffices for groups as wide as in the paper's table 7. Use ``"best"`` for narrower or noisier groups, in
    which objects differ much more than samples do: from the given order, Algorithm 1 then ends in poor local minima.

    Contract:

    - Codes are first divided by their deviation over samples and slots, and factors by theirs over training samples;
      the paper states neither. A code or a factor that does not vary is 0.
    - With non-finite codes all results are NaN, and the orders are meaningless. Deterministic.

    Raises:
      ValueError: naming the argument, what it must be and what it is.

    Reference: Dang-Nhu 2022, §4 (Algorithm 1) and App. C.4.
    """
    n, slots, _ = codes.shape
    _check(n, factors, train, categorical, objects)
    layout = layout_of(factors.sizes, tuple(categorical), encoding)
    seen = jnp.ones(n) if train is None else train.astype(jnp.float32)
    codes, values = _scaled(codes), factors.values.astype(jnp.float32)
    columns = basis(layout, values)
    columns = columns - (seen @ columns / seen.sum())[None]
    # The mix sets the scale of a number; here it only affects rounding.
    numbers = jnp.asarray(np.repeat(np.array(layout.sizes) == 1, layout.sizes))
    largest = jnp.maximum(jnp.abs(columns).max(axis=0), 1e-6)
    columns = columns / jnp.where(numbers, largest, 1.0)[None]

    def m_step(orders):
        return _ridge(layout, take_slots(codes, orders), columns, seen, penalty)

    def iterate(state):
        orders, trace, count, _ = state
        fit = m_step(orders)
        updated = best_orders(codes, fit.targets - fit.intercept[None], fit.coefficients, orders, exact=exact)
        trace = jnp.where(jnp.arange(iterations) >= count, fit.error, trace)
        return updated, trace, count + 1, (updated != orders).any()

    orders = jnp.broadcast_to(jnp.arange(slots, dtype=jnp.int32), (n, slots))
    if start == "best" and slots > 1:
        starts = [orders, _clustered(codes)]
        if len(objects):
            starts.append(_shared(codes, values, objects))
        starts = jnp.stack(starts)
        orders = starts[jnp.argmin(jax.lax.map(lambda orders: m_step(orders).error, starts))]
    state = (orders, jnp.zeros(iterations), jnp.int32(0), jnp.array(True))
    orders, trace, count, _ = jax.lax.while_loop(lambda state: state[3] & (state[2] < iterations), iterate, state)
    return Probe(orders, take_slots(codes, orders), m_step(orders).targets, trace, count)


def _check(n: int, factors: Factors, train, categorical, objects) -> None:
    """Check what :func:`probe` does not annotate."""
    if not n == factors.num_samples == (n if train is None else len(train)):
        raise ValueError(f"codes: must have as many samples as factors and train, got {n}")
    entries = listed(objects)
    rows = None if entries is None else [listed(columns) for columns in entries]
    if rows is None or None in rows or len({len(row) for row in rows}) > 1:
        raise ValueError(f"objects: must be equally many columns of factors per object, got {shown(objects)}")
    for name, columns in [("categorical", categorical), *(("objects", row) for row in rows)]:
        for column in columns:
            if not isinstance(column, int | np.integer) or not 0 <= column < factors.num_factors:
                raise ValueError(f"{name}: must be columns from 0 to {factors.num_factors - 1}, got {shown(column)}")


def _ridge(layout: Layout, codes, columns, seen, penalty) -> _Fit:
    """The M-step, solved for all factors' basis at once; every encoding mixes the basis linearly."""
    n, slots, dims = codes.shape
    total = seen.sum()
    inputs = codes.reshape(n, slots * dims)
    mean = seen @ inputs / total
    inputs = inputs - mean[None]
    weighed = inputs * seen[:, None]
    gram = jnp.dot(weighed.T, inputs, precision="highest") + penalty * jnp.eye(slots * dims)
    cross = jnp.dot(weighed.T, columns, precision="highest")
    solution = solve_positive(gram, cross)
    own = jnp.dot((columns * seen[:, None]).T, columns, precision="highest") / total
    left = own - jnp.dot(cross.T, solution, precision="highest") / total
    mix = mixing(layout, own, left)
    coefficients = jnp.dot(solution, mix, precision="highest")
    error = jnp.einsum("tc,tu,uc->", mix, left, mix, precision="highest") / mix.shape[1]
    targets = jnp.dot(columns, mix, precision="highest")
    intercept = -jnp.dot(mean, coefficients, precision="highest")
    return _Fit(coefficients.reshape(slots, dims, -1), intercept, targets, error)


def _clustered(codes):
    """Orders that match each sample's slots to the positions' means, alternating with updates to these means."""

    def step(means, _):
        distance = ((codes[:, :, None] - means[None, None]) ** 2).sum(axis=3)
        orders = jax.vmap(lambda cost: assign(cost, method="optax").row)(distance)
        return take_slots(codes, orders).mean(axis=0), orders

    return jax.lax.scan(step, codes[0], None, length=ROUNDS)[1][-1]


def _shared(codes, values, objects):
    """Orders in which one linear model, the same for every slot, predicts object ``o`` from position ``o``.

    It starts from regressing the sum over objects on the sum over slots, which does not depend on the order.
    """
    n, slots, _ = codes.shape
    read = min(slots, len(objects))
    wanted = _scaled(values[:, np.array([list(columns) for columns in objects[:read]])])

    def line(inputs, outputs):
        mean, middle = inputs.mean(axis=0, keepdims=True), outputs.mean(axis=0, keepdims=True)
        gram = jnp.dot((inputs - mean).T, inputs - mean, precision="highest") + jnp.eye(inputs.shape[1])
        cross = jnp.dot((inputs - mean).T, outputs - middle, precision="highest")
        slope = solve_positive(gram, cross)
        return slope, middle - jnp.dot(mean, slope, precision="highest")

    def step(model, _):
        slope, intercept = model
        predicted = jnp.einsum("nsi,if->nsf", codes, slope, precision="highest") + intercept[None]
        distance = ((predicted[:, :, None] - wanted[:, None]) ** 2).sum(axis=3)
        row = jax.vmap(lambda cost: assign(cost, method="optax").row)(distance)
        matched = take_slots(codes, row).reshape(n * read, -1)
        return line(matched, wanted.reshape(n * read, -1)), row

    first = line(codes.sum(axis=1), wanted.sum(axis=1) * (slots / read))
    row = jax.lax.scan(step, first, None, length=ROUNDS)[1][-1]
    if read == slots:
        return row
    # Slots without an object follow in the given order.
    taken = jnp.zeros((n, slots), bool).at[jnp.arange(n)[:, None], row].set(True)
    rest = jnp.argsort(taken, axis=1, stable=True)[:, : slots - read].astype(jnp.int32)
    return jnp.concatenate([row, rest], axis=1)


def _scaled(array: Float[Array, "n s p"]) -> Float[Array, "n s p"]:
    """Each code with mean 0 and variance 1 over samples and slots, whatever order slots have; constants become 0."""
    first = array[:1, :1]
    centered = array - first
    centered = centered - centered.mean(axis=(0, 1), keepdims=True)
    variance = (centered**2).mean(axis=(0, 1), keepdims=True)
    floor = rounding_of(jnp.abs(array).max(axis=(0, 1), keepdims=True)) ** 2
    still = variance <= floor
    return jnp.where(still, 0.0, centered * jax.lax.rsqrt(jnp.where(still, 1.0, variance)))
