"""Counts and sums: linear in noisy numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import CountPrivacyUnits, CountRows, Sum
from sfumato.query.design import Design, block_of
from sfumato.query.estimates.estimate import Estimate, linear_interval
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.query.schema import Kind
from sfumato.transformations import Grid, UnitSum, ValueGrid
from sfumato.transformations.statistics.unit_sum import HUGE_STEPS

# A sum is shown in 64-bit integers where these hold what so many units (more than anybody has), or noise
# of so many scales (beyond with probability below e^-4000), can add up to; else in float64.
MOST_UNITS, MOST_SCALES = 1 << 40, 1 << 12
LARGEST_WHOLE = 1 << 62


@dataclass(frozen=True)
class CountEstimate(Estimate):
    """A number of units, of rows, or of rows with a value."""

    kind = "count"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy count."""
        return self.counted(numbers)

    @property
    def linear(self) -> Mapping[str, float]:
        """The count itself."""
        return self.signs

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the count, give or take the tolerance of its noises."""
        return linear_interval(numbers, self.linear, failure)


@dataclass(frozen=True)
class SumEstimate(Estimate):
    """A sum: of distances from a centre, and the centre for each that was counted."""

    kind = "sum"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy sum."""
        assert self.total is not None
        return numbers.values[self.total] + self.centre * self.counted(numbers)

    @property
    def linear(self) -> Mapping[str, float]:
        """The sum of distances, and the centre for each that was counted."""
        assert self.total is not None
        return {self.total: 1.0} | {n: sign * self.centre for n, sign in self.signs.items()}

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the sum, give or take the tolerance of its noises."""
        return linear_interval(numbers, self.linear, failure)


def units(design: Design, name: str, aggregate: CountPrivacyUnits) -> tuple[Estimate, ...]:
    """Ask for the number of units."""
    return (CountEstimate(name, "units", whole=True),)


def rows(design: Design, name: str, aggregate: CountRows) -> tuple[Estimate, ...]:
    """Ask for a number of rows."""
    count, null_count = (design.base, None) if aggregate.column is None else design.counted(aggregate.column)
    return (CountEstimate(name, count, null_count, whole=True),)


def sums(design: Design, name: str, aggregate: Sum) -> tuple[Estimate, ...]:
    """Ask for a sum, of bounded rows or of units' bounded sums."""
    integer = design.schema[aggregate.column].kind in (Kind.INTEGER, Kind.BOOLEAN)
    per_row = design.per_row(aggregate)
    bound = max(abs(aggregate.lower), abs(aggregate.upper))
    most = max(Fraction(MOST_UNITS), design.multiplier * MOST_SCALES)
    wide = integer and bound * (design.rows if per_row else 1) * most > LARGEST_WHOLE
    if not per_row:
        return (_unit_sum(design, name, aggregate, integer, wide),)
    block = block_of(aggregate)
    moments = design.moments(block)
    count, null_count, centre = None, None, 0.0
    if block not in design.lone_sums:
        count, null_count = design.counted(aggregate.column)
        centre = float(moments.grid.centre * moments.grid.step)
    return (SumEstimate(name, count, null_count, moments.names[0], centre=centre, whole=integer, wide=wide),)


def _unit_sum(design: Design, name: str, aggregate: Sum, integer: bool, wide: bool) -> Estimate:
    lower, upper = aggregate.lower, aggregate.upper
    bound = max(abs(lower), abs(upper))
    missing = design.missing(aggregate.column)
    first, last = (min(lower, Fraction(0)), max(upper, Fraction(0))) if missing else (lower, upper)
    largest = (last - first) / 2 if design.units else bound
    # Noise on whole numbers has scales in steps of one; beyond 2^50 of them, or where bounds are
    # beyond what a row is clamped to, or where parts of a unit count, a column of integers is put on a grid
    # like any other.
    largest_noise = 2**50 if not design.query.added_up else 2**30
    exact = integer and not design.query.scaled and bound <= HUGE_STEPS
    exact = exact and design.multiplier * bound < largest_noise
    if exact:
        grid = Grid(0)
    else:
        bounds = ValueGrid.around(lower, upper, Grid.for_noise(design.multiplier * largest))
        grid = Grid(bounds.exponent)
    low, high = grid.steps_at_most(lower), grid.steps_at_least(upper)
    label = design.label(block_of(aggregate))
    made = UnitSum(label, aggregate.column, grid.exponent, low, high, exact, missing=missing)
    if design.units:
        made = replace(made, centre=sum(made.ends) // 2)
    design.add(made)
    return SumEstimate(
        name,
        "units" if design.units else None,
        total=made.names[0],
        centre=float(made.centre * grid.step),
        whole=integer,
        wide=wide,
    )
