"""MPFR with a direction: every operation rounds up, or every operation rounds down."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import gmpy2

Context = Any  # gmpy2 has no types of its own


@lru_cache(maxsize=64)
def upward(bits: int) -> Context:
    """Return a context of `bits` bits whose operations round towards +infinity."""
    return gmpy2.context(precision=bits, round=gmpy2.RoundUp)


@lru_cache(maxsize=64)
def downward(bits: int) -> Context:
    """Return a context of `bits` bits whose operations round towards -infinity."""
    return gmpy2.context(precision=bits, round=gmpy2.RoundDown)


def convert(number: Fraction | int, context: Context) -> Any:
    """Return `number` in the context's precision, rounded in its direction."""
    with gmpy2.context(context):
        return gmpy2.mpfr(gmpy2.mpq(number.numerator, number.denominator))


def exactly(number: Any) -> Fraction:
    """Return an MPFR number as the Fraction that it is."""
    numerator, denominator = number.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


def round_bits(number: Fraction, bits: int, *, up: bool) -> Fraction:
    """Round a Fraction outward to `bits` significant bits.

    >>> round_bits(Fraction(1, 3), 4, up=True), round_bits(Fraction(1, 3), 4, up=False)
    (Fraction(11, 32), Fraction(5, 16))
    """
    return exactly(convert(number, upward(bits) if up else downward(bits)))


def expm1_down(power: Fraction, bits: int = 64) -> Fraction:
    """Return a number of `bits` bits at or below e^power - 1, within 2 of its last bits.

    >>> float(expm1_down(Fraction(1)))
    1.71828182845...
    """
    return exactly(downward(bits).expm1(convert(power, downward(bits))))


def log1p_up(number: Fraction, bits: int = 128) -> Fraction:
    """Return a number of `bits` bits at or above ln(1 + number), within 2 of its last bits.

    >>> log1p_up(expm1_down(Fraction(1, 3))) <= Fraction(1, 3)
    True
    """
    return exactly(upward(bits).log1p(convert(number, upward(bits))))


def log2(number: Fraction) -> float:
    """Return the binary logarithm of a positive Fraction of any size, to float accuracy.

    >>> log2(Fraction(1, 2**5000))
    -5000.0
    """
    shift = number.numerator.bit_length() - number.denominator.bit_length()
    scaled = number / 2**shift if shift >= 0 else number * 2**-shift
    return shift + math.log2(scaled)
