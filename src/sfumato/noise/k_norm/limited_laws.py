"""Laws of single numbers of noise that is shared in part: by quadrature over λ, μ and sides of a group.

Given (λ, μ), the sides (a, b) of a group have the density c a^i b^j exp(-β (a + b)) of `powers`, up to λ
and μ. The first number of a group is a - b; the others follow from the sides of the group without its
units, on which u - n, any number that leaves room, has the weight R(λ - a, μ - b), R(p, q) = (2 - exp(-βp)
- exp(-βq))/β.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sfumato.exact import Number
from sfumato.exact.roots import first_whole_near
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.gammas import lower, upper_tail
from sfumato.noise.k_norm.laws import Marginal, level, rule
from sfumato.noise.k_norm.limited import LimitedNoise
from sfumato.noise.k_norm.limited_radii import Sizes, powers
from sfumato.noise.values import Floats, Scalar, Values, each

Moments = Callable[[int], Floats]  # of order 0, 1 and 2, with a factor

_inner, _r_nodes, _theta_nodes = 14, 28, 18
_far = 36.0  # logarithm of what is left out of the law of r, and of θ, relative to its height


@dataclass(frozen=True)
class Group:
    """One group's numbers, given λ and μ, as integrals: each an array, like `left` and `right`.

    Args:
        cone: the body of one group.
        tilt: β.
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
            return self._with_room(lambda one, other: of(Cone(m), one, other))
        return self._of_sizes(0.0, lambda size: size**2 / 3, lambda size: size**2 * (1 / m + (1 - 1 / m) / 3))

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

    def _integrals(self, tilt: float, end: Floats, more: int = 2) -> list[Floats]:
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
        # Of 1 - exp(-β p) over p from p0 to p0 + length.
        grown = -np.expm1(-tilt * length) / tilt
        one = length - np.exp(-tilt * np.maximum(left - end, 0.0)) * grown
        other = length - np.exp(-tilt * np.maximum(right - size + start, 0.0)) * grown
        return np.asarray((one + other) / tilt)

    def _room_at(self, one: Floats, other: Floats) -> Floats:
        """R, where the room is not negative."""
        if not self.cone.units:
            return np.ones_like(one)
        tilt = -self.tilt
        falls = np.expm1(tilt * np.maximum(one, 0.0)) + np.expm1(tilt * np.maximum(other, 0.0))
        return np.asarray(falls / tilt)


def integrals(top: int, tilt: float, end: Floats) -> list[Floats]:
    """Integrate a^i exp(-tilt a) from 0 to `end`, for each i up to `top`."""
    if not tilt:
        return [np.asarray(end ** (i + 1) / (i + 1)) for i in range(top + 1)]
    return [found / tilt ** (i + 1) for i, found in enumerate(lower(top, tilt * end))]


