"""Closeness of two samples, whatever their law: chance alone decides which pooled draw is whose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.closeness.closeness_result import Check
from sfumato.audit.closeness.reference_law import CELLS
from sfumato.dataclass import dataclass

# Sums of logarithms are widened by this share of what is added up: float64 errs by far less.
WIDENED = 2.0**-46
_SMALL = np.array([math.log(math.factorial(i)) for i in range(64)])


def bound_unevenness(observed: NDArray[Any], sizes: NDArray[Any], first: int, second: int) -> Floats:
    """Bound the probability that two samples of one law share sets of pooled draws as unevenly.

    Args:
        observed: draws of the first sample in each set, whole numbers.
        sizes: draws of both samples in each set. The sets were chosen by the pooled draws alone.
        first: size of the first sample.
        second: size of the second.
    Returns:
        Bounds, each at most t with probability at most t; 1 where a set is shared evenly.

    >>> bound_unevenness(np.array([5, 10, 20]), np.array([10, 20, 20]), 100, 100).round(7)
    array([1.e+00, 1.e+00, 7.e-07])

    Source:
        docs/proofs/closeness.md: given the pooled draws the number is hypergeometric, whose tail is bounded
        by a geometric series; Stirling's series for the factorials.
    """
    observed, sizes = np.asarray(observed, np.int64), np.asarray(sizes, np.int64)
    above = _bound_upper_tail(observed, sizes, first, second)
    below = _bound_upper_tail(sizes - observed, sizes, second, first)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(above, below)))


def log_choices(first: int, second: int) -> tuple[float, float]:
    """Return bounds on ln C(first + second, first), the ways to choose one of two samples."""
    low, high = log_factorial(np.array([first + second, first, second]))
    return float(low[0] - high[1] - high[2]), float(high[0] - low[1] - low[2])


def log_factorial(n: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return bounds on ln n! for whole numbers n >= 0, for the choices of two samples.

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


def _bound_upper_tail(
    observed: NDArray[np.int64], sizes: NDArray[np.int64], first: int, second: int
) -> Floats:
    """Bound P(H >= found), where H of `sizes` pooled draws of two samples are of the first."""
    more = observed * (first + second) > sizes * first
    k, size = np.where(more, observed, 0), np.where(more, sizes, 0)
    rest = first + second - size
    (_, a), (b, _), (c, _) = (log_factorial(v) for v in (size, k, size - k))
    (_, d), (e, _), (f, _) = (log_factorial(v) for v in (rest, first - k, rest - first + k))
    most = a - b - c + d - e - f - log_choices(first, second)[0]
    # The probabilities of k + 1, k + 2, ... fall at least as fast as a geometric series that begins so.
    this, after = (k + 1) * (rest - first + k + 1), (size - k) * (first - k)
    series = this / np.maximum(this - after, 1)
    return np.where(more, np.exp(np.minimum(most, 0.0)) * series * (1 + WIDENED), 1.0)


Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Bits are looked at four at a time.
RESIDUES = 16
# Single values that are looked at besides the cells; cells of the scores; where the bits of floats begin.
_VALUES, _SCORED, _FINEST = 64, 1024, 2.0**-40
# What a bet shares its evidence with, in natural logarithms: so much more than 1/alpha is aimed at.
_SPARE = 5.0


@dataclass(frozen=True)
class Pooled:
    """Two samples pooled: counts of their distinct values, in increasing order; NaN stands last.

    Args:
        values: distinct.
        mine: how often each is in the first sample.
        all: how often in both together.
    """

    values: NDArray[Any]
    mine: Counts
    all: Counts

    @classmethod
    def pool(cls, x: NDArray[Any], y: NDArray[Any]) -> Pooled:
        """Pool two samples of the same type."""
        values, place = np.unique(np.concatenate([x, y]), return_inverse=True)
        counts = [np.bincount(part, minlength=len(values)) for part in (place[: len(x)], place)]
        return cls(values, *counts)

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of the first and of the second sample."""
        first = int(self.mine.sum())
        return first, int(self.all.sum()) - first

    def uneven(self, mine: Counts, both: Counts) -> tuple[int, float, str]:
        """Return which set two samples share most unevenly, the bound for all sets, and its counts."""
        found = bound_unevenness(mine, both, *self.sizes)
        worst = int(np.argmin(found))
        text = f"{mine[worst]:,} draws of the first sample and {both[worst] - mine[worst]:,} of the other"
        return worst, min(1.0, float(found[worst]) * len(found)), text


