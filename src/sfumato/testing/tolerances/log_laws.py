"""The laws of noise in logarithms, for whole arrays: what the integrals of ratios are made of.

`sfumato.noise` gives single values that are correctly rounded; here are some twenty million of them
a second, with an error of about 2^-50 (1 + |log|) in the logarithm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact.normal import log_tail
from sfumato.noise import Gaussian, Laplace, Law

Floats = NDArray[np.float64]


class LogLaw(ABC):
    """A symmetric law at scale one; all values are natural logarithms."""

    @abstractmethod
    def density(self, x: Floats) -> Floats:
        """Return the logarithm of the density."""

    @abstractmethod
    def tail(self, x: Floats) -> Floats:
        """Return log P(Z > x)."""

    @abstractmethod
    def inside(self, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| < half), without cancellation however small half is."""

    @abstractmethod
    def reach(self, decades: float) -> float:
        """Return x with P(|Z| > x) <= 10^-decades."""


class LogLaplace(LogLaw):
    """Laplace's law."""

    def density(self, x: Floats) -> Floats:
        """Return -|x| - log 2."""
        return -np.abs(x) - math.log(2)

    def tail(self, x: Floats) -> Floats:
        """Return log P(Z > x)."""
        far = -np.abs(x) - math.log(2)
        return np.where(x >= 0, far, np.log1p(-np.exp(far)))

    def inside(self, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| < half)."""
        a = np.abs(centre)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Both ends on one side of 0: e^-a sinh(half).
            beside = -a + half + np.log(-np.expm1(-2 * half)) - math.log(2)
            around = np.log((-np.expm1(-(half - a)) - np.expm1(-(half + a))) / 2)
        return np.where(a >= half, beside, around)

    def reach(self, decades: float) -> float:
        """Return decades times ln 10."""
        return decades * math.log(10)


class LogGaussian(LogLaw):
    """Gauss's law."""

    def density(self, x: Floats) -> Floats:
        """Return -x^2/2 - log(2 pi)/2."""
        return -x * x / 2 - math.log(2 * math.pi) / 2

    def tail(self, x: Floats) -> Floats:
        """Return log P(Z > x)."""
        return log_tail(x)

    def inside(self, centre: Floats, half: Floats) -> Floats:
        """Return log P(|Z - centre| < half)."""
        a, half = np.broadcast_arrays(np.abs(centre), half)
        result = np.empty(a.shape)
        narrow = half * np.maximum(1, a) <= 2
        b, h = a[narrow], half[narrow]
        nodes, weights = np.polynomial.legendre.leggauss(20)
        total = np.zeros(b.shape)
        for x, w in zip(nodes.tolist(), weights.tolist(), strict=True):
            y = h * x
            total += w * np.exp(-y * (b + y / 2))
        with np.errstate(divide="ignore"):
            result[narrow] = self.density(b) + np.log(h * total)
        b, h = a[~narrow], half[~narrow]
        near, far = self.tail(np.abs(b - h)), self.tail(b + h)
        beside = near + np.log1p(-np.exp(np.minimum(far - near, -1e-9)))
        around = np.log1p(-np.minimum(np.exp(near) + np.exp(far), 1 - 1e-9))
        result[~narrow] = np.where(b >= h, beside, around)
        return result

    def reach(self, decades: float) -> float:
        """Return a bound by P(|Z| > x) <= e^(-x^2/2)."""
        return math.sqrt(2 * decades * math.log(10))


def log_law(law: Law) -> LogLaw:
    """Return the law's shape; its unit is the caller's to divide by."""
    if isinstance(law, Laplace):
        return LogLaplace()
    if isinstance(law, Gaussian):
        return LogGaussian()
    raise ParameterError("noise", law, "a Laplace or Gaussian law of sfumato.noise")
