"""The body of a count beside sums of values and of their squares, which follow from each other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework.cones import ConeBody


@dataclass(frozen=True, repr=False)
class ParabolaBody(ConeBody):
    """A count n from 0 to its bound, a sum x, and a sum y of squares, moved: (x, y) in n times their hull.

    Each over its bound, one value adds x in [-1, 1] and y = 2x² - 1, or any y from there up to 1: the hull of
    an arc of a parabola, two thirds of the square that a `ConeBody` allows.

    Args:
        coordinates: names: that of units, if there is one, that of the count, of the sum, and of the squares.
        bounds: for each the largest size, a number greater than 0, in grid steps.
        units: whether there is a number of units.
    Raises:
        ParameterError: as of `ConeBody`; or there are not two numbers behind the counts.

    >>> body = ParabolaBody(("rows", "sum", "squares"), (1, 10, 50))
    >>> body.holds((1, 10, 50)), body.holds((1, 0, -50)), body.holds((1, 10, 0))
    (True, True, False)
    >>> ConeBody(body.names, body.bounds).holds((1, 10, 0)), body.sides((0, 10, 0))
    (True, (Fraction(1, 2), Fraction(1, 2)))

    Proof: docs/proofs/k_norm.md, "Sums of squares".
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.signed != 2:
            expected = "a number of units if there is one, a count, a sum and a sum of squares"
            raise ParameterError("coordinates", self.coordinates, expected)

    def _least(self, n: Fraction, signed: Sequence[Fraction]) -> Fraction:
        """Return the least a: that of the cube about the body, or where one of two parabolas bounds it."""
        x, y = signed
        a = super()._least(n, signed)
        return max(a, _beyond(n, x, y, a), n + _beyond(-n, x, -y, a - n))


def _beyond(n: Fraction, x: Fraction, y: Fraction, a: Fraction) -> Fraction:
    """Return the least a with 2 (|x| - b)² <= a (a + b + y), b = a - n, where |x| is above this b; else 0."""
    reach = abs(x) + n
    return 2 * reach**2 / (4 * reach + y - n) if reach > a else Fraction(0)
