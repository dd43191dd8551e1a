"""Noise for each group by itself on a count, a sum and a sum of squares: uniform in a body, times its size.

A vector of density exp(-||.||) up to a factor is a uniform point of the unit ball K of the norm, times a
Gamma number of shape D + 1, for D numbers. K holds the (n, x, y) from -1 to 1 for which (x, y) is in aM - bM,
a = (1 + n)/2 and b = (1 - n)/2, as in `parabola`: seven ninths of the cube. With units K holds the u from -1
to 1 and (n, x, y) in λC - μC, λ = (1 + u)/2 and μ = (1 - u)/2, with n from -μ to λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.exact.enclosures import Enclosure
from sfumato.noise.k_norm.cone import unit_roundoff
from sfumato.noise.k_norm.drawing import Approximation, Enclosed, Integers, as_uniform
from sfumato.noise.k_norm.parabola import ROOM_ERROR, Parabola, enclosed_room, room
from sfumato.noise.k_norm.radii import HALF
from sfumato.noise.k_norm.separate import SeparateNoise, signed_exponential
from sfumato.noise.values import Floats


@dataclass(frozen=True, repr=False)
class SeparateParabolas(SeparateNoise):
    """Independent K-norm noise in each group on a count, a sum and a sum of squares, and units if there are.

    Args:
        cone: what one unit may add to one group, at scale 1.
        scales: for each coordinate, what 1 is worth in grid steps, times the groups of a unit, over epsilon.

    >>> from sfumato.noise import SeededWords
    >>> noise = SeparateParabolas(Parabola(), (Fraction(1000), Fraction(30_000), Fraction(1000)))
    >>> noise.rounded(3, SeededWords(1))
    array([[ -2071,   -239,    105],
           [-15711,  24457,  44548],
           [ -2917,   -977,   -163]])

    Source:
        Hardt and Talwar 2010, "On the geometry of differential privacy". Proof: docs/proofs/k_norm.md.
    """

    cone: Parabola

    @property
    def shape(self) -> int:
        """Exponential numbers whose sum is the size."""
        return self.cone.dimensions + 1

    @property
    def width(self) -> int:  # type: ignore[override]
        """Exponential numbers, then uniform ones."""
        return self.shape + self.cone.dimensions

    @cached_property
    def unit_margins(self) -> list[Fraction]:
        """Bounds of the errors in floats, at scale 1; the terms are those of docs/proofs/k_norm.md."""
        each, largest, shape = Fraction(self._table.error), Fraction(self._table.largest), self.shape
        sums = shape * each + shape**2 * largest * Fraction(unit_roundoff)
        return [sums + shape * largest * 8 * Fraction(unit_roundoff)] * self.cone.dimensions

    def closely(self, numbers: Sequence[Floats]) -> None:  # type: ignore[override]
        """Return no closer bounds: numbers do not tell the size."""

    def approximate(self, words: Integers) -> Approximation:
        """Return vectors in floats."""
        size = self._magnitudes(words[0]).copy()
        for row in words[1 : self.shape]:
            size += self._magnitudes(row)
        point = as_uniform(words[self.shape :])
        if self.cone.units:
            left, right = (1 + point[0]) * 0.5, (1 - point[0]) * 0.5
            point[1] = (point[1] + 1) * 0.5 - right
            n, x, y = point[1:]
            own = room(np.minimum(left, n + right), np.minimum(right, left - n), x, y)
        else:
            n, x, y = point
            own = room((1 + n) * 0.5, (1 - n) * 0.5, x, y)
        numbers = [size * place * float(s) for place, s in zip(point, self.scales, strict=True)]
        return Approximation(numbers, self.margins, own, 6 * ROOM_ERROR * unit_roundoff)

    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return one vector in enclosures."""
        parts = [f for f in map(signed_exponential, uniform[: self.shape]) if f is not None]
        if len(parts) < self.shape:
            return None
        size = parts[0][0]
        for more, _ in parts[1:]:
            size = size + more
        one = Enclosure.of(1, size.bits)
        point = [u.times(2) - one for u in uniform[self.shape :]]
        left, right = (one + point[0]).times(HALF), (one - point[0]).times(HALF)
        if self.cone.units:
            point[1] = uniform[self.shape + 1] - right
            left, right = left.or_less(point[1] + right), right.or_less(left - point[1])
        numbers = [(place * size).times(s) for place, s in zip(point, self.scales, strict=True)]
        return Enclosed(numbers, enclosed_room(left, right, *point[-2:]))
