"""Grids: every statistic is a whole number of steps of a power of two, and values are put on a grid."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WEIGHT_BITS, WHOLE

# A value in steps, its square and sums of them must stay inside an engine's 64-bit and 128-bit
# integers: |value| <= 2^31 steps leaves its square below 2^63, and 2^64 rows of that below 2^127.
MAX_HALF_RANGE_BITS = 31


@dataclass(frozen=True)
class Grid:
    """A grid: the multiples of 2**exponent.

    >>> Grid(-2).step, Grid(0).steps_at_most(Fraction(7, 2)), Grid(0).steps_at_least(Fraction(7, 2))
    (Fraction(1, 4), 3, 4)
    >>> Grid.for_noise(Fraction(1000), bits=10).step
    Fraction(1, 2)
    """

    exponent: int

    @property
    def step(self) -> Fraction:
        """The step of the grid, the distance between neighbouring points, in the statistic's unit."""
        return Fraction(2) ** self.exponent

    def steps_at_most(self, value: Fraction) -> int:
        """Return the largest number of grid steps that is at most `value`.

        Args:
            value: an exact number.
        Returns:
            A whole number.
        """
        return math.floor(value / self.step)

    def steps_at_least(self, value: Fraction) -> int:
        """Return the smallest number of grid steps that is at least `value`.

        Args:
            value: an exact number.
        Returns:
            A whole number.
        """
        return math.ceil(value / self.step)

    @classmethod
    def for_noise(cls, scale: Fraction, bits: int = 30) -> Grid:
        """Return the grid on which noise of this scale is about 2**bits steps wide.

        Args:
            scale: the scale of the noise, in the column's unit.
            bits: log2 of the noise scale in steps.
        Returns:
            The grid.
        """
        return cls(get_exponent(scale) - bits)


def get_exponent(value: Fraction) -> int:
    """Return the exponent e of a grid with 2**e <= value < 2**(e+1), for value > 0."""
    e = value.numerator.bit_length() - value.denominator.bit_length()
    return e if Fraction(2) ** e <= value else e - 1


@dataclass(frozen=True)
class ValueGrid:
    """The grid of a column: values are clamped to bounds, rounded, and counted from the midpoint.

    The bounds move outward to the grid, so that their midpoint is on it too. Rounding is to the nearest step,
    halves away from zero. NULL and NaN have no value; infinities are clamped.

    Args:
        exponent: log2 of the step.
        lower, upper: the bounds in steps, with an even sum.
    Raises:
        ParameterError: the bounds do not increase, or have an odd sum.

    >>> grid = ValueGrid.around(Fraction(0), Fraction(3), Grid(-1))
    >>> grid.lower, grid.upper, grid.centre, grid.half_range
    (0, 6, 3, 3)
    >>> [grid.centred(x) for x in (-1.0, 0.3, 99, float("inf"), float("nan"), None)]
    [-3, -2, 3, 3, None, None]
    """

    exponent: int
    lower: int
    upper: int

    @classmethod
    def around(cls, lower: Fraction, upper: Fraction, grid: Grid) -> ValueGrid:
        """Return a column's grid with bounds moved outward to it, coarse enough for exact float64.

        Args:
            lower, upper: bounds in the column's unit.
            grid: the grid of the values.
        Returns:
            The grid of values between these bounds.
        """
        largest = max(abs(lower), abs(upper))
        floor = get_exponent(upper - lower) - MAX_HALF_RANGE_BITS
        if largest:
            floor = max(floor, get_exponent(largest) - 51)
        grid = Grid(max(grid.exponent, floor))
        low, high = grid.steps_at_most(lower), grid.steps_at_least(upper)
        return cls(grid.exponent, low, high + (low + high) % 2)

    def __post_init__(self) -> None:
        if self.lower >= self.upper or (self.lower + self.upper) % 2:
            raise ParameterError("bounds", (self.lower, self.upper), "increasing, with an even sum")

    @property
    def step(self) -> Fraction:
        """The step of the column's grid, in the column's unit."""
        return Fraction(2) ** self.exponent

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the column's grid, in the column's unit; float64 holds them exactly."""
        return float(self.lower * self.step), float(self.upper * self.step)

    @property
    def centre(self) -> int:
        """The midpoint of the bounds, in grid steps."""
        return (self.lower + self.upper) // 2

    @property
    def half_range(self) -> int:
        """Half the distance of the bounds, in grid steps: the largest |centred|."""
        return (self.upper - self.lower) // 2

    def centred(self, value: Any) -> int | None:
        """Return the grid steps from the midpoint to the clamped and rounded value.

        Args:
            value: a row's value, in the column's unit.
        Returns:
            A whole number, or None for NULL and NaN.
        """
        number = as_double(value)
        if number is None:
            return None
        low, high = self.bounds
        return steps_half_away(min(max(number, low), high), self.exponent) - self.centre


def as_double(value: Any) -> float | None:
    """Read a value, to be put on a grid, as float64, with NULL and NaN as None."""
    if value is None:
        return None
    number = float(value)
    return None if math.isnan(number) else number


def has_value(value: Any) -> bool:
    """Whether a row has a value for the grid, which NULL and NaN are not."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def steps_half_away(number: float, exponent: int) -> int:
    """Return the nearest number of grid steps of 2**exponent, halves away from zero.

    >>> steps_half_away(-2.5, 0), steps_half_away(0.375, -2), steps_half_away(4.0, 3)
    (-3, 2, 1)
    """
    numerator, denominator = abs(number).as_integer_ratio()
    numerator, denominator = numerator << max(0, -exponent), denominator << max(0, exponent)
    magnitude = (2 * numerator + denominator) // (2 * denominator)
    return magnitude if number >= 0 else -magnitude


