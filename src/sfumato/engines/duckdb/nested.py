"""Values inside of lists, structs and maps that would stop DuckDB."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.duckdb.text import identifier, literal

# Lists without an offset behind the last.
_OTHER_LISTS = pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view


def is_nested(kind: str) -> bool:
    """Whether a DuckDB type is a list, an array, a struct or a map."""
    return kind.endswith("]") or kind.startswith(("STRUCT(", "MAP("))


def within_nested(
    name: str, kind: str, within: Callable[[str, str], str | None], depth: int = 0
) -> str | None:
    """Return a nested value with NULL for what is not of its type, in the same type; None where all is.

    An entry of a map whose key is not of its type is left out. The value is made anew, as DuckDB casts a list
    with all that lies around in its vector, also what is under a NULL or of other rows.

    Args:
        name: the value, in SQL.
        kind: its DuckDB type.
        within: what gives a plain value of a type, in SQL, as NULL where it is not of its type; None where
            it always is.
        depth: in how many others it is.
    """
    if not is_nested(kind):
        value = within(name, kind)
        return value and f"CASE WHEN {value} IS NOT NULL THEN {name} END"
    children = [(field, str(of)) for field, of in duckdb.sqltype(kind).children if field != "size"]
    one = identifier(f"each{depth}")
    if kind.startswith("MAP(") and not kind.endswith("]"):
        parts = [f"{one}.key", f"{one}.value"]
        inside = [within_nested(p, of, within, depth + 1) for p, (_, of) in zip(parts, children, strict=True)]
        if not any(inside):
            return None
        key, value = (new or old for new, old in zip(inside, parts, strict=True))
        entry = f"{{'key': {key}, 'value': {value}}}"
        pairs = f"list_transform(map_entries({name}), lambda {one}: {entry})"
        return f"TRY(map_from_entries(list_filter({pairs}, lambda {one}: {one}.key IS NOT NULL)))"
    if kind.endswith("]"):
        item = within_nested(one, children[0][1], within, depth + 1)
        return item and f"TRY_CAST(list_transform({name}, lambda {one}: {item}) AS {kind})"
    fields = [(f, f"struct_extract({name}, {literal(f)})", of) for f, of in children]
    inner = [(f, part, within_nested(part, of, within, depth)) for f, part, of in fields]
    if not any(value for _, _, value in inner):
        return None
    packed = ", ".join(f"{identifier(f)} := {value or part}" for f, part, value in inner)
    return f"CASE WHEN {name} IS NOT NULL THEN struct_pack({packed}) END"


def has_map(kind: pa.DataType) -> bool:
    """Whether an Arrow type is, or holds, a map."""
    return pa.types.is_map(kind) or any(has_map(kind.field(i).type) for i in range(kind.num_fields))


def without_equal_keys(column: pa.Array) -> pa.Array:
    """Return a column with NULL for values that are, or hold, a map in which a key is twice or missing.

    DuckDB reads no such map, where Spark and Parquet have them.
    """
    bad = _ambiguous(column)
    return column.take(pa.array(np.arange(len(column)), mask=bad)) if bad.any() else column


def _ambiguous(column: pa.Array) -> np.ndarray:
    """Return for each value whether it is, or holds, such a map."""
    kind, bad = column.type, np.zeros(len(column), bool)
    if not has_map(kind) or not len(column):
        return bad
    if isinstance(column, pa.ExtensionArray):
        return _ambiguous(column.storage)
    if pa.types.is_struct(kind):
        for field in column.flatten():
            bad |= _ambiguous(field)
        return bad
    if any(is_other(kind) for is_other in _OTHER_LISTS):
        column = column.cast(pa.large_list(kind.value_field))
    offsets = column.offsets.to_numpy(zero_copy_only=False)
    of_row = np.repeat(np.arange(len(column)), np.diff(offsets))
    start, count = offsets[0], offsets[-1] - offsets[0]
    if not pa.types.is_map(kind):
        bad[of_row[_ambiguous(column.values.slice(start, count))]] = True
        return bad
    keys, items = (part.slice(start, count) for part in (column.keys, column.items))
    inside = _ambiguous(keys) | _ambiguous(items) | keys.is_null().to_numpy(zero_copy_only=False)
    bad[of_row[inside]] = True
    pairs = np.stack([of_row, _codes(keys)], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    again = np.ones(count, bool)
    again[first] = False
    bad[of_row[again]] = True
    return bad


def _codes(keys: pa.Array) -> np.ndarray:
    """Return equal numbers for keys that DuckDB may take for equal."""
    if pa.types.is_floating(keys.type):
        keys = pc.if_else(pc.is_nan(keys), pa.scalar(float("nan"), keys.type), keys)
        keys = pc.if_else(pc.equal(keys, 0), pa.scalar(0, keys.type), keys)
    if keys.type.num_fields:  # Arrow numbers no nested values; zeros of both signs have one text then
        keys = pa.array([repr(key).replace("-0.0", "0.0") for key in keys.to_pylist()], pa.string())
    codes: np.ndarray = keys.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes
