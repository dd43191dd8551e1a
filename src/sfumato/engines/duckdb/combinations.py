"""Tables that are made of tables, of whatever kind, as one source."""

from __future__ import annotations

from collections.abc import Callable

from sfumato.engines.duckdb.combined import Rows, of_units, reached, united
from sfumato.engines.duckdb.expressions import MOST_HELD
from sfumato.engines.duckdb.joins import joined
from sfumato.engines.duckdb.kinds import column_of
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.shaped import computed, looked_up, selected, windowed, with_value
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.steps import MOST_STEPS, Size, Taken
from sfumato.engines.duckdb.text import same_name
from sfumato.engines.duckdb.unit_aggregates import unit_aggregate
from sfumato.errors import QueryError
from sfumato.query.tables.combining import Combination, Join, PerUnit, Reached, Union
from sfumato.query.tables.part import Part
from sfumato.query.tables.shaping import Computed, IsIn, Select, Window, WithValue

_COMBINED, _SELECTED = 5, 2  # steps that a join, a union or per_unit counts for, and a SELECT
# Steps that a privacy unit of several columns counts for.
COMPOSED = _COMBINED


def combination(how: Combination, rows: Callable[[Part, str], Rows], resources: Resources) -> Source:
    """Return the rows of a combination.

    Args:
        how: what it is made of, and how.
        rows: gives the rows of a part; the text says, for an error, where it stands.
        resources: what DuckDB may take of the machine.
    """
    match how:
        case Join():
            return joined(how, rows(how.left, "join"), rows(how.right, "join"), resources)
        case Union():
            return united(rows(how.left, "union"), rows(how.right, "union"), resources)
        case PerUnit(part=part):
            found = {name: unit_aggregate(name, text, part.schema) for name, text in how.aggregates}
            columns = {name: (one, column_of(one.type_name, True)) for name, one in found.items()}
            return of_units(rows(part, "per_unit"), how.by, columns, resources)
        case Reached():
            parts = rows(how.part, "foreign_keys"), rows(how.owners, "foreign_keys")
            return reached(how, *parts, resources)
        case Select(part=part):
            return selected(how, rows(part, "SELECT"), resources)
        case IsIn():
            return looked_up(how, rows(how.part, "IN"), rows(how.other, "IN"), resources)
        case WithValue():
            return with_value(how, rows(how.part, "SELECT"), rows(how.other, "SELECT"), resources)
        case Window(part=part):
            return windowed(how, rows(part, "OVER"), resources, column_of)
        case Computed():
            named = {name: rows(part, "SELECT") for name, part in how.parts}
            return computed(how.sql, named, resources)


def taken_over(how: Combination, taken: Callable[[Part], Taken | None]) -> Taken:
    """Return what a combination takes over of its parts' limits: columns' sizes, texts held, and steps.

    A condition may be moved into a part, with its derived columns written out; not below an aggregate.

    Args:
        how: what it is made of, and how.
        taken: what a part takes; None of what is refused where rows are asked of it.
    """
    sizes: dict[str, Size] = {}
    held, steps = 0, _SELECTED if isinstance(how, Select) else _COMBINED
    for part, kept in how.kept:
        one = taken(part)
        if one is None:
            continue
        sizes |= {same_name(new): one.sizes[same_name(n)] for n, new in kept if same_name(n) in one.sizes}
        held += one.held
        steps += one.steps
    if steps > MOST_STEPS or held > MOST_HELD:
        raise QueryError(
            f"the question has more than {MOST_STEPS // _COMBINED} joins, unions and per_unit (in SQL "
            "also windows, DISTINCT and IN), or as much in filters, derived columns and SELECTs; save a "
            "part of it to a file first"
        )
    return Taken(sizes, held, steps)
