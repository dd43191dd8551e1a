"""Tables of SQLite and PostgreSQL: rows come as Arrow, and go to a temporary table of the session that reads.

Whatever a row holds, each value comes as one of its column's declared type, or as NULL: the queries here
see to it in the database itself, so that no row stops the reading of others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from typing import Protocol

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.connection import lender
from sfumato.engines.duckdb.declared import base_type, cast
from sfumato.engines.duckdb.harmless import described, harmless, harmless_schema, within_types
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import Source, arriving, no_rows
from sfumato.engines.duckdb.text import identifier
from sfumato.errors import EngineError, SfumatoError, in_own_words, nearest

_numbers = itertools.count()


@dataclass(frozen=True)
class Stored:
    """A column of a table in a database.

    Args:
        name: of the column.
        value: SQL of the database that has its values; NULL for what does not fit.
        arrow: the type in which they come.
        kind: DuckDB's type to which they are cast, perhaps with a format; what does not fit is NULL.
    """

    name: str
    value: str
    arrow: pa.DataType
    kind: str


class Reader(Protocol):
    """A connection to a database, in one read transaction from its first query to its end."""

    def tables(self) -> list[str]:
        """Return the names of tables and views."""
        ...

    def columns(self, table: str) -> list[Stored]:
        """Return the columns of a table."""
        ...

    def batches(self, table: str, columns: Sequence[Stored]) -> Generator[pa.RecordBatch]:
        """Yield a table's rows; at most one table is read at a time."""
        ...

    def close(self) -> None:
        """End the transaction."""
        ...


@dataclass(frozen=True)
class Address:
    """Where a table of a database is.

    Args:
        database: what is told of the database; no password.
        table: the name of the table there.
        key: what two addresses of one database have in common; not for messages, as a password may be in it.
        connect: opens a connection.
        files: the files that are read.
    """

    database: str
    table: str
    key: str = field(repr=False)
    connect: Callable[[], Reader] = field(repr=False, compare=False)
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.database}/{self.table}"


_open: ContextVar[dict[str, Reader] | None] = ContextVar("_open", default=None)


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Let all tables of a database that are read in this block be read in one transaction."""
    if _open.get() is not None:
        yield
        return
    readers: dict[str, Reader] = {}
    token = _open.set(readers)
    try:
        yield
    finally:
        _open.reset(token)
        for reader in readers.values():
            _close(reader)


@contextmanager
def _connected(address: Address) -> Iterator[Reader]:
    readers = _open.get()
    if readers is not None:
        if address.key not in readers:
            readers[address.key] = address.connect()
        yield readers[address.key]
        return
    reader = address.connect()
    try:
        yield reader
    finally:
        _close(reader)


def _close(reader: Reader) -> None:
    with suppress(Exception), in_own_words():
        reader.close()


def open_table(
    address: Address, resources: Resources, columns_of: Callable[[list[Stored]], list[Stored]]
) -> Source:
    """Open a table; no row is read.

    Args:
        address: where it is.
        resources: what reading it may take.
        columns_of: gives the columns as they are to be read, of those that the database declares.
    Raises:
        EngineError: there is no such table.
    """
    with _connected(address) as reader:
        names = _asked(address, reader.tables)
        if address.table not in names:
            near = nearest(address.table, names) if address.table else None
            hint = f"did you mean {near!r}? " if near else ""
            listed = ", ".join(sorted(names)) or "(there are none)"
            raise EngineError(
                f"scan: {address.database} has no table {address.table!r}; {hint}write "
                f"'{address.database}/NAME' with one of: {listed}"
            )
        stored = columns_of(_asked(address, lambda: reader.columns(address.table)))
    table, session = f"database_{next(_numbers)}", lender(resources=resources)
    casts = f"(SELECT {', '.join(_cast(one) for one in stored)} FROM arriving)"
    kinds = [(one.name, base_type(one.kind)) for one in stored]
    with session() as here:
        here.register("arriving", no_rows(_schema(stored)))
        columns = described(here, within_types(casts, kinds))
        here.unregister("arriving")

    def load(session: duckdb.DuckDBPyConnection, read: Sequence[str]) -> None:
        chosen = [one for one in stored if one.name in read] or stored[:1]
        # Columns that nobody reads are there, without values.
        text = ", ".join(
            identifier(name)
            if any(one.name == name for one in chosen)
            else f"NULL::{kind} AS {identifier(name)}"
            for name, kind in columns
        )
        inside = within_types(
            f"(SELECT {', '.join(_cast(one) for one in chosen)} FROM arriving)",
            [(one.name, base_type(one.kind)) for one in chosen],
        )
        with _connected(address) as reader, closing(reader.batches(address.table, chosen)) as batches:
            schema = harmless_schema(_schema(chosen))
            typed = (
                pa.RecordBatch.from_arrays([harmless(column) for column in batch.columns], schema=schema)
                for batch in batches
            )
            with arriving(session, schema, typed):
                session.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {text} FROM {inside}")

    return Source(address.name, table, columns, session, pending=load, files=address.files, anywhere=True)


def _schema(stored: Sequence[Stored]) -> pa.Schema:
    return pa.schema([(one.name, one.arrow) for one in stored])


def _cast(one: Stored) -> str:
    name = identifier(one.name)
    typed = cast(name, one.kind) if base_type(one.kind) != one.kind else f"TRY_CAST({name} AS {one.kind})"
    return f"{typed} AS {name}"


def _asked(address: Address, ask: Callable[[], list]) -> list:  # type: ignore[type-arg]
    """Ask a database of its tables; its own texts may quote what it was asked with."""
    with suppress(Exception), in_own_words():
        return ask()
    raise EngineError(f"scan: {address.database} cannot be asked for its tables; may this user read them?")


def unreachable(database: str, why: str) -> SfumatoError:
    """Return the error of a database that cannot be connected to; `why` has nothing of its address."""
    return EngineError(f"scan: {database} cannot be connected to: {why}")
