"""An exact query in three stages with two shuffles between them, for rows on many machines.

    rows --partials--> (shard of the unit, sums by unit and group)
         --totals----> (shard of the group, bounded totals by group)
         --merged----> exact statistics of whole groups, sorted by key

Each stage runs DuckDB on what its worker holds, out of core, so an expression, a key and a limit mean on
every engine what they mean on DuckDB. Between stages an engine moves `Payload`s to where their shard is
put together, and never looks inside. A first stage may be repeated, or run on any split of the rows: its
sums add up. What one worker holds of a unit is bounded by the limit of groups, or by the number of public
groups where it counts in part in each; not by its rows, unless rows of all groups are limited together.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from itertools import groupby
from typing import NamedTuple, Self, TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.bounding_sql import PARTIALS, PUBLIC_KEYS, TOTALS, BoundingSql
from sfumato.engines.duckdb.combined_rows import foreign_key_rows
from sfumato.engines.duckdb.connection import check_out
from sfumato.engines.duckdb.distinct_values import fill_matching_sizes
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.ordering import canonical, comparable_sql, cut_by, order_by
from sfumato.engines.duckdb.resources import Resources, keep_open, machine_memory, spill_folder
from sfumato.engines.duckdb.sanitized_columns import describe_relation, within_types
from sfumato.engines.duckdb.source import ROWS, arriving, no_rows, register_rows
from sfumato.engines.duckdb.source_reader import batches, cause
from sfumato.errors import EngineError, QueryError, in_own_words
from sfumato.measurements.int128_array import int64_values
from sfumato.ownership import process
from sfumato.query import sizes
from sfumato.query.engine_protocol import BroughtKeys, ExactQuery
from sfumato.query.schema import Schema
from sfumato.sql_text import identifier

# Of public keys that are brought: every worker is given them.
KEYS_BYTES = 1 << 27

T = TypeVar("T")
Types = tuple[tuple[str, str], ...]


class Payload(NamedTuple):
    """A part of one shard that a stage sends to the next: an Arrow stream."""

    shard: int
    data: bytes


@dataclass(frozen=True)
class Stages:
    """The stages of one release on workers; made by the engine, sent to its workers.

    Args:
        query: what to compute; its row expressions are total.
        rows: the Arrow schema of the rows.
        schema: the columns after the query's steps.
        salt: for the order in which a unit's groups, or rows, are kept, one for the whole release.
        shards: into how many parts groups are divided, and units, unless `unit_shards` says otherwise.
        partial_types, total_types: names and DuckDB types of what the first two stages give.
        timezone: in which times with a zone are read, on every worker.
        version: of DuckDB, whose hash divides units among workers.
        unit_shards: of units; chosen by what rows there are, as nothing of the answer follows.
        by_rows: whether each private row is summed where it is, and not moved before.
    """

    query: ExactQuery
    rows: pa.Schema
    schema: Schema
    salt: int
    shards: int
    partial_types: Types
    total_types: Types
    timezone: str
    version: str = duckdb.__version__
    unit_shards: int | None = None
    by_rows: bool = True

    @classmethod
    def prepare(cls, engine: DuckDBEngine, rows: pa.Schema, query: ExactQuery, shards: int) -> Stages:
        """Prepare the stages of a release over one table.

        Args:
            engine: opened on an empty table with the rows' schema.
            rows: that schema.
            query: what to compute.
            shards: at least 1; more shards, smaller ones.
        """
        schema, salt = engine.schema(query.steps), secrets.randbits(64)
        return cls(engine.total(query), rows, schema, salt, shards, (), (), engine.timezone).typed()

    def typed(self) -> Self:
        """Return the stages with the column types of what the first two give."""
        partial_types = self._types(self._make_writer(0).partials(self.shards), ())
        half = replace(self, partial_types=partial_types)
        totals = half._make_writer(0).totals(self.shards)
        return replace(half, total_types=half._types(totals, ((PARTIALS, partial_types),)))

    @property
    def _sql(self) -> BoundingSql:
        return self._make_writer(None)

    def _make_writer(self, rows: int | None) -> BoundingSql:
        """Return the SQL writer of a stage that begins with so many rows."""
        return BoundingSql(self.query, ROWS, self.rows.names, self.schema, self.salt, rows, staged=True)

    @property
    def arriving(self) -> dict[int, pa.Schema]:
        """The columns of each table, by number, that workers receive for the first stage."""
        return {0: self.rows}

    def get_schema(self, table: int) -> pa.Schema:
        """The columns of a table, by number, that the stages read."""
        return self.rows

    @property
    def key_joins(self) -> Sequence[ForeignKeyJoin]:
        """The foreign-key joins before the first stage; none for a single table."""
        return ()

    def sums(self, table: int) -> bool:
        """Whether the worker that has a table's rows first runs the first stage on them."""
        return self.by_rows

    def from_table(self, table: int) -> Self:
        """Return the stages for a worker that has a table's rows first."""
        return self if self.sums(table) else self.bare

    @property
    def bare(self) -> Self:
        """The stages without public tables, for workers that do not combine rows."""
        return self

    @property
    def adds_up(self) -> bool:
        """Whether the first stage gives sums, which may be added up on their way."""
        return self.by_rows and self.query.total_rows is None

    @property
    def has_trees(self) -> bool:
        """Whether the stages' statistics have counts by value, of which a group has many."""
        return any(s.listed for s in self.query.statistics)

    @property
    def group_shards(self) -> int:
        """The number of shards of groups; one without group keys."""
        return self.shards if self.query.keys else 1

    def partials(self, batches: Iterable[pa.RecordBatch], table: int = 0) -> Iterator[Payload]:
        """Run the first stage on any part of a table's rows: sums by unit and group."""
        with self._connection() as connection:
            yield from _guard(self._partials(connection, batches, table))

    def _partials(
        self, connection: duckdb.DuckDBPyConnection, batches: Iterable[pa.RecordBatch], table: int
    ) -> Iterator[Payload]:
        counted = _Counted(batches)
        with register_rows(connection, self.rows, counted):
            _take(connection)
        yield from iter_shards(
            connection, self._make_writer(counted.rows).partials(self.unit_shards or self.shards)
        )

    def reached(self, join: ForeignKeyJoin, payloads: Iterable[bytes]) -> Iterator[Payload]:
        """Run a foreign-key join on whole shards of keys, and then the first stage."""
        with self._connection() as connection:
            yield from _guard(self._reached(connection, join, payloads))

    def _reached(
        self, connection: duckdb.DuckDBPyConnection, join: ForeignKeyJoin, payloads: Iterable[bytes]
    ) -> Iterator[Payload]:
        raise AssertionError("there are no key_joins")

    def totals(self, payloads: Iterable[bytes]) -> Iterator[Payload]:
        """Run the second stage on whole units: bound them, and sum by group."""
        with self._connection() as connection:
            yield from _guard(self._totals(connection, payloads))

    def _totals(self, connection: duckdb.DuckDBPyConnection, payloads: Iterable[bytes]) -> Iterator[Payload]:
        sql = self._make_writer(_load(connection, PARTIALS, self.partial_types, payloads))
        # What comes of a shuffle comes in any order; see `in_one_order`.
        yield from iter_shards(connection, sql.totals(self.group_shards), order=sql.total_order)

    def joined_partials(self, payloads: Iterable[bytes]) -> list[bytes]:
        """Add up the first stage's partial sums of one shard from several parts."""
        with in_own_words(_stopped, Exception), self._connection() as connection:
            sql = self._make_writer(_load(connection, PARTIALS, self.partial_types, payloads))
            return [p.data for p in iter_shards(connection, sql.joined_partials())]

    def joined_totals(self, payloads: Iterable[bytes]) -> list[bytes]:
        """Add up the second stage's totals of one shard of groups from several parts."""
        return self._in_one(payloads, self._sql.joined_totals())

    def collected(self, payloads: Iterable[bytes]) -> list[bytes]:
        """Return what one shard of groups sends to where all groups meet, after the second stage.

        It is the shard's totals; where the question is of the largest groups, those of the largest here.
        `merged`, of what all shards sent, finds the largest of them all.
        """
        return self._in_one(payloads, self._sql.collected())

    def _in_one(self, payloads: Iterable[bytes], text: str) -> list[bytes]:
        """Return what SQL of the stages makes of the totals of one shard of groups."""
        with in_own_words(_stopped, Exception), self._connection() as connection:
            _load(connection, TOTALS, self.total_types, payloads)
            return [p.data for p in iter_shards(connection, text)]

    def merged(
        self, shard: int | None, payloads: Iterable[bytes], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Run the last stage: yield exact statistics of one shard (None: all), sorted by key."""
        with self._connection(shard, gives_parts=False) as connection:
            yield from _guard(self._merged(connection, payloads, batch_rows))

    def _merged(
        self, connection: duckdb.DuckDBPyConnection, payloads: Iterable[bytes], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        _load(connection, TOTALS, self.total_types, payloads)
        for batch in batches(connection, self._sql.merged(), batch_rows):
            yield fill_matching_sizes(batch, self.query, {})

    @contextmanager
    def _connection(
        self, shard: int | None = None, *, gives_parts: bool = True
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a stage's own connection, with public keys (of one shard of groups)."""
        if duckdb.__version__ != self.version:
            raise EngineError(
                f"a worker has DuckDB {duckdb.__version__}, but the release was made with "
                f"{self.version}. Install the same version everywhere, as its hash divides units "
                "among workers"
            )
        with opened(self.timezone, own_types=gives_parts) as connection:
            self._add_public_keys(connection, shard)
            yield connection

    def with_keys(self, streams: Sequence[bytes]) -> Self:
        """Return the stages with public keys that a pipeline brought.

        Args:
            streams: Arrow streams of columns k0, k1, ..., of the types in which they are read.
        Raises:
            QueryError: they are too many to be sent to every worker.
        """
        keys = self.query.public_keys
        if not isinstance(keys, BroughtKeys):
            return self
        if sum(map(len, streams)) > KEYS_BYTES:
            raise QueryError(
                f"group_by: the public keys of {keys.collection!r} are larger than "
                f"{KEYS_BYTES >> 20} MB, which is too much to send to every worker. Pass fewer"
            )
        return replace(self, query=replace(self.query, public_keys=replace(keys, streams=tuple(streams))))

    def _add_public_keys(self, connection: duckdb.DuckDBPyConnection, shard: int | None) -> None:
        if self.query.public_keys is None:
            return
        names, types = [f"k{i}" for i in range(len(self.query.keys))], dict(self.total_types)
        if isinstance(self.query.public_keys, BroughtKeys):
            found = self._brought(connection, self.query.public_keys, names)
        else:
            connection.register("given_keys", self.query.public_keys.rename_columns(names))
            found = "given_keys"
        typed = ", ".join(f"CAST({n} AS {types[n]}) AS {n}" if n in types else n for n in names)
        mine = f" WHERE hash({', '.join(names)}) % {self.group_shards} = {shard}"
        connection.execute(
            f"CREATE TEMP TABLE {PUBLIC_KEYS} AS FROM (SELECT {typed} FROM {found})"
            + (mine if shard is not None else "")
        )

    def _brought(self, connection: duckdb.DuckDBPyConnection, keys: BroughtKeys, names: Sequence[str]) -> str:
        """Return SQL of the public keys that a pipeline brought to the stages, of the column's type.

        One that the column cannot hold is a key of no row, and left out.
        """
        kinds = {n: self.schema[key] for n, key in zip(names, self.query.keys, strict=True)}
        batches = (batch for stream in keys.streams for batch in pa.ipc.open_stream(stream))
        columns = ", ".join(f"{name} {kind.type_name}" for name, kind in kinds.items())
        connection.execute(f"CREATE TEMP TABLE brought_keys ({columns})")
        fit = [f"TRY_CAST({canonical(n, {n: kind})} AS {kind.type_name})" for n, kind in kinds.items()]
        kept = " AND ".join(f"({n} IS NULL) = ({value} IS NULL)" for n, value in zip(names, fit, strict=True))
        with register_rows(connection, pa.schema(zip(names, keys.rows.types, strict=True)), batches):
            connection.execute(f"INSERT INTO brought_keys SELECT {', '.join(fit)} FROM arriving WHERE {kept}")
        return "(SELECT DISTINCT * FROM brought_keys)"

    def _types(self, text: str, tables: tuple[tuple[str, Types], ...]) -> Types:
        with self._connection() as connection:
            self._take_none(connection)
            for name, types in tables:
                _load(connection, name, types, ())
            described = connection.execute(f"DESCRIBE {text}").fetchall()
        return tuple((row[0], row[1]) for row in described)

    def _take_none(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the table that the first stage reads, without a row."""
        connection.register("arriving", no_rows(self.rows))
        _take(connection)
        connection.unregister("arriving")


class _Counted:
    """A stage's batches, and how many rows they have had.

    DuckDB would say it, too, but to fetch that never ends in a process that was forked in the middle.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.batches, self.rows = batches, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch


def _take(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the first stage's table of the rows that arrive."""
    rows = within_types("arriving", describe_relation(connection, "arriving"))
    connection.execute(f"CREATE TEMP TABLE {ROWS} AS FROM {rows}")


def _load(connection: duckdb.DuckDBPyConnection, table: str, types: Types, payloads: Iterable[bytes]) -> int:
    """Load a stage's received parts into a table; return how many rows it has."""
    columns = ", ".join(f"{identifier(name)} {kind}" for name, kind in types)
    connection.execute(f"CREATE TEMP TABLE {table} ({columns})")
    batches = _Counted(batch for data in payloads if data for batch in pa.ipc.open_stream(data))
    # Sums that were added up on the way are wider.
    for schema, alike in groupby(batches, key=lambda batch: batch.schema):
        with arriving(connection, schema, alike):
            connection.execute(f"INSERT INTO {table} FROM arriving")
    return batches.rows


def iter_shards(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    said: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
) -> Iterator[Payload]:
    """Run a stage's query, whose first column is the shard, and yield its rows by shard.

    Args:
        connection: where it is run.
        text: the query.
        said: what each part has as metadata.
        order: terms that tell the rows of a shard apart; without them they stay as they come.
    """
    # In order of shards, as a stream has a head of its own: many shards would be many small parts.
    by, waiting = order_by(order, ["shard"]) if order else cut_by("shard"), list[pa.RecordBatch]()
    of = size = 0
    for given in keep_open(connection.sql(f"FROM ({text}) {by}").to_arrow_reader(sizes.STAGE_ROWS)):
        # Of a NULL DuckDB gives what its memory happened to hold; taken anew, that is zeros. What is computed
        # again must be the same bytes.
        batch = given.take(pa.array(np.arange(len(given)))) if order else given
        shard = int64_values(batch.column(0))
        starts = np.flatnonzero(np.diff(shard, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(shard)], strict=True):
            for piece in _pieces(batch.slice(start, end - start)):
                full = sum(map(len, waiting)) >= sizes.STAGE_ROWS or size + piece.nbytes > sizes.PAYLOAD_BYTES
                if waiting and (shard[start] != of or full):
                    yield Payload(of, as_stream(waiting, said))
                    waiting, size = [], 0
                of, size = int(shard[start]), size + piece.nbytes
                waiting.append(piece)
    if waiting:
        yield Payload(of, as_stream(waiting, said))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a stage's batch until each piece is small, or one row."""
    if batch.nbytes <= sizes.PAYLOAD_BYTES or len(batch) == 1:
        yield batch
    else:
        half = len(batch) // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))


def as_stream(batches: Sequence[pa.RecordBatch], said: Mapping[str, str] | None = None) -> bytes:
    """Return batches of a stage as one Arrow stream, perhaps with metadata."""
    sink, schema = pa.BufferOutputStream(), batches[0].schema
    with pa.ipc.new_stream(sink, schema if said is None else schema.with_metadata(said)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _stopped(error: Exception) -> EngineError:
    return EngineError(f"a worker's DuckDB stopped. {cause(type(error))}")


def _guard(items: Iterator[T]) -> Iterator[T]:
    with in_own_words(_stopped, Exception):
        yield from items


# Of each stage that runs, which spills beyond; and the most that all on a machine take of its memory.
STAGE_BYTES, SHARE = 600 << 20, 0.5


@contextmanager
def opened(zone: str, *, own_types: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the database of one stage once its share of memory is free.

    Args:
        zone: in which times with a zone are read.
        own_types: whether its batches are for DuckDB alone, which reads its own wide sums in a tenth of the
            time that it takes for Arrow's decimals.
    """
    spill_folder()
    turns = _turns(process())
    with (
        turns.one(),
        check_out(
            zone, Resources(stage_bytes(turns.memory), threads=1), large_texts=True, own_types=own_types
        ) as session,
    ):
        yield session


def stages_at_once(memory: int, cores: int) -> int:
    """Return how many stages run at once in one process, as if there were a process for each core.

    >>> stages_at_once(15 << 30, cores=4), stages_at_once(1 << 30, cores=1)
    (3, 1)
    """
    return max(1, min(cores, int(SHARE * memory / cores / STAGE_BYTES)))


def stage_bytes(memory: int) -> int:
    """Return how much memory a stage may have before it spills.

    >>> stage_bytes(15 << 30) >> 20, stage_bytes(1 << 30) >> 20
    (600, 512)
    """
    return min(STAGE_BYTES, int(SHARE * memory))


@dataclass
class _Turns:
    """The turns of this process's stages, each of which takes its share of memory."""

    memory: int
    free: threading.Semaphore
    threads: Counter[int] = field(default_factory=Counter)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a stage's turn, but not where this thread has one already."""
        here, thread = process(), threading.get_ident()
        waits = not self.threads[thread]
        if waits:
            self.free.acquire()
        self.threads[thread] += 1
        try:
            yield
        finally:
            if process() == here:
                self.threads[thread] -= 1
                if waits:
                    self.free.release()


@cache
def _turns(of: tuple[int, int]) -> _Turns:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = machine_memory()
    return _Turns(memory, threading.Semaphore(stages_at_once(memory, cores)))


# Types of which values that are equal are the same bits.
_PLAIN = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BOOLEAN|VARCHAR|BLOB|DATE|TIMESTAMP.*")


@dataclass(frozen=True)
class ForeignKeyJoin:
    """One foreign-key join between stages, from a table with units to one without.

    Args:
        owners, rows, gives: numbers of tables: the one that has units, the one that has none, and the one
            that comes of both.
        key, unit: columns of the owners.
        column: the foreign key.
        named: the column of the units in what comes of it, which may be that of the foreign key.
        there, here: the columns of owners and rows, as far as they are compared.
    """

    owners: int
    rows: int
    gives: int
    key: str
    unit: str
    column: str
    named: str
    there: Schema
    here: Schema

    @property
    def sent(self) -> dict[str, str]:
        """The owners' columns that a foreign-key join sends, with DuckDB's types."""
        return {name: self.there[name].type_name for name in dict.fromkeys((self.key, self.unit))}

    def kept(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of a foreign-key join's result that its rows have, and not the owners."""
        return [name for name in columns if name.casefold() != self.named.casefold()]

    def owners_sent(self, relation: str, shards: int) -> str:
        """Return SQL of the owners' keys and units that a foreign-key join sends, with shards."""
        values = [f"{comparable_sql(name, self.there)} AS c{i}" for i, name in enumerate(self.sent)]
        return (
            f"SELECT DISTINCT {_shard(self.key, self.there, shards)}, {', '.join(values)} FROM {relation} "
            f"WHERE {identifier(self.key)} IS NOT NULL AND {identifier(self.unit)} IS NOT NULL"
        )

    def rows_sent(self, relation: str, columns: Sequence[str], shards: int) -> str:
        """Return SQL of the rows that a foreign-key join sends, with the shard of their key."""
        values = [f"{identifier(name)} AS c{i}" for i, name in enumerate(columns)]
        return (
            f"SELECT {_shard(self.column, self.here, shards)}, {', '.join(values)} FROM {relation} "
            f"WHERE {identifier(self.column)} IS NOT NULL"
        )

    def join_sql(self, owners: str, rows: str, columns: Sequence[str]) -> str:
        """Return SQL of the result of a foreign-key join of whole shards."""
        values = (
            comparable_sql(self.column, self.here),
            comparable_sql(self.key, self.there),
            identifier(self.unit),
        )
        return f"({foreign_key_rows(self.kept(columns), self.named, *values, rows, owners)})"


def in_one_order(kinds: Iterable[str]) -> list[str]:
    """Return terms of one order of a stage's rows, whichever way they came from a shuffle.

    What comes of a shuffle arrives in any order. Spark compares what is computed again with what was there
    before, and takes another order for rows that changed.
    """
    # Two floats may be equal and not the same, also in nested values.
    told = [f"c{i}" if _PLAIN.fullmatch(kind) else f"CAST(c{i} AS VARCHAR)" for i, kind in enumerate(kinds)]
    return [f"hash({', '.join(told)})", *told] if told else []


def _shard(column: str, schema: Schema, shards: int) -> str:
    """Return SQL of the shard of a foreign key, by its text."""
    return f"CAST(hash(CAST({comparable_sql(column, schema)} AS VARCHAR)) % {shards} AS INTEGER) AS shard"
