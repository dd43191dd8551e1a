"""Bias: against the sum over all outputs in high precision, and against measured means."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import SeededWords
from sfumato.snapping import SnappingMechanism

mechanisms = [
    SnappingMechanism(1, lower=0, upper=10),
    SnappingMechanism(0.6, lower=-3, upper=4, gamma=1),
    SnappingMechanism(0.51, lower=0, upper=1, gamma=0.9),
    SnappingMechanism(5, sensitivity=0.2, lower=0, upper=0.1, gamma=1),
    SnappingMechanism(0.9999, sensitivity=3, lower=-20, upper=100, gamma=0.3),
]


def guesses(m: SnappingMechanism) -> list[Fraction]:
    width = m.upper - m.lower
    return [m.lower + width * Fraction(i, 24) for i in range(-3, 28)]


def exact_bias(m: SnappingMechanism, guess: Fraction) -> Fraction:
    """Every output times its probability, one by one, in 200 bits and more."""
    inside = min(max(guess, m.lower), m.upper)
    last = math.ceil(m.bound / m.lattice)
    with mpmath.workprec(400):

        def real(x: Fraction):
            return mpmath.mpf(x.numerator) / x.denominator

        def at_least(x: Fraction):
            t = real((x - inside) * m.epsilon_prime / m.sensitivity)
            return mpmath.exp(-t) / 2 if t >= 0 else 1 - mpmath.exp(t) / 2

        total = mpmath.mpf(0)
        for k in range(-last, last + 1):
            low = 1 if k == -last else at_least(m.center + (k - Fraction(1, 2)) * m.lattice)
            high = 0 if k == last else at_least(m.center + (k + Fraction(1, 2)) * m.lattice)
            point = m.center + min(max(k * m.lattice, -m.bound), m.bound)
            total += real(point - guess) * (low - high)
        return Fraction(*(int(i) for i in total.as_integer_ratio()))


@pytest.mark.parametrize("m", mechanisms, ids=repr)
def test_the_bound_is_the_bias(m):
    for guess in guesses(m):
        exact = abs(exact_bias(m, guess))
        assert m.bias_bound(guess) >= exact
        assert m.bias_bound(guess) <= float(exact) * (1 + 1e-15) + 1e-30 * float(m.lattice)


@pytest.mark.long
@pytest.mark.parametrize("m", mechanisms, ids=repr)
def test_the_largest_is_not_passed_and_is_reached(m):
    largest = m.largest_bias_bound()
    fine = [m.lower + (m.upper - m.lower) * Fraction(i, 3000) for i in range(3001)]
    found = [m.bias_bound(g) for g in fine]
    assert largest >= max(found) * (1 - 1e-15)
    assert largest <= max(found) * (1 + 1e-3)


def test_the_largest_is_not_always_at_the_bounds():
    """The notes take it at +-B'; where clamping hardly ever binds, the lattice alone makes it, and not there."""
    m = SnappingMechanism(0.6, lower=0, upper=32, gamma=1e-9)
    assert m.bias_bound(0) < m.largest_bias_bound() / 2


def test_average_over_a_grid_and_a_distribution():
    m = mechanisms[0]
    grid = guesses(m)
    bounds = [m.bias_bound(g) for g in grid]
    assert m.average_bias_bound(grid) == pytest.approx(sum(bounds) / len(grid), rel=1e-14)
    weights = [Fraction(i) for i in range(len(grid))]
    mean = sum(float(w) * b for w, b in zip(weights, bounds, strict=True)) / float(sum(weights))
    assert m.average_bias_bound(grid, weights) == pytest.approx(mean, rel=1e-14)
    assert m.average_bias_bound([3, 10], [0, 0.5]) == pytest.approx(m.bias_bound(10), rel=1e-15)
    signed = sum(exact_bias(m, g) for g in grid) / len(grid)
    assert abs(signed) <= m.average_bias_bound(grid)


@pytest.mark.parametrize("m", mechanisms, ids=repr)
def test_measured_bias(m):
    n = 400_000
    for guess in (m.lower, m.center, m.upper, m.lower + (m.upper - m.lower) / 3):
        released = m.release(np.full(n, float(guess)), SeededWords(f"bias {guess}"))
        # The variance is at most that of Laplace noise plus a quarter of a squared step, doubled for their
        # covariance; 6.5 standard deviations, by Bernstein below 1e-9.
        scale, step = float(m.sensitivity / m.epsilon_prime), float(m.lattice)
        spread = 6.5 * (math.sqrt(2) * scale + step / 2) / math.sqrt(n)
        assert abs(released.mean() - float(guess)) <= m.bias_bound(guess) + spread
        # Planted: ties and everything else rounded down to the lattice, not to nearest.
        noise = np.random.default_rng(1).laplace(float(guess - m.center), scale, n)
        down = float(m.center) + np.clip(np.floor(noise / step) * step, -float(m.bound), float(m.bound))
        assert abs(down.mean() - float(guess)) > m.bias_bound(guess) + spread


def test_the_shifted_bound_of_the_notes_is_loose():
    """Bias+ shifts the noise by half a step: at the centre, where there is no bias, it gives nearly that."""
    m = mechanisms[0]
    assert m.bias_bound(m.center) < 1e-30
    noise = np.random.default_rng(1).laplace(-float(m.lattice) / 2, float(1 / m.epsilon_prime), 100_000)
    assert abs(np.clip(noise, -float(m.bound), float(m.bound)).mean()) > 0.4 * float(m.lattice)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("guess", lambda m: m.bias_bound(math.nan)),
        ("guess", lambda m: m.bias_bound(math.inf)),
        ("guesses", lambda m: m.average_bias_bound([])),
        ("guesses", lambda m: m.average_bias_bound([1, math.nan])),
        ("weights", lambda m: m.average_bias_bound([1, 2], [1])),
        ("weights", lambda m: m.average_bias_bound([1, 2], [1, -1])),
        ("weights", lambda m: m.average_bias_bound([1, 2], [0, 0])),
    ],
)
def test_bad_guesses(name, call):
    with pytest.raises(ParameterError, match=f"^{name} is"):
        call(mechanisms[0])
