"""Values as they are compared: equal ones are the same bits, in SQL."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engines.duckdb.harmless import INSTANTS
from sfumato.engines.duckdb.text import identifier
from sfumato.query.schema import FLOATS, Column, Schema


def canonical(column: str, schema: Mapping[str, Column]) -> str:
    """Return a key such that equal values are equal bits and every tool can hold them."""
    name = identifier(column)
    if schema[column].type_name in FLOATS:
        return f"CASE WHEN isnan({name}) THEN 'nan' ELSE {name} + 0.0 END"
    kind = schema[column].type_name
    if kind == "VARCHAR":
        return f'{name} COLLATE "binary"'  # a column of a database may have another collation
    if kind == "HUGEINT":  # which Arrow holds as decimals of 38 digits
        return f"CASE WHEN {name} BETWEEN -{'9' * 38} AND {'9' * 38} THEN {name} END"
    if kind == "TIMESTAMP WITH TIME ZONE":  # by its own calendar, and by that of UTC
        return f"CASE WHEN year({name}) BETWEEN 1 AND 9999 AND {name} BETWEEN {INSTANTS} THEN {name} END"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        # What lies outside, infinity too, has no place in other tools' calendars.
        return f"CASE WHEN year({name}) BETWEEN 1 AND 9999 THEN {name} END"
    if kind.startswith("TIME"):
        return f"CASE WHEN hour({name}) < 24 THEN {name} END"
    return name


def compared(name: str, schema: Schema) -> str:
    """Return a column such that values that are equal are the same, as units of a single table are."""
    kind = schema[name].type_name
    return canonical(name, schema) if kind in (*FLOATS, "VARCHAR") else identifier(name)
