"""Plans to exact statistics on DuckDB."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import duckdb
import pyarrow as pa

from sfumato.dialect.inside.text import table_of
from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.combined import Rows, joined, of_units, reached, united
from sfumato.engines.duckdb.composite import composite
from sfumato.engines.duckdb.connection import timezone_of
from sfumato.engines.duckdb.databases import one_snapshot
from sfumato.engines.duckdb.dummy import common
from sfumato.engines.duckdb.exact_sql import PUBLIC_KEYS, ExactSql, stepped
from sfumato.engines.duckdb.expressions import LONGEST, MOST_HELD, Judged, judged
from sfumato.engines.duckdb.few_pairs import known
from sfumato.engines.duckdb.matching import numbered
from sfumato.engines.duckdb.origin import Origin, address_of
from sfumato.engines.duckdb.public_keys import as_table, typed_keys
from sfumato.engines.duckdb.resources import DEFAULTS, Resources
from sfumato.engines.duckdb.shaped import computed, looked_up, selected, windowed, with_value
from sfumato.engines.duckdb.source import Source, check_names
from sfumato.engines.duckdb.sources import open_source
from sfumato.engines.duckdb.text import same_name
from sfumato.engines.duckdb.unit_aggregates import unit_aggregate
from sfumato.errors import EngineError, QueryError, RefusalError, in_own_words
from sfumato.noise import Words
from sfumato.ownership import Owned
from sfumato.query.exact import ExactQuery
from sfumato.query.payment import Pay, free
from sfumato.query.plans.plan import Plan
from sfumato.query.released.release import Release
from sfumato.query.schema import FLOATS, INTEGERS, Column, Derive, Filter, Kind, Schema, Step
from sfumato.query.tables.combining import Combination, Join, PerUnit, Reached, Union, private_parts
from sfumato.query.tables.dummy import DummyRows, Known, Making
from sfumato.query.tables.part import Part
from sfumato.query.tables.shaping import Computed, IsIn, Select, Window, WithValue
from sfumato.query.tables.units import UnitPart, unit_name
from sfumato.query.top.release import TopRelease

if TYPE_CHECKING:
    from sfumato.query.analysis.contributions import Contributed, Contributions
    from sfumato.query.top.asked import Top
    from sfumato.query.top.plan import TopPlan

_OPAQUE = (
    "STRUCT", "MAP", "UNION", "JSON", "VARIANT", "INTERVAL", "BLOB", "BIT", "UHUGEINT", "BIGNUM", "GEOMETRY",
    "TIME WITH TIME ZONE",
)  # fmt: skip
# Of a session: without them `query_progress` knows nothing, and the first alone would print.
_PROGRESS = "SET enable_progress_bar_print = false; SET enable_progress_bar = true; SET progress_bar_time = 0"


# What DuckDB and Arrow raise where rows stop them.
_FOREIGN = duckdb.Error, pa.ArrowException, OSError, UnicodeError

# DuckDB plans queries in queries to a depth of 1,000; a filter is two, and the statistics are over them.
_MOST_STEPS = 300
_COMBINED, _SELECTED = 5, 2  # steps that a join, a union or per_unit counts for, and a SELECT


class _Size(NamedTuple):
    """What a derived column adds to a condition that uses it: characters, and texts that are held."""

    length: int
    held: int


class DuckDBEngine(Owned):
    """Evaluates exact queries on one source. Made by `DuckDBEngine.open`."""

    looks_first = True
    _called = "table"
    _elsewhere = "its database, and what that has spilled, would be shared; call sf.scan there"

    def __init__(
        self,
        source: Source,
        resources: Resources = DEFAULTS,
        sizes: Mapping[str, _Size] | None = None,
        held: int = 0,
        steps: int = 0,
    ) -> None:
        self._opened, self._resources, self._steps = source, resources, steps
        self._judged: dict[tuple[Step, ...], Judged] = {}
        self._schemas: dict[tuple[Step, ...], Schema] = {}
        self._sizes: dict[tuple[Step, ...], dict[str, _Size]] = {(): dict(sizes or {})}
        self._held: dict[tuple[Step, ...], int] = {(): held}
        self._made = WeakValueDictionary[Combination, DuckDBEngine]()
        self._running: duckdb.DuckDBPyConnection | None = None
        self.how: Combination | Reached | None = None  # of which tables its rows are made, if they are
        self.origin = Origin(source.name, source.files, tuple(source.columns), made_up=source.made_up)
        self.name = "DuckDB, on made-up rows" if source.made_up else "DuckDB"
        self.rows_shown = True  # whether exact looks at the rows, which are for their owner, are admitted

    @classmethod
    def open(
        cls,
        source: Any,
        timezone: str | None = None,
        types: object = None,
        multiline: bool = True,
        resources: Resources = DEFAULTS,
    ) -> DuckDBEngine:
        """Open a source as `sfumato.scan` takes it; rows in memory perhaps in another time zone."""
        made = cls(open_source(source, timezone, types, multiline, resources), resources)
        made.origin = replace(made.origin, address=address_of(source, types, multiline))
        return made

    def of_rows(self, rows: pa.Table) -> DuckDBEngine:
        """Return an engine on rows in memory."""
        return DuckDBEngine.open(rows, resources=self._resources)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the explanation of a release says of the source."""
        return self._source.notes

    @property
    def _source(self) -> Source:
        self._check_home()
        return self._opened

    @property
    def resources(self) -> Resources:
        """What it may take of the machine."""
        return self._resources

    @property
    def files(self) -> tuple[str, ...]:
        """The paths and patterns that rows are read from; none where they are in memory."""
        return self._opened.files

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """Digests of where all its rows come from; None where some are in memory."""
        return self.origin.addresses

    @property
    def timezone(self) -> str:
        """The time zone in which times with a zone are read as texts, dates and hours."""
        with self._source.session() as session:
            return timezone_of(session)

    @property
    def relation(self) -> str:
        """What stands behind FROM, once the rows are there."""
        return self._source.relation

    def named(self, relation: str) -> DuckDBEngine:
        """Return an engine on rows of this one's columns that a session will have under a name."""
        source = replace(self._source, relation=relation, pending=None, again=None, rows=None, looked=None)
        made = DuckDBEngine(replace(source, anywhere=True), self._resources)
        made.origin = self.origin
        return made

    def in_sessions_of(self, other: DuckDBEngine) -> DuckDBEngine:
        """Return this engine with another one's sessions, and so with its time zone."""
        source = replace(self._source, session=other._source.session)
        held = self._sizes[()], self._held[()], self._steps
        made = DuckDBEngine(source, self._resources, *held)
        made.origin = self.origin
        return made

    def reads(self, query: ExactQuery, others: Sequence[str] = ()) -> list[str]:
        """Return the source's columns that a query, and others that are named, may read, in its order."""
        values = [*others, *(column for s in query.statistics for column in s.columns)]
        named = {same_name(name) for name in [query.unit, *query.keys, *values]}
        for one in self._judgements(query.steps):
            named |= one.columns
        return [name for name in self.schema() if same_name(name) in named]

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps."""
        key = tuple(steps)
        if key not in self._schemas:
            self._schemas[key] = self._after(key[:-1], key[-1]) if key else self._declared()
        return self._schemas[key]

    def unique(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return columns in which no two rows have the same values, as far as their making tells."""
        changed = {step.name.casefold() for step in steps if isinstance(step, Derive)}
        columns = self._source.unique
        return () if changed & set(map(str.casefold, columns)) else columns

    def _declared(self) -> Schema:
        source = self._source
        check_names([name for name, _ in source.columns])
        return {name: _column(kind, name not in source.complete) for name, kind in source.columns}

    def total(self, query: ExactQuery) -> ExactQuery:
        """Return the query with its row expressions in a form that cannot raise."""
        return replace(query, steps=tuple(self._total(query.steps)))

    def _total(self, steps: Sequence[Step]) -> list[Step]:
        pairs = zip(steps, self._judgements(steps), strict=True)
        return [
            replace(step, expression=one.text if isinstance(step, Derive) else one.condition)
            for step, one in pairs
        ]

    def _judgements(self, steps: Sequence[Step]) -> list[Judged]:
        self.schema(steps)
        return [self._judged[tuple(steps[: i + 1])] for i in range(len(steps))]

    @in_own_words()
    def _after(self, before: tuple[Step, ...], step: Step) -> Schema:
        self._check_home()
        schema = dict(self.schema(before))
        where = "with_columns" if isinstance(step, Derive) else "filter"
        one = self._judged[*before, step] = judged(where, step.expression, schema)
        self._measure(where, before, step, one)
        if isinstance(step, Filter):
            # NaN is a value to SQL, so a column of floats can still lack one.
            for name in one.complete:
                if name in schema and schema[name].type_name not in FLOATS:
                    schema[name] = replace(schema[name], missing=False)
            return schema
        # Names are equal whatever their case, so this may stand in the place of another.
        kept = {n: c for n, c in schema.items() if n.casefold() != step.name.casefold()}
        return kept | {step.name: _column(one.type_name, True)}

    def _measure(self, where: str, before: tuple[Step, ...], step: Step, one: Judged) -> None:
        """Refuse an expression that takes too much, by itself or with those before it.

        DuckDB's planner writes derived columns out in the conditions that use them; an expression over
        columns that stand twice in others doubles with each, beyond all limits of memory.
        """
        if self._steps + len(before) >= _MOST_STEPS:
            raise QueryError(
                f"{where}: the question has more than {_MOST_STEPS} filters and derived columns, each over "
                "those before it; put several into one expression"
            )
        sizes = self._sizes[before]
        used = [(times, sizes[name]) for name, times in one.uses.items() if name in sizes]
        length = len(one.text) + sum(times * size.length for times, size in used)
        if length > LONGEST:
            raise QueryError(
                f"{where}: the expression uses derived columns so often that it is longer than "
                f"{LONGEST} characters with these written out; use each fewer times"
            )
        held = one.held + sum(times * size.held for times, size in used)
        self._held[*before, step] = self._held[before] + (one.held if isinstance(step, Derive) else held)
        if self._held[*before, step] > MOST_HELD:
            raise QueryError(
                f"{where}: the expressions of the question make more than {MOST_HELD} texts (as "
                "docs/expressions.md counts them); leave out columns that you do not use, or make them "
                "before scan"
            )
        own = {same_name(step.name): _Size(length, held)} if isinstance(step, Derive) else {}
        self._sizes[*before, step] = sizes | own

    @in_own_words()
    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        """Return public keys with the key columns' types, sorted."""
        schema = self.schema(steps)
        table = as_table(keys, values)
        with self._source.session() as session:
            return typed_keys(session, keys, table, schema)

    def statistics(
        self, query: ExactQuery, batch_rows: int, salt: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield exact statistics, sorted by key; of one salt with the same choice of groups."""
        columns, salt = self.reads(query), secrets.randbits(64) if salt is None else salt
        rows = self._rows(query, self._source, columns, batch_rows, salt)
        # No group comes before all rows are read: nothing was given yet where a row stopped the reading.
        first = next(rows, None)
        if first is None and self._source.again is not None:
            rows = self._rows(query, self._source.again(columns), columns, batch_rows, salt)
            first = next(rows, None)
        if first is None:
            raise self._stopped()
        yield first
        yield from rows

    def _rows(
        self, query: ExactQuery, source: Source, columns: Sequence[str], batch_rows: int, salt: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield exact statistics of a source; nothing at all where reading it stops."""
        total = self.total(query)
        given = ended = False
        with suppress(*_FOREIGN), in_own_words(), self._reading(query, source, columns) as (session, options):

            def written(asked: ExactQuery) -> ExactSql:
                return ExactSql(asked, **options, salt=salt)

            sizes = known(session, query, written(total).rows_of)
            left = tuple(s for s in query.statistics if s not in sizes)
            if sizes and not left:
                given = True
                yield numbered(None, query, sizes)
            else:
                text = written(replace(total, statistics=left)).text()
                for batch in batches(session, text, batch_rows):
                    given = True
                    yield numbered(batch, query, sizes)
            ended = True
        if given and not ended:
            raise self._stopped()

    @contextmanager
    def _reading(
        self, query: ExactQuery, source: Source, columns: Sequence[str]
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, Any]]]:
        """Open a session with a query's rows and public keys, and what its SQL is written of.

        What is raised in here is not to be passed on, not as a context either: its text may quote rows.
        """
        spill.ready(self._resources.temp_directory)
        with source.session() as session:
            self._running = session
            session.execute(_PROGRESS)
            if isinstance(query.public_keys, pa.Table):
                aliases = [f"k{i}" for i in range(len(query.keys))]
                session.register(PUBLIC_KEYS, query.public_keys.rename_columns(aliases))
            with one_snapshot():
                source.load(session, columns)
            options = {
                "relation": source.relation_in(session),
                "columns": list(self.schema(())),
                "schema": self.schema(query.steps),
                "rows": source.rows,
                "combined": self.how is not None,
            }
            yield session, options

    def contributions(self, asked: Contributions) -> Contributed:
        """Return what units bring to groups under many limits, exactly: for the owner of the rows alone.

        Raises:
            RefusalError: the table was opened for analysts.
        """
        self.check_shown("analyze")
        from sfumato.engines.duckdb.contributions import ContributionsSql
        from sfumato.query.analysis.contributions import Contributed

        query, columns = asked.exact, self.reads(asked.exact, [c.name for c in asked.columns])
        asked = replace(asked, exact=self.total(query))
        again = self._source.again
        ways: list[Callable[[], Source]] = [lambda: self._source]
        ways += [] if again is None else [lambda: again(columns)]
        for way in ways:
            with (
                suppress(*_FOREIGN),
                in_own_words(),
                self._reading(query, way(), columns) as (session, options),
            ):
                text = ContributionsSql(asked, **options, salt=0).text()
                return Contributed.of_columns(asked, session.sql(text).to_arrow_table())
        raise self._stopped()

    def check_shown(self, what: str) -> None:
        """Refuse what shows exact numbers of rows, where the table was opened for analysts.

        Raises:
            RefusalError: it was.
        """
        if not self.rows_shown:
            raise RefusalError(
                f"{what}: this table was opened for analysts, and this would show exact numbers of rows; ask "
                "its owner, or try question.preview(...), which reads no row"
            )

    def check_release(self, plan: Plan, unsafe_words: Words | None) -> None:
        """Refuse noise that is known, where the table was opened for analysts."""
        if unsafe_words is not None:
            self.check_shown("unsafe_words")

    def for_analysts(self) -> DuckDBEngine:
        """Return an engine on the same rows that admits releases alone, and no exact look at the rows."""
        made = DuckDBEngine(self._source, self._resources, self._sizes[()], self._held[()], self._steps)
        made.how, made.origin, made.rows_shown = self.how, self.origin, False
        return made

    @contextmanager
    def rows(
        self, columns: Sequence[str], *, any_value: bool = False
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
        """Open a session for exact looks at the rows, which are for their owner alone.

        Args:
            columns: those that are looked at.
            any_value: read in the way, where there is another, that bears any value.
        Returns:
            The session, and what stands behind FROM in it.
        """
        source = self._source
        if any_value and source.again is not None:
            source = source.again(columns)
        spill.ready(self._resources.temp_directory)
        with source.session() as session:
            with one_snapshot():
                source.load(session, columns)
            yield session, source.relation

    def _stopped(self, error: Exception | None = None) -> EngineError:
        return EngineError(
            f"{self._opened.name}: DuckDB stopped while it read the rows. The file may have changed or be "
            "damaged, or memory or disk ran out"
        )

    def combined(self, how: Combination) -> DuckDBEngine:
        """Return an engine on the rows of a join, a union, or one row for each unit.

        Of the same tables, put together in the same way, it is the same engine, as long as one is used.
        """
        made = self._made.get(how)
        if made is None:
            made = self._made[how] = self._combined(how)
        return made

    def _combined(self, how: Combination) -> DuckDBEngine:
        private = [part.engine for part in private_parts(how)]
        made_up = common([e._opened.made_up for e in private if isinstance(e, DuckDBEngine)])
        limits = self._limits(how)
        match how:
            case Join():
                parts = self._part(how.left, "join"), self._part(how.right, "join")
                source = joined(how, *parts, self._resources)
            case Union():
                parts = self._part(how.left, "union"), self._part(how.right, "union")
                source = united(*parts, self._resources)
            case PerUnit(part=part):
                found = {name: unit_aggregate(name, text, part.schema) for name, text in how.aggregates}
                columns = {name: (one, _column(one.type_name, True)) for name, one in found.items()}
                source = of_units(self._part(part, "per_unit"), how.by, columns, self._resources)
            case Reached():
                parts = self._part(how.part, "foreign_keys"), self._part(how.owners, "foreign_keys")
                source = reached(how, *parts, self._resources)
            case Select(part=part):
                source = selected(how, self._part(part, "SELECT"), self._resources)
            case IsIn():
                parts = self._part(how.part, "IN"), self._part(how.other, "IN")
                source = looked_up(how, *parts, self._resources)
            case WithValue():
                parts = self._part(how.part, "SELECT"), self._part(how.other, "SELECT")
                source = with_value(how, *parts, self._resources)
            case Window(part=part):
                source = windowed(how, self._part(part, "OVER"), self._resources, _column)
            case Computed():
                named = {name: self._part(part, "SELECT") for name, part in how.parts}
                source = computed(how.sql, named, self._resources)
        made = DuckDBEngine(replace(source, made_up=made_up), self._resources, *limits)
        made.how = how
        made.origin = replace(made.origin, how=how)
        made.rows_shown = all(getattr(part.engine, "rows_shown", True) for part, _ in how.kept)
        return made

    @property
    def made_up(self) -> bool:
        """Whether its rows are made up, so that nothing is private, and nothing need be paid."""
        return bool(self._opened.made_up)

    def dummy(self, making: Making, unit: str | None, known: Mapping[str, Known]) -> DuckDBEngine:
        """Return an engine on made-up rows with the same columns; none of its own is read."""
        if self.how is not None:
            raise QueryError(
                "dummy: this table is made of others; take dummy tables of these before they are joined, or "
                "of all tables of a catalog, catalog.dummy()"
            )
        if self._source.guessed:
            raise QueryError(
                "dummy: the types of this file were guessed from its first rows, and made-up rows follow "
                "from declarations alone; declare them, types={...}"
            )
        parts, title = self.origin.parts, self.origin.title
        columns, name = dict(self.origin.columns), title or "dummy rows"
        rows = DummyRows(making, columns, self._source.complete, unit, known, name=name)
        made = DuckDBEngine.open(rows, resources=self._resources)
        if parts:
            made, _ = made.composite(parts, self.origin.timezone or "UTC")
        made.origin = replace(made.origin, title=title)
        return made

    def on(self, other: Callable[[Source], Source]) -> DuckDBEngine:
        """Return an engine on another source with the same columns, made of this one's."""
        return DuckDBEngine(other(self._source), self._resources)

    def composite(self, parts: Sequence[str], timezone: str) -> tuple[DuckDBEngine, tuple[UnitPart, ...]]:
        """Return an engine on these rows with a column more, a privacy unit of several parts, and the parts.

        Args:
            parts: columns, and expressions of one row's columns.
            timezone: in which expressions read times with a zone.
        """
        source, units, expressions = composite(self._source, self.schema(), parts, timezone)
        size = _Size(len(source.relation), sum(one.held for one in expressions))
        sizes = {same_name(unit_name(parts)): size}
        made = DuckDBEngine(source, self._resources, sizes, size.held, self._steps + _COMBINED)
        made.rows_shown = self.rows_shown
        made.origin = replace(self.origin, parts=tuple(parts), timezone=timezone)
        return made, units

    def unit_local(self, text: object, tables: Mapping[str, Any]) -> Any:
        """Return the private table that unit-local SQL makes of tables, by name."""
        return table_of(text, tables)

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return what is read, and what steps keep and derive, as plain data."""
        schema = self.schema(steps)  # which judges them
        found = self.origin.content(steps)
        # Days and hours of times with a zone are those of the session.
        zoned = any("TIME ZONE" in column.type_name for column in (*schema.values(), *self.schema().values()))
        return found | ({"timezone": self.timezone} if zoned and self.how is None else {})

    def titled(self, title: str) -> None:
        """Let the table have the name that its owner gives it."""
        self.origin = replace(self.origin, title=title)

    def _limits(self, how: Combination) -> tuple[dict[str, _Size], int, int]:
        """Return what a combination takes over of its parts' limits: columns' sizes, texts held, and steps.

        A condition may be moved into a part, with its derived columns written out; not below an aggregate.
        """
        sizes: dict[str, _Size] = {}
        held, steps = 0, _SELECTED if isinstance(how, Select) else _COMBINED
        for part, kept in how.kept:
            engine = part.engine
            if not isinstance(engine, DuckDBEngine):
                continue  # which is refused where rows are asked of it
            engine.schema(part.steps)  # which measures them, where nothing has asked for it before
            of_part = engine._sizes[part.steps]
            sizes |= {same_name(new): of_part[same_name(n)] for n, new in kept if same_name(n) in of_part}
            held += engine._held[part.steps]
            steps += engine._steps + len(part.steps)
        if steps > _MOST_STEPS or held > MOST_HELD:
            raise QueryError(
                f"the question has more than {_MOST_STEPS // _COMBINED} joins, unions and per_unit (in SQL "
                "also windows, DISTINCT and IN), or as much in filters, derived columns and SELECTs; save a "
                "part of it to a file first"
            )
        return sizes, held, steps

    def _part(self, part: Part, where: str) -> Rows:
        engine = part.engine
        if not isinstance(engine, DuckDBEngine):
            raise QueryError(f"{where}: the other table is not read by DuckDB; open a file or a data frame")
        return engine.rows_after(part)

    def rows_after(self, part: Part) -> Rows:
        """Return the rows of this engine after steps, for a combination."""
        after = partial(stepped, steps=self._total(part.steps), columns=list(self.schema(())))
        return Rows(self._source, after, part.schema, part.unit, self.unique(part.steps))

    def release(
        self,
        plan: Plan,
        *,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
        pay: Pay = free,
    ) -> Release:
        """Return the release, whose noise is drawn when it is first looked at."""
        self.check_release(plan, unsafe_words)
        made = Release(plan, self, confidence=confidence, unsafe_words=unsafe_words)
        made.take(pay())
        return made

    def top(
        self, question: Top, plan: TopPlan, *, unsafe_words: Words | None = None, pay: Pay = free
    ) -> TopRelease:
        """Return the release of the largest groups, which is drawn when it is first looked at."""
        if unsafe_words is not None:
            self.check_shown("unsafe_words")
        made = TopRelease(question, plan, unsafe_words)
        made.take(pay())
        return made

    def progress(self) -> float | None:
        """Return the share of the running query that is done, for a display; None where unknown."""
        running = self._running if self._at_home else None
        percent = -1.0
        with suppress(duckdb.Error):  # of a session that has ended
            percent = -1.0 if running is None else running.query_progress()
        return percent / 100 if percent >= 0 else None


def batches(connection: duckdb.DuckDBPyConnection, text: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield what a query gives; at least one batch, be it empty."""
    reader = spill.keep(connection.sql(text).to_arrow_reader(batch_rows))
    first = next(reader, None)
    # Arrow imports pandas to make a batch of a list, which takes longer than a small query.
    yield pa.RecordBatch.from_pylist([], schema=reader.schema) if first is None else first
    # Not `yield from`, which closes the reader with this generator: a forked child may wait there for ever.
    for batch in reader:  # noqa: UP028
        yield batch


def _column(type_name: str, missing: bool) -> Column:
    if type_name.endswith("]") or type_name.startswith(_OPAQUE):  # also DECIMAL(9,2)[]
        kind = Kind.OPAQUE
    elif type_name in INTEGERS:
        kind = Kind.INTEGER
    elif type_name in FLOATS or type_name.startswith("DECIMAL"):
        kind = Kind.REAL
    elif type_name == "BOOLEAN":
        kind = Kind.BOOLEAN
    else:
        kind = Kind.OTHER
    return Column(kind, type_name, missing)
