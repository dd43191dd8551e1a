"""On mechanisms that reach their claim exactly, false alarms stay within alpha; a bettor that peeks shows."""

import itertools
import math
import types

import numpy as np
import pandas as pd
import pytest
from boundary import gaussian_sum, geometric_count, laplace_sum, peeking, randomized_response
from scipy import stats

import sfumato.audit.pair_audit as pair_audit
from sfumato.audit import Edge, Mechanism, approximate, audit, gaussian
from sfumato.audit.bets import Wager, best_bet, log_factors
from sfumato.audit.claims import Pair
from sfumato.audit.output_columns import Draws
from sfumato.audit.pair_audit import PairTest

ALPHA, LONG = 0.01, pytest.mark.long
PAIR = [([1.0], [])]


def most(runs):
    """More alarms than this have probability below 1e-9 if each run alarms with probability ALPHA."""
    return int(stats.binom.isf(1e-9, runs, ALPHA))


def alarms(make, claim, runs, draws=400):
    found = 0
    for seed in range(runs):
        test = PairTest(
            Edge("", [1.0], []), Mechanism(make(np.random.default_rng(seed)), call_seconds=None), claim
        )
        while test.samples < draws and test.log_wealth < -math.log(ALPHA):
            test.advance(48)
        found += test.log_wealth >= -math.log(ALPHA)
    return found


@pytest.mark.parametrize(
    ("make", "claim", "runs"),
    [
        pytest.param(laplace_sum, approximate(1), 100, marks=LONG),
        pytest.param(geometric_count, approximate(1), 100, marks=LONG),
        pytest.param(gaussian_sum, gaussian(1), 40, marks=LONG),
        (randomized_response, approximate(1), 12),
    ],
)
def test_false_alarms_stay_within_alpha(make, claim, runs):
    assert alarms(make, claim, runs, 300) <= most(runs)


@LONG
def test_a_bettor_that_peeks_or_has_half_the_claim_is_found(monkeypatch):
    assert alarms(laplace_sum, approximate(0.5), 30, draws=1000) > most(30)
    monkeypatch.setattr(Wager, "_chosen", peeking(Wager._chosen))
    assert alarms(laplace_sum, approximate(1), 30, draws=400) > most(30)


@LONG
def test_the_lower_bound_on_epsilon_is_too_high_no_more_often_than_stated():
    runs, confidence = 60, 0.9
    wrong = sum(
        audit(randomized_response(np.random.default_rng(seed)), epsilon=0.5, pairs=PAIR, max_samples=300,
              alpha=1e-9, confidence=confidence).epsilon_lower > 1 + 1e-9
        for seed in range(runs)
    )  # fmt: skip
    assert wrong <= stats.binom.isf(1e-9, runs, 1 - confidence)


def rare_none(rng, batch):
    """None is rare on both sides, at a ratio that epsilon 1 allows; `batch` makes a call's output of a list."""

    def drawn(dataset, size):
        missing = rng.random(size) < (0.02 if dataset else 0.05)
        return batch([None if none else float(rng.integers(5)) for none in missing])

    return drawn


BATCHES = {
    "lists": lambda draws: [[0.5, v] for v in draws],
    "array": lambda draws: np.array([v if v is None else int(v) for v in draws]),
    "width": lambda draws: np.zeros((len(draws), 3 if None in draws else 2)),
    "whole columns": lambda draws: pd.DataFrame({"a": [v if v is None else int(v) for v in draws]}),
    "columns": lambda draws: {"a": np.zeros(len(draws)), "b": np.array(draws)},
    "names": lambda draws: {"a": [0.5] * len(draws)} | ({"b": draws} if None in draws else {}),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=LONG) for n in BATCHES])
def test_one_draw_does_not_tell_of_the_others_in_its_call(name):
    """The type of an array, its width or its columns depend on all draws of a call: that is no event of one."""
    runs = 12  # each draw is an object of Python: a leak shows in most of the runs
    assert alarms(lambda rng: rare_none(rng, BATCHES[name]), approximate(1), runs) <= most(runs)


def test_calls_that_return_their_outputs_in_another_way_are_made_singly():
    calls = []

    def mechanism(dataset, size):
        calls.append(size)
        return np.zeros((size, 2 + len(calls) % 2))

    test = PairTest(Edge("", [1.0], []), Mechanism(mechanism), approximate(1))
    test.advance(48)
    (note,) = test.notes
    assert "calls returned an array of floats, 3 of each draw, and" in note and test.samples == 0


