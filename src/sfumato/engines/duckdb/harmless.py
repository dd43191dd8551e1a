"""Columns in a form in which no value raises: what a type cannot hold is NULL, row by row.

DuckDB stops, and may even close the whole database, on text that is not UTF-8, on times that a calendar or
a clock does not have, and on times whose unit it cannot convert. Whether one row holds such a value must
not show. Two layers see to it: `harmless` on Arrow, where converting to DuckDB's types would already raise,
and `within_types` in SQL, which every source passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.duckdb.text import identifier

# Only a slice that holds something bad is looked at value by value.
SLICE_ROWS = 1 << 16
_TEXTS = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
_COARSE = "s", "ms"
_DAYS = "DATE '0001-01-01' AND DATE '9999-12-31'"
_TIMES = "TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
_INSTANTS = "TIMESTAMPTZ '0001-01-01 00:00:00+00' AND TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"


def within_types(relation: str, described: Iterable[tuple[str, str]], *, check_text: bool = False) -> str:
    """Return what stands behind FROM such that each value is one that its type has.

    Dates and times are those of the years 1 to 9999, or infinite; times of day those of one day; decimals
    have no more digits than declared; JSON is well formed. Others are NULL. Times are whole microseconds.

    Args:
        relation: what stands behind FROM now.
        described: names and DuckDB types of its columns.
        check_text: whether nobody has checked yet that texts are UTF-8.
    """
    columns, changed = [], False
    for name, kind in described:
        value = _within(identifier(name), kind, check_text)
        changed |= value is not None
        columns.append(identifier(name) if value is None else f"{value} AS {identifier(name)}")
    return f"(SELECT {', '.join(columns)} FROM {relation})" if changed else relation


def may_become_null(kind: str) -> bool:
    """Whether a value of a DuckDB type that is there may be read as NULL."""
    return kind == "VARCHAR" or _within("x", kind, False) is not None


def _within(name: str, kind: str, check_text: bool) -> str | None:
    if kind == "VARCHAR":
        return f"TRY(decode(encode({name})))" if check_text else None
    if kind == "DATE":
        return f"CASE WHEN {name} BETWEEN {_DAYS} OR NOT isfinite({name}) THEN {name} END"
    if kind in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        time = name if kind == "TIMESTAMP" else f"TRY_CAST({name} AS TIMESTAMP)"
        return f"CASE WHEN {time} BETWEEN {_TIMES} OR NOT isfinite({time}) THEN {time} END"
    if kind in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"):
        time = name if kind != "TIMESTAMPTZ_NS" else f"TRY_CAST({name} AS TIMESTAMPTZ)"
        return f"CASE WHEN {time} BETWEEN {_INSTANTS} OR NOT isfinite({time}) THEN {time} END"
    if kind in ("TIME", "TIME_NS"):
        within = f"{name} >= {kind} '00:00:00' AND {name} < {kind} '24:00:00'"
        time = name if kind == "TIME" else f"TRY_CAST({name} AS TIME)"
        return f"CASE WHEN {within} THEN {time} END"
    if decimal := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind):
        digits, places = int(decimal[1]), int(decimal[2])
        largest = f"{10**digits - 1}".rjust(places + 1, "0")
        bound = f"CAST('{largest[: len(largest) - places]}.{largest[len(largest) - places :]}' AS {kind})"
        return f"CASE WHEN {name} BETWEEN -{bound} AND {bound} THEN {name} END"
    if kind == "JSON":
        return f"CASE WHEN json_valid({name}) THEN {name} END"
    return None


def described(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]]:
    """Return names and types of the columns of what stands behind FROM; no row is read."""
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()]


def harmless_table(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return a table of which some columns, by name, are harmless."""
    for i, field in enumerate(table.schema):
        if field.name in columns and (_needs_care(field.type) or _nests(field.type)):
            chunks = [harmless(chunk) for chunk in table.column(i).chunks]
            table = table.set_column(i, field, pa.chunked_array(chunks, field.type))
    return table


