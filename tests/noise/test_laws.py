import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.noise import Gaussian, Laplace, Law

laws = [Laplace, Gaussian]
ks = [0.01, 0.5, 1, 5, 15, 16, 23, 24, 25, 100, 300]
xs = [
    0.0,
    1e-300,
    1e-9,
    0.1,
    0.3,
    1.0,
    2.5,
    5.0,
    8.3,
    12.0,
    20.0,
    30.0,
    37.4,
    38.4,
    38.6,
    100.0,
    700.0,
    744.0,
    746.0,
]


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
@pytest.mark.parametrize("scale", [1, 0.1, "1/3", Fraction(7, 2), 1e-5])
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
def test_subnormal_tails_are_not_lost(law):
    x = 744.0 if law is Laplace else 38.3
    assert 0 < law(1).sf(x) < 2.3e-308


@pytest.mark.parametrize("law", laws)
def test_quantiles_against_mpmath(law):
    ours = law("2/3")
    for p in [
        1e-320,
        1e-300,
        1e-100,
        1e-17,
        1e-5,
        0.1,
        0.25,
        0.4999999,
        0.5 - 2**-54,
        0.5 + 2**-53,
        0.6,
        0.99,
        1 - 2**-53,
    ]:
        x = ours.tail_quantile(p)
        assert ours.quantile(p) == -x
        # The true quantile lies within a float of x: the tail takes p between x's two neighbours.
        below, above = math.nextafter(x, -math.inf), math.nextafter(x, math.inf)

        def tail(v):
            y = abs(_mpf(v)) * 3 / 2
            return _outside(law, y) / 2 if v >= 0 else 1 - _outside(law, y) / 2

        assert tail(below) > _mpf(p) > tail(above)


@pytest.mark.parametrize("law", laws)
def test_quantile_ends(law):
    assert law(3).quantile([0.0, 0.5, 1.0]).tolist() == [-math.inf, 0.0, math.inf]
    assert law(3).tail_quantile([0.0, 0.5, 1.0]).tolist() == [math.inf, 0.0, -math.inf]
    assert law(3).tail_quantile(0) == math.inf
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ParameterError):
            law(3).quantile(p)


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


def test_known_tolerances():
    for k, multiplier in ((16, 8.30478542519411), (23, 10.0416376121756), (25, 10.4861701795641)):
        assert math.isclose(Gaussian(sigma=1).tolerance(k), multiplier, rel_tol=1e-14)
    assert Laplace(scale="1/50").tolerance(23) == 1.059189142777261


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", ["1/50", 1, "3.7", 1000, 2**30, 2**57])
def test_rounded_tolerance_is_the_smallest(law, scale):
    ours = law(scale)
    for k in (0.01, 0.5, 5, 15, 25, 300):
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
@pytest.mark.parametrize("x", ["0", "1/3", "-1/3", "7", "-7", "40", "100000"])
def test_tail_bounds_enclose(law, x):
    ours = law("2/3")
    truth = _outside(law, abs(_mpf(x)) * 3 / 2) / 2
    truth = truth if Fraction(x) >= 0 else 1 - truth
    for bits in (10, 53, 120):
        low, high = ours.tail_bounds(Fraction(x), bits)
        assert _mpf(low) <= truth <= _mpf(high)
        assert high - low <= Fraction(1, 2**bits) * (high if high >= Fraction(1, 2**2000) else 1)


@pytest.mark.parametrize("law", laws)
def test_tiny_tails_are_bounded_by_a_fraction_of_moderate_size(law):
    for x in (10**6, 10**12, 10**400):
        low, high = law(1).tail_bounds(x)
        assert 0 <= low <= high <= Fraction(1, 2**65536)
        assert high > 0


@pytest.mark.parametrize("law", laws)
def test_arrays_and_numbers(law):
    ours = law(2)
    x = np.array([[0.0, 1.0], [-2.0, math.inf]])
    assert ours.sf(x).shape == (2, 2)
    assert ours.sf(x)[0, 1] == ours.sf(1.0) == ours.sf(1) == ours.sf(Fraction(1)) == ours.sf(np.float64(1))
    assert isinstance(ours.sf(np.float64(1)), float)
    assert ours.sf(math.inf) == 0.0
    assert ours.cdf(math.inf) == 1.0
    assert math.isnan(ours.sf(math.nan))
    assert ours.sf([]).shape == (0,)


def test_values_of_a_law():
    assert Laplace(scale=0.1).scale == Fraction(0.1)
    assert Laplace(scale="0.1").scale == Fraction(1, 10)
    assert Laplace("1/3") == Laplace(scale=Fraction(1, 3))
    assert hash(Gaussian(2)) == hash(Gaussian(sigma=2.0))
    assert Laplace(1) != Gaussian(1)
    assert repr(Gaussian(sigma="1/3")) == "Gaussian(sigma=1/3)"
    assert isinstance(Laplace(1), Law)
    assert pickle.loads(pickle.dumps(Laplace(3))) == Laplace(3)
    assert Laplace(3).variance == 18.0
    assert Laplace(3).standard_deviation == math.sqrt(18)
    assert (Gaussian(3).variance, Gaussian(3).standard_deviation) == (9.0, 3.0)
    with pytest.raises(AttributeError):
        Laplace(3).scale = Fraction(1)


@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "x", None, True])
def test_bad_parameters(law, bad):
    with pytest.raises(ParameterError):
        law(bad)
    for method in ("tolerance", "complementary_tolerance", "rounded_tolerance"):
        with pytest.raises(ParameterError):
            getattr(law(1), method)(bad)


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


numbers = st.floats(-1e3, 1e3)
scales = st.fractions(Fraction(1, 1000), 1000)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.sampled_from(laws), scales, numbers, numbers)
def test_laws_are_monotone_and_symmetric(law, scale, x, y):
    ours = law(scale)
    low, high = min(x, y), max(x, y)
    assert ours.sf(low) >= ours.sf(high)
    assert ours.cdf(low) <= ours.cdf(high)
    assert ours.sf(x) == ours.cdf(-x)
    lower, upper = ours.tail_bounds(x)
    assert lower <= upper
    assert abs(ours.sf(x) - float(lower)) <= 1e-15 * ours.sf(x) + 5e-324


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.sampled_from(laws), scales, st.floats(1e-300, 1.0))
def test_quantiles_invert_tails(law, scale, p):
    ours = law(scale)
    x = ours.tail_quantile(p)
    below, above = math.nextafter(x, -math.inf), math.nextafter(x, math.inf)
    assert ours.sf(below) >= p >= ours.sf(above)
