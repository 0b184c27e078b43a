"""The tiny images of the tests of models."""

from tests.models.conftest import images

__all__ = ["images"]
