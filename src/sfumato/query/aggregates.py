"""What can be asked of a group: `sf.count()`, `sf.sum(...)` and their kin."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from sfumato.errors import ParameterError, QueryError, shown
from sfumato.exact import as_fraction, as_fractions, one_of, positive_int, truth_value
from sfumato.query.choices import Bounded, DistinctMethod

Number = int | float | str | Fraction
# The ranks that are asked for in place of the smallest and the largest value.
EXTREMES = {"min": 0.01, "max": 0.99}
MOST_VALUES = 1_000_000


@dataclass(frozen=True)
class Aggregate:
    """Something that is asked of each group. Made by the functions of this module."""

    def note(self, name: str) -> str | None:
        """What whoever asks should know of an output of this name: that it is not quite what it is called."""
        return None


@dataclass(frozen=True)
class CountRows(Aggregate):
    """The number of rows, or of rows where `column` has a value."""

    column: str | None = None


@dataclass(frozen=True)
class CountPrivacyUnits(Aggregate):
    """The number of privacy units."""


@dataclass(frozen=True)
class CountDistinct(Aggregate):
    """The number of different values of a column, of which a unit brings at most `values`."""

    column: str
    values: int
    method: DistinctMethod


@dataclass(frozen=True)
class BoundedAggregate(Aggregate):
    """An aggregate of a column with bounds on its values."""

    column: str
    lower: Fraction
    upper: Fraction


@dataclass(frozen=True)
class Sum(BoundedAggregate):
    """A sum; `per` tells what the bounds bound: each "row", or each "unit" in a group."""

    per: Bounded | None = None


@dataclass(frozen=True)
class Mean(BoundedAggregate):
    """A mean."""


@dataclass(frozen=True)
class Variance(BoundedAggregate):
    """A variance (divided by the count, not the count less one)."""


@dataclass(frozen=True)
class StandardDeviation(BoundedAggregate):
    """The root of a variance."""


@dataclass(frozen=True)
class Quantiles(BoundedAggregate):
    """Quantiles at the given ranks; `scalar` where one rank was asked as a number.

    Args:
        called: "min" or "max" where that was asked.
    """

    ranks: tuple[float, ...]
    scalar: bool
    error_bars: bool = True
    called: str = ""

    def note(self, name: str) -> str | None:
        """Say which rank stands for the smallest or the largest value."""
        if self.called not in EXTREMES:
            return None
        end, side = ("smallest", "least") if self.called == "min" else ("largest", "most")
        (rank,) = self.ranks
        return (
            f"{name}: the {end} value of all is one row's and is not released; {self.called} is the quantile "
            f"of rank {rank:g}: {builtins.max(rank, 1 - rank):.0%} of the values are at {side} this."
        )


@dataclass(frozen=True)
class Unbounded(Aggregate):
    """An aggregate whose bounds are left to the catalog of its table; without one it cannot be asked.

    Args:
        function: its function in this module.
        column: whose bounds are to be taken.
        options: what else the function was given.
    """

    function: str
    column: str
    options: tuple[tuple[str, Any], ...] = ()

    def bounded(self, lower: Fraction, upper: Fraction) -> Aggregate:
        """Return the aggregate with bounds of each row."""
        options = dict(self.options) | ({"per": "row"} if self.function == "sum" else {})
        made: Aggregate = globals()[self.function](self.column, lower=lower, upper=upper, **options)
        return made

    def refusal(self, remedy: str = "") -> QueryError:
        """Say that bounds are missing."""
        return _missing(self.function, self.column, self.options, "lower and upper", remedy)


def names_of(name: str, aggregate: Aggregate) -> tuple[str, ...]:
    """Return the output columns of one aggregate."""
    if isinstance(aggregate, Quantiles) and not aggregate.scalar:
        return tuple(f"{name}_{rank * 100:g}" for rank in aggregate.ranks)
    return (name,)


def count(column: str | None = None) -> Aggregate:
    """Count rows, or rows in which `column` is not NULL and not NaN.

    Args:
        column: a column; all rows count without one.

    >>> count()
    CountRows(column=None)
    """
    return CountRows(_column("count", column) if column is not None else None)


def count_units() -> Aggregate:
    """Count privacy units (people): each counts once in each of its groups.

    >>> count_units()
    CountPrivacyUnits()
    """
    return CountPrivacyUnits()


def count_distinct(column: str, *, values: int, method: DistinctMethod = "matching") -> Aggregate:
    """Count the different values of a column that are not NULL and not NaN.

    Args:
        column: any column.
        values: a unit counts with at most so many different values in a group.
        method: "matching" counts as many values as can be, each brought by one unit. "shares" divides each
            unit among its rows: less is counted where units have more values than the limit, but it needs
            no look at all units of a group together, and takes a third of the time on large tables.
    Raises:
        QueryError: the column is no name.
        ParameterError: the limit is not a whole number from 1 to 1,000,000, or there is no such method.

    >>> count_distinct("product", values=3)
    CountDistinct(column='product', values=3, method='matching')

    Source:
        Knop and Steinke 2023, "Counting distinct elements under person-level differential privacy". Proof:
        docs/proofs/distinct.md.
    """
    if positive_int(values, "values") > MOST_VALUES:
        raise ParameterError("values", values, f"at most {MOST_VALUES:,}")
    one_of(method, "method", get_args(DistinctMethod))
    return CountDistinct(_column("count_distinct", column), values, method)


def sum(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    per: Bounded | None = None,
) -> Aggregate:
    """Add up a column.

    Args:
        column: a numeric column.
        lower, upper: bounds in the column's unit. They bound what each unit adds to a group (its
            exact sum is clamped), or with per="row" each row. Both may be left out, here and below, where
            the table is one of a catalog that declares bounds of the column; these bound each row.
        per: "unit" or "row". When left out it is "unit"; but where a mean or variance of the same
            column and bounds is asked with rows=1, the sum shares their numbers and is per row.
    Raises:
        QueryError: a bound is missing, not finite, or lower is not below upper.

    >>> sum("docvis", lower=0, upper=30)
    Sum(column='docvis', lower=Fraction(0, 1), upper=Fraction(30, 1), per=None)
    """
    if per is not None:
        one_of(per, "per", get_args(Bounded))
    if lower is None and upper is None:
        return Unbounded("sum", _column("sum", column), (("per", per),))
    return Sum(_column("sum", column), *_bounds("sum", column, lower, upper), per)


def mean(column: str, *, lower: Number | None = None, upper: Number | None = None) -> Aggregate:
    """Average a column whose rows are clamped to [lower, upper]."""
    if lower is None and upper is None:
        return Unbounded("mean", _column("mean", column))
    return Mean(_column("mean", column), *_bounds("mean", column, lower, upper))


def variance(column: str, *, lower: Number | None = None, upper: Number | None = None) -> Aggregate:
    """Return the population variance of a column whose rows are clamped to [lower, upper]."""
    if lower is None and upper is None:
        return Unbounded("variance", _column("variance", column))
    return Variance(_column("variance", column), *_bounds("variance", column, lower, upper))


def stddev(column: str, *, lower: Number | None = None, upper: Number | None = None) -> Aggregate:
    """Return the population standard deviation of a column whose rows are clamped to [lower, upper]."""
    if lower is None and upper is None:
        return Unbounded("stddev", _column("stddev", column))
    return StandardDeviation(_column("stddev", column), *_bounds("stddev", column, lower, upper))


def quantiles(
    column: str,
    ranks: Sequence[float] | float,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    error_bars: bool = True,
) -> Aggregate:
    """Return quantiles of a column within [lower, upper]: by a tree of noisy counts, or by chosen places.

    Args:
        column: a numeric column.
        ranks: numbers in [0, 1], or one such number. All ranks of one column share one tree,
            or with K-norm noise one choice.
        lower, upper: the range in which quantiles are looked for.
        error_bars: whether K-norm noise is to leave a part of the budget for them; without it they reach to
            the bounds, and all else has less noise. Other noise gives them in any case.
    Returns:
        An aggregate whose outputs are `name_25` for rank 0.25, and so on; `name` for one number.
    Raises:
        QueryError: the column is no name, or one of the bounds is missing.
        ParameterError: ranks, bounds or `error_bars` are not such; a rank stands twice.

    >>> quantiles("docvis", [0.25, 0.75], lower=0, upper=30).ranks
    (0.25, 0.75)
    """
    if not isinstance(ranks, Iterable) or isinstance(ranks, str):
        one = _rank(ranks, "ranks")
        return _of_ranks("quantiles", column, (one,), (("ranks", one),), lower, upper, error_bars)
    each = as_fractions(ranks, "ranks", "numbers in [0, 1]")
    if not all(0 <= rank <= 1 for rank in each) or not each or len(set(each)) < len(each):
        raise ParameterError("ranks", ranks, "at least one number in [0, 1], none of them twice")
    floats = tuple(map(float, each))
    return _of_ranks("quantiles", column, floats, (("ranks", floats),), lower, upper, error_bars, False)


def quantile(
    column: str,
    rank: float,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    error_bars: bool = True,
) -> Aggregate:
    """Return the quantile of a column at one rank: the value that a share of the values is at most.

    Args:
        column: a numeric column.
        rank: the share, a number in [0, 1].
        lower, upper, error_bars: as of `quantiles`.
    Raises:
        QueryError: the column is no name, or one of the bounds is missing.
        ParameterError: the rank, the bounds or `error_bars` are not such.

    >>> quantile("docvis", 0.9, lower=0, upper=30).ranks
    (0.9,)
    """
    one = _rank(rank, "rank")
    return _of_ranks("quantile", column, (one,), (("rank", one),), lower, upper, error_bars)


def median(
    column: str, *, lower: Number | None = None, upper: Number | None = None, error_bars: bool = True
) -> Aggregate:
    """Return the median of a column: the quantile of rank 0.5.

    Args:
        column: a numeric column.
        lower, upper, error_bars: as of `quantiles`.
    Raises:
        QueryError: the column is no name, or one of the bounds is missing.
        ParameterError: the bounds or `error_bars` are not such.

    >>> median("docvis", lower=0, upper=30).ranks
    (0.5,)
    """
    return _of_ranks("median", column, (0.5,), (), lower, upper, error_bars)


def min(
    column: str, *, lower: Number | None = None, upper: Number | None = None, error_bars: bool = True
) -> Aggregate:
    """Return about the smallest value of a column: the quantile of rank 0.01, and a note that says so.

    The smallest value of all is one row's, and is never released. For another rank near the end ask for
    `quantile`.

    Args:
        column: a numeric column.
        lower, upper, error_bars: as of `quantiles`.
    Raises:
        QueryError: the column is no name, or one of the bounds is missing.
        ParameterError: the bounds or `error_bars` are not such.

    >>> min("docvis", lower=0, upper=30).ranks
    (0.01,)
    """
    return _of_ranks("min", column, (EXTREMES["min"],), (), lower, upper, error_bars)


def max(
    column: str, *, lower: Number | None = None, upper: Number | None = None, error_bars: bool = True
) -> Aggregate:
    """Return about the largest value of a column: the quantile of rank 0.99, and a note that says so.

    The largest value of all is one row's, and is never released. For another rank near the end ask for
    `quantile`.

    Args:
        column: a numeric column.
        lower, upper, error_bars: as of `quantiles`.
    Raises:
        QueryError: the column is no name, or one of the bounds is missing.
        ParameterError: the bounds or `error_bars` are not such.

    >>> max("docvis", lower=0, upper=30).ranks
    (0.99,)
    """
    return _of_ranks("max", column, (EXTREMES["max"],), (), lower, upper, error_bars)


def _rank(rank: object, name: str) -> float:
    (one,) = as_fractions([rank], name, "a number in [0, 1]")
    if not 0 <= one <= 1:
        raise ParameterError(name, rank, "a number in [0, 1]")
    return float(one)


def _of_ranks(
    function: str,
    column: str,
    ranks: tuple[float, ...],
    given: tuple[tuple[str, Any], ...],
    lower: Number | None,
    upper: Number | None,
    error_bars: bool,
    scalar: bool = True,
) -> Aggregate:
    """Return what a function asks for; `given` are the ranks as they were given to it, if they were."""
    name, bars = _column(function, column), truth_value(error_bars, "error_bars")
    if lower is None and upper is None:
        return Unbounded(function, name, (*given, ("error_bars", bars)))
    low, high = _bounds(function, name, lower, upper, given)
    return Quantiles(name, low, high, ranks, scalar, bars, function if function in EXTREMES else "")


def _column(function: str, column: object) -> str:
    if not isinstance(column, str):
        raise QueryError(f"{function}: the column is {shown(column)}, but must be a column's name, as text")
    return column


def _bounds(
    function: str,
    column: str,
    lower: Number | None,
    upper: Number | None,
    given: tuple[tuple[str, Any], ...] = (),
) -> tuple[Fraction, Fraction]:
    if lower is None or upper is None:
        missing = " and ".join(n for n, v in (("lower", lower), ("upper", upper)) if v is None)
        raise _missing(function, column, given, missing)
    return checked_bounds(f"{function}({shown(column)})", lower, upper)


def _missing(
    function: str, column: str, given: tuple[tuple[str, Any], ...], missing: str, remedy: str = ""
) -> QueryError:
    ranks = "".join(f", {list(v) if isinstance(v, tuple) else v}" for n, v in given if n in ("rank", "ranks"))
    return QueryError(
        f"{function}({shown(column)}): {missing} missing. Without bounds no noise is enough; write "
        f"{function}({shown(column)}{ranks}, lower=..., upper=...) with a range that is known beforehand, "
        f"not read from the data{remedy}"
    )


def checked_bounds(what: str, lower: object, upper: object) -> tuple[Fraction, Fraction]:
    """Return exact bounds.

    Args:
        what: whose they are, for the error.
        lower, upper: numbers, as `as_fraction` takes them.
    Raises:
        ParameterError: one is no finite number, lower is not below upper, or float64 cannot tell them apart.
    """
    low, high = as_fraction(lower, f"{what} lower"), as_fraction(upper, f"{what} upper")
    if low >= high:
        raise ParameterError(f"{what} lower", lower, f"below upper, which is {shown(upper)}")
    # What float64 can still square, and tell apart.
    if builtins.max(abs(low), abs(high)) > 10**100 or high - low < Fraction(1, 10**100):
        raise ParameterError(f"{what} bounds", (lower, upper), "between 1e-100 and 1e100 in size")
    if (high - low) * 2**45 < builtins.max(abs(low), abs(high)):
        raise ParameterError(f"{what} bounds", (lower, upper), "further apart, or nearer to zero")
    return low, high
