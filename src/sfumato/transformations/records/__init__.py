"""Transformations of single records: vectors of values in; vectors and exact numbers out."""

from sfumato.transformations.records.bounded_sum import bounded_sum
from sfumato.transformations.records.cast import cast
from sfumato.transformations.records.clamp import clamp
from sfumato.transformations.records.column import column
from sfumato.transformations.records.count import count, count_by_categories, histogram
from sfumato.transformations.records.impute import impute
from sfumato.transformations.records.mean import mean
from sfumato.transformations.records.variance import covariance, variance

__all__ = [
    "bounded_sum",
    "cast",
    "clamp",
    "column",
    "count",
    "count_by_categories",
    "covariance",
    "histogram",
    "impute",
    "mean",
    "variance",
]
