"""One group's count, sum and sum of squares: a uniform point of λC - μC, as squares follow from values.

C holds n in [0, 1] and (x, y) in nM, M the hull of the parabola y = 2x² - 1 for x in [-1, 1]. Given n, with
the largest a <= λ and b <= μ for which a - b = n, and v = a + b, (x, y) is in aM - bM: where

    |x| <= v,    2 (|x| - b)² <= a (v + y) if |x| > b,    2 (|x| - a)² <= b (v - y) if |x| > a.

The square about that, from -v to v, is what the `Cone` of two signed numbers has for the same n. So a point
is drawn for that cone, and again if it is not in here: two thirds of them are, or more.

With units, u in [n, 1] comes first. The points that have a given u are λ'C - μ'C of the others, with
λ' = min(λ, μ + u) and μ' = min(μ, λ - u); again they are drawn for the cone, which has units too.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact.enclosures import Enclosure
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.values import Floats

# What `_room` may be off by, in errors of the numbers that it is made of: docs/proofs/k_norm.md.
ROOM_ERROR = 24


@dataclass(frozen=True)
class Parabola(Cone):
    """The body of one group.

    Args:
        signed: 2, the sum and the sum of squares.
        units: whether there is a number of units beside the count.

    >>> [str(c) for c in Parabola().volume], Parabola().dimensions
    (['17/36', '-1'], 3)
    """

    signed: int = 2

    @cached_property
    def volume(self) -> tuple[Fraction, ...]:
        """The volume of λC - μC for λ + μ = 1 in powers of (λ - 1/2)^2, up to a constant factor.

        Without units 2/9 + λμ, with them 1/18 + 5/9 λμ + 2/9 (λμ)².
        """
        if self.units:
            return Fraction(5, 24), Fraction(-2, 3), Fraction(2, 9)
        return Fraction(17, 36), Fraction(-1)

    def alike(self, coordinate: int) -> int:
        """Return the coordinate itself: sum and squares have laws of their own."""
        return coordinate

    def floats(
        self, theta: float, tau: float, uniform: Sequence[Floats]
    ) -> tuple[list[Floats], Floats | None, NDArray[np.bool_] | None]:
        """Approximate the numbers of groups, over L; the room is over 24 L², off by at most the margin."""
        numbers, inside, known = super().floats(theta, tau, uniform)
        n, x, y = numbers[-3:]
        left: float | Floats = theta
        right: float | Floats = tau
        if self.units:
            left, right = np.minimum(theta, tau + numbers[0]), np.minimum(tau, theta - numbers[0])
        own = room(np.minimum(left, n + right), np.minimum(right, left - n), x, y) / ROOM_ERROR
        return numbers, own if inside is None else np.minimum(own, inside), known

    def exactly(
        self, left_radius: Enclosure, right_radius: Enclosure, uniform: Sequence[Enclosure]
    ) -> tuple[list[Enclosure], Enclosure | None] | None:
        """Enclose the numbers of one group, and the room; None where the bits do not tell the side of n."""
        found = super().exactly(left_radius, right_radius, uniform)
        if found is None:
            return None
        numbers, inside = found
        n, x, y = numbers[-3:]
        left, right = left_radius, right_radius
        if self.units:
            u = numbers[0]
            left, right = left.or_less(right + u), right.or_less(left - u)
        own = enclosed_room(left.or_less(n + right), right.or_less(left - n), x, y)
        return numbers, own if inside is None else own.or_less(inside)


def room(a: Floats, b: Floats, x: Floats, y: Floats) -> Floats:
    """Return what is above 0 where (x, y) is in aM - bM, of points of the square about it."""
    v, reach = a + b, np.abs(x)
    below = a * (v + y) - 2 * np.maximum(reach - b, 0.0) ** 2
    above = b * (v - y) - 2 * np.maximum(reach - a, 0.0) ** 2
    return np.asarray(np.minimum(below, above))


def enclosed_room(a: Enclosure, b: Enclosure, x: Enclosure, y: Enclosure) -> Enclosure:
    """Enclose the same."""
    v, reach, zero = a + b, abs(x), Enclosure.of(0, a.bits)
    below = a * (v + y) - (reach - b).or_more(zero).power(2).times(2)
    above = b * (v - y) - (reach - a).or_more(zero).power(2).times(2)
    return below.or_less(above)
