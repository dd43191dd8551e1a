"""Keywords of differentially private SQL: clauses, aggregate names, named arguments, refused names."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

from sfumato.errors import nearest
from sfumato.names import foreign_names
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
SHARED = {"error_bars": TRUTH, "weight": COLUMN, "max_weight": NUMBER}
GROUPINGS = ("GROUPING", "GROUPING_ID")  # functions that say which total a row is
NO_FORM = "it has no private form"


@cache
def _sections() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("refusals.toml").read_text(encoding="utf-8"))


@cache
def refusals(section: str) -> Mapping[str, str]:
    """Return the advice on refused keywords and function names, from a section of `refusals.toml`."""
    return {name: advice for names, advice in _sections()[section].items() for name in names.split()}


def slips() -> Mapping[str, str]:
    """Return the advice on keywords and operators of other languages, by pattern."""
    return _sections()["slips"]


NO_NUMBER = "must be a number, such as 3, -0.5 or 1e-6, without quotes, arithmetic or NULL"
# After these an expression goes on: what follows is no end of it.
_OPERATORS = (
    "AND OR NOT IS IN LIKE ILIKE SIMILAR GLOB TO ESCAPE COLLATE BETWEEN CASE WHEN THEN ELSE DISTINCT FROM"
)
OPERATORS = frozenset(_OPERATORS.split(" "))
# What stands behind GROUP BY and HAVING, and sees released groups alone.
AFTER = ("QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH")
INTERVALS = ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH")


PREFIXES = {
    "VARIANCE": "var",
    "VAR_POP": "var",
    "COVAR_POP": "covar",
    "COUNTIF": "count_if",
    "STDDEV_POP": "stddev",
    "APPROX_QUANTILES": "quantiles",
    "APPROX_COUNT_DISTINCT": "count_distinct",
    "PERCENTILE_CONT": "percentile",
    "QUANTILE_CONT": "quantile",
    "STRATIFIED_PROPORTION": "proportion",
}
TWINS = {
    "VARIANCE": "ANON_VAR_POP",
    "STDDEV": "ANON_STDDEV_POP",
    "APPROX_QUANTILES": "ANON_QUANTILES",
    "APPROX_COUNT_DISTINCT": "ANON_COUNT",
    **dict.fromkeys(("MEDIAN", "MIN", "MAX", "QUANTILE_CONT"), "ANON_PERCENTILE_CONT"),
    "ANON_QUANTILES": "APPROX_QUANTILES",
}
FUNCTIONS: dict[str, Callable[..., Aggregate]] = {
    name: make for make in ask.FUNCTIONS for name in sql_names(make)
}
PRIVATE = (*FUNCTIONS, *LARGEST)
# With a list, or with named arguments of their own.
LISTED = (ask.histogram, ask.value_counts, ask.vector_sum, ask.vector_mean)


@cache
def takes(function: str, argument: str) -> bool:
    """Whether the Python function behind an aggregate's SQL name has an argument of this name."""
    return function in FUNCTIONS and argument in signature(FUNCTIONS[function]).parameters


@cache
def named_arguments(function: str) -> Mapping[str, str | tuple[str, ...]]:
    """Return the keywords of an aggregate's named arguments, beside bounds, and the kind of each.

    Those of aggregates with lists and of vectors are the keyword arguments of the Python function.

    >>> named_arguments("VALUE_COUNTS")["other"], named_arguments("VECTOR_AVG")["norm"]
    ('truth', ('l2', 'l1', 'linf'))
    """
    own: dict[str, str | tuple[str, ...]] = {}
    if function in CUMULATIVE:
        own = {"over": COLUMN}
    elif function in LARGEST:
        own = {"candidates": NUMBER, "counts": TRUTH, "counts_share": NUMBER}
    elif FUNCTIONS[function] in LISTED:
        make = FUNCTIONS[function]
        hints, parameters = get_type_hints(make), signature(make).parameters.values()
        own = {one.name: _kind(hints[one.name]) for one in parameters if one.kind is one.KEYWORD_ONLY}
    return {**SHARED, **own, **SHARED}


def _kind(hint: object) -> str | tuple[str, ...]:
    """Return the kind of a named argument's value from the type that the Python signature declares."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return TRUTH if hint is bool else NUMBER


def meant(name: str, anonymization: bool = False) -> str | None:
    """Return the keyword of the private aggregate that a misspelled or foreign function name means.

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
