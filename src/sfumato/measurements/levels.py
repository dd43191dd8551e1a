"""Which places are within each distance of a target: the law by which quantiles are drawn, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact.directed import exp_bounds
from sfumato.measurements.base_measure import BaseMeasure
from sfumato.noise import Words

# NumPy's exp, expm1 and log are taken to be right to this part of what they return.
_ELEMENTARY = 2.0**-45

Integers = NDArray[Any]  # int64, or Python's integers where these do not suffice


@dataclass(frozen=True)
class Levels:
    """The distances that places have, and which places are within each: from one place to another.

    e^(-d/b) is the integral of e^(-y/b)/b over all y >= d. So y is drawn first, by what the choices within it
    weigh, and then each target's place among those within y, by its weight, independently.

    Args:
        distances: rising, in `unit`s: among them is the largest distance of each choice.
        rate: 1/scale, per unit.
        ends: for each target the first and the last place within each distance.
        base: what places weigh.
        log_left: log of a bound of what all choices weigh that are left out, times e^(nearest/b).
    """

    distances: Integers
    rate: Fraction
    ends: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]
    base: BaseMeasure
    log_left: float = -math.inf

    @property
    def within(self) -> Iterator[NDArray[np.int64]]:
        """For each target, what its places weigh that are within each distance."""
        return (self.base.between(low, high) for low, high in self.ends)

    def level(self, index: int) -> list[tuple[int, int]]:
        """Return for each target the first and the last place within a distance."""
        return [(int(low[index]), int(high[index])) for low, high in self.ends]

    def pick(self, index: int, words: Words | None) -> tuple[int, ...]:
        """Draw a place for each target among those within a distance."""
        return tuple(self.base.pick(low, high, words) for low, high in self.level(index))

    @cached_property
    def _weights(self) -> tuple[NDArray[np.float64], float]:
        """The weight of each distance, the largest of about 1, and the log of what they were divided by.

        Between two distances e^(-y/b) has the integral e^(-first/b) - e^(-second/b); it is taken as often as
        the choices within the first weigh.
        """
        rate = float(self.rate)
        near = (self.distances - self.distances[0]).astype(float) * rate
        steps = np.append(np.diff(self.distances).astype(float) * rate, np.inf)
        powers = sum(np.log(weight.astype(float)) for weight in self.within) - near
        largest = float(powers.max())
        return np.exp(powers - largest) * -np.expm1(-steps), largest

    @property
    def left(self) -> float:
        """A bound of the part of all weight that is left out."""
        weights, largest = self._weights
        return min(2 * math.exp(min(self.log_left - largest, 700.0)) / float(weights.sum()), 1.0)

    def floats(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of the probabilities that y is below each distance but the first, and in all."""
        sums = np.cumsum(self._weights[0])
        sums /= sums[-1]
        most = 42 * len(self.ends) + 30  # of a power, and of what it is made of
        each = 2 * most * _ELEMENTARY + (len(self.ends) + 8) * most * 2.0**-53 + 4 * _ELEMENTARY
        error, left = 2 * each + len(sums) * 2.0**-51, 2 * self.left
        # Behind the last low bound floats do not tell, as they do not know what is farther.
        return sums * (1 - error) - left, np.append(np.minimum(sums * (1 + error) + left, 1.0)[:-1], 1.0)

    def enclosures(self, bits: int) -> tuple[list[Fraction], list[Fraction]]:
        """Return the same bounds, about 2^-bits apart; where no place was left out."""
        bits += 64
        near = [self.rate * int(d - self.distances[0]) for d in self.distances.tolist()]
        bounds = [exp_bounds(-x, bits) if x <= bits else (Fraction(0), Fraction(1, 1 << bits)) for x in near]
        bounds.append((Fraction(0), Fraction(0)))
        products = [math.prod(own) for own in zip(*(w.tolist() for w in self.within), strict=True)]
        between = list(zip(products, pairwise(bounds), strict=True))
        least = [n * max(a[0] - b[1], Fraction(0)) for n, (a, b) in between]
        most = [n * (a[1] - b[0]) for n, (a, b) in between]
        lows, highs = list(accumulate(least)), list(accumulate(most))
        last = [Fraction(1)]
        return (
            [x / highs[-1] for x in lows[:-1]] + last,
            [min(x / lows[-1], last[0]) if lows[-1] else last[0] for x in highs[:-1]] + last,
        )
