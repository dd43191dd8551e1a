"""A limit of a unit's rows over all its groups: no unit moves statistics by more than its body, on all small tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any
from zlib import crc32

import pytest

from sfumato.errors import ParameterError
from sfumato.framework import Body, KNormDistance, Norm, Product, RowsBody, Transformation
from sfumato.transformations import (
    Count,
    CountUnits,
    Lattice,
    Leaves,
    Moments,
    QuantileTree,
    Row,
    Statistic,
    UnitSum,
    ValueGrid,
    body_in_all,
    bound_groups,
    bound_rows,
    bound_total_rows,
    cone_of,
    per_group,
)

TOTAL = 3


def some(cases: Any, every: int) -> list[Any]:
    """Parameters, of which every so-many-th is in the first tier."""
    return [pytest.param(c, marks=() if i % every == 0 else pytest.mark.long) for i, c in enumerate(cases)]


VALUES = [None, -4.0, 1.0, 5.0]
# All that one unit can have: up to one row more than the limit, in three groups.
UNITS = [
    [Row(1, key, {"x": x}) for key, x in rows]
    for size in range(1, TOTAL + 2)
    for rows in combinations_with_replacement(list(product("abc", VALUES)), size)
]
SETS: dict[str, list[Statistic]] = {
    "units": [CountUnits()],
    "rows": [Count(TOTAL)],
    "values": [Count(TOTAL, "x", -4)],
    "sums of units": [UnitSum("x", "x", -1, -6, 10, False)],
    "sums of rows": [Moments("plain", "x", TOTAL, ValueGrid(-1, -6, 10), False)],
    "moments": [Moments("x", "x", TOTAL, ValueGrid(-1, -6, 10), True, -2, 0, 5)],
    "tree": [QuantileTree("x", "x", TOTAL, -8.0, 8.0, -2)],
    "leaves": [Leaves("x", "x", TOTAL, Lattice(-8.0, 8.0), -2)],
}
SETS["units and rows"] = SETS["units"] + SETS["rows"]
SETS["all"] = [s for statistics in list(SETS.values())[:8] for s in statistics]


def claimed(statistics: list[Statistic], norm: Norm, total: int = TOTAL) -> Transformation:
    """The chain of a limit of rows in all groups."""
    scales = body_in_all(statistics, total, total).split(norm)
    return bound_total_rows(total) >> per_group(statistics, norm, scales, total, total=total)


def largest_move(chain: Transformation, units: list[list[Row]]) -> Fraction:
    """How far a unit moves the statistics of a table, whatever it has."""
    base = [Row(2, "a", {"x": 3.0}), Row(2, "b", {"x": None})]
    before = chain(base)
    return max(chain.output_metric.distance(before, chain(base + unit)) for unit in units)


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("name", some(SETS, 4))
def test_no_unit_of_all_moves_numbers_by_more_than_claimed(name: str, norm: Norm) -> None:
    chain = claimed(SETS[name], norm)
    units = UNITS[:: 1 if len(SETS[name]) < 3 else 5]
    moved = largest_move(chain, units)
    assert moved <= chain.map(1)
    assert moved > Fraction(4, 5) * chain.map(1)


@pytest.mark.parametrize("name", ["rows", "units and rows", "moments"])
def test_a_limit_that_counts_in_each_group_is_seen(name: str) -> None:
    """As many rows in each of as many groups: squared, in place of N."""
    counted: Any = per_group(SETS[name], groups=TOTAL, total=TOTAL).function
    wrong = bound_groups(TOTAL) >> bound_rows(TOTAL, TOTAL)
    everywhere = [[Row(1, key, {"x": 5.0}) for key in "abc" for _ in range(TOTAL)]]
    for norm in Norm:
        right = claimed(SETS[name], norm)
        broken = replace(right, function=lambda rows: counted(wrong(rows)))
        assert largest_move(broken, everywhere) > right.map(1)
        assert largest_move(right, everywhere) <= right.map(1)


@pytest.mark.parametrize("half", ["a row in each group alone", "all rows in one group alone"])
def test_a_body_of_one_end_alone_is_seen(half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def size(body: RowsBody, norm: Norm, scales: Any) -> Fraction:
        one, most = body.rows * body.one.size(norm, scales), body.most.size(norm, scales)
        return one if half.startswith("a row") else most

    monkeypatch.setattr(RowsBody, "size", size)
    chain = claimed(SETS["units and rows"], Norm.L2)
    # With scales that are not the ones of `split`, either end may be the larger.
    scales = [Fraction(1), Fraction(1, 4)] if half.startswith("a row") else [Fraction(1, 4), Fraction(1)]
    chain = bound_total_rows(TOTAL) >> per_group(SETS["units and rows"], Norm.L2, scales, TOTAL, total=TOTAL)
    assert largest_move(chain, UNITS) > chain.map(1)


BY_ROWS: dict[str, list[Statistic]] = {
    "rows": SETS["rows"],
    "rows and values": [Count(TOTAL), Count(TOTAL, "x", -4)],
    "mean": [Count(TOTAL), Moments("x", "x", TOTAL, ValueGrid(-1, -6, 10), True, -2)],
    "squares": [Count(TOTAL), Moments("x", "x", TOTAL, ValueGrid(-1, -6, 10), True, None, 0, 32)],
    "values": [Count(TOTAL, "x", -4), Moments("x", "x", TOTAL, ValueGrid(-1, -6, 10), True)],
}


def measured(statistics: list[Statistic], body: Any) -> Transformation:
    together = KNormDistance(body, 1, apart=True)
    return bound_total_rows(TOTAL) >> per_group(statistics, groups=TOTAL, total=TOTAL, together=together)


@pytest.mark.parametrize("name", some(BY_ROWS, 2))
def test_rows_that_are_divided_over_groups_have_the_norm_of_one_unit(name: str) -> None:
    """Groups with noise of their own in the shape of N rows of one group."""
    chain = measured(BY_ROWS[name], cone_of(BY_ROWS[name]))
    assert largest_move(chain, UNITS) == chain.map(1) == 1


def test_a_number_of_units_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics: list[Statistic] = [CountUnits(), Count(TOTAL)]
    for refused in (statistics, SETS["units"]):
        with pytest.raises(ParameterError, match="together"):
            measured(refused, cone_of(refused))
    right = measured(SETS["rows"], cone_of(SETS["rows"]))
    once = per_group(SETS["units"], groups=1, together=KNormDistance(cone_of(SETS["units"]), 1, apart=True))
    counted: Any = once.function
    wrong = replace(
        right,
        function=lambda rows: counted(bound_total_rows(TOTAL)(rows)),
        output_domain=once.output_domain,
        output_metric=once.output_metric,
    )
    assert largest_move(wrong, UNITS) > right.map(1)


def statistics_of(rows: int) -> Iterator[Statistic]:
    for statistics in list(SETS.values())[:8]:
        for s in statistics:
            yield replace(s, rows=rows) if s.by_rows else s  # type: ignore[call-arg]


@pytest.mark.parametrize("norm", Norm)
def test_what_lies_between_the_ends_is_within(norm: Norm) -> None:
    """The proof's condition: a body of n rows has size a + b n, or squared a + b n², with a and b at least 0."""
    power = 1 if norm is Norm.L1 else 2
    for small, *others in zip(*(list(statistics_of(n)) for n in (1, 2, 5, 40)), strict=True):
        scales = [Fraction(3, 2) + i for i in range(len(small.names))]
        one = small.body.size(norm, scales)
        b = (others[0].body.size(norm, scales) - one) / (2**power - 1)
        assert 0 <= b <= one
        for other, n in zip(others, (2, 5, 40), strict=True):
            assert other.body.size(norm, scales) == one - b + b * n**power