def compare_samples(x: NDArray[Any], y: NDArray[Any], alpha: float) -> Iterator[Check]:
    """Yield the checks of two samples of the same type, each valid for draws of any one law."""
    pooled = Pooled.pool(x, y)
    below = np.cumsum(pooled.mine), np.cumsum(pooled.all)
    total = int(below[1][-1])
    cuts = _find_places(below[1], np.arange(1, CELLS) * total / CELLS)
    yield _distance(pooled, below, cuts)
    yield _cells(pooled, below, cuts)
    yield _tails(pooled, below, total)
    yield from _check_likelihood_ratios(pooled, below, total, alpha)
    yield _repeats(pooled)
    yield _low_bits(pooled)


def _find_places(below: Counts, levels: NDArray[Any]) -> Counts:
    """Return the places of the smallest values with so many pooled draws of both samples up to them."""
    return np.unique(np.minimum(np.searchsorted(below, levels), len(below) - 1))


def _distance(pooled: Pooled, below: tuple[Counts, Counts], cuts: Counts) -> Check:
    worst, most, text = pooled.uneven(below[0][cuts], below[1][cuts])
    first, second = pooled.sizes
    shares = below[0] / first, (below[1] - below[0]) / second
    apart = float(np.abs(shares[0] - shares[1]).max())
    cut = pooled.values[cuts[worst]]
    return Check(
        "distance", most, f"distribution functions are {apart:.3g} apart; {text} are up to {cut:.6g}"
    )


def _cells(pooled: Pooled, below: tuple[Counts, Counts], cuts: Counts) -> Check:
    """Check two samples in cells between quantiles of the pooled draws, and at the most frequent values."""
    last = len(pooled.values) - 1
    ends = np.unique([*cuts.tolist(), last])
    often = np.argsort(-pooled.all, kind="stable")[:_VALUES]
    often = often[pooled.all[often] > 1]
    mine, both = (
        np.concatenate([np.diff(sums[ends], prepend=0), counts[often]])
        for sums, counts in ((below[0], pooled.mine), (below[1], pooled.all))
    )
    worst, most, text = pooled.uneven(mine, both)
    if worst >= len(ends):
        return Check("cells", most, f"{text} are {pooled.values[often[worst - len(ends)]]:.6g}")
    from_, to = (ends[worst - 1] + 1 if worst else 0), ends[worst]
    return Check("cells", most, f"{text} are from {pooled.values[from_]:.6g} to {pooled.values[to]:.6g}")


def _tails(pooled: Pooled, below: tuple[Counts, Counts], total: int) -> Check:
    """Check the shares of two samples in the 1, 2, 4, ... smallest pooled draws, and the largest."""
    sizes = 2 ** np.arange(max(total.bit_length() - 3, 1))
    low = _find_places(below[1], sizes)
    high = _find_places(below[1], total - sizes)
    mine = np.concatenate([below[0][low], below[0][-1] - below[0][high]])
    both = np.concatenate([below[1][low], total - below[1][high]])
    worst, most, text = pooled.uneven(mine, both)
    bound = pooled.values[np.concatenate([low, high])[worst]]
    where = f"up to {bound:.6g}" if worst < len(low) else f"above {bound:.6g}"
    return Check("tails", most, f"{text} are {where}")


def _check_likelihood_ratios(
    pooled: Pooled, below: tuple[Counts, Counts], total: int, alpha: float
) -> Iterator[Check]:
    """Check by likelihood ratios whether one of two samples is the other one, shifted or rescaled."""
    even = np.arange(1, _SCORED) * total / _SCORED
    tails = 2 ** np.arange(max(total.bit_length() - 10, 0))
    ends = np.unique(
        [*_find_places(below[1], np.concatenate([even, tails, total - tails])), len(pooled.all) - 1]
    )
    mine, both = (np.diff(sums[ends], prepend=0) for sums in below)
    middle = (np.cumsum(both) - both / 2) / total
    normal = np.array([NormalDist().inv_cdf(h) for h in middle])
    # Those that tell logistic, Gaussian and Laplace laws apart best; of the last, each tail by itself too.
    shifts = (2 * middle - 1, normal, np.sign(2 * middle - 1))
    scales = (normal**2, -np.log1p(-np.abs(2 * middle - 1)), -np.log(middle), -np.log1p(-middle))
    for name, scores, ways in (
        ("shift", shifts, ("larger", "smaller")),
        ("scale", scales, ("further out", "further in")),
    ):
        found = [
            (_log_ratio(score, slope, (mine, both), pooled.sizes, alpha), ways[slope < 0])
            for score in scores
            for slope in (-3.0, -1.0, 1.0, 3.0)
        ]
        mean = float(np.logaddexp.reduce([ratio for ratio, _ in found])) - math.log(len(found))
        best, way = max(found)
        text = f"that the first sample lies {way} is 10^{best / math.log(10):.1f} times as likely as chance"
        yield Check(name, min(1.0, math.exp(-max(mean, 0.0))), text)


