"""Columns in a form in which no value raises: what a type cannot hold is NULL, row by row.

DuckDB stops, and may even close the whole database, on text that is not UTF-8, on times that a calendar or
a clock does not have, and on times whose unit it cannot convert. Whether one row holds such a value must
not show. Two layers see to it: `sanitize` on Arrow, where converting to DuckDB's types would already raise,
and `within_types` in SQL, which every source passes. Both go into lists, structs and maps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.engines.duckdb.connection import check_out
from sfumato.errors import in_own_words
from sfumato.query.schema import FLOATS
from sfumato.sql_text import identifier, literal

# What tells a type with offsets, makes it of its parts, and makes arrays of it.
_LISTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[..., pa.DataType], Any], ...] = (
    (pa.types.is_map, pa.map_, pa.MapArray),
    (pa.types.is_list, pa.list_, pa.ListArray),
    (pa.types.is_large_list, pa.large_list, pa.LargeListArray),
    (pa.types.is_list_view, pa.list_view, pa.ListViewArray),
    (pa.types.is_large_list_view, pa.large_list_view, pa.LargeListViewArray),
)
# A name in quotes, or an ENUM with its labels, which may be none.
_ENUM = re.compile(r"""("(?:[^"]|"")*")|\bENUM\((?:'(?:[^']|'')*'(?:, )?)*\)""")


@lru_cache(1 << 10)
def list_nested_types(kind: str) -> list[tuple[str, str]]:
    """Return names and types of what a nested DuckDB type holds; of a list or an array its elements alone."""
    # `duckdb.sqltype` asks the default connection, which belongs to whoever runs the process.
    with check_out(leaves_nothing=True) as connection:
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
    """Return SQL of a sanitized nested value: NULL for what its type cannot hold; None where all fits.

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
    children = list_nested_types(kind)
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
    """Return a nested Arrow type with other fields in the places of its `parts`."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(*fields, kind.list_size)
    made = next((made for is_one, made, _ in _LISTS if is_one(kind)), None)
    return pa.struct(fields) if made is None else made(*fields)


def drop_duplicate_keys(column: pa.MapArray, keys: pa.Array) -> pa.MapArray:
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
    """Return equal codes for map keys that DuckDB may take for equal."""
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


# Reading JSON takes some 50 times its text, and DuckDB reads 2,048 values at once.
JSON_BYTES = 1 << 18
_TEXTS = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
# DuckDB crashes at views of short texts that Arrow 24 cast; and a slice of views has all bytes of the whole.
VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_COARSE = "s", "ms"
# Types at some values of which DuckDB's reader of Parquet stops.
_STOPPING = "VARCHAR", "TIME"
# Types that `within_types` leaves as they are.
_KEPT = re.compile(
    r"BOOLEAN|U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|BLOB|DATE|TIME|"
    r"TIMESTAMP( WITH TIME ZONE)?"
)
_DAYS = "DATE '0001-01-01' AND DATE '9999-12-31'"
_TIMES = "TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
INSTANTS = "TIMESTAMPTZ '0001-01-01 00:00:00+00' AND TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"
# The type, if it is another, as which dates and times are read, and between what.
_CALENDARS = {
    "DATE": ("", _DAYS),
    "TIMESTAMP": ("", _TIMES),
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), ("TIMESTAMP", _TIMES)),
    "TIMESTAMP WITH TIME ZONE": ("", INSTANTS),
    "TIMESTAMPTZ_NS": ("TIMESTAMPTZ", INSTANTS),
}


def within_types(
    relation: str,
    described: Iterable[tuple[str, str]],
    *,
    check_text: bool = False,
    decoded: bool = True,
    proven: Set[str] = frozenset(),
) -> str:
    """Return SQL behind FROM with sanitized columns: each value is one that its type has.

    An ENUM is text: its labels and their order may follow from everybody's rows.
    Dates and times are those of the years 1 to 9999, or infinite; times of day those of one day; decimals
    have no more digits than declared; JSON is well formed and short; maps have each key once. Others are
    NULL, also inside of lists, structs and maps. Times are whole microseconds.

    Args:
        relation: what stands behind FROM now.
        described: names and DuckDB types of its columns.
        check_text: whether nobody has checked yet that texts are UTF-8.
        decoded: whether a value is there once its column is read. Where it is not, DuckDB answers `x IS NULL`
            from what a file says of itself, also for values at which it would stop: then it is made to look.
        proven: columns of dates and decimals all whose values are known to be ones that their type has.
    """
    columns, changed = [], False
    for name, kind in described:
        texts = with_texts(kind)
        place = identifier(name) if texts == kind else f"CAST({identifier(name)} AS {texts})"
        value = place if name in proven else _within(place, texts, check_text) or place
        if not decoded and is_nested(kind):
            value = f"TRY({value})"  # of which DuckDB knows nothing
        elif not decoded and kind.startswith(_STOPPING):
            value = f"CASE WHEN {_looked_at(place, kind)} THEN {value} END"
        changed |= value != identifier(name)
        columns.append(value if value == identifier(name) else f"{value} AS {identifier(name)}")
    return f"(SELECT {', '.join(columns)} FROM {relation})" if changed else relation


