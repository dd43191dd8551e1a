"""Searches end on the side that is asked for, as near as is asked for, and soon."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.exact.root_finding import crossing, first_whole, first_whole_near


@settings(max_examples=100, deadline=None)
@given(st.floats(-100, 100), st.floats(-20, 20), st.floats(0.01, 100), st.booleans())
def test_crossing_brackets_a_root(root, start, slope, jump):
    seen = {}

    def height(x):
        smooth = -slope * (x - root) - (x - root) ** 3 / 1000
        seen[x] = (float("inf") if smooth > 0 else float("-inf")) if jump else smooth
        return seen[x]

    x = crossing(height, start, 2.0**-30, stride=1.0, reach=500.0)
    assert seen[x] <= 0
    assert any(seen[y] > 0 for y in seen if x - 2.0**-29.9 <= y < x)
    assert len(seen) < 60


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30), st.integers(0, 10**6))
def test_first_whole_from_any_guess(answer, guess, off):
    for start in (guess, answer - off, answer + off):
        asked = []

        def enough(n, asked=asked):
            asked.append(n)
            return n >= answer

        assert first_whole_near(enough, start) == answer
        assert len(asked) <= 4 + 2 * abs(answer - start).bit_length()
        assert first_whole_near(enough, start, least=answer - 3) == answer
        asked.clear()
        assert first_whole_near(enough, start, least=answer + 7) == answer + 7
        assert min(asked) >= answer + 7
    assert first_whole(lambda n: n >= answer, answer - 1 - off, answer + off + 1) == answer
