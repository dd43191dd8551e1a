"""Laws of single numbers of joint noise, and of all groups at once.

Given the split θ and the size r, groups are independent, and the law of a number over r is piecewise a
polynomial; over θ and r it is integrated by Gauss and Legendre's rule between the places where the pieces
meet.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.gammas import density, lowest, upper_tail
from sfumato.noise.k_norm.joint import JointNoise
from sfumato.noise.k_norm.laws import TogetherMarginal
from sfumato.noise.k_norm.parabola import Parabola
from sfumato.noise.k_norm.parabola_tails import squares
from sfumato.noise.k_norm.pieces import Pieces
from sfumato.noise.k_norm.radii import half_width_squared
from sfumato.noise.k_norm.sides import Group, rule
from sfumato.noise.k_norm.tails import tail
from sfumato.noise.values import Floats

_r_nodes = 80
_theta_nodes = 24
_fit = 1e-12
# Where each tail is an integral itself, right to about 1e-11.
_theta_nodes_of_integrals = 16
_fit_of_integrals = 1e-11


@dataclass(frozen=True, repr=False)
class JointMarginal(TogetherMarginal):
    """A number of joint noise; by quadrature, with an absolute error below 1e-10.

    That of the largest of all groups is below `error_anywhere`.

    Args:
        scale: of the coordinate, in grid steps.
        cone: the body of one group.
        groups: how many.
        coordinate: the units if there are any, then the count, then the signed numbers.

    >>> from fractions import Fraction
    >>> law = joint(JointNoise(Cone(1), (Fraction(1), Fraction(1)), groups=12), 0)
    >>> round(law.standard_deviation, 2), law.rounded_half_width("0.95"), law.simultaneous_half_width("0.95")
    (9.08, 17, 22)
    """

    cone: Cone
    groups: int
    coordinate: int
    error: ClassVar[float] = 1e-10
    fineness: ClassVar[float] = 1e-8

    @property
    def all_groups(self) -> int:
        """How many."""
        return self.groups

    def _outside(self, x: float) -> float:
        return 1.0 if x == 0 else min(1.0, self._mean(x, _of_share(self.cone, self.groups, self.coordinate)))

    def _size_tail(self, x: float) -> float:
        # A number is never larger than the norm, which has this law.
        return upper_tail(self.groups * self.cone.dimensions, x)

    def _outside_anywhere(self, x: float) -> float:
        return self._mean(x, _of_share(self.cone, self.groups, self.coordinate, anywhere=True))

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
def _of_share(cone: Cone, groups: int, coordinate: int, anywhere: bool = False) -> Pieces:
    """Return P(|number| > y r), of one group or of any of them, as a function of y."""

    far = _spread(cone, groups)

    def both(y: Floats) -> Floats:
        theta, chance = _shares(cone, groups, y[:, None], steep=anywhere)
        found = tail(cone, coordinate, y[:, None], theta) + tail(cone, coordinate, y[:, None], 1 - theta)
        if anywhere:
            found = -np.expm1(groups * np.log1p(-np.minimum(found, 1 - 1e-16)))
        return np.asarray((chance * found).sum(axis=1) / chance.sum(axis=1))

    fit = _fit_of_integrals if _by_integrals(cone) else _fit
    # Far from where θ is likely, tails are smooth in y; near there, as smooth as the density of θ.
    near = [c for c in (2 * far, 1 / 2 - far, 1 / 2 + far, 1 - 2 * far) if far < 1 / 12]
    return Pieces(both, sorted([0, 1 / 3, 1 / 2, 1, *near]), max(fit, groups * 1e-15 * anywhere))


def _by_integrals(cone: Cone) -> bool:
    return isinstance(cone, Parabola) and cone.units


def _spread(cone: Cone, groups: int) -> float:
    """Return how far θ is from 1/2 at most, but for a probability of about 1e-18."""
    if not any(cone.volume[1:]):
        return 0.5
    # V is at most its largest times exp(-((θ - 1/2) / h)^2).
    return min(0.5, 6.5 * float(np.sqrt(float(half_width_squared(cone.volume)) / groups)))


def _shares(cone: Cone, groups: int, y: Floats, *, steep: bool) -> tuple[Floats, Floats]:
    """Return θ >= 1/2 and their weights, for each y between the places where the pieces of tails meet."""
    half, far = 0.5, _spread(cone, groups)
    cuts = [half + far * c for c in (0, 1 / 3, 1)]
    knots = [np.maximum(y, 1 - y), (1 + y) / 2]
    ends = np.sort(np.clip(np.hstack([*knots, *(0 * y + c for c in cuts)]), half, half + far), axis=1)
    nodes = _theta_nodes_of_integrals if _by_integrals(cone) else _theta_nodes
    place, weight = rule(nodes * (2 if steep else 1))
    # Nearer to the lower end, from which on the largest of many groups changes fast.
    power = 4 if steep else 2
    place, weight = ((place + 1) / 2) ** power, weight * ((place + 1) / 2) ** (power - 1)
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
    if isinstance(cone, Parabola):
        found = [float((chance * own).sum()) for own in squares(cone, theta)]
    else:
        found = Group(cone, 0.0, theta, 1 - theta).mean_squares(chance)
    return [shape * (shape + 1) * v for v in found]


def joint(noise: JointNoise, coordinate: int) -> JointMarginal:
    """Return the law of a coordinate of joint noise."""
    return JointMarginal(noise.scales[coordinate], noise.cone, noise.groups, noise.cone.alike(coordinate))
