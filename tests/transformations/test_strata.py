"""Stratified proportions: goldens, maps against exact rationals, and where the document's claim is false."""

import math
from fractions import Fraction as F

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.framework import AbsoluteDistance, ProductMetric
from sfumato.transformations import make_lipschitz_sized_proportion_ci_mean as make_mean
from sfumato.transformations import make_lipschitz_sized_proportion_ci_variance as make_variance

TEN = ([10] * 10, [100] * 10)

UNEQUAL = ([2, 7, 30, 500], [3, 7, 1000, 10**6])


def test_goldens():
    mean, variance = make_mean(*TEN), make_variance(*TEN, mean_scale=1)
    assert mean([5] * 10) == F(1, 2) and mean.map(1) == F(1, 100)
    assert variance([5] * 10) == F(10025, 10000) and variance.map(1) == F(1, 10000)


def test_unequal_strata_against_the_formula():
    n, size = UNEQUAL
    total, v = sum(size), [1, 3, F(21, 2), 77]
    c = [F(x, total) for x in size]
    mean = sum(c[i] * v[i] / n[i] for i in range(4))
    terms = [
        c[i] ** 2 * F(size[i] - n[i], size[i]) * (v[i] / F(n[i])) * (1 - v[i] / F(n[i])) / (n[i] - 1)
        for i in range(4)
    ]
    assert make_mean(n, size)(v) == mean
    assert make_variance(n, size, "0.1")(v) == sum(terms) + F(1, 100)
    assert make_mean(n, size).map(3) == 3 * max(c[i] / n[i] for i in range(4))
    constants = [c[i] ** 2 * F(size[i] - n[i], size[i] * (n[i] - 1) * n[i]) for i in range(4)]
    assert make_variance(n, size, 0).map("1/3") == max(constants) / 3
    assert constants[1] == 0, "a stratum that was asked completely"


designs = st.lists(
    st.tuples(st.integers(2, 40), st.integers(0, 1000)), min_size=1, max_size=5
).map(lambda pairs: ([n for n, _ in pairs], [n + more for n, more in pairs]))  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(design=designs, data=st.data(), scale=st.sampled_from([0, 1, "2.5"]))
def test_the_claim_holds_in_the_domain(design, data, scale):
    n, size = design
    member = st.tuples(*(st.fractions(0, k, max_denominator=10**6) for k in n))
    v, w = data.draw(member), data.draw(member)
    for made in (make_variance(n, size, scale), make_mean(n, size)):
        assert made.input_domain.contains(v) and made.output_domain.contains(made(v))
        d_in = made.input_metric.distance(v, w)
        assert made.output_metric.distance(made(v), made(w)) <= made.map(d_in)


@pytest.mark.long
@given(design=designs)
def test_the_claim_is_tight(design):
    """A small change, in the stratum of the largest constant, reaches the constant as nearly as it is small."""
    n, size = design
    for made in (make_variance(n, size, 0), make_mean(n, size)):
        ratios = []
        for i in range(len(n)):
            v, w = [F(0)] * len(n), [F(0)] * len(n)
            w[i] = F(n[i], 1000)
            ratios.append(abs(made(v) - made(w)) / w[i])
        assert F(999, 1000) * made.map(1) <= max(ratios) <= made.map(1)


def test_the_claim_is_false_outside_the_bounds_and_clamping_mends_it():
    """The document's domain is all floats; its proof takes 0 <= v_i <= n_i."""
    variance = make_variance(*TEN, mean_scale=1)
    v, w = [20] + [5] * 9, [21] + [5] * 9
    assert AbsoluteDistance().distance(20, 21) == 1
    weight = F(90, 100 * 9) / 100  # c_i^2 (N_i - n_i) / (N_i (n_i - 1))
    moved = weight * abs(F(20, 10) * (1 - F(20, 10)) - F(21, 10) * (1 - F(21, 10)))
    assert moved == variance.map(1) * F(31, 10), "3.1 times as far as claimed"
    assert not variance.input_domain.contains(v)

    def clamp(x):
        return [min(max(y, 0), 10) for y in x]

    assert ProductMetric(AbsoluteDistance()).distance(clamp(v), clamp(w)) <= 1
    assert abs(variance.function(clamp(v)) - variance.function(clamp(w))) <= variance.map(1)


BAD = [
    (([1, 10], [5, 50]), r"sample_sizes\[0\] is 1, but must be at least 2"),
    (([10, 51], [50, 50]), r"sample_sizes\[1\] is 51, but must be at most strat_sizes, the 50"),
    (([10, 2.5], [50, 50]), r"sample_sizes\[1\] is 2.5, but must be a whole number"),
    (([10, 10], [50, -3]), r"strat_sizes\[1\] is -3"),
    (([10, 10], [50, math.nan]), r"strat_sizes\[1\] is nan"),
    (([10, 10], [50]), r"number of strat_sizes is 1, but must be as many as there are sample_sizes, 2"),
    (([], []), r"sample_sizes is \[\], but must be a list"),
]


@pytest.mark.parametrize(("sizes", "text"), BAD)
def test_bad_sizes_are_named(sizes, text):
    with pytest.raises(ParameterError, match=f"^make_lipschitz_sized_proportion_ci_variance: {text}"):
        make_variance(*sizes, mean_scale=1)
    if sizes != ([1, 10], [5, 50]):
        with pytest.raises(ParameterError, match="^make_lipschitz_sized_proportion_ci_mean: (number of )?s"):
            make_mean(*sizes)


@pytest.mark.parametrize("wrong", [6, F(51, 10), -1e-300, math.nan, math.inf, None, "4", True, [1]])
def test_nothing_is_computed_outside_the_domain_and_no_error_shows_a_count(wrong):
    for made in (make_mean([5, 5], [10, 10]), make_variance([5, 5], [10, 10], 1)):
        for sums, at in (([wrong, 1], 0), ([1, wrong], 1)):
            assert not made.input_domain.contains(sums)
            for call in (made, made.function):
                with pytest.raises(ParameterError) as caught:
                    call(sums)
                error = caught.value
                assert str(error) == (
                    f"{made.name}: sums[{at}] is something else, but must be a number from 0 to sample_sizes, the 5 that were asked"
                )
                assert error.__cause__ is None


def test_the_printed_bracket_would_understate():
    """max(c^2 (N - n)/N) / (n - 1) / n, read without the bracket, is another number for unequal strata."""
    n, size = [2, 50], [100, 100]
    c2 = F(1, 4)
    printed = max(c2 * F(s - k, s) for k, s in zip(n, size, strict=True)) / (n[-1] - 1) / n[-1]
    assert printed < make_variance(n, size, 0).map(1)
    v, w = [0, 0], [F(1, 100), 0]
    made = make_variance(n, size, 0)
    assert abs(made(v) - made(w)) > printed * F(1, 100)
