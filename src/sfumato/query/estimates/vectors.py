"""Sums and means of vectors: one output for all entries, which have noise of one law."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.framework import AtomDomain
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import VectorMean, VectorSum
from sfumato.query.design import Design, short
from sfumato.query.estimates.counts import LARGEST_WHOLE, MOST_SCALES, MOST_UNITS
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.transformations import Ball, Grid, VectorCount
from sfumato.transformations import VectorSum as Statistic
from sfumato.transformations.grid import exponent_of
from sfumato.transformations.statistics.vector_sum import MOST_RADIUS

# The radius has at least so many bits of steps, and at most one more than the other.
_LEAST_BITS, _MOST_BITS = 20, 31


@dataclass(frozen=True)
class VectorEstimate(Estimate):
    """A sum of vectors, entry by entry."""

    kind = "vector_sum"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy sums, of shape (groups, entries)."""
        assert self.total is not None
        return numbers.values[self.total]

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return each entry, give or take the tolerance of its noise."""
        assert self.total is not None
        exact = self.value(numbers)
        half = numbers.noises.tolerance({self.total: np.ones(1)}, failure)
        return Interval(exact - half, exact + half)


@dataclass(frozen=True)
class VectorMeanEstimate(Estimate):
    """A mean of vectors: each entry of the noisy sum over the noisy count."""

    kind = "vector_mean"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the means within the bounds, of shape (groups, entries)."""
        assert self.total is not None
        count = np.maximum(self.counted(numbers), self.least)[:, None]
        mean: Floats = np.clip(numbers.values[self.total] / count, self.lower, self.upper)
        return mean

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return Fieller's interval of each entry, within the bounds."""
        assert self.total is not None and self.count is not None
        sums = numbers.values[self.total]
        given = {self.total: sums.ravel(), self.count: np.repeat(numbers.values[self.count], sums.shape[1])}
        within = self.lower, self.upper
        found = numbers.noises.ratio(given, {self.total: 1.0}, self.signs, within, failure)
        return found.map(lambda x: x.reshape(sums.shape))


def vector_sums(design: Design, name: str, aggregate: VectorSum) -> tuple[Estimate, ...]:
    """Ask for a sum of vectors."""
    made, whole = _summed(design, aggregate)
    rows = design.rows if aggregate.per == "row" else 1
    noise = design.multiplier * rows * aggregate.bound
    most = max(Fraction(MOST_UNITS) * rows * aggregate.bound, MOST_SCALES * noise * aggregate.length)
    return (
        VectorEstimate(
            name, total=made.names[0], whole=whole, wide=most > LARGEST_WHOLE, entries=aggregate.length
        ),
    )


def vector_means(design: Design, name: str, aggregate: VectorMean) -> tuple[Estimate, ...]:
    """Ask for a mean of vectors: their sum, and the number of rows that have one."""
    made, _ = _summed(design, aggregate)
    count = VectorCount(aggregate.column, aggregate.length, design.rows, design.weight_exponent())
    design.add(count)
    bound = float(aggregate.bound)
    return (
        VectorMeanEstimate(
            name, count.names[0], total=made.names[0], lower=-bound, upper=bound, entries=aggregate.length
        ),
    )


def _summed(design: Design, aggregate: VectorSum) -> tuple[Statistic, bool]:
    """Take the sum of a column of vectors, and return whether it is of whole numbers."""
    entries, bound = design.schema[aggregate.column].entries, aggregate.bound
    noise = design.multiplier * (design.rows if aggregate.per == "row" else 1) * bound
    # What is cut off when a vector is shortened is less than a step, which is too much of a whole number: so
    # numbers stay whole only where entries are clamped, each by itself.
    whole = (
        isinstance(entries, AtomDomain)
        and entries.kind in (int, bool)
        and aggregate.norm == "linf"
        and bound.denominator == 1
        and bound <= MOST_RADIUS
        and not design.query.scaled
        and noise * aggregate.length < 2**50
    )
    grid = _grid(noise, bound)
    if whole:  # but rows that are scaled down
        grid = Grid(0 if aggregate.per == "unit" else min(0, grid.exponent))
    label = f"{aggregate.column}[{aggregate.length}, {aggregate.norm} {short(bound)}]"
    made = Statistic(
        f"{label}.row" if aggregate.per == "row" else label,
        aggregate.column,
        aggregate.length,
        grid.exponent,
        grid.steps_at_least(bound),
        Ball(aggregate.norm),
        design.rows if aggregate.per == "row" else None,
    )
    design.add(made)
    return made, whole


def _grid(noise: Fraction, bound: Fraction) -> Grid:
    """Return a grid on which noise is about 2^30 steps, and the bound is neither few nor too many."""
    least = exponent_of(bound)
    return Grid(min(max(Grid.for_noise(noise).exponent, least - _MOST_BITS), least - _LEAST_BITS))
