"""Sums, means and variances of values within bounds."""

from __future__ import annotations

from typing import Any

from sfumato.engines.beam.aggregations.aggregation import Aggregation, Extract
from sfumato.engines.beam.callables import checked
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate, Number
from sfumato.query.choices import Bounded


class OfValues(Aggregation):
    """An aggregation of values within bounds.

    Args:
        value: the number of a row; None, NaN and what is no number add nothing.
        lower, upper: bounds that are known beforehand, not read from the data.
        options: as for `Aggregation`.
    """

    def __init__(self, value: Extract, *, lower: Number, upper: Number, **options: Any) -> None:
        self._value = checked("value", value)
        self._bounds: dict[str, Any] = {"lower": lower, "upper": upper}
        super().__init__(**options)


class Sum(OfValues):
    """Add up values by key; the bounds are of what a unit adds to a group, or with per="row" of each row.

    Applied to what `MakePrivate` gives.

    With weights they are of each row.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Sum(lambda row: row[2], lower=0, upper=50, **by_place)
    """

    _takes_weights = True

    def __init__(
        self, value: Extract, *, lower: Number, upper: Number, per: Bounded = "unit", **options: Any
    ) -> None:
        self._per = per
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        per: Any = None if self._weights and self._per == "unit" else self._per
        return {"n": aggregates.sum("value", per=per, **self._bounds, **self._weights)}


class Mean(OfValues):
    """Average values by key; each is clamped to the bounds.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Mean(lambda row: row[2], lower=0, upper=50, rows=1, **by_place)
    """

    _takes_weights = True

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.mean("value", **self._bounds, **self._weights)}


class Variance(OfValues):
    """Return the population variance of values by key; each is clamped to the bounds.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Variance(lambda row: row[2], lower=0, upper=50, rows=1, **by_place)
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.variance("value", **self._bounds)}
