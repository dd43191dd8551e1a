"""Sums and means of vectors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sfumato.engines.beam.aggregations.aggregation import Aggregation, Extract
from sfumato.engines.beam.callables import checked
from sfumato.engines.beam.plain import plain
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate, Number
from sfumato.query.choices import Bounded, VectorNorm


class VectorSum(Aggregation):
    """Add up vectors by key; gives lists.

    Applied to what `MakePrivate` gives.

    Args:
        value: the vector of a row, a list, tuple or array of numbers; what is no such, or has another length,
            adds nothing.
        length, bound, norm, per: as of `sfumato.vector_sum`.
        options: as for `Aggregation`.
    Raises:
        QueryError: value is no function, or an option does not fit.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | VectorSum(lambda row: [row[2], 1.0], length=2, bound=50, **by_place)
    """

    _value_type = pa.list_(pa.float64())

    def __init__(
        self,
        value: Extract,
        *,
        length: int,
        bound: Number,
        norm: VectorNorm = "l2",
        per: Bounded = "unit",
        **options: Any,
    ) -> None:
        self._value = checked("value", value)
        self._asked: dict[str, Any] = {"length": length, "bound": bound, "norm": norm, "per": per}
        super().__init__(**options)

    @staticmethod
    def _as_value(value: Any) -> Any:
        return plain(value, pa.list_(pa.float64()))

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.vector_sum("value", **self._asked)}


class VectorMean(VectorSum):
    """Average vectors by key, over the rows that have one; gives lists.

    Applied to what `MakePrivate` gives.

    Args:
        value: as of `VectorSum`.
        length, bound, norm: as of `sfumato.vector_mean`.
        options: as for `Aggregation`.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | VectorMean(lambda row: [row[2], 1.0], length=2, bound=50, rows=1, **by_place)
    """

    def __init__(
        self, value: Extract, *, length: int, bound: Number, norm: VectorNorm = "l2", **options: Any
    ) -> None:
        super().__init__(value, length=length, bound=bound, norm=norm, per="row", **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        asked = {name: given for name, given in self._asked.items() if name != "per"}
        return {"n": aggregates.vector_mean("value", **asked)}
