"""What unit-local SQL makes of a table, beyond the methods that the table has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.query.engine import Engine
from sfumato.query.question import Released
from sfumato.query.table import Table
from sfumato.query.tables.combining import distinct, is_in
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.shaping import Computed, Renamed, Select, Window, WindowCall, WithValue


def chosen(table: Table[Released], columns: Renamed, unit: str) -> Table[Released]:
    """Return columns of a table, as (column, new name), of which one is the privacy unit's."""
    return table._combined(Select(table._part, columns, unit))


def distinct_rows(table: Table[Released]) -> Table[Released]:
    """Return each row of a table once."""
    return table._combined(distinct(table._part, table.schema))


def distinct_keys(table: Table[Released], by: Sequence[str]) -> Table[Released]:
    """Return one row for each unit and values of some columns."""
    return table._combined(distinct(table._part, by, "GROUP BY"))


def looked_up(table: Table[Released], column: str, other: PublicTable, name: str) -> Table[Released]:
    """Return a table with a column that tells whether values of another are in a public table's only one."""
    return table._combined(is_in(table._part, column, other._part, name), *other.notes)


def with_value(table: Table[Released], other: PublicTable, name: str) -> Table[Released]:
    """Return a table with a column that has, in each row, the one value of a public table."""
    return table._combined(WithValue(table._part, other._part, name), *other.notes)


def windowed(table: Table[Released], calls: Sequence[WindowCall]) -> Table[Released]:
    """Return a table with columns that are computed of each unit's rows."""
    return table._combined(Window(table._part, tuple(calls)))


def computed(engine: Engine[Any], parts: Mapping[str, PublicTable], sql: str) -> PublicTable:
    """Return what SQL gives of public tables alone; `engine` computes it."""
    how = Computed(tuple((name, table._part) for name, table in parts.items()), sql)
    notes = tuple(dict.fromkeys(note for table in parts.values() for note in table.notes))
    return PublicTable(engine.combined(how), notes=notes)
