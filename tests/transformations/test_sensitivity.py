"""Sensitivities against brute force: never below what rows can do, and not far above it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import pytest

from sfumato.errors import ParameterError
from sfumato.framework.contribution_bodies import Body, Segment, SimplexBody, weighted
from sfumato.transformations import (
    Count,
    CountUnits,
    Moments,
    Norm,
    QuantileTree,
    Statistic,
    UnitSum,
    ValueGrid,
)
from sfumato.transformations.statistics.moments import MomentsBody
from sfumato.transformations.statistics.quantile_counts import HEIGHT, LEAVES

NORMS = [Norm.L1, Norm.L2]


def contributions(statistic: Statistic, values: Sequence[Any], most_rows: int) -> Iterable[dict[Any, int]]:
    """Every contribution of a unit with at most so many rows, each with one of the values."""
    for count in range(1, most_rows + 1):
        for chosen in combinations_with_replacement(values, count):
            yield dict(statistic.contribution([{"x": value} for value in chosen]))


def size(statistic: Statistic, added: dict[Any, int], norm: Norm, scales: Sequence[Fraction]) -> Fraction:
    """The weighted size of one contribution; of a tree, over all nodes that carry noise."""
    if isinstance(statistic, QuantileTree):
        return weighted(norm, list(added.values()), [scales[0]] * len(added))
    return weighted(norm, [added.get(c, 0) for c in statistic.names], scales)


def reach(
    statistic: Statistic, values: Sequence[Any], most_rows: int, norm: Norm, scales: Sequence[Fraction]
) -> Fraction:
    return max(size(statistic, a, norm, scales) for a in contributions(statistic, values, most_rows))


def understates(statistic: Statistic, values: Sequence[Any], most_rows: int) -> bool:
    """Whether some unit does more than is claimed: in one coordinate, or jointly, in either norm."""
    found = list(contributions(statistic, values, most_rows))
    for index, coordinate in enumerate(statistic.names):
        if isinstance(statistic, QuantileTree):
            top = max(w for a in found for w in a.values())
        else:
            top = max(abs(a.get(coordinate, 0)) for a in found)
        if top > statistic.body.linf_sensitivities[index]:
            return True
    for norm in NORMS:
        for scales in some_scales(statistic, norm):
            if max(size(statistic, a, norm, scales) for a in found) > statistic.body.size(norm, scales):
                return True
    return False


def some_scales(statistic: Statistic, norm: Norm) -> list[list[Fraction]]:
    """The shares that plans use, at two multipliers, and lopsided ones."""
    shares = list(statistic.body.split(norm))
    if isinstance(statistic, QuantileTree):
        return [shares]
    lopsided = [[s * (1 + 7 * (i == j)) / 3 for i, s in enumerate(shares)] for j in range(len(shares))]
    return [shares, [s * Fraction(22, 7) for s in shares], [Fraction(1)] * len(shares), *lopsided]


def grids() -> Iterable[ValueGrid]:
    for lower, upper in ((0, 6), (-3, 3), (5, 7), (-9, 1)):
        yield ValueGrid(0, lower, upper)


def all_moments(grid: ValueGrid, rows: int, kind: type[Moments] = Moments) -> Iterable[Moments]:
    for centred in (True, False):
        for null_count in (None, 0, -2):
            yield kind("x", "x", rows, grid, centred, null_count)
            for bits in (0, 1, 3) if centred else ():
                plain = kind("x", "x", rows, grid, centred, null_count, bits)
                if plain.largest_square == 0:
                    continue  # no question asks for these
                for centre in sorted(
                    {0, plain.largest_square // 2, plain.largest_square * 5 // 8, plain.largest_square}
                ):
                    yield kind("x", "x", rows, grid, centred, null_count, bits, centre)


def every(grid: ValueGrid) -> list[Any]:
    return [None, float("nan"), *range(grid.lower - 1, grid.upper + 2)]


@pytest.mark.long
@pytest.mark.parametrize("rows", [1, 2])
def test_moments_never_do_more_than_claimed(rows):
    for grid in grids():
        values = (
            every(grid)
            if rows == 1
            else [None, *range(grid.lower, grid.upper + 1, 1 + (grid.half_range > 3))]
        )
        for statistic in all_moments(grid, rows):
            assert not understates(statistic, values, rows + 1), statistic


@pytest.mark.long
def test_three_rows_where_three_are_allowed():
    grid = ValueGrid(0, -2, 2)
    for statistic in all_moments(grid, 3):
        assert not understates(statistic, [None, -2, -1, 0, 2], 5), statistic


def test_squares_beside_values_from_zero_are_refused():
    for grid in grids():
        with pytest.raises(ParameterError, match="centred"):
            Moments("x", "x", 1, grid, False, None, 0, grid.half_range**2)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bits", [None, 0, 3, 6])
@pytest.mark.parametrize("rows", [1, 3])
def test_moments_attain_what_they_claim(norm, bits, rows):
    """On a grid so fine that the slack of half a coarsened step is small, at the shares of a plan."""
    grid = ValueGrid(-2, -900, 1100)
    plain = Moments("x", "x", rows, grid, True, -3, bits)
    share = {Norm.L1: Fraction(23, 32), Norm.L2: Fraction(5, 8)}[norm]
    centre = 0 if bits is None else int(share * plain.largest_square)
    statistic = Moments("x", "x", rows, grid, True, -3, bits, centre)
    scales = statistic.body.split(norm)
    values = [None, *(Fraction(v, 4) for v in range(grid.lower, grid.upper + 1))]
    attained = max(
        size(statistic, dict(statistic.contribution([{"x": v}] * rows)), norm, scales) for v in values
    )
    claimed = statistic.body.size(norm, scales)
    assert Fraction(97, 100) * claimed <= attained <= claimed
    if bits is not None:  # the shift makes the middle and the ends weigh the same: 25/16, as designed
        assert abs(float(claimed) - 25 / 16) < 0.01


@pytest.mark.parametrize("norm", NORMS)
def test_missing_values_cost_nothing(norm):
    grid = ValueGrid(0, -100, 100)
    for bits in (None, 0):
        without = Moments("x", "x", 2, grid, True, None, bits, 0 if bits is None else 6250)
        with_absent = Moments("x", "x", 2, grid, True, -1, bits, 0 if bits is None else 6250)
        one = without.body.size(norm, without.body.split(norm))
        other = with_absent.body.size(norm, with_absent.body.split(norm))
        assert other <= one * Fraction(101, 100)


class TooNarrow(MomentsBody):
    """The whole range of squares, where the largest distance from the centre was meant."""

    def with_value(self, norm: Norm, sum_scale: Fraction, square_scale: Fraction | None) -> Fraction:
        if square_scale is None:
            return super().with_value(norm, sum_scale, square_scale)
        return weighted(norm, [self.half_range, Fraction(self.largest_square, 2)], [sum_scale, square_scale])


class FromTheMiddle(Moments):
    """Uncentred values with the reach of centred ones."""

    @property
    def half_range(self) -> int:
        return self.grid.half_range


class OneRow(MomentsBody):
    """Sensitivity of one row where more are allowed."""

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        return super().size(norm, scales) / (self.rows if norm is Norm.L1 else self.rows**2)


class NoSlack(MomentsBody):
    """The half step by which a coarsened square can lie off is forgotten."""

    def with_value(self, norm: Norm, sum_scale: Fraction, square_scale: Fraction | None) -> Fraction:
        if square_scale is None:
            return super().with_value(norm, sum_scale, square_scale)
        unit = 1 << (self.square_bits or 0)
        return max(
            weighted(norm, [x, Fraction(x * x, unit) - self.square_centre], [sum_scale, square_scale])
            for x in (0, self.half_range)
        )


class AbsentAtHalf(MomentsBody):
    """A missing value is taken to weigh half of what it does."""

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        moved = [s * (4 if n.endswith(".null_count") else 1) for n, s in zip(self.names, scales, strict=True)]
        return super().size(norm, moved)


class WideSum(UnitSum):
    """|upper - lower| is right only for bounds around the centre."""

    @property
    def body(self) -> Body:
        return Segment(self.names[0], Fraction(abs(self.upper - self.lower), 2))


class ShortTree(SimplexBody):
    """One level is forgotten."""

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        return super().size(norm, scales) * Fraction(HEIGHT - 1, HEIGHT)


class RowsAsUnits(Count):
    """People's noise on a count of rows."""

    @property
    def body(self) -> Body:
        return Segment(self.names[0], Fraction(1))


