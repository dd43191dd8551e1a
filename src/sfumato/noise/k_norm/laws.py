"""Laws of single numbers of K-norm noise: for error bars, thresholds and tests."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction
from sfumato.exact.roots import crossing, first_whole_near
from sfumato.noise.values import Floats, Scalar, Values, each

_most_decades = 290.0  # beyond, floats do not hold probabilities

Tail = Callable[[float], float]


@dataclass(frozen=True, repr=False)
class Marginal(Spelled, ABC):
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

        >>> from sfumato.noise.k_norm.separate_laws import ErlangMixture
        >>> round(ErlangMixture(Fraction(1), (Fraction(1),)).tolerance(3), 6)
        6.907755
        """
        if not k:
            return 0.0  # |Z| is beyond that with probability 1
        # The tail is log-concave and 1 at 0: so many times the decades are reached within as many times t.
        own = min(k, _most_decades)
        found = _tolerance(replace(self, scale=Fraction(1)), own) * (k / own)
        return found * float(self.scale) * (1 + 1e-14)

    def rounded_tolerance(self, k: float) -> int:
        """Return a whole t with P(|R| > t) <= 10^-k: R is beyond a whole t where Z is beyond t + 1/2.

        >>> from sfumato.noise.k_norm.separate_laws import ErlangMixture
        >>> ErlangMixture(Fraction(1), (Fraction(1),)).rounded_tolerance(3)
        7
        """
        return max(0, math.ceil(self.tolerance(k) - 0.5))

    def complementary_tolerance(self, k: float) -> float:
        """Return a t with P(|Z| < t) <= 10^-k: how near to 0 noise must not lie, or it is missing.

        The density of a symmetric log-concave law is nowhere above 1 / (root of 2 times its deviation), which
        Laplace's law reaches.

        Source:
            Hensley 1980, "Slicing convex bodies: bounds for slice area in terms of the body's covariance".

        >>> from sfumato.noise.k_norm.separate_laws import ErlangMixture
        >>> round(ErlangMixture(Fraction(3), (Fraction(1),)).complementary_tolerance(1), 9)
        0.3
        """
        return float(10.0**-k * self.standard_deviation / math.sqrt(2))

    def log10_outside(self, x: float) -> float:
        """Return log10 of a bound of P(|Z| > x), near it where that is above the errors of quadrature.

        >>> from sfumato.noise.k_norm.separate_laws import ErlangMixture
        >>> round(ErlangMixture(Fraction(1), (Fraction(1),)).log10_outside(2302.585093))
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

        >>> from sfumato.noise.k_norm.separate_laws import ErlangMixture
        >>> ErlangMixture(Fraction(3), (Fraction(1, 2), Fraction(1, 2))).outside(0)
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
