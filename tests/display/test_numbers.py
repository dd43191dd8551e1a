"""Digits of noisy numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.display.formatting import shown


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (3.09111, 0.28862, "3.09 ± 0.29"),
        (3.0, 0.1, "3.00 ± 0.10"),
        (27.43, 9.05, "27.4 ± 9.1"),
        (0.5, 1e-4, "0.50000 ± 0.00010"),
        (123456, 1234.5, "123,456 ± 1,235"),
        (-123456.7, 1234.5, "-123,457 ± 1,235"),
        (7, 0.0, "7 ± 0"),
        (1.25, 0.0, "1.250000 ± 0.000000"),
        (2.0, math.inf, "2 ± Infinity"),
        (1.23456789e15, 1e6, "1.23456789e+15 ± 1e+06"),
        (1e300, 1e299, "1e+300 ± 1e+299"),
        (1e-12, 2e-13, "1e-12 ± 2e-13"),
        (math.nan, 1.0, "nan ± 1"),
    ],
)
def test_digits(value, error, expected):
    only = shown([value], [error])[0]
    assert f"{only.value} ± {only.error}".replace("∞", "Infinity") == expected


finite = st.floats(-1e14, 1e14, allow_nan=False)


@given(st.lists(st.tuples(finite, st.floats(1e-6, 1e6)), min_size=1, max_size=8))
def test_the_shown_error_is_never_too_small_and_the_value_is_near(rows):
    for (value, error), s in zip(rows, shown(*zip(*rows, strict=True)), strict=True):
        width = float(s.error.replace(",", ""))
        assert error * (1 - 1e-12) <= width <= max(1.11 * error, error + 1)
        assert abs(float(s.value.replace(",", "")) - value) <= max(0.06 * error, 0.5) * (1 + 1e-9)
