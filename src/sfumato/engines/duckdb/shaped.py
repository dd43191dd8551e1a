"""Sources that are made of one private table: chosen columns, windows, membership; and SQL on public tables.

Each is one relation in SQL over its parts' own, as those of `combined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil, floor

import duckdb
import numpy as np

from sfumato.dialect.syntax_tree import first_line_of_error
from sfumato.engines.duckdb.combined_rows import Rows, copy_result, fresh_name, is_copied, make_source
from sfumato.engines.duckdb.connection import UTC, check_out_closed, session_factory
from sfumato.engines.duckdb.ordering import comparable_sql, copy_number, order_by, peers, row_identity
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.sanitized_columns import describe_relation, within_types
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.unit_aggregates import unit_aggregate
from sfumato.errors import EngineError, QueryError, in_own_words
from sfumato.query.schema import FLOATS, INTEGERS, Column, Kind, Schema
from sfumato.query.tables.shaped_tables import (
    PLACES,
    RANKS,
    Distance,
    IsIn,
    Select,
    Window,
    WindowCall,
    WithValue,
)
from sfumato.sql_text import double, identifier, literal

_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_FAR = "10000000000000000000::HUGEINT"  # microseconds, beyond all times and distances
_FARTHEST = 2 * 10**37  # steps of a decimal: farther than two of them are apart


def place(column: str, kind: str) -> str:
    """Return SQL of the whole number by which a window orders a key; NULL beyond the years 1 to 9999.

    Args:
        column: SQL of the key, of which equal values are the same.
        kind: its type, one that `Distance.misfit` admits.
    """
    if kind in FLOATS:
        return f"2 * {_code(f'CAST({column} AS DOUBLE)')}"
    if kind in INTEGERS:
        return f"2 * CAST({column} AS HUGEINT)"
    if kind.startswith("DECIMAL("):
        return f"2 * CAST(replace(CAST({column} AS VARCHAR), '.', '') AS HUGEINT)"
    beyond = f"CASE WHEN {column} > {_day(_LAST, kind)} THEN {_FAR} ELSE -{_FAR} END"
    return f"CASE WHEN isinf({column}) THEN {beyond} ELSE {_twice_microseconds(_time(column, kind))} END"


def frame_end(
    end: str, distance: Distance, kind: str, column: str, last: bool, down: bool
) -> tuple[str, str]:
    """Return an end of a window frame by distance, and SQL of that distance from a row.

    Args:
        end: "{} PRECEDING" or "{} FOLLOWING".
        distance: how far it is from a row's key.
        kind, column: the key's type, and SQL of it.
        last: whether the frame ends there, or begins.
        down: whether the order is descending.
    """
    # From its own peers an outer end reaches outwards; an inner one leaves out those that are nearer.
    following = end.endswith("FOLLOWING")
    inner = following is not last
    if inner and distance.is_zero:  # to 0 before a row is to its last peer
        return frame_end("{} PRECEDING" if following else "{} FOLLOWING", distance, kind, column, last, down)
    if kind in INTEGERS or kind.startswith("DECIMAL("):
        one = 1 if kind in INTEGERS else 10 ** _scale(kind)
        steps = min((ceil if inner else floor)((distance.number or 0) * one), _FARTHEST)
        return end, f"{2 * steps + (-1 if inner else 1)}::HUGEINT"
    upwards, upper = following is not down, last is not down
    if kind in FLOATS:
        key = f"CAST({column} AS DOUBLE)"
        edge, usual = _edge(key, _double(distance, kind), upwards, upper), f"isfinite({column})"
    else:
        months, days, rest = distance.span
        span = f"INTERVAL '{months} months {days} days {rest} microseconds'"
        moved = f"({_time(column, kind)}) {'+' if upwards else '-'} {span}"
        edge, usual = f"({_twice_microseconds(moved)}) {'+' if upper else '-'} 1", f"NOT isinf({column})"
    here = place(column, kind)
    far = f"({edge}) - ({here})" if upwards else f"({here}) - ({edge})"
    # An infinite value, and NaN, is near itself alone.
    return end, f"CASE WHEN {usual} THEN {far} ELSE 1::HUGEINT END"


def _code(value: str) -> str:
    """Return SQL of a whole number that orders DOUBLEs, one step from one to the next."""
    bits = f"CAST(CAST({value} AS BIT) AS BIGINT)"
    return f"CAST(CASE WHEN {bits} < 0 THEN -9223372036854775808 - {bits} ELSE {bits} END AS HUGEINT)"


def _edge(key: str, distance: float, upwards: bool, upper: bool) -> str:
    """Return SQL of the odd number between places within a window's distance of a key and others.

    The sum of key and distance is rounded, and what that changed is exact (Knuth 1969, "TwoSum").
    """
    far = double(distance if upwards else -distance)
    total = f"({key} + {far})"
    part = f"({total} - {key})"
    lost = f"(({key} - ({total} - {part})) + ({far} - {part}))"
    if upper:
        beside = f"CASE WHEN {lost} < 0 THEN -1 ELSE 1 END"
    else:
        beside = f"CASE WHEN {lost} > 0 THEN 1 ELSE -1 END"
    return f"2 * {_code(total)} + {beside}"


def _double(distance: Distance, kind: str) -> float:
    """Return a window frame's distance as the nearest value of a type."""
    exact = float(distance.number or 0)
    if kind == "DOUBLE":
        return exact
    return float(np.float32(exact)) or exact


