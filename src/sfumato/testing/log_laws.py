"""The laws of noise in logarithms, for whole arrays: what the integrals of ratios are made of.

`sfumato.noise` gives single values that are correctly rounded; here are some ten million of them
a second, with an error of about 2^-50 (1 + |log|) in the logarithm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact.directed import nearest
from sfumato.noise import Gaussian, Laplace, Law

Floats = NDArray[np.float64]
_degree = 34
_block = 1 << 12


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
        a = np.abs(x)
        t = 2 / (2 + a / math.sqrt(2))
        far = np.log(t) - a * a / 2 + _clenshaw(_scaled_erfc(), 2 * t - 1) - math.log(2)
        return np.where(x >= 0, far, np.log1p(-np.exp(far)))

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


def _clenshaw(coefficients: tuple[float, ...], x: Floats) -> Floats:
    """Sum a Chebyshev series, by blocks that stay in the processor's cache."""
    flat = np.ravel(x)
    result = np.empty(flat.shape)
    for start in range(0, len(flat), _block):
        y = flat[start : start + _block]
        twice, before, last = 2 * y, np.zeros(y.shape), np.zeros(y.shape)
        for c in coefficients[:0:-1]:
            np.subtract(c, before, out=before)
            before += twice * last
            before, last = last, before
        result[start : start + _block] = y * last - before + coefficients[0]
    return result.reshape(np.shape(x))


@cache
def _scaled_erfc() -> tuple[float, ...]:
    """Chebyshev coefficients in 2t - 1 of log(e^(x^2) erfc(x) / t), where t = 2 / (2 + x), x >= 0."""
    context = nearest(256)
    values: list[float] = []
    angles = (np.arange(_degree) + 0.5) * math.pi / _degree
    for node in np.cos(angles).tolist():
        t = (node + 1) / 2
        x = context.sub(context.div(2, t), 2)
        if x > 1e4:  # the asymptotic series, of which MPFR's erfc would underflow
            y: Any = context.div(1, context.mul(2, context.mul(x, x)))
            series = context.sub(1, context.mul(y, context.sub(1, context.mul(3, y))))
            scaled = context.log(context.div(series, context.mul(x, context.sqrt(context.const_pi()))))
        else:
            scaled = context.add(context.mul(x, x), context.log(context.erfc(x)))
        values.append(float(context.sub(scaled, context.log(t))))
    terms = np.cos(np.outer(np.arange(_degree), angles)) @ np.array(values) * 2 / _degree
    terms[0] /= 2
    return tuple(terms.tolist())
