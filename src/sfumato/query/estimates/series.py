"""Cumulative totals: linear in the noisy totals of numbers up to each step."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import CountPrivacyUnits, CountRows, Cumulative, Sum
from sfumato.query.design import Design
from sfumato.query.estimates.counts import LARGEST_WHOLE, MOST_UNITS, rows, sums, units
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.noisy.numbers import NoisyNumbers

_EACH = {CountRows: rows, CountPrivacyUnits: units, Sum: sums}


@dataclass(frozen=True)
class CumulativeEstimate(Estimate):
    """A count or a sum of all steps up to each."""

    kind = "cumulative total"

    @property
    def weights(self) -> dict[str, float]:
        """What each number is taken times: a sum is of distances from a centre, beside what was counted."""
        if self.total is None:
            return self.signs
        return {self.total: 1.0} | {n: sign * self.centre for n, sign in self.signs.items() if self.centre}

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy totals."""
        totals = numbers.cumulated.values
        return sum((w * totals[n] for n, w in self.weights.items()), np.zeros(1))

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the totals, give or take the tolerance of their noises."""
        value, half = self.value(numbers), self.tolerance(numbers, -math.log10(failure))
        return Interval(value - half, value + half)

    def tolerance(self, numbers: NoisyNumbers, k: float) -> Floats:
        """Return t with P(|error| > t) <= 10^-k before it is rounded to what is shown, for each group."""
        of, sizes = numbers.cumulated, {n: abs(w) * float(numbers.steps[n]) for n, w in self.weights.items()}
        half = of.reach(sizes, k) + sum(sizes.values()) * (of.off + 0.5)
        # A total of whole numbers is off by a whole number.
        alone = self.whole and all(size == 1 for size in sizes.values())
        return np.floor(half) if alone else half * (1 + 2.0**-40)


def cumulative(design: Design, name: str, aggregate: Cumulative) -> tuple[Estimate, ...]:
    """Ask for a total of all steps up to each."""
    series, make = design.query.series, _EACH[type(aggregate.of)]
    assert series is not None
    given: Any = make  # each takes an aggregate of its own kind
    (one,) = given(design, name, aggregate.of)
    wide = one.wide
    if isinstance(aggregate.of, Sum):
        most = max(abs(aggregate.of.lower), abs(aggregate.of.upper)) * design.rows * series.steps
        wide = wide or (one.whole and most * max(Fraction(MOST_UNITS), design.multiplier) > LARGEST_WHOLE)
    fields: Any = {f: getattr(one, f) for f in ("count", "null_count", "total", "centre", "whole")}
    return (CumulativeEstimate(name, wide=wide, **fields),)
