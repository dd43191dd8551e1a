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

    Applied to what `MakePrivate` gives, which has an example.
    """

    def __init__(self, value: Extract, rank: float, *, lower: Number, upper: Number, **options: Any) -> None:
        self._rank = rank
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.quantile("value", self._rank, **self._bounds)}


class Median(OfValues):
    """Return the median of values by key.

    Applied to what `MakePrivate` gives, which has an example.
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.median("value", **self._bounds)}


class Min(OfValues):
    """Return about the smallest value by key: the quantile of rank 0.01.

    Applied to what `MakePrivate` gives, which has an example.
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.min("value", **self._bounds)}


class Max(OfValues):
    """Return about the largest value by key: the quantile of rank 0.99.

    Applied to what `MakePrivate` gives, which has an example.
    """

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.max("value", **self._bounds)}


class Quantiles(OfValues):
    """Return a tuple of quantiles of values by key, at the given ranks.

    Applied to what `MakePrivate` gives, which has an example.
    """

    _result = staticmethod(several)

    def __init__(
        self, value: Extract, ranks: Sequence[float], *, lower: Number, upper: Number, **options: Any
    ) -> None:
        self._ranks = ranks
        super().__init__(value, lower=lower, upper=upper, **options)

    def _aggregates(self) -> dict[str, Aggregate]:
        return {"n": aggregates.quantiles("value", list(self._ranks), **self._bounds)}
