"""Object-centric models: an image as a mixture of slots, each with a code, a picture and a mask."""

__all__ = ()  # what is public here, jaxdis.models names
