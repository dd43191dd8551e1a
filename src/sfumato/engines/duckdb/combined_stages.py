"""The stages of a question about tables that are made of tables, where rows are on many machines.

    rows --partials--> (shard of the unit, rows as they are)
         --totals----> the combination of whole units, in DuckDB; then as for a single table

A combination is unit-local: its rows for some units follow from the rows of these units, and from public
tables. So each shard of units is combined by itself, by the SQL that DuckDB runs on one machine, and all
shards together give the same rows. Where even a single private row is combined by itself (public tables
alone are joined), rows stay where they are: the first stage combines and sums them. Rows that reach their
unit by a foreign key get it before all that (`ForeignKeyJoin`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import Any, Self

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.bounding_sql import PARTIALS, BoundingSql
from sfumato.engines.duckdb.combined_rows import NOT_ARROW
from sfumato.engines.duckdb.connection import connect, disabled_optimizers
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.ordering import canonical
from sfumato.engines.duckdb.resources import keep_open
from sfumato.engines.duckdb.sanitized_columns import describe_relation, within_types
from sfumato.engines.duckdb.source import arriving, register_rows
from sfumato.engines.duckdb.stages import (
    ForeignKeyJoin,
    Payload,
    Stages,
    Types,
    as_stream,
    in_one_order,
    iter_shards,
)
from sfumato.errors import QueryError, in_own_words
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Schema
from sfumato.sql_text import identifier

# Of all public tables of a question, as Arrow: they are sent to every worker.
PUBLIC_BYTES = 1 << 27
# What a part says of itself: the number of the table whose rows it has.
_TABLE = "sfumato.table"
# Rows of a table whose privacy unit is made of several columns, in the SQL that makes it.
GIVEN = "given"
# With these, what a scan says that it reads may be fewer columns than a worker reads, or none at all.
_MOVING = "filter_pushdown", "filter_pullup", "statistics_propagation", "join_order", "late_materialization"


@dataclass(frozen=True)
class Sent:
    """A table that is sent to workers for the stages of a combination.

    Args:
        relation: its name in the combination's SQL.
        types: all its columns, with DuckDB's types.
        rows: the columns that are read, with their Arrow types.
        unit: the privacy unit's column; None of a public table, and of one that has none itself.
        unit_text: the unit as SQL, equal texts where two are one unit, of whatever tables.
        with_unit: SQL that adds the unit's column to rows GIVEN, where it is made of several; else nothing.
        data: a public table, as Arrow streams.
    """

    relation: str
    types: Types
    rows: pa.Schema
    unit: str | None
    unit_text: str = ""
    with_unit: str = ""
    data: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def held(self) -> str:
        """The session's table that holds the sent rows of a combination's table."""
        return f"{self.relation}_rows"

    @property
    def kinds(self) -> dict[str, str]:
        """The sent columns with DuckDB's types, in the order of the Arrow schema."""
        types = dict(self.types)
        return {name: types[name] for name in self.rows.names}

    def rows_from(self, relation: str) -> str:
        """Return SQL of a sent table's rows with all columns and the privacy unit."""
        # Whoever reads a column that was not sent stops, rather than take it for NULL.
        values = [
            identifier(name)
            if name in self.kinds
            else f"CAST(error('not sent') AS {kind}) AS {identifier(name)}"
            for name, kind in self.types
        ]
        text = f"SELECT {', '.join(values)} FROM {relation}"
        return f"WITH {GIVEN} AS ({text}) {self.with_unit}" if self.with_unit else text


def describe_for_workers(
    relation: str, schema: Schema, rows: pa.Schema, unit: str | None, with_unit: str = ""
) -> Sent:
    """Return a table to be sent to workers: its name in the combination, its columns and its unit."""
    types = tuple((name, column.type_name) for name, column in schema.items())
    text = (
        ""
        if unit is None
        else f"CAST({identifier(unit) if with_unit else canonical(unit, schema)} AS VARCHAR)"
    )
    return Sent(relation, types, rows, unit, text, with_unit)


