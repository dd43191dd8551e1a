"""Whether the low bits of noise are random: what a generator of too few bits cannot hide."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.closeness.counts import at_least, at_most

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

RESIDUES = 16
# Of a real law, bits are looked at down to this power of two of its scale.
_FINEST = 2.0**-40


def repeats(values: NDArray[np.generic], most: float) -> tuple[int, float]:
    """Count draws whose value came before, and bound the probability of so many.

    Given the past, draw i repeats an earlier value with probability at most (i - 1) * most: so many
    repeats are at most as probable as for independent coins of these probabilities, which Chernoff
    bounds by (e mu / k)^k e^-mu, where mu is their sum.

    Args:
        values: the sample.
        most: bound on the probability of any single value.
    Returns:
        Number of repeats, and the bound.

    >>> repeats(np.array([1.0, 2.0, 1.0]), 2.0**-52)
    (1, 1.8...e-15)
    """
    n, k = len(values), len(values) - len(np.unique(values))
    mu = n * (n - 1) / 2 * most
    if k <= mu:
        return k, 1.0
    return k, math.exp(min(0.0, k - mu + k * math.log(mu / k)))


def residues(
    values: Floats | Whole, density: float, unit: float, *, whole: bool
) -> Iterator[tuple[str, float]]:
    """Bound the probability of how often each of the four bits at several depths stands as it does.

    For a density that rises and then falls, and has no value above d, the part of it on every 16th
    interval of length g differs from 1/16 by at most d g; so does a sum of probabilities of whole numbers.

    Args:
        values: the sample, in grid steps if `whole`.
        density: bound on the density, or on the probability of a whole number.
        unit: the law's scale.
        whole: the values are whole numbers.
    Yields:
        What was counted, and a bound on its probability.
    """
    step = 2.0 ** math.floor(math.log2(unit * _FINEST))
    if whole:
        step = max(step, 1.0)
    while density * step < 0.01 / RESIDUES:
        # Exact: floats are divided by a power of two, whole numbers that floats cannot hold as such.
        steps = values // int(step) if values.dtype.kind in "iu" else np.floor(values / step)
        found = np.bincount((steps % RESIDUES).astype(np.int64), minlength=RESIDUES)
        least, most = 1 / RESIDUES - density * step, 1 / RESIDUES + density * step
        bounds = at_most(found, len(steps), least), at_least(found, len(steps), most)
        yield f"four bits from {step:.3g} on", min(1.0, float(2 * RESIDUES * np.minimum(*bounds).min()))
        step *= RESIDUES
