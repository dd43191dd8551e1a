"""Quantiles, median, minimum and maximum, from a noisy tree or from places chosen with noise."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import Number, as_fractions, round_down, round_up, truth_value
from sfumato.exact.time_trees import Tree
from sfumato.framework import Norm
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import Laplace
from sfumato.noise.noise_sums import Interval, NoiseSum
from sfumato.query.aggregates.aggregate import (
    Aggregate,
    BoundedAggregate,
    Unbounded,
    aggregate_function,
    column_name,
    get_bounds,
)
from sfumato.query.aggregates.estimate import Estimate
from sfumato.query.schema import Kind
from sfumato.transformations import Lattice, Leaves, Margin, QuantileTree, ValueTree
from sfumato.transformations.statistics.quantile_counts import BRANCHING, HEIGHT

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


# The ranks that are asked for in place of the smallest and the largest value.
EXTREMES = {"min": 0.01, "max": 0.99}


@dataclass(frozen=True, repr=False)
class Quantiles(BoundedAggregate):
    """Quantiles of a column at given ranks; `scalar` for one rank given as a number.

    Args:
        called: "min" or "max" where that was asked.
    """

    kind = "quantiles"

    ranks: tuple[float, ...]
    scalar: bool
    error_bars: bool = True
    called: str = ""

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the output columns of quantiles: one for each rank."""
        return (name,) if self.scalar else tuple(f"{name}_{rank * 100:g}" for rank in self.ranks)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the ranks, column and bounds of quantiles."""
        found = super().meaning(written)
        return f"quantile of rank {self.ranks[0]:g}{found.removeprefix(self.kind)}" if self.scalar else found

    def note(self, name: str) -> str | None:
        """Return which quantile stands for the minimum or maximum."""
        if self.called not in EXTREMES:
            return None
        end, side = ("smallest", "least") if self.called == "min" else ("largest", "most")
        (rank,) = self.ranks
        return (
            f"{name}: the exact {end} is one row's value and is not released. {self.called} is "
            f"the quantile of rank {rank:g}: {builtins.max(rank, 1 - rank):.0%} of the values are "
            f"at {side} this."
        )

    def _places(self, design: Design) -> tuple[float, float, bool]:
        """Return the bounds in which quantiles are looked for, and whether all values are whole numbers."""
        low, high = math.ceil(self.lower), math.floor(self.upper)
        if design.schema[self.column].kind is Kind.INTEGER and low < high:
            return float(low), float(high), True
        return round_down(self.lower), round_up(self.upper), False

    def _estimates_from_counts(
        self, design: Design, name: str, lattice: Lattice, exponent: int
    ) -> tuple[Estimate, ...]:
        """Return the estimates of quantiles from noisy counts of all values."""
        power = 1.0 if design.norm is Norm.L1 else 0.5
        tree = Tree.best_for_ranks(lattice.count, power)
        label = design.label(self.block)
        counted = ValueTree(label, self.column, design.rows, lattice, exponent, tree.sizes)
        design.add(counted)
        return tuple(
            CdfQuantile(
                output,
                total=counted.names[0],
                lower=lattice.lower,
                upper=lattice.upper,
                rank=rank,
                whole=True,
                tree=tree,
            )
            for output, rank in zip(self.outputs(name), self.ranks, strict=True)
        )

    def _chosen(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimates of quantiles by choice, one for all ranks of a column and its bounds."""
        lower, upper, whole = self._places(design)
        label, exponent = design.label(self.block), builtins.max(design.weight_exponent(), EXPONENT)
        leaves = Leaves(label, self.column, design.rows, Lattice(lower, upper, whole), exponent)
        ranks = design.chosen.setdefault(leaves, [])
        of_column = [a for _, a in design.query.aggregates if isinstance(a, Quantiles)]
        bars = any(a.error_bars for a in of_column if a.block == self.block)
        found = []
        for output, rank in zip(self.outputs(name), self.ranks, strict=True):
            exact = Fraction(rank)
            if exact not in ranks:
                ranks.append(exact)
            margin = Margin(leaves, exact)
            if bars:
                design.add(margin)
            found.append(
                ChosenQuantile(
                    output,
                    count=design.base or ("units" if design.units else ""),
                    total=leaves.names[0],
                    lower=lower,
                    upper=upper,
                    rank=rank,
                    whole=whole,
                    wide=builtins.max(abs(lower), abs(upper)) >= 2.0**62,
                    at=ranks.index(exact),
                    margin=margin.names[0] if bars else "",
                    finest=2.0**leaves.lattice.finest,
                )
            )
        if len(ranks) > MAX_RANKS:
            raise QueryError(
                f"{name}: {len(ranks)} ranks of {self.column} are more than the {MAX_RANKS} "
                "that can be chosen jointly. Use fewer, or noise='laplace'"
            )
        return tuple(found)

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimates of quantiles: from a tree, or by choice if noise is joint."""
        if design.joint:
            return self._chosen(design, name)
        exponent = builtins.max(design.weight_exponent(), EXPONENT)
        label, (lower, upper, whole) = design.label(self.block), self._places(design)
        if whole and design.fits(int(upper - lower) + 1):
            return self._estimates_from_counts(design, name, Lattice(lower, upper, whole), exponent)
        lower, upper = round_down(self.lower), round_up(self.upper)
        tree = QuantileTree(label, self.column, design.rows, lower, upper, exponent)
        design.add(tree)
        return tuple(
            QuantileEstimate(output, total=tree.names[0], lower=lower, upper=upper, rank=rank)
            for output, rank in zip(self.outputs(name), self.ranks, strict=True)
        )


@aggregate_function(
    "APPROX_QUANTILES",
    "QUANTILES",
    "PERCENTILE_CONT",
    "QUANTILE_CONT",
    "ANON_QUANTILES",
    "ANON_PERCENTILE_CONT",
)
def quantiles(
    column: str,
    ranks: Sequence[float] | float,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    error_bars: bool = True,
) -> Aggregate:
    """Return quantiles of a column within [lower, upper].

    They come from a tree of noisy counts or, with K-norm noise, from a private choice of values.

    Args:
        column: a numeric column.
        ranks: one number in [0, 1], or several. All ranks of a column share one tree, or one choice with
            K-norm noise.
        lower, upper: the range in which to search for quantiles.
        error_bars: whether K-norm noise reserves a part of the budget for error bars. Without it, error bars
            reach to the bounds and everything else has less noise. Other noise always gives error bars.
    Returns:
        An aggregate with outputs such as `name_25` for rank 0.25, or `name` for a single number.
    Raises:
        QueryError: the column is not a name, or a bound is missing.
        ParameterError: ranks, bounds or `error_bars` are not valid, or a rank occurs twice.
    Source:
        Proofs: for trees docs/proofs/quantile_tree.md and docs/proofs/value_tree.md; for chosen values
        docs/proofs/joint_quantiles.md and docs/proofs/leaves.md.

    >>> quantiles("docvis", [0.25, 0.75], lower=0, upper=60).ranks
    (0.25, 0.75)
    """
    if not isinstance(ranks, Iterable) or isinstance(ranks, str):
        one = _rank(ranks, "ranks")
        return _make_quantiles(quantiles, column, (one,), (("ranks", one),), lower, upper, error_bars)
    each = as_fractions(ranks, "ranks", "numbers in [0, 1]")
    if not all(0 <= rank <= 1 for rank in each) or not each or len(set(each)) < len(each):
        raise ParameterError("ranks", ranks, "at least one number in [0, 1], none of them twice")
    floats = tuple(map(float, each))
    return _make_quantiles(quantiles, column, floats, (("ranks", floats),), lower, upper, error_bars, False)


@aggregate_function()
def quantile(
    column: str,
    rank: float,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    error_bars: bool = True,
) -> Aggregate:
    """Return the quantile of a column at one rank: the value below which that share of the values lies.

    Args:
        column: a numeric column.
        rank: the share, a number in [0, 1].
        lower, upper, error_bars: as for `quantiles`.
    Returns:
        An aggregate for `agg`, with one output in the column's unit.
    Raises:
        QueryError: the column is not a name, or a bound is missing.
        ParameterError: the rank, the bounds or `error_bars` are not valid.
    Source:
        As for `quantiles`.

    >>> quantile("docvis", 0.9, lower=0, upper=60).ranks
    (0.9,)
    """
    one = _rank(rank, "rank")
    return _make_quantiles(quantile, column, (one,), (("rank", one),), lower, upper, error_bars)


@aggregate_function("MEDIAN")
def median(
    column: str, *, lower: Number | None = None, upper: Number | None = None, error_bars: bool = True
) -> Aggregate:
    """Return the median of a column: the quantile of rank 0.5.

    Args:
        column: a numeric column.
        lower, upper, error_bars: as for `quantiles`.
    Returns:
        An aggregate for `agg`, with one output in the column's unit.
    Raises:
        QueryError: the column is not a name, or a bound is missing.
        ParameterError: the bounds or `error_bars` are not valid.
    Source:
        As for `quantiles`.

    >>> median("docvis", lower=0, upper=60).ranks
    (0.5,)
    """
    return _make_quantiles(median, column, (0.5,), (), lower, upper, error_bars)


@aggregate_function("MIN")
def min(
    column: str, *, lower: Number | None = None, upper: Number | None = None, error_bars: bool = True
) -> Aggregate:
    """Return approximately the smallest value of a column: the quantile of rank 0.01, with a note.

    The exact minimum is a single row's value and is never released. Use `quantile` for another low rank.

    Args:
        column: a numeric column.
        lower, upper, error_bars: as for `quantiles`.
    Returns:
        An aggregate for `agg`, with one output in the column's unit.
    Raises:
        QueryError: the column is not a name, or a bound is missing.
        ParameterError: the bounds or `error_bars` are not valid.
    Source:
        As for `quantiles`.

    >>> min("docvis", lower=0, upper=60).ranks
    (0.01,)
    """
    return _make_quantiles(min, column, (EXTREMES["min"],), (), lower, upper, error_bars)


@aggregate_function("MAX")
def max(
    column: str, *, lower: Number | None = None, upper: Number | None = None, error_bars: bool = True
) -> Aggregate:
    """Return approximately the largest value of a column: the quantile of rank 0.99, with a note.

    The exact maximum is a single row's value and is never released. Use `quantile` for another high rank.

    Args:
        column: a numeric column.
        lower, upper, error_bars: as for `quantiles`.
    Returns:
        An aggregate for `agg`, with one output in the column's unit.
    Raises:
        QueryError: the column is not a name, or a bound is missing.
        ParameterError: the bounds or `error_bars` are not valid.
    Source:
        As for `quantiles`.

    >>> max("docvis", lower=0, upper=60).ranks
    (0.99,)
    """
    return _make_quantiles(max, column, (EXTREMES["max"],), (), lower, upper, error_bars)


_RANK = "a number in [0, 1], such as 0.9; quantiles takes several"


def _rank(rank: object, name: str) -> float:
    (one,) = as_fractions([rank], name, _RANK)
    if not 0 <= one <= 1:
        raise ParameterError(name, rank, _RANK)
    return float(one)


def _make_quantiles(
    make: Callable[..., Aggregate],
    column: str,
    ranks: tuple[float, ...],
    arguments: tuple[tuple[str, Any], ...],
    lower: Number | None,
    upper: Number | None,
    error_bars: bool,
    scalar: bool = True,
) -> Aggregate:
    """Return the quantiles that a function asks for, at these ranks."""
    function = make.__name__
    name, bars = column_name(function, column), truth_value(error_bars, "error_bars")
    if lower is None and upper is None:
        return Unbounded(make, name, (*arguments, ("error_bars", bars)))
    low, high = get_bounds(function, name, lower, upper, arguments)
    return Quantiles(name, low, high, ranks, scalar, bars, function if function in EXTREMES else "")


# Rows are counted in steps of 2^-14, so that 64 bits hold counts of 2^49 rows.
EXPONENT = -14
# So many noisy counts at most, each with a weight from -1 to 1, are the rows left of the end of a leaf
# less a share of all rows.
_TREE_TERMS = HEIGHT * (BRANCHING - 1) + 2
_LEAF_SLACK = 2.0**-49
# How much of the noise below the first level is in the rows by which a walk is off: a sum of squared weights.
# Measured: benchmarks/coverage.py.
DEEPER = 5.0


@dataclass(frozen=True)
class QuantileEstimate(Estimate):
    """The estimate of a quantile from a noisy tree."""

    kind = "quantile"

    @property
    def has_standard_error(self) -> bool:
        """Whether a quantile has a standard error: it has none, as a walk ends in one place or another."""
        return False

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the quantile at which the walk down the noisy tree ended."""
        return self.lower + self._share(numbers) * (self.upper - self.lower)

    def _share(self, numbers: NoisyNumbers) -> Floats:
        """Return the quantile as a share of the range."""
        tree = numbers.trees[self.total]
        found: Floats = tree.values[:, tree.ranks.index(self.rank)]
        return found

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a quantile: quantiles at the ranks from which noise may have moved it.

        Where values are not evenly spread there, or the rank is near an end, it reaches to leaves surely
        below the quantile, and surely above.

        Source:
            Woodruff 1952, "Confidence intervals for medians and other position measures"; Cornish and Fisher
            1938, "Moments and cumulants in the specification of distributions", for sums of Laplace noise.
        """
        tree, rank, law = numbers.trees[self.total], self.rank, numbers.laws[self.total]
        # Of the rows left of a place, less the rank's share of all, a sum of noises is all that is wrong.
        error = NoiseSum([(1.0, law)] * _TREE_TERMS).tolerance(-math.log10(failure))
        target = (rank * tree.total)[:, None]
        low = _last_of_run(tree.below - target < -error, tree.low, 0.0)
        high = _last_of_run((tree.upto - target > error)[:, ::-1], tree.high[:, ::-1], 1.0)
        first, z = np.floor(self._share(numbers) * BRANCHING), -NormalDist().inv_cdf(failure / 2)
        squares = first * (1 - rank) ** 2 + (BRANCHING - first) * rank**2 + DEEPER
        heavy = builtins.max(z**3 - 3 * z, 0.0) / 8 if isinstance(law, Laplace) else 0.0
        rows = law.standard_deviation * np.sqrt(squares) * (z + heavy / squares)
        off = rows / np.maximum(tree.total, 1.0)
        # Noise in empty nodes beyond the last value moves quantiles of ranks that are near the ends.
        inside = off < builtins.min(rank, 1 - rank)
        low = np.maximum(low, _at_rank(tree.low, np.where(inside, rank - off, -1.0)))
        high = np.minimum(high, 1 - _at_rank(1 - tree.high[:, ::-1], np.where(inside, 1 - rank - off, -1.0)))
        # A row's leaf is found in floats, so that it may lie a little outside.
        width, slack = self.upper - self.lower, _LEAF_SLACK * (abs(self.lower) + abs(self.upper))
        return Interval(
            np.maximum(self.lower + low * width - slack, self.lower),
            np.minimum(self.lower + high * width + slack, self.upper),
        )


def _last_of_run(sure: NDArray[np.bool_], ends: Floats, otherwise: float) -> Floats:
    """Return the end of the last leaf that is surely on one side of a quantile."""
    run = np.logical_and.accumulate(sure, axis=1).sum(axis=1)
    return np.where(run > 0, ends[np.arange(len(ends)), np.maximum(run - 1, 0)], otherwise)


def _at_rank(ends: Floats, ranks: Floats) -> Floats:
    """Return the ends of nodes at some ranks, from those at evenly spaced ones; 0 where they are not even."""
    steps = ends.shape[1] - 1
    place = np.clip(ranks, 0.0, 1.0) * steps
    at, groups = np.minimum(place.astype(np.int64), steps - 1), np.arange(len(ends))
    before, here, after, next_ = (ends[groups, np.clip(at + i, 0, steps)] for i in (-1, 0, 1, 2))
    even = (ranks > 0) & is_balanced(before, here, after) & is_balanced(here, after, next_)
    return np.where(even, here + (place - at) * (after - here), 0.0)


# The deviation of what rounding takes off a count, in steps; and a bound of what floats lose of any.
_ROUNDED, _LOST = 0.29, 2.0**-40


@dataclass(frozen=True)
class CdfQuantile(Estimate):
    """The estimate of a quantile from noisy cumulative counts of all values.

    Args:
        tree: of the blocks of values that have noise.
    """

    kind = "quantile"

    tree: Tree = Tree(1, (1,))

    @property
    def has_standard_error(self) -> bool:
        """Whether a quantile of noisy counts has a standard error: it has none, as it is a value."""
        return False

    @property
    def factors(self) -> dict[str, float]:
        """By how many rows a quantile is off, in deviations of the noise of a count."""
        return {self.total: self.tree.rank_error_near(self.rank)}

    def _excess_rows(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy rows up to each value, less the quantile's share of all rows."""
        upto = numbers.trees[self.total].upto
        found: Floats = upto - self.rank * np.maximum(upto[:, -1:], 0.0)
        return found

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the quantile: where the nearest rising cumulative counts reach the rank.

        Source:
            Barlow, Bartholomew, Bremner and Brunk 1972, "Statistical inference under order restrictions":
            the isotonic fit reaches 0 where sums up to there are least.
        """
        sums = np.cumsum(self._excess_rows(numbers)[:, :-1], axis=1)
        places = np.argmin(np.pad(sums, ((0, 0), (1, 0))), axis=1)
        return np.asarray(places + self.lower, np.float64)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a quantile: all values at which noise may have moved counts to the rank.

        Counts are first made to rise with the value, as exact ones do: by the mean of the largest count up to
        a value and the smallest from it on. What these are off has opposite signs and the same law, so that
        the mean is as near as the counts where rows are dense, and nearer where they are sparse.

        Source:
            Woodruff 1952 and Cornish and Fisher 1938, as for `QuantileEstimate`.
        """
        counts, law = self._excess_rows(numbers), numbers.laws[self.total]
        smallest = np.minimum.accumulate(counts[:, ::-1], axis=1)[:, ::-1]
        beyond = (np.maximum.accumulate(counts, axis=1) + smallest) / 2
        squares = self.tree.rank_variances(self.rank)
        z = -NormalDist().inv_cdf(failure / 2)
        heavy = builtins.max(z**3 - 3 * z, 0.0) / 8 if isinstance(law, Laplace) else 0.0
        # Counts are rounded, and floats lose a little.
        deviation = math.hypot(law.standard_deviation, _ROUNDED)
        reach = deviation * (z * np.sqrt(squares) + heavy / np.sqrt(squares + _ROUNDED))
        reach = reach + _LOST * np.abs(counts).max(axis=1, keepdims=True)
        value, places = self.value(numbers) - self.lower, np.arange(beyond.shape[1])
        low = np.where(beyond >= -reach, places, value[:, None]).min(axis=1)
        high = np.where((beyond <= reach)[:, :-1], places[1:], value[:, None]).max(axis=1)
        return Interval(self.lower + low, self.lower + high)


