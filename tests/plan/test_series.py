"""Cumulative totals: what one unit moves, what is drawn, what is shown, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations, product
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit, falsify
from sfumato.budget import gaussian_mu
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.exact.time_trees import Toeplitz
from sfumato.framework import SeriesDistance
from sfumato.measurements import series_gaussian
from sfumato.noise import SeededWords
from sfumato.noise.series_noise import FINE, SeriesGaussian, TreeLaplace
from sfumato.testing import assert_approx_equal, assert_noisy, noise_free, recording, release_mechanism
from sfumato.transformations import Count, CountUnits, Moments, Row, ValueGrid, bound_groups, per_group
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
BUDGET = {"epsilon": 1, "delta": "1/1000000"}
BOTH = {"n": sf.count(), "total": sf.cumulative(sf.count())}
SUMS = {"m": sf.mean("x", lower=0, upper=2), "s": sf.cumulative(sf.sum("x", lower=0, upper=2, per="row"))}


def weeks(count=WEEKS, groups=1, rows=1, **asked):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("week", keys=list(range(count)))
    return grouped.bound(groups=groups, rows=rows).agg(**(asked or BOTH))


def towns(groups=2, **asked):
    keys = [(town, week) for week in range(WEEKS) for town in "BA"]
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("town", "week", keys=keys)
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


def test_a_unit_in_all_weeks_has_noise_of_each_week():
    plan = weeks(200, 200).plan(**BUDGET)
    assert plan.metric.factor.coefficients[1] == 0 and plan.expected["n"] == pytest.approx(
        plan.deviations["units"], rel=1e-4
    )


def test_weights_say_whether_weeks_or_totals_matter():
    asked = weeks(300)
    weekly, total = (asked.weigh(**{name: 100}).plan(**BUDGET).expected for name in ("n", "total"))
    assert weekly["n"] < total["n"] and total["total"] < weekly["total"]


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
def test_errors_and_bars_are_those_that_are_promised():
    """60 releases: errors within a fifth of what is expected, and 0.93 of 0.95 bars hold."""
    asked, errors, inside = weeks(groups=WEEKS, **BOTH, **SUMS).weigh(total=10, s=10), [], []
    truth = np.arange(6, 6 * WEEKS + 1, 6)
    for i in range(60):
        release = asked.release(**BUDGET, confidence=0.95, unsafe_words=SeededWords(i)).to_arrow()
        off = np.abs(release["total"].to_numpy() - truth)
        errors.append((off**2).mean())
        inside.append((off <= release["total_error"].to_numpy()).mean())
    assert sqrt(np.mean(errors)) == pytest.approx(asked.plan(**BUDGET).expected["total"], rel=0.2)
    assert np.mean(inside) > 0.93


# What one unit moves.

STATISTICS = [Count(2), Moments("x", "x", 2, ValueGrid(0, -3, 3))]
FACTOR = Toeplitz.of_power(F(1, 2), 5)


def shape(series=1, factor=FACTOR, groups=2, statistics=STATISTICS):
    names = tuple(n for s in statistics for n in s.names)
    keys = tuple(tuple(range(5 * i, 5 * i + 5)) for i in range(series))
    metric = SeriesDistance(names, (F(2), F(6))[: len(names)], factor, keys)
    body = per_group(statistics, groups=groups).output_metric.body
    size = root_up(metric.moved(body, groups))
    return replace(metric, scales=tuple(size * s for s in metric.scales))


@pytest.mark.parametrize("series", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_no_unit_moves_a_series_by_more_than_1_and_one_moves_it_as_far(series, groups):
    metric = shape(series, groups=groups)
    largest = [{"rows": 2, "x.sum": s} for s in (-6, 6)]
    moved = max(
        metric.distance(dict(zip(chosen, vectors, strict=True)), {})
        for chosen in combinations(range(5 * series), groups)
        for vectors in product(largest, repeat=groups)
    )
    assert F(99, 100) < moved <= 1


@pytest.mark.parametrize("groups, asked", [(1, BOTH), (3, BOTH), (3, SUMS)])
def test_the_falsifier_finds_no_unit_that_moves_a_plan_by_more_than_1(groups, asked):
    plan = weeks(6, groups, rows=2, **asked).plan(**BUDGET)
    metric = replace(plan.metric, series=tuple(tuple(k for (k,) in one) for one in plan.metric.series))
    rows, statistics = plan.exact_chain.input_domain, plan.requirements.statistics
    chain = bound_groups(groups, domain=rows) >> per_group(statistics, groups=groups, together=metric)
    found = falsify(chain, 1, evaluations=150)
    assert not found.violated and found.ratio > F(6, 10), str(found)


class OfOneColumn(SeriesDistance):
    """A unit is taken for one in a single step."""

    def moved(self, body, groups):
        return super().moved(body, 1)


class OfApartColumns(SeriesDistance):
    """Squares of columns are added up, as if no two had a product."""

    def moved(self, body, groups):
        return groups * super().moved(body, 1)


class OfLastColumns(SeriesDistance):
    """The last steps are taken for the worst."""

    def moved(self, body, groups):
        ones = [F(int(t >= self.factor.steps - groups)) for t in range(self.factor.steps)]
        return (
            super().moved(body, 1) / self.factor.squared_sum(1) * sum(s * s for s in self.factor.times(ones))
        )


class OfOtherSums(SeriesDistance):
    """The sensitivity is that of other running sums than those that have noise."""

    def moved(self, body, groups):
        return SeriesDistance.moved(replace(self, factor=Toeplitz.of_power(F(1, 4), 5)), body, groups)


class OfTheRoot(SeriesDistance):
    """A length is taken for its square."""

    def moved(self, body, groups):
        square = self.factor.squared_sum(groups)
        return super().moved(body, groups) / square * root_up(square)


@pytest.mark.parametrize("wrong", [OfOneColumn, OfApartColumns, OfLastColumns, OfOtherSums, OfTheRoot])
def test_a_wrong_sensitivity_is_found_by_the_falsifier(wrong):
    statistics, one = [CountUnits()], SeriesDistance(("units",), (F(1),), FACTOR, (range(5),))
    body = per_group(statistics, groups=3).output_metric.body
    size = root_up(wrong(("units",), (F(1),), FACTOR, (range(5),)).moved(body, 3))
    metric = wrong(one.names, (size,), one.factor, one.series)
    chain = bound_groups(3) >> per_group(statistics, groups=3, together=metric)
    assert falsify(chain, 1, evaluations=150).violated


def test_noise_that_is_too_small_for_a_unit_is_refused():
    metric = replace(shape(), scales=(F(1), F(1)))
    with pytest.raises(ParameterError):
        per_group(STATISTICS, groups=2, together=metric)
    with pytest.raises(ParameterError):
        per_group(STATISTICS, groups=3, together=shape(groups=2))


# What is drawn.


def placed(plan):
    """The known noise of each number, a whole number for each of its groups: by time in each series."""
    keys = [key for series in plan.metric.series for key in series]
    names = plan.measurement.names
    return {name: {key: i * len(keys) + j for j, key in enumerate(keys)} for i, name in enumerate(names)}


def test_the_chain_is_what_a_release_runs(monkeypatch):
    def known(self, words=None):
        return np.arange(len(self.scales) * self.groups).reshape(len(self.scales), self.series, -1) << FINE

    monkeypatch.setattr(SeriesGaussian, "rounded", known)
    for asked, names in ((weeks(groups=3, **SUMS), ("week",)), (towns(), ("town", "week"))):
        plan = asked.plan(**BUDGET)
        rows = [Row(r["id"], tuple(r[n] for n in names), r) for r in TABLE.to_pylist()]
        exact, known_noise = plan.exact_chain(rows), placed(plan)
        (batch,) = asked.release(**BUDGET)._draw()
        keys = list(zip(*[c.to_pylist() for c in batch.keys.columns], strict=True))
        assert len(keys) == plan.measurement.noise.groups
        for name, step in plan.steps.items():
            drawn = [F(v) / step for v in batch.numbers.values[name]]
            noise = known_noise[name]
            assert drawn == [exact.get(key, Counter())[name] + noise[key] for key in keys]


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


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_assertions_recorders_and_mechanisms_know_of_totals():
    with recording() as recorder:
        release = towns().release(**BUDGET, unsafe_words=SeededWords(3))
        truth = recorder[release].truth
    assert truth["total"].to_pylist()[-1] == 6  # in 2 of 12 groups, each in part
    assert_approx_equal(release, truth, k=9)
    assert_noisy(release, truth, k=9)
    wrong = truth.set_column(3, "total", pa.array([5000] * 24))
    with pytest.raises(AssertionError):
        assert_approx_equal(release, wrong, k=9)
    with noise_free():
        still = towns().release(**BUDGET)
    assert still.to_arrow().equals(truth)
    with pytest.raises(AssertionError):
        assert_noisy(still, truth, k=9)


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("claimed, violated", [(1, False), (3, True)])
def test_the_auditor_of_a_release_from_end_to_end(claimed, violated):
    """A claim of a third of epsilon is found; alpha is 1e-9, and words are seeded."""
    few = TABLE.select(["id", "week"]).filter(pa.compute.less(TABLE["week"], 3))
    pairs, words = (
        [(few, pa.concat_tables([few, pa.table({"id": [9] * 3, "week": [0, 1, 2]})]))],
        SeededWords(1),
    )

    def ask(table):
        grouped = (
            sf.scan(table, privacy_unit="id").group_by("week", keys=[0, 1, 2, 3]).bound(groups=3, rows=1)
        )
        return grouped.agg(**BOTH).release(epsilon=3, delta="1/100", unsafe_words=words)

    found = audit(
        release_mechanism(ask), epsilon=3 / claimed, delta=0.01, pairs=pairs, alpha=1e-9, max_samples=8000,
        seconds=100,
    )  # fmt: skip
    assert found.violated is violated


# What is refused.


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
        lambda: sf.scan(TABLE, privacy_unit="id").group_by("week").bound(groups=1, rows=1).agg(**BOTH),
        lambda: sf.scan(TABLE, privacy_unit="id").bound(rows=1).agg(**BOTH),
        lambda: sf.scan(TABLE, privacy_unit="id").group_by("week", keys=[1]).bound(total_rows=2).agg(**BOTH),
        lambda: sf.scan(TABLE, privacy_unit="id").group_by("x", keys=[1.0, 2.0]).bound(groups=1).agg(**BOTH),
        lambda: (
            sf.scan(TABLE, privacy_unit="id").group_by("week", keys=[1, None]).bound(groups=1).agg(**BOTH)
        ),
        lambda: (
            sf.scan(TABLE, privacy_unit="id")
            .group_by("week", "town", keys=[(0, "A"), (1, "A"), (0, "B")])
            .bound(groups=1, rows=1)
            .agg(c=sf.cumulative(sf.count(), over="week"))
        ),
    ],
)
def test_questions_that_are_refused(made):
    with pytest.raises(QueryError):
        made()


@pytest.mark.parametrize(
    "given",
    [
        {"delta": 0},
        {"noise": "laplace"},
        {"noise": "k_norm"},
        {"group_selection": "laplace"},
        {"epsilon": "1e-12", "delta": "1e-12"},
    ],
)
def test_budgets_that_are_refused(given):
    with pytest.raises((BudgetError, ParameterError, QueryError)):
        weeks().plan(**BUDGET | given)


def test_what_is_planned_is_not_that_of_another_number_of_steps():
    """A plan is remembered by how many steps there are of how many series, not by the groups alone."""
    given = BUDGET | {"noise": "gaussian"}
    one = towns(total=sf.cumulative(sf.count(), over="week")).plan(**given)
    keys = [(town, week) for week in range(2) for town in map(str, range(WEEKS))]
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("town", "week", keys=keys).bound(groups=2, rows=1)
    other = grouped.agg(total=sf.cumulative(sf.count(), over="week")).plan(**given)
    assert (one.measurement.noise.series, one.measurement.noise.factor.steps) == (2, WEEKS)
    assert (other.measurement.noise.series, other.measurement.noise.factor.steps) == (WEEKS, 2)
    assert isinstance(one.measurement.noise, SeriesGaussian) and same_loss(one)


@pytest.mark.noise_cannot_matter("keys and errors do not depend on noise")
def test_what_the_measurement_takes():
    release = series_gaussian(2, shape())
    assert release.map(3) == F(3, 2) and set(release({})) == set(range(5))
    with pytest.raises(ParameterError):
        series_gaussian(2**40, shape())


# With a delta of 0.

TOTALS = {"total": sf.cumulative(sf.count()), "s": sf.cumulative(sf.sum("x", lower=0, upper=2))}


def test_totals_without_delta_have_a_third_of_the_error_of_1000_weeks_by_themselves():
    for groups in (1, 10):
        plan = weeks(1000, groups, total=sf.cumulative(sf.count())).plan(epsilon=1)
        alone = weeks(1000, groups, n=sf.count()).plan(epsilon=1).deviations["units"]
        assert plan.expected["total"] < 0.35 * alone * sqrt(1001 / 2)
        assert same_loss(plan) and plan.loss.epsilon(0) == 1
        assert f"{plan.expected['total']:.4g} over all steps" in plan.notes[-1]


@pytest.mark.parametrize("groups, noise", [(1, "laplace"), (5, "laplace"), (10, "gaussian")])
def test_the_noise_with_the_smaller_error_is_taken(groups, noise):
    plan = weeks(1000, groups, total=sf.cumulative(sf.count())).plan(**BUDGET)
    ((other, ratio),) = plan.others
    assert plan.noise.name == noise and other != noise and ratio < 1
    assert weeks(groups=groups).plan(**BUDGET).noise.name == "gaussian"  # weeks by themselves are asked too


def test_only_totals_are_asked_with_laplace_noise():
    for given in ({"epsilon": 1}, BUDGET | {"noise": "laplace"}):
        with pytest.raises(QueryError, match="cumulative totals are asked alone"):
            weeks().plan(**given)
        assert weeks(**TOTALS, mean=sf.ratio("s", "total")).plan(**given).noise.name == "laplace"
    with pytest.raises(BudgetError, match="with which cumulative totals are asked alone"):
        weeks(**TOTALS).plan(epsilon=1, noise="gaussian")
    with pytest.raises(BudgetError, match="64-bit"):
        weeks(**TOTALS).plan(epsilon="1e-12")


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("groups", [1, WEEKS])
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


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_assertions_and_the_chain_know_of_totals_without_delta(monkeypatch):
    asked = towns(total=sf.cumulative(sf.count(), over="week"))
    with recording() as recorder:
        release = asked.release(epsilon=1, unsafe_words=SeededWords(3))
        truth = recorder[release].truth
    assert_approx_equal(release, truth, k=9)
    with pytest.raises(AssertionError):
        assert_approx_equal(release, truth.set_column(2, "total", pa.array([5000] * 24)), k=9)

    def known(self, words=None):
        return np.arange(len(self.scales) * self.groups).reshape(len(self.scales), self.series, -1) << FINE

    monkeypatch.setattr(TreeLaplace, "rounded", known)
    plan = asked.plan(epsilon=1)
    rows = [Row(r["id"], (r["town"], r["week"]), r) for r in TABLE.to_pylist()]
    exact, known_noise = plan.exact_chain(rows), placed(plan)
    (batch,) = asked.release(epsilon=1)._draw()
    keys = list(zip(*[c.to_pylist() for c in batch.keys.columns], strict=True))
    for name, step in plan.steps.items():
        expected = [exact.get(key, Counter())[name] + known_noise[name][key] for key in keys]
        assert [F(v) / step for v in batch.numbers.values[name]] == expected


@pytest.mark.parametrize("groups", [1, 3])
def test_the_falsifier_finds_no_unit_that_moves_blocks_of_a_plan_by_more_than_1(groups):
    plan = weeks(6, groups, rows=2, **TOTALS).plan(epsilon=1)
    metric = replace(plan.metric, series=tuple(tuple(k for (k,) in one) for one in plan.metric.series))
    rows, statistics = plan.exact_chain.input_domain, plan.requirements.statistics
    chain = bound_groups(groups, domain=rows) >> per_group(statistics, groups=groups, together=metric)
    found = falsify(chain, 1, evaluations=150)
    assert not found.violated and found.ratio > F(6, 10), str(found)


def least_of_any_gaussian(steps, groups):
    """A bound from below of the root mean square error of totals, where no unit moves by more than one deviation."""
    i, n = np.arange(steps), steps - groups + 1
    first, last = np.maximum.outer(i, i), np.minimum.outer(i, i)
    starts = np.minimum(last, n - 1) - np.maximum(first - groups + 1, 0) + 1
    added = np.tril(np.ones((steps, steps)))
    of_units = np.clip(starts, 0, None) / n
    return np.sqrt(np.clip(np.linalg.eigvalsh(added @ of_units @ added.T), 0, None)).sum() / sqrt(steps)


def by_themselves(steps, groups):
    return sqrt(groups * (steps + 1) / 2)


@pytest.mark.parametrize("groups", [1, 4, 20, 100, 200])
def test_no_gaussian_noise_is_far_below_what_is_chosen(groups):
    steps, mu = 200, float(gaussian_mu(F(1), F(1, 10**6)))
    rows = pa.table({"id": [1], "week": [0]})
    asked = sf.scan(rows, privacy_unit="id").group_by("week", keys=range(steps)).bound(groups=groups, rows=1)
    plan = asked.agg(n=sf.cumulative(sf.count())).plan(epsilon=1, delta=1e-6, noise="gaussian")
    least, reached = least_of_any_gaussian(steps, groups) / mu, plan.expected["n"]
    assert least <= reached <= 1.25 * least
    assert reached <= 1.001 * by_themselves(steps, groups) / mu


@pytest.mark.parametrize("groups, most", [(10, 0.337), (27, 0.477), (31, 0.4985), (50, 0.584)])
def test_totals_have_less_than_half_of_1000_weeks_by_themselves_up_to_31(groups, most):
    plan = weeks(1000, groups, total=sf.cumulative(sf.count())).plan(**BUDGET, noise="gaussian")
    alone = by_themselves(1000, groups) / float(gaussian_mu(F(1), F(1, 10**6)))
    assert most - 0.002 < plan.expected["total"] / alone < most
    # One unit in so many steps: by at most 1, and in one step more by more.
    assert plan.metric.moved(plan.requirements.body, groups) <= 1
    assert plan.metric.moved(plan.requirements.body, groups + 1) > 1 and same_loss(plan)


@pytest.mark.long
def test_half_of_1000_weeks_by_themselves_is_out_of_reach_from_44_on():
    for groups, least in {27: 0.429, 44: 0.5, 100: 0.633}.items():
        found = least_of_any_gaussian(1000, groups) / by_themselves(1000, groups)
        assert 0 <= found - least < 0.001
