"""Gaussian noise on time steps: exact arithmetic, the same for all whole numbers; its laws; sums of columns."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction as F
from itertools import combinations
from math import comb, floor, hypot, sqrt

import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.exact.time_trees import Toeplitz
from sfumato.noise import Gaussian, SeededWords
from sfumato.noise.series_noise import FINE, SeriesGaussian

HALF = Toeplitz.of_power(F(1, 2), 40)
POWERS = [F(0), F(1, 16), F(1, 4), F(1, 2), F(1)]


def test_coefficients_are_those_of_the_square_root_cut():
    assert HALF.coefficients == tuple(floor(F(comb(2 * k, k), 4**k) * 2**16) for k in range(40))
    assert Toeplitz.of_power(F(0), 3).coefficients == (2**16, 0, 0)
    assert Toeplitz.of_power(F(1), 3).coefficients == (2**16,) * 3


KEPT = [F(3, 4), F(7, 8), F(31, 32)]


@pytest.mark.parametrize("power", [*POWERS, F(7, 16)])
@pytest.mark.parametrize("kept", KEPT)
def test_coefficients_with_a_part_kept_are_those_of_the_quotient_and_fall(power, kept):
    with mpmath.workdps(40):
        a, b = (mpmath.mpf(x.numerator) / x.denominator for x in (power, kept))
        above = [mpmath.binomial(a, j) * (-b) ** j for j in range(40)]
        below = [mpmath.binomial(a + j - 1, j) for j in range(40)]
        exact = [mpmath.fsum(above[i] * below[k - i] for i in range(k + 1)) for k in range(40)]
    found = Toeplitz.of_power(power, 2000, kept)
    assert all(0 <= e * 2**16 - c < 1.001 for e, c in zip(exact, found.coefficients, strict=False))
    assert found.coefficients[-1] < found.coefficients[1] or power in (0, 1)
    for k in range(1, 10):  # of all sets of steps, the first are the worst
        factor = Toeplitz.of_power(power, 9, kept)
        assert factor.squared_sum(k) == max(squared(factor, s) for s in combinations(range(9), k))
    for wrong in (F(1), F(-1, 2)):
        with pytest.raises(ParameterError):
            Toeplitz.of_power(power, 3, wrong)


@pytest.mark.parametrize("coefficients", [(), (1,), (2**16, 2**16 + 1), (2**16, -1), (2**16, 5, 6)])
def test_only_falling_coefficients_are_taken(coefficients):
    with pytest.raises(ParameterError):
        Toeplitz(coefficients)


def squared(factor, columns):
    """The squared length of a sum of columns, by rational arithmetic."""
    return sum(s * s for s in factor.times([F(int(t in columns)) for t in range(factor.steps)]))


@pytest.mark.parametrize("power", POWERS)
def test_the_first_columns_are_the_longest_sum_of_so_many(power):
    """All sets of steps, of a short series."""
    factor = Toeplitz.of_power(power, 9)
    for k in range(1, 10):
        lengths = {s: squared(factor, s) for s in combinations(range(9), k)}
        assert factor.squared_sum(k) == lengths[tuple(range(k))] == max(lengths.values())


def test_squares_are_exact_where_they_are_largest():
    factor = Toeplitz.of_power(F(1), 1 << 14)
    assert factor.squared_sum(1 << 14) == sum(t * t for t in range(1, (1 << 14) + 1))


def slowly(factor, z):
    """The recursion in Python's integers."""
    w = []
    for t, own in enumerate(z):
        before = sum(factor.coefficients[j] * w[t - j] for j in range(1, t + 1))
        w.append(own - ((before + 2**15) >> 16))
    return w


@dataclass(frozen=True)
class Given(SeriesGaussian):
    """The same recursion of given draws."""

    drawn: tuple = ()

    def of(self, monkeypatch):
        monkeypatch.setattr(Gaussian, "rounded", lambda law, n, words=None: np.array(self.drawn, np.int64))
        return self.rounded()[0].tolist()


