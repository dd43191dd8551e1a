"""DuckDB's syntax trees of SQL text: parse (json_serialize_sql), walk, rewrite, and write back as SQL.

A node is a dictionary as `json_serialize_sql` gives it, with its class, its place in the text and its
children. Nothing here looks at data.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import count
from threading import Lock
from typing import Any

import duckdb

from sfumato.errors import QueryError

Node = dict[str, Any]
Slot = tuple[Any, Any]  # a container and the place in it where a child stands
# Of a node that stands nowhere in a text.
UNNAMED = {"alias": "", "query_location": 2**64 - 1, "query_location_length": 0}
# How many nodes are written one in the other: each takes three levels of JSON, of which DuckDB reads 256.
_MAX_HEIGHT = 50


class NotSql(Exception):
    """SQL text that DuckDB's parser refuses: the reason, and the byte offset, or -1."""

    def __init__(self, why: str, at: int = -1) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


@cache
def _parser_connection(process: int) -> tuple[duckdb.DuckDBPyConnection, Lock]:
    """Return this process's DuckDB connection for parsing: it has no tables and opens no files."""
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "enable_external_access": False,
            "memory_limit": "512MB",
            "python_enable_replacements": False,
        }
    )
    connection.execute("SET threads = 1; SET explain_output = 'all'; SET TimeZone = 'UTC'")
    return connection, Lock()


