"""Expressions as trees: DuckDB's own parser reads them, and writes them back.

A node is a dictionary as `json_serialize_sql` gives it, with its class, its place in the text and its
children. Nothing here looks at data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from threading import Lock
from typing import Any

import duckdb

from sfumato.engines.duckdb.text import without_labels

Node = dict[str, Any]
Slot = tuple[Any, Any]  # a container and the place in it where a child stands

# Of a node that stands nowhere in a text.
_UNNAMED = {"alias": "", "query_location": 2**64 - 1, "query_location_length": 0}
NULL: Node = {
    "class": "CONSTANT",
    "type": "VALUE_CONSTANT",
    **_UNNAMED,
    "literal": {"kind": "NULL_LITERAL", "text": ""},
}


class NotSql(Exception):
    """A text that DuckDB's parser refuses: why, and the byte at which."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.why, self.at = why, at


@cache
def _judge(process: int) -> tuple[duckdb.DuckDBPyConnection, Lock]:
    """Return this process's database without tables: it reads texts and binds types, never rows."""
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "memory_limit": "512MB",
            "python_enable_replacements": False,
        }
    )
    connection.execute("SET threads = 1; SET explain_output = 'all'")
    return connection, Lock()


def ask(sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """Run a statement that sees no table."""
    connection, lock = _judge(os.getpid())
    with lock:
        try:
            rows: list[tuple[Any, ...]] = connection.execute(sql, list(parameters)).fetchall()
        except UnicodeError:  # of DuckDB's own, where it quotes bytes that are no text
            raise duckdb.InvalidInputException("Error: it holds bytes that are no text") from None
        return rows


def said(error: duckdb.Error) -> str:
    """Return the first line of what DuckDB says of a statement that sees no table."""
    first = str(error).partition("\n")[0]
    return without_labels(first.partition(": ")[2] or first)


def parsed(select: str) -> list[Node]:
    """Return the select list of a text that is one SELECT without FROM.

    Raises:
        NotSql: it is not, with the byte at which the parser stopped.
    """
    ((answer,),) = ask("SELECT json_serialize_sql(?)", [select])
    tree = json.loads(answer)
    if tree.get("error"):
        raise NotSql(f"is not SQL: {tree.get('error_message', '')}", int(tree.get("position", 0)))
    statements = tree["statements"]
    node = statements[0]["node"] if len(statements) == 1 else {}
    if node.get("from_table", {}).get("type") != "EMPTY" or node.get("where_clause"):
        raise NotSql("is more than one SQL expression", -1)
    selected: list[Node] = node["select_list"]
    return selected


def written(*nodes: Node) -> str:
    """Return the text of a node; of several, with commas between."""
    statement = deepcopy(_frame())
    statement["statements"][0]["node"]["select_list"] = nodes
    ((text,),) = ask("SELECT json_deserialize_sql(?)", [json.dumps(statement)])
    return str(text).removeprefix("SELECT ")


@cache
def _frame() -> Node:
    ((answer,),) = ask("SELECT json_serialize_sql('SELECT 1')")
    frame: Node = json.loads(answer)
    return frame


def slots(node: Node) -> list[Slot]:
    """Return where the children of a node stand."""
    found: list[Slot] = []
    match node["class"]:
        case "FUNCTION":
            found = [(argument, "expression") for argument in node["arguments"]]
        case "COMPARISON":
            found = [(node, "left"), (node, "right")]
        case "CONJUNCTION" | "OPERATOR":
            found = [(node["children"], i) for i in range(len(node["children"]))]
        case "CAST":
            found = [(node, "child")]
        case "CASE":
            for check in node["case_checks"]:
                found += [(check, "when_expr"), (check, "then_expr")]
            found.append((node, "else_expr"))
        case "BETWEEN":
            found = [(node, "input"), (node, "lower"), (node, "upper")]
    return found


def children(node: Node) -> list[Node]:
    """Return the children of a node, in order."""
    return [container[place] for container, place in slots(node)]


def descendants(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, each before its children; no recursion, however deep it is."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(reversed(children(one)))


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