def _looked_at(name: str, kind: str) -> str:
    """Return a SQL condition that is true of each value, and of none before it is decoded."""
    return f"{'strlen' if kind == 'VARCHAR' else 'hash'}({name}) >= 0"


def may_become_null(kind: str) -> bool:
    """Whether sanitizing may make a value of a DuckDB type NULL."""
    return (
        kind == "VARCHAR" or is_nested(kind) or (kind not in FLOATS and _within("x", kind, False) is not None)
    )


def _within(name: str, kind: str, check_text: bool) -> str | None:
    if kind == "VARCHAR":
        return f"TRY(decode(encode({name})))" if check_text else None
    if kind in FLOATS:
        # Of one NaN, as its sign shows in text. And what DuckDB computes is not what it is told of a column:
        # the smallest and largest values that Parquet names leave out NaN, which it takes for the largest, so
        # that whether a row with NaN passes a condition would follow from the rows beside it.
        return f"CASE WHEN isnan({name}) THEN 'nan'::{kind} ELSE {name} END"
    if kind in _CALENDARS:
        read_as, span = _CALENDARS[kind]
        time = f"TRY_CAST({name} AS {read_as})" if read_as else name
        return f"CASE WHEN {time} BETWEEN {span} OR NOT isfinite({time}) THEN {time} END"
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
        short = f"CASE WHEN strlen({name}) <= {JSON_BYTES} THEN {name} END"
        return f"CASE WHEN json_valid({short}) THEN {name} END"
    if is_nested(kind):
        return within_nested(name, kind, lambda value, of: _within(value, of, False))
    return None


def describe_relation(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]]:
    """Return names and types of the columns of a relation; no row is read."""
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()]


def try_describe_relation(
    connection: duckdb.DuckDBPyConnection, relation: str
) -> list[tuple[str, str]] | None:
    """Return names and types of the columns of a relation; None where it cannot be read."""
    with suppress(Exception), in_own_words():
        return describe_relation(connection, relation)
    return None


def within(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    kinds: Sequence[tuple[str, str]],
    *,
    check_text: bool = False,
    decoded: bool = True,
    proven: Set[str] = frozenset(),
) -> tuple[str, list[tuple[str, str]]]:
    """Return SQL behind FROM with sanitized columns, and their names and types."""
    inside = within_types(relation, kinds, check_text=check_text, decoded=decoded, proven=proven)
    same = inside == relation or all(_KEPT.fullmatch(kind) for _, kind in kinds)
    return inside, list(kinds) if same else describe_relation(connection, inside)


