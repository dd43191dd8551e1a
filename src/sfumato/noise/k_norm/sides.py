"""One group's numbers, given λ and μ, from its sides: integrals for the laws of K-norm noise.

The sides (a, b) of a group have the density c a^i b^j exp(-β (a + b)) of `powers`, up to λ and μ. The first
number of a group is a - b; the others follow from the sides of the group without its units, to which u - n
adds any number p, on the one side or on the other: a + p <= λ, or b + p <= μ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.gammas import lower
from sfumato.noise.k_norm.limited_radii import powers
from sfumato.noise.values import Floats

Moments = Callable[[int], Floats | float]  # of one side, of order 0, 1 and 2, with a factor

_inner = 14
_far = 60.0  # of sides, over β: exp(-β (a + b)) leaves nothing beyond


@lru_cache(64)
def rule(nodes: int) -> tuple[Floats, Floats]:
    """Return places and weights of Gauss and Legendre's rule on [-1, 1]."""
    place, weight = np.polynomial.legendre.leggauss(nodes)
    return place, weight


@dataclass(frozen=True)
class Group:
    """One group's numbers, given λ and μ, as integrals: each an array, like `left` and `right`.

    Args:
        cone: the body of one group.
        tilt: β, at least 0.
        left, right: λ and μ.
    """

    cone: Cone
    tilt: float
    left: Floats
    right: Floats

    @cached_property
    def mirrored(self) -> Group:
        """λ and μ exchanged."""
        return Group(self.cone, self.tilt, self.right, self.left)

    @cached_property
    def volume(self) -> Floats:
        """V."""
        return self._over_sides(self.cone, lambda i, j, a, b: a(0) * b(0))

    def tail(self, coordinate: int, x: float) -> Floats:
        """Return V times P(number > x), x >= 0."""
        if coordinate == 0:
            return self._difference(self.cone, x, room=False)
        if coordinate == self.cone.units:
            return self._difference(Cone(self.cone.signed), x, room=True)
        return self._signed(x)

    def square(self, coordinate: int) -> Floats:
        """Return V times the mean of the number squared."""
        m, units = self.cone.signed, self.cone.units

        def difference(i: int, j: int, a: Moments, b: Moments) -> Floats | float:
            return a(2) * b(0) - 2 * a(1) * b(1) + a(0) * b(2)

        def signed(i: int, j: int, a: Moments, b: Moments) -> Floats | float:
            # The largest number of all, n or a signed one, is a + b: below it the others are uniform.
            part = 1 / 3 if min(i, j) < 0 else (1 + (m - 1) / 3) / m
            return part * (a(2) * b(0) + 2 * a(1) * b(1) + a(0) * b(2))

        if coordinate == 0:
            return self._over_sides(self.cone, difference)
        return self._over_sides(Cone(m), difference if coordinate == units else signed, room=units)

    def mean_squares(self, chance: Floats) -> list[float]:
        """Return the mean squares of the numbers, one for all signed ones, which have one law.

        Args:
            chance: the probability of each λ and μ.
        """
        kinds = range(1 + self.cone.units + min(self.cone.signed, 1))
        return [float((chance * self.square(i) / self.volume).sum()) for i in kinds]

    @cached_property
    def _of_left(self) -> list[Floats]:
        return integrals(self.cone.dimensions + 1, self.tilt, self.left)

    @cached_property
    def _of_right(self) -> list[Floats]:
        if self.right is self.left:
            return self._of_left
        return integrals(self.cone.dimensions + 1, self.tilt, self.right)

    def _over_sides(
        self,
        cone: Cone,
        of: Callable[[int, int, Moments, Moments], Floats | float],
        *,
        room: bool = False,
    ) -> Floats:
        """Add up a function of the moments of a and b over all powers; with `room` for u - n."""
        total = np.zeros_like(self.left)
        for one, other in ((_wider, _moments), (_moments, _wider)) if room else ((_moments, _moments),):
            for (i, j), c in powers(cone).items():
                found = of(i, j, one(self._of_left, i), other(self._of_right, j))
                total = total + float(c) * found
        return total

    @property
    def _end(self) -> float:
        return _far / self.tilt if self.tilt else np.inf

    def _rule(self, end: Floats) -> tuple[Floats, Floats]:
        """Return a rule on [0, 1] that is fine enough for the tilt, from 0 to `end`."""
        place, weight = rule(_inner)
        count = 1 + int(self.tilt * float(end.max(initial=0.0)) / 6)
        starts = np.arange(count)[:, None]
        return ((starts + (place + 1) / 2) / count).ravel(), np.tile(weight / (2 * count), count)

    def _difference(self, cone: Cone, x: float, *, room: bool) -> Floats:
        """Integrate over a - b > x."""
        end = np.clip(self.left - x, 0.0, np.minimum(self.right, self._end))
        place, weight = self._rule(end)
        b = end[..., None] * place
        inner = end[..., None] * weight
        start, last = x + b, self.left[..., None]
        highest, least = cone.dimensions - 1 + room, np.minimum(self.left, x)
        whole = self._of_left
        beyond, below = self._of(highest, np.minimum(start, last)), self._of(highest, least)
        above = [w[..., None] - s for w, s in zip(whole, beyond, strict=False)]
        at_0 = [w - s for w, s in zip(whole, below, strict=False)]
        fall = np.exp(-self.tilt * b)
        total = np.zeros_like(self.left)
        if room:
            beside = self._of_right[0][..., None] - self._of(0, b)[0]
        for (i, j), c in powers(cone).items():
            if i < 0:
                continue
            if j < 0:
                found = at_0[i]
                if room:
                    found = found * self._of_right[0] + _wider_above(at_0, i, least)
            else:
                power = b**j if j else 1.0
                found = above[i] * fall
                if room:
                    found = above[i] * beside + _wider_above(above, i, start) * fall
                found = (found * power * inner).sum(axis=-1)
            total = total + float(c) * found
        return np.asarray(total)

    def _of(self, top: int, end: Floats) -> list[Floats]:
        return integrals(top, self.tilt, end)

    def _signed(self, x: float) -> Floats:
        """Integrate P(s > x) over the size a + b > x: where one side is 0, and where neither is."""
        m, left, right = self.cone.signed, self.left, self.right
        small, large = np.minimum(left, right), np.maximum(left, right)
        ends = [np.clip(e, x, max(self._end, x)) for e in (0 * left, small, large, left + right)]
        place, weight = self._rule(np.minimum(large, self._end))
        total = np.zeros_like(left)
        l_, r_ = left[..., None], right[..., None]
        for low, high in pairwise(ends):
            length = (high - low)[..., None]
            size = np.maximum(low[..., None] + length * place, 1e-300)
            start, end = np.maximum(size - r_, 0.0), np.minimum(size, l_)
            beyond = (1 - x / size) / 2
            middle = 2 * size ** (m - 1) * (1 / 2 + (m - 1) * beyond) * self._room(start, end, size)
            sides = size**m * beyond
            found = middle + sides * (
                (size <= l_) * self._room_at(l_ - size, r_) + (size <= r_) * self._room_at(l_, r_ - size)
            )
            total = total + (found * np.exp(-self.tilt * size) * length * weight).sum(axis=-1)
        return np.asarray(total)

    def _room(self, start: Floats, end: Floats, size: Floats) -> Floats:
        """Integrate the room of u - n over a from `start` to `end`, b = size - a."""
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
        """The room of u - n for what is left on both sides; no less than none."""
        if not self.cone.units:
            return np.ones_like(one)
        if not self.tilt:
            return one + other
        tilt = -self.tilt
        falls = np.expm1(tilt * np.maximum(one, 0.0)) + np.expm1(tilt * np.maximum(other, 0.0))
        return np.asarray(falls / tilt)


def _moments(found: list[Floats], i: int) -> Moments:
    """Of a side of power i; -1 for one that is 0."""
    return lambda more: found[i + more] if i >= 0 else float(more == 0)


def _wider(found: list[Floats], i: int) -> Moments:
    """Of such a side a, over all p with a + p up to its end: of a + p the power is higher by one."""
    if i < 0:
        return lambda more: found[0] if more == 0 else 0.0
    return lambda more: found[i + more + 1] / (i + more + 1)


def _wider_above(found: list[Floats], i: int, start: Floats) -> Floats:
    """Of power i, a from `start` on, over all p: what is `found` above the start."""
    return np.asarray((found[i + 1] - start ** (i + 1) * found[0]) / (i + 1))


def integrals(top: int, tilt: float, end: Floats) -> list[Floats]:
    """Integrate a^i exp(-tilt a) from 0 to `end`, for each i up to `top`."""
    if not tilt:
        return [np.asarray(end ** (i + 1) / (i + 1)) for i in range(top + 1)]
    return [found / tilt ** (i + 1) for i, found in enumerate(lower(top, tilt * end))]
