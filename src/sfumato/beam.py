"""Releases in Apache Beam pipelines: `rows | sfumato.beam.Release(question, epsilon=..., delta=...)`.

Needs the extra: `pip install 'sfumato[beam]'`.
"""

from typing import TYPE_CHECKING

from sfumato.budget import Budget
from sfumato.engines.beam.aggregations import (
    Count,
    CountDistinct,
    CountUnits,
    Histogram,
    Max,
    Mean,
    Median,
    Min,
    Quantile,
    Quantiles,
    SelectGroups,
    StratifiedProportion,
    Sum,
    TopGroups,
    ValueCounts,
    Variance,
    VectorMean,
    VectorSum,
)
from sfumato.engines.beam.engine import named
from sfumato.engines.beam.private import MakePrivate, PrivateCollection
from sfumato.engines.beam.question import Release
from sfumato.engines.secret import CallableSecret, EnvironmentSecret, FileSecret
from sfumato.names import face

__all__ = [
    "Budget",
    "CallableSecret",
    "Count",
    "CountDistinct",
    "CountUnits",
    "EnvironmentSecret",
    "FileSecret",
    "Histogram",
    "MakePrivate",
    "Max",
    "Mean",
    "Median",
    "Min",
    "PrivateCollection",
    "Quantile",
    "Quantiles",
    "Release",
    "SelectGroups",
    "StratifiedProportion",
    "Sum",
    "TopGroups",
    "ValueCounts",
    "Variance",
    "VectorMean",
    "VectorSum",
    "named",
]

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("beam", __all__)
