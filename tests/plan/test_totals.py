"""Totals: what one unit moves, what is drawn, that they agree, how far they are off, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.audit import audit, falsify
from sfumato.errors import BudgetError, EngineError, ParameterError, QueryError, RefusalError
from sfumato.exact import root_up
from sfumato.exact.rollup import Rollup
from sfumato.framework import LevelsDistance
from sfumato.measurements import levels_gaussian
from sfumato.noise import SeededWords
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.plan.totals_plans import best_sizes
from sfumato.query.group_totals import _divided
from sfumato.testing import assert_approx_equal, assert_noisy, noise_free, recording, release_mechanism
from sfumato.transformations import Count, CountUnits, Moments, Row, ValueGrid, bound_groups, per_group
from tests.support.plan_chains import same_loss

KEYS = [(region, town) for region in "BAC" for town in (1, None, 2)]
TABLE = pa.table(
    {
        "id": list(range(12)) * 3,
        "region": ["A", "B", "B", "C"] * 9,
        "town": [1, 2, None] * 12,
        "x": [0.25 * (i % 7) for i in range(36)],
        "k": [i % 5 for i in range(36)],
    }
)
BUDGET = {"epsilon": 1, "delta": "1/1000000"}
COUNT = {"n": sf.count()}
SUMS = {"m": sf.mean("x", lower=0, upper=2), "s": sf.sum("k", lower=0, upper=4, per="row")}


def test_a_second_group_by_does_not_drop_totals():
    table = sf.scan(pa.table({"id": [1], "town": ["A"], "year": [1]}), privacy_unit="id")
    towns = table.group_by("town", keys=["A"]).totals()
    with pytest.raises(QueryError, match="behind the last group_by"):
        towns.group_by("year", keys=[1])
    assert table.group_by("town").group_by("year", keys=[1]).totals().keys == ("year",)


def asked(groups=2, rows=1, sets=(), cube=False, integer=False, keys=KEYS, **aggregates):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("region", "town", keys=keys)
    totals = grouped.totals(*sets, cube=cube, integer=integer)
    return totals.bound(groups=groups, rows=rows).agg(**(aggregates or COUNT))


# What is shown.


def test_rows_of_a_rollup():
    with noise_free():
        shown = asked(groups=9, rows=4, **COUNT, **SUMS).release(**BUDGET).to_arrow().to_pylist()
    cells = [r for r in shown if r["grouping"] == 0]
    assert [(r["region"], r["town"]) for r in cells] == [(g, t) for g in "ABC" for t in (1, 2, None)]
    for grouping, count in ((1, 3), (3, 1)):
        totals = [r for r in shown if r["grouping"] == grouping]
        assert len(totals) == count
        for r in totals:
            of = [c for c in cells if r["region"] in (None, c["region"])]
            assert (
                r["town"] is None and r["n"] == sum(c["n"] for c in of) and r["s"] == sum(c["s"] for c in of)
            )
            mean = sum(c["m"] * c["n"] for c in of) / r["n"]
            assert r["m"] == pytest.approx(mean, abs=1e-6)
    assert shown[-1]["n"] == 36 and len(shown) == 13


def test_sets_that_are_shown():
    def groupings(**given):
        with noise_free():
            return asked(**given).release(**BUDGET).to_arrow()["grouping"].to_pylist()

    assert groupings(cube=True) == [0] * 9 + [1] * 3 + [2] * 3 + [3]
    assert groupings(sets=([], ["town"])) == [3, 2, 2, 2]
    assert groupings(sets=(["town", "region"], ["town", "region"])) == [0] * 9


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("cube", [False, True])
@pytest.mark.parametrize("integer", [False, True])
def test_totals_agree(cube, integer):
    question = asked(cube=cube, integer=integer, **COUNT, s=sf.sum("k", lower=0, upper=4, per="row"))
    for seed in range(10):
        rows = question.release(**BUDGET, unsafe_words=SeededWords(seed)).to_arrow().to_pylist()
        for name in ("n", "s"):
            for r in rows:
                of = [
                    c[name]
                    for c in rows[:9]
                    if (r["grouping"] & 2 or c["region"] == r["region"])
                    and (r["grouping"] & 1 or c["town"] == r["town"])
                ]
                assert r[name] == pytest.approx(sum(of), abs=0 if integer else 1e-9)
                assert not integer or (isinstance(r[name], int) and r[name] >= 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(-50, 50)), min_size=1, max_size=20),
    st.lists(st.integers(-40, 60), min_size=4, max_size=4),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_whole_parts_add_up_and_are_near(parts, totals, positive):
    names, place = np.unique([p for p, _ in parts], return_inverse=True)
    values = np.array([v for _, v in parts])
    wanted = np.array(totals[: len(names)], float)
    wanted = np.maximum(wanted, 0) if positive else wanted
    found = _divided(wanted, values, place, 0.0 if positive else -np.inf)
    assert np.all(found == np.rint(found)) and (not positive or found.min() >= 0)
    for i, total in enumerate(wanted):
        own, of = values[place == i], found[place == i]
        assert of.sum() == total
        # The nearest parts that add up to it, by the definition: moved by one number, and cut.
        low, high = own.min() - abs(total) - 60, own.max() + abs(total) + 60
        for _ in range(200):
            shift = (low + high) / 2
            exact = np.maximum(own - shift, 0) if positive else own - shift
            low, high = (shift, high) if exact.sum() > total else (low, shift)
        assert np.all(np.abs(of - exact) <= 1 + 1e-6)


# Errors.


def test_errors_are_smaller_than_those_of_groups_that_are_added_up():
    keys = [(i, j) for i in range(10) for j in range(100)]
    grouped = sf.scan(pa.table({"id": [1], "a": [1], "b": [1]}), privacy_unit="id").group_by(
        "a", "b", keys=keys
    )
    plan = grouped.totals().bound(groups=1, rows=1).agg(n=sf.count()).plan(**BUDGET)
    separate = grouped.bound(groups=1, rows=1).agg(n=sf.count()).plan(**BUDGET, noise="gaussian")
    alone, scale = separate.deviations["units"], float(plan.measurement.noise.scales[0] * plan.steps["units"])
    of_cells, of_totals, of_all = (scale * float(d[0]) for d in plan.measurement.noise.deviations)
    assert of_cells < 1.9 * alone and of_totals < 0.25 * 10 * alone and of_all < 0.07 * 32 * alone
    assert "by a 0." in plan.notes[-1] and same_loss(plan)
    assert plan.loss.delta(1) <= F(1, 10**6) < plan.loss.delta(F(99, 100))


def test_where_totals_gain_nothing_they_are_not_measured():
    """A unit in all groups would move a total by all of them."""
    keys = [(i, 0) for i in range(50)]
    grouped = sf.scan(pa.table({"id": [1], "a": [1], "b": [1]}), privacy_unit="id").group_by(
        "a", "b", keys=keys
    )
    plan = grouped.totals(["a", "b"], []).bound(groups=50, rows=1).agg(n=sf.count()).plan(**BUDGET)
    assert plan.measurement.noise.sizes == (root_up(F(50)), 0)


@pytest.mark.parametrize("groups", [1, 2])
def test_the_planner_divides_the_budget_well(groups):
    """No other division in 64 parts is clearly better, of all there are for three levels."""
    rollup = asked().query.totals.rollup
    squares = [rollup.squares(i, groups) for i in range(3)]

    def error(sizes):
        deviations = LevelsGaussian((F(1),), sizes, rollup).deviations
        return sum(np.log(d.mean()) for d in deviations)

    best = error(best_sizes(rollup, groups, (0, 1, 2)))
    for i, j in product(range(4, 64, 4), range(0, 64, 4)):
        if i + j <= 64:
            parts = (i, j, 64 - i - j)
            sizes = tuple(root_up(F(64 * s, p)) if p else F(0) for s, p in zip(squares, parts, strict=True))
            assert best < error(sizes) + 0.01


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("integer", [False, True])
def test_bars_hold_as_often_as_they_say(integer):
    """300 releases of 16 rows: 0.95 less 4 deviations of the mean of each row's, and not more than 0.98."""
    question, inside = asked(cube=True, integer=integer, keys=KEYS, **COUNT), []
    with noise_free():
        truth = np.array(question.release(**BUDGET).to_arrow()["n"].to_pylist(), float)
    for seed in range(300):
        shown = question.release(**BUDGET, confidence=0.95, unsafe_words=SeededWords(seed)).to_arrow()
        off = np.abs(np.array(shown["n"].to_pylist(), float) - truth)
        inside.append(off <= shown["n_error"].to_numpy())
    held = np.mean(inside, axis=0)
    assert held.min() > 0.95 - 4 * (0.05 * 0.95 / 300) ** 0.5
    assert integer or np.mean(inside) < 0.97


