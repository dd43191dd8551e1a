"""Row expressions: validated on DuckDB's own syntax tree before anything is read, and made total.

An expression may see one row and nothing else. What could see other rows (aggregates, windows,
subqueries), change between calls (random, sequences), reach outside (settings, variables) or
exhaust memory at will (repeat, range) is refused here; what could fail on a row is given a form that
gives NULL there (`total`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.overloads import functions
from sfumato.dialect.sql_tokens import scan, slip, too_deep, with_slip
from sfumato.dialect.syntax_tree import (
    Node,
    NotSql,
    ask,
    children,
    descendants,
    made,
    parse_expressions,
    write_sql,
)
from sfumato.engines.duckdb.expressions import texts
from sfumato.engines.duckdb.expressions.safe_forms import FORMS, OF_CONSTANTS, OPERATORS, to_safe_form
from sfumato.engines.duckdb.expressions.safe_parts import DoesNotBind, Span, Unsafe, get_type, is_constant
from sfumato.engines.duckdb.nullability import complete_columns, may_be_missing
from sfumato.errors import ColumnError, QueryError, SqlError, nearest
from sfumato.query import sizes
from sfumato.query.schema import Column
from sfumato.sql_text import identifier, same_name

# Of each of these any two values compare, without a cast.
_COMPARED = re.compile(
    r"BOOLEAN|U?(TINYINT|SMALLINT|INTEGER|BIGINT)|HUGEINT|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|DATE|UUID|"
    r"TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?"
)
_COMPARISONS = (
    "COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO", "COMPARE_BETWEEN", "OPERATOR_IS_NOT_NULL",
)  # fmt: skip


def condition(tree: Node, type_of_column: Callable[[Node], str]) -> Node:
    """Return what stands behind WHERE.

    Args:
        tree: a total expression: whatever a comparison casts, it shows.
        type_of_column: the type of a reference to a column.
    """
    parts = children(tree) if tree["type"] == "CONJUNCTION_AND" else [tree]
    if len(parts) > sizes.CONDITIONS:
        parts = [tree]
    walled = [one if _is_plain(one, type_of_column) else _walled(one) for one in parts]
    return walled[0] if len(walled) == 1 else made(" AND ".join(f"_{i}" for i in range(len(walled))), *walled)


def _walled(tree: Node) -> Node:
    """Return a condition that is not true where it cannot be told; TRY is a second wall."""
    return made("TRY(TRY_CAST(_0 AS BOOLEAN))", tree)


def _is_plain(tree: Node, type_of_column: Callable[[Node], str]) -> bool:
    return tree["type"] in _COMPARISONS and all(
        is_constant(one)
        or (
            one["class"] == "COLUMN_REF"
            and len(one["column_names"]) == 1
            and _COMPARED.fullmatch(type_of_column(one)) is not None
        )
        for one in children(tree)
    )


_ALLOWED = frozenset(
    ["COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "CAST", "CASE", "BETWEEN"]
)
_REFUSED = {
    "SUBQUERY": "a subquery, which sees other rows",
    "WINDOW": "a window function, which sees other rows",
    "STAR": "a star. List the columns",
    "LAMBDA": "a lambda. Use functions of the row",
    "PARAMETER": "a parameter. Write the value itself",
}
# What DuckDB's parser says of these. A part that it says nothing about is null or empty.
_PARTS = (
    "alias arguments case_checks catalog child children class column_names distinct else_expr export_state "
    "filter function_name input is_legacy_function_call is_operator left literal lower order_bys "
    "qualified_name query_location query_location_length right schema try_cast type type_expr upper"
)
_KNOWN_PARTS = frozenset(_PARTS.split(" "))
_PREFIX = "SELECT (\n"
# How many characters an expression may have, also with the derived columns that it uses written out in it.
LONGEST = 1 << 17
_SHORT = 60  # of a name that is shown twice
_MAX_OPERATIONS = 2048  # each takes some milliseconds to judge
# What makes times with a zone, or reads them, where no column has them.
_ZONED = re.compile(r"TIMESTAMPTZ|TIME ZONE|\b(to_timestamp|timezone)\b", re.IGNORECASE)
# TRY_CAST itself raises on some of their values, or crashes, and takes the whole database with it.
_HOSTILE = re.compile(r"\b(VARIANT|BIGNUM)\b")


@dataclass(frozen=True)
class ValidatedExpression:
    """An admissible expression.

    Args:
        text: SQL that has its values and cannot raise.
        type_name: DuckDB's name of its type.
        missing: whether it may be NULL or NaN.
        columns: what it reads: the first parts of its names, by `same_name`.
        complete: columns that are neither NULL nor NaN where it is true.
        uses: how often each column stands in the text, by `same_name`.
        held: how many long texts it holds for a row, as `costs` counts them.
        where: the tree of what it is as a condition.
        span: of a whole number, the smallest and the largest value that it can have.
        zoned: whether its values may follow from the time zone of the session.
    """

    text: str
    type_name: str
    missing: bool
    columns: frozenset[str]
    complete: frozenset[str]
    uses: Mapping[str, int]
    held: int
    where: Node
    span: Span | None = None
    zoned: bool = False

    @cached_property
    def condition(self) -> str:
        """SQL that is true where the expression is, and cannot raise; the text behind WHERE."""
        return write_sql(self.where)


def validate(where: str, text: str, columns: Mapping[str, Column]) -> ValidatedExpression:
    """Judge an expression of one row.

    Args:
        where: "filter" or "with_columns", for the error.
        text: the expression.
        columns: those that it may use.
    Raises:
        QueryError: it is none, or has a part that could raise on a row; the text says what and where.
    """
    _check_size(where, str(text))
    try:
        return _validate(where, text, columns)
    except ColumnError:
        raise
    except QueryError as error:
        why = with_slip(str(error), text)
    raise QueryError(why)


def _validate(where: str, text: str, columns: Mapping[str, Column]) -> ValidatedExpression:
    try:
        tree = _parse(where, text)
        for node in descendants(tree):
            _check(where, text, node, columns)
        if sum(bool(children(node)) for node in descendants(tree)) > _MAX_OPERATIONS:
            raise QueryError(
                f"{where}: the expression has more than {_MAX_OPERATIONS} operations. Name its "
                "parts with with_columns"
            )
        part = to_safe_form(tree, lambda node: _type_of_column(node, columns))
        where_true = condition(part.node, lambda node: _type_of_column(node, columns))
        sql = write_sql(part.node)
    except Unsafe as error:
        raise QueryError(_mark(where, text, _at(error.node), error.why)) from None
    except RecursionError:
        raise QueryError(
            f"{where}: the expression is nested too deeply. Name its parts with with_columns"
        ) from None
    reads = frozenset(_uses(tree))
    complete = complete_columns(where_true, columns)
    missing = may_be_missing(part.node, part.type_name, columns)
    uses, held = _uses(part.node), texts.held(part.node)
    zoned = bool(_ZONED.search(sql)) or any(
        "TIME ZONE" in column.type_name for name, column in columns.items() if same_name(name) in reads
    )
    kind = part.type_name
    return ValidatedExpression(sql, kind, missing, reads, complete, uses, held, where_true, part.span, zoned)


def _check_size(where: str, text: str) -> None:
    """Refuse what DuckDB's parser would take long to refuse, or all memory."""
    if len(text) > LONGEST:
        raise QueryError(
            f"{where}: the expression is longer than {LONGEST} characters. Name its parts with with_columns"
        )
    with suppress(SqlError):  # of a quote that does not end, which DuckDB's parser refuses at once
        if too_deep(scan(text)):
            raise QueryError(
                f"{where}: the expression is nested too deeply. Name its parts with with_columns"
            )


