"""What is computed of outputs, with what their noises have in common: weighted sums, and ratios of these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import Combination, Derived, Difference, Ratio
from sfumato.query.estimates.estimate import Estimate, linear_interval
from sfumato.query.noisy.numbers import NoisyNumbers


@dataclass(frozen=True)
class DerivedEstimate(Estimate):
    """What is computed of outputs: as they are before they are rounded, or as whole numbers that agree."""

    derived = True

    @property
    @abstractmethod
    def parts(self) -> tuple[tuple[float, Estimate], ...]:
        """The outputs, each with what it is multiplied by, where it is."""

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The noisy numbers that one of them depends on."""
        return tuple(dict.fromkeys(name for _, e in self.parts for name in e.coordinates))

    def values(self, numbers: NoisyNumbers) -> list[Floats]:
        """Return what the outputs are: those of totals as they are shown, so that these add up."""
        return [e.value(numbers) if numbers.levels is None else e.shown(numbers) for _, e in self.parts]


@dataclass(frozen=True)
class CombinationEstimate(DerivedEstimate):
    """A sum of outputs, each times a number, and of a number.

    Args:
        terms: the numbers and the outputs.
        constant: the number that is added.
    """

    kind = "combination"

    terms: tuple[tuple[float, Estimate], ...] = ()
    constant: float = 0.0

    @property
    def parts(self) -> tuple[tuple[float, Estimate], ...]:
        """The terms."""
        return self.terms

    @property
    def linear(self) -> Mapping[str, float] | None:
        """The sum of the weights, where all outputs are sums of noisy numbers and nothing is added."""
        return None if self.constant else _linear(self.terms)

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the sum."""
        weighted = zip(self.terms, self.values(numbers), strict=True)
        return np.asarray(sum((weight * value for (weight, _), value in weighted), np.array([self.constant])))

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return that of one sum of noises; of other outputs their own are added, each failing as often."""
        sums = [(weight, e) for weight, e in self.terms if e.linear is not None]
        others = [(weight, e) for weight, e in self.terms if e.linear is None]
        each = failure / max(1, len(others) + bool(sums))
        found = _number(self.constant)
        if weights := _linear(sums):
            found = found + linear_interval(numbers, weights, each)
        for weight, e in others:
            found = found + _number(weight) * e.interval(numbers, each)
        return found


def _number(exact: float) -> Interval:
    return Interval(np.array([exact]), np.array([exact]))


def _linear(terms: Iterable[tuple[float, Estimate]]) -> dict[str, float] | None:
    """Return the weights of noisy numbers in a sum of outputs; None where one is no such sum."""
    found: dict[str, float] = {}
    for weight, e in terms:
        if e.linear is None:
            return None
        for name, own in e.linear.items():
            found[name] = found.get(name, 0.0) + weight * own
    return found


@dataclass(frozen=True)
class RatioEstimate(DerivedEstimate):
    """One output over another one.

    Args:
        first, second: the outputs, or sums of outputs.
    """

    kind = "ratio"

    first: Estimate | None = None
    second: Estimate | None = None

    @property
    def both(self) -> tuple[Estimate, Estimate]:
        """The outputs."""
        assert self.first is not None and self.second is not None
        return self.first, self.second

    @property
    def parts(self) -> tuple[tuple[float, Estimate], ...]:
        """Both, as they are."""
        first, second = self.both
        return (1.0, first), (1.0, second)

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
    """Return how it is computed of outputs by name.

    Raises:
        QueryError: one of them is a list.
    """
    for of in aggregate.of:
        if outputs[of].entries:
            raise QueryError(
                f"agg: {name}: {of!r} is a list of numbers in each group; name outputs of one number"
            )
    if isinstance(aggregate, Ratio):
        return RatioEstimate(name, first=outputs[aggregate.first], second=outputs[aggregate.second])
    if isinstance(aggregate, Difference):
        terms = ((1.0, outputs[aggregate.first]), (-1.0, outputs[aggregate.second]))
        return CombinationEstimate(name, terms=terms)
    assert isinstance(aggregate, Combination)
    top, bottom = (
        CombinationEstimate(
            name, terms=tuple((float(w), outputs[of]) for of, w in one.terms), constant=float(one.constant)
        )
        for one in (aggregate.top, aggregate.bottom)
    )
    return RatioEstimate(name, first=top, second=bottom) if aggregate.divides else top