# What one unit moves.

STATISTICS = [Count(2), Moments("x", "x", 2, ValueGrid(0, -3, 3))]
ROLLUP = Rollup(((0, 1), (0,), ()), (2, 3), ((0, 1, 2, 3, 4), (0, 0, 0, 1, 1), (0,) * 5))


def shape(groups=2, sizes=(F(2), F(3), F(5)), statistics=STATISTICS, of=LevelsDistance, rollup=ROLLUP):
    names = tuple(n for s in statistics for n in s.names)
    metric = of(names, (F(2), F(6))[: len(names)], sizes, rollup, tuple(range(rollup.cells)))
    body = per_group(statistics, groups=groups).output_metric.body
    size = root_up(metric.moved(body, groups))
    return replace(metric, scales=tuple(size * s for s in metric.scales))


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 5])
def test_no_unit_moves_groups_and_totals_by_more_than_1_and_one_moves_them_as_far(groups):
    metric = shape(groups)
    largest = [{"rows": 2, "x.sum": s} for s in (-6, 6)]
    moved = max(
        metric.distance(dict(zip(chosen, vectors, strict=True)), {})
        for chosen in combinations(range(5), groups)
        for vectors in product(largest, repeat=groups)
    )
    assert F(99, 100) < moved <= 1


@pytest.mark.parametrize("groups, rows, question", [(1, 1, COUNT), (3, 2, COUNT), (3, 2, SUMS)])
def test_the_falsifier_finds_no_unit_that_moves_a_plan_by_more_than_1(groups, rows, question):
    plan = asked(groups, rows, **question).plan(**BUDGET)
    domain, statistics = plan.exact_chain.input_domain, plan.requirements.statistics
    chain = bound_groups(groups, domain=domain) >> per_group(statistics, groups=groups, together=plan.metric)
    found = falsify(chain, 1, evaluations=150)
    assert not found.violated, str(found)


