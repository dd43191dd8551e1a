"""Plans that choose quantiles: what they lose, that numbers beside places are in the cone, and error bars."""

from collections import Counter
from fractions import Fraction as F
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import SeparateNoise
from sfumato.plan import quantile_candidates as choosing
from sfumato.plan.plan import Plan
from sfumato.transformations import Count, CountUnits, Lattice, Leaves, Margin, Moments, ValueGrid, cone_of
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("asked", ["alone", "two columns"])
def test_quantiles_are_near_and_bars_hold_them(asked):
    column, rank, name = ("x", 0.5, "q") if asked == "alone" else ("n", 0.9, "o")
    near, held = [], []
    for seed in range(100):
        for row, bar in zip(*released(asked, seed, groups=3, rows=1), strict=True):
            truth = exact(column, row["group"], rank)
            near.append(abs(row[name] - truth))
            held.append(near[-1] <= bar[name])
            if column == "n":
                assert isinstance(row[name], int)
    # Of 300 bars that hold 90%, fewer than 80% hold with a probability below 10^-6.
    assert np.mean(held) > 0.8 and np.mean(near) < 0.25


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


@pytest.mark.long
@pytest.mark.parametrize("margins", [[BESIDE[8]], [BESIDE[1], BESIDE[8]]])
def test_margins_alone_are_moved_within_the_cube(margins):
    cube = cone_of(margins)
    sizes = [sum(cube.sides(vector)) for vector in moves(margins) if cube.holds(vector)]
    assert len(sizes) == len(list(moves(margins))) and max(sizes) == 1
    # Planted: the larger of both numbers counts in place of the smaller one, or the rank of all is forgotten.
    for planted in (WithoutAll, Larger):
        wrong = [planted(m.leaves, m.rank, m.at) for m in margins]
        assert not all(cube.holds(vector) for vector in moves(wrong))


@pytest.mark.long
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
