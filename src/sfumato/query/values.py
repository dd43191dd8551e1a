"""A digest of a table: of its values, whatever file or order they come in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BATCH = 1 << 16


def table_digest(table: pa.Table) -> str:
    """Return the SHA-256, in hexadecimal digits, of what a table says.

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
    """Return the digest of a table, and those of its columns, as `column_digest` gives them."""
    texts = {name: _texts(table[name]) for name in table.column_names}
    names = sorted(texts)
    lines = sorted(_lines([texts[name] for name in names], table.num_rows))
    whole = _digest([json.dumps(names, separators=(",", ":")), *lines])
    return whole, [_digest(texts[name]) for name in table.column_names]


def column_digest(column: pa.ChunkedArray) -> str:
    """Return the SHA-256 of a column's values in their order, each a line as in `table_digest`."""
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
    """Return a column's values as JSON."""
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
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        parts = (None if one is None else _written(one) for one in map(_values, array))
        return ["null" if part is None else f"[{','.join(part)}]" for part in parts]
    if pa.types.is_timestamp(kind):
        return [_tagged("t", text) for text in _moments(array)]
    if pa.types.is_integer(kind):
        return ["null" if value is None else str(value) for value in array.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ["null" if value is None else encode_basestring_ascii(value) for value in array.to_pylist()]
    return [_one(value) for value in array.to_pylist()]


def _values(one: Any) -> Any:
    return one.values


def _moments(array: Any) -> list[str | None]:
    """Return times with all digits, as nanoseconds have more than Python's."""
    texts = array.cast(pa.timestamp("ns", array.type.tz)) if array.type.unit != "ns" else array
    zone = "Z" if array.type.tz else ""
    plain = pc.strftime(texts.cast(pa.timestamp("ns")), format="%Y-%m-%dT%H:%M:%S").to_pylist()
    return [None if text is None else text + zone for text in plain]


def _tagged(kind: str, text: str | None) -> str:
    return "null" if text is None else f'["{kind}",{json.dumps(text)}]'


def _one(value: Any) -> str:
    from datetime import date, time
    from decimal import Decimal

    match value:
        case None | bool() | int() | str():
            return json.dumps(value)
        case Decimal():
            return _tagged("d", format(value.normalize() if value else Decimal(0), "f"))
        case date() | time():
            return _tagged("t", value.isoformat())
        case bytes():
            return _tagged("b", value.hex())
        case dict():
            return f"{{{','.join(f'{json.dumps(k)}:{_one(v)}' for k, v in sorted(value.items()))}}}"
        case list():
            return f"[{','.join(map(_one, value))}]"
        case float():
            return _written(pa.array([value]))[0]
    return _tagged(type(value).__name__, str(value))
