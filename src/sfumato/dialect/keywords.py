"""The words of a differentially private SELECT: its clauses, its functions, and what has no place in it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sfumato.errors import nearest
from sfumato.names import foreign_names
from sfumato.names.foreign_names import Advice
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate
from sfumato.query.aggregates.aggregate import sql_names

CLAUSES = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
STRATEGY = "PUBLIC_GROUPS"  # of selecting groups: a public table has them
BOUNDS = ("contribution_bounds_per_group", "contribution_bounds_per_row")
LARGEST = ("APPROX_TOP_COUNT", "APPROX_TOP_SUM")
CUMULATIVE = ("CUMULATIVE_COUNT", "CUMULATIVE_SUM")
# Kinds of named arguments, beside one of some texts.
NUMBER, TRUTH, COLUMN, NUMBERS, VALUES = "number", "truth", "column", "numbers", "values"
STRATA = {"stratum": COLUMN, "strata": VALUES, "asked": NUMBERS, "population": NUMBERS, "confidence": NUMBER}
FORM = (
    "write STRATIFIED_PROPORTION(award, stratum => school, strata => ['E', 'H'], asked => [400, 200], "
    "population => [4421, 755])"
)
# Those that many functions have, and those of one.
SHARED = {"error_bars": TRUTH, "weight": COLUMN, "max_weight": NUMBER}
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
GROUPINGS = ("GROUPING", "GROUPING_ID")  # functions that say which total a row is
NO_FORM = "there is no private form of it here"


@cache
def _refusals() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("refusals.toml").read_text(encoding="utf-8"))


def refusals(section: str) -> Advice:
    """Return what is told of names that have no place, from a section of `refusals.toml`."""
    entries = _refusals
    return Advice(lambda: {one: why for names, why in entries()[section].items() for one in names.split()})


def slips() -> dict[str, str]:
    """Return what to write in the place of other languages' spellings, by patterns."""
    return _refusals()["slips"]


NOT_PRIVATE = refusals("aggregates")
NO_NUMBER = "must be written as a number here, such as 3, -0.5 or 1e-6: without quotes, arithmetic or NULL"
# After these an expression goes on: what follows is no end of it.
_OPERATORS = (
    "AND OR NOT IS IN LIKE ILIKE SIMILAR GLOB TO ESCAPE COLLATE BETWEEN CASE WHEN THEN ELSE DISTINCT FROM"
)
OPERATORS = frozenset(_OPERATORS.split(" "))
# What stands behind GROUP BY and HAVING, and sees released groups alone.
AFTER = ("QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH")
INTERVALS = ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH")
REFUSED_SOURCES = refusals("words_of_from")


def line(y: str, *x: str, bounds: Mapping[str, Any]) -> Aggregate:
    """Explain a column by others."""
    return ask.linear_regression(y, x, bounds=bounds)


PREFIXES = {
    "VARIANCE": "var",
    "VAR_POP": "var",
    "COVAR_POP": "covar",
    "COUNTIF": "count_if",
    "STDDEV_POP": "stddev",
    "APPROX_QUANTILES": "quantiles",
    "APPROX_COUNT_DISTINCT": "count_distinct",
    "PERCENTILE_CONT": "percentile",
    "STRATIFIED_PROPORTION": "proportion",
}
# Which the older clause has no name for.
NEWER = (
    *("COVAR_POP", "CORR", "LINEAR_REGRESSION", "HISTOGRAM", "VALUE_COUNTS", "STRATIFIED_PROPORTION"),
    *("VECTOR_SUM", "VECTOR_AVG", "COUNTIF", "COUNT_IF", *CUMULATIVE),
)
TWINS = {
    "VARIANCE": "ANON_VAR_POP",
    "STDDEV": "ANON_STDDEV_POP",
    "APPROX_QUANTILES": "ANON_QUANTILES",
    "APPROX_COUNT_DISTINCT": "ANON_COUNT",
    **dict.fromkeys(("MEDIAN", "MIN", "MAX"), "ANON_PERCENTILE_CONT"),
    "ANON_QUANTILES": "APPROX_QUANTILES",
}
FUNCTIONS: dict[str, Callable[..., Aggregate]] = {
    name: make for make in ask.FUNCTIONS for name in sql_names(make)
} | {"LINEAR_REGRESSION": line}
PRIVATE = (*FUNCTIONS, *LARGEST)
WEIGHTED = (ask.count, ask.sum, ask.mean, ask.histogram, ask.value_counts)
# With a list, or with named arguments of their own.
LISTED = (ask.histogram, ask.value_counts, ask.vector_sum, ask.vector_mean)
# What may do without error bars, for less noise.
QUANTILES = (ask.quantiles, ask.median, ask.min, ask.max)


def meant(name: str, anonymization: bool = False) -> str | None:
    """Return the private aggregate that a function of another name is: of another library, or mistyped.

    Args:
        name: as it is written.
        anonymization: whether names of the older clause are meant.

    >>> meant("AVERAGE"), meant("std"), meant("CUONT"), meant("length_of_stay")
    ('AVG', 'STDDEV', 'COUNT', None)
    """
    known = {n: make.__name__ for n, make in FUNCTIONS.items() if n.startswith("ANON_") == anonymization}
    bare = name.lower().removeprefix("anon_")
    ours = foreign_names.AGGREGATES.get(bare, bare)
    ours = "quantiles" if ours == "quantile" else ours
    same = [n for n, made in known.items() if made == ours]
    preferred = [n for n in same if n.endswith("PERCENTILE_CONT")] or same
    return preferred[0] if preferred else nearest(name, known)
