"""What constructors of records share: vectors and how far apart they are, bounds, exact sums."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import as_fraction, as_int, positive_int, round_up
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    ChangeOneDistance,
    Domain,
    Linear,
    Metric,
    SymmetricDistance,
    Transformation,
    VectorDomain,
)
from sfumato.framework.domains import check_length

Map = Callable[[Fraction], Fraction]
Number = int | float | Fraction
NumberKind = type[int] | type[float] | type[Fraction]
Kind = NumberKind | type[bool] | type[str]

ADD_REMOVE: Metric = SymmetricDistance()
ABSOLUTE: Metric = AbsoluteDistance()


@dataclass(frozen=True)
class Records:
    """Vectors of records, as the input of one constructor.

    Args:
        where: the constructor's name, for errors.
        element: the domain of a record.
        size: how many records, at least 1, or None for any number.
        metric: SymmetricDistance() or ChangeOneDistance().
    Raises:
        ParameterError: size or metric is another.

    >>> five = Records("mean", AtomDomain(float), 5, ADD_REMOVE)
    >>> five.stability(added=Fraction(1), replaced=Fraction(2))(Fraction(3))
    Fraction(2, 1)
    """

    where: str
    element: Domain
    size: int | None
    metric: Metric

    def __post_init__(self) -> None:
        check_metric(self.where, self.metric)
        if self.size is not None:
            object.__setattr__(self, "size", positive_int(self.size, f"{self.where}: size"))

    @property
    def most(self) -> Fraction | None:
        """The largest number of records, where it is known."""
        return None if self.size is None else Fraction(self.size)

    def stability(self, added: Fraction, replaced: Fraction) -> Map:
        """Return the map of a number that moves by at most so much for one record added or replaced.

        Of vectors that have one length, those at symmetric distance d differ in d/2 records, those at
        change-one distance d in d, and no two differ in more records than they have.
        """
        symmetric, size = self.metric == SymmetricDistance(), self.size
        if size is None:
            return Linear(added if symmetric else replaced)
        each = 2 if symmetric else 1
        return lambda d_in: min(size, math.floor(d_in / each)) * replaced

    def each(self, output: Domain, function: Callable[[Any], Any]) -> Transformation:
        """Apply a function to each record; a record that comes, goes or changes is one of its results."""
        where, size = self.where, self.size
        return Transformation(
            where,
            VectorDomain(self.element, size),
            VectorDomain(output, size),
            self.metric,
            self.metric,
            lambda values: list(map(function, check_length(values, size, where))),
            Linear(Fraction(1)),
        )

    def total(
        self,
        output: Domain,
        function: Callable[[Sequence[Any]], Any],
        stability_map: Map,
        metric: Metric = ABSOLUTE,
    ) -> Transformation:
        """Turn all records into one number, or one vector of numbers."""
        where, size = self.where, self.size
        return Transformation(
            where,
            VectorDomain(self.element, size),
            output,
            self.metric,
            metric,
            lambda values: function(check_length(values, size, where)),
            stability_map,
        )


@dataclass(frozen=True, repr=False)
class Bounds(Spelled):
    """The numbers of a kind that two bounds enclose: the bounds move inward to members of the kind.

    >>> Bounds.of("clamp", 0.5, "9/4", int)
    Bounds(kind=int, lower=1, upper=2)
    """

    kind: NumberKind
    lower: Fraction
    upper: Fraction

    @classmethod
    def of(cls, where: str, lower: object, upper: object, kind: NumberKind) -> Bounds:
        """Take the parameters of the constructor `where`."""
        check_number_kind(where, kind)
        below, above = as_fraction(lower, f"{where}: lower"), as_fraction(upper, f"{where}: upper")
        low, high = least_of(kind, below), -least_of(kind, -above)
        if low > high:
            raise ParameterError(
                f"{where}: lower",
                lower,
                f"at most upper, {upper!r}, with a number of kind {kind.__name__} between",
            )
        return cls(kind, Fraction(low), Fraction(high))

    @property
    def domain(self) -> AtomDomain:
        """The numbers."""
        return AtomDomain(self.kind, self.lower, self.upper)

    @property
    def width(self) -> Fraction:
        """The distance of the bounds."""
        return self.upper - self.lower


def known_size(where: str, size: object, least: int = 1) -> int:
    """Take the length of vectors where a constructor needs one."""
    found = as_int(size)
    if found is None or found < least:
        raise ParameterError(
            f"{where}: size", size, f"the number of records, a whole number of at least {least}"
        )
    return found


def listed(where: str, name: str, values: object) -> tuple[Any, ...]:
    """Take a sequence of values; a text is not one."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ParameterError(f"{where}: {name}", values, "a list or tuple")
    return tuple(values)


def check_metric(where: str, metric: object) -> None:
    """Refuse metrics that do not count records."""
    if not isinstance(metric, (SymmetricDistance, ChangeOneDistance)):
        raise ParameterError(f"{where}: metric", metric, "SymmetricDistance() or ChangeOneDistance()")


def check_number_kind(where: str, kind: object) -> None:
    """Refuse kinds that are not numbers."""
    if not isinstance(kind, type) or kind not in (int, float, Fraction):
        raise ParameterError(f"{where}: kind", kind, "int, float or Fraction")


def any_of(where: str, kind: Kind, name: str = "kind") -> AtomDomain:
    """Return the domain of all values of a kind, NaN and NULL too."""
    if not isinstance(kind, type) or kind not in (bool, int, float, Fraction, str):
        raise ParameterError(f"{where}: {name}", kind, "bool, int, float, Fraction or str")
    return AtomDomain(kind, nan=kind is float, null=True)


def constant(where: str, name: str, value: object, kind: Kind) -> Any:
    """Take a value of a kind; a float also as any number that is exactly one."""
    if AtomDomain(kind).contains(value):
        return value
    if kind is float:
        try:
            exact = as_fraction(value, name)
            if round_up(exact) == exact:
                return float(exact)
        except ParameterError:
            pass
    raise ParameterError(f"{where}: {name}", value, f"a value of kind {kind.__name__}, neither NaN nor NULL")


def least_of(kind: NumberKind, bound: Fraction) -> Number:
    """Return the smallest number of a kind that is not below a bound; an infinite float beyond the largest.

    >>> least_of(int, Fraction(1, 2)), least_of(float, Fraction(1, 10)) > Fraction(1, 10)
    (1, True)
    """
    if kind is int:
        return math.ceil(bound)
    return round_up(bound) if kind is float else bound


def exact_sum(numbers: Iterable[Number]) -> Fraction:
    """Return the exact sum: floats are the rationals that they are.

    >>> exact_sum([1e300, 1.5, -1e300])
    Fraction(3, 2)
    """
    return _sum_of_ratios(number.as_integer_ratio() for number in numbers)


def exact_products(first: Iterable[Number], second: Iterable[Number]) -> Fraction:
    """Return the exact sum of products.

    >>> exact_products([1, 2], [0.5, 3])
    Fraction(13, 2)
    """
    ratios = ((x.as_integer_ratio(), y.as_integer_ratio()) for x, y in zip(first, second, strict=True))
    return _sum_of_ratios((a * c, b * d) for (a, b), (c, d) in ratios)


def _sum_of_ratios(ratios: Iterable[tuple[int, int]]) -> Fraction:
    numerators = Counter[int]()  # by denominator, of which floats have few
    for numerator, denominator in ratios:
        numerators[denominator] += numerator
    return sum((Fraction(n, d) for d, n in numerators.items()), Fraction(0))
