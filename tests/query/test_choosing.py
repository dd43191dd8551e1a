"""Plans that choose quantiles: what they lose, that numbers beside places are in the cone, and error bars."""

from __future__ import annotations

from fractions import Fraction as F
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.errors import BudgetError, QueryError
from sfumato.framework import AtomDomain, KNormDistance, RowsDomain
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import SeparateNoise
from sfumato.query import choosing
from sfumato.query.choosing import choices_of, counted
from sfumato.query.together import TogetherPlan
from sfumato.testing.recorder import recording
from sfumato.transformations import (
    Count,
    CountUnits,
    Crossing,
    Lattice,
    Leaves,
    Moments,
    Row,
    ValueGrid,
    bound_groups,
    cone_of,
    per_group,
)

RNG = np.random.default_rng(5)
UNITS = 3000
DATA = {
    "id": np.arange(UNITS),
    "group": RNG.integers(0, 3, UNITS),
    "x": np.round(RNG.lognormal(1.0, 0.6, UNITS), 2),
    "n": RNG.poisson(2.5, UNITS),
}
FIELDS = [pa.field(n, pa.float64() if n == "x" else pa.int64(), nullable=False) for n in DATA]
TABLE = pa.table(DATA, schema=pa.schema(FIELDS))
ASKED = {
    "alone": {"q": sf.quantiles("x", 0.5, lower=0, upper=50)},
    "beside": {
        "rows": sf.count(),
        "m": sf.mean("n", lower=0, upper=10),
        "q": sf.quantiles("x", [0.25, 0.5], lower=0, upper=50),
    },
    "without bars": {
        "rows": sf.count(),
        "q": sf.quantiles("x", [0.5, 0.9], lower=0, upper=50, error_bars=False),
    },
    "two columns": {
        "q": sf.quantiles("x", 0.1, lower=0, upper=50),
        "o": sf.quantiles("n", 0.9, lower=0, upper=10),
        "people": sf.count_units(),
    },
}


def question(asked, groups=2, rows=2, keys=(0, 1, 2)):
    given = {} if keys is None else {"keys": list(keys)}
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("group", **given)
    return grouped.bound(groups=groups, rows=rows).agg(**ASKED[asked])


def plan_of(asked, **limits) -> TogetherPlan:
    return question(asked, **limits).plan(epsilon="3/2", noise="k_norm")


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("groups, rows", [(3, 1), (2, 2)])
def test_choices_and_noise_together_lose_what_the_plan_says(asked, groups, rows):
    plan = plan_of(asked, groups=groups, rows=rows)
    assert plan.chain.map(1) == plan.loss and plan.loss.epsilon(0) == F(3, 2) and plan.delta == 0
    assert plan.chain.map(2).epsilon(0) == 3
    # And by hand: a unit's rows in each of its groups, at each choice, and one contribution of the cone.
    each = [
        2 * max(max(r, 1 - r) for r in c.ranks) * c.leaves.body.linf_sensitivities[0] / c.scale
        for c in plan.choices
    ]
    assert groups * sum(each) == plan.chosen_with
    assert sum(F(told["share"]) for told in plan.explain().to_dict()["statistics"]) >= 1 - F(1, 10**9)


def test_a_chain_with_a_larger_part_for_a_choice_is_found(monkeypatch):
    honest = choices_of
    monkeypatch.setattr(
        "sfumato.query.together.choices_of", lambda c, s, e, g: honest(c, s, e, 1)
    )  # k forgotten
    plan = plan_of("alone")
    assert plan.chain.map(1).epsilon(0) > plan.loss.epsilon(0)


@pytest.mark.noise_cannot_matter("numbers and places of any size will do")
def test_the_chain_gives_places_and_numbers_of_each_group():
    plan = plan_of("beside", rows=1)
    rows = [Row(i, g, {"x": 0.5 + i, "n": i % 3}) for i, g in enumerate([0, 0, 1])]
    out = plan.chain(rows)
    assert list(out) == [(0,), (1,), (2,)]
    places, numbers = out[(0,)]
    assert np.array(places).shape == (2, 3) and (np.diff(places) >= 0).all()
    assert set(numbers) == {n for s in plan.requirements.statistics for n in s.names}


