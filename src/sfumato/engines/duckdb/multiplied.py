"""How many joined rows a row becomes, where public tables have a key several times.

How often a public table has its keys is public. So it is looked at before anything is paid and a private row
is read, and a question that could make too much of one row is refused, whatever the private rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import duckdb

from sfumato.engines.duckdb.compared import compared
from sfumato.engines.duckdb.text import identifier
from sfumato.errors import QueryError
from sfumato.query.schema import Schema
from sfumato.query.tables.combining import Combination, Join, PerUnit, Reached, private_parts
from sfumato.query.tables.part import Part

# Gives how many rows of a public table have the same values in some columns, at most.
Alike = Callable[[Part, Sequence[str]], int]


def check_joined_rows(how: Combination | Reached | None, counted: Alike, alike: Alike) -> None:
    """Refuse joins with public tables that could make more rows of one row than their limit.

    Args:
        how: of which tables rows are made; None of a table that is not made of others.
        counted: gives a bound for which no row is read: how many rows the table has. In most questions it
            is enough.
        alike: gives what is true.
    Raises:
        QueryError: a join could make too many.
    """
    with suppress(QueryError):
        _rows_of_one(how, counted)
        return
    _rows_of_one(how, alike)


def _rows_of_one(how: Combination | Reached | None, alike: Alike) -> int:
    """Return how many rows are made of one, at most: over a chain of joins the product.

    A join of private tables makes no more of a unit's rows than its own limit, and is not counted.
    """
    if how is None:
        return 1
    hows = (getattr(getattr(part.engine, "origin", None), "how", None) for part in private_parts(how))
    before = max((_rows_of_one(one, alike) for one in hows), default=1)
    if isinstance(how, PerUnit) and not how.by:
        return 1
    if not isinstance(how, Join) or how.right.unit is not None:
        return before
    columns = [other for _, other in how.on]
    times = max(alike(how.right, columns), 1)
    if before * times > how.unit_rows:
        made, same = f"{before * times:,}", " and ".join(columns)
        chain = f", and joins before it make {before:,} of one" if before > 1 else ""
        raise QueryError(
            f"join: one row could become {made} rows, and at most {how.unit_rows:,} are made of one: the "
            f"public table has up to {times:,} rows with the same {same}{chain}. Join on more columns, or a "
            f"table with one row for each {same}; or raise the limit, unit_rows= of join, in SQL "
            "max_joined_rows"
        )
    return before * times


def most_alike(session: duckdb.DuckDBPyConnection, rows: str, columns: Sequence[str], schema: Schema) -> int:
    """Return how many rows have the same values in columns, as a join compares them; NULL equals nothing.

    Args:
        session: in which the rows are.
        rows: a SELECT of them.
        columns, schema: those that are compared, and all.
    """
    keys = [compared(name, schema) for name in columns]
    there = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in columns)
    groups = f"SELECT count(*) AS n FROM ({rows}) AS part WHERE {there} GROUP BY {', '.join(keys)}"
    found = session.execute(f"SELECT max(n) FROM ({groups})").fetchone()
    return 0 if found is None or found[0] is None else int(found[0])
