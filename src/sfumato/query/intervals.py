"""Confidence intervals of linear combinations of noisy numbers, and of their ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.measurements.noise import Law
from sfumato.noise import Gaussian

Floats = NDArray[np.float64]
_HALVINGS = 50


@dataclass(frozen=True)
class Interval:
    """Lower and upper ends, one for each group."""

    low: Floats
    high: Floats

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

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

        Exact for one noise, for Gaussian noises and for two Laplace noises, but for the rounding to
        the grid, which adds at most half a step of each; more Laplace noises share the failure.

        Args:
            weights: by coordinate, shape (groups,), any sign.
            failure: in (0, 1).
        """
        if len(weights) == 1:
            ((name, weight),) = weights.items()
            half = self.laws[name].rounded_half_width(1 - failure) * self.steps[name]
            return np.abs(weight) * half
        scales = [np.abs(w) * float(self.laws[n].unit) * self.steps[n] for n, w in weights.items()]
        rounding = sum((np.abs(w) * self.steps[n] / 2 for n, w in weights.items()), np.zeros(1))
        if isinstance(self.laws[next(iter(weights))], Gaussian):
            return np.sqrt(sum(s * s for s in scales)) * two_sided(failure) + rounding
        scales += [np.zeros_like(scales[0])] * (len(scales) % 2)
        pairs = list(zip(scales[::2], scales[1::2], strict=True))
        return sum((_two_laplaces(b, c, failure / len(pairs)) for b, c in pairs), rounding)

    def ratio(
        self,
        numbers: Mapping[str, Floats],
        top: str,
        bottom: Mapping[str, float],
        reach: tuple[float, float],
        failure: float,
    ) -> Interval:
        """Return a confidence interval of a ratio that is known to lie in `reach`.

        For the true ratio m, top - m * bottom is a weighted sum of noises and nothing else: the
        values of m that it does not contradict are a confidence set, here cut to `reach`.

        Source:
            Fieller 1954, "Some problems in interval estimation".
        """
        below = sum((numbers[n] * sign for n, sign in bottom.items()), np.zeros(1))
        above = numbers[top]

        def contradicted(m: Floats) -> NDArray[np.bool_]:
            weights = {top: np.ones_like(m)} | {n: -sign * m for n, sign in bottom.items()}
            excess = np.abs(above - m * below) - self.tolerance(weights, failure)
            return np.asarray(excess > 0)

        centre = np.clip(above / np.where(below > 0, below, np.inf), *reach)
        ends = []
        for limit in reach:
            good, bad = centre, np.full_like(centre, limit)
            open_ended = ~contradicted(bad) | (below <= 0)
            for _ in range(_HALVINGS):
                middle = (good + bad) / 2
                out = contradicted(middle)
                good, bad = np.where(out, good, middle), np.where(out, middle, bad)
            ends.append(np.where(open_ended, limit, bad))
        return Interval(ends[0], ends[1])


def two_sided(failure: float) -> float:
    """Return z with P(|standard Gaussian| > z) = failure."""
    return Gaussian(1).tolerance(-math.log10(failure))


def _two_laplaces(first: Floats, second: Floats, failure: float) -> Floats:
    """Return t with P(|X + Y| > t) = failure for independent Laplace variables, by bisection."""
    b, c = np.maximum(np.maximum(first, second), 1e-140), np.minimum(first, second)
    # At nearly equal scales the formula cancels; a little more of the larger one is on the safe side.
    b = np.where(b - c < 1e-4 * b, b * (1 + 1e-4), b)
    c = np.maximum(c, b * 1e-9)

    def too_small(t: Floats) -> NDArray[np.bool_]:
        tail = (b * b * np.exp(-t / b) - c * c * np.exp(-t / c)) / (b * b - c * c)
        return np.asarray(tail > failure)

    low, high = np.zeros_like(b), (b + c) * (1 + math.log(2 / failure))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        small = too_small(middle)
        low, high = np.where(small, middle, low), np.where(small, high, middle)
    return high
