"""The standard laws, Laplace and Gaussian at scale one: tails, quantiles, and tables of quantiles.

Both are symmetric, so each is given by its tail T(y) = P(|Z| > y) for y >= 0, and the quantile function
Q = T^-1. The derivatives of Q follow from one polynomial, its *curvature* c: Q'' = c(Q) Q'^2, with c = 1
for Laplace and c(z) = z for Gauss. Hence Q^(k) = P_k(Q) Q'^k where P_1 = 1, P_(k+1) = P_k' + k c P_k.

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

import statistics
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cache, cached_property
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact import round_up
from sfumato.exact.outward_rounding import (
    Rational,
    Real,
    both_tails,
    directed,
    nearest,
    over_root_two,
    to_float,
)


class Standard(ABC):
    """A standard law, at scale one.

    `curvature` holds the coefficients of c, lowest power first.
    """

    curvature: tuple[int, ...]

    @abstractmethod
    def tail(self, y: Rational, bits: int) -> tuple[Real, Real]:
        """Enclose the standard law's tail T(y), y >= 0, with a relative width of about 2^-bits."""

    @abstractmethod
    def tail_absolute(self, y: Rational, bits: int) -> tuple[Real, Real]:
        """Enclose the standard law's tail T(y), y >= 0, to an absolute width of about 2^-bits, faster."""

    @abstractmethod
    def quantile(self, outside: Real, inside: Real, bits: int) -> Real:
        """Return the standard law's Q(outside) to nearly `bits` bits; inside = 1 - outside.

        `inside` may be the more precise one.
        """

    @abstractmethod
    def slope(self, z: Real, bits: int) -> Real:
        """Return the slope Q'(u) of the standard law's quantile function, at the u whose Q(u) is z."""

    def derivatives(self, count: int) -> list[list[int]]:
        """Return the polynomials P_1 ... P_count of the quantile function's derivatives.

        Each has its lowest power first.

        >>> gaussian.derivatives(4)
        [[1], [0, 1], [1, 0, 2], [0, 7, 0, 6]]
        """
        all_of_them = [[1]]
        for k in range(1, count):
            last = all_of_them[-1]
            following = [0] * (len(last) + len(self.curvature) - 1)
            for power, coefficient in enumerate(last):
                if power:
                    following[power - 1] += power * coefficient
                for shift, c in enumerate(self.curvature):
                    following[power + shift] += k * c * coefficient
            all_of_them.append(following)
        return all_of_them


