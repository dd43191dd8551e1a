"""What can be asked of a private collection: `Count`, `Sum` and their kin, a module each."""

from sfumato.engines.beam.aggregations.aggregation import Aggregation
from sfumato.engines.beam.aggregations.bins import Histogram, ValueCounts
from sfumato.engines.beam.aggregations.counts import Count, CountUnits, SelectGroups
from sfumato.engines.beam.aggregations.distinct import CountDistinct
from sfumato.engines.beam.aggregations.largest import TopGroups
from sfumato.engines.beam.aggregations.quantiles import Max, Median, Min, Quantile, Quantiles
from sfumato.engines.beam.aggregations.strata import StratifiedProportion
from sfumato.engines.beam.aggregations.sums import Mean, Sum, Variance
from sfumato.engines.beam.aggregations.vectors import VectorMean, VectorSum

__all__ = [
    "Aggregation",
    "Count",
    "CountDistinct",
    "CountUnits",
    "Histogram",
    "Max",
    "Mean",
    "Median",
    "Min",
    "Quantile",
    "Quantiles",
    "SelectGroups",
    "StratifiedProportion",
    "Sum",
    "TopGroups",
    "ValueCounts",
    "Variance",
    "VectorMean",
    "VectorSum",
]
