"""Noise that is rounded to whole steps: its variance, and its exponent, which bounds what sums of it do."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.law import Gaussian, Laplace, Law
from sfumato.noise.values import Floats

FINE = 2.0  # standard deviations from here on, rounding is a uniform error beside Gaussian noise
NEAR = 10  # steps that hold a Gaussian below FINE, tilted by at most a few units


@dataclass(frozen=True)
class RoundedNoise:
    """Noise R on a count: a law's real number, rounded to a whole one, times a step; None for no noise.

    >>> from sfumato.noise import Laplace
    >>> round(RoundedNoise(Laplace(10)).variance, 3), RoundedNoise(None).variance
    (200.083, 0.0)
    """

    law: Law | None
    step: float = 1.0

    @cached_property
    def variance(self) -> float:
        """E R^2: about the law's variance and 1/12, which rounding adds."""
        if self.law is None:
            return 0.0
        if isinstance(self.law, Laplace):
            # P(R = m) = sinh(1/2b) e^(-|m|/b) for m != 0.
            rest = 1 / float(self.law.scale)
            whole = math.exp(-rest / 2) * (1 + math.exp(-rest)) / math.expm1(-rest) ** 2
        elif self.law.variance >= FINE**2:
            whole = self.law.variance + 1 / 12
        else:
            steps = np.arange(1, 20 * NEAR)
            whole = float(2 * (steps**2 * self.law.rounded_pmf(steps)).sum())
        return whole * self.step**2

    @property
    def reach(self) -> float:
        """Where `exponent` ends: it is infinite from here on."""
        return 1 / (float(self.law.scale) * self.step) if isinstance(self.law, Laplace) else math.inf

    def exponent(self, s: Floats) -> Floats:
        """Return log E e^(s R), or a number above it, for s >= 0 of any shape.

        Laplace: the sum of two geometric series. Gaussian with a standard deviation of 2 or more: rounding
        is a factor sinh(s/2) / (s/2), to 1e-33 (Poisson summation). Below that, a sum of point
        masses, and where s is so large that the sum would not end, e^(s/2) for the rounding.
        """
        if self.law is None:
            return np.zeros_like(s)
        s = s * self.step
        if isinstance(self.law, Laplace):
            return _laplace(float(self.law.scale), s)
        if not isinstance(self.law, Gaussian):
            raise AssertionError(self.law)
        half, spread = s / 2, s * s * (self.law.variance / 2)
        if self.law.variance >= FINE**2:
            return spread + _log_sinhc(half)
        steps = np.arange(1, 4 * NEAR)
        masses = self.law.rounded_pmf(steps)
        small = np.minimum(s, NEAR / 2)
        total = self.law.rounded_pmf(0) + sum(
            2 * p * np.cosh(m * small) for m, p in zip(steps, masses, strict=True)
        )
        return np.where(s < NEAR / 2, np.log(total), spread + half)


def _laplace(b: float, s: Floats) -> Floats:
    rest = 1 / b
    inside = np.minimum(s, rest * (1 - 1e-9))
    # sinh(1/2b) e^(-1/b), without overflow for small b.
    log_factor = math.log(-math.expm1(-rest) / 2) - rest / 2
    with np.errstate(over="ignore", invalid="ignore"):
        up = np.exp(inside) / -np.expm1(inside - rest)
        down = np.exp(-inside) / -np.expm1(-inside - rest)
        # In logarithms where e^s overflows, though the mass there does not.
        far = inside + log_factor - np.log(-np.expm1(inside - rest))
        near = np.log1p(math.exp(log_factor) * (up + down) - math.exp(-rest / 2))
    found: Any = np.where(inside < 600, near, np.logaddexp(0, far))
    return np.where(s < rest * (1 - 1e-9), found, np.inf)


def _log_sinhc(x: Floats) -> Floats:
    """Return log(sinh(x) / x) for x >= 0."""
    large = np.maximum(x, 1e-3)
    return np.where(x < 1e-3, x * x / 6, large - np.log(2 * large) + np.log1p(-np.exp(-2 * large)))