MAX_RANKS = 21
# Three places around a rank are off by amounts that have nothing to do with each other, their weighted mean
# by less than the middle one. It is taken where values between them are about evenly spread: at least so
# many times the rows that outer ones are aimed at are on either side of the rank, and one of them is at most
# so many times as far from the middle as the other.
MANY, EVENLY = 7.0, 8.0
# Where rows are not counted, one may be so many times as far.
EVENLY_UNCOUNTED = 2.0
# What the middle one counts for; the outer ones, which are farther off, have the rest in equal parts.
MIDDLE = 0.5
OUTER = (1 - MIDDLE) / 2
# Error bars follow from the law of three places where one outer place is so many times as far from the middle
# as the other at most.
BALANCED = 3.0


def is_balanced(first: Floats, middle: Floats, last: Floats, times: float = BALANCED) -> NDArray[np.bool_]:
    """Return whether the outer one of three places is at most so many times as far as the other one."""
    before, after = middle - first, last - middle
    return np.maximum(before, after) <= times * np.minimum(before, after)


@dataclass(frozen=True)
class ChosenQuantile(Estimate):
    """The estimate of a quantile by choice: the mean of three places, the middle one, or a single one.

    Args:
        at: which of the column's ranks it is.
        margin: the coordinate of rows by which the outer places are beyond the rank; empty where there is one
            place alone.
        finest: the smallest step of places.
    """

    kind = "quantile"

    at: int = 0
    margin: str = ""
    finest: float = 0.0

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The counts from which a quantile is chosen, and the margin of its error bar."""
        return (self.total, self.margin) if self.margin else (self.total,)

    @property
    def has_standard_error(self) -> bool:
        """Whether a chosen quantile has a standard error: it has none, as it is one of a few places."""
        return False

    def _places(self, numbers: NoisyNumbers) -> tuple[Floats, Floats, Floats]:
        places = numbers.chosen[self.total].places[:, self.at]
        return places[:, 0], places[:, places.shape[1] // 2], places[:, -1]

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the chosen quantile: the mean of three places if values are many, else the middle one."""
        first, middle, last = self._places(numbers)
        if not self.margin:
            return middle
        mean = first + MIDDLE * (middle - first) + OUTER * (last - first)
        return np.clip(np.where(self._evenly(numbers), mean, middle), first, last)

    def _evenly(self, numbers: NoisyNumbers) -> NDArray[np.bool_]:
        """Return whether values between the outer places are many, and about evenly spread."""
        first, middle, last = self._places(numbers)
        aimed = numbers.chosen[self.total].aimed
        times = EVENLY if self.count else EVENLY_UNCOUNTED
        # Where many rows have the same value two places are often the same, and their mean is no row's value.
        even = is_balanced(first, middle, last, times) & (first < last)
        return even & (numbers.values[self.margin] >= aimed / 2) & self._many(numbers, MANY)

    def _many(self, numbers: NoisyNumbers, times: float) -> NDArray[np.bool_]:
        """Return whether a rank has so many times the rows that places are aimed at, on both sides."""
        if not self.count:
            return np.ones(1, bool)
        least = times * numbers.chosen[self.total].aimed
        return self.counted(numbers) * builtins.min(self.rank, 1 - self.rank) >= least

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a quantile: from the law of its places where values are evenly spread.

        Elsewhere it reaches to the outer places, or to the bounds where the quantile may be beyond these.
        """
        first, middle, last = self._places(numbers)
        if not self.margin:
            return Interval(np.full_like(first, self.lower), np.full_like(last, self.upper))
        # A law that is symmetric fails on one side half as often.
        both = 2 * failure
        over = numbers.noises.tolerance({self.margin: np.ones(1)}, both) if both < 1 else 0.0
        between = numbers.values[self.margin] - over > 0
        low, high = np.where(between, first, self.lower), np.where(between, last, self.upper)
        chosen, value = numbers.chosen[self.total], self.value(numbers)
        near = between & is_balanced(first, middle, last) & self._many(numbers, 1.0)
        near &= numbers.values[self.margin] >= chosen.aimed / 2
        share = np.where(self._evenly(numbers), chosen.reach(failure, OUTER), chosen.reach(failure, 0.0))
        reach = np.where(near, share * (last - first), np.inf)
        least, most = value - reach, value + reach
        if self.whole:
            least, most = np.floor(least), np.ceil(most)
        low, high = np.maximum(low, least), np.minimum(high, most)
        # A value belongs to the nearest place, 2^-14 of its size away at most, or half of the finest step.
        return Interval(
            np.maximum(low - self._slack(low), self.lower), np.minimum(high + self._slack(high), self.upper)
        )

    def _slack(self, places: Floats) -> Floats:
        size = np.abs(places)
        if self.whole:  # below 2^14 every whole number is a place
            return np.where(size < 2.0**14, 0.0, size * 2.0**-13)
        return size * 2.0**-13 + self.finest
