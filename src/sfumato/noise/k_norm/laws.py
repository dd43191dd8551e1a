"""Laws of single numbers of K-norm noise, and of all groups at once: for error bars, thresholds and tests.

Noise of each group: |Z| is a mixture of Erlang laws, in closed form. Joint noise: given the split θ and
the size r, groups are independent, and the law of a number over r is piecewise a polynomial; over θ and r
it is integrated by Gauss and Legendre's rule between the places where the pieces meet.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction
from sfumato.exact.directed import exp_bounds, log2
from sfumato.exact.roots import crossing, first_whole_near
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.gammas import density, lowest, upper_tail
from sfumato.noise.k_norm.joint import JointNoise
from sfumato.noise.k_norm.pieces import Pieces
from sfumato.noise.k_norm.radii import half_width_squared
from sfumato.noise.k_norm.separate import SeparateNoise
from sfumato.noise.k_norm.sides import Group, rule
from sfumato.noise.k_norm.tails import tail
from sfumato.noise.values import Floats, Scalar, Values, each

_r_nodes = 80
_most_decades = 290.0  # beyond, floats do not hold probabilities
_theta_nodes = 24
_fit = 1e-12

Tail = Callable[[float], float]


@dataclass(frozen=True)
class Marginal(ABC):
    """A symmetric law of one number Z of K-norm noise, in grid steps; R is Z rounded to nearest."""

    scale: Fraction
    error: ClassVar[float] = 0.0  # of P, at most
    fineness: ClassVar[float] = 1e-10  # of tolerances, in deviations

    @abstractmethod
    def _outside(self, x: float) -> float:
        """Return P(|Z| > x scale), x >= 0."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of Z, in squared steps."""

    @abstractmethod
    def _size_tail(self, x: float) -> float:
        """Return a P(size > x) for a size that |Z| / scale never passes, right however small it is."""

    @property
    def unit(self) -> Fraction:
        """The scale."""
        return self.scale

    def tolerance(self, k: float) -> float:
        """Return a t with P(|Z| > t) <= 10^-k, the smallest but for the errors of quadrature.

        >>> round(separate(SeparateNoise(Cone(0), (Fraction(1),)), 0).tolerance(3), 6)
        6.907755
        """
        # The tail is log-concave and 1 at 0: so many times the decades are reached within as many times t.
        own = min(k, _most_decades)
        found = _tolerance(replace(self, scale=Fraction(1)), own) * (k / own)
        return found * float(self.scale) * (1 + 1e-14)

    def rounded_tolerance(self, k: float) -> int:
        """Return a whole t with P(|R| > t) <= 10^-k: R is beyond a whole t where Z is beyond t + 1/2.

        >>> separate(SeparateNoise(Cone(0), (Fraction(1),)), 0).rounded_tolerance(3)
        7
        """
        return max(0, math.ceil(self.tolerance(k) - 0.5))

    def complementary_tolerance(self, k: float) -> float:
        """Return a t with P(|Z| < t) <= 10^-k: how near to 0 noise must not lie, or it is missing.

        The density of a symmetric log-concave law is nowhere above 1 / (root of 2 times its deviation), which
        Laplace's law reaches.

        Source:
            Hensley 1980, "Slicing convex bodies: bounds for slice area in terms of the body's covariance".

        >>> round(separate(SeparateNoise(Cone(0), (Fraction(3),)), 0).complementary_tolerance(1), 9)
        0.3
        """
        return float(10.0**-k * self.standard_deviation / math.sqrt(2))

    def log10_outside(self, x: float) -> float:
        """Return log10 of a bound of P(|Z| > x), near it where that is above the errors of quadrature.

        >>> round(separate(SeparateNoise(Cone(0), (Fraction(1),)), 0).log10_outside(2302.585093))
        -1000
        """
        y, times = max(x, 0.0) / float(self.scale), 1.0
        while (found := self._at_most(y / times)) < 10.0**-_most_decades:
            times *= 2  # the tail is log-concave
        return times * math.log10(found)

    def _at_most(self, x: float) -> float:
        if self.error:
            found = self._size_tail(x)
            if found < 2 * self.error:
                return found
        return min(1.0, self._outside(x) + self.error)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of Z, in steps."""
        return float(np.sqrt(self.variance))

    def outside(self, x: Values | Scalar) -> float | Floats:
        """Return P(|Z| > x) for x >= 0, a number or an array, in steps.

        >>> separate(SeparateNoise(Cone(1), (Fraction(3), Fraction(3))), 0).outside(0)
        1.0
        """
        return each(lambda value: self._outside(float(Fraction(value) / self.scale)), x)

    def sf(self, x: Values | Scalar) -> float | Floats:
        """Return P(Z > x), for a number or an array, in steps."""

        def one(value: Scalar) -> float:
            half = self._outside(float(abs(Fraction(value)) / self.scale)) / 2
            return half if value >= 0 else 1 - half

        return each(one, x)

    def rounded_sf(self, m: Values | int) -> float | Floats:
        """Return P(R > m) = P(Z > m + 1/2), for a whole number or an array of them."""
        return self.sf(m + Fraction(1, 2) if isinstance(m, int) else np.asarray(m) + 0.5)

    def rounded_half_width(self, confidence: Number) -> int:
        """Return the smallest whole t with P(|R| <= t) >= confidence: an error bar of this level.

        Raises:
            ParameterError: confidence is not from 0 to less than 1.
        """
        return self._half_width(level(confidence), self._outside, self.error)

    def _half_width(self, confidence: float, tail: Tail, error: float) -> int:
        """Return the smallest whole t with tail(t + 1/2) small enough, the tail's error to spare."""
        allowed = 1 - confidence - error
        if allowed <= 0:
            raise ParameterError("confidence", confidence, f"at most 1 - {error:g} for this noise")
        start = float(np.sqrt(self.variance / self.scale**2))
        found = _reach(tail, allowed, start, self.fineness)

        def enough(t: int) -> bool:
            return tail(float((t + Fraction(1, 2)) / self.scale)) <= allowed

        return first_whole_near(enough, math.ceil(found * float(self.scale) - 0.5), least=0)


