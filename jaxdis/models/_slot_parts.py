"""What slots show in object-centric models, for all members in a zoo."""

from jaxdis.models._encoding import encode
from jaxdis.models._zoo import Zoo
from jaxdis.models.methods.slots._base import Parts, SlotMethod


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
