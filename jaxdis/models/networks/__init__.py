"""Encoders and decoders: three pure functions each, from this package or from users."""

__all__ = ()  # what is public here, jaxdis.models names
