"""How masks agree: adjusted Rand index, segmentation covering, and slots matched to objects by overlap."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Integer

from jaxdis._core.arrays import safe_divide
from jaxdis._core.kernels.assignment import Solver, assign, assign_each
from jaxdis._core.kernels.contingency import segment_tables
from jaxdis._core.options import Units, checked

Method = Literal["auto", "scatter", "one_hot"]
Masks = Integer[Array, "*images height width"]


class Covering(NamedTuple):
    """Mean over true segments: ``mean [...]``, unweighted (mSC); ``scaled [...]``, weighted by their pixels."""

    mean: Float[Array, "*images"]
    scaled: Float[Array, "*images"]


class OrderAgreement(NamedTuple):
    """``exact []``: how often orders agree; ``mismatch []``: in how many positions they differ on average."""

    exact: Float[Array, ""]
    mismatch: Float[Array, ""]


@checked
def contingency(
    true: Masks, predicted: Masks, true_segments: Units, predicted_segments: Units, *, method: Method = "auto"
) -> Float[Array, "*images t q"]:
    """Count how many of each image's pixels are in each true and each predicted segment.

    Args:
      true, predicted: ``[..., h, w]``, segment numbers from 0; any leading axes (images, members, …). Numbers beyond
        the last segment are left out.
      true_segments, predicted_segments: how many segments.
      method: ``"scatter"`` or multiplied ``"one_hot"`` matrices; ``"auto"`` chooses by platform.
    """
    if true.shape != predicted.shape:
        raise ValueError(f"predicted: must have the shape of true, {true.shape}, got {predicted.shape}")
    images, pixels = true.shape[:-2], true.shape[-2] * true.shape[-1]
    true, predicted = (mask.reshape(-1, pixels).astype(jnp.int32) for mask in (true, predicted))
    form = None if method == "auto" else method
    table = segment_tables(true, predicted, true_segments, predicted_segments, form=form)
    return table.reshape(*images, true_segments, predicted_segments)


@checked
def ari(
    true: Masks,
    predicted: Masks,
    *,
    true_segments: Units,
    predicted_segments: Units,
    foreground: bool = False,
    method: Method = "auto",
) -> Float[Array, "*images"]:
    """Compare two partitions of each image's pixels by the adjusted Rand index: 0 by chance, 1 if they are equal.

    Args:
      true, predicted: ``[..., h, w]``, segment numbers; 0 is the true background.
      true_segments, predicted_segments: how many segments, including the background.
      foreground: whether to leave out the true background's pixels.
      method: as for :func:`contingency`.

    Contract:

    - In [−1, 1]; how segments are numbered does not matter.
    - A single segment on both sides gives 1, on one side 0.
    - An image without pixels (without foreground) gives NaN, as in IODINE's released evaluation; scikit-learn gives 1.

    Reference: Hubert & Arabie 1985; Greff et al. 2019, App. (foreground).
    """
    table = contingency(true, predicted, true_segments, predicted_segments, method=method)
    table = table[..., 1:, :] if foreground else table
    rows, columns, pixels = table.sum(axis=-1), table.sum(axis=-2), table.sum(axis=(-2, -1))[..., None]

    # Pairs of pixels that are apart, counted twice. Unlike pairs that are together they stay few where one segment
    # covers nearly all pixels, so that no difference of large numbers is rounded.
    left, right = (rows * (pixels - rows)).sum(axis=-1), (columns * (pixels - columns)).sum(axis=-1)
    elsewhere = pixels[..., None] - rows[..., :, None] - columns[..., None, :] + table
    both, pixels = (table * elsewhere).sum(axis=(-2, -1)), pixels[..., 0]
    chance = left * safe_divide(right, pixels * (pixels - 1))
    # One segment on each side, or as many as pixels: the partitions are equal, also by chance.
    single = ((rows > 0).sum(axis=-1) == 1) & ((columns > 0).sum(axis=-1) == 1)
    equal = single | ((rows.max(axis=-1, initial=0) <= 1) & (columns.max(axis=-1, initial=0) <= 1))
    index = jnp.where(equal, 1.0, safe_divide(both - chance, (left + right) / 2 - chance))
    return jnp.where(pixels > 0, index, jnp.nan)


@checked
def mean_segmentation_covering(
    true: Masks,
    predicted: Masks,
    *,
    true_segments: Units,
    predicted_segments: Units,
    foreground: bool = False,
    method: Method = "auto",
) -> Covering:
    """Average over true segments the largest intersection over union with a predicted one.

    Arguments as for :func:`ari`, but ``foreground`` leaves out the true background as a segment, and predicted segments
    keep all their pixels. Segments without pixels do not count; an image without segments gives 0.

    Contract: in [0, 1].

    Reference: Arbeláez et al. 2011, §3.1 (scaled); Engelcke et al. 2020, App. (mean, which the papers on slots report;
    their code also averages over the batch).
    """
    overlap, rows = _overlap(true, predicted, true_segments, predicted_segments, method)
    best = overlap.max(axis=-1)
    if foreground:
        best, rows = best[..., 1:], rows[..., 1:]
    there = (rows > 0).astype(jnp.float32)
    return Covering(
        safe_divide((best * there).sum(axis=-1), there.sum(axis=-1)),
        safe_divide((best * rows).sum(axis=-1), rows.sum(axis=-1)),
    )


@checked
def match_slots(
    true: Masks,
    predicted: Masks,
    *,
    true_segments: Units,
    predicted_segments: Units,
    method: Method = "auto",
    assignment: Solver = "optax",
) -> Int[Array, "*images t"]:
    """Assign to each true segment its own slot (predicted segment), with the largest total overlap.

    Overlap is intersection over union; −1 marks a segment without a slot. Arguments as for :func:`ari`;
    ``assignment="scipy"`` solves the assignments on the host, all images in one call.

    Reference: Dang-Nhu 2022, §5 (table 1).
    """
    overlap, _ = _overlap(true, predicted, true_segments, predicted_segments, method)
    flat = overlap.reshape(-1, true_segments, predicted_segments)
    columns = assign_each(flat, maximize=True, method=assignment).column
    return columns.reshape(*overlap.shape[:-1])


@checked
def order_agreement(orders: Int[Array, "n s"], reference: Int[Array, "n s"], *, align: bool = True) -> OrderAgreement:
    """Compare the slot orders found by probing with those found by matching masks.

    Args:
      orders: position ``p`` takes slot ``orders[:, p]``, as in :class:`~jaxdis.structured.Probe`.
      reference: object ``o`` has slot ``reference[:, o]``, as in :func:`match_slots`.
      align: whether to first permute positions, in the same way for all samples, for the best agreement; probing does
        not assign positions to objects.

    With five slots a random order agrees exactly in 1 of 120 samples and mismatches in 4 positions.

    Reference: Dang-Nhu 2022, table 1.
    """
    if orders.shape != reference.shape:
        raise ValueError(f"reference: must have the shape of orders, {orders.shape}, got {reference.shape}")
    if align:
        same = (orders[:, :, None] == reference[:, None]).sum(axis=0).astype(jnp.float32)  # position, object
        orders = orders[:, assign(same, maximize=True, method="optax").row]
    differ = (orders != reference).sum(axis=1).astype(jnp.float32)
    return OrderAgreement((differ == 0).astype(jnp.float32).mean(), differ.mean())


def _overlap(true, predicted, true_segments, predicted_segments, method):
    """Intersections over union ``[..., t, q]``, and each true segment's pixels."""
    table = contingency(true, predicted, true_segments, predicted_segments, method=method)
    rows, columns = table.sum(axis=-1), table.sum(axis=-2)
    union = rows[..., :, None] + columns[..., None, :] - table
    return safe_divide(table, union), rows
