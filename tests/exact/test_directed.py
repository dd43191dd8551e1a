"""Directed rounding and tails, against mpmath."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.exact.outward_rounding import (
    both_tails,
    convert,
    directed,
    exactly,
    exp_bounds,
    expm1_down,
    log1p_up,
    log_bounds,
    log_tail,
    round_bits,
)

NUMBERS = st.builds(
    lambda n, d, e: Fraction(n, d) * Fraction(2) ** e,
    st.integers(-(10**20), 10**20), st.integers(1, 10**20), st.integers(-60, 60),
)  # fmt: skip


def real(x):
    x = Fraction(x) if isinstance(x, (int, Fraction)) else exactly(x)
    return mpmath.mpf(x.numerator) / x.denominator


@settings(max_examples=100, deadline=None)
@given(NUMBERS, st.sampled_from([2, 53, 200]))
def test_conversions_are_outward_and_tight(x, bits):
    low, high = (round_bits(x, bits, up=up) for up in (False, True))
    assert low <= x <= high and high - low <= abs(x) * Fraction(2, 2**bits)
    assert exactly(convert(low, directed(bits).up)) == low


@settings(max_examples=100, deadline=None)
@given(NUMBERS.filter(lambda x: abs(x) < 2000), st.sampled_from([64, 256]))
def test_exponentials_and_logarithms_are_enclosed(x, bits):
    with mpmath.workdps(400):
        low, high = exp_bounds(x, bits)
        truth = mpmath.exp(real(x))
        assert real(low) <= truth <= real(high)
        assert real(high) / real(low) - 1 <= 4 * (abs(real(x)) + 1) * mpmath.mpf(2) ** -bits
        less = real(expm1_down(x, bits))
        assert less <= mpmath.expm1(real(x))
        for y in (abs(x), 1 + x / 2**80) if x else ():
            low, high = log_bounds(y, bits)
            truth = mpmath.log(real(y))
            assert real(low) <= truth <= real(high)
            assert real(high) - real(low) <= 8 * abs(truth) * mpmath.mpf(2) ** -bits
            assert real(log1p_up(y, bits)) >= mpmath.log(1 + real(y))


def test_the_logarithm_of_one():
    assert log_bounds(Fraction(1)) == (0, 0)


@pytest.mark.parametrize("x", [-50, -1, Fraction(-1, 10**9), 0, Fraction(1, 10**9), 1, 7, 200, 10**4])
@pytest.mark.parametrize("bits", [64, 300])
def test_gaussian_tails_are_enclosed(x, bits):
    x = Fraction(x)
    with mpmath.workdps(130):
        truth = mpmath.erfc(real(x) / mpmath.sqrt(2))
        for given_x in (x, convert(x, directed(400).up)):
            low, high = (real(t) for t in both_tails(given_x, bits))
            # Of an x that was rounded up, the tail is a little below.
            assert (
                low <= truth * (1 + mpmath.mpf(10) ** -100) and truth * (1 - mpmath.mpf(10) ** -100) <= high
            )
            assert high / low - 1 <= (real(x) ** 2 + 4) * 4 * mpmath.mpf(2) ** -bits


def test_gaussian_tails_in_floats():
    x = np.concatenate(
        [np.linspace(-38, 38, 401), np.geomspace(1e-300, 1e150, 200), -np.geomspace(1e-300, 30, 99)]
    )
    with mpmath.workdps(60):
        for place, found in zip(x.tolist(), log_tail(x).tolist(), strict=True):
            if place > 100:  # where mpmath is slow: the asymptotic series
                y = mpmath.mpf(place)
                truth = (
                    -y * y / 2
                    - mpmath.log(y * mpmath.sqrt(2 * mpmath.pi))
                    + mpmath.log(1 - 1 / y**2 + 3 / y**4)
                )
            else:
                truth = mpmath.log(mpmath.erfc(mpmath.mpf(place) / mpmath.sqrt(2)) / 2)
            assert abs(found - truth) <= 2.0**-49 * (abs(truth) if place > 0 else 1)
