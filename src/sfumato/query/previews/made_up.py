"""Made-up rows of one group, with the columns and bounds of a question: to see what noise does to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError, nearest, shown
from sfumato.exact import as_fraction
from sfumato.query.aggregates import Aggregate, InBins, OfColumns, VectorSum, Weighted
from sfumato.query.query import Query
from sfumato.query.schema import Column, Kind
from sfumato.transformations import Listed

_STEEPEST = Fraction(10**9)  # power beyond which values are all at the lower bound
_LARGEST = 2.0**62  # whole numbers are kept within this


@dataclass(frozen=True)
class MadeUp:
    """Rows of one group.

    Args:
        table: the rows.
        unit: the column of their privacy units.
    """

    table: pa.Table
    unit: str


def powers_of(query: Query, means: Mapping[str, Any] | None) -> dict[str, float]:
    """Return by column the power of evenly spread values that have a mean: that of x**k is 1 / (k + 1).

    Args:
        query: what is asked.
        means: about the mean of a column's values, by its name.
    Raises:
        QueryError: a column has no bounds in the question.
        ParameterError: they are no mapping, or a mean is not between its column's bounds.
    """
    if means is not None and not isinstance(means, Mapping):
        raise ParameterError("means", means, "a number for each column, such as {'age': 40}")
    known = {name: _range(aggregate, name) for name, aggregate in _asked(query).items()}
    bounds = {name: ends for name, ends in known.items() if ends is not None}
    found = {}
    for name, given in (means or {}).items():
        if name not in bounds:
            near = nearest(name, bounds) if isinstance(name, str) else None
            hint = f"; did you mean {near!r}?" if near else f". There are: {', '.join(bounds) or 'none'}"
            raise QueryError(f"means: {shown(name)} is no column with bounds in this question{hint}")
        (low, high), mean = map(Fraction, bounds[name]), as_fraction(given, f"means of {name}")
        if not low < mean < high:
            within = " and ".join(f"{end:g}" for end in bounds[name])
            raise ParameterError(f"means of {name}", given, f"between its bounds, {within}")
        found[name] = float(min((high - mean) / (mean - low), _STEEPEST))
    return found


def made_up_rows(
    query: Query,
    units: int,
    rows: int,
    shift: float = 0.0,
    at: float | None = None,
    powers: Mapping[str, float] | None = None,
) -> MadeUp:
    """Return so many rows of each of so many units, whose values are spread evenly between the bounds.

    Args:
        query: what is asked; its columns get values, and none is missing.
        units, rows: how many.
        shift: of the middle, as a part of the bounds: there values are spread as evenly, but are others, and
            toward one end they are denser than toward the other.
        at: where all values lie, from 0, the lower bound, to 1, the upper one; by default between these.
        powers: by column, the power of what is spread evenly, as `powers_of` returns it.
    """
    count = units * rows
    columns: dict[str, pa.Array] = {}
    for name, aggregate in _asked(query).items():
        spread = _spread(count, len(columns), shift) if at is None else np.full(count, at)
        if at is None and powers is not None:
            spread = spread ** powers.get(name, 1.0)
        columns[name] = _values(aggregate, name, query.schema[name], spread)
    unit = "unit"
    while unit in columns:
        unit = f"_{unit}"
    return MadeUp(pa.table({unit: np.repeat(np.arange(units), rows), **columns}), unit)


def width(query: Query) -> int:
    """Return how many values one made-up row has."""
    return sum(getattr(aggregate, "length", 1) for aggregate in _asked(query).values())


def _asked(query: Query) -> dict[str, Aggregate]:
    """Return for each column what tells most of its values."""
    found: dict[str, Aggregate] = {}
    for _, aggregate in query.measured:
        for column in aggregate.each.columns:
            of = _of_column(aggregate.each, column)
            if column not in found or _range(of, column) is not None:
                found[column] = of
    return found


def _of_column(aggregate: Aggregate, column: str) -> Aggregate:
    """Return what is asked of a column: of one that is not the weights, what is asked without weights."""
    if isinstance(aggregate, Weighted) and column != aggregate.weights.column:
        return aggregate.of
    return aggregate


def _range(aggregate: Aggregate, column: str) -> tuple[float, float] | None:
    """Return the bounds of a column's values, where an aggregate has them."""
    if isinstance(aggregate, OfColumns):
        return next((float(low), float(high)) for name, low, high in aggregate.blocks if name == column)
    if isinstance(aggregate, Weighted):
        return 0.0, float(aggregate.weights.most)
    if isinstance(aggregate, InBins) and not isinstance(aggregate.bins, Listed):
        return _between(aggregate.bins.edges)
    lower, upper = getattr(aggregate, "lower", None), getattr(aggregate, "upper", None)
    return None if lower is None or upper is None else (float(lower), float(upper))


def _between(edges: Sequence[float]) -> tuple[float, float]:
    """Return a range with all finite edges, and beyond them where others are infinite."""
    known = [edge for edge in edges if math.isfinite(edge)] or [0.0]
    apart = (known[-1] - known[0]) / len(known) or 1.0
    low, high = (
        known[end] if math.isfinite(edges[end]) else known[end] + s * apart for end, s in ((0, -1), (-1, 1))
    )
    return (low, high) if math.isfinite(high - low) else (0.0, 1.0)


def _spread(count: int, which: int, shift: float) -> NDArray[np.float64]:
    # Multiples of an irrational number, modulo 1: evenly spread, and columns apart from each other. No square
    # leaves 5 when it is divided by 8.
    spread: NDArray[np.float64] = np.mod((np.arange(count) + 0.5) * (math.sqrt(5 + 8 * which) % 1), 1)
    return spread + 4 * shift * spread * (1 - spread)


def _values(aggregate: Aggregate, name: str, column: Column, spread: NDArray[np.float64]) -> pa.Array:
    count = len(spread)
    bins: Any = aggregate.bins if isinstance(aggregate, InBins) and name == aggregate.column else None
    if isinstance(bins, Listed):
        chosen = np.minimum((spread * len(bins.values)).astype(int), len(bins.values) - 1)
        return pa.array([bins.values[i] for i in chosen.tolist()])
    if isinstance(aggregate, VectorSum):
        flat = pa.array(np.tile(spread[:, None] * 0, (1, aggregate.length)).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, aggregate.length)
    low, high = _range(aggregate, name) or (0.0, 1.0)
    if column.kind is Kind.BOOLEAN:
        return pa.array(spread < 0.5)
    if column.kind is Kind.INTEGER:
        between = np.clip(low + spread * (high - low), -_LARGEST, _LARGEST)
        return pa.array(np.rint(between).astype(np.int64))
    if column.kind is Kind.REAL:
        return pa.array(low + spread * (high - low))
    return pa.array([f"value {i}" for i in range(count)])
