"""Report noisy max: the law, its privacy, and what does not have either."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction as F
from itertools import permutations, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError, QueryError
from sfumato.framework import (
    AtomDomain,
    GroupedIntegers,
    LInfDistance,
    ProductDomain,
    PureDP,
    VectorDomain,
)
from sfumato.measurements import exponential_mechanism, permute_and_flip
from sfumato.measurements.candidate_selection import (
    accept_or_reject,
    exp_minus,
    flip_in_order,
    random_order,
    uniform_below,
)
from sfumato.noise import FixedWords, SeededWords, bernoulli

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
CASES = [((0, 1, 2), F(1, 2)), ((5, 5, 3, 0), F(2)), ((F(1, 3), F(-1, 2), 0, F(1, 7)), F(1, 3))]
DRAWS = 5000


def drawn(draw, scores, scale, seed=0):
    words = SeededWords(seed)
    return Counter(draw(gaps(scores, scale), words) for _ in range(DRAWS))


@pytest.mark.long
@pytest.mark.parametrize("draw", LAWS)
@pytest.mark.parametrize("scores, scale", CASES)
def test_draws_have_the_law(draw, scores, scale, unlikely):
    assert not unlikely(drawn(draw, scores, scale), LAWS[draw](scores, scale))


@pytest.mark.long
@pytest.mark.parametrize("draw", LAWS)
def test_half_the_scale_and_a_wrong_order_are_found(draw, unlikely):
    scores, scale = (0, 1, 2), F(1, 2)
    law = LAWS[draw](scores, scale)
    honest = drawn(draw, scores, scale)
    assert not unlikely(honest, law)
    assert unlikely(drawn(draw, scores, scale / 2), law)
    assert unlikely(drawn(draw, scores, scale * F(7, 10)), law)
    (other,) = (LAWS[d](scores, scale) for d in LAWS if d is not draw)
    assert unlikely(honest, other)  # the two mechanisms are told apart


@pytest.mark.long
def test_a_fixed_order_is_found(unlikely):
    def in_given_order(distances, words):
        return next(i for i, g in enumerate(distances) if bernoulli(exp_minus(g), words=words))

    assert unlikely(drawn(in_given_order, (0, 1, 2), F(1)), law_of_flips((0, 1, 2), F(1)))


@pytest.mark.long
@pytest.mark.flakiness(k=15, because="Chernoff's bound at 1e-15")
@pytest.mark.parametrize("make", MECHANISMS)
def test_calls_go_through_the_constructor(make, unlikely):
    best = make("0.75", VectorDomain(AtomDomain(F), 3))
    draw = flip_in_order if make is permute_and_flip else accept_or_reject
    counts = Counter(best([0, F(1, 2), 1]) for _ in range(2000))
    assert not unlikely(counts, LAWS[draw]((0, F(1, 2), 1), F(3, 4)))


# Privacy of the laws: the claim, and that it is nearly reached.


def largest_loss(before, after):
    return max(abs(math.log(before[i] / after[i])) for i in before)


def neighbours(scores):
    for moves in product((-1, 0, 1), repeat=len(scores)):
        yield [s + m for s, m in zip(scores, moves, strict=True)]


@pytest.mark.parametrize("law", LAWS.values())
def test_no_ratio_is_above_the_claim_and_some_come_near(law):
    """All neighbours of all score vectors of 3 candidates from -2 to 2, distance 1, scale 1."""
    found = []
    for scores in product(range(-2, 3), repeat=3):
        before = law(scores, F(1))
        found += [largest_loss(before, law(other, F(1))) for other in neighbours(scores)]
    assert 0.7 < max(found) <= 1 + 1e-12
    far = [0, 30, 0]  # where the claim is nearly reached
    assert largest_loss(law(far, F(1)), law([1, 29, -1], F(1))) > 0.99


def test_an_exponent_without_the_factor_2_is_found():
    before = law_of_flips((0, 2, 0), F(1, 2))
    assert max(largest_loss(before, law_of_flips(other, F(1, 2))) for other in neighbours((0, 2, 0))) > 1.5


@steady
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=5), st.fractions(F(1, 10), 50))
def test_flips_are_never_worse_than_exponentials(scores, scale):
    flips, exponentials = law_of_flips(scores, scale), law_of_exponentials(scores, scale)
    error = [sum(p * (max(scores) - scores[i]) for i, p in law.items()) for law in (flips, exponentials)]
    assert error[0] <= error[1] + 1e-9


# Far apart.


@pytest.mark.flakiness(k=100, because="a million scales lie between the scores")
@pytest.mark.parametrize("make", MECHANISMS)
def test_scores_far_apart_neither_underflow_nor_take_long(make):
    best = make(1, VectorDomain(AtomDomain(int), 4))
    assert best([-(10**6), 0, 10**6, 0]) == 2
    assert best([-(10**300), 10**300, 0, -1]) == 1
    assert best([7] * 4) in range(4)
    assert make(1, VectorDomain(AtomDomain(int), 1))([-(10**300)]) == 0
    floats = make("1e-300", VectorDomain(AtomDomain(float, -1e308, 1e308), 2))
    assert floats([5e-324, 1e308]) == 1


def test_a_coin_is_true_as_often_as_it_should_be_where_floats_have_given_up():
    """e^-800 is 0 in floats; given a uniform that starts with 1154 zeros the coin is decided by what follows."""
    x = F(800)
    with mp.workdps(700):
        value = mp.exp(-800)
        words = []
        for _ in range(20):
            value *= mp.mpf(2) ** 64
            words.append(int(mp.floor(value)))
            value -= words[-1]
    assert words[0] == 0 and any(words)
    for change, expected in ((-1, True), (1, False)):
        near = [*words[:-1], words[-1] + change]
        assert bernoulli(exp_minus(x), words=FixedWords(near, then=SeededWords(1))) is expected
    assert math.exp(-800) < 1e-300  # and in floats it would never be true at a uniform of 53 bits


@pytest.mark.parametrize("x", [F(0), F(1, 3), F(1), F(63), F(64), F(65), F(10**6), F(1, 10**30), F(12345, 7)])
@pytest.mark.parametrize("bits", [1, 64, 128, 2000])
def test_enclosures_hold_the_exponential(x, bits):
    low, high = exp_minus(x)(bits)
    with mp.workdps(1500):
        truth = mp.exp(-mp.mpf(x.numerator) / x.denominator)
        assert mp.mpf(low.numerator) / low.denominator <= truth <= mp.mpf(high.numerator) / high.denominator
    assert 0 <= low <= high <= 1 and high - low <= F(1, 2**bits)


# Uniform choices.


def test_indices_are_uniform_and_biased_ones_are_not(unlikely):
    law = dict.fromkeys(range(5), 0.2)
    assert not unlikely(Counter(uniform_below(5, 100_000, SeededWords(1)).tolist()), law)
    assert unlikely(Counter((SeededWords(1).take(100_000) % np.uint64(64) % 5).tolist()), law)
    last = 2**64 - 2**64 % 5
    words = FixedWords([last, last - 1, 3, 2**64 - 1, 7])
    assert uniform_below(5, 3, words).tolist() == [2, 4, 3]  # 2^64 - 1 and `last` are drawn again
    assert uniform_below(1, 4, FixedWords([0, 1, 2**64 - 1, 9])).tolist() == [0] * 4


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


# What floats do.


def gumbel_in_floats(scores, scale, uniforms):
    """The textbook shortcut: the best score after adding Gumbel noise, in float64."""
    noise = -2 * float(scale) * np.log(-np.log(uniforms))
    return int(np.argmax(np.asarray(scores, np.float64) + noise))


def test_a_gumbel_in_floats_cannot_pick_what_ours_can():
    """Gumbel noise of 53-bit uniforms ends at 2 b (53 ln 2) above and 2 b ln(53 ln 2) below, 81 apart for b = 1.

    The worse of [0, 100] has probability about e^-50, but floats never pick it: a ratio without a bound.
    """
    smallest, largest = 2.0**-53, 1 - 2.0**-53
    assert gumbel_in_floats([0, 100], F(1), np.array([largest, smallest])) == 1  # the most that floats can do
    assert gumbel_in_floats([0, 80], F(1), np.array([largest, smallest])) == 0
    odd = gaps([0, 100], F(1))
    assert odd == [50, 0]
    with mp.workdps(60):
        first_two = int(mp.floor(mp.exp(-50) * 2**128))
    below = [first_two >> 64, (first_two & (2**64 - 1)) - 1]
    assert below[0] == 0
    assert bernoulli(exp_minus(odd[0]), words=FixedWords(below)) is True


# The face.


@pytest.mark.parametrize("make", MECHANISMS)
def test_the_claim(make):
    best = make("1/3", VectorDomain(AtomDomain(int, 0, 9), 4))
    assert best.map(F(1, 2)) == F(3, 2) and best.map(0) == 0
    assert best.input_metric == LInfDistance() and best.output_measure == PureDP()
    assert best.name == make.__name__


@pytest.mark.parametrize("make", MECHANISMS)
@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, None, "x", True])
def test_bad_scales(make, scale):
    with pytest.raises(ParameterError, match="scale"):
        make(scale, VectorDomain(AtomDomain(int), 3))


@pytest.mark.parametrize("make", MECHANISMS)
@pytest.mark.parametrize(
    "domain",
    [
        AtomDomain(int), VectorDomain(AtomDomain(int)), VectorDomain(AtomDomain(float), 2), VectorDomain(AtomDomain(str), 2),
        VectorDomain(AtomDomain(float, 0, 1, nan=True), 2), VectorDomain(AtomDomain(int, null=True), 2), None,
        GroupedIntegers(("a",)), ProductDomain((AtomDomain(int),)), VectorDomain(VectorDomain(AtomDomain(int), 2), 2),
    ],
)  # fmt: skip
def test_bad_domains(make, domain):
    with pytest.raises(ParameterError, match="domain .*VectorDomain of known size"):
        make(1, domain)


@pytest.mark.parametrize("make", MECHANISMS)
@pytest.mark.parametrize("scores", [[], [1], [1, 2, 3]])
def test_another_number_of_scores_is_refused(make, scores):
    with pytest.raises(
        QueryError, match=f"{make.__name__}: length of the input is {len(scores)}, but must be 2$"
    ):
        make(1, VectorDomain(AtomDomain(int), 2))(scores)
