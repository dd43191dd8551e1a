"""A limit of a unit's rows over all its groups: no unit moves statistics by more than its body, on all small tables."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import pytest

from sfumato import transformations as t
from sfumato.framework import KNormDistance, Norm, Transformation

TOTAL = 3

VALUES = [None, -4.0, 1.0, 5.0]

# All that one unit can have: up to one row more than the limit, in three groups.
UNITS = [
    [t.Row(1, key, {"x": x}) for key, x in rows]
    for size in range(1, TOTAL + 2)
    for rows in combinations_with_replacement(list(product("abc", VALUES)), size)
]

SETS: dict[str, list[t.Statistic]] = {
    "units": [t.CountUnits()],
    "rows": [t.Count(TOTAL)],
    "values": [t.Count(TOTAL, "x", -4)],
    "sums of units": [t.UnitSum("x", "x", -1, -6, 10, False)],
    "sums of rows": [t.Moments("plain", "x", TOTAL, t.ValueGrid(-1, -6, 10), False)],
    "moments": [t.Moments("x", "x", TOTAL, t.ValueGrid(-1, -6, 10), True, -2, 0, 5)],
    "tree": [t.QuantileTree("x", "x", TOTAL, -8.0, 8.0, -2)],
    "values in blocks": [t.ValueTree("x", "x", TOTAL, t.Lattice(-8.0, 8.0, whole=True), -2, (1, 4))],
    "leaves": [t.Leaves("x", "x", TOTAL, t.Lattice(-8.0, 8.0), -2)],
}

SETS["units and rows"] = SETS["units"] + SETS["rows"]

SETS["all"] = [s for statistics in list(SETS.values())[:9] for s in statistics]


def claimed(statistics: list[t.Statistic], norm: Norm, total: int = TOTAL) -> Transformation:
    """The chain of a limit of rows in all groups."""
    scales = t.body_in_all(statistics, total, total).split(norm)
    return t.bound_total_rows(total) >> t.per_group(statistics, norm, scales, total, total=total)


def largest_move(chain: Transformation, units: list[list[t.Row]]) -> Fraction:
    """How far a unit moves the statistics of a table, whatever it has."""
    base = [t.Row(2, "a", {"x": 3.0}), t.Row(2, "b", {"x": None})]
    before = chain(base)
    return max(chain.output_metric.distance(before, chain(base + unit)) for unit in units)


@pytest.mark.parametrize("norm", [Norm.L1, pytest.param(Norm.L2, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name",
    [
        "units and rows",
        *(pytest.param(name, marks=pytest.mark.long) for name in SETS if name != "units and rows"),
    ],
)
def test_no_unit_of_all_moves_numbers_by_more_than_claimed(name: str, norm: Norm) -> None:
    chain = claimed(SETS[name], norm)
    units = UNITS[:: 1 if len(SETS[name]) < 3 else 5]
    moved = largest_move(chain, units)
    assert moved <= chain.map(1)
    assert moved > Fraction(4, 5) * chain.map(1)


BY_ROWS: dict[str, list[t.Statistic]] = {
    "rows": SETS["rows"],
    "rows and values": [t.Count(TOTAL), t.Count(TOTAL, "x", -4)],
    "mean": [t.Count(TOTAL), t.Moments("x", "x", TOTAL, t.ValueGrid(-1, -6, 10), True, -2)],
    "squares": [t.Count(TOTAL), t.Moments("x", "x", TOTAL, t.ValueGrid(-1, -6, 10), True, None, 0, 32)],
    "values": [t.Count(TOTAL, "x", -4), t.Moments("x", "x", TOTAL, t.ValueGrid(-1, -6, 10), True)],
}


def measured(statistics: list[t.Statistic], body: Any) -> Transformation:
    together = KNormDistance(body, 1, apart=True)
    return t.bound_total_rows(TOTAL) >> t.per_group(statistics, groups=TOTAL, total=TOTAL, together=together)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["mean", *(pytest.param(name, marks=pytest.mark.long) for name in BY_ROWS if name != "mean")]
)
def test_rows_that_are_divided_over_groups_have_the_norm_of_one_unit(name: str) -> None:
    """Groups with noise of their own in the shape of N rows of one group."""
    chain = measured(BY_ROWS[name], t.cone_of(BY_ROWS[name]))
    assert largest_move(chain, UNITS) == chain.map(1) == 1


def test_the_body_is_the_largest_over_all_ways_to_divide_rows() -> None:
    """N rows are divided in every way over groups: none is larger than the body, and one is as large."""
    for total, norm in product((2, 3, 7), Norm):
        power = 1 if norm is Norm.L1 else 2
        units, rows = Fraction(3), Fraction(5)
        body = t.body_in_all([t.CountUnits(), t.Count(total)], total, total)
        sizes = [
            sum((1 / units) ** power + (n / rows) ** power for n in part) for part in partitions(total, total)
        ]
        assert body.size(norm, [units, rows]) == max(sizes)


def partitions(total: int, most: int) -> Iterator[list[int]]:
    if total == 0:
        yield []
    for first in range(min(total, most), 0, -1):
        for rest in partitions(total - first, first):
            yield [first, *rest]


def test_the_order_of_rows_decides_nothing() -> None:
    rows = [
        t.Row(1, "a", {"x": 1}),
        t.Row(1, "a", {"x": 1.0}),
        t.Row(1, "b", {"x": None}),
        t.Row(1, "a", {"x": 2}),
    ]
    for order in (lambda *row: 0, lambda unit, key, values, copy: copy):
        chain = t.bound_total_rows(2, order=order)
        assert len({str(sorted(chain(list(p)).items())) for p in permutations(rows)}) == 1


def test_rows_of_other_groups_take_no_place() -> None:
    rows = [t.Row(1, key, {}) for key in "abcd"]
    assert t.bound_total_rows(2, keys=["c", "d"])(rows) == {"c": [[{}]], "d": [[{}]]}
    assert t.bound_total_rows(5, keys=["c", "d"]).output_domain.groups == 2
    assert t.bound_total_rows(2)([t.Row(None, "a", {})]) == {}
