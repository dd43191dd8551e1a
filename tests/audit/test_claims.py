"""The pairs of a claim are never stronger than the claim."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from sfumato.audit import Pair, approximate, audit, curve, gaussian, zcdp
from sfumato.audit.claims import exp_up
from sfumato.budget.closed_forms import zcdp_delta
from sfumato.errors import ParameterError


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-9, 0.1, 1.0, 3.7, 30.0, 700.0, 709.78])
def test_e_to_the_epsilon_is_rounded_up(epsilon):
    with mpmath.workdps(60):
        truth = mpmath.exp(mpmath.mpf(epsilon))
        found = exp_up(epsilon)
        assert truth <= found <= truth * (1 + mpmath.mpf(2) ** -51)
    assert exp_up(710.0) == math.inf


def test_parameters_are_rounded_to_the_weaker_side():
    pair = approximate(Fraction(1, 3), Fraction(1, 7)).pairs[0]
    assert Fraction(pair.epsilon) >= Fraction(1, 3) and Fraction(pair.delta) >= Fraction(1, 7)
    assert approximate("0.1").pairs[0].epsilon == 0.1


@pytest.mark.parametrize("mu", [0.01, 0.3, 1, Fraction(5, 2), 9])
def test_gaussian_profile(mu):
    for pair in gaussian(mu).pairs:
        with mpmath.workdps(50):
            m, e = mpmath.mpf(Fraction(mu).numerator) / Fraction(mu).denominator, mpmath.mpf(pair.epsilon)
            truth = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            # epsilon was rounded up a little after delta was computed: delta may only be on the safe side.
            assert truth <= pair.delta <= truth * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(10) ** -16


@pytest.mark.long
@pytest.mark.parametrize("rho", [1e-9, 0.001, 0.125, 0.5, 4])
def test_zcdp_pairs_are_implied_by_the_claim(rho):
    """The Gaussian mechanism with this rho is within each pair; so is the bound of some order alpha."""
    with mpmath.workdps(40):
        m = mpmath.sqrt(2 * mpmath.mpf(rho))
        for pair in zcdp(rho).pairs:
            e = mpmath.mpf(pair.epsilon)
            truth = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            classic = mpmath.exp(-((e - rho) ** 2) / (4 * mpmath.mpf(rho)))
            orders = [1 + mpmath.mpf(k) / 400 * (e / rho) for k in range(1, 800)]
            best = min(mpmath.exp((a - 1) * (a * rho - e)) / (a - 1) * (1 - 1 / a) ** a for a in orders)
            assert truth < pair.delta < classic
            assert pair.delta == pytest.approx(float(best), rel=1e-2)


@pytest.mark.parametrize("rho", [1e-30, 1e-9, 0.5, 1e3, 1e9, 1e12, 1e14, 1e15, 1e20, 1e40, 1e300])
def test_zcdp_deltas_are_never_below_the_best_bound(rho):
    """Ternary search over all orders, in 400 digits: the margin is on the safe side however large rho is."""
    exact = Fraction(rho)
    with mpmath.workdps(400):
        r = mpmath.mpf(rho)
        for factor in (0.7, 1.4, 2.1, 3.2, 5.0):
            epsilon = exact + Fraction(math.sqrt(rho) * factor)
            gap = mpmath.mpf((epsilon - exact).numerator) / (epsilon - exact).denominator

            def log_delta(t, r=r, gap=gap):
                return t * (t * r - gap) - t * mpmath.log(1 + 1 / t) - mpmath.log(1 + t)

            low, high = gap / r / 100, gap / r * 100
            for _ in range(60):
                a, b = low + (high - low) / 3, high - (high - low) / 3
                low, high = (low, b) if log_delta(a) < log_delta(b) else (a, high)
            best = mpmath.exp(log_delta((low + high) / 2))
            found = zcdp_delta(exact, epsilon)
            found = mpmath.mpf(found.numerator) / found.denominator
            assert best <= found * (1 + mpmath.mpf(10) ** -15) and found <= best * 1.001


def test_curves():
    assert curve([(0, 0.5), (1, 0.1)]).pairs == (Pair(0.0, 0.5), Pair(1.0, 0.1))
    assert all(p.delta < 1 for p in curve(lambda e: 1.0 if e < 1 else 0.25 / e).pairs)
    with pytest.raises(ParameterError, match="at least one delta below 1"):
        curve([(0, 1)])


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": 1, "delta": 1}, {"epsilon": 1, "delta": -0.1},
        {}, {"epsilon": 1, "claim": zcdp(1)}, {"epsilon": 1, "alpha": 0}, {"epsilon": 1, "alpha": 1}, {"epsilon": 1, "confidence": 2},
        {"epsilon": 1, "seconds": 0}, {"epsilon": 1, "max_samples": 0}, {"epsilon": 1, "neighbors": "replace"}, {"epsilon": 1, "method": "guess"},
        {"epsilon": 1, "pairs": []}, {"epsilon": 1, "pairs": [1]}, {"epsilon": 1, "data": [[]]}, {"epsilon": 1, "data": [[1]], "pairs": [(1, 2)]},
        {"epsilon": 1, "data": [3]}, {"claim": "epsilon = 1"}, {"claim": zcdp(1), "delta": 0.1},
    ],
)  # fmt: skip
def test_bad_parameters_come_before_any_draw(options):
    def mechanism(dataset):
        raise AssertionError("drawn")

    with pytest.raises(ParameterError):
        audit(mechanism, **options)
    with pytest.raises(ParameterError):
        zcdp(0)
    with pytest.raises(ParameterError):
        gaussian(-1)


@pytest.mark.parametrize("mu", [10, 17, 20, 100, 1000])
def test_gaussian_claims_of_little_privacy(mu):
    """Deltas that are 1 as floats say nothing, and are left out."""
    assert all(pair.delta < 1 for pair in gaussian(mu).pairs)


def test_a_curve_leaves_out_deltas_that_are_1_as_floats():
    assert len(curve([(0, Fraction(2**70 - 1, 2**70)), (1, 0.5)]).pairs) == 1
