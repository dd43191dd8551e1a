"""Gamma laws of whole shapes, in floats: sums of positive terms, and nothing that takes long to import."""

from __future__ import annotations

import math

import numpy as np

from sfumato.noise.values import Floats


def upper_tail(shape: int, x: float) -> float:
    """Return P(Gamma number of a shape > x), right however small.

    >>> round(upper_tail(2, 3.0) / (4 * math.exp(-3)), 12)
    1.0
    """
    if x <= lowest(shape):
        return 1.0
    if shape == 1:
        return math.exp(-x)
    # The first of the terms of exp(x), from the last one on down: after so many they are next to nothing.
    count = min(shape, 60 + 22 * math.isqrt(shape))
    terms = np.cumprod((shape - np.arange(1, count)) / x)
    return float(min(1.0, density(shape, np.array(x)) * (1 + terms.sum())))


def lowest(shape: int) -> float:
    """Return what a Gamma number is below with a probability of at most about 1e-18 (Wilson and Hilferty)."""
    return float(shape * max(0.0, 1 - 1 / (9 * shape) - 9.5 / (3 * math.sqrt(shape))) ** 3)


def density(shape: int, x: Floats) -> Floats:
    """Return the density of a Gamma number of a shape of at least 2, for x > 0.

    >>> round(float(density(3, np.array([2.0]))[0] / (2 * math.exp(-2))), 12)
    1.0
    """
    # About where it is largest: of its logarithms there only few digits cancel.
    peak = shape - 1
    if peak < 100:
        top = peak * math.log(peak) - peak - math.lgamma(shape)
    else:
        top = -math.log(2 * math.pi * peak) / 2 - 1 / (12 * peak) + 1 / (360 * peak**3)
    off = (x - peak) / peak
    # Where x is small, next to nothing of it would be left in `off`.
    log = np.where(off < -0.5, np.log(x / peak), np.log1p(off))
    return np.asarray(np.exp(top + peak * (log - off)))