def test_what_is_by_rows_is_the_sum_of_rows() -> None:
    """Up to the limit nothing is scaled down, and nothing cut; the others add no more than for one row."""
    for statistic in statistics_of(TOTAL):
        once = not statistic.by_rows
        assert once == isinstance(statistic, (CountUnits, UnitSum))
        for rows in product(VALUES, repeat=TOTAL):
            values = [{"x": x} for x in rows]
            together: Counter[Any] = Counter()
            for value in values[: 1 if once else None]:
                together.update(statistic.contribution([value]))
            if not isinstance(statistic, UnitSum):
                assert statistic.contribution(values) == together


def test_the_body_is_the_largest_over_all_ways_to_divide_rows() -> None:
    """N rows are divided in every way over groups: none is larger than the body, and one is as large."""
    for total, norm in product((2, 3, 7), Norm):
        power = 1 if norm is Norm.L1 else 2
        units, rows = Fraction(3), Fraction(5)
        body = body_in_all([CountUnits(), Count(total)], total, total)
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


def test_bodies() -> None:
    body = body_in_all(SETS["units and rows"], TOTAL, TOTAL)
    assert isinstance(body, RowsBody) and body.groups == TOTAL and body.linf_sensitivities == (1, TOTAL)
    alone: Body = body_in_all(SETS["units and rows"], 1, TOTAL)
    assert isinstance(alone, Product) and alone.linf_sensitivities == (1, TOTAL)
    assert isinstance(body_in_all([CountUnits(), Count(1)], 1, 1), Product)
    with pytest.raises(ParameterError, match="limit of rows of rows"):
        body_in_all([Count(2)], TOTAL, TOTAL)


def test_the_order_of_rows_decides_nothing() -> None:
    rows = [Row(1, "a", {"x": 1}), Row(1, "a", {"x": 1.0}), Row(1, "b", {"x": None}), Row(1, "a", {"x": 2})]
    for order in (lambda *row: 0, lambda unit, key, values, copy: copy):
        chain = bound_total_rows(2, order=order)
        assert len({str(sorted(chain(list(p)).items())) for p in permutations(rows)}) == 1


def test_rows_of_other_groups_take_no_place() -> None:
    rows = [Row(1, key, {}) for key in "abcd"]
    assert bound_total_rows(2, keys=["c", "d"])(rows) == {"c": [[{}]], "d": [[{}]]}
    assert bound_total_rows(5, keys=["c", "d"]).output_domain.groups == 2
    assert bound_total_rows(2)([Row(None, "a", {})]) == {}


def test_equal_rows_are_chosen_apart() -> None:
    """Each row has a place of its own in the order, also beside rows that are equal to it."""
    rows = [Row(unit, "a" if i else "b", {}) for unit in range(2000) for i in range(4)]
    kept = bound_total_rows(1)(rows)
    # A quarter of 2,000 units keep the one row that is alone: fixed, as the order is.
    assert 425 < len(kept["b"]) < 575
    tied = bound_total_rows(1, order=lambda unit, key, values, copy: crc32(f"{unit} {key}".encode()))(rows)
    assert not 425 < len(tied["b"]) < 575
