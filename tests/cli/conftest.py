"""Commands are run in this process, whose devices are set already."""

import pytest


@pytest.fixture(scope="package", autouse=True)
def in_process():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxdis.cli._terminal.start", lambda cache: None)
        yield
