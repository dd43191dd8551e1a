"""What maps claim: exact, at least 0, never falling, where they are made and wherever they are used."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction as F

import numpy as np
import pytest

from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.framework import (
    AbsoluteDistance,
    ApproximateDP,
    AtomDomain,
    GaussianDP,
    Linear,
    Measure,
    Measurement,
    Odometer,
    PureDP,
    Transformation,
    ZeroConcentratedDP,
    compose,
    postprocess,
    product,
)
from sfumato.measurements import PrivacyLoss, convert, laplace


def claims(measure, privacy_map):
    """A measurement with a map of one's own, which draws nothing."""
    return Measurement("claims", AtomDomain(int), AbsoluteDistance(), measure, lambda x: 0, privacy_map)


ZERO = F(0)
INADMISSIBLE = [
    (PureDP(), lambda d: -d),
    (PureDP(), lambda d: -d / 2),
    (PureDP(), lambda d: math.nan),
    (PureDP(), lambda d: math.inf),
    (PureDP(), float),
    (PureDP(), np.float64),
    (PureDP(), lambda d: Decimal(int(d))),
    (PureDP(), lambda d: True),
    (PureDP(), lambda d: None),
    (PureDP(), lambda d: "1"),
    (PureDP(), lambda d: (d, d)),
    (PureDP(), lambda d: max(ZERO, 2 - d)),
    (PureDP(), lambda d: F(1) if d < 2 else F(1, 2)),
    (ZeroConcentratedDP(), lambda d: -d),
    (ZeroConcentratedDP(), lambda d: 0.5),
    (GaussianDP(), lambda d: -d),
    (GaussianDP(), lambda d: math.nan),
    (ApproximateDP(), lambda d: (d, F(-1, 10))),
    (ApproximateDP(), lambda d: (F(-1, 10), d)),
    (ApproximateDP(), lambda d: (d, 1e-6)),
    (ApproximateDP(), lambda d: (d, math.nan)),
    (ApproximateDP(), lambda d: (d, F(1, 10) * (2 - d) if d <= 2 else ZERO)),
    (ApproximateDP(), lambda d: d),
    (ApproximateDP(), lambda d: (d, d, d)),
    (ApproximateDP(), Linear(F(1))),
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
    space = AtomDomain(int), AtomDomain(int), AbsoluteDistance(), AbsoluteDistance()
    twice = Transformation("twice", *space, lambda x: 2 * x, Linear(F(2)))
    users = [made.map, compose([made, made]).map, postprocess(made, str).map, (twice >> made).map]
    if type(measure) is PureDP:
        users.append(convert(made, ApproximateDP()).map)
    if measure != PrivacyLoss():
        odometer = Odometer(
            1, AtomDomain(int), AbsoluteDistance(), measure, (9, "0.1") if isinstance(nothing, tuple) else 9
        )
        users.append(lambda d: odometer.ask(made))
    turned.append(True)
    for use in users:
        with pytest.raises(BudgetError, match="privacy_map"):
            for d in (F(1, 2), 1, 2, 3):
                use(d)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda d: -d,
        float,
        lambda d: math.nan,
        lambda d: None,
        lambda d: max(ZERO, 2 - d),
        lambda d: "1",
    ],
)
def test_a_stability_map_is_held_to_the_same(wrong):
    def made(stability_map):
        space = AtomDomain(int), AtomDomain(int), AbsoluteDistance(), AbsoluteDistance()
        return Transformation("claims", *space, lambda x: x, stability_map)

    with pytest.raises(QueryError, match="claims: stability_map"):
        made(wrong)
    turned = []
    chain = made(lambda d: wrong(d) if turned else d)
    users = [
        chain.map,
        (chain >> laplace(1)).map,
        (chain >> made(Linear(F(2)))).map,
        product([chain, chain]).map,
    ]
    turned.append(True)
    for use in users:
        with pytest.raises(QueryError, match="stability_map"):
            for d in (1, 2):
                use(d)


def test_maps_that_are_admissible_stay_as_they_are():
    whole = claims(PureDP(), lambda d: 2)
    assert whole.map(1) == F(2) and type(whole.map(1)) is F
    pair = claims(ApproximateDP(), lambda d: (int(d), F(1, 10)))
    assert pair.map(3) == (F(3), F(1, 10)) and compose([pair, pair]).map(1) == (F(2), F(1, 5))

    def one_unit(d):
        if d > 1:
            raise ParameterError("d_in", d, "at most 1")
        return d

    with pytest.raises(ParameterError, match="at most 1"):
        claims(PureDP(), one_unit).map(2)
    assert claims(PureDP(), one_unit).map(1) == 1


def test_a_measure_of_ones_own_admits_its_own_losses():
    class Curve:
        """A loss of somebody's own."""

    class Renyi(Measure):
        def total(self, losses):
            return Curve()

        def within(self, loss, budget):
            return True

    assert isinstance(compose([claims(Renyi(), lambda d: Curve())]).map(1), Curve)
    for wrong in (math.nan, -1, 0.5, (F(1), 0.5), None):
        with pytest.raises(BudgetError, match="privacy_map"):
            claims(Renyi(), lambda d, wrong=wrong: wrong)
