"""The core: maps, chains, and bounding as a transformation, held to their claims."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from itertools import product
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError, QueryError, SfumatoError
from sfumato.exact import root_up
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    ContributionDomain,
    GaussianDP,
    GroupedIntegers,
    L1Distance,
    L2Distance,
    Linear,
    PrivacyUnitDistance,
    PureDP,
    Transformation,
)
from sfumato.measurements import gaussian, laplace
from sfumato.transformations import Count, CountUnits, Norm, Row, UnitSum, bound_groups, per_group

steady = settings(derandomize=True, database=None, deadline=None, max_examples=200)
units = st.sampled_from([None, 1, 2, 3, "1"])
UNITS = GroupedIntegers(("units",))
rows = st.lists(
    st.builds(Row, units, st.sampled_from("abcd"), st.fixed_dictionaries({"x": st.integers(-9, 9)})),
    max_size=25,
)


@steady
@given(rows=rows, groups=st.integers(1, 5), salt=st.integers(0, 5))
def test_bounding_keeps_what_it_may_and_no_more(rows, groups, salt):
    def order(unit, key):
        return hash((unit, key, salt)), key

    kept = bound_groups(groups, order)(rows)
    given_groups, kept_groups = {}, {}
    for row in rows:
        if row.unit is not None:
            given_groups.setdefault(row.unit, set()).add(row.key)
    for unit, keys in given_groups.items():
        for key in keys:
            mine = [r.values for r in rows if r.unit == unit and r.key == key]
            if mine in kept.get(key, []):
                kept_groups.setdefault(unit, set()).add(key)
    assert sum(map(len, kept.values())) == sum(min(groups, len(keys)) for keys in given_groups.values())
    assert all(len(keys) >= min(groups, len(given_groups[u])) for u, keys in kept_groups.items())


@pytest.mark.long
@steady
@given(rows=rows, added=rows, groups=st.integers(1, 3))
def test_a_unit_changes_others_in_nothing_and_the_sum_by_its_own_part(rows, added, groups):
    """The falsifier: the stability claim of the whole chain, on random neighbours, in both norms."""
    stranger = [Row("new", r.key, r.values) for r in added]
    statistics = [CountUnits(), Count(2), UnitSum("x", "x", 0, -3, 8, True, 1)]
    scales = [Fraction(1), Fraction(3, 2), Fraction(7)]

    def order(unit, key):
        return hash((unit, key)), key

    bounding = bound_groups(groups, order)
    one, other = bounding(rows), bounding([*stranger, *rows])
    moved = [k for k in {*one, *other} if one.get(k) != other.get(k)]
    assert len(moved) <= groups
    for norm in Norm:
        chain = bounding >> per_group(statistics, norm, scales, groups)
        before, after = chain(rows), chain([*rows, *stranger])
        names = chain.output_domain.coordinates
        parts = [
            abs(Fraction(after.get(k, {}).get(n, 0) - before.get(k, {}).get(n, 0)) / s)
            for k in {*before, *after}
            for n, s in zip(names, scales, strict=True)
        ]
        distance = sum(parts) if norm is Norm.L1 else sum(p * p for p in parts)
        reach = chain.map(1)
        assert distance <= (reach if norm is Norm.L1 else reach**2)
        assert chain.map(3) == 3 * reach and chain.map(0) == 0


def test_the_falsifier_rejects_a_chain_that_claims_too_little():
    honest = per_group([Count(3)], Norm.L1, [Fraction(1)], 2)
    liar = Transformation(
        honest.name, honest.input_domain, honest.output_domain, honest.input_metric, honest.output_metric,
        honest.function, lambda d_in: d_in * 3,
    )  # fmt: skip
    stranger = [Row("new", key, {}) for key in "ab" for _ in range(3)]
    for chain, holds in ((bound_groups(2) >> honest, True), (bound_groups(2) >> liar, False)):
        moved = sum(sum(total.values()) for total in chain(stranger).values())
        assert (moved <= chain.map(1)) is holds


def test_a_chain_adds_up_exactly():
    statistics, scales = [CountUnits(), Count(4)], [Fraction(1, 3), Fraction(8)]
    for groups in (1, 2, 7):
        one = bound_groups(groups) >> per_group(statistics, Norm.L1, scales, groups)
        assert one.map(1) == groups * (3 + Fraction(1, 2))
        two = bound_groups(groups) >> per_group(statistics, Norm.L2, scales, groups)
        exact = groups * (9 + Fraction(1, 4))
        assert exact <= two.map(1) ** 2 <= exact * (1 + Fraction(1, 2**120))
        assert (one >> laplace(scales, GroupedIntegers(("units", "rows")), keys=["a"])).map(1) == one.map(1)
        assert (two >> gaussian(scales, GroupedIntegers(("units", "rows")), keys=["a"])).map(1) == two.map(1)
    assert (one >> laplace(scales, GroupedIntegers(("units", "rows")), keys=["a"])).output_measure == PureDP()
    assert (
        two >> gaussian(scales, GroupedIntegers(("units", "rows")), keys=["a"])
    ).output_measure == GaussianDP()


@pytest.mark.parametrize(
    "size",
    [Fraction(2), Fraction(1, 3), Fraction(9, 4), Fraction(2**900 + 1), Fraction(3, 2**901), Fraction(0)],
)
def test_roots_round_up_and_by_little(size):
    root = root_up(size)
    assert size <= root**2 <= size * (1 + Fraction(1, 2**120))


def test_spaces_must_meet():
    scales = [Fraction(1)]
    counted = bound_groups(2) >> per_group([CountUnits()], Norm.L1, scales, 2)
    mismatches = [
        lambda: bound_groups(2) >> per_group([CountUnits()], Norm.L1, scales, 3),  # another limit of groups
        lambda: counted >> gaussian(scales, UNITS, keys=["a"]),  # another norm
        lambda: counted >> laplace(scales, GroupedIntegers(("rows",)), keys=["a"]),  # another coordinate
        lambda: counted >> laplace([Fraction(2)], UNITS, keys=["a"]),  # another scale
        lambda: counted >> bound_groups(2),
        lambda: per_group([CountUnits()], Norm.L1, scales, 2) >> bound_groups(2),
    ]
    for chain in mismatches:
        with pytest.raises(QueryError, match="cannot chain .* after"):
            chain()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (0, "input_domain is 1, but must be a domain, such as AtomDomain"),
        (1, "output_domain is 1"),
        (2, "input_metric is 1, but must be a metric, such as SymmetricDistance"),
        (3, "output_metric is 1"),
    ],
)
def test_spaces_are_domains_and_metrics(place, words):
    spaces = [AtomDomain(int), AtomDomain(int), AbsoluteDistance(), AbsoluteDistance()]
    Transformation("same", *spaces, lambda x: x, Linear(Fraction(1)))
    spaces[place] = 1
    with pytest.raises(ParameterError, match=f"same: {words}"):
        Transformation("same", *spaces, lambda x: x, Linear(Fraction(1)))


@pytest.mark.parametrize("value", [-1, nan, inf, "x", None, True, Fraction(-1, 10**9)])
def test_a_distance_is_a_finite_number_of_at_least_zero(value):
    for item in (bound_groups(1), laplace([Fraction(1)], UNITS, keys=["a"])):
        with pytest.raises(ParameterError):
            item.map(value)


@pytest.mark.parametrize("value", [0, -1, 1.0, 1.5, "2", None, True, nan])
def test_a_limit_of_groups_is_a_whole_number(value):
    with pytest.raises(ParameterError, match="groups"):
        bound_groups(value)


@pytest.mark.parametrize("scales", [[], [Fraction(0)], [Fraction(-1)], [Fraction(1), Fraction(1)]])
def test_noise_needs_a_positive_scale_for_each_coordinate(scales):
    for make in (laplace, gaussian):
        with pytest.raises(SfumatoError):
            make(scales, UNITS, keys=["a"])


@pytest.mark.flakiness(k=13, because="two of 28 pairs of draws of scale 2^50 are equal below 2e-14")
def test_noise_is_fresh_and_exactly_added():
    for make in (laplace, gaussian):
        noisy = make([Fraction(2**50)], UNITS, keys=["a"])
        draws = {noisy({"a": {"units": 5}})["a"]["units"] for _ in range(8)}
        assert len(draws) == 8
        exact = make([Fraction(1, 2**20)] * 2, GroupedIntegers(("units", "rows")), keys=["a", "b"])(
            {"a": {"units": 2**70}, "b": {}}
        )
        assert exact == {"a": {"units": 2**70, "rows": 0}, "b": {"units": 0, "rows": 0}}


def test_equal_spaces_are_equal_and_others_are_not():
    spaces = [ContributionDomain(1), ContributionDomain(2), PrivacyUnitDistance(1), GroupedIntegers(("a",)),
              GroupedIntegers(("b",)), L1Distance((("a", Fraction(1)),)), L2Distance((("a", Fraction(1)),)), L1Distance((("a", Fraction(2)),))]  # fmt: skip
    for (i, one), (j, other) in product(enumerate(spaces), repeat=2):
        assert (one == other) is (i == j)


SOME = [[{"x": x}] * n for x in (0, 1, nan) for n in (1, 2)]
drawn = st.dictionaries(st.sampled_from("ab"), st.lists(st.sampled_from(SOME), max_size=6), max_size=2)


@steady
@given(one=drawn, other=drawn)
def test_what_is_the_same_object_in_both_moves_nothing(one, other):
    """It is left out unseen; of copies each is looked at, and the distance is the same."""
    metric = PrivacyUnitDistance(2)
    assert metric.distance(one, deepcopy(one)) == 0
    assert metric.distance(one, other) == metric.distance(deepcopy(one), deepcopy(other))
    changed = one | {"a": [*one.get("a", []), SOME[0]]}
    assert metric.distance(one, changed) == metric.distance(changed, one) == 1


def test_a_linear_claim_is_exact_also_where_a_float_is_given():
    assert type(Linear(0.1)(Fraction(1))) is Fraction and Linear(0.1)(Fraction(1)) == Fraction(0.1)
    for wrong in (-1, float("nan"), float("inf"), "many"):
        with pytest.raises(ParameterError, match="constant"):
            Linear(wrong)


def test_what_is_printed_is_named_and_not_functions_of_python():
    for shown in (repr(bound_groups(groups=3)), repr(laplace(4))):
        assert shown.startswith("<") and "function" not in shown and "lambda" not in shown
