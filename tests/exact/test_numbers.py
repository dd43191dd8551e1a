"""Exact arguments, and results that are rounded outward."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
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
    "value",
    ["1e999999999", "1E-99999999 ", "1e10_001", "1e1_000_000_000", "1e٩٩٩٩٩٩٩٩٩", Decimal("1e20000")],
)
def test_numbers_that_would_fill_the_memory_with_digits_are_refused(value):
    """One of the digits of other scripts is one to `Fraction`, too."""
    with pytest.raises(ParameterError, match="finite number"):
        as_fraction(value, "epsilon")
    assert as_fraction("1e10_000", "epsilon") == 10**10_000 and as_fraction("1e-٩", "x") == Fraction(1, 10**9)
