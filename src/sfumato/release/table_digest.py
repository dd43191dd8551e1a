"""A digest of a table: of its values, whatever file or order they come in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
import pyarrow as pa

_BATCH = 1 << 16


def table_digest(table: pa.Table) -> str:
    """Return the digest of a table: SHA-256, in hexadecimal digits, of its values in any order.

    It is that of lines of ASCII text, each ended by a line feed: a JSON list of the columns' names, sorted;
    then, for each row, a JSON list of its values in that order, these lines sorted. A value is null, true or
    false, a whole number, a text, or a list of values; and as a list of its kind and a text: a float64,
    ["f", its 64 bits as 16 hexadecimal digits], ["d", a decimal without zeros at its end], ["t", a date or
    time in ISO 8601, of UTC where it has a zone], ["b", bytes in hexadecimal digits].

    So neither the order of rows and columns matters, nor how wide whole numbers are stored.

    >>> table = pa.table({"town": ["B", "A"], "n": pa.array([2, 1], pa.int32())})
    >>> same = pa.table({"n": [1, 2], "town": ["A", "B"]})
    >>> table_digest(table) == table_digest(same), table_digest(table) == table_digest(same.slice(1))
    (True, False)
    """
    return digests(table)[0]


def digests(table: pa.Table) -> tuple[str, list[str]]:
    """Return the digests of a table and of its columns."""
    texts = {name: _texts(table[name]) for name in table.column_names}
    names = sorted(texts)
    lines = sorted(_lines([texts[name] for name in names], table.num_rows))
    whole = _digest([json.dumps(names, separators=(",", ":")), *lines])
    return whole, [_digest(texts[name]) for name in table.column_names]


def column_digest(column: pa.ChunkedArray) -> str:
    """Return the digest of a column's values in their order."""
    return _digest(_texts(column))


def _digest(lines: Sequence[str]) -> str:
    found = hashlib.sha256()
    for start in range(0, len(lines), _BATCH):
        found.update("".join(f"{line}\n" for line in lines[start : start + _BATCH]).encode("ascii"))
    return found.hexdigest()


def _lines(columns: Sequence[Sequence[str]], rows: int) -> Iterable[str]:
    if not columns:
        return ["[]"] * rows
    return (f"[{','.join(row)}]" for row in zip(*columns, strict=True))


def _texts(column: pa.ChunkedArray) -> list[str]:
    """Return a column's values as JSON texts, for the table's digest."""
    return [text for chunk in column.chunks for text in _written(chunk)]


def _written(array: Any) -> list[str]:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _written(array.storage)
    if pa.types.is_dictionary(kind):
        return _written(array.dictionary_decode())
    if pa.types.is_floating(kind):
        bits = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        # All NaN are one.
        bits = np.where(np.isnan(bits), np.float64("nan"), bits).view(np.uint64).tolist()
        texts = [f'["f","{number:016x}"]' for number in bits]
        for place in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            texts[place] = "null"
        return texts
    if pa.types.is_struct(kind):
        return _objects(array)
    if pa.types.is_union(kind):
        return [f'["u",{one.type_code},{_written(pa.array([one.value]))[0]}]' for one in array]
    if pa.types.is_nested(kind):  # lists, and maps as lists of pairs
        parts = (None if one is None else _written(one) for one in map(_values, array))
        return ["null" if part is None else f"[{','.join(part)}]" for part in parts]
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _times(array)
    if pa.types.is_integer(kind):
        return ["null" if value is None else str(value) for value in array.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ["null" if value is None else encode_basestring_ascii(value) for value in array.to_pylist()]
    return [_one(value) for value in array.to_pylist()]


def _values(one: Any) -> Any:
    return one.values


def _objects(array: Any) -> list[str]:
    """Return structs as JSON objects with sorted names, for the table's digest."""
    fields = sorted((field.name, place) for place, field in enumerate(array.type))
    parts = [_written(part) for part in array.flatten()]
    begins = [(f"{json.dumps(name)}:", parts[place]) for name, place in fields]
    return [
        f"{{{','.join(begin + part[row] for begin, part in begins)}}}" if valid else "null"
        for row, valid in enumerate(array.is_valid().to_pylist())
    ]


def _times(array: Any) -> list[str]:
    """Return dates and times as text with all digits, for the table's digest."""
    kind, tag = array.type, "t"
    if pa.types.is_date(kind):
        days = array.cast(pa.date32(), safe=False)
        texts = np.datetime_as_string(_numbers(days, pa.int32()).astype("datetime64[D]")).tolist()
    elif pa.types.is_timestamp(kind):
        moments = _numbers(array, pa.int64()).view(f"datetime64[{kind.unit}]")
        digits = {"s": ".000000000", "ms": "000000", "us": "000", "ns": ""}[kind.unit]
        zone = "Z" if kind.tz else ""
        texts = [text + digits + zone for text in np.datetime_as_string(moments, kind.unit).tolist()]
    elif pa.types.is_time(kind):
        texts = [_format_time(int(number)) for number in _numbers(array.cast(pa.time64("ns")), pa.int64())]
    else:
        tag = str(kind)
        texts = [str(number) for number in _numbers(array, pa.int64())]
    valid = array.is_valid().to_pylist()
    return [_tagged(tag, text if one else None) for text, one in zip(texts, valid, strict=True)]


def _numbers(array: Any, kind: pa.DataType) -> Any:
    """Return the integers in which dates or times are stored; 0 where one is missing."""
    return array.view(kind).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def _format_time(nanoseconds: int) -> str:
    """Return a time of day in ISO 8601 for the table's digest, with 0, 6 or 9 digits as needed."""
    seconds, part = divmod(nanoseconds, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:09}"
    return text.removesuffix("000").removesuffix(".000000")


def exact_text(value: Decimal) -> str:
    """Return a decimal with all of its digits for the table's digest, without zeros at the end.

    >>> exact_text(Decimal("12345678901234567890123456789012345670.50"))
    '12345678901234567890123456789012345670.5'
    >>> exact_text(Decimal("100")), exact_text(Decimal("0.00"))
    ('100', '0')
    """
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _tagged(kind: str, text: str | None) -> str:
    return "null" if text is None else f'["{kind}",{json.dumps(text)}]'


def _one(value: Any) -> str:
    match value:
        case None | bool() | int() | str():
            return json.dumps(value)
        case Decimal():
            return _tagged("d", exact_text(value))
        case bytes():
            return _tagged("b", value.hex())
    return _tagged(type(value).__name__, str(value))
