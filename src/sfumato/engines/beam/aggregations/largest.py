"""The largest groups alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from sfumato.engines.beam.aggregations.aggregation import Aggregation, Extract
from sfumato.engines.beam.callables import checked
from sfumato.engines.beam.engine import SHARDS
from sfumato.engines.beam.top import PlannedTop
from sfumato.engines.beam.values import read
from sfumato.errors import QueryError
from sfumato.query import aggregates
from sfumato.query.aggregates import Number
from sfumato.query.choices import Amount
from sfumato.query.table import Table
from sfumato.query.top.plan import TopPlan


class TopGroups(Aggregation):
    """Draw the k largest groups, by units or by a sum; a unit may be in any number of groups.

    Applied to what `MakePrivate` gives.

    It gives (key, (rank, number)), or (key, rank) with counts=False.

    Args:
        key, epsilon, delta, public_keys, shards: as for `Aggregation`.
        k: how many.
        value: the number of a row, by whose sum groups are large; None for units.
        lower, upper: bounds of what a unit adds to a group.
        candidates, counts: as of `Table.top` and `Top.release`.
    Raises:
        QueryError: an option does not fit, or bounds are given of no value.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1, delta=1e-6), unit=lambda row: row[0])
    >>> places = private | TopGroups(lambda row: row[1], k=3, epsilon=1, delta=5e-7)
    """

    def __init__(
        self,
        key: Extract,
        *,
        k: int,
        epsilon: Amount,
        delta: Amount = 0,
        value: Extract | None = None,
        lower: Number | None = None,
        upper: Number | None = None,
        public_keys: Iterable[Any] | beam.PCollection[Any] | None = None,
        candidates: int | None = None,
        counts: bool = True,
        shards: int = SHARDS,
    ) -> None:
        if value is not None:
            self._value = checked("value", value)
        elif (lower, upper) != (None, None):
            raise QueryError("TopGroups: lower and upper are of value=..., which is not given")
        self._bounds: dict[str, Any] = {"lower": lower, "upper": upper}
        self._k, self._candidates, self._counts = k, candidates, counts
        super().__init__(key=key, public_keys=public_keys, epsilon=epsilon, delta=delta, shards=shards)

    def _plan_of(self, public_keys: Iterable[Any] | beam.PCollection[Any] | None, *unused: Any) -> TopPlan:
        self._question = Table(self._engine, "unit").top(
            "key",
            k=self._k,
            by=None if self._value is None else self._aggregates()["n"],
            keys=self._keys(public_keys),
            candidates=self._candidates,
        )
        return self._question.plan(**self._spends, counts=self._counts)

    def _aggregates(self) -> dict[str, Any]:
        if self._value is None:
            return {"n": aggregates.count_units()}
        return {"n": aggregates.sum("value", **self._bounds)}

    def _release(self) -> PlannedTop:
        return self._engine.top(self._question, self._plan, shards=self._shards, secret=self._secret)

    @staticmethod
    def _result(row: dict[str, Any]) -> Any:
        rank, key, *number = row.values()
        return read(key), (rank, *number) if number else rank
