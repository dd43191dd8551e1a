"""The SQL form of each statistic that adds up numbers: by pair of a unit and a group, then by group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.engines.duckdb.forms import counts, cross, sums, vectors, weighted
from sfumato.engines.duckdb.forms.values import Part, Values, after
from sfumato.transformations import (
    Count,
    CountUnits,
    CrossMoments,
    Moments,
    Statistic,
    UnitSum,
    VectorCount,
    VectorSum,
    WeightedSum,
)

__all__ = ["FORMS", "Part", "Values", "after"]

FORMS: dict[type[Statistic], Callable[[Values, Any], list[Part]]] = {
    CountUnits: counts.units,
    Count: counts.rows,
    UnitSum: sums.unit_sum,
    Moments: sums.moments,
    CrossMoments: cross.cross_moments,
    WeightedSum: weighted.weighted_sum,
    VectorCount: vectors.vector_count,
    VectorSum: vectors.vector_sum,
}
