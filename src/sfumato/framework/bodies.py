"""The body of contributions: all that one privacy unit may add to the numbers of one group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property


class Norm(Enum):
    """How a change of several numbers is measured as one: for Laplace or for Gaussian noise."""

    L1 = "l1"
    L2 = "l2"


class Body(ABC):
    """A set of vectors of integers, in grid steps, that holds whatever one unit may add to one group.

    This is the only privacy claim of a statistic: every sensitivity is a size of its body.
    """

    # Whether each coordinate is one number. A unit's part of a tree is spread over several of its nodes.
    spread = False

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The coordinates."""

    @property
    @abstractmethod
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The largest |number| in each coordinate: its L-infinity sensitivity."""

    @abstractmethod
    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest size of a vector, each coordinate divided by its scale.

        For L1 the sum of absolute values; for L2 the sum of *squares*, which stays rational.
        """

    @abstractmethod
    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return noise scales at a noise multiplier of one: how noise is split over the coordinates."""

    @property
    def parts(self) -> tuple[Body, ...]:
        """Bodies of which this is the product."""
        return (self,)


@dataclass(frozen=True)
class Segment(Body):
    """One number in [-bound, bound].

    >>> Segment("rows", Fraction(3)).size(Norm.L2, [Fraction(2)])
    Fraction(9, 4)
    """

    name: str
    bound: Fraction

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinate."""
        return (self.name,)

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The bound."""
        return (self.bound,)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return bound/scale, squared for L2."""
        return weighted(norm, self.linf_sensitivities, scales)

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """The bound."""
        return self.linf_sensitivities


@dataclass(frozen=True)
class Product(Body):
    """Vectors side by side, each from its own body, whatever the others are.

    >>> both = Product((Segment("units", Fraction(1)), Segment("rows", Fraction(3))))
    >>> both.size(Norm.L1, [Fraction(2), Fraction(6)])
    Fraction(1, 1)
    """

    factors: tuple[Body, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Those of all factors, in order."""
        return tuple(name for part in self.factors for name in part.names)

    @cached_property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """Those of all factors, in order."""
        return tuple(bound for part in self.factors for bound in part.linf_sensitivities)

    @property
    def parts(self) -> tuple[Body, ...]:
        """The factors."""
        return self.factors

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the sum over the factors: absolute values, and squares, of different coordinates add up."""
        return sum((part.size(norm, own) for part, own in self.of_parts(scales)), Fraction(0))

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return those of all factors, in order."""
        return tuple(scale for part in self.factors for scale in part.split(norm))

    def of_parts(self, scales: Sequence[Fraction]) -> list[tuple[Body, Sequence[Fraction]]]:
        """Return each factor with its own of `scales`."""
        found, start = [], 0
        for part in self.factors:
            end = start + len(part.names)
            found.append((part, scales[start:end]))
            start = end
        return found


def weighted(norm: Norm, sizes: Sequence[Fraction | int], scales: Sequence[Fraction]) -> Fraction:
    """Return sum |size/scale|, or the sum of its squares for L2."""
    parts = [abs(Fraction(size) / scale) for size, scale in zip(sizes, scales, strict=True)]
    return sum((p if norm is Norm.L1 else p * p for p in parts), Fraction(0))
