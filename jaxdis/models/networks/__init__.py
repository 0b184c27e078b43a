"""Encoders and decoders: three pure functions each, from this package or from users."""
