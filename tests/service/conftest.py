"""What tests of the service share."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asking import Asked


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)
