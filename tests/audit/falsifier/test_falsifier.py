"""The falsifier finds every planted defect, breaks no honest claim, and comes near those that are tight."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.audit import falsify
from sfumato.audit.falsifier.domain_members import Draw, member, near
from sfumato.audit.falsifier.falsification import _Search
from sfumato.audit.falsifier.record_pairs import pairs_of
from sfumato.errors import ParameterError, QueryError
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    CategoryDomain,
    ChangeOneDistance,
    ContributionDomain,
    DiscreteDistance,
    Domain,
    GroupedIntegers,
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
from sfumato.transformations import Count, Norm, UnitSum, per_group

from .defects import ABSOLUTE, CASES, FLOAT, claim, total, vectors

ENOUGH = 1500
HONEST = [name for name, case in CASES.items() if case.right is not None]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "name"), [(number % 2, name) for number, name in enumerate(CASES)])
def test_every_planted_defect_is_found(name, seed):
    case = CASES[name]
    found = falsify(case.wrong, case.d_in, evaluations=ENOUGH, seed=seed)
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


@pytest.mark.long
@pytest.mark.parametrize("name", HONEST)
def test_no_honest_claim_is_broken_and_tight_ones_are_reached(name):
    case = CASES[name]
    assert case.right is not None
    found = falsify(case.right, case.d_in, evaluations=ENOUGH)
    assert not found.violated, str(found)
    assert found.failure is None and not found.artefact and found.ratio <= 1
    if case.tight:
        assert found.ratio >= Fraction(99, 100), str(found)


def test_the_same_seed_gives_the_same_search():
    case = CASES["sum, |U - L| under add or remove"]
    one, two, other = (falsify(case.wrong, 2, evaluations=300, seed=seed) for seed in (5, 5, 6))
    assert one == two and one.seed == 5 and other.seed == 6
    assert one.evaluations <= 300


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


@pytest.mark.parametrize(
    ("function", "replayed"),
    [
        (lambda v: 3 * v, True),
        (lambda v: 3.0 * v - 1.5, True),
        (lambda v: (v + 0.5) ** 2 - v**2 + abs(-v) % 1e6, True),
        (lambda v: math.sqrt(abs(v)), False),
        (float, False),
    ],
)
def test_replay_in_exact_rationals(function, replayed):
    found = falsify(claim("f", AtomDomain(float, -9, 9), ABSOLUTE, function, 100, FLOAT), 1, evaluations=200)
    assert (found.exact_ratio is not None) is replayed
    assert ("not replayed" in str(found)) is not replayed


def test_whole_numbers_are_replayed_where_the_function_divides_them():
    third = claim("third", AtomDomain(int), ABSOLUTE, lambda n: n / 3, Fraction(1, 3), FLOAT)
    found = falsify(third, 1, evaluations=ENOUGH)
    assert found.violated and found.artefact and found.exact_ratio == 1
    assert "by floats alone" in str(found)


@pytest.mark.long
def test_a_real_violation_is_preferred_to_an_artefact():
    def function(values: Any) -> Any:
        found = 0.0
        for value in values:
            found += value
        return found

    wrong = claim("sum", vectors(0, 1, kind=float), SymmetricDistance(), function, Fraction(1, 2), FLOAT)
    found = falsify(wrong, 1)
    assert found.violated and not found.artefact and found.exact_ratio == 2


@pytest.mark.long
def test_members_to_build_on():
    numbers = vectors(0, 10**9)
    rare = [123_456_789] * 3  # nothing else shows the defect
    wrong = claim(
        "rare", numbers, SymmetricDistance(), lambda v: 5 * v.count(123_456_789) + min(1, len(v)), 2
    )
    assert not falsify(wrong, 1).violated
    found = falsify(wrong, 1, members=[rare])
    assert found.violated and found.ratio >= 2


@pytest.mark.long
def test_contributions_take_their_values_from_members():
    statistics = [Count(2), UnitSum("x", "x", 0, -3, 8, True, 1)]
    chain = per_group(statistics, Norm.L1, [Fraction(1), Fraction(2)], 3)
    values = {"a": [[{"x": 5}, {"x": 5}], [{"x": None}], [{"x": -9}, {"x": 0}]]}
    honest = falsify(chain, 2, members=[values], evaluations=ENOUGH // 3)
    assert not honest.violated and honest.ratio >= Fraction(99, 100)
    less = replace(chain, stability_map=Linear(chain.map(1) * Fraction(9, 10)))
    assert falsify(less, 1, members=[values], evaluations=ENOUGH // 3).violated


@pytest.mark.long
def test_integers_by_group():
    names = ("units", "x.total")
    for metric, size in ((L1Distance, 1), (L2Distance, 1)):
        scaled = metric(tuple(zip(names, (Fraction(2), Fraction(1, 3)), strict=True)))
        twice = Transformation(
            "twice", GroupedIntegers(names), GroupedIntegers(names), scaled, scaled,
            lambda groups: {g: {n: 2 * v for n, v in t.items()} for g, t in groups.items()}, Linear(Fraction(2)),
        )  # fmt: skip
        found = falsify(twice, 3 * size, evaluations=ENOUGH)
        assert not found.violated and found.ratio >= Fraction(99, 100)
        assert falsify(replace(twice, stability_map=Linear(Fraction(3, 2))), 3, evaluations=ENOUGH).violated


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
    with pytest.raises(QueryError, match="pass some"):
        falsify(wrong, 1)
    with pytest.raises(QueryError, match="pass some"):
        falsify(wrong, 1, members=[1])
    found = falsify(wrong, 1, members=[1, 3, 11], evaluations=20)
    assert found.violated and sorted(found.inputs) == [1, 3]
    with pytest.raises(QueryError, match="cannot make members"):
        falsify(claim("f", VectorDomain(Odd()), SymmetricDistance(), len, 1), 1)


@pytest.mark.parametrize(
    "arguments",
    [{"d_in": -1}, {"d_in": math.nan}, {"evaluations": 0}, {"evaluations": 1.5}, {"members": [[1], [99]]}],
)
def test_bad_input(arguments):
    honest = claim("sum", vectors(0, 10), SymmetricDistance(), total, 10)
    with pytest.raises(ParameterError):
        falsify(honest, **{"d_in": 1, **arguments})


def test_a_domain_without_members_is_said_to_be_empty():
    nothing = AtomDomain(int, Fraction(1, 4), Fraction(3, 4))
    with pytest.raises(QueryError, match="no member"):
        falsify(claim("f", nothing, ABSOLUTE, lambda x: x, 1), 1)


def looked_at(domain: Domain, metric: Metric, d_in: Any = 1) -> list[Any]:
    """What an honest function is called with, two inputs for each pair."""
    seen: list[Any] = []

    def constant(value: Any) -> int:
        seen.append(value)
        return 0

    assert not falsify(claim("constant", domain, metric, constant, 0), d_in, evaluations=2 * ENOUGH).violated
    return seen


@pytest.mark.long
def test_numbers_that_code_trips_over_are_tried():
    seen = looked_at(AtomDomain(float, nan=True, null=True), DiscreteDistance())
    bounded = looked_at(AtomDomain(float, 1, 3), ABSOLUTE)
    tried = {repr(x) for x in seen}
    powers = [2.0**31, 2.0**53, 2.0**63, 2.0**64]
    expected = [*powers, *(p + 1 for p in powers), *(p - 1 for p in powers), 0.0, -0.0, 5e-324, -5e-324]
    assert {repr(x) for x in [*expected, sys.float_info.max, math.inf, -math.inf, math.nan, None]} <= tried
    assert {1.0, math.nextafter(1.0, 2), 2.0, math.nextafter(3.0, 2), 3.0} <= set(bounded)
    whole = looked_at(AtomDomain(int), ABSOLUTE)
    assert {2**bits + more for bits in (31, 53, 63, 64) for more in (-1, 0, 1)} <= set(whole)


@pytest.mark.long
def test_shapes_of_vectors_that_code_trips_over_are_tried():
    seen = looked_at(vectors(0, 9), SymmetricDistance(), 2)
    assert {0, 1} <= {len(v) for v in seen}
    long = [v for v in seen if len(v) >= 16]
    assert any(len(set(v)) == 1 for v in long)
    assert any(len(set(v)) == 2 and v == [v[0]] * v.count(v[0]) + [v[-1]] * v.count(v[-1]) for v in long)
    assert any(len(set(v[::2])) == len(set(v[1::2])) == 1 and v[0] != v[1] for v in long)
    pairs = list(zip(seen[::2], seen[1::2], strict=True))
    assert any(one != other and sorted(one) == sorted(other) for one, other in pairs)
    # All of the room on one record or coordinate, and spread.
    spread = looked_at(VectorDomain(AtomDomain(int), 4), L1Distance(), 8)
    moved = [
        [abs(a - b) for a, b in zip(*pair, strict=True)]
        for pair in zip(spread[::2], spread[1::2], strict=True)
    ]
    assert [8, 0, 0, 0] in map(lambda m: sorted(m, reverse=True), moved) and [2, 2, 2, 2] in moved


@pytest.mark.long
def test_tables_of_privacy_units_that_code_trips_over_are_tried():
    seen = looked_at(RowsDomain(), PrivacyUnitDistance(), 2)
    assert any(row.unit is None for rows in seen for row in rows)
    for rows in seen:
        of = [row for row in rows if row.unit == rows[0].unit]
        if len({row.key for row in of}) >= 8 and len(of) >= 40:
            break
    else:
        raise AssertionError("no unit with many rows in many groups")

    def by_unit(rows: Any) -> dict[Any, Any]:
        of: dict[Any, Any] = {}
        for row in rows:
            of.setdefault(row.unit, []).append((row.key, sorted(row.values)))
        return {unit: sorted(own) for unit, own in of.items()}

    pairs = zip(map(by_unit, seen[::2]), map(by_unit, seen[1::2]), strict=True)
    changing = (
        {unit for unit, own in other.items() if unit is not None and one.get(unit, own) != own}
        for one, other in pairs
    )
    assert any(changing)


def test_half_of_the_evaluations_go_to_new_pairs_and_half_to_better_ones(monkeypatch):
    calls = {"draw": 0, "improve": 0}
    for name in calls:
        original = getattr(_Search, name)

        def counted(self, draw, name=name, original=original):
            calls[name] += 1
            return original(self, draw)

        monkeypatch.setattr(_Search, name, counted)
    falsify(claim("twice", AtomDomain(int, 0, 10), ABSOLUTE, lambda x: 2 * x, 2), 1)
    assert calls == {"draw": 2000, "improve": 2000}
    calls.update(draw=0, improve=0)
    falsify(claim("twice", AtomDomain(int, 0, 10), ABSOLUTE, lambda x: 2 * x, 1), 1)
    assert 1000 < sum(calls.values()) < 1100  # broken at once, and a quarter to make it clearer


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
    for _ in range(300):
        value = member(domain, draw)
        assert domain.contains(value)
        assert domain.contains(near(domain, value, draw))


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


@pytest.mark.long
@pytest.mark.parametrize(("domain", "metric"), SPACES, ids=str)
@pytest.mark.parametrize("room", [Fraction(0), Fraction(1), Fraction(5, 2), Fraction(6)], ids=str)
def test_pairs_lie_within_the_room_and_use_all_of_it(domain, metric, room):
    pairs, draw, reached = pairs_of(domain, metric, ()), Draw(1), []
    for _ in range(40):
        state = pairs.drawn(draw, room)
        for _ in range(3):
            one, other = pairs.built(state, room)
            assert domain.contains(one) and domain.contains(other)
            reached.append(metric.distance(one, other))
            state = pairs.changed(state, draw, room)
    assert max(reached) <= room
    if (
        getattr(domain, "size", None)
        or re.search(r"upper=(?!None)", str(domain))
        or isinstance(metric, DiscreteDistance)
    ):
        return  # not all of the room is there
    steps = isinstance(metric, (SymmetricDistance, ChangeOneDistance, PrivacyUnitDistance))
    assert max(reached) >= (math.floor(room) if steps else room * Fraction(3, 4) - 1)


@settings(derandomize=True, database=None, deadline=None, max_examples=60)
@given(slope=st.integers(-50, 50), more=st.integers(0, 3), d_in=st.fractions(0, 10))
def test_a_line_is_falsified_exactly_where_its_map_is_too_small(slope, more, d_in):
    claimed = abs(slope) - 1 + more
    line = claim("line", AtomDomain(Fraction), ABSOLUTE, lambda x: slope * x, max(claimed, 0))
    found = falsify(line, d_in, evaluations=60)
    assert found.violated is (claimed < abs(slope) and d_in > 0 and slope != 0)


def _winsorised(v):
    """A tenth at either end becomes what stands next to it."""
    v = sorted(v)
    cut = len(v) // 10
    return sum([v[cut]] * cut + v[cut : len(v) - cut] + [v[len(v) - cut - 1]] * cut) if v else 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "claimed"),
    [(lambda v: len(v) % 256, 1), (lambda v: len(v) % 2**16, 1), (_winsorised, 10)],
    ids=["counter of 8 bits", "counter of 16 bits", "winsorised sum"],
)
def test_lengths_at_which_counters_wrap_and_quantiles_move_are_tried(function, claimed):
    numbers = VectorDomain(AtomDomain(int, lower=0, upper=10))
    claim = Linear(Fraction(claimed))
    wrong = Transformation(
        "length", numbers, AtomDomain(int), SymmetricDistance(), AbsoluteDistance(), function, claim
    )
    assert falsify(wrong, 1, evaluations=4000).violated