def _parse(where: str, text: str) -> Node:
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in str(text)):
        raise QueryError(
            f"{where}: the expression has a character that cannot stand in it (NUL, or half of a "
            "surrogate pair)"
        )
    try:
        selected = parse_expressions(f"{_PREFIX}{text}\n)")
    except NotSql as error:
        at = error.at - len(_PREFIX)
        if error.at < 0:
            raise QueryError(f"{where}: {text!r} {error.why}") from None
        why = error.why
        if at > len(text.encode()):  # what is read there is the end of our own parentheses
            why = "ends too early, or has a ) too many"
        raise QueryError(_mark(where, text, at, why)) from None
    if len(selected) != 1:
        raise QueryError(f"{where}: {text!r} is more than one SQL expression")
    return selected[0]


def _check(where: str, text: str, node: Node, columns: Mapping[str, Column]) -> None:
    kind = node["class"]
    if kind == "COLUMN_REF":
        # A first part that is a column may have a field of a struct behind it.
        if same_name(node["column_names"][0]) not in map(same_name, columns):
            name = node["column_names"][0]
            raise ColumnError._unknown(name, columns, f"{where}: {text!r}", _meant(name, text, columns))
    elif kind == "FUNCTION":
        _check_function(where, text, node)
    elif kind == "OPERATOR" and node["type"] not in OPERATORS:
        raise QueryError(_mark(where, text, _at(node), f"holds {node['type'].lower()}"))
    elif kind not in _ALLOWED:
        raise QueryError(_mark(where, text, _at(node), f"holds {_REFUSED.get(kind, kind.lower())}"))
    if new := [name for name, value in node.items() if value and name not in _KNOWN_PARTS]:
        raise QueryError(_mark(where, text, _at(node), f"uses {new[0]}, which is new in DuckDB's SQL"))


