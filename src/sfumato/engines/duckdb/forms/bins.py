"""The bin of a row's value: found by halving, so that a thousand bins take ten comparisons."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from sfumato.engines.duckdb.forms.values import Values
from sfumato.engines.duckdb.text import double, literal
from sfumato.query import sizes
from sfumato.transformations import Edges, RowsInBins, WeightsInBins


def place(values: Values, s: RowsInBins) -> str:
    """Write the bin of a row, from 0; NULL where it is in none."""
    found = _between(values, s.column, s.bins) if isinstance(s.bins, Edges) else _listed(values, s)
    found = f"CAST({found} AS BIGINT)"
    return found if s.where is None else f"CASE WHEN {values.column(s.where)} THEN {found} END"


def each(values: Values, s: object) -> str:
    """Return what a row adds to its place: one, or the name of its weight in steps, 0 where it has none."""
    if not isinstance(s, WeightsInBins):
        return "1"
    return values.value(_weight(values, s), "BIGINT")


def _weight(values: Values, s: WeightsInBins) -> str:
    return f"coalesce({values.steps(s.weight, 0, s.weights.most, s.weights.exponent)}, 0)"


def _between(values: Values, column: str, bins: Edges) -> str:
    """Return the bin of a number between edges; NULL where it has none."""
    x = values.number(column)
    first, *inner, last = bins.edges
    below = "0" if bins.below else "NULL"
    above = str(bins.count - 1) if bins.above else "NULL"
    inside = _halved(x, list(map(_edge, inner)), [str(i + bins.below) for i in range(len(inner) + 1)])
    found = (
        f"CASE WHEN {x} < {_edge(first)} THEN {below} WHEN {x} > {_edge(last)} THEN {above} ELSE {inside} END"
    )
    return f"CASE WHEN {values.valued(column)} THEN {found} END"


def _halved(x: str, bounds: Sequence[str], places: Sequence[str]) -> str:
    """Write the place of x among increasing bounds, of which there is one less; at a bound, the upper one."""
    if not bounds:
        return places[0]
    half = len(bounds) // 2
    lower = _halved(x, bounds[:half], places[: half + 1])
    upper = _halved(x, bounds[half + 1 :], places[half + 1 :])
    return f"CASE WHEN {x} < {bounds[half]} THEN {lower} ELSE {upper} END"


def _edge(edge: float) -> str:
    return f"'{edge}'::DOUBLE" if edge in (float("inf"), -float("inf")) else double(edge)


def _listed(values: Values, s: Any) -> str:
    """Return the place of a listed value; of another one that behind the list, or NULL."""
    column, kind = values.column(s.column), type(s.bins.values[0])
    if kind is str:
        column = f'{column} COLLATE "binary"'  # a column of a database may have another collation
    if kind is int:
        column = f"TRY_CAST({column} AS HUGEINT)"
    other = str(len(s.bins.values)) if s.bins.other else "NULL"
    if len(s.bins.values) > sizes.LISTED_BINS:
        constants = [_constant(value) for value in s.bins.values]
        place = f"coalesce(list_position([{', '.join(constants)}], {column})::BIGINT - 1, {other})"
        return f"CASE WHEN {values.column(s.column)} IS NOT NULL THEN {place} END"
    # Texts in the order of their code points, which is that of their bytes.
    ordered = sorted(enumerate(s.bins.values), key=lambda pair: pair[1])
    constants = [_constant(value) for _, value in ordered]
    equal = [
        f"CASE WHEN {column} = {constant} THEN {i} ELSE {other} END"
        for (i, _), constant in zip(ordered, constants, strict=True)
    ]
    found = _halved(column, constants[1:], equal)
    return f"CASE WHEN {values.column(s.column)} IS NOT NULL THEN {found} END"


def _constant(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}::HUGEINT"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return literal(str(value))
