"""Which order of slots a linear model fits best: all orders up to 7 slots, a search for more."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.kernels.assignment import assign
from jaxdis._core.options import checked

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

    def going(state):
        return state[2] & (state[3] < SWEEPS)

    return jax.lax.while_loop(going, sweep, (order, error(order), jnp.array(True), 0))[0]
