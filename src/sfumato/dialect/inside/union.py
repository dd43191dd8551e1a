"""UNION ALL inside: the rows of several SELECTs under each other, by the places of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.dialect.inside.queries import Query
from sfumato.query.local import chosen
from sfumato.query.table import Table

if TYPE_CHECKING:
    from sfumato.dialect.inside.compiler import Inside

_REFUSED = {
    "EXCEPT": "EXCEPT: write a LEFT JOIN on the privacy unit and WHERE ... IS NULL",
    "INTERSECT": "INTERSECT: write a JOIN on the privacy unit",
    "UNION": "UNION: write UNION ALL, and SELECT DISTINCT around it where rows may be there twice",
}


def union_all(inside: Inside, query: Query, unit: str) -> Table[Any]:
    """Return the rows of private SELECTs under each other.

    Raises:
        SqlError: it is no UNION ALL, or they have other columns.
    """
    node = query.node
    if node["type"] != "SET_OPERATION_NODE":
        what = "WITH RECURSIVE" if "RECURSIVE" in node["type"] else node["type"].removesuffix("_NODE")
        raise query.refuse(query.first, f"{what} has no place here: write SELECT ... FROM ...")
    if node["setop_type"] != "UNION" or not node["setop_all"]:
        message = _REFUSED.get(node["setop_type"], f"{node['setop_type']}: write UNION ALL")
        raise query.refuse(query.first, message)
    if node["modifiers"]:
        raise query.refuse(query.first, "ORDER BY and LIMIT behind UNION ALL: leave them out")
    names = query.names.within(node)
    children = node.get("children") or [node["left"], node["right"]]
    table: Table[Any] | None = None
    place = 0
    for i, child in enumerate(children):
        one = Query(f"SELECT {i + 1} of UNION ALL", child, names, query.columns)
        own = unit if table is None else _unit(one, place, unit)
        found = inside.table(one, own)
        if not isinstance(found, Table):
            raise query.refuse(
                one.first, "a SELECT of public tables beside one of private ones: its rows have no unit"
            )
        if table is None:
            table, place = found, list(found.schema).index(found.unit)
            continue
        columns = list(found.schema)
        if len(columns) != len(table.schema):
            raise query.refuse(
                one.first, f"this SELECT has {len(columns)} columns, and the first one {len(table.schema)}"
            )
        if columns.index(found.unit) != place:
            raise query.refuse(
                one.first, f"the privacy unit is column {place + 1} in the first SELECT, and not here"
            )
        if columns != list(table.schema):
            found = chosen(found, tuple(zip(columns, table.schema, strict=True)), table.unit)
        table = table.union(found)
    assert table is not None
    return table


def _unit(query: Query, place: int, unit: str) -> str:
    """Return what the column at a place is called, as far as the SELECT list says."""
    listed = query.node.get("select_list") or []
    if query.columns or any(node["class"] == "STAR" for node in listed) or place >= len(listed):
        return unit
    node = listed[place]
    named = node["column_names"][-1] if node["class"] == "COLUMN_REF" else f"column_{place + 1}"
    return str(node["alias"] or named)
