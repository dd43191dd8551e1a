"""Privacy units of several columns: one column more, a struct of their canonical values.

Its fields are of types in which values that are equal are the same bits, texts being bytes, so that it
compares alike everywhere. NULL in a part is NULL in all, as in the unit of a single column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import duckdb

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.connection import check_timezone
from sfumato.engines.duckdb.expressions.validation import ValidatedExpression, validate
from sfumato.engines.duckdb.source import Source
from sfumato.errors import QueryError
from sfumato.query.schema import FLOATS, Column, Schema, check_flat
from sfumato.query.tables.table_part import UnitPart, unit_name
from sfumato.sql_text import identifier, literal, same_name

_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_SMALL = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_ZONED = "TIMESTAMP WITH TIME ZONE"
_NESTED = re.compile(r".*\]|(STRUCT|MAP|UNION|JSON|INTERVAL|VARIANT|BIGNUM|TIME WITH|GEOMETRY).*")


@dataclass(frozen=True)
class _Part:
    """One part of a composite privacy unit: SQL of its value and of its canonical form."""

    unit: UnitPart
    value: str
    form: str
    type_name: str
    expression: ValidatedExpression | None = None


def composite(
    source: Source, schema: Schema, texts: Sequence[str], timezone: str
) -> tuple[Source, tuple[UnitPart, ...], list[ValidatedExpression]]:
    """Return a source with one more column, the composite privacy unit.

    Args:
        source: rows.
        schema: their columns.
        texts: columns, and expressions of one row's columns.
        timezone: in which expressions read times with a zone.
    Returns:
        The source, the unit's parts, and the expressions among them.
    Raises:
        QueryError: a part is no column and no expression of one row, or cannot be compared.
        ParameterError: there is no such time zone.
    """
    timezone = check_timezone("unit_timezone", timezone)
    name = unit_name(texts)
    if name.casefold() in {column.casefold() for column in schema}:
        raise QueryError(f"privacy_unit: there is already a column {name!r}. Rename it in the source")
    parts = [_part(text, schema, timezone) for text in texts]
    expressions = [part.expression for part in parts if part.expression is not None]
    reads = {column for one in expressions for column in one.columns}
    reads |= {same_name(text) for part, text in zip(parts, texts, strict=True) if part.expression is None}
    needed = [column for column in schema if same_name(column) in reads]
    made = _with_unit(source, schema, parts, name, needed, timezone)
    return made, tuple(part.unit for part in parts), expressions


def _part(text: str, schema: Schema, timezone: str) -> _Part:
    for i, (name, column) in enumerate(schema.items()):
        if same_name(name) == same_name(text):
            if column.type_name not in ("BLOB", "BIT"):  # those compare well, but print badly
                check_flat("privacy_unit", name, schema, "in the source, before scan")
            kind, form, of = _canonical(column.type_name)
            return _Part(UnitPart(text, kind), identifier(f"{_unused_prefix(schema)}{i}"), form, of)
    local = {n: replace(c, type_name="TIMESTAMP") if _zoned(c) else c for n, c in schema.items()}
    one = validate("privacy_unit", text, local)
    if one.zoned or one.type_name == _ZONED:
        raise QueryError(
            f"privacy_unit: {text!r} makes or reads a time with a zone. Leave out the cast or AT "
            "TIME ZONE: such columns are read in unit_timezone"
        )
    if _NESTED.fullmatch(one.type_name):
        raise QueryError(
            f"privacy_unit: {text!r} is {one.type_name}, whose values cannot be compared reliably. Cast it"
        )
    kind, form, of = _canonical(one.type_name)
    if any(_zoned(column) for name, column in schema.items() if same_name(name) in one.columns):
        kind = f"{kind} in {timezone}"
    return _Part(UnitPart(text, kind), f"TRY((\n{one.text}\n))", form, of, one)


def _unused_prefix(schema: Schema) -> str:
    """Return a prefix for names of columns beside the composite unit, which no column has."""
    prefix = "kept "
    while any(name.casefold().startswith(prefix) for name in schema):
        prefix = f"_{prefix}"
    return prefix


def _zoned(column: Column) -> bool:
    return column.type_name == _ZONED


def _canonical(type_name: str) -> tuple[str, str, str]:
    """Return SQL of the canonical form of a part of a composite unit, and its type."""
    text = "encode(CAST({0} AS VARCHAR))"  # bytes have no collation
    if type_name in _SMALL:
        return "a whole number", "CAST({0} AS BIGINT)", "BIGINT"
    if _WHOLE.fullmatch(type_name):  # not all of them have a place in Arrow
        return "a large whole number", text, "BLOB"
    if type_name in FLOATS:  # there are two zeros, and many NaN
        nan, zero = f"CAST('nan' AS {type_name})", f"{{0}} + CAST(0 AS {type_name})"
        return type_name, f"CASE WHEN isnan({{0}}) THEN {nan} ELSE {zero} END", type_name
    if type_name in ("DATE", "TIMESTAMP", "BLOB"):
        return type_name, "{0}", type_name
    if type_name == _ZONED:
        return type_name, "{0} AT TIME ZONE 'UTC'", "TIMESTAMP"
    return type_name, text, "BLOB"


def _with_unit(
    source: Source, schema: Schema, parts: Sequence[_Part], name: str, needed: Sequence[str], timezone: str
) -> Source:
    """Write the SELECT that adds the composite unit to a source's columns."""
    kept = [identifier(f"{_unused_prefix(schema)}{i}") for i in range(len(schema))]
    there = ", ".join(f"part.{identifier(old)} AS {new}" for old, new in zip(schema, kept, strict=True))
    local = "".join(
        f", part.{identifier(n)}{f' AT TIME ZONE {literal(timezone)}' if _zoned(schema[n]) else ''} "
        f"AS {identifier(n)}"
        for n in needed
    )
    values = "".join(f", {part.value} AS {identifier(f'part {i}')}" for i, part in enumerate(parts))
    places = [identifier(f"form {i}") for i in range(len(parts))]
    forms = "".join(
        f", TRY({part.form.format(identifier(f'part {i}'))}) AS {place}"
        for i, (part, place) in enumerate(zip(parts, places, strict=True))
    )
    whole = " AND ".join(f"{place} IS NOT NULL" for place in places)
    fields = ", ".join(f"p{i} := {place}" for i, place in enumerate(places))
    unit = f"CASE WHEN {whole} THEN struct_pack({fields}) END"
    type_name = f"STRUCT({', '.join(f'p{i} {part.type_name}' for i, part in enumerate(parts))})"
    back = ", ".join(f"{new} AS {identifier(old)}" for old, new in zip(schema, kept, strict=True))
    columns = ", ".join(kept)

    def around(one: Source) -> Source:
        text = f"SELECT {there}{local} FROM {one.relation} AS part"
        text = f"SELECT {columns}{values} FROM ({text})"
        text = f"SELECT {columns}{forms} FROM ({text})"
        text = f"SELECT {back}, {unit} AS {identifier(name)} FROM ({text})"

        def load(session: duckdb.DuckDBPyConnection, asked: Sequence[str]) -> None:
            one.load(session, read(asked))

        def again(asked: Sequence[str]) -> Source:
            return around(one.again(read(asked)) if one.again is not None else one)

        return replace(
            one,
            relation=f"({text})",
            columns=[*one.columns, (name, type_name)],
            pending=load,
            again=None if one.again is None else again,
            looked=None,
        )

    def read(asked: Sequence[str]) -> list[str]:
        return [column for column in schema if column in asked or (column in needed and name in asked)]

    return around(source)
