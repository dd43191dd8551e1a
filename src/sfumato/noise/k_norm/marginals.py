"""Marginals: laws of single coordinates of K-norm noise, and of their sums, for error bars and thresholds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction
from sfumato.exact.outward_rounding import exp_bounds, log2
from sfumato.exact.root_finding import crossing, find_first_integer, first_whole
from sfumato.noise.k_norm.cone_noise import SeparateNoise
from sfumato.noise.law_tails import Floats, Scalar, Values, each

_max_decades = 290.0  # beyond, floats do not hold probabilities

Tail = Callable[[float], float]


@dataclass(frozen=True, repr=False)
class Marginal(Spelled, ABC):
    """A marginal of K-norm noise: symmetric law of one coordinate Z, in grid steps; R is Z rounded."""

    scale: Fraction
    error: ClassVar[float] = 0.0  # of P, at most
    fineness: ClassVar[float] = 1e-10  # of tolerances, in deviations
    shift: ClassVar[float] = 0.0  # before Z is rounded
    discrete: ClassVar[bool] = False

    @abstractmethod
    def _two_sided_tail(self, x: float) -> float:
        """Return the marginal's P(|Z| > x scale), x >= 0."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the marginal, in squared steps."""

    @abstractmethod
    def _size_tail(self, x: float) -> float:
        """Return P(size > x), however small, of a size that |Z| / scale never exceeds."""

    @property
    def unit(self) -> Fraction:
        """The scale of the marginal."""
        return self.scale

    def tolerance(self, k: float) -> float:
        """Return t with P(|Z| > t) <= 10^-k of the marginal, smallest but for errors of quadrature.

        >>> from sfumato.noise.k_norm.marginals import ErlangMixture
        >>> round(ErlangMixture(Fraction(1), (Fraction(1),)).tolerance(3), 6)
        6.907755
        """
        if not k:
            return 0.0  # |Z| is beyond that with probability 1
        # The tail is log-concave and 1 at 0: so many times the decades are reached within as many times t.
        own = min(k, _max_decades)
        found = _tolerance(replace(self, scale=Fraction(1)), own) * (k / own)
        return found * float(self.scale) * (1 + 1e-14)

    def rounded_tolerance(self, k: float) -> int:
        """Return a whole t with P(|R| > t) <= 10^-k of the rounded marginal.

        >>> from sfumato.noise.k_norm.marginals import ErlangMixture
        >>> ErlangMixture(Fraction(1), (Fraction(1),)).rounded_tolerance(3)
        7
        """
        return max(0, math.ceil(self.tolerance(k) - 0.5))

    def complementary_tolerance(self, k: float) -> float:
        """Return t with P(|Z| < t) <= 10^-k: how near to 0 K-norm noise must not lie.

        The density of a symmetric log-concave law is nowhere above 1 / (root of 2 times its deviation), which
        Laplace's law reaches.

        Source:
            Hensley 1980, "Slicing convex bodies: bounds for slice area in terms of the body's covariance".

        >>> from sfumato.noise.k_norm.marginals import ErlangMixture
        >>> round(ErlangMixture(Fraction(3), (Fraction(1),)).complementary_tolerance(1), 9)
        0.3
        """
        return float(10.0**-k * self.standard_deviation / math.sqrt(2))

    def log10_outside(self, x: float) -> float:
        """Return log10 of a bound of the marginal's P(|Z| > x), near it above the errors of quadrature.

        >>> from sfumato.noise.k_norm.marginals import ErlangMixture
        >>> round(ErlangMixture(Fraction(1), (Fraction(1),)).log10_outside(2302.585093))
        -1000
        """
        y, times = max(x, 0.0) / float(self.scale), 1.0
        while (found := self._lower_tail(y / times)) < 10.0**-_max_decades:
            times *= 2  # the tail is log-concave
        return times * math.log10(found)

    def _lower_tail(self, x: float) -> float:
        if self.error:
            found = self._size_tail(x)
            if found < 2 * self.error:
                return found
        return min(1.0, self._two_sided_tail(x) + self.error)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of the marginal, in steps."""
        return float(np.sqrt(self.variance))

    def outside(self, x: Values | Scalar) -> float | Floats:
        """Return the marginal's P(|Z| > x) for x >= 0, a number or an array, in steps.

        >>> from sfumato.noise.k_norm.marginals import ErlangMixture
        >>> ErlangMixture(Fraction(3), (Fraction(1, 2), Fraction(1, 2))).outside(0)
        1.0
        """
        return each(lambda value: self._two_sided_tail(float(Fraction(value) / self.scale)), x)

    def sf(self, x: Values | Scalar) -> float | Floats:
        """Return the marginal's P(Z > x), for a number or an array, in steps."""

        def one(value: Scalar) -> float:
            half = self._two_sided_tail(float(abs(Fraction(value)) / self.scale)) / 2
            return half if value >= 0 else 1 - half

        return each(one, x)

    def rounded_sf(self, m: Values | int) -> float | Floats:
        """Return P(R > m) = P(Z > m + 1/2) of the rounded marginal, for whole numbers."""
        return self.sf(m + Fraction(1, 2) if isinstance(m, int) else np.asarray(m) + 0.5)

    def rounded_half_width(self, confidence: Number) -> int:
        """Return the smallest whole t with P(|R| <= t) >= confidence: a marginal's error bar.

        Raises:
            ParameterError: confidence is not from 0 to less than 1.
        """
        return self._half_width(level(confidence), self._two_sided_tail, self.error)

    def _half_width(self, confidence: float, tail: Tail, error: float) -> int:
        """Return the smallest whole t whose marginal tail at t + 1/2, and its error, is small enough."""
        allowed = 1 - confidence - error
        if allowed <= 0:
            raise ParameterError("confidence", confidence, f"at most 1 - {error:g} for this noise")
        start = float(np.sqrt(self.variance / self.scale**2))
        found = _reach(tail, allowed, start, self.fineness)

        def enough(t: int) -> bool:
            return tail(float((t + Fraction(1, 2)) / self.scale)) <= allowed

        return find_first_integer(enough, math.ceil(found * float(self.scale) - 0.5), least=0)


