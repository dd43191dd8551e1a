"""How rows are compared, and every ORDER BY of the SQL that engines write: it ends in a total order.

Where rows lie in memory depends on everybody's rows: DuckDB builds a join on its smaller side, and divides
rows among threads. With an order that leaves two different rows open, one privacy unit could change which
rows of all others are chosen. So each order here ends in terms that tell any two different rows apart, by
their values and not by hashes. Rows that stay tied are the same row twice, and interchangeable.

No other module writes ORDER BY; `tests/engines/test_ordering.py` reads them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sfumato.engines.duckdb.sanitized_columns import INSTANTS
from sfumato.query.schema import FLOATS, Column, Kind, Schema
from sfumato.query.tables.shaped_tables import PLACES
from sfumato.sql_text import identifier


def canonical(column: str, schema: Mapping[str, Column]) -> str:
    """Return SQL of a canonical key: equal values are equal bits, and every tool can hold them."""
    name = identifier(column)
    if schema[column].type_name in FLOATS:
        return f"CASE WHEN isnan({name}) THEN 'nan' ELSE {name} + 0.0 END"
    kind = schema[column].type_name
    if kind == "VARCHAR":
        return f'{name} COLLATE "binary"'  # a column of a database may have another collation
    if kind == "HUGEINT":  # which Arrow holds as decimals of 38 digits
        return f"CASE WHEN {name} BETWEEN -{'9' * 38} AND {'9' * 38} THEN {name} END"
    if kind == "TIMESTAMP WITH TIME ZONE":  # by its own calendar, and by that of UTC
        return f"CASE WHEN year({name}) BETWEEN 1 AND 9999 AND {name} BETWEEN {INSTANTS} THEN {name} END"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        # What lies outside, infinity too, has no place in other tools' calendars.
        return f"CASE WHEN year({name}) BETWEEN 1 AND 9999 THEN {name} END"
    if kind.startswith("TIME"):
        return f"CASE WHEN hour({name}) < 24 THEN {name} END"
    return name


def comparable_sql(name: str, schema: Schema) -> str:
    """Return SQL of a column as it is compared: equal values have one form."""
    kind = schema[name].type_name
    return canonical(name, schema) if kind in (*FLOATS, "VARCHAR") else identifier(name)


def identity_terms(name: str, schema: Schema) -> list[str]:
    """Return ordering terms in which two values of a column are equal only if they are the same bits.

    Nested values and intervals may be equal and differ in a zero's sign or in their parts; their texts tell.
    """
    column, value = schema[name], identifier(name)
    if column.kind is Kind.OPAQUE:
        return [value, f"CAST({value} AS VARCHAR)", f"hash({value})"]
    if column.type_name in FLOATS:  # 0.0 and -0.0 are equal, and all NaN
        return [comparable_sql(name, schema), f"CAST(CAST({value} AS BIT) AS BIGINT)"]
    return [comparable_sql(name, schema)]


def row_identity(schema: Mapping[str, Column], but: Iterable[str] = ()) -> list[str]:
    """Return ordering terms in which two rows are equal only if they are the same in all columns.

    Args:
        schema: all columns that anything downstream can see.
        but: terms that rows have in common, or that stand before these.
    """
    common = set(but)
    return [term for name in schema for term in identity_terms(name, dict(schema)) if term not in common]


def order_by(apart: Sequence[str], first: Sequence[str] = ()) -> str:
    """Return ORDER BY in a total order.

    Args:
        apart: terms that tell any two rows apart: `row_identity`, or keys by which rows are grouped.
        first: terms that stand before these.
    """
    return f"ORDER BY {', '.join([*first, *apart])}"


def order_by_hash(apart: Sequence[str], salt: int | None = None) -> str:
    """Return ORDER BY in a random-looking total order, by a salted hash and then by values."""
    return order_by(apart, [f"hash({', '.join(apart)})" if salt is None else salted_hash(salt, apart)])


def salted_hash(salt: int, terms: Sequence[str]) -> str:
    """Return SQL of a salted hash, whose order changes with each salt."""
    # DuckDB folds arguments together by multiply and xor, so that one pass leaves the orders of two salts, or
    # of two units, related; the second mixes them.
    return f"hash(hash({salt}::UBIGINT, {', '.join(terms)}))"


def peers(function: str, order: Sequence[str]) -> str:
    """Return ORDER BY in which tied rows are peers, for a window function that treats all peers alike.

    Args:
        function: one of RANKS; of others the frame must begin and end between peers, as those of RANGE and
            GROUPS do.
        order: its terms.
    """
    assert function not in PLACES
    return f"ORDER BY {', '.join(order)}" if order else ""


def first_rows(by: str, limit: int, order: str) -> str:
    """Return QUALIFY that keeps the first rows of each partition, in a total ordering."""
    return f"QUALIFY row_number() OVER (PARTITION BY {by} {order}) <= {limit}"


def copy_number(columns: Sequence[str]) -> str:
    """Return SQL that numbers equal rows, so that an ordering tells copies apart."""
    return f"row_number() OVER (PARTITION BY {', '.join(columns)})"


def cut_by(column: str) -> str:
    """Return ORDER BY by shard alone; nothing follows from the ordering within one."""
    return f"ORDER BY {column}"
