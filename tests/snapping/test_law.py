"""What follows from epsilon and the bounds, and the law of a release: against the sum over all outputs in high precision."""

import math
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.noise import SeededWords
from sfumato.snapping import (
    SampleVariance,
    SnappingMechanism,
    epsilon_for_accuracy,
    power_of_two_at_least,
    to_lattice,
)

epsilons = st.floats(1e-12, 100)

bounds = st.tuples(st.floats(-1e12, 1e12), st.floats(1e-3, 1e12))


def made(epsilon, sensitivity, low_width, gamma):
    low, width = low_width
    return SnappingMechanism(
        epsilon, sensitivity=sensitivity, lower=low, upper=Fraction(low) + Fraction(width), gamma=gamma
    )


@settings(derandomize=True, database=None, deadline=None, max_examples=60)
@given(epsilons, st.floats(1e-3, 1e3), bounds, st.floats(1e-6, 1))
def test_every_number(epsilon, sensitivity, low_width, gamma):
    m = made(epsilon, sensitivity, low_width, gamma)
    eta = Fraction(1, 2**m.precision)
    b = m.bound / m.sensitivity
    # The privacy loss at the sensitivity, as the theorem states it: within epsilon, and just so.
    loss = m.epsilon_prime * (1 + 12 * b * eta) + 2 * eta
    assert m.privacy_loss() == m.privacy_loss(m.sensitivity) == loss <= m.epsilon
    assert loss > m.epsilon * (1 - Fraction(1, 2**100))
    # Lambda' is the smallest power of two that is not below the exact lambda'.
    step, scale = m.lattice / m.sensitivity, 1 / m.epsilon_prime
    assert step / 2 < scale <= step
    assert math.log2(step) == int(math.log2(step))
    # What the precision must be.
    assert m.precision >= 118
    assert b * eta <= Fraction(1, 2**52)
    assert 2 * eta < m.epsilon
    assert b < Fraction(2) ** (m.precision - 7) * scale
    # 6.5.1: not below what gamma asks, and hardly above.
    reach = (m.upper - m.lower) / (2 * m.sensitivity)
    grow = 1 + 2 * math.log(1 / gamma)
    k = (2 + 24 * Fraction(1, 2**52)) / (m.epsilon - Fraction(2, 2**118))
    assert float(b) >= float(reach + step / 2 * Fraction(grow)) * (1 - 1e-12)
    ulp = math.ulp(float(abs(m.center) + m.bound))
    assert float(m.bound) <= float((reach + k / 2 * Fraction(grow)) * m.sensitivity) * (1 + 1e-12) + ulp


@pytest.mark.parametrize("e", [-20, 0, 10])
def test_lambda_from_the_exact_scale(e):
    """At a power of two, lambda' is just above one and so is Lambda' a power up; in float64 it is not."""
    epsilon = 2.0**e
    m = SnappingMechanism(epsilon, lower=0, upper=1)
    assert 1 / m.epsilon_prime > 1 / Fraction(epsilon)
    assert m.lattice == 2 / Fraction(epsilon)
    rounded_first = power_of_two_at_least(float(1 / m.epsilon_prime))
    assert rounded_first == 1 / epsilon != m.lattice
    # Beside a power of two, nothing is to be seen.
    for beside in (math.nextafter(epsilon, 0), math.nextafter(epsilon, math.inf)):
        other = SnappingMechanism(beside, lower=0, upper=1)
        assert other.lattice == power_of_two_at_least(float(1 / other.epsilon_prime))


def test_precision_grows_with_the_bound():
    """Errata 14: at 118 bits and B = 2^80, B eta is 2^-38, and at 2^112 the theorem's own condition fails."""
    for power in (60, 80, 112, 200, 900):
        m = SnappingMechanism(1, lower=0, upper=Fraction(2) ** (power + 1))
        assert m.bound / 2**118 > Fraction(1, 2**60)
        assert m.bound / 2**m.precision <= Fraction(1, 2**60)
        assert m.bound < 2 ** (m.precision - 7) / m.epsilon_prime
    assert not Fraction(2) ** 112 < 2 ** (118 - 7)
    assert SnappingMechanism(1, lower=0, upper=10).precision == 118


