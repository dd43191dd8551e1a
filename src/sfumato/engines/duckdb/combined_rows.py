"""The rows of tables that are made of tables: of foreign keys, unions, and one row for each privacy unit.

Each is one relation in SQL over the parts' own. Rows of Parquet are read where they are; all others are
copied to a temporary table of the session that reads, which may spill.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import duckdb

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.connection import session_factory
from sfumato.engines.duckdb.expressions.safe_parts import SPANS, fits
from sfumato.engines.duckdb.ordering import comparable_sql
from sfumato.engines.duckdb.resources import Resources, keep_open
from sfumato.engines.duckdb.source import Source, arriving
from sfumato.engines.duckdb.unit_aggregates import UnitAggregate
from sfumato.errors import in_own_words
from sfumato.query.schema import FLOATS, Column, Schema
from sfumato.query.tables.combined_tables import Reached
from sfumato.sql_text import identifier

_numbers = itertools.count()  # of tables that are copied
# Arrow has no such types; a setting that keeps them is one of all sessions of a database.
NOT_ARROW = ("HUGEINT", "UHUGEINT", "BIT", "TIME WITH TIME ZONE")


@dataclass(frozen=True)
class Rows:
    """The rows of one table as they come into a combination of tables.

    Args:
        source: where they come from.
        after: gives a SELECT of them after their steps, of what stands behind FROM.
        schema: the columns after the steps.
        unit: the privacy unit's column; None of a public table.
        unique: columns in which no two of the rows have the same values; none where that is not known.
    """

    source: Source
    after: Callable[[str], str]
    schema: Schema
    unit: str | None
    unique: tuple[str, ...] = ()


def reached(how: Reached, here: Rows, there: Rows, resources: Resources) -> Source:
    """Return the source of rows that reach their privacy units by a foreign key.

    A unit has the rows here that its own rows there have keys of. So what it has depends on no row there of
    another unit, be the key unique or not: a row here whose key two units have is one row of each of them.
    """
    column, key, unit = how.column, how.key, how.unit
    names = [name for name in here.schema if name.casefold() != unit.casefold()]

    def text(rows: Sequence[str]) -> str:
        mine, theirs = comparable_sql(column, here.schema), comparable_sql(key, there.schema)
        owners = f"(SELECT * FROM ({rows[1]}) WHERE {identifier(str(there.unit))} IS NOT NULL)"
        whose = comparable_sql(str(there.unit), there.schema)
        return foreign_key_rows(names, unit, mine, theirs, whose, f"({rows[0]})", owners)

    whose = there.schema[str(there.unit)]
    of_unit, kept = replace(whose, missing=False), met(here.schema, [column])
    return make_source(text, [here, there], {n: kept[n] for n in names} | {unit: of_unit}, resources)


def met(schema: Schema, keys: Sequence[str]) -> Schema:
    """Return the columns of combined rows whose keys are equal to another's: NULL is not, but NaN is."""
    return schema | {
        key: replace(schema[key], missing=False) for key in keys if schema[key].type_name not in FLOATS
    }


def foreign_key_rows(
    names: Sequence[str], unit: str, column: str, key: str, whose: str, rows: str, owners: str
) -> str:
    """Return a SELECT of rows without a unit, joined to the units whose rows have their foreign key.

    Args:
        names: of the columns of rows that stay.
        unit: the name of the units' column here.
        column: SQL of the foreign key in a row, as it is compared.
        key, whose: SQL of the key and the unit of an owner's row, as they are compared.
        rows, owners: what stands behind FROM for them; no owner's row is of no unit.
    """
    columns = [f"part.{identifier(name)} AS c{i}" for i, name in enumerate(names)]
    mine = f"SELECT {', '.join([*columns, f'{column} AS k'])} FROM {rows} AS part"
    # A unit that has a key twice has the rows here once.
    keys = f"SELECT DISTINCT {key} AS k, {whose} AS u FROM {owners} AS part"
    kept = [f"l.c{i} AS {identifier(name)}" for i, name in enumerate(names)]
    kept.append(f"r.u AS {identifier(unit)}")
    return f"SELECT {', '.join(kept)} FROM ({mine}) AS l JOIN ({keys}) AS r ON (l.k = r.k)"


def union_tables(left: Rows, right: Rows, resources: Resources) -> Source:
    """Return the source of a union of two tables with the same columns."""
    schema = {
        name: replace(
            column,
            missing=column.missing or right.schema[name].missing,
            type_name=_common_type(column.type_name, right.schema[name].type_name),
        )
        for name, column in left.schema.items()
    }
    names = ", ".join(
        identifier(name)
        if column.type_name == left.schema[name].type_name == right.schema[name].type_name
        else f"CAST({identifier(name)} AS {column.type_name}) AS {identifier(name)}"
        for name, column in schema.items()
    )
    return make_source(
        lambda rows: " UNION ALL ".join(f"SELECT {names} FROM ({one})" for one in rows),
        [left, right],
        schema,
        resources,
    )


def _common_type(left: str, right: str) -> str:
    """Return the type of a union's column from the types of both tables."""
    if left == right:
        return left
    return "BIGINT" if fits(SPANS[left], "BIGINT") and fits(SPANS[right], "BIGINT") else "HUGEINT"