def _time(column: str, kind: str) -> str:
    """Return SQL of a window's key as a TIMESTAMP; NULL where it is infinite."""
    zoned = kind == "TIMESTAMP WITH TIME ZONE"
    moved = f"{column} AT TIME ZONE 'UTC'" if zoned else f"TRY_CAST({column} AS TIMESTAMP)"
    return f"CASE WHEN {column} BETWEEN {_day(_FIRST, kind)} AND {_day(_LAST, kind)} THEN {moved} END"


def _day(text: str, kind: str) -> str:
    text = text[:10] if kind == "DATE" else text + "+00" * (kind == "TIMESTAMP WITH TIME ZONE")
    return f"CAST({literal(text)} AS {kind})"


def _twice_microseconds(time: str) -> str:
    return f"2 * CAST(epoch_us({time}) AS HUGEINT)"


def _scale(kind: str) -> int:
    return int(kind.removesuffix(")").partition(",")[2])


_OF_VALUES = ("first_value", "last_value", "nth_value")
_SHARES = ("percent_rank", "cume_dist")


def select_columns(how: Select, part: Rows, resources: Resources) -> Source:
    """Return the source of a SELECT of renamed columns of a table."""
    columns = ", ".join(f"{identifier(old)} AS {identifier(new)}" for old, new in how.columns)
    names = dict(how.columns)
    unique = tuple(names[n] for n in part.unique) if set(part.unique) <= names.keys() else ()
    return make_source(
        lambda rows: f"SELECT {columns} FROM ({rows[0]}) AS part",
        [part],
        {new: part.schema[old] for old, new in how.columns},
        resources,
        unique,
    )


def looked_up(how: IsIn, part: Rows, other: Rows, resources: Resources) -> Source:
    """Return the source of a table with a column for `x IN (SELECT ...)` of a public table."""
    (of,) = other.schema
    here, there = comparable_sql(how.column, part.schema), comparable_sql(of, other.schema)

    def text(rows: Sequence[str]) -> str:
        found = f"{here} IN (SELECT {there} FROM ({rows[1]}) AS other)"
        return f"SELECT *, ({found}) AS {identifier(how.name)} FROM ({rows[0]}) AS part"

    schema = part.schema | {how.name: Column(Kind.BOOLEAN, "BOOLEAN")}
    return make_source(text, [part, other], schema, resources, part.unique)


