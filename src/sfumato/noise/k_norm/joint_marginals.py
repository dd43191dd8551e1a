"""Joint marginals: laws of single coordinates of joint K-norm noise, by quadrature.

Given the split θ and the size r, groups are independent, and the law of a number over r is piecewise a
polynomial; over θ and r it is integrated by Gauss and Legendre's rule between the places where the pieces
meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.cone_noise import JointNoise, SeparateNoise
from sfumato.noise.k_norm.cones import Cone
from sfumato.noise.k_norm.marginals import Marginal, separate
from sfumato.noise.k_norm.sampling import density, half_width_squared, lowest, upper_tail
from sfumato.noise.law_tails import Floats


def marginals(noise: JointNoise | SeparateNoise) -> Sequence[Marginal]:
    """Return the joint marginal of each coordinate.

    >>> from fractions import Fraction
    >>> from sfumato.noise.k_norm import Cone
    >>> [round(law.variance, 6) for law in marginals(SeparateNoise(Cone(1), (Fraction(1), Fraction(3))))]
    [4.0, 36.0]
    """
    indices = range(noise.cone.dimensions)
    if isinstance(noise, SeparateNoise):
        return [separate(noise, i) for i in indices]
    return [joint(noise, i) for i in indices]


def tail(cone: Cone, coordinate: int, y: Floats, theta: Floats) -> Floats:
    """Return the tail P(coordinate > y), y >= 0, of a joint marginal, given θ.

    Args:
        cone: the body of one group.
        coordinate: the units if there are any, then the count, then the signed numbers.
        y, theta: of shapes that fit each other.
    """
    at = coordinate - cone.units
    if at < 0:
        volume = _units
    elif at == 0:
        volume = _count_with_units if cone.units else _count
    else:
        volume = _signed_with_units if cone.units else _signed
    zero = 0 * theta
    whole = volume(cone.signed, zero, theta) + volume(cone.signed, zero, 1 - theta)
    return np.asarray(volume(cone.signed, y, theta) / whole, np.float64)


def _count(m: int, y: Floats, theta: Floats) -> Floats:
    """Tail of a count's joint marginal: density v^m, where v is 2μ + n up to n = λ - μ, then 2λ - n."""
    power, tau = m + 1, 1 - theta
    right = np.maximum(2 * theta - np.maximum(y, theta - tau), theta) ** power - theta**power
    left = 1 - (2 * tau + np.minimum(y, theta - tau)) ** power
    return np.asarray(right + np.where(y < theta - tau, left, 0.0))


def _signed(m: int, y: Floats, theta: Floats) -> Floats:
    """Tail of a signed coordinate's joint marginal: uniform in [-v, v], v^M uniform from μ^M or λ^M to 1."""
    power = m + 1

    def above(low: Floats) -> Floats:
        start = np.maximum(low, y)
        return np.asarray((1 - start**power) / power - y * (1 - start**m) / m)

    return np.asarray(above(theta) + above(1 - theta))


def _units(m: int, y: Floats, theta: Floats) -> Floats:
    """Tail of the units' joint marginal: u has λ'C - μ'C of the others, λ' = min(λ, μ + u)."""
    power, more, tau = m + 1, m + 2, 1 - theta
    middle = theta - tau

    def right(y: Floats) -> Floats:
        rest = np.maximum(theta - y, 0.0)
        grown = 2 * ((theta + rest) ** more - theta**more) - rest**more
        return np.asarray(grown / more - theta**power * rest)

    start = np.minimum(y, middle)
    left = (2 * (1 - (2 * tau + start) ** more) - theta**more + (tau + start) ** more) / more
    left = left - tau**power * (middle - start)
    return np.asarray(right(np.maximum(y, middle)) + np.where(y < middle, left, 0.0))


