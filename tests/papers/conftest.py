"""The tiny images of the tests of models, and the tiny study."""

from tests.models.conftest import images
from tests.study.conftest import tiny_copy, tiny_folder

__all__ = ["images", "tiny_copy", "tiny_folder"]
