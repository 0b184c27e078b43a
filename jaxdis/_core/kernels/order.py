"""The smallest values of rows, and the distance of each sample to its nearest ones."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxdis._core.loops import repeat
from jaxdis._core.platforms import Kernel, on_cpu

# Nearest samples in two columns at once. On CPU, a walk outwards along the sorted column stops for a sample when no
# nearer one can follow. On accelerators, all pairs are compared, in chunks.

# Share of samples left to brute force when the walk along the sorted code stops.
LEFT_SHARE = 1 / 32
# Steps of that walk between two checks of which samples have found all neighbors.
STRIDE = 8
# Values of which a row keeps one minimum, when its smallest values are sought: the fastest of 8, 16 and 32.
GROUP = 16


def insert(kept: tuple, value) -> tuple:
    """The ``k`` smallest values so far, in order, after one more value; elementwise."""
    updated = []
    for held in kept:
        updated.append(jnp.minimum(held, value))
        value = jnp.maximum(held, value)
    return tuple(updated)


def _smallest_by_selection(rows: Float[Array, "r n"], k: int) -> Float[Array, "r k"]:
    return -jax.lax.top_k(-rows, k)[0]


def _smallest_by_groups(rows: Float[Array, "r n"], k: int) -> Float[Array, "r k"]:
    """The ``k`` groups with the smallest minima hold the ``k`` smallest values, equal ones included."""
    r, n = rows.shape
    groups = -(-n // GROUP)
    if groups <= k:
        return _smallest_by_selection(rows, k)
    padded = jnp.pad(rows, ((0, 0), (0, GROUP * groups - n)), constant_values=jnp.inf)
    least = padded.reshape(r, GROUP, groups).min(axis=1)
    chosen = jax.lax.top_k(-least, k)[1]
    members = chosen[:, :, None] + groups * jnp.arange(GROUP, dtype=jnp.int32)[None, None, :]
    members = jnp.take_along_axis(padded, members.reshape(r, k * GROUP), axis=1, mode="promise_in_bounds")
    return _smallest_by_selection(members, k)


# ``smallest(rows [r, n], k) -> [r, k]``: each row's ``k`` smallest values, which has no fewer, in order and with ties.
# XLA's selection on CPU takes 2 ns a value of rows of 10,000, that of groups a seventh.
smallest = Kernel(cpu=_smallest_by_groups, accelerator=_smallest_by_selection)


def _radii_by_walk(ordered, value, neighbors: int) -> tuple[Float[Array, " n"], Int[Array, " n"]]:
    n = ordered.shape[0]
    radius, inside, settled = _walk(ordered, value, neighbors)
    left = max(1, int(n * LEFT_SHARE))
    rows = jnp.nonzero(~settled, size=left, fill_value=n)[0].astype(jnp.int32)
    brute = chunked_radii(ordered, value, jnp.minimum(rows, n - 1), neighbors)
    return tuple(walked.at[rows].set(exact, mode="drop") for walked, exact in zip((radius, inside), brute, strict=True))


def _radii_by_chunks(ordered, value, neighbors: int) -> tuple[Float[Array, " n"], Int[Array, " n"]]:
    return chunked_radii(ordered, value, jnp.arange(ordered.shape[0], dtype=jnp.int32), neighbors)


def _walk(ordered, value, neighbors: int):
    """Compare each sample with those 1, 2, … places away in the sorted code until few can still meet a nearer one."""
    n = ordered.shape[0]
    ends = jnp.full(n + STRIDE, jnp.inf, ordered.dtype)
    padded = jnp.concatenate([-ends, ordered, ends])
    padded_value = jnp.pad(value, (n + STRIDE, n + STRIDE))
    origin = n + STRIDE

    def at(array, shift):
        return jax.lax.dynamic_slice(array, (origin + shift,), (n,))

    def step(carry):
        shift, kept, _ = carry
        for further in range(1, STRIDE + 1):
            for place in (shift + further, -shift - further):
                distance = jnp.maximum(jnp.abs(at(padded, place) - ordered), jnp.abs(at(padded_value, place) - value))
                kept = insert(kept, distance)
        shift = shift + STRIDE
        nearest_unseen = jnp.minimum(at(padded, shift) - ordered, ordered - at(padded, -shift))
        return shift, kept, kept[-1] <= nearest_unseen

    def unsettled(carry):
        shift, _, settled = carry
        return (shift < n) & ((~settled).sum() > max(1, int(n * LEFT_SHARE)))

    start = jnp.int32(0), (jnp.full(n, jnp.inf, ordered.dtype),) * neighbors, jnp.zeros(n, bool)
    _, kept, settled = repeat("places", unsettled, step, start)
    inside = sum((distance < kept[-1]).astype(jnp.int32) for distance in kept)
    return kept[-1], inside, settled


def chunked_radii(code, value, rows: Int[Array, " r"], neighbors: int) -> tuple[Float[Array, " r"], Int[Array, " r"]]:
    """The radii of some rows against all samples, in chunks."""
    n = code.shape[0]
    size = chunk_rows(n)
    chunks = -(-rows.shape[0] // size)
    padded = jnp.pad(rows, (0, chunks * size - rows.shape[0])).reshape(chunks, size)

    def one_chunk(chunk):
        distances = jnp.abs(code[None, :] - code[chunk][:, None])
        distances = jnp.maximum(distances, jnp.abs(value[None, :] - value[chunk][:, None]))
        nearest = smallest(distances, neighbors + 1)[:, 1:]  # the sample itself is the first
        return nearest[:, -1], (nearest < nearest[:, -1:]).sum(axis=1, dtype=jnp.int32)

    radii_and_counts = jax.lax.map(one_chunk, padded)
    return tuple(part.reshape(-1)[: rows.shape[0]] for part in radii_and_counts)


def chunk_rows(n: int) -> int:
    """Rows of a distance table computed at once: 1 MB on CPU, where it stays in cache, 4 MB on accelerators."""
    numbers = 1 << 18 if on_cpu() else 1 << 20
    return max(8, min(256, numbers // n))


# ``radii(ordered [n], value [n], neighbors) -> [n], [n]``: the distance of each sample to its k-th nearest, the larger
# of those in the sorted column and in the other one, and how many of the ``k`` lie nearer.
radii = Kernel(
    cpu=_radii_by_walk,
    accelerator=_radii_by_chunks,
    named={"sorted": _radii_by_walk, "brute": _radii_by_chunks},
)
