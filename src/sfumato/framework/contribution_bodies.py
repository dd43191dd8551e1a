"""Contribution bodies: all that one privacy unit may add to the numbers of one group.

A cone has a count and numbers that it limits; noise of the same shape is K-norm noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from fractions import Fraction
from functools import cached_property

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import as_fraction, positive_int, root_up


class Ball(Enum):
    """The norm of a ball of contributed vectors."""

    L1 = "l1"
    L2 = "l2"
    LINF = "linf"

    def holds(self, vector: Sequence[int], radius: int) -> bool:
        """Whether the ball contains a vector of whole numbers.

        Args:
            vector: whole numbers.
            radius: a whole number, at least 0.

        >>> Ball.L2.holds([3, -4], 5), Ball.L1.holds([3, -4], 6), Ball.LINF.holds([3, -4], 4)
        (True, False, True)
        """
        if self is Ball.L2:
            return sum(x * x for x in vector) <= radius * radius
        sizes = [abs(x) for x in vector]
        return (sum(sizes) if self is Ball.L1 else max(sizes, default=0)) <= radius


class Norm(Enum):
    """The norm of a contribution to several numbers: L1 for Laplace, L2 for Gaussian noise.

    >>> Norm.L1, Norm.L2
    (<Norm.L1: 'l1'>, <Norm.L2: 'l2'>)
    """

    L1 = "l1"
    L2 = "l2"


class Body(ABC):
    """A contribution body: the vectors of integers, in grid steps, that one unit may add to one group.

    Examples are `Segment` and `ConeBody`. This is the only privacy claim of a statistic: every sensitivity is
    a size of its body.

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy".

    >>> person = Product((Segment("visits", Fraction(3)), Segment("hours", Fraction(24))))
    >>> scales = person.split(Norm.L1)  # as much noise for each number as one person may add
    >>> scales, person.size(Norm.L1, scales)  # with which both together cost epsilon 2
    ((Fraction(3, 1), Fraction(24, 1)), Fraction(2, 1))
    """

    # Whether each coordinate is one number. A unit's part of a tree is spread over several of its nodes.
    spread = False
    # In how many groups one vector is: in each of a unit's groups it may add another.
    groups = 1

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The coordinates of the contribution body."""

    @property
    @abstractmethod
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The largest |contribution| to each coordinate: its L-infinity sensitivity."""

    @abstractmethod
    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest size of a contribution, each coordinate divided by its scale.

        For L1 it is the sum of absolute values. For L2 it is the sum of *squares*, which stays rational.

        Args:
            norm: the norm of a change of several numbers.
            scales: the noise scale of each coordinate, in grid steps, above 0.
        Returns:
            The size.
        """

    @abstractmethod
    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return noise scales at a multiplier of one, which split noise over the body's coordinates.

        Args:
            norm: the norm of a change of several numbers.
        Returns:
            A scale for each coordinate, in grid steps.
        """

    @property
    def parts(self) -> tuple[Body, ...]:
        """The contribution bodies of which this is the product."""
        return (self,)


@dataclass(frozen=True, repr=False)
class Segment(Spelled, Body):
    """A contribution body of one number in [-bound, bound].

    >>> rows = Segment("rows", Fraction(3))
    >>> rows.size(Norm.L2, [Fraction(2)]), rows.split(Norm.L2)
    (Fraction(9, 4), (Fraction(3, 1),))
    """

    name: str
    bound: Fraction

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinate of the segment body."""
        return (self.name,)

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The bound of the segment body."""
        return (self.bound,)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the segment body's bound/scale, squared for L2."""
        return weigh_norm(norm, self.linf_sensitivities, scales)

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the bound of the segment body as its noise scale."""
        return self.linf_sensitivities


@dataclass(frozen=True)
class Product(Body):
    """A product of contribution bodies: vectors side by side, independent of each other.

    >>> both = Product((Segment("units", Fraction(1)), Segment("rows", Fraction(3))))
    >>> both.size(Norm.L1, [Fraction(2), Fraction(6)]), both.split(Norm.L1)
    (Fraction(1, 1), (Fraction(1, 1), Fraction(3, 1)))
    >>> [(part.name, str(*scales)) for part, scales in both.of_parts([Fraction(2), Fraction(6)])]
    [('units', '2'), ('rows', '6')]
    """

    factors: tuple[Body, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The coordinates of all bodies of the product, in order."""
        return tuple(name for part in self.factors for name in part.names)

    @cached_property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The L-infinity sensitivities of all bodies of the product, in order."""
        return tuple(bound for part in self.factors for bound in part.linf_sensitivities)

    @property
    def parts(self) -> tuple[Body, ...]:
        """The bodies of the product, with products among them split up too."""
        return tuple(part for factor in self.factors for part in factor.parts)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the sum of the bodies' sizes: absolute values, or squares, add up over coordinates."""
        return sum((part.size(norm, own) for part, own in self.of_parts(scales)), Fraction(0))

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the noise scales of all bodies of the product, in order."""
        return tuple(scale for part in self.factors for scale in part.split(norm))

    def of_parts(self, scales: Sequence[Fraction]) -> list[tuple[Body, Sequence[Fraction]]]:
        """Return each body of the product with its own scales.

        Args:
            scales: the scales of all coordinates, in order.
        Returns:
            Pairs of a body and its scales.
        """
        found, start = [], 0
        for part in self.factors:
            end = start + len(part.names)
            found.append((part, scales[start:end]))
            start = end
        return found


@dataclass(frozen=True)
class RowsBody(Body):
    """A body with a row limit: what one unit may add to all its groups, with a limit on all its rows.

    Its size is the larger of two cases: `rows` groups with a row in each, and all rows in one group. Cases
    between these add no more, if the size of n rows in a group is a + b n (L1) or a + b n² (squares, for L2).

    Args:
        one: what a unit with one row in a group may add to it.
        most: what a unit with all its rows in a group may add to it.
        rows: the limit on rows over all groups.

    >>> units, rows = Segment("units", Fraction(1)), Segment("rows", Fraction(1))
    >>> body = RowsBody(Product((units, rows)), Product((units, Segment("rows", Fraction(4)))), 4)
    >>> body.size(Norm.L1, [Fraction(1), Fraction(1)]), body.size(Norm.L2, [Fraction(1), Fraction(1)])
    (Fraction(8, 1), Fraction(17, 1))
    >>> body.split(Norm.L1), body.split(Norm.L2)
    ((Fraction(4, 1), Fraction(4, 1)), (Fraction(2, 1), Fraction(4, 1)))

    Proof: docs/proofs/bound_total_rows.md.
    """

    one: Body
    most: Body
    rows: int

    # A unit's part of a coordinate is spread over groups.
    spread = True

    @property
    def groups(self) -> int:  # type: ignore[override]
        """The most groups of a unit: as many as rows."""
        return self.rows

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates of the contribution."""
        return self.one.names

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The L-infinity sensitivities: those of all rows in one group."""
        return self.most.linf_sensitivities

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the larger size: a row in each of many groups, or all rows in one."""
        return max(self.rows * self.one.size(norm, scales), self.most.size(norm, scales))

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the larger noise scales: for a row in each of many groups, or all rows in one."""
        times = Fraction(self.rows) if norm is Norm.L1 else root_up(Fraction(self.rows))
        pairs = zip(self.one.split(norm), self.most.split(norm), strict=True)
        return tuple(max(times * one, most) for one, most in pairs)


def weigh_norm(norm: Norm, sizes: Sequence[Fraction | int], scales: Sequence[Fraction]) -> Fraction:
    """Return sum |contribution/scale|, or the sum of its squares for L2."""
    parts = [abs(Fraction(size) / scale) for size, scale in zip(sizes, scales, strict=True)]
    return sum((p if norm is Norm.L1 else p * p for p in parts), Fraction(0))


@dataclass(frozen=True, repr=False)
class BallBody(Spelled, Body):
    """A ball of contributed vectors: one coordinate for all entries, which share a noise scale.

    Args:
        name: the name of the coordinate.
        entries: the length of the vectors.
        radius: the radius of the ball, in grid steps.
        ball: the norm of the ball.
    Raises:
        ParameterError: entries is not a whole number of at least 1, or radius is negative.

    >>> body = BallBody("v", 4, Fraction(3), Ball.L2)
    >>> body.size(Norm.L1, [Fraction(1)]), body.size(Norm.L2, [Fraction(1)])
    (Fraction(6, 1), Fraction(9, 1))
    >>> body.split(Norm.L1), body.split(Norm.L2)
    ((Fraction(6, 1),), (Fraction(3, 1),))

    Source:
        Cauchy and Schwarz. Proof: docs/proofs/vector_sum.md.
    """

    name: str
    entries: int
    radius: Fraction
    ball: Ball
    spread = True

    def __post_init__(self) -> None:
        positive_int(self.entries, "entries")
        if self.radius < 0:
            raise ParameterError("radius", self.radius, "not negative")

    @property
    def names(self) -> tuple[str, ...]:
        """The one coordinate of the ball body."""
        return (self.name,)

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The radius of the ball, which can all be in one entry."""
        return (self.radius,)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest size of a contribution in the ball; in L2, its square."""
        ratio = self.radius / scales[0]
        return self._longest(norm) * ratio if norm is Norm.L1 else self._longest(norm) * ratio**2

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the largest size of a contribution in the ball at a scale of one."""
        longest = self._longest(norm)
        return (self.radius * (longest if norm is Norm.L1 else root_up(longest)),)

    def _longest(self, norm: Norm) -> Fraction:
        """Return the longest L1 norm, rounded up, or squared L2 norm, in a ball body of radius 1."""
        if self.ball is Ball.LINF:
            return Fraction(self.entries)
        if self.ball is Ball.L2 and norm is Norm.L1:
            return root_up(Fraction(self.entries))
        return Fraction(1)