@dataclass(frozen=True)
class CombinedStages(Stages):
    """The stages of a release over combined tables. Made by `CombinedStages.from_tables`.

    Args:
        relation: the combination, in SQL over its tables' names.
        columns: its columns, before the query's steps.
        tables: of which a part says, by its number, whose rows it has.
        key_joins: foreign keys that are followed, in this order.
    """

    relation: str = ""
    columns: tuple[str, ...] = ()
    tables: tuple[Sent, ...] = ()
    key_joins: tuple[ForeignKeyJoin, ...] = ()

    @classmethod
    def from_tables(
        cls,
        engine: DuckDBEngine,
        tables: Sequence[Sent],
        query: ExactQuery,
        shards: int,
        by_rows: bool,
        key_joins: Sequence[ForeignKeyJoin] = (),
    ) -> Self:
        """Prepare the stages of combined tables; only columns that are read are kept.

        Args:
            engine: on the combination of tables without rows.
            tables: all of them, with all their columns.
            query, shards: as for `Stages.prepare`.
            by_rows: whether each private row may be combined by itself.
            key_joins: foreign keys that are followed.
        """
        schema, salt = engine.schema(query.steps), secrets.randbits(64)
        bare = cls(
            engine.total(query), pa.schema([]), schema, salt, shards, (), (), engine.timezone,
            relation=engine.relation, columns=tuple(engine.schema()), tables=tuple(tables), by_rows=by_rows,
            key_joins=tuple(key_joins),
        )  # fmt: skip
        read = bare._read()
        needed = [replace(t, rows=_only(t.rows, read[t.held])) for t in tables]
        return replace(bare, tables=tuple(needed)).typed()

    @property
    def arriving(self) -> dict[int, pa.Schema]:
        """The columns that workers are given of each private table, by its number."""
        given, ownerless = (
            {join.gives for join in self.key_joins},
            {join.rows for join in self.key_joins},
        )
        private = (i for i, table in enumerate(self.tables) if table.unit is not None or i in ownerless)
        return {i: self.tables[i].rows for i in private if i not in given}

    def get_schema(self, table: int) -> pa.Schema:
        """The columns of a combined table, by its number, that the stages read."""
        return self.tables[table].rows

    @property
    def bare(self) -> Self:
        """The combined stages without public tables, for workers that do not combine rows."""
        return self.with_public({i: () for i, table in enumerate(self.tables) if table.unit is None})

    def with_public(self, data: Mapping[int, Sequence[bytes]]) -> Self:
        """Return the combined stages with rows of public tables, by number.

        Raises:
            QueryError: they are too many to be sent to every worker.
        """
        if sum(len(stream) for streams in data.values() for stream in streams) > PUBLIC_BYTES:
            raise too_large()
        held = {i: replace(self.tables[i], data=tuple(streams)) for i, streams in data.items()}
        return replace(self, tables=tuple(held.get(i, table) for i, table in enumerate(self.tables)))

    def _make_writer(self, rows: int | None) -> BoundingSql:
        return BoundingSql(self.query, self.relation, self.columns, self.schema, self.salt, rows, staged=True)

    def sums(self, table: int) -> bool:
        """Whether rows of a table are combined, and summed, by whoever has them first."""
        return self.by_rows and table not in self._linking_tables

    @property
    def _linking_tables(self) -> set[int]:
        """The numbers of tables that only lead to units by a foreign key."""
        return {number for join in self.key_joins for number in (join.owners, join.rows)}

    @property
    def _within(self) -> list[Sent]:
        """The tables of the combination that the stages compute."""
        return [table for i, table in enumerate(self.tables) if i not in self._linking_tables]

    def _partials(
        self, connection: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch], table: int
    ) -> Iterator[Payload]:
        self._make_ready(connection, table)
        with register_rows(connection, self.tables[table].rows, batches):
            within = within_types("arriving", describe_relation(connection, "arriving"))
            yield from self._onward(connection, table, within)

    def _make_ready(self, connection: duckdb.DuckDBPyConnection, number: int) -> None:
        """Make the session's tables that a worker's rows are combined with."""
        if self.sums(number) and self.tables[number].unit is not None:
            self._make(connection, self._within)

    def _onward(self, connection: duckdb.DuckDBPyConnection, number: int, relation: str) -> Iterator[Payload]:
        """Yield what a worker sends to the next stage of a combined table's rows."""
        sent, shards, said = self.tables[number], self.unit_shards or self.shards, {_TABLE: str(number)}
        for join in self.key_joins:
            if number == join.owners:
                text = join.owners_sent(f"({sent.rows_from(relation)})", shards)
                yield from iter_shards(connection, text, said, in_one_order(join.sent.values()))
                return
            if number == join.rows:
                yield from iter_shards(connection, join.rows_sent(relation, sent.rows.names, shards), said)
                return
        if self.sums(number) and sent.unit is not None:
            connection.execute(f"INSERT INTO {sent.held} SELECT {_named(sent.rows.names)} FROM {relation}")
            order = self._sql.partial_order if self._is_from_key_join(number) else ()
            yield from iter_shards(connection, self._sql.partials(shards), order=order)
            return
        shard = f"CAST(hash({sent.unit_text}) % {shards} AS INTEGER)" if sent.unit else "0"
        yield from self._as_they_are(connection, number, relation, shard)

    def _is_from_key_join(self, number: int) -> bool:
        """Whether rows of a combined table come from a shuffle by a foreign key."""
        return any(join.gives == number for join in self.key_joins)

    def _as_they_are(
        self, connection: duckdb.DuckDBPyConnection, number: int, relation: str, shard: str
    ) -> Iterator[Payload]:
        """Yield a combined table's rows in parts, sharded by unit where they are private."""
        sent = self.tables[number]
        values = [f"{identifier(name)} AS c{i}" for i, name in enumerate(sent.rows.names)]
        text = f"SELECT {', '.join([f'{shard} AS shard', *values])} FROM ({sent.rows_from(relation)})"
        # Rows of nobody are in no statistics, and meet nobody's.
        text += "" if sent.unit is None else f" WHERE {identifier(sent.unit)} IS NOT NULL"
        order = in_one_order(sent.kinds.values()) if self._is_from_key_join(number) else ()
        yield from iter_shards(connection, text, {_TABLE: str(number)}, order)

    def _reached(
        self, connection: duckdb.DuckDBPyConnection, join: ForeignKeyJoin, payloads: Iterable[bytes]
    ) -> Iterator[Payload]:
        self._make_ready(connection, join.gives)
        for number in (join.owners, join.rows):
            _make_empty(connection, self.tables[number].held, self._moved(number))
        self._fill(connection, payloads)
        owners, rows, gives = (self.tables[i] for i in (join.owners, join.rows, join.gives))
        yield from self._onward(
            connection, join.gives, join.join_sql(owners.held, rows.held, gives.rows.names)
        )

    def _totals(self, connection: duckdb.DuckDBPyConnection, payloads: Iterable[bytes]) -> Iterator[Payload]:
        if self.by_rows:
            yield from super()._totals(connection, payloads)
            return
        self._make(connection, self._within)
        self._fill(connection, payloads)
        connection.execute(f"CREATE TEMP TABLE {PARTIALS} AS {self._sql.partials(1)}")
        for sent in self._within:
            connection.execute(f"TRUNCATE {sent.held}")
        yield from iter_shards(connection, self._sql.totals(self.group_shards), order=self._sql.total_order)

    def _take_none(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._make(connection, self._within)

    def _make(self, connection: duckdb.DuckDBPyConnection, tables: Iterable[Sent]) -> None:
        """Make the session's tables of a combination: public ones with rows, private ones empty."""
        for sent in tables:
            _make_empty(connection, sent.held, sent.kinds)
            connection.execute(f"CREATE TEMP VIEW {sent.relation} AS {sent.rows_from(sent.held)}")
            self._fill(connection, sent.data)

    def _fill(self, connection: duckdb.DuckDBPyConnection, streams: Iterable[bytes]) -> None:
        """Insert rows that a stage received into the tables of the combination."""
        batches = (batch for data in streams if data for batch in pa.ipc.open_stream(data))
        for schema, alike in groupby(batches, key=lambda batch: _Said(batch.schema)):
            sent, kinds = self.tables[schema.table], self._moved(schema.table).values()
            values = [f"TRY_CAST(c{i} AS {kind})" for i, kind in enumerate(kinds)]
            with arriving(connection, schema.columns, alike):
                connection.execute(f"INSERT INTO {sent.held} SELECT {', '.join(values)} FROM arriving")

    def _moved(self, number: int) -> dict[str, str]:
        """Return the columns of a combined table that stages send, with DuckDB's types."""
        of_owners = [join.sent for join in self.key_joins if join.owners == number]
        return of_owners[0] if of_owners else self.tables[number].kinds

    def _read(self) -> dict[str, set[str]]:
        """Return the columns of each combined table that DuckDB's plans read."""
        asked = [self._sql.partials(1)]
        made = {join.gives for join in self.key_joins}
        owners = {join.owners: self.tables[join.owners] for join in self.key_joins if join.owners not in made}
        asked += [
            f"SELECT {_named(join.sent)} FROM {owners[join.owners].relation}"
            for join in self.key_joins
            if join.owners in owners
        ]
        connection = connect(self.timezone)
        connection.execute(f"SET disabled_optimizers = '{disabled_optimizers(connection, *_MOVING)}'")
        try:
            self._make(connection, [*self._within, *owners.values()])
            self._add_public_keys(connection, None)
            plans = [connection.execute(f"EXPLAIN (FORMAT json) {text}").fetchall() for text in asked]
        finally:
            connection.close()
        read: dict[str, set[str]] = {}
        names = {sent.held: sent.rows.names for sent in self.tables}
        for table, columns in (scan for ((_, plan),) in plans for scan in _scans(json.loads(plan))):
            for column in columns if table in names else ():
                # Of a struct perhaps a part of it, written behind a dot. What is not understood is all.
                whole = [n for n in names[table] if column == n or column.startswith(f"{n}.")]
                read.setdefault(table, set()).update(whole or names[table])
        for join in reversed(self.key_joins):
            owners_, rows, gives = (self.tables[i] for i in (join.owners, join.rows, join.gives))
            read.setdefault(owners_.held, {*join.sent})
            read[rows.held] = {
                join.column,
                *join.kept(sorted(read.get(gives.held, gives.rows.names))),
            }
        return {
            t.held: read.get(t.held, {*t.rows.names}) | ({t.unit} if t.unit else set()) for t in self.tables
        }


def _make_empty(connection: duckdb.DuckDBPyConnection, table: str, kinds: Mapping[str, str]) -> None:
    columns = ", ".join(f"{identifier(name)} {kind}" for name, kind in kinds.items())
    connection.execute(f"CREATE TEMP TABLE {table} ({columns})")


class _Said:
    """The schema of a sent part, equal where table and column types are."""

    def __init__(self, schema: pa.Schema) -> None:
        self.table = int((schema.metadata or {})[_TABLE.encode()])
        self.columns = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Said) and self.columns.equals(other.columns, check_metadata=True)

    __hash__ = None  # type: ignore[assignment]


