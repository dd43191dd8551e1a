"""A matching of units to values that is as good as largest, made of pairs as they come.

Both are known by 64-bit codes. Arrays here are as long as there are values, and as there are buckets of
units, whatever the number of pairs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Codes = NDArray[np.uint64]
Numbers = NDArray[np.int64]
Small = NDArray[np.int32]
Marks = NDArray[np.bool_]

_MOST_BUCKETS = 1 << 22
# Odd numbers with bits all over; what collides by one of them is told apart by the next.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
# Units by how many pairs they have: up to 1, 2, 3, 4, 6, and so on.
_CLASS = np.searchsorted((1, 2, 3, 4, 6, 8, 12, 20, 40), np.arange(42)).astype(np.uint8)
_MIXING, _MOST_ROUNDS = np.int32(0x9E3779B), 50


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


class Greedy:
    """A matching that takes a pair where it can, and takes none back.

    Units that share a bucket share their places, so that less may be brought and never more.

    Args:
        values: how many there are.
        most: how many a bucket brings at most.
        units: not more than there are, or about.
    """

    def __init__(self, values: int, most: int, units: int) -> None:
        self.most = most
        self.buckets = min(1 << units.bit_length(), _MOST_BUCKETS)
        self.brought = np.zeros(values, bool)
        self.by = np.zeros(values, np.uint64)
        self.taken = np.zeros(self.buckets, np.int32)
        self._pick = np.zeros(values, np.int32)

    def take(self, value: Small, unit: Codes) -> None:
        """Take pairs of the number of a value and a unit's code, those of units with few pairs first."""
        place = self.bucket(unit)
        class_of = _CLASS[np.minimum(np.bincount(place).astype(np.int32), len(_CLASS) - 1)][place]
        for number in range(_CLASS[-1] + 1):
            self._take(np.flatnonzero(class_of == number), value, place, unit)

    def _take(self, pairs: Numbers, values: Small, places: Small, units: Codes) -> None:
        value, place = values[pairs], places[pairs]
        for _ in range(_MOST_ROUNDS):
            # Either a value is brought in a round, or the bucket that it was to have is full.
            left = np.flatnonzero(~self.brought[value] & (self.taken[place] < self.most))
            if not len(left):
                return
            pairs, value, place = pairs[left], value[left], place[left]
            # One pair of each value, and of a bucket's no more than it has places.
            row = np.arange(len(value), dtype=np.int32)
            self._pick[value] = row
            picked = np.flatnonzero(self._pick[value] == row)
            # By bucket: numbers of 64 bits are sorted several times faster than their places are found.
            ordered = np.sort((place[picked].astype(np.int64) << 32) | picked)
            where, picked = ordered >> 32, ordered & 0xFFFFFFFF
            starts = np.flatnonzero(np.diff(where, prepend=-1))
            wanted = np.diff(starts, append=len(where))
            rank = np.arange(len(where)) - np.repeat(starts, wanted)
            taken = picked[rank < self.most - self.taken[where]]
            self.brought[value[taken]] = True
            self.by[value[taken]] = units[pairs[taken]]
            self.taken[where[starts]] = np.minimum(self.taken[where[starts]] + wanted, self.most)
            if len(taken) * 8 < len(picked):
                # All values want the same few units; from here on each has its own order of them.
                order = np.argsort((place ^ (value * _MIXING)).astype(np.uint16), kind="stable")
                pairs, value, place = pairs[order], value[order], place[order]

    def bucket(self, unit: Codes) -> Small:
        """Return the bucket of each unit; codes below the number of buckets have one each."""
        return (unit & np.uint64(self.buckets - 1)).astype(np.int32)


def codes_of(column: pa.Array) -> Codes:
    """Return codes, none of which is missing; `to_numpy` of Arrow would import pandas."""
    return np.frombuffer(column.buffers()[1] or b"", np.uint64, len(column), 8 * column.offset)
