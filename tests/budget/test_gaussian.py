"""The closed form against mpmath at hundreds of digits: never below the truth, and hardly above."""

import itertools
from fractions import Fraction as F

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.budget import Loss, gaussian_mu, gaussian_sigma
from sfumato.budget.closed_forms import SMALLEST, gaussian_delta
from sfumato.exact import as_written

EPSILONS = ["1e-9", "0.1", "1", "708", "10000"]
DELTAS = ["1e-300", "1e-12", "1e-6", "0.5", "0.999"]


def real(x):
    return mp.mpf(x.numerator) / x.denominator


def truth(epsilon, mu_squared, digits=120):
    with mp.workdps(digits):
        e, mu = real(epsilon), mp.sqrt(real(mu_squared))
        # Phi by erfc: relative accuracy in both tails
        return (
            mp.erfc((e / mu - mu / 2) / mp.sqrt(2)) / 2
            - mp.exp(e) * mp.erfc((e / mu + mu / 2) / mp.sqrt(2)) / 2
        )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_and_delta_are_on_the_safe_side_and_tight(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    with mp.workdps(120):
        exact = truth(F(epsilon), mu * mu)
        ours = real(gaussian_delta(F(epsilon), mu * mu))
        assert exact <= ours <= exact * (1 + mp.mpf(10) ** -12)
        assert exact <= real(F(delta))
        larger = mu * (1 + F(1, 2**48))
        assert truth(F(epsilon), larger * larger) > real(F(delta))


@pytest.mark.parametrize("epsilon", ["-20", "-1e-6", "3"])
@pytest.mark.parametrize("mu_squared", ["1e-8", "0.3", "1e6"])
def test_delta_at_negative_epsilons_too(epsilon, mu_squared):
    ours = gaussian_delta(F(epsilon), F(mu_squared))
    with mp.workdps(120):
        exact = truth(F(epsilon), F(mu_squared))
        assert exact <= real(ours) <= max(exact * (1 + mp.mpf(10) ** -12), real(SMALLEST))


def test_no_noise_and_tiny_deltas():
    assert gaussian_delta(F(1), F(0)) == 0
    exact = 1 - mp.exp(-1)
    assert exact <= real(gaussian_delta(F(-1), F(0))) <= exact * (1 + mp.mpf(10) ** -15)
    assert gaussian_delta(F(10000), F(1, 10**12)) == SMALLEST


def test_no_collapse_beyond_709():
    sigmas = [gaussian_sigma(1, epsilon, "1e-6") for epsilon in (700, 709, 710, 720, 1000, 10_000)]
    assert all(a > b > 0 for a, b in itertools.pairwise(sigmas))


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(1e-100, 0.9), st.floats(1e-6, 1e6))
def test_sigma_meets_the_budget_and_a_little_less_does_not(epsilon, delta, sensitivity):
    sigma = F(gaussian_sigma(sensitivity, epsilon, delta))
    assert Loss(gaussian=(F(sensitivity) / sigma) ** 2).delta(epsilon) <= as_written(delta, "delta")
    less = sigma * (1 - F(1, 2**46))
    assert Loss(gaussian=(F(sensitivity) / less) ** 2).delta(epsilon) > as_written(delta, "delta")
