"""What is wrong is found, with few draws; what is right is not called private; the report says why."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from boundary import exact_laplace_sum, gaussian_sum, laplace_sum, on_grid, randomized_response

from sfumato.audit import (
    Edge,
    Report,
    approximate,
    assert_private,
    audit,
    auditor,
    curve,
    gaussian,
    units,
    zcdp,
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


@pytest.mark.long
def test_small_shifts_of_many_coordinates_are_found_by_a_score():
    """Each coordinate keeps epsilon = 0.2; all of them together, of either sign, do not keep 1."""
    source, sides = rng(), np.where(np.arange(50) % 2, 0.5, -0.5)

    def shifted(d, n):
        return on_grid(sides * len(d)) + on_grid(source.laplace(0, 2.5, (n, 50)))

    report = audit(shifted, epsilon=1, pairs=PAIR, max_samples=8000)
    assert report.violated
    assert "score" in report.witness.event


@pytest.mark.long
def test_a_tail_at_small_delta():
    """A value that only one side gives, with probability 1%, where delta is 0.1%."""
    source = rng()

    def mechanism(d, n):
        return np.where(source.random(n) < 0.01 * len(d), 7.0, 0.0)

    assert audit(mechanism, epsilon=1, delta=0.001, pairs=PAIR, max_samples=20_000).violated
    twin = audit(mechanism, epsilon=1, delta=0.01, pairs=PAIR, max_samples=20_000, alpha=SURE)
    assert not twin.violated


@pytest.mark.long
@pytest.mark.parametrize(
    ("claim", "wrong"), [(gaussian(1), 0.7), (zcdp(0.5), 0.6), (curve([(0.5, 0.2385), (1, 0.127)]), 0.7)]
)
def test_curves_of_gaussian_noise(claim, wrong):
    report = audit(gaussian_sum(rng(), wrong), claim=claim, pairs=PAIR, max_samples=4000)
    assert report.violated
    assert report.witness.replay.startswith(f"audit(mechanism, {claim.code}, pairs=[([")
    assert not audit(gaussian_sum(rng()), claim=claim, pairs=PAIR, max_samples=1000, alpha=SURE).violated


def test_change_one():
    assert not audit(
        randomized_response(rng()),
        epsilon=1,
        data=[[1.0], [0.0]],
        neighbors="change-one",
        max_samples=2000,
        alpha=SURE,
    ).violated
    assert audit(
        laplace_sum(rng(), 0.4), epsilon=1, data=[[1.0], [0.0]], neighbors="change-one", max_samples=2000
    ).violated


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


@pytest.mark.long
def test_user_level_pairs_find_units_with_many_rows():
    source = rng()

    def count(rows, size, bounded=True):
        units_seen = {r["unit"] for r in rows if r["unit"] is not None}
        exact = len(units_seen) if bounded else len(rows)
        return exact + on_grid(source.laplace(0, 1, size))

    found = audit(lambda rows, size: count(rows, size, bounded=False), epsilon=1, pairs=units())
    assert found.violated
    assert not audit(count, epsilon=1, pairs=units(), max_samples=5000, alpha=SURE).violated


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


def test_the_excess_bound_leaves_out_pairs_without_draws_but_not_their_share_of_the_error():
    """Which pairs are drawn from may follow from what was seen, so the number of all of them counts."""
    tests = [PairTest(Edge("", [1.0], []), Mechanism(lambda dataset: 0.0), approximate(1)) for _ in range(3)]
    assert half_line_excess(tests, 0.95) == math.inf
    tests[1].advance(100)
    level = 0.05 / 2 / len(tests) / 2 / (27 * 28)
    width = (1 + math.e) * math.sqrt(math.log(2 / level) / 2 / 90)
    assert half_line_excess(tests, 0.95) == pytest.approx(width, rel=1e-9)
    assert half_line_excess(tests[1:2], 0.95) < width * 0.99


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
    (replayed,) = np.exp(auditor._replay_wealth([one], 0, [Pair(1.0)]))
    assert 2 < replayed <= math.exp(wealth) <= replayed + 0.1


def test_pairs_of_a_curve_share_the_confidence(monkeypatch):
    needed = []
    monkeypatch.setattr(
        auditor, "_find_largest_rejected", lambda tests, j, least: needed.append(least) or 0.0
    )
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
    alone, both = (np.exp(auditor._replay_wealth(tests, 0, claims)) for tests in ([test], [test, other]))
    assert (alone > 2).any()
    np.testing.assert_allclose(both, np.maximum((alone + kept) / 2, 1))


EXTREMES = [1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324, -0.0, 2.0**60]


@pytest.mark.long
@pytest.mark.parametrize("shape", ["vectors", "mixed"])
def test_extreme_outputs_do_no_harm(shape):
    """Neither warnings nor errors, and no alarm where both sides are alike."""
    source = rng()

    def mechanism(dataset, size):
        if shape == "vectors":
            return source.choice(EXTREMES, (size, 7))
        return [None if i % 3 else {"a": v} for i, v in enumerate(source.choice(EXTREMES, size))]

    for claim in ({"epsilon": 0.1}, {"epsilon": 0, "delta": 1e-5}, {"epsilon": 800}, {"claim": zcdp(1e-4)}):
        report = audit(mechanism, **claim, pairs=PAIR, max_samples=600, alpha=SURE)
        assert not report.violated
        str(report)
        json.loads(report.to_json())


def test_bounds_are_written_on_the_safe_side():
    report = audit(laplace_sum(rng()), epsilon=1, pairs=PAIR, max_samples=300)
    excluded = replace(report.excluded, excess=0.123412)
    report = replace(report, epsilon_lower=1.17561, excluded=excluded)
    for words in (str(report), report.to_html()):
        assert "at least 1.175," in words and "by more than 0.1235," in words
    report = replace(report, epsilon_lower=0.0, excluded=replace(excluded, excess=-0.123451))
    for words in (str(report), report.to_html()):
        assert "at least 0," in words and "more than -0.1234," in words


def test_a_terminal_obeys_nothing_that_outputs_say():
    hostile = "\x1b[31m\u202e\nVIOLATED"
    report = audit(lambda dataset: {hostile: len(dataset)}, epsilon=1, pairs=[([1.0], [])])
    assert report.violated
    assert r".\x1b[31m\u202e\nVIOLATED is 1" in str(report)
    assert all(c.isprintable() or c == "\n" for c in str(report))
    passed = replace(report, violated=False, mechanism=hostile, claim=hostile, notes=(hostile,))
    assert all(c.isprintable() or c == "\n" for c in str(passed))
