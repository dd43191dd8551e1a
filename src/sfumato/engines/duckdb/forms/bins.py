"""Numbers of rows in bins."""

from datetime import date
from typing import Any

from sfumato.engines.duckdb.forms.values import Part, Values
from sfumato.engines.duckdb.scaled import scaled
from sfumato.engines.duckdb.text import double, identifier, literal
from sfumato.transformations import Edges, RowsInBins


def in_bins(values: Values, s: RowsInBins) -> list[Part]:
    """Count the rows of each bin."""
    place = values.value(
        _between(values, s.column, s.bins) if isinstance(s.bins, Edges) else _listed(values, s)
    )
    parts = []
    for i, name in enumerate(s.names):
        counted = f"({identifier(name)}::HUGEINT * {1 << -s.exponent})"
        added = f"sum({scaled(counted, s.rows, values.most(s))})"
        parts.append(Part(name, f"count(*) FILTER ({place} = {i})", added))
    return parts


def _between(values: Values, column: str, bins: Edges) -> str:
    """Return the bin of a number between edges; NULL where it has none."""
    x, inside = values.number(column), len(bins.edges) - 1
    first, *inner, last = bins.edges
    below = "0" if bins.below else "NULL"
    above = str(bins.count - 1) if bins.above else "NULL"
    cases = [f"WHEN {x} < {_edge(first)} THEN {below}", f"WHEN {x} > {_edge(last)} THEN {above}"]
    cases += [f"WHEN {x} < {_edge(edge)} THEN {i + bins.below}" for i, edge in enumerate(inner)]
    place = f"CASE {' '.join(cases)} ELSE {inside - 1 + bins.below} END"
    return f"CASE WHEN {values.valued(column)} THEN {place} END"


def _edge(edge: float) -> str:
    return f"'{edge}'::DOUBLE" if edge in (float("inf"), -float("inf")) else double(edge)


def _listed(values: Values, s: Any) -> str:
    """Return the place of a listed value; of another one that behind the list, or NULL."""
    column, kind = values.column(s.column), type(s.bins.values[0])
    if kind is str:
        column = f'{column} COLLATE "binary"'  # a column of a database may have another collation
    if kind is int:
        column = f"TRY_CAST({column} AS HUGEINT)"
    cases = [f"WHEN {column} = {_constant(value)} THEN {i}" for i, value in enumerate(s.bins.values)]
    other = str(len(s.bins.values)) if s.bins.other else "NULL"
    return f"CASE WHEN {values.column(s.column)} IS NULL THEN NULL {' '.join(cases)} ELSE {other} END"


def _constant(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}::HUGEINT"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return literal(str(value))