def given(monkeypatch, factor, z, series=1, scale=1):
    return Given((F(scale),), factor, series, tuple(z)).of(monkeypatch)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("size", [10, 2**31, 2**54])
def test_the_recursion_is_exact(monkeypatch, power, size):
    factor, rng = Toeplitz.of_power(power, 40), np.random.default_rng(size)
    z = rng.integers(-size, size, 80).tolist()
    found = [slowly(factor, z[:40]), slowly(factor, z[40:])]
    assert given(monkeypatch, factor, z, 2) == given(monkeypatch, factor, z, 2, 2**35) == found


def test_the_inverse_is_one():
    for power in POWERS:
        factor = Toeplitz.of_power(power, 1000)
        noise = SeriesGaussian((F(1),), factor, 1)
        product = np.convolve(noise.inverse, np.array(factor.coefficients) / 2.0**16)[:1000]
        assert product == pytest.approx(np.eye(1, 1000)[0], abs=1e-12)


@pytest.mark.parametrize("power", POWERS)
def test_whole_numbers_pass_through(monkeypatch, power):
    """g(R x + z) = x + g(z): what is released is a function of R x + z, which alone has noise."""
    factor, rng = Toeplitz.of_power(power, 40), np.random.default_rng(1)
    x, z = rng.integers(-1000, 1000, 40).tolist(), rng.integers(-(2**22), 2**22, 40).tolist()
    moved = [int(s * 2**FINE) for s in factor.times([F(n) for n in x])]
    (noise,) = given(monkeypatch, factor, z)
    (both,) = given(monkeypatch, factor, [m + n for m, n in zip(moved, z, strict=True)])
    assert both == [(n << FINE) + w for n, w in zip(x, noise, strict=True)]
    # A factor whose coefficients are not those of the running sums shows more than these.
    other = Toeplitz((2**16, *[c - 1 for c in factor.coefficients[1:] if c], *[0] * 39)[:40])
    if power:
        (wrong,) = given(monkeypatch, other, [m + n for m, n in zip(moved, z, strict=True)])
        assert wrong != [(n << FINE) + w for n, w in zip(x, given(monkeypatch, other, z)[0], strict=True)]


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_steps_and_totals_have_the_deviations_that_are_promised():
    noise = SeriesGaussian((F(5), F(50)), HALF, 4000)
    drawn = noise.rounded(SeededWords(1)) / 2.0**FINE
    deviations, off = noise.cumulated
    assert np.all(off < 2.0**-11) and deviations[0] == pytest.approx(1)
    assert deviations[-1] == pytest.approx(sqrt(HALF.squared_sum(1)), rel=1e-3)
    for own, scale, law in zip(drawn, (5, 50), noise.laws, strict=True):
        assert np.cumsum(own, axis=1).std(axis=0) == pytest.approx(scale * deviations, rel=0.08)
        assert own.std(axis=0)[-1] == pytest.approx(law.standard_deviation, rel=0.08)
        assert law.standard_deviation == pytest.approx(scale * hypot(*noise.inverse), rel=1e-3)
        # No draw serves two steps, two series or two numbers.
        sums = np.array([HALF.times([F(v) for v in row.tolist()]) for row in own[:30]], np.float64)
        assert sums.std() == pytest.approx(scale, rel=0.1)
        assert abs(np.corrcoef(sums[:, :-1].ravel(), sums[:, 1:].ravel())[0, 1]) < 0.15
    assert abs(np.corrcoef(drawn[0].ravel(), drawn[1].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize(
    "given", [{"scales": ()}, {"scales": (F(0),)}, {"scales": (F(2**41),)}, {"series": 0}]
)
def test_what_is_refused(given):
    with pytest.raises(ParameterError):
        SeriesGaussian(**{"scales": (F(1),), "factor": HALF, "series": 1} | given)
