"""What places of a lattice weigh before any count is looked at: round numbers more than others."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.measurements.coins import uniform_below
from sfumato.noise import Words
from sfumato.transformations.lattice import Lattice

# Round numbers have so many digits, counted from the first one or from that of the bounds' distance.
DIGITS = 1, 2, 3
# Of wide bounds only the roundest numbers: not more than so many of them.
MOST_ROUND = 1 << 15
# Numbers are called round that are at most one of so many places.
FEW = 2

# Powers of ten with larger exponents, or their reciprocals, are no float64.
_LARGEST_POWER = 300


@dataclass(frozen=True)
class BaseMeasure:
    """A weight of at least 1 for each place of a lattice: about equal shares for all, and for round numbers.

    People's values are often round, and then many have one of them. Places are chosen by weight and by
    distance; were all weights equal, the thousands of places around such a number would outweigh it.

    Args:
        lattice: the places.

    >>> base = BaseMeasure(Lattice(0.0, 50.0, whole=True))
    >>> [int(base.between(place, place)) for place in (20, 23)], int(base.total)
    ([4, 1], 96)

    Source:
        McSherry and Talwar 2007: the exponential mechanism with a base measure; any one has the same privacy.
    """

    lattice: Lattice

    @cached_property
    def _round(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of round numbers, rising, and what those before each of them weigh more, and all."""
        found = [self._with_digits(digits) for digits in DIGITS]
        count = self.lattice.count
        found = [places for places in found if 0 < len(places) <= min(count // FEW, MOST_ROUND)]
        more = [np.full(len(places), count // len(places)) for places in found]
        places, own = np.unique(np.concatenate([*found, np.zeros(0, np.int64)]), return_inverse=True)
        weights = np.zeros(len(places) + 1, np.int64)
        np.add.at(weights, own + 1, np.concatenate([*more, np.zeros(0, np.int64)]))
        return places, np.cumsum(weights)

    def _with_digits(self, digits: int) -> NDArray[np.int64]:
        lattice = self.lattice
        top = _decade(Fraction(lattice.upper) - Fraction(lattice.lower))
        # Below this size places are as far apart as at zero.
        lowest = 0 if lattice.whole else _decade(Fraction(lattice.near))
        largest = max(abs(lattice.lower), abs(lattice.upper))
        runs = [_multiples(lattice.lower, lattice.upper, top - digits + 1)]
        for decade in range(lowest, min(top, _decade(Fraction(largest)) + 1)):
            if (decade - lowest) * 10**digits > MOST_ROUND:
                return np.zeros(0, np.int64)
            least = 10.0**decade if decade > lowest else 0.0
            own = _multiples(least, 10.0 ** (decade + 1), decade - digits + 1)
            runs += [-own, own]
        values = np.concatenate(runs)
        values = values[(lattice.lower <= values) & (values <= lattice.upper)]
        if lattice.whole:
            values = values[values == np.floor(values)]
        return np.unique(lattice.places(lattice.all_nearest(values)))

    @cached_property
    def total(self) -> int:
        """The weight of all places."""
        return int(self.between(self.lattice.first, self.lattice.last))

    def between(self, low: Any, high: Any) -> Any:
        """Return the weight of the places from one to another, both included: integers or arrays of such."""
        places, before = self._round
        more = before[np.searchsorted(places, high, "right")] - before[np.searchsorted(places, low)]
        return high - low + 1 + more

    def pick(self, low: int, high: int, words: Words | None) -> int:
        """Draw a place from one to another, both included, with a probability proportional to its weight."""
        places, before = self._round
        first, end = np.searchsorted(places, low), np.searchsorted(places, high, "right")
        alike = high - low + 1
        drawn = int(uniform_below(alike + int(before[end] - before[first]), 1, words)[0])
        if drawn < alike:
            return low + drawn
        return int(places[np.searchsorted(before, before[first] + drawn - alike, "right") - 1])


def _decade(size: Fraction) -> int:
    """Return the largest power of ten that is not above a number, as its exponent."""
    found = math.floor(math.log10(size))
    return found - (Fraction(10) ** found > size) + (Fraction(10) ** (found + 1) <= size)


def _multiples(lower: float, upper: float, power: int) -> NDArray[np.float64]:
    """Return the float64 next to the multiples of a power of ten from a bound to another; few of them."""
    step = Fraction(10) ** power
    first, last = math.ceil(Fraction(lower) / step), math.floor(Fraction(upper) / step)
    if abs(power) > _LARGEST_POWER or max(-first, last) >= 1 << 53 or last - first > MOST_ROUND:
        return np.zeros(0)
    numbers = np.arange(first, last + 1).astype(float)
    # A quotient by a whole power of ten is the nearest float64, the product with a fraction is not.
    return numbers * float(10**power) if power >= 0 else numbers / float(10**-power)
