"""Domains (what a value may be), metrics (how far apart two are) and privacy measures.

Distances are exact rationals; where a root is needed it is rounded up once, at 2^-128 relative.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt


@dataclass(frozen=True)
class RowsDomain:
    """Tables: sequences of `Row`, each with a privacy unit, a group key and values."""


@dataclass(frozen=True)
class ContributionDomain:
    """Per group, the rows of each unit that is kept in it; a unit is in at most `groups` groups."""

    groups: int


@dataclass(frozen=True)
class GroupedIntegers:
    """Per group, a vector of exact integers, one for each named coordinate (in grid steps)."""

    coordinates: tuple[str, ...]


@dataclass(frozen=True)
class PrivacyUnitDistance:
    """The number of privacy units all of whose rows are added or removed."""


@dataclass(frozen=True)
class PairDistance:
    """The number of units added or removed, each of them in at most `groups` groups."""

    groups: int


@dataclass(frozen=True)
class L1Distance:
    """Sum over groups and coordinates of |difference| / scale, scales in grid steps."""

    scales: tuple[Fraction, ...]


@dataclass(frozen=True)
class L2Distance:
    """Root of the sum over groups and coordinates of (difference / scale)^2, scales in steps."""

    scales: tuple[Fraction, ...]


@dataclass(frozen=True)
class PureDP:
    """Pure differential privacy: the map gives epsilon."""


@dataclass(frozen=True)
class ApproximateDP:
    """Approximate differential privacy: the map gives (epsilon, delta)."""


@dataclass(frozen=True)
class GaussianDP:
    """Gaussian differential privacy (Dong, Roth, Su 2022): the map gives mu."""


def root_up(square: Fraction) -> Fraction:
    """Return a rational that is not below the root of `square` >= 0, and at most 2^-128 above, relatively.

    >>> root_up(Fraction(9, 4)) == Fraction(3, 2), root_up(Fraction(2)) ** 2 > 2
    (True, True)
    """
    if square == 0:
        return Fraction(0)
    whole = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    if whole * whole == square:
        return whole
    size = square.numerator.bit_length() - square.denominator.bit_length()
    shift = 130 - size // 2
    scaled = square * Fraction(4) ** shift
    return Fraction(isqrt(-(-scaled.numerator // scaled.denominator)) + 1) / Fraction(2) ** shift
