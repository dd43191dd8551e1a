"""Sparse vector: the exact law of all transcripts, its privacy, and variants that are not private."""

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BudgetError, ParameterError
from sfumato.framework import AtomDomain, LInfDistance, PureDP, VectorDomain
from sfumato.measurements import AboveThreshold, above_threshold, sparse_vector
from sfumato.measurements.sparse_vector import noise_scales
from sfumato.noise import SeededWords

steady = settings(derandomize=True, database=None, deadline=None, max_examples=60)


def tail(scale, m):
    """P(R >= m) of rounded Laplace noise; without noise for scale 0."""
    if scale == 0:
        return (np.asarray(m) <= 0).astype(float)
    x = (np.asarray(m) - 0.5) / float(scale)
    return np.where(x >= 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def law(values, threshold, positives, of_threshold, of_value):
    """All transcripts with their probabilities: a sum over the threshold's noise."""
    z = np.arange(-int(60 * of_threshold) - 1, int(60 * of_threshold) + 2)
    start = tail(of_threshold, z) - tail(of_threshold, z + 1)
    found = {}

    def go(i, answers, weight):
        if i == len(values) or sum(answers) == positives:
            found[answers] = float(weight.sum())
            return
        yes = tail(of_value, threshold + z - values[i])
        go(i + 1, (*answers, True), weight * yes)
        go(i + 1, (*answers, False), weight * (1 - yes))

    go(0, (), start)
    return found


@pytest.mark.parametrize("positives", [1, 2])
def test_all_short_transcripts_are_within_the_claim(positives):
    first, second = noise_scales(F(1), positives)
    for values in product((-2, 0, 1), repeat=3):
        before = law(values, 0, positives, first, second)
        for moves in product((-1, 1), repeat=3):
            after = law([v + m for v, m in zip(values, moves, strict=True)], 0, positives, first, second)
            assert all(p <= math.exp(1) * after[a] * (1 + 1e-9) for a, p in before.items())


def transcripts(values, threshold, positives, scale, n=4000):
    words = SeededWords(5)
    counts = Counter()
    for _ in range(n):
        above = AboveThreshold(scale, threshold, positives, words=words)
        answers = []
        for value in values:
            answers.append(above.ask(value))
            if not above.left:
                break
        counts[tuple(answers)] += 1
    return counts


@pytest.mark.long
def test_transcripts_have_the_law(unlikely):
    values, threshold, positives, scale = (9, 12, 14, 11), 12, 2, F(1, 2)
    expected = law(values, threshold, positives, *noise_scales(scale, positives))
    assert abs(sum(expected.values()) - 1) < 1e-9
    assert not unlikely(transcripts(values, threshold, positives, scale), expected)


@steady
@given(st.fractions(F(1, 1000), 1000), st.integers(1, 10_000))
def test_the_split_adds_up_exactly_and_is_near_the_best(scale, positives):
    first, second = noise_scales(scale, positives)
    assert 1 / first + 2 * positives / second == 1 / scale
    ratio = 2 * positives / second * first
    assert abs(float(ratio) / (2 * positives) ** (2 / 3) - 1) < 1e-4


@pytest.mark.flakiness(k=100, because="noise of scale 40 or less against 10^9")
def test_the_measurement():
    above = above_threshold("0.5", 100, positives=2)
    assert above.map(3) == 6 and above.map(0) == 0
    assert above.input_domain == VectorDomain(AtomDomain(int)) and above.input_metric == LInfDistance()
    assert above.output_measure == PureDP()
    far = 10**9
    assert above([-far, far, -far, far, far]) == [False, True, False, True]
    assert above([-far] * 3) == [False] * 3 and above([]) == []


@pytest.mark.flakiness(k=100, because="noise of scale 40 or less against 10^9")
def test_it_stops_and_says_why():
    above = AboveThreshold(1, 0, positives=2)
    assert [above.ask(10**9), above.ask(-(10**9)), above.left] == [True, False, 1]
    assert above.ask(10**9) and above.left == 0
    for value in (10**9, -(10**9)):
        with pytest.raises(BudgetError, match="all 2 positive answers are given"):
            above.ask(value)


@pytest.mark.flakiness(k=100, because="noise of scale 40 or less against 10^9")
def test_threads_get_no_more_positive_answers_than_are_paid():
    above = AboveThreshold(1, 0, positives=5)

    def ask(_):
        try:
            return above.ask(10**9)
        except BudgetError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(200))) == 5


@pytest.mark.parametrize("make", [above_threshold, AboveThreshold])
@pytest.mark.parametrize(
    "arguments, name",
    [((0, 1), "scale"), ((-1, 1), "scale"), ((math.nan, 1), "scale"), ((2**40, 1), "scale"), ((1, 0.5), "threshold"),
     ((1, None), "threshold"), ((1, True), "threshold"), ((1, 1, 0), "positives"), ((1, 1, 1.5), "positives")],
)  # fmt: skip
def test_bad_parameters(make, arguments, name, monkeypatch):
    monkeypatch.setattr(sparse_vector.Laplace, "rounded", None)  # nothing is drawn before
    with pytest.raises(ParameterError, match=name):
        make(*arguments)


@pytest.mark.flakiness(k=100, because="noise of scale 40 or less against 10^9")
@pytest.mark.parametrize("value", [0.5, "secret"])
def test_a_value_that_is_not_whole_is_refused_without_being_shown(value):
    above = AboveThreshold(1, 0)
    with pytest.raises(
        ParameterError, match="value is '(float|str|NoneType|bool)', but must be a whole number"
    ):
        above.ask(value)
    assert above.ask(np.int64(10**9)) is True
