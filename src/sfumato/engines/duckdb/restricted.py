"""The same question on the rows of some units, or on all rows in another physical order.

What is made of tables is made again: of fewer rows, or of the same rows as they may lie in memory too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import duckdb

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.combined_rows import fresh_name, moved, there_already
from sfumato.engines.duckdb.connection import lender
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.ordering import compared, order_by_hash
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import Source
from sfumato.errors import in_own_words
from sfumato.query.schema import INTEGERS, Schema
from sfumato.query.tables.table_part import Part
from sfumato.sql_text import identifier

# Of DuckDB, where there are to be many.
_THREADS = 4


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


@dataclass(frozen=True)
class PhysicalOrder:
    """Where rows lie in memory, of which no answer may depend.

    Args:
        salt: 64 random bits, by which the rows of every table are shuffled.
        one_thread: of DuckDB, whatever a user allows; else as many as a user allows, or a few at least.
        table: whose rows are more.
        units: whose rows in that table are repeated.
        times: how often they are repeated.
    """

    salt: int
    one_thread: bool = False
    table: DuckDBEngine | None = None
    units: Units | None = None
    times: int = 0


def restricted(part: Part, units: Units) -> Part:
    """Return the same part, of tables in which only these units have rows; public tables stay as they are."""

    def some(table: Part) -> DuckDBEngine:
        engine = _engine(table)
        if table.unit is None:
            return engine
        return engine.on(partial(_filtered, condition=units.hold(table.unit, engine.schema())))

    return _made_again(part, some)


def rearranged(part: Part, order: PhysicalOrder) -> Part:
    """Return the same part, of copies of its tables in another physical order."""

    def allowed(resources: Resources) -> Resources:
        return replace(resources, threads=1 if order.one_thread else resources.threads or _THREADS)

    copies: dict[int, DuckDBEngine] = {}

    def copy(table: Part) -> DuckDBEngine:
        engine = _engine(table)
        if id(engine) not in copies:
            more = ""
            if engine is order.table and order.units is not None and table.unit is not None:
                whose = order.units.hold(table.unit, engine.schema())
                more = f" UNION ALL SELECT one.* FROM ({{0}} WHERE {whose}) AS one, range({order.times})"
            resources = allowed(engine.resources)
            copies[id(engine)] = engine.on(
                lambda source: _copied(source, more, order.salt, resources), resources
            )
        return copies[id(engine)]

    return _made_again(part, copy, allowed)


def tables_of(part: Part) -> list[Part]:
    """Return the tables of units that a part is made of, each once."""
    found: dict[int, Part] = {}

    def noted(table: Part) -> DuckDBEngine:
        if table.unit is not None:
            found.setdefault(id(table.engine), table)
        return _engine(table)

    _made_again(part, noted)
    return list(found.values())


def _made_again(
    part: Part,
    change: Callable[[Part], DuckDBEngine],
    allowed: Callable[[Resources], Resources] = lambda given: given,
) -> Part:
    """Return the same part, of tables that are changed; what is made of public tables stays as it is."""
    engine = _engine(part)
    made: Any = engine.how
    if made is None:
        found = change(part)
    elif part.unit is None:
        return part
    else:
        named = ((field.name, getattr(made, field.name)) for field in fields(made))
        parts = {
            name: _made_again(value, change, allowed) for name, value in named if isinstance(value, Part)
        }
        on = engine.on(lambda source: source, allowed(engine.resources))
        found = on.combined(replace(made, **parts))
    found.schema(part.steps)  # judges the steps, for whoever combines this
    return replace(part, engine=found)


def _engine(part: Part) -> DuckDBEngine:
    assert isinstance(part.engine, DuckDBEngine)  # the check refuses others, and DuckDB combines no others
    return part.engine


def _filtered(source: Source, condition: str) -> Source:
    again: Callable[..., Source] | None = None
    if (other := source.again) is not None:
        again = lambda columns: _filtered(other(columns), condition)  # noqa: E731
    relation = f"(SELECT * FROM {source.relation} AS every WHERE {condition})"
    return replace(source, relation=relation, again=again, rows=None, looked=None)


def _copied(source: Source, more: str, salt: int, resources: Resources) -> Source:
    """Return a shuffled copy of a source, with what `more` adds to {0}, its rows."""
    again: Callable[..., Source] | None = None
    if (other := source.again) is not None:
        again = lambda columns: _copied(other(columns), more, salt, resources)  # noqa: E731
    copy, names = fresh_name(), [name for name, _ in source.columns]

    def load(session: duckdb.DuckDBPyConnection, columns: object) -> None:
        if there_already(session, copy):
            return
        with in_own_words(), source.session() as there:
            source.load(there, names)
            rows = f"SELECT * FROM {source.relation} AS every"
            order = order_by_hash([identifier(name) for name in names], salt)
            moved(there, f"{rows}{more.format(rows)} {order}", session, copy, source.columns)

    session = lender(source.timezone, resources)
    return replace(
        source,
        relation=copy,
        session=session,
        pending=load,
        again=again,
        rows=None,
        anywhere=True,
        looked=None,
    )
