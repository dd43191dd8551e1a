"""A total condition in parts that DuckDB may move, each to where its columns are read.

Around the whole, TRY would keep DuckDB from that: of `a AND b` no part would come below a join, and no
comparison to the reader of a file. Comparisons of columns as they are need no TRY, and are what leaves out
parts of a file by their smallest and largest values.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sfumato.dialect.tree import Node, children
from sfumato.engines.duckdb.expressions.binding import is_constant
from sfumato.engines.duckdb.expressions.syntax import made
from sfumato.query import sizes

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
