"""What tests of the docs share."""

from __future__ import annotations

import pytest

from .pages import read


@pytest.fixture(scope="session")
def pages() -> dict[str, str]:
    return read()