def _count_with_units(m: int, y: Floats, theta: Floats) -> Floats:
    """Tail of a count's joint marginal below units, of density v^m - v^M m/M - |n|^M / M."""
    power, more, tau = m + 1, m + 2, 1 - theta
    middle = np.maximum(theta - tau, 0.0)

    def integral(low: Floats, high: Floats, from_: Floats, to: Floats) -> Floats:
        """Integrate the joint marginal's density between two n, whose v are `low` and `high`."""
        grown = (high**power - low**power - m * (high**more - low**more) / more) / power
        return np.asarray(grown - (to**more - from_**more) / (power * more))

    start = np.clip(y, middle, theta)
    right = integral(theta, 2 * theta - start, start, theta)
    start = np.minimum(y, middle)
    left = integral(2 * tau + start, 2 * tau + middle, start, middle)
    return np.asarray(right + np.where(y < middle, left, 0.0))


def _signed_with_units(m: int, y: Floats, theta: Floats) -> Floats:
    """Tail of a signed coordinate's joint marginal below units: t has density t^(m-1) times the room.

    This number is that one with probability 1/m, of either sign, or else uniform in [-t, t].
    """
    place, weight = np.polynomial.legendre.leggauss(m // 2 + 2)

    def room(t: Floats, end: Floats) -> Floats:
        near = t * (1 - t) + (end - t) - (end**2 - t**2) / 2
        return np.where(t <= end, near, (2 * end - t) * (1 - t))

    def between(low: Floats, high: Floats, end: Floats) -> Floats:
        found, half = 0 * (low + high), (high - low) / 2
        for x, w in zip(place.tolist(), weight.tolist(), strict=True):
            t = low + half * (1 + x)
            chance = t ** (m - 1)
            if m > 1:
                chance = chance + (m - 1) * (t - y) * t ** (m - 2)
            found = found + w * half * chance * room(t, end)
        return np.asarray(found)

    total = 0 * (y + theta)
    for end in (theta, 1 - theta):
        middle = np.maximum(y, end)
        total = total + between(y + 0 * theta, middle, end) + between(middle, 1 + 0 * middle, end)
    return total


_nodes = 24
_halvings = 40
_max_value = 64  # parts that are halved at once


class Pieces:
    """A function of a joint marginal between its ends, fitted piece by piece when first needed.

    A piece is halved until the last coefficients of each part are at most an error.

    Args:
        function: of arrays; smooth but at the ends, where it may change fast.
        ends: of the pieces, ascending.
        error: absolute.

    >>> root = Pieces(np.sqrt, [0, 1], 1e-12)
    >>> float(root(np.array([0.49])).round(12)[0])
    0.7
    """

    def __init__(self, function: Callable[[Floats], Floats], ends: Sequence[float], error: float) -> None:
        self._function, self._ends, self._error = function, np.array(ends, np.float64), error
        self._fit = cache(self._fit_piece)

    def __call__(self, x: Floats) -> Floats:
        """Return the fitted function of a joint marginal at numbers between its ends."""
        from numpy.polynomial.chebyshev import chebval

        found, piece = np.empty_like(x), _place(self._ends, x)
        for i in set(piece.ravel().tolist()):
            own = piece == i
            ends, coefficients = self._fit(i)
            part = _place(ends, x[own])
            low, high = ends[part], ends[part + 1]
            found[own] = chebval(
                (2 * x[own] - low - high) / (high - low), coefficients[:, part], tensor=False
            )
        return found

    def _fit_piece(self, piece: int) -> tuple[Floats, Floats]:
        """Return the ends and Chebyshev coefficients (order, parts) of a fitted piece of a joint marginal."""
        points, transform = _chebyshev()
        low, high = self._ends[piece : piece + 1], self._ends[piece + 1 : piece + 2]
        found: list[tuple[float, float, Floats]] = []
        for attempt in range(_halvings):
            places = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * points
            coefficients = self._function(places.ravel()).reshape(places.shape) @ transform
            coarse = np.abs(coefficients[:, -3:]).max(axis=1) > self._error
            if attempt == _halvings - 1 or len(low) > _max_value:
                coarse[:] = False  # what is left are rounding errors
            found += zip(low[~coarse], high[~coarse], coefficients[~coarse], strict=True)
            low, high = low[coarse], high[coarse]
            if not low.size:
                break
            middle = (low + high) / 2
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        found.sort(key=lambda part: part[0])
        ends = np.array([*(part[0] for part in found), self._ends[piece + 1]])
        return ends, np.array([part[2] for part in found]).T


def _place(ends: Floats, x: Floats) -> NDArray[np.intp]:
    return np.clip(np.searchsorted(ends, x, side="right") - 1, 0, len(ends) - 2)


@cache
def _chebyshev() -> tuple[Floats, Floats]:
    """Return Chebyshev's points for joint marginals, and the matrix from values there to coefficients."""
    angle = (np.arange(_nodes) + 0.5) * np.pi / _nodes
    transform = np.cos(np.outer(angle, np.arange(_nodes))) * 2 / _nodes
    transform[:, 0] /= 2
    return np.cos(angle), transform


_r_nodes = 80
_theta_nodes = 24
_fit = 1e-12


@dataclass(frozen=True, repr=False)
class JointMarginal(Marginal):
    """The joint marginal: law of one coordinate of joint noise, with an absolute error below 1e-10.

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

    def _two_sided_tail(self, x: float) -> float:
        return (
            1.0 if x == 0 else min(1.0, self._mean(x, _share_tail(self.cone, self.groups, self.coordinate)))
        )

    def _size_tail(self, x: float) -> float:
        # A number is never larger than the norm, which has this law.
        return upper_tail(self.groups * self.cone.dimensions, x)

    @property
    def variance(self) -> float:
        """The variance of the joint marginal, in squared steps."""
        return float(joint_covariances(self.cone, self.groups)[0].diagonal()[self.coordinate] * self.scale**2)

    def _mean(self, x: float, of_share: Pieces) -> float:
        """Average over the radius of joint noise a function of x/r that is 0 where r < x."""
        shape = self.groups * self.cone.dimensions + 2
        low, high = lowest(shape), shape + 20 * math.sqrt(shape) + 60
        ends = sorted({min(max(e, low, x), high) for e in (low, 2 * x, 3 * x, high)})
        place, weight = rule(_r_nodes)
        start, length = np.array(ends[:-1])[:, None], np.diff(ends)[:, None]
        r = start + length * (place + 1) / 2
        chance = weight * length / 2 * density(shape, r)
        return float((chance * of_share(np.minimum(x / r, 1.0))).sum())


@lru_cache(1 << 8)
def _share_tail(cone: Cone, groups: int, coordinate: int) -> Pieces:
    """Return P(|coordinate| > y r) of one group's joint marginal, as a function of y."""

    far = split_spread(cone, groups)

    def both(y: Floats) -> Floats:
        theta, chance = _shares(cone, groups, y[:, None])
        found = tail(cone, coordinate, y[:, None], theta) + tail(cone, coordinate, y[:, None], 1 - theta)
        return np.asarray((chance * found).sum(axis=1) / chance.sum(axis=1))

    # Far from where θ is likely, tails are smooth in y; near there, as smooth as the density of θ.
    near = [c for c in (2 * far, 1 / 2 - far, 1 / 2 + far, 1 - 2 * far) if far < 1 / 12]
    return Pieces(both, sorted([0, 1 / 3, 1 / 2, 1, *near]), _fit)


def split_spread(cone: Cone, groups: int) -> float:
    """Return how far θ of joint noise is from 1/2, but for a probability of about 1e-18."""
    if not any(cone.volume[1:]):
        return 0.5
    # V is at most its largest times exp(-((θ - 1/2) / h)^2).
    return min(0.5, 6.5 * float(np.sqrt(float(half_width_squared(cone.volume)) / groups)))


def _shares(cone: Cone, groups: int, y: Floats) -> tuple[Floats, Floats]:
    """Return quadrature nodes θ >= 1/2 of joint noise and weights, for each y between tails' pieces."""
    half, far = 0.5, split_spread(cone, groups)
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


@lru_cache(64)
def rule(nodes: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of the Gauss-Legendre rule on [-1, 1], for joint marginals."""
    place, weight = np.polynomial.legendre.leggauss(nodes)
    return place, weight


# Joint noise of radius 1: with t the largest of the count and the signed numbers, and n the count, it is in
# λC - μC, λ = θ and μ = 1 - θ, where (t + n) / 2 <= λ and (t - n) / 2 <= μ. Either t = |n|, and the signed
# numbers are uniform in [-t, t], or one of them is t or -t. Units are (n + λ - μ) / 2 and a number that is
# uniform in [-(1 - t) / 2, (1 - t) / 2].


@dataclass(frozen=True, eq=False)
class Slices:
    """Quadrature nodes of t, the middle and half-width of the n that go with it, and their chances, by θ."""

    t: Floats
    middle: Floats
    half: Floats
    chance: Floats
    inner: Floats

    @classmethod
    def of(cls, cone: Cone, theta: Floats, nodes: int) -> Slices:
        """Return the slices of a group's joint noise, of shape (θ, nodes)."""
        place, weight = rule(nodes)
        place, weight, m = (place + 1) / 2, weight / 2, cone.signed
        left, right = theta[:, None], 1 - theta[:, None]
        none = 0 * left
        found = []
        for end, sign in ((left, 1), (right, -1)):
            t = end * place
            found.append((t, sign * t, 0 * t, end * weight * t**m, np.zeros(t.shape)))
        for low, high in ((none, right), (right, left), (left, 1 + none)) if m else ():
            t = low + (high - low) * place
            first, last = np.maximum(-t, t - 2 * right), np.minimum(t, 2 * left - t)
            chance = (high - low) * weight * m * t ** (m - 1) * (last - first)
            found.append((t, (first + last) / 2, (last - first) / 2, chance, np.ones(t.shape)))
        t, middle, half, chance, inner = map(np.hstack, zip(*found, strict=True))
        chance = chance * (1 - t) if cone.units else chance
        return cls(t, middle, half, chance / chance.sum(axis=1, keepdims=True), inner)


def splits(cone: Cone, groups: int, nodes: int) -> tuple[Floats, Floats]:
    """Return nodes θ >= 1/2 of joint noise and their chances."""
    place, weight = rule(nodes)
    theta = 0.5 + split_spread(cone, groups) * (place + 1) / 2
    chance = weight * _density(cone, groups, theta)
    return theta, chance / chance.sum()


@lru_cache(1 << 8)
def joint_covariances(cone: Cone, groups: int) -> tuple[Floats, Floats]:
    """Return the covariances of the coordinates of one group of joint noise, and of two groups."""
    theta, chances = splits(cone, groups, 24)
    slices, count, m = Slices.of(cone, theta, 12 + cone.signed), int(cone.units), cone.signed
    n, squared, off = slices.middle, slices.middle**2 + slices.half**2 / 3, (2 * theta - 1)[:, None]

    def mean(x: Floats) -> Floats:
        return np.asarray((slices.chance * x).sum(axis=1))

    own, means = np.zeros((cone.dimensions,) * 2), np.zeros((cone.dimensions, len(theta)))
    means[count], own[count, count] = mean(n), chances @ mean(squared)
    if cone.units:
        means[0] = mean((n + off) / 2)
        own[0, 0] = chances @ mean((squared + 2 * off * n + off**2) / 4 + (1 - slices.t) ** 2 / 12)
        own[0, 1] = own[1, 0] = chances @ mean((squared + off * n) / 2)
    for i in range(1 + count, cone.dimensions):
        share = np.where(slices.inner > 0, (1 + (m - 1) / 3) / m, 1 / 3)
        own[i, i] = chances @ mean(share * slices.t**2)
    shape = groups * cone.dimensions + 2
    return own * shape * (shape + 1), (means * chances) @ means.T * shape * (shape + 1)


def joint(noise: JointNoise, coordinate: int) -> JointMarginal:
    """Return the joint marginal of a coordinate of joint noise."""
    return JointMarginal(noise.scales[coordinate], noise.cone, noise.groups, noise.cone.alike(coordinate))
