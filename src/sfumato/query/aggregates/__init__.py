"""What can be asked of a group: `sf.count()`, `sf.sum(...)` and their kin, a module each."""

from sfumato.query.aggregates.aggregate import (
    Aggregate,
    BoundedAggregate,
    Number,
    Unbounded,
    checked_bounds,
)
from sfumato.query.aggregates.counts import CountPrivacyUnits, CountRows, count, count_units
from sfumato.query.aggregates.distinct import MOST_VALUES, CountDistinct, count_distinct
from sfumato.query.aggregates.moments import (
    Mean,
    StandardDeviation,
    Sum,
    Variance,
    mean,
    proportion,
    stddev,
    sum,
    variance,
)
from sfumato.query.aggregates.quantiles import Quantiles, max, median, min, quantile, quantiles
from sfumato.query.aggregates.series import Cumulative, cumulative
from sfumato.query.aggregates.vectors import VectorSum, vector_sum
from sfumato.query.aggregates.weighted import Weighted, Weights

# What users call, in the order in which messages name them.
FUNCTIONS = (
    *(count, count_units, count_distinct, sum, mean, proportion, variance, stddev),
    *(quantiles, quantile, median, min, max, cumulative, vector_sum),
)

__all__ = [
    "FUNCTIONS",
    "MOST_VALUES",
    "Aggregate",
    "BoundedAggregate",
    "CountDistinct",
    "CountPrivacyUnits",
    "CountRows",
    "Cumulative",
    "Mean",
    "Number",
    "Quantiles",
    "StandardDeviation",
    "Sum",
    "Unbounded",
    "Variance",
    "VectorSum",
    "Weighted",
    "Weights",
    "checked_bounds",
    "count",
    "count_distinct",
    "count_units",
    "cumulative",
    "max",
    "mean",
    "median",
    "min",
    "proportion",
    "quantile",
    "quantiles",
    "stddev",
    "sum",
    "variance",
    "vector_sum",
]
