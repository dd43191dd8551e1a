"""Outward rounding: multiple-precision numbers that round up or down, intervals that hold a real number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import count
from typing import Any, Final, NamedTuple

import gmpy2
import numpy as np
from numpy.typing import ArrayLike, NDArray

Context = Any
Real = Any  # an MPFR number
Rational = Any  # gmpy2's mpq, or anything with a numerator and a denominator


class Directed(NamedTuple):
    """Two MPFR contexts for directed rounding: one rounds each operation down, the other up."""

    down: Context
    up: Context


@cache
def directed(bits: int) -> Directed:
    """Return the MPFR contexts of `bits` bits for outward rounding, towards -infinity and +infinity."""
    return Directed(*(gmpy2.context(precision=bits, round=r) for r in (gmpy2.RoundDown, gmpy2.RoundUp)))


@cache
def nearest(bits: int) -> Context:
    """Return the MPFR context of `bits` bits that rounds to nearest."""
    return gmpy2.context(precision=bits, round=gmpy2.RoundToNearest)


# Makes a context with gmpy2's defaults the active one, as a context manager that each call makes anew.
default_context = partial(gmpy2.context, gmpy2.context())

# Makes a number, or two whole ones as numerator and denominator, gmpy2's rational: exact, and of no context.
rational = gmpy2.mpq


def convert(number: Any, context: Context) -> Real:
    """Return a rational number as an MPFR number, rounded in the context's direction."""
    with gmpy2.context(context):
        return gmpy2.mpfr(gmpy2.mpq(number.numerator, number.denominator))


def to_float(number: Real) -> float:
    """Return the float nearest to an MPFR number, rounded to nearest.

    >>> to_float(directed(64).up.div(1, 3)) == 1 / 3
    True
    """
    with gmpy2.context(nearest(53)):
        return float(number)


def is_finite(number: Real) -> bool:
    """Whether an MPFR number is neither infinite nor NaN."""
    return bool(gmpy2.is_finite(number))


def exponent(number: Real) -> int:
    """Return the binary exponent e of a nonzero MPFR number, 2^(e-1) <= |number| < 2^e."""
    return int(gmpy2.get_exp(number))


def integer_root(number: int, degree: int) -> int:
    """Return the root of a whole number of at least 0, rounded down to a whole number.

    >>> integer_root(26, 3)
    2
    """
    return int(gmpy2.iroot(gmpy2.mpz(number), degree)[0])


def exactly(number: Real) -> Fraction:
    """Return an MPFR number as the exact Fraction."""
    numerator, denominator = number.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


ZERO, HALF = convert(0, nearest(53)), convert(Fraction(1, 2), nearest(53))
INFINITY, MINUS_INFINITY = nearest(53).div(1, ZERO), nearest(53).div(-1, ZERO)


def round_bits(number: Fraction, bits: int, *, up: bool) -> Fraction:
    """Round a Fraction outward, up or down, to `bits` significant bits.

    >>> round_bits(Fraction(1, 3), 4, up=True), round_bits(Fraction(1, 3), 4, up=False)
    (Fraction(11, 32), Fraction(5, 16))
    """
    return exactly(convert(number, directed(bits)[up]))


