"""Balls: what one unit may add to many numbers that share one scale of noise."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import positive_int, root_up
from sfumato.framework.bodies import Body, Norm


class Ball(Enum):
    """The norm by which vectors are long or short."""

    L1 = "l1"
    L2 = "l2"
    LINF = "linf"

    def holds(self, vector: Sequence[int], radius: int) -> bool:
        """Whether a vector of whole numbers is no longer than a whole number.

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


@dataclass(frozen=True, repr=False)
class BallBody(Spelled, Body):
    """Vectors of a length, in a ball: one coordinate stands for all entries, which share a scale of noise.

    Args:
        name: of the coordinate.
        entries: the length of the vectors.
        radius: of the ball, in grid steps.
        ball: of which norm.
    Raises:
        ParameterError: entries is no whole number of at least 1, or radius is negative.

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
        """The one name."""
        return (self.name,)

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The radius: all of it in one entry."""
        return (self.radius,)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest size: of L2 balls in L1 where all entries are equal; in L2 its square."""
        ratio = self.radius / scales[0]
        return self._longest(norm) * ratio if norm is Norm.L1 else self._longest(norm) * ratio**2

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the largest size, where the scale is one."""
        longest = self._longest(norm)
        return (self.radius * (longest if norm is Norm.L1 else root_up(longest)),)

    def _longest(self, norm: Norm) -> Fraction:
        """Return the L1 norm, rounded up, or the square of the L2 norm, of the longest vector of radius 1."""
        if self.ball is Ball.LINF:
            return Fraction(self.entries)
        if self.ball is Ball.L2 and norm is Norm.L1:
            return root_up(Fraction(self.entries))
        return Fraction(1)
