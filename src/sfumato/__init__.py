"""Differential privacy with exactly rounded noise.

Ask SQL or data-frame questions of a table of personal rows; get a noisy table that is safe to
publish, with error bars, an explanation and what it cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.advice.advice import Advice
    from sfumato.advice.advise import advise
    from sfumato.api.question import Question
    from sfumato.api.table import Table
    from sfumato.budget import Budget
    from sfumato.budget.epsilon_meaning import explain_epsilon
    from sfumato.budget.ledger import Ledger
    from sfumato.engines.catalog import Catalog, catalog
    from sfumato.engines.question_check import check
    from sfumato.engines.scan import public, scan
    from sfumato.engines.sql import sql
    from sfumato.measurements.stratified_survey import StratifiedProportion, stratified_proportion
    from sfumato.query.aggregates import (
        correlation,
        count,
        count_distinct,
        count_if,
        count_units,
        covariance,
        cumulative,
        difference,
        histogram,
        linear_regression,
        max,
        mean,
        median,
        min,
        proportion,
        quantile,
        quantiles,
        ratio,
        stddev,
        sum,
        value_counts,
        variance,
        vector_mean,
        vector_sum,
    )
    from sfumato.query.tables.public_table import PublicTable
    from sfumato.release.combined_releases import change, combine, read_release
    from sfumato.release.estimate_table import EstimateTable
    from sfumato.release.noisy_table import NoisyTable
    from sfumato.release.processed_release import ProcessedRelease
    from sfumato.release.receipt import Receipt
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease

# Loaded when they are first used: DuckDB and Arrow take longer to import than `sfumato --help`
# should take to answer.
_HOMES = {
    "Advice": "sfumato.advice.advice",
    "advise": "sfumato.advice.advise",
    "Budget": "sfumato.budget",
    "Ledger": "sfumato.budget.ledger",
    "EstimateTable": "sfumato.release.estimate_table",
    "NoisyTable": "sfumato.release.noisy_table",
    "ProcessedRelease": "sfumato.release.processed_release",
    "PublicTable": "sfumato.api.table",
    "Catalog": "sfumato.engines.catalog",
    "Question": "sfumato.api.question",
    "Receipt": "sfumato.release.receipt",
    "Release": "sfumato.release.release",
    "StratifiedProportion": "sfumato.measurements.stratified_survey",
    "Table": "sfumato.api.table",
    "TopRelease": "sfumato.release.top_release",
    "catalog": "sfumato.engines.catalog",
    "change": "sfumato.release.combined_releases",
    "check": "sfumato.engines.question_check",
    "combine": "sfumato.release.combined_releases",
    "correlation": "sfumato.query.aggregates",
    "covariance": "sfumato.query.aggregates",
    "linear_regression": "sfumato.query.aggregates",
    "count": "sfumato.query.aggregates",
    "count_distinct": "sfumato.query.aggregates",
    "count_if": "sfumato.query.aggregates",
    "count_units": "sfumato.query.aggregates",
    "difference": "sfumato.query.aggregates",
    "explain_epsilon": "sfumato.budget.epsilon_meaning",
    "cumulative": "sfumato.query.aggregates",
    "histogram": "sfumato.query.aggregates",
    "max": "sfumato.query.aggregates",
    "mean": "sfumato.query.aggregates",
    "median": "sfumato.query.aggregates",
    "min": "sfumato.query.aggregates",
    "proportion": "sfumato.query.aggregates",
    "public": "sfumato.engines.scan",
    "quantile": "sfumato.query.aggregates",
    "quantiles": "sfumato.query.aggregates",
    "read_release": "sfumato.release.combined_releases",
    "ratio": "sfumato.query.aggregates",
    "scan": "sfumato.engines.scan",
    "sql": "sfumato.engines.sql",
    "stddev": "sfumato.query.aggregates",
    "stratified_proportion": "sfumato.measurements.stratified_survey",
    "sum": "sfumato.query.aggregates",
    "value_counts": "sfumato.query.aggregates",
    "variance": "sfumato.query.aggregates",
    "vector_mean": "sfumato.query.aggregates",
    "vector_sum": "sfumato.query.aggregates",
}

__all__ = [
    "Advice",
    "Budget",
    "Catalog",
    "EstimateTable",
    "Ledger",
    "NoisyTable",
    "ProcessedRelease",
    "PublicTable",
    "Question",
    "Receipt",
    "Release",
    "StratifiedProportion",
    "Table",
    "TopRelease",
    "advise",
    "catalog",
    "change",
    "check",
    "combine",
    "correlation",
    "count",
    "count_distinct",
    "count_if",
    "count_units",
    "covariance",
    "cumulative",
    "difference",
    "explain_epsilon",
    "histogram",
    "linear_regression",
    "max",
    "mean",
    "median",
    "min",
    "proportion",
    "public",
    "quantile",
    "quantiles",
    "ratio",
    "read_release",
    "scan",
    "sql",
    "stddev",
    "stratified_proportion",
    "sum",
    "value_counts",
    "variance",
    "vector_mean",
    "vector_sum",
]

__version__ = "0.1.0"


def _looked_up(name: str) -> Any:
    import gc
    from importlib import import_module

    if name not in _HOMES:
        if name.startswith("_"):
            raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
        from sfumato.names import unknown_name
        from sfumato.names.foreign_names import MODULE

        raise unknown_name("sfumato", name, __all__, MODULE)
    # What modules make stays: looking for garbage in it would take a tenth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        value = getattr(import_module(_HOMES[name]), name)
    finally:
        if collects:
            gc.enable()
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a checker of types knows the names above, and says which are none
    __getattr__ = _looked_up


def __dir__() -> list[str]:
    return [*sorted(__all__), "__version__"]
