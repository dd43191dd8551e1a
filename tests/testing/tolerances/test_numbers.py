"""The closed forms against mpmath, and the errata of the documents on them."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import Gaussian, Laplace
from sfumato.testing import (
    complementary_gaussian_tolerance,
    complementary_laplace_tolerance,
    gaussian_tolerance,
    integer_tolerance,
    laplace_tolerance,
    per_partition_k,
)

KS = [0.01, 1, 15, 16, 25, 300]
EPSILONS = [1e-6, 1, 1e3]
SENSITIVITIES = [1e-9, 1, 1e12]
DELTAS = [1e-300, 1e-6, 0.1]


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(700):
        yield


def exact(number) -> mpmath.mpf:
    number = Fraction(number)
    return mpmath.mpf(number.numerator) / number.denominator


def off(ours: float, truth) -> float:
    """Return the relative error, but for the rounding of a float below 1e-308."""
    return float(max(0, abs(ours - truth) - mpmath.mpf(2) ** -1075) / abs(truth))


def erfc_inverse(p):
    """Solve erfc(x) = p by Halley's method, in many digits."""
    with mpmath.workdps(40):
        x = mpmath.sqrt(-mpmath.log(p)) if p < 0.5 else (1 - p) * mpmath.sqrt(mpmath.pi) / 2
        if p >= 0.5:
            x = mpmath.erfinv(1 - p)
    for _ in range(60):
        step = (mpmath.erfc(x) - p) * mpmath.exp(x * x) * mpmath.sqrt(mpmath.pi) / 2
        x += step / (1 - x * step)
        if abs(step) < abs(x) * mpmath.mpf(10) ** -30:
            return x
    raise AssertionError(p)


OUTSIDE = {}


def multipliers(k):
    """Return the two Gaussian multipliers of sigma: outside and inside."""
    if k not in OUTSIDE:
        p = mpmath.power(10, -exact(k))
        OUTSIDE[k] = erfc_inverse(p) * mpmath.sqrt(2), erfc_inverse(1 - p) * mpmath.sqrt(2)
    return OUTSIDE[k]


@pytest.mark.parametrize("k", KS)
def test_laplace_against_mpmath(k):
    for epsilon, s in itertools.product(EPSILONS, SENSITIVITIES):
        scale = exact(s) / exact(epsilon)
        assert off(laplace_tolerance(k, s, epsilon), scale * exact(k) * mpmath.log(10)) < 1e-15
        inside = mpmath.power(10, -exact(k))
        assert off(complementary_laplace_tolerance(k, s, epsilon), -scale * mpmath.log(1 - inside)) < 1e-15


@pytest.mark.parametrize("k", KS)
def test_gaussian_against_mpmath(k):
    outside, inside = multipliers(k)
    for sigma in [1e-9, 1, 12345.678, 1e18]:
        assert off(gaussian_tolerance(k, sigma=sigma), outside * exact(sigma)) < 1e-15
        assert off(complementary_gaussian_tolerance(k, sigma=sigma), inside * exact(sigma)) < 1e-15


