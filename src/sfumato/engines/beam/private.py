"""Private collections: rows whose units are known to the collection, and not to what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam

from sfumato.budget import Budget
from sfumato.engines.beam.aggregations import Aggregation
from sfumato.engines.beam.callables import checked, forgiving, sealed_apart
from sfumato.engines.beam.once import Stays
from sfumato.engines.beam.opaque import PrivateRow
from sfumato.engines.beam.release import check_collection
from sfumato.engines.beam.values import NONE, written
from sfumato.engines.secret import Secret
from sfumato.errors import ParameterError, QueryError, shown


class MakePrivate(Stays, beam.PTransform[Any, Any]):  # type: ignore[misc]
    """Make a collection private: `rows | MakePrivate(budget=Budget(...), unit=lambda row: row.user)`.

    Args:
        budget: what all aggregations of the private collection draw on; may be shared by several.
        unit: tells whose a row is. Rows where it is None, or raises, or gives something other than text,
            an int or float, bytes, a date, a UUID or a tuple of these, are dropped.
        secret: where workers find the secret of the noise, as for `sfumato.beam.Release`.
    Raises:
        ParameterError: budget is no `Budget`, or unit is no function.
        QueryError: secret is none of the places where one is found.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, Count
    >>> budget = Budget(epsilon=1)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = pipeline | beam.Create([("ann", "pool"), ("bob", "library")])
    ...     private = rows | MakePrivate(budget=budget, unit=lambda row: row[0])
    ...     by_place = {"key": lambda row: row[1], "public_keys": ["pool"]}
    ...     counts = private | Count(epsilon=1, groups=1, rows=1, **by_place)
    ...     _ = counts | beam.Keys() | beam.Map(print)
    pool
    >>> budget.remaining.epsilon
    0.0
    """

    def __init__(self, *, budget: Budget, unit: Callable[[Any], Any], secret: Secret | None = None) -> None:
        super().__init__()
        if not isinstance(budget, Budget):
            raise ParameterError("budget", budget, "a Budget(epsilon=..., delta=...)")
        self._budget, self._unit, self._secret = budget, checked("unit", unit), sealed_apart(secret)

    def expand(self, rows: beam.PCollection[Any]) -> PrivateCollection:
        """Return the private collection."""
        check_collection(rows)
        unit = self._unit

        def owned(row: Any) -> list[PrivateRow]:
            owner = written(unit(row))
            return [] if owner == NONE else [PrivateRow(owner, row)]

        units = beam.FlatMap(forgiving(owned)).with_output_types(PrivateRow)
        return PrivateCollection(rows | "Units" >> units, self._budget, self._secret, (rows,))


class PrivateCollection:
    """Rows that leave only through aggregations. Made by `MakePrivate`.

    What is done to it is done to one row at a time, and does not see whose the row is. A callable must
    depend on its row alone: one that counts rows, or that remembers them, undoes the guarantee. One that
    raises drops its row.

    >>> import apache_beam as beam
    >>> from sfumato.beam import Budget, Count, MakePrivate
    >>> of_person = MakePrivate(budget=Budget(epsilon=1), unit=lambda row: row[0])
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     may = pipeline | "May" >> beam.Create([("ann", "Pool Library"), ("bob", None)]) | "1" >> of_person
    ...     june = pipeline | "June" >> beam.Create([("ann", "Library")]) | "2" >> of_person
    ...     visits = may.union(june).map(lambda row: row[1]).filter(lambda places: places is not None)
    ...     places = visits.flat_map(str.split).map(str.lower)
    ...     by_place = {"key": lambda place: place, "public_keys": ["pool"]}
    ...     counts = places | Count(epsilon=1, groups=1, rows=1, **by_place)
    ...     _ = counts | beam.Keys() | beam.Map(print)
    pool
    """

    def __init__(
        self,
        owned: beam.PCollection[PrivateRow],
        budget: Budget,
        secret: Secret | None = None,
        before: tuple[beam.PCollection[Any], ...] = (),
    ) -> None:
        self._owned, self._budget, self._secret = owned, budget, secret
        # All collections of private rows that lead here.
        self._private = (*before, owned)

    def map(self, function: Callable[[Any], Any], label: str | None = None) -> PrivateCollection:
        """Replace each row by what the function returns.

        Args:
            function: of a row.
            label: of the step, in Beam's graph.
        Returns:
            The private collection of what it returns.
        Raises:
            ParameterError: it is no function.
        """
        checked("map", function)
        return self._each(lambda row: (function(row),), label or _label("Map", function))

    def filter(self, condition: Callable[[Any], bool], label: str | None = None) -> PrivateCollection:
        """Keep the rows for which the function returns a true value.

        Args:
            condition: a function of a row.
            label: of the step, in Beam's graph.
        Returns:
            The private collection of these rows.
        Raises:
            ParameterError: it is no function.
        """
        checked("filter", condition)
        return self._each(lambda row: (row,) if condition(row) else (), label or _label("Filter", condition))

    def flat_map(
        self, function: Callable[[Any], Iterable[Any]], label: str | None = None
    ) -> PrivateCollection:
        """Replace each row by the rows that the function returns; all are of the same unit.

        Args:
            function: of a row; it returns rows.
            label: of the step, in Beam's graph.
        Returns:
            The private collection of these rows.
        Raises:
            ParameterError: it is no function.
        """
        checked("flat_map", function)
        return self._each(function, label or _label("FlatMap", function))

    def union(self, other: PrivateCollection, label: str = "Union") -> PrivateCollection:
        """Add the rows of another private collection, whose equal units are the same units.

        Args:
            other: a private collection of the same budget.
            label: of the step, in Beam's graph.
        Returns:
            The private collection of the rows of both.
        Raises:
            QueryError: the two draw on two budgets, or find the secret of their noise in two places.
        """
        if not isinstance(other, PrivateCollection):
            raise ParameterError("union", type(other).__name__, "what MakePrivate gives")
        if other._budget is not self._budget or other._secret != self._secret:
            raise QueryError(
                "union: rows of both are in one answer, which one budget pays for; give both the same "
                "Budget, and the same secret: MakePrivate(budget=budget, unit=...)"
            )
        rows = (self._owned, other._owned) | label >> beam.Flatten().with_output_types(PrivateRow)
        return PrivateCollection(rows, self._budget, self._secret, self._private + other._private)

    def __or__(self, aggregation: Aggregation) -> beam.PCollection[Any]:
        """Apply an aggregation; a label may be given as `private | "label" >> Count(...)`."""
        label = getattr(aggregation, "label", None)
        inner = getattr(aggregation, "transform", aggregation)
        if not isinstance(inner, Aggregation):
            raise QueryError(
                f"a private collection does not give its rows to {shown(aggregation)}; apply Count, "
                "CountUnits, Sum, Mean, Variance, Quantiles, TopGroups or SelectGroups, or use its map, "
                "filter and flat_map"
            )
        inner.check_keys(self._private)
        return self._owned | label >> inner.drawing_on(self._budget, self._secret)

    def _each(self, function: Callable[[Any], Iterable[Any]], label: str) -> PrivateCollection:
        def owned(given: PrivateRow) -> list[PrivateRow]:
            if given.unit == NONE:
                return []
            return [PrivateRow(given.unit, made) for made in function(given.row)]

        made = self._owned | label >> beam.FlatMap(forgiving(owned)).with_output_types(PrivateRow)
        return PrivateCollection(made, self._budget, self._secret, self._private)


def _label(verb: str, function: Callable[..., Any]) -> str:
    return f"{verb}({getattr(function, '__name__', type(function).__name__)})"
