"""Sources that are made of one private table: chosen columns, windows, membership; and SQL on public tables.

Each is one relation in SQL over its parts' own, as those of `combined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import duckdb

from sfumato.engines.duckdb.combined import (
    Rows,
    fresh_name,
    moved,
    source_of,
    there_already,
)
from sfumato.engines.duckdb.compared import compared, told_apart
from sfumato.engines.duckdb.connection import closed, lender, timezone_of
from sfumato.engines.duckdb.distances import frame_ends, wide_key
from sfumato.engines.duckdb.harmless import described, within_types
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.text import identifier
from sfumato.engines.duckdb.unit_aggregates import unit_aggregate
from sfumato.errors import EngineError, QueryError, in_own_words
from sfumato.query.schema import Column, Kind, Schema
from sfumato.query.tables.shaping import IsIn, Select, Window, WindowCall, WithValue

_OF_VALUES = ("first_value", "last_value", "nth_value")
_NUMBERED = {"row_number": "BIGINT", "rank": "BIGINT", "dense_rank": "BIGINT", "ntile": "BIGINT"}
_SHARES = ("percent_rank", "cume_dist")
# What they give follows from which rows come before others, so no two may be in one place.
_PLACES = ("row_number", "ntile", "lag", "lead")


def selected(how: Select, part: Rows, resources: Resources) -> Source:
    """Return columns of a table, renamed."""
    columns = ", ".join(f"{identifier(old)} AS {identifier(new)}" for old, new in how.columns)
    names = dict(how.columns)
    unique = tuple(names[n] for n in part.unique) if set(part.unique) <= names.keys() else ()
    return source_of(
        lambda rows: f"SELECT {columns} FROM ({rows[0]}) AS part",
        [part],
        {new: part.schema[old] for old, new in how.columns},
        resources,
        unique,
    )


def looked_up(how: IsIn, part: Rows, other: Rows, resources: Resources) -> Source:
    """Return a table with a column that tells whether values are in a public one; NULL as in SQL."""
    (of,) = other.schema
    here, there = compared(how.column, part.schema), compared(of, other.schema)

    def text(rows: Sequence[str]) -> str:
        found = f"{here} IN (SELECT {there} FROM ({rows[1]}) AS other)"
        return f"SELECT *, ({found}) AS {identifier(how.name)} FROM ({rows[0]}) AS part"

    schema = part.schema | {how.name: Column(Kind.BOOLEAN, "BOOLEAN")}
    return source_of(text, [part, other], schema, resources, part.unique)


def with_value(how: WithValue, part: Rows, other: Rows, resources: Resources) -> Source:
    """Return a table with a column that has the one value of a public table."""
    ((of, column),) = other.schema.items()

    def text(rows: Sequence[str]) -> str:
        value = f"SELECT {identifier(of)} FROM ({rows[1]}) AS other LIMIT 1"  # of one row, so nothing raises
        return f"SELECT *, ({value}) AS {identifier(how.name)} FROM ({rows[0]}) AS part"

    schema = part.schema | {how.name: replace(column, missing=True)}
    return source_of(text, [part, other], schema, resources, part.unique)


def windowed(
    how: Window, part: Rows, resources: Resources, column_of: Callable[[str, bool], Column]
) -> Source:
    """Return a table with columns that are computed of the rows of each unit."""
    unit = str(part.unit)
    values, outputs, schema = [], [], dict(part.schema)
    stem = "value"
    while any(name.casefold().startswith(stem) for name in part.schema):
        stem += "_"
    for i, call in enumerate(how.calls):
        value, output, kind = _call(call, f"{stem}{i}", unit, part.schema)
        values += [f"({value}) AS {stem}{i}"] if value else []
        outputs.append(f"{output} AS {identifier(call.name)}")
        schema[call.name] = column_of(kind, True)
    own = ", ".join(map(identifier, part.schema))

    def text(rows: Sequence[str]) -> str:
        inner = ", ".join(["*", *values])
        whose = f"FROM ({rows[0]}) AS part WHERE {identifier(unit)} IS NOT NULL"
        return f"SELECT {own}, {', '.join(outputs)} FROM (SELECT {inner} {whose}) AS part"

    return source_of(text, [part], schema, resources, part.unique)


def _call(call: WindowCall, held: str, unit: str, schema: Schema) -> tuple[str, str, str]:
    """Return what an aggregate takes of each row, held in a column; the SQL of a call; and its type."""
    by = ", ".join(compared(name, schema) for name in (unit, *call.by))
    order = [f"{compared(one.column, schema)} {one.direction}" for one in call.order]
    alike = {compared(name, schema) for name in (unit, *call.by, *(one.column for one in call.order))}
    apart = (term for name in schema for term in told_apart(name, schema))
    everything = [*order, *(term for term in apart if term not in alike)]
    placed = call.function in _PLACES or call.unit == "ROWS"
    by_order = everything if placed else order
    ends = [call.start, call.end]
    if any(call.distances):
        (one,) = call.order
        kind = schema[one.column].type_name
        by_order = [f"{wide_key(compared(one.column, schema), kind)} {one.direction}"]
        ends = frame_ends(ends, call.distances, kind)
    ordered = f" ORDER BY {', '.join(by_order)}" if by_order else ""
    frame = f" {call.unit} BETWEEN {ends[0]} AND {ends[1]}"
    over = f" OVER (PARTITION BY {by}{ordered}{frame})"
    if call.aggregate:
        found = unit_aggregate(call.name, call.aggregate, schema)
        return found.value, found.sql(held, over), found.type_name
    arguments = [identifier(one) if isinstance(one, str) else str(one) for one in call.arguments]
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    if call.function in _NUMBERED or call.function in _SHARES:
        kind = _NUMBERED.get(call.function, "DOUBLE")
        return "", f"{call.function}({', '.join(arguments)}) OVER (PARTITION BY {by}{ordered})", kind
    column = schema[str(call.arguments[0])]
    kind = column.type_name
    if call.function in _OF_VALUES:
        inside = f"{', '.join(arguments)} ORDER BY {', '.join(everything)}{nulls}"
        return "", f"{call.function}({inside}){over}", kind
    if len(arguments) == 3:
        arguments[2] = f"TRY_CAST({arguments[2]} AS {kind})"
    return "", f"{call.function}({', '.join(arguments)}{nulls}) OVER (PARTITION BY {by}{ordered})", kind


def computed(sql: str, parts: Mapping[str, Rows], resources: Resources) -> Source:
    """Return what SQL gives of public tables: computed once, by itself, before anything private is near.

    Times are read in the time zone of the first table's sessions, as its own steps read them.

    Raises:
        QueryError: it does not fit their columns.
    """
    kinds = _kinds(sql, parts)
    if len({name.casefold() for name, _ in kinds}) < len(kinds):
        raise QueryError("a SELECT of public tables gives two columns of one name; give each its own: x AS y")
    inside, copy = within_types(f"({sql})", kinds), fresh_name()
    sources = [part.source for part in parts.values()]
    session_of = sources[0].session if sources else lender(resources=resources)
    with session_of() as there:
        timezone = timezone_of(there)

    def load(session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        if there_already(session, copy):
            return
        with closed(timezone, resources) as here:
            for name, part in parts.items():
                with in_own_words(), part.source.session() as there:
                    part.source.load(there, [column for column, _ in part.source.columns])
                    moved(there, part.after(part.source.relation), here, identifier(name), _typed(part))
            with in_own_words(_failed, duckdb.Error):
                moved(here, f"SELECT * FROM {inside} AS part", session, copy, found)

    with _empty(parts) as here:
        found = described(here, f"{inside} AS part")
    return Source(
        " and ".join(dict.fromkeys(source.name for source in sources)) or "the text",
        copy,
        found,
        lender(timezone, resources),
        pending=load,
        files=tuple(dict.fromkeys(file for source in sources for file in source.files)),
        anywhere=True,
    )


def _kinds(sql: str, parts: Mapping[str, Rows]) -> list[tuple[str, str]]:
    def refused(error: Exception) -> QueryError:
        return QueryError(f"a SELECT of public tables alone: {_first(error)}")

    with in_own_words(refused, duckdb.Error), _empty(parts) as here:
        return described(here, f"({sql})")


@contextmanager
def _empty(parts: Mapping[str, Rows]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Lend a database with the tables and no row."""
    with closed() as here:
        for name, part in parts.items():
            columns = ", ".join(f"{identifier(column)} {kind}" for column, kind in _typed(part))
            here.execute(f"CREATE TEMP TABLE {identifier(name)} ({columns})")
        yield here


def _typed(part: Rows) -> list[tuple[str, str]]:
    return [(name, column.type_name) for name, column in part.schema.items()]


def _failed(error: Exception) -> EngineError:
    if "More than one row returned by a subquery" in str(error):
        return EngineError(
            "a SELECT of public tables that stands for one value gives several rows; make them one, as with "
            "an aggregate, or ORDER BY and LIMIT 1"
        )
    return EngineError(f"a SELECT of public tables alone failed: {_first(error)}")


def _first(error: Exception) -> str:
    first = str(error).partition("\n")[0]
    return first.partition(": ")[2] or first
