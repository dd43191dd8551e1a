"""Plans with K-norm noise: no unit's contribution has a norm above 1, and the release draws what the chain says."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget.calibration import ROOM
from sfumato.exact import root_up
from sfumato.framework import CentredDistance, Norm, Product
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.plan import planning
from sfumato.plan.noise_error import ratio
from sfumato.transformations import (
    Count,
    CountUnits,
    Moments,
    UnitSum,
    ValueGrid,
    WeightedSum,
    WeightGrid,
    cone_of,
    per_group,
)
from tests.support.plan_chains import same_loss

from .test_plan import TABLE

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


def most_moved(statistics, centre):
    """The farthest that a unit of up to four rows in each of two groups moves: over the bound, and squared."""
    body = Product(tuple(s.body for s in statistics))
    cone = cone_of(statistics)
    counts = 1 + cone.units
    beside = [scale * 2 for scale in body.split(Norm.L2)[counts:]]
    metric = CentredDistance(cone, (*cone.bounds[:counts], *beside), F(3), centre, ["a", "b"])
    size = root_up(metric.moved(body, 2))
    metric = replace(metric, scales=tuple(size * s for s in metric.scales), total=size * metric.total)
    assert per_group(statistics, groups=2, together=metric).map(1) == 1
    distinct = sorted(set(map(tuple, vectors(statistics))))
    rng = Random(1)
    pairs = [(v, v) for v in distinct] + [(v, rng.choice(distinct)) for v in distinct * 2]
    tables = [
        {"a": dict(zip(cone.names, v, strict=True)), "b": dict(zip(cone.names, w, strict=True))}
        for v, w in pairs
    ]
    alone = [{"a": t["a"]} for t in tables[: len(distinct)]]
    return max(metric.distance(t, {}) for t in [*tables, *alone])


@pytest.mark.parametrize("name", STATISTICS)
def test_no_rows_of_small_grids_move_a_unit_by_more_than_1(name):
    """With noise around a quarter of all units, or three quarters."""
    centre = F(3, 4) if "units" in name else F(1, 4)
    assert F(1, 2) < most_moved(STATISTICS[name], centre) <= 1


# What a release is like.


def question(**asked: Any):
    data = pa.table(
        {"id": list(range(200)), "g": [i % 4 for i in range(200)], "x": [i / 200 for i in range(200)]}
    )
    people = sf.scan(data, privacy_unit="id").group_by("g", keys=[0, 1, 2, 3, 4])
    return people.bound(groups=5, rows=1).agg(**asked)


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
        other = planning._k_norm(plan.query, plan.epsilon, most)
        assert ratio(plan.expected, other.expected) == 1 or type(other.measurement.noise) is not kind
        assert ratio(plan.expected, other.expected) <= 1


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
