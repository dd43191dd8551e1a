"""Plans with K-norm noise: no unit's contribution has a norm above 1, and the release draws what the chain says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.budget.calibration import ROOM
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.framework import ConeBody, KNormDistance
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.plan import k_norm_plans
from sfumato.plan.noise_error import ratio
from sfumato.plan.plan import Plan
from sfumato.transformations import (
    Count,
    CountUnits,
    Moments,
    QuantileTree,
    Row,
    UnitSum,
    ValueGrid,
    WeightedSum,
    WeightGrid,
    bound_groups,
    cone_of,
    per_group,
)
from tests.support.plan_chains import same_loss

from .test_plan import ASKED, TABLE, of_numbers

TABLE = TABLE.append_column(pa.field("whole", pa.int64(), nullable=False), pa.array([3, 5]))
ASKED = {name: asked for name, asked in ASKED.items() if name not in ("quantiles", "all")} | {
    "all": {
        "rows": sf.count(),
        "units": sf.count_units(),
        "sum": sf.sum("n", lower=0, upper=30),
        "mean": sf.mean("x", lower=0, upper=30),
        "variance": sf.variance("x", lower=0, upper=30),
    },
    "squares": {"n": sf.count(), "v": sf.variance("whole", lower=0, upper=30)},
    "two sums": {"s": sf.sum("n", lower=0, upper=30), "t": sf.sum("n", lower=0, upper=50)},
    "sums of rows": {
        "s": sf.sum("x", lower=0, upper=30, per="row"),
        "t": sf.sum("n", lower=-9, upper=5, per="row"),
        "u": sf.count_units(),
    },
}
LIMITS = [(5, 1), (3, 2), pytest.param((5, 3), marks=pytest.mark.long)]


@cache
def plan_of(asked: str, groups: int, rows: int) -> Plan:
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("group", keys=list(range(5)))
    plan = grouped.bound(groups=groups, rows=rows).agg(**ASKED[asked]).plan(epsilon="3/2", noise="k_norm")
    assert plan.noise.name == "k_norm"
    return plan


@pytest.mark.parametrize("limits", LIMITS[1:], ids=str)
@pytest.mark.parametrize("asked", ASKED)
def test_no_unit_moves_a_plan_by_more_than_1_and_one_moves_it_as_far(asked, limits):
    plan = plan_of(asked, *limits)
    found = falsify(of_numbers(plan), 1, evaluations=120)
    assert not found.violated, str(found)
    assert found.ratio >= F(99, 100), str(found)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("asked", ASKED)
def test_the_loss_is_epsilon_and_no_delta(asked, limits):
    plan = plan_of(asked, *limits)
    assert same_loss(plan) and plan.delta == 0
    assert plan.loss.epsilon(0) == plan.epsilon == F(3, 2)
    most = limits[0] if isinstance(plan.measurement.noise, SeparateNoise) else 1
    assert plan.measurement.noise.scales == tuple(
        b * most / F(3, 2) for b in cone_of(plan.requirements.statistics).bounds
    )
    assert cone_of(plan.requirements.statistics).names == plan.requirements.body.names


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("asked", ASKED)
def test_the_chain_is_what_a_release_runs(asked, limits, monkeypatch):
    """With noise that is known, a release has the numbers that the plan's chain computes from the rows."""
    for kind in (JointNoise, SeparateNoise):

        def known(self, *given):
            groups = given[0] if isinstance(self, SeparateNoise) else self.groups
            return 1000 * np.arange(self.cone.dimensions)[:, None] + np.arange(groups)

        monkeypatch.setattr(kind, "rounded", known)
    plan = plan_of(asked, *limits)
    people = sf.scan(TABLE, privacy_unit="id").group_by("group", keys=list(range(5)))
    release = (
        people.bound(groups=limits[0], rows=limits[1])
        .agg(**ASKED[asked])
        .release(epsilon="3/2", delta=1e-6, noise="k_norm")
    )
    assert release.spent == (1.5, 0.0)
    (batch,) = release._draw()
    rows = [Row(r["id"], (r["group"],), r) for r in TABLE.to_pylist()]
    exact = plan.exact_chain(rows)
    for name, step in plan.steps.items():
        drawn = [int(F(v) / step) for v in batch.numbers.values[name]]
        at = 1000 * plan.measurement.names.index(name)
        assert drawn == [exact.get((g,), Counter())[name] + at + g for g in range(5)]


