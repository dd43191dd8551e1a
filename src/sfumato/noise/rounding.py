"""Draws of a real law, rounded to the nearest integer as if they had been drawn with infinite precision.

A draw is a stream of random bits: a sign, and U in (0, 1) bit by bit; it stands for the real number
sign * scale * Q(U). Its first word alone decides nearly every draw, by `quantile_table`: where the
approximation lies farther from a half-integer than its proven error, rounding it is rounding the truth.
Any other draw is settled exactly, by comparing U with the tail at half-integers in interval arithmetic,
taking more words as long as a half-integer lies inside the interval of U. Whether and how many more words
are taken is a matter of the words, not of the path: the answer never depends on which path gave it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from math import isnan

import numpy as np
from numpy.typing import NDArray

from sfumato.exact import round_down
from sfumato.noise import quantile_table as qt
from sfumato.noise.random_bits import Words
from sfumato.noise.standard import ExactDraws, Standard, largest_integer

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

largest_scale = 2**57

# 0.8 MB of words and buffers for a block: within the second-level cache of a core, and long enough that
# NumPy's cost of a call is small.
block = 1 << 14
# So many draws take less time without a table than building it does: some 40 us each, of 14 to 39 ms.
few = 200


class Sampler:
    """Draws of round(scale * Z), where Z is of a standard law.

    Args:
        standard: the law at scale one.
        scale: in units of the grid, at most 2^57.
    """

    def __init__(self, standard: Standard, scale: Fraction) -> None:
        self.standard = standard
        self.scale = scale
        self.exact = ExactDraws(standard, scale)
        self._scale = float(scale)
        self._before_table = few  # draws; a matter of speed alone

    @cached_property
    def margin(self) -> Fraction:
        """The proven error of the fast path's approximation, in units of the grid."""
        return qt.table(self.standard).margin(self.scale)

    @cached_property
    def _reach(self) -> float:
        return round_down(Fraction(1, 2) - self.margin)

    @cached_property
    def _bracketed(self) -> bool:
        return self.margin <= Fraction(1, 8)

    def draw(self, count: int, words: Words) -> Integers:
        """Return `count` draws as int64: a word for each, then more for those that need them, in order."""
        if count <= self._before_table:
            self._before_table -= count
            return self._exactly(words.take(count).view(np.int64), words)
        out = np.empty(count, np.int64)
        table = qt.table(self.standard)
        buffers = Buffers(min(block, count))
        undecided: list[tuple[int, int, float]] = []
        # A NaN is a draw without a row, which the exact path overwrites.
        with np.errstate(invalid="ignore"):
            for start in range(0, count, block):
                part = out[start : start + block]
                taken = words.take(len(part)).view(np.int64)
                buffers.magnitudes(self.standard, table, taken)
                for i, x in buffers.round_into(part, self._scale, self._reach):
                    undecided.append((start + i, int(taken[i]), x))
        for i, word, x in undecided:
            # x is within `margin` (and a last bit) of a half-integer and of the truth, which is thus
            # within 1/2 of this half-integer, and rounds to one of its two neighbours.
            known = self._bracketed and not isnan(x)
            between = (int(x), int(x) + 1) if known else (0, largest_integer)
            out[i] = self.exact.settle(word, *between, lambda: int(words.take(1)[0]))
        return out

    def _exactly(self, first: Integers, words: Words) -> Integers:
        """Return the same draws, each settled, without a table."""
        return np.array(self.exact.draws(first.tolist(), lambda: int(words.take(1)[0])), np.int64)


class Buffers:
    """Room for one block, used again for each: every step is one pass over memory that is in the cache."""

    def __init__(self, size: int) -> None:
        self._room = np.empty((5, size))
        self._near = np.empty(size, np.bool_)

    def magnitudes(self, standard: Standard, table: qt.QuantileTable, words: Integers) -> Floats:
        """Approximate Q(U) of each word; what is returned is overwritten by the next call."""
        size = len(words)
        given, place, value, r, sum_ = (row[:size] for row in self._room)
        np.copyto(given, words)
        given_bits, row, r_bits = (a.view(np.int64) for a in (given, place, r))
        np.right_shift(given_bits, qt.row_shift, out=row)
        np.bitwise_and(row, qt.row_mask, out=row)
        np.take(table.value, row, out=value, mode="clip")
        np.take(table.slope, row, out=sum_, mode="clip")
        np.bitwise_and(given_bits, qt.place_mask, out=r_bits)
        np.bitwise_or(r_bits, qt.one_bits, out=r_bits)
        np.subtract(r, qt.place_centre, out=r)
        np.multiply(r, sum_, out=r)
        # z + r (1 + r (P_2 / 2 + r P_3 / 6)), where P_2 = c and P_3 = c' + 2 c^2.
        if len(standard.curvature) == 1:
            np.multiply(r, 1 / 3, out=sum_)
            np.add(sum_, 0.5, out=sum_)
        else:
            np.multiply(value, value, out=sum_)
            np.multiply(sum_, 1 / 3, out=sum_)
            np.add(sum_, 1 / 6, out=sum_)
            np.multiply(sum_, r, out=sum_)
            np.multiply(value, 0.5, out=place)
            np.add(sum_, place, out=sum_)
        np.multiply(sum_, r, out=sum_)
        np.add(sum_, 1.0, out=sum_)
        np.multiply(sum_, r, out=sum_)
        np.add(sum_, value, out=sum_)
        return sum_

    def round_into(self, out: Integers, scale: float, reach: float) -> list[tuple[int, float]]:
        """Round the magnitudes times `scale`, and list those farther than `reach` from an integer."""
        size = len(out)
        given, whole, _, distance, x = (row[:size] for row in self._room)
        near = self._near[:size]
        np.multiply(x, scale, out=x)
        np.rint(x, out=whole)
        np.subtract(x, whole, out=distance)
        np.absolute(distance, out=distance)
        # False for NaN too: what cannot be compared is not decided.
        np.less_equal(distance, reach, out=near)
        np.copysign(whole, given, out=whole)
        np.copyto(out, whole, casting="unsafe")
        if near.all():
            return []
        return [(int(i), float(x[i])) for i in np.flatnonzero(~near)]


@lru_cache(maxsize=256)
def sampler(standard: Standard, scale: Fraction) -> Sampler:
    """Return the sampler, prepared once."""
    return Sampler(standard, scale)
