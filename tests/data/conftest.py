"""Every test of the data gets a cache folder of its own, and miniature files where it asks for them."""

import pytest

from jaxdis.data import FactorSpace
from jaxdis.data.files import _image_files as image_files
from tests.data.publishers import ARM, CARS, TOYS


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("JAXDIS_CACHE", str(folder))
    return folder / "data"


@pytest.fixture
def miniature(monkeypatch):
    """Spaces of as many cells as the publishers' files have images here."""
    monkeypatch.setattr(image_files, "mpi3d_space", lambda variant: ARM)
    monkeypatch.setattr(image_files, "CARS3D_SPACE", CARS)
    monkeypatch.setattr(image_files, "SMALLNORB_FULL_SPACE", TOYS)
    monkeypatch.setattr(image_files, "SMALLNORB_SPACE", FactorSpace.of(category=2, elevation=2, azimuth=3, lighting=1))
