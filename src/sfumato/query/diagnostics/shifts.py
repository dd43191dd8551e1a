"""How far limits and bounds shift an output, from noisy numbers that it follows from, with their error bars.

Proof: docs/proofs/diagnostics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.query.aggregates import (
    Aggregate,
    Combination,
    Correlation,
    Derived,
    Difference,
    LinearRegression,
    Mean,
    Ratio,
    StandardDeviation,
    Variance,
    WeightedSum,
)

Numbers = Mapping[str, Interval]
Ends = Callable[[Numbers], tuple[Interval, Interval]]


def between(low: float, high: float) -> Interval:
    """Return an interval of one number."""
    return Interval(np.asarray(low, float), np.asarray(high, float))


ZERO, ONE = between(0, 0), between(1, 1)


@dataclass(frozen=True)
class Shift:
    """How far limits and bounds shift an output, in all groups together.

    Args:
        output: its name.
        shift: the difference that limits and bounds make: with `relative` as a part of the output without
            them, else in the unit of the output. Below 0 the output is too small.
        half_width: of the error bar of the shift.
        relative: whether the shift is a part.
        of: what is shifted: the "value" of the output; its "rank", of a quantile, from 0 to 1; or the
            "length" of the vectors that are added up.

    Made by `Diagnostics.shifts`.

    >>> print(Shift("n", -0.312, 0.021, True))
    n is about 31% ± 2% lower than without limits and bounds
    >>> print(Shift("q", 0.083, 0.012, False, "rank"))
    the rank of q is about 8% ± 1% higher than without limits and bounds
    """

    output: str
    shift: float
    half_width: float
    relative: bool
    of: str = "value"

    def __str__(self) -> str:
        name = self.output if self.of == "value" else f"the {self.of} of {self.output}"
        if not math.isfinite(self.half_width):
            return f"the noise is too large to estimate how far limits and bounds shift {name}"
        if self.relative or self.of == "rank":
            digits = 0 if self.half_width >= 0.01 else 1
            size, bar = f"{abs(self.shift):.{digits}%}", f"{self.half_width:.{digits}%}"
        else:
            size, bar = f"{abs(self.shift):.3g}", f"{self.half_width:.2g}"
        if abs(self.shift) <= self.half_width:
            return f"limits and bounds shift {name} by no more than noise explains: {size} ± {bar}"
        way = "higher" if self.shift > 0 else "lower"
        return f"{name} is about {size} ± {bar} {way} than without limits and bounds"


@dataclass(frozen=True)
class Question:
    """What the shift of an output follows from.

    Args:
        output: its name.
        numbers: the names of the noisy numbers that it follows from.
        ends: makes of intervals of these two intervals: with limits and bounds, and without.
        relative, of: as of `Shift`.
        absolute: whether both are in the unit of the output; else they are parts of a common number.
    """

    output: str
    numbers: tuple[str, ...]
    ends: Ends
    relative: bool
    of: str = "value"
    absolute: bool = True

    def shift(self, values: Mapping[str, float], bars: Mapping[str, float]) -> Shift:
        """Return the shift, from noisy numbers and their error bars, all of which hold at once."""
        middle = self._difference(values, dict.fromkeys(bars, 0.0))
        ends = self._difference(values, bars)
        shift = float(middle.low)
        if not math.isfinite(shift) or middle.low != middle.high:
            return Shift(self.output, 0.0, math.inf, self.relative, self.of)
        far = max(float(ends.high) - shift, shift - float(ends.low))
        return Shift(self.output, shift, math.inf if math.isnan(far) else far, self.relative, self.of)

    def _difference(self, values: Mapping[str, float], bars: Mapping[str, float]) -> Interval:
        at = {n: between(values[n] - bars[n], values[n] + bars[n]) for n in bars}
        limited, without = self.ends(at)
        return limited / without - ONE if self.relative else limited - without


def statistic(
    of: Aggregate,
    scales: Sequence[tuple[float, float]],
    means: Sequence[Interval],
    products: Mapping[tuple[int, int], Interval],
    k: int,
) -> Interval:
    """Return a statistic, from means of values between -1 and 1 and of their products."""
    half = [width / 2 for _, width in scales]
    centre = [low + width / 2 for low, width in scales]

    def cross(i: int, j: int) -> Interval:
        square = means[i].squared() if i == j else means[i] * means[j]
        found = times(half[i] * half[j], products[i, j] - square)
        return clip(found, 0, math.inf) if i == j else found

    if isinstance(of, Mean):
        return plus(centre[0], times(half[0], means[0]))
    if isinstance(of, Variance):
        return cross(0, 0)
    if isinstance(of, StandardDeviation):
        return cross(0, 0).map(np.sqrt)
    if isinstance(of, LinearRegression):
        return _coefficient(half, centre, means, products, k)
    if not isinstance(of, Correlation):
        return cross(0, 1)
    below = (cross(0, 0) * cross(1, 1)).map(np.sqrt)
    if below.low <= 0 and below.low == below.high:
        return ZERO
    return clip(cross(0, 1) / below, -1, 1)


def _coefficient(
    half: Sequence[float],
    centre: Sequence[float],
    means: Sequence[Interval],
    products: Mapping[tuple[int, int], Interval],
    k: int,
) -> Interval:
    """Return what the coefficients of a regression can be, given intervals of its normal equations."""
    size = len(means)
    matrix = [[ONE, *means[1:]]]
    matrix += [[means[i], *(products[min(i, j), max(i, j)] for j in range(1, size))] for i in range(1, size)]
    right = [means[0], *(products[0, i] for i in range(1, size))]
    unknown = between(-math.inf, math.inf)
    a = np.array([[float(one.middle) for one in row] for row in matrix])
    b = np.array([float(one.middle) for one in right])
    off = np.array([[float(one.high - one.low) / 2 for one in row] for row in matrix])
    off_right = np.array([float(one.high - one.low) / 2 for one in right])
    if np.linalg.eigvalsh(a)[0] <= 1e-12:
        return unknown
    inverse = np.linalg.inv(a)
    found, change = inverse @ b, np.abs(inverse) @ off
    # Below 1 the solution is a contraction's fixed point: |d| <= most + change |d|.
    if np.abs(np.linalg.eigvals(change)).max() >= 0.999:
        return unknown
    far = np.linalg.solve(np.eye(size) - change, np.abs(inverse) @ (off @ np.abs(found) + off_right))
    slopes = np.array([half[0] / one for one in half[1:]])
    weights = np.array([half[0], *(-slopes * centre[1:])])
    if k:
        weights = np.where(np.arange(size) == k, np.array([0.0, *slopes]), 0.0)
    middle = float(weights @ found) + (0.0 if k else centre[0])
    radius = float(np.abs(weights) @ far)
    return between(middle - radius, middle + radius)


def rank_shift(limited: Sequence[Interval], without: Sequence[Interval], rank: float, place: int) -> Interval:
    """Return how far the rank of a quantile is from the nearest rank that it has without limits and bounds.

    Args:
        limited: with limits, the numbers of values below the bounds, at the lower bound, between it and the
            next place, and so on up to the upper bound, and above it.
        without: the same without limits.
        rank: of the quantile.
        place: where in these it is.
    """
    # Bounds move values to the places at the ends.
    inside = [limited[0] + limited[1], *limited[2:-2], limited[-2] + limited[-1]]
    below, upto = _ranks([ZERO, *inside, ZERO], place)
    ends = (below.low, upto.low), (below.high, upto.high)
    least, most = (min(max(rank, float(a)), float(b)) for a, b in ends)
    below, upto = _ranks(without, place)
    # Where values are equal, a place has several ranks.
    low = max(float(below.low) - most, min(float(upto.low) - most, 0.0))
    return between(low, max(float(below.high) - least, min(float(upto.high) - least, 0.0)))


def _ranks(numbers: Sequence[Interval], place: int) -> tuple[Interval, Interval]:
    """Return which parts are below a place, and at most there."""
    below, at, above = total(numbers[:place]), numbers[place], total(numbers[place + 1 :])
    return part_of(below, at + above), part_of(below + at, above)


def part_of(one: Interval, rest: Interval) -> Interval:
    """Return which part one number is of itself and the rest, neither of which is below 0."""
    pairs = (float(one.low), float(rest.high)), (float(one.high), float(rest.low))
    low, high = (a / (a + b) if a + b > 0 else math.nan for a, b in pairs)
    return between(low, high)


def total(numbers: Sequence[Interval]) -> Interval:
    """Return the interval of a sum."""
    found = ZERO
    for one in numbers:
        found += one
    return found


def clip(one: Interval, low: float, high: float) -> Interval:
    """Return an interval that is clamped."""
    return one.map(lambda x: np.clip(x, low, high))


def times(factor: float, one: Interval) -> Interval:
    """Return the interval of a multiple."""
    return one * between(factor, factor)


def plus(number: float, one: Interval) -> Interval:
    """Return the interval of a sum with a number."""
    return one.map(lambda x: x + number)


def terms(of: Derived) -> tuple[WeightedSum, WeightedSum]:
    """Return the sum that something is, and the one that it is divided by."""
    if isinstance(of, Combination):
        return of.top, of.bottom
    assert isinstance(of, Ratio | Difference)
    one, other = ((name, Fraction(1)) for name in of.of)
    if isinstance(of, Ratio):
        return WeightedSum((one,)), WeightedSum((other,))
    return WeightedSum((one,)).plus(WeightedSum((other,)).times(Fraction(-1))), WeightedSum((), Fraction(1))


def held(at: Numbers, name: str) -> Interval:
    """Return a number that is not below 0."""
    return clip(at[name], 0, math.inf)


def sides(at: Numbers, entries: Sequence[tuple[str, str]]) -> tuple[list[Interval], list[Interval]]:
    """Return how many are in each bin, with limits and without."""
    limited = [held(at, kept) for kept, _ in entries]
    return limited, [one + held(at, lost) for one, (_, lost) in zip(limited, entries, strict=True)]


def part_of_bins(entries: Sequence[tuple[str, str]], factors: Sequence[float]) -> Ends:
    """Return which part of a weighted sum of bins counts."""

    def ends(at: Numbers) -> tuple[Interval, Interval]:
        sums = (
            total([times(f, held(at, pair[i])) for f, pair in zip(factors, entries, strict=True)])
            for i in (0, 1)
        )
        return part_of(*sums), ONE

    return ends


def share_of(entries: Sequence[tuple[str, str]], of_it: Sequence[float]) -> Ends:
    """Return the share of a bin in all, with limits and without."""

    def share(side: Sequence[Interval]) -> Interval:
        return part_of(
            total([one for one, there in zip(side, of_it, strict=True) if there]),
            total([one for one, there in zip(side, of_it, strict=True) if not there]),
        )

    def ends(at: Numbers) -> tuple[Interval, Interval]:
        limited, without = sides(at, entries)
        return share(limited), share(without)

    return ends
