"""Numbers of rows and of units, and groups alone."""

from __future__ import annotations

from typing import Any

from sfumato.engines.beam.aggregations.aggregation import Aggregation, Extract
from sfumato.engines.beam.engine import SHARDS
from sfumato.engines.beam.values import read
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate
from sfumato.query.choices import Amount


class Count(Aggregation):
    """Count rows by key; with weights the population that they stand for.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Count(rows=1, **by_place)
    """

    _takes_weights = True

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count(**self._weights)}


class CountUnits(Aggregation):
    """Count units (people) by key; each counts once in each of its groups.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | CountUnits(**by_place)
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count_units()}


class SelectGroups(Aggregation):
    """Choose keys that enough units have; gives the keys alone.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1, delta=1e-6), unit=lambda row: row[0])
    >>> places = private | SelectGroups(lambda row: row[1], groups=1, epsilon=1, delta=5e-7)
    """

    def __init__(
        self, key: Extract, *, groups: int, epsilon: Amount, delta: Amount, shards: int = SHARDS
    ) -> None:
        super().__init__(key=key, groups=groups, epsilon=epsilon, delta=delta, shards=shards)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count_units()}

    @staticmethod
    def _result(row: dict[str, Any]) -> Any:
        return read(row["key"])
