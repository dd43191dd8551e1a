"""What tests of the docs share."""

import pytest

from .pages import read


@pytest.fixture(scope="session")
def pages() -> dict[str, str]:
    return read()
