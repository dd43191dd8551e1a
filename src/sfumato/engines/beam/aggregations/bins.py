"""Numbers in bins of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from sfumato.engines.beam.aggregations.aggregation import Aggregation, Extract, several
from sfumato.engines.beam.callables import checked
from sfumato.engines.beam.values import KINDS, NAN, NONE, written
from sfumato.errors import ParameterError
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate, Number
from sfumato.query.choices import Bounded


class Histogram(Aggregation):
    """Return a tuple of the numbers of rows, or units, between edges, by key.

    Applied to what `MakePrivate` gives.

    Args:
        value: the number of a row; None, NaN and what is no number are in no bin.
        edges, outside, per, shares: as of `sfumato.histogram`.
        options: as for `Aggregation`.
    Raises:
        QueryError: value is no function, or an option does not fit.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Histogram(lambda row: row[2], [0, 20, 50], rows=1, **by_place)
    """

    _takes_weights = True
    _result = staticmethod(several)

    def __init__(
        self,
        value: Extract,
        edges: Sequence[Number],
        *,
        outside: Literal["drop", "count"] = "drop",
        per: Bounded = "row",
        shares: bool = False,
        **options: Any,
    ) -> None:
        self._value = checked("value", value)
        self._bins = partial(aggregates.histogram, "value", edges, outside=outside, per=per, shares=shares)
        super().__init__(**options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": self._bins(**self._weights)}


class ValueCounts(Aggregation):
    """Return a tuple of the numbers of rows, or units, with each value of a list, by key.

    Applied to what `MakePrivate` gives.

    Args:
        value: what is counted of a row, of the kinds that a key has; None, NaN and others are no values.
        values: a public list of such values.
        other, per, shares: as of `sfumato.value_counts`.
        options: as for `Aggregation`.
    Raises:
        ParameterError: a value of the list is of none of these kinds.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | ValueCounts(lambda row: row[1], ["pool", "library"], rows=1, **by_place)
    """

    _takes_weights = True
    _value_type = pa.string()
    _result = staticmethod(several)

    def __init__(
        self,
        value: Extract,
        values: Iterable[Any],
        *,
        other: bool = False,
        per: Bounded = "row",
        shares: bool = False,
        **options: Any,
    ) -> None:
        self._value = checked("value", value)
        try:
            texts = [self._as_value(one) for one in values]
        except (TypeError, ValueError):
            texts = [None]
        if None in texts:
            raise ParameterError("values", values, f"a list of values: {KINDS}")
        self._bins = partial(aggregates.value_counts, "value", texts, other=other, per=per, shares=shares)
        super().__init__(**options)

    @staticmethod
    def _as_value(value: Any) -> Any:
        text = written(value)
        return None if text in (NONE, NAN) else text

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": self._bins(**self._weights)}
