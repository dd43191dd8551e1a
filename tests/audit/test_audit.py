"""What is wrong is found, with few draws; what is right is not called private; the report says why."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from boundary import exact_laplace_sum, laplace_sum, on_grid

from sfumato.audit import (
    Edge,
    Report,
    approximate,
    assert_private,
    audit,
    auditor,
    gaussian,
)
from sfumato.audit.auditor import epsilon_lower, half_line_excess
from sfumato.audit.claims import Pair
from sfumato.audit.mechanisms import Mechanism
from sfumato.audit.pair_audit import PairTest

PAIR = [([1.0], [])]
# On correct mechanisms the tests below fail with probability at most this, each.
SURE = 1e-10


def rng():
    return np.random.default_rng(5)


# Strength: the limits with room, at seeds that are fixed.


@pytest.mark.parametrize(("scale", "most"), [(0.5, 1000), (0.8, 10_000)])
def test_too_little_noise_is_found(scale, most):
    report = audit(laplace_sum(rng(), scale), epsilon=1, pairs=PAIR, max_samples=most)
    assert report.violated
    assert 1 <= report.epsilon_lower <= 1 / scale


@pytest.mark.long
def test_enough_noise_is_not_found(scale=1):
    report = audit(exact_laplace_sum(1, scale), epsilon=1, pairs=PAIR, max_samples=20_000, alpha=SURE)
    assert not report.violated
    assert report.witness is None
    assert 0.75 / scale < report.epsilon_lower <= 1 / scale


# Outputs and defects of many kinds, each on its own pair, each with its correct twin.


def test_a_state_that_wears_off_is_no_violation():
    calls = []

    def exhausted(dataset):
        calls.append(1)
        if len(calls) > 600:
            raise RuntimeError("budget exhausted")
        return 0.0

    assert not audit(exhausted, epsilon=1, pairs=PAIR, max_samples=1500).violated
    count = iter(range(10**9))
    assert not audit(lambda dataset: float(next(count)), epsilon=1, pairs=PAIR, max_samples=1500).violated


# The search over datasets.


@pytest.mark.long
def test_the_default_datasets_find_what_only_odd_values_show():
    source = rng()

    def poisoned(dataset, size):
        return on_grid(sum(min(max(x, 0.0), 1.0) for x in dataset)) + on_grid(source.laplace(0, 1, size))

    report = audit(poisoned, epsilon=1)
    assert report.violated
    assert any(x != x for x in report.witness.dataset)
    assert len(report.edges) > 30


# The report.


@pytest.fixture(scope="module")
def violated() -> Report:
    return audit(laplace_sum(rng(), 0.5), epsilon=1, data=[[1.0, 0.5]])


def test_the_witness_can_be_replayed(violated):
    witness = violated.witness
    again = eval(
        witness.replay,
        {"audit": audit, "mechanism": laplace_sum(rng(), 0.5), "nan": math.nan, "inf": math.inf},
    )
    assert again.violated
    assert len(again.edges) == 1
    assert witness.frequency > math.e * witness.neighbour_frequency
    assert 1 < witness.observed_epsilon < 3.5
    assert sorted(map(len, (witness.dataset, witness.neighbour))) == [1, 2]


def test_assert_private(violated):
    with pytest.raises(AssertionError, match=r"VIOLATED(.|\n)*replay"):
        assert_private(laplace_sum(rng(), 0.5), epsilon=1, pairs=PAIR)
    from sfumato.testing import assert_private as same

    assert same is assert_private
    assert not same(exact_laplace_sum(3), epsilon=1, pairs=PAIR, max_samples=500, alpha=SURE).violated


# What a pass excludes.


def test_the_excess_bound_holds_and_shrinks():
    """Laplace noise of scale 0.9: its true excess over epsilon = 1 is 1/2 (1 - e^(1 - 1/0.9))."""
    truth = 0.5 * -math.expm1(1 - 1 / 0.9)
    widths = []
    for draws in (300, 10_000):
        test = PairTest(Edge("", [1.0], []), Mechanism(laplace_sum(rng(), 0.9)), approximate(1))
        while test.samples < draws:
            test.advance(draws // 2)
        widths.append(half_line_excess([test], 0.95))
    assert truth < widths[1] < widths[0]
    assert widths[1] < truth + 0.15


@pytest.mark.parametrize(
    ("mechanism", "ways"), [(lambda dataset, size: np.zeros(size), 2), (lambda dataset: 0.0, 1)]
)
def test_the_excess_bound_of_a_constant(mechanism, ways):
    """Nothing is seen, so that all is the bands' width; calls and single draws are two samples that may be judged."""
    test = PairTest(Edge("", [1.0], []), Mechanism(mechanism), approximate(1))
    test.advance(100)  # after the first one 2^(26/4) count
    level = 0.05 / 2 / ways / 2 / (27 * 28)
    width = (1 + math.e) * math.sqrt(math.log(2 / level) / 2 / 90)
    assert half_line_excess([test], 0.95) == pytest.approx(width, rel=1e-9)


