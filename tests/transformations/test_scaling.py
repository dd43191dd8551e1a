"""Parts of a unit stay in the body, and come to no more than the limit of groups."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb

import pytest

from sfumato import transformations as t
from sfumato.audit import falsify
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, AtomDomain, KNormDistance, Part, RowsDomain

F = Fraction

GRID = t.ValueGrid(-1, -3, 3)

VALUES = (None, -9.0, -0.5, 0.0, 0.3, 1.5)

LEAVES = t.Leaves("x", "x", 2, t.Lattice(0.0, 8.0), -4)

CONES = {
    "units": (t.CountUnits(-20),),
    "units and their sums": (t.CountUnits(-20), t.UnitSum("x", "x", -2, -3, 7, False, 2)),
    "rows": (t.Count(2, exponent=-20), t.Moments("x", "x", 2, GRID, True, -3, 0, 4)),
    "units and rows": (t.CountUnits(-20), t.Count(2, exponent=-21), t.Moments("x", "x", 2, GRID)),
    "rows with a value": (t.Count(2, "x", -20), t.Moments("x", "x", 2, GRID, True, None, 0, 4)),
    "units and those with a value": (t.CountUnits(-20), t.Count(2, "x", -22), t.Moments("x", "x", 2, GRID)),
    "rows and a margin": (t.Count(2, exponent=-20), t.Margin(LEAVES, F(1, 4), (1, 3))),
    "a sum that never falls": (t.UnitSum("x", "x", 0, 0, 7, False),),
}

UNITS = [u for size in (1, 2, 3, 5) for u in combinations_with_replacement(VALUES, size)]

DOMAIN = RowsDomain((("x", AtomDomain(float, nan=True, null=True)),))


def vector(statistics, values, weight):
    rows = [{"x": value} for value in values]
    added = Counter()
    for statistic in statistics:
        added.update(statistic.contribution(rows, weight))
    return [added[name] for s in statistics for name in s.names]


def outside(statistics, weights) -> list[str]:
    """Say which parts of units are beyond so large a part of the cone, for all rows of a small grid."""
    cone, found = t.cone_of(statistics), []
    for values, weight in product(UNITS, weights):
        a, b = cone.sides(vector(statistics, values, weight))
        if a > F(weight, WHOLE) or b != 0:
            found.append(f"{values} at {weight}: {a}, {b}")
    return found


WEIGHTS = [WHOLE, 1, WHOLE - 1, WHOLE // 3, WHOLE * 2 // 7]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n not in ("units and rows", "rows"))) for n in CONES],
)
def test_parts_of_units_are_in_the_same_part_of_the_cone(name):
    assert not outside(CONES[name], WEIGHTS)


def test_counts_without_steps_for_parts_are_found_outside_and_refused():
    for coarse in (t.Count(2, "x", -3), t.CountUnits(-19), t.Count(2)):
        with pytest.raises(ParameterError, match=r"2\^-20"):
            t.per_group([coarse], groups=1, scaled=True)
    assert outside((t.Count(2, exponent=-3), t.Moments("x", "x", 2, GRID)), WEIGHTS)


def test_a_body_that_is_smaller_than_what_a_unit_adds_is_refused():
    half = 14_629_888
    statistics = (
        t.Count(1, exponent=-20),
        t.Moments("x", "x", 1, t.ValueGrid(0, -half, half), True, None, 17, 816_473_477),
    )
    cone, weight = t.cone_of(statistics), WHOLE // 1024
    assert cone.sides(vector(statistics, [float(half)], weight))[0] <= F(weight, WHOLE)
    smaller = replace(cone, bounds=(*cone.bounds[:-1], cone.bounds[-1] - 1))
    for scaled in (True, False):
        t.per_group(statistics, groups=1, together=KNormDistance(cone), scaled=scaled)
        with pytest.raises(ParameterError, match="together"):
            t.per_group(statistics, groups=1, together=KNormDistance(smaller), scaled=scaled)


def test_what_is_added_is_the_mean_over_all_choices():
    """Up to a step of the grid and 2^-20 of its part."""
    sizes = (1, 2, 3, 5)
    rows = [t.Row(u, key, {"x": 1.5 + key}) for u, j in enumerate(sizes) for key in range(j)]
    statistics = [t.CountUnits(-20), t.UnitSum("x", "x", -30, 0, 9 << 30, False)]
    total = (t.scale_groups(2, range(6)) >> t.per_group(statistics, groups=2, scaled=True))(rows)
    for key in range(5):
        parts = {
            u: F(comb(j - 1, 1) if j > 1 else 1, comb(j, 2) if j > 1 else 1) for u, j in enumerate(sizes)
        }
        units = sum(min(F(1), parts[u]) for u, j in enumerate(sizes) if key < j)
        assert 0 <= units * WHOLE - total[key]["units"] < 4
        by_value = units * F(3 + 2 * key, 2) * (1 << 30)
        assert 0 <= by_value - total[key]["x.total"] < by_value / (1 << 17)
    assert set(total) == set(range(5))


def test_only_public_groups_take_a_part_of_a_unit():
    rows = [t.Row(1, key, {}) for key in "abcd"] + [t.Row(None, "a", {}), t.Row(2, "d", {})]
    assert t.scale_groups(1, ["a", "b", "x"])(rows) == {k: [Part([{}], WHOLE // 2)] for k in "ab"}


def limited(name, groups, together):
    statistics = CONES[name]
    metric = KNormDistance(t.cone_of(statistics), groups, apart=together == "apart") if together else None
    return t.per_group(statistics, groups=groups, together=metric, scaled=True)


FALSIFIED = [(name, together) for name in ("rows", "units and those with a value") for together in ("", "both", "apart")]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("name", "together"), FALSIFIED)
def test_no_map_is_broken_by_parts_and_all_are_reached(name, together):
    chain = t.scale_groups(2, range(6), domain=DOMAIN) >> limited(name, 2, together)
    found = falsify(chain, 1, evaluations=300)
    assert not found.violated, str(found)
    assert found.ratio >= F(99, 100)
