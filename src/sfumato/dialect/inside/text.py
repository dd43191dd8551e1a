"""Unit-local SQL as a text of its own: from tables that are there to one more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.catalogs.declarations import Declarations, TableDeclaration
from sfumato.dialect.cursor import Cursor
from sfumato.dialect.inside.compiler import Inside
from sfumato.dialect.inside.declared import declared
from sfumato.dialect.inside.queries import CommonTables, Query, Written
from sfumato.dialect.plain import NotUnderstood, PlainSelect
from sfumato.errors import QueryError, nearest, shown
from sfumato.query.table import Table
from sfumato.query.tables.public_table import PublicTable


def table_of(text: object, tables: Mapping[str, Table[Any] | PublicTable]) -> Table[Any]:
    """Return the private table that a SELECT makes of others.

    Args:
        text: SQL in which every row follows from the rows of one privacy unit, and from public tables.
        tables: by the names that it may read.
    Raises:
        SqlError: it is not understood, or not of this form; it shows the place and what to write.
        QueryError: it does not fit the tables' columns.
    """
    if not isinstance(text, str):
        raise QueryError(f"sql: the question is {shown(text)}, but must be SQL text")
    words = Cursor(text)
    plain = PlainSelect(words, [], [])
    try:
        tree = plain.tree()
        query = Query("sql", tree, CommonTables(Written(text, plain.place)))
        known = {name: _declaration(name, table) for name, table in tables.items()}
        unit = declared(query, Declarations("sql", known)).privacy_unit
        if unit is None:
            raise query.refuse(query.first, "this reads public tables alone: begin FROM with a private one")
        found = Inside(lambda name, _: _table(name, tables)).table(query, unit)
    except NotUnderstood as error:
        at = words.tokens[0 if error.at is None else error.at]
        raise words.refuse(f"not understood: {error.why}", at) from None
    except RecursionError:
        raise QueryError("sql: SELECTs and expressions are nested too deeply") from None
    assert isinstance(found, Table)
    return found


def _declaration(name: str, table: Table[Any] | PublicTable) -> TableDeclaration:
    unit = table.unit if isinstance(table, Table) else None
    return TableDeclaration(name, "sql", None, public=unit is None, privacy_unit=unit)


def _table(name: str, tables: Mapping[str, Table[Any] | PublicTable]) -> Table[Any] | PublicTable:
    if name not in tables:
        near = nearest(name, tables)
        raise QueryError(
            f"FROM names {name!r}, which is no table here; "
            + (f"did you mean {near!r}?" if near else f"the tables are: {', '.join(tables)}")
        )
    return tables[name]