@dataclass(frozen=True)
class LimitedMarginal(Marginal):
    """A number of noise that is shared in part; by quadrature, with an absolute error below 1e-6.

    Args:
        scale: of the coordinate, in grid steps.
        sizes: the law of λ and μ.
        coordinate: the units if there are any, then the count, then the signed numbers.

    >>> noise = LimitedNoise(Cone(1), (Fraction(1), Fraction(1)), groups=12, most=4, shared=Fraction(1, 4))
    >>> law = limited(noise, 0)
    >>> round(law.standard_deviation, 2), law.rounded_half_width("0.95"), law.simultaneous_half_width("0.95")
    (7.1, 14, 21)
    """

    sizes: Sizes
    coordinate: int
    error: ClassVar[float] = 1e-6
    fineness: ClassVar[float] = 1e-5

    @property
    def variance(self) -> float:
        """The variance of Z, in squared steps."""
        return _limited_variance(replace(self, scale=Fraction(1))) * float(self.scale**2)

    def unit_variance(self) -> float:
        """Return the variance at scale 1."""
        return self._mean(0.0, lambda group, _: group.square(self.coordinate) / group.volume())

    def _outside(self, x: float) -> float:
        return 1.0 if x == 0 else min(1.0, self._mean(x, self._both))

    def _both(self, group: Group, x: float) -> Floats:
        """Return P(|number| > x)."""
        mirrored = replace(group, left=group.right, right=group.left)
        both = group.tail(self.coordinate, x) + mirrored.tail(self.coordinate, x)
        return np.asarray(both / group.volume())

    def _size_tail(self, x: float) -> float:
        # The norm, which has this law, is at least this much of any number.
        least = max(float(self.sizes.shared), 1 / self.sizes.most)
        return upper_tail(self.sizes.groups * self.sizes.cone.dimensions, x * least)

    def outside_anywhere(self, x: Values | Scalar) -> float | Floats:
        """Return P(max over groups of |Z| > x) for x >= 0, in steps."""

        def any_of(group: Group, x: float) -> Floats:
            both = np.minimum(self._both(group, x), 1 - 1e-16)
            return np.asarray(-np.expm1(self.sizes.groups * np.log1p(-both)))

        return each(lambda v: 1.0 if v == 0 else self._mean(float(Fraction(v) / self.scale), any_of), x)

    def simultaneous_half_width(self, confidence: Number) -> int:
        """Return the smallest whole t with P(|R| <= t in all groups) >= confidence."""
        rest = 1 - level(confidence)
        guess = int(3 * self.standard_deviation)
        return first_whole_near(
            lambda t: bool(self.outside_anywhere(t + Fraction(1, 2)) <= rest), guess, least=0
        )

    def _mean(self, x: float, function: Callable[[Group, float], Floats]) -> float:
        """Average a function that is the same for (λ, μ) and (μ, λ)."""
        tilt = float(self.sizes.tilted.tilt)
        total, norm, (_, _, top, _) = 0.0, 0.0, self._window
        for r, theta, weight in self._places(x):
            group = Group(self.sizes.cone, tilt, theta * r, (1 - theta) * r)
            chance = weight * np.exp(_height(self.sizes, r, group.volume()) - top)
            total += float((chance * function(group, x)).sum())
            norm += float(chance.sum())
        return total / norm

    @property
    def _window(self) -> tuple[float, float, float, float]:
        """Return where r is likely, from and to; the largest height; and where θ is likely, above 1/2."""
        return _window_of(self.sizes)

    def _places(self, x: float) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Return r, θ and weights: between the places where the pieces of tails meet."""
        low, high, _, last = self._window
        steps = np.linspace(low, high, 3)
        ends = sorted({*steps.tolist(), *(v * x for v in (1, 2, 3) if low < v * x < high)})
        r_place, r_weight = rule(_r_nodes)
        place, weight = rule(_theta_nodes)
        for start, end in pairwise(ends):
            r = (start + (end - start) * (r_place + 1) / 2)[:, None]
            y = np.minimum(x / r, 1.0)
            cuts = [
                np.full_like(y, 0.5),
                np.clip(np.maximum(y, 1 - y), None, last),
                np.clip((1 + y) / 2, None, last),
            ]
            cuts = [*np.sort(np.hstack(cuts), axis=1).T[..., None], np.full_like(y, last)]
            for one, other in pairwise(cuts):
                if not (other > one).any():
                    continue
                theta = one + (other - one) * (place + 1) / 2
                yield r + 0 * theta, theta, (end - start) * r_weight[:, None] * (other - one) * weight


def _height(sizes: Sizes, r: Floats, volume: Floats) -> Floats:
    """Return the logarithm of the density of (r, θ), up to a constant."""
    least = np.maximum(volume, 1e-300)
    return np.asarray(sizes.groups * np.log(least) + np.log(r) - float(sizes.shared) * r)


@lru_cache(1 << 8)
def _window_of(sizes: Sizes) -> tuple[float, float, float, float]:
    tilt = float(sizes.tilted.tilt)

    def height(r: Floats, theta: Floats | float) -> Floats:
        return _height(sizes, r, Group(sizes.cone, tilt, theta * r, (1 - theta) * r).volume())

    r = np.geomspace(1e-2, 4.0 * sizes.groups * sizes.cone.dimensions / float(sizes.shared) + 200, 2000)
    heights = height(r, 0.5)
    top = float(heights.max())
    likely = np.flatnonzero(heights > top - _far)
    low, high = r[max(likely[0] - 1, 0)], r[min(likely[-1] + 1, len(r) - 1)]
    theta = np.linspace(0.5, 1.0, 201)
    best = height(np.linspace(low, high, 60)[:, None], theta).max(axis=0)
    beyond = np.flatnonzero(best > top - _far)[-1]
    return float(low), float(high), top, float(theta[min(beyond + 1, 200)])


def rough_deviations(sizes: Sizes) -> list[float]:
    """Return about the standard deviations at scale 1: those where λ and μ are equal, over all r."""
    tilt = float(sizes.tilted.tilt)
    most = 4.0 * sizes.groups * sizes.cone.dimensions / float(sizes.shared) + 200
    r = np.geomspace(1e-2, most, 300)
    group = Group(sizes.cone, tilt, r / 2, r / 2)
    volume = group.volume()
    height = _height(sizes, r, volume)
    chance = r * np.exp(height - height.max())
    weight = chance / chance.sum() / volume
    return [float(np.sqrt((weight * group.square(i)).sum())) for i in range(sizes.cone.dimensions)]


@lru_cache(1 << 12)
def _limited_variance(law: LimitedMarginal) -> float:
    return law.unit_variance()


def limited(noise: LimitedNoise, coordinate: int) -> LimitedMarginal:
    """Return the law of a coordinate of noise that is shared in part."""
    alike = min(coordinate, 1 + noise.cone.units)  # all signed numbers have one law
    return LimitedMarginal(noise.scales[coordinate], noise.sizes, alike)
