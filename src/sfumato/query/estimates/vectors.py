"""Sums of vectors: one output for all entries, which have noise of one law."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.framework import AtomDomain
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import VectorSum
from sfumato.query.design import Design, short
from sfumato.query.estimates.counts import LARGEST_WHOLE, MOST_SCALES, MOST_UNITS
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.numbers import NoisyNumbers
from sfumato.transformations import Ball, Grid
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


def vector_sums(design: Design, name: str, aggregate: VectorSum) -> tuple[Estimate, ...]:
    """Ask for a sum of vectors."""
    entries, bound = design.schema[aggregate.column].entries, aggregate.bound
    rows = design.rows if aggregate.per == "row" else 1
    noise = design.multiplier * rows * bound
    most = max(Fraction(MOST_UNITS) * rows * bound, MOST_SCALES * noise * aggregate.length)
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
    grid = Grid(0) if whole else _grid(noise, bound)
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
    return (
        VectorEstimate(
            name, total=made.names[0], whole=whole, wide=most > LARGEST_WHOLE, entries=aggregate.length
        ),
    )


def _grid(noise: Fraction, bound: Fraction) -> Grid:
    """Return a grid on which noise is about 2^30 steps, and the bound is neither few nor too many."""
    least = exponent_of(bound)
    return Grid(min(max(Grid.for_noise(noise).exponent, least - _MOST_BITS), least - _LEAST_BITS))
