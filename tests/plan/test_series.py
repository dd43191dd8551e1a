"""Cumulative totals: what one unit moves, what is drawn, what is shown, and what is refused."""

import datetime as dt
from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations, product
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import EngineError, QueryError
from sfumato.exact import root_up
from sfumato.exact.time_trees import Toeplitz
from sfumato.framework import SeriesDistance
from sfumato.noise import SeededWords
from sfumato.testing import noise_free
from sfumato.transformations import Count, Moments, ValueGrid, per_group
from tests.support.plan_chains import same_loss

WEEKS = 12
TABLE = pa.table(
    {
        "id": [i for i in range(6) for _ in range(WEEKS)],
        "week": list(range(WEEKS)) * 6,
        "town": ["A", "B"] * (3 * WEEKS),
        "x": [0.25 * (i % 7) for i in range(6 * WEEKS)],
    }
)
PEOPLE = sf.scan(TABLE, privacy_unit="id")
BUDGET = {"epsilon": 1, "delta": "1/1000000"}
BOTH = {"n": sf.count(), "total": sf.cumulative(sf.count())}


def weeks(count=WEEKS, groups=1, rows=1, **asked):
    grouped = PEOPLE.group_by("week", keys=list(range(count)))
    return grouped.bound(groups=groups, rows=rows).agg(**(asked or BOTH))


def towns(groups=2, **asked):
    keys = [(town, week) for week in range(WEEKS) for town in "BA"]
    grouped = PEOPLE.group_by("town", "week", keys=keys)
    return grouped.bound(groups=groups, rows=1).agg(
        **(asked or {"n": sf.count(), "total": sf.cumulative(sf.count(), over="week")})
    )


# Errors.


@pytest.mark.parametrize("groups, most", [(1, 0.15), (10, 0.4)])
def test_totals_of_1000_weeks_have_less_than_half_the_error_of_weeks_by_themselves(groups, most):
    asked = weeks(1000, groups, total=sf.cumulative(sf.count()))
    plan = asked.plan(**BUDGET)
    alone = weeks(1000, groups, n=sf.count()).plan(**BUDGET, noise="gaussian").deviations["units"]
    assert plan.expected["total"] < most * alone * sqrt(1001 / 2)
    assert "error" in str(plan.explain()) and same_loss(plan)
    assert plan.loss.delta(1) <= F(1, 10**6) < plan.loss.delta(F(99, 100))


# What one unit moves.

STATISTICS = [Count(2), Moments("x", "x", 2, ValueGrid(0, -3, 3))]
FACTOR = Toeplitz.from_power(F(1, 2), 5)


def shape(series=1, factor=FACTOR, groups=2, statistics=STATISTICS):
    names = tuple(n for s in statistics for n in s.names)
    keys = tuple(tuple(range(5 * i, 5 * i + 5)) for i in range(series))
    metric = SeriesDistance(names, (F(2), F(6))[: len(names)], factor, keys)
    body = per_group(statistics, groups=groups).output_metric.body
    size = root_up(metric.moved(body, groups))
    return replace(metric, scales=tuple(size * s for s in metric.scales))


@pytest.mark.parametrize(
    "series, groups", [(1, 1), (1, 4), (2, 2), pytest.param(2, 4, marks=pytest.mark.long)]
)
def test_no_unit_moves_a_series_by_more_than_1_and_one_moves_it_as_far(series, groups):
    metric = shape(series, groups=groups)
    largest = [{"rows": 2, "x.sum": s} for s in (-6, 6)]
    moved = max(
        metric.distance(dict(zip(chosen, vectors, strict=True)), {})
        for chosen in combinations(range(5 * series), groups)
        for vectors in product(largest, repeat=groups)
    )
    assert F(99, 100) < moved <= 1


# What is drawn.


