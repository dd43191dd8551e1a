"""Conversions between measures, against mpmath and against each other."""

import math
from fractions import Fraction as F

import mpmath as mp
import pytest

from sfumato.budget import Loss, gaussian_mu
from sfumato.budget.closed_forms import zcdp_epsilon
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.framework import ApproximateDP, GaussianDP, Measurement, PureDP, ZeroConcentratedDP
from sfumato.measurements import PrivacyLoss, convert, gaussian, laplace


def as_mp(x):
    return mp.mpf(x.numerator) / x.denominator


def cks(rho, delta, order):
    return order * rho + mp.log1p(-1 / order) + mp.log(1 / (order * delta)) / (order - 1)


def best_order(rho, delta):
    """Where the derivative (a - 1)^2 rho = ln(1 / (a delta)) vanishes, by bisection in mpmath."""
    low, high = mp.mpf(2) ** -400, mp.mpf(2) ** 600
    for _ in range(1600):
        middle = mp.sqrt(low * high)
        low, high = (middle, high) if rho * middle**2 < mp.log(1 / (delta * (1 + middle))) else (low, middle)
    return 1 + low


@pytest.mark.parametrize(
    "rho, delta",
    [("1e-40", "1e-6"), ("0.5", "1e-300"), ("3", "0.9"), ("1000", "0.999999999"), ("1e30", "1e-12")],
)
def test_zcdp_is_rounded_up_and_little(rho, delta):
    rho, delta = F(rho), F(delta)
    with mp.workprec(1500):
        r, d = as_mp(rho), as_mp(delta)
        truth = cks(r, d, best_order(r, d))
        ours = as_mp(zcdp_epsilon(rho, delta))
        assert ours >= max(truth, 0)
        assert ours <= max(truth, 0) * (1 + mp.mpf(2) ** -40) + mp.mpf(2) ** -60


def test_maps():
    assert convert(laplace(3), ApproximateDP()).map(2) == (F(2, 3), 0)
    assert convert(laplace(3), ZeroConcentratedDP()).map(2) == F(2, 9)
    assert convert(laplace(3), PrivacyLoss()).map(2) == Loss(approximate=((F(2, 3), F(0), 1),))
    assert convert(gaussian(3), ZeroConcentratedDP()).map(2) == F(2, 9)
    assert convert(gaussian(3), PrivacyLoss()).map(2) == Loss(gaussian=F(4, 9))
    twice = convert(convert(laplace(3), ApproximateDP()), PrivacyLoss())
    assert twice.map(2) == Loss(approximate=((F(2, 3), F(0), 1),))


def test_gaussian_to_approximate_is_exact():
    """The mu that buys (1, 1e-6) gives it back."""
    mu = gaussian_mu(1, "1e-6")
    epsilon, delta = convert(gaussian(1 / mu), ApproximateDP(), "1e-6").map(1)
    assert delta == F("1e-6") and abs(epsilon - 1) < F(1, 2**18)
    assert Loss(gaussian=mu**2).delta(epsilon) <= delta
    assert (
        convert(convert(gaussian(1 / mu), ZeroConcentratedDP()), ApproximateDP(), "1e-6").map(1)[0] > epsilon
    )
    same = convert(convert(gaussian(1 / mu), PrivacyLoss()), ApproximateDP(), "1e-6").map(1)
    assert same == (epsilon, delta)


def approximate(epsilon, delta):
    base = laplace(1)
    return Measurement(
        "leaky",
        base.input_domain,
        base.input_metric,
        ApproximateDP(),
        base.function,
        lambda d: (F(epsilon) * d, F(delta) * d),
    )


def test_approximate_losses_compose_as_privacy_losses():
    made = convert(approximate("0.5", "1e-6"), PrivacyLoss())
    assert made.map(1) == Loss(approximate=((F(1, 2), F("1e-6"), 1),))
    assert made.map(0) == Loss()
    assert convert(approximate(0, "0.25"), PrivacyLoss()).map(1) == Loss(additive_delta=F(1, 4))
    assert convert(approximate(1, 2), PrivacyLoss()).map(1).delta(1) == 1
    assert sum([made.map(1)] * 4, Loss()).delta(2) <= F("4e-6")


@pytest.mark.parametrize("delta", [0, 1, math.nan, "x"])
def test_bad_delta(delta):
    with pytest.raises(BudgetError, match="delta"):
        convert(gaussian(1), ApproximateDP(), delta)


def test_delta_is_given_exactly_where_it_is_needed():
    with pytest.raises(ParameterError, match="delta is None"):
        convert(gaussian(1), ApproximateDP())
    with pytest.raises(ParameterError, match="left out: PureDP to ZeroConcentratedDP needs none"):
        convert(laplace(1), ZeroConcentratedDP(), "1e-6")


@pytest.mark.parametrize(
    "made, measure",
    [(laplace(1), GaussianDP()), (laplace(1), PureDP()), (gaussian(1), PureDP()),
     (convert(gaussian(1), ZeroConcentratedDP()), PrivacyLoss()), (convert(laplace(1), PrivacyLoss()), PureDP())],
)  # fmt: skip
def test_what_is_not_converted_is_refused(made, measure):
    with pytest.raises(QueryError, match="Use one of PureDP to ApproximateDP"):
        convert(made, measure)


def test_a_loss_that_delta_does_not_reach_is_refused():
    leaky = convert(convert(approximate("0.5", "0.1"), PrivacyLoss()), ApproximateDP(), "1e-6")
    with pytest.raises(BudgetError, match="delta"):
        leaky.map(1)
