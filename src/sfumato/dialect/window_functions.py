"""Window functions over one unit's rows: arguments, PARTITION BY, ORDER BY and frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import duckdb

from sfumato.dialect.syntax_tree import (
    WINDOW,
    Node,
    aggregates,
    ask,
    get_column_name,
    made,
    parts,
    unknown,
    write_sql,
)
from sfumato.errors import SqlError
from sfumato.query.schema import format_name
from sfumato.query.tables.shaped_tables import NO_FRAME, PLACES, RANKS, Distance, Frame, Order, WindowCall

Refuse = Callable[[Node, str], SqlError]
# How many arguments each takes: a column, a whole number, another value.
_FUNCTIONS = {
    "row_number": (0, 0), "rank": (0, 0), "dense_rank": (0, 0), "percent_rank": (0, 0), "cume_dist": (0, 0),
    "ntile": (1, 1), "lag": (1, 3), "lead": (1, 3), "first_value": (1, 1), "last_value": (1, 1),
    "nth_value": (2, 2),
}  # fmt: skip
_SAME = {"first": "first_value", "last": "last_value"}
_ENDS = {
    "UNBOUNDED_PRECEDING": "UNBOUNDED PRECEDING", "UNBOUNDED_FOLLOWING": "UNBOUNDED FOLLOWING",
    "CURRENT_ROW": "CURRENT ROW", "EXPR_PRECEDING": "{} PRECEDING", "EXPR_FOLLOWING": "{} FOLLOWING",
}  # fmt: skip
_DIRECTIONS = {"ASCENDING": "ASC", "ORDER_DEFAULT": "ASC", "DESCENDING": "DESC"}
_NULLS = {"NULLS FIRST": " NULLS FIRST", "NULLS LAST": " NULLS LAST", "ORDER_DEFAULT": " NULLS LAST"}
_MAX_ROWS = 10**9
_NUMBER = re.compile(r"-?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})(e[+-]?\d{1,2})?", re.IGNORECASE)
_SPAN = (
    "SELECT 12 * datepart('year', i) + datepart('month', i), datepart('day', i), datepart('hour', i), "
    "datepart('minute', i), datepart('microsecond', i) FROM (SELECT CAST({} AS INTERVAL) AS i)"
)


def window_call(
    name: str, node: Node, unit: str, column: Callable[[Node, str], str], refuse: Refuse
) -> WindowCall:
    """Return what a window function over one unit's rows computes, after checks of its parts.

    Args:
        name: of the new column.
        node: DuckDB's tree, over the columns of a table.
        unit: the privacy unit's column.
        column: gives the column of an expression, derived where it is none.
        refuse: makes an error from a node and a message.
    Raises:
        SqlError: it sees rows of several units, or what it gives is not fixed by which rows there are.
    """
    if more := unknown(node, WINDOW):
        raise refuse(node, f"{more[0]} in a window is not supported")
    for part in parts(node):
        if part["class"] == "WINDOW" and part is not node:
            raise refuse(part, "windows cannot be nested. Write the inner one in a subquery")
    if node.get("schema") or node.get("catalog"):
        raise refuse(node, "a function with the name of its schema is not supported. Leave the schema out")
    if unit not in [get_column_name(part) for part in node["partitions"]]:
        raise refuse(
            node,
            "a window over rows of several units is not private. Write OVER (PARTITION BY "
            f"{format_name(unit)}, ...), which sees the rows of one unit",
        )
    by = tuple(dict.fromkeys(column(part, "key") for part in node["partitions"]))
    order = tuple(
        Order(column(one["expression"], "rank"), _DIRECTIONS[one["type"]] + _NULLS[one["null_order"]])
        for one in node["orders"]
    )
    frame = _frame(node, refuse)
    function = node["function_name"].lower()
    function = _SAME.get(function, function)
    if function in (*PLACES, *RANKS):
        frame = NO_FRAME
    aggregate, arguments = "", tuple[str | int, ...]()
    if node["arg_orders"]:
        raise refuse(
            node, f"{function} cannot have an ORDER BY of its own. Write it in OVER (... ORDER BY ...)"
        )
    if function in _FUNCTIONS:
        arguments = _arguments(function, node, column, refuse)
    elif function in aggregates() or function == "count_star":
        aggregate, function = _aggregate(node, refuse), ""
    else:
        raise refuse(
            node, f"{function} is not a window function that is supported. Use one of {', '.join(_FUNCTIONS)}"
        )
    by = tuple(one for one in by if one != unit)
    ignore = bool(node["ignore_nulls"])
    return WindowCall(name, function, aggregate, arguments, by, order, *frame[:3], ignore, frame[3:])


def _frame(node: Node, refuse: Refuse) -> Frame:
    """Return a window's frame: ROWS, RANGE or GROUPS, its two ends and their distances."""
    if node["exclude_clause"] != "NO_OTHER":
        raise refuse(node, "EXCLUDE in a window is not supported. Leave it out")
    kinds = {
        kind
        for kind in ("ROWS", "RANGE", "GROUPS")
        for end in ("start", "end")
        if node[end].endswith(f"_{kind}")
    }
    kind = kinds.pop() if len(kinds) == 1 else "RANGE"
    ends: list[str] = []
    distances: list[Distance | None] = []
    for end in ("start", "end"):
        word = node[end].removesuffix(f"_{kind}")
        if word not in _ENDS:
            raise refuse(node, "this frame is not supported. Write ROWS BETWEEN n PRECEDING AND CURRENT ROW")
        distances.append(None)
        if "{}" in _ENDS[word] and kind == "RANGE":
            distances[-1] = _distance(node[f"{end}_expr"], refuse, node)
            ends.append(_ENDS[word])
            continue
        number = _number(node[f"{end}_expr"], refuse, node, 0) if "{}" in _ENDS[word] else 0
        ends.append(_ENDS[word].format(number))
    return kind, ends[0], ends[1], distances[0], distances[1]