@dataclass(frozen=True)
class TogetherMarginal(Marginal):
    """A number of noise of which all groups are drawn together."""

    @property
    @abstractmethod
    def all_groups(self) -> int:
        """How many groups are drawn together."""

    @property
    def error_anywhere(self) -> float:
        """The absolute error of the largest number's tail, at most: floats are rounded for each group."""
        return max(self.error, self.all_groups * 1e-12)

    @abstractmethod
    def _outside_anywhere(self, x: float) -> float:
        """Return P(max over groups of |Z| > x scale), x > 0."""

    def outside_anywhere(self, x: Values | Scalar) -> float | Floats:
        """Return P(max over groups of |Z| > x) for x >= 0, in steps."""
        return each(lambda v: self._anywhere(float(Fraction(v) / self.scale)), x)

    def _anywhere(self, x: float) -> float:
        return 1.0 if x <= 0 else self._outside_anywhere(x)

    def simultaneous_half_width(self, confidence: Number) -> int:
        """Return the smallest whole t with P(|R| <= t in all groups) >= confidence.

        Raises:
            ParameterError: confidence is not from 0 to less than 1.
        """
        return self._half_width(level(confidence), self._anywhere, self.error_anywhere)


@lru_cache(1 << 12)
def _tolerance(law: Marginal, k: float) -> float:  # at scale 1, so once for all numbers of one law
    """Search; what is returned has been found to be far enough, with the law's error to spare."""
    allowed, tail = 10.0**-k, law._size_tail
    if allowed > 2 * law.error:
        allowed, tail = allowed - law.error, law._outside
    return _reach(tail, allowed, law.standard_deviation, law.fineness)


def _reach(tail: Tail, allowed: float, deviation: float, fineness: float) -> float:
    def height(x: float) -> float:
        found = 1.0 if x <= 0 else tail(x)
        return -1e9 if found <= 0 else float(np.log2(found / allowed))

    # Nearly normal laws are soon done, and none is far from one.
    start = deviation * (NormalDist().inv_cdf(1 - allowed / 2) if 1e-15 < allowed < 1 else 1.0)
    found = crossing(height, start, fineness * deviation, stride=deviation / 8, reach=1e9 * deviation)
    assert found is not None
    return max(found, 0.0)


def level(confidence: Number) -> float:
    """Return a level of confidence as a float."""
    exact = as_fraction(confidence, "confidence")
    if not 0 <= exact < 1:
        raise ParameterError("confidence", confidence, "from 0 to less than 1")
    return float(exact)


