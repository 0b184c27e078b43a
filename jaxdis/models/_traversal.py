"""Code traversals, reconstructions and what slots show, as arrays."""

import numpy as np

from jaxdis._core.precision import single_precision
from jaxdis.models._encoding import encode
from jaxdis.models._images import checked_images
from jaxdis.models._zoo import Zoo
from jaxdis.models.methods.slots._base import Parts, SlotMethod


@single_precision
def traversals(
    zoo: Zoo, images, *, values=None, num_values: int = 9, reach: float = 2.0, relative: bool = False
) -> np.ndarray:
    """Decode images whose codes move one at a time; the others stay at the posterior mean.

    Args:
      zoo: ``m`` members.
      images: ``[n, h, w, c]``, whose posterior means are traversed.
      values: ``[t]``, what the code takes; None: ``num_values`` values, evenly spaced from −reach to reach.
      num_values, reach: number and range of the default values.
      relative: whether values count in the code's standard deviations over ``images``, from its mean over them. This
        is useful for codes that are far from the prior, and needs several images.

    Returns:
      ``[m, n, d, t, h, w, c]`` float32 in [0, 1].

    Raises:
      ValueError: for images that do not suit the zoo, or relative values from a single image.

    Example: ``jaxdis.plots.image_grid(jaxdis.models.traversals(zoo, images[:1])[0, 0])``, one row per code.
    """
    rows = checked_images(images, "images", zoo.config.method.image_shape)
    if relative and len(rows) < 2:
        raise ValueError(f"images: relative values need at least 2 images, got {len(rows)}")
    values = np.linspace(-reach, reach, num_values) if values is None else np.asarray(values)
    codes = zoo.encode(rows)[0]
    m, n, d = codes.shape
    center, spread = (codes.mean(1), codes.std(1)) if relative else (np.zeros((m, d)), np.ones((m, d)))
    taken = center[:, :, None] + spread[:, :, None] * values
    moved = np.broadcast_to(codes[:, :, None, None, :], (m, n, d, len(values), d)).copy()
    for code in range(d):
        moved[:, :, code, :, code] = taken[:, None, code, :]
    decoded = zoo.decode(moved.reshape(m, -1, d).astype(np.float32))
    return decoded.reshape(m, n, d, len(values), *decoded.shape[2:])


@single_precision
def reconstructions(zoo: Zoo, images) -> np.ndarray:
    """Images next to each member's reconstructions: ``[m, n, 2, h, w, c]`` float32 in [0, 1], originals first."""
    rows = checked_images(images, "images", zoo.config.method.image_shape)
    originals = rows.astype(np.float32) * np.float32(1 / 255 if rows.dtype == np.uint8 else 1)
    decoded = zoo.reconstruct(rows)
    return np.stack([np.broadcast_to(originals, decoded.shape), decoded], axis=2)


def slot_parts(zoo: Zoo, images, *, batch_size: int | None = None, devices=None) -> Parts:
    """Show how images are reconstructed, their masks, and each slot's own picture.

    Args:
      zoo: ``m`` members whose method has slots.
      images: ``[n, h, w, c]``, uint8 or real in [0, 1].
      batch_size, devices: as in :meth:`jaxdis.models.Zoo.encode`.

    Returns:
      :class:`~jaxdis.models.Parts` with ``reconstruction [m, n, h, w, c]``, ``masks [m, n, s, h, w]`` and ``pictures
      [m, n, s, h, w, c]``, float32. Masks are those by :meth:`~jaxdis.models.Zoo.encode`: for MONet with attention
      masks, the reconstruction differs from :meth:`~jaxdis.models.Zoo.reconstruct`, which only has codes.

    Raises:
      ValueError: for a zoo whose method has no slots, or images that do not suit it.
    """
    method = zoo.config.method
    if not isinstance(method, SlotMethod):
        raise ValueError(f"zoo: must be a method with slots, got {type(method).__name__}")
    return encode(method, zoo.params, images, batch_size=batch_size, devices=devices, what="parts")
