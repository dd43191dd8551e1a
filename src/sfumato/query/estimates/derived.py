"""Ratios and differences of two outputs, with what their noises have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.errors import QueryError
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates.derived import Derived, Ratio
from sfumato.query.estimates.estimate import Estimate, linear_interval
from sfumato.query.numbers import NoisyNumbers


@dataclass(frozen=True)
class DerivedEstimate(Estimate):
    """What is computed of two outputs: as they are before they are rounded, or as whole numbers that agree.

    Args:
        first, second: the outputs.
    """

    derived = True

    first: Estimate | None = None
    second: Estimate | None = None

    @property
    def both(self) -> tuple[Estimate, Estimate]:
        """The outputs."""
        assert self.first is not None and self.second is not None
        return self.first, self.second

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The noisy numbers that one of them depends on."""
        first, second = self.both
        return tuple(dict.fromkeys((*first.coordinates, *second.coordinates)))

    def values(self, numbers: NoisyNumbers) -> tuple[Floats, Floats]:
        """Return what the outputs are: those of totals as they are shown, so that these add up."""
        first, second = (e.value(numbers) if numbers.levels is None else e.shown(numbers) for e in self.both)
        return first, second


@dataclass(frozen=True)
class DifferenceEstimate(DerivedEstimate):
    """One output less another one."""

    kind = "difference"

    @property
    def linear(self) -> Mapping[str, float] | None:
        """The difference of the weights, where both are sums of noisy numbers."""
        first, second = (e.linear for e in self.both)
        if first is None or second is None:
            return None
        return {n: first.get(n, 0.0) - second.get(n, 0.0) for n in self.coordinates}

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the difference."""
        first, second = self.values(numbers)
        return first - second

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return that of one sum of noises; or the difference of two intervals that fail half as often."""
        if self.linear is not None:
            return linear_interval(numbers, self.linear, failure)
        first, second = self.both
        return first.interval(numbers, failure / 2) - second.interval(numbers, failure / 2)


@dataclass(frozen=True)
class RatioEstimate(DerivedEstimate):
    """One output over another one."""

    kind = "ratio"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the ratio; NaN where the second output is 0."""
        first, second = self.values(numbers)
        return first / np.where(second == 0, np.nan, second)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return Fieller's interval of two sums; or a ratio of intervals that fail half as often."""
        first, second = self.both
        if first.linear is not None and second.linear is not None:
            return numbers.noises.quotient(numbers.values, first.linear, second.linear, failure)
        return first.interval(numbers, failure / 2) / second.interval(numbers, failure / 2)

    def half_width(self, numbers: NoisyNumbers, confidence: float, among: int = 1) -> Floats:
        """Return half-widths; infinite where there is no ratio."""
        half = super().half_width(numbers, confidence, among)
        return np.where(np.isnan(half), np.inf, half)


def derived(name: str, aggregate: Derived, outputs: Mapping[str, Estimate]) -> Estimate:
    """Return how a ratio or a difference is computed of outputs by name.

    Raises:
        QueryError: one of them is a list.
    """
    for of in (aggregate.first, aggregate.second):
        if outputs[of].entries:
            raise QueryError(
                f"agg: {name}: {of!r} is a list of numbers in each group; name outputs of one number"
            )
    kind = RatioEstimate if isinstance(aggregate, Ratio) else DifferenceEstimate
    return kind(name, first=outputs[aggregate.first], second=outputs[aggregate.second])