def test_totals_are_those_of_their_own_series_in_order_of_time():
    days = [dt.date(2024, 12, 30) + dt.timedelta(7 * i) for i in range(4)]
    rows = [(i, town, day) for i in range(5) for town in (None, "B") for day in days[: i + 1]]
    table = pa.table(dict(zip(("id", "town", "day"), map(list, zip(*rows, strict=True)), strict=True)))
    keys = [(town, day) for day in reversed(days) for town in ("B", None)]
    asked = sf.scan(table, privacy_unit="id").group_by("town", "day", keys=keys).bound(groups=8, rows=1)
    with noise_free():
        shown = (
            asked.agg(n=sf.count(), total=sf.cumulative(sf.count_units(), over="day"))
            .release(**BUDGET)
            .to_arrow()
        )
    for town in (None, "B"):
        own = sorted((r["day"], r["n"], r["total"]) for r in shown.to_pylist() if r["town"] == town)
        assert [n for _, n, _ in own] == [5, 4, 3, 2] and [t for _, _, t in own] == [5, 9, 12, 14]


def test_steps_that_are_changed_on_their_way_are_refused():
    series = weeks().query.series
    assert series.order([pa.array(range(WEEKS))[::-1]]).tolist() == [list(range(WEEKS))[::-1]]
    with pytest.raises(EngineError):
        series.order([pa.array([*range(WEEKS - 1), 0])])


# What is refused.


BY_WEEK = sf.cumulative(sf.count(), over="week")
LACKS = [(0, "A"), (1, "A"), (0, "B")]  # a week of town B


@pytest.mark.parametrize(
    "made",
    [
        lambda: sf.cumulative(sf.mean("x", lower=0, upper=1)),
        lambda: sf.cumulative(sf.sum("x")),
        lambda: sf.cumulative("x"),
        lambda: sf.cumulative(sf.cumulative(sf.count())),
        lambda: sf.cumulative(sf.count(), over=3),
        lambda: towns(c=sf.cumulative(sf.count())),
        lambda: towns(c=sf.cumulative(sf.count(), over="id")),
        lambda: towns(c=sf.cumulative(sf.count(), over="town")),
        lambda: towns(a=sf.cumulative(sf.count(), over="week"), b=sf.cumulative(sf.count(), over="town")),
        lambda: weeks(q=sf.median("x", lower=0, upper=1), c=sf.cumulative(sf.count())),
        lambda: weeks(q=sf.count_distinct("x", values=1), c=sf.cumulative(sf.count())),
        lambda: weeks(c=sf.cumulative(sf.sum("town", lower=0, upper=1))),
        lambda: weeks((1 << 14) + 1),
        lambda: PEOPLE.group_by("week").bound(groups=1, rows=1).agg(**BOTH),
        lambda: PEOPLE.bound(rows=1).agg(**BOTH),
        lambda: PEOPLE.group_by("week", keys=[1]).bound(total_rows=2).agg(**BOTH),
        lambda: PEOPLE.group_by("x", keys=[1.0, 2.0]).bound(groups=1).agg(**BOTH),
        lambda: PEOPLE.group_by("week", keys=[1, None]).bound(groups=1).agg(**BOTH),
        lambda: PEOPLE.group_by("week", "town", keys=LACKS).bound(groups=1, rows=1).agg(c=BY_WEEK),
    ],
)
def test_questions_that_are_refused(made):
    with pytest.raises(QueryError):
        made()


# With a delta of 0.

TOTALS = {"total": sf.cumulative(sf.count()), "s": sf.cumulative(sf.sum("x", lower=0, upper=2))}


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("groups", [1, pytest.param(WEEKS, marks=pytest.mark.long)])
def test_bars_of_totals_without_delta_hold(groups):
    asked, inside, errors = weeks(groups=groups, **TOTALS), [], []
    with noise_free():
        truth = asked.release(epsilon=1).to_arrow()
    for i in range(60):
        release = asked.release(epsilon=1, confidence=0.95, unsafe_words=SeededWords(i)).to_arrow()
        off = [np.abs(release[n].to_numpy() - truth[n].to_numpy()) for n in TOTALS]
        inside.append(
            [(o <= release[f"{n}_error"].to_numpy()).mean() for o, n in zip(off, TOTALS, strict=True)]
        )
        errors.append((off[0] ** 2).mean())
    assert np.mean(inside, axis=0).min() > 0.94
    assert sqrt(np.mean(errors)) == pytest.approx(asked.plan(epsilon=1).expected["total"], rel=0.2)
