"""What is claimed for several parts, and paid for them, is at least what is proved of all."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget import Loss
from sfumato.budget.certified_loss import proved
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.errors import RefusalError
from sfumato.plan.plan_description import Claim, certified, describe
from tests.support.changed_plans import scaled

pytestmark = pytest.mark.noise_cannot_matter("plans are made, and nothing is drawn")

ROWS = pa.table({"id": [1, 1, 2], "x": [1.0, 2.0, 3.0]})


def plan(epsilon, **options):
    asked = sf.scan(ROWS, privacy_unit="id").bound(rows=2).agg(n=sf.count(), s=sf.sum("x", lower=0, upper=9))
    return asked.plan(epsilon=epsilon, noise=options.pop("noise", "laplace"), **options)


def test_parts_that_are_drawn_one_after_another_are_within_their_claim_together():
    half = plan("1/2")
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
    described = describe([plan(1, **options)])
    if what is None:
        assert proved(described, less).epsilon <= 1
        return
    with pytest.raises(RefusalError, match=what):
        proved(described, less)


def test_each_of_several_plans_has_a_certificate_of_its_own():
    one, other = plan(1), plan(1)
    assert certified([one, other]).epsilon == 2
    with pytest.raises(RefusalError):
        certified([plan(2), scaled(one, Fraction(1, 2))])
