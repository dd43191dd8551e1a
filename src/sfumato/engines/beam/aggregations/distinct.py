"""Numbers of different values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sfumato.engines.beam.aggregations.aggregation import Aggregation, Extract
from sfumato.engines.beam.callables import checked
from sfumato.engines.beam.values import NAN, NONE, written
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate
from sfumato.query.choices import DistinctMethod


class CountDistinct(Aggregation):
    """Count different values by key.

    Applied to what `MakePrivate` gives.

    Args:
        value: what is counted of a row, of the kinds that a key has; None, NaN and others are no values.
        values: a unit counts with at most so many different values in a group.
        method: "matching" or "shares", as of `sfumato.count_distinct`.
        options: as for `Aggregation`.
    Raises:
        QueryError: value is no function, or an option does not fit.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | CountDistinct(lambda row: row[1], values=2, **by_place)
    """

    _value_type = pa.string()

    def __init__(
        self, value: Extract, *, values: int, method: DistinctMethod = "matching", **options: Any
    ) -> None:
        self._value = checked("value", value)
        self._counted: dict[str, Any] = {"values": values, "method": method}
        super().__init__(**options)

    @staticmethod
    def _as_value(value: Any) -> Any:
        text = written(value)
        return None if text in (NONE, NAN) else text

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count_distinct("value", **self._counted)}
