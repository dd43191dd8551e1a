"""The law of a release at a guess, against the sum over all outputs in high precision; what follows from B."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import SeededWords
from sfumato.snapping import SnappingMechanism

MECHANISMS = [
    SnappingMechanism(1, lower=0, upper=10),
    SnappingMechanism(0.6, lower=-3, upper=4, gamma=1),
    SnappingMechanism(0.51, lower=0, upper=1, gamma=0.9),
    SnappingMechanism(5, sensitivity=0.2, lower=0, upper=0.1, gamma=1),
    SnappingMechanism(0.9999, sensitivity=3, lower=-20, upper=100, gamma=0.3),
    SnappingMechanism(1, lower=0, upper=10, bound="6.3"),
    SnappingMechanism(1, lower=0, upper=10, bound=6),  # the smallest
    SnappingMechanism(0.75, lower=-1, upper=2, bound=100),
]
ALPHAS = [0.9, 0.49, 0.3, 0.05, 1e-3, 1e-9]


def guesses(m: SnappingMechanism) -> list[Fraction]:
    width = m.upper - m.lower
    return [m.lower + width * Fraction(i, 12) for i in range(-2, 15)] + [m.center + m.lattice / 2]


def real(x: Fraction):
    return mpmath.mpf(x.numerator) / x.denominator


def outcomes(m: SnappingMechanism, guess: Fraction) -> list[tuple[Fraction, mpmath.mpf]]:
    """Every point with its probability, one by one."""
    inside = min(max(guess, m.lower), m.upper)
    last = math.ceil(m.bound / m.lattice)

    def at_least(k: int):
        t = real((m.center + (k - Fraction(1, 2)) * m.lattice - inside) * m.epsilon_prime / m.sensitivity)
        return mpmath.exp(-t) / 2 if t >= 0 else 1 - mpmath.exp(t) / 2

    tails = [mpmath.mpf(1), *(at_least(k) for k in range(1 - last, last + 1)), mpmath.mpf(0)]
    points = [m.center + min(max(k * m.lattice, -m.bound), m.bound) for k in range(-last, last + 1)]
    return [(x, low - high) for x, (low, high) in zip(points, pairwise(tails), strict=True)]


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_moments_and_probabilities_are_those_of_the_sum(m):
    with mpmath.workprec(500):
        for guess in guesses(m):
            law, points = m.law(guess), outcomes(m, guess)
            bias = mpmath.fsum(real(x - guess) * p for x, p in points)
            square = mpmath.fsum(real(x - guess) ** 2 * p for x, p in points)
            assert abs(law.bias - bias) <= 1e-15 * abs(bias) + 1e-100
            assert law.variance == pytest.approx(float(square - bias**2), rel=1e-14)
            assert law.mean_squared_error == pytest.approx(float(square), rel=1e-14)
            last = math.ceil(m.bound / m.lattice)
            for k, (_, p) in zip(range(-last, last + 1), points, strict=True):
                assert law.probability(k) == pytest.approx(float(p), rel=1e-14)
            assert law.probability(last + 1) == law.probability(-last - 1) == 0
            assert law.clamped == pytest.approx(float(points[0][1] + points[-1][1]), rel=1e-14)


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_accuracy_is_the_smallest_and_its_chance_is_stated(m):
    with mpmath.workprec(300):
        for guess in guesses(m):
            law, points = m.law(guess), outcomes(m, guess)

            def beyond(a: Fraction, points=points, guess=guess):
                return mpmath.fsum(p for x, p in points if abs(x - guess) > a)

            distances = sorted({Fraction(0), *(abs(x - guess) for x, _ in points)})
            for alpha in ALPHAS:
                a = law.accuracy(alpha)
                smallest = next(d for d in distances if beyond(d) <= alpha)
                assert smallest <= Fraction(a) <= smallest * (1 + Fraction(1, 2**50))
                assert law.alpha(Fraction(a)) <= alpha
                if m.lower <= guess <= m.upper:
                    assert a <= m.accuracy(alpha), "the bound for every statistic"
            for a in (0, m.lattice / 3, m.lattice, m.bound / 2, m.bound, 2 * m.bound, 5 * m.bound):
                chance = float(beyond(Fraction(a)))
                assert chance * (1 - 1e-15) <= law.alpha(a) <= chance * (1 + 1e-14) + 1e-30


def test_the_exact_accuracy_is_often_much_better_than_the_bound():
    m = SnappingMechanism(1, lower=0, upper=10)
    assert (m.law(5).accuracy(0.05), round(m.accuracy(0.05), 3)) == (2, 3.996)


def test_the_sign_of_the_bias():
    """Clamping pulls releases inwards; where it hardly binds, the lattice decides, one way or the other."""
    m = MECHANISMS[1]
    assert m.law(m.lower).bias > 0 > m.law(m.upper).bias and m.law(m.center).bias == 0
    for guess in guesses(m):
        assert m.law(guess).bias == -m.law(2 * m.center - guess).bias
        assert abs(m.law(guess).bias) <= m.bias_bound(guess)
    far = SnappingMechanism("0.6", lower=-32, upper=32, gamma=1e-9)
    signs = {math.copysign(1, far.law(Fraction(i, 4)).bias) for i in range(1, 8) if i != 4}
    assert signs == {1.0, -1.0}


def test_wide_ranges_take_no_time():
    """2^60 points, in closed form."""
    m = SnappingMechanism(1, lower=0, upper=2**60)
    law = m.law(2**59 + 1)
    assert law.variance == pytest.approx(m.law(2**59 + 1 + m.lattice).variance, rel=1e-12)
    assert 2 < law.variance < 3 and law.accuracy(0.05) <= m.accuracy(0.05)
    # Chances below all floats.
    assert law.alpha(2**50) == m.alpha_for_accuracy(2**50) == 5e-324
    assert SnappingMechanism(1, lower=0, upper=1, bound=2**60).gamma == 5e-324


@pytest.mark.parametrize("m", [MECHANISMS[0], MECHANISMS[4], MECHANISMS[6]], ids=repr)
def test_measured(m):
    """Seeded; thresholds of 6.5 standard deviations and more, so below 1e-9 for another seed."""
    n = 200_000
    for guess in (m.lower, m.center + m.lattice / 3, m.upper):
        law = m.law(guess)
        released = m.release(np.full(n, float(guess)), SeededWords(f"law {guess}"))
        error = released - float(guess)
        assert abs(error.mean() - law.bias) <= 6.5 * math.sqrt(law.variance / n) * 1.1
        # The fourth moment is at most 24 scales^4 and some steps: 40 variances squared do.
        assert abs((error**2).mean() - law.mean_squared_error) <= 6.5 * math.sqrt(40 / n) * law.variance
        for a in (m.lattice, 2 * m.lattice):
            p = law.alpha(a)
            assert abs((np.abs(error) > float(a) * (1 + 1e-12)).mean() - p) <= 6.5 * math.sqrt(p / n) + 30 / n


# The significance of an accuracy, for every statistic within the bounds.


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_the_significance_of_an_accuracy(m):
    """(6.3) solved for alpha, against mpmath, and back."""
    scale = m.sensitivity / m.epsilon_prime
    for a in (m.lattice, 2 * m.lattice, m.bound, m.bound * Fraction(19, 10)):
        if a >= 2 * m.bound:
            continue
        with mpmath.workprec(300):
            stated = mpmath.exp(-real((a - m.lattice / 2) / scale))
            alpha = m.alpha_for_accuracy(a)
            assert stated <= alpha <= stated * (1 + mpmath.mpf(10) ** -15)
        assert m.accuracy(alpha) <= float(a) * (1 + 1e-15)
        for guess in guesses(m)[2:-3]:
            assert m.law(guess).alpha(a) <= alpha
    assert m.alpha_for_accuracy(2 * m.bound) == 0 == m.alpha_for_accuracy(3 * m.bound)
    assert m.alpha_for_accuracy(0) == m.alpha_for_accuracy(m.lattice / 2) == 1


def test_beside_laplace_noise_of_the_same_epsilon():
    for m in MECHANISMS:
        for alpha in (0.3, 0.05, 1e-6):
            found = m.against_laplace(alpha)
            assert found.laplace == pytest.approx(
                math.log(1 / alpha) * float(m.sensitivity / m.epsilon), rel=1e-15
            )
            assert found.half_step == float(m.lattice / 2) and found.factor >= 1
            eta = Fraction(1, 2**m.precision)
            printed = m.epsilon * (1 + 12 * m.bound / m.sensitivity * eta) / (m.epsilon - 2 * eta)
            assert found.factor == pytest.approx(float(printed), rel=1e-15)
            whole = found.factor * found.laplace + found.half_step
            assert found.snapping == pytest.approx(min(whole, 2 * float(m.bound)), rel=1e-14)
            assert found.snapping == m.accuracy(alpha)


# A bound that the user chooses.


def test_a_chosen_bound():
    m = SnappingMechanism(1, lower=0, upper=10, bound=20)
    assert m.bound == 20 and "bound=20" in repr(m)
    ends = m.release(np.array([0.0, 10.0]).repeat(50_000), SeededWords("ends"))
    assert -15 <= ends.min() < 0 and 10 < ends.max() <= 25
    # It is gamma's bound by another name: the same B, the same mechanism.
    of_gamma = SnappingMechanism(1, lower=0, upper=10, gamma=0.3)
    again = SnappingMechanism(1, lower=0, upper=10, bound=of_gamma.bound)
    assert (again.epsilon_prime, again.precision, again.lattice) == (
        of_gamma.epsilon_prime, of_gamma.precision, of_gamma.lattice,
    )  # fmt: skip
    assert again.privacy_loss() == of_gamma.privacy_loss() <= 1
    # A larger bound: less bias, and no more privacy loss.
    biases = [SnappingMechanism(1, lower=0, upper=10, bound=b).largest_bias_bound() for b in (6, 7, 9, 14)]
    assert biases == sorted(biases, reverse=True)
    for b in (6, 1000, 10**30):
        assert SnappingMechanism(1, lower=0, upper=10, bound=b).privacy_loss() <= 1


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_gamma_bounds_how_often_the_clamp_binds(m):
    assert max(m.law(g).clamped for g in guesses(m)) <= m.gamma


def test_gamma_of_a_chosen_bound_is_not_loose():
    m = SnappingMechanism(1, lower=0, upper=10, bound=9)
    assert m.gamma / 8 < m.law(10).clamped <= m.gamma


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("bound", {"bound": "5.99"}),
        ("bound", {"bound": 0}),
        ("bound", {"bound": -7}),
        ("bound", {"bound": math.nan}),
        ("bound", {"bound": math.inf}),
        ("gamma", {"bound": 20, "gamma": 0.05}),
        ("gamma", {"gamma": 0}),
    ],
)
def test_bad_bounds(name, given):
    with pytest.raises(ParameterError, match=f"^{name} is"):
        SnappingMechanism(1, lower=0, upper=10, **given)


def test_bad_questions():
    m = MECHANISMS[0]
    for name, call in (
        ("guess", lambda: m.law(math.nan)),
        ("guess", lambda: m.law("x")),
        ("alpha", lambda: m.law(1).accuracy(0)),
        ("accuracy", lambda: m.law(1).alpha(-1)),
        ("accuracy", lambda: m.alpha_for_accuracy(-1)),
        ("accuracy", lambda: m.alpha_for_accuracy(math.inf)),
        ("alpha", lambda: m.against_laplace(2)),
        ("index", lambda: m.law(1).probability(0.5)),
        ("guess", lambda: m.law(m.accuracy_from_secret(9.5, 0.1))),
    ):
        with pytest.raises(ParameterError, match=f"^{name} is"):
            call()
