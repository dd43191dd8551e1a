"""Group selection as a measurement: chained, one unit, and an order that tells nothing."""

from __future__ import annotations

import math
from fractions import Fraction as F

import numpy as np
import pytest

from sfumato.budget import Loss
from sfumato.errors import ParameterError, QueryError
from sfumato.framework import ContributionDomain, PrivacyUnitDistance, compose
from sfumato.measurements import (
    GaussianThreshold,
    LaplaceThreshold,
    PrivacyLoss,
    TruncatedGeometric,
    convert,
    gaussian,
    select_groups,
)
from sfumato.noise import Gaussian, Laplace
from sfumato.transformations import CountUnits, Norm, Row, bound_groups, per_group

RULES = [
    TruncatedGeometric(1, "1e-20"),
    LaplaceThreshold(Laplace(1), "1e-20"),
    GaussianThreshold(Gaussian(1), "1e-20"),
]
of_rules = pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)


def contributions(**units):
    return {key: [[{}] for _ in range(n)] for key, n in units.items()}


@pytest.mark.flakiness(k=16, because="noise of scale 1 against 39, twice; one lone unit at 1e-20")
@of_rules
def test_large_groups_are_kept_and_lone_units_are_not(rule):
    chosen = select_groups(rule, 2)(contributions(often=1000, once=1, empty=0, also=500))
    assert list(chosen) == ["also", "often"]
    for key, n in (("also", 500), ("often", 1000)):
        assert chosen[key] is None if isinstance(rule, TruncatedGeometric) else abs(chosen[key] - n) < 40
    assert select_groups(rule, 2)({}) == {}


@pytest.mark.flakiness(k=100, because="noise of scale 1 against 10^4 units")
@of_rules
def test_the_order_of_rows_does_not_show(rule):
    keys = ["b", 3, "a", None, (1, "x"), 2, "c", b"c"]
    here = {key: [[{}]] * 10**4 for key in keys}
    there = {key: [[{}]] * 10**4 for key in reversed(keys)}
    assert list(select_groups(rule, 1)(here)) == list(select_groups(rule, 1)(there))
    assert set(select_groups(rule, 1)(here)) == set(keys)


@pytest.mark.flakiness(k=16, because="Hoeffding's bound, which the test computes")
@of_rules
def test_the_decision_is_the_rules_own(rule):
    """Shares of kept groups at each number of units, against the rule's law; one unit more is found."""
    n, near = 20_000, rule.expected_threshold
    table = {i: [[{}]] * near for i in range(n)}
    share = len(select_groups(rule, 1)(table)) / n
    allowed = math.sqrt(math.log(2 / 1e-16) / (2 * n))
    if isinstance(rule, TruncatedGeometric):
        exact, next_one = float(rule.probability(near)), float(rule.probability(near + 1))
    else:
        exact, next_one = (rule.law.rounded_sf(rule.tau - near - 1 - more) for more in (0, 1))
    assert abs(share - exact) < allowed < abs(next_one - exact) - allowed


@of_rules
def test_the_claim(rule):
    chosen = select_groups(rule, 3)
    assert chosen.map(1) == rule.loss(3) and chosen.map(0) == Loss() and chosen.map(F(1, 2)) == Loss()
    assert chosen.input_domain == ContributionDomain(3) and chosen.input_metric == PrivacyUnitDistance(3)
    assert chosen.output_measure == PrivacyLoss()
    for d_in in (2, F(3, 2), 10):
        with pytest.raises(
            ParameterError, match="d_in .* at most 1: the loss of a selection is stated for one"
        ):
            chosen.map(d_in)


@pytest.mark.flakiness(k=19, because="one lone unit at 1e-20; noise of scale 1 against 300 units")
@of_rules
def test_it_chains_after_bounding_and_beside_counts(rule):
    counts = per_group([CountUnits()], Norm.L2, [F(4)], 2) >> gaussian(
        [4], per_group([CountUnits()], Norm.L2, [F(4)], 2).output_domain, keys="abc"
    )
    both = bound_groups(2) >> compose([select_groups(rule, 2), convert(counts, PrivacyLoss())])
    rows = [Row(unit, key, {}) for unit in range(300) for key in "ab"] + [Row(0, "c", {})]
    kept, noisy = both(rows)
    assert list(kept) == ["a", "b"] and set(noisy) <= {"a", "b", "c"}
    assert both.map(1).delta(50) < F("2e-20") * (1 + F(1, 100))
    assert both.map(1).gaussian >= F(1, 8)
    with pytest.raises(QueryError, match="cannot chain"):
        bound_groups(3) >> select_groups(rule, 2)


@pytest.mark.flakiness(k=19, because="one lone unit at 1e-20; noise of scale 1 against 10^4 units")
@of_rules
def test_the_number_of_units_counts_not_the_rows(rule):
    many_rows = {"one": [[{}] * 10**5], "many": [[{}]] * 10**4}
    assert list(select_groups(rule, 1)(many_rows)) == ["many"]


@pytest.mark.parametrize("groups", [0, -1, 1.5, None, True])
def test_bad_groups(groups):
    with pytest.raises(ParameterError, match="groups"):
        select_groups(RULES[0], groups)


@pytest.mark.parametrize("rule", [None, 1, Laplace(1), "laplace"])
def test_bad_rules(rule):
    with pytest.raises(ParameterError, match="rule .*TruncatedGeometric"):
        select_groups(rule, 1)


def hockey_stick(one, other, epsilon):
    return sum(max(0.0, p - math.exp(epsilon) * other.get(k, 0.0)) for k, p in one.items())


def test_groups_that_go_up_and_down_at_once_are_within_the_loss():
    """What the distance admits and no unit does: a lone group that comes, another that goes, one that moves."""
    rule = LaplaceThreshold(Laplace(2), "1e-2")
    tails = {
        n: {m: float(rule.law.rounded_pmf(m - n)) for m in range(-40, 80) if m >= rule.tau} for n in (1, 4, 5)
    }
    for shown in tails.values():
        shown["none"] = 1.0 - sum(shown.values())
    nothing = {"none": 1.0}

    def joint(*parts):
        found = {(): 1.0}
        for part in parts:
            found = {(*k, m): p * q for k, p in found.items() for m, q in part.items()}
        return found

    before, after = joint(tails[1], nothing, tails[5]), joint(nothing, tails[1], tails[4])
    claimed = float(select_groups(rule, 3).map(1).delta("0.5"))
    for pair in ((before, after), (after, before)):
        assert 0.9 * float(rule.delta_per_group) / 10 < hockey_stick(*pair, 0.5) <= claimed
    assert np.isclose(sum(before.values()), 1)
