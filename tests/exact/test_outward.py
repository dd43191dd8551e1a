"""Exact arguments, and results that are rounded outward: tight, against mpmath and exact rationals."""

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.exact import (
    as_fraction,
    at_least_0,
    positive,
    positive_int,
    root_down,
    root_up,
    round_down,
    round_up,
    whole_number,
)
from sfumato.exact.outward_rounding import (
    Enclosure,
    both_tails,
    convert,
    directed,
    exactly,
    exp_bounds,
    expm1_down,
    is_less,
    log1p_up,
    log_bounds,
    log_tail,
    round_bits,
)

FRACTIONS = st.builds(lambda x, e: x * Fraction(2) ** e, st.fractions(), st.integers(-1200, 1200))


@pytest.mark.parametrize(
    "value", [0.1, 3, "1/3", "0.1", Decimal("0.1"), Fraction(2, 7), np.float32(0.1), np.int64(4)]
)
def test_numbers_are_taken_exactly(value):
    exact = Fraction(value.item() if hasattr(value, "item") else value)
    assert as_fraction(value, "x") == at_least_0(value, "x") == positive(value, "x") == exact


@pytest.mark.parametrize(
    "value", [None, True, np.True_, "a", "1/0", math.nan, math.inf, Decimal("NaN"), [1], 1j, np.ones(2)]
)
def test_what_is_no_number_is_refused(value):
    for take in (as_fraction, at_least_0, positive, positive_int):
        with pytest.raises(ParameterError, match="x"):
            take(value, "x")


def test_what_is_out_of_range_is_refused():
    assert at_least_0(0, "x") == 0 and whole_number(-2, "x", -2) == -2
    for take, value in ((at_least_0, -1e-300), (positive, 0), (positive_int, 0), (positive_int, 1.0)):
        with pytest.raises(ParameterError, match="x"):
            take(value, "x")


@given(FRACTIONS)
def test_floats_are_outward_and_nearest(x):
    low, high = round_down(x), round_up(x)
    assert low <= x <= high
    assert low == high or math.nextafter(low, math.inf) == high


@given(FRACTIONS.map(abs))
def test_roots_are_outward_and_tight(x):
    low, high = root_down(x), root_up(x)
    assert low**2 <= x <= high**2 and high - low <= high / 2**127


@pytest.mark.parametrize(
    "value", ["1e999999999", "1E-99999999 ", "1e10_001", "1e٩٩٩٩٩٩٩٩٩", Decimal("1e20000")]
)
def test_numbers_that_would_fill_the_memory_with_digits_are_refused(value):
    """One of the digits of other scripts is one to `Fraction`, too."""
    with pytest.raises(ParameterError, match="finite number"):
        as_fraction(value, "epsilon")
    assert as_fraction("1e10_000", "epsilon") == 10**10_000 and as_fraction("1e-٩", "x") == Fraction(1, 10**9)


# Directed rounding, tails and enclosures.

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


@pytest.mark.parametrize("x, bits", [(-50, 64), (0, 64), (Fraction(1, 10**9), 300), (7, 64), (10**3, 128)])
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


def test_enclosures_hold_what_they_stand_for():
    numbers = [Fraction(-7, 3), Fraction(-1, 9), Fraction(0), Fraction(1, 7), Fraction(5, 2)]
    for a in numbers:
        one = Enclosure.around(a, 64)
        assert abs(one).holds(abs(a)) and (-one).holds(-a) and one.times(Fraction(1, 3)).holds(a / 3)
        for b in numbers:
            other = Enclosure.around(b, 64)
            assert (one + other).holds(a + b) and (one - other).holds(a - b) and (one * other).holds(a * b)
            assert one.or_less(other).holds(min(a, b))
            if b > 0:
                assert (one / other).holds(a / b)
    third = Enclosure.around(Fraction(1, 3), 64)
    assert third.power(3).root(3).holds(Fraction(1, 3)) and third.log().exp().holds(Fraction(1, 3))
    assert (
        Enclosure.around(Fraction(5, 2), 64).rounded() == 3
        and Enclosure.around(Fraction(-5, 2), 64).rounded() == -2
    )
    assert (
        Enclosure.between(1, 3, -1, 64).rounded() is None
        and Enclosure.around(Fraction(7, 2), 64).floor() == 3
    )
    assert is_less(
        lambda bits: Enclosure.around(Fraction(1, 3), bits),
        lambda bits: Enclosure.around(Fraction(1, 3) + Fraction(1, 2**300), bits),
    )
