"""Bodies with a count beside numbers that it limits, and the norm that they make of changes of groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import as_fraction, whole_number
from sfumato.framework.bodies import Body, Norm, weighted
from sfumato.framework.domains import Domain, GroupedIntegers
from sfumato.framework.metrics import Distance, Metric


@dataclass(frozen=True, repr=False)
class ConeBody(Spelled, Body):
    """A count n from 0 to its bound, and signed numbers that it limits: |s| <= n (bound of s / bound of n).

    So it is for sums of values of at most a bound, over n rows or units. With units, their number u from 0 to
    its bound comes first, and limits n in the same way: n <= u (bound of n / bound of u).

    Args:
        coordinates: names: that of units, if there is one, that of the count, and those of signed numbers.
        bounds: for each the largest size, a number greater than 0, in grid steps.
        units: whether there is a number of units.
    Raises:
        ParameterError: bounds are not one above 0 for each coordinate, or a coordinate is named twice.
    Source:
        docs/proofs/k_norm.md.

    >>> body = ConeBody(("rows", "visits"), (Fraction(2), Fraction(30)))
    >>> body.holds((1, -15)), body.holds((1, -16)), body.sides((0, 30))
    (True, False, (Fraction(1, 2), Fraction(1, 2)))
    >>> scales = body.split(Norm.L1)
    >>> scales, body.size(Norm.L1, scales)
    ((Fraction(2, 1), Fraction(30, 1)), Fraction(2, 1))
    """

    coordinates: tuple[str, ...]
    bounds: tuple[Fraction, ...]
    units: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "coordinates", tuple(self.coordinates))
        bounds = tuple(as_fraction(bound, "bounds") for bound in self.bounds)
        object.__setattr__(self, "bounds", bounds)
        if len(self.coordinates) != len(bounds) or len(set(self.coordinates)) != len(bounds):
            raise ParameterError("coordinates", self.coordinates, "a different name for each bound")
        if len(bounds) <= self.units or min(bounds) <= 0:
            raise ParameterError("bounds", bounds, "one for each coordinate, greater than 0")

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates."""
        return self.coordinates

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The bounds."""
        return self.bounds

    @cached_property
    def signed(self) -> int:
        """How many signed numbers there are."""
        return len(self.bounds) - 1 - self.units

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return that of the corner where all numbers are at their bounds."""
        return weighted(norm, self.bounds, scales)

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the bounds."""
        return self.bounds

    def sides(self, vector: Sequence[int | Fraction]) -> tuple[Fraction, Fraction]:
        """Return the least (a, b) for which the vector is a times a contribution less b times another one.

        Both are least at once: the vector is in λC - μC exactly where a <= λ and b <= μ.

        Args:
            vector: a number for each coordinate, in grid steps.
        """
        x = [Fraction(value) / bound for value, bound in zip(vector, self.bounds, strict=True)]
        n = x[self.units]
        a = (max(map(abs, x[self.units :])) + n) / 2
        b = a - n
        if self.units:
            a = max(a, x[0] + b)
            b = a - x[0]
        return a, b

    def holds(self, vector: Sequence[int | Fraction]) -> bool:
        """Whether one unit may add this to a group.

        Args:
            vector: a number for each coordinate, in grid steps.
        """
        a, b = self.sides(vector)
        return a <= 1 and b == 0


@dataclass(frozen=True, repr=False)
class CubeBody(ConeBody):
    """Signed numbers that nothing limits but their own bounds.

    A change of one group has the norm of the largest of them, over its bound: it is as a change of a cone
    without units whose count is the first. Of several groups this holds by themselves alone.

    Raises:
        ParameterError: as of `ConeBody`; or units is True.

    >>> body = CubeBody(("below", "above"), (Fraction(2), Fraction(3)))
    >>> body.holds((-2, 3)), body.holds((0, 4)), sum(body.sides((-2, 3)))
    (True, False, Fraction(1, 1))

    Proof: docs/proofs/k_norm.md, "Signed numbers alone".
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.units:
            raise ParameterError("units", self.units, "False, as no number limits others")

    def holds(self, vector: Sequence[int | Fraction]) -> bool:
        """Whether one unit may add this to a group."""
        return all(abs(Fraction(value)) <= bound for value, bound in zip(vector, self.bounds, strict=True))


