"""Training a zoo: updates, members over devices, checkpoints."""

__all__ = ()  # what is public here, jaxdis.models names
