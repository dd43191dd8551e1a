"""Quantile lattices: the places where quantiles are looked for, finer near zero, never too coarse."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.sql_text import double
from sfumato.transformations.grid import as_double

# Significant bits of a place: neighbours are at most 2^-13 of their size apart, and of the bounds' distance.
BITS = 14
# The finest step is this small, or so many octaves below the coarsest.
FINEST, OCTAVES = -20, 20
# Smaller steps have no reciprocal in float64.
MIN = -1000


@dataclass(frozen=True)
class Lattice:
    """A quantile lattice: numbers with `BITS` significant bits within bounds, coarser if bounds are close.

    A value belongs to the nearest lattice point. Points are numbered from zero in both directions.

    Args:
        lower, upper: the bounds, float64 with lower < upper; whole numbers if `whole`.
        whole: whether values, and so lattice points, are whole numbers.
    Raises:
        ParameterError: the bounds do not increase, are not below 2^1000 in size, or are not whole numbers for
            a whole lattice.
    Source:
        docs/proofs/leaves.md.

    >>> import numpy as np
    >>> lattice = Lattice(0.0, 30.0, whole=True)
    >>> lattice.place(2.0), lattice.place(1e9), lattice.value(2), lattice.count
    (2, 30, 2.0, 31)
    >>> fine = Lattice(0.0, 1e6)
    >>> [fine.value(fine.place(x)) for x in (0.3, 3.2, 47_111.3)]
    [0.29998779296875, 3.199951171875, 47112.0]
    >>> fine.nearest(3.2), fine.nearest(None)
    (3.199951171875, None)
    >>> nearest = fine.all_nearest(np.array([3.2, 47_111.3]))
    >>> fine.places(nearest).tolist()
    [78643, 192002]
    """

    lower: float
    upper: float
    whole: bool = False

    def __post_init__(self) -> None:
        if not -(2.0**1000) < self.lower < self.upper < 2.0**1000:
            raise ParameterError("bounds", (self.lower, self.upper), "increasing, and below 2^1000 in size")
        if self.whole and not (self.lower.is_integer() and self.upper.is_integer()):
            raise ParameterError("bounds", (self.lower, self.upper), "whole numbers")

    @cached_property
    def coarsest(self) -> int:
        """The log2 of the largest step, which is at least about two float64 steps at the bounds."""
        found = math.frexp(self.upper - self.lower)[1] - BITS - 1
        found = max(found, math.frexp(max(-self.lower, self.upper))[1] - 52, MIN)
        return max(found, 0) if self.whole else found

    @cached_property
    def finest(self) -> int:
        """The log2 of the smallest step, that of all points near zero."""
        return 0 if self.whole else max(min(FINEST, self.coarsest - OCTAVES), MIN)

    @property
    def near(self) -> float:
        """The size up to which steps are the finest."""
        return 2.0 ** (self.finest + BITS)

    @property
    def far(self) -> float:
        """The size from which steps are the coarsest."""
        return max(2.0 ** (self.coarsest + BITS), self.near)

    @property
    def splitter(self) -> float:
        """The factor that rounds a float64 to `BITS` significant bits (Veltkamp)."""
        return 2.0 ** (53 - BITS) + 1.0

    @property
    def shrunk(self) -> float:
        """A power of two that keeps products with `splitter` finite."""
        return 2.0**-64 if self.coarsest > 800 else 1.0

    def nearest(self, value: Any) -> float | None:
        """Return the lattice point nearest to a value, as float64; None for NULL and NaN.

        Args:
            value: a number.
        Returns:
            The point, or None.
        """
        number = as_double(value)
        return None if number is None else float(self.all_nearest(np.array([number]))[0])

    def _sql(self, value: str) -> str:
        """Return SQL of the lattice's `nearest` for a DOUBLE: the same float64 operations in order.

        Args:
            value: an expression.
        """
        number = f"least(greatest({value}, {double(self.lower)}), {double(self.upper)})"

        def whole_steps(exponent: int) -> str:
            return f"floor({number} * {double(2.0**-exponent)} + 0.5::DOUBLE) * {double(2.0**exponent)}"

        small = f"({number} * {double(self.shrunk)})"
        shifted = f"({small} * {double(self.splitter)})"
        return (
            f"(CASE WHEN abs({number}) < {double(self.near)} THEN {whole_steps(self.finest)} "
            f"WHEN abs({number}) >= {double(self.far)} THEN {whole_steps(self.coarsest)} "
            f"ELSE ({shifted} - ({shifted} - {small})) / {double(self.shrunk)} END + 0.0::DOUBLE)"
        )

    def all_nearest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lattice point nearest to each value; there must be no NaN.

        Args:
            values: a float64 array.
        Returns:
            A float64 array.
        """
        numbers = np.clip(values, self.lower, self.upper)
        sizes, found = np.abs(numbers), np.empty_like(numbers)
        near = sizes < self.near
        far = (sizes >= self.far) & ~near
        for places, power in ((near, self.finest), (far, self.coarsest)):
            found[places] = np.floor(numbers[places] * 2.0**-power + 0.5) * 2.0**power
        small = numbers[~(near | far)] * self.shrunk
        shifted = small * self.splitter
        found[~(near | far)] = (shifted - (shifted - small)) / self.shrunk
        return found + 0.0

    def place(self, value: Any) -> int | None:
        """Return the number of the lattice point nearest to a value.

        Args:
            value: a number.
        Returns:
            A whole number.
        """
        found = self.nearest(value)
        return None if found is None else int(self.places(np.array([found]))[0])

    def places(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the numbers of lattice points, for points from `all_nearest`.

        Args:
            values: lattice points, as `nearest` returns them.
        Returns:
            Whole numbers.
        """
        size = np.abs(values)
        # In an octave 2^e <= size < 2^(e+1) there are 2^(BITS-1) places. The bits of a float64 count them
        # too: those of e, and below them the significant bits, of which `nearest` left the first ones.
        octaves = 1021 + self.finest + BITS
        found = (size.view(np.int64) >> (53 - BITS)) - octaves * (1 << (BITS - 1))
        near, far = size < self.near, size >= self.far
        found[near] = size[near] * 2.0**-self.finest
        found[far] = (size[far] - self.far) * 2.0**-self.coarsest + self._far
        return np.where(values < 0, -found, found)

    @cached_property
    def _far(self) -> int:
        """The number of the lattice's place at `far`."""
        octaves = max(self.coarsest - self.finest, 0)
        return (1 << BITS) + octaves * (1 << (BITS - 1))

    def value(self, place: int) -> float:
        """Return the lattice point with a number, within the bounds.

        Args:
            place: the number of the point, counted from zero in both directions.
        Returns:
            The point.
        """
        return float(self.values(np.array([place]))[0])

    def values(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values at places of the lattice, within the bounds.

        Args:
            places: whole numbers, counted from zero to both sides.
        """
        size, half = np.abs(places), 1 << (BITS - 1)
        octave, rest = np.divmod(np.maximum(size - (1 << BITS), 0), half)
        octave = np.minimum(octave, max(self.coarsest - self.finest, 0))
        # Powers of two make no error; one sum does, where steps are the coarsest.
        found = np.ldexp((half + rest).astype(float), self.finest + octave + 1)
        near, far = size <= 1 << BITS, size >= self._far
        found[far] = self.far + np.ldexp((size[far] - self._far).astype(float), self.coarsest)
        found[near] = np.ldexp(size[near].astype(float), self.finest)
        values: NDArray[np.float64] = np.clip(np.where(places < 0, -found, found), self.lower, self.upper)
        return values + 0.0

    def decimals(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers with fewest decimal digits that belong to places of the lattice.

        Args:
            places: whole numbers, counted from zero to both sides.

        >>> fine = Lattice(0.0, 10.0)
        >>> place = fine.place(2.8)
        >>> fine.value(place), fine.decimals(np.array([place]))
        (2.800048828125, array([2.8]))
        """
        own, back = np.unique(places, return_inverse=True)
        numbers = self.values(own)
        halves = np.minimum(numbers - self.values(own - 1), self.values(own + 1) - numbers) / 2
        short = np.array(list(map(_shortest, numbers.tolist(), halves.tolist())), float)
        found: NDArray[np.float64] = np.clip(short, self.lower, self.upper)[back] + 0.0
        return found

    @cached_property
    def first(self) -> int:
        """The number of the lattice point at the lower bound."""
        return int(self.place(self.lower) or 0)

    @cached_property
    def last(self) -> int:
        """The number of the lattice point at the upper bound."""
        return int(self.place(self.upper) or 0)

    @property
    def count(self) -> int:
        """The number of lattice points."""
        return self.last - self.first + 1


def _shortest(number: float, half: float) -> float:
    """Return the number with fewest decimal digits that is nearer to a lattice's value than half a step."""
    short = (float(f"{number:.{digits}g}") for digits in range(1, 17))
    return next((x for x in short if abs(x - number) < half), number)
