"""Places of ledgers: files, and databases of a real server."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_numbers = itertools.count()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "budget.db")


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The address of a new, empty database."""
    psycopg = pytest.importorskip("psycopg", reason="needs the extra ledger")
    server, name = request.getfixturevalue("postgresql_server"), f"ledger{next(_numbers)}"
    with psycopg.connect(f"postgresql://ann@/postgres?host={server}", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://ann:hunter2%25@/{name}?host={server}"


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("file" if request.param == "SQLite" else "database")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what sets the clock of ledgers in files to noon of a day."""
    from datetime import datetime

    from sfumato.budget.ledger import ledger_databases

    return lambda day: monkeypatch.setattr(
        ledger_databases, "_clock", lambda: datetime.fromisoformat(f"{day}T12:00:00+00:00")
    )
