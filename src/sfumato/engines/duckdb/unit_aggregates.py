"""Aggregates of one unit's rows: validated on DuckDB's syntax tree, in a form that cannot raise.

What a group of rows gives must follow from which rows they are, not from their order, so that the rows of
other units, which change how DuckDB divides its work, change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sfumato.dataclass import dataclass
from sfumato.dialect.syntax_tree import Node, NotSql, parse_expressions, write_sql
from sfumato.engines.duckdb.expressions.safe_parts import get_type
from sfumato.engines.duckdb.expressions.validation import ValidatedExpression, validate
from sfumato.engines.duckdb.ordering import order_by
from sfumato.errors import QueryError, nearest
from sfumato.query.schema import FLOATS, INTEGERS, Schema
from sfumato.sql_text import double

AGGREGATES = ("count", "sum", "avg", "min", "max", "bool_and", "bool_or")
_NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
_SUMS = {"sum": "HUGEINT", "avg": "DOUBLE"}  # of whole numbers
_VECTOR = re.compile(r"BIGINT\[(\d+)\]")
# Of so large ones a HUGEINT holds the sum of 2^36, which no table has.
_SUMMED, _HALF = 2**90, f"{2**64}::HUGEINT"


# Two of these may compare as equal and differ: 30 days and 1 month, 0.0 and -0.0 in a list.
_SEVERAL = ("INTERVAL", "STRUCT", "MAP", "UNION", "TIME WITH TIME ZONE", "BIT", "JSON", "VARIANT")
# From 2^lowest to below 2^highest; doubles there are multiples of 2^(lowest - 52).
_RANGES = ((-47, -9), (-9, 29), (29, 67))


@dataclass(frozen=True)
class UnitAggregate:
    """An aggregate over one unit's rows, in a form that cannot raise.

    Args:
        value: SQL of what a row gives; NULL where it gives nothing.
        form: the aggregate, given the name of the column that holds it, and what stands behind each call.
        type_name: DuckDB's name of its type.
        missing: whether it may be NULL or NaN, of a unit that has a row.
    """

    value: str
    form: Callable[[str, str], str]
    type_name: str
    missing: bool = True

    def sql(self, column: str, over: str = "") -> str:
        """Return SQL of a unit's aggregate of a column; a window function with OVER (...)."""
        return self.form(column, over)


def unit_aggregate(name: str, text: str, schema: Schema) -> UnitAggregate:
    """Validate the SQL of one aggregate over a unit's rows.

    Raises:
        QueryError: it is no single aggregate of an expression of one row, or of a type that it does not take.
    """
    where = f"per_unit: {name}"
    node = _parse(where, text)
    function, arguments = node["function_name"].lower(), node["arguments"]
    if function == "count_star" or (function == "count" and not arguments):
        found = UnitAggregate("1", "count({}){}".format, "BIGINT", False)
    elif len(arguments) != 1:
        raise QueryError(f"{where}: {function} takes one expression of a row")
    else:
        one = validate(where, write_sql(arguments[0]["expression"]), schema)
        found = _aggregate(where, function, one, bool(node["distinct"]))
    if node["filter"] is not None:
        condition = validate(where, write_sql(node["filter"]), schema)
        kept = f"CASE WHEN TRY_CAST(({condition.text}) AS BOOLEAN) THEN ({found.value}) END"
        found = replace(found, value=kept, missing=not function.startswith("count"))
    return found


def _parse(where: str, text: str) -> Node:
    try:
        found = parse_expressions(f"SELECT (\n{text}\n)")
    except NotSql as error:
        raise QueryError(f"{where}: {text!r} {error.why}") from None
    node = found[0]
    if len(found) != 1 or node["class"] != "FUNCTION" or node.get("schema") or node.get("catalog"):
        raise QueryError(
            f"{where}: {text!r} is not one aggregate, such as sum(price). Combine several in "
            "with_columns after it"
        )
    function = node["function_name"].lower()
    if function not in (*AGGREGATES, "count_star"):
        near = nearest(function, AGGREGATES)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(AGGREGATES)}"
        raise QueryError(f"{where}: {function} is not an aggregate for per_unit; {hint}")
    if node["order_bys"]["orders"] or node.get("export_state"):
        raise QueryError(
            f"{where}: {function} has an ORDER BY, but the rows of a unit have no order. Leave it out"
        )
    if node["distinct"] and function not in ("count", "min", "max", "bool_and", "bool_or"):
        raise QueryError(f"{where}: DISTINCT is supported only in count")
    return node


