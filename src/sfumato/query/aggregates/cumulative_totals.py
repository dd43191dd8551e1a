"""Cumulative totals over time steps, from noisy totals of all steps up to each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError, shown
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import Interval
from sfumato.query.aggregates.aggregate import Aggregate, Unbounded, aggregate_function, column_name
from sfumato.query.aggregates.automatic_bounds import Automatic, Filled
from sfumato.query.aggregates.counting import CountPrivacyUnits, CountRows
from sfumato.query.aggregates.estimate import LARGEST_WHOLE, MAX_UNITS, Estimate
from sfumato.query.aggregates.sum_mean_variance import Sum
from sfumato.query.schema import Schema

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


@dataclass(frozen=True, repr=False)
class Cumulative(Aggregate):
    """A cumulative total: a count or sum of all time steps up to each.

    Args:
        aggregate: what is added up.
        over: the key of time; None for the only one.
    """

    aggregate: Aggregate
    over: str | None = None

    @property
    def each(self) -> Aggregate:
        """The count or sum of one time step that is cumulated."""
        return self.aggregate

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a cumulative total."""
        return self.aggregate.columns

    @property
    def needs_rows(self) -> bool:
        """Whether a cumulative total depends on a limit of rows, as what it adds up does."""
        return self.aggregate.needs_rows

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The bounds of what a cumulative total adds up."""
        return self.aggregate.bounds

    def clamps(self, schema: Schema) -> bool:
        """Whether a cumulative total's bounds may clamp values."""
        return self.aggregate.clamps(schema)

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return a cumulative total with its columns renamed."""
        return replace(self, aggregate=self.aggregate.of_columns(columns))

    def check(self, name: str, schema: Schema) -> None:
        """Check the columns of a cumulative total."""
        self.aggregate.check(name, schema)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what a cumulative total adds up."""
        return f"cumulative {self.aggregate.meaning(written)}"

    def note(self, name: str) -> str | None:
        """Return what a cumulative number of units means."""
        if not isinstance(self.aggregate, CountPrivacyUnits):
            return None
        return f"{name}: a privacy unit counts once in each of its steps, so several times in the total."

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a cumulative total."""
        series = design.query.series
        assert series is not None
        (one,) = self.aggregate.estimates(design, name)
        wide = one.wide
        if isinstance(self.aggregate, Sum):
            most = max(abs(self.aggregate.lower), abs(self.aggregate.upper)) * design.rows * series.steps
            wide = wide or (one.whole and most * max(Fraction(MAX_UNITS), design.multiplier) > LARGEST_WHOLE)
        fields: Any = {f: getattr(one, f) for f in ("count", "null_count", "total", "centre", "whole")}
        return (CumulativeEstimate(name, wide=wide, **fields),)


@aggregate_function()
def cumulative(of: Aggregate, *, over: str | None = None) -> Aggregate:
    """Add up a count or a sum over time, with little more noise than a single time step has.

    The groups are public, `group_by(..., keys=...)`, and list every time step. With further keys, such as a
    region, each has all time steps and its own running total.

    Args:
        of: `count()`, `count_units()` or `sum(...)`.
        over: the time key, of whole numbers, dates or times. Leave it out if it is the only key.
    Returns:
        An aggregate for `agg`: the total up to and including each time step.
    Raises:
        QueryError: `of` is not one of these aggregates.

    >>> from sfumato.query.aggregates import count
    >>> cumulative(count(), over="week").over
    'week'

    Source:
        Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters: fine-grained error bound on
        differentially private continual observation". Proofs: docs/proofs/series_gaussian.md, and with a
        delta of 0 docs/proofs/tree_laplace.md.
    """
    if isinstance(of, Filled):
        return Filled(cumulative(of.of, over=over), of.column, of.missing)
    if isinstance(of, Unbounded):
        raise of.refusal()
    if isinstance(of, Automatic):
        raise QueryError("cumulative: automatic bounds are not supported. Give lower and upper")
    if not isinstance(of, CountRows | CountPrivacyUnits | Sum):
        raise QueryError(
            f"cumulative: {shown(of)} cannot be accumulated over steps. Write cumulative(count()), "
            "cumulative(count_units()) or cumulative(sum(...)), whose ratios are running means"
        )
    return Cumulative(of, over if over is None else column_name("cumulative", over))


@dataclass(frozen=True)
class CumulativeEstimate(Estimate):
    """The estimate of a cumulative count or sum."""

    kind = "cumulative total"

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each noisy statistic in a cumulative total."""
        if not self.total:
            return self.signs
        return {self.total: 1.0} | {n: sign * self.centre for n, sign in self.signs.items() if self.centre}

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy cumulative totals."""
        totals = numbers.cumulated.values
        return sum((w * totals[n] for n, w in self.weights.items()), np.zeros(1))

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the intervals of cumulative totals, by the tolerance of their noise."""
        value, half = self.value(numbers), self.tolerance(numbers, -math.log10(failure))
        return Interval(value - half, value + half)

    def standard_error(self, numbers: NoisyNumbers) -> Floats:
        """Return the standard errors of cumulative totals."""
        return numbers.cumulated.deviation(self._sizes(numbers))

    def _sizes(self, numbers: NoisyNumbers) -> dict[str, float]:
        return {n: abs(w) * float(numbers.steps[n]) for n, w in self.weights.items()}

    def tolerance(self, numbers: NoisyNumbers, k: float) -> Floats:
        """Return t with P(|error of a cumulative total| > t) <= 10^-k before rounding, by group."""
        of, sizes = numbers.cumulated, self._sizes(numbers)
        half = of.reach(sizes, k) + sum(sizes.values()) * (of.off + 0.5)
        # A total of whole numbers is off by a whole number.
        alone = self.whole and all(size == 1 for size in sizes.values())
        return np.floor(half) if alone else half * (1 + 2.0**-40)
