"""Trees of expressions, rewritten: their columns and parts in the place of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from sfumato.dialect.tree import Node, aggregates
from sfumato.errors import QueryError

# What trees of a SELECT, a star and a window may hold; whatever is new to them is refused.
_CLAUSES = (
    "type modifiers cte_map select_list from_table where_clause group_expressions group_sets "
    "aggregate_handling having sample qualify"
)
_STAR = "class type alias query_location query_location_length relation_name exclude_list"
_WINDOW = (
    "class type alias query_location query_location_length function_name schema catalog partitions orders "
    "start end start_expr end_expr offset_expr default_expr ignore_nulls has_ignore_nulls filter_expr "
    "exclude_clause distinct arg_orders arguments qualified_name"
)
CLAUSES, STAR, WINDOW = (frozenset(words.split(" ")) for words in (_CLAUSES, _STAR, _WINDOW))
PLACES = ("query_location", "query_location_length")
_PLACES = ("alias", *PLACES)
_MOST = 20_000  # nodes: names of the SELECT list may stand in one another


def rewritten(tree: Node, change: Callable[[Node], Node | None]) -> Node:
    """Return a copy of a tree in which some nodes are others, and none has a name behind AS.

    Args:
        tree: which stays as it is.
        change: gives what stands in the place of a node, or None to look at its parts.
    Raises:
        QueryError: it is too large.
    """
    frame: dict[str, Any] = {"tree": json.loads(json.dumps(tree))}
    waiting: list[tuple[Any, Any]] = [(frame, "tree")]
    count = 0
    while waiting:
        container, at = waiting.pop()
        node = container[at]
        if isinstance(node, dict) and "class" in node:
            count += 1
            if count > _MOST:
                raise QueryError("an expression has too many parts; compute some of them in a SELECT inside")
            new = change(node)
            if new is not None:
                container[at] = new | {"alias": ""}
                continue
            node["alias"] = ""
        if isinstance(node, dict):
            waiting.extend((node, key) for key, value in node.items() if isinstance(value, dict | list))
        elif isinstance(node, list):
            waiting.extend((node, i) for i, value in enumerate(node) if isinstance(value, dict | list))
    found: Node = frame["tree"]
    return found


def parts(tree: Node) -> Iterator[Node]:
    """Yield an expression and all below it, but not what stands inside of a SELECT."""
    waiting: list[Any] = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "class" in one:
                yield one
            waiting.extend(v for k, v in one.items() if k != "subquery" and isinstance(v, dict | list))
        elif isinstance(one, list):
            waiting.extend(one)


def shape(tree: Node, left_out: Collection[str] = _PLACES) -> str:
    """Return what is equal for expressions that are written the same."""

    def bare(one: Any) -> Any:
        if isinstance(one, dict):
            kept = {key: bare(value) for key, value in one.items() if key not in left_out}
            if one.get("class") == "COLUMN_REF":
                kept["column_names"] = [name.casefold() for name in one["column_names"]]
            return kept
        return [bare(value) for value in one] if isinstance(one, list) else one

    return json.dumps(bare(tree), sort_keys=True)


def unknown(node: Node, known: Collection[str]) -> list[str]:
    """Return what a node holds beside what is known of its kind."""
    return [key for key, value in node.items() if value and key not in known]


def is_aggregate(node: Node) -> bool:
    """Whether a node calls an aggregate, and no window function."""
    return node["class"] == "FUNCTION" and node["function_name"].lower() in aggregates()


def column_node(name: str) -> Node:
    """Return a reference to a column."""
    return {
        "class": "COLUMN_REF",
        "type": "COLUMN_REF",
        "alias": "",
        "query_location": 2**64 - 1,
        "query_location_length": 0,
        "column_names": [name],
    }


def column_of(node: Node) -> str | None:
    """Return the column's name, where a node is nothing but a column."""
    names = node["column_names"] if node["class"] == "COLUMN_REF" else []
    return names[0] if len(names) == 1 else None


def fresh(stem: str, taken: set[str]) -> str:
    """Return a name that is not taken, in lower case, and take it."""
    name, number = stem, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name.casefold())
    return name
