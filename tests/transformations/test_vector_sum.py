"""Vectors of whole numbers are brought into a ball after all rounding, and their body says no less."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.framework import Ball, BallBody, Norm
from sfumato.framework.contribution_bodies import weighted
from sfumato.transformations import VectorSum
from sfumato.transformations.statistics import vector_sum
from sfumato.transformations.statistics.vector_sum import FAR_STEPS, MAX_ENTRIES, MAX_RADIUS, within

HUGE = 2**126
sizes = st.one_of(st.integers(-40, 40), st.integers(-(2**41), 2**41), st.integers(-HUGE, HUGE))
vectors = st.lists(sizes, min_size=1, max_size=6)
radii = st.one_of(st.integers(1, 60), st.integers(1, MAX_RADIUS))
examples = settings(max_examples=200, derandomize=True, database=None, deadline=None)


@examples
@given(vectors, radii, st.sampled_from(Ball))
def test_what_is_added_is_in_the_ball_after_rounding(vector, radius, ball):
    assert ball.holds(within(vector, radius, ball), radius)


@examples
@given(vectors, radii, st.sampled_from([Ball.L1, Ball.L2]))
def test_a_vector_is_kept_or_loses_less_than_two_steps_of_each_entry(vector, radius, ball):
    near = [min(max(x, -FAR_STEPS), FAR_STEPS) for x in vector]
    found = within(vector, radius, ball)
    if ball.holds(near, radius):
        assert found == near
        return
    norm = sum(map(abs, near)) if ball is Ball.L1 else math.sqrt(sum(x * x for x in near))
    assert all(abs(y - x * radius / norm) <= 2 + 1e-6 * radius for x, y in zip(near, found, strict=True))
    assert all(abs(y) <= abs(x) and x * y >= 0 for x, y in zip(near, found, strict=True))


def outside(form: Callable[[Sequence[int], int, Ball], list[int]]) -> bool:
    """Whether a form leaves a short vector outside of a small ball."""
    cases = product(product(range(-4, 5), repeat=3), range(1, 7), Ball)
    return any(not ball.holds(form(vector, radius, ball), radius) for vector, radius, ball in cases)


def planted(old: str, new: str) -> Callable[[Sequence[int], int, Ball], list[int]]:
    source = inspect.getsource(within)
    assert old in source
    scope = dict(vars(vector_sum))
    exec("from __future__ import annotations\n" + source.replace(old, new), scope)
    return scope["within"]


def test_all_short_vectors_are_in_the_ball_and_planted_defects_are_not():
    assert not outside(within)
    for old, new in [
        ("isqrt(sum(x * x for x in near) - 1) + 1", "isqrt(sum(x * x for x in near))"),  # a root cut down
        ("abs(x) * radius // size", "(2 * abs(x) * radius + size) // (2 * size)"),  # rounded to nearest
        ("abs(x) * radius // size", "-(-abs(x) * radius // size)"),  # rounded up
        ("if ball.holds(near, radius)", "if ball.holds(near, radius + 1)"),
        ("sum(map(abs, near)) if ball is Ball.L1", "max(map(abs, near)) if ball is Ball.L1"),
        ("[min(max(x, -radius), radius)", "[min(x, radius)"),
    ]:
        assert outside(planted(old, new)), new


@pytest.mark.parametrize("ball", Ball)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_body_says_what_vectors_of_the_ball_reach(ball, length):
    radius = 5
    inside = [v for v in product(range(-radius, radius + 1), repeat=length) if ball.holds(v, radius)]
    body = BallBody("v", length, Fraction(radius), ball)
    for norm, scale in product(Norm, (Fraction(1), Fraction(7, 3))):
        reached = max(weighted(norm, v, [scale] * length) for v in inside)
        claimed = body.size(norm, [scale])
        assert reached <= claimed
        assert reached >= Fraction(8, 10) * claimed  # whole numbers do not fill a small ball
        assert body.size(norm, body.split(norm)) <= 1
        for less in (Ball.L1, Ball.L2):  # the claim of a smaller ball
            smaller = replace(body, ball=less).size(norm, [scale])
            if smaller < claimed * Fraction(8, 10):
                assert reached > smaller


def test_rows_without_a_vector_add_nothing():
    nan, inf = float("nan"), float("inf")
    made = VectorSum("x", "x", 2, -1, 100, Ball.LINF)
    for value in (None, [], [1], [1, 2, 3], [None, 1], [1, nan], [None, None]):
        assert made.contribution([{"x": value}, {"x": [1, -2]}]) == made.contribution([{"x": [1, -2]}])
    assert dict(made.contribution([{"x": [inf, -inf]}])) == {("x.vector", 0): 100, ("x.vector", 1): -100}
    short = VectorSum("x", "x", 2, 0, 10, Ball.L2)
    assert dict(short.contribution([{"x": [inf, -inf]}])) == {("x.vector", 0): 7, ("x.vector", 1): -7}


def test_a_bound_of_each_row_and_one_of_the_unit():
    rows = [{"x": [6, 8]}, {"x": [-6, 8]}]
    by_unit, by_row = (VectorSum("x", "x", 2, 0, 5, Ball.L2, of) for of in (None, 2))
    assert list(by_unit.contribution(rows).values()) == [0, 5]
    assert list(by_row.contribution(rows).values()) == [0, 8]
    assert list(replace(by_row, rows=1).contribution(rows).values()) == [0, 4]
    assert by_row.body.linf_sensitivities == (10,)


@pytest.mark.parametrize(
    "changed", [{"length": 0}, {"length": MAX_ENTRIES + 1}, {"radius": 0}, {"radius": MAX_RADIUS + 1}]
)
def test_what_does_not_fit_in_128_bits_is_refused(changed):
    with pytest.raises(ParameterError):
        VectorSum(
            **{
                "label": "x",
                "column": "x",
                "length": 2,
                "exponent": 0,
                "radius": 1,
                "ball": Ball.L2,
                **changed,
            }
        )


def test_all_that_is_computed_fits_in_128_bits():
    far = [FAR_STEPS] * MAX_ENTRIES
    assert sum(x * x for x in far) < 2**127
    assert FAR_STEPS * MAX_RADIUS < 2**127
    assert vector_sum.HUGE_STEPS * 2**64 < 2**127
