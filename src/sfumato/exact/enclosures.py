"""Intervals of MPFR numbers that hold a real number, and reals that are known as closely as one asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Final

from sfumato.exact.directed import (
    HALF,
    INFINITY,
    MINUS_INFINITY,
    ZERO,
    Real,
    convert,
    directed,
    exactly,
    is_finite,
    rational,
)


# Not frozen, which would take longer than the arithmetic; `Final` tells mypy.
@dataclass(slots=True, eq=False)
class Enclosure:
    """Two MPFR numbers with a real number between them; arithmetic rounds outward.

    Attributes:
        low, high: the ends; infinite ones are admitted.
        bits: the precision of what is computed from it.

    >>> third = Enclosure.of(1, 64) / Enclosure.of(3, 64)
    >>> third.holds(Fraction(1, 3)), (third + third).rounded(), (third + third - third).below(third)
    (True, 1, None)
    """

    low: Final[Real]
    high: Final[Real]
    bits: Final[int]

    @staticmethod
    def of(number: Fraction | int, bits: int) -> Enclosure:
        """Enclose a rational number."""
        return _of(number, bits)

    @staticmethod
    def between(low: int, high: int, exponent: int, bits: int) -> Enclosure:
        """Return what holds all numbers between low 2^exponent and high 2^exponent."""
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
        """Divide by what is greater than 0."""
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
        """Multiply by a rational number."""
        return self * Enclosure.of(factor, self.bits)

    def power(self, exponent: int) -> Enclosure:
        """Return the power of a number of at least 0, for a whole exponent of at least 1."""
        found = self
        for _ in range(exponent - 1):
            found = found * self
        return found

    def root(self, degree: int) -> Enclosure:
        """Return the root of a number of at least 0."""
        down, up = directed(self.bits)
        return Enclosure(
            down.rootn(max(self.low, ZERO), degree), up.rootn(max(self.high, ZERO), degree), self.bits
        )

    def log(self) -> Enclosure:
        """Return the natural logarithm of a number that is known to be greater than 0."""
        down, up = directed(self.bits)
        return Enclosure(down.log(max(self.low, ZERO)), up.log(self.high), self.bits)

    def exp(self) -> Enclosure:
        """Return e to this power."""
        down, up = directed(self.bits)
        return Enclosure(down.exp(self.low), up.exp(self.high), self.bits)

    def or_less(self, other: Enclosure) -> Enclosure:
        """Return the smaller of two."""
        return Enclosure(min(self.low, other.low), min(self.high, other.high), self.bits)

    def below(self, other: Enclosure) -> bool | None:
        """Whether the one number is below the other; None where the ends do not tell."""
        return True if self.high < other.low else False if self.low > other.high else None

    def holds(self, number: Fraction) -> bool:
        """Whether a number is between the ends."""
        return bool(self.low <= rational(number) <= self.high)

    def rounded(self) -> int | None:
        """Return the whole number that all of it rounds to, halves up; None where it does not."""
        if not (is_finite(self.low) and is_finite(self.high)):
            return None
        # With so many bits the sum with 1/2 is exact, or rounded towards where its floor is the same.
        down = directed(max(128, self.bits + 2)).down
        low, high = (int(down.floor(down.add(end, HALF))) for end in (self.low, self.high))
        return low if low == high else None

    def floor(self) -> int | None:
        """Return the whole number at or below all of it, None where there is no single one."""
        return (self - Enclosure.of(Fraction(1, 2), self.bits)).rounded()

    def nearest(self) -> tuple[float, Fraction]:
        """Return a float, and how far from it the number may lie."""
        low, high = exactly(self.low), exactly(self.high)
        middle = float((low + high) / 2)
        return middle, max(high - Fraction(middle), Fraction(middle) - low)


@lru_cache(1 << 10)
def _of(number: Fraction | int, bits: int) -> Enclosure:
    down, up = directed(bits)
    return Enclosure(convert(number, down), convert(number, up), bits)


# A number that can be enclosed with about as many significant bits as one asks for.
LazyReal = Callable[[int], Enclosure]
first_bits = 64


def is_less(one: LazyReal, other: LazyReal) -> bool:
    """Compare two reals, at ever more bits: it ends where they differ, as random ones do but for chance 0."""
    for doublings in count():
        bits = first_bits << doublings
        found = one(bits).below(other(bits))
        if found is not None:
            return found
    raise AssertionError("unreachable")