class OfOneGroup(LevelsDistance):
    """A unit is taken for one in a single group."""

    def moved(self, body, groups):
        return super().moved(body, 1)


class OfApartGroups(LevelsDistance):
    """Squares of groups are added up, as if no two were in one total."""

    def moved(self, body, groups):
        return groups * super().moved(body, 1)


class OfGroupsAlone(LevelsDistance):
    """What moves totals is left out."""

    def moved(self, body, groups):
        return LevelsDistance.moved(replace(self, sizes=(self.sizes[0], F(0), F(0))), body, groups)


class OfTheSmallestTotal(LevelsDistance):
    """The fewest groups of a total are taken for the most."""

    def moved(self, body, groups):
        rollup = Rollup(ROLLUP.sets, ROLLUP.values, (ROLLUP.levels[0], (0, 0, 1, 1, 1), tuple(range(5))))
        return LevelsDistance.moved(replace(self, rollup=rollup), body, groups)


class OfTheRoot(LevelsDistance):
    """A length is taken for its square."""

    def moved(self, body, groups):
        return root_up(super().moved(body, groups) / super().moved(body, 1)) * super().moved(body, 1)


@pytest.mark.parametrize("wrong", [OfOneGroup, OfApartGroups, OfGroupsAlone, OfTheSmallestTotal, OfTheRoot])
def test_a_wrong_sensitivity_is_found_by_the_falsifier(wrong):
    metric = shape(3, statistics=[CountUnits()], of=wrong)
    chain = bound_groups(3) >> per_group([CountUnits()], groups=3, together=metric)
    assert falsify(chain, 1, evaluations=150).violated


