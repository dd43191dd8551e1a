"""Choices: the best candidate, the largest k, random answers. Their laws, exactly; their privacy by enumeration."""

import math
from collections import Counter
from fractions import Fraction as F
from itertools import permutations, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.framework import (
    AtomDomain,
    CategoryDomain,
    DiscreteDistance,
    OneSidedDistance,
    PureDP,
    SpreadDistance,
    VectorDomain,
)
from sfumato.measurements import (
    estimate_shares,
    exponential_mechanism,
    limited_top_k,
    permute_and_flip,
    randomized_response,
    top_k,
)
from sfumato.measurements.candidate_selection import (
    _cumulative,
    accept_or_reject,
    exp_minus,
    flip_in_order,
    margin_for,
    peel,
    peel_limited,
    random_order,
    uniform_below,
)
from sfumato.measurements.randomized_response import _ratio, respond
from sfumato.noise import FixedWords, SeededWords

steady = settings(derandomize=True, database=None, deadline=None, max_examples=60)

MECHANISMS = (permute_and_flip, exponential_mechanism)


def gaps(scores, scale):
    return [(max(scores) - F(s)) / (2 * scale) for s in scores]


def law_of_flips(scores, scale):
    """By going through all orders."""
    heads = [math.exp(-g) for g in gaps(scores, scale)]
    law = dict.fromkeys(range(len(scores)), 0.0)
    for order in permutations(range(len(scores))):
        rest = 1.0 / math.factorial(len(scores))
        for i in order:
            law[i] += rest * heads[i]
            rest *= 1 - heads[i]
    return law


def law_of_exponentials(scores, scale):
    weights = [math.exp(-g) for g in gaps(scores, scale)]
    return {i: w / sum(weights) for i, w in enumerate(weights)}


LAWS = {flip_in_order: law_of_flips, accept_or_reject: law_of_exponentials}


@pytest.mark.flakiness(k=15, because="Chernoff's bound at 1e-15")
@pytest.mark.parametrize("make", MECHANISMS)
def test_calls_go_through_the_constructor(make, unlikely):
    best = make("0.75", VectorDomain(AtomDomain(F), 3))
    draw = flip_in_order if make is permute_and_flip else accept_or_reject
    counts = Counter(best([0, F(1, 2), 1]) for _ in range(2000))
    assert not unlikely(counts, LAWS[draw]((0, F(1, 2), 1), F(3, 4)))


def largest_loss(before, after):
    return max(abs(math.log(before[i] / after[i])) for i in before)


def neighbours(scores):
    for moves in product((-1, 0, 1), repeat=len(scores)):
        yield [s + m for s, m in zip(scores, moves, strict=True)]


@pytest.mark.parametrize("law", LAWS.values())
def test_no_ratio_is_above_the_claim_and_some_come_near(law):
    """All neighbours of all score vectors of 3 candidates from -2 to 2, distance 1, scale 1."""
    found = []
    for scores in product((-2, 0, 1), repeat=3):
        before = law(scores, F(1))
        found += [largest_loss(before, law(other, F(1))) for other in neighbours(scores)]
    assert 0.7 < max(found) <= 1 + 1e-12
    far = [0, 30, 0]  # where the claim is nearly reached
    assert largest_loss(law(far, F(1)), law([1, 29, -1], F(1))) > 0.99


@pytest.mark.parametrize("x", [F(0), F(1, 3), F(63), F(65), F(10**6), F(1, 10**30)])
@pytest.mark.parametrize("bits", [1, 64, 2000])
def test_enclosures_hold_the_exponential(x, bits):
    low, high = exp_minus(x)(bits)
    with mp.workdps(1500):
        truth = mp.exp(-mp.mpf(x.numerator) / x.denominator)
        assert mp.mpf(low.numerator) / low.denominator <= truth <= mp.mpf(high.numerator) / high.denominator
    assert 0 <= low <= high <= 1 and high - low <= F(1, 2**bits)