def published(engine: DuckDBEngine, number: int, names: Sequence[str]) -> list[bytes]:
    """Read columns of a public table in this process, as streams for `CombinedStages.with_public`.

    Raises:
        QueryError: they are too many to be sent to every worker.
    """
    types = {name: column.type_name for name, column in engine.schema().items()}
    values = [
        f"CAST({identifier(n)} AS VARCHAR) AS c{i}" if types[n] in NOT_ARROW else f"{identifier(n)} AS c{i}"
        for i, n in enumerate(names)
    ]
    streams: list[bytes] = []
    size = 0
    with in_own_words(), engine.rows(names, any_value=True) as (session, relation):
        text = f"SELECT 0 AS shard, {', '.join(values)} FROM {relation}"
        for batch in keep_open(session.sql(text).to_arrow_reader(1 << 16)):
            size += batch.nbytes
            if size > PUBLIC_BYTES:
                raise too_large()
            streams.append(as_stream([batch], {_TABLE: str(number)}))
    return streams


def too_large() -> QueryError:
    """Return the error of public tables that are too large to be sent to every worker."""
    return QueryError(
        f"join: the columns of public tables that are read exceed {PUBLIC_BYTES >> 20} MB, which is "
        "too much to send to every worker. Drop rows that match no private row before sf.public"
    )


def _only(rows: pa.Schema, read: set[str]) -> pa.Schema:
    return pa.schema([field for field in rows if field.name in read])


def _named(names: Iterable[str]) -> str:
    return ", ".join(map(identifier, names))


def _scans(plan: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield each table that a DuckDB plan scans, and the columns."""
    for node in plan:
        told = node["extra_info"]
        if "Table" in told:
            columns = told.get("Projections", "")  # which is the name of no column
            yield told["Table"].rpartition(".")[2], [columns] if isinstance(columns, str) else columns
        yield from _scans(node["children"])
