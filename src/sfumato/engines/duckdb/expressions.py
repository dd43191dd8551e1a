"""Row expressions: judged on DuckDB's own syntax tree before anything is read.

An expression may see one row and nothing else. What could see other rows (aggregates, windows,
subqueries), change between calls (random, sequences), reach outside (settings, variables) or
exhaust memory at will (repeat, range) is refused here; what can still fail on a row gives NULL,
because the engine wraps every expression in TRY.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from sfumato.errors import ColumnError, QueryError, nearest
from sfumato.query.engine import Column

_ALLOWED = {
    "COLUMN_REF",
    "CONSTANT",
    "FUNCTION",
    "COMPARISON",
    "CONJUNCTION",
    "OPERATOR",
    "CAST",
    "CASE",
    "BETWEEN",
    "TYPE",
}
_REFUSED = {
    "SUBQUERY": "a subquery, which sees other rows",
    "WINDOW": "a window function, which sees other rows",
    "STAR": "a star; name the columns",
    "LAMBDA": "a lambda; use plain functions of the row",
    "PARAMETER": "a parameter; write the value itself",
}
# What an expression may call: functions of their arguments alone that make no value much larger than
# these, and whose failures TRY turns to NULL. Each was tried on hostile arguments; a function that is
# not listed may be safe, but nobody has looked.
_OPERATORS = {"+", "-", "*", "/", "//", "%", "**", "^", "@", "||", "&", "|", "~", "<<", ">>", "->>"}
_PATTERNS = {"~~", "!~~", "~~*", "!~~*", "~~~", "^@"}
_NUMBERS = """
    abs acos acosh add asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees
    divide even exp factorial floor gamma gcd greatest greatest_common_divisor isfinite isinf isnan
    lcm least least_common_multiple lgamma ln log log10 log2 mod multiply nextafter pi pow power
    radians round round_even sign signbit sin sinh sqrt subtract tan tanh trunc xor
"""
_TEXTS = """
    ascii bit_length char_length character_length chr concat concat_ws contains damerau_levenshtein
    editdist3 ends_with hamming instr jaccard jaro_similarity jaro_winkler_similarity lcase left
    left_grapheme len length length_grapheme levenshtein lower ltrim md5 mismatches nfc_normalize
    octet_length ord position prefix regexp_extract regexp_full_match regexp_matches regexp_replace
    replace reverse right right_grapheme rtrim sha1 sha256 split split_part starts_with str_split
    str_split_regex string_split string_split_regex string_to_array strip_accents strlen strpos
    substr substring substring_grapheme suffix translate trim ucase unicode upper
"""
_NESTED = """
    array_contains array_extract array_position element_at json_array_length json_exists
    json_extract json_extract_string json_type json_valid json_value list_contains list_element
    list_extract list_has list_position list_value row struct_extract struct_pack