LEAVES = Leaves("x", "x", 2, Lattice(0.0, 4.0, whole=True), -3)
BESIDE = [
    Crossing(LEAVES, F(rank), upto, at)
    for rank in ("1/4", "1/2")
    for upto in (False, True)
    for at in (0, 2, 4)
]


@pytest.mark.parametrize(
    "statistics",
    [
        [Count(2), *BESIDE[:2]],
        [CountUnits(), Count(2), BESIDE[7]],
        [CountUnits(), BESIDE[4]],
        [Count(2), Moments("x", "x", 2, ValueGrid(0, 0, 4)), BESIDE[2]],
    ],
)
def test_every_contribution_is_in_the_cone(statistics):
    statistics = tuple({s.names[0]: s for s in statistics}.values())
    cone = cone_of(statistics)
    found = []
    for n in (1, 2, 3):
        for values in product((None, 0, 2, 3, 9), repeat=n):
            added = {}
            for s in statistics:
                added |= s.contribution([{"x": v} for v in values])
            vector = [added.get(name, 0) for name in cone.names]
            assert cone.holds(vector), (values, vector)
            found.append(max(abs(v) / b for v, b in zip(vector, cone.bounds, strict=True)))
    assert max(found) == 1
    rows = RowsDomain((("x", AtomDomain(int, -(2**63), 2**63)),))
    counted_by = per_group(statistics, groups=1, together=KNormDistance(cone))
    assert not falsify(bound_groups(1, domain=rows) >> counted_by, 1, evaluations=120).violated


def test_a_number_beside_a_place_that_forgets_the_rank_of_all_is_found():
    class Whole(Crossing):
        @property
        def _share(self):
            return 0

        @property
        def body(self):
            return Crossing(self.leaves, self.rank, self.upto, self.at).body

    cone = cone_of([Count(2), Whole(LEAVES, F(1, 2), True, 2)])
    added = Whole(LEAVES, F(1, 2), True, 2).contribution([{"x": 1}, {"x": 1}])
    assert not cone.holds([2, *added.values()])


def test_engines_count_leaves_once_for_all_ranks():
    plan = plan_of("beside")
    assert [type(s) for s in counted(plan.requirements.statistics, plan.choices)].count(Leaves) == 1
    assert [type(s) for s in plan.exact.statistics] == [Count, Moments, Leaves]


# What is released. A bar fails with probability at most 5% by itself; all words are seeded.


@cache
def planned(asked, epsilon, keys=(0, 1, 2), **limits):
    """The plan of a question, and what reads its rows."""
    made = question(asked, keys=keys, **limits)
    return made.plan(epsilon=epsilon, delta=1e-6, noise="k_norm"), made.table.engine


def released(asked, seed, epsilon=20, **limits):
    plan, engine = planned(asked, epsilon, **limits)
    release = engine.release(plan, unsafe_words=SeededWords(seed))
    return release.to_arrow().to_pylist(), release.errors(0.9).to_pylist()


def exact(column, group, rank):
    values = np.sort(DATA[column][DATA["group"] == group])
    return float(values[int(np.ceil(rank * len(values))) - 1])


def test_without_bars_there_is_one_place_and_nothing_beside_it():
    plan, other = plan_of("without bars"), plan_of("beside")
    assert [type(s) for s in plan.requirements.statistics] == [Count]
    assert plan.chosen_with > other.chosen_with and plan.choices[0].deviation < other.choices[0].deviation
    rows, bars = released("without bars", 3, groups=3, rows=1)
    for row, bar in zip(rows, bars, strict=True):
        assert abs(row["q_50"] - exact("x", row["group"], 0.5)) < 0.5
        assert bar["q_50"] == max(row["q_50"], 50 - row["q_50"])


@pytest.mark.parametrize("asked", ["alone", "two columns"])
def test_quantiles_are_near_and_bars_hold_them(asked):
    column, rank, name = ("x", 0.5, "q") if asked == "alone" else ("n", 0.9, "o")
    near, held = [], []
    for seed in range(12):
        for row, bar in zip(*released(asked, seed, groups=3, rows=1), strict=True):
            truth = exact(column, row["group"], rank)
            near.append(abs(row[name] - truth))
            held.append(near[-1] <= bar[name])
            if column == "n":
                assert isinstance(row[name], int)
    assert np.mean(held) > 0.9 and np.mean(near) < 0.25