def exp_bounds(power: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Enclose e^power between two Fractions of `bits` bits, rounded outward.

    Their relative width is about |power| 2^-bits.

    >>> low, high = exp_bounds(Fraction(-1), 64)
    >>> low < Fraction("0.36787944117144232159552377016146") < high
    True
    """
    down, up = directed(bits)
    return exactly(down.exp(convert(power, down))), exactly(up.exp(convert(power, up)))


def log_bounds(number: Fraction, bits: int = 256) -> tuple[Fraction, Fraction]:
    """Enclose ln(number), number > 0, between two Fractions rounded outward, about 2^-bits of it wide.

    >>> low, high = log_bounds(Fraction(2))
    >>> float(low), high - low < Fraction(1, 2**250)
    (0.6931471805599453, True)
    """
    if number == 1:
        return Fraction(0), Fraction(0)
    # Near 1 the logarithm is about number - 1, which takes more bits to tell from 0.
    offset = abs(number - 1)
    bits += max(0, offset.denominator.bit_length() - offset.numerator.bit_length())
    down, up = directed(bits)
    return exactly(down.log(convert(number, down))), exactly(up.log(convert(number, up)))


def expm1_down(power: Fraction, bits: int = 64) -> Fraction:
    """Return e^power - 1 rounded down to `bits` bits, within 2 of its last bits.

    >>> float(expm1_down(Fraction(1)))
    1.71828182845...
    """
    down = directed(bits).down
    return exactly(down.expm1(convert(power, down)))


def log1p_up(number: Fraction, bits: int = 128) -> Fraction:
    """Return ln(1 + number) rounded up to `bits` bits, within 2 of its last bits.

    >>> log1p_up(expm1_down(Fraction(1, 3))) <= Fraction(1, 3)
    True
    """
    up = directed(bits).up
    return exactly(up.log1p(convert(number, up)))


def log2(number: Fraction) -> float:
    """Return the binary logarithm of a positive Fraction of any size, to float accuracy.

    >>> log2(Fraction(1, 2**5000))
    -5000.0
    """
    shift = number.numerator.bit_length() - number.denominator.bit_length()
    scaled = number / 2**shift if shift >= 0 else number * 2**-shift
    return shift + math.log2(scaled)


def over_root_two(x: Rational | Real, bits: int, *, up: bool) -> Real:
    """Return x / sqrt 2 in `bits` bits, rounded up or down.

    Args:
        x: an MPFR number, which is not rounded first, or a rational, which is.
        bits: of the result.
        up: towards +infinity, or else towards -infinity.
    """
    context = directed(bits)[up]
    if not hasattr(x, "precision"):
        x = context.div(x.numerator, x.denominator)
    return context.div(x, _root_two(bits)[(x > 0) != up])


def both_tails(x: Rational | Real, bits: int) -> tuple[Real, Real]:
    """Enclose the two-sided Gaussian tail erfc(x / sqrt 2) between MPFR numbers rounded outward.

    A relative error of x is magnified by at most x^2 + 2 where x > 0.

    >>> low, high = both_tails(1, 64)
    >>> float(low), float(high - low) < 1e-18
    (0.31731050786291..., True)
    """
    return tail(x, bits, up=False), tail(x, bits, up=True)


def tail(x: Rational | Real, bits: int, *, up: bool) -> Real:
    """Return the lower or the upper end of a Gaussian tail's outward-rounded enclosure."""
    return directed(bits)[up].erfc(over_root_two(x, bits, up=not up))


def log_tail(x: ArrayLike) -> NDArray[np.float64]:
    """Return the natural logarithm of the Gaussian tail P(N > x) in floats, rounded to nearest.

    >>> log_tail([0.0, 50.0]).round(3).tolist()
    [-0.693, -1254.831]
    """
    # SciPy takes a tenth of a second to import, and is loaded where it is used.
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(-np.asarray(x, np.float64)))


@cache
def _root_two(bits: int) -> tuple[Real, Real]:
    down, up = directed(bits)
    return down.sqrt(2), up.sqrt(2)