def _distance(node: Node, refuse: Refuse, where: Node) -> Distance:
    """Return the distance of a RANGE frame: a number, or an interval made of constants."""
    found: Distance | None = None
    literal = node.get("literal", {})
    try:
        if literal.get("kind") in ("INTEGER", "NUMERIC") and _NUMBER.fullmatch(literal["text"]):
            found = Distance(Fraction(literal["text"]))
        elif node["class"] != "CONSTANT" and all(map(_is_in_interval, parts(node))):
            ((months, days, hours, minutes, rest),) = ask(_SPAN.format(write_sql(node)))
            found = Distance(None, (months, days, ((hours * 60 + minutes) * 60 * 10**6) + rest))
    except ValueError as error:
        raise refuse(where, str(error)) from None
    except (duckdb.Error, TypeError):  # it is none, or NULL
        found = None
    if found is None:
        raise refuse(
            where, "the distance in RANGE must be a number or an interval, such as INTERVAL 30 DAYS PRECEDING"
        )
    return found


def _is_in_interval(node: Node) -> bool:
    """Whether a node may stand in the interval of a window's RANGE frame."""
    match node["class"]:
        case "CONSTANT":
            return len(node["literal"]["text"]) < 100
        case "FUNCTION":
            return node["function_name"] == "trunc" or str(node["function_name"]).startswith("to_")
        case "CAST":
            return str(node["type_expr"]["type_name"]) in ("INTERVAL", "DOUBLE", "INTEGER", "BIGINT")
    return bool(node["class"] == "TYPE")


def _arguments(
    function: str, node: Node, column: Callable[[Node, str], str], refuse: Refuse
) -> tuple[str | int, ...]:
    """Return the arguments of a window function such as LAG: columns and constants."""
    given = [one["expression"] for one in node["arguments"]]
    for name in ("offset_expr", "default_expr"):
        if node.get(name):
            given.append(node[name])
    least, most = _FUNCTIONS[function]
    if not least <= len(given) <= most:
        raise refuse(
            node, f"{function} takes {least} to {most} arguments" if most else f"{function} takes nothing"
        )
    if node["filter_expr"] or node["distinct"]:
        raise refuse(
            node, f"FILTER and DISTINCT in {function} are not supported. Write CASE to give NULL for a row"
        )
    if function == "ntile":
        return (_number(given[0], refuse, node, 1),)
    found: list[str | int] = [column(given[0], "value")] if given else []
    if len(given) > 1:
        found.append(_number(given[1], refuse, node, 1 if function == "nth_value" else 0))
    if len(given) > 2:
        found.append(column(given[2], "default"))
    return tuple(found)


def _number(node: Node | None, refuse: Refuse, where: Node, least: int) -> int:
    """Return a number of rows in a window function or frame."""
    text = node["literal"]["text"] if node is not None and node["class"] == "CONSTANT" else ""
    if not text.isdigit() or len(text) > 10 or not least <= int(text) <= _MAX_ROWS:
        raise refuse(
            where, f"the number of rows in a window must be a whole number from {least} to {_MAX_ROWS:,}"
        )
    return int(text)


def _aggregate(node: Node, refuse: Refuse) -> str:
    """Return an aggregate that is used as a window function, as SQL text."""
    if node["ignore_nulls"]:
        raise refuse(node, f"IGNORE NULLS in {node['function_name']} is not supported. Leave it out")
    called = made("f()") | {
        "function_name": node["function_name"],
        "filter": node["filter_expr"],
        "distinct": node["distinct"],
        "arguments": node["arguments"],
        "qualified_name": {"path": [node["function_name"]]},
    }
    return write_sql(called)
