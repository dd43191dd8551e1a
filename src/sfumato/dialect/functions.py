"""The functions of private aggregates: what each asks, and its forms and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sfumato.dialect.vocabulary import CUMULATIVE, LARGEST
from sfumato.errors import nearest
from sfumato.names import foreign
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate
from sfumato.query.aggregates.aggregate import sql_names


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
    ours = foreign.AGGREGATES.get(bare, bare)
    ours = "quantiles" if ours == "quantile" else ours
    same = [n for n, made in known.items() if made == ours]
    preferred = [n for n in same if n.endswith("PERCENTILE_CONT")] or same
    return preferred[0] if preferred else nearest(name, known)
