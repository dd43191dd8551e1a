"""Sums, means and variances of values within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sfumato.exact import one_of
from sfumato.query.aggregates.aggregate import (
    Aggregate,
    BoundedAggregate,
    Number,
    Unbounded,
    bounds_of,
    column_name,
)
from sfumato.query.choices import Bounded


@dataclass(frozen=True)
class Sum(BoundedAggregate):
    """A sum; `per` tells what the bounds bound: each "row", or each "unit" in a group."""

    kind = "sum"

    per: Bounded | None = None

    @property
    def needs_rows(self) -> bool:
        """Bounds are of what a unit adds, unless they are of each row."""
        return self.per == "row"


@dataclass(frozen=True)
class Mean(BoundedAggregate):
    """A mean."""

    kind = "mean"


@dataclass(frozen=True)
class Variance(BoundedAggregate):
    """A variance (divided by the count, not the count less one)."""

    kind = "variance"


@dataclass(frozen=True)
class StandardDeviation(BoundedAggregate):
    """The root of a variance."""

    kind = "standard deviation"


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
        return Unbounded(sum, column_name("sum", column), (("per", per),))
    return Sum(column_name("sum", column), *bounds_of("sum", column, lower, upper), per)


def mean(column: str, *, lower: Number | None = None, upper: Number | None = None) -> Aggregate:
    """Average a column whose rows are clamped to [lower, upper]."""
    if lower is None and upper is None:
        return Unbounded(mean, column_name("mean", column))
    return Mean(column_name("mean", column), *bounds_of("mean", column, lower, upper))


def variance(column: str, *, lower: Number | None = None, upper: Number | None = None) -> Aggregate:
    """Return the population variance of a column whose rows are clamped to [lower, upper]."""
    if lower is None and upper is None:
        return Unbounded(variance, column_name("variance", column))
    return Variance(column_name("variance", column), *bounds_of("variance", column, lower, upper))


def stddev(column: str, *, lower: Number | None = None, upper: Number | None = None) -> Aggregate:
    """Return the population standard deviation of a column whose rows are clamped to [lower, upper]."""
    if lower is None and upper is None:
        return Unbounded(stddev, column_name("stddev", column))
    return StandardDeviation(column_name("stddev", column), *bounds_of("stddev", column, lower, upper))
