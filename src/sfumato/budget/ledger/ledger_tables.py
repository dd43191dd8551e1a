"""The tables of a ledger, their version, and how an older ledger becomes one of today.

`sfumato_ledger` has one row, which every change locks first: changes come one after the other, whatever
their datasets, and none waits for another in a circle; it has the digest of all that stands in the journal.
`sfumato_entries` is only ever added to, as is `sfumato_journal`; `sfumato_accounts` holds what follows from
the entries, so that a spend need not read them all. `sfumato_answers` has answers that may be given again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    update,
)

from sfumato.budget.ledger.entries import damaged
from sfumato.errors import EngineError
from sfumato.exact.parameters import canonical_bytes

VERSION = 2
_Number = BigInteger().with_variant(Integer, "sqlite")
TABLES: MetaData = MetaData()
LEDGER: Table = Table(
    "sfumato_ledger",
    TABLES,
    Column("version", Integer, nullable=False),
    Column("name", Text, nullable=False),  # drawn at random: entries of two ledgers are told apart
    Column("day", Text, nullable=False),  # the latest on which anything was entered
    Column("begins", Text, nullable=False, server_default=""),  # before the first line of the journal
    Column("journal", Text, nullable=False, server_default=""),  # the digest of its last one
)
ACCOUNTS: Table = Table(
    "sfumato_accounts",
    TABLES,
    Column("dataset", Text, primary_key=True),
    Column("analyst", Text, primary_key=True),  # "" for the cap over all analysts
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("composition", Text, nullable=False),
    Column("period", Text),
    Column("since", Text, nullable=False),  # the name of the period whose spends the totals have
    Column("totals", Text, nullable=False),
    Column("lifetime", Text, nullable=False),
)
ENTRIES: Table = Table(
    "sfumato_entries",
    TABLES,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("at", Text, nullable=False),  # as the clock said, in UTC
    Column("day", Text, nullable=False),  # by which periods go; never before that of an earlier entry
    Column("kind", Text, nullable=False),
    Column("dataset", Text, nullable=False, index=True),
    Column("analyst", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("loss", Text, nullable=False),
    Column("composition", Text),
    Column("period", Text),
    sqlite_autoincrement=True,  # a number is never used again
)
JOURNAL: Table = Table(
    "sfumato_journal",
    TABLES,
    Column("id", _Number, primary_key=True, autoincrement=False),  # 1, 2, 3, ...
    Column("content", Text, nullable=False),  # canonical JSON, all that the line says
    Column("sha256", Text, nullable=False),  # of the digest before it and the content
    # By which lines are found; they stand in the content too.
    Column("kind", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("analyst", Text, nullable=False),
    Column("entry", _Number),
    Column("question", Text, index=True),
    # By which the version of the data is found, and how often an analyst was refused.
    Index("ix_sfumato_journal_kind", "kind", "dataset", "analyst", "id"),
)
ANSWERS: Table = Table(
    "sfumato_answers",
    TABLES,
    Column("id", _Number, primary_key=True, autoincrement=False),  # of the line that has its digest
    Column("body", LargeBinary, nullable=False),
)
# Columns of entries of version 1, which are digested where a ledger of that version gets a journal.
_OF_VERSION_1 = (
    "id", "at", "day", "kind", "dataset", "analyst", "what", "epsilon", "delta", "loss",
    "composition", "period",
)  # fmt: skip


class Head(NamedTuple):
    """The one row of `sfumato_ledger`."""

    name: str
    day: date
    begins: str
    journal: str


def version(connection: Connection) -> int | None:
    """Return the version of the ledger that a database has; None where it has none."""
    if not inspect(connection).has_table(LEDGER.name):
        return None
    return _known_version(connection.execute(select(LEDGER.c.version)).scalars().first())


def _known_version(found: object) -> int:
    if not isinstance(found, int) or found < 1:
        raise ValueError  # which a store reports as damage
    return found


def make(connection: Connection, today: date) -> None:
    """Make the tables of an empty ledger."""
    TABLES.create_all(connection, checkfirst=False)
    name = secrets.token_hex(16)
    begins = _begins(connection, name, today)
    connection.execute(
        LEDGER.insert().values(
            version=VERSION, name=name, day=today.isoformat(), begins=begins, journal=digest(begins)
        )
    )


def head(connection: Connection, where: str, *, lock: bool) -> Head:
    """Read the ledger's own row; first make the ledger one of today, where it is older and may be changed.

    Args:
        lock: let others wait until the transaction ends, and bring the tables up to date.
    Raises:
        EngineError: the ledger is of a later version.
    """
    asked = select(LEDGER.c.version)
    rows = connection.execute(asked.with_for_update() if lock else asked).scalars().all()
    if len(rows) != 1:
        raise damaged(where, f"sfumato_ledger has {len(rows)} rows, and not one")
    version = _known_version(rows[0])
    if version > VERSION:
        raise EngineError(
            f"{where} was written by a later version of sfumato: it is a ledger of version {version}, "
            f"and this sfumato knows those up to {VERSION}; use the later one"
        )
    if version < VERSION:
        _migrate(connection, version, where, allowed=lock)
    found = connection.execute(select(LEDGER)).one()
    if not all(isinstance(text, str) for text in (found.name, found.begins, found.journal)):
        raise damaged(where)
    return Head(found.name, date.fromisoformat(found.day), found.begins, found.journal)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _begins(connection: Connection, name: str, day: date) -> str:
    """Return what stands before a journal: whose it is, from when, and all that was entered before."""
    rows = _before(connection, None)
    last = rows[-1][0] if rows else 0
    begins = {"ledger": name, "day": day.isoformat(), "entries": last, "sha256": _of_rows(rows)}
    return canonical_bytes(begins).decode()


def before_journal(connection: Connection, last: int) -> str:
    """Return the digest of what was entered before there was a journal, up to an entry."""
    return _of_rows(_before(connection, last))


def _before(connection: Connection, last: int | None) -> list[list[Any]]:
    asked = select(*(ENTRIES.c[name] for name in _OF_VERSION_1)).order_by(ENTRIES.c.id)
    rows = connection.execute(asked if last is None else asked.where(ENTRIES.c.id <= last)).all()
    return [list(row) for row in rows]


def _of_rows(rows: list[list[Any]]) -> str:
    return digest(canonical_bytes({"entries": rows}).decode())


def _with_journal(connection: Connection) -> None:
    """Make a ledger of version 1 one of version 2."""
    for column in ("begins", "journal"):
        connection.exec_driver_sql(f"ALTER TABLE {LEDGER.name} ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")
    JOURNAL.create(connection)
    ANSWERS.create(connection)
    name, day = connection.execute(select(LEDGER.c.name, LEDGER.c.day)).one()
    begins = _begins(connection, name, date.fromisoformat(day))
    connection.execute(update(LEDGER).values(begins=begins, journal=digest(begins)))


# What makes a ledger of each version one of the next; a version that was ever released stays here for ever.
# Verification adds up all prices anew, so that a version that changes a price adds up all accounts here.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _with_journal}


def _migrate(connection: Connection, version: int, where: str, *, allowed: bool) -> None:
    if not allowed:
        raise EngineError(f"{where} is of an older version, and becomes one of today when it is next written")
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    connection.execute(update(LEDGER).values(version=VERSION))
