"""Noisy numbers to outputs and their error bars. Post-processing: nothing private is seen here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.measurements.noise import Law
from sfumato.noise import Gaussian
from sfumato.query.quantiles import PROFILE, NoisyTree
from sfumato.query.statistics import Estimate
from sfumato.transformations.quantile_tree import BRANCHING, HEIGHT

Floats = NDArray[np.float64]
# A walk down the tree adds up at most so many noisy counts of nodes.
_TREE_TERMS = HEIGHT * (BRANCHING - 1)


@dataclass(frozen=True)
class Interval:
    """Lower and upper ends, one for each group."""

    low: Floats
    high: Floats

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def shifted(self, by: float) -> Interval:
        """Move both ends."""
        return Interval(self.low + by, self.high + by)

    def times(self, factor: float) -> Interval:
        """Multiply by a number of either sign."""
        ends = self.low * factor, self.high * factor
        return Interval(np.minimum(*ends), np.maximum(*ends))

    def map(self, increasing: Callable[[Floats], Floats]) -> Interval:
        """Apply an increasing function."""
        return Interval(increasing(self.low), increasing(self.high))

    def over(self, count: Interval) -> Interval:
        """Divide by an interval of counts, each at least one."""
        low, high = np.maximum(count.low, 1.0), np.maximum(count.high, 1.0)
        return Interval(
            self.low / np.where(self.low > 0, high, low), self.high / np.where(self.high > 0, low, high)
        )

    def squared(self) -> Interval:
        """Return the squares' interval."""
        squares = self.low**2, self.high**2
        low = np.where((self.low < 0) & (self.high > 0), 0.0, np.minimum(*squares))
        return Interval(low, np.maximum(*squares))


@dataclass(frozen=True)
class NoisyNumbers:
    """The noisy numbers of a batch of groups, in the units of the statistics.

    Args:
        values: by coordinate, float64 of shape (groups,).
        trees: by coordinate of a tree.
        laws: by coordinate, the law of the noise in grid steps.
        steps: by coordinate, the grid step.
    """

    values: Mapping[str, Floats]
    trees: Mapping[str, NoisyTree]
    laws: Mapping[str, Law]
    steps: Mapping[str, Fraction]

    def output(self, estimate: Estimate) -> pa.Array:
        """Return one output column: int64 for whole numbers, else float64."""
        value = self._value(estimate)
        if estimate.whole:
            # 2^63 is the first float64 beyond int64.
            clipped = np.clip(np.rint(value), -(2.0**63), np.nextafter(2.0**63, 0))
            return pa.array(clipped.astype(np.int64))
        return pa.array(value)

    def half_width(self, estimate: Estimate, confidence: float) -> Floats:
        """Return half-widths t: with this confidence the exact statistic is within t of the output.

        The exact statistic is that of the bounded contributions; what bounding itself changed is
        not part of it.
        """
        if estimate.kind == "quantile":
            interval = self._quantile_interval(estimate, confidence)
        elif (linear := self._linear(estimate, confidence)) is not None:
            return linear
        else:
            # Independent noises, each inside with probability confidence^(1/m), are all inside
            # with `confidence`.
            each = confidence ** (1 / len(estimate.coordinates))
            interval = self._interval(estimate, each)
        value = self._value(estimate)
        if estimate.whole:
            value = np.rint(value)
        return np.maximum(np.maximum(interval.high - value, value - interval.low), 0.0)

    def _value(self, estimate: Estimate) -> Floats:
        if estimate.kind == "quantile":
            assert estimate.total is not None
            tree = self.trees[estimate.total]
            share = tree.values[:, tree.ranks.index(estimate.rank)]
            return estimate.lower + share * (estimate.upper - estimate.lower)
        # A point is an interval of no width: one formula serves values and error bars.
        return self._interval(estimate, None).low

    def _interval(self, e: Estimate, confidence: float | None) -> Interval:
        def of(name: str | None) -> Interval:
            assert name is not None
            value = self.values[name]
            if confidence is None:
                return Interval(value, value)
            half = self.laws[name].rounded_half_width(confidence) * float(self.steps[name])
            return Interval(value - half, value + half)

        zero = Interval(np.zeros(1), np.zeros(1))
        count = of(e.count) if e.count is not None else zero
        if e.absent is not None:
            count = count - of(e.absent).map(lambda x: np.maximum(x, 0.0))
        if e.kind == "count":
            return count
        if e.kind == "sum":
            return of(e.total) + count.times(e.centre)
        average = of(e.total).over(count)
        if e.kind == "mean":
            return average.shifted(e.centre).map(lambda x: np.clip(x, e.lower, e.upper))
        spread = of(e.squares).over(count).shifted(e.square_centre) - average.squared()
        if e.kind == "variance":
            return spread.map(lambda x: np.clip(x, 0.0, e.upper))
        return spread.map(lambda x: np.sqrt(np.clip(x, 0.0, e.upper**2)))

    def _linear(self, e: Estimate, confidence: float) -> Floats | None:
        """Return the exact half-width of one number, or of a weighted sum of two."""
        if e.kind not in ("count", "sum") or e.absent is not None:
            return None
        terms = []
        if e.kind == "count" and e.count is not None:
            terms.append((e.count, 1.0))
        if e.kind == "sum":
            assert e.total is not None
            terms.append((e.total, 1.0))
            if e.count is not None and e.centre != 0:
                terms.append((e.count, abs(e.centre)))
        size = len(self.values[terms[0][0]])
        if len(terms) == 1:
            name, factor = terms[0]
            half = self.laws[name].rounded_half_width(confidence) * float(self.steps[name]) * factor
            return np.full(size, half)
        scales = [float(self.laws[n].unit * self.steps[n]) * f for n, f in terms]
        rounding = sum(float(self.steps[n]) * f for n, f in terms) / 2
        gaussian = isinstance(self.laws[terms[0][0]], Gaussian)
        half = (
            math.hypot(*scales) * Gaussian(1).tolerance(-math.log10(1 - confidence))
            if gaussian
            else _two_laplaces(scales[0], scales[1], 1 - confidence)
        )
        return np.full(size, half + rounding)

    def _quantile_interval(self, e: Estimate, confidence: float) -> Interval:
        assert e.total is not None
        tree, law = self.trees[e.total], self.laws[e.total]
        error = _sum_tolerance(law, 1 - confidence) / tree.total
        width = e.upper - e.lower
        low = _at_ranks(tree.profile, e.rank - error, down=True)
        high = _at_ranks(tree.profile, e.rank + error, down=False)
        return Interval(e.lower + low * width, e.lower + high * width)


