"""Laws of single numbers of noise that is shared in part: by quadrature over λ and μ."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.gammas import upper_tail
from sfumato.noise.k_norm.laws import TogetherMarginal
from sfumato.noise.k_norm.limited import LimitedNoise
from sfumato.noise.k_norm.limited_densities import Density, densities
from sfumato.noise.k_norm.limited_radii import Sizes
from sfumato.noise.k_norm.sides import Group, rule
from sfumato.noise.values import Floats

_far = 26.0  # logarithm of what is left out of the law of r, and of θ, relative to its height
_deviations = 7.2  # about where that is, in standard deviations
_panel = 1.0  # how wide panels are: about 2 deviations


@dataclass(frozen=True, repr=False)
class LimitedMarginal(TogetherMarginal):
    """A number of noise that is shared in part; by quadrature, with an absolute error below 1e-7.

    Args:
        scale: of the coordinate, in grid steps.
        sizes: the law of λ and μ.
        coordinate: the units if there are any, then the count, then the signed numbers.

    >>> from fractions import Fraction
    >>> from sfumato.noise.k_norm import Cone
    >>> noise = LimitedNoise(Cone(1), (Fraction(1), Fraction(1)), groups=12, most=4, shared=Fraction(1, 4))
    >>> law = limited(noise, 0)
    >>> round(law.standard_deviation, 2), law.rounded_half_width("0.95"), law.simultaneous_half_width("0.95")
    (7.1, 14, 21)
    """

    sizes: Sizes
    coordinate: int
    error: ClassVar[float] = 1e-7
    fineness: ClassVar[float] = 1e-5

    @property
    def all_groups(self) -> int:
        """How many."""
        return self.sizes.groups

    @property
    def variance(self) -> float:
        """The variance of Z, in squared steps."""
        return _variances(self.sizes)[self.coordinate] * float(self.scale**2)

    def _outside(self, x: float) -> float:
        found = _densities(self.sizes)
        if x == 0 or found is None:
            return 1.0 if x == 0 else min(1.0, self._mean(x, self._both))
        return found[self.coordinate].outside(x)

    def _both(self, group: Group, x: float) -> Floats:
        """Return P(|number| > x)."""
        both = group.tail(self.coordinate, x) + group.mirrored.tail(self.coordinate, x)
        return np.asarray(both / group.volume)

    def _size_tail(self, x: float) -> float:
        # The norm, which has this law, is at least this much of any number.
        least = max(float(self.sizes.shared), 1 / self.sizes.most)
        return upper_tail(self.sizes.groups * self.sizes.cone.dimensions, x * least)

    def _outside_anywhere(self, x: float) -> float:
        def any_of(group: Group, x: float) -> Floats:
            both = np.minimum(self._both(group, x), 1 - 1e-16)
            return np.asarray(-np.expm1(self.sizes.groups * np.log1p(-both)))

        return self._mean(x, any_of)

    def _mean(self, x: float, function: Callable[[Group, float], Floats]) -> float:
        """Average a function that is the same for (λ, μ) and (μ, λ)."""
        group, chance = _places(self.sizes, x)
        return float((chance * function(group, x)).sum())


def _places(sizes: Sizes, x: float) -> tuple[Group, Floats]:
    """Return λ and μ, λ >= μ, and their weights: between the places where the pieces of tails meet."""
    low, high, top, last = _window_of(sizes)
    tilt, ends = float(sizes.tilted.tilt), {low, high, *(v * x for v in (1, 2, 3) if low < v * x < high)}
    ends |= {high / 4**i for i in range(1, 16) if high / 4**i > low}
    found = []
    for start, end in pairwise(sorted(ends)):
        place, weight = rule(_nodes((end - start) / (high - low)))
        r, r_weight = (start + (end - start) * (place + 1) / 2)[:, None], (end - start) * weight[:, None]
        y = np.minimum(x / r, 1.0)
        # Near θ = 1, where μ is not large, V changes by its tilt.
        beside = (1 - 24 / (tilt * r), 1 - 8 / (tilt * r))
        cuts = (0.5 + 0 * y, np.maximum(y, 1 - y), (1 + y) / 2, *beside, last + 0 * y)
        for one, other in pairwise(np.sort(np.clip(cuts, 0.5, last), axis=0)):
            length = other - one
            place, weight = rule(_nodes(length.max() / (last - 0.5)))
            found.append((r + 0 * place, one + length * (place + 1) / 2, r_weight * length * weight))
    r, theta, weight = (np.concatenate([part[i].ravel() for part in found]) for i in range(3))
    some = weight > 0
    r, theta, weight = r[some], theta[some], weight[some]
    group = Group(sizes.cone, tilt, theta * r, (1 - theta) * r)
    chance = weight * np.exp(_height(sizes, r, group.volume) - top)
    return group, chance / chance.sum()


def _nodes(part: float) -> int:
    """Return how many places are enough for a part of where a density is likely."""
    return 9 + int(20 * part)


def _height(sizes: Sizes, r: Floats, volume: Floats) -> Floats:
    """Return the logarithm of the density of (r, θ), up to a constant."""
    least = np.maximum(volume, 1e-300)
    return np.asarray(sizes.groups * np.log(least) + np.log(r) - float(sizes.shared) * r)


@lru_cache(1 << 8)
def _likely(sizes: Sizes) -> tuple[float, float, float]:
    """Return where r is likely, from and to, and the largest height.

    Heights are concave in r, and largest where λ and μ are equal.
    """
    low, high = 1e-2, (4.0 * sizes.groups * sizes.cone.dimensions + 60) / float(sizes.shared)
    for places in (np.geomspace(low, high, 64), None):
        r = np.linspace(low, high, 64) if places is None else places
        heights = _height(sizes, r, _middle(sizes, r).volume)
        top = float(heights.max())
        likely = np.flatnonzero(heights > top - _far)
        low, high = float(r[max(likely[0] - 1, 0)]), float(r[min(likely[-1] + 1, len(r) - 1)])
    return low, high, top


def _middle(sizes: Sizes, r: Floats) -> Group:
    """Return a group where λ and μ are equal."""
    half = r / 2
    return Group(sizes.cone, float(sizes.tilted.tilt), half, half)


@lru_cache(1 << 8)
def _window_of(sizes: Sizes) -> tuple[float, float, float, float]:
    """Return where r is likely, from and to; the largest height; and where θ is likely, above 1/2."""
    low, high, top = _likely(sizes)
    r, theta = np.linspace(low, high, 12)[:, None], np.linspace(0.5, 1.0, 49)
    group = Group(sizes.cone, float(sizes.tilted.tilt), theta * r, (1 - theta) * r)
    best = _height(sizes, r, group.volume).max(axis=0)
    beyond = int(np.flatnonzero(best > top - _far)[-1])
    return low, high, top, float(theta[min(beyond + 1, 48)])


def rough_deviations(sizes: Sizes) -> list[float]:
    """Return about the standard deviations at scale 1: those where λ and μ are equal, over likely r."""
    low, high, top = _likely(sizes)
    r = np.linspace(low, high, 24)
    group = _middle(sizes, r)
    weight = np.exp(_height(sizes, r, group.volume) - top)
    deviations = [float(np.sqrt(v)) for v in group.mean_squares(weight / weight.sum())]
    return deviations + deviations[sizes.cone.units + 1 :] * (sizes.cone.signed - 1)


@lru_cache(1 << 8)
def _densities(sizes: Sizes) -> list[Density] | None:
    """Return the laws of single numbers at scale 1, but where the panels would be too many."""
    low, high, _, last = _window_of(sizes)
    # The window reaches as far as `_far` says, on both sides; θ is λ/r, which moves by half of what λ does.
    of_size, of_share = (high - low) / (2 * _deviations), (last - 0.5) * (high + low) / _deviations
    narrow = of_size * of_share / float(np.hypot(of_size, of_share))
    width = _panel * min(2 * narrow, 4 / float(sizes.tilted.tilt))
    return densities(sizes, 1.1 * high * last, width)


@lru_cache(1 << 8)
def _variances(sizes: Sizes) -> list[float]:
    """Return the variance of each number at scale 1."""
    if found := _densities(sizes):
        return [density.variance for density in found]
    group, chance = _places(sizes, 0.0)
    return group.mean_squares(chance)


def limited(noise: LimitedNoise, coordinate: int) -> LimitedMarginal:
    """Return the law of a coordinate of noise that is shared in part."""
    alike = min(coordinate, 1 + noise.cone.units)  # all signed numbers have one law
    return LimitedMarginal(noise.scales[coordinate], noise.sizes, alike)
