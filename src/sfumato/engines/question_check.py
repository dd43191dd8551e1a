"""Whether a query keeps privacy units apart, checked on the rows themselves: for their owner alone.

The same query is asked of the rows of some units, and of all rows in another physical order. What is made
of tables is made again: of fewer rows, or of the same rows as they may lie in memory too.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sfumato.api.question import Question
from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard
from sfumato.engines.duckdb.combined_rows import copy_result, fresh_name, is_copied
from sfumato.engines.duckdb.connection import check_out, session_factory
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.ordering import comparable_sql, order_by, order_by_hash
from sfumato.engines.duckdb.resources import Resources, keep_open
from sfumato.engines.duckdb.source import Source, arriving
from sfumato.engines.duckdb.source_reader import FOREIGN, cause
from sfumato.engines.sql import ask
from sfumato.errors import EngineError, ParameterError, QueryError, in_own_words
from sfumato.exact import positive_int
from sfumato.framework.metrics import Distance
from sfumato.framework.record_keys import group_key
from sfumato.names import suggest_arguments
from sfumato.plan.plan import Plan
from sfumato.query.schema import INTEGERS, Schema
from sfumato.query.tables.table_part import Part
from sfumato.sql_text import identifier
from sfumato.transformations import QuantileTree, Statistic, ValueTree, per_group

if TYPE_CHECKING:
    from sfumato.engines.catalog import Catalog


# Of DuckDB, where there are to be many.
_THREADS = 4


@dataclass(frozen=True)
class Units:
    """Some of all privacy units for a check, chosen by a salted hash of the unit.

    Args:
        salt: 64 random bits.
        condition: of SQL on a UBIGINT, with {} in its place.
    """

    salt: int
    condition: str

    def hash(self, unit: str, schema: Schema) -> str:
        """Return SQL of the hash by which a check chooses units."""
        value = comparable_sql(unit, schema)
        if schema[unit].type_name in INTEGERS:
            value = f"CAST({value} AS HUGEINT)"
        return f"hash(hash({self.salt}::UBIGINT, {value}))"

    def hold(self, unit: str, schema: Schema) -> str:
        """Return the SQL condition that a row belongs to the check's chosen units."""
        return f"{identifier(unit)} IS NOT NULL AND ({self.condition.replace('{}', self.hash(unit, schema))})"


@dataclass(frozen=True)
class PhysicalOrder:
    """A physical order of rows for a check that no answer depends on it.

    Args:
        salt: 64 random bits, by which the rows of every table are shuffled.
        one_thread: of DuckDB, whatever a user allows; else as many as a user allows, or a few at least.
        table: whose rows are more.
        units: whose rows in that table are repeated.
        times: how often they are repeated.
    """

    salt: int
    one_thread: bool = False
    table: DuckDBEngine | None = None
    units: Units | None = None
    times: int = 0


def restrict_to_units(part: Part, units: Units) -> Part:
    """Return a table part in which only the check's chosen units have rows."""

    def some(table: Part) -> DuckDBEngine:
        engine = _engine(table)
        if table.unit is None:
            return engine
        return engine.on(partial(_filter_rows, condition=units.hold(table.unit, engine.schema())))

    return _rebuild_part(part, some)


def rearrange_rows(part: Part, order: PhysicalOrder) -> Part:
    """Return a table part whose rows lie in another physical order, for a check."""

    def allowed(resources: Resources) -> Resources:
        return replace(resources, threads=1 if order.one_thread else resources.threads or _THREADS)

    copies: dict[int, DuckDBEngine] = {}

    def copy(table: Part) -> DuckDBEngine:
        engine = _engine(table)
        if id(engine) not in copies:
            more = ""
            if engine is order.table and order.units is not None and table.unit is not None:
                whose = order.units.hold(table.unit, engine.schema())
                more = f" UNION ALL SELECT one.* FROM ({{0}} WHERE {whose}) AS one, range({order.times})"
            resources = allowed(engine.resources)
            copies[id(engine)] = engine.on(
                lambda source: _copy_shuffled(source, more, order.salt, resources), resources
            )
        return copies[id(engine)]

    return _rebuild_part(part, copy, allowed)