@dataclass(frozen=True, repr=False)
class KNormDistance(Spelled, Metric):
    """The K-norm of what changed: the least λ + μ for which it is λ contributions of a unit less μ of them.

    Args:
        body: what one unit may add to a group.
        groups: the most groups that a unit is in; None for all.
        apart: whether each group is measured by itself, and the sum over groups taken, over `groups`: never
            more, and equal for one group. This is the norm of noise that is independent between groups.
    Raises:
        ParameterError: a parameter is out of its range, or does not fit the others.

    >>> body = ConeBody(("rows",), (Fraction(1),))
    >>> change = {"a": {"rows": 1}, "b": {"rows": -1}}, {}
    >>> metrics = KNormDistance(body), KNormDistance(body, 1), KNormDistance(body, 2, apart=True)
    >>> [metric.distance(*change) for metric in metrics]
    [Fraction(2, 1), Fraction(2, 1), Fraction(1, 1)]

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy"; Awan and Slavković 2021, "Structure
        and sensitivity in differential privacy". Proof of the formula: docs/proofs/k_norm.md.
    """

    body: ConeBody
    groups: int | None = None
    apart: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.body, CubeBody) and not self.apart:
            raise ParameterError("apart", self.apart, "True, for signed numbers alone")
        if self.groups is not None:
            whole_number(self.groups, "groups", 1)
        elif self.apart:
            raise ParameterError(
                "groups", None, "the most groups of a unit, for groups measured by themselves"
            )

    def admits(self, domain: Domain) -> bool:
        """Whether its members are integers by group with the body's coordinates."""
        return isinstance(domain, GroupedIntegers) and domain.coordinates == self.body.names

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the exact distance; infinite where a coordinate has no bound."""
        names, empty = self.body.names, dict[str, int]()
        vectors = []
        for group in dict.fromkeys([*one, *other]):
            a, b = one.get(group, empty), other.get(group, empty)
            if not {*a, *b} <= set(names):
                return math.inf
            vectors.append([a.get(name, 0) - b.get(name, 0) for name in names])
        return self.of(vectors)

    def of(self, vectors: Sequence[Sequence[int | Fraction]]) -> Fraction:
        """Return the norm of the groups' vectors.

        Args:
            vectors: of each group, what a unit adds: a number for each coordinate, in grid steps.

        >>> body = ConeBody(("rows", "visits"), (Fraction(1), Fraction(30)))
        >>> KNormDistance(body).of([(1, 30), (-1, -12)])
        Fraction(2, 1)
        """
        return self.norm([self.body.sides(vector) for vector in vectors])

    def norm(self, sides: Sequence[tuple[Fraction, Fraction]]) -> Fraction:
        """Return the norm of the groups' `sides`.

        Args:
            sides: of each group, as `ConeBody.sides` gives them.

        >>> body = ConeBody(("rows", "visits"), (Fraction(1), Fraction(30)))
        >>> came, went = body.sides((1, 30)), body.sides((-1, -12))  # a row more in a group, a row less
        >>> KNormDistance(body).norm([came, came]), KNormDistance(body).norm([came, went])
        (Fraction(1, 1), Fraction(2, 1))
        >>> KNormDistance(body, groups=1).norm([came, came])  # of a unit that is in one group alone
        Fraction(2, 1)
        """
        if self.apart:
            return sum((a + b for a, b in sides), Fraction(0)) / (self.groups or 1)
        parts = list(zip(*sides, strict=True)) or [(Fraction(0),)]
        return sum((self._one_side(part) for part in parts), Fraction(0))

    def _one_side(self, part: Sequence[Fraction]) -> Fraction:
        largest = max(part)
        return largest if self.groups is None else max(largest, sum(part, Fraction(0)) / self.groups)
