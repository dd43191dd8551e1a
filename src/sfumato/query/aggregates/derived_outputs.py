"""Derived outputs: ratios, differences and weighted sums of other outputs, at no further cost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import QueryError, shown
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import ONE, Form, Interval, balanced_half_width
from sfumato.query.aggregates.aggregate import Aggregate, aggregate_function
from sfumato.query.aggregates.estimate import Estimate, is_sure

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers


class Derived(Aggregate):
    """Base class of derived outputs: a weighted sum of outputs, or one such sum over another one."""

    in_totals = True

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The outputs that a derived output is computed from."""

    @property
    @abstractmethod
    def fraction(self) -> tuple[WeightedSum, WeightedSum]:
        """The weighted sum that a derived output is, and the one that it is divided by."""

    @property
    def derived(self) -> bool:
        """Whether this is a derived output: it is."""
        return True

    def estimate(self, name: str, outputs: Mapping[str, Estimate]) -> Estimate:
        """Return the estimate of a derived output, given those of other outputs by name.

        Raises:
            QueryError: one of them is a list.
        """
        for of in self.inputs:
            if outputs[of].entries:
                raise QueryError(
                    f"agg: {name}: {of!r} is a list of numbers in each group. Name outputs of one number"
                )
        return self._estimate(name, outputs)

    @abstractmethod
    def _estimate(self, name: str, outputs: Mapping[str, Estimate]) -> Estimate:
        """Return the estimate of a derived output of outputs of one number each."""

    @property
    def needs_rows(self) -> bool:
        """Whether a derived output depends on a limit of rows: it does not, by itself."""
        return False


@dataclass(frozen=True, repr=False)
class OfTwo(Derived):
    """A derived output of two outputs.

    Args:
        first, second: the outputs' names.
    """

    sign: ClassVar[str]

    first: str
    second: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The two outputs that a derived output is computed from."""
        return self.first, self.second

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the formula of a derived output."""
        return f"{self.first} {self.sign} {self.second}"


@dataclass(frozen=True, repr=False)
class Ratio(OfTwo):
    """The ratio of two outputs."""

    sign = "/"

    @property
    def fraction(self) -> tuple[WeightedSum, WeightedSum]:
        """The outputs of a ratio, each as a weighted sum."""
        first, second = (WeightedSum(((name, Fraction(1)),)) for name in self.inputs)
        return first, second

    def _estimate(self, name: str, outputs: Mapping[str, Estimate]) -> Estimate:
        return RatioEstimate(name, first=outputs[self.first], second=outputs[self.second])


@dataclass(frozen=True, repr=False)
class Difference(OfTwo):
    """The difference of two outputs."""

    sign = "-"

    @property
    def fraction(self) -> tuple[WeightedSum, WeightedSum]:
        """The difference of two outputs as a weighted sum, over 1."""
        first, second = (WeightedSum(((name, Fraction(1)),)) for name in self.inputs)
        return first.plus(second.times(Fraction(-1))), WeightedSum((), Fraction(1))

    def _estimate(self, name: str, outputs: Mapping[str, Estimate]) -> Estimate:
        terms = ((1.0, outputs[self.first]), (-1.0, outputs[self.second]))
        return CombinationEstimate(name, terms=terms)


@dataclass(frozen=True, repr=False)
class WeightedSum(Spelled):
    """A weighted sum of outputs and a constant, as part of a derived output.

    Args:
        terms: outputs' names, none twice, with their weights.
        constant: the number.
    """

    terms: tuple[tuple[str, Fraction], ...]
    constant: Fraction = Fraction(0)

    def times(self, factor: Fraction) -> WeightedSum:
        """Return the weighted sum of outputs multiplied by a number."""
        terms = ((name, weight * factor) for name, weight in self.terms)
        return WeightedSum(tuple(terms), self.constant * factor)

    def plus(self, other: WeightedSum) -> WeightedSum:
        """Return the sum of two weighted sums of outputs."""
        terms = dict(self.terms)
        for name, weight in other.terms:
            terms[name] = terms.get(name, Fraction(0)) + weight
        return WeightedSum(tuple(terms.items()), self.constant + other.constant)

    def value(self, outputs: Mapping[str, Floats]) -> Floats:
        """Return the value of the weighted sum, given the outputs by name."""
        terms = (float(weight) * outputs[name] for name, weight in self.terms)
        return np.asarray(sum(terms, np.float64(self.constant)))

    def __str__(self) -> str:
        parts = [name if weight == 1 else f"{float(weight):g} {name}" for name, weight in self.terms]
        number = [f"{float(self.constant):g}"] if self.constant or not parts else []
        return " + ".join([*parts, *number]).replace("+ -", "- ")