# All rows of small grids: what one unit of up to four rows may add, after rounding and scaling down.


WEIGHTED = WeightedSum("w", "x", 2, WeightGrid(0, 5), "x", ValueGrid(0, -3, 3), 1)
STATISTICS = {
    "rows and a sum": [Count(2), Moments("x", "x", 2, ValueGrid(0, -3, 3))],
    "units, rows and a sum": [CountUnits(), Count(2), Moments("x", "x", 2, ValueGrid(0, 0, 6))],
    "missing values and squares": [Count(2), Moments("x", "x", 2, ValueGrid(0, -3, 3), True, -1, 1, 2)],
    "values, as a share of rows": [
        Count(2),
        Count(2, "x", -2),
        Moments("x", "x", 2, ValueGrid(0, 2, 8), False),
    ],
    "values and their sum": [Count(2, "x", -2), Moments("x", "x", 2, ValueGrid(0, 2, 8), False)],
    "units, values and squares": [
        CountUnits(),
        Count(2, "x", -2),
        Moments("x", "x", 2, ValueGrid(0, -3, 3), True, None, 1, 2),
    ],
    "units and their sum": [CountUnits(), UnitSum("x", "x", 0, -2, 4, True, 1)],
    "units, their sum and rows": [CountUnits(), Count(2), UnitSum("x", "x", 0, 0, 4, True, 2)],
    "a sum alone": [UnitSum("x", "x", 0, 0, 4, True)],
    "values alone": [Count(2, "x", -2)],
    "weights and weighted values": [WEIGHTED],
    "weights alone": [WeightedSum("w", "x", 2, WeightGrid(-1, 11))],
    "rows and weighted values": [Count(2), WEIGHTED, Moments("x", "x", 2, ValueGrid(0, -3, 3))],
    "units and weighted values": [CountUnits(), Count(2), WEIGHTED],
}


def vectors(statistics):
    for size in range(1, 5):
        for values in product((None, -5, 0, 1, 3, 7), repeat=size):
            rows = [{"x": v} for v in values]
            yield [s.contribution(rows)[n] for s in statistics for n in s.names]