def test_indices_are_uniform_and_biased_ones_are_not(unlikely):
    law = dict.fromkeys(range(5), 0.2)
    assert not unlikely(Counter(uniform_below(5, 100_000, SeededWords(1)).tolist()), law)
    assert unlikely(Counter((SeededWords(1).take(100_000) % np.uint64(64) % 5).tolist()), law)
    last = 2**64 - 2**64 % 5
    words = FixedWords([last, last - 1, 3, 2**64 - 1, 7])
    assert uniform_below(5, 3, words).tolist() == [2, 4, 3]  # 2^64 - 1 and `last` are drawn again
    assert uniform_below(1, 4, FixedWords([0, 1, 2**64 - 1, 9])).tolist() == [0] * 4


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the order of one is all that is fresh")
def test_orders_are_uniform_and_ties_are_drawn_again(unlikely):
    words = SeededWords(2)
    counts = Counter(tuple(random_order(4, words).tolist()) for _ in range(12_000))
    assert not unlikely(counts, dict.fromkeys(permutations(range(4)), 1 / 24))
    lazy = Counter(
        tuple(np.argsort(words.take(4) % np.uint64(3), kind="stable").tolist()) for _ in range(12_000)
    )
    assert unlikely(lazy, dict.fromkeys(permutations(range(4)), 1 / 24))
    assert random_order(3, FixedWords([5, 1, 5, 9, 7, 3])).tolist() == [2, 1, 0]
    assert random_order(1).tolist() == [0]


@pytest.mark.flakiness(k=100, because="a million scales lie between the scores")
@pytest.mark.parametrize("make", MECHANISMS)
def test_scores_far_apart_and_what_is_refused(make):
    best = make(1, VectorDomain(AtomDomain(int), 4))
    assert best([-(10**6), 0, 10**6, 0]) == 2
    assert best([-(10**300), 10**300, 0, -1]) == 1
    assert make("1e-300", VectorDomain(AtomDomain(float, -1e308, 1e308), 2))([5e-324, 1e308]) == 1
    with pytest.raises(ParameterError, match="scale"):
        make(0, VectorDomain(AtomDomain(int), 3))
    for domain in (AtomDomain(int), VectorDomain(AtomDomain(int)), VectorDomain(AtomDomain(float), 2), None):
        with pytest.raises(ParameterError, match="domain .*VectorDomain of known size"):
            make(1, domain)
    with pytest.raises(QueryError, match="length of the input is 1, but must be 4"):
        best([1])


# The largest k.

MODULE = "sfumato.measurements.candidate_selection"


def law_of(monkeypatch, run):
    """The law of what the code draws, by following every choice that it can make."""
    law, waiting = Counter(), [()]
    while waiting:
        script, chance, taken = waiting.pop(), [1.0], []

        def choose(chances, script=script, chance=chance, taken=taken):
            at = len(taken)
            index = script[at] if at < len(script) else 0
            if at >= len(script):
                waiting.extend((*taken, other) for other in range(1, len(chances)))
            taken.append(index)
            chance[0] *= chances[index]
            return index

        def pick(cumulative, words, choose=choose):
            low, high = cumulative(128)
            ends = [float(a + b) / 2 for a, b in zip(low, high, strict=True)]
            return choose(np.diff([0.0, *ends]).tolist())

        def uniform_below(bound, count, words, choose=choose):
            return np.array([choose([1 / bound] * bound)])

        with monkeypatch.context() as patched:
            patched.setattr(f"{MODULE}.pick", pick)
            patched.setattr(f"{MODULE}.uniform_below", uniform_below)
            law[tuple(run())] += chance[0]
    assert math.isclose(sum(law.values()), 1, rel_tol=1e-9)
    return law


