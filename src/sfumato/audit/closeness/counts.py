"""How improbable a count is, bounded from above without tables or approximations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def at_least(counts: NDArray[Any], samples: int, p: ArrayLike) -> Floats:
    """Bound P(Binomial(samples, p) >= count) from above.

    Args:
        counts: whole numbers from 0 to `samples`.
        samples: number of draws.
        p: probability of each, from 0 to 1.
    Returns:
        Bounds, 1 where the count is at most its expectation.

    >>> at_least(np.array([5, 20]), 100, 0.1)
    array([1.        , 0.0117...])

    Source:
        Chernoff 1952; Hoeffding 1963, theorem 1: exp(-n KL(count/n, p)).
    """
    k, p = np.broadcast_arrays(np.asarray(counts, np.float64), np.asarray(p, np.float64))
    rest = samples - k
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(k > 0, k * (np.log(k / samples) - np.log(p)), 0.0)
        outside = np.where(rest > 0, rest * (np.log(rest / samples) - np.log1p(-p)), 0.0)
    return np.asarray(np.where(k > samples * p, np.exp(-np.maximum(inside + outside, 0.0)), 1.0))


def at_most(counts: NDArray[Any], samples: int, p: ArrayLike) -> Floats:
    """Bound P(Binomial(samples, p) <= count) from above; see `at_least`."""
    return at_least(samples - np.asarray(counts), samples, 1 - np.asarray(p, np.float64))


def as_far(counts: NDArray[Any], samples: int, p: ArrayLike) -> Floats:
    """Bound the probability that a count's one-sided bound is as small as this, on either side."""
    least = np.minimum(at_least(counts, samples, p), at_most(counts, samples, p))
    return np.asarray(np.minimum(1.0, 2 * least))
