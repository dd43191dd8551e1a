"""Ratios and differences of other outputs: computed from what is released, at no further cost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import QueryError, shown
from sfumato.names import helpful
from sfumato.query.aggregates.aggregate import Aggregate
from sfumato.query.aggregates.called import remembered


class Derived(Aggregate):
    """What is computed of outputs of the same question."""

    @property
    @abstractmethod
    def of(self) -> tuple[str, ...]:
        """The outputs' names."""

    @property
    def derived(self) -> bool:
        """It is."""
        return True

    @property
    def needs_rows(self) -> bool:
        """It reads no rows."""
        return False


@dataclass(frozen=True, repr=False)
class OfTwo(Derived):
    """What is computed of two outputs.

    Args:
        first, second: the outputs' names.
    """

    sign: ClassVar[str]

    first: str
    second: str

    @property
    def of(self) -> tuple[str, ...]:
        """Both names."""
        return self.first, self.second

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the formula."""
        return f"{self.first} {self.sign} {self.second}"


@dataclass(frozen=True, repr=False)
class Ratio(OfTwo):
    """One output over another one."""

    sign = "/"


@dataclass(frozen=True, repr=False)
class Difference(OfTwo):
    """One output less another one."""

    sign = "-"


@dataclass(frozen=True, repr=False)
class WeightedSum(Spelled):
    """A sum of outputs, each times a number, and of a number.

    Args:
        terms: outputs' names, none twice, with their weights.
        constant: the number.
    """

    terms: tuple[tuple[str, Fraction], ...]
    constant: Fraction = Fraction(0)

    def times(self, factor: Fraction) -> WeightedSum:
        """Multiply by a number."""
        terms = ((name, weight * factor) for name, weight in self.terms)
        return WeightedSum(tuple(terms), self.constant * factor)

    def plus(self, other: WeightedSum) -> WeightedSum:
        """Add another one."""
        terms = dict(self.terms)
        for name, weight in other.terms:
            terms[name] = terms.get(name, Fraction(0)) + weight
        return WeightedSum(tuple(terms.items()), self.constant + other.constant)

    def __str__(self) -> str:
        parts = [name if weight == 1 else f"{float(weight):g} {name}" for name, weight in self.terms]
        number = [f"{float(self.constant):g}"] if self.constant or not parts else []
        return " + ".join([*parts, *number]).replace("+ -", "- ")


@dataclass(frozen=True, repr=False)
class Combination(Derived):
    """A weighted sum of outputs, or one such sum over another one.

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
    def of(self) -> tuple[str, ...]:
        """All names."""
        return tuple(dict.fromkeys(name for name, _ in (*self.top.terms, *self.bottom.terms)))

    @property
    def divides(self) -> bool:
        """Whether it is a ratio."""
        return bool(self.bottom.terms)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the formula."""
        return f"({self.top}) / ({self.bottom})" if self.divides else str(self.top)


@helpful
@remembered
def ratio(first: str, second: str) -> Aggregate:
    """Divide one output by another one, with an error bar for both together.

    Args:
        first, second: names of outputs of the same question.
    Returns:
        An aggregate that costs nothing: it is computed of noisy numbers. It is NaN where the second output is
        0, and its error bar is infinite where the second may be 0, as far as its noise tells.
    Raises:
        QueryError: a name is no text.

    >>> ratio("visits", "people")
    Ratio(first='visits', second='people')

    Source:
        Fieller 1954, "Some problems in interval estimation".
    """
    return Ratio(*_names("ratio", first, second))


@helpful
@remembered
def difference(first: str, second: str) -> Aggregate:
    """Take one output from another one, with an error bar for both together.

    Args:
        first, second: names of outputs of the same question.
    Returns:
        An aggregate that costs nothing: it is computed of noisy numbers. What both have in common is no error
        of it.
    Raises:
        QueryError: a name is no text.

    >>> difference("asked", "answered")
    Difference(first='asked', second='answered')
    """
    return Difference(*_names("difference", first, second))


def _names(function: str, *names: object) -> list[str]:
    for name in names:
        if not isinstance(name, str):
            raise QueryError(
                f"{function}: {shown(name)} is no output's name; write agg(a=..., b=..., "
                f"c=sf.{function}('a', 'b'))"
            )
    return [str(name) for name in names]