def list_private_tables(part: Part) -> list[Part]:
    """Return the private tables that a checked query reads, each once."""
    found: dict[int, Part] = {}

    def noted(table: Part) -> DuckDBEngine:
        if table.unit is not None:
            found.setdefault(id(table.engine), table)
        return _engine(table)

    _rebuild_part(part, noted)
    return list(found.values())


def _rebuild_part(
    part: Part,
    change: Callable[[Part], DuckDBEngine],
    allowed: Callable[[Resources], Resources] = lambda given: given,
) -> Part:
    """Return a checked table part made again from changed tables."""
    engine = _engine(part)
    made: Any = engine.how
    if made is None:
        found = change(part)
    elif part.unit is None:
        return part
    else:
        named = ((field.name, getattr(made, field.name)) for field in fields(made))
        parts = {
            name: _rebuild_part(value, change, allowed) for name, value in named if isinstance(value, Part)
        }
        on = engine.on(lambda source: source, allowed(engine.resources))
        found = on.combined(replace(made, **parts))
    found.schema(part.steps)  # judges the steps, for whoever combines this
    return replace(part, engine=found)


def _filter_rows(source: Source, condition: str) -> Source:
    again: Callable[..., Source] | None = None
    if (other := source.again) is not None:
        again = lambda columns: _filter_rows(other(columns), condition)  # noqa: E731
    relation = f"(SELECT * FROM {source.relation} AS every WHERE {condition})"
    return replace(source, relation=relation, again=again, rows=None, looked=None)


def _copy_shuffled(source: Source, more: str, salt: int, resources: Resources) -> Source:
    """Return a shuffled copy of a source, for a check of physical order."""
    again: Callable[..., Source] | None = None
    if (other := source.again) is not None:
        again = lambda columns: _copy_shuffled(other(columns), more, salt, resources)  # noqa: E731
    copy, names = fresh_name(), [name for name, _ in source.columns]

    def load(session: duckdb.DuckDBPyConnection, columns: object) -> None:
        if is_copied(session, copy):
            return
        with in_own_words(), source.session() as there:
            source.load(there, names)
            rows = f"SELECT * FROM {source.relation} AS every"
            order = order_by_hash([identifier(name) for name in names], salt)
            copy_result(there, f"{rows}{more.format(rows)} {order}", session, copy, source.columns)

    session = session_factory(source.timezone, resources)
    return replace(
        source,
        relation=copy,
        session=session,
        pending=load,
        again=again,
        rows=None,
        anywhere=True,
        looked=None,
    )


NOT_PRIVATE = (
    "NOT PRIVATE: this was computed from exact rows, for the owner of the tables only. Do not "
    "publish it, and do not choose bounds or limits by it."
)
SPLITS, REMOVED = 3, 10
# How many tables get more rows of one unit, one at a time, and how many more.
REPEATED, FEW, MANY = 3, 4000, 1 << 20
Progress = Callable[[float], None]
Numbers = dict[Hashable, dict[Hashable, int]]
Answer = Numbers | EngineError


@dataclass(frozen=True, repr=False)
class Split(TextCard):
    """The result of a check that splits all units into two halves.

    Args:
        units: the number of units in each half that have rows in the end.
        differing_rows, differing_units: rows that differ with and without the other half, and their units.

    Made by `sfumato.check`.
    """

    units: tuple[int, int]
    differing_rows: int
    differing_units: int

    def __str__(self) -> str:
        halves = f"{self.units[0]:,} and {_many(self.units[1], 'unit')}"
        if not self.differing_rows:
            return f"{halves}, each alone, have the same rows, bit for bit"
        differ = f"{_many(self.differing_rows, 'row')} of {_many(self.differing_units, 'unit')}"
        return f"{halves}: {differ} differ from those computed from all rows"


