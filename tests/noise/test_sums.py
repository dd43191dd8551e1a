"""Sums of noises: against mpmath, against draws, and for many sums at once."""

import math

import mpmath
import numpy as np
import pytest

from sfumato.noise import Gaussian, Laplace, SeededWords, noise_sums
from sfumato.noise.noise_sums import NoiseSum, log10_outside

LAWS = {"laplace": Laplace, "gaussian": Gaussian}


@pytest.mark.parametrize("b, c", [(1, 1), (1, 0.999999), (3, 2), (1, 1e-3), (5, 1e-12)])
def test_two_laplace_noises_against_convolution(b, c):
    noise = NoiseSum(((float(b), Laplace(2**20)), (float(c), Laplace(2**20))))
    big, small = mpmath.mpf(b), mpmath.mpf(c)
    with mpmath.workdps(60):
        for t in (0.5, 3, 60, 2000):
            if b == c:
                true = mpmath.exp(-t / big) * (1 + t / big / 2)
            else:
                true = (big**2 * mpmath.exp(-t / big) - small**2 * mpmath.exp(-t / small)) / (
                    big**2 - small**2
                )
            got = noise.log10_tail(t * 2**20 + noise.rounding)
            assert abs(got - float(mpmath.log10(true))) <= 1e-9 * abs(got) + 1e-9
            k = -float(mpmath.log10(true))
            assert abs(noise._smooth(k) / (t * 2**20) - 1) < 1e-9


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("weights", [(1, -3), (1, 1), (1, 0.5, -2), (1, 1, 1, 1)])
@pytest.mark.parametrize("scale", [0.5, 40])
def test_sums_of_noises_are_within_their_tolerance(kind, weights, scale):
    n, words = 200_000, SeededWords(repr((kind, weights, scale)))
    law = LAWS[kind](scale)
    total = sum(w * law.rounded(n, words) for w in weights)
    noise = NoiseSum(tuple((float(w), law) for w in weights))
    for k in (1, 2, 3):
        outside = (np.abs(total) > noise.tolerance(k)).sum()
        assert outside <= n * 10**-k + 5 * math.sqrt(n * 10**-k)
        t = float(np.quantile(np.abs(total), 1 - 10**-k))
        assert noise.log10_tail(t) >= math.log10((np.abs(total) >= t).mean()) - 0.05
    if scale == 40 and (kind == "gaussian" or len(weights) == 2):
        assert outside >= n * 1e-3 * 0.5


def test_two_equal_laplace_noises_by_hand():
    """e^-t (1 + t/2) = 0.05 at t = 4.1130032..., which an error bar once gave as 4.1132."""
    law = Laplace(10**9)
    t = NoiseSum(((1e-9, law), (1e-9, law))).tolerance(-math.log10(0.05))
    assert 4.1130032807196 < t - 1e-9 < 4.1130032807400


@pytest.mark.parametrize("failure", [0.999, 0.5, 0.05, 1e-9, 1e-300])
@pytest.mark.parametrize(
    "b, c", [(1, 1), (1, 0.99995), (1, 1 - 1e-14), (3, 2), (1, 1e-3), (1e120, 5e100), (7, 0)]
)
def test_tolerances_of_two_laplace_noises_are_outward(b, c, failure):
    law = Laplace(10**15)  # so fine a grid that rounding adds nothing
    t = NoiseSum(((b * 1e-15, law), (c * 1e-15, law))).tolerance(-math.log10(failure))
    with mpmath.workdps(60):
        r, u = mpmath.mpf(c) / b, mpmath.mpf(t) / b
        if r == 1:
            tail = mpmath.exp(-u) * (1 + u / 2)
        else:
            tail = (mpmath.exp(-u) - (r * r * mpmath.exp(-u / r) if r else 0)) / (1 - r * r)
        assert 0 < (mpmath.log(failure) - mpmath.log(tail)) / u < 1e-11 + 3e-15 / u


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_many_sums_at_once_are_each_as_one(kind, count):
    laws = [LAWS[kind](10 * (i + 1)) for i in range(count)]
    weights = np.abs(np.sin(np.arange(1, 7 * count + 1))).reshape(count, 7)
    weights[-1, 0] = 0.0
    for k in (0.3, 1.3, 20):
        found = NoiseSum(tuple(zip(weights, laws, strict=True))).tolerance(k)
        one_by_one = [
            NoiseSum(tuple(zip(column.tolist(), laws, strict=True))).tolerance(k) for column in weights.T
        ]
        assert found == pytest.approx(one_by_one, rel=1e-9)


@pytest.mark.parametrize("count", [3, 4, 77])
def test_many_laplace_noises_are_bounded_well(count, monkeypatch):
    """Against Gil-Pelaez' integral of the characteristic function, 1 / (1 + s^2)^n."""
    law = Laplace(10**6)
    noise = NoiseSum([(1e-6, law)] * count)
    t = noise.tolerance(2)
    s = np.linspace(1e-9, 100, 1_000_001)
    outside = 1 - 2 / math.pi * np.trapezoid(np.sin(s * t) / s / (1 + s * s) ** count, s)
    assert 10**-2.35 < outside < 1e-2
    assert math.log10(outside) <= noise.log10_tail(t) <= -1.99
    # By Chernoff's bound with both sides they go a fourth farther.
    monkeypatch.setattr(noise_sums, "laplaces_tolerance", lambda *given: math.inf)
    assert NoiseSum([(1e-6, law)] * count).tolerance(2) > 1.25 * t


@pytest.mark.parametrize("scales", [(5, 3, 1), (4, 2, 1, 0.5), (1, 0.9, 0.1), (8, 7, 6, 5, 4, 3)])
def test_tolerances_of_several_laplace_noises_are_outward(scales):
    """Against partial fractions: P(|S| > t) is a sum of e^(-t / b), each times a product over the others."""
    noise = NoiseSum([(b * 1e-12, Laplace(10**12)) for b in scales])
    with mpmath.workdps(60):
        own = [mpmath.mpf(b) for b in scales]
        parts = [mpmath.fprod(b**2 / (b**2 - c**2) for c in own if c != b) for b in own]

        def tail(t):
            return mpmath.fsum(p * mpmath.exp(-mpmath.mpf(t) / b) for p, b in zip(parts, own, strict=True))

        for k in (0.3, -math.log10(0.05), 2, 9, 80):
            t = noise.tolerance(k)
            assert -k - 0.7 - 0.07 * k < mpmath.log10(tail(t)) <= -k
            assert mpmath.log10(tail(t)) <= noise.log10_tail(t) <= -k + 0.02


def test_tails_of_one_noise():
    with mpmath.workdps(30):
        for x in (0.5, 5, 36, 40, 1e4):
            true = float(mpmath.log10(mpmath.erfc(x / mpmath.sqrt(2))))
            assert log10_outside(Gaussian(1), x) == pytest.approx(true, rel=1e-14)
    assert log10_outside(Gaussian(1), 0) == log10_outside(Laplace(2), -1) == 0