class Timed:
    """A right mechanism that says how late it is, once for each call."""

    def __init__(self, rng, vectorised):
        self.rng, self.clock = rng, 0.0
        self.draw = laplace_sum(rng)
        self.call = self.batch if vectorised else self.single

    def batch(self, dataset, size):
        # Each call takes another time, and the machine gets slower: nothing of it tells of the dataset.
        self.clock += self.rng.random() + 1
        took = self.clock % 1
        values = self.draw(dataset, size)
        return [{"v": v, "took": took, "at": self.clock} for v in np.asarray(values).tolist()]

    def single(self, dataset):
        return self.batch(dataset, 1)[0]


@LONG
@pytest.mark.parametrize("vectorised", [True, False])
def test_a_time_in_the_output_tells_nothing_of_the_side(vectorised):
    assert alarms(lambda rng: Timed(rng, vectorised).call, approximate(1), 12) <= most(12)


@pytest.mark.parametrize("columns", [False, True])
def test_a_time_that_a_whole_call_shares_is_found(columns):
    rng = np.random.default_rng(5)

    def mechanism(dataset, size):
        values, took = rng.laplace(size=size), rng.random()
        return {"v": values, "took": np.full(size, took)} if columns else [[v, took] for v in values.tolist()]

    test = PairTest(Edge("", [1.0], []), Mechanism(mechanism, vectorised=True), approximate(1))
    for _ in range(4):
        test.advance(48)
    (note,) = test.notes
    assert "in every call, so from then on each call gives one draw" in note
    assert test.samples == 2 * 48


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 5.0])
def test_no_bet_gains_on_average_while_the_claim_holds(epsilon, delta):
    """Expectation of one factor over all probabilities that the claim allows, whatever the bettor believes."""
    claim = Pair(epsilon, delta)
    rng = np.random.default_rng(3)
    believed = rng.random((2, 400)) ** 3 * 0.998 + 0.001
    c, s = best_bet(believed[0], believed[1], claim)
    assert (s > 0).any()
    for q in (0.0, 1e-9, 0.01, 0.2, 0.5, 1.0):
        p = min(1.0, math.exp(epsilon) * q + delta)
        one, none = np.ones_like(c), np.zeros_like(c)
        # Four outcomes of the pair (X in A, Y in A).
        expected = sum(
            chance * np.exp(log_factors(c, s, claim, (x, y), 1))
            for chance, x, y in (
                (p * q, one, one), (p * (1 - q), one, none), ((1 - p) * q, none, one), ((1 - p) * (1 - q), none, none)
            )
        )  # fmt: skip
        assert (expected <= 1 + 1e-12).all()


def test_wealth_of_vectorised_calls_is_lost_when_one_raises():
    calls = []

    def mechanism(dataset, size):
        calls.append(size)
        if len(calls) > 9 and size > 1:
            raise OverflowError("one of these")
        return np.arange(size) % 7 + 10 * len(dataset)

    test = PairTest(Edge("", [1.0], []), Mechanism(mechanism), approximate(1))
    while len(calls) < 8:
        test.advance(48)
    assert test.log_wealth > 10
    test.advance(48)
    assert test.log_wealth == test.log_share == pytest.approx(math.log(1 - pair_audit._VECTORISED))
    assert "OverflowError" in test.notes[0]
    test.advance(48)
    assert set(calls[10:]) == {1}
    assert test.log_wealth == test.log_share


@pytest.mark.parametrize("planted", [False, True])
def test_a_leaf_seen_first_in_a_batch_plays_no_part_in_bets_on_it(planted, monkeypatch):
    """Which leaves have a column must be known from the past: bets on a batch are the same without its new ones."""
    if planted:
        monkeypatch.setattr(Draws, "narrow", lambda self, columns: self)

    def wealth(new):
        rng, made = np.random.default_rng(0), itertools.count()

        def mechanism(dataset):
            told = types.SimpleNamespace(v=float(len(dataset) + rng.laplace()), w=0.5)
            if next(made) >= 6 * 48 and new and dataset:
                told.new = 40.0
            return told

        test = PairTest(Edge("", [1.0], []), Mechanism(mechanism), approximate(0))
        for _ in range(4):
            test.advance(48)
        return test.log_wealth

    assert (wealth(True) == wealth(False)) != planted