class _Laplace(Standard):
    """The standard Laplace law: T(y) = exp(-y), Q(u) = -ln u."""

    curvature: tuple[int, ...] = (1,)

    def tail(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # exp magnifies a relative error of y by y.
        return _exp_of_minus(y, *directed(bits + 4 + int(y).bit_length()))

    def tail_absolute(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # y exp(-y) < 1, so that no magnified error is above the unit of the precision.
        return _exp_of_minus(y, *directed(bits + 3))

    def quantile(self, outside: Real, inside: Real, bits: int) -> Real:
        context = nearest(bits)
        return context.abs(context.log(outside) if outside < 0.5 else context.log1p(context.minus(inside)))

    def slope(self, z: Real, bits: int) -> Real:
        context = nearest(bits)
        return context.minus(context.exp(z))


class _Gaussian(Standard):
    """The standard Gaussian law: T(y) = erfc(y / sqrt 2), Q(u) = sqrt 2 erfc^-1(u)."""

    curvature: tuple[int, ...] = (0, 1)

    def tail(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # erfc magnifies a relative error of y by at most y^2 + 2.
        return both_tails(y, bits + 6 + 2 * int(y).bit_length())

    def tail_absolute(self, y: Rational, bits: int) -> tuple[Real, Real]:
        # MPFR's erf is several times as fast as its erfc, and its error is absolute, as wanted here.
        down, up = directed(bits + 3)
        low, high = (over_root_two(y, bits + 3, up=side) for side in (False, True))
        return down.sub(1, up.erf(high)), up.sub(1, down.erf(low))

    def quantile(self, outside: Real, inside: Real, bits: int) -> Real:
        """Solve for the standard Gaussian quantile by the cubic Taylor step of Q itself."""
        context = nearest(bits)
        mul, div, add, sub = context.mul, context.div, context.add, context.sub
        root_two = context.sqrt(2)
        z = self._start(outside, inside, bits)
        while True:
            if outside < 0.5:
                step = sub(outside, context.erfc(div(z, root_two)))
            else:
                step = sub(context.erf(div(z, root_two)), inside)
            r = mul(step, self.slope(z, bits))
            square = mul(z, z)
            cubic = div(mul(r, add(1, mul(2, square))), 6)
            z = add(z, mul(r, add(1, mul(r, add(div(z, 2), cubic)))))
            # The error that is left is of the order of (z r)^4 / z.
            if mul(context.abs(r), add(1, square)) <= context.mul_2exp(context.abs(z), -bits // 4 - 2):
                return z

    def _start(self, outside: Real, inside: Real, bits: int) -> Real:
        context = nearest(bits)
        if outside >= 0.5:
            if inside < 1e-6:
                return context.mul(inside, context.sqrt(context.div(context.const_pi(), 2)))
            return context.plus(statistics.NormalDist().inv_cdf(0.5 + to_float(inside) / 2))
        if outside > 1e-290:
            return context.plus(-statistics.NormalDist().inv_cdf(to_float(outside) / 2))
        # Far out, Newton steps on ln T, which is almost a parabola there, come near enough.
        log, root_two = context.log(outside), context.sqrt(2)
        z = context.sqrt(context.mul(-2, log))
        while True:
            tail = context.erfc(context.div(z, root_two))
            change = context.mul(context.mul(context.sub(log, context.log(tail)), tail), self.slope(z, bits))
            z = context.add(z, change)
            if -1e-12 < change < 1e-12:
                return z

    def slope(self, z: Real, bits: int) -> Real:
        context = nearest(bits)
        growth = context.exp(context.div(context.mul(z, z), 2))
        return context.minus(context.mul(growth, context.sqrt(context.div(context.const_pi(), 2))))


def _exp_of_minus(y: Rational, down: Any, up: Any) -> tuple[Real, Real]:
    low, high = down.div(y.numerator, y.denominator), up.div(y.numerator, y.denominator)
    return down.exp(down.minus(high)), up.exp(up.minus(low))


laplace: Standard = _Laplace()
gaussian: Standard = _Gaussian()


Floats = NDArray[np.float64]

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
    """A table that approximates a standard law's quantile function: a row for each segment of (0, 1].

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
        """The bound of the quantile table's error over all rows."""
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
def table(standard: Standard) -> QuantileTable:
    """Build the quantile table of a standard law, or return it if it was built before."""
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
    """Return 2^e for each segment of a quantile table's octaves [2^e, 2^(e+1)] up to 1."""
    return np.repeat(np.ldexp(1.0, np.arange(-count, 0)), 1 << per_octave_bits)


def _anchors(standard: Standard, count: int) -> tuple[Floats, Floats]:
    """Return Q and 2^e Q' at the middles of a quantile table's coarse segments, rounded to nearest."""
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
    """Return Q and 2^e Q' at the middles of a quantile table's fine segments, with error bounds.

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
    """Return Q and 2^e |Q'| at the middle of the segment before: upper bounds in this one."""
    octave = _octave_scale(len(value) >> per_octave_bits, per_octave_bits)
    before = np.roll(np.abs(slope) / octave, 1)
    # The very first has none before it, and lies in the octave that is not used.
    before[0] = before[1]
    return np.roll(value, 1), before * octave


def _row_errors(
    standard: Standard, value: Floats, slope: Floats, value_error: Floats, slope_error: Floats
) -> Floats:
    """Bound each row's error |approximation - Q(U)| of a quantile table, in units of the scale.

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
