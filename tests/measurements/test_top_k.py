"""The largest k: the law that is drawn, its privacy by enumeration, and defects that enumeration finds."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction as F
from itertools import permutations, product

import numpy as np
import pytest

from sfumato.errors import ParameterError, QueryError
from sfumato.framework import OneSidedDistance, SpreadDistance, ZeroConcentratedDP
from sfumato.measurements import limited_top_k, top_k
from sfumato.measurements.candidate_selection import (
    _cumulative,
    margin_for,
    peel,
    peel_limited,
    uniform_below,
)
from sfumato.noise import FixedWords, SeededWords

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


@pytest.mark.parametrize("scores", [(3, 1, 0), (2, 2, 2, 0), (5, 5, 1, 1), (7,), (0, 40)])
@pytest.mark.parametrize("rate", [F(1, 3), F(2)])
def test_the_law_is_that_of_peels(monkeypatch, scores, rate):
    k = min(2, len(scores))
    found = law_of(monkeypatch, lambda: peel(np.array(scores), rate, k))
    expected = stated_law(scores, rate, k)
    assert found.keys() == expected.keys()
    assert all(math.isclose(found[o], expected[o], rel_tol=1e-9, abs_tol=1e-15) for o in expected)


def loss(one, other):
    return max(abs(math.log(one[o] / other[o])) for o in one)


def worst_loss(monkeypatch, scores, rate, k, moves=(0, 1)):
    law = law_of(monkeypatch, lambda: peel(np.array(scores), rate, k))
    found = 0.0
    for added in product(moves, repeat=len(scores)):
        beside = np.array(scores) + np.array(added)
        found = max(found, loss(law, law_of(monkeypatch, lambda b=beside: peel(b, rate, k))))
    return found


@pytest.mark.parametrize("scores", [(3, 1, 0), (1, 1, 1, 1), (6, 0, 0)])
def test_a_unit_in_any_number_of_groups_costs_what_the_map_says(monkeypatch, scores):
    rate, k = F(1, 2), 2
    claimed = float(top_k(rate, k, len(scores)).map(1))
    assert worst_loss(monkeypatch, scores, rate, k) <= claimed * (1 + 1e-9)


def test_the_map_is_tight_and_planted_defects_exceed_it(monkeypatch):
    scores, rate, k = (0, 0, 9, 9), F(1, 2), 2
    claimed = float(top_k(rate, k, 4).map(1))
    assert worst_loss(monkeypatch, scores, rate, k) > 0.9 * claimed
    # The number of peels forgotten; a unit of 2 where 1 is claimed; scores that go both ways.
    assert worst_loss(monkeypatch, scores, rate, k) > float(top_k(rate, 1, 4).map(1))
    assert worst_loss(monkeypatch, scores, rate, k, (0, 2)) > claimed
    assert worst_loss(monkeypatch, scores, rate, k, (-1, 0, 1)) > claimed


def test_zcdp_holds_and_a_quarter_of_it_does_not(monkeypatch):
    rate, k = F(3, 2), 2
    rho = float(top_k(rate, k, 4, measure=ZeroConcentratedDP()).map(1))
    worst = 0.0
    scores = np.array((1, 1, 0, 0))
    here = law_of(monkeypatch, lambda: peel(scores, rate, k))
    for added in product((0, 1), repeat=len(scores)):
        there = law_of(monkeypatch, lambda a=added: peel(scores + np.array(a), rate, k))
        for p, q in ((here, there), (there, here)):
            for order in (1.01, 1.5, 2, 4, 16):
                divergence = math.log(sum(p[o] ** order * q[o] ** (1 - order) for o in p)) / (order - 1)
                worst = max(worst, divergence / order)
    assert rho / 4 < worst <= rho


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


LIMITED = [((0, 0, 0), 2), ((2, 1, 1, 0), 2), ((3, 3, 3, 3), 2), ((9, 1, 0, 0), 3)]


@pytest.mark.parametrize(("counts", "candidates"), LIMITED)
@pytest.mark.parametrize("margin", [1, 3])
def test_unknown_groups_cost_what_the_map_says(monkeypatch, counts, candidates, margin):
    rate, k = F(1), 2
    epsilon, delta = map(float, limited_top_k(rate, k, candidates, margin, name="n").map(1))
    pairs = limited_pairs(monkeypatch, counts, rate, k, candidates, margin)
    assert all(hockey(p, q, epsilon) <= delta for p, q in pairs)


def test_a_forgotten_end_is_found(monkeypatch):
    rate, k, candidates = F(1), 1, 2
    epsilon, delta = map(float, limited_top_k(rate, k, candidates, 6, name="n").map(1))
    for forgotten in (0, -2):  # the margin, and more
        pairs = limited_pairs(monkeypatch, (0, 0, 0), rate, k, candidates, forgotten)
        assert max(hockey(p, q, epsilon) for p, q in pairs) > delta


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


@pytest.mark.parametrize("scale", [1, 100, 10**6, 10**25])
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


@pytest.mark.parametrize("word", [0, 2**63, 2**64 - 1])
def test_words_that_floats_do_not_decide_are_settled_exactly(word):
    # Two equal scores far apart from a third: the end of the first level is next to 1.
    words = FixedWords([word], SeededWords(3))
    assert peel(np.array([0, 200, 100]), F(1), 1, words)[0] in (0, 1, 2)
    halves = FixedWords([2**63 - 1, 2**63 + 1], SeededWords(3))
    assert peel(np.array([3, 3]), F(1), 2, halves) in ([0, 1], [1, 0])


def test_a_million_groups_and_odd_sizes():
    scores = np.zeros(10**6, np.int64)
    scores[[7, 70, 700]] = 5000, 4000, 3000
    assert peel(scores, F(1, 10), 3, SeededWords(1)) == [7, 70, 700]
    assert sorted(peel(np.array([2, 1, 2]), F(1), 3, SeededWords(1))) == [0, 1, 2]
    assert peel_limited(np.array([], np.int64), F(1), 1, 1, 9, SeededWords(1)) == []
    assert peel_limited(np.array([0, 0]), F(1), 1, 1, 900, SeededWords(1)) == []
    assert sorted(peel(np.array([9, 0]), F(1, 10**300), 2, SeededWords(1))) == [0, 1]
    assert peel_limited(np.array([2**62, 1]), F(1), 2, 2, 900, SeededWords(1)) == [0]


def test_distances():
    assert SpreadDistance().distance([1, 1], [2, 0]) == 2
    assert SpreadDistance().distance([1, 1], [2, 2]) == 0
    assert SpreadDistance().distance([1], [1, 2]) == math.inf
    both_ways = {"a": {"n": 1}}, {"b": {"n": 1}}
    assert OneSidedDistance().distance(*both_ways) == math.inf


def test_what_is_refused():
    for bad in (0, -1, True, 1.5, 4, 10**6):
        with pytest.raises(ParameterError):
            top_k(1, bad, 3)
    for rate in (0, -1, math.nan, math.inf):
        with pytest.raises(ParameterError):
            top_k(rate, 1, 3)
    with pytest.raises(ParameterError):
        limited_top_k(1, 1, 10, -1, name="n")
    with pytest.raises(ParameterError):
        limited_top_k(1, 1, 10, 5, name="n").map(2)
    with pytest.raises(QueryError):
        top_k(1, 1, 3)([1, 2])


@pytest.mark.noise_cannot_matter("the words are given")
def test_a_word_that_would_favour_small_numbers_is_drawn_again():
    assert uniform_below(3, 1, FixedWords([2**64 - 1, 2])).tolist() == [2]
