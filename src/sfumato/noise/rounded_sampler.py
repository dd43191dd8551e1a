"""Samplers of rounded noise: draws of a real law, rounded as if they had been drawn with infinite precision.

A draw is a stream of random bits: a sign, and U in (0, 1) bit by bit; it stands for the real number
sign * scale * Q(U). Its first word alone decides nearly every draw, by a `QuantileTable`: where the
approximation lies farther from a half-integer than its proven error, rounding it is rounding the truth.
Any other draw is settled exactly, by comparing U with the tail at half-integers in interval arithmetic,
taking more words as long as a half-integer lies inside the interval of U. Whether and how many more words
are taken is a matter of the words, not of the path: the answer never depends on which path gave it.

A `QuantileTable` approximates Q(U) in float64, with a proven error bound. A random word, read as a signed
number w, has a sign and a magnitude: U lies in an interval of width 2^-63 with one end at |w| 2^-63. Its
float64 value has an exponent and a mantissa; the exponent and the first `segment_bits` bits of the mantissa
choose a segment [m - h, m + h] of (0, 1], the rest is the place t in [-h, h] within it. The row of the
segment holds z = Q(m) and g = Q'(m), and with r = g t, as Q^(k) = P_k(Q) Q'^k,

    Q(m + t) = z + r + P_2(z)/2 r^2 + P_3(z)/6 r^3 + remainder,    |remainder| <= |Q''''(m - h)| h^4 / 24.

Only correctly rounded operations (+, -, *, conversions, bit operations) touch the numbers of a table, so
that the bound holds on every platform that has IEEE arithmetic.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, cached_property, lru_cache
from math import factorial, isnan

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact import round_down, round_up
from sfumato.exact.outward_rounding import nearest, to_float
from sfumato.noise.random_words import Words
from sfumato.noise.standard_laws import ExactDraws, Standard, largest_integer

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

largest_scale = 2**57

# 0.8 MB of words and buffers for a block: within the second-level cache of a core, and long enough that
# NumPy's cost of a call is small.
block = 1 << 14
# So many draws take less time without a table than building it does: some 40 us each, of 14 to 39 ms.
few = 200

segment_bits = 11
octaves = 16
# The lowest six bits of the exponent tell the 64 octaves that |w| can have from each other: a table of 64
# octaves needs neither a subtraction nor a mask of the sign. 2^63 has exponent field 1023 + 63, thus 62.
octave_slots = 64
top_octave = (1023 + 62) % octave_slots

rows = octave_slots << segment_bits
row_shift: np.int64 = np.int64(52 - segment_bits)
row_mask: np.int64 = np.int64(rows - 1)
place_mask: np.int64 = np.int64((1 << (52 - segment_bits)) - 1)
one_bits: np.int64 = np.int64(1023 << 52)
# The place bits under the exponent of 1 give a float in [1, 1 + 2h); less this it is t, exactly.
half_width: float = 2.0 ** -(segment_bits + 1)
place_centre: float = 1.0 + half_width

_anchor_bits = 6
_anchor_order = 7
_anchor_precision = 100
_rounding = 2.0**-53


@dataclass(frozen=True)
class QuantileTable:
    """The sampler's table of a standard law's quantile function: a row for each segment of (0, 1].

    Attributes:
        value: float64 of shape (rows,): Q at the middle of each segment; NaN where there is no row, which
            makes every later comparison false.
        slope: float64 of shape (rows,): Q' there, per unit of the mantissa.
        row_errors: float64 of shape (octaves << segment_bits,): for each row from the least U upwards, the
            bound of the error of the approximation to Q(U).
        largest: an upper bound of every approximation.
    """

    value: Floats
    slope: Floats
    row_errors: Floats
    largest: float

    @property
    def error(self) -> float:
        """The bound of the sampler table's error over all rows."""
        return float(self.row_errors.max())

    @cached_property
    def growth(self) -> float:
        """A factor g: an approximation x of a quantile, whatever its row, is off by at most g (1 + x)."""
        # x is within 1/8 of the value of its row.
        middles = self.value[~np.isnan(self.value)]
        return 1.13 * float((self.row_errors / (1 + middles)).max())

    def margin(self, scale: Fraction) -> Fraction:
        """Bound |x - scale Q(U)|, where x is the float product of a quantile's approximation and scale."""
        # 2.01 units: float(scale) and the product are rounded once each. The rest covers underflow.
        return scale * (Fraction(self.error) + Fraction(self.largest) * Fraction(2.01) / 2**53) + Fraction(
            1, 2**1000
        )