"""
_OTHERS = "constant_or_null hash if nullif typeof"
# Of an interval some of these fail in a way that TRY does not catch: they take dates and times alone.
_PARTS_OF_TIMES = {
    "century", "date_diff", "date_part", "date_trunc", "datediff", "datepart", "datetrunc", "day",
    "dayname", "dayofmonth", "dayofweek", "dayofyear", "decade", "epoch", "era", "hour", "isodow",
    "isoyear", "julian", "last_day", "microsecond", "millennium", "millisecond", "minute", "month",
    "monthname", "quarter", "second", "strftime", "week", "weekday", "weekofyear", "year",
    "yearweek",
}  # fmt: skip
_MAKE_TIMES = {
    "date_trunc", "datetrunc", "last_day", "make_date", "make_timestamp", "strptime",
    "to_timestamp", "try_strptime",
}  # fmt: skip
_AVAILABLE = (
    _OPERATORS | _PATTERNS | _PARTS_OF_TIMES | _MAKE_TIMES
    | set(" ".join((_NUMBERS, _TEXTS, _NESTED, _OTHERS)).split())
)  # fmt: skip
_TIME_TYPES = ("DATE", "TIMESTAMP")


class Expressions:
    """Judges row expressions on one connection.

    Args:
        connection: its functions are those that expressions may use.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def check(self, where: str, text: str, columns: Mapping[str, Column]) -> dict[str, Any]:
        """Return the syntax tree of an admissible expression.

        Args:
            where: "filter" or "with_columns", for the error.
            text: the expression.
            columns: those that it may use.
        Raises:
            QueryError: it is no expression of one row; the text says what is wrong and where.
        """
        tree = self._parse(where, text)
        for node in _nodes(tree):
            kind, at = node.get("class"), node.get("query_location", 0) - len(_PREFIX)
            if kind == "COLUMN_REF":
                self._check_column(where, text, node["column_names"], columns, at)
            elif kind == "FUNCTION":
                self._check_function(where, text, node, columns, at)
            elif kind not in _ALLOWED:
                raise QueryError(
                    _marked(where, text, at, f"holds {_REFUSED.get(str(kind), str(kind).lower())}")
                )
        return tree

    def columns(self, text: str) -> set[str]:
        """Return what an admissible expression may read: the first parts of its names, case folded."""
        nodes = _nodes(self._parse("", text))
        return {n["column_names"][0].casefold() for n in nodes if n.get("class") == "COLUMN_REF"}

    def _parse(self, where: str, text: str) -> dict[str, Any]:
        (answer,) = self._run("SELECT json_serialize_sql(?)", [f"{_PREFIX}{text}\n)"])
        parsed = json.loads(answer)
        if parsed.get("error"):
            at = int(parsed.get("position", 0)) - len(_PREFIX)
            why = f"is not SQL: {parsed.get('error_message', '')}"
            if at > len(text.encode()):  # what is read there is the end of our own parentheses
                why = "ends too early, or has a ) too many"
            raise QueryError(_marked(where, text, at, why))
        statements = parsed["statements"]
        node = statements[0]["node"] if len(statements) == 1 else {}
        selected = node.get("select_list", [])
        if (
            len(selected) != 1
            or node.get("from_table", {}).get("type") != "EMPTY"
            or node.get("where_clause")
        ):
            raise QueryError(f"{where}: {text!r} is more than one SQL expression")
        tree: dict[str, Any] = selected[0]
        return tree

    def _run(self, sql: str, parameters: list[str]) -> tuple[Any, ...]:
        rows = self._connection.cursor().execute(sql, parameters).fetchall()
        return rows[0]  # type: ignore[no-any-return]

    def _check_column(
        self, where: str, text: str, path: list[str], columns: Mapping[str, Column], at: int
    ) -> None:
        # DuckDB ignores case; a first part that is a column may have a field of a struct behind it.
        folded = {c.casefold() for c in columns}
        if path[0].casefold() not in folded:
            raise ColumnError.unknown(path[0], columns, f"{where}: {text!r}")

    def _check_function(
        self, where: str, text: str, node: dict[str, Any], columns: Mapping[str, Column], at: int
    ) -> None:
        name = node["function_name"].lower()
        if node.get("schema") or node.get("catalog"):
            # A database file may hold a macro of any name, whose body is not in this tree.
            why = f"names the schema of {name}; write the function alone"
            raise QueryError(_marked(where, text, at, why))
        if name not in _AVAILABLE:
            kinds = self._connection.cursor().execute(
                "SELECT DISTINCT function_type FROM duckdb_functions() WHERE lower(function_name) = ?", [name]
            )
            known = {kind for (kind,) in kinds.fetchall()}
            if known & {"aggregate", "table", "table_macro"}:
                why = f"uses {name}, which is not a function of one row alone"
            elif known:
                why = f"uses {name}, which is not available here: it is not known to be safe on every row"
            else:
                near = nearest(name, _AVAILABLE)
                why = f"uses {name}, which is not a function" + (f"; did you mean {near}?" if near else "")
            raise QueryError(_marked(where, text, at, why))
        if name in _PARTS_OF_TIMES:
            arguments = [argument["expression"] for argument in node["arguments"]]
            if not all(a["class"] == "CONSTANT" or _is_time(a, columns) for a in arguments):
                why = f"uses {name}, which takes a date or a timestamp here; cast to one: CAST(... AS DATE)"
                raise QueryError(_marked(where, text, at, why))


_PREFIX = "SELECT (\n"


def complete_columns(tree: Mapping[str, Any]) -> set[str]:
    """Return columns that cannot be NULL where the expression is true: `x IS NOT NULL` and its ANDs."""
    if tree.get("type") == "OPERATOR_IS_NOT_NULL":
        (child,) = tree["children"]
        if child.get("class") == "COLUMN_REF" and len(child["column_names"]) == 1:
            return {child["column_names"][0]}
    if tree.get("type") == "CONJUNCTION_AND":
        return set().union(*(complete_columns(child) for child in tree["children"]))
    return set()


def _is_time(node: Mapping[str, Any], columns: Mapping[str, Column]) -> bool:
    """Whether an argument is a column, or a cast, to a date or a timestamp."""
    if node["class"] == "CAST":
        return str(node["type_expr"].get("type_name", "")).upper().startswith(_TIME_TYPES)
    if node["class"] == "FUNCTION":
        return node["function_name"].lower() in _MAKE_TIMES
    if node["class"] != "COLUMN_REF" or len(node["column_names"]) != 1:
        return False
    types = {name.casefold(): column.type_name for name, column in columns.items()}
    return types.get(node["column_names"][0].casefold(), "").startswith(_TIME_TYPES)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _marked(where: str, text: str, at: int, why: str) -> str:
    at = len(text.encode()[: max(at, 0)].decode(errors="ignore"))  # DuckDB counts bytes
    line = text[:at].count("\n")
    start = text.rfind("\n", 0, at) + 1
    shown = text.split("\n")[line]
    return f"{where}: the expression {why}\n    {shown}\n    {' ' * (at - start)}^"
