"""How improbable it is that a set of pooled draws holds so many of one sample, bounded from above."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Sums of logarithms are widened by this share of what is added up: float64 errs by far less.
WIDENED = 2.0**-46
_SMALL = np.array([math.log(math.factorial(i)) for i in range(64)])


def as_uneven(found: NDArray[Any], sizes: NDArray[Any], first: int, second: int) -> Floats:
    """Bound the probability that sets of pooled draws are shared as unevenly by two samples of one law.

    Args:
        found: draws of the first sample in each set, whole numbers.
        sizes: draws of both samples in each set. The sets were chosen by the pooled draws alone.
        first: size of the first sample.
        second: size of the second.
    Returns:
        Bounds, each at most t with probability at most t; 1 where a set is shared evenly.

    >>> as_uneven(np.array([5, 10, 20]), np.array([10, 20, 20]), 100, 100).round(7)
    array([1.e+00, 1.e+00, 7.e-07])

    Source:
        docs/proofs/closeness.md: given the pooled draws the number is hypergeometric, whose tail is bounded
        by a geometric series; Stirling's series for the factorials.
    """
    found, sizes = np.asarray(found, np.int64), np.asarray(sizes, np.int64)
    above = _at_least(found, sizes, first, second)
    below = _at_least(sizes - found, sizes, second, first)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(above, below)))


def log_choices(first: int, second: int) -> tuple[float, float]:
    """Return bounds from below and above of ln C(first + second, first)."""
    low, high = log_factorial(np.array([first + second, first, second]))
    return float(low[0] - high[1] - high[2]), float(high[0] - low[1] - low[2])


def log_factorial(n: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return bounds of ln n! from below and above, for whole numbers n >= 0.

    >>> low, high = log_factorial(np.array([3, 100]))
    >>> bool((low <= [math.log(6), math.lgamma(101)]).all()), bool((high - low).max() < 1e-7)
    (True, True)
    """
    x = np.maximum(np.asarray(n, np.float64), 1.0)
    about = x * np.log(x) - x + np.log(2 * math.pi * x) / 2
    few = np.asarray(n) < len(_SMALL)
    small = _SMALL[np.minimum(n, len(_SMALL) - 1)]
    low = np.where(few, small, about + 1 / (12 * x) - 1 / (360 * x**3))
    high = np.where(few, small, about + 1 / (12 * x))
    wider = WIDENED * x * (1 + np.log(x))
    return low - wider, high + wider


def _at_least(found: NDArray[np.int64], sizes: NDArray[np.int64], first: int, second: int) -> Floats:
    """Bound P(H >= found), where H of `sizes` pooled draws are of the first sample."""
    more = found * (first + second) > sizes * first
    k, size = np.where(more, found, 0), np.where(more, sizes, 0)
    rest = first + second - size
    (_, a), (b, _), (c, _) = (log_factorial(v) for v in (size, k, size - k))
    (_, d), (e, _), (f, _) = (log_factorial(v) for v in (rest, first - k, rest - first + k))
    most = a - b - c + d - e - f - log_choices(first, second)[0]
    # The probabilities of k + 1, k + 2, ... fall at least as fast as a geometric series that begins so.
    this, after = (k + 1) * (rest - first + k + 1), (size - k) * (first - k)
    series = this / np.maximum(this - after, 1)
    return np.where(more, np.exp(np.minimum(most, 0.0)) * series * (1 + WIDENED), 1.0)
