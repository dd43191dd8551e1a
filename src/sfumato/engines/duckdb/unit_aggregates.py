"""Aggregates of one unit's rows: judged on DuckDB's syntax tree, in a form that cannot raise.

What a group of rows gives must follow from which rows they are, not from their order, so that the rows of
other units, which change how DuckDB divides its work, change nothing. Sums of doubles depend on the order of
addition: they are added up from the smallest to the largest.
"""

from __future__ import annotations

import re

from sfumato.dialect.tree import Node, NotSql
from sfumato.engines.duckdb.expressions import judged
from sfumato.engines.duckdb.expressions.binding import type_of
from sfumato.engines.duckdb.expressions.syntax import parsed, written
from sfumato.errors import QueryError, nearest
from sfumato.query.schema import Schema

AGGREGATES = ("count", "sum", "avg", "min", "max", "bool_and", "bool_or")
_SMALL = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NUMBERS = ("HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", *_SMALL)


def unit_aggregate(name: str, text: str, schema: Schema) -> tuple[str, str]:
    """Return the total form of an aggregate, and DuckDB's name of its type.

    Raises:
        QueryError: it is no single aggregate of an expression of one row, or of a type that it does not take.
    """
    where = f"per_unit: {name}"
    node = _parsed(where, text)
    function, arguments = node["function_name"].lower(), node["arguments"]
    if function == "count_star" or (function == "count" and not arguments):
        sql, kind = "count(*)", "BIGINT"
    elif len(arguments) != 1:
        raise QueryError(f"{where}: {function} takes one expression of a row here")
    else:
        one = judged(where, written(arguments[0]["expression"]), schema)
        sql, kind = _of(where, function, one.text, one.type_name, bool(node["distinct"]))
    if node["filter"] is not None:
        condition = judged(where, written(node["filter"]), schema)
        sql += f" FILTER (WHERE TRY_CAST(({condition.text}) AS BOOLEAN))"
    return sql, kind


def _parsed(where: str, text: str) -> Node:
    try:
        found = parsed(f"SELECT (\n{text}\n)")
    except NotSql as error:
        raise QueryError(f"{where}: {text!r} {error.why}") from None
    node = found[0]
    if len(found) != 1 or node["class"] != "FUNCTION" or node.get("schema") or node.get("catalog"):
        raise QueryError(
            f"{where}: {text!r} is not one aggregate, such as sum(price); compute with several in "
            "with_columns behind it"
        )
    function = node["function_name"].lower()
    if function not in (*AGGREGATES, "count_star"):
        near = nearest(function, AGGREGATES)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(AGGREGATES)}"
        raise QueryError(f"{where}: {function} is no aggregate of a unit's rows that is known here; {hint}")
    if node["order_bys"]["orders"] or node.get("export_state"):
        raise QueryError(f"{where}: {function} with an order; its rows have none")
    if node["distinct"] and function not in ("count", "min", "max", "bool_and", "bool_or"):
        raise QueryError(f"{where}: DISTINCT is known in count alone")
    return node


def _of(where: str, function: str, value: str, kind: str, distinct: bool) -> tuple[str, str]:
    if function == "count":
        return f"count({'DISTINCT ' if distinct else ''}({value}))", "BIGINT"
    if function in ("min", "max"):
        # Of values that compare as equal, one would be taken as it comes.
        if kind in ("FLOAT", "DOUBLE"):
            value = f"({value}) + 0::{kind}"
        elif kind == "VARCHAR" or kind.startswith("ENUM"):
            value, kind = f'CAST(({value}) AS VARCHAR) COLLATE "binary"', "VARCHAR"
        return f"{function}({value})", kind
    if function in ("bool_and", "bool_or"):
        if kind != "BOOLEAN":
            raise QueryError(f"{where}: {function} takes a condition, but this is {kind}")
        return f"{function}(({value}))", kind
    if not kind.startswith(_NUMBERS):
        raise QueryError(
            f"{where}: {function} takes a number, but this is {kind}; cast it, as try_cast(x AS DOUBLE)"
        )
    if kind == "BOOLEAN":
        value, kind = f"CAST(({value}) AS INTEGER)", "INTEGER"
    digits = re.fullmatch(r"DECIMAL\((\d+),\d+\)", kind)
    if kind in _SMALL or (digits and int(digits[1]) <= 18):  # integers inside, which no table's sum exceeds
        sql = f"{function}(({value}))"
        return sql, type_of(f"{function}(_0)", (kind,))
    number = f"CAST(({value}) AS DOUBLE)"
    return f"{function}({number} ORDER BY {number})", "DOUBLE"
