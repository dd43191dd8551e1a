"""Expressions as trees, which DuckDB's parser reads. Nothing here looks at data."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache

import duckdb

from sfumato.dialect.tree import Node, NotSql, descendants, slots, statements

# Of a node that stands nowhere in a text.
_UNNAMED = {"alias": "", "query_location": 2**64 - 1, "query_location_length": 0}
NULL: Node = {
    "class": "CONSTANT",
    "type": "VALUE_CONSTANT",
    **_UNNAMED,
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


def with_children(node: Node, new: Sequence[Node]) -> Node:
    """Return a copy of a node over other children."""
    shallow = dict(node)
    for name in ("arguments", "case_checks", "children"):
        if isinstance(shallow.get(name), list):
            shallow[name] = [dict(e) if name != "children" else e for e in shallow[name]]
    for (container, place), child in zip(slots(shallow), new, strict=True):
        container[place] = child
    return shallow


def column(name: str) -> Node:
    """Return a reference to a column."""
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", **_UNNAMED, "column_names": [name]}


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
