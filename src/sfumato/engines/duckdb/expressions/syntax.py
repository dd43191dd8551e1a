"""Expressions as trees, which DuckDB's parser reads. Nothing here looks at data."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import duckdb

from sfumato.dialect.tree import UNNAMED, Node, NotSql, descendants, slots, statements

NULL: Node = {
    "class": "CONSTANT",
    "type": "VALUE_CONSTANT",
    **UNNAMED,
    "literal": {"kind": "NULL_LITERAL", "text": ""},
}


def said(error: duckdb.Error) -> str:
    """Return the first line of what DuckDB says of a statement that sees no table."""
    first = str(error).partition("\n")[0]
    return first.partition(": ")[2] or first


def parsed(select: str) -> list[Node]:
    """Return the select list of a text that is one SELECT without FROM.

    Raises:
        NotSql: it is not, with the byte at which the parser stopped.
    """
    try:
        found = statements(select)
    except NotSql as error:
        raise NotSql(f"is not SQL: {error.why}", max(error.at, 0)) from None
    node = found[0] if len(found) == 1 else {}
    if node.get("from_table", {}).get("type") != "EMPTY" or node.get("where_clause"):
        raise NotSql("is more than one SQL expression", -1)
    selected: list[Node] = node["select_list"]
    return selected


def made(template: str, *parts: Node) -> Node:
    """Return the tree of a text in which `_0`, `_1` and so on stand for given trees."""
    (tree,) = deepcopy(_template(template))
    if tree["class"] == "COLUMN_REF":
        return parts[int(tree["column_names"][0][1:])]
    for node in list(descendants(tree)):
        for container, place in slots(node):
            child = container[place]
            if child["class"] == "COLUMN_REF":
                container[place] = parts[int(child["column_names"][0][1:])]
    return tree


@cache
def _template(text: str) -> list[Node]:
    return parsed(f"SELECT {text}")
