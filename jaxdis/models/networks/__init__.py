"""Encoders and decoders: three pure functions each, of this package or of a user."""
