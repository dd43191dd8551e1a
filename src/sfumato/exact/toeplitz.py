"""Running weighted sums with falling weights, exactly: the factors of cumulative totals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError

MOST_STEPS = 1 << 14
# Digits that a coefficient is computed with before it is cut.
_GUARD = 64


@dataclass(frozen=True)
class Toeplitz:
    """A lower triangular matrix R with R[t, s] = coefficients[t - s] / 2^16.

    Args:
        coefficients: whole numbers, 2^16 first, then none larger than the one before it, nor negative.

    >>> half = Toeplitz.of_power(Fraction(1, 2), 4)
    >>> [c / 2**16 for c in half.coefficients], float(half.squared_sum(2))
    ([1.0, 0.5, 0.375, 0.3125], 4.48828125)
    """

    BITS: ClassVar[int] = 16

    coefficients: tuple[int, ...]

    def __post_init__(self) -> None:
        given = self.coefficients
        falling = all(0 <= later <= earlier for earlier, later in pairwise(given))
        if not 0 < len(given) <= MOST_STEPS or given[0] != 1 << self.BITS or not falling:
            raise ParameterError(
                "coefficients", given[:5], f"2^{self.BITS}, then falling, at most 2^14 of them"
            )

    @classmethod
    def of_power(cls, power: Fraction, steps: int, kept: Fraction = Fraction(0)) -> Toeplitz:
        """Return about ((1 - kept z) / (1 - z))^power, each coefficient cut, and none above one before it.

        Without `kept` this is the matrix of cumulative sums to a power. With it the matrix is divided by that
        of sums that keep such a part from one step to the next: it falls faster, and then stays.

        Args:
            power: in [0, 1]; with 0 nothing is added up, with 1 all is.
            steps: how many.
            kept: from 0 to less than 1.
        """
        if not 0 <= power <= 1 or not 0 < steps <= MOST_STEPS or not 0 <= kept < 1:
            raise ParameterError(
                "power", (power, steps, kept), "in [0, 1], of 1 to 2^14 steps, and kept below 1"
            )
        # k f_k = (power (1 - kept) + (k - 1) (1 + kept)) f_(k-1) - kept (k - 2) f_(k-2), from the derivative.
        part, whole = kept.numerator, kept.denominator
        above, below = power.numerator * (whole - part), power.denominator
        found = [1 << (cls.BITS + _GUARD)]
        for k in range(1, steps):
            more = (above + (k - 1) * below * (whole + part)) * found[-1]
            less = (k - 2) * below * part * found[-2] if k > 1 else 0
            found.append(max((more - less) // (k * below * whole), 0))
        return cls(tuple(accumulate((c >> _GUARD for c in found), min)))

    @property
    def steps(self) -> int:
        """How many rows and columns it has."""
        return len(self.coefficients)

    def times(self, values: Sequence[Fraction]) -> list[Fraction]:
        """Return its product with a column."""
        return [
            sum((c * values[t - s] for s, c in enumerate(self.coefficients[: t + 1])), Fraction(0))
            / (1 << self.BITS)
            for t in range(len(values))
        ]

    def squared_sum(self, columns: int) -> Fraction:
        """Return the squared length of the sum of the first so many columns."""
        sums = np.cumsum(np.array(self.coefficients, np.int64))
        inside = sums.copy()
        inside[columns:] -= sums[:-columns]
        # Each is at most 2^30, and its square 2^60: halves of these add up in 64 bits.
        squares = inside * inside
        high, low = int((squares >> 30).sum()), int((squares & ((1 << 30) - 1)).sum())
        return Fraction((high << 30) + low, 1 << 2 * self.BITS)