def _aggregate(where: str, function: str, one: ValidatedExpression, distinct: bool) -> UnitAggregate:
    value, kind = one.text, one.type_name
    if function == "count":
        return UnitAggregate(
            value, (f"count({'DISTINCT ' if distinct else ''}{{}}){{}}").format, "BIGINT", False
        )
    if function in ("min", "max"):
        # Of values that compare as equal, one would be taken as it comes.
        if kind.endswith("]") or kind.startswith(_SEVERAL):
            raise QueryError(
                f"{where}: {function} of {kind}, whose values can be equal but not identical. "
                "Cast it, such as CAST(x AS VARCHAR)"
            )
        if kind in FLOATS:
            value = _one_nan(f"({value}) + 0::{kind}", kind)
        elif kind == "VARCHAR":
            value, kind = f'CAST(({value}) AS VARCHAR) COLLATE "binary"', "VARCHAR"
        return UnitAggregate(value, f"{function}({{}}){{}}".format, kind, one.missing)
    if function in ("bool_and", "bool_or"):
        if kind != "BOOLEAN":
            raise QueryError(f"{where}: {function} takes a condition, but this is {kind}")
        return UnitAggregate(value, f"{function}({{}}){{}}".format, kind, one.missing)
    if function == "sum" and (entries := _VECTOR.fullmatch(kind)):
        return UnitAggregate(value, partial(_sum_of_vectors, int(entries[1])), "DOUBLE[]")
    if kind.endswith("]") or not kind.startswith(_NUMBERS):
        hint = (
            "Take one entry, such as x[1]" if kind.endswith("]") else "Cast it, such as try_cast(x AS DOUBLE)"
        )
        raise QueryError(f"{where}: {function} takes a number, but this is {kind}. {hint}")
    if kind in INTEGERS or kind == "BOOLEAN":
        # What no table's sum exceeds, and what several values may.
        large = one.span is not None and max(map(abs, one.span)) > _SUMMED
        whole = (_sum_of_large, _mean_of_large) if large else (_sum_of_integers, _mean_of_integers)
        if function == "avg" or kind == "BOOLEAN":
            value = f"CAST(({value}) AS HUGEINT)"
        return UnitAggregate(value, whole[function == "avg"], _SUMS[function], large or one.missing)
    digits = re.fullmatch(r"DECIMAL\((\d+),\d+\)", kind)
    if function == "sum" and digits and int(digits[1]) <= 18:
        return UnitAggregate(value, "sum({}){}".format, get_type("sum(_0)", (kind,)))
    value = _one_nan(f"CAST(({value}) AS DOUBLE)", "DOUBLE")
    return UnitAggregate(value, _sum_of_doubles if function == "sum" else _mean_of_doubles, "DOUBLE")


def _sum_of_vectors(entries: int, x: str, over: str) -> str:
    """Return SQL of a unit's sum of vectors, entry by entry; NULL where there is none."""
    sums = ", ".join(f"CAST(sum({x}[{i}]){over} AS DOUBLE)" for i in range(1, entries + 1))
    return f"CASE WHEN count({x}){over} > 0 THEN [{sums}] END"


def _sum_of_integers(x: str, over: str) -> str:
    return f"sum({x}){over}"


def _halves(x: str, over: str) -> tuple[str, str]:
    """Return SQL of a unit's sums of the upper and lower 64 bits of HUGEINTs."""
    upper, lower = f"sum({x} // {_HALF}){over}", f"sum({x} % {_HALF}){over}"
    rest = f"((({lower}) % {_HALF} + {_HALF}) % {_HALF})"
    return f"({upper} + ({lower} - {rest}) // {_HALF})", rest


def _sum_of_large(x: str, over: str) -> str:
    """Return SQL of a unit's sum of HUGEINTs; NULL where HUGEINT does not hold it."""
    upper, lower = _halves(x, over)
    kept = f"CASE WHEN {upper} BETWEEN {-(2**63)} AND {2**63 - 1} THEN {upper} END"
    # In two parts, as DuckDB refuses a product that is the smallest HUGEINT.
    return f"({kept} * {2**63}::HUGEINT + {kept} * {2**63}::HUGEINT + {lower})"


def _mean_of_large(x: str, over: str) -> str:
    upper, lower = _halves(x, over)
    # The halves of a small sum below 0 cancel, so that a double of them holds none of its digits.
    beyond = f"CAST({upper} AS DOUBLE) * {double(2.0**64)} + CAST({lower} AS DOUBLE)"
    total = f"coalesce(CAST({_sum_of_large(x, over)} AS DOUBLE), {beyond})"
    return f"CASE WHEN count({x}){over} > 0 THEN {total} / count({x}){over} END"


def _mean_of_integers(x: str, over: str) -> str:
    count = f"count({x}){over}"
    return f"CASE WHEN {count} > 0 THEN CAST(sum({x}){over} AS DOUBLE) / {count} END"


def _one_nan(value: str, kind: str) -> str:
    """Return SQL in which all NaN of a unit's values are the same."""
    return f"CASE WHEN isnan({value}) THEN 'nan'::{kind} ELSE {value} END"


def _mean_of_doubles(x: str, over: str) -> str:
    return f"{_sum_of_doubles(x, over)} / count({x}){over}"


def _sum_of_doubles(x: str, over: str) -> str:
    """Return SQL of a unit's sum of doubles that no order of rows changes.

    Doubles of a range are multiples of one power of two, and 128 bits hold the exact sum of 2^36 of them. The
    few in none are added up in order.
    """
    size, parts = f"abs({x})", []
    for lowest, highest in _RANGES:
        scale = double(2.0 ** (52 - lowest))
        among = f"{size} >= {double(2.0**lowest)} AND {size} < {double(2.0**highest)}"
        steps = f"sum(CASE WHEN {among} THEN CAST({x} * {scale} AS HUGEINT) END){over}"
        parts.append(f"CAST(coalesce({steps}, 0) AS DOUBLE) / {scale}")
    least, most = double(2.0 ** _RANGES[0][0]), double(2.0 ** _RANGES[-1][1])
    rest = f"{size} >= {most} OR ({size} < {least} AND {x} <> 0)"
    parts.append(_one_nan(f"coalesce(sum({x} {order_by([x])}) FILTER (WHERE {rest}){over}, 0)", "DOUBLE"))
    return f"CASE WHEN count({x}){over} > 0 THEN {' + '.join(parts)} END"
