"""Laws of rounded noise and of sums of noises, against mpmath, closed forms and draws."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import DiscreteLaplace, Gaussian, Laplace, SeededWords
from sfumato.noise.laws import RoundedNoise
from sfumato.noise.noise_sums import NoiseSum, log10_two_sided_tail

laws = [Laplace, Gaussian]

ks = [0.01, 1, 16, 25, 300]

xs = [0.0, 1e-300, 0.3, 2.5, 8.3, 30.0, 38.4, 38.6, 100.0, 744.0, 746.0]


@pytest.fixture(autouse=True)
def digits():
    """What mpmath computes with, in this module alone."""
    with mpmath.workdps(60):
        yield


def _outside(law, y):
    """P(|Z| > y) at scale 1, by mpmath."""
    return mpmath.exp(-y) if law is Laplace else mpmath.erfc(y / mpmath.sqrt(2))


def _inside(law, y):
    return -mpmath.expm1(-y) if law is Laplace else mpmath.erf(y / mpmath.sqrt(2))


def _mpf(q) -> mpmath.mpf:
    q = Fraction(q)
    return mpmath.mpf(q.numerator) / q.denominator


def _close(ours: float, truth) -> bool:
    return abs(ours - truth) <= 1e-15 * abs(truth) + mpmath.mpf(2) ** -1075


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", [1, "1/3", 1e-5])
def test_tails_against_mpmath(law, scale):
    ours = law(scale)
    for y in xs:
        x = float(Fraction(y) * ours.unit)
        tail = _outside(law, _mpf(x) / _mpf(ours.unit)) / 2
        assert _close(ours.sf(x), tail)
        assert _close(ours.cdf(-x), tail)
        assert _close(ours.cdf(x), 1 - tail)
        assert _close(ours.sf(-x), 1 - tail)


@pytest.mark.parametrize("law", laws)
def test_quantiles_against_mpmath(law):
    ours = law("2/3")
    for p in [1e-320, 1e-100, 1e-5, 0.25, 0.5 - 2**-54, 0.5 + 2**-53, 0.6, 1 - 2**-53]:
        x = ours.tail_quantile(p)
        assert ours.quantile(p) == -x
        # The true quantile lies within a float of x: the tail takes p between x's two neighbours.
        below, above = math.nextafter(x, -math.inf), math.nextafter(x, math.inf)

        def tail(v):
            y = abs(_mpf(v)) * 3 / 2
            return _outside(law, y) / 2 if v >= 0 else 1 - _outside(law, y) / 2

        assert tail(below) > _mpf(p) > tail(above)


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("k", [*ks, 1000])
def test_tolerances(law, k):
    ours = law("1/50")
    chance = mpmath.mpf(10) ** -_mpf(k)
    t = ours.tolerance(k)
    below, above = (_mpf(math.nextafter(t, end)) * 50 for end in (0, math.inf))
    assert _outside(law, below) > chance > _outside(law, above)
    if k <= 300:
        t = ours.complementary_tolerance(k)
        below, above = (_mpf(math.nextafter(t, end)) * 50 for end in (0, math.inf))
        assert _inside(law, below) < chance < _inside(law, above)


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", ["1/50", "3.7", 2**57])
def test_rounded_tolerance_is_the_smallest(law, scale):
    ours = law(scale)
    for k in (0.01, 5, 300):
        t = ours.rounded_tolerance(k)
        chance = mpmath.mpf(10) ** -_mpf(k)
        assert _outside(law, (t + mpmath.mpf(0.5)) / _mpf(ours.unit)) <= chance
        assert t == 0 or _outside(law, (t - mpmath.mpf(0.5)) / _mpf(ours.unit)) > chance
    for confidence in (0, "1/3", 0.5, "0.95", 1 - Fraction(1, 10**30)):
        t = ours.rounded_half_width(confidence)
        level = _mpf(Fraction(confidence))
        assert _inside(law, (t + mpmath.mpf(0.5)) / _mpf(ours.unit)) >= level
        assert t == 0 or _inside(law, (t - mpmath.mpf(0.5)) / _mpf(ours.unit)) < level


@pytest.mark.parametrize("law", laws)
def test_rounded_law(law):
    ours = law("3.3")
    m = np.arange(-60, 61)
    assert np.allclose(
        np.cumsum(ours.rounded_pmf(m)) + ours.rounded_cdf(-61), ours.rounded_cdf(m), rtol=1e-13, atol=0
    )
    assert np.array_equal(ours.rounded_sf(m), ours.rounded_cdf(-m - 1))
    assert ours.rounded_sf(7) == ours.sf(7.5)
    assert isinstance(ours.rounded_sf(7), float)
    assert ours.rounded_pmf(np.int64(4)) == ours.rounded_pmf(-4)
    big = law(2**57)
    height = 0.5 if law is Laplace else 1 / math.sqrt(2 * math.pi)
    assert math.isclose(big.rounded_pmf(0), height / 2**57, rel_tol=1e-13)
    assert law(1e-3).rounded_pmf(0) == 1.0
    for bad in (1.5, "1", True, [0.5]):
        with pytest.raises(ParameterError):
            ours.rounded_sf(bad)


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("x", ["0", "1/3", "-7", "100000"])
def test_tail_bounds_enclose(law, x):
    ours = law("2/3")
    truth = _outside(law, abs(_mpf(x)) * 3 / 2) / 2
    truth = truth if Fraction(x) >= 0 else 1 - truth
    for bits in (10, 53, 120):
        low, high = ours.tail_bounds(Fraction(x), bits)
        assert _mpf(low) <= truth <= _mpf(high)
        assert high - low <= Fraction(1, 2**bits) * (high if high >= Fraction(1, 2**2000) else 1)


@pytest.mark.noise_cannot_matter("it looks at errors and shapes")
@pytest.mark.parametrize("law", laws)
def test_bad_draws(law):
    for n in (-1, 1.0, "3", None, True):
        with pytest.raises(ParameterError):
            law(1).rounded(n)
    with pytest.raises(ParameterError, match="coarser grid"):
        law(2**57 + 1).rounded(1)
    with pytest.raises(ParameterError):
        law(1).rounded_half_width(1)
    assert law(2**57).rounded(2).shape == (2,)


# Discrete Laplace noise: P(X = m) is tanh(1 / 2b) r^|m| with r = e^(-1 / b).

discrete_scales = [10**-6, "1/50", "1/3", 1, "3.3", 1000, 2**40, 2**57]


def _beyond(law, m):
    """P(X > m) for whole m, by mpmath: masses are a geometric series on either side of 0."""
    r = mpmath.exp(-1 / _mpf(law.scale))
    return r ** (m + 1) / (1 + r) if m >= 0 else 1 - r**-m / (1 + r)


@pytest.mark.parametrize("scale", discrete_scales)
def test_the_discrete_law_against_mpmath(scale):
    law = DiscreteLaplace(scale)
    b = _mpf(law.scale)
    sizes = [0, 1, 2, 7, int(3 * law.scale), int(50 * law.scale)]
    for m in [*sizes, *(-m for m in sizes)]:
        assert _close(law.sf(m), _beyond(law, m)) and law.sf(m) == law.sf(m + 0.25) == law.rounded_sf(m)
        assert _close(law.cdf(m), _beyond(law, -m - 1)) and law.cdf(m) == law.rounded_cdf(m)
        mass = mpmath.tanh(1 / (2 * b)) * mpmath.exp(-abs(m) / b)
        assert math.isclose(law.rounded_pmf(m), mass, rel_tol=1e-13, abs_tol=1e-300)
        low, high = law.tail_bounds(m)
        assert _mpf(low) <= _beyond(law, m) <= _mpf(high) <= _mpf(low) + mpmath.mpf(2) ** -63
        if m > 0:
            assert log10_two_sided_tail(law, m + 0.2) == pytest.approx(
                float(mpmath.log10(2 * _beyond(law, m))), rel=1e-12
            )
    assert math.isclose(
        law.standard_deviation, 1 / (mpmath.sqrt(2) * mpmath.sinh(1 / (2 * b))), rel_tol=1e-15, abs_tol=1e-300
    )


@pytest.mark.parametrize("scale", discrete_scales[:-1])  # of the last, whole numbers are no floats
def test_discrete_quantiles_and_tolerances_are_the_nearest(scale):
    law = DiscreteLaplace(scale)
    for p in ("1e-300", "1e-9", "0.3", "0.499", "0.6", "0.999"):
        x = int(law.tail_quantile(Fraction(p)))
        assert _beyond(law, x) <= _mpf(p) < _beyond(law, x - 1) and law.quantile(Fraction(p)) == -x
    for k in ("0.01", 5, 300):
        chance = mpmath.mpf(10) ** -_mpf(k)
        t = law.rounded_tolerance(k)
        assert 2 * _beyond(law, t) <= chance and (t == 0 or 2 * _beyond(law, t - 1) > chance)
        assert law.tolerance(k) == float(t)
        if k != 300:
            t = int(law.complementary_tolerance(k))
            assert t == 0 or 1 - 2 * _beyond(law, t - 1) <= chance
            assert 1 - 2 * _beyond(law, t) > chance
    t = law.rounded_half_width("0.95")
    assert 2 * _beyond(law, t) <= _mpf("0.05") and (t == 0 or 2 * _beyond(law, t - 1) > _mpf("0.05"))


@pytest.mark.parametrize("scale", [10**-6, "1/3", 2, "1e3", 2**57])
def test_a_discrete_draw_is_near_its_real_one(scale):
    """Laplace and discrete noise of the same words are at most half a step and the shift apart."""
    law, real, words = DiscreteLaplace(scale), Laplace(Fraction(scale)), 2000
    assert 0 < law.shift <= 0.5 and real.shift == 0
    drawn = law.rounded(words, SeededWords(7))
    signed = SeededWords(7).take(words).view(np.int64).tolist()
    for x, w in zip(drawn.tolist(), signed, strict=True):
        u = (mpmath.mpf(~w if w < 0 else w) + mpmath.mpf(0.5)) / 2**63
        size = -mpmath.log(u) * _mpf(real.scale)
        assert abs(abs(x) - size) <= 0.5 + law.shift + _mpf(real.scale) * mpmath.mpf(2) ** -50


@mpmath.workdps(60)
@pytest.mark.parametrize("law", [of(b) for of in (Laplace, DiscreteLaplace) for b in ("0.0001", "0.3", 10**6)] + [Gaussian(s) for s in ("0.4", "1.9", 9)], ids=str)  # fmt: skip
def test_variance_and_exponent_against_mpmath(law):
    noise = RoundedNoise(law)
    unit = mpmath.mpf(law.unit.numerator) / law.unit.denominator

    def mass(m):
        m = abs(m)
        if isinstance(law, Laplace):
            return height * mpmath.exp(-m / unit) if m else 1 - 2 * height * q / (1 - q)
        tail = [
            mpmath.erfc((m + h) / unit / mpmath.sqrt(2)) / 2 for h in (-mpmath.mpf(1) / 2, mpmath.mpf(1) / 2)
        ]
        return tail[0] - tail[1]

    if isinstance(law, Laplace):
        q, height = mpmath.exp(-1 / unit), (mpmath.tanh if law.discrete else mpmath.sinh)(1 / (2 * unit))
        variance = 2 * height * q * (1 + q) / (1 - q) ** 3
    else:
        variance = 2 * sum(m * m * mass(m) for m in range(1, int(40 * unit) + 40))
    assert math.isclose(noise.variance, variance, rel_tol=1e-12, abs_tol=1e-300)
    for part in (1e-3, 0.5, 0.999):
        s = mpmath.mpf(part) * (1 / unit if isinstance(law, Laplace) else 8 / max(unit, 1))
        if isinstance(law, Laplace):
            up, down = q * mpmath.exp(s), q * mpmath.exp(-s)
            total = mass(0) + height * (up / (1 - up) + down / (1 - down))
        else:
            total = mass(0) + sum(2 * mass(m) * mpmath.cosh(m * s) for m in range(1, int(40 * unit) + 80))
        given, truth = float(noise.exponent(np.array([float(s)]))[0]), float(mpmath.log(total))
        assert given >= truth - 1e-12 * max(1, abs(truth))
        if s < 5:
            assert math.isclose(given, truth, rel_tol=1e-11, abs_tol=1e-12)


def test_a_laplace_exponent_ends_at_its_reach():
    noise = RoundedNoise(Laplace(4))
    assert noise.reach == 0.25 and np.isinf(noise.exponent(np.array([0.25, 1.0, 1e6]))).all()
    assert np.isfinite(RoundedNoise(Laplace("0.001")).exponent(np.array([900.0]))).all()


# Sums.

LAWS = {"laplace": Laplace, "discrete": DiscreteLaplace, "gaussian": Gaussian}


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("weights, scale", [((1, -3), 0.5), ((1, 0.5, -2), 40), ((1, 1, 1, 1), 0.5)])
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


@pytest.mark.parametrize("failure", [0.999, 0.05, 1e-300])
@pytest.mark.parametrize("b, c", [(1, 1), (1, 1 - 1e-14), (3, 2), (1e120, 5e100), (7, 0)])
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
@pytest.mark.parametrize("count", [2, 5])
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


@pytest.mark.parametrize("scales", [(5, 3, 1), (1, 0.9, 0.1), (8, 7, 6, 5, 4, 3)])
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
            assert log10_two_sided_tail(Gaussian(1), x) == pytest.approx(true, rel=1e-14)
    assert log10_two_sided_tail(Gaussian(1), 0) == log10_two_sided_tail(Laplace(2), -1) == 0