def harmless(column: pa.Array) -> pa.Array:
    """Return a column of the same type that DuckDB can read, whatever is in it.

    Text that is not UTF-8 is NULL; so is a list, struct or map that holds some. A time in seconds or
    milliseconds that does not fit microseconds is NULL too; inside of a list, struct or map it is another.

    >>> harmless(pa.array([b"a", b"\\xff"]).view(pa.string())).to_pylist()
    ['a', None]
    """
    kind = column.type
    if column.offset and _nests(kind):
        column = _from_its_start(column)
    if not _needs_care(kind):
        return column
    if isinstance(column, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(kind, harmless(column.storage))
    if pa.types.is_dictionary(kind):
        return _harmless_dictionary(column)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(harmless(pc.run_end_decode(column)), run_end_type=kind.run_end_type)
    if _coarse(kind):
        return _fitting(column)
    if not _is_text(kind):
        plain = _plain(kind)
        column = column if plain == kind else column.cast(plain, safe=False).cast(kind, safe=False)
    if _is_utf8(column):
        return column
    pieces = (_rows(column, i, SLICE_ROWS) for i in range(0, len(column), SLICE_ROWS))
    return pa.concat_arrays([piece if _is_utf8(piece) else _without_bad_text(piece) for piece in pieces])


def _nests(kind: pa.DataType) -> bool:
    """Whether values of a type hold others that hold others."""
    return any(kind.field(i).type.num_fields for i in range(kind.num_fields))


def _from_its_start(column: pa.Array) -> pa.Array:
    """Return a part of a longer column as one of its own; DuckDB stops at parts with structs in structs."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"column": column})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_next_batch().column(0)


def _rows(column: pa.Array, start: int, count: int) -> pa.Array:
    """Return some rows; of lists with their own values alone, as all that a slice has would be checked."""
    if not column.type.num_fields:
        return column.slice(start, count)
    wanted = pa.array(range(start, min(start + count, len(column))))
    return column.cast(_plain(column.type)).take(wanted).cast(column.type, safe=False)


def _is_text(kind: pa.DataType) -> bool:
    return any(is_text(kind) for is_text in _TEXTS)


def _coarse(kind: pa.DataType) -> bool:
    return (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) and kind.unit in _COARSE


def _needs_care(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _needs_care(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _needs_care(kind.value_type)
    if kind.num_fields:
        return any(_needs_care(kind.field(i).type) for i in range(kind.num_fields))
    return _is_text(kind) or _coarse(kind)


def _harmless_dictionary(column: pa.DictionaryArray) -> pa.Array:
    values = harmless(column.dictionary)
    if values is column.dictionary:
        return column
    valid = values.is_valid().take(column.indices)
    indices = pc.if_else(valid, column.indices, pa.scalar(None, column.indices.type))
    return pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered)


def _fitting(column: pa.Array) -> pa.Array:
    """Return times in coarse units; NULL where microseconds in 64 bits cannot hold them."""
    most = (2**63 - 1) // (10**6 if column.type.unit == "s" else 10**3)
    numbers = column.view(pa.int64())
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    absent = (values < -most) | (values > most)
    if not column.null_count and not absent.any():
        return column
    if column.null_count:
        absent |= numbers.is_null().to_numpy(zero_copy_only=False)
    # DuckDB converts what is under a NULL too.
    return pa.array(np.where(absent, 0, values), mask=absent).view(column.type)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a nested type with microseconds for coarser units, and texts of which rows can be taken."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_timestamp(kind) and _coarse(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind) and _coarse(kind):
        return pa.duration("us")
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_plain(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    return kind


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _without_bad_text(column: pa.Array) -> pa.Array:
    """Return a column with NULL for values that are, or hold, text that is not UTF-8."""
    single = (_rows(column, i, 1) for i in range(len(column)))
    return pa.concat_arrays([value if _is_utf8(value) else pa.nulls(1, column.type) for value in single])
