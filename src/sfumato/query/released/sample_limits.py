"""Limits of what a population has, of numbers of a random sample that are known within intervals.

None assumes more of a law than that values have bounds. Proof: docs/proofs/sampling.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammainccinv, gammaincinv

from sfumato.exact.roots import halve
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats

_HALVINGS = 60
_OUTWARD = 1e-9  # relative, for what SciPy and floats are off
_ALMOST_NOTHING = 1e-9  # of one unit


def poisson(counted: Interval, tail: float) -> Interval:
    """Return what a number that follows a Poisson law has on average, by exact tests.

    Args:
        counted: what the number is between.
        tail: how probably each end may fail.

    Of a binomial law too: its tails are below those of the Poisson law of the same mean.

    Source:
        Garwood 1936, "Fiducial limits for the Poisson distribution"; Anderson and Samuels 1967.
    """
    low, high = _ends(counted)
    first = np.where(low > 0, gammaincinv(np.where(low > 0, low, 1.0), tail), 0.0)
    return _outward(Interval(first, gammainccinv(high + 1, tail)))


def poisson_sum(total: Interval, tail: float) -> Interval:
    """Return what a sum of a Poisson number of independent values from 0 to 1 is on average.

    Such a sum of mean m is at least s > m with a probability of at most exp(s - m - s log(s / m)), and as
    much for at most s < m: its moments are no larger than those of a Poisson number.

    Args:
        total: what the sum is between.
        tail: how probably each end may fail.

    Source:
        Chernoff 1952.
    """
    low, high = _ends(total)
    least = -np.log(tail)

    def unlikely(s: Floats, mean: Floats) -> NDArray[np.bool_]:
        return np.asarray(_term(s, mean) - s + mean > least)

    first = halve(lambda mean: unlikely(low, mean), low, np.zeros_like(low), _HALVINGS)[1]
    far = 2 * high + 4 * least  # where mean - s - s log(mean / s) is above `least`
    last = halve(lambda mean: unlikely(high, mean), high, far, _HALVINGS)[1]
    return _outward(Interval(first, last))


def bennett(varies: Floats, tail: float) -> Floats:
    """Return how far a sum of a Poisson number of values from -1 to 1 is from what it is on average.

    Args:
        varies: the largest that the sum of their squares may be on average.
        tail: how probably it is further off, at either end.

    Source:
        Bennett 1962, with the moments of a Poisson number of values.
    """
    least = -np.log(tail)

    def unlikely(far: Floats) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore"):
            return np.asarray((varies + far) * np.log1p(far / varies) - far > least)

    end = 2 * least + 2 * np.sqrt(least * varies)
    return np.asarray(halve(unlikely, np.zeros_like(varies), end, _HALVINGS)[1])


def clopper_pearson(ones: Interval, zeros: Interval, tail: float) -> Interval:
    """Return the share of ones in the population, by exact tests; more zeros make it smaller.

    Args:
        ones, zeros: what their numbers in the sample are between.
        tail: how probably each end may fail.

    Source:
        Clopper and Pearson 1934.
    """

    def least(ones: Floats, zeros: Floats) -> Floats:
        there = ones > 0
        return np.where(there, betaincinv(np.where(there, ones, 1.0), zeros + 1, tail), 0.0)

    (low, high), (few, many) = _ends(ones), _ends(zeros)
    return _outward(Interval(least(low, many), 1 - least(few, high)), 1.0)


def entropy(above: Interval, below: Interval, tail: float) -> Interval:
    """Return the mean of values from 0 to 1, by how far it is from the sample's in relative entropy.

    Args:
        above: what the sum of values is between.
        below: the same of the sum of what they lack of 1.
        tail: how probably each end may fail.

    Source:
        Hoeffding 1963, "Probability inequalities for sums of bounded random variables", theorem 1.
    """
    least = -np.log(tail)

    def lowest(s: Floats, r: Floats) -> Floats:
        """Return the least mean, of sums s and r."""
        count = np.maximum(s + r, np.finfo(float).tiny)

        def unlikely(p: Floats) -> NDArray[np.bool_]:
            return np.asarray(_term(s, count * p) + _term(r, count * (1 - p)) > least)

        return np.asarray(halve(unlikely, s / count, np.zeros_like(s), _HALVINGS)[1])

    (low, high), (few, many) = _ends(above), _ends(below)
    return _outward(Interval(lowest(low, many), 1 - lowest(few, high)), 1.0)


def of_parts(above: Interval, below: Interval, tail: float) -> Interval:
    """Return the mean of values from 0 to 1 of a Poisson number of units, each of which counts in part.

    Args:
        above, below: as of `entropy`, with each value times the part that its unit counts.
        tail: how probably each end may fail, and that units may count more on average than is found.

    Sums of distances from the true mean p are off by Bennett's bound; their squares add up to at most
    p (1 - p) times what all units count.
    """
    (low, high), (few, many) = _ends(above), _ends(below)
    largest = poisson_sum(Interval(high + many, high + many), tail).high

    def lowest(s: Floats, r: Floats) -> Floats:
        """Return the least mean, of sums s and r."""

        def unlikely(p: Floats) -> NDArray[np.bool_]:
            return np.asarray(s * (1 - p) - r * p > bennett(largest * p * (1 - p), tail))

        start = s / np.maximum(s + r, np.finfo(float).tiny)
        return np.asarray(halve(unlikely, start, np.zeros_like(s), _HALVINGS)[1])

    return _outward(Interval(lowest(low, many), 1 - lowest(few, high)), 1.0)


def bernstein(above: Interval, below: Interval, variance: Floats, tail: float) -> Interval:
    """Return the mean of values from 0 to 1, by their variance in the sample.

    Args:
        above, below: as of `entropy`.
        variance: the largest that the sample's may be, divided by the count.
        tail: how probably each end may fail.

    Source:
        Maurer and Pontil 2009, "Empirical Bernstein bounds and sample variance penalization", theorem 4.
    """
    (low, high), (few, many) = _ends(above), _ends(below)
    count, least = low + few, np.log(2 / tail)
    known = count > 1
    less = np.where(known, count - 1, 1.0)
    half = np.sqrt(2 * variance * least / less) + 7 * least / (3 * less)
    half = np.where(known, half, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        first = np.where(low > 0, low / (low + many), 0.0) - half
        last = np.where(few > 0, high / (high + few), 1.0) + half
    return _outward(Interval(first, last), 1.0)


def scaled(interval: Interval, factor: float) -> Interval:
    """Return an interval times a number."""
    low, high = interval.low * factor, interval.high * factor
    return Interval(low, high) if factor >= 0 else Interval(high, low)


def _term(s: Floats, mean: Floats) -> Floats:
    """Return s log(s / mean), which is 0 at 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(s > 0, s * np.log(np.where(s > 0, s, 1.0) / mean), 0.0))


def _ends(interval: Interval) -> tuple[Floats, Floats]:
    """Return the ends of what is not negative; almost nothing is nothing below, a little above."""
    low = np.where(interval.low > _ALMOST_NOTHING, interval.low, 0.0)
    return low, np.maximum(interval.high, _ALMOST_NOTHING)


def _outward(interval: Interval, most: float = np.inf) -> Interval:
    """Return an interval from 0 a little wider, but within what is possible."""
    low, high = interval.low * (1 - _OUTWARD), interval.high * (1 + _OUTWARD)
    return Interval(np.maximum(low, 0.0), np.minimum(high, most))