def true_delta(epsilon, mu):
    def phi(x):
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    return phi(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * phi(-epsilon / mu - mu / 2)


@pytest.mark.long
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_sigma_is_the_analytic_one(epsilon, delta):
    """Safe as it is, unsafe when smaller by 1e-12: so the tolerance is right to 1e-12."""
    multiplier = multipliers(23)[0]
    for s in SENSITIVITIES:
        sigma = exact(gaussian_tolerance(23, s, epsilon, delta)) / multiplier
        for k in KS:
            outside, inside = multipliers(k)
            assert off(gaussian_tolerance(k, s, epsilon, delta), outside * sigma) < 1e-15
            assert off(complementary_gaussian_tolerance(k, s, epsilon, delta), inside * sigma) < 1e-15
        mu = exact(s) / sigma
        with mpmath.workdps(800):
            assert true_delta(exact(epsilon), mu * (1 - mpmath.mpf(10) ** -15)) <= exact(delta)
            assert true_delta(exact(epsilon), mu * (1 + mpmath.mpf(10) ** -12)) > exact(delta)


def test_erratum_1_the_printed_complementary_formula_has_no_value():
    """Of ln(1 - 10^k) for k > 0 there is no logarithm; of ln(1 - 10^-k) there is, and it is right."""
    with pytest.raises(ValueError):
        math.log(1 - 10.0**2)
    t = complementary_laplace_tolerance(2, 1, 1)
    assert t == 0.010050335853501442
    assert Laplace(1).cdf(t) - Laplace(1).cdf(-t) == pytest.approx(0.01, rel=1e-14)


def test_erratum_3_the_printed_split_cancels():
    def printed(k, m):
        rest = 1 - (1 - 10.0**-k) ** (1 / m)
        return -math.log10(rest) if rest else math.inf

    for k, m in itertools.product(KS, (1, 2, 3, 10, 1000, 10**9)):
        p = mpmath.power(10, -exact(k))
        truth = -mpmath.log(1 - mpmath.power(1 - p, mpmath.mpf(1) / m), 10)
        assert off(per_partition_k(k, m), truth) < 1e-15
    assert printed(5, 2) == pytest.approx(per_partition_k(5, 2), rel=1e-10)
    assert abs(printed(15, 2) - per_partition_k(15, 2)) > 1e-3
    assert printed(17, 2) == math.inf and per_partition_k(17, 2) == pytest.approx(17.30103)


def test_two_more_for_up_to_ten():
    for partitions in (1, 2, 10):
        assert per_partition_k(23, partitions, rule="2020") == 25 >= per_partition_k(23, partitions)
    with pytest.raises(ParameterError, match="at most 10 for the rule"):
        per_partition_k(23, 11, rule="2020")


def test_decades():
    given_n = {1: 23, 2: 24, 10: 24, 11: 25, 100: 25, 101: 26}
    assert {n: per_partition_k(23, n, rule="decades") for n in given_n} == given_n
    for n in (1, 2, 7, 10, 99, 100, 1000):
        assert per_partition_k(23, n, rule="decades") >= per_partition_k(23, n) - 1e-12


@pytest.mark.parametrize(
    ("t", "whole"), [(0, 0), (0.4, 0), (0.5, 0), (0.6, 1), (1.1, 1), (2.6, 3), ("2.5", 2)]
)
def test_whole_numbers(t, whole):
    assert integer_tolerance(t) == whole


@pytest.mark.parametrize(
    "law", [Laplace(0.02), Laplace(3), Laplace("1e6"), Gaussian(0.3), Gaussian(2), Gaussian(1e9)]
)
def test_nearest_whole_number_is_the_exact_tolerance_of_rounded_noise(law):
    for k in KS:
        t = law.rounded_tolerance(k)
        assert integer_tolerance(law.tolerance(k)) == t
        if isinstance(law, Laplace):
            assert laplace_tolerance(k, law.scale, 1, rounded=True) == t
            nearest = complementary_laplace_tolerance(k, law.scale, 1, rounded=True)
        else:
            assert gaussian_tolerance(k, sigma=law.sigma, rounded=True) == t
            nearest = complementary_gaussian_tolerance(k, sigma=law.sigma, rounded=True)
        assert nearest == int(nearest) >= 0
        # The largest m with P(|R| < m) = P(|Z| < m - 1/2) <= 10^-k.
        m, target = int(nearest), mpmath.power(10, -exact(k))
        for whole, holds in [(m, True), (m + 1, False)]:
            y = max(mpmath.mpf(0), whole - mpmath.mpf(1) / 2) / exact(law.unit)
            inside = 1 - mpmath.exp(-y) if isinstance(law, Laplace) else mpmath.erf(y / mpmath.sqrt(2))
            assert (inside <= target) == holds


@pytest.mark.parametrize("bad", [0, math.nan, None, "x", True])
def test_bad_input(bad):
    for call in (
        lambda: laplace_tolerance(bad, 1, 1),
        lambda: complementary_laplace_tolerance(1, bad, 1),
        lambda: gaussian_tolerance(1, 1, bad, 0.1),
        lambda: complementary_gaussian_tolerance(bad, sigma=1),
        lambda: per_partition_k(1, bad),
        lambda: gaussian_tolerance(1, 1, 1, 1),
        lambda: gaussian_tolerance(1, 1, sigma=1),
        lambda: gaussian_tolerance(1),
        lambda: integer_tolerance(-1),
        lambda: per_partition_k(1, 2, rule="guess"),
    ):
        with pytest.raises(ParameterError):
            call()
