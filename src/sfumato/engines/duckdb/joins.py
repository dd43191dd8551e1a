"""Rows of two tables side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from sfumato.engines.duckdb.combined import Rows, source_of
from sfumato.engines.duckdb.compared import compared
from sfumato.engines.duckdb.ordering import first_rows, order_by_hash, rows_apart
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.text import identifier
from sfumato.engines.duckdb.unit_limit import SIDES, UnitLimit, named_sides
from sfumato.query import sizes
from sfumato.query.tables.combining import Join


def joined(how: Join, left: Rows, right: Rows, resources: Resources) -> Source:
    """Return the rows of two tables side by side."""
    brought, compared = how.brought, {other for _, other in how.on}
    alone = bool(right.unique) and set(right.unique) <= compared
    most = None if right.unit is None or alone else how.rows

    keys = [[pair[i] for pair in how.on] for i in (0, 1)]

    limit = None if most is None else UnitLimit(how, left, right, keys)

    def text(rows: Sequence[str], most: int | None = most, limit: UnitLimit | None = limit) -> str:
        sides = [_side(rows[0], left, keys[0]), _side(rows[1], right, keys[1])]
        tables = ""
        if most is not None or limit is not None:
            # Named, so that a text of joins in joins has each table once.
            tables, sides = f"WITH {named_sides(left, right, sides)} ", [f"FROM {name}" for name in SIDES]
        if limit is not None:
            sides[0] = limit.kept()
        if most is not None:
            sides[1] = _limited(sides[1], right, keys[1], most)
        columns = [f"l.c{i} AS {identifier(name)}" for i, name in enumerate(left.schema)]
        columns += [
            f"r.c{i} AS {identifier(brought[name])}" for i, name in enumerate(right.schema) if name in brought
        ]
        equal = " AND ".join(f"l.k{i} = r.k{i}" for i in range(len(how.on)))
        kind = "LEFT JOIN" if how.how == "left" else "JOIN"
        joined = f"FROM ({sides[0]}) AS l {kind} ({sides[1]}) AS r ON ({equal})"
        return f"{tables}SELECT {', '.join(columns)} {joined}"

    def looked(session: duckdb.DuckDBPyConnection, rows: Sequence[str]) -> str:
        if most is None or limit is None:
            return text(rows)
        sides = [_side(rows[0], left, keys[0]), _side(rows[1], right, keys[1])]
        tables = named_sides(left, right, sides)
        over = _over(f"FROM {SIDES[1]}", right, keys[1], most)
        found = [
            bool(session.execute(f"WITH {tables}, {look} LIMIT 1").fetchall())
            for look in (f"{over} SELECT 1 FROM over", limit.look())
        ]
        return text(rows, most if found[0] else None, limit if found[1] else None)

    lost = how.how == "left"
    schema = left.schema | {
        name: replace(right.schema[old], missing=lost or right.schema[old].missing)
        for old, name in brought.items()
    }
    # A row that meets one at most stays one row.
    unique = left.unique if alone else ()
    return source_of(text, [left, right], schema, resources, unique, looked)


def _side(rows: str, side: Rows, keys: Sequence[str]) -> str:
    """Return a side with its columns and keys."""
    columns = [f"part.{identifier(name)} AS c{i}" for i, name in enumerate(side.schema)]
    columns += [f"{compared(name, side.schema)} AS k{i}" for i, name in enumerate(keys)]
    return f"SELECT {', '.join(columns)} FROM ({rows}) AS part"


def _over(text: str, side: Rows, keys: Sequence[str], most: int) -> str:
    """Return table expressions: `side`, and `over`, the keys of which there are more rows.

    Units with that many are looked for first, as there are fewer units than keys.
    """
    key = ", ".join(f"k{i}" for i in range(len(keys)))
    whose = f"k{keys.index(str(side.unit))}"
    counted, heavy = "side", ""
    if (buckets := _buckets(side.source.rows, most)) is not None:
        bucket = f"hash({whose}) & {buckets - 1}::UBIGINT"
        heavy = f"heavy AS (SELECT {bucket} AS b FROM side GROUP BY b HAVING count(*) > {most}), "
        counted = f"(SELECT {whose} FROM side SEMI JOIN heavy ON ({bucket} = heavy.b))"
    many = f"SELECT {whose} FROM {counted} GROUP BY {whose} HAVING count(*) > {most}"
    over = f"SELECT {key} FROM side SEMI JOIN many USING ({whose}) GROUP BY {key} HAVING count(*) > {most}"
    # Not materialized: of most columns nothing is read then, but of units with too many rows, who are few.
    return f"side AS NOT MATERIALIZED ({text}), {heavy}many AS ({many}), over AS ({over})"


def _limited(text: str, side: Rows, keys: Sequence[str], most: int) -> str:
    """Return a side of which each unit and key has at most so many rows.

    So a row of the other side meets no more, and a join makes at most so many rows of each. Which are kept
    depends on the rows themselves, not on where they stand.
    """
    key = ", ".join(f"k{i}" for i in range(len(keys)))
    named = {f"c{i}": column for i, column in enumerate(side.schema.values())}
    order = order_by_hash(rows_apart(named))
    same = " AND ".join(f"side.k{i} = over.k{i}" for i in range(len(keys)))
    # They lose their key, so that they match nothing: of rows left out DuckDB would expect so many that it
    # joined in a bad order.
    kept = "* REPLACE (CASE WHEN over.k0 IS NULL THEN side.k0 END AS k0)"
    return (
        f"WITH {_over(text, side, keys, most)} "
        f"SELECT side.{kept} FROM side LEFT JOIN over ON ({same}) "
        f"UNION ALL SELECT * FROM side SEMI JOIN over USING ({key}) "
        f"{first_rows(key, most, order)}"
    )


def _buckets(rows: int | None, most: int) -> int | None:
    """Return into how many buckets units are counted before they are counted each; None where at once.

    Rows are as many in a bucket as half of what one unit may have, so that few buckets have more. It takes
    half the time, as there are fewer buckets than units; what is found is the same, whatever rows there are.
    """
    if rows is None or rows < sizes.COUNTED_ROWS or rows // most > sizes.COUNTED_BUCKETS:
        return None
    return 1 << max(2 * rows // most, 1).bit_length()
