"""The core: maps, chains and distances, held to their claims, and what maps may not give."""

import math
from fractions import Fraction
from math import inf, nan

import pytest

from sfumato import framework as fw
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.measurements import PrivacyLoss, convert, gaussian, laplace
from sfumato.transformations import Count, CountUnits, Norm, Row, bound_groups, per_group

UNITS = fw.GroupedIntegers(("units",))


def test_a_chain_adds_up_exactly():
    statistics, scales = [CountUnits(), Count(4)], [Fraction(1, 3), Fraction(8)]
    for groups in (1, 2, 7):
        one = bound_groups(groups) >> per_group(statistics, Norm.L1, scales, groups)
        assert one.map(1) == groups * (3 + Fraction(1, 2))
        two = bound_groups(groups) >> per_group(statistics, Norm.L2, scales, groups)
        exact = groups * (9 + Fraction(1, 4))
        assert exact <= two.map(1) ** 2 <= exact * (1 + Fraction(1, 2**120))
        assert (one >> laplace(scales, fw.GroupedIntegers(("units", "rows")), keys=["a"])).map(1) == one.map(
            1
        )
        assert (two >> gaussian(scales, fw.GroupedIntegers(("units", "rows")), keys=["a"])).map(1) == two.map(
            1
        )
    assert (
        one >> laplace(scales, fw.GroupedIntegers(("units", "rows")), keys=["a"])
    ).output_measure == fw.PureDP()
    assert (
        two >> gaussian(scales, fw.GroupedIntegers(("units", "rows")), keys=["a"])
    ).output_measure == fw.GaussianDP()


def test_spaces_must_meet():
    scales = [Fraction(1)]
    counted = bound_groups(2) >> per_group([CountUnits()], Norm.L1, scales, 2)
    mismatches = [
        lambda: bound_groups(2) >> per_group([CountUnits()], Norm.L1, scales, 3),  # another limit of groups
        lambda: counted >> gaussian(scales, UNITS, keys=["a"]),  # another norm
        lambda: counted >> laplace(scales, fw.GroupedIntegers(("rows",)), keys=["a"]),  # another coordinate
        lambda: counted >> laplace([Fraction(2)], UNITS, keys=["a"]),  # another scale
        lambda: counted >> bound_groups(2),
        lambda: per_group([CountUnits()], Norm.L1, scales, 2) >> bound_groups(2),
    ]
    for chain in mismatches:
        with pytest.raises(QueryError, match="cannot chain .* after"):
            chain()
    for wider in (
        fw.AtomDomain(int),
        fw.AtomDomain(int, 0),
        fw.AtomDomain(int, -1, 9),
        fw.AtomDomain(int, 0, 9, null=True),
    ):
        assert not fw.AtomDomain(int, 0, 9).includes(wider) and wider.includes(fw.AtomDomain(int, 0, 9))


@pytest.mark.parametrize("value", [-1, nan, inf, "x", True])
def test_a_distance_is_a_finite_number_of_at_least_zero(value):
    for item in (bound_groups(1), laplace([Fraction(1)], UNITS, keys=["a"])):
        with pytest.raises(ParameterError):
            item.map(value)


def test_a_linear_claim_is_exact_also_where_a_float_is_given():
    assert type(fw.Linear(0.1)(Fraction(1))) is Fraction and fw.Linear(0.1)(Fraction(1)) == Fraction(0.1)
    for wrong in (-1, float("nan"), float("inf"), "many"):
        with pytest.raises(ParameterError, match="constant"):
            fw.Linear(wrong)


def test_distances_between_tables_of_units():
    metric, one = fw.PrivacyUnitDistance(), [Row(1, "a", {"x": 1}), Row(1, "b", {"x": 2})]
    changed = [Row(1, "a", {"x": 5}), Row(1, "b", {"x": 2})]
    assert metric.distance(one, []) == metric.distance(one, [*one, Row(2, "a", {})]) == 1
    assert metric.distance(one, changed) == 2 == metric.distance(one, [Row(2, "a", {}), Row(3, "a", {})]) - 1
    # Of limited tables, as many units as explain what is in all groups.
    limited = fw.PrivacyUnitDistance(2)
    assert limited.distance({"a": [[{}]], "b": [[{}]]}, {}) == 1
    assert (
        limited.distance({key: [[{}]] for key in "abc"}, {}) == limited.distance({"a": [[{}], [{}]]}, {}) == 2
    )
    lengths = fw.L2Distance((("n", Fraction(2)),))
    assert lengths.distance({"a": {"n": 6}, "b": {"n": 8}}, {}) == 5


