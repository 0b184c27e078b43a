"""What can be trained: one hashable value per method, with pure functions for one member."""

__all__ = ()  # what is public here, jaxdis.models names
