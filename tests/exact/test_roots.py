"""Searches end on the side that is asked for, as near as is asked for, and soon."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.exact.root_finding import crossing, find_first_integer, first_float, first_whole, narrow


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


HEIGHTS = {
    "a line": (lambda x, root: 3 * (x - root), 12),
    "a curve": (lambda x, root: np.expm1(9 * (x - root)), 20),
    "steps": (lambda x, root: x - root + np.floor(7 * (x - root) + 0.5) / 5, 20),
    "a jump": (lambda x, root: np.where(x > root, 1.0, -1.0), 58),
    "a jump to infinity": (lambda x, root: np.where(x > root, np.inf, -1.0), 58),
    "a flat root": (lambda x, root: (x - root) ** 3, 58),
}


@pytest.mark.parametrize("name", HEIGHTS)
@pytest.mark.parametrize("far", [100.0, -1.0])
def test_heights_close_each_bracket_soon_and_no_later_than_halving_does(name, far):
    height, most = HEIGHTS[name]
    shares = np.concatenate([np.random.default_rng(3).random(500), [0.0, 1e-9, 0.5, 1 - 1e-9]])
    root, seen = shares * far, [0]

    def beyond(x):
        seen[0] += 1
        return height(x / far, root / far)

    near, end = narrow(beyond, np.zeros(len(root)), np.full(len(root), far), 50)
    assert (beyond(near) <= 0).all() and (beyond(end) > 0).all(), seen
    assert (np.abs(end - near) <= 1.3 * abs(far) * 2.0**-50).all()
    assert seen[0] - 4 <= most


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30), st.integers(0, 10**6))
def test_first_whole_from_any_guess(answer, guess, off):
    for start in (guess, answer - off, answer + off):
        asked = []

        def enough(n, asked=asked):
            asked.append(n)
            return n >= answer

        assert find_first_integer(enough, start) == answer
        assert len(asked) <= 4 + 2 * abs(answer - start).bit_length()
        assert find_first_integer(enough, start, least=answer - 3) == answer
        asked.clear()
        assert find_first_integer(enough, start, least=answer + 7) == answer + 7
        assert min(asked) >= answer + 7
    assert first_whole(lambda n: n >= answer, answer - 1 - off, answer + off + 1) == answer


@pytest.mark.parametrize("answer", [5e-324, 2.0**-1022, 0.1, 1.0, 1e300])
def test_first_float_is_exact(answer):
    assert first_float(lambda x: x >= answer, 0.0, 1.5e308) == answer


def test_what_is_narrowed_does_not_depend_on_what_is_beside_it():
    goals = np.array([1e-6, 0.3, 2.0, 17.0, 1e6])
    near, far = narrow(lambda x: x**3 - goals, np.zeros(5), np.full(5, 1e3), 50)
    for i, goal in enumerate(goals):
        alone = narrow(lambda x, goal=goal: x**3 - goal, np.zeros(1), np.full(1, 1e3), 50)
        assert (near[i], far[i]) == (alone[0][0], alone[1][0])
