"""Fixtures of tests of the service."""

from pathlib import Path

import pytest

from tests.support.service import LocalService


@pytest.fixture
def service(tmp_path: Path) -> LocalService:
    """A service of its own for the test, with budgets in memory."""
    return LocalService(tmp_path)


@pytest.fixture
def paying(tmp_path: Path) -> LocalService:
    """A service whose ledger is charged; its data has no version, so no query is a repeat of another."""
    return LocalService(tmp_path, 10, ledger=True)