def with_body(kind: type[Statistic], wrong: type[Body]) -> type[Any]:
    """A statistic that claims another body, with the parameters of its own."""

    class Claiming(kind):  # type: ignore[misc, valid-type]
        @property
        def body(self) -> Body:
            return wrong(**vars(super().body))

    return Claiming


PLANTED = {
    "squares' range halved": (
        lambda: all_moments(ValueGrid(0, -3, 3), 1, with_body(Moments, TooNarrow)),
        [None, *range(-3, 4)],
        1,
    ),
    "uncentred": (lambda: [FromTheMiddle("x", "x", 1, ValueGrid(0, 2, 8), False)], list(range(2, 9)), 1),
    "one row for three": (
        lambda: [with_body(Moments, OneRow)("x", "x", 3, ValueGrid(0, -2, 2), True)],
        [-2, 0, 2],
        3,
    ),
    "no slack": (
        lambda: all_moments(ValueGrid(0, -5, 5), 1, with_body(Moments, NoSlack)),
        list(range(-5, 6)),
        1,
    ),
    "missing values": (
        lambda: all_moments(ValueGrid(0, -3, 3), 1, with_body(Moments, AbsentAtHalf)),
        [None, 0, 3],
        1,
    ),
    "width of a sum": (lambda: [WideSum("x", "x", 0, 2, 7, True)], list(range(1, 9)), 1),
    "a level of the tree": (
        lambda: [with_body(QuantileTree, ShortTree)("x", "x", 1, 0.0, 16.0, 0)],
        [0.5, 3.0],
        1,
    ),
    "people for rows": (lambda: [RowsAsUnits(3)], [1], 4),
}