SQUARES = {
    "units": [CountUnits(), Moments("x", "x", 1, ValueGrid(0, -3, 3), square_bits=0, square_centre=4)],
    "rows": [Count(2), Moments("x", "x", 2, ValueGrid(0, -2, 6), square_bits=1, square_centre=4)],
    "three rows": [Count(3), Moments("x", "x", 3, ValueGrid(0, -5, 5), square_bits=0, square_centre=12)],
    "off the centre": [Count(2), Moments("x", "x", 2, ValueGrid(0, 0, 4), square_bits=3, square_centre=0)],
    "coarse": [Count(2), Moments("x", "x", 2, ValueGrid(0, -8, 8), square_bits=4, square_centre=2)],
    "values": [
        Count(2, "x", -3), Moments("x", "x", 2, ValueGrid(0, -8, 8), square_bits=2, square_centre=8),
    ],
    "values of one row": [
        Count(1, "x", -4), Moments("x", "x", 1, ValueGrid(0, -8, 8), square_bits=1, square_centre=16),
    ],
    "units, values": [
        CountUnits(), Count(2, "x", -3), Moments("x", "x", 2, ValueGrid(0, -8, 8), square_bits=2, square_centre=8),
    ],
    "units, rows": [
        CountUnits(), Count(2), Moments("x", "x", 2, ValueGrid(0, -2, 6), square_bits=1, square_centre=4),
    ],
    "rows, values": [
        Count(1), Count(1, "x", -4), Moments("x", "x", 1, ValueGrid(0, -8, 8), square_bits=1, square_centre=16),
    ],
    "units, and sums of rows": [
        CountUnits(), Moments("x", "x", 2, ValueGrid(0, -3, 3), square_bits=1, square_centre=2),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", [*STATISTICS, *(f"squares: {name}" for name in SQUARES)])
def test_every_contribution_is_in_the_cone_after_its_rounding(name):
    statistics = STATISTICS[name] if name in STATISTICS else SQUARES[name.removeprefix("squares: ")]
    body, most = cone_of(statistics), F(0)
    for vector in set(map(tuple, vectors(statistics))):
        a, b = body.sides(vector)
        assert a <= 1 and b == 0, vector
        most = max(most, a)
    assert most == 1


class Upwards(Moments):
    """Sums of rows that are scaled down are rounded away from zero."""

    def contribution(self, rows):
        found = super().contribution(rows)
        return type(found)({n: v + (v > 0) * (len(rows) > self.rows) for n, v in found.items()})


class WidthOfSum(UnitSum):
    """Half the width, wherever the centre is."""

    @property
    def body(self):
        return replace(super().body, bound=F(self.upper - self.lower, 2))


class OneRow(Count):
    """People's bound on a count of rows."""

    @property
    def body(self):
        return replace(super().body, bound=F(1))


class Downwards(Count):
    """Values of rows that are scaled down are cut, as sums over them are."""

    def contribution(self, rows):
        found = super().contribution(rows)
        return type(found)({n: max(0, v - 2 * (len(rows) > self.rows)) for n, v in found.items()})


MEAN, GRID = Moments("x", "x", 2, ValueGrid(0, -3, 3)), ValueGrid(0, -3, 3)
PLANTED = {
    "rounded upwards": [Count(2), Upwards("x", "x", 2, GRID)],
    "width of a sum": [CountUnits(), WidthOfSum("x", "x", 0, 0, 4, True, 0)],
    "people for rows": [OneRow(2), MEAN],
    "values cut": [Downwards(2, "x", -2), MEAN],
}


@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_contribution_is_found_by_all_rows_and_by_the_falsifier(name):
    statistics = PLANTED[name]
    body = cone_of(statistics)
    assert any(body.sides(v)[0] > 1 or body.sides(v)[1] > 0 for v in vectors(statistics))
    rows = plan_of("mean", 3, 2).exact_chain.input_domain
    moved = per_group(statistics, groups=3, together=KNormDistance(body))
    assert falsify(bound_groups(3, domain=rows) >> moved, 1, evaluations=2000).violated


@pytest.mark.parametrize(
    "statistics",
    [
        [MEAN],
        [Count(1), MEAN],
        [Count(2), UnitSum("x", "x", 0, 0, 4, True)],
        [Count(2, "x"), Count(2, "y")],
        [UnitSum("x", "x", 0, -1, 4, True)],
        [CountUnits(), QuantileTree("x", "x", 1, 0.0, 1.0, 0)],
    ],
)
def test_what_no_count_limits_is_no_cone(statistics):
    with pytest.raises(QueryError):
        cone_of(statistics)


def test_a_column_with_missing_values_costs_no_number_more():
    """Its values limit its sums, below units or rows where these are asked; two columns are limited by rows."""

    def names(rows=1, **asked):
        people = sf.scan(TABLE, privacy_unit="id").group_by("group", keys=list(range(5)))
        plan = people.bound(groups=5, rows=rows).agg(**asked).plan(epsilon=1, noise="k_norm")
        return [
            name.split("[")[0] + "." + name.rpartition(".")[2]
            for name in cone_of(plan.requirements.statistics).names
        ], cone_of(plan.requirements.statistics).units

    mean, other = sf.mean("x", lower=0, upper=30), sf.mean("n", lower=0, upper=30)
    assert names(m=mean) == (["x.present.present", "x.sum"], False)
    assert names(m=mean, n=sf.count())[0] == ["units.units", "x.present.present", "x.sum"]
    assert names(2, m=mean, n=sf.count()) == (["rows.rows", "x.present.present", "x.sum"], True)
    assert len(names(2, m=mean, n=sf.count(), u=sf.count_units())[0]) == 4
    assert "x.null_count" in names(m=mean, o=other)[0]


def test_another_norm_is_refused():
    with pytest.raises(ParameterError):
        per_group([Count(2)], groups=3, together=KNormDistance(ConeBody(("rows",), (F(2),)), 2))
    with pytest.raises(ParameterError):
        per_group([Count(2)], groups=3, together=KNormDistance(ConeBody(("units",), (F(2),))))


# What a release is like.


def question(**asked: Any):
    data = pa.table(
        {"id": list(range(200)), "g": [i % 4 for i in range(200)], "x": [i / 200 for i in range(200)]}
    )
    people = sf.scan(data, privacy_unit="id").group_by("g", keys=[0, 1, 2, 3, 4])
    return people.bound(groups=5, rows=1).agg(**asked)


def test_one_draw_serves_all_groups_where_that_is_the_smaller_noise():
    asked = {"n": sf.count(), "m": sf.mean("x", lower=0, upper=1)}
    assert plan_of("all", 5, 1).measurement.noise.groups == 5
    assert isinstance(plan_of("all", 1, 1).measurement.noise, SeparateNoise)
    ungrouped = (
        sf.scan(TABLE, privacy_unit="id").bound(rows=1).agg(n=sf.count()).plan(epsilon=1, noise="k_norm")
    )
    assert ungrouped.measurement.noise == JointNoise(Cone(0), (F(1),), 1)
    plan = question(**asked).plan(epsilon=1, noise="k_norm")
    assert dict(plan.others)["laplace"] < 0.6
    told = plan.explain().to_dict()
    assert told["noise"] == "k_norm" and "K-norm noise" in str(plan.explain())


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
def test_error_bars_hold_as_often_as_they_say():
    """In 150 releases of 5 groups, of which those of one release depend on each other: at least 0.85 of 0.95."""
    asked = question(
        n=sf.count(), s=sf.sum("x", lower=0, upper=1, per="row"), m=sf.mean("x", lower=0, upper=1)
    )
    inside = np.zeros(3)
    for i in range(150):
        release = asked.release(epsilon=2, noise="k_norm", confidence=0.95, unsafe_words=SeededWords(i))
        table = release.to_arrow().slice(0, 4)
        for j, (name, first, step) in enumerate((("n", 50, 0), ("s", 24.5, 0.25), ("m", 0.49, 0.005))):
            truth = first + step * np.arange(4)
            off = np.abs(table[name].to_numpy() - truth)
            inside[j] += (off <= table[f"{name}_error"].to_numpy() + 1e-6).mean() / 150
    assert (inside >= 0.85).all(), inside


@pytest.mark.parametrize(
    "error, ask",
    [
        (BudgetError, lambda p: p.bound(rows=10**7).agg(n=sf.count())),
    ],
)
def test_what_is_refused(error, ask):
    asked = ask(sf.scan(TABLE, privacy_unit="id").bound(rows=1))
    with pytest.raises(error):
        asked.plan(epsilon="1e-12", delta=1e-6, noise="k_norm")


def test_a_plan_says_what_other_noises_would_have_given():
    asked = question(n=sf.count(), m=sf.mean("x", lower=0, upper=1), v=sf.variance("x", lower=0, upper=1))
    plan = asked.plan(epsilon=1, delta=1e-6, noise="k_norm")
    shares = dict(plan.others)
    for name in ("laplace", "gaussian"):
        other = asked.plan(epsilon=1, delta=1e-6, noise=name)
        assert shares[name] == pytest.approx(ratio(plan.expected, other.expected), rel=0.02)
        assert shares[name] < 0.7
    (note,) = plan.explain().to_dict()["notes"]
    assert "with Laplace noise and" in note and "with Gaussian noise." in note
    assert [name for name, _ in asked.plan(epsilon=1, noise="k_norm").others] == ["laplace"]


def test_expected_errors_are_those_of_outputs():
    """Of a count, a sum about its centre, and a mean: from deviations that are known."""
    sums = {"s": sf.sum("x", lower=0, upper=1, per="row"), "m": sf.mean("x", lower=0, upper=1)}
    plan = question(n=sf.count(), **sums).plan(epsilon=1, noise="k_norm")
    deviation = {n: float(law.standard_deviation * plan.steps[n]) for n, law in plan.laws.items()}
    (total,) = (deviation[name] for name in deviation if name.endswith(".sum"))
    (present,) = (deviation[name] for name in deviation if name.endswith(".present"))
    assert plan.expected["n"] == pytest.approx(deviation["units"])
    assert plan.expected["s"] == pytest.approx(np.hypot(total, present / 2))
    assert plan.expected["m"] == pytest.approx(np.hypot(total, present / 4))


def limited_plan(groups=12, limit=4, **asked: Any):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("group", keys=list(range(groups)))
    asked = asked or {"n": sf.count(), "s": sf.sum("n", lower=0, upper=9)}
    return grouped.bound(groups=limit, rows=1).agg(**asked).plan(epsilon="3/2", noise="k_norm")


@pytest.mark.parametrize(
    "groups, limit, kind", [(12, 1, SeparateNoise), (12, 4, SeparateNoise), (5, 4, JointNoise)]
)
def test_where_a_unit_is_in_some_of_the_groups_the_smaller_noise_is_drawn(groups, limit, kind):
    plan = limited_plan(groups, limit)
    assert isinstance(plan.measurement.noise, kind) and same_loss(plan) and plan.loss.epsilon(0) == F(3, 2)
    for most in (None, limit):
        other = k_norm_plans._plan(plan.query, plan.epsilon, most)
        assert ratio(plan.expected, other.expected) == 1 or type(other.measurement.noise) is not kind
        assert ratio(plan.expected, other.expected) <= 1


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize(
    "asked", [pytest.param(name, marks=pytest.mark.long) if name != "all" else name for name in ASKED]
)
def test_no_unit_moves_either_noise_by_more_than_1(asked, most):
    """Whichever noise would be chosen; with missing values too, whose counts are rounded up."""
    plan = k_norm_plans._plan(plan_of(asked, 3, 2).query, F(3, 2), most)
    found = falsify(of_numbers(plan), 1, evaluations=120)
    assert not found.violated and found.ratio >= F(9, 10), str(found)


def test_noise_of_too_many_groups_together_is_refused(monkeypatch):
    monkeypatch.setattr(k_norm_plans, "MOST_TOGETHER", 4)
    with pytest.raises(ParameterError, match="noise"):
        question(n=sf.count()).plan(epsilon=1, noise="k_norm")
    with pytest.raises(ParameterError, match="group_selection"):
        question(n=sf.count()).plan(epsilon=1, noise="k_norm", group_selection="laplace")


# Private groups: noise of each, and a threshold on that of the units.


def private(noise="k_norm", pre_threshold=1, delta=1e-6):
    """Group g has g + 1 units, for g below 60."""
    pairs = [(100 * g + i, g, 5.0) for g in range(60) for i in range(g + 1)]
    columns = dict(zip(("id", "g", "x"), map(list, zip(*pairs, strict=True)), strict=True))
    asked = sf.scan(pa.table(columns), privacy_unit="id").group_by("g").bound(groups=1, rows=1)
    asked = asked.agg(people=sf.count_units(), m=sf.mean("x", lower=0, upper=10))
    return asked, {"epsilon": 1, "delta": delta, "noise": noise, "pre_threshold": pre_threshold}


@pytest.mark.parametrize("pre_threshold", [1, 4])
def test_a_threshold_on_the_noise_of_units_is_charged_as_its_page_says(pre_threshold):
    asked, options = private(pre_threshold=pre_threshold)
    plan = asked.plan(**options)
    rule, law = plan.selection, plan.laws["units"]
    shown = law.rounded_sf(rule.tau - 2)  # P(1 + round(Z) >= tau)
    assert shown <= float(rule.delta_per_group) * (1 + 1e-12) < law.rounded_sf(rule.tau - 3)
    assert plan.loss.additive_delta == plan.delta * (1 - ROOM) and plan.delta == F("1e-6")
    assert plan.loss.epsilon(plan.delta) == plan.epsilon == 1
    assert (
        isinstance(plan.measurement.noise, SeparateNoise)
        and replace(plan.measurement, selection=None).map(1).epsilon(0) == 1
    )
    laplace = asked.plan(**(options | {"noise": "laplace"}))
    assert rule.expected_threshold < laplace.selection.expected_threshold
    assert plan.explain().to_dict()["selection"]["rule"] == "k_norm_threshold"


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_groups_are_shown_where_their_noisy_units_reach_the_threshold():
    asked, options = private()
    release = asked.release(**options, unsafe_words=SeededWords(1))
    rule, noise = release.plan.selection, release.plan.measurement.noise
    drawn = noise.rounded(60, SeededWords(1))
    expected = [g for g in range(60) if g + 1 + drawn[0, g] >= rule.tau]
    table = release.to_arrow()
    assert table["g"].to_pylist() == expected and 0 < len(expected) < 60
    assert table["people"].to_pylist() == [g + 1 + int(drawn[0, g]) for g in expected]


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_groups_below_the_pre_threshold_are_never_shown():
    asked, options = private(pre_threshold=30, delta=0.4)
    release = asked.release(**options, unsafe_words=SeededWords(2))
    assert min(release.to_arrow()["g"].to_pylist()) >= 29


def test_private_groups_need_delta_and_no_other_rule():
    asked, options = private(delta=0)
    with pytest.raises(BudgetError, match="delta is 0"):
        asked.plan(**options)
    with pytest.raises(ParameterError, match="group_selection"):
        asked.plan(**(options | {"delta": 1e-6, "group_selection": "laplace"}))


def test_the_option_of_sql():
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, noise = k_norm, "
        "max_groups_contributed = 1, max_rows_per_group = 1) g, COUNT(*) AS n FROM t GROUP BY g"
    )
    table = pa.table({"id": list(range(300)), "g": [1] * 300})
    release = sf.sql(text, tables={"t": table})
    assert release.plan.noise.name == "k_norm"


CHOICES = {
    # Groups, the most of a unit, whether they are public; what is asked; and the noise that is chosen at delta 1e-6.
    "one count, which is Laplace noise either way": (1, 1, True, {"n": sf.count()}, "laplace"),
    "counts of five groups": (5, 5, True, {"n": sf.count()}, "k_norm"),
    "a mean": (5, 5, True, {"n": sf.count(), "m": sf.mean("x", lower=0, upper=1)}, "k_norm"),
    "a mean of many groups": (200, 200, True, {"m": sf.mean("x", lower=0, upper=1)}, "gaussian"),
    "a limit": (12, 4, True, {"m": sf.mean("x", lower=0, upper=1)}, "k_norm"),
    "a median beside a mean": (5, 5, True, {"m": sf.mean("x", lower=0, upper=1),
                                            "q": sf.quantiles("x", [0.5], lower=0, upper=1)}, "k_norm"),
    "more ranks than are chosen together": (
        1, 1, True, {"q": sf.quantiles("x", [i / 30 for i in range(1, 25)], lower=0, upper=1)}, "laplace"),
    "private groups": (0, 2, False, {"n": sf.count(), "m": sf.mean("x", lower=0, upper=1)}, "k_norm"),
    "many private groups of a unit": (0, 60, False, {"n": sf.count()}, "gaussian"),
}  # fmt: skip


def test_errors_that_are_alike_are_called_so():
    plan = sf.scan(TABLE, privacy_unit="id").agg(n=sf.count_units()).plan(epsilon=1)
    (note,) = (note for note in plan.notes if "noise" in note)
    assert note.endswith("are about as large as those with K-norm noise.")


@pytest.mark.parametrize("name", CHOICES)
def test_what_auto_chooses_has_the_smallest_errors(name):
    groups, most, public, aggregates, expected = CHOICES[name]
    people = sf.scan(TABLE, privacy_unit="id").group_by("group", keys=list(range(groups)) if public else None)
    asked = people.bound(groups=most, rows=1).agg(**aggregates)
    plan = asked.plan(epsilon=1, delta=1e-6)
    assert plan.noise.name == expected
    assert ("times those with" in str(plan.explain())) == bool(plan.others)
    # Errors of noises that are equal differ in the last digit.
    assert all(share <= 1 + 2.0**-50 for _, share in plan.others)
    if expected == "k_norm":
        assert all(share < 1 for _, share in plan.others) and plan.others
        assert "K-norm noise the errors of the outputs are about" in str(plan.explain())
        assert plan.delta == (0 if public else F("1e-6"))
    # Who asks for a selection of its own has other noise.
    if not public:
        assert asked.plan(epsilon=1, delta=1e-6, group_selection="laplace").noise.name == "laplace"


def test_auto_spends_no_delta_on_public_groups():
    asked = question(n=sf.count(), m=sf.mean("x", lower=0, upper=1))
    release = asked.release(epsilon=1, delta=1e-6, unsafe_words=SeededWords(1))
    assert release.plan.noise.name == "k_norm" and release.spent == (1.0, 0.0)
