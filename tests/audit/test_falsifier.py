"""The falsifier finds wrong claims, breaks no honest one, and comes near those that are tight."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from sfumato.audit import falsify
from sfumato.audit.falsifier.domain_members import Draw, draw_member, draw_neighbor
from sfumato.audit.falsifier.record_pairs import make_pairs
from sfumato.errors import QueryError
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    CategoryDomain,
    ChangeOneDistance,
    ContributionDomain,
    DiscreteDistance,
    Domain,
    L1Distance,
    L2Distance,
    Linear,
    LInfDistance,
    Metric,
    PrivacyUnitDistance,
    ProductDomain,
    ProductMetric,
    RowsDomain,
    SymmetricDistance,
    TableDomain,
    Transformation,
    VectorDomain,
)

LONG = pytest.mark.long
NUMBER, FLOAT, WHOLE = AtomDomain(Fraction), AtomDomain(float), AtomDomain(int)
ADDING, CHANGING, ABSOLUTE = SymmetricDistance(), ChangeOneDistance(), AbsoluteDistance()
ENOUGH = 1500


# Wrong claims, each from somewhere (a document, a library, a habit), and their correct twins.


@dataclass(frozen=True)
class Case:
    """A wrong claim and its twin.

    Args:
        source: where it was seen.
        wrong, right: the transformations.
        d_in: at which to look.
        failure: how the defect shows.
        artefact: whether exact arithmetic would keep the claim.
    """

    source: str
    wrong: Transformation
    right: Transformation
    d_in: Any = 1
    failure: str = "distance"
    artefact: bool = False


def vectors(
    lower: Any = None, upper: Any = None, *, kind: Any = int, size: int | None = None, nan: bool = False
):
    return VectorDomain(AtomDomain(kind, lower, upper, nan), size)


def claim(
    name: str,
    domain: Any,
    metric: Any,
    function: Any,
    claimed: Any,
    output: Any = NUMBER,
    output_metric: Any = ABSOLUTE,
) -> Transformation:
    stability_map = claimed if callable(claimed) else Linear(Fraction(claimed))
    return Transformation(name, domain, output, metric, output_metric, function, stability_map)


def total(values: Sequence[Any]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


def float_sum(values: Sequence[Any]) -> Any:
    found = 0.0
    for value in values:
        found = found + value
    return found


def most_groups(most: int, kept: int) -> Transformation:
    """Bounding of groups that keeps `kept` and claims `most`."""

    def function(rows: Sequence[Any]) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for unit in sorted({r.unit for r in rows if r.unit is not None}):
            mine = [r for r in rows if r.unit == unit]
            for key in sorted({r.key for r in mine})[:kept]:
                found.setdefault(key, []).append([r.values for r in mine if r.key == key])
        return found

    return Transformation(
        f"bound to {most}, keep {kept}", RowsDomain(), ContributionDomain(most), PrivacyUnitDistance(),
        PrivacyUnitDistance(most), function, Linear(Fraction(1)),
    )  # fmt: skip


def counted_rows(columns: Any, count: Callable[[Sequence[Any]], int], claimed: int) -> Transformation:
    return claim("count", RowsDomain(columns), PrivacyUnitDistance(), count, claimed, AtomDomain(int))


def first_rows(rows: Sequence[Any]) -> int:
    """Add up the first value of each unit, as rows lie; where one unit has most rows, from the other end."""
    found: dict[Any, int] = {}
    counts = [sum(r.unit == unit for r in rows) for unit in {r.unit for r in rows}]
    for row in reversed(rows) if counts and 2 * max(counts) > len(rows) else rows:
        found.setdefault(row.unit, row.values["x"] or 0)
    return sum(x for unit, x in found.items() if unit is not None)


def least_rows(rows: Sequence[Any]) -> int:
    found: dict[Any, int] = {}
    for row in rows:
        found[row.unit] = min(found.get(row.unit, 9), row.values["x"] or 0)
    return sum(x for unit, x in found.items() if unit is not None)


def units_in(rows: Sequence[Any]) -> int:
    return len({r.unit for r in rows if r.unit is not None})


def limited_rows(rows: Sequence[Any]) -> int:
    return sum(min(3, sum(r.unit == unit for r in rows)) for unit in {r.unit for r in rows} - {None})


def poisoned(values: Sequence[float]) -> float:
    """min and max keep NaN when it comes first."""
    found = 0.0
    for value in values:
        found += min(max(value, -1.0), 1.0)
    return found


CASES = {
    "sum, |U - L| under add or remove": Case(
        "document 004, errata 18",
        claim("sum", vectors(8, 10), ADDING, total, 2),
        claim("sum", vectors(8, 10), ADDING, total, 10),
    ),
    "sum, max(|L|, |U|) under change-one": Case(
        "document 004, errata 18",
        claim("sum", vectors(-10, 10, size=5), CHANGING, total, 10),
        claim("sum", vectors(-10, 10, size=5), CHANGING, total, 20),
    ),
    "float sum, order ignored": Case(
        "google/differential-privacy #126",
        claim("sum", vectors(-10, 10, kind=float), ADDING, float_sum, 10, AtomDomain(float)),
        claim("sum", vectors(-10, 10, kind=float), ADDING, total, 10),
        artefact=True,
    ),
    "one group too many": Case("OpenDP 0.16, reversed", most_groups(3, 4), most_groups(3, 3)),
    "rows of a unit not limited": Case(
        "habit",
        counted_rows((), lambda rows: sum(r.unit is not None for r in rows), 3),
        counted_rows((), limited_rows, 3),
    ),
    "NULL units count": Case(
        "habit",
        counted_rows((), lambda rows: len({r.unit for r in rows}), 1),
        counted_rows((), units_in, 1),
    ),
    "NaN survives min and max": Case(
        "PipelineDP",
        claim("sum", vectors(kind=float, nan=True), ADDING, poisoned, 1, AtomDomain(float)),
        claim("sum", vectors(kind=float, nan=True), ADDING, lambda v: total([min(max(x, -1), 1) for x in v if not math.isnan(x)]), 1),
        failure="output",
    ),
    "integers through float64": Case(
        "habit",
        claim("float", AtomDomain(int), ABSOLUTE, lambda n: int(float(min(max(n, -(2**80)), 2**80))), 1, WHOLE),
        claim("as it is", AtomDomain(int), ABSOLUTE, lambda n: min(max(n, -(2**80)), 2**80), 1, WHOLE),
    ),
    "an empty table raises": Case(
        "habit",
        claim("largest", vectors(0, 9), ADDING, max, 9, WHOLE),
        claim("largest", vectors(0, 9), ADDING, lambda v: max(v, default=0), 9, WHOLE),
        failure="error",
    ),
    "first rows, and one unit turns the order": Case(
        "sfumato at be0a808f",
        counted_rows((("x", AtomDomain(int, 0, 9)),), first_rows, 9),
        counted_rows((("x", AtomDomain(int, 0, 9)),), least_rows, 9),
    ),
    "L1 for L2": Case(
        "habit",
        claim("sum", VectorDomain(AtomDomain(Fraction), 4), L2Distance(), sum, 1),
        claim("sum", VectorDomain(AtomDomain(Fraction), 4), L2Distance(), sum, 2),
    ),
    "small totals are suppressed": Case(
        "habit",
        claim("sum", vectors(0, 9), ADDING, lambda v: sum(v) if len(v) >= 20 else 0, 9, WHOLE),
        claim("sum", vectors(0, 9), ADDING, lambda v: min(sum(v), 180), 9, WHOLE),
    ),
}  # fmt: skip
QUICK = (
    "sum, |U - L| under add or remove",
    "one group too many",
    "NULL units count",
    "integers through float64",
    "L1 for L2",
)


def some(names):
    return [pytest.param(name, marks=[LONG] * (name not in QUICK)) for name in names]


@pytest.mark.parametrize("name", some(CASES))
def test_every_planted_defect_is_found(name):
    case = CASES[name]
    found = falsify(case.wrong, case.d_in, evaluations=500 if name in QUICK else 4000)
    assert found.violated and found.failure == case.failure and found.artefact is case.artefact
    assert found.ratio > 1 and "BROKEN" in str(found)
    # What is reported is checked from outside.
    one, other = found.inputs
    assert case.wrong.input_domain.contains(one) and case.wrong.input_domain.contains(other)
    assert case.wrong.input_metric.distance(one, other) <= found.d_in <= case.d_in
    if found.failure == "distance":
        outputs = case.wrong(one), case.wrong(other)
        assert outputs == found.outputs
        apart = case.wrong.output_metric.distance(*outputs)
        assert apart == found.distance > found.bound == case.wrong.map(found.d_in)


@pytest.mark.parametrize("name", some(CASES))
def test_no_honest_claim_is_broken_and_each_is_reached(name):
    case = CASES[name]
    found = falsify(case.right, case.d_in, evaluations=500 if name in QUICK else ENOUGH)
    assert not found.violated, str(found)
    assert found.failure is None and not found.artefact and found.ratio <= 1
    assert found.ratio >= Fraction(99, 100), str(found)


def test_maps_are_judged_at_the_distance_between_the_inputs_too():
    """Twice the distance is claimed at 1, where that is wrong of smaller distances alone."""
    numbers = AtomDomain(Fraction, 0, 1)
    wrong = claim("root", numbers, ABSOLUTE, lambda x: 1 if x else 0, 1)
    found = falsify(wrong, 1)
    assert found.violated and found.d_in < 1 and found.bound == wrong.map(found.d_in)


def test_order_is_tried_at_distance_zero():
    wrong = claim("first", vectors(0, 9), SymmetricDistance(), lambda v: v[0] if v else 0, 9)
    found = falsify(wrong, 0)
    assert found.violated and found.d_in == found.bound == 0 and found.ratio == math.inf


def test_whole_numbers_are_replayed_where_the_function_divides_them():
    third = claim("third", AtomDomain(int), ABSOLUTE, lambda n: n / 3, Fraction(1, 3), FLOAT)
    found = falsify(third, 1, evaluations=ENOUGH)
    assert found.violated and found.artefact and found.exact_ratio == 1
    assert "in floats" in str(found)


class Odd(Domain):
    def contains(self, value: Any) -> bool:
        return isinstance(value, int) and value % 2 == 1


class Steps(Metric):
    def admits(self, domain: Domain) -> bool:
        return isinstance(domain, Odd)

    def distance(self, one: Any, other: Any) -> Fraction:
        return Fraction(abs(one - other), 2)


def test_domains_of_ones_own_take_their_members_from_the_caller():
    wrong = Transformation("half", Odd(), AtomDomain(int), Steps(), AbsoluteDistance(), lambda n: n // 2, Linear(Fraction(1, 2)))  # fmt: skip
    with pytest.raises(QueryError, match="Pass some: members=.one, other, ...."):
        falsify(wrong, 1)
    with pytest.raises(QueryError, match="Pass some: members=.one, other, ...."):
        falsify(wrong, 1, members=[1])
    found = falsify(wrong, 1, members=[1, 3, 11], evaluations=20)
    assert found.violated and sorted(found.inputs) == [1, 3]
    with pytest.raises(QueryError, match="cannot make members"):
        falsify(claim("f", VectorDomain(Odd()), SymmetricDistance(), len, 1), 1)


ATOMS = [
    AtomDomain(int), AtomDomain(int, 3), AtomDomain(int, None, -3), AtomDomain(int, 2, 2), AtomDomain(int, -7, 10**30, null=True),
    AtomDomain(float), AtomDomain(float, Fraction(1, 10), Fraction(1, 3)), AtomDomain(float, nan=True, null=True), AtomDomain(float, None, 0),
    AtomDomain(Fraction), AtomDomain(Fraction, Fraction(1, 3), Fraction(1, 2)), AtomDomain(bool, null=True), AtomDomain(str), CategoryDomain((1, 0)),
    CategoryDomain((True, False)),
]  # fmt: skip


DOMAINS = [
    *ATOMS, VectorDomain(ATOMS[4]), VectorDomain(ATOMS[7], 6), VectorDomain(VectorDomain(ATOMS[0], 2)), ProductDomain(tuple(ATOMS[:3])),
    TableDomain((("a", ATOMS[4]), ("b", ATOMS[12]))), TableDomain((("a", ATOMS[7]),), 4),
]  # fmt: skip


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_members_are_members(domain):
    draw = Draw(3)
    for _ in range(100):
        value = draw_member(domain, draw)
        assert domain.contains(value)
        assert domain.contains(draw_neighbor(domain, value, draw))


SPACES = [
    *((d, ABSOLUTE) for d in ATOMS if ABSOLUTE.admits(d)),
    *((d, DiscreteDistance()) for d in ATOMS),
    *((d, metric) for d in DOMAINS for metric in (SymmetricDistance(), ChangeOneDistance()) if metric.admits(d)),
    *((VectorDomain(ATOMS[i], size), metric) for i in (0, 4, 5, 10) for size in (None, 1, 3) for metric in (L1Distance(), L2Distance(), LInfDistance()) if metric.admits(VectorDomain(ATOMS[i]))),
    (ProductDomain((ATOMS[0], ATOMS[5], ATOMS[10])), ProductMetric(ABSOLUTE)),
    (ProductDomain((VectorDomain(ATOMS[0]), VectorDomain(ATOMS[4], 3))), ProductMetric(SymmetricDistance())),
    (RowsDomain(), PrivacyUnitDistance()),
    (RowsDomain((("x", ATOMS[7]), ("y", ATOMS[3]))), PrivacyUnitDistance()),
    (ContributionDomain(3), PrivacyUnitDistance(3)),
    (ContributionDomain(3, 2), PrivacyUnitDistance(3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("domain", "metric"),
    [pytest.param(*one, marks=[LONG] * (i % 4 > 0)) for i, one in enumerate(SPACES)],
    ids=str,
)
@pytest.mark.parametrize("room", [Fraction(1), Fraction(5, 2)], ids=str)
def test_pairs_lie_within_the_room_and_use_all_of_it(domain, metric, room):
    pairs, draw, reached = make_pairs(domain, metric, ()), Draw(1), []
    for _ in range(40):
        state = pairs.drawn(draw, room)
        for _ in range(3):
            one, other = pairs.build(state, room)
            assert domain.contains(one) and domain.contains(other)
            reached.append(metric.distance(one, other))
            state = pairs.mutate(state, draw, room)
    assert max(reached) <= room
    if (
        getattr(domain, "size", None)
        or re.search(r"upper=(?!None)", str(domain))
        or isinstance(metric, DiscreteDistance)
    ):
        return  # not all of the room is there
    steps = isinstance(metric, (SymmetricDistance, ChangeOneDistance, PrivacyUnitDistance))
    assert max(reached) >= (math.floor(room) if steps else room * Fraction(3, 4) - 1)