@dataclass(frozen=True, repr=False)
class Reordering(TextCard):
    """The result of a check with another physical order of rows.

    Args:
        change: how the rows were changed.
        differing_rows, differing_units: rows of other units that differ, and their units.
        moved: how far exact numbers moved, as a fraction of the distance that one unit may move them. If one
            unit has more rows, the distance is measured from the numbers without that unit.
        most: how far they may move.

    Made by `sfumato.check`.
    """

    change: str
    differing_rows: int
    differing_units: int
    moved: Distance
    most: int

    @property
    def ok(self) -> bool:
        """Whether nothing checked depends on the physical order."""
        return not self.differing_rows and self.moved <= self.most

    def __str__(self) -> str:
        if self.ok:
            return f"{self.change}: {'all other units have ' * self.most}the same rows, bit for bit"
        if not self.differing_rows:
            if self.moved == inf:
                return f"{self.change}: the query fails in only one of the two cases"
            return (
                f"{self.change}: exact numbers move by {float(self.moved):.3g} times what one unit "
                "may contribute"
            )
        differ = f"{_many(self.differing_rows, 'row')} of {_many(self.differing_units, 'unit')} differ"
        return f"{self.change}: {differ}, though the rows of these units are the same"


@dataclass(frozen=True, repr=False)
class QuestionCheck(TextCard):
    """The result of checking a query on its rows. NOT PRIVATE: for the owner only.

    Args:
        rows, units: the number of rows that the unit-local part makes, and of their units.
        without_unit: the number of rows without a unit, which count in no answer.
        splits: the result of each split.
        orders: the results for the same rows in other physical orders.
        moved: for each removed unit, how far exact numbers moved, as a fraction of the claim; at most 1.
            Infinite if the query fails with the unit and not without it, or the other way round.

    Made by `sfumato.check`.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
    >>> found = sf.check(visits.bound(rows=3).agg(n=sf.count()))
    >>> found.ok, found.rows, found.units, found.splits[0].differing_rows, max(found.moved)
    (True, 3, 2, 0, Fraction(1, 1))
    """

    rows: int
    units: int
    without_unit: int
    splits: tuple[Split, ...]
    orders: tuple[Reordering, ...]
    moved: tuple[Distance, ...]

    @property
    def ok(self) -> bool:
        """Whether no check contradicts the claim of a release."""
        apart = not any(s.differing_rows for s in self.splits) and all(one.ok for one in self.orders)
        return apart and all(by <= 1 for by in self.moved)

    def __str__(self) -> str:
        lines = [NOT_PRIVATE, "", f"ok    rows: {self._describe_rows()}"]
        lines += [f"{_verdict(not s.differing_rows)} split {n}: {s}" for n, s in enumerate(self.splits, 1)]
        lines += [f"{_verdict(one.ok)} order {n}: {one}" for n, one in enumerate(self.orders, 1)]
        if self.moved:
            lines.append(f"{_verdict(max(self.moved) <= 1)} one unit less: {self._describe_reordering()}")
        if not self.units:
            told = "no row has a privacy unit, so there is nothing to check"
        elif self.ok:
            told = "every unit's rows depend only on its own rows and public tables, in all checks"
        else:
            told = "this question does NOT keep privacy units apart. Release nothing, and report it"
        return "\n".join([*lines, "", told])

    def _describe_rows(self) -> str:
        lost = f"; {_many(self.without_unit, 'row')} of no unit, in no answer" if self.without_unit else ""
        whose = f"{_many(self.rows, 'row')} of {_many(self.units, 'privacy unit')}"
        return f"the unit-local part makes {whose}{lost}"

    def _describe_reordering(self) -> str:
        most, wrong = f"{float(max(self.moved)):.3g}", sum(by > 1 for by in self.moved)
        if fails := sum(by == inf for by in self.moved):
            of = f"for {fails} of {_many(len(self.moved), 'unit')}"
            return f"{of}, it decides whether the query fails, which an answer would reveal"
        if wrong:
            of = f"for {wrong} of {_many(len(self.moved), 'unit')}"
            return f"{of}, exact numbers move by up to {most} times what the noise covers"
        of = f"for {_many(len(self.moved), 'unit')}, one at a time"
        return f"{of}, exact numbers move by at most {most} of what the noise covers"