@dataclass(frozen=True, repr=False)
class SimplexBody(Spelled, Body):
    """A simplex body: contributed numbers are not negative, and come to at most `most` together.

    Its size does not grow with the number of places: a vector of it is a mean of vectors with all of `most`
    at one place, or at none, and the size of a mean is at most the largest size.

    Args:
        coordinates: a name for each place, or one that stands for all.
        most: what they come to at most.
        levels: how often each row is counted, once on each level of the places.

    >>> body = SimplexBody(("young", "old"), Fraction(3))
    >>> body.size(Norm.L1, [Fraction(2), Fraction(6)]), body.size(Norm.L2, [Fraction(2), Fraction(6)])
    (Fraction(3, 2), Fraction(9, 4))
    >>> tree = SimplexBody(("nodes",), Fraction(3), levels=4)
    >>> tree.size(Norm.L1, [Fraction(2)]), tree.split(Norm.L2)
    (Fraction(6, 1), (Fraction(6, 1),))

    Proof: docs/proofs/rows_in_bins.md.
    """

    coordinates: tuple[str, ...]
    most: Fraction
    levels: int = 1
    # How far one of them moves depends on the others.
    spread = True

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates of the simplex body."""
        return self.coordinates

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The sensitivities of the simplex body: all in one coordinate."""
        return (self.most,) * len(self.coordinates)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest contribution in the simplex: all where the scale is smallest, on each level."""
        ratio = self.most / min(scales)
        return self.levels * (ratio if norm is Norm.L1 else ratio**2)

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the noise scales of the simplex body, the same on each coordinate."""
        times = Fraction(self.levels) if norm is Norm.L1 else root_up(Fraction(self.levels))
        return (self.most * times,) * len(self.coordinates)