@dataclass(frozen=True, repr=False)
class Combination(Derived):
    """A derived output: a weighted sum of outputs, or one such sum over another one.

    Args:
        top: the sum.
        bottom: what it is divided by.

    >>> gone = WeightedSum((("a", Fraction(100)), ("b", Fraction(-100))))
    >>> Combination(gone, WeightedSum((("b", Fraction(1)),))).meaning({})
    '(100 a - 100 b) / (b)'
    """

    top: WeightedSum
    bottom: WeightedSum = WeightedSum((), Fraction(1))

    @property
    def inputs(self) -> tuple[str, ...]:
        """All outputs in a derived output."""
        return tuple(dict.fromkeys(name for name, _ in (*self.top.terms, *self.bottom.terms)))

    @property
    def fraction(self) -> tuple[WeightedSum, WeightedSum]:
        """The weighted sum of outputs, and the one that it is divided by."""
        return self.top, self.bottom

    @property
    def divides(self) -> bool:
        """Whether a derived output divides by other outputs."""
        return bool(self.bottom.terms)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the formula of a derived output."""
        return f"({self.top}) / ({self.bottom})" if self.divides else str(self.top)

    def _estimate(self, name: str, outputs: Mapping[str, Estimate]) -> Estimate:
        top, bottom = (
            CombinationEstimate(
                name,
                terms=tuple((float(w), outputs[of]) for of, w in one.terms),
                constant=float(one.constant),
            )
            for one in (self.top, self.bottom)
        )
        return RatioEstimate(name, first=top, second=bottom) if self.divides else top


@aggregate_function()
def ratio(first: str, second: str) -> Aggregate:
    """Divide one output by another, with an error bar that covers both.

    Args:
        first, second: names of outputs of the same question; `first` is divided by `second`.
    Returns:
        An aggregate without privacy cost, computed from noisy numbers. It is NaN if the second output is 0,
        and its error bar is infinite if the second output may be 0 within its noise.
    Raises:
        QueryError: a name is not text.

    >>> ratio("visits", "people")
    Ratio(first='visits', second='people')

    Source:
        Fieller 1954, "Some problems in interval estimation".
    """
    return Ratio(*_names("ratio", first, second))


@aggregate_function()
def difference(first: str, second: str) -> Aggregate:
    """Subtract one output from another, with an error bar that covers both.

    Args:
        first, second: names of outputs of the same question; `second` is subtracted from `first`.
    Returns:
        An aggregate without privacy cost, computed from noisy numbers. Noise that both outputs share does not
        add to its error.
    Raises:
        QueryError: a name is not text.

    >>> difference("asked", "answered")
    Difference(first='asked', second='answered')
    """
    return Difference(*_names("difference", first, second))


def _names(function: str, *names: object) -> list[str]:
    for name in names:
        if not isinstance(name, str):
            raise QueryError(
                f"{function}: {shown(name)} is not the name of an output. Write agg(a=..., b=..., "
                f"c=sf.{function}('a', 'b'))"
            )
    return [str(name) for name in names]


@dataclass(frozen=True)
class DerivedEstimate(Estimate):
    """Base class of estimates of derived outputs, from those of other outputs."""

    derived = True

    @property
    @abstractmethod
    def parts(self) -> tuple[tuple[float, Estimate], ...]:
        """The estimates in a derived output, each with its weight."""

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The noisy statistics that a derived output depends on."""
        return tuple(dict.fromkeys(name for _, e in self.parts for name in e.coordinates))

    @property
    def has_standard_error(self) -> bool:
        """Whether a derived output has a standard error: all outputs in it do."""
        return all(e.has_standard_error for _, e in self.parts)

    def is_steady(self, numbers: NoisyNumbers) -> NDArray[np.bool_]:
        """Whether noise changes each output in a derived output by a small part."""
        return np.asarray(np.logical_and.reduce([e.is_steady(numbers) for _, e in self.parts]))

    def slopes(self, numbers: NoisyNumbers) -> dict[str, Floats]:
        """Return the derivative of a derived output by each noisy statistic, from those of its parts."""
        found: dict[str, Floats] = {}
        for weight, (_, e) in zip(self.part_slopes(numbers), self.parts, strict=True):
            for name, slope in e.slopes(numbers).items():
                found[name] = found.get(name, 0.0) + weight * slope
        return found

    @abstractmethod
    def part_slopes(self, numbers: NoisyNumbers) -> Sequence[Any]:
        """Return the derivative of a derived output by each output in it."""

    @property
    def null_counts(self) -> tuple[str, ...]:
        """The coordinates of missing values in a derived output."""
        return tuple(dict.fromkeys(name for _, e in self.parts for name in e.null_counts))

    def values(self, numbers: NoisyNumbers) -> list[Floats]:
        """Return the values of the outputs in a derived output; totals as shown, so that they add up."""
        return [e.value(numbers) if numbers.levels is None else e.shown(numbers) for _, e in self.parts]