@pytest.mark.parametrize(
    ("name", "given", "admissible"),
    [
        ("epsilon", {"epsilon": 0}, "above 2 eta"),
        ("epsilon", {"epsilon": 1e-308, "lower": -1e300, "upper": 1e300}, "larger"),
        ("epsilon", {"epsilon": math.nan}, "finite"),
        ("epsilon", {"epsilon": 1e40}, "at most 2"),
        ("sensitivity", {"sensitivity": 0}, "greater than 0"),
        ("lower", {"lower": 1, "upper": 1}, "below upper"),
        ("upper", {"upper": math.inf}, "finite"),
        ("gamma", {"gamma": 0}, "above 0 and at most 1"),
        ("gamma", {"gamma": 1.1}, "above 0 and at most 1"),
    ],
)
def test_bad_parameters_are_named_with_the_admissible_range(name, given, admissible):
    given = {"epsilon": 1, "lower": 0, "upper": 1, **given}
    with pytest.raises(ParameterError, match=f"^{name} is .*{admissible}"):
        SnappingMechanism(given.pop("epsilon"), **given)


# The law.

MECHANISMS = [
    SnappingMechanism(1, lower=0, upper=10),
    SnappingMechanism(0.6, lower=-3, upper=4, gamma=1),
    SnappingMechanism(5, sensitivity=0.2, lower=0, upper=0.1, gamma=1),
    SnappingMechanism(0.9999, sensitivity=3, lower=-20, upper=100, gamma=0.3),
    SnappingMechanism(1, lower=0, upper=10, bound=6),  # the smallest
]

ALPHAS = [0.9, 0.3, 1e-9]


def guesses(m: SnappingMechanism) -> list[Fraction]:
    width = m.upper - m.lower
    return [m.lower + width * Fraction(i, 4) for i in range(-1, 6)] + [m.center + m.lattice / 2]


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
            bound = m.bias_bound(guess)
            assert abs(bias) <= bound <= abs(bias) * (1 + 1e-15) + 1e-30 * float(m.lattice)
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


def test_wide_ranges_take_no_time():
    """2^60 points, in closed form."""
    m = SnappingMechanism(1, lower=0, upper=2**60)
    law = m.law(2**59 + 1)
    assert law.variance == pytest.approx(m.law(2**59 + 1 + m.lattice).variance, rel=1e-12)
    assert 2 < law.variance < 3 and law.accuracy(0.05) <= m.accuracy(0.05)
    # Chances below all floats.
    assert law.alpha(2**50) == m.alpha_for_accuracy(2**50) == 5e-324
    assert SnappingMechanism(1, lower=0, upper=1, bound=2**60).gamma == 5e-324


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


@pytest.mark.long
@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_the_largest_is_not_passed_and_is_reached(m):
    largest = m.largest_bias_bound()
    fine = [m.lower + (m.upper - m.lower) * Fraction(i, 3000) for i in range(3001)]
    found = [m.bias_bound(g) for g in fine]
    assert largest >= max(found) * (1 - 1e-15)
    assert largest <= max(found) * (1 + 1e-3)


# Accuracy, and the way back to epsilon.


@pytest.mark.parametrize("epsilon", [1e-4, 0.75, 64.0])
@pytest.mark.parametrize("sensitivity", [1.0, 0.1])
def test_formulas(epsilon, sensitivity):
    m = SnappingMechanism(epsilon, sensitivity=sensitivity, lower=-7, upper=90)
    for alpha in (1, 0.5, 0.05, 1e-9, 1e-300):
        log, scale = math.log(1 / alpha), float(m.sensitivity / m.epsilon_prime)
        tight = min(log * scale + float(m.lattice) / 2, 2 * float(m.bound))
        assert m.accuracy(alpha) == pytest.approx(tight, rel=1e-14)
        assert m.accuracy_loose(alpha) == pytest.approx((1 + log) * scale, rel=1e-14)
        assert m.accuracy(alpha) <= m.accuracy_loose(alpha)
    assert m.accuracy(1e-300) <= 2 * float(m.bound)


def sweep():
    """Accuracies whose epsilons cross powers of two, where Lambda' jumps."""
    for alpha in (0.05, 0.5, 1e-6):
        for e in range(-6, 5):
            for factor in (0.999, 1.0, 1.001, 1.2, 1.5, 1.9):
                yield (math.log(1 / alpha) + 0.75) / (2.0**e * factor), alpha