def test_noise_that_is_too_small_for_a_unit_is_refused():
    with pytest.raises(ParameterError):
        per_group(STATISTICS, groups=2, together=replace(shape(), scales=(F(1), F(1))))
    with pytest.raises(ParameterError):
        per_group(STATISTICS, groups=3, together=shape(groups=2))


# What is drawn.


def test_the_chain_is_what_a_release_runs(monkeypatch):
    def known(self, words=None):
        numbers = np.arange(len(self.scales) * self.groups).reshape(len(self.scales), -1)
        return numbers << np.array(self.fine)[:, None]

    monkeypatch.setattr(LevelsGaussian, "rounded", known)
    for question in (asked(groups=3, **SUMS), asked(cube=True, rows=2)):
        plan = question.plan(**BUDGET)
        rows = [Row(r["id"], (r["region"], r["town"]), r) for r in TABLE.to_pylist()]
        exact = plan.exact_chain(rows)
        (batch,) = question.release(**BUDGET)._draw()
        keys = list(zip(*[c.to_pylist() for c in batch.keys.columns[:2]], strict=True))[:9]
        at = {key: i for i, key in enumerate(question.query.public_groups)}
        assert sorted(map(str, keys)) == sorted(map(str, at)) and set(exact) <= set(at)
        for name, step in plan.steps.items():
            drawn = [F(v) / step for v in batch.numbers.values[name][:9]]
            first = 9 * plan.measurement.names.index(name)
            assert drawn == [exact.get(key, Counter())[name] + first + at[key] for key in keys]


@pytest.mark.long
@pytest.mark.parametrize(
    "values, cube, sets",
    [((1,) * 30, False, 31), ((2,) * 12, False, 13), ((2,) * 6, True, 64), ((2,) * 14, False, 15)],
)
def test_many_keys_are_planned(values, cube, sets):
    """What is searched for a division of the budget, and spaces of interactions, are not too many."""
    keys = list(product(*map(range, values)))[:10_000]
    names = [f"k{i}" for i in range(len(values))]
    table = pa.table({"id": [1], **{name: [0] for name in names}})
    grouped = sf.scan(table, privacy_unit="id").group_by(*names, keys=keys).totals(cube=cube)
    plan = grouped.bound(groups=1, rows=1).agg(n=sf.count()).plan(**BUDGET)
    assert same_loss(plan) and len(plan.measurement.noise.rollup.sets) == sets


