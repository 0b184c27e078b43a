"""The tiny images of the tests of models, the tiny study, and brief papers."""

from tests.models.conftest import images
from tests.papers.briefly import brief
from tests.study.conftest import tiny_copy, tiny_folder

__all__ = ["brief", "images", "tiny_copy", "tiny_folder"]