@cache
def quantile_table(standard: Standard) -> QuantileTable:
    """Build a sampler's quantile table of a standard law, or return it if it was built before."""
    # One octave more than is used: its rows bound the derivatives in those above.
    anchors = _anchors(standard, octaves + 1)
    value, slope, value_error, slope_error = _subdivide(standard, *anchors)
    errors = _row_errors(standard, value, slope, value_error, slope_error)
    used = slice(1 << segment_bits, None)
    place = (top_octave - octaves + 1) << segment_bits
    columns = np.full((2, rows), np.nan)
    columns[:, place : place + (octaves << segment_bits)] = value[used], slope[used]
    columns.flags.writeable = False
    # |approximation| <= z + |r| (1 + ...) <= z + 1/8 for every row.
    largest = round_up(Fraction(float(value[used].max())) + Fraction(1, 8))
    return QuantileTable(columns[0], columns[1], errors, largest)


def _octave_scale(count: int, per_octave_bits: int) -> Floats:
    """Return 2^e for each segment of the sampler table's octaves [2^e, 2^(e+1)] up to 1."""
    return np.repeat(np.ldexp(1.0, np.arange(-count, 0)), 1 << per_octave_bits)


def _anchors(standard: Standard, count: int) -> tuple[Floats, Floats]:
    """Return Q and 2^e Q' at the middles of the sampler table's coarse segments, rounded to nearest."""
    context = nearest(_anchor_precision)
    value, slope = np.empty((2, count << _anchor_bits))
    for i in range(count << _anchor_bits):
        octave, segment = divmod(i, 1 << _anchor_bits)
        # A dyadic number of few bits: exact, as is its complement.
        whole = 2 * ((1 << _anchor_bits) + segment) + 1
        middle = context.mul_2exp(whole, octave - count - 1 - _anchor_bits)
        z = standard.quantile(middle, context.sub(1, middle), _anchor_precision)
        value[i] = to_float(z)
        slope[i] = to_float(context.mul_2exp(standard.slope(z, _anchor_precision), octave - count))
    return value, slope


def _polynomial(coefficients: list[int], z: Floats) -> Floats:
    total = np.zeros_like(z)
    for c in reversed(coefficients):
        total = total * z + c
    return total


