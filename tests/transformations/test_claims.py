"""What a unit adds, against brute force over small units: never more than its body says, and about as much; definitions."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from sfumato import transformations as t
from sfumato.errors import ParameterError, QueryError
from sfumato.framework.contribution_bodies import weigh_norm
from sfumato.transformations.statistics.cross_moments import square_share
from sfumato.transformations.statistics.quantile_counts import LEAVES

NORMS = [t.Norm.L1, t.Norm.L2]


def contributions(statistic: t.Statistic, values: Sequence[Any], most_rows: int) -> Iterable[dict[Any, int]]:
    """Every contribution of a unit with at most so many rows, each with one of the values, or one of these rows."""
    rows = [value if isinstance(value, dict) else {"x": value} for value in values]
    for count in range(1, most_rows + 1):
        for chosen in combinations_with_replacement(rows, count):
            yield dict(statistic.contribution(chosen))


def size(statistic: t.Statistic, added: dict[Any, int], norm: t.Norm, scales: Sequence[Fraction]) -> Fraction:
    """The weighted size of one contribution; of a tree, over all nodes that carry noise."""
    if isinstance(statistic, t.QuantileTree | t.ValueTree):
        return weigh_norm(norm, list(added.values()), [scales[0]] * len(added))
    return weigh_norm(norm, [added.get(c, 0) for c in statistic.names], scales)


def reach(
    statistic: t.Statistic, values: Sequence[Any], most_rows: int, norm: t.Norm, scales: Sequence[Fraction]
) -> Fraction:
    return max(size(statistic, a, norm, scales) for a in contributions(statistic, values, most_rows))


def understates(statistic: t.Statistic, values: Sequence[Any], most_rows: int) -> bool:
    """Whether some unit does more than is claimed: in one coordinate, or jointly, in either norm."""
    found = [dict(added) for added in {tuple(a.items()) for a in contributions(statistic, values, most_rows)}]
    for index, coordinate in enumerate(statistic.names):
        if isinstance(statistic, t.QuantileTree | t.ValueTree):
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


def some_scales(statistic: t.Statistic, norm: t.Norm) -> list[list[Fraction]]:
    """The shares that plans use, at two multipliers, and lopsided ones."""
    shares = list(statistic.body.split(norm))
    if isinstance(statistic, t.QuantileTree | t.ValueTree):
        return [shares]
    lopsided = [[s * (1 + 7 * (i == j)) / 3 for i, s in enumerate(shares)] for j in range(len(shares))]
    return [shares, [s * Fraction(22, 7) for s in shares], [Fraction(1)] * len(shares), *lopsided]


def all_moments(grid: t.ValueGrid, rows: int) -> Iterable[t.Moments]:
    for centred in (True, False):
        for null_count in (None, 0, -2):
            yield t.Moments("x", "x", rows, grid, centred, null_count)
            for bits in (0, 1, 3) if centred else ():
                plain = t.Moments("x", "x", rows, grid, centred, null_count, bits)
                if plain.largest_square == 0:
                    continue  # no question asks for these
                for centre in sorted(
                    {0, plain.largest_square // 2, plain.largest_square * 5 // 8, plain.largest_square}
                ):
                    yield t.Moments("x", "x", rows, grid, centred, null_count, bits, centre)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bits, rows", [(None, 3), (6, 3), (0, 1)])
def test_moments_attain_what_they_claim(norm, bits, rows):
    """On a grid so fine that the slack of half a coarsened step is small, at the shares of a plan."""
    grid = t.ValueGrid(-2, -900, 1100)
    plain = t.Moments("x", "x", rows, grid, True, -3, bits)
    share = {t.Norm.L1: Fraction(23, 32), t.Norm.L2: Fraction(5, 8)}[norm]
    centre = 0 if bits is None else int(share * plain.largest_square)
    statistic = t.Moments("x", "x", rows, grid, True, -3, bits, centre)
    scales = statistic.body.split(norm)
    values = [None, *(Fraction(v, 4) for v in range(grid.lower, grid.upper + 1))]
    attained = max(
        size(statistic, dict(statistic.contribution([{"x": v}] * rows)), norm, scales) for v in values
    )
    claimed = statistic.body.size(norm, scales)
    assert Fraction(97, 100) * claimed <= attained <= claimed
    if bits is not None:  # the shift makes the middle and the ends weigh the same: 25/16, as designed
        assert abs(float(claimed) - 25 / 16) < 0.01


def test_sums_per_unit():
    for lower, upper in ((0, 5), (-3, 2), (2, 4), (-6, -5)):
        for centre in {0, (lower + upper) // 2, lower, upper}:
            for missing in (True, False):
                statistic = t.UnitSum("x", "x", 0, lower, upper, True, centre, missing)
                values = [None, *range(lower - 2, upper + 3)]
                assert not understates(statistic, values, 2)
                for norm in NORMS:
                    scales = statistic.body.split(norm)
                    assert reach(statistic, values, 1, norm, scales) == statistic.body.size(norm, scales) == 1


def test_real_sums_per_unit_over_the_grid():
    statistic = t.UnitSum("x", "x", -2, -5, 9, False, 2)
    values = [None, float("nan"), float("inf"), float("-inf"), 1e308, *(n / 8 for n in range(-15, 22))]
    assert not understates(statistic, values, 2)
    assert reach(statistic, values, 1, t.Norm.L1, [Fraction(1)]) == 7


@pytest.mark.parametrize("rows, exponent", [(1, 0), (2, -2)])
@pytest.mark.parametrize("sizes", [None, (1,), (1, 16, 4096)])
def test_trees(rows, exponent, sizes):
    statistic = t.QuantileTree("x", "x", rows, 0.0, float(LEAVES), exponent)
    if sizes:
        lattice = t.Lattice(0.0, 8191.0, whole=True)
        statistic = t.ValueTree("x", "x", rows, lattice, exponent, sizes)
    # Neighbours on the last level, on higher ones, and at the ends.
    values = [None, 0.5, 1.5, 16.5, 4096.5, 65535.5, float("inf"), float("-inf")]
    assert not understates(statistic, values, rows + 2)
    for norm in NORMS:
        scales = statistic.body.split(norm)
        claimed = statistic.body.size(norm, scales)
        assert reach(statistic, values, rows, norm, scales) == claimed
        assert Fraction(99, 100) < claimed <= 1


def test_the_most_that_many_rows_do():
    """Scaling down does not let the number of rows in."""
    grid = t.ValueGrid(0, 0, 30)
    rows = [{"x": 30}] * 10**4 + [{"x": None}]
    for statistic in (
        t.Moments("x", "x", 3, grid, True, -14, 0, 140),
        t.Count(3, "x", -14),
        t.QuantileTree("x", "x", 3, 0.0, 30.0, -14),
        t.ValueTree("x", "x", 3, t.Lattice(0.0, 30.0, whole=True), -14, (1, 6)),
    ):
        added = dict(statistic.contribution(rows))
        for norm in NORMS:
            scales = statistic.body.split(norm)
            assert size(statistic, added, norm, scales) <= statistic.body.size(norm, scales)


def test_bounds_of_a_grid_are_kept():
    grid = t.ValueGrid.around(Fraction(-1, 3), Fraction(10), t.ValueGrid(-4, 0, 2))
    for value in (float("-inf"), -1e308, -0.34, 0.0, 5e-324, 9.99, 10.0, 10.04, 1e308, float("inf"), 2**200):
        steps = grid.centred(value)
        assert steps is not None and abs(steps) <= grid.half_range
    assert grid.lower * grid.step <= Fraction(-1, 3) and grid.upper * grid.step >= 10
    with pytest.raises(ParameterError):
        t.ValueGrid(0, 3, 3)
    with pytest.raises(ParameterError):
        t.ValueGrid(0, 0, 3)


NAN, INF = float("nan"), float("inf")
X, Y = t.Axis("x", "x", t.ValueGrid(0, -2, 2), 2), t.Axis("y", "y", t.ValueGrid(0, 1, 7), 6)
ALL = ((0, 1), (0, 0), (1, 1))
EDGES = t.Edges((0.0, 1.0, 2.0), above=True)
WEIGHTS = {"weight": "w", "weights": t.WeightGrid(-1, 6)}
OF_BINS = (None, NAN, -1.0, 0.0, 1.0, 2.0, 9.0)
OF_PAIRS = [{"x": x, "y": y} for x, y in product((None, -9, 0, INF), (None, -9, 4, INF))]
WEIGHTED = [{"w": w, "x": x} for w, x in product((None, -3.0, 1.0, INF), (None, -9.0, 1.0, 3.0))]
ANSWERS = [{"s": s, "a": a} for s, a in product((0, 1, 2, None), (True, False, None))]
LISTS = [{"v": v} for v in (None, [], [1.0], [1.0, 2.0], [INF, 0.0], [1.0, NAN], [1.0, 2.0, 3.0])]
# Statistics, what rows of a unit may be, and how many.
CLAIMS: dict[str, tuple[list[t.Statistic], Sequence[Any], int]] = {
    "counts": ([t.CountUnits(), t.Count(2), t.Count(2, "x"), t.Count(2, "x", -3)], [None, 1.0, NAN], 4),
    "sums": (
        [*all_moments(t.ValueGrid(0, -3, 3), 1), *all_moments(t.ValueGrid(0, 5, 7), 1)],
        [None, *range(-4, 9)],
        2,
    ),
    "sums of rows": (list(all_moments(t.ValueGrid(0, -9, 1), 2)), [None, -9, -4, 1], 3),
    "products": ([t.CrossMoments("c", (X, Y), 2, ALL, -2)], OF_PAIRS, 3),
    "one product": ([t.CrossMoments("c", (X, Y), 2, ((0, 1),), 0)], OF_PAIRS, 3),
    "bins": ([t.RowsInBins("x", "x", 2, EDGES, e) for e in (0, -3)], OF_BINS, 3),
    "units in bins": ([t.UnitsInBins("x", "x", 1, EDGES, -3)], OF_BINS, 3),
    "listed bins": ([t.RowsInBins("x", "x", 2, t.Listed((0.0, 2.0), other=True), -1)], OF_BINS, 3),
    "weighted bins": ([t.WeightsInBins("x", "x", 2, EDGES, -3, **WEIGHTS)], WEIGHTED, 3),
    "mean weights": ([t.WeightsInBins("x", "x", 1, EDGES, 0, **WEIGHTS, once=True)], WEIGHTED, 3),
    "weights": ([t.WeightedSum("w", "w", 2, t.WeightGrid(0, 5), "x", t.ValueGrid(0, -3, 3), 1)], WEIGHTED, 3),
    "answers": ([t.YesInStrata("s", "s", rows, t.Listed((0, 1)), -3, "a") for rows in (1, 2)], ANSWERS, 3),
    "lists": ([t.VectorCount("v", 2, 2, -3)], LISTS, 3),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_no_unit_does_more_than_is_claimed(name):
    made, values, most_rows = CLAIMS[name]
    for statistic in made:
        assert not understates(statistic, values, most_rows), statistic


@pytest.mark.parametrize("name", ["products", "weights"])
def test_no_unit_is_outside_of_the_cone(name):
    made, rows, most_rows = CLAIMS[name]
    for statistic in made:
        counted = [t.Count(statistic.rows)] if name == "products" else []
        cone = t.cone_of([*counted, statistic])
        for added in contributions(statistic, rows, most_rows):
            assert cone.holds([*[statistic.rows] * len(counted), *(added.get(n, 0) for n in statistic.names)])


# Definitions.


def test_bins_are_those_of_numpy():
    values = np.array([-5.0, -1.0, -0.5, 0.0, 0.1, 0.3, 1.0, 2.0, 2.5])
    edges = (-1.0, -0.0, 0.1, 2.0)
    found = Counter(t.Edges(edges).place(x) for x in values)
    assert [found[i] for i in range(3)] == np.histogram(values, edges)[0].tolist()


def test_infinite_edges_hold_infinities_and_what_is_outside_has_a_bin_where_asked():
    open_ended = t.Edges((-math.inf, 0.0, math.inf))
    assert [open_ended.place(x) for x in (-math.inf, -1, 0, math.inf, NAN)] == [0, 0, 1, 1, None]
    closed = t.Edges((0.0, 1.0), below=True, above=True)
    assert [closed.place(x) for x in (-math.inf, 0, 1, math.inf, None)] == [0, 1, 1, 2, None]
    assert [t.Edges((0.0, 1.0)).place(x) for x in (-1, 2)] == [None, None]


def test_truth_values_and_texts_are_listed_as_they_are():
    assert [t.Listed((True, False)).place(x) for x in (False, True, None)] == [1, 0, None]
    assert [t.Listed(("a", "é"), other=True).place(x) for x in ("A", "e\u0301", "é", None)] == [2, 2, 1, None]


@pytest.mark.parametrize("axes", [1, 2, 7])
def test_the_shift_of_squares_balances_rows_at_the_centre_and_at_the_ends(axes):
    """The size of a row in L2 is that of the centre, and less than that of all numbers by themselves."""
    made = tuple(
        t.Axis(f"x{i}", f"x{i}", t.ValueGrid(0, -16, 16), int(square_share(axes) * 256)) for i in range(axes)
    )
    body = t.CrossMoments("c", made, 1, tuple(combinations_with_replacement(range(axes), 2))).body
    scales = body.split(t.Norm.L2)
    assert body.size(t.Norm.L2, scales) == 4 * axes * square_share(axes) ** 2
    assert body.size(t.Norm.L2, scales) < weigh_norm(
        t.Norm.L2, [int(s) for s in body.linf_sensitivities], scales
    )


def test_weights_and_answers_add_what_they_say():
    fine = t.WeightedSum("w", "w", 2, t.WeightGrid(0, 5), "x", t.ValueGrid(0, -4, 4), 2)
    for w, x in product(range(6), range(-4, 5)):
        assert fine.row({"w": w, "x": x}) == (w, (w * x + 2) // 4)
    plain = t.WeightedSum("w", "w", 2, t.WeightGrid(0, 5), "x", t.ValueGrid(0, -3, 3), 0)
    rows = [{"w": 2, "x": 3}, {"w": 1, "x": 3}, {"w": 4, "x": None}]
    assert plain.contribution(rows) == Counter({"w.weight": 2, "w.sum": 6})
    once = t.WeightsInBins("x", "x", 1, EDGES, -3, **WEIGHTS, once=True)
    rows = [{"x": 0.5, "w": 2}, {"x": 1.5, "w": 1}, {"x": 7, "w": None}, {"x": None, "w": 3}]
    assert once.contribution(rows) == Counter({"x.bin0": 8, "x.bin1": 4})  # of 16: 2/4 and 1/4
    yes = CLAIMS["answers"][0][0]
    assert {(r["s"], r["a"]) for r in ANSWERS if yes.contribution([r])} == {(0, True), (1, True)}


def test_what_cannot_be_is_refused():
    for edges in ((1.0,), (1.0, 1.0), (0.0, NAN)):
        with pytest.raises(ParameterError, match="edges"):
            t.Edges(edges)
    for values in (("a", "a"), (1, True)):
        with pytest.raises(ParameterError, match="values"):
            t.Listed(values)
    for pairs in (((1, 0),), ((0, 2),), ((0, 1), (0, 1))):
        with pytest.raises(ParameterError, match="pairs"):
            t.CrossMoments("c", (X, Y), 1, pairs)
    with pytest.raises(ParameterError, match="rows"):
        t.UnitsInBins("x", "x", 2, EDGES)
    with pytest.raises(ParameterError, match="centred"):
        t.Moments("x", "x", 1, t.ValueGrid(0, -3, 3), False, None, 0, 9)
    for statistics in (
        [t.Count(2), CLAIMS["units in bins"][0][0]],
        CLAIMS["answers"][0][:1],
        CLAIMS["weighted bins"][0][:1],
    ):
        with pytest.raises(QueryError, match="Laplace"):
            t.cone_of(statistics)