def scaled_down(total: int, rows: int, limit: int, weight: int = WHOLE) -> int:
    """Return grid steps total * min(1, limit / rows), cut towards zero; and of that the unit's part.

    Cutting never lengthens a vector, so the bound of `limit` rows holds for every weighted norm
    without an allowance for rounding.

    >>> scaled_down(-7, rows=2, limit=1), scaled_down(5, rows=1, limit=3), scaled_down(7, 1, 1, WHOLE // 4)
    (-3, 5, 1)
    """
    magnitude = abs(total) if rows <= limit else abs(total) * limit // rows
    magnitude = magnitude * weight >> WEIGHT_BITS
    return magnitude if total >= 0 else -magnitude


def scaled_down_upwards(values: int, rows: int, limit: int, exponent: int, weight: int = WHOLE) -> int:
    """Return values * min(1, limit / rows) in grid steps, rounded up, and a step more if scaled.

    Never more than the limit. So a number of values still limits sums over them that are cut towards zero,
    and sums of their squares by more than what is cut.

    >>> [scaled_down_upwards(v, rows=3, limit=2, exponent=-2) for v in (0, 1, 3)]
    [0, 4, 8]
    >>> scaled_down_upwards(1, rows=2, limit=2, exponent=-2)
    4
    """
    limited = values << -exponent
    if rows > limit and values:
        limited = min(-(-limited * limit // rows) + 1, limit << -exponent)
    return -(-limited * weight >> WEIGHT_BITS)


def scaled_counts(
    places: Sequence[int | None], limit: int, exponent: int, weight: int = WHOLE
) -> Counter[int]:
    """Return a unit's counts at places, limit/n for each of n rows, at most 1, cut to the grid.

    Args:
        places: of all its rows; None where a row has no value, which counts among the n alone.
        limit: the limit of rows.
        exponent: log2 of the step in which rows are counted, at most 0.
        weight: how much of the unit counts.

    >>> scaled_counts([3, 3, 5, None], limit=2, exponent=-3)
    Counter({3: 8, 5: 4})
    """
    counts = Counter(place for place in places if place is not None)
    return Counter(
        {place: scaled_down(n << -exponent, len(places), limit, weight) for place, n in counts.items()}
    )
