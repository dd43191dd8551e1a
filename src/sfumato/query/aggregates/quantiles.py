"""Quantiles, also by the names of their ranks."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fractions, truth_value
from sfumato.names import helpful
from sfumato.query.aggregates.aggregate import (
    Aggregate,
    BoundedAggregate,
    Unbounded,
    bounds_of,
    column_name,
)
from sfumato.query.aggregates.called import remembered

# The ranks that are asked for in place of the smallest and the largest value.
EXTREMES = {"min": 0.01, "max": 0.99}


@dataclass(frozen=True, repr=False)
class Quantiles(BoundedAggregate):
    """Quantiles at the given ranks; `scalar` where one rank was asked as a number.

    Args:
        called: "min" or "max" where that was asked.
    """

    kind = "quantiles"

    ranks: tuple[float, ...]
    scalar: bool
    error_bars: bool = True
    called: str = ""

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return a name for each rank, or one for a rank that was given as a number."""
        return (name,) if self.scalar else tuple(f"{name}_{rank * 100:g}" for rank in self.ranks)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return which quantiles these are, the column and the bounds."""
        found = super().meaning(written)
        return f"quantile of rank {self.ranks[0]:g}{found.removeprefix(self.kind)}" if self.scalar else found

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


@helpful
@remembered
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
    Source:
        Proofs: of the tree docs/proofs/quantile_tree.md; of chosen places docs/proofs/joint_quantiles.md and
        docs/proofs/leaves.md.

    >>> quantiles("docvis", [0.25, 0.75], lower=0, upper=60).ranks
    (0.25, 0.75)
    """
    if not isinstance(ranks, Iterable) or isinstance(ranks, str):
        one = _rank(ranks, "ranks")
        return _of_ranks(quantiles, column, (one,), (("ranks", one),), lower, upper, error_bars)
    each = as_fractions(ranks, "ranks", "numbers in [0, 1]")
    if not all(0 <= rank <= 1 for rank in each) or not each or len(set(each)) < len(each):
        raise ParameterError("ranks", ranks, "at least one number in [0, 1], none of them twice")
    floats = tuple(map(float, each))
    return _of_ranks(quantiles, column, floats, (("ranks", floats),), lower, upper, error_bars, False)


@helpful
@remembered
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
    Source:
        as `quantiles`.

    >>> quantile("docvis", 0.9, lower=0, upper=60).ranks
    (0.9,)
    """
    one = _rank(rank, "rank")
    return _of_ranks(quantile, column, (one,), (("rank", one),), lower, upper, error_bars)


@helpful
@remembered
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
    Source:
        as `quantiles`.

    >>> median("docvis", lower=0, upper=60).ranks
    (0.5,)
    """
    return _of_ranks(median, column, (0.5,), (), lower, upper, error_bars)


@helpful
@remembered
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
    Source:
        as `quantiles`.

    >>> min("docvis", lower=0, upper=60).ranks
    (0.01,)
    """
    return _of_ranks(min, column, (EXTREMES["min"],), (), lower, upper, error_bars)


@helpful
@remembered
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
    Source:
        as `quantiles`.

    >>> max("docvis", lower=0, upper=60).ranks
    (0.99,)
    """
    return _of_ranks(max, column, (EXTREMES["max"],), (), lower, upper, error_bars)


_RANK = "a number in [0, 1], such as 0.9; several are asked for by quantiles"


def _rank(rank: object, name: str) -> float:
    (one,) = as_fractions([rank], name, _RANK)
    if not 0 <= one <= 1:
        raise ParameterError(name, rank, _RANK)
    return float(one)


def _of_ranks(
    make: Callable[..., Aggregate],
    column: str,
    ranks: tuple[float, ...],
    given: tuple[tuple[str, Any], ...],
    lower: Number | None,
    upper: Number | None,
    error_bars: bool,
    scalar: bool = True,
) -> Aggregate:
    """Return what a function asks for; `given` are the ranks as they were given to it, if they were."""
    function = make.__name__
    name, bars = column_name(function, column), truth_value(error_bars, "error_bars")
    if lower is None and upper is None:
        return Unbounded(make, name, (*given, ("error_bars", bars)))
    low, high = bounds_of(function, name, lower, upper, given)
    return Quantiles(name, low, high, ranks, scalar, bars, function if function in EXTREMES else "")
