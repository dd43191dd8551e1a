"""Exact answers without limits and bounds, which an analysis compares with; and which outputs it knows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.errors import QueryError
from sfumato.noise.values import Floats
from sfumato.query.aggregates import (
    Aggregate,
    Combination,
    CountPrivacyUnits,
    CountRows,
    Derived,
    Difference,
    Mean,
    Quantiles,
    StandardDeviation,
    Sum,
    Variance,
    WeightedSum,
)
from sfumato.query.aggregates.aggregate import BoundedAggregate
from sfumato.query.analysis.contributions import Column, Contributed
from sfumato.query.query import Query

# Of others no expectation is known that follows from sums of what units bring.
KNOWN = (CountPrivacyUnits, CountRows, Sum, Mean, Variance, StandardDeviation, Derived, Quantiles)


def check(query: Query) -> None:
    """Refuse what has no such expectation.

    Raises:
        QueryError: there is something else than counts, sums, means, variances, and ratios or differences of
            these, and quantiles.
    """
    for name, aggregate in query.aggregates:
        if not isinstance(aggregate, KNOWN):
            raise QueryError(
                f"analyze: what is expected of {name} does not follow from sums, so it is not analysed; ask "
                "of counts, count_units, sums, means, variances, stddevs, ratios and differences of these, "
                "or quantiles; or try question.preview(...)"
            )
    quantiles = {n for name, a in query.aggregates if isinstance(a, Quantiles) for n in a.outputs(name)}
    for name, aggregate in query.aggregates:
        if isinstance(aggregate, Derived) and quantiles & set(aggregate.of):
            raise QueryError(
                f"analyze: {name} is made of a quantile, and what is expected of it is not known; leave it "
                "out"
            )
    if query.added_up:
        raise QueryError(
            "analyze: totals and cumulative totals are not analysed; ask of the groups without them"
        )


def columns(queries: tuple[Query, ...]) -> tuple[Column, ...]:
    """Return the columns of which exact answers are needed, with the widest bounds that are compared."""
    found: dict[str, Column] = {}
    for query in queries:
        for _, aggregate in query.measured:
            if isinstance(aggregate, BoundedAggregate):
                ends, squares = (float(aggregate.lower), float(aggregate.upper)), False
                if (known := found.get(aggregate.column)) is not None:
                    squares = known.squares
                    if known.lower < known.upper:  # else its values are counted alone, so far
                        ends = min(ends[0], known.lower), max(ends[1], known.upper)
                squares = squares or isinstance(aggregate, Variance | StandardDeviation)
                found[aggregate.column] = Column(aggregate.column, *ends, squares=squares)
            elif isinstance(aggregate, CountRows) and aggregate.column is not None:
                numeric = query.schema[aggregate.column].kind.numeric
                found.setdefault(aggregate.column, Column(aggregate.column, numeric=numeric))
    return tuple(found.values())


def exact(query: Query, known: tuple[Column, ...], found: Contributed) -> dict[str, Floats]:
    """Return exact outputs of each group without limits and bounds, but for quantiles; NaN where none is."""
    places = {column.name: i for i, column in enumerate(known)}
    outputs: dict[str, Floats] = {}
    with np.errstate(all="ignore"):
        for name, aggregate in query.measured:
            if not isinstance(aggregate, Quantiles):
                outputs[name] = _exact(aggregate, places, known, found)
        for name, aggregate in query.aggregates:
            if isinstance(aggregate, Derived):
                outputs[name] = _derived(aggregate, outputs)
    return outputs


def _exact(
    aggregate: Aggregate, places: Mapping[str, int], known: tuple[Column, ...], found: Contributed
) -> Floats:
    if isinstance(aggregate, CountPrivacyUnits):
        return found.units
    if isinstance(aggregate, CountRows) and aggregate.column is None:
        return found.rows
    (column,) = aggregate.columns
    i = places[column]
    valued, total, squares, centre = found.valued[i], found.sums[i], found.squares[i], known[i].centre
    if isinstance(aggregate, CountRows):
        return valued
    if isinstance(aggregate, Sum):
        return total + centre * valued
    if isinstance(aggregate, Mean):
        return total / np.where(valued, valued, np.nan) + centre
    mean = total / np.where(valued, valued, np.nan)
    variance = np.maximum(squares / np.where(valued, valued, np.nan) - mean**2, 0.0)
    return variance if isinstance(aggregate, Variance) else np.asarray(np.sqrt(variance))


def _derived(aggregate: Derived, outputs: Mapping[str, Floats]) -> Floats:
    if isinstance(aggregate, Combination):
        top, bottom = (_sum(one, outputs) for one in (aggregate.top, aggregate.bottom))
        return top / np.where(bottom == 0, np.nan, bottom)
    first, second = (outputs[name] for name in aggregate.of)
    if isinstance(aggregate, Difference):
        return first - second
    return first / np.where(second == 0, np.nan, second)


def _sum(asked: WeightedSum, outputs: Mapping[str, Floats]) -> Floats:
    return np.asarray(sum((float(w) * outputs[name] for name, w in asked.terms), np.float64(asked.constant)))