def with_value(how: WithValue, part: Rows, other: Rows, resources: Resources) -> Source:
    """Return the source of a table with a column that holds one value of a public table."""
    ((of, column),) = other.schema.items()

    def text(rows: Sequence[str]) -> str:
        value = f"SELECT {identifier(of)} FROM ({rows[1]}) AS other LIMIT 1"  # of one row, so nothing raises
        return f"SELECT *, ({value}) AS {identifier(how.name)} FROM ({rows[0]}) AS part"

    schema = part.schema | {how.name: replace(column, missing=True)}
    return make_source(text, [part, other], schema, resources, part.unique)


def add_window_columns(
    how: Window, part: Rows, resources: Resources, column_of: Callable[[str, bool], Column]
) -> Source:
    """Return the source of a table with window functions over each unit's rows."""
    unit = str(part.unit)
    values, outputs, schema = [], [], dict(part.schema)
    stem = "value"
    while any(name.casefold().startswith(stem) for name in part.schema):
        stem += "_"
    copies: list[str] = []
    if sum(map(_placed, how.calls)) > 1:
        # Each call gives copies of a row other values, which must meet in one way: copies are numbered first.
        copies = [f"{stem}copy"]
        values.append(f"{copy_number(row_identity(part.schema))} AS {copies[0]}")
    for i, call in enumerate(how.calls):
        held, output, kind = _call(call, f"{stem}{i}", unit, part.schema, copies)
        values += [f"({value}) AS {name}" for name, value in held.items()]
        outputs.append(f"{output} AS {identifier(call.name)}")
        schema[call.name] = column_of(kind, call.function not in (*RANKS, "row_number", "ntile"))
    own = ", ".join(map(identifier, part.schema))

    def text(rows: Sequence[str]) -> str:
        inner = ", ".join(["*", *values])
        whose = f"FROM ({rows[0]}) AS part WHERE {identifier(unit)} IS NOT NULL"
        return f"SELECT {own}, {', '.join(outputs)} FROM (SELECT {inner} {whose}) AS part"

    return make_source(text, [part], schema, resources, part.unique)


def _placed(call: WindowCall) -> bool:
    """Whether a window function may give equal rows different values."""
    return call.function in PLACES or call.unit == "ROWS"


def _call(
    call: WindowCall, held: str, unit: str, schema: Schema, copies: Sequence[str]
) -> tuple[dict[str, str], str, str]:
    """Return the row values, the SQL and the type of one window function."""
    by = [comparable_sql(name, schema) for name in (unit, *call.by)]
    order = [f"{comparable_sql(one.column, schema)} {one.direction}" for one in call.order]
    apart = [
        *row_identity(schema, [*by, *(comparable_sql(one.column, schema) for one in call.order)]),
        *copies,
    ]
    total = order_by(apart, order) if order or apart else ""
    frame, values = _frame(call, held, schema)
    if any(call.distances):
        order = [f"{held}_place {call.order[0].direction}"]
    ordered = total if _placed(call) else peers(call.function, order)
    rows = f"PARTITION BY {', '.join(by)} {ordered}"
    if call.aggregate:
        found = unit_aggregate(call.name, call.aggregate, schema)
        return {held: found.value, **values}, found.sql(held, f" OVER ({rows} {frame})"), found.type_name
    arguments = [identifier(one) if isinstance(one, str) else str(one) for one in call.arguments]
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    if call.function in (*RANKS, "row_number", "ntile"):
        kind = "DOUBLE" if call.function in _SHARES else "BIGINT"
        return {}, f"{call.function}({', '.join(arguments)}) OVER ({rows})", kind
    kind = schema[str(call.arguments[0])].type_name
    if call.function in _OF_VALUES:
        inside = f"{', '.join(arguments)} {total}{nulls}"
        return values, f"{call.function}({inside}) OVER ({rows} {frame})", kind
    if len(arguments) == 3:
        arguments[2] = f"TRY_CAST({arguments[2]} AS {kind})"
    return {}, f"{call.function}({', '.join(arguments)}{nulls}) OVER ({rows})", kind


