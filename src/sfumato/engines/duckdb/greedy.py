"""A matching of units to values that is as good as largest, made of pairs as they come.

Both are known by 64-bit codes. Arrays here are as long as there are values, and as there are buckets of
units, whatever the number of pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.duckdb.numbering import Codes, Numbers, Small, looked_up
from sfumato.query import sizes

Marks = NDArray[np.bool_]

# Units by how many pairs they have, of so many or more: none, 1, 2, 3, 4, up to 6, and so on.
_CLASS = np.searchsorted((0, 1, 2, 3, 4, 6, 8, 12, 20, 40), np.arange(42)).astype(np.uint8)
_MIXING = np.int64(0x9E3779B)


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
        self.buckets: int = min(1 << units.bit_length(), sizes.GREEDY_BUCKETS)
        self.brought: NDArray[np.bool_] = np.zeros(values, bool)
        self.by: NDArray[np.uint64] = np.zeros(values, np.uint64)
        self.taken: NDArray[np.int32] = np.zeros(self.buckets, np.int32)
        self._pick = np.zeros(values, np.int32)

    def take(self, value: Small, unit: Codes) -> None:
        """Take pairs of the number of a value and a unit's code, those of units with few pairs first."""
        place = self.bucket(unit)
        # What a part of the pairs says of it is enough for an order.
        pairs_of = np.bincount(place[:: 1 + len(place) // sizes.GREEDY_SAMPLE], minlength=self.buckets)
        class_of = looked_up(_CLASS[np.minimum(pairs_of, len(_CLASS) - 1)], place)
        left: Numbers | None = None  # all
        for number in range(_CLASS[-1] + 1):
            chosen = np.flatnonzero(class_of == number)
            pairs = chosen if left is None else left[chosen]
            for start in range(0, len(pairs), sizes.GREEDY_PAIRS):
                self._take(pairs[start : start + sizes.GREEDY_PAIRS], value, place, unit)
            if len(pairs) * sizes.GREEDY_PARTS > len(class_of):
                # To go on with fewer is worth a look at all.
                kept = np.flatnonzero(~looked_up(self.brought, value if left is None else value[left]))
                left, class_of = kept if left is None else left[kept], class_of[kept]

    def _take(self, pairs: Numbers, values: Small, places: Small, units: Codes) -> None:
        # NumPy finds places by numbers of 64 bits in half the time.
        value = values[pairs].astype(np.int64)
        left = np.flatnonzero(~self.brought[value])
        pairs, value = pairs[left], value[left]
        place = places[pairs].astype(np.int64)
        for _ in range(sizes.GREEDY_ROUNDS):
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
            ordered = np.sort((place[picked] << 32) | picked)
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
        place = unit.astype(np.int32)  # the lower bits
        place &= np.int32(self.buckets - 1)
        return place
