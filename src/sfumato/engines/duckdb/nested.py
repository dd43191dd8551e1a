"""Values inside of lists, structs and maps that would stop DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sfumato.engines.duckdb.connection import lent
from sfumato.engines.duckdb.text import identifier, literal
from sfumato.query.schema import FLOATS

_LISTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[..., pa.DataType]], ...] = (
    (pa.types.is_map, pa.map_),
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)
# A name in quotes, or an ENUM with its labels, which may be none.
_ENUM = re.compile(r"""("(?:[^"]|"")*")|\bENUM\((?:'(?:[^']|'')*'(?:, )?)*\)""")


@lru_cache(1 << 10)
def parts_of(kind: str) -> list[tuple[str, str]]:
    """Return names and types of what a nested DuckDB type holds; of a list or an array its elements alone."""
    # `duckdb.sqltype` asks the default connection, which belongs to whoever runs the process.
    with lent(leaves_nothing=True) as connection:
        parts = connection.sqltype(kind).children
    return [(field, str(of)) for field, of in parts[: 1 if kind.endswith("]") else None]]


def is_nested(kind: str) -> bool:
    """Whether a DuckDB type is a list, an array, a struct or a map."""
    return kind.endswith("]") or kind.startswith(("STRUCT(", "MAP("))


def with_texts(kind: str) -> str:
    """Return a DuckDB type with text in place of each ENUM.

    >>> with_texts("STRUCT(a ENUM('x', 'y')[], b INTEGER)")
    'STRUCT(a VARCHAR[], b INTEGER)'
    """
    return _ENUM.sub(lambda found: found[1] or "VARCHAR", kind)


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
        return value if kind in FLOATS else value and f"CASE WHEN {value} IS NOT NULL THEN {name} END"
    children = parts_of(kind)
    one = identifier(f"each{depth}")
    if kind.startswith("MAP(") and not kind.endswith("]"):
        parts = [f"{one}.key", f"{one}.value"]
        inside = [within_nested(p, of, within, depth + 1) for p, (_, of) in zip(parts, children, strict=True)]
        keys = f"map_keys({name})"  # in Parquet and Spark a key may stand twice
        sound = f"len(list_distinct({keys})) = len({keys})"
        if not any(inside):
            return f"CASE WHEN {sound} THEN {name} END"
        key, value = (new or old for new, old in zip(inside, parts, strict=True))
        entry = f"{{'key': {key}, 'value': {value}}}"
        pairs = f"list_transform(map_entries({name}), lambda {one}: {entry})"
        made = f"TRY(map_from_entries(list_filter({pairs}, lambda {one}: {one}.key IS NOT NULL)))"
        return f"CASE WHEN {sound} THEN {made} END"
    if kind.endswith("]"):
        item = within_nested(one, children[0][1], within, depth + 1)
        return item and f"TRY_CAST(list_transform({name}, lambda {one}: {item}) AS {kind})"
    fields = [(f, f"struct_extract({name}, {literal(f)})", of) for f, of in children]
    inner = [(f, part, within_nested(part, of, within, depth)) for f, part, of in fields]
    if not any(value for _, _, value in inner):
        return None
    packed = ", ".join(f"{identifier(f)} := {value or part}" for f, part, value in inner)
    return f"CASE WHEN {name} IS NOT NULL THEN struct_pack({packed}) END"


def parts(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, the keys and items of a map, the values of a list."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]


def with_parts(kind: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    """Return a nested type with other fields in the places of its `parts`."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(*fields, kind.list_size)
    made = next((made for is_one, made in _LISTS if is_one(kind)), None)
    return pa.struct(fields) if made is None else made(*fields)


def without_equal_keys(column: pa.MapArray, keys: pa.Array) -> pa.MapArray:
    """Return a column of maps with NULL for those in which a key is twice, or missing.

    DuckDB reads no such map, where Spark and Parquet have them.

    Args:
        column: which begins at the first of its keys.
        keys: its keys, NULL where they can be none.
    """
    offsets = column.offsets.to_numpy()
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    codes = _codes(keys)[offsets[0] : offsets[-1]]
    order = np.lexsort((codes, rows))
    again = (np.diff(rows[order]) == 0) & (np.diff(codes[order]) == 0)
    unsound = np.zeros(len(column), bool)
    unsound[rows[order][1:][again]] = True
    unsound[rows[codes < 0]] = True
    if not unsound.any():
        return column
    edges = [0, *(np.flatnonzero(np.diff(unsound)) + 1).tolist(), len(column)]
    runs = [column.slice(start, end - start) for start, end in pairwise(edges)]
    ill = unsound[edges[:-1]]
    return pa.concat_arrays([pa.nulls(len(r), r.type) if i else r for r, i in zip(runs, ill, strict=True)])


def _codes(keys: pa.Array) -> np.ndarray:
    """Return equal numbers for keys that DuckDB may take for equal."""
    if isinstance(keys, pa.ExtensionArray):
        keys = keys.storage
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    if pa.types.is_floating(keys.type):
        import pyarrow.compute as pc

        keys = pc.if_else(pc.is_nan(keys), pa.scalar(float("nan"), keys.type), keys)
        keys = pc.if_else(pc.equal(keys, 0), pa.scalar(0, keys.type), keys)
    if pa.types.is_decimal(keys.type) and keys.type.bit_width < 128:
        keys = keys.cast(pa.decimal128(keys.type.precision, keys.type.scale))
    codes: np.ndarray = keys.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes
