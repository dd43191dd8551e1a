"""Confidence intervals of linear combinations of noisy numbers, and of their ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.exact.roots import halve
from sfumato.noise.law import Law
from sfumato.noise.sums import NoiseSum
from sfumato.noise.values import Floats

_HALVINGS = 50


@dataclass(frozen=True)
class Interval:
    """Lower and upper ends, one for each group."""

    low: Floats
    high: Floats

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

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

    def tolerance(self, weights: Mapping[str, Floats], failure: float) -> Floats:
        """Return t with P(|weighted sum of the noises| > t) <= failure, for each group.

        Args:
            weights: by coordinate, shape (groups,), any sign.
            failure: in (0, 1).
        """
        found = NoiseSum([(w * self.steps[n], self.laws[n]) for n, w in weights.items()])
        return np.asarray(found.tolerance(-math.log10(failure)))

    def ratio(
        self,
        numbers: Mapping[str, Floats],
        top: str,
        bottom: Mapping[str, float],
        within: tuple[float, float],
        failure: float,
    ) -> Interval:
        """Return a confidence interval of a ratio that is known to lie in `within`.

        For the true ratio m, top - m * bottom is a weighted sum of noises and nothing else: the
        values of m that it does not contradict are a confidence set, here cut to `within`.

        Args:
            numbers: noisy numbers by coordinate, shape (groups,).
            top: the numerator.
            bottom: the coordinates of which the denominator is the sum, each with its sign; the numerator
                may be one of them.
            within: lower and upper end.
            failure: in (0, 1).

        Source:
            Fieller 1954, "Some problems in interval estimation".
        """
        below = sum((numbers[n] * sign for n, sign in bottom.items()), np.zeros(1))
        above = numbers[top]

        def contradicted(m: Floats) -> NDArray[np.bool_]:
            weights = {n: -sign * m for n, sign in bottom.items()}
            weights[top] = 1 + weights.get(top, np.zeros_like(m))
            return np.asarray(np.abs(above - m * below) > self.tolerance(weights, failure))

        centre = np.clip(above / np.where(below > 0, below, np.inf), *within)
        ends = []
        for limit in within:
            end = np.full_like(centre, limit)
            open_ended = ~contradicted(end) | (below <= 0)
            ends.append(np.where(open_ended, limit, halve(contradicted, centre, end, _HALVINGS)[1]))
        return Interval(*ends)
