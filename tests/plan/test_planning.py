"""Plans that are remembered, what several of them claim, and what an explanation says of a unit."""

import gc
import weakref
from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget import Loss
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.budget.loss import certify_loss
from sfumato.errors import RefusalError
from sfumato.plan import planning
from sfumato.plan.plan import Claim, describe


def planned(keys=None, unit="id", **options):
    rows = pa.table({"id": [1], "name": ["a"], "k": [1], "x": [1.0]})
    table = sf.scan(rows, privacy_unit=unit).filter(options.pop("where", "k > 0")).group_by("k", keys=keys)
    asked = table.bound(groups=options.pop("groups", 2), rows=1).agg(
        n=sf.count(), m=sf.mean("x", lower=0, upper=options.pop("upper", 2))
    )
    return asked.plan(**({"epsilon": 1, "delta": 1e-6} | options))


def test_a_question_that_is_asked_again_has_the_same_plan():
    one, other = planned(), planned()
    assert planning._choose_plan.cache_info().hits == 1 and one == other
    # And one that is changed changes no other.
    one.scales.clear()
    one.laws.clear()
    assert planned() == other and other.scales and other.laws


@pytest.mark.parametrize(
    "other",
    [
        {"unit": "name"}, {"where": "k > 1"}, {"groups": 1}, {"upper": 3}, {"epsilon": 2}, {"delta": 1e-7},
        {"noise": "gaussian"}, {"group_selection": "laplace"}, {"pre_threshold": 2}, {"keys": [1, 2]},
    ],
    ids=str,
)  # fmt: skip
def test_what_differs_is_planned_anew(other):
    planned()
    found = planned(**other)
    assert planning._choose_plan.cache_info().hits == 0
    planning._choose_plan.cache_clear()
    assert found == planned(**other)


def test_a_remembered_plan_has_the_groups_that_are_asked_for():
    """Of public groups only their number decides; which they are is the question's own."""
    for keys in ([1, 2], [3, 4]):
        for noise in ("laplace", "k_norm"):
            plan = planned(keys=keys, noise=noise)
            assert plan.query.public_groups == tuple((key,) for key in keys)
            assert plan.exact.public_keys.column("k").to_pylist() == keys
    assert planning._choose_plan.cache_info().hits == 2


@pytest.mark.parametrize("noise", ["auto", "k_norm"])
def test_of_a_question_no_values_are_remembered(noise):
    """Which groups there are, or the labels that a type declares, may be large."""
    plan = planned(keys=[1, 2], noise=noise)
    held = weakref.ref(plan.query.public_keys)
    remembered = plan.query.kind
    assert remembered.public_groups == ((None,), (None,))
    assert remembered.public_keys.nbytes == 0
    del plan
    gc.collect()
    assert held() is None


# What is claimed for several parts, and paid for them, is at least what is proved of all.

ROWS = pa.table({"id": [1, 1, 2], "x": [1.0, 2.0, 3.0]})


def claimed(epsilon, **options):
    asked = sf.scan(ROWS, privacy_unit="id").bound(rows=2).agg(n=sf.count(), s=sf.sum("x", lower=0, upper=9))
    return asked.plan(epsilon=epsilon, noise=options.pop("noise", "laplace"), **options)


def test_parts_that_are_drawn_one_after_another_are_within_their_claim_together():
    half = claimed("1/2")
    claim = Claim(ExactCost(Fraction(1), Fraction(0)), [half])
    claim.take([half])
    claim.take([half])
    with pytest.raises(RefusalError, match="together"):
        claim.take([half])
    with pytest.raises(RefusalError):
        Claim(ExactCost(Fraction(1, 3), Fraction(0)), [half]).take([half])


@pytest.mark.parametrize(
    ("options", "less", "what"),
    [
        ({}, Loss(approximate=((Fraction(1, 2), Fraction(0), 2), (Fraction(1, 3), Fraction(0), 1))), None),
        ({}, Loss(laplace=((Fraction(1, 3), 2),)), "a pure epsilon"),
        ({"noise": "gaussian", "delta": "1e-6"}, Loss(gaussian=Fraction(1, 1000)), "a squared mu"),
    ],
)
def test_less_than_is_proved_is_not_paid(options, less, what):
    described = describe([claimed(1, **options)])
    if what is None:
        assert certify_loss(described, less).epsilon <= 1
        return
    with pytest.raises(RefusalError, match=what):
        certify_loss(described, less)
