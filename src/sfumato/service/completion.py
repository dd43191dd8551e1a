"""The words that complete a question of SQL while it is written: known to everybody, of no table."""

from __future__ import annotations

from typing import Any

import duckdb

from sfumato.dialect.options import OPTION_NAMES
from sfumato.dialect.vocabulary import BOUNDS, PRIVATE
from sfumato.engines.duckdb.expressions.total import FORMS

_COUNTED = ", contribution_bounds_per_group => (0, 3))"
_GUESSED = ", contribution_bounds_per_row => (0, 100))"
_PAIR = "contribution_bounds_per_row => ((0, 100), (0, 100)))"
# How an aggregate is written, where it is not NAME(column) with bounds of each row.
_FORMS = {
    "COUNT": "COUNT(*)",
    "SUM": "SUM(x, contribution_bounds_per_group => (0, 100))",
    "APPROX_COUNT_DISTINCT": f"APPROX_COUNT_DISTINCT(x{_COUNTED}",
    "APPROX_QUANTILES": f"APPROX_QUANTILES(x, 4{_GUESSED}",
    "QUANTILES": f"QUANTILES(x, [0.25, 0.5, 0.75]{_GUESSED}",
    "PERCENTILE_CONT": f"PERCENTILE_CONT(x, 0.5{_GUESSED}",
    "HISTOGRAM": "HISTOGRAM(x, [0, 10, 20])",
    "VALUE_COUNTS": "VALUE_COUNTS(x, ['a', 'b'])",
    "VECTOR_SUM": "VECTOR_SUM(x, length => 3, bound => 1)",
    "VECTOR_AVG": "VECTOR_AVG(x, length => 3, bound => 1)",
    "COVAR_POP": f"COVAR_POP(x, y, {_PAIR}",
    "CORR": f"CORR(x, y, {_PAIR}",
    "LINEAR_REGRESSION": f"LINEAR_REGRESSION(y, x, {_PAIR}",
    "CUMULATIVE_COUNT": "CUMULATIVE_COUNT(*)",
    "CUMULATIVE_SUM": "CUMULATIVE_SUM(x, contribution_bounds_per_group => (0, 100))",
    "APPROX_TOP_COUNT": "APPROX_TOP_COUNT(x, 10)",
    "APPROX_TOP_SUM": "APPROX_TOP_SUM(x, y, 10, contribution_bounds_per_group => (0, 100))",
    "STRATIFIED_PROPORTION": (
        "STRATIFIED_PROPORTION(x, stratum => s, strata => ['a', 'b'], asked => [100, 50], "
        "population => [4421, 755])"
    ),
}
_KEYWORDS = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS FROM WHERE GROUP BY ORDER LIMIT AS AND OR NOT IN BETWEEN CASE "
    "WHEN THEN ELSE END JOIN LEFT ON USING DISTINCT HAVING UNION ALL"
)


# Of DuckDB's grammar: words that are no column's where they stand without quotes.
_RESERVED = (
    "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
)
_OURS = "over"  # which our own reader takes for a window's


def words() -> dict[str, Any]:
    """Return aggregates with the form in which they are written, functions of a row, options and keywords.

    `reserved` are the words that a column of this name has to be quoted for.

    >>> next(one for one in words()["aggregates"] if one["name"] == "COUNT")
    {'name': 'COUNT', 'form': 'COUNT(*)'}
    """
    aggregates = [name for name in PRIVATE if not name.startswith("ANON_")]  # the older clause's
    with duckdb.connect() as connection:
        reserved = {str(word) for (word,) in connection.execute(_RESERVED).fetchall()}
    return {
        "aggregates": [
            {"name": name, "form": _FORMS.get(name, f"{name}(x{_GUESSED}")} for name in aggregates
        ],
        "functions": sorted(name for name in FORMS if name.isidentifier()),
        "options": [*OPTION_NAMES, *BOUNDS],
        "keywords": _KEYWORDS.split(" "),
        "reserved": sorted(reserved | {_OURS}),
    }