@dataclass(frozen=True)
class CombinationEstimate(DerivedEstimate):
    """The estimate of a weighted sum of outputs.

    Args:
        terms: the numbers and the outputs.
        constant: the number that is added.
    """

    kind = "combination"

    terms: tuple[tuple[float, Estimate], ...] = ()
    constant: float = 0.0

    @property
    def parts(self) -> tuple[tuple[float, Estimate], ...]:
        """The outputs of the weighted sum with their weights."""
        return self.terms

    @property
    def linear(self) -> Mapping[str, float] | None:
        """The noisy statistics that a weighted sum of outputs is the sum of; None if it is none."""
        found = self.forms
        return None if found is None or found[1] != ONE or found[0].constant else found[0].weights

    @property
    def forms(self) -> tuple[Form, Form] | None:
        """The forms of which a weighted sum of outputs with one denominator is the ratio."""
        parts = [(weight, e.forms) for weight, e in self.terms]
        bottoms = [forms[1] for _, forms in parts if forms is not None]
        bottom = bottoms[0] if bottoms else ONE
        top = Form({}).plus(bottom, self.constant)
        for weight, forms in parts:
            if forms is None or forms[1] != bottom:
                return None
            top = top.plus(forms[0], weight)
        return top, bottom

    def part_slopes(self, numbers: NoisyNumbers) -> Sequence[Any]:
        """Return the weights of the outputs in a weighted sum."""
        return [weight for weight, _ in self.terms]

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy weighted sum of outputs."""
        weighted = zip(self.terms, self.values(numbers), strict=True)
        return np.asarray(sum((weight * value for (weight, _), value in weighted), np.array([self.constant])))

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a weighted sum of outputs: that of its forms, or of sums plus others."""
        if self.forms is not None:
            return super().interval(numbers, failure)
        sums = [(weight, e) for weight, e in self.terms if e.linear is not None]
        others = [(weight, e) for weight, e in self.terms if e.linear is None]
        each = failure / (len(others) + bool(sums))
        found = CombinationEstimate(self.name, terms=tuple(sums), constant=self.constant).interval(
            numbers, each
        )
        for weight, e in others:
            found = found + e.interval(numbers, each).scaled(weight)
        return found


@dataclass(frozen=True)
class RatioEstimate(DerivedEstimate):
    """The estimate of a ratio of two outputs, or of weighted sums of outputs.

    Args:
        first, second: the outputs, or sums of outputs.
    """

    kind = "ratio"

    first: Estimate | None = None
    second: Estimate | None = None

    @property
    def both(self) -> tuple[Estimate, Estimate]:
        """The outputs above and below in a ratio."""
        assert self.first is not None and self.second is not None
        return self.first, self.second

    @property
    def parts(self) -> tuple[tuple[float, Estimate], ...]:
        """The outputs of a ratio, each with weight 1."""
        first, second = self.both
        return (1.0, first), (1.0, second)

    def part_slopes(self, numbers: NoisyNumbers) -> Sequence[Any]:
        """Return the derivatives of a ratio by the two outputs; NaN where the second is 0."""
        first, second = self.values(numbers)
        divisor = np.where(second == 0, np.nan, second)
        return [1 / divisor, -first / divisor**2]

    def is_steady(self, numbers: NoisyNumbers) -> NDArray[np.bool_]:
        """Whether a ratio's second output is large beside its noise, and both are steady."""
        below = self.both[1]
        sure = is_sure(self.values(numbers)[1], numbers.noises.deviation(below.slopes(numbers)))
        return np.asarray(super().is_steady(numbers) & sure)

    @property
    def forms(self) -> tuple[Form, Form] | None:
        """The forms of noisy statistics of which a ratio of outputs with one denominator is the ratio."""
        first, second = (e.forms for e in self.both)
        return (first[0], second[0]) if first and second and first[1] == second[1] else None

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy ratio of outputs; NaN where the second is 0."""
        first, second = self.values(numbers)
        return first / np.where(second == 0, np.nan, second)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a ratio of outputs: Fieller's, or that of the ratio of two intervals."""
        if self.forms is not None:
            return super().interval(numbers, failure)
        first, second = self.both
        return first.interval(numbers, failure / 2) / second.interval(numbers, failure / 2)

    def half_width(self, numbers: NoisyNumbers, confidence: float, among: int = 1) -> Floats:
        """Return half-widths of a ratio of outputs; infinite where there is no ratio."""
        failure = (1 - confidence) / among
        return balanced_half_width(lambda part: self.interval(numbers, part), self.shown(numbers), failure)