@dataclass(frozen=True, repr=False)
class ConeBody(Spelled, Body):
    """A cone of contributions: a count n up to its bound, and signed numbers s that it limits.

    For each signed number, |s| <= n (bound of s / bound of n). This holds for sums of bounded values over n
    rows or units. With units, their number u, from 0 to its bound, comes first and limits n in the same way:
    n <= u (bound of n / bound of u).

    Args:
        coordinates: the names of the number of units, if there is one, of the count, and of the signed
            numbers.
        bounds: for each coordinate the largest size, a number greater than 0, in grid steps.
        units: whether there is a number of units.
    Raises:
        ParameterError: bounds are not one above 0 for each coordinate, or a coordinate occurs twice.
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
        """The coordinates of the cone body."""
        return self.coordinates

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The bounds of the cone body."""
        return self.bounds

    @cached_property
    def signed(self) -> int:
        """The number of signed coordinates of the cone body."""
        return len(self.bounds) - 1 - self.units

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the size of the cone's corner, with all numbers at their bounds."""
        return weigh_norm(norm, self.bounds, scales)

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the bounds of the cone body as noise scales."""
        return self.bounds

    def sides(self, vector: Sequence[int | Fraction]) -> tuple[Fraction, Fraction]:
        """Return the smallest (a, b) such that the vector is in a times the cone minus b times the cone.

        Both are smallest at once: the vector is in λC - μC exactly if a <= λ and b <= μ.

        Args:
            vector: a number for each coordinate, in grid steps.
        Returns:
            The pair (a, b).
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
        """Whether the cone contains a vector, so that one unit may contribute it to a group.

        Args:
            vector: a number for each coordinate, in grid steps.
        """
        a, b = self.sides(vector)
        return a <= 1 and b == 0


@dataclass(frozen=True, repr=False)
class CubeBody(ConeBody):
    """A cube of contributions: signed numbers that only their own bounds limit.

    A change of one group has the norm of the largest of them, over its bound, like a change of a cone without
    units whose count is the first number. Over several groups this holds only for each group separately.

    Raises:
        ParameterError: as for `ConeBody`; or units is True.

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
        """Whether the cube contains a vector, so that one unit may contribute it to a group."""
        return all(abs(Fraction(value)) <= bound for value, bound in zip(vector, self.bounds, strict=True))