def stated_law(scores, rate, k):
    law = {}
    for order in permutations(range(len(scores)), k):
        left, chance = set(range(len(scores))), 1.0
        for i in order:
            weights = {j: math.exp(float(rate) * (scores[j] - max(scores))) for j in left}
            chance *= weights[i] / sum(weights.values())
            left.discard(i)
        law[order] = chance
    return law


@pytest.mark.parametrize("scores", [(2, 2, 2, 0), (7,), (0, 40)])
@pytest.mark.parametrize("rate", [F(1, 3), F(2)])
def test_the_law_is_that_of_peels(monkeypatch, scores, rate):
    k = min(2, len(scores))
    found = law_of(monkeypatch, lambda: peel(np.array(scores), rate, k))
    expected = stated_law(scores, rate, k)
    assert found.keys() == expected.keys()
    assert all(math.isclose(found[o], expected[o], rel_tol=1e-9, abs_tol=1e-15) for o in expected)


def loss_between(one, other):
    return max(abs(math.log(one[o] / other[o])) for o in one)


def worst_loss(monkeypatch, scores, rate, k, moves=(0, 1)):
    law = law_of(monkeypatch, lambda: peel(np.array(scores), rate, k))
    found = 0.0
    for added in product(moves, repeat=len(scores)):
        beside = np.array(scores) + np.array(added)
        found = max(found, loss_between(law, law_of(monkeypatch, lambda b=beside: peel(b, rate, k))))
    return found


def test_the_map_is_tight(monkeypatch):
    scores, rate, k = (0, 0, 9, 9), F(1, 2), 2
    claimed = float(top_k(rate, k, 4).map(1))
    assert worst_loss(monkeypatch, scores, rate, k) > 0.9 * claimed


def hockey(one, other, epsilon):
    return sum(max(one[o] - math.exp(epsilon) * other[o], 0) for o in one)


def limited_pairs(monkeypatch, counts, rate, k, candidates, margin):
    def law(c):
        return law_of(monkeypatch, lambda: peel_limited(np.array(c), rate, k, candidates, margin))

    here = law(counts)
    for added in product((0, 1), repeat=len(counts)):
        there = law(tuple(c + a for c, a in zip(counts, added, strict=True)))
        yield here, there
        yield there, here


LIMITED = [((0, 0, 0), 2), ((2, 1, 1, 0), 2), ((9, 1, 0, 0), 3)]


@pytest.mark.parametrize(("counts", "candidates"), LIMITED)
@pytest.mark.parametrize("margin", [1, 3])
def test_unknown_groups_cost_what_the_map_says(monkeypatch, counts, candidates, margin):
    rate, k = F(1), 2
    epsilon, delta = map(float, limited_top_k(rate, k, candidates, margin, name="n").map(1))
    pairs = limited_pairs(monkeypatch, counts, rate, k, candidates, margin)
    assert all(hockey(p, q, epsilon) <= delta for p, q in pairs)


@pytest.mark.parametrize("margin", [0, 2])
def test_candidates_compete_with_an_end_above_the_largest_of_all_others(monkeypatch, margin):
    found = law_of(monkeypatch, lambda: peel_limited(np.array([3, 5, 3, 4, 0]), F(1), 3, 2, margin))
    expected = Counter()
    for (one, other), chance in stated_law((5, 4, 3 + 1 + margin), F(1), 2).items():
        picked = () if one == 2 else (one,) if other == 2 else (one, other)
        expected[tuple((1, 3)[i] for i in picked)] += chance
    assert found.keys() == expected.keys()
    assert all(math.isclose(found[o], expected[o], rel_tol=1e-9) for o in expected)


def test_the_margin_is_the_least_that_keeps_the_chance():
    for rate, candidates, miss in product((F(1, 7), F(3)), (1, 100), (F(1, 10), F(1, 10**9))):
        margin = margin_for(rate, candidates, miss)
        assert candidates * math.exp(-rate * margin) <= float(miss) * (1 + 1e-12)
        assert candidates * math.exp(-rate * (margin - 1)) > float(miss)
    assert margin_for(F(1), 10, F(1, 10), largest=5) == margin_for(F(1), 10, F(1, 10)) + 4