def test_a_number_that_came_late_is_judged_by_later_draws_alone():
    """Which number of a column it got, and so its share of the error, was told by the draws before."""
    calls = itertools.count()

    def late(dataset):
        """In the second batch one side has it and the other has not; in the third, which counts, both have it."""
        call = next(calls)
        return {"b": 0.0, "a": 0.0} if call >= 200 or (call >= 100 and dataset) else {"a": 0.0}

    test = PairTest(Edge("", [1.0], []), Mechanism(late), approximate(1))
    for size in (50, 50, 100):
        test.advance(size)
    known = dict(zip(test.reader.paths, test.known, strict=True))
    assert known == {".keys": 1, ".a": 1, ".b": 100}
    level = 0.05 / 2 / (known_as := test.reader.paths.index(".b") + 1) / (known_as + 1) / (27 * 28)
    width = (1 + math.e) * math.sqrt(math.log(2 / level) / 2 / 90)
    assert half_line_excess([test], 0.95) == pytest.approx(width, rel=1e-9)


def test_what_a_pass_excludes_is_of_both_directions():
    """One side gives 1 each tenth time, the other never: that breaks the claim in one direction alone."""
    found = []
    for pair in (([1.0], []), ([], [1.0])):
        test = PairTest(
            Edge("", *pair), Mechanism(lambda d, n: (np.arange(n) % 10 == 0) * len(d)), approximate(1)
        )
        test.advance(10_000)
        found.append(half_line_excess([test], 0.95))
    assert found[0] == found[1] > 0.1


# Wealth: it begins at 1, is shared by all that is bet, and bets are made before the draws are seen.


def test_wealth_is_shared_by_pairs_features_and_bets():
    """Of a claim that nothing comes near to, no bet is made: the wealth stays what it was."""
    laplace = laplace_sum(rng())
    for mechanism, share in ((laplace, math.log(0.9)), (lambda d: laplace(d, 1)[0], 0.0)):
        test = PairTest(Edge("", [1.0], []), Mechanism(mechanism), approximate(5))
        for _ in range(4):
            test.advance(60)
        assert len(test.wagers) > 2 and test.log_wealth == pytest.approx(share, abs=1e-9)
    report = audit(laplace, epsilon=5, pairs=[*PAIR, ([2.0], [])], max_samples=300)
    assert all(point.log10_wealth < 1e-9 for point in report.trace)


def late_shifted(scale, last=0, batches=6):
    """An audit of a pair after some batches, of which the last is shifted."""
    source, calls = rng(), []

    def mechanism(dataset, size):
        calls.append(size)
        late = len(calls) > 2 * batches
        return laplace_sum(source, scale)(dataset, size) + (last * len(dataset) if late else 0)

    test = PairTest(Edge("", [1.0], []), Mechanism(mechanism), approximate(1))
    wealth = []
    for time in range(batches):
        test.advance(60, time)
        wealth.append(test.log_wealth)
    return test, max(wealth)


def test_bets_are_chosen_by_the_past_alone():
    """Events are the same whatever the last draws are; and replayed as they were chosen, bets gain the same."""
    (one, wealth), (other, _) = late_shifted(0.5), late_shifted(0.5, last=9)
    for a, b in zip(one.history[-1][1], other.history[-1][1], strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.past, b.past, strict=True))
    (replayed,) = np.exp(auditor._highest([one], 0, [Pair(1.0)]))
    assert 2 < replayed <= math.exp(wealth) <= replayed + 0.1


def test_pairs_of_a_curve_share_the_confidence(monkeypatch):
    needed = []
    monkeypatch.setattr(auditor, "_climb", lambda tests, j, least: needed.append(least) or 0.0)
    test = PairTest(Edge("", [1.0], []), Mechanism(laplace_sum(rng())), gaussian(1))
    epsilon_lower([test], 0.95)
    assert needed == [pytest.approx(math.log(5 / 0.05))] * 5


def test_a_pair_whose_calls_raised_has_no_more_in_the_lower_bound_than_it_kept():
    def moody(dataset, size):
        if size > 100:
            raise ValueError
        return np.zeros(size)

    other = PairTest(Edge("", [1.0], []), Mechanism(moody), approximate(1))
    other.advance(50)
    other.advance(200)
    kept = math.exp(other.log_wealth)
    assert kept == pytest.approx(0.1)
    test = PairTest(Edge("", [1.0], []), Mechanism(laplace_sum(rng(), 0.5)), approximate(1))
    for time in range(4):
        test.advance(50, time)
    claims = [Pair(k / 10) for k in range(5, 25)]
    alone, both = (np.exp(auditor._highest(tests, 0, claims)) for tests in ([test], [test, other]))
    assert (alone > 2).any()
    np.testing.assert_allclose(both, np.maximum((alone + kept) / 2, 1))


def test_a_terminal_obeys_nothing_that_outputs_say():
    hostile = "\x1b[31m\u202e\nVIOLATED"
    report = audit(lambda dataset: {hostile: len(dataset)}, epsilon=1, pairs=[([1.0], [])])
    assert report.violated
    assert r".\x1b[31m\u202e\nVIOLATED is 1" in str(report)
    assert all(c.isprintable() or c == "\n" for c in str(report))
    passed = replace(report, violated=False, mechanism=hostile, claim=hostile, notes=(hostile,))
    assert all(c.isprintable() or c == "\n" for c in str(passed))
