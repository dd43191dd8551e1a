"""Randomized response: its law, its exact loss, and the estimate."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction as F

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BudgetError, ParameterError
from sfumato.framework import CategoryDomain, DiscreteDistance, PureDP
from sfumato.measurements import estimate_shares, randomized_response
from sfumato.measurements.randomized_response import _ratio, respond
from sfumato.noise import SeededWords

steady = settings(derandomize=True, database=None, deadline=None, max_examples=100)
DRAWS = 10_000


def law(members, truth, epsilon):
    power = math.exp(epsilon)
    return {m: (power if m == truth else 1) / (power + len(members) - 1) for m in members}


def told(members, truth, epsilon):
    words, domain, ratio = SeededWords(3), CategoryDomain(members), _ratio(epsilon)
    return Counter(respond(truth, domain, ratio, words) for _ in range(DRAWS))


@pytest.mark.parametrize(
    "members, truth",
    [((True, False), True), pytest.param(("a", "b", "c", None), "c", marks=pytest.mark.long)],
)
@pytest.mark.parametrize(
    "epsilon", [0.1, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_responses_have_the_law_and_a_larger_epsilon_does_not(members, truth, epsilon, unlikely):
    expected = law(members, truth, epsilon)
    assert not unlikely(told(members, truth, epsilon), expected)
    assert unlikely(told(members, truth, epsilon * 1.3 + 0.3), expected)
    assert unlikely(told(members, next(m for m in members if m != truth), epsilon + 0.4), expected)


def test_lies_that_are_never_told_are_found(unlikely):
    members = ("a", "b", "c")
    counts = told(members, "a", 1)
    assert not unlikely(counts, law(members, "a", 1))
    merged = Counter({"a": counts["a"], "b": counts["b"] + counts["c"]})
    assert unlikely(merged, law(members, "a", 1))


@steady
@given(st.one_of(st.fractions(F(1, 10**12), 5000), st.sampled_from([F(1, 10**40), F(4096), F(10**9)])))
def test_the_ratio_is_below_the_power_and_the_map_above_its_logarithm(epsilon):
    """The claim ln(ratio) <= map <= epsilon, against mpmath."""
    ratio = _ratio(epsilon)
    stated = randomized_response(("a", "b"), epsilon).map(1)
    assert stated <= epsilon and ratio > 1
    with mp.workprec(8000):
        log = mp.log1p(mp.mpf((ratio - 1).numerator) / (ratio - 1).denominator)
        exact = mp.mpf(min(epsilon, 4096).numerator) / min(epsilon, 4096).denominator
        assert log <= mp.mpf(stated.numerator) / stated.denominator
        assert log <= exact
        assert log >= exact * (1 - mp.mpf(2) ** -50)


def test_a_ratio_rounded_up_would_be_found():
    above = _ratio(F(1)) + F(1, 2**60)
    with mp.workprec(300):
        assert mp.log(mp.mpf(above.numerator) / above.denominator) > 1


@pytest.mark.flakiness(k=27, because="one of two answers of probability 0.27 is missing among 200")
def test_the_claim():
    response = randomized_response(["a", "b", "c"], "0.5")
    assert response.map(0) == 0 and response.map(F(1, 2)) == 0 and response.map(5) == response.map(1)
    assert (
        response.input_domain == CategoryDomain(("a", "b", "c"))
        and response.input_metric == DiscreteDistance()
    )
    assert response.output_measure == PureDP()
    assert {response("a") for _ in range(200)} == {"a", "b", "c"}
    assert {randomized_response(("a", "b"), 10**6)("b") for _ in range(20)} == {"b"}


@steady
@given(
    st.integers(2, 5).flatmap(lambda k: st.lists(st.fractions(0, 1), min_size=k, max_size=k)),
    st.fractions(F(1, 100), 20),
)
def test_the_estimate_inverts_the_mean(weights, epsilon):
    """Responses in exactly the expected shares give back exactly the true ones."""
    members = tuple(range(len(weights)))
    total = sum(weights) or F(1)
    shares = [w / total for w in weights] if sum(weights) else [F(1), *[F(0)] * (len(weights) - 1)]
    ratio = _ratio(epsilon)
    parts = ratio + len(members) - 1
    expected = [(1 + s * (ratio - 1)) / parts for s in shares]
    n = math.lcm(*(e.denominator for e in expected))

    class Told(Counter):
        pass

    counts = {m: int(e * n) for m, e in zip(members, expected, strict=True)}
    assert estimate_shares(Told(counts), members, epsilon) == dict(zip(members, shares, strict=True))


def test_the_estimate_on_responses():
    members, words, ratio = ("x", "y", "z"), SeededWords(11), _ratio(2)
    truth = ["x"] * 6000 + ["y"] * 3000 + ["z"] * 1000
    responses = [respond(t, CategoryDomain(members), ratio, words) for t in truth]
    shares = estimate_shares(responses, members, 2)
    # Hoeffding for each share at 1e-10: 0.036 in responses, times parts / (ratio - 1) = 1.47.
    for member, share in zip(members, (0.6, 0.3, 0.1), strict=True):
        assert abs(float(shares[member]) - share) < 0.053
    assert sum(shares.values()) == 1
    wrong = estimate_shares(responses, members, 1)
    assert abs(float(wrong["x"]) - 0.6) > 0.053


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, None, "x"])
def test_bad_epsilon(epsilon):
    with pytest.raises(BudgetError, match="epsilon"):
        randomized_response(("a", "b"), epsilon)
    with pytest.raises(BudgetError, match="epsilon"):
        estimate_shares(["a"], ("a", "b"), epsilon)


@pytest.mark.parametrize("members", [(), ("a",), ("a", "a"), (1, True)])
def test_bad_members(members):
    with pytest.raises(ParameterError, match="members"):
        randomized_response(members, 1)


def test_others_are_refused_without_being_shown():
    with pytest.raises(ParameterError, match="answer is 'another', but must be one of"):
        randomized_response(("a", "b"), 1)("secret")
    for responses in ([], ["a", "c"]):
        with pytest.raises(ParameterError, match="responses"):
            estimate_shares(responses, ("a", "b"), 1)