@pytest.mark.parametrize("scale", [1, 10**25])
def test_floats_enclose_what_rationals_say(scale):
    rng = np.random.default_rng(5)
    scores = sorted({int(x) * scale for x in rng.integers(0, 1000, 60)}, reverse=True)
    gaps = np.array([scores[0] - s for s in scores], object)
    sizes = rng.integers(1, 50, len(gaps))
    for rate in (F(1, 10), F(1, 10**4), F(5)):
        chances = _cumulative(gaps, sizes, rate, math.ceil(80 / rate))
        low, high = chances(64)
        least, most = chances(192)
        for a, b, c, d in zip(low, high, least, most, strict=False):
            assert F(a) <= c <= d <= F(b)
            assert b - a < 1e-10 or (a, b) == (low[-1], high[-1])


def test_distances():
    assert SpreadDistance().distance([1, 1], [2, 0]) == 2
    assert SpreadDistance().distance([1, 1], [2, 2]) == 0
    assert SpreadDistance().distance([1], [1, 2]) == math.inf
    both_ways = {"a": {"n": 1}}, {"b": {"n": 1}}
    assert OneSidedDistance().distance(*both_ways) == math.inf


# Randomized response.

steady = settings(derandomize=True, database=None, deadline=None, max_examples=60)

ANSWERS = 10_000


def law_of_answers(members, truth, epsilon):
    power = math.exp(epsilon)
    return {m: (power if m == truth else 1) / (power + len(members) - 1) for m in members}


def told(members, truth, epsilon):
    words, domain, ratio = SeededWords(3), CategoryDomain(members), _ratio(epsilon)
    return Counter(respond(truth, domain, ratio, words) for _ in range(ANSWERS))


def test_lies_that_are_never_told_are_found(unlikely):
    members = ("a", "b", "c")
    counts = told(members, "a", 1)
    assert not unlikely(counts, law_of_answers(members, "a", 1))
    merged = Counter({"a": counts["a"], "b": counts["b"] + counts["c"]})
    assert unlikely(merged, law_of_answers(members, "a", 1))
    assert unlikely(counts, law_of_answers(members, "a", 1.6))


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


@pytest.mark.flakiness(k=27, because="one of two answers of probability 0.27 is missing among 200")
def test_the_claim_of_an_answer():
    response = randomized_response(["a", "b", "c"], "0.5")
    assert response.map(0) == 0 and response.map(F(1, 2)) == 0 and response.map(5) == response.map(1)
    assert (
        response.input_domain == CategoryDomain(("a", "b", "c"))
        and response.input_metric == DiscreteDistance()
    )
    assert response.output_measure == PureDP()
    assert {response("a") for _ in range(200)} == {"a", "b", "c"}
    assert {randomized_response(("a", "b"), 10**6)("b") for _ in range(20)} == {"b"}


@pytest.mark.long
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

    class TextCard(Counter):
        pass

    counts = {m: int(e * n) for m, e in zip(members, expected, strict=True)}
    assert estimate_shares(TextCard(counts), members, epsilon) == dict(zip(members, shares, strict=True))


def test_others_are_refused_without_being_shown():
    for epsilon in (0, math.nan, "x"):
        with pytest.raises(BudgetError, match="epsilon"):
            randomized_response(("a", "b"), epsilon)
    for members in (("a",), (1, True)):
        with pytest.raises(ParameterError, match="members"):
            randomized_response(members, 1)
    with pytest.raises(ParameterError, match="answer is 'another', but must be one of"):
        randomized_response(("a", "b"), 1)("secret")
    for responses in ([], ["a", "c"]):
        with pytest.raises(ParameterError, match="responses"):
            estimate_shares(responses, ("a", "b"), 1)
