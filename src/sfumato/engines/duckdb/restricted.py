"""The same question on the rows of some units: what is made of tables is made again, of fewer rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from sfumato.engines.duckdb.compared import compared
from sfumato.engines.duckdb.engine import DuckDBEngine
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.text import identifier
from sfumato.query.schema import INTEGERS, Schema
from sfumato.query.tables.part import Part


@dataclass(frozen=True)
class Units:
    """Some of all privacy units, told by a salted hash of theirs: no value of one is looked at.

    Args:
        salt: 64 random bits.
        condition: of SQL on a UBIGINT, with {} in its place.
    """

    salt: int
    condition: str

    def hash(self, unit: str, schema: Schema) -> str:
        """Return the SQL of a unit's hash; of units that are equal it is the same, whatever their types."""
        value = compared(unit, schema)
        if schema[unit].type_name in INTEGERS:
            value = f"CAST({value} AS HUGEINT)"
        return f"hash(hash({self.salt}::UBIGINT, {value}))"

    def hold(self, unit: str, schema: Schema) -> str:
        """Return the SQL condition that a row is of one of them. Rows of no unit are of none."""
        return f"{identifier(unit)} IS NOT NULL AND ({self.condition.replace('{}', self.hash(unit, schema))})"


def restricted(part: Part, units: Units) -> Part:
    """Return the same part, of tables in which only these units have rows; public tables stay as they are."""
    engine = part.engine
    if part.unit is None:
        return part
    assert isinstance(engine, DuckDBEngine)  # the check refuses others, and DuckDB combines no others
    made: Any = engine.how
    if made is None:
        holds = units.hold(part.unit, engine.schema())
        found = engine.on(lambda source: _filtered(source, holds))
    else:
        named = ((field.name, getattr(made, field.name)) for field in fields(made))
        parts = {name: restricted(value, units) for name, value in named if isinstance(value, Part)}
        found = engine.combined(replace(made, **parts))
    found.schema(part.steps)  # judges the steps, for whoever combines this
    return replace(part, engine=found)


def _filtered(source: Source, condition: str) -> Source:
    again: Callable[..., Source] | None = None
    if (other := source.again) is not None:
        again = lambda columns: _filtered(other(columns), condition)  # noqa: E731
    relation = f"(SELECT * FROM {source.relation} AS every WHERE {condition})"
    return replace(source, relation=relation, again=again, rows=None, looked=None)
