"""Digits of noisy numbers."""

from hypothesis import given
from hypothesis import strategies as st

from sfumato.display.formatting import shown

finite = st.floats(-1e14, 1e14, allow_nan=False)


@given(st.lists(st.tuples(finite, st.floats(1e-6, 1e6)), min_size=1, max_size=8))
def test_the_shown_error_is_never_too_small_and_the_value_is_near(rows):
    for (value, error), s in zip(rows, shown(*zip(*rows, strict=True)), strict=True):
        width = float(s.error.replace(",", ""))
        assert error * (1 - 1e-12) <= width <= max(1.11 * error, error + 1)
        assert abs(float(s.value.replace(",", "")) - value) <= max(0.06 * error, 0.5) * (1 + 1e-9)
