"""What each code does to an image, as arrays: traversals and reconstruction sheets."""

import numpy as np

from jaxdis.models.images import checked_images
from jaxdis.models.zoo import Zoo


def traversals(
    zoo: Zoo, images, *, values=None, num_values: int = 9, reach: float = 2.0, relative: bool = False
) -> np.ndarray:
    """Images decoded while one code at a time takes given values and the others stay at the posterior mean.

    Args:
      zoo: ``m`` members.
      images: ``[n, h, w, c]`` to start from.
      values: ``[t]`` values that the code takes; None: ``num_values`` evenly from −reach to reach.
      num_values, reach: see ``values``.
      relative: values are standard deviations of the code over ``images``, about its mean over them (useful for codes
        that are far from the prior); needs several images.

    Returns:
      ``[m, n, d, t, h, w, c]`` float32 in [0, 1].

    Raises:
      ValueError: for images that do not suit the zoo, or relative values from a single image.
    """
    rows = checked_images(images, "images", zoo.config.network.image_shape)
    if relative and len(rows) < 2:
        raise ValueError(f"images: relative values need at least 2 images, got {len(rows)}")
    values = np.linspace(-reach, reach, num_values) if values is None else np.asarray(values)
    codes = zoo.encode(rows).mean
    m, n, d = codes.shape
    center, spread = (codes.mean(1), codes.std(1)) if relative else (np.zeros((m, d)), np.ones((m, d)))
    taken = center[:, :, None] + spread[:, :, None] * values
    moved = np.broadcast_to(codes[:, :, None, None, :], (m, n, d, len(values), d)).copy()
    for code in range(d):
        moved[:, :, code, :, code] = taken[:, None, code, :]
    decoded = zoo.decode(moved.reshape(m, -1, d).astype(np.float32))
    return decoded.reshape(m, n, d, len(values), *decoded.shape[2:])


def reconstructions(zoo: Zoo, images) -> np.ndarray:
    """Images beside what each member makes of them: ``[m, n, 2, h, w, c]`` float32 in [0, 1], original first."""
    rows = checked_images(images, "images", zoo.config.network.image_shape)
    originals = rows.astype(np.float32) * np.float32(1 / 255 if rows.dtype == np.uint8 else 1)
    made = zoo.reconstruct(rows)
    return np.stack([np.broadcast_to(originals, made.shape), made], axis=2)
