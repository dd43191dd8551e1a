"""Vectors of whole numbers are brought into a ball after all rounding, and their body says no less."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.framework import Ball, BallBody, Norm
from sfumato.framework.contribution_bodies import weigh_norm
from sfumato.transformations import VectorSum
from sfumato.transformations.statistics import vector_sum
from sfumato.transformations.statistics.vector_sum import FAR_STEPS, MAX_ENTRIES, MAX_RADIUS, shrink_into_ball

HUGE = 2**126

sizes = st.one_of(st.integers(-40, 40), st.integers(-(2**41), 2**41), st.integers(-HUGE, HUGE))

vectors = st.lists(sizes, min_size=1, max_size=6)

radii = st.one_of(st.integers(1, 60), st.integers(1, MAX_RADIUS))

examples = settings(max_examples=150, derandomize=True, database=None, deadline=None)


@examples
@given(vectors, radii, st.sampled_from(Ball))
def test_what_is_added_is_in_the_ball_after_rounding(vector, radius, ball):
    assert ball.holds(shrink_into_ball(vector, radius, ball), radius)


@pytest.mark.parametrize("ball", Ball)
@pytest.mark.parametrize("length", [1, 3])
def test_the_body_says_what_vectors_of_the_ball_reach(ball, length):
    radius = 5
    inside = [v for v in product(range(-radius, radius + 1), repeat=length) if ball.holds(v, radius)]
    body = BallBody("v", length, Fraction(radius), ball)
    for norm, scale in product(Norm, (Fraction(1), Fraction(7, 3))):
        reached = max(weigh_norm(norm, v, [scale] * length) for v in inside)
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


def test_all_that_is_computed_fits_in_128_bits():
    far = [FAR_STEPS] * MAX_ENTRIES
    assert sum(x * x for x in far) < 2**127
    assert FAR_STEPS * MAX_RADIUS < 2**127
    assert vector_sum.HUGE_STEPS * 2**64 < 2**127


def test_all_short_vectors_are_in_the_ball():
    for vector, radius, ball in product(product(range(-4, 5), repeat=3), range(1, 7), Ball):
        assert ball.holds(shrink_into_ball(vector, radius, ball), radius)