def ask(sql: str, parameters: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """Run a statement on the parsing connection, which sees no table."""
    connection, lock = _parser_connection(os.getpid())
    with lock:
        try:
            rows: list[tuple[Any, ...]] = connection.execute(sql, list(parameters)).fetchall()
        except UnicodeError:  # of DuckDB's own, where it quotes bytes that are no text
            raise duckdb.InvalidInputException("Error: it holds bytes that are no text") from None
        return rows


def statements(text: str) -> list[Node]:
    """Parse a SQL text with DuckDB and return the syntax tree of each query.

    Raises:
        NotSql: it is none, with the byte at which the parser stopped.
        RecursionError: it is nested too deep for DuckDB's serializer, or for Python.
    """
    try:
        ((answer,),) = ask("SELECT json_serialize_sql(?)", [text])
    except duckdb.SerializationException as error:  # DuckDB's own limit
        raise RecursionError(str(error)) from None
    tree = json.loads(answer)
    if tree.get("error"):
        raise NotSql(str(tree.get("error_message", "")), int(tree.get("position", -1)))
    return [statement["node"] for statement in tree["statements"]]


def write_sql(*nodes: Node) -> str:
    """Return a syntax tree's nodes as SQL text, with commas between."""
    statement = deepcopy(_frame())
    statement["statements"][0]["node"]["select_list"] = nodes
    try:
        ((text,),) = ask("SELECT json_deserialize_sql(?)", [json.dumps(statement)])
    except duckdb.SerializationException:  # nested deeper than DuckDB reads
        return _written_in_parts(nodes)
    return str(text).removeprefix("SELECT ")


def _written_in_parts(nodes: Sequence[Node]) -> str:
    """Return the SQL text of syntax trees too deep for DuckDB's serializer, deep nodes first."""
    whole = json.dumps(nodes)
    mark = next(mark for mark in (f"_part{i}_" for i in count()) if mark not in whole)
    texts: list[str] = []
    shallow = [_shallow(node, mark, texts) for node in nodes]
    if not texts:
        raise RecursionError("it is nested too deep for DuckDB's serializer")
    text = write_sql(*shallow)
    for i in reversed(range(len(texts))):  # a later one holds names of earlier ones
        text = text.replace(f"{mark}{i}_", f"({texts[i]})")
    return text


def _shallow(tree: Node, mark: str, texts: list[str]) -> Node:
    """Return a syntax tree with placeholders for its deep nodes, and collect the SQL text of these."""
    made: dict[int, tuple[Node, int]] = {}
    for node in reversed(list(descendants(tree))):  # parents come before their children
        parts = [made[id(child)] for child in children(node)]
        copy = with_children(node, [part for part, _ in parts])
        height = 1 + max((below for _, below in parts), default=0)
        if height > _MAX_HEIGHT and node is not tree:
            texts.append(write_sql(copy))
            copy, height = column_node(f"{mark}{len(texts) - 1}_"), 1
        made[id(node)] = copy, height
    return made[id(tree)][0]


def column_node(name: str) -> Node:
    """Return the syntax tree node of a reference to a column."""
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", **UNNAMED, "column_names": [name]}


def with_children(node: Node, new: Sequence[Node]) -> Node:
    """Return a copy of a syntax tree node with other children."""
    shallow = dict(node)
    for name in ("arguments", "case_checks", "children"):
        if isinstance(shallow.get(name), list):
            shallow[name] = [dict(e) if name != "children" else e for e in shallow[name]]
    for (container, place), child in zip(slots(shallow), new, strict=True):
        container[place] = child
    return shallow


@cache
def _frame() -> Node:
    ((answer,),) = ask("SELECT json_serialize_sql('SELECT 1')")
    frame: Node = json.loads(answer)
    return frame


@cache
def aggregates() -> frozenset[str]:
    """Return the names of DuckDB's aggregate functions."""
    rows = ask(
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type = 'aggregate'"
    )
    return frozenset(name for (name,) in rows)


def slots(node: Node) -> list[Slot]:
    """Return where the children of a syntax tree node are stored: containers, and keys in them."""
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
        case "SUBQUERY" if node.get("child"):  # x IN (SELECT ...)
            found = [(node, "child")]
    return found


def children(node: Node) -> list[Node]:
    """Return the children of a syntax tree node, in order."""
    return [container[place] for container, place in slots(node)]


def get_byte_offset(node: Node) -> int:
    """Return the byte offset in the SQL text at which a node begins; -1 where DuckDB gives none."""
    at: int = node.get("query_location", -1)
    return at if 0 <= at < 1 << 62 else -1


def descendants(node: Node) -> Iterator[Node]:
    """Yield a syntax tree node and all nodes below it, parents first, without recursion."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(reversed(children(one)))


def in_scope(tree: Node) -> Iterator[tuple[Node, Counter[str]]]:
    """Yield all nodes of a query's syntax tree, each with the visible names of WITH, folded and counted."""
    scope: Counter[str] = Counter()
    waiting: list[tuple[str, Any]] = [("see", tree)]
    while waiting:
        what, one = waiting.pop()
        if what == "name":
            scope[one] += 1
        elif what == "forget":
            scope.subtract(one)
        elif isinstance(one, list):
            waiting.extend(("see", child) for child in reversed(one))
        elif isinstance(one, dict):
            yield one, scope
            waiting.extend(_iter_children(one))


def _iter_children(node: Node) -> Iterator[tuple[str, Any]]:
    """Yield the next steps of the walk over a syntax tree: WITH names are visible in what follows."""
    ctes = node["cte_map"]["map"] if "cte_map" in node else []
    names = [cte["key"].casefold() for cte in ctes]
    yield "forget", names
    yield "see", [value for key, value in node.items() if key != "cte_map" and isinstance(value, dict | list)]
    for cte, name in zip(reversed(ctes), reversed(names), strict=True):
        yield "name", name
        yield "see", cte["value"]


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
_MAX_NODES = 20_000  # nodes: names of the SELECT list may stand in one another


def rewrite_tree(tree: Node, change: Callable[[Node], Node | None]) -> Node:
    """Return a copy of a syntax tree with some nodes replaced, and all aliases removed.

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
            if count > _MAX_NODES:
                raise QueryError("an expression has too many parts. Compute some of them in a subquery")
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
    """Yield the nodes of an expression's syntax tree, without those of subqueries."""
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
    """Return a key that is equal for syntax trees of expressions written alike."""

    def bare(one: Any) -> Any:
        if isinstance(one, dict):
            kept = {key: bare(value) for key, value in one.items() if key not in left_out}
            if one.get("class") == "COLUMN_REF":
                kept["column_names"] = [name.casefold() for name in one["column_names"]]
            return kept
        return [bare(value) for value in one] if isinstance(one, list) else one

    return json.dumps(bare(tree), sort_keys=True)


def unknown(node: Node, known: Collection[str]) -> list[str]:
    """Return the keys of a syntax tree node that are set and not in a list of known keys."""
    return [key for key, value in node.items() if value and key not in known]


def is_aggregate(node: Node) -> bool:
    """Whether a syntax tree node calls an aggregate that is no window function."""
    return node["class"] == "FUNCTION" and node["function_name"].lower() in aggregates()


def get_column_name(node: Node) -> str | None:
    """Return the column's name, where a syntax tree node is a plain column reference."""
    names = node["column_names"] if node["class"] == "COLUMN_REF" else []
    return names[0] if len(names) == 1 else None


def fresh(stem: str, taken: set[str]) -> str:
    """Return an unused name that begins with a stem, and add it, folded, to the used ones."""
    name, number = stem, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name.casefold())
    return name


NULL: Node = {
    "class": "CONSTANT",
    "type": "VALUE_CONSTANT",
    **UNNAMED,
    "literal": {"kind": "NULL_LITERAL", "text": ""},
}


def first_line_of_error(error: Exception) -> str:
    """Return the first line of a DuckDB error about SQL text that sees no table."""
    first = str(error).partition("\n")[0]
    return first.partition(": ")[2] or first


def parse_expressions(select: str) -> list[Node]:
    """Parse the expressions of a SELECT without FROM and return their syntax trees.

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
    """Return the syntax tree of an SQL template in which `_0`, `_1` and so on stand for given trees."""
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
    return parse_expressions(f"SELECT {text}")