def _meant(name: str, text: str, columns: Mapping[str, Column]) -> str:
    """Return what was meant by a name that is no column, where it is likely a text; else nothing."""
    told = slip(text)
    if not told and len(name) <= _SHORT and (f'"{name}"' in text or nearest(name, columns) is None):
        return f"write text in single quotes, '{name}'"
    return told


def _check_function(where: str, text: str, node: Node) -> None:
    name = node["function_name"].lower()
    if node.get("schema") or node.get("catalog"):
        # A database file may hold a macro of any name, whose body is not in this tree.
        why = f"names the schema of {name}. Write the function alone"
    elif node.get("filter") or node.get("distinct") or node["order_bys"]["orders"]:
        why = f"gives {name} a clause of an aggregate"
    elif name in functions().missing:
        why = f"uses {name}, which DuckDB {duckdb.__version__} does not have"
    elif name in FORMS or (name in OF_CONSTANTS and is_constant(node)):
        return
    else:
        sql = "SELECT DISTINCT function_type FROM duckdb_functions() WHERE lower(function_name) = ?"
        kinds = {kind for (kind,) in ask(sql, [name])}
        if kinds & {"aggregate", "table", "table_macro"}:
            why = f"uses {name}, which is not a function of a single row"
        elif kinds:
            why = f"uses {name}, which is not known to be safe on every row"
        else:
            near = nearest(name, FORMS)
            why = f"uses {name}, which is not a function" + (f"; did you mean {near}?" if near else "")
    raise QueryError(_mark(where, text, _at(node), why))


def _type_of_column(node: Node, columns: Mapping[str, Column]) -> str:
    name, *fields = node["column_names"]
    kind = next(c.type_name for n, c in columns.items() if same_name(n) == same_name(name))
    if fields and kind == "JSON":
        raise Unsafe(node, f"takes a part of JSON. Write json_extract({name}, '$.{fields[0]}')")
    if len(fields) > kind.count("("):  # DuckDB takes seconds to say so of thousands
        raise Unsafe(node, f"takes more fields of {name} than it has")
    try:
        kind = get_type(".".join(["_0", *map(identifier, fields)]), (kind,)) if fields else kind
    except DoesNotBind as error:
        raise Unsafe(node, f"does not fit the columns: {error}") from None
    if hostile := _HOSTILE.search(kind):
        raise Unsafe(node, f"uses {name}, which has {hostile[0]}. Cast it before scan")
    return kind


def _uses(tree: Node) -> Counter[str]:
    return Counter(same_name(n["column_names"][0]) for n in descendants(tree) if n["class"] == "COLUMN_REF")


def _at(node: Node) -> int:
    at = int(node.get("query_location", 0))
    return at - len(_PREFIX) if at < 2**63 else 0


def _mark(where: str, text: str, at: int, why: str) -> str:
    at = len(text.encode()[: max(at, 0)].decode(errors="ignore"))  # DuckDB counts bytes
    line = text[:at].count("\n")
    start = text.rfind("\n", 0, at) + 1
    shown = text.split("\n")[line]
    return f"{where}: the expression {why}\n    {shown}\n    {' ' * (at - start)}^"
