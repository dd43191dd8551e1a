"""One group's numbers, given λ and μ, from its sides: integrals for the laws of K-norm noise.

The sides (a, b) of a group have the density c a^i b^j exp(-β (a + b)) of `powers`, up to λ and μ. The first
number of a group is a - b; the others follow from the sides of the group without its units, on which u - n,
any number that leaves room, has the weight R(λ - a, μ - b), R(p, q) = (2 - exp(-βp) - exp(-βq))/β, or p + q
for β = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.gammas import lower
from sfumato.noise.k_norm.limited_radii import powers
from sfumato.noise.values import Floats

Moments = Callable[[int], Floats]  # of order 0, 1, 2 and 3, with a factor

_inner = 14


@lru_cache(16)
def rule(nodes: int) -> tuple[Floats, Floats]:
    """Return places and weights of Gauss and Legendre's rule on [-1, 1]."""
    place, weight = np.polynomial.legendre.leggauss(nodes)
    return place, weight


@dataclass(frozen=True)
class Group:
    """One group's numbers, given λ and μ, as integrals: each an array, like `left` and `right`.

    Args:
        cone: the body of one group.
        tilt: β; 0 for `square` alone.
        left, right: λ and μ.
    """

    cone: Cone
    tilt: float
    left: Floats
    right: Floats

    @cached_property
    def _inner_rule(self) -> tuple[Floats, Floats]:
        """Return a rule on [-1, 1] that is fine enough for the tilt."""
        place, weight = rule(_inner)
        count = 1 + int(self.tilt * float(self.left.max(initial=0.0)) / 6)
        starts = np.arange(count)[:, None]
        return ((2 * starts + place + 1) / count - 1).ravel(), np.tile(weight / count, count)

    def volume(self) -> Floats:
        """V."""
        return self._over_sides(self.cone, self.tilt, self.tilt, lambda a, b: a(0) * b(0))

    def tail(self, coordinate: int, x: float) -> Floats:
        """Return V times P(number > x), x >= 0."""
        m, units, tilt = self.cone.signed, self.cone.units, self.tilt
        if coordinate == 0:
            return self._difference(self.cone, tilt, tilt, x)
        if coordinate == units:
            return self._with_room(lambda one, other: self._difference(Cone(m), one, other, x))
        return self._of_sizes(
            x, lambda size: (1 - x / size) / 2, lambda size: (1 / m + (1 - 1 / m) * (1 - x / size)) / 2
        )

    def square(self, coordinate: int) -> Floats:
        """Return V times the mean of the number squared."""
        m, units, tilt = self.cone.signed, self.cone.units, self.tilt

        def of(cone: Cone, one: float, other: float) -> Floats:
            return self._over_sides(
                cone, one, other, lambda a, b: a(2) * b(0) - 2 * a(1) * b(1) + a(0) * b(2)
            )

        if coordinate == 0:
            return of(self.cone, tilt, tilt)
        if coordinate == units:
            return (
                self._with_room(lambda one, other: of(Cone(m), one, other)) if tilt else self._with_all_room()
            )
        return self._of_sizes(0.0, lambda size: size**2 / 3, lambda size: size**2 * (1 / m + (1 - 1 / m) / 3))

    def _with_all_room(self) -> Floats:
        """Weigh the sides with R, as it is without a tilt: λ + μ - a - b."""
        whole = self.left + self.right

        def weighed(a: Moments, b: Moments) -> Floats:
            square = a(2) * b(0) - 2 * a(1) * b(1) + a(0) * b(2)
            return whole * square - (a(3) * b(0) - a(2) * b(1) - a(1) * b(2) + a(0) * b(3))

        return self._over_sides(Cone(self.cone.signed), 0.0, 0.0, weighed)

    def _with_room(self, of: Callable[[float, float], Floats]) -> Floats:
        """Weigh the sides with R: exp(-β a) exp(-β (λ - a)) is exp(-β λ)."""
        tilt = self.tilt
        near = np.exp(-tilt * self.left) * of(0.0, tilt) + np.exp(-tilt * self.right) * of(tilt, 0.0)
        return np.asarray((2 * of(tilt, tilt) - near) / tilt)

    def _over_sides(
        self, cone: Cone, one: float, other: float, of: Callable[[Moments, Moments], Floats]
    ) -> Floats:
        """Add up a function of the moments of a and b over all powers, tilted by `one` and `other`."""
        left, right = self._integrals(one, self.left), self._integrals(other, self.right)

        def moments(i: int, found: list[Floats]) -> Moments:
            return lambda more: found[i + more] if i >= 0 else np.asarray(float(more == 0))

        total = np.zeros_like(self.left)
        for (i, j), c in powers(cone).items():
            total = total + float(c) * of(moments(i, left), moments(j, right))
        return total

    def _integrals(self, tilt: float, end: Floats, more: int = 3) -> list[Floats]:
        return integrals(self.cone.dimensions - 1 + more, tilt, end)

    def _difference(self, cone: Cone, one: float, other: float, x: float) -> Floats:
        """Integrate over a - b > x."""
        place, weight = self._inner_rule
        end = np.clip(self.left - x, 0.0, self.right)
        b = end[..., None] * (place + 1) / 2
        top = self._integrals(one, self.left, 0)
        low = self._integrals(one, np.minimum(self.left, x), 0)
        beside = self._integrals(one, np.minimum(x + b, self.left[..., None]), 0)
        inner = weight * np.exp(-other * b)
        total = np.zeros_like(self.left)
        for (i, j), c in powers(cone).items():
            if i < 0:
                continue
            if j < 0:
                total = total + float(c) * (top[i] - low[i])
            else:
                found = (top[i][..., None] - beside[i]) * inner
                total = total + float(c) * end / 2 * (found * b**j if j else found).sum(axis=-1)
        return np.asarray(total)

    def _of_sizes(
        self, x: float, edge: Callable[[Floats], Floats], inside: Callable[[Floats], Floats]
    ) -> Floats:
        """Integrate over the size a + b > x: where one side is 0, and where neither is."""
        m, left, right = self.cone.signed, self.left, self.right
        ends = [
            np.maximum(e, x)
            for e in (0 * left, np.minimum(left, right), np.maximum(left, right), left + right)
        ]
        place, weight = self._inner_rule
        total = np.zeros_like(left)
        for low, high in pairwise(ends):
            half = ((high - low) / 2)[..., None]
            size = np.maximum(low[..., None] + half * (place + 1), 1e-300)
            l_, r_ = left[..., None], right[..., None]
            start, end = np.maximum(size - r_, 0.0), np.minimum(size, l_)
            middle = 2 * m * size ** (m - 1) * inside(size) * self._room(start, end, size)
            sides = size**m * edge(size)
            found = middle + sides * (
                (size <= l_) * self._room_at(l_ - size, r_) + (size <= r_) * self._room_at(l_, r_ - size)
            )
            total = total + (found * np.exp(-self.tilt * size) * half * weight).sum(axis=-1)
        return np.asarray(total)

    def _room(self, start: Floats, end: Floats, size: Floats) -> Floats:
        """Integrate R over a from `start` to `end`, b = size - a."""
        length = np.maximum(end - start, 0.0)
        if not self.cone.units:
            return length
        tilt, left, right = self.tilt, self.left[..., None], self.right[..., None]
        if not tilt:
            return length * (left + right - size)
        # Of 1 - exp(-β p) over p from p0 to p0 + length.
        grown = -np.expm1(-tilt * length) / tilt
        one = length - np.exp(-tilt * np.maximum(left - end, 0.0)) * grown
        other = length - np.exp(-tilt * np.maximum(right - size + start, 0.0)) * grown
        return np.asarray((one + other) / tilt)

    def _room_at(self, one: Floats, other: Floats) -> Floats:
        """R, where the room is not negative."""
        if not self.cone.units:
            return np.ones_like(one)
        if not self.tilt:
            return one + other
        tilt = -self.tilt
        falls = np.expm1(tilt * np.maximum(one, 0.0)) + np.expm1(tilt * np.maximum(other, 0.0))
        return np.asarray(falls / tilt)


def integrals(top: int, tilt: float, end: Floats) -> list[Floats]:
    """Integrate a^i exp(-tilt a) from 0 to `end`, for each i up to `top`."""
    if not tilt:
        return [np.asarray(end ** (i + 1) / (i + 1)) for i in range(top + 1)]
    return [found / tilt ** (i + 1) for i, found in enumerate(lower(top, tilt * end))]
