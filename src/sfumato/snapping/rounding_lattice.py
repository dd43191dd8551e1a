"""The rounding lattice: rounding to it by the bits of IEEE 754 doubles (section 4), its points as doubles.

`to_lattice` and `power_of_two_at_least` are the documented reference on floats. The mechanism itself decides
which lattice point it releases in exact or guarded arithmetic, and asks `Lattice` for that point.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise.law_tails import floats

Floats = NDArray[np.float64]
_mantissa = (1 << 52) - 1
_hidden = 1 << 52


@suggest_arguments
def power_of_two_at_least(scale: float) -> float:
    """Return the lattice step for a scale: the smallest power of two not below it, computed from its bits.

    Args:
        scale: a float greater than 0, including subnormal ones, at most 2^1023.
    Returns:
        A power of two.
    Raises:
        ParameterError: scale is not such a float.

    >>> power_of_two_at_least(0.75), power_of_two_at_least(4.0), power_of_two_at_least(4.5)
    (1.0, 4.0, 8.0)

    Source:
        Covington 2020, (4.1).
    """
    if not 0 < scale <= 2.0**1023:
        raise ParameterError("scale", scale, "greater than 0 and at most 2**1023")
    bits = int(np.float64(scale).view(np.int64))
    if bits < _hidden:  # subnormal: the bits are a whole number of 2^-1074
        return float(np.ldexp(1.0, (bits - 1).bit_length() - 1074))
    if bits & _mantissa:
        bits = (bits & ~_mantissa) + _hidden
    return float(np.int64(bits).view(np.float64))


@overload
def to_lattice(x: float, step: float) -> float: ...
@overload
def to_lattice(x: ArrayLike, step: float) -> float | Floats: ...
@suggest_arguments
def to_lattice(x: ArrayLike, step: float) -> float | Floats:
    """Round to the nearest multiple of a power of two, ties upwards, with bit operations alone.

    Args:
        x: finite floats of any shape.
        step: Lambda, a power of two that is a float.
    Returns:
        A float, or float64 in the shape of x: the exact multiple, or an infinity if it is beyond all floats.
    Raises:
        ParameterError: x is not finite, or step is not a power of two.

    >>> to_lattice(-0.5, 1.0), to_lattice(0.5, 1.0), to_lattice(-30.01, 0.25)
    (0.0, 1.0, -30.0)

    Source:
        Covington 2020, section 4.2, with the ties of the definition in 2.2. Cases 2 and 3 as printed round
        negative ties away from zero.
    """
    values = floats(x, "x")
    if not np.isfinite(values).all():
        raise ParameterError("x", x, "finite")
    fraction, exponent = np.frexp(step)
    if not (step > 0 and fraction == 0.5):
        raise ParameterError("step", step, "a power of two, such as 0.25")
    bits = values.view(np.int64)
    field = bits >> 52 & 0x7FF
    # |x| = whole * 2^(field - 1075), with the implicit one of normal numbers.
    whole = (bits & _mantissa) | np.where(field > 0, _hidden, 0)
    field = np.maximum(field, 1)
    # x' = x / 2^m has `shift` bits behind its point.
    m = int(exponent) - 1
    shift = m + 1075 - field
    # Case 1: no bits behind the point. Case 4: more than fit, and x' rounds to zero.
    inside = np.clip(shift, 1, 62)
    half = np.int64(1) << (inside - 1)
    rest = whole & ((half << 1) - 1)
    up = np.where(bits < 0, rest > half, rest >= half)
    rounded = (whole >> inside) + up
    with np.errstate(over="ignore"):
        moved = np.ldexp(np.where(bits < 0, -rounded, rounded).astype(np.float64), m)
    result = np.where(shift <= 0, values, moved)
    return result if result.ndim else float(result)


class Lattice:
    """The lattice of releases: center + k * step, cut to center - bound and center + bound.

    Each is given as the float nearest to it. That is a function of the index k alone, hence post-processing.

    Args:
        center, step, bound: exact, in the statistic's unit.
    """

    def __init__(self, center: Fraction, step: Fraction, bound: Fraction) -> None:
        self.center = center
        self.step = step
        self.bound = bound
        self.last: int = ceil(bound / step)
        self.ends: tuple[float, float] = float(center - bound), float(center + bound)
        self._center, self._step = float(center), float(step)
        self._center_rest = float(center - Fraction(self._center))
        # Where both are floats and k * step is exact, one addition rounds once.
        room = 53 - self.last.bit_length()
        floats = self._center == center and self._step == step and 2.0**-900 < self._step < 2.0**900
        self._simple = floats and _significant_bits(step) <= room
        # Else step = high + middle + low, where k * high and k * middle are exact, and low is rounded.
        self._split = room >= 28 and Fraction(1, 2**900) < step < 2**900
        if self._split:
            self._high = _leading(step, room)
            self._middle = _leading(step - Fraction(self._high), room)
            self._low = float(step - Fraction(self._high) - Fraction(self._middle))
            exact = self._low == 0 and self._center_rest == 0
            # The exact sum of floats has less than 53 bits below its leading 53, and then nothing is lost.
            self._doubt = 0.0 if exact else float((abs(center) + bound) / 2**90)

    def point(self, index: int) -> float:
        """Return one lattice point, as the nearest float."""
        if self._simple:
            return min(max(index * self._step + self._center, self.ends[0]), self.ends[1])
        return float(self.center + min(max(index * self.step, -self.bound), self.bound))

    def place(self, index: Floats) -> None:
        """Replace lattice indices in a one-dimensional float64 array by their points.

        >>> where = np.array([-9.0, 0.0, 1.0, 9.0])
        >>> Lattice(Fraction(5), Fraction(2), Fraction(7)).place(where)
        >>> where
        array([-2.,  5.,  7., 12.])
        """
        if self._simple:
            # Beyond the ends, a rounded product is still beyond them.
            np.multiply(index, self._step, out=index)
            np.add(index, self._center, out=index)
            np.clip(index, *self.ends, out=index)
            return
        np.clip(index, -self.last, self.last, out=index)
        if self._split:
            near, rest = self._sum(index)
            points = near + rest
            open_ = np.flatnonzero(near + (rest - self._doubt) != near + (rest + self._doubt))
        else:
            points, open_ = np.empty_like(index), np.arange(len(index))
        points[open_] = [self.point(int(k)) for k in index[open_].tolist()]
        np.clip(points, *self.ends, out=index)

    def _sum(self, index: Floats) -> tuple[Floats, Floats]:
        """Return lattice points as an unevaluated sum of two floats."""
        high, error = _two_sum(self._center, index * self._high)
        middle, lost = _two_sum(error, index * self._middle)
        near, rest = _two_sum(high, middle)
        return near, rest + (lost + (index * self._low + self._center_rest))


def _two_sum(a: Floats | float, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum of two parts of lattice points, and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _significant_bits(number: Fraction) -> int:
    return (number.numerator // (number.numerator & -number.numerator)).bit_length()


def _leading(number: Fraction, bits: int) -> float:
    """Return the first `bits` bits of a lattice step, or 0.0."""
    if number == 0:
        return 0.0
    unit = Fraction(2) ** (number.numerator.bit_length() - number.denominator.bit_length() - bits)
    if number >= unit * 2**bits:
        unit *= 2
    return float(floor(number / unit) * unit)