def sanitize_table(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return an Arrow table with some columns sanitized, by name."""
    for i, (field, stays) in enumerate(zip(sanitize_schema(table.schema), table.schema, strict=True)):
        if field.name in columns and _needs_care(stays.type):
            chunks = [sanitize(chunk) for chunk in table.column(i).chunks]
            table = table.set_column(i, field, pa.chunked_array(chunks, field.type))
    return table


def sanitize_schema(schema: pa.Schema) -> pa.Schema:
    """Return the types of a schema's sanitized columns."""
    return pa.schema([field.with_type(sanitize(pa.nulls(0, field.type)).type) for field in schema])


def sanitize(column: pa.Array, *, within: bool = False) -> pa.Array:
    """Return a sanitized Arrow column, which DuckDB reads as the same type whatever is in it.

    Views become texts and bytes with offsets. Text that is not UTF-8 is NULL, also inside of a list, struct
    or map; so is a time in seconds or milliseconds that does not fit microseconds, and a map with a key twice
    or with one that is NULL.

    Args:
        column: of any type.
        within: whether it is a part of nested values: then values are written out in place of codes, as
            DuckDB stops at lists of these where the first 2,048 are empty.

    >>> sanitize(pa.array([b"a", b"\\xff"]).view(pa.string())).to_pylist()
    ['a', None]
    """
    kind = column.type
    if within and pa.types.is_dictionary(kind):
        return sanitize(decode_dictionary(column), within=True)
    if not _needs_care(kind):
        return column
    if isinstance(column, pa.ExtensionArray):
        storage = sanitize(column.storage)
        if isinstance(kind, pa.JsonType):
            kind = pa.json_(storage.type)
        return pa.ExtensionArray.from_storage(kind, storage) if storage.type == kind.storage_type else storage
    if pa.types.is_dictionary(kind):
        return _sanitize_dictionary(column)
    if pa.types.is_run_end_encoded(kind):
        runs = pa.RunEndEncodedArray.from_arrays(column.run_ends, sanitize(column.values))
        return runs.slice(column.offset, len(column))
    if _coarse(kind):
        return _fitting(column)
    if kind.num_fields:
        return _sanitize_nested(column)
    column = replace_views(column)
    return column if _is_utf8(column) else pa.concat_arrays([*_without_bad_text(column)])


def _sanitize_nested(column: pa.Array) -> pa.Array:
    column = pa.concat_arrays([column])  # what is left of others in a slice is no value of it
    kind = column.type
    if pa.types.is_map(kind):
        column = drop_duplicate_keys(column, sanitize(column.keys, within=True))
        arrays = [column.keys, column.items]
    else:
        is_struct = pa.types.is_struct(kind)
        arrays = [column.field(i) for i in range(kind.num_fields)] if is_struct else [column.values]
    arrays = [sanitize(array, within=True) for array in arrays]
    fields = [field.with_type(of.type) for field, of in zip(parts(kind), arrays, strict=True)]
    kind, absent = with_parts(kind, fields), column.is_null()
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(*arrays, type=kind, mask=absent)
    lists = next(array for is_one, _, array in _LISTS if is_one(kind))
    places = [column.offsets, column.sizes] if hasattr(column, "sizes") else [column.offsets]
    return lists.from_arrays(*places, *arrays, type=kind, mask=absent)


def decode_dictionary(column: pa.DictionaryArray) -> pa.Array:
    """Return the values of a dictionary in the places of their codes."""
    values = column.dictionary
    # Under a NULL a code may stand for nothing.
    import pyarrow.compute as pc

    codes = pc.if_else(pc.less(column.indices, len(values)), column.indices, None)
    return replace_views(values).take(codes)


def replace_views(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a column of texts or bytes with offsets in place of views; any other one as it is."""
    return column.cast(VIEWS[column.type]) if column.type in VIEWS else column


def _is_text(kind: pa.DataType) -> bool:
    return any(is_text(kind) for is_text in _TEXTS)


def _coarse(kind: pa.DataType) -> bool:
    return (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) and kind.unit in _COARSE


def _needs_care(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _needs_care(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _needs_care(kind.value_type)
    if kind.num_fields and not pa.types.is_union(kind):
        inner = [kind.field(i).type for i in range(kind.num_fields)]
        # DuckDB stops at a part of a longer column with structs in structs, even of sanitized values.
        return pa.types.is_map(kind) or any(
            of.num_fields or pa.types.is_dictionary(of) or _needs_care(of) for of in inner
        )
    return _is_text(kind) or kind in VIEWS or _coarse(kind)


def _sanitize_dictionary(column: pa.DictionaryArray) -> pa.Array:
    values = sanitize(column.dictionary)
    if values is column.dictionary:
        return column
    valid = values.is_valid().take(column.indices)
    import pyarrow.compute as pc

    indices = pc.if_else(valid, column.indices, pa.scalar(None, column.indices.type))
    return pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered)


def _fitting(column: pa.Array) -> pa.Array:
    """Return sanitized times in coarse units: NULL where 64 bits of microseconds cannot hold them.

    The largest and the smallest number but one are infinite timestamps, as in Parquet, and to DuckDB. With a
    time zone they are in microseconds, as DuckDB would multiply these too.
    """
    kind, is_time = column.type, pa.types.is_timestamp(column.type)
    times = 10**6 if kind.unit == "s" else 10**3
    most = (2**63 - 1) // times
    numbers = column.view(pa.int64())
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    infinite = (values == 2**63 - 1) | (values == 1 - 2**63) if is_time else np.zeros(len(values), bool)
    absent = ((values < -most) | (values > most)) & ~infinite
    zoned = is_time and kind.tz is not None
    if not zoned and not column.null_count and not absent.any():
        return column
    if column.null_count:
        absent |= numbers.is_null().to_numpy(zero_copy_only=False)
    # DuckDB converts what is under a NULL too.
    values = np.where(absent, 0, values)
    if zoned:
        values, kind = (
            np.where(infinite, values, np.where(infinite, 0, values) * times),
            pa.timestamp("us", kind.tz),
        )
    return pa.array(values, mask=absent).view(kind)


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _without_bad_text(column: pa.Array) -> Iterator[pa.Array]:
    """Yield a sanitized column of texts in pieces: NULL for those that are not UTF-8."""
    if _is_utf8(column):
        yield column
    elif len(column) == 1:
        yield pa.nulls(1, column.type)
    else:
        half = len(column) // 2
        yield from _without_bad_text(column.slice(0, half))
        yield from _without_bad_text(column.slice(half))