@lru_cache(1 << 12)
def _tolerance(law: Marginal, k: float) -> float:  # at scale 1, so once for all numbers of one law
    """Search for a marginal's tolerance; the result is far enough, with the law's error to spare."""
    allowed, tail = 10.0**-k, law._size_tail
    if allowed > 2 * law.error:
        allowed, tail = allowed - law.error, law._two_sided_tail
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
    """Take the level of confidence of a marginal's error bar as a float."""
    exact = as_fraction(confidence, "confidence")
    if not 0 <= exact < 1:
        raise ParameterError("confidence", confidence, "from 0 to less than 1")
    return float(exact)


@dataclass(frozen=True, repr=False)
class ErlangMixture(Marginal):
    """The marginal of separate noise: |Z| is scale times Erlang of shape j with weights[j - 1].

    Every term is positive, so that tails are right to 12 digits however small.

    >>> ErlangMixture(Fraction(1), (Fraction(1, 2), Fraction(1, 2))).outside(15.2) / 2
    1.0769...e-06
    """

    weights: tuple[Fraction, ...]

    def _two_sided_tail(self, x: float) -> float:
        # P(Erlang(j) > x) is e^-x times the first j terms of e^x's series.
        left, term, total = 1.0, 1.0, 0.0
        for j, weight in enumerate(self.weights, 1):
            total += left * term
            left = max(left - float(weight), 0.0)
            term *= x / j
        return float(min(1.0, np.exp(-x) * total))

    def _size_tail(self, x: float) -> float:
        return self._two_sided_tail(x)

    def tail_bounds(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """Enclose P(Z > x) of the marginal, an Erlang mixture, x in steps."""
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
        """Return about the x with P(Z > x) = probability, below 1/2, of the Erlang marginal."""
        return self.tolerance(-log2(2 * probability) / np.log2(10))

    @property
    def variance(self) -> float:
        """The variance of the marginal, an Erlang mixture, in squared steps."""
        second = sum((w * j * (j + 1) for j, w in enumerate(self.weights, 1)), Fraction(0))
        return float(second * self.scale**2)


def separate(noise: SeparateNoise, coordinate: int) -> ErlangMixture:
    """Return the marginal of a coordinate of separate K-norm noise.

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


@dataclass(frozen=True, eq=False)
class DependentSum:
    """The sum of weight * R over coordinates R of one K-norm noise, each rounded to whole steps.

    Their density is symmetric and log-concave. For such a law the t with P(|w Z| > t) = failure is a norm of
    the weights w: at most the sum of |w| times that of each number by itself, at the same failure.

    Args:
        terms: (weight, law in steps) of each noise: weights in units per step, any sign, floats or float64
            arrays of one shape for many sums at once.

    Source:
        Meyer and Reisner 1991, "A geometric property of the boundary of symmetric convex bodies and
        convexity of flotation surfaces"; for densities: Bobkov 2010, "Convex bodies and norms associated to
        convex measures".

    >>> from fractions import Fraction
    >>> from sfumato.noise.k_norm import Cone, SeparateNoise
    >>> from sfumato.noise.k_norm.joint_marginals import marginals
    >>> n, s = marginals(SeparateNoise(Cone(1), (Fraction(1), Fraction(30))))
    >>> DependentSum([(1.0, n)]).tolerance(5), round(DependentSum([(1.0, s), (2.0, n)]).tolerance(5), 1)
    (14.0, 435.6)
    """

    terms: Sequence[tuple[Any, Marginal]]

    def tolerance(self, k: float) -> Any:
        """Return t with P(|sum of K-norm coordinates| > t) <= 10^-k, in the weights' shape.

        Args:
            k: greater than 0.
        """
        if len(self.terms) == 1:
            ((weight, law),) = self.terms
            found = np.abs(weight) * float(law.rounded_tolerance(k))
        else:
            found = sum(np.abs(w) * (law.tolerance(k) + 0.5) for w, law in self.terms) * (1 + 1e-12)
        return found if np.ndim(found) else float(found)

    def log10_tail(self, t: float) -> float:
        """Return log10 of a bound of P(|sum of dependent coordinates| >= t), for float weights."""
        if len(self.terms) == 1:
            ((weight, law),) = self.terms
            return law.log10_outside(math.ceil(t / abs(weight) * (1 - 1e-12)) - 0.5)

        # Beyond t is what is beyond the tolerance of any k for which that is smaller.
        return (1 - first_whole(lambda quarters: bool(self.tolerance(quarters / 4) >= t), 0, 4_000)) / 4
