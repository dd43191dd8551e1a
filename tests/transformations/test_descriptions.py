"""What statistics say of themselves, for the certificate: what a unit adds reaches that, and never exceeds it."""

import random
from fractions import Fraction
from typing import Any

import pytest

from sfumato import transformations as t
from sfumato.certificate.description import read
from sfumato.certificate.unit_loss import boxes, shift
from sfumato.errors import QueryError
from sfumato.framework import WHOLE, Ball
from sfumato.transformations.statistics.cross_moments import Axis

GRID, OTHER = t.ValueGrid(-1, 4, 30), t.ValueGrid(0, -3, 9)
SQUARES = {"square_bits": 3, "square_centre": 13}
EDGES = t.Edges((0.0, 4.0, 16.0))
STATISTICS = {
    "units": t.CountUnits(),
    "parts of units": t.CountUnits(-20),
    "rows": t.Count(3),
    "parts of rows": t.Count(3, exponent=-20),
    "values": t.Count(2, "x", exponent=-4),
    "sums": t.Moments("x", "x", 2, GRID),
    "sums from 0": t.Moments("x", "x", 2, GRID, centred=False),
    "sums and NULLs": t.Moments("x", "x", 3, GRID, null_count_exponent=-5),
    "squares": t.Moments("x", "x", 2, GRID, null_count_exponent=0, **SQUARES),
    "exact squares": t.Moments("x", "x", 2, OTHER, square_bits=0, square_centre=20),
    "sums of units": t.UnitSum("x", "x", -1, 6, 20, integer=False, centre=13),
    "sums of units with values": t.UnitSum("x", "x", -1, 6, 20, integer=False, centre=13, missing=False),
    "matching": t.DistinctMatched("x", 2),
    "shares": t.DistinctShared("x", 2),
    "products": t.CrossMoments(
        "c", (Axis("x", "x", GRID, 100), Axis("y", "y", OTHER, 9)), 2, ((0, 0), (0, 1), (1, 1)), -2
    ),
    "bins": t.RowsInBins("x", "x", 2, EDGES, -3),
    "bins of units": t.UnitsInBins("x", "x", 1, t.Listed((0, 4), other=True), -3),
    "bins with weights": t.WeightsInBins("x", "x", 2, EDGES, -3, weight="w", weights=t.WeightGrid(0, 5)),
    "bins of units with weights": t.WeightsInBins(
        "x", "x", 1, EDGES, -3, weight="w", weights=t.WeightGrid(0, 5), once=True
    ),
    "weights": t.WeightedSum("w", "w", 2, t.WeightGrid(0, 50)),
    "weighted values": t.WeightedSum("x·w", "w", 2, t.WeightGrid(0, 50), "x", GRID, bits=2),
    "tree": t.QuantileTree("x", "x", 2, 0.0, 16.0, -3),
    "values in blocks": t.ValueTree("x", "x", 2, t.Lattice(0.0, 16.0, whole=True), -3, (1, 4)),
    "vectors": t.VectorSum("v", "v", 2, 0, 50, Ball.L2),
    "vectors of rows": t.VectorSum("v", "v", 2, 0, 50, Ball.L1, rows=2),
    "vectors in a cube": t.VectorSum("v", "v", 2, 0, 50, Ball.LINF, rows=2),
    "rows with vectors": t.VectorCount("v", 2, 2, -1),
}
ENDS = [None, 0.0, 2.0, 4.0, 5.5, 8.0, 14.5, 15.0, -1e12, 1e12]


def rows(chance: random.Random) -> list[dict[str, Any]]:
    """Rows of one unit: values at ends, in the middle, far beyond, and none; alike, or not."""

    def row() -> dict[str, Any]:
        v = [chance.choice([0, 30, 40, -50, 1e12]) for _ in range(2)]
        found = {n: chance.choice(ENDS) for n in "xy"} | {"w": chance.choice([None, 3.0, -1e12, 1e12])}
        return found | {"v": chance.choice([None, v[:1], v, v])}

    count = chance.choice([1, 1, 2, 2, 3, 3, 4, 9])
    return [row()] * count if chance.random() < 0.7 else [row() for _ in range(count)]


