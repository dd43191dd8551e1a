"""A source: rows that stand behind FROM on a DuckDB connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.connection import UTC
from sfumato.engines.duckdb.resources import keep_open
from sfumato.engines.duckdb.sanitized_columns import sanitize, sanitize_schema
from sfumato.errors import EngineError, in_own_words
from sfumato.sql_text import literal

ROWS = "source_rows"


@dataclass(frozen=True)
class Source:
    """A source of rows behind FROM in DuckDB; reading them raises for no value.

    Args:
        name: as the user gave it, for messages.
        relation: what stands behind FROM.
        columns: its columns' names and DuckDB types.
        session: opens a session in which the relation is known, once it is loaded; for one query.
        complete: columns whose declared type admits no missing value.
        pending: what brings the rows in before a query, given the columns that it reads.
        again: the same rows, in another way that bears any value, where the first may stop at one; given the
            columns that are read.
        notes: sentences for the explanation of a release.
        files: the paths and patterns that are read.
        rows: how many there are, where that is known without reading them; nothing of an answer follows.
        anywhere: whether every session knows the relation, once it is loaded there.
        unique: columns in which no two rows have the same values; none where that is not known.
        looked: gives what stands behind FROM in a session where the rows are loaded, after a look at them;
            the rows are those of `relation`, in less time.
        inferred: the types that were inferred from rows, as they would be declared; None where none were.
        made_up: by which numbers rows were made up, and nothing read; none of rows of anybody.
        elsewhere: whether these stand for rows of a service, which alone answers.
        timezone: in which its sessions read times with a zone as texts, dates and hours.
    """

    name: str
    relation: str
    columns: Sequence[tuple[str, str]]
    session: Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]
    complete: frozenset[str] = frozenset()
    pending: Callable[[duckdb.DuckDBPyConnection, Sequence[str]], None] | None = None
    again: Callable[[Sequence[str]], Source] | None = None
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    rows: int | None = None
    anywhere: bool = False
    unique: tuple[str, ...] = ()
    looked: Callable[[duckdb.DuckDBPyConnection], str] | None = None
    inferred: Mapping[str, str] | None = field(default=None, hash=False)
    made_up: tuple[tuple[str, int], ...] = ()
    elsewhere: bool = False
    timezone: str = UTC

    def in_timezone(self, zone: str) -> Source:
        """Return the same source, whose sessions read times in another time zone."""
        if zone == self.timezone:
            return self
        session, again = self.session, self.again

        @contextmanager
        def opened() -> Iterator[duckdb.DuckDBPyConnection]:
            with session() as one:
                one.execute(f"SET SESSION TimeZone = {literal(zone)}")
                yield one

        def read_again(columns: Sequence[str]) -> Source:
            assert again is not None
            return again(columns).in_timezone(zone)

        return replace(self, session=opened, again=again and read_again, timezone=zone)

    def relation_in(self, session: duckdb.DuckDBPyConnection) -> str:
        """Return the source's relation in a session, once the rows are loaded there."""
        return self.relation if self.looked is None else self.looked(session)

    def load(self, session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        """Load the source's rows into a session, where that waits for a release."""
        if self.pending is not None:
            self.pending(session, columns)


def open_database(
    connection: duckdb.DuckDBPyConnection,
) -> Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]:
    """Return sessions of a database that holds the source's rows."""
    return lambda: nullcontext(keep_open(connection.cursor()))


@contextmanager
def arriving(
    connection: duckdb.DuckDBPyConnection, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[None]:
    """Register Arrow batches as the table `arriving` of a session, for queries of a source.

    Of what interrupts Python there DuckDB would make an error, as of a row that cannot be read.
    """
    interrupts: list[BaseException] = []

    def given() -> Iterator[pa.RecordBatch]:
        try:
            with in_own_words():
                yield from batches
        except BaseException as error:
            if not isinstance(error, (Exception, GeneratorExit)):
                interrupts.append(error)
            raise

    connection.register("arriving", pa.RecordBatchReader.from_batches(schema, given()))
    with in_own_words():
        try:
            yield
        except Exception:
            if not interrupts:
                raise
            raise interrupts[0] from None
    connection.unregister("arriving")


@contextmanager
def register_rows(
    connection: duckdb.DuckDBPyConnection, rows: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[None]:
    """Register batches of declared columns, sanitized, as the table `arriving`."""
    schema = sanitize_schema(rows)
    with arriving(connection, schema, (_cast_batch(batch, schema) for batch in batches)):
        yield


def _cast_batch(batch: pa.RecordBatch, rows: pa.Schema) -> pa.RecordBatch:
    """Return a batch under the declared schema, sanitized.

    A time zone's name or a width of offsets may differ from what is declared.
    """
    columns = [sanitize(c) for c in batch.columns]
    columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=rows)


# Connections to databases, by address, that are open in this block.
_open: ContextVar[dict[str, Any] | None] = ContextVar("_open", default=None)


@contextmanager
def one_snapshot() -> Iterator[dict[str, Any]]:
    """Read all tables of a source's database in this block in one transaction."""
    readers = _open.get()
    if readers is not None:
        yield readers
        return
    readers = {}
    token = _open.set(readers)
    try:
        yield readers
    finally:
        _open.reset(token)
        for reader in readers.values():
            with suppress(Exception), in_own_words():
                reader.close()


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return an empty table of a source's schema; `schema.empty_table` refuses extension lists.

    >>> no_rows(pa.schema({"k": pa.list_(pa.bool8())})).num_rows
    0
    """
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


def check_names(names: Sequence[str]) -> None:
    """Refuse source columns whose names are equal in all but case."""
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise EngineError(
                f"scan: there are two columns {name!r} (case does not matter). Rename or drop one"
            )
        seen.add(name.casefold())
    if not names:
        raise EngineError("scan: there are no columns, but the privacy unit needs one")