def per_unit_source(
    part: Rows,
    by: Sequence[str],
    aggregates: Mapping[str, tuple[UnitAggregate, Column]],
    resources: Resources,
) -> Source:
    """Return the source of one row per unit and values of `by`, as `per_unit` makes it."""
    schema: Schema = {}
    values, outputs, unit = [], [], str(part.unit)
    for i, name in enumerate((unit, *by)):
        column = part.schema[name]
        values.append(f"{comparable_sql(name, part.schema)} AS k{i}")
        outputs.append(f"k{i} AS {identifier(name)}")
        schema[name] = column
    keys = ", ".join(f"k{i}" for i in range(len(outputs)))
    for i, (name, (aggregate, column)) in enumerate(aggregates.items()):
        values.append(f"({aggregate.value}) AS v{i}")
        outputs.append(f"{aggregate.sql(f'v{i}')} AS {identifier(name)}")
        schema[name] = column

    def text(rows: Sequence[str]) -> str:
        inner = f"SELECT {', '.join(values)} FROM ({rows[0]}) AS part WHERE {identifier(unit)} IS NOT NULL"
        return f"SELECT {', '.join(outputs)} FROM ({inner}) GROUP BY {keys}"

    return make_source(text, [part], schema, resources, (unit, *by))


def make_source(
    text: Callable[[Sequence[str]], str],
    parts: Sequence[Rows],
    schema: Schema,
    resources: Resources,
    unique: tuple[str, ...] = (),
    looked: Callable[[duckdb.DuckDBPyConnection, Sequence[str]], str] | None = None,
) -> Source:
    """Make a source of combined tables from `text`, which gives its SELECT from those of the parts.

    `looked` gives the same after a look at the rows in a session, for the same rows in less time.
    """
    copies = [None if part.source.anywhere else fresh_name() for part in parts]
    relation = text(
        [part.after(copy or part.source.relation) for part, copy in zip(parts, copies, strict=True)]
    )

    def relation_in(session: duckdb.DuckDBPyConnection) -> str:
        rows = [
            part.after(copy or part.source.relation_in(session))
            for part, copy in zip(parts, copies, strict=True)
        ]
        return f"({text(rows) if looked is None else looked(session, rows)})"

    def load(session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        for part, copy in zip(parts, copies, strict=True):
            names = [name for name, _ in part.source.columns]
            if copy is None:
                part.source.load(session, names)
            elif not is_copied(session, copy):
                _copy(part.source, session, copy, names)

    def again(columns: Sequence[str]) -> Source:
        bearing = [replace(part, source=_again(part.source)) for part in parts]
        return make_source(text, bearing, schema, resources, unique, looked)

    sources = [part.source for part in parts]
    return Source(
        " and ".join(dict.fromkeys(source.name for source in sources)),
        f"({relation})",
        [(name, column.type_name) for name, column in schema.items()],
        session_factory(resources=resources),
        frozenset(name for name, column in schema.items() if not column.missing),
        pending=load,
        again=again if any(source.again for source in sources) else None,
        files=tuple(dict.fromkeys(file for source in sources for file in source.files)),
        anywhere=True,
        unique=unique,
        looked=relation_in,
    )


def _again(source: Source) -> Source:
    return source if source.again is None else source.again([name for name, _ in source.columns])


def fresh_name() -> str:
    """Return a fresh name for a temporary copy of combined rows."""
    return f"combined_{next(_numbers)}"


def is_copied(session: duckdb.DuckDBPyConnection, copy: str) -> bool:
    """Whether a session has a temporary copy of combined rows already."""
    found = session.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [copy]).fetchall()
    return bool(found)


def cast_for_arrow(name: str, kind: str) -> str:
    """Write a combined column for Arrow: as text where Arrow has no such type."""
    column = identifier(name)
    return f"CAST({column} AS VARCHAR) AS {column}" if kind in NOT_ARROW else column


def _copy(source: Source, session: duckdb.DuckDBPyConnection, copy: str, columns: Sequence[str]) -> None:
    """Copy a source's rows into a temporary table of the session that combines them."""
    with in_own_words(), source.session() as there:
        source.load(there, columns)
        copy_result(there, f"SELECT * FROM {source.relation}", session, copy, source.columns)


def copy_result(
    there: duckdb.DuckDBPyConnection,
    query: str,
    session: duckdb.DuckDBPyConnection,
    copy: str,
    kinds: Sequence[tuple[str, str]],
) -> None:
    """Copy the result of a query from one session to a temporary table of another one."""
    named = ", ".join(cast_for_arrow(name, kind) for name, kind in kinds)
    batches = keep_open(there.sql(f"SELECT {named} FROM ({query})").to_arrow_reader(1 << 16))
    typed = ", ".join(f"TRY_CAST({identifier(n)} AS {kind}) AS {identifier(n)}" for n, kind in kinds)
    with arriving(session, batches.schema, batches):
        session.execute(f"CREATE OR REPLACE TEMP TABLE {copy} AS SELECT {typed} FROM arriving")
