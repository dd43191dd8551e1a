"""Laws of single numbers of noise that is shared in part: by quadrature over λ and μ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sfumato.exact import Number
from sfumato.exact.roots import first_whole_near
from sfumato.noise.k_norm.gammas import upper_tail
from sfumato.noise.k_norm.laws import Marginal, level
from sfumato.noise.k_norm.limited import LimitedNoise
from sfumato.noise.k_norm.limited_radii import Sizes
from sfumato.noise.k_norm.sides import Group, rule
from sfumato.noise.values import Floats, Scalar, Values, each

_r_nodes, _theta_nodes = 28, 18
_far = 36.0  # logarithm of what is left out of the law of r, and of θ, relative to its height


@dataclass(frozen=True)
class LimitedMarginal(Marginal):
    """A number of noise that is shared in part; by quadrature, with an absolute error below 1e-6.

    Args:
        scale: of the coordinate, in grid steps.
        sizes: the law of λ and μ.
        coordinate: the units if there are any, then the count, then the signed numbers.

    >>> from sfumato.noise.k_norm import Cone
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

    r = np.geomspace(1e-2, 4.0 * sizes.groups * sizes.cone.dimensions / float(sizes.shared) + 200, 600)
    heights = height(r, 0.5)
    top = float(heights.max())
    likely = np.flatnonzero(heights > top - _far)
    low, high = r[max(likely[0] - 1, 0)], r[min(likely[-1] + 1, len(r) - 1)]
    theta = np.linspace(0.5, 1.0, 65)
    best = height(np.linspace(low, high, 16)[:, None], theta).max(axis=0)
    beyond = np.flatnonzero(best > top - _far)[-1]
    return float(low), float(high), top, float(theta[min(beyond + 1, 64)])


def rough_deviations(sizes: Sizes) -> list[float]:
    """Return about the standard deviations at scale 1: those where λ and μ are equal, over likely r."""
    tilt, (low, high, _, _) = float(sizes.tilted.tilt), _window_of(sizes)
    r = np.linspace(low, high, 24)
    group = Group(sizes.cone, tilt, r / 2, r / 2)
    volume = group.volume()
    height = _height(sizes, r, volume)
    weight = np.exp(height - height.max())
    weight /= weight.sum() * volume
    return [float(np.sqrt((weight * group.square(i)).sum())) for i in range(sizes.cone.dimensions)]


@lru_cache(1 << 12)
def _limited_variance(law: LimitedMarginal) -> float:
    return law.unit_variance()


def limited(noise: LimitedNoise, coordinate: int) -> LimitedMarginal:
    """Return the law of a coordinate of noise that is shared in part."""
    alike = min(coordinate, 1 + noise.cone.units)  # all signed numbers have one law
    return LimitedMarginal(noise.scales[coordinate], noise.sizes, alike)
