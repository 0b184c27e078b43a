"""The version of the library, and of its numbers."""

__version__ = "0.1.0"
# Raised whenever a number may change for the same specification: old results are then stale, not overwritten.
NUMERICS = 16
