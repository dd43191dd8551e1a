"""Samplers of rounded noise: draws of a real law, rounded as if they had been drawn with infinite precision.

A draw is a stream of random bits: a sign, and U in (0, 1) bit by bit; it stands for the real number
sign * scale * Q(U). Its first word alone decides nearly every draw, by a `QuantileTable`: where the
approximation lies farther from a half-integer than its proven error, rounding it is rounding the truth.
Any other draw is settled exactly, by comparing U with the tail at half-integers in interval arithmetic,
taking more words as long as a half-integer lies inside the interval of U. Whether and how many more words
are taken is a matter of the words, not of the path: the answer never depends on which path gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isnan

import numpy as np
from numpy.typing import NDArray

from sfumato.exact import round_down
from sfumato.exact.outward_rounding import directed, nearest, rational
from sfumato.noise import standard_laws
from sfumato.noise.random_words import Words
from sfumato.noise.standard_laws import Standard

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

largest_scale = 2**57
largest_integer = 2**63 - 1
_guess_bits = 128

# 0.8 MB of words and buffers for a block: within the second-level cache of a core, and long enough that
# NumPy's cost of a call is small.
block = 1 << 14
# So many draws take less time without a table than building it does: some 40 us each, of 14 to 39 ms.
few = 200


class Sampler:
    """A sampler of round(scale * Z), where Z has a standard law.

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
        """The proven error of the sampler's fast float path, in units of the grid."""
        return standard_laws.table(self.standard).margin(self.scale)

    @cached_property
    def _reach(self) -> float:
        return round_down(Fraction(1, 2) - self.margin)

    @cached_property
    def _bracketed(self) -> bool:
        return self.margin <= Fraction(1, 8)

    def draw(self, count: int, words: Words) -> Integers:
        """Return `count` rounded draws as int64: a word each, then more for those that need them."""
        if count <= self._before_table:
            self._before_table -= count
            return self._exactly(words.take(count).view(np.int64), words)
        out = np.empty(count, np.int64)
        table = standard_laws.table(self.standard)
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
        """Return rounded draws, each settled exactly, without a table."""
        return np.array(self.exact.draws(first.tolist(), lambda: int(words.take(1)[0])), np.int64)


class Buffers:
    """The sampler's reused memory for one block of draws, which stays in the cache."""

    def __init__(self, size: int) -> None:
        self._room = np.empty((5, size))
        self._near = np.empty(size, np.bool_)

    def magnitudes(self, standard: Standard, table: standard_laws.QuantileTable, words: Integers) -> Floats:
        """Approximate Q(U) of each word for the sampler; the next call overwrites the result."""
        size = len(words)
        given, place, value, r, sum_ = (row[:size] for row in self._room)
        np.copyto(given, words)
        given_bits, row, r_bits = (a.view(np.int64) for a in (given, place, r))
        np.right_shift(given_bits, standard_laws.row_shift, out=row)
        np.bitwise_and(row, standard_laws.row_mask, out=row)
        np.take(table.value, row, out=value, mode="clip")
        np.take(table.slope, row, out=sum_, mode="clip")
        np.bitwise_and(given_bits, standard_laws.place_mask, out=r_bits)
        np.bitwise_or(r_bits, standard_laws.one_bits, out=r_bits)
        np.subtract(r, standard_laws.place_centre, out=r)
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
        """Round magnitudes times `scale` to draws, and list those farther than `reach` from an integer."""
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
    """Return the prepared sampler of a standard law at a scale."""
    return Sampler(standard, scale)


class ExactDraws:
    """Exact draws of round(scale * Z), settled by comparing a uniform number with the law's tail.

    Args:
        standard: the law of Z.
        scale: in units of the grid.
    """

    def __init__(self, standard: Standard, scale: Fraction) -> None:
        self._standard, self._scale = standard, scale

    def draws(self, first: Iterable[int], more: Callable[[], int]) -> list[int]:
        """Return an exact rounded draw for each first word, taking further words in order."""
        return [self.settle(word, 0, largest_integer, more) for word in first]

    def settle(self, word: int, low: int, high: int, more: Callable[[], int]) -> int:
        """Return the exact rounded draw whose first word, read as signed, is `word`.

        Args:
            word: the first word.
            low, high: integers between which its magnitude is known to lie.
            more: gives a further word.
        """
        # U lies between prefix and prefix + 1, times 2^-bits.
        prefix, bits = (~word if word < 0 else word), 63
        while True:
            low, high = self._narrow(prefix, bits, low, high)
            if low == high:
                return -low if word < 0 else low
            prefix, bits = prefix << 64 | more(), bits + 64

    def _narrow(self, prefix: int, bits: int, low: int, high: int) -> tuple[int, int]:
        """Narrow a draw's bounds until they meet, or a half-integer lies inside U's interval."""
        # From a good guess, two comparisons do; each wrong step costs one more.
        middle = low if high - low == 1 else self._guess(prefix, bits)
        while low < high:
            middle = min(max(middle, low), high - 1)
            side = self._side(prefix, bits, middle)
            if side == 0:
                break
            if side > 0:
                high, middle = middle, middle - 1
            else:
                low, middle = middle + 1, middle + 1
        return low, high

    def _guess(self, prefix: int, bits: int) -> int:
        """Return the rounded quantile in the middle of a draw's interval: a guess, nearly always right."""
        # x is below 2^64 and wanted to well within 1/2, whatever the length of the prefix.
        context = nearest(_guess_bits)
        outside = context.mul_2exp(2 * prefix + 1, -bits - 1)
        z = self._standard.quantile(outside, context.sub(1, outside), _guess_bits)
        x = context.mul(z, context.div(self._scale.numerator, self._scale.denominator))
        return int(context.rint(x)) if x < largest_integer else largest_integer

    def _side(self, prefix: int, bits: int, middle: int) -> int:
        """Return on which side of T((middle + 1/2) / scale) all of a draw's interval of U lies.

        Returns:
            1: U is larger, so the magnitude rounds to `middle` or less; -1: to more; 0: the tail is inside.
        """
        y = rational((2 * middle + 1) * self._scale.denominator, 2 * self._scale.numerator)
        precision = bits + 9
        while True:
            down, up = directed(2 * precision)  # wide enough for the shift to be exact
            low, high = self._standard.tail_absolute(y, precision)
            low, high = down.mul_2exp(low, bits), up.mul_2exp(high, bits)
            if high <= prefix:
                return 1
            if low >= prefix + 1:
                return -1
            # The tail is transcendental, thus neither end of U's interval, and some precision tells.
            if low >= prefix and high <= prefix + 1:
                return 0
            precision *= 2