def _log_ratio(
    score: Floats, slope: float, counts: tuple[Counts, Counts], sizes: tuple[int, int], alpha: float
) -> float:
    """Return a log likelihood ratio that one of two samples has larger scores, rounded down.

    Each pooled draw is of the first sample with probability p, which rises (or falls) with its score, against
    all ways to choose the first sample being equally likely.

    Args:
        score: of each cell.
        slope: of the logarithm of the odds, in units of what shows just well enough at this alpha.
        counts: draws of the first sample, and of both, in each cell.
        sizes: of the samples.
        alpha: of the whole comparison.
    """
    mine, both = counts
    first, second = sizes
    total = first + second
    mean = float(both @ score) / total
    spread = math.sqrt(float(both @ (score - mean) ** 2) / total)
    if not spread:
        return 0.0
    enough = math.sqrt(2 * (_SPARE - math.log(alpha)) * total / (first * second))
    line = slope * enough * (score - mean) / spread
    # Newton's steps to where as many are expected as there are: near it the bet is good, anywhere it is fair.
    at = math.log(first / second)
    for _ in range(12):
        p = 1 / (1 + np.exp(-np.clip(line + at, -700, 700)))
        step = (first - float(both @ p)) / max(float(both @ (p * (1 - p))), 1e-6)
        at += max(-2.0, min(step, 2.0))
    odds = np.clip(line + at, -700, 700)
    inside, outside = -np.log1p(np.exp(-odds)), -np.log1p(np.exp(odds))
    terms = np.concatenate([mine * inside, (both - mine) * outside])
    # No number of ones among such coins is more probable than this (docs/proofs/closeness.md).
    variance = float(both @ np.exp(inside + outside))
    likeliest = min(0.0, math.log(math.sqrt(math.pi / 8)) - math.log(variance) / 2)
    widened = WIDENED * (float(np.abs(terms).sum()) + total) + 2.0**-40
    return log_choices(first, second)[0] + float(terms.sum()) - likeliest - widened


def _repeats(pooled: Pooled) -> Check:
    """Check the shares of two samples in values that are repeated twice, three times, five times, ..."""
    least = [2, *(2**k + 1 for k in range(1, int(pooled.all.max()).bit_length()))]
    often = [pooled.all >= n for n in least]
    mine, both = (np.array([counts[o].sum() for o in often]) for counts in (pooled.mine, pooled.all))
    worst, most, text = pooled.uneven(mine, both)
    return Check("repeats", most, f"{text} have a value that comes {least[worst]} times or more")


def _low_bits(pooled: Pooled) -> Check:
    """Check four bits at a time of two samples, from the lowest of whole numbers or 2^-40 of the spread."""
    values = pooled.values
    finite = np.isfinite(values)
    whole = values.dtype.kind in "iu"
    sizes = np.abs(values[finite].astype(np.float64))
    spread = float(sizes.max(initial=0.0)) if whole else _middle(sizes, pooled.all[finite])
    step = 1.0 if whole else 2.0 ** math.floor(math.log2(max(spread * _FINEST, 2.0**-1000)))
    mine: list[Counts] = []
    both: list[Counts] = []
    steps: list[float] = []
    with np.errstate(all="ignore"):
        while not steps or step * RESIDUES <= spread:
            found = (
                values // int(step) if whole else np.nan_to_num(np.floor(values / step), posinf=0, neginf=0)
            )
            bits = (found % RESIDUES).astype(np.int64)
            mine.append(np.bincount(bits, pooled.mine, RESIDUES).astype(np.int64))
            both.append(np.bincount(bits, pooled.all, RESIDUES).astype(np.int64))
            steps.append(step)
            step *= RESIDUES
    worst, most, text = pooled.uneven(np.concatenate(mine), np.concatenate(both))
    where = f"four bits {worst % RESIDUES:04b} from {steps[worst // RESIDUES]:.3g} on"
    return Check("low bits", most, f"{text} have {where}")


def _middle(sizes: Floats, counts: Counts) -> float:
    """Return the median of the absolute values of two samples."""
    if not len(sizes):
        return 0.0
    order = np.argsort(sizes)
    below = np.cumsum(counts[order])
    return float(sizes[order][np.searchsorted(below, below[-1] / 2)])
