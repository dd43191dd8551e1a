"""Confidence intervals of linear combinations of noisy numbers, and of their ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.exact.roots import narrow
from sfumato.noise.law import Law
from sfumato.noise.sums import NoiseSum
from sfumato.noise.values import Floats

_HALVINGS = 50  # by which brackets become shorter
Weight = Any  # float, or float64 array


@dataclass(frozen=True)
class Interval:
    """Lower and upper ends, one for each group."""

    low: Floats
    high: Floats

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def __truediv__(self, other: Interval) -> Interval:
        """Return the interval of a ratio; all numbers where the other one holds 0."""
        holds = (other.low <= 0) & (other.high >= 0)
        below = [np.where(holds, 1.0, end) for end in (other.low, other.high)]
        with np.errstate(invalid="ignore"):
            ends = [above / end for above in (self.low, self.high) for end in below]
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        holds = holds | np.isnan(low)  # infinite over infinite
        return Interval(np.where(holds, -np.inf, low), np.where(holds, np.inf, high))

    @property
    def middle(self) -> Floats:
        """Halfway between the ends."""
        return (self.low + self.high) / 2

    def map(self, increasing: Callable[[Floats], Floats]) -> Interval:
        """Apply an increasing function."""
        return Interval(increasing(self.low), increasing(self.high))

    def squared(self) -> Interval:
        """Return the squares' interval."""
        squares = self.low**2, self.high**2
        low = np.where((self.low < 0) & (self.high > 0), 0.0, np.minimum(*squares))
        return Interval(low, np.maximum(*squares))


@dataclass(frozen=True)
class Noises:
    """The noises of a release: their laws and grid steps, by coordinate."""

    laws: Mapping[str, Law]
    steps: Mapping[str, float]

    def tolerance(self, weights: Mapping[str, Floats], failure: float, copies: int = 1) -> Floats:
        """Return t with P(|weighted sum of the noises| > t) <= failure, for each group.

        Args:
            weights: by coordinate, shape (groups,), any sign.
            failure: in (0, 1).
            copies: of so many groups that sum is added up.
        """
        found = NoiseSum([(w * self.steps[n], self.laws[n]) for n, w in weights.items()] * copies)
        return np.asarray(found.tolerance(-math.log10(failure)))

    def ratio(
        self,
        numbers: Mapping[str, Floats],
        top: Mapping[str, Weight],
        bottom: Mapping[str, Weight],
        within: tuple[Weight, Weight],
        failure: float,
    ) -> Interval:
        """Return a confidence interval of a ratio that is known to lie in `within`.

        For the true ratio m, top - m * bottom is a weighted sum of noises and nothing else: the
        values of m that it does not contradict are a confidence set, here cut to `within`.

        Args:
            numbers: noisy numbers by coordinate, shape (groups,).
            top, bottom: the coordinates of which numerator and denominator are the sums, with their weights.
            within: lower and upper end.
            failure: in (0, 1).

        Source:
            Fieller 1954, "Some problems in interval estimation".
        """
        below = self._sum(numbers, bottom)
        above = self._sum(numbers, top)

        def beyond(m: Floats) -> Floats:
            # How much the sum of noises is more than its tolerance, if m is the ratio.
            zero = np.zeros_like(m)
            weights = {
                n: top.get(n, 0.0) - m * bottom.get(n, 0.0) + zero for n in dict.fromkeys((*top, *bottom))
            }
            return np.asarray(np.abs(above - m * below) - self.tolerance(weights, failure))

        centre = np.clip(above / np.where(below > 0, below, np.inf), *within)
        ends = []
        for limit in within:
            end = np.zeros_like(centre) + limit
            open_ended = ~(beyond(end) > 0) | (below <= 0)
            ends.append(np.where(open_ended, limit, narrow(beyond, centre, end, _HALVINGS)[1]))
        return Interval(*ends)

    def quotient(
        self,
        numbers: Mapping[str, Floats],
        top: Mapping[str, float],
        bottom: Mapping[str, float],
        failure: float,
    ) -> Interval:
        """Return a confidence interval of a ratio of which nothing is known: infinite where 0 may be below.

        Args:
            numbers, top, bottom, failure: as of `ratio`.
        """
        above, below = self._sum(numbers, top), self._sum(numbers, bottom)
        zero = np.zeros_like(below)
        # Tolerances of parts, with a step more for each, as a sum may be rounded where a part is not.
        off, off_below = (
            self.tolerance({n: w + zero for n, w in of.items()}, failure)
            + sum(abs(w) * self.steps[n] for n, w in of.items())
            for of in (top, bottom)
        )
        sure = np.abs(below) > off_below * (1 + 1e-9)
        distance = np.where(sure, np.abs(below) - off_below, 1.0)
        most = np.where(sure, (np.abs(above) + off) / distance * (1 + 1e-9) + 1e-300, 0.0)
        side = np.where(below < 0, -1.0, 1.0)
        over, under = ({n: w * side for n, w in of.items()} for of in (top, bottom))
        found = self.ratio(numbers, over, under, (-most, most), failure)
        # The tolerance of a sum is at most the sum of tolerances, so that ends are nearer.
        low = np.where(sure & (found.low > -most), found.low, -np.inf)
        return Interval(low, np.where(sure & (found.high < most), found.high, np.inf))

    @staticmethod
    def _sum(numbers: Mapping[str, Floats], weights: Mapping[str, Weight]) -> Floats:
        return np.asarray(sum(numbers[n] * w for n, w in weights.items()))
