"""The words of a differentially private SELECT: its clauses, its functions, and what has no place in it."""

from __future__ import annotations

CLAUSES = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
BOUNDS = ("contribution_bounds_per_group", "contribution_bounds_per_row")
ERROR_BARS = "error_bars"
WEIGHT, MAX_WEIGHT = "weight", "max_weight"
LARGEST = ("APPROX_TOP_COUNT", "APPROX_TOP_SUM")
CUMULATIVE = ("CUMULATIVE_COUNT", "CUMULATIVE_SUM")
# Named arguments of some functions: a number, TRUE or FALSE, a column, or one of some texts.
NUMBER, TRUTH, COLUMN = "number", "truth", "column"
_PER, _NORM = ("row", "unit"), ("l2", "l1", "linf")
NAMED: dict[str, dict[str, str | tuple[str, ...]]] = {
    "HISTOGRAM": {"outside": ("drop", "count"), "per": _PER, "shares": TRUTH},
    "VALUE_COUNTS": {"other": TRUTH, "per": _PER, "shares": TRUTH},
    "VECTOR_SUM": {"length": NUMBER, "bound": NUMBER, "norm": _NORM, "per": _PER},
    "VECTOR_AVG": {"length": NUMBER, "bound": NUMBER, "norm": _NORM},
    **{name: {"over": COLUMN} for name in CUMULATIVE},
    **{name: {"candidates": NUMBER, "counts": TRUTH, "counts_share": NUMBER} for name in LARGEST},
}
SEVERAL = ("COVAR_POP", "CORR", "LINEAR_REGRESSION", "APPROX_TOP_SUM")  # which take several columns
SINGLE_ROWS = (
    *("ANY_VALUE", "ARBITRARY", "FIRST", "LAST", "LIST", "ARRAY_AGG", "ARRAY_CONCAT_AGG", "STRING_AGG"),
    *("GROUP_CONCAT", "LISTAGG", "MODE", "ARG_MIN", "ARG_MAX", "MIN_BY", "MAX_BY"),
)
GROUPINGS = ("GROUPING", "GROUPING_ID")  # functions that say which total a row is
UNKNOWN_FORM = (
    *("LOGICAL_AND", "LOGICAL_OR", "BOOL_AND", "BOOL_OR", "BIT_AND"),
    *("BIT_OR", "BIT_XOR", "PRODUCT", "GROUPING", "SKEWNESS", "KURTOSIS", "ENTROPY", "ROW_NUMBER", "RANK"),
    *("DENSE_RANK", "LAG", "LEAD", "NTILE"),
)
ROWS_SHOWN = "it shows the values of single rows, and has no private form"
NO_FORM = "there is no private form of it here"
POPULATION = "the divisor here is the count, not the count less one; write {}"
NOT_PRIVATE = {
    **dict.fromkeys(SINGLE_ROWS, ROWS_SHOWN),
    **dict.fromkeys(UNKNOWN_FORM, NO_FORM),
    **{
        f"{anon}{name}_SAMP": POPULATION.format(form.format(anon))
        for anon in ("", "ANON_")
        for name, form in {
            "VAR": "{0}VAR_POP(x, ...) * {0}COUNT(x) / ({0}COUNT(x) - 1)",
            "STDDEV": "{0}STDDEV_POP(x, ...) * sqrt({0}COUNT(x) / ({0}COUNT(x) - 1))",
        }.items()
    },
    "COVAR_SAMP": POPULATION.format("COVAR_POP"),
    **dict.fromkeys(
        [f"REGR_{name}" for name in ("SLOPE", "INTERCEPT", "R2", "COUNT", "AVGX", "AVGY", "SXX", "SXY")],
        "the line of y over x is LINEAR_REGRESSION(y, x, contribution_bounds_per_row => ((lower, upper), "
        "(lower, upper))), with bounds of y and of x",
    ),
    **dict.fromkeys(
        ("APPROX_DISTINCT",),
        "write APPROX_COUNT_DISTINCT(x, contribution_bounds_per_group => (0, values))",
    ),
    **dict.fromkeys(
        ("PERCENTILE_DISC", "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "APPROX_QUANTILE"),
        "write PERCENTILE_CONT(x, 0.5, contribution_bounds_per_row => (lower, upper))",
    ),
}

NO_NUMBER = "must be written as a number here, such as 3, -0.5 or 1e-6: without quotes, arithmetic or NULL"
# After these an expression goes on: what follows is no end of it.
_OPERATORS = (
    "AND OR NOT IS IN LIKE ILIKE SIMILAR GLOB TO ESCAPE COLLATE BETWEEN CASE WHEN THEN ELSE DISTINCT FROM"
)
OPERATORS = frozenset(_OPERATORS.split(" "))
# What stands behind GROUP BY and HAVING, and sees released groups alone.
AFTER = ("QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH")
INTERVALS = ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH")
REFUSED_CLAUSES = {";": "several statements: ask one at a time"}
_JOINS = "CROSS ASOF POSITIONAL SEMI ANTI"
REFUSED_SOURCES = {
    **dict.fromkeys(_JOINS.split(" "), "a join of a kind that is not known here; write JOIN or LEFT JOIN"),
    "RIGHT": "RIGHT JOIN: begin with the private table whose rows all stay, and write LEFT JOIN; groups of a "
    "public table are asked for with group_selection_strategy = PUBLIC_GROUPS",
    "FULL": "FULL JOIN: rows that match nothing would have no privacy unit; write JOIN or LEFT JOIN",
    "NATURAL": "NATURAL JOIN: write USING (column, ...), which a new column does not change",
    ",": "a second table: write JOIN ... ON, so that it is clear which rows meet",
    "TABLESAMPLE": "TABLESAMPLE: leave it out; rows are bounded per privacy unit instead",
    "(": "a table function: write the file's path itself, FROM 'file.parquet'",
    "-": "a name with a dash is written in quotes: FROM `my-project.table`",
}