def _subdivide(standard: Standard, value: Floats, slope: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return Q and 2^e Q' at the middles of the sampler table's fine segments, with error bounds.

    Taylor about the anchors, to the order 7; the derivative at the anchor before bounds the remainders.
    The bound of Q is absolute, that of Q' relative.
    """
    order = _anchor_order
    polynomials = standard.derivatives(order + 1)
    parts = 1 << (segment_bits - _anchor_bits)
    # The distance of each part's middle from the anchor, in units of the mantissa: exact.
    distance = (np.arange(parts) - (parts - 1) / 2) * 2.0**-segment_bits
    reach = 2.0 ** -(_anchor_bits + 1)
    r = slope[:, None] * distance
    series_value, series_slope = np.zeros_like(r), np.zeros_like(r)
    for k in range(order, 0, -1):
        coefficient = (_polynomial(polynomials[k - 1], value) / factorial(k))[:, None]
        series_value = (series_value + coefficient) * r
        series_slope = series_slope * r + k * coefficient
    fine_value = value[:, None] + series_value
    fine_slope = slope[:, None] * series_slope
    z, steep = _majorant(value, slope, _anchor_bits)
    last = _polynomial(polynomials[order], z) * steep ** (order + 1)
    value_rounding = _rounding * (4 * z + 256 * steep * reach)
    value_error = last * reach ** (order + 1) / factorial(order + 1) + value_rounding
    # |Q'| on the way is at most `steep` and at least half of it.
    slope_error = 2 * last * reach**order / factorial(order) / steep + 256 * _rounding
    spread = [np.repeat(bound, parts) for bound in (value_error, slope_error)]
    return fine_value.ravel(), fine_slope.ravel(), spread[0], spread[1]


def _majorant(value: Floats, slope: Floats, per_octave_bits: int) -> tuple[Floats, Floats]:
    """Return Q and 2^e |Q'| at the middle of the sampler table's segment before: bounds in this one."""
    octave = _octave_scale(len(value) >> per_octave_bits, per_octave_bits)
    before = np.roll(np.abs(slope) / octave, 1)
    # The very first has none before it, and lies in the octave that is not used.
    before[0] = before[1]
    return np.roll(value, 1), before * octave


def _row_errors(
    standard: Standard, value: Floats, slope: Floats, value_error: Floats, slope_error: Floats
) -> Floats:
    """Bound each row's error |approximation - Q(U)| of a sampler's table, in units of the scale.

    The proof is in docs/noise.md; each line is one term of it.
    """
    count = len(value) >> segment_bits
    octave = _octave_scale(count, segment_bits)
    z, steep = _majorant(value, slope, segment_bits)
    _, second, third, fourth = (_polynomial(p, z) for p in standard.derivatives(4))
    r = steep * half_width
    taylor = fourth * r**4 / 24
    # U is within 2^-63 of |w| 2^-63 <= 2^(e+1), which the conversion rounds by at most 2^-53 of itself.
    given = steep / octave * (2.0**-63 + 2 * octave * _rounding)
    rows_rounded = value_error + 2 * r * slope_error
    # r (1 + r (P_2/2 + r P_3/6)) is computed with fewer than 64 roundings along any path to a term.
    horner = 64 * _rounding * r * (1 + r * (second + r * third)) + _rounding * (z + 2 * r)
    total = taylor + given + rows_rounded + horner
    # The bound itself is computed in floats, from positive numbers by fewer than 2^9 operations.
    return total[1 << segment_bits :] * (1 + 2.0**-40)


class Sampler:
    """A sampler of round(scale * Z), where Z has a standard law; or of the discrete Laplace law.

    Args:
        standard: the law at scale one.
        scale: in units of the grid, at most 2^57.
        discrete: whether to draw the discrete Laplace law: magnitudes are less by a shift before rounding.
    """

    def __init__(self, standard: Standard, scale: Fraction, discrete: bool = False) -> None:
        self.standard = standard
        self.scale = scale
        self.exact = ExactDraws(standard, scale, discrete)
        self._scale = float(scale)
        self._less = to_float(self.exact.shift) if discrete else 0.0
        self._before_table = few  # draws; a matter of speed alone

    @cached_property
    def margin(self) -> Fraction:
        """The proven error of the sampler's fast float path, in units of the grid."""
        table = quantile_table(self.standard)
        # The shift, below 1, is rounded, and so is what is left of the largest magnitude.
        shifted = Fraction(1.01) * (1 + self.scale * Fraction(table.largest)) / 2**53 if self._less else 0
        return table.margin(self.scale) + shifted

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
        table = quantile_table(self.standard)
        buffers = Buffers(min(block, count))
        undecided: list[tuple[int, int, float]] = []
        # A NaN is a draw without a row, which the exact path overwrites.
        with np.errstate(invalid="ignore"):
            for start in range(0, count, block):
                part = out[start : start + block]
                taken = words.take(len(part)).view(np.int64)
                buffers.magnitudes(self.standard, table, taken)
                for i, x in buffers.round_into(part, self._scale, self._less, self._reach):
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

    def magnitudes(self, standard: Standard, table: QuantileTable, words: Integers) -> Floats:
        """Approximate Q(U) of each word for the sampler; the next call overwrites the result."""
        size = len(words)
        given, place, value, r, sum_ = (row[:size] for row in self._room)
        np.copyto(given, words)
        given_bits, row, r_bits = (a.view(np.int64) for a in (given, place, r))
        np.right_shift(given_bits, row_shift, out=row)
        np.bitwise_and(row, row_mask, out=row)
        np.take(table.value, row, out=value, mode="clip")
        np.take(table.slope, row, out=sum_, mode="clip")
        np.bitwise_and(given_bits, place_mask, out=r_bits)
        np.bitwise_or(r_bits, one_bits, out=r_bits)
        np.subtract(r, place_centre, out=r)
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

    def round_into(self, out: Integers, scale: float, less: float, reach: float) -> list[tuple[int, float]]:
        """Round magnitudes times `scale`, less `less`; list those farther than `reach` from an integer."""
        size = len(out)
        given, whole, _, distance, x = (row[:size] for row in self._room)
        near = self._near[:size]
        np.multiply(x, scale, out=x)
        if less:
            np.subtract(x, less, out=x)
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
def sampler(standard: Standard, scale: Fraction, discrete: bool = False) -> Sampler:
    """Return the prepared sampler of a standard law at a scale, or of the discrete Laplace law."""
    return Sampler(standard, scale, discrete)
