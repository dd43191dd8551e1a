"""Blocks of lines to columns of texts, all lines at once, where each line is a record by itself.

Where one is not (a text of several lines, a quote in the wrong place) nothing is returned, and `lines` reads
the block record by record; it gives the same for every block that is read here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.duckdb.harmless import harmless
from sfumato.query import sizes

_BREAK, _RETURN = b"\n\r"


def columns_of(
    block: bytes, delimiter: str, quote: str, least: int, count: int, wanted: Sequence[int]
) -> list[pa.Array] | None:
    """Return the wanted fields of each line that is a record; an empty field is NULL.

    A record has a field for each column, of which some at the end may be missing, or more that are empty.

    >>> columns_of(b'1,"a, b"\\r\\n2\\n3,\\n4,c,', ",", '"', 2, 2, [0, 1])[1].to_pylist()
    ['a, b', None, 'c']
    """
    if not (delimiter.isascii() and quote.isascii()) or len(block) > sizes.BLOCK_BYTES:
        return None
    data = np.frombuffer(block + b"\n", np.uint8)
    keep = np.ones(len(data), bool)
    marks = (data == ord(delimiter)) | (data == _BREAK)
    if quote.encode() in block:
        places = np.flatnonzero(marks | (data == ord(quote)))
        separators = _outside_quotes(data, places, ord(delimiter), ord(quote), keep)
        if separators is None:
            return None
    else:
        separators = np.flatnonzero(marks)
    ends = np.flatnonzero(data[separators] == _BREAK)
    texts = _between(data, separators, separators[ends], keep)
    firsts = np.append(0, ends[:-1] + 1)
    found = ends + 1 - firsts
    fits = found == count
    if not fits.all():
        fits |= (least <= found) & (found < count)
        filled = np.append(0, np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False)))
        columns_end = firsts + np.minimum(found, count)
        fits |= (found > count) & (filled[firsts + found] == filled[columns_end])
    rows, found = firsts[fits], found[fits]
    short = (found < count).any()
    return [harmless(texts.take(pa.array(rows + i, mask=found <= i if short else None))) for i in wanted]


def lines_of(block: bytes) -> pa.Array:
    """Return the lines of a block as texts."""
    data = np.frombuffer(block + b"\n", np.uint8)
    ends = np.flatnonzero(data == _BREAK)
    return harmless(_between(data, ends, ends, np.ones(len(data), bool)))


def _outside_quotes(
    data: npt.NDArray[np.uint8],
    places: npt.NDArray[np.int64],
    delimiter: int,
    quote: int,
    keep: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64] | None:
    """Return the places that separate fields, and mark what stands for no text; None for an odd block."""
    is_quote = data[places] == quote
    inside = ((np.cumsum(is_quote) - is_quote) % 2).astype(bool)
    if (inside & (data[places] == _BREAK)).any():
        return None
    opening, closing = places[is_quote & ~inside], places[is_quote & inside]
    before = np.where(opening > 0, data[opening - 1], _BREAK)
    begins = (before == delimiter) | (before == _BREAK)
    after = data[closing + 1]
    at_end = (after == _RETURN) & (data[np.minimum(closing + 2, len(data) - 1)] == _BREAK)
    ends = at_end | (after == delimiter) | (after == _BREAK) | (after == quote)
    if not (begins | (before == quote)).all() or not ends.all():
        return None
    keep[opening[begins]] = keep[closing] = False
    separators: npt.NDArray[np.int64] = places[~is_quote & ~inside]
    return separators


def _between(
    data: npt.NDArray[np.uint8],
    separators: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    keep: npt.NDArray[np.bool_],
) -> pa.Array:
    """Return what is kept between separators as texts, NULL where it is nothing."""
    keep[separators] = False
    returns = ends[ends > 0] - 1
    keep[returns[data[returns] == _RETURN]] = False
    offsets = np.append(0, np.cumsum(keep)[separators]).astype(np.int64)
    valid = np.packbits(np.diff(offsets) > 0, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, offsets, data[keep])]
    return pa.Array.from_buffers(pa.large_string(), len(separators), buffers)