def plain(statistic: t.Statistic, added: dict[Any, int]) -> dict[Any, int]:
    """What is added by number: of values that are shared, what they make of a group without others."""
    if isinstance(statistic, t.DistinctMatched | t.DistinctShared):
        return dict(statistic.of_added(added))
    return {key: n for key, n in added.items() if n}


def most(
    statistic: t.Statistic, kept: dict[str, Fraction], weight: int, chance: random.Random
) -> dict[str, Fraction]:
    """Compare what a unit adds with the description; return how near it comes to each number, and to both norms."""
    known: dict[str, Any] = read(statistic.description, "statistic")
    limit, scales = (
        known.get("rows") or 1,
        {n: Fraction(chance.randint(1, 9) * int(b) + 1, 3) for n, b in boxes(known)},
    )
    if known["kind"] == "bins":
        scales = dict.fromkeys(scales, max(scales.values()))
    own = shift(known, scales)
    found = plain(statistic, statistic.contribution(rows(chance), weight))
    named = [(key if isinstance(key, str) else key[0], n) for key, n in found.items()]
    for name, box in boxes(known):
        values = [abs(n) for other, n in named if other == name]
        kept[name] = max([kept.get(name, Fraction(0)), *(n / (limit * box) for n in values)])
    for norm, size, power in (("l1", own.l1 * limit, 1), ("l2", own.l2 * limit**2, 2)):
        near = sum(((abs(n) / scales[name]) ** power for name, n in named), Fraction(0)) / size
        kept[norm] = max(kept.get(norm, Fraction(0)), near)
    return kept


@pytest.mark.parametrize("name", STATISTICS)
def test_what_a_unit_adds_reaches_the_description_and_never_exceeds_it(name):
    statistic, chance = STATISTICS[name], random.Random(name)
    kept: dict[str, Fraction] = {}
    for _ in range(300):
        most(statistic, kept, WHOLE, chance)
    if statistic.divisible:
        for _ in range(50):
            most(statistic, kept, chance.randrange(1, WHOLE), chance)
    assert max(kept.values()) <= 1, kept
    numbers = {one: near for one, near in kept.items() if one not in ("l1", "l2")}
    assert {*numbers} == {*statistic.names} and min(numbers.values()) > Fraction(8, 10), kept
    # Of weights that are rounded, and of what cannot be at its ends at once, norms are bounds and no more.
    assert min(kept["l1"], kept["l2"]) > Fraction(6, 10), kept


@pytest.mark.parametrize("rank", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_a_unit_moves_a_margin_by_what_is_described(rank):
    leaves = t.Leaves("x", "x", 2, t.Lattice(0.0, 30.0, whole=True), -3)
    margin, chance = t.Margin(leaves, rank, at=(8, 12)), random.Random(str(rank))
    known = read(margin.description, "statistic")
    ((_, box),) = boxes(known)
    nearest = Fraction(0)
    for _ in range(1000):
        before = {place: chance.randrange(200) for place in chance.sample(range(31), 5)}
        added = leaves.contribution(rows(chance))
        after = dict(before)
        for key, n in added.items():
            after[key[1]] = after.get(key[1], 0) + n
        nearest = max(
            nearest, Fraction(abs(margin.total(after) - margin.total(before))) / (box * known["rows"])
        )
    assert Fraction(95, 100) < nearest <= 1


def test_a_count_limits_sums_over_as_many_rows_alone():
    for rows, sums in (
        (3, t.Moments("x", "x", 3, GRID)),
        (3, t.WeightedSum("w", "w", 3, t.WeightGrid(0, 50))),
    ):
        assert t.cone_of([t.Count(rows), sums]).names[0] == "rows"
        with pytest.raises(QueryError, match="limits all the others"):
            t.cone_of([t.Count(rows - 1), sums])


def test_every_statistic_with_a_description_is_here():
    """But for margins, which are no sums over units, and leaves, which get no noise."""
    found, waiting = set[type](), [t.Statistic]
    while waiting:
        waiting += (below := waiting.pop().__subclasses__())
        found |= {kind for kind in below if "description" in vars(kind)}
    own = {base for one in STATISTICS.values() for base in type(one).__mro__}
    assert {kind for kind in found if kind.__module__.startswith("sfumato.")} <= own | {t.Margin}