def check_question(
    question: Question[Any], plan: Plan, splits: int, removed: int, progress: Progress | None = None
) -> QuestionCheck:
    """Check on the rows that a query keeps privacy units apart.

    Args:
        question: what is asked.
        plan: what a release of it would do.
        splits: into two halves of all units, at random.
        removed: how many units are removed, one at a time.
        progress: called with the share that is done.
    Raises:
        EngineError: rows cannot be read.
        QueryError: they are not read by DuckDB.
        RefusalError: the table was opened for analysts.
    """
    splits, removed = positive_int(splits, "splits"), positive_int(removed, "removed")
    engine = question.table._engine
    if not isinstance(engine, DuckDBEngine):
        raise QueryError(
            f"check: rows are checked in this process, but workers read those of {engine.name}. "
            "Check a file, or an Arrow table of some units with all their rows"
        )
    engine.check_shown("check")
    part, salt = Part(engine, question.table._steps, question.table.unit), secrets.randbits(64)
    everybody, tables = Units(salt, "true"), list_private_tables(part)
    steps = _Steps(4 + min(len(tables), REPEATED) + 2 * splits + removed, progress)
    with in_own_words(), check_out(resources=engine.resources) as session:
        rows = _Rows(session, part.schema, question.table.unit)
        rows.keep("every", part, everybody)
        steps.done()
        counted, found = rows.counted(), []
        for _ in range(splits):
            other = secrets.randbits(64)
            for place in (0, 1):
                half = restrict_to_units(part, Units(other, f"{{}} % 2 = {place}"))
                rows.keep(f"half{place}", half, everybody)
                steps.done()
            found.append(rows.compared())
        chosen = rows.chosen(removed)
        orders = list(_orders(tables, Units(salt, f"{{}} = {chosen[0]}::UBIGINT") if chosen else None))
        differing = []
        for _, order, _ in orders:
            rows.keep("moved", rearrange_rows(part, order), everybody)
            but = chosen[0] if order.times else None
            differing.append(rows.differing([("every", 1), ("moved", -1)], but))
            steps.done()
    before, moved = _answer(part, plan, salt), list[Distance]()
    without: Answer = Numbers()
    steps.done()
    for unit in reversed(chosen):
        without = _answer(restrict_to_units(part, Units(salt, f"{{}} <> {unit}::UBIGINT")), plan, salt)
        moved.append(_measure_change(plan, before, without))
        steps.done()
    seen = []
    for (change, order, most), differ in zip(orders, differing, strict=True):
        compared = without if order.times else before
        by = _measure_change(plan, compared, _answer(rearrange_rows(part, order), plan, salt))
        seen.append(Reordering(change, *differ, by, most))
    steps.last()
    if isinstance(before, EngineError) and not any([*moved, *(one.moved for one in seen)]):
        raise before  # nobody's rows decide about it
    return QuestionCheck(*counted, tuple(found), tuple(seen), tuple(reversed(moved)))


