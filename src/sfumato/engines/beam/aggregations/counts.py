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

    Applied to what `MakePrivate` gives, which has an example.
    """

    _takes_weights = True

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count(**self._weights)}


class CountUnits(Aggregation):
    """Count units (people) by key; each counts once in each of its groups.

    Applied to what `MakePrivate` gives, which has an example.
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.count_units()}


class SelectGroups(Aggregation):
    """Choose keys that enough units have; gives the keys alone.

    Applied to what `MakePrivate` gives, which has an example.
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