# Not frozen, which would take longer than the arithmetic; `Final` tells mypy.
@dataclass(slots=True, eq=False)
class Enclosure:
    """An interval of two MPFR numbers that holds a real number; its arithmetic rounds outward.

    Attributes:
        low, high: the ends; infinite ones are admitted.
        bits: the precision of what is computed from it.

    >>> third = Enclosure.around(1, 64) / Enclosure.around(3, 64)
    >>> third.holds(Fraction(1, 3)), (third + third).rounded(), (third + third - third).below(third)
    (True, 1, None)
    """

    low: Final[Real]
    high: Final[Real]
    bits: Final[int]

    @staticmethod
    def around(number: Fraction | int, bits: int) -> Enclosure:
        """Enclose a rational number in an outward-rounded interval of `bits` bits."""
        return _enclose(number, bits)

    @staticmethod
    def between(low: int, high: int, exponent: int, bits: int) -> Enclosure:
        """Return the outward-rounded interval of all numbers between low 2^exponent and high 2^exponent."""
        down, up = directed(bits)
        return Enclosure(down.mul_2exp(down.plus(low), exponent), up.mul_2exp(up.plus(high), exponent), bits)

    def __add__(self, other: Enclosure) -> Enclosure:
        down, up = directed(self.bits)
        return Enclosure(down.add(self.low, other.low), up.add(self.high, other.high), self.bits)

    def __sub__(self, other: Enclosure) -> Enclosure:
        down, up = directed(self.bits)
        return Enclosure(down.sub(self.low, other.high), up.sub(self.high, other.low), self.bits)

    def __neg__(self) -> Enclosure:
        down, up = directed(self.bits)
        return Enclosure(down.minus(self.high), up.minus(self.low), self.bits)

    def __mul__(self, other: Enclosure) -> Enclosure:
        down, up = directed(self.bits)
        if self.low >= 0 and other.low >= 0:
            return Enclosure(down.mul(self.low, other.low), up.mul(self.high, other.high), self.bits)
        pairs = [(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Enclosure(min(down.mul(*p) for p in pairs), max(up.mul(*p) for p in pairs), self.bits)

    def __truediv__(self, other: Enclosure) -> Enclosure:
        """Divide intervals with outward rounding; all numbers where the divisor may be 0."""
        down, up = directed(self.bits)
        if other.low <= 0:
            return Enclosure(MINUS_INFINITY, INFINITY, self.bits)
        low = down.div(self.low, other.high if self.low >= 0 else other.low)
        high = up.div(self.high, other.low if self.high >= 0 else other.high)
        return Enclosure(low, high, self.bits)

    def __abs__(self) -> Enclosure:
        if self.low >= 0:
            return self
        turned = -self
        return turned if self.high <= 0 else Enclosure(ZERO, max(turned.high, self.high), self.bits)

    def times(self, factor: Fraction | int) -> Enclosure:
        """Multiply the interval by a rational number, rounding outward."""
        return self * Enclosure.around(factor, self.bits)

    def power(self, exponent: int) -> Enclosure:
        """Return the outward-rounded interval of a power of a number of at least 0.

        The exponent is a whole number of at least 1.
        """
        found = self
        for _ in range(exponent - 1):
            found = found * self
        return found

    def root(self, degree: int) -> Enclosure:
        """Return the outward-rounded interval of the root of a number of at least 0."""
        down, up = directed(self.bits)
        return Enclosure(
            down.rootn(max(self.low, ZERO), degree), up.rootn(max(self.high, ZERO), degree), self.bits
        )

    def log(self) -> Enclosure:
        """Return the outward-rounded interval of the logarithm of a number that is known to be above 0."""
        down, up = directed(self.bits)
        return Enclosure(down.log(max(self.low, ZERO)), up.log(self.high), self.bits)

    def exp(self) -> Enclosure:
        """Return the outward-rounded interval of e to the power of the enclosed number."""
        down, up = directed(self.bits)
        return Enclosure(down.exp(self.low), up.exp(self.high), self.bits)

    def or_less(self, other: Enclosure) -> Enclosure:
        """Return the outward-rounded interval of the smaller of two enclosed numbers."""
        return Enclosure(min(self.low, other.low), min(self.high, other.high), self.bits)

    def below(self, other: Enclosure) -> bool | None:
        """Whether the enclosed number is below another; None where the intervals overlap."""
        return True if self.high < other.low else False if self.low > other.high else None

    def holds(self, number: Fraction) -> bool:
        """Whether a rational number lies in the interval."""
        return bool(self.low <= rational(number) <= self.high)

    def rounded(self) -> int | None:
        """Return the whole number that all of the interval rounds to, halves up; None if there is none."""
        if not (is_finite(self.low) and is_finite(self.high)):
            return None
        # With so many bits the sum with 1/2 is exact, or rounded towards where its floor is the same.
        down = directed(max(128, self.bits + 2)).down
        low, high = (int(down.floor(down.add(end, HALF))) for end in (self.low, self.high))
        return low if low == high else None

    def floor(self) -> int | None:
        """Return the floor of all of the interval; None where it is not a single whole number."""
        return (self - Enclosure.around(Fraction(1, 2), self.bits)).rounded()

    def nearest(self) -> tuple[float, Fraction]:
        """Return a float near the enclosed number, and the largest distance between them."""
        low, high = exactly(self.low), exactly(self.high)
        middle = float((low + high) / 2)
        return middle, max(high - Fraction(middle), Fraction(middle) - low)


@lru_cache(1 << 10)
def _enclose(number: Fraction | int, bits: int) -> Enclosure:
    down, up = directed(bits)
    return Enclosure(convert(number, down), convert(number, up), bits)


# A number that can be enclosed with about as many significant bits as one asks for.
LazyReal = Callable[[int], Enclosure]
first_bits = 64


def is_less(one: LazyReal, other: LazyReal) -> bool:
    """Compare two enclosed real numbers, with more and more bits until their intervals differ."""
    for doublings in count():
        bits = first_bits << doublings
        found = one(bits).below(other(bits))
        if found is not None:
            return found
    raise AssertionError("unreachable")


def round_up(number: Fraction) -> float:
    """Return the smallest float that is at least `number`.

    Args:
        number: an exact number.
    Returns:
        A float.

    >>> round_up(Fraction(1, 3)) > Fraction(1, 3) >= round_down(Fraction(1, 3))
    True
    """
    nearest = _to_float(number)
    return nearest if math.isinf(nearest) or nearest >= number else math.nextafter(nearest, math.inf)


def round_down(number: Fraction) -> float:
    """Return the largest float that is at most `number`.

    Args:
        number: an exact number.
    Returns:
        A float.

    >>> round_down(Fraction(1, 10)) < Fraction(1, 10)
    True
    """
    return 0.0 - round_up(-number)


def root_up(square: Fraction) -> Fraction:
    """Return the square root of `square` >= 0 rounded up: a rational at most 2^-128 above, relatively.

    Args:
        square: an exact number of at least 0.
    Returns:
        A Fraction.

    >>> root_up(Fraction(9, 4)) == Fraction(3, 2), root_up(Fraction(2)) ** 2 > 2
    (True, True)
    """
    return _root(square, 1)


def root_down(square: Fraction) -> Fraction:
    """Return the square root of `square` >= 0 rounded down: a rational at most 2^-128 below, relatively.

    Args:
        square: an exact number of at least 0.
    Returns:
        A Fraction.

    >>> root_down(Fraction(9, 4)) == Fraction(3, 2), root_down(Fraction(2)) ** 2 < 2
    (True, True)
    """
    return _root(square, 0)


def _root(square: Fraction, up: int) -> Fraction:
    whole = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    if whole * whole == square:
        return whole
    size = square.numerator.bit_length() - square.denominator.bit_length()
    shift = 130 - size // 2
    scaled = square * Fraction(4) ** shift
    return Fraction(math.isqrt(scaled.numerator // scaled.denominator) + up) / Fraction(2) ** shift


def _to_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -float.fromhex("0x1.fffffffffffffp+1023")
