"""SELECTs of public tables in expressions: `x IN (SELECT y ...)` and `(SELECT max(y) ...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.dialect.inside.queries import CommonTables, Query
from sfumato.dialect.inside.trees import column_node, fresh, rewritten
from sfumato.dialect.joins import From, Reference
from sfumato.dialect.tree import Node, written
from sfumato.query.table import Table, looked_up, with_value
from sfumato.query.tables.public_table import PublicTable

if TYPE_CHECKING:
    from sfumato.dialect.inside.compiler import Inside


def public_value(inside: Inside, names: CommonTables, node: Node, unit: str) -> PublicTable:
    """Return the public table of one row and column that a SELECT in the place of a value is.

    Raises:
        SqlError: it reads a private table, or gives several columns.
    """
    inner = Query("a SELECT in an expression", node["subquery"]["node"], names)
    if not inside.is_public(inner, unit):
        raise names.written.refuse(
            node,
            "a SELECT of a private table in the place of a value, which would follow from all people's rows; "
            "write one for each unit, GROUP BY the privacy unit, in FROM, and join it on that",
        )
    return inside.public(inner, unit, value=True)


def public_values(inside: Inside, names: CommonTables, node: Node, unit: str) -> PublicTable:
    """Return the public table of one column in which a SELECT behind IN looks.

    Raises:
        SqlError: the SELECT stands elsewhere, or reads a private table.
    """
    if node["subquery_type"] != "ANY" or node["comparison_type"] != "COMPARE_EQUAL":
        raise names.written.refuse(
            node,
            "a SELECT in an expression: there is x IN (SELECT y FROM a public table), and (SELECT ...) of "
            "public tables that gives one value; join what else is needed, in FROM",
        )
    inner = Query("a SELECT behind IN", node["subquery"]["node"], names)
    if not inside.is_public(inner, unit):
        raise names.written.refuse(
            node,
            "IN (SELECT ...) of a private table: whether others are in it would show; join it on the privacy "
            "unit, in FROM",
        )
    other = inside.public(inner, unit)
    if len(other.schema) != 1:
        raise names.written.refuse(node, f"IN takes one column, but this SELECT gives {len(other.schema)}")
    return other


def filtered(inside: Inside, table: Table[Any], node: Node, names: CommonTables, tables: From) -> Table[Any]:
    """Return the rows of the tables of a private SELECT where a condition is true that holds such a SELECT.

    Args:
        inside: makes tables of SELECTs.
        table: the tables, joined, as `opened` gives them.
        node: DuckDB's tree of the condition.
        names: the tables of WITH.
        tables: what stands behind FROM.
    Raises:
        QueryError: the condition is not admissible.
    """
    taken = {name.casefold() for name in table.schema}
    known = {alias.casefold() for alias in (tables.alias, *tables.aliases.values()) if alias}

    def plain(tree: Node) -> Node:
        return rewritten(tree, change)

    def change(one: Node) -> Node | None:
        nonlocal table
        if one["class"] == "COLUMN_REF":
            first, *rest = one["column_names"]
            if rest and first.casefold() in known:
                return one | {"column_names": [tables.name(Reference(first, rest[0])), *rest[1:]]}
            return one
        if one["class"] != "SUBQUERY":
            return None
        if one["subquery_type"] == "SCALAR":
            name = fresh("value", taken)
            table = with_value(table, public_value(inside, names, one, table.unit), name)
            return column_node(name)
        other = public_values(inside, names, one, table.unit)
        child, name = fresh("looked_up", taken), fresh("is_in", taken)
        table = looked_up(table.with_columns(**{child: written(plain(one["child"]))}), child, other, name)
        return column_node(name)

    condition = plain(node)
    return table.filter(written(condition))