def _orders(tables: Sequence[Part], largest: Units | None) -> Iterator[tuple[str, PhysicalOrder, int]]:
    """Yield the physical orders that a check tries, and how far numbers may move there.

    Where a unit has more rows in a table than all other tables have, DuckDB turns the sides of a join.
    """
    salt = secrets.randbits(64)
    yield "rows shuffled, one thread", PhysicalOrder(salt, one_thread=True), 0
    yield "rows shuffled, many threads", PhysicalOrder(salt ^ 1), 0
    if largest is None:
        return
    sizes = [_size(table, largest) for table in tables]
    for index in sorted(range(len(tables)), key=lambda i: sizes[i])[:REPEATED]:
        rows, own = sizes[index]
        others = max((size for i, (size, _) in enumerate(sizes) if i != index), default=rows)
        times = -(-min(4 * others + FEW, max(others, MANY)) // own) if own else 0
        if times:
            engine = _engine(tables[index])
            change = f"{times * own:,} rows more of one unit in {engine.origin.name}, many threads"
            yield change, PhysicalOrder(salt, False, engine, largest, times), 1


def _size(table: Part, units: Units) -> tuple[int, int]:
    """Count a checked table's rows, and those of some units."""
    engine, found = _engine(table), [0, 0]
    holds = units.hold(str(table.unit), engine.schema())

    def add(batches: pa.RecordBatchReader) -> None:
        found[:] = (int(value.as_py()) for value in next(iter(batches)).columns for value in value)

    _read(Part(engine, (), table.unit), f"SELECT count(*), count(*) FILTER ({holds}) FROM", add)
    return found[0], found[1]


def _engine(part: Part) -> DuckDBEngine:
    assert isinstance(part.engine, DuckDBEngine)
    return part.engine


class _Steps:
    """Reports the progress of a check."""

    def __init__(self, all_steps: int, progress: Progress | None) -> None:
        self._all, self._progress, self._done = all_steps, progress, 0

    def done(self) -> None:
        """Count one step of a check."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done / self._all)

    def last(self) -> None:
        """Count the rest of a check's steps."""
        self._done = self._all - 1
        self.done()


class _Rows:
    """Rows of a check as texts, which are equal where the rows are, bit for bit."""

    def __init__(self, session: duckdb.DuckDBPyConnection, schema: Schema, unit: str) -> None:
        self._session, self._schema, self._unit = session, schema, unit
        self._columns = ", ".join(f"c{i}" for i in range(len(schema)))

    def keep(self, name: str, part: Part, units: Units) -> None:
        """Copy a part's rows into a table of the check, with a hash of their unit."""
        texts = [f"CAST({identifier(column)} AS VARCHAR) AS c{i}" for i, column in enumerate(self._schema)]
        unit = identifier(self._unit)
        whose = f"CASE WHEN {unit} IS NOT NULL THEN {units.hash(self._unit, self._schema)} END AS unit"
        query = f"SELECT {', '.join([*texts, whose])} FROM"
        _read(part, query, lambda batches: self._copy(name, batches))

    def _copy(self, name: str, batches: pa.RecordBatchReader) -> None:
        with arriving(self._session, batches.schema, batches):
            self._session.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM arriving")

    def counted(self) -> tuple[int, int, int]:
        """Count the checked rows with a unit, their units, and other rows."""
        query = "SELECT count(unit), count(DISTINCT unit), count(*) - count(unit) FROM every"
        ((rows, units, without),) = self._session.execute(query).fetchall()
        return rows, units, without

    def compared(self) -> Split:
        """Compare the rows of both checked halves with all rows, as multisets."""
        halves = [f"(SELECT count(DISTINCT unit) FROM half{place})" for place in (0, 1)]
        (sizes,) = self._session.execute(f"SELECT {', '.join(halves)}").fetchall()
        return Split(sizes, *self.differing([("every", 1), ("half0", -1), ("half1", -1)]))

    def differing(self, signed: Sequence[tuple[str, int]], but: int | None = None) -> tuple[int, int]:
        """Count checked rows that tables do not have alike, and their units."""
        kept = "unit IS NOT NULL" if but is None else f"unit <> {but}::UBIGINT"
        both = " UNION ALL ".join(
            f"SELECT unit, {self._columns}, {n} AS n FROM {name} WHERE {kept}" for name, n in signed
        )
        rows = f"SELECT unit, abs(sum(n)) AS rows FROM ({both}) GROUP BY unit, {self._columns}"
        query = f"SELECT coalesce(sum(rows), 0), count(DISTINCT unit) FROM ({rows} HAVING sum(n) <> 0)"
        ((many, units),) = self._session.execute(query).fetchall()
        return int(many), units

    def chosen(self, count: int) -> list[int]:
        """Return hashes of units that a check removes: those with the most rows, and others."""
        of_units = "SELECT unit, count(*) AS n FROM every WHERE unit IS NOT NULL GROUP BY unit"
        largest = f"SELECT unit FROM ({of_units}) {order_by(['unit'], ['n DESC'])} LIMIT {(count + 1) // 2}"
        others = f"SELECT DISTINCT unit FROM every WHERE unit IS NOT NULL AND unit NOT IN ({largest})"
        some = f"({largest}) UNION ALL (FROM ({others}) {order_by_hash(['unit'])} LIMIT {count // 2})"
        return [unit for (unit,) in self._session.execute(some).fetchall()]


def _read(part: Part, query: str, use: Callable[[pa.RecordBatchReader], None]) -> None:
    """Read rows for a check, in a second way where a value stops the first."""
    made = _engine(part).rows_after(part)
    again = made.source.again
    names = [name for name, _ in made.source.columns]
    kind: type[BaseException] | None = None
    for source in [made.source, *([] if again is None else [again(names)])]:
        try:
            with in_own_words(), source.session() as session:
                source.load(session, names)
                reader = session.sql(f"{query} ({made.after(source.relation)})").to_arrow_reader(1 << 16)
                use(keep_open(reader))
                return
        except FOREIGN as error:
            kind = type(error)  # its text may quote rows
    raise EngineError(f"the rows cannot be read. {cause(kind)}")


def _answer(part: Part, plan: Plan, salt: int) -> Answer:
    """Return a checked query's exact numbers, or its failure."""
    try:
        return _numbers(part, plan, salt)
    except EngineError as error:
        return error


def _numbers(part: Part, plan: Plan, salt: int) -> Numbers:
    """Return a checked query's exact numbers by group, with one choice of groups."""
    engine, exact = _engine(part), plan.exact
    keys, found = len(exact.keys), dict[Hashable, dict[Hashable, int]]()
    for batch in engine.statistics(exact, 1 << 16, salt):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            values, of = iter(row[keys:]), Counter[Hashable]()
            for statistic in sorted(exact.statistics, key=lambda s: s.listed):  # trees last
                for name in statistic.names:
                    _add(of, statistic, name, next(values))
            found[group_key(row[:keys])] = of
    return found


def _add(of: Counter[Hashable], statistic: Statistic, name: str, value: Any) -> None:
    if not statistic.listed:
        of[name] += int(value)
        return
    if statistic.entries:
        for place, entry in enumerate(value):
            of[name, place] += int(entry)
        return
    for entry in value or []:
        leaf, weight = entry["leaf"], entry["weight"]
        if isinstance(statistic, QuantileTree | ValueTree):
            of.update(dict.fromkeys(statistic.nodes(leaf), weight))
        else:
            of[name, leaf] += weight


def _measure_change(plan: Plan, before: Answer, after: Answer) -> Distance:
    """Return how far checked numbers moved, as a part of what one unit may move them by."""
    if isinstance(before, EngineError) or isinstance(after, EngineError):
        return Fraction(0) if isinstance(before, EngineError) and isinstance(after, EngineError) else inf
    nothing: dict[Hashable, int] = {}
    keys = [key for key in {**before, **after} if before.get(key, nothing) != after.get(key, nothing)]
    query, exact = plan.query, plan.exact
    limits: Any = {"groups": query.groups, "scaled": query.scaled, "total": query.total_rows}
    claims = [per_group(exact.statistics, **limits), plan.exact_chain]
    moved = []
    for claim in claims:
        names = set(claim.output_domain.coordinates)  # type: ignore[attr-defined]
        pair = [
            {key: _select_numbers(numbers.get(key, nothing), names) for key in keys}
            for numbers in (before, after)
        ]
        moved.append(Fraction(claim.output_metric.distance(*pair)) / Fraction(claim.map(1)))
    return max(moved)


def _select_numbers(numbers: Mapping[Hashable, int], names: set[str]) -> dict[Hashable, int]:
    """Return the checked numbers of some coordinates."""
    return {key: n for key, n in numbers.items() if (key[0] if isinstance(key, tuple) else key) in names}


def _verdict(right: bool) -> str:
    return "ok   " if right else "WRONG"


def _many(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


@suggest_arguments
def check(
    asked: str | Question[Any],
    *,
    tables: Mapping[str, Any] | None = None,
    catalog: Catalog | None = None,
    types: Mapping[str, str] | None = None,
    splits: int = 3,
    removed: int = 10,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> QuestionCheck:
    """Check on the rows that a query keeps privacy units apart. NOT PRIVATE: for the owner only.

    The check splits all units at random into halves A and B, several times. The rows that the query makes
    from A and from B must equal those that it makes from both, bit for bit. It then puts the same rows in
    other physical orders: shuffled, with one thread and with many, and with enough additional rows of one
    unit that DuckDB swaps the sides of joins. No row of another unit may change. Finally it removes single
    units: no exact number may move further than the noise allows for. The check releases nothing.

    Args:
        asked: SQL, as for `sql`, or a question from `agg`.
        tables, catalog, types, memory_limit, threads, temp_directory: for SQL, as for `sql`.
        splits: the number of splits.
        removed: the number of units to remove, one at a time; half of them are those with the most rows.
        progress: a function that is called with the share that is done.
    Returns:
        A `QuestionCheck`: `ok` if nothing is wrong; `str()` says what is. NOT PRIVATE.
    Raises:
        SqlError, QueryError, BudgetError, EngineError: as for `sql`.
        ParameterError: `splits` or `removed` is not a whole number of at least 1.
    Source:
        docs/sql-semantics.md, "What is checked".

    >>> import pyarrow as pa, sfumato as sf
    >>> orders = sf.scan(pa.table({"id": [1, 1, 2], "price": [3, 4, 5]}), privacy_unit="id")
    >>> spent = orders.per_unit(spent="sum(price)").bound(rows=1).agg(mean=sf.mean("spent", lower=0, upper=9))
    >>> found = check(spent)
    >>> found.ok, found.rows, found.units
    (True, 2, 2)
    """
    if isinstance(asked, Question):
        given = tables, catalog, types, memory_limit, threads, temp_directory
        if any(one is not None for one in given):
            raise QueryError("check: a question already has its tables. Leave the other arguments out")
        # How far one unit moves exact numbers has nothing to do with the budget.
        options: dict[str, Any] = {"epsilon": 1, "delta": "1e-6" if asked.query.private_groups else 0}
        return check_question(asked, asked.plan(**options), splits, removed, progress)
    if not isinstance(asked, str):
        raise ParameterError("asked", type(asked).__name__, "SQL text, or a question that agg(...) returns")
    limits = {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory}
    found = ask(asked, tables, catalog, types, limits)
    if found.query.companions:
        raise QueryError(
            f"check: the text has {len(found.queries)} private SELECTs, each a question of its own. "
            "Check them one by one"
        )
    (question,) = found.questions
    if not isinstance(question, Question):
        raise QueryError(
            "check: the largest groups have no limits to check. Check COUNT(DISTINCT unit) of the same groups"
        )
    return check_question(question, question.plan(**found.query.release_options), splits, removed, progress)
