"""Sums, squares and products of several columns, in rows that have a value of all of them."""

from sfumato.engines.duckdb.forms.values import Part, Values
from sfumato.engines.duckdb.scaled import scaled
from sfumato.engines.duckdb.text import identifier
from sfumato.transformations import CrossMoments


def cross_moments(values: Values, s: CrossMoments) -> list[Part]:
    """Add up values within bounds, and their products, which are in 64 bits."""
    complete = values.value(" AND ".join(f"({values.valued(column)})" for column in s.columns), "BOOLEAN")
    x = []
    for axis in s.axes:
        grid = axis.grid
        steps = values.steps(axis.column, grid.lower, grid.upper, grid.exponent)
        x.append(values.value(f"{steps} - {grid.centre}", "BIGINT"))  # NULL where the row has no value
    only = f"FILTER ({complete})"
    pairs = [f"sum({one}) {only}" for one in x]
    for i, j in s.pairs:
        taken = f" - {s.axes[i].square_centre}" if i == j else ""
        pairs.append(f"sum({x[i]} * {x[j]}{taken}) {only}")
    names, parts = list(s.names), []
    if s.complete_exponent is not None:
        name = names.pop(0)
        total = f"({identifier(name)}::HUGEINT * {1 << -s.complete_exponent})"
        added = f"sum({scaled(total, s.rows, values.most(s))})"
        parts.append(Part(name, f"count(*) {only}", added, pair_type="BIGINT"))
    for name, pair in zip(names, pairs, strict=True):
        total = f"coalesce({identifier(name)}, 0)::HUGEINT"
        parts.append(Part(name, pair, f"sum({scaled(total, s.rows, values.most(s))})"))
    return parts
