"""Plans to exact statistics on DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import duckdb
import pyarrow as pa

from sfumato.engines.duckdb.column_types import as_python
from sfumato.engines.duckdb.combinations import (
    COMPOSED,
    check_joined_rows,
    combination,
    count_taken_limits,
    max_equal_rows,
)
from sfumato.engines.duckdb.combined_rows import Rows
from sfumato.engines.duckdb.composite_units import composite
from sfumato.engines.duckdb.connection import UTC, check_timezone
from sfumato.engines.duckdb.dummy_source import common
from sfumato.engines.duckdb.origin import Origin, digest_address
from sfumato.engines.duckdb.public_keys import as_table, typed_keys
from sfumato.engines.duckdb.resources import DEFAULTS, Resources
from sfumato.engines.duckdb.row_steps import Size, Steps, Taken, apply_steps
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.source_reader import FOREIGN, Reader, SourceQuery
from sfumato.engines.duckdb.sources import open_source
from sfumato.errors import EngineError, QueryError, RefusalError, in_own_words
from sfumato.noise import Words
from sfumato.ownership import Owned
from sfumato.plan.plan import Plan
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Derive, Schema, Step
from sfumato.query.tables.combined_tables import Combination, Reached, all_parts, over_parts, private_parts
from sfumato.query.tables.dummy_rows import DummyRows, Known, Making
from sfumato.query.tables.table_part import Part, UnitPart, unit_name
from sfumato.release.payment import ChargeBudget, no_charge
from sfumato.release.release import Release
from sfumato.release.top_release import TopRelease
from sfumato.sql_text import same_name

if TYPE_CHECKING:
    from sfumato.api.largest_groups import Top
    from sfumato.guidance.unit_contributions import Contributed, Contributions
    from sfumato.plan.top_measurement import TopMeasurement


_NOTHING = Taken()


class DuckDBEngine(Owned):
    """Evaluates exact queries on one source with DuckDB. Made by `DuckDBEngine.open`."""

    has_local_rows = True
    _called = "table"
    _elsewhere = "its database and temporary files cannot be shared. Call sf.scan in the other process"

    def __init__(
        self,
        source: Source,
        resources: Resources = DEFAULTS,
        taken: Taken = _NOTHING,
    ) -> None:
        self._opened, self._resources = source, resources
        self._steps = Steps(source, taken)
        self._made = WeakValueDictionary[Combination, DuckDBEngine]()
        self._zoned = WeakValueDictionary[str, DuckDBEngine]()
        self._max_equal_rows: dict[tuple[tuple[str, ...], tuple[Step, ...]], int] = {}
        self._reader = Reader(source, resources)
        self.how: Combination | Reached | None = None  # of which tables its rows are made, if they are
        self.origin: Origin = Origin(source.name, source.files, tuple(source.columns), made_up=source.made_up)
        self.name = "DuckDB, on dummy rows" if source.made_up and not source.elsewhere else "DuckDB"
        self.rows_shown = True  # whether exact looks at the rows, which are for their owner, are admitted

    @classmethod
    def open(
        cls,
        source: Any,
        timezone: str = UTC,
        types: object = None,
        multiline: bool = True,
        encoding: str | None = None,
        resources: Resources = DEFAULTS,
    ) -> DuckDBEngine:
        """Open a source as a DuckDB engine, as `sfumato.scan` takes it."""
        zone = check_timezone("timezone", timezone)
        opened = open_source(source, types, multiline, encoding, resources)
        made = cls(opened.in_timezone(zone), resources)
        made.origin = replace(made.origin, address=digest_address(source, types, multiline, encoding))
        return made

    def with_rows(self, rows: pa.Table) -> DuckDBEngine:
        """Return a DuckDB engine on rows in memory."""
        return DuckDBEngine.open(rows, self.timezone, resources=self._resources)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the engine's source for the explanation of a release."""
        return self._source.notes

    @property
    def inferred_types(self) -> Mapping[str, str] | None:
        """The engine's guessed column types as a declaration; None where none were guessed."""
        return self._opened.inferred

    @property
    def _source(self) -> Source:
        self._check_home()
        return self._opened

    @property
    def resources(self) -> Resources:
        """The memory, threads and folder that this DuckDB engine may use."""
        return self._resources

    @property
    def files(self) -> tuple[str, ...]:
        """The paths and patterns that this DuckDB engine reads; none for rows in memory."""
        return self._opened.files

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """Digests of where all its rows come from; None where some are in memory."""
        return self.origin.addresses

    @property
    def timezone(self) -> str:
        """The time zone in which times with a zone are read as texts, dates and hours."""
        return self._opened.timezone

    @property
    def relation(self) -> str:
        """SQL behind FROM for this engine's rows, once they are loaded."""
        return self._source.relation

    def named(self, relation: str) -> DuckDBEngine:
        """Return a DuckDB engine with the same columns, on rows that a session has under a name."""
        source = replace(self._source, relation=relation, pending=None, again=None, rows=None, looked=None)
        made = DuckDBEngine(replace(source, anywhere=True), self._resources)
        made.origin = self.origin
        return made

    def in_timezone(self, zone: str) -> DuckDBEngine:
        """Return a DuckDB engine on the same rows that reads times in another time zone.

        Of one zone it is the same engine, as long as one is used.

        Raises:
            ParameterError: there is no such time zone.
        """
        zone = check_timezone("timezone", zone)
        if zone == self.timezone:
            return self
        made = self._zoned.get(zone)
        if made is None:
            made = self._zoned[zone] = self._in_timezone(zone)
        return made

    def _in_timezone(self, zone: str) -> DuckDBEngine:
        if self.how is not None:
            made = self._combined(over_parts(self.how, lambda part: _in_timezone(part, zone)))
        else:
            made = DuckDBEngine(self._source.in_timezone(zone), self._resources, self._steps.taken())
        made.origin, made.rows_shown = replace(self.origin, how=made.how), self.rows_shown
        return made

    def reads(self, query: ExactQuery, others: Sequence[str] = ()) -> list[str]:
        """Return the source columns that an exact query may read on this engine, in order."""
        values = [*others, *(column for s in query.statistics for column in s.columns)]
        return self.read_by([query.unit, *query.keys, *values], query.steps)

    def read_by(self, columns: Sequence[str], steps: Sequence[Step]) -> list[str]:
        """Return the source columns that steps and the columns after them may read, in order."""
        named = set(map(same_name, columns))
        for one in self._steps.validate(steps):
            named |= one.columns
        return [name for name in self.schema() if same_name(name) in named]

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the engine's columns after the steps."""
        known = self._steps.known(steps)
        if known is None:
            self._check_home()
            known = self._steps.schema(steps)
        return known

    def unique(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return columns of this engine in which no two rows have the same values, where known."""
        changed = {step.name.casefold() for step in steps if isinstance(step, Derive)}
        columns = self._source.unique
        return () if changed & set(map(str.casefold, columns)) else columns

    @property
    def row_count(self) -> int | None:
        """The number of rows before any step, where the engine knows it without reading."""
        return self._opened.rows

    def max_equal_rows(self, columns: Sequence[str], steps: Sequence[Step] = ()) -> int:
        """Return how many rows of this public table share their values in some columns, at most.

        It is looked at once, and holds for as long as this engine is used.

        Args:
            columns: a row with NULL in one of them is not counted, as NULL equals nothing.
            steps: before that.
        Raises:
            EngineError: the rows cannot be read.
        """
        unique, key = self.unique(steps), (tuple(columns), tuple(steps))
        if unique and set(unique) <= set(columns):
            return 1
        if key not in self._max_equal_rows:
            self._max_equal_rows[key] = self._looked_alike(*key)
        return self._max_equal_rows[key]

    def _looked_alike(self, columns: Sequence[str], steps: Sequence[Step]) -> int:
        read, total = self.read_by(columns, steps), self._steps.total(steps)
        for any_value in (False, True):
            with suppress(*FOREIGN), in_own_words(), self.rows(read, any_value=any_value) as (session, rows):
                after = apply_steps(rows, total, list(self.schema()))
                return max_equal_rows(session, after, columns, self.schema(steps))
        raise EngineError(f"{self._opened.name}: DuckDB stopped while it read the rows of this public table")

    def total(self, query: ExactQuery) -> ExactQuery:
        """Return the exact query with its row expressions in their safe form."""
        return replace(query, steps=tuple(self._steps.total(query.steps)))

    @in_own_words()
    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        """Return public group keys with the types of this engine's columns, sorted."""
        schema = self.schema(steps)
        table = as_table(keys, values)
        with self._source.session() as session:
            return typed_keys(session, keys, table, schema)

    def statistics(
        self, query: ExactQuery, batch_rows: int, salt: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the exact statistics of a query on DuckDB, sorted by key."""
        return self._reader.statistics(self._prepare_query(query), batch_rows, salt)

    def contributions(self, request: Contributions) -> Contributed:
        """Return what units contribute under many limits, exactly: for the owner of the rows alone.

        Raises:
            RefusalError: the table was opened for analysts.
        """
        self.check_shown("analyze")
        return self._reader.contributions(
            self._prepare_query(request.exact, [c.name for c in request.columns]), request
        )

    def _prepare_query(self, query: ExactQuery, others: Sequence[str] = ()) -> SourceQuery:
        self._check_here()
        schemas = self.schema(()), self.schema(query.steps)
        return SourceQuery(
            query, self.total(query), self.reads(query, others), *schemas, self.how is not None
        )

    def rows(
        self, columns: Sequence[str], *, any_value: bool = False
    ) -> AbstractContextManager[tuple[duckdb.DuckDBPyConnection, str]]:
        """Open a DuckDB session on the exact rows, for their owner alone.

        Args:
            columns: those that are looked at.
            any_value: read in the way, where there is another, that bears any value.
        Returns:
            The session, and what stands behind FROM in it.
        """
        self._check_here()
        return self._reader.rows(columns, any_value)

    def progress(self) -> float | None:
        """Return the share of the running query that is done, for a display; None where unknown."""
        return self._reader.progress() if self._at_home else None

    def check_shown(self, what: str) -> None:
        """Refuse what shows exact numbers of rows, where the table was opened for analysts.

        Raises:
            RefusalError: it was.
        """
        if not self.rows_shown:
            raise RefusalError(
                f"{what}: this table was opened for analysts, who must not see exact numbers of "
                "rows. Ask its owner, or call question.preview(...), which reads no row"
            )

    def check_release(self, plan: Plan[Any, Any], unsafe_words: Words | None) -> None:
        """Refuse a release with known noise on a table for analysts, or with joins that make too much.

        Raises:
            RefusalError, QueryError: as said.
        """
        if unsafe_words is not None:
            self.check_shown("unsafe_words")
        if self.origin.how is not None:
            check_joined_rows(self.origin.how, _counted, _alike)

    def for_analysts(self) -> DuckDBEngine:
        """Return an engine on the same rows that admits releases alone, and no exact look at the rows."""
        made = DuckDBEngine(self._source, self._resources, self._steps.taken())
        made.how, made.origin, made.rows_shown = self.how, self.origin, False
        return made

    def combined(self, how: Combination) -> DuckDBEngine:
        """Return a DuckDB engine on a combination of tables: a join, a union, or one row per unit.

        Of the same tables, put together in the same way, it is the same engine, as long as one is used.
        Public tables are read in the time zone of the private ones.

        Raises:
            QueryError: private tables are read in several time zones, or do not go together.
        """
        how = _in_one_timezone(how)
        made = self._made.get(how)
        if made is None:
            made = self._made[how] = self._combined(how)
        return made

    def _combined(self, how: Combination) -> DuckDBEngine:
        private = [part.engine for part in private_parts(how)]
        made_up = common([e._opened.made_up for e in private if isinstance(e, DuckDBEngine)])
        taken = count_taken_limits(how, _taken)
        source = combination(how, self._part, self._resources).in_timezone(_zones(how)[0])
        elsewhere = any(e._opened.elsewhere for e in private if isinstance(e, DuckDBEngine))
        made = DuckDBEngine(replace(source, made_up=made_up, elsewhere=elsewhere), self._resources, taken)
        made.how = how
        made.origin = replace(made.origin, how=how)
        made.rows_shown = all(getattr(part.engine, "rows_shown", True) for part, _ in how.kept)
        return made

    @property
    def made_up(self) -> bool:
        """Whether this engine's rows are made up, so that no budget is charged."""
        return bool(self._opened.made_up)

    def dummy(self, making: Making, unit: str | None, known: Mapping[str, Known]) -> DuckDBEngine:
        """Return a DuckDB engine on dummy rows with the same columns; no row is read."""
        if self.how is not None:
            raise QueryError(
                "dummy: this table is made from other tables. Make dummy tables of those before they "
                "are joined, or of all tables of a catalog with catalog.dummy()"
            )
        if self.inferred_types is not None:
            raise QueryError(
                "dummy: the types of this file were inferred from its first rows, but dummy rows "
                f"depend on declarations only. Declare them: {as_python(self.inferred_types)}"
            )
        parts, title = self.origin.parts, self.origin.title
        columns, name = dict(self.origin.columns), title or "dummy rows"
        rows = DummyRows(making, columns, self._source.complete, unit, known, name=name)
        made = DuckDBEngine.open(rows, self.timezone, resources=self._resources)
        if parts:
            made, _ = made.composite(parts, self.origin.timezone or "UTC")
        made.origin = replace(made.origin, title=title)
        return made

    def on(self, other: Callable[[Source], Source], resources: Resources | None = None) -> DuckDBEngine:
        """Return a DuckDB engine on another source that is made from this one's."""
        return DuckDBEngine(other(self._source), resources or self._resources)

    def composite(self, parts: Sequence[str], timezone: str) -> tuple[DuckDBEngine, tuple[UnitPart, ...]]:
        """Return a DuckDB engine with one more column, a composite privacy unit, and its parts.

        Args:
            parts: columns, and expressions of one row's columns.
            timezone: in which expressions read times with a zone.
        """
        source, units, expressions = composite(self._source, self.schema(), parts, timezone)
        size = Size(len(source.relation), sum(one.held for one in expressions))
        steps = self._steps.taken().steps + COMPOSED
        taken = Taken({same_name(unit_name(parts)): size}, size.held, steps)
        made = DuckDBEngine(source, self._resources, taken)
        made.rows_shown = self.rows_shown
        made.origin = replace(self.origin, parts=tuple(parts), timezone=timezone)
        return made, units

    def unit_local(self, text: object, tables: Mapping[str, Any]) -> Any:
        """Return the private table that unit-local SQL makes of tables, by name."""
        from sfumato.dialect.subqueries import unit_local_table

        return unit_local_table(text, tables)

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return the engine's table and what steps keep and derive, as plain data for the canonical form."""
        schema = self.schema(steps)  # which judges them
        found = self.origin.content(steps)
        zoned = any("TIME ZONE" in column.type_name for column in (*schema.values(), *self.schema().values()))
        told = self.timezone != UTC or (zoned and self.how is None)
        return found | ({"timezone": self.timezone} if told else {})

    def reads_zone(self, steps: Sequence[Step] = ()) -> bool:
        """Whether steps of this engine, or its tables, depend on the time zone."""
        if any(one.zoned for one in self._steps.validate(steps)):
            return True
        parts = [part for part in ([] if self.how is None else all_parts(self.how))]
        zoned = (column for part in parts for column in part.schema.values())
        return any("TIME ZONE" in column.type_name for column in zoned) or any(
            part.engine.reads_zone(part.steps) for part in parts if isinstance(part.engine, DuckDBEngine)
        )

    @property
    def titles(self) -> tuple[str, ...]:
        """The catalog's names of this engine's tables."""
        return self.origin.titles

    def titled(self, title: str) -> None:
        """Give this engine's table the name that a catalog declares."""
        self.origin = replace(self.origin, title=title)

    def _check_here(self) -> None:
        """Refuse to read rows of an engine that only stands for a service's table."""
        self._check_home()
        if self._opened.elsewhere:
            raise RefusalError(
                "the rows of this table are at a service, which alone can read them. Call "
                "release(...) on a table from clinic.table(...)"
            )

    def _part(self, part: Part, where: str) -> Rows:
        engine = part.engine
        if not isinstance(engine, DuckDBEngine):
            raise QueryError(f"{where}: the other table is not read by DuckDB. Open a file or a data frame")
        return engine.rows_after(part)

    def rows_after(self, part: Part) -> Rows:
        """Return this engine's rows after steps, to be combined with other tables."""
        after = partial(apply_steps, steps=self._steps.total(part.steps), columns=list(self.schema(())))
        return Rows(self._source, after, part.schema, part.unit, self.unique(part.steps))

    def release(
        self,
        plan: Plan,
        *,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
        pay: ChargeBudget = no_charge,
    ) -> Release:
        """Return the DuckDB engine's release of a plan; noise is drawn on first access."""
        self.check_release(plan, unsafe_words)
        made = Release(plan, self, confidence=confidence, unsafe_words=unsafe_words)
        made._take(pay())
        return made

    def top(
        self,
        plan: Plan[Top, TopMeasurement],
        *,
        unsafe_words: Words | None = None,
        pay: ChargeBudget = no_charge,
    ) -> TopRelease:
        """Return the DuckDB engine's release of the largest groups; it is drawn on first access."""
        self.check_release(plan, unsafe_words)
        made = TopRelease(plan, unsafe_words)
        made._take(pay())
        return made


def _zones(how: Combination | Reached) -> list[str]:
    """Return the time zones of a combination's private tables, each once; UTC of none."""
    parts = private_parts(how) or all_parts(how)
    zones = [part.engine.timezone for part in parts if isinstance(part.engine, DuckDBEngine)]
    return list(dict.fromkeys(zones)) or [UTC]


def _in_one_timezone(how: Combination) -> Combination:
    zone, *others = _zones(how)
    if others and private_parts(how):
        raise QueryError(
            f"the tables are read in different time zones, {zone} and {others[0]}. Give each "
            "scan(...) the same timezone="
        )
    return over_parts(how, lambda part: _in_timezone(part, zone))


def _in_timezone(part: Part, zone: str) -> Part:
    engine = part.engine
    return replace(part, engine=engine.in_timezone(zone)) if isinstance(engine, DuckDBEngine) else part


def _counted(part: Part, columns: Sequence[str]) -> int:
    return sys.maxsize if (rows := _public(part).row_count) is None else rows


def _alike(part: Part, columns: Sequence[str]) -> int:
    engine = _public(part)
    return 1 if engine._opened.elsewhere else engine.max_equal_rows(columns, part.steps)


def _public(part: Part) -> DuckDBEngine:
    assert isinstance(part.engine, DuckDBEngine)  # as `combined` has seen
    return part.engine


def _taken(part: Part) -> Taken | None:
    engine = part.engine
    return engine._steps.taken(part.steps) if isinstance(engine, DuckDBEngine) else None
