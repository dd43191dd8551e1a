"""Plans that choose quantiles: what they lose, that numbers beside places are in the cone, and error bars."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction as F
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.framework import AtomDomain, ConeBody, CubeBody, KNormDistance, Norm, RowsDomain
from sfumato.measurements import k_norm
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.noise.k_norm.sampling import Streams, radii
from sfumato.plan import quantile_candidates as choosing
from sfumato.plan.plan import Plan
from sfumato.plan.quantile_candidates import choices_of, counted
from sfumato.testing.recorder import recording
from sfumato.transformations import (
    Count,
    CountUnits,
    Lattice,
    Leaves,
    Margin,
    Moments,
    ValueGrid,
    bound_groups,
    cone_of,
    per_group,
)
from tests.support.plan_chains import same_loss

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


def plan_of(asked, **limits) -> Plan:
    return question(asked, **limits).plan(epsilon="3/2", noise="k_norm")


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("groups, rows", [(3, 1), (2, 2)])
def test_choices_and_noise_together_lose_what_the_plan_says(asked, groups, rows):
    plan = plan_of(asked, groups=groups, rows=rows)
    assert plan.loss.epsilon(0) == F(3, 2) and plan.delta == 0 and same_loss(plan)
    assert plan.measurement.map(2).epsilon(0) == 3
    # And by hand: a unit's rows in each of its groups, at each choice, and one contribution of the cone.
    each = []
    for c in plan.measurement.choices:
        most = max(max(r, 1 - r) for r in c.ranks)
        more = 1 if c.margins and most >= F(3, 4) else most  # outer places are held to the values
        each.append((most + more) * c.leaves.body.linf_sensitivities[0] / c.scale)
    assert groups * sum(each) == plan.measurement.choice_epsilon
    assert sum(F(told["share"]) for told in plan.explain().to_dict()["statistics"]) >= 1 - F(1, 10**9)


def test_a_chain_with_a_larger_part_for_a_choice_is_found(monkeypatch):
    honest = choices_of
    monkeypatch.setattr(
        "sfumato.plan.k_norm_plans.choices_of", lambda c, s, e, g: honest(c, s, e, 1)
    )  # k forgotten
    plan = plan_of("alone")
    assert plan.loss.epsilon(0) > plan.epsilon


LEAVES = Leaves("x", "x", 2, Lattice(0.0, 4.0, whole=True), -3)
PLACES = [(0, 0), (0, 2), (2, 2), (2, 4), (0, 4)]
BESIDE = [Margin(LEAVES, F(rank), at) for rank in ("1/4", "1/2") for at in PLACES]
UNIT = [rows for n in (1, 2, 3) for rows in product((None, 0, 2, 3, 9), repeat=n)]


def totals(statistics, units):
    """Numbers of one group of so many units, each a tuple of values of x."""
    units = [[{"x": v} for v in unit] for unit in units]
    found: Counter = Counter()
    for s in statistics:
        if isinstance(s, Margin):
            counts = sum((s.leaves.contribution(unit) for unit in units), Counter())
            found[s.names[0]] = s.total({key[1]: n for key, n in counts.items()})
        else:
            for unit in units:
                found.update(s.contribution(unit))
    return found


def moves(statistics):
    """What each unit moves all numbers by, beside some others."""
    statistics = tuple({s.names[0]: s for s in statistics}.values())
    names = [name for s in statistics for name in s.names]
    for others in ([], [(0,), (3,)], [(2, 2), (9, None), (3, 0)]):
        before = totals(statistics, others)
        for unit in UNIT:
            after = totals(statistics, [*others, unit])
            yield [after[name] - before[name] for name in names]


@pytest.mark.parametrize(
    "statistics",
    [
        [Count(2), BESIDE[1], BESIDE[8]],
        [CountUnits(), Count(2), BESIDE[7]],
        [CountUnits(), BESIDE[4]],
        [Count(2), Moments("x", "x", 2, ValueGrid(0, 0, 4)), BESIDE[2]],
    ],
)
def test_what_a_unit_moves_is_in_the_cone(statistics):
    cone, found = cone_of(statistics), []
    for vector in moves(statistics):
        assert cone.holds(vector), vector
        found.append(max(abs(v) / b for v, b in zip(vector, cone.bounds, strict=True)))
    assert max(found) == 1


@pytest.mark.parametrize("margin", BESIDE)
def test_a_margin_is_positive_where_places_are_on_both_sides_of_the_quantile(margin):
    for units in product(UNIT[:5], repeat=4):
        counts = sum((LEAVES.contribution([{"x": v} for v in unit]) for unit in units), Counter())
        values = sorted(key[1] for key, n in counts.items() for _ in range(n))
        if values and totals([margin], units)[margin.names[0]] > 0:
            quantile = values[int(np.ceil(margin.rank * len(values))) - 1]
            assert margin.at[0] <= quantile <= margin.at[1]


class WithoutAll(Margin):
    """Planted: the rank of all rows is forgotten."""

    def between(self, below, upto, counted):
        return super().between(below, upto, 0)


class Larger(Margin):
    """Planted: the sum of both numbers in place of the smaller one."""

    def between(self, below, upto, counted):
        least, most = self._shares
        return (least * counted - (below << self.BITS)) + ((upto << self.BITS) - most * counted)


@pytest.mark.parametrize("planted", [WithoutAll, Larger])
def test_a_margin_that_is_none_is_found(planted):
    statistics = [Count(2), planted(LEAVES, F(1, 2), (2, 4))]
    cone = cone_of([Count(2), Margin(LEAVES, F(1, 2), (2, 4))])
    assert not all(cone.holds(vector) for vector in moves(statistics))


def test_a_margin_is_a_transformation_of_counts_and_no_sum_of_units():
    rows = RowsDomain((("x", AtomDomain(int, -(2**63), 2**63)),))
    margin = Margin(LEAVES, F(1, 4), (0, 2))
    counted_by = per_group([LEAVES], Norm.L1, [F(1)], groups=1)
    chain = bound_groups(1, domain=rows) >> counted_by >> margin.by_group([0, 1])
    assert chain.map(1) == margin.body.linf_sensitivities[0]
    assert not falsify(chain, 1, evaluations=120).violated
    with pytest.raises(ParameterError, match="sums over units"):
        per_group([Count(2), margin], groups=1)


def test_engines_count_leaves_once_for_all_ranks():
    plan = plan_of("beside")
    assert [type(s) for s in counted(plan.requirements.statistics, plan.measurement.choices)].count(
        Leaves
    ) == 1
    assert [type(s) for s in plan.exact.statistics] == [Count, Moments, Leaves]


# What is released. A bar fails with probability at most 5% by itself; all words are seeded.


@cache
def planned(asked, epsilon, keys=(0, 1, 2), **limits):
    """The plan of a question, and what reads its rows."""
    made = question(asked, keys=keys, **limits)
    return made.plan(epsilon=epsilon, delta=1e-6, noise="k_norm"), made.table._engine


def released(asked, seed, epsilon=20, **limits):
    plan, engine = planned(asked, epsilon, **limits)
    release = engine.release(plan, unsafe_words=SeededWords(seed))
    return release.to_arrow().to_pylist(), release.errors(0.9).to_pylist()


def exact(column, group, rank):
    values = np.sort(DATA[column][DATA["group"] == group])
    return float(values[int(np.ceil(rank * len(values))) - 1])


def test_without_bars_there_is_one_place_and_nothing_beside_it():
    plan, other = plan_of("without bars", groups=3), plan_of("beside", groups=3)
    assert [type(s) for s in plan.requirements.statistics] == [Count]
    assert (
        plan.measurement.choice_epsilon > other.measurement.choice_epsilon
        and plan.measurement.choices[0].deviation < other.measurement.choices[0].deviation
    )
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


def beyond(margin, share, rows):
    """The margin of places at 2 alone, where so large a share of the rows is 1 and the rest 2."""
    ones = round(share * rows)
    return margin.total({1: ones, 2: rows - ones})


@pytest.mark.parametrize("asked", [0.3, 0.01, 0.99, 0.7, 0.25])
def test_bars_are_of_the_rank_that_was_asked(asked):
    """A share of the rank, or a hair more, is 1; ranks of 20 bits next to it would tell 2 of many rows."""
    rank, rows = F(asked), 10**9
    margin = Margin(LEAVES, rank, (2, 2))
    for more in (F(0), F(1, 10**8), F(1, 2**20)):
        assert beyond(margin, rank + more, rows) <= 0
    assert beyond(margin, rank - F(1, 10**5), rows) > 0
    parts = 1 << 20
    for other in (F(int(rank * parts), parts), F(int(rank * parts) + 1, parts)):
        wrong = Margin(LEAVES, other, (2, 2))
        told = beyond(wrong, rank, rows) > 0 or wrong.total({2: round(rank * rows) - 1, 3: rows}) > 0
        assert told or other <= rank


def test_quantiles_alone_need_no_count_where_each_group_has_its_own_noise():
    alone = question("alone", groups=1, rows=2)
    plan = alone.plan(epsilon=1, noise="k_norm")
    assert [type(s) for s in plan.requirements.statistics] == [Margin] and isinstance(
        cone_of(plan.requirements.statistics), CubeBody
    )
    assert plan.loss.epsilon(0) == 1
    (law,), (margin,) = plan.laws.values(), plan.requirements.statistics
    laplace = margin.body.bound * plan.query.groups / (1 - plan.measurement.choice_epsilon)
    assert float(law.standard_deviation) == pytest.approx(math.sqrt(2) * float(laplace), rel=1e-6)
    # Who is in all groups moves some of them up and others down, which one draw for all would charge twice.
    every = question("alone", groups=3).plan(epsilon=1, noise="k_norm")
    assert (
        type(cone_of(every.requirements.statistics)) is ConeBody and len(every.requirements.statistics) == 2
    )
    single = sf.scan(TABLE, privacy_unit="id").bound(rows=1).agg(**ASKED["alone"])
    assert len(single.plan(epsilon=1, noise="k_norm").requirements.statistics) == 1


def test_signed_numbers_alone_are_hidden_in_each_group_by_itself():
    body = CubeBody(("a", "b"), (F(2), F(3)))
    apart = KNormDistance(body, 2, apart=True)
    assert apart.of([(2, -3), (-2, 3)]) == 1 == apart.of([(0, 3), (2, 0)])
    # Planted: as if the first of them were a count, and one draw for all groups.
    assert KNormDistance(ConeBody(body.names, body.bounds)).of([(2, -3), (-2, 3)]) == 2
    with pytest.raises(ParameterError, match="signed numbers alone"):
        KNormDistance(body)
    with pytest.raises(ParameterError, match="signed numbers alone"):
        k_norm(1, body, [1, 2])
    with pytest.raises(ParameterError, match="units"):
        CubeBody(body.names, body.bounds, units=True)


@pytest.mark.parametrize("margins", [[BESIDE[8]], [BESIDE[1], BESIDE[8]]])
def test_margins_alone_are_moved_within_the_cube(margins):
    cube = cone_of(margins)
    sizes = [sum(cube.sides(vector)) for vector in moves(margins) if cube.holds(vector)]
    assert len(sizes) == len(list(moves(margins))) and max(sizes) == 1
    # Planted: the larger of both numbers counts in place of the smaller one, or the rank of all is forgotten.
    for planted in (WithoutAll, Larger):
        wrong = [planted(m.leaves, m.rank, m.at) for m in margins]
        assert not all(cube.holds(vector) for vector in moves(wrong))


def test_bars_hold_wherever_the_places_are(monkeypatch):
    """All three places are aimed at the rank itself: the outer ones are on the wrong side half of the time."""
    monkeypatch.setattr(choosing, "_reach", lambda ranks: 0.0)
    monkeypatch.setattr(choosing, "SPREAD", 0)
    held = []
    for seed in range(15):
        rows, bars = released("alone", seed, epsilon=1, groups=3, rows=1)
        for row, bar in zip(rows, bars, strict=True):
            held.append(abs(row["q"] - exact("x", row["group"], 0.5)) <= bar["q"])
    assert np.mean(held) > 0.9


def test_private_groups_choose_for_the_groups_that_are_shown():
    plan = question("beside", keys=None).plan(epsilon=5, delta=1e-6, noise="k_norm")
    assert isinstance(plan.measurement.noise, SeparateNoise) and plan.loss.epsilon(F("1e-6")) == 5
    rows, _ = released("beside", 1, epsilon=5, keys=None)
    assert [r["group"] for r in rows] == [0, 1, 2]
    assert all(abs(r["q_50"] - exact("x", r["group"], 0.5)) < 2 for r in rows)


def test_an_explanation_says_that_places_are_chosen():
    for groups, share in ((2, "40.0%"), (3, "25.0%")):  # noise of each group, and of all together
        told = str(plan_of("beside", groups=groups).explain())
        assert "by the exponential mechanism" in told and f"{share} of the budget; for q_25, q_50" in told


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
        release = question.table._engine.release(plan, unsafe_words=SeededWords(1))
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


def bars_at_the_bounds(epsilon: float, **limits: int) -> float:
    """Of medians alone, evenly spread in eight groups: in how many the bar says nothing."""
    units = np.arange(4_000)
    rows = pa.table({"id": units, "g": units % 8, "x": (units // 8) / 5.0})
    asked = sf.scan(rows, privacy_unit="id").group_by("g", keys=range(8)).bound(**limits)
    asked = asked.agg(median=sf.quantiles("x", [0.5], lower=0, upper=100))
    widths = [
        half
        for seed in range(25)
        for half in asked.release(epsilon=epsilon, noise="k_norm", unsafe_words=SeededWords(seed))
        .errors()["median_50"]
        .to_pylist()
    ]
    return sum(half > 40 for half in widths) / len(widths)


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.long
@pytest.mark.parametrize("limits", [{"groups": 1, "rows": 1}, {"groups": 1, "rows": 3}])
def test_bars_seldom_reach_to_the_bounds(limits, monkeypatch):
    assert bars_at_the_bounds(1, **limits) < 0.06
    monkeypatch.setattr(
        choosing.Choice, "beside", lambda self, laws: self
    )  # aimed as if margins had no noise
    assert bars_at_the_bounds(1.01, **limits) > 0.15  # of which no plan is remembered


def many_sums(count, groups=None, most=2, **more):
    columns = {f"v{i}": [1, 2] for i in range(count)}
    table = sf.scan(pa.table({"id": [1, 2], "g": ["a", "b"], **columns}), privacy_unit="id").bound(rows=2)
    if groups:
        table = table.group_by("g", keys=[str(i) for i in range(groups)]).bound(groups=most)
    return table.agg(**more, **{f"s{i}": sf.sum(f"v{i}", lower=0, upper=6) for i in range(count)})


@pytest.mark.noise_cannot_matter("it looks at what noise there is")
@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("count", [20, 150])
def test_many_sums_of_some_of_the_groups_have_noise(count, people):
    more = {"people": sf.count_units()} if people else {}
    asked = many_sums(count, groups=3, **more)
    release = asked.release(epsilon=1, noise="k_norm", budget=sf.Budget(1))
    assert release.to_arrow().num_rows == 3 and release.errors().num_rows == 3


@pytest.mark.noise_cannot_matter("it looks at what noise there is")
def test_more_numbers_than_k_norm_noise_is_for_are_refused_in_words():
    assert many_sums(400).plan(epsilon=1, noise="k_norm")
    with pytest.raises(
        QueryError, match="at most 400 sums, means and the like in one release, and here are 401"
    ):
        many_sums(401).plan(epsilon=1, noise="k_norm")
    assert many_sums(401).plan(epsilon=1, delta=1e-6).noise.name != "k_norm"


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_people_and_many_sums_of_all_groups_are_drawn_by_the_whole_law():
    """The cone of units and ten signed numbers or more: θ was 1/2 each time."""
    table = sf.scan(pa.table({"id": [1], "g": ["a"], "v": [1]}), privacy_unit="id").bound(groups=3, rows=2)
    means = {f"m{i}": sf.mean("v", lower=0, upper=6 + i) for i in range(12)}
    asked = table.group_by("g", keys=["a", "b", "c"]).agg(people=sf.count_units(), **means)
    noise = asked.plan(epsilon=1, noise="k_norm").measurement.noise
    assert noise.cone == Cone(12, units=True) and type(noise) is JointNoise
    shares = {radii(noise.cone.volume, 14, 3, Streams(SeededWords(i))).floats[0] for i in range(20)}
    assert len(shares) == 20 and min(shares) < 0.3 and max(shares) > 0.7
