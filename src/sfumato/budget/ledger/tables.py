"""The tables of a ledger, their version, and how an older ledger becomes one of today.

`sfumato_ledger` has one row, which every change locks first: changes come one after the other, whatever
their datasets, and none waits for another in a circle. What follows from all entries before, such as a chain
of digests, may be kept there. `sfumato_entries` is only ever added to; `sfumato_accounts` holds what follows
from the entries, so that a spend need not read them all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, Table, Text, inspect, select, update

from sfumato.budget.ledger.written import understood
from sfumato.errors import EngineError

VERSION = 1
# What makes a ledger of each version one of the next; a version that was ever released stays here for ever.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {}

TABLES = MetaData()
LEDGER = Table(
    "sfumato_ledger",
    TABLES,
    Column("version", Integer, nullable=False),
    Column("name", Text, nullable=False),  # drawn at random: entries of two ledgers are told apart
    Column("day", Text, nullable=False),  # the latest on which anything was entered
)
ACCOUNTS = Table(
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
ENTRIES = Table(
    "sfumato_entries",
    TABLES,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
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


class Head(NamedTuple):
    """The one row of `sfumato_ledger`."""

    name: str
    day: date


def version(connection: Connection) -> int | None:
    """Return the version of the ledger that a database has; None where it has none."""
    if not inspect(connection).has_table(LEDGER.name):
        return None
    return connection.execute(select(LEDGER.c.version)).scalars().first() or 0


def make(connection: Connection, today: date) -> None:
    """Make the tables of an empty ledger."""
    TABLES.create_all(connection, checkfirst=False)
    connection.execute(
        LEDGER.insert().values(version=VERSION, name=secrets.token_hex(16), day=today.isoformat())
    )


def head(connection: Connection, where: str, *, lock: bool) -> Head:
    """Read the ledger's own row; first make the ledger one of today, where it is older and may be changed.

    Args:
        lock: let others wait until the transaction ends, and bring the tables up to date.
    Raises:
        EngineError: the ledger is of a later version.
    """
    asked = select(LEDGER)
    rows = connection.execute(asked.with_for_update() if lock else asked).all()
    if len(rows) != 1:
        raise EngineError(f"{where} is damaged: sfumato_ledger has {len(rows)} rows, and not one")
    found = rows[0]
    if found.version > VERSION:
        raise EngineError(
            f"{where} was written by a later version of sfumato: it is a ledger of version {found.version}, "
            f"and this sfumato knows those up to {VERSION}; use the later one"
        )
    if found.version < VERSION:
        _migrate(connection, found.version, where, allowed=lock)
    with understood(where):
        return Head(found.name, date.fromisoformat(found.day))


def _migrate(connection: Connection, version: int, where: str, *, allowed: bool) -> None:
    if not allowed:
        raise EngineError(f"{where} is of an older version, and becomes one of today when it is next written")
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    connection.execute(update(LEDGER).values(version=VERSION))
