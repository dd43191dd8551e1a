"""Chernoff's bounds of many values at once."""

from __future__ import annotations

import math

_LN10 = math.log(10)


def log10_gamma_deviation(shape: float, total: float) -> float:
    """Return log10 of Chernoff's bound that a Gamma(shape, 1) variable lies at `total` or beyond.

    Beyond is away from its mean, `shape`: below where `total` is below it, else above.

    >>> log10_gamma_deviation(10, 10), round(log10_gamma_deviation(1000, 700), 1)
    (0.0, -24.6)
    """
    if total <= 0:
        return -math.inf
    return min(0.0, (shape - total + shape * math.log(total / shape)) / _LN10)


def log10_many(successes: int, tries: int, p: float) -> float:
    """Return log10 of Chernoff's bound that so many of independent tries of probability p succeed.

    >>> round(log10_many(10, 10, 0.1), 6), log10_many(1, 10, 0.5)
    (-10.0, 0.0)
    """
    share = successes / tries
    if share <= p:
        return 0.0
    divergence = share * math.log(share / p) if p > 0 else math.inf
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - p))
    return -tries * divergence / _LN10