def _at_ranks(profile: Floats, ranks: Floats, down: bool) -> Floats:
    """Read the quantile function at the next hundredth outward; the end of the range beyond it."""
    place = ranks * (len(PROFILE) - 1)
    index = np.floor(place) if down else np.ceil(place)
    inside = np.clip(index, 0, len(PROFILE) - 1).astype(int)
    read = profile[np.arange(len(profile)), inside]
    return np.where(index < 0, 0.0, np.where(index > len(PROFILE) - 1, 1.0, read))


def _sum_tolerance(law: Law, failure: float) -> float:
    """Return t with P(|sum of the noises on a path| > t) <= failure, in grid steps."""
    n, scale = _TREE_TERMS, float(law.unit)
    rounding = n / 2
    if isinstance(law, Gaussian):
        return math.sqrt(n) * scale * Gaussian(1).tolerance(-math.log10(failure)) + rounding
    # Chernoff: P(|sum| > t) <= 2 exp(-u t) (1 - u^2)^-n for every u in (0, 1), t in scales.
    tries = [i / 200 for i in range(1, 200)]
    bounds = [(math.log(2 / failure) - n * math.log1p(-u * u)) / u for u in tries]
    return min(bounds) * scale + rounding


def _two_laplaces(first: float, second: float, failure: float) -> float:
    """Return t with P(|X + Y| > t) = failure for independent Laplace variables, by bisection."""
    b, c = max(first, second), min(first, second)

    def tail(t: float) -> float:
        if b - c < 1e-6 * b:  # the limit of equal scales, at the larger one
            return math.exp(-t / b) * (1 + t / (2 * b))
        return (b * b * math.exp(-t / b) - c * c * math.exp(-t / c)) / (b * b - c * c)

    low, high = 0.0, b + c
    while tail(high) > failure:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > failure else (low, middle)
    return high
