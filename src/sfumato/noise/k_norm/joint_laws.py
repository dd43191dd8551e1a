"""Laws of single numbers of joint noise.

Given the split θ and the size r, groups are independent, and the law of a number over r is piecewise a
polynomial; over θ and r it is integrated by Gauss and Legendre's rule between the places where the pieces
meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.gammas import density, lowest, upper_tail
from sfumato.noise.k_norm.joint import JointNoise
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.k_norm.pieces import Pieces
from sfumato.noise.k_norm.radii import half_width_squared
from sfumato.noise.k_norm.tails import tail
from sfumato.noise.values import Floats

_r_nodes = 80
_theta_nodes = 24
_fit = 1e-12

Moments = Callable[[int], Floats | float]  # of one side, of order 0, 1 and 2


@dataclass(frozen=True, repr=False)
class JointMarginal(Marginal):
    """A number of joint noise; by quadrature, with an absolute error below 1e-10.

    Args:
        scale: of the coordinate, in grid steps.
        cone: the body of one group.
        groups: how many.
        coordinate: the units if there are any, then the count, then the signed numbers.

    >>> from fractions import Fraction
    >>> law = joint(JointNoise(Cone(1), (Fraction(1), Fraction(1)), groups=12), 0)
    >>> round(law.standard_deviation, 2), law.rounded_half_width("0.95")
    (9.08, 17)
    """

    cone: Cone
    groups: int
    coordinate: int
    error: ClassVar[float] = 1e-10
    fineness: ClassVar[float] = 1e-8

    def _outside(self, x: float) -> float:
        return 1.0 if x == 0 else min(1.0, self._mean(x, _of_share(self.cone, self.groups, self.coordinate)))

    def _size_tail(self, x: float) -> float:
        # A number is never larger than the norm, which has this law.
        return upper_tail(self.groups * self.cone.dimensions, x)

    @property
    def variance(self) -> float:
        """The variance of Z, in squared steps."""
        return _joint_variances(self.cone, self.groups)[self.coordinate] * float(self.scale**2)

    def _mean(self, x: float, of_share: Pieces) -> float:
        """Average a function of x/r that is 0 where r < x."""
        shape = self.groups * self.cone.dimensions + 2
        low, high = lowest(shape), shape + 20 * math.sqrt(shape) + 60
        ends = sorted({min(max(e, low, x), high) for e in (low, 2 * x, 3 * x, high)})
        place, weight = rule(_r_nodes)
        start, length = np.array(ends[:-1])[:, None], np.diff(ends)[:, None]
        r = start + length * (place + 1) / 2
        chance = weight * length / 2 * density(shape, r)
        return float((chance * of_share(np.minimum(x / r, 1.0))).sum())


@lru_cache(1 << 8)
def _of_share(cone: Cone, groups: int, coordinate: int) -> Pieces:
    """Return P(|number| > y r), of one group, as a function of y."""

    far = _spread(cone, groups)

    def both(y: Floats) -> Floats:
        theta, chance = _shares(cone, groups, y[:, None])
        found = tail(cone, coordinate, y[:, None], theta) + tail(cone, coordinate, y[:, None], 1 - theta)
        return np.asarray((chance * found).sum(axis=1) / chance.sum(axis=1))

    # Far from where θ is likely, tails are smooth in y; near there, as smooth as the density of θ.
    near = [c for c in (2 * far, 1 / 2 - far, 1 / 2 + far, 1 - 2 * far) if far < 1 / 12]
    return Pieces(both, sorted([0, 1 / 3, 1 / 2, 1, *near]), _fit)


def _spread(cone: Cone, groups: int) -> float:
    """Return how far θ is from 1/2 at most, but for a probability of about 1e-18."""
    if not any(cone.volume[1:]):
        return 0.5
    # V is at most its largest times exp(-((θ - 1/2) / h)^2).
    return min(0.5, 6.5 * float(np.sqrt(float(half_width_squared(cone.volume)) / groups)))


def _shares(cone: Cone, groups: int, y: Floats) -> tuple[Floats, Floats]:
    """Return θ >= 1/2 and their weights, for each y between the places where the pieces of tails meet."""
    half, far = 0.5, _spread(cone, groups)
    cuts = [half + far * c for c in (0, 1 / 3, 1)]
    knots = [np.maximum(y, 1 - y), (1 + y) / 2]
    ends = np.sort(np.clip(np.hstack([*knots, *(0 * y + c for c in cuts)]), half, half + far), axis=1)
    place, weight = rule(_theta_nodes)
    # Nearer to the lower end.
    place, weight = ((place + 1) / 2) ** 2, weight * (place + 1) / 2
    some = np.diff(ends, axis=1).any(axis=0)
    start, length = ends[:, :-1, None][:, some], np.diff(ends, axis=1)[:, some, None]
    theta = (start + length * place).reshape(len(y), -1)
    return theta, (length * weight).reshape(len(y), -1) * _density(cone, groups, theta)


def _density(cone: Cone, groups: int, theta: Floats) -> Floats:
    volume = [float(c / cone.volume[0]) for c in cone.volume]
    return np.asarray(np.polyval(volume[::-1], (theta - 0.5) ** 2) ** groups, np.float64)


@lru_cache(1 << 10)
def _joint_variances(cone: Cone, groups: int) -> list[float]:
    """Return the variance of each number at scale 1: given θ, the mean square is a polynomial."""
    coarse = np.linspace(0.5, 1.0, 257)
    likely = int(np.flatnonzero(_density(cone, groups, coarse) > 1e-18)[-1])
    last = float(coarse[min(likely + 1, 256)])
    place, weight = rule(40)
    theta = 0.5 + (last - 0.5) * (place + 1) / 2
    chance = weight * _density(cone, groups, theta)
    chance, shape = chance / chance.sum(), groups * cone.dimensions + 2
    return [shape * (shape + 1) * float((chance * own).sum()) for own in _mean_squares(cone, theta)]


@lru_cache(64)
def rule(nodes: int) -> tuple[Floats, Floats]:
    """Return places and weights of Gauss and Legendre's rule on [-1, 1]."""
    place, weight = np.polynomial.legendre.leggauss(nodes)
    return place, weight