def test_bars_hold_wherever_the_places_are(monkeypatch):
    """All three places are aimed at the rank itself: the outer ones are on the wrong side half of the time."""
    monkeypatch.setattr(choosing, "_reach", lambda targets: 0.0)
    held = []
    for seed in range(15):
        rows, bars = released("alone", seed, epsilon=1, groups=3, rows=1)
        for row, bar in zip(rows, bars, strict=True):
            held.append(abs(row["q"] - exact("x", row["group"], 0.5)) <= bar["q"])
    assert np.mean(held) > 0.9


def test_private_groups_choose_for_the_groups_that_are_shown():
    plan = question("beside", keys=None).plan(epsilon=5, delta=1e-6, noise="k_norm")
    assert isinstance(plan.drawn, SeparateNoise) and plan.loss.epsilon(F("1e-6")) == 5
    rows, _ = released("beside", 1, epsilon=5, keys=None)
    assert [r["group"] for r in rows] == [0, 1, 2]
    assert all(abs(r["q_50"] - exact("x", r["group"], 0.5)) < 2 for r in rows)


def test_an_explanation_says_that_places_are_chosen():
    told = str(plan_of("beside").explain())
    assert "by the exponential mechanism" in told and "30.0% of the budget; for q_25, q_50" in told


def test_too_many_ranks_are_refused_before_anything_is_read():
    asked = sf.quantiles("x", [i / 30 for i in range(1, 25)], lower=0, upper=50)
    grouped = sf.scan(TABLE, privacy_unit="id").bound(rows=1).agg(q=asked)
    with pytest.raises(QueryError, match="24 ranks of x are more than the 21"):
        grouped.plan(epsilon=1, noise="k_norm")


def test_a_budget_that_is_too_small_is_told_as_it_was_given():
    with pytest.raises(BudgetError, match="epsilon = 1e-12 asks for noise beyond"):
        question("alone").plan(epsilon="1e-12", noise="k_norm")


def test_bounds_far_beyond_the_values_cost_little():
    medians = []
    for upper in (50, 10**15):
        asked = (
            sf.scan(TABLE, privacy_unit="id")
            .bound(rows=1)
            .agg(q=sf.quantiles("x", 0.5, lower=-upper, upper=upper))
        )
        release = asked.release(epsilon=1, noise="k_norm", unsafe_words=SeededWords(3))
        medians.append(abs(release.to_arrow()["q"][0].as_py() - float(np.median(DATA["x"]))))
    assert max(medians) < 0.1


@pytest.mark.parametrize("bars", [True, False])
def test_groups_and_columns_without_values_give_places_within_the_bounds(bars):
    empty = pa.table(
        {"id": [1, 1, 2], "g": [0, 0, 1], "x": pa.array([None, float("nan"), None], pa.float64())}
    )
    asked = sf.quantiles("x", [0.25, 0.75], lower=-3, upper=7, error_bars=bars)
    for table, keys in product((empty, empty.slice(0, 0)), ([0, 1, 99], None)):
        given = {} if keys is None else {"keys": keys}
        question = (
            sf.scan(table, privacy_unit="id").group_by("g", **given).bound(groups=2, rows=3).agg(q=asked)
        )
        plan = question.plan(epsilon=1, delta=1e-6, noise="k_norm")
        release = question.table.engine.release(plan, unsafe_words=SeededWords(1))
        rows = release.to_arrow().to_pylist()
        assert keys is None or len(rows) == len(keys)
        for row, bar in zip(rows, release.errors().to_pylist(), strict=True):
            for name in ("q_25", "q_75"):
                assert -3 <= row[name] <= 7 and 0 <= bar[name] <= 10


@pytest.mark.noise_cannot_matter("what is recorded has none")
def test_a_record_holds_what_places_are_chosen_from():
    with recording() as recorder:
        release = question("alone", rows=1, groups=3).release(epsilon=1, noise="k_norm")
        release.to_arrow()
    counts = recorder[release].truth.to_pylist()[0]["q"]
    assert sum(c["weight"] for c in counts) == int((DATA["group"] == 0).sum()) << 14
