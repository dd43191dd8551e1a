"""Releases in Apache Beam pipelines: `rows | sfumato.beam.Release(question, epsilon=..., delta=...)`.

Needs the extra: `pip install 'sfumato[beam]'`.
"""

from sfumato.engines.beam.aggregations import Count, CountUnits, Mean, Quantiles, SelectGroups, Sum, Variance
from sfumato.engines.beam.budget import Budget
from sfumato.engines.beam.private import MakePrivate, PrivateCollection
from sfumato.engines.beam.release import Release

__all__ = [
    "Budget",
    "Count",
    "CountUnits",
    "MakePrivate",
    "Mean",
    "PrivateCollection",
    "Quantiles",
    "Release",
    "SelectGroups",
    "Sum",
    "Variance",
]