@dataclass(frozen=True)
class ErlangMixture(Marginal):
    """|Z| is scale times an Erlang number of shape j with probability weights[j - 1].

    Every term is positive, so that tails are right to 12 digits however small.

    >>> ErlangMixture(Fraction(1), (Fraction(1, 2), Fraction(1, 2))).outside(15.2) / 2
    1.0769...e-06
    """

    weights: tuple[Fraction, ...]

    def _outside(self, x: float) -> float:
        # P(Erlang(j) > x) is e^-x times the first j terms of e^x's series.
        left, term, total = 1.0, 1.0, 0.0
        for j, weight in enumerate(self.weights, 1):
            total += left * term
            left = max(left - float(weight), 0.0)
            term *= x / j
        return float(min(1.0, np.exp(-x) * total))

    def _size_tail(self, x: float) -> float:
        return self._outside(x)

    def tail_bounds(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """Enclose P(Z > x), x in steps."""
        if x < 0:
            low, high = self.tail_bounds(-x)
            return 1 - high, 1 - low
        y, left, term, total = x / self.scale, Fraction(1), Fraction(1), Fraction(0)
        for j, weight in enumerate(self.weights, 1):
            total += left * term
            left -= weight
            term *= y / j
        low, high = exp_bounds(-y, 128)
        return low * total / 2, high * total / 2

    def tail_quantile(self, probability: Fraction) -> float:
        """Return about the x with P(Z > x) = probability, for probabilities below 1/2."""
        return self.tolerance(-log2(2 * probability) / np.log2(10))

    @property
    def variance(self) -> float:
        """The variance of Z, in squared steps."""
        second = sum((w * j * (j + 1) for j, w in enumerate(self.weights, 1)), Fraction(0))
        return float(second * self.scale**2)


def separate(noise: SeparateNoise, coordinate: int) -> ErlangMixture:
    """Return the law of a coordinate of noise of each group.

    A number of a vector of M that has the density exp(-max) is its maximum, Erlang(M), or uniform below
    it: an equal mixture of Erlang(1) to Erlang(M). Units are that and a Laplace number: of Erlang(j) and
    it, in characteristic functions, (1 - it)^-j / (1 + t^2) is half (1 - it)^-(j + 1), and half a sum that
    halves again.
    """
    power = noise.cone.signed + 1
    mixture = [Fraction(1, power)] * power
    if noise.cone.units and coordinate == 0:
        with_units = [Fraction(0)] * (power + 1)
        for j, weight in enumerate(mixture, 1):
            with_units[j] += weight / 2
            for i in range(1, j + 1):
                with_units[i - 1] += weight / 2 / 2 ** (j - i + 1)
            with_units[0] += weight / 2 / 2**j
        mixture = with_units
    return ErlangMixture(noise.scales[coordinate], tuple(mixture))


@dataclass(frozen=True)
class JointMarginal(TogetherMarginal):
    """A number of joint noise; by quadrature, with an absolute error below 1e-10.

    That of the largest of all groups is below `error_anywhere`.

    Args:
        scale: of the coordinate, in grid steps.
        cone: the body of one group.
        groups: how many.
        coordinate: the units if there are any, then the count, then the signed numbers.

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

    # Far from where θ is likely, tails are smooth in y; near there, as smooth as the density of θ.
    near = [c for c in (2 * far, 1 / 2 - far, 1 / 2 + far, 1 - 2 * far) if far < 1 / 12]
    return Pieces(both, sorted([0, 1 / 3, 1 / 2, 1, *near]), max(_fit, groups * 1e-15 * anywhere))


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
    place, weight = rule(_theta_nodes * (2 if steep else 1))
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
    group, chance = Group(cone, 0.0, theta, 1 - theta), weight * _density(cone, groups, theta)
    shape = groups * cone.dimensions + 2
    return [shape * (shape + 1) * v for v in mean_squares(group, chance / chance.sum())]


def mean_squares(group: Group, chance: Floats) -> list[float]:
    """Return the mean squares of a group's numbers, one for all signed ones, which have one law."""
    kinds = range(1 + group.cone.units + min(group.cone.signed, 1))
    return [float((chance * group.square(i) / group.volume).sum()) for i in kinds]


def joint(noise: JointNoise, coordinate: int) -> JointMarginal:
    """Return the law of a coordinate of joint noise."""
    alike = min(coordinate, 1 + noise.cone.units)  # all signed numbers have one law
    return JointMarginal(noise.scales[coordinate], noise.cone, noise.groups, alike)
