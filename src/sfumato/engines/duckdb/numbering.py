"""Numbers from 0 of what values are known by: 64-bit codes, or whole numbers that lie near each other."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.query import sizes

Codes = NDArray[np.uint64]
Small = NDArray[np.int32]
Numbers = NDArray[np.int64]

# Odd numbers with bits all over; what collides by one of them is told apart by the next.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)

Kind = TypeVar("Kind", bound=np.generic)


class Numbering:
    """Numbers of codes from 0, in their order, by tables: a search takes ten times as long.

    Args:
        codes: none twice.

    >>> Numbering(np.array([7, 5, 2**60], np.uint64))(np.array([5, 5, 2**60], np.uint64)).tolist()
    [1, 1, 2]
    """

    def __init__(self, codes: Codes) -> None:
        self._tables: list[tuple[np.uint64, np.uint64, Small]] = []
        numbers = np.arange(len(codes), dtype=np.int32)
        for factor in map(np.uint64, _FACTORS):
            if not len(codes):
                break
            bits = (4 * len(codes)).bit_length()
            shift = np.uint64(64 - bits)
            place = (codes * factor) >> shift
            table = np.zeros(1 << bits, np.int32)
            table[place] = numbers
            table[place[table[place] != numbers]] = -1
            self._tables.append((factor, shift, table))
            again = table[place] < 0
            codes, numbers = codes[again], numbers[again]
        order = np.argsort(codes)
        self._sorted, self._numbers = codes[order], numbers[order]

    def __call__(self, codes: Codes) -> Small:
        """Return the number of each code, all of which are among those that have one."""
        found = np.zeros(len(codes), np.int32)
        left: Numbers | slice = slice(None)
        for factor, shift, table in self._tables:
            number = table[(codes * factor) >> shift]
            found[left] = number
            again = np.flatnonzero(number < 0)
            if not len(again):
                return found
            left, codes = again if isinstance(left, slice) else left[again], codes[again]
        if len(self._sorted):
            found[left] = self._numbers[np.searchsorted(self._sorted[:-1], codes)]
        return found


class Near:
    """Numbers from 0 of whole numbers, in their order, by a table of all from the least to the largest.

    Args:
        kind: the type of columns of them.

    >>> near = Near(pa.int8())
    >>> near.add(pa.array([7, -5, 7], pa.int8())), near.add(pa.array([6], pa.int8()))
    (True, True)
    >>> near.found().tolist(), near(pa.array([7, -5], pa.int8())).tolist()
    ([-5, 6, 7], [2, 0])
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._type = np.dtype(f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}")
        self._least, self._there = 0, np.zeros(0, bool)
        self._numbers = np.zeros(0, np.int32)

    def add(self, column: pa.Array) -> bool:
        """Know some more, none of which is missing; return False where they lie too far from each other."""
        values = self._values(column)
        if not len(values):
            return True
        least, end = int(values.min()), int(values.max()) + 1
        if len(self._there):
            least, end = min(least, self._least), max(end, self._least + len(self._there))
        if end - least > sizes.TABLE_RANGE:
            return False
        if end - least > len(self._there):
            wider = np.zeros(end - least, bool)
            start = max(self._least - least, 0)
            wider[start : start + len(self._there)] = self._there
            self._least, self._there = least, wider
        self._there[self._places(values)] = True
        return True

    def found(self) -> pa.Array:
        """Return those that there are, as a column of the same type, and number them."""
        self._numbers = np.cumsum(self._there, dtype=np.int32) - np.int32(1)
        values = (np.flatnonzero(self._there) + self._signed_least).astype(self._type)
        return pa.Array.from_buffers(self._kind, len(values), [None, pa.py_buffer(values)])

    def __call__(self, column: pa.Array) -> Small:
        """Return the number of each, all of which are known."""
        # Clipped, as a file that changes while it is read may have others.
        found: Small = self._numbers.take(self._places(self._values(column)), mode="clip")
        return found

    def _values(self, column: pa.Array) -> NDArray[np.integer]:
        each = self._type.itemsize
        return np.frombuffer(column.buffers()[1] or b"", self._type, len(column), each * column.offset)

    def _places(self, values: NDArray[np.integer]) -> Numbers:
        places: Numbers = values.astype(np.int64)
        places -= self._signed_least
        return places

    @property
    def _signed_least(self) -> np.int64:
        """The least number as NumPy makes it one of 64 bits with a sign: modulo 2^64, as differences are."""
        return np.int64((self._least + (1 << 63)) % (1 << 64) - (1 << 63))


def looked_up(table: NDArray[Kind], places: Small) -> NDArray[Kind]:
    """Return what a table has at some places, most of an array as long as they are at a time."""
    found = np.empty(len(places), table.dtype)
    for start in range(0, len(places), sizes.LOOKED_UP):
        part = slice(start, start + sizes.LOOKED_UP)
        # NumPy finds places by numbers of 64 bits in half the time.
        found[part] = table[places[part].astype(np.int64)]
    return found


def codes_of(column: pa.Array) -> Codes:
    """Return codes, none of which is missing; `to_numpy` of Arrow would import pandas."""
    return np.frombuffer(column.buffers()[1] or b"", np.uint64, len(column), 8 * column.offset)
