"""Reads one source: exact statistics of queries, and looks at the rows for their owner."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.bounding_sql import PUBLIC_KEYS, BoundingSql
from sfumato.engines.duckdb.distinct_values import fill_matching_sizes, known
from sfumato.engines.duckdb.resources import Resources, keep_open, spill_folder
from sfumato.engines.duckdb.source import Source, one_snapshot
from sfumato.errors import EngineError, in_own_words
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Schema
from sfumato.transformations import DistinctMatched

if TYPE_CHECKING:
    from sfumato.guidance.unit_contributions import Contributed, Contributions


# Of a session: without them `query_progress` knows nothing, and the first alone would print.
_PROGRESS = "SET enable_progress_bar_print = false; SET enable_progress_bar = true; SET progress_bar_time = 0"
# What DuckDB and Arrow raise where rows stop them.
FOREIGN = duckdb.Error, pa.ArrowException, OSError, UnicodeError


MEMORY = "Memory or disk ran out"
FILES = "A file changed, is damaged or cannot be read or written"
UNKNOWN = "If the files are whole, please report the query, without rows, as a defect of sfumato"


def cause(kind: type[BaseException] | None) -> str:
    """Return why DuckDB stopped reading, from the error's class: its text may quote rows."""
    if kind is not None and issubclass(kind, duckdb.OutOfMemoryException | MemoryError):
        return MEMORY
    return FILES if kind is not None and issubclass(kind, duckdb.IOException | OSError) else UNKNOWN


class _End(suppress):
    """A block that ends at an error of DuckDB or Arrow and keeps its class alone."""

    kind: type[BaseException] | None = None

    def __init__(self) -> None:
        super().__init__(*FOREIGN)

    def __exit__(self, kind: type[BaseException] | None, *raised: Any) -> bool:
        self.kind = kind
        return super().__exit__(kind, *raised)


@dataclass(frozen=True)
class SourceQuery:
    """An exact query of a source, with its safe form and columns.

    Args:
        query: as it was asked.
        total: the same, with expressions that cannot raise.
        columns: those of the source that are read.
        given, schema: the columns before its steps, and after.
        combined: whether rows are made of other tables.
    """

    query: ExactQuery
    total: ExactQuery
    columns: Sequence[str]
    given: Schema
    schema: Schema
    combined: bool


class Reader:
    """Reads exact statistics of queries from one source."""

    def __init__(self, source: Source, resources: Resources) -> None:
        self._source, self._resources = source, resources
        self._running: duckdb.DuckDBPyConnection | None = None

    def statistics(
        self, query: SourceQuery, batch_rows: int, salt: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield exact statistics of a source, read again by Arrow where a value stops the first way."""
        salt, end = secrets.randbits(64) if salt is None else salt, _End()
        rows = self._rows(query, self._source, batch_rows, salt, end)
        # No group comes before all rows are read: nothing was given yet where a row stopped the reading.
        first = next(rows, None)
        if first is None and self._source.again is not None:
            rows = self._rows(query, self._source.again(query.columns), batch_rows, salt, end)
            first = next(rows, None)
        if first is None:
            raise self._stopped(end)
        yield first
        yield from rows

    def _rows(
        self, asked: SourceQuery, source: Source, batch_rows: int, salt: int, end: _End
    ) -> Iterator[pa.RecordBatch]:
        """Yield exact statistics of a source; nothing at all where reading it stops."""
        query = asked.query
        given = ended = False
        with end, in_own_words(), self._reading(asked, source) as (session, options):

            def written(sizes: Collection[DistinctMatched] = ()) -> BoundingSql:
                return BoundingSql(asked.total, **options, salt=salt, known=sizes)

            lone = not query.keys and any(isinstance(s, DistinctMatched) for s in query.statistics)
            sizes = known(session, query, written().distinct_rows) if lone else {}
            if sizes and len(sizes) == len(query.statistics):
                given = True
                yield fill_matching_sizes(None, query, sizes)
            else:
                for batch in batches(session, written(sizes).text(), batch_rows):
                    given = True
                    yield fill_matching_sizes(batch, query, sizes)
            ended = True
        if given and not ended:
            raise self._stopped(end)

    @contextmanager
    def _reading(
        self, query: SourceQuery, source: Source
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, Any]]]:
        """Open a session with a source's rows and public keys, and the options of its SQL.

        What is raised in here is not to be passed on, not as a context either: its text may quote rows.
        """
        spill_folder(self._resources.temp_directory)
        with source.session() as session:
            self._running = session
            session.execute(_PROGRESS)
            keys = query.query.public_keys
            if isinstance(keys, pa.Table):
                session.register(PUBLIC_KEYS, keys.rename_columns([f"k{i}" for i in range(keys.num_columns)]))
            with one_snapshot():
                source.load(session, query.columns)
            options = {
                "relation": source.relation_in(session),
                "columns": list(query.given),
                "schema": query.schema,
                "rows": source.rows,
                "combined": query.combined,
            }
            yield session, options

    def contributions(self, query: SourceQuery, wanted: Contributions) -> Contributed:
        """Return what a source's units contribute to groups under many limits, exactly."""
        from sfumato.engines.duckdb.analysis_sql import ContributionsSql
        from sfumato.guidance.unit_contributions import Contributed

        wanted, again = replace(wanted, exact=query.total), self._source.again
        ways: list[Callable[[], Source]] = [lambda: self._source]
        ways += [] if again is None else [lambda: again(query.columns)]
        end = _End()
        for way in ways:
            with end, in_own_words(), self._reading(query, way()) as (session, options):
                text = ContributionsSql(wanted, **options, salt=0).text()
                return Contributed.of_columns(wanted, session.sql(text).to_arrow_table())
        raise self._stopped(end)

    @contextmanager
    def rows(
        self, columns: Sequence[str], any_value: bool
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
        """Open a session on a source's exact rows."""
        source = self._source
        if any_value and source.again is not None:
            source = source.again(columns)
        spill_folder(self._resources.temp_directory)
        with source.session() as session:
            with one_snapshot():
                source.load(session, columns)
            yield session, source.relation

    def progress(self) -> float | None:
        """Return the share of a source's running query that is done; None where unknown."""
        running = self._running
        percent = -1.0
        with suppress(duckdb.Error):  # of a session that has ended
            percent = -1.0 if running is None else running.query_progress()
        return percent / 100 if percent >= 0 else None

    def _stopped(self, end: _End) -> EngineError:
        return EngineError(f"{self._source.name}: DuckDB stopped while it read the rows. {cause(end.kind)}")


def batches(connection: duckdb.DuckDBPyConnection, text: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield a query's result in batches, at least one."""
    reader = keep_open(connection.sql(text).to_arrow_reader(batch_rows))
    first = next(reader, None)
    # Arrow imports pandas to make a batch of a list, which takes longer than a small query.
    yield pa.RecordBatch.from_pylist([], schema=reader.schema) if first is None else first
    # Not `yield from`, which closes the reader with this generator: a forked child may wait there for ever.
    for batch in reader:  # noqa: UP028
        yield batch
