"""Quantiles, also by the names of their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.engines.beam.aggregations.aggregation import Extract, several
from sfumato.engines.beam.aggregations.sums import OfValues
from sfumato.query import aggregates
from sfumato.query.aggregates import Aggregate, Number


class Quantile(OfValues):
    """Return the quantile of values by key, at one rank.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Quantile(lambda row: row[2], 0.9, lower=0, upper=50, rows=1, **by_place)
    """

    def __init__(self, value: Extract, rank: float, *, lower: Number, upper: Number, **options: Any) -> None:
        self._rank = rank
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.quantile("value", self._rank, **self._bounds)}


class Median(OfValues):
    """Return the median of values by key.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Median(lambda row: row[2], lower=0, upper=50, rows=1, **by_place)
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.median("value", **self._bounds)}


class Min(OfValues):
    """Return about the smallest value by key: the quantile of rank 0.01.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Min(lambda row: row[2], lower=0, upper=50, rows=1, **by_place)
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.min("value", **self._bounds)}


class Max(OfValues):
    """Return about the largest value by key: the quantile of rank 0.99.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Max(lambda row: row[2], lower=0, upper=50, rows=1, **by_place)
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.max("value", **self._bounds)}


class Quantiles(OfValues):
    """Return a tuple of quantiles of values by key, at the given ranks.

    Applied to what `MakePrivate` gives.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, MakePrivate
    >>> rows = beam.Pipeline() | beam.Create([("ann", "pool", 30.0)])
    >>> private = rows | MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> by_place = {"key": lambda row: row[1], "public_keys": ["pool"], "groups": 1, "epsilon": 1}
    >>> numbers = private | Quantiles(lambda row: row[2], [0.25, 0.75], lower=0, upper=50, rows=1, **by_place)
    """

    _result = staticmethod(several)

    def __init__(
        self, value: Extract, ranks: Sequence[float], *, lower: Number, upper: Number, **options: Any
    ) -> None:
        self._ranks = ranks
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.quantiles("value", list(self._ranks), **self._bounds)}
