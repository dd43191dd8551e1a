"""Aggregates: for each its Python call with checks, its estimates from noisy statistics, and error bars."""

from collections.abc import Iterable

from sfumato.errors import QueryError, shown
from sfumato.exact import Number
from sfumato.names import foreign_names
from sfumato.query.aggregates.aggregate import (
    AUTO,
    Aggregate,
    BoundedAggregate,
    Unbounded,
    check_bounds,
)
from sfumato.query.aggregates.automatic_bounds import LARGEST_MAGNITUDE, Automatic, Filled
from sfumato.query.aggregates.counting import (
    MAX_VALUES,
    CountDistinct,
    CountPrivacyUnits,
    CountRows,
    count,
    count_distinct,
    count_units,
)
from sfumato.query.aggregates.cumulative_totals import Cumulative, cumulative
from sfumato.query.aggregates.derived_outputs import (
    Combination,
    Derived,
    Difference,
    Ratio,
    WeightedSum,
    difference,
    ratio,
)
from sfumato.query.aggregates.estimate import Estimate
from sfumato.query.aggregates.histograms import MAX_BINS, InBins, histogram, value_counts
from sfumato.query.aggregates.quantile_aggregates import Quantiles, max, median, min, quantile, quantiles
from sfumato.query.aggregates.regression import (
    MAX_EXPLAINING,
    Correlation,
    Covariance,
    LinearRegression,
    OfColumns,
    correlation,
    covariance,
    linear_regression,
)
from sfumato.query.aggregates.stratified_proportion import Stratified
from sfumato.query.aggregates.sum_mean_variance import (
    Mean,
    StandardDeviation,
    Sum,
    Variance,
    count_if,
    mean,
    proportion,
    stddev,
    sum,
    variance,
)
from sfumato.query.aggregates.vector_aggregates import VectorMean, VectorSum, vector_mean, vector_sum
from sfumato.query.aggregates.weighted_aggregates import Weighted, Weights

# What users call, in the order in which messages name them.
FUNCTIONS = (
    *(count, count_if, count_units, count_distinct, sum, mean, proportion, variance, stddev),
    *(quantiles, quantile, median, min, max, ratio, difference, cumulative, vector_sum, vector_mean),
    *(histogram, value_counts),
    *(covariance, correlation, linear_regression),
)


def check_aggregates(aggregates: Iterable[tuple[str, object]]) -> None:
    """Check that all values given to `agg` are aggregates.

    Raises:
        QueryError: one is not.
    """
    for name, aggregate in aggregates:
        if not isinstance(aggregate, Aggregate):
            raise QueryError(
                f"agg: {name} is {shown(aggregate)}, which is not a private aggregate; {_instead(aggregate)}"
            )


def _instead(value: object) -> str:
    """Return what to write in place of a value that is no aggregate."""
    called = value if isinstance(value, str) else getattr(value, "__name__", "")
    known = {function.__name__ for function in FUNCTIONS}
    ours = called if called in known else foreign_names.AGGREGATES.get(called)
    if ours is not None:
        return f"write {foreign_names.example(ours)}"
    *first, last = (function.__name__ for function in FUNCTIONS)
    return f"there are {', '.join(first)} and {last}"


__all__ = [
    "AUTO",
    "FUNCTIONS",
    "LARGEST_MAGNITUDE",
    "MAX_BINS",
    "MAX_EXPLAINING",
    "MAX_VALUES",
    "Aggregate",
    "Automatic",
    "BoundedAggregate",
    "Combination",
    "Correlation",
    "CountDistinct",
    "CountPrivacyUnits",
    "CountRows",
    "Covariance",
    "Cumulative",
    "Derived",
    "Difference",
    "Estimate",
    "Filled",
    "InBins",
    "LinearRegression",
    "Mean",
    "Number",
    "OfColumns",
    "Quantiles",
    "Ratio",
    "StandardDeviation",
    "Stratified",
    "Sum",
    "Unbounded",
    "Variance",
    "VectorMean",
    "VectorSum",
    "Weighted",
    "WeightedSum",
    "Weights",
    "check_aggregates",
    "check_bounds",
    "correlation",
    "count",
    "count_distinct",
    "count_if",
    "count_units",
    "covariance",
    "cumulative",
    "difference",
    "histogram",
    "linear_regression",
    "max",
    "mean",
    "median",
    "min",
    "proportion",
    "quantile",
    "quantiles",
    "ratio",
    "stddev",
    "sum",
    "value_counts",
    "variance",
    "vector_mean",
    "vector_sum",
]
