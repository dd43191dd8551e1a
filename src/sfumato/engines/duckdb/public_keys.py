"""Public group keys, as they are given, to a table with the key columns' own types."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.engines.duckdb.ordering import order_by
from sfumato.engines.duckdb.sanitized_columns import replace_views
from sfumato.engines.duckdb.sources import NO_ARROW
from sfumato.errors import QueryError
from sfumato.measurements.int128_array import arrow_column
from sfumato.query.schema import Column, Schema
from sfumato.sql_text import identifier


def as_table(keys: Sequence[str], values: Any) -> pa.Table:
    """Return public keys as an Arrow table, in the types in which they are given."""
    module = type(values).__module__.partition(".")[0]
    if module == "polars" and hasattr(values, "to_arrow"):
        values = values.to_arrow()
    elif module == "pandas" and hasattr(values, "columns"):
        columns = [_key_column(name, column) for name, column in values.items()]
        values = pa.Table.from_arrays(columns, [*map(str, values.columns)])
    elif module in ("pandas", "numpy") and getattr(values, "ndim", 0) == 1:
        values = _key_column(keys[0], values)
    if isinstance(values, (pa.Array, pa.ChunkedArray)) and len(keys) == 1:
        return pa.table({keys[0]: values})
    if isinstance(values, pa.Table):
        if sorted(values.column_names) != sorted(keys):
            raise QueryError(f"group_by: keys= has the columns {values.column_names}, but needs {list(keys)}")
        return values.select(list(keys))
    if not isinstance(values, (list, tuple, set, range)):
        raise QueryError(
            "group_by: keys= must be a list of values, a list of tuples, or an array or table of Arrow, "
            "NumPy, pandas or Polars"
        )
    rows = [v if isinstance(v, tuple) else (v,) for v in values]
    if any(len(row) != len(keys) for row in rows):
        raise QueryError(f"group_by: each of keys= must give one value for each of {list(keys)}")
    return pa.table({k: _key_column(k, [row[i] for row in rows]) for i, k in enumerate(keys)})


def _key_column(name: str, values: Any) -> pa.Array:
    whole = isinstance(values, list) and set(map(type, values)) == {int}
    if whole and min(values) >= -(2**63) and max(values) < 2**63:
        return arrow_column(np.array(values, np.int64))
    try:
        # NaN is what pandas has for a value that is missing, and a key of its own elsewhere.
        return pa.array(values, from_pandas=type(values).__module__.startswith("pandas"))
    except NO_ARROW:
        if set(map(type, values)) == {int} and all(abs(value) < 10**38 for value in values):
            return pa.array(map(Decimal, values), pa.decimal128(38))
        types = " and ".join(sorted({type(value).__name__ for value in values}))
        raise QueryError(
            f"group_by: keys= has values of the Python type {types} for {name!r}. Give them one "
            "type that a column can have"
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _is_text(kind.value_type)
    texts = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null
    return any(is_one(kind) for is_one in texts)


def _changes_sql(name: str, typed: str, key_type: pa.DataType, column: Column) -> str:
    """Write the condition that a public key changes its value in the type of its column."""
    changed = f"{name} IS NOT NULL AND {typed} IS NULL"
    if column.kind.numeric:
        # A float in fewer digits is the number that both are written as, such as 0.1.
        as_texts = f"CAST({name} AS VARCHAR) <> CAST({typed} AS VARCHAR)"
        whole = pa.types.is_integer(key_type) or (pa.types.is_decimal(key_type) and key_type.scale == 0)
        number = "HUGEINT" if whole else "DOUBLE"
        changed += f" OR ({as_texts} AND TRY_CAST({name} AS {number}) <> TRY_CAST({typed} AS {number}))"
    if column.type_name == "DATE" and pa.types.is_timestamp(key_type):
        changed += f" OR {typed} <> {name}"
    return changed


def typed_keys(
    session: duckdb.DuckDBPyConnection, keys: Sequence[str], table: pa.Table, schema: Schema
) -> pa.Table:
    """Return public keys with the key columns' types, sorted."""
    table = pa.table([replace_views(column) for column in table.columns], table.column_names)
    try:
        session.register("given", table)
    except duckdb.Error:
        types = ", ".join(map(str, table.schema.types))
        raise QueryError(f"group_by: keys= is of type {types}, which cannot be read. Cast it") from None
    if table.num_rows == 0:
        raise QueryError("group_by: keys= is empty. Name at least one group, or leave it out")
    casts, odd = [], []
    for key in keys:
        name, column, given = identifier(key), schema[key], table.schema.field(key).type
        if column.type_name == "VARCHAR" and not _is_text(given):
            value = table.column(key).drop_null()[:1].to_pylist()
            written = f". Give texts, such as {str(*value)!r}" if value and pa.types.is_integer(given) else ""
            raise QueryError(
                f"group_by: keys= has values of type {given}, but {key} is text (VARCHAR){written}"
            )
        casts.append(f"TRY_CAST({name} AS {column.type_name})")
        odd.append(
            f"min(CASE WHEN {_changes_sql(name, casts[-1], given, column)} THEN CAST({name} AS VARCHAR) END)"
        )
    # One statement, as each costs a small release more than its rows do.
    query = f"SELECT {', '.join([*casts, *odd])} FROM given GROUP BY {', '.join(casts)} {order_by(['ALL'])}"
    found = session.sql(query).to_arrow_table()
    for key, changes in zip(keys, found.columns[len(keys) :], strict=True):
        for value in changes.drop_null()[:1].to_pylist():
            raise QueryError(
                f"group_by: keys= holds {value!r}, which does not fit {key} ({schema[key].type_name})"
            )
    if found.num_rows < table.num_rows:
        texts = ", ".join(f"CAST({cast} AS VARCHAR)" for cast in casts)
        several = f"GROUP BY {', '.join(casts)} HAVING count(*) > 1 {order_by(['ALL'])}"
        again = f"SELECT {texts} FROM given {several} LIMIT 1"
        (group,) = session.execute(again).fetchall()
        raise QueryError(f"group_by: keys= names {(group[0] if len(group) == 1 else group)!r} twice")
    return pa.Table.from_arrays(found.columns[: len(keys)], list(keys))
