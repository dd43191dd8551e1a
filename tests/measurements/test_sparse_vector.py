"""Sparse vector: the exact law of all transcripts, its privacy, and variants that are not private."""

from __future__ import annotations

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
from sfumato.noise import Laplace, SeededWords

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


def log_tail(scale, m):
    """ln P(R >= m), far out too."""
    if scale == 0:
        return np.where(np.asarray(m) <= 0, 0.0, -np.inf)
    x = (np.asarray(m) - 0.5) / float(scale)
    return np.where(x >= 0, -x - math.log(2), np.log1p(-np.exp(-np.abs(x)) / 2))


def log_chance(no, count, yes, positives, of_threshold, of_value):
    """ln of the chance of `count` times no at a value of `no`, then `positives` times yes at `yes`; threshold 0."""
    if of_threshold:
        z = np.arange(-int(80 * of_threshold), int(80 * of_threshold) + 1)
        width = 1 / (2 * float(of_threshold))
        terms = math.log(math.sinh(width)) - 2 * width * np.abs(z)
        terms[z == 0] = math.log(-math.expm1(-width))
    else:
        z, terms = np.zeros(1, int), np.zeros(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.log(-np.expm1(log_tail(of_value, z - no)))
    terms = terms + (count * below if count else 0) + positives * log_tail(of_value, z - yes)
    top = terms.max()
    return top + math.log(np.exp(terms - top).sum()) if top > -math.inf else top


def worst_loss(positives, of_threshold, of_value):
    """The largest log-ratio of such a transcript, where all values move by one: the worst that is known."""
    worst = -math.inf
    for no, count, yes in product((0, 3), (0, 1, 30, 10**3, 10**6), (1, 0, -20, -200)):
        for up, down in product((-1, 1), repeat=2):
            before = log_chance(no, count, yes, positives, of_threshold, of_value)
            after = log_chance(no + up, count, yes + down, positives, of_threshold, of_value)
            worst = max(worst, before - after if before > -math.inf else -math.inf)
    return worst


@pytest.mark.parametrize("positives, scale", [(1, F(1)), (2, F(2)), (3, F(1, 2)), (20, F(5))])
def test_no_transcript_loses_more_than_the_claim_and_one_comes_near(positives, scale):
    loss = worst_loss(positives, *noise_scales(scale, positives))
    assert 0.98 / scale < loss <= 1 / scale + F(1, 10**9)


@pytest.mark.parametrize("positives", [1, 2, 3])
def test_all_short_transcripts_are_within_the_claim(positives):
    first, second = noise_scales(F(1), positives)
    for values in product((-2, 0, 1), repeat=3):
        before = law(values, 0, positives, first, second)
        for moves in product((-1, 1), repeat=3):
            after = law([v + m for v, m in zip(values, moves, strict=True)], 0, positives, first, second)
            assert all(p <= math.exp(1) * after[a] * (1 + 1e-9) for a, p in before.items())


VARIANTS = {
    "the threshold has no noise": (1, lambda a, b, c: (0, b)),
    "values have no noise": (1, lambda a, b, c: (a, 0)),
    "the noise of values is not scaled with the positive answers": (3, lambda a, b, c: (a, b / c)),
    "it goes on after the positive answers": (2, lambda a, b, c: noise_scales(F(1), 1)),
    "the noise of values is a tenth too small": (3, lambda a, b, c: (a, b * F(9, 10))),
    "the noise of the threshold is a third too small": (3, lambda a, b, c: (a * F(2, 3), b)),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_that_are_not_private_are_found(variant):
    positives, change = VARIANTS[variant]
    assert worst_loss(positives, *change(*noise_scales(F(1), positives), positives)) > 1.05


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


@pytest.mark.long
@pytest.mark.parametrize(
    "defect", [lambda a, b: (a / 4, b), lambda a, b: (a, b / 2), lambda a, b: (a / 2, b / 2)]
)
def test_noise_that_is_too_small_is_found(unlikely, monkeypatch, defect):
    values, threshold, positives, scale = (9, 12, 14, 11), 12, 2, F(1, 2)
    expected = law(values, threshold, positives, *noise_scales(scale, positives))
    monkeypatch.setattr(sparse_vector, "noise_scales", lambda *args: defect(*noise_scales(*args)))
    assert unlikely(transcripts(values, threshold, positives, scale), expected)


@pytest.mark.long
def test_the_threshold_is_noised_once(unlikely):
    """Noise that is refreshed for each value has another law, which costs more than is claimed."""
    values, threshold, positives, scale = (12, 12, 12, 12), 12, 4, F(1, 2)
    first, second = noise_scales(scale, positives)
    expected = law(values, threshold, positives, first, second)
    words = SeededWords(8)
    refreshed = Counter(
        tuple((Laplace(second).rounded(4, words) >= Laplace(first).rounded(4, words)).tolist())
        for _ in range(4000)
    )
    assert unlikely(refreshed, expected)
    assert not unlikely(transcripts(values, threshold, positives, scale), expected)


def test_rounded_noise_shifts_by_no_more_than_the_real_one():
    for scale in (F(1, 3), F(1), F(7)):
        noise = Laplace(scale)
        ratios = [noise.rounded_pmf(z + 1) / noise.rounded_pmf(z) for z in range(-20, 20)]
        assert max(*ratios, 1 / min(ratios)) <= math.exp(1 / scale) * (1 + 1e-12)


@steady
@given(st.fractions(F(1, 1000), 1000), st.integers(1, 10_000))
def test_the_split_adds_up_exactly_and_is_near_the_best(scale, positives):
    first, second = noise_scales(scale, positives)
    assert 1 / first + 2 * positives / second == 1 / scale
    ratio = 2 * positives / second * first
    assert abs(float(ratio) / (2 * positives) ** (2 / 3) - 1) < 1e-4


# The face.


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
@pytest.mark.parametrize("value", [0.5, "secret", None, True])
def test_a_value_that_is_not_whole_is_refused_without_being_shown(value):
    above = AboveThreshold(1, 0)
    with pytest.raises(
        ParameterError, match="value is '(float|str|NoneType|bool)', but must be a whole number"
    ):
        above.ask(value)
    assert above.ask(np.int64(10**9)) is True