# What maps claim: exact, at least 0, never falling, where they are made and wherever they are used.


def claims(measure, privacy_map):
    """A measurement with a map of one's own, which draws nothing."""
    return fw.Measurement(
        "claims", fw.AtomDomain(int), fw.AbsoluteDistance(), measure, lambda x: 0, privacy_map
    )


ZERO = Fraction(0)

INADMISSIBLE = [
    (fw.PureDP(), lambda d: -d),
    (fw.PureDP(), lambda d: math.nan),
    (fw.PureDP(), lambda d: math.inf),
    (fw.PureDP(), float),
    (fw.PureDP(), lambda d: True),
    (fw.PureDP(), lambda d: None),
    (fw.PureDP(), lambda d: (d, d)),
    (fw.PureDP(), lambda d: max(ZERO, 2 - d)),
    (fw.PureDP(), lambda d: Fraction(1) if d < 2 else Fraction(1, 2)),
    (fw.ZeroConcentratedDP(), lambda d: 0.5),
    (fw.GaussianDP(), lambda d: math.nan),
    (fw.ApproximateDP(), lambda d: (d, Fraction(-1, 10))),
    (fw.ApproximateDP(), lambda d: (d, 1e-6)),
    (fw.ApproximateDP(), lambda d: (d, math.nan)),
    (fw.ApproximateDP(), lambda d: (d, Fraction(1, 10) * (2 - d) if d <= 2 else ZERO)),
    (fw.ApproximateDP(), lambda d: d),
    (PrivacyLoss(), lambda d: d),
    (PrivacyLoss(), lambda d: (d, ZERO)),
]


@pytest.mark.parametrize("measure, wrong", INADMISSIBLE)
def test_what_a_map_may_not_give_is_refused_where_it_is_made_and_where_it_is_used(measure, wrong):
    with pytest.raises(BudgetError, match="claims: privacy_map"):
        claims(measure, wrong)
    # A map that turns wrong later is refused by whatever uses it.
    turned = []
    nothing = measure.total([])

    def later(d):
        return wrong(d) if turned else nothing

    made = claims(measure, later)
    space = fw.AtomDomain(int), fw.AtomDomain(int), fw.AbsoluteDistance(), fw.AbsoluteDistance()
    twice = fw.Transformation("twice", *space, lambda x: 2 * x, fw.Linear(Fraction(2)))
    users = [made.map, fw.compose([made, made]).map, fw.postprocess(made, str).map, (twice >> made).map]
    if type(measure) is fw.PureDP:
        users.append(convert(made, fw.ApproximateDP()).map)
    if measure != PrivacyLoss():
        odometer = fw.Odometer(
            1,
            fw.AtomDomain(int),
            fw.AbsoluteDistance(),
            measure,
            (9, "0.1") if isinstance(nothing, tuple) else 9,
        )
        users.append(lambda d: odometer.ask(made))
    turned.append(True)
    for use in users:
        with pytest.raises(BudgetError, match="privacy_map"):
            for d in (Fraction(1, 2), 1, 2, 3):
                use(d)


def test_maps_that_are_admissible_stay_as_they_are():
    whole = claims(fw.PureDP(), lambda d: 2)
    assert whole.map(1) == Fraction(2) and type(whole.map(1)) is Fraction
    pair = claims(fw.ApproximateDP(), lambda d: (int(d), Fraction(1, 10)))
    assert pair.map(3) == (Fraction(3), Fraction(1, 10)) and fw.compose([pair, pair]).map(1) == (
        Fraction(2),
        Fraction(1, 5),
    )