def _frame(call: WindowCall, held: str, schema: Schema) -> tuple[str, dict[str, str]]:
    """Return the SQL of a window frame, and the row values that it needs."""
    ends, values = [call.start, call.end], dict[str, str]()
    for i, distance in enumerate(call.distances):
        if distance is not None:
            key = call.order[0]
            column, kind = comparable_sql(key.column, schema), schema[key.column].type_name
            down, name = key.direction.startswith("DESC"), f"{held}_{'end' if i else 'start'}"
            end, far = frame_end(ends[i], distance, kind, column, bool(i), down)
            ends[i] = end.format(name)
            values |= {name: far, f"{held}_place": place(column, kind)}
    return f"{call.unit} BETWEEN {ends[0]} AND {ends[1]}", values


def compute_public_source(sql: str, parts: Mapping[str, Rows], resources: Resources) -> Source:
    """Return the source of SQL on public tables, computed once in a closed database.

    Times are read in the time zone of the first table's sessions, as its own steps read them.

    Raises:
        QueryError: it does not fit their columns.
    """
    kinds = _kinds(sql, parts)
    if len({name.casefold() for name, _ in kinds}) < len(kinds):
        raise QueryError(
            "a SELECT of public tables gives two columns of the same name. Give each its own: x AS y"
        )
    inside, copy = within_types(f"({sql})", kinds), fresh_name()
    sources = [part.source for part in parts.values()]
    timezone = sources[0].timezone if sources else UTC

    def load(session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        if is_copied(session, copy):
            return
        with check_out_closed(timezone, resources) as here:
            for name, part in parts.items():
                with in_own_words(), part.source.session() as there:
                    part.source.load(there, [column for column, _ in part.source.columns])
                    # In one order: LIMIT, or an aggregate, may leave open which rows are meant.
                    rows = f"FROM ({part.after(part.source.relation)}) {order_by(row_identity(part.schema))}"
                    copy_result(there, rows, here, identifier(name), _typed(part))
            with in_own_words(_failed, duckdb.Error):
                copy_result(here, f"SELECT * FROM {inside} AS part", session, copy, found)

    with _empty(parts) as here:
        found = describe_relation(here, f"{inside} AS part")
    return Source(
        " and ".join(dict.fromkeys(source.name for source in sources)) or "the text",
        copy,
        found,
        session_factory(timezone, resources),
        timezone=timezone,
        pending=load,
        files=tuple(dict.fromkeys(file for source in sources for file in source.files)),
        anywhere=True,
    )


def _kinds(sql: str, parts: Mapping[str, Rows]) -> list[tuple[str, str]]:
    def refused(error: Exception) -> QueryError:
        return QueryError(f"a SELECT of public tables: {first_line_of_error(error)}")

    with in_own_words(refused, duckdb.Error), _empty(parts) as here:
        return describe_relation(here, f"({sql})")


@contextmanager
def _empty(parts: Mapping[str, Rows]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Check out a closed database with empty public tables."""
    with check_out_closed() as here:
        for name, part in parts.items():
            columns = ", ".join(f"{identifier(column)} {kind}" for column, kind in _typed(part))
            here.execute(f"CREATE TEMP TABLE {identifier(name)} ({columns})")
        yield here


def _typed(part: Rows) -> list[tuple[str, str]]:
    return [(name, column.type_name) for name, column in part.schema.items()]


def _failed(error: Exception) -> EngineError:
    if "More than one row returned by a subquery" in str(error):
        return EngineError(
            "a SELECT of public tables that stands for one value gives several rows. Use an "
            "aggregate, or ORDER BY and LIMIT 1"
        )
    return EngineError(f"a SELECT of public tables failed: {first_line_of_error(error)}")
