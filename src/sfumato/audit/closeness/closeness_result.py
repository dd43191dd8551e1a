"""What came of checks of a sample, and bounds of how improbable counts, repeats and low bits are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_CEILING
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.dataclass import dataclass
from sfumato.display.cards import Told
from sfumato.display.formatting import rounded_bound

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


@dataclass(frozen=True)
class Check:
    """One question to the sample.

    Part of what `closeness` gives.

    Args:
        name: "values", "distance", "cells", "tails", "scale", "repeats" or "low bits"; of two samples
            "shift" too, and no "values". Of vectors, with the projection's name before it.
        probability: bound on the probability that right noise looks at least as wrong to this check.
        finding: what was seen, in words.
    """

    name: str
    probability: float
    finding: str


@dataclass(frozen=True, repr=False)
class Closeness(Told):
    """What the checks found.

    Made by `closeness`.

    Args:
        passed: whether no check failed. Right noise fails with probability at most `alpha`.
        alpha: shared evenly by the checks.
        samples: size of the sample.
        checks: all that were made.
        others: size of the sample that it was compared with; None if that was a law.
    """

    passed: bool
    alpha: float
    samples: int
    checks: tuple[Check, ...]
    others: int | None = None

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(c for c in self.checks if c.probability <= self.alpha / len(self.checks))

    def __bool__(self) -> bool:
        raise TypeError("a Closeness is neither true nor false: ask result.passed")

    def __str__(self) -> str:
        wrong, draws = "this is not the law", f"{self.samples} draws"
        if self.others is not None:
            wrong, draws = "these are not of one law", f"{self.samples} and {self.others} draws"
        verdict = "no check fails" if self.passed else wrong
        lines = [f"{verdict}: {draws}, false alarms with probability at most {self.alpha:g}"]
        for check in self.checks:
            mark = "FAILS" if check in self.failed else "passes"
            most = rounded_bound(check.probability, ROUND_CEILING, 2)
            lines.append(f"  {check.name:9} {mark:6}  {check.finding} (probability at most {most})")
        return "\n".join(lines)