@pytest.mark.long
@pytest.mark.parametrize(
    "bounds", [{"lower": 0, "upper": 10}, {"lower": -1, "upper": 1e7, "sensitivity": 0.3}]
)
def test_the_smallest_epsilon_and_back(bounds):
    steps, jumps = set(), 0
    unit = bounds.get("sensitivity", 1)
    for accuracy, alpha in sweep():
        wanted = accuracy * unit
        m = SnappingMechanism.for_accuracy(wanted, alpha, **bounds)
        assert m.accuracy(alpha) <= wanted
        less = SnappingMechanism(float(m.epsilon) * 0.999, **bounds)
        assert less.accuracy(alpha) > wanted
        below = SnappingMechanism(math.nextafter(float(m.epsilon), 0), **bounds)
        assert below.accuracy(alpha) > wanted
        steps.add(m.lattice)
        jumps += below.lattice != m.lattice
    assert len(steps) > 8
    assert jumps > 3  # some of them are reached by the jump itself


# Errata of the notes.


@pytest.mark.long
def test_what_the_notes_print_and_is_not_so():
    # 10: of the magnitude, halves are rounded up; -1/2 becomes 0 by the definition.
    assert math.copysign(math.floor(abs(-0.5) + 0.5), -0.5) == -1 and to_lattice(-0.5, 1.0) == 0
    # 11: the midpoint, and not the half-width 500, for [1000, 2000].
    m = SnappingMechanism(1, lower=1000, upper=2000)
    assert m.center == 1500 and 500 < m.bound < 510
    # 12: {0, 0, 1} has the variance 1/3; the printed largest one is (b - a)^2 / 4.
    assert SampleVariance(3, lower=0, upper=1)([0, 0, 1]) == Fraction(1, 3) > Fraction(1, 4)
    # 15: (6.4) with a lattice from the Laplace mechanism's epsilon misses, on either side.
    misses = 0
    for accuracy, alpha in list(sweep())[::9]:
        log = math.log(1 / alpha)
        rest = accuracy - float(SnappingMechanism(log / accuracy, lower=0, upper=10).lattice) / 2
        exact = epsilon_for_accuracy(accuracy, alpha, lower=0, upper=10)
        misses += rest <= 0 or not exact * 0.999 < log / rest < exact * 1.001
    assert misses > 5
    # 17: noise that is added outside keeps the value's place between points of the lattice.
    m = SnappingMechanism(1, lower=0, upper=10, gamma=1e-6)
    noise = m.release(np.full(100, float(m.center)), SeededWords(2)) - float(m.center)
    assert {(Fraction(13, 4) + Fraction(x)) % m.lattice for x in noise.tolist()} == {
        Fraction(13, 4) % m.lattice
    }
    # 22: the noise, shifted by half a step, is off by nearly that at the centre, where there is no bias.
    m = MECHANISMS[0]
    shifted = np.random.default_rng(1).laplace(-float(m.lattice) / 2, float(1 / m.epsilon_prime), 100_000)
    assert m.bias_bound(m.center) < 1e-30
    assert abs(np.clip(shifted, -float(m.bound), float(m.bound)).mean()) > 0.4 * float(m.lattice)


def printed_accuracy(m: SnappingMechanism, value: float, alpha: float) -> float:
    """GetAccuracy of 6.3, for a statistic of sensitivity 1."""
    f, b, e = abs(value - float(m.center)), float(m.bound), float(m.epsilon_prime)

    def cdf(x: float) -> float:
        return math.exp(x * e) / 2 if x < 0 else 1 - math.exp(-x * e) / 2

    p_low, p_up = cdf(-b - f + 1 / e), 1 - cdf(b - f - 1 / e)
    reached = 1 - math.exp(-e * (b - f) + 1)
    if p_low >= alpha:
        return b + f
    if reached >= 1 + p_low - alpha:
        return (1 - math.log(alpha - p_low)) / e
    if reached + p_up >= 1 + p_low - alpha:
        return b - f
    return (1 - math.log(alpha - p_low + p_up)) / e


def test_accuracy_at_the_secret_value_holds_and_as_printed_it_does_not():
    """21: P_U^- bounds from the wrong side, and the last case promises too much."""
    smaller, broken = 0, 0
    for epsilon, value, alpha in product((0.3, 1.0, 1.9), (0.0, 0.02, 0.3, 0.9, 1.0), (0.9, 0.3, 0.05, 1e-5)):
        m = SnappingMechanism(epsilon, lower=0, upper=1, gamma=1)
        law, found = m.law(value), m.accuracy_from_secret(value, alpha).leak()
        assert law.alpha(found * (1 + 1e-12)) <= alpha * (1 + 1e-9) and found <= m.accuracy(alpha)
        smaller += found < m.accuracy(alpha)
        broken += law.alpha(printed_accuracy(m, value, alpha)) > 1.5 * alpha
    assert smaller > 10 and broken > 2