@pytest.mark.parametrize("defect", PLANTED)
def test_planted_defects_are_rejected(defect):
    make, values, most_rows = PLANTED[defect]
    assert any(understates(statistic, values, most_rows) for statistic in make())


def test_sums_per_unit():
    for lower, upper in ((0, 5), (-3, 2), (2, 4), (-6, -5), (-4, 4)):
        for centre in {0, (lower + upper) // 2, lower, upper}:
            for missing in (True, False):
                statistic = UnitSum("x", "x", 0, lower, upper, True, centre, missing)
                values = [None, *range(lower - 2, upper + 3)]
                assert not understates(statistic, values, 2)
                for norm in NORMS:
                    scales = statistic.body.split(norm)
                    assert reach(statistic, values, 1, norm, scales) == statistic.body.size(norm, scales) == 1


class BoundsOfValuesAlone(UnitSum):
    """The claim forgets that a unit without a value adds 0, which can be outside of the bounds."""

    @property
    def ends(self):
        return self.lower, self.upper


def test_a_unit_without_values_is_in_the_claim():
    values = [None, *range(12)]
    assert not understates(UnitSum("x", "x", 0, 5, 10, True, 7), values, 2)
    assert understates(BoundsOfValuesAlone("x", "x", 0, 5, 10, True, 7), values, 2)


def test_real_sums_per_unit_over_the_grid():
    statistic = UnitSum("x", "x", -2, -5, 9, False, 2)
    values = [None, float("nan"), float("inf"), float("-inf"), 1e308, *(n / 8 for n in range(-15, 22))]
    assert not understates(statistic, values, 2)
    assert reach(statistic, values, 1, Norm.L1, [Fraction(1)]) == 7


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_counts(rows):
    values = [None, 1.0, float("nan")]
    for statistic in (Count(rows), Count(rows, "x"), Count(rows, "x", -3), CountUnits()):
        assert not understates(statistic, values, rows + 2)
        for norm in NORMS:
            scales = statistic.body.split(norm)
            assert reach(statistic, values, rows, norm, scales) == statistic.body.size(norm, scales) == 1


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("exponent", [0, -2])
def test_trees(rows, exponent):
    statistic = QuantileTree("x", "x", rows, 0.0, float(LEAVES), exponent)
    # Neighbours on the last level, on higher ones, and at the ends.
    values = [None, 0.5, 1.5, 16.5, 4096.5, 65535.5, float("inf"), float("-inf")]
    assert not understates(statistic, values, rows + 2)
    for norm in NORMS:
        scales = statistic.body.split(norm)
        claimed = statistic.body.size(norm, scales)
        assert reach(statistic, values, rows, norm, scales) == claimed
        assert Fraction(99, 100) < claimed <= 1


def test_the_most_that_a_million_rows_do():
    """Scaling down does not let the number of rows in."""
    grid = ValueGrid(0, 0, 30)
    rows = [{"x": 30}] * 10**5 + [{"x": None}]
    for statistic in (
        Moments("x", "x", 3, grid, True, -14, 0, 140),
        Count(3, "x", -14),
        QuantileTree("x", "x", 3, 0.0, 30.0, -14),
    ):
        added = dict(statistic.contribution(rows))
        for norm in NORMS:
            scales = statistic.body.split(norm)
            assert size(statistic, added, norm, scales) <= statistic.body.size(norm, scales)


def test_bounds_of_a_grid_are_kept():
    grid = ValueGrid.around(Fraction(-1, 3), Fraction(10), ValueGrid(-4, 0, 2))
    for value in (float("-inf"), -1e308, -0.34, 0.0, 5e-324, 9.99, 10.0, 10.04, 1e308, float("inf"), 2**200):
        steps = grid.centred(value)
        assert steps is not None and abs(steps) <= grid.half_range
    assert grid.lower * grid.step <= Fraction(-1, 3) and grid.upper * grid.step >= 10
    with pytest.raises(ParameterError):
        ValueGrid(0, 3, 3)
    with pytest.raises(ParameterError):
        ValueGrid(0, 0, 3)