@cache
def powers(cone: Cone) -> dict[tuple[int, int], Fraction]:
    """How a uniform vector of one group is spread over its sides (a, b), up to a factor.

    Returns:
        {(i, j): c}: a density c a^i b^j; -1 says that this side is 0.
    """
    m = cone.signed
    found = {(m, -1): Fraction(1), (-1, m): Fraction(1)}
    found |= {(i, m - 1 - i): Fraction(2 * m * math.comb(m - 1, i)) for i in range(m)}
    if not cone.units:
        return found
    # u - n adds any number to the one side, or to the other.
    raised: dict[tuple[int, int], Fraction] = {}
    for (i, j), c in found.items():
        for key, divisor in (((i + 1, j), i + 1), ((i, j + 1), j + 1)):
            raised[key] = raised.get(key, Fraction(0)) + c / max(divisor, 1)
    return raised


def _mean_squares(cone: Cone, theta: Floats) -> list[Floats]:
    """Return the mean square of each number over r², one for all signed ones, which have one law, given θ.

    The sides (a, b) of a group go up to θ and 1 - θ. The first number is a - b. The others follow from the
    sides of the group without its units, to which u - n adds any number p, on the one side or on the other.
    """
    m, units = cone.signed, cone.units

    def over_sides(
        cone: Cone, of: Callable[[int, int, Moments, Moments], Floats | float], room: bool = False
    ) -> Floats:
        kinds = ((_wider, _moments), (_moments, _wider)) if room else ((_moments, _moments),)
        terms = (
            float(c) * of(i, j, one(theta, i), other(1 - theta, j))
            for one, other in kinds
            for (i, j), c in powers(cone).items()
        )
        return np.asarray(sum(terms, np.zeros_like(theta)))

    def difference(i: int, j: int, a: Moments, b: Moments) -> Floats | float:
        return a(2) * b(0) - 2 * a(1) * b(1) + a(0) * b(2)

    def signed(i: int, j: int, a: Moments, b: Moments) -> Floats | float:
        # The largest number of all, n or a signed one, is a + b: below it the others are uniform.
        part = 1 / 3 if min(i, j) < 0 else (1 + (m - 1) / 3) / m
        return part * (a(2) * b(0) + 2 * a(1) * b(1) + a(0) * b(2))

    found = [over_sides(cone, difference)]
    if units:
        found.append(over_sides(Cone(m), difference, room=True))
    if m:
        found.append(over_sides(Cone(m), signed, room=units))
    volume = over_sides(cone, lambda i, j, a, b: a(0) * b(0))
    return [own / volume for own in found]


def _moments(end: Floats, i: int) -> Moments:
    """Integrate a^(i + more) over a side of power i, up to its end; -1 is for one that is 0."""
    return lambda more: end ** (i + more + 1) / (i + more + 1) if i >= 0 else float(more == 0)


def _wider(end: Floats, i: int) -> Moments:
    """Of such a side a, over all p with a + p up to its end: of a + p the power is higher by one."""
    if i < 0:
        return lambda more: end if more == 0 else 0.0
    return lambda more: end ** (i + more + 2) / ((i + more + 1) * (i + more + 2))


def joint(noise: JointNoise, coordinate: int) -> JointMarginal:
    """Return the law of a coordinate of joint noise."""
    return JointMarginal(noise.scales[coordinate], noise.cone, noise.groups, noise.cone.alike(coordinate))
