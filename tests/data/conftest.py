"""Every test of the data gets a cache folder of its own."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("JAXDIS_CACHE", str(folder))
    return folder / "data"
