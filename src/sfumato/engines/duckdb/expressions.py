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
}
_REFUSED = {
    "SUBQUERY": "a subquery, which sees other rows",
    "WINDOW": "a window function, which sees other rows",
    "STAR": "a star; name the columns",
    "LAMBDA": "a lambda; use plain functions of the row",
    "PARAMETER": "a parameter; write the value itself",
}
# Consistent by DuckDB's word, but they read what is not in the row, stop the query on purpose, or
# make values of any size out of a number in a row.
_OUTSIDE = {
    "error", "getvariable", "current_setting", "getenv", "current_database", "current_schema",
    "current_schemas", "current_query", "current_user", "session_user", "current_role", "user",
    "version", "pg_typeof", "in_search_path", "txid_current", "query", "write_log",
    "parse_duckdb_log_message",
    "json_execute_serialized_sql", "json_serialize_plan", "json_deserialize_sql", "json_serialize_sql",
    "currval", "nextval", "sleep", "sleep_ms", "set_seed", "setseed", "has_schema_privilege", "read_text",
    "read_blob", "is_histogram_other_bin",
}  # fmt: skip
_GROWING = {
    "repeat", "lpad", "rpad", "range", "generate_series", "list_resize", "array_resize", "bar", "format",
    "printf", "repeat_row", "bitstring", "apply", "list_transform", "list_filter", "list_reduce", "reduce",
    "filter", "array_transform", "array_filter", "array_reduce", "array_apply", "list_apply", "combinations",
    "equi_width_bins",
}  # fmt: skip


class Expressions:
    """Judges row expressions on one connection.

    Args:
        connection: its functions are those that expressions may use.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._stable: set[str] | None = None
        self._known: set[str] = set()

    def check(self, where: str, text: str, columns: Mapping[str, Any]) -> dict[str, Any]:
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
                self._check_function(where, text, node["function_name"], at)
            elif kind not in _ALLOWED:
                raise QueryError(
                    _marked(where, text, at, f"holds {_REFUSED.get(str(kind), str(kind).lower())}")
                )
        return tree

    def _parse(self, where: str, text: str) -> dict[str, Any]:
        (answer,) = self._run("SELECT json_serialize_sql(?)", [f"{_PREFIX}{text}\n)"])
        parsed = json.loads(answer)
        if parsed.get("error"):
            raise QueryError(f"{where}: {text!r} is not a SQL expression: {parsed.get('error_message', '')}")
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
        self, where: str, text: str, path: list[str], columns: Mapping[str, Any], at: int
    ) -> None:
        # DuckDB ignores case; a first part that is a column may have a field of a struct behind it.
        folded = {c.casefold() for c in columns}
        if path[0].casefold() not in folded:
            raise ColumnError.unknown(path[0], columns, f"{where}: {text!r}")

    def _check_function(self, where: str, text: str, name: str, at: int) -> None:
        if self._stable is None:
            rows = self._connection.cursor().execute(
                "SELECT lower(function_name), function_type, coalesce(stability, 'CONSISTENT') "
                "FROM duckdb_functions()"
            )
            listed = rows.fetchall()
            unfit = {n for n, kind, stability in listed if kind != "scalar" or stability != "CONSISTENT"}
            self._known = {n for n, _, _ in listed}
            self._stable = self._known - unfit - _OUTSIDE - _GROWING
        folded = name.lower()
        if folded in self._stable:
            return
        if folded in _GROWING:
            why = f"uses {name}, which makes values of any size out of a row; it is not available"
        elif folded in self._known:
            why = f"uses {name}, which is not a function of one row alone"
        else:
            near = nearest(folded, self._stable)
            why = f"uses {name}, which is not a function" + (f"; did you mean {near}?" if near else "")
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
    at = min(max(at, 0), len(text))
    line = text[:at].count("\n")
    start = text.rfind("\n", 0, at) + 1
    shown = text.splitlines()[line] if text else ""
    return f"{where}: the expression {why}\n    {shown}\n    {' ' * (at - start)}^"
