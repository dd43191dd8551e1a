"""Lowest set bits of numbers, and codes for rows of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Valuations of what has no lowest set bit.
NO_BITS, ZERO_BITS = 2000, 1100


def low_of_fraction(value: Fraction) -> int:
    """Return the exponent of the lowest set bit; a number with endlessly many bits has none."""
    if not value:
        return ZERO_BITS
    if value.denominator & (value.denominator - 1):
        return NO_BITS
    low = (value.numerator & -value.numerator).bit_length() - value.denominator.bit_length()
    return max(min(low, ZERO_BITS - 1), -ZERO_BITS)


def low_of_floats(numbers: Floats) -> Codes:
    """Return the exponent of the lowest set bit of each float."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | np.where(exponent > 0, np.int64(1) << 52, 0)
    lowest = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    low = np.maximum(exponent, 1) - 1075 + lowest
    return np.where(exponent == 0x7FF, NO_BITS, np.where(mantissa == 0, ZERO_BITS, low))


def low_of_wholes(numbers: NDArray[Any]) -> Codes:
    """Return the exponent of the lowest set bit of each whole number."""
    bits = numbers.astype(np.uint64)
    with np.errstate(over="ignore"):
        lowest = bits & (~bits + np.uint64(1))
    found = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1
    return np.where(bits == 0, ZERO_BITS, found)


def rows_mixed(codes: Codes) -> Codes:
    """Return a code for each row of codes."""
    total = np.zeros(len(codes), np.int64)
    with np.errstate(over="ignore"):
        for column in codes.T:
            total = mixed(total * 31 + column)
    return total


def mixed(codes: Codes) -> Codes:
    """Mix 64 bits well (the finisher of splitmix64), so that sums of codes rarely collide."""
    z = codes.astype(np.uint64)
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).astype(np.int64)