def test_totals_that_are_changed_on_their_way_are_refused():
    totals = asked().query.totals
    with pytest.raises(EngineError):
        totals.of([pa.array(["A"] * 9), pa.array([1, 2, 3] * 3)])


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("integer", [False, True])
def test_assertions_recorders_and_mechanisms_know_of_totals(integer):
    question = asked(groups=3, integer=integer, **COUNT, **SUMS, v=sf.variance("x", lower=0, upper=2))
    with recording() as recorder:
        release = question.release(**BUDGET, unsafe_words=SeededWords(3))
        truth = recorder[release].truth
    assert truth["grouping"].to_pylist() == [0] * 9 + [1] * 3 + [3]
    assert_approx_equal(release, truth, k=9)
    wrong = truth.set_column(3, "n", pa.array([5000] * 13))
    with pytest.raises(AssertionError):
        assert_approx_equal(release, wrong, k=9)
    with noise_free():
        assert question.release(**BUDGET).to_arrow().equals(truth)
    with pytest.raises(RefusalError, match="totals"):
        assert_noisy(release, truth, k=9)


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_comparisons_are_of_totals_too():
    release = asked(groups=1).release(**BUDGET, unsafe_words=SeededWords(1))
    found = release.compare("n", ("A", None, 1), {"region": "B", "town": None, "grouping": 1})
    assert found.difference[0] < found.first - found.second < found.difference[1]
    with pytest.raises(QueryError, match="compare"):
        release.share_of_total("n")


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("claimed, violated", [(1, False), (3, True)])
def test_the_auditor_of_a_release_from_end_to_end(claimed, violated):
    """A claim of a third of epsilon is found; alpha is 1e-9, and words are seeded."""
    few = pa.table({"id": [1, 2], "region": ["A", "B"], "town": [1, 2]})
    more = pa.concat_tables([few, pa.table({"id": [9] * 2, "region": ["A", "A"], "town": [1, 2]})])
    words = SeededWords(1)

    def ask(table):
        keys = [(region, town) for region in "AB" for town in (1, 2)]
        grouped = sf.scan(table, privacy_unit="id").group_by("region", "town", keys=keys).totals()
        return (
            grouped.bound(groups=2, rows=1).agg(**COUNT).release(epsilon=3, delta="1/100", unsafe_words=words)
        )

    found = audit(
        release_mechanism(ask), epsilon=3 / claimed, delta=0.01, pairs=[(few, more)], alpha=1e-9,
        max_samples=3000, seconds=100,
    )  # fmt: skip
    assert found.violated is violated


# What is refused.


@pytest.mark.parametrize(
    "made",
    [
        lambda: sf.scan(TABLE, privacy_unit="id").totals(),
        lambda: asked(sets=(["regoin"],)),
        lambda: asked(sets=(["town"],), cube=True),
        lambda: asked(n=sf.count_units()),
        lambda: asked(n=sf.count_distinct("x", values=1)),
        lambda: asked(n=sf.median("x", lower=0, upper=1)),
        lambda: asked(grouping=sf.count()),
        lambda: (
            sf.scan(TABLE, privacy_unit="id").group_by("town").totals().bound(groups=1, rows=1).agg(**COUNT)
        ),
        lambda: (
            sf.scan(TABLE, privacy_unit="id")
            .group_by("town", keys=[1, 2])
            .totals()
            .bound(total_rows=3)
            .agg(**COUNT)
        ),
    ],
)
def test_questions_that_are_refused(made):
    with pytest.raises(QueryError):
        made()


@pytest.mark.parametrize("given", [{"sets": ("region",)}, {"sets": (3,)}, {"cube": 1}, {"integer": "yes"}])
def test_arguments_that_are_refused(given):
    with pytest.raises(ParameterError):
        asked(**given)


@pytest.mark.parametrize(
    "given", [{"delta": 0}, {"noise": "laplace"}, {"noise": "k_norm"}, {"epsilon": "1e-12", "delta": "1e-12"}]
)
def test_budgets_that_are_refused(given):
    with pytest.raises((BudgetError, ParameterError)):
        asked().plan(**BUDGET | given)


def test_units_are_added_up_where_each_is_in_one_group():
    with noise_free():
        shown = asked(groups=1, n=sf.count_units()).release(**BUDGET).to_arrow()
    assert shown["n"].to_pylist()[-1] == pytest.approx(12)


def test_what_is_planned_is_not_that_of_other_groups():
    """A plan is remembered by which groups are in which total, not by how many there are."""
    one = asked().plan(**BUDGET)
    other = asked(keys=[("A", i) for i in range(9)]).plan(**BUDGET)
    assert one.measurement.noise.rollup != other.measurement.noise.rollup
    assert same_loss(one) and same_loss(other)


@pytest.mark.noise_cannot_matter("keys and errors do not depend on noise")
def test_what_the_measurement_takes():
    release = levels_gaussian(2, shape())
    assert release.map(3) == F(3, 2) and set(release({})) == set(range(5))
    with pytest.raises(ParameterError):
        levels_gaussian(2**60, shape())
    with pytest.raises(ParameterError):
        replace(shape(), keys=(1, 1, 2, 3, 4))
