"""The tables of a ledger: their columns and their version.

`sfumato_ledger` has one row, which every change locks first: changes come one after the other, whatever
their datasets, and none waits for another in a circle; it has the digest of all that stands in the journal.
`sfumato_entries` is only ever added to, as is `sfumato_journal`; `sfumato_accounts` holds what follows from
the entries, so that a spend need not read them all. `sfumato_answers` has answers that may be given again.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import date
from typing import NamedTuple

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
)

from sfumato.budget.ledger.ledger_entries import damaged
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
    Column("begins", Text, nullable=False),  # before the first line of the journal
    Column("journal", Text, nullable=False),  # the digest of its last one
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


class Head(NamedTuple):
    """The single row of the table `sfumato_ledger`."""

    name: str
    day: date
    begins: str
    journal: str


def has_ledger(connection: Connection) -> bool:
    """Whether a database has the tables of a ledger."""
    return inspect(connection).has_table(LEDGER.name)


def make(connection: Connection, today: date) -> None:
    """Create the tables of an empty ledger, with a random name and the start of its journal."""
    TABLES.create_all(connection, checkfirst=False)
    name, day = secrets.token_hex(16), today.isoformat()
    begins = canonical_bytes({"ledger": name, "day": day}).decode()
    connection.execute(
        LEDGER.insert().values(version=VERSION, name=name, day=day, begins=begins, journal=digest(begins))
    )


def head(connection: Connection, where: str, *, lock: bool) -> Head:
    """Return the single row of the table `sfumato_ledger`, after checking its version.

    Args:
        where: the ledger, for messages.
        lock: whether other changes wait until the transaction ends.
    Raises:
        EngineError: the ledger has another version, or the row is damaged.
    """
    query = select(LEDGER)
    rows = connection.execute(query.with_for_update() if lock else query).all()
    if len(rows) != 1:
        raise damaged(where, f"sfumato_ledger has {len(rows)} rows instead of one")
    found = rows[0]
    if found.version != VERSION:
        raise EngineError(
            f"{where} is a ledger of version {found.version}, but this sfumato reads version "
            f"{VERSION}. Use the version of sfumato that wrote it"
        )
    if not all(isinstance(text, str) for text in (found.name, found.begins, found.journal)):
        raise damaged(where)
    return Head(found.name, date.fromisoformat(found.day), found.begins, found.journal)


def digest(text: str) -> str:
    """Return the SHA-256 of a text of the ledger's tables, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
