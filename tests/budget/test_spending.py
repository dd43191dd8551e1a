"""Budgets that later questions depend on: never below the truth, however questions are chosen."""

import importlib.util
import inspect
import math
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction as F
from pathlib import Path

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.budget import Budget, Loss, Remaining
from sfumato.budget.closed_forms import (
    gaussian_delta,
    pure_epsilon,
    pure_mu,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from sfumato.errors import BudgetError

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "budget.py"


def test_thirds_of_a_budget_are_thirds():
    for composition in ("tight", "adding"):
        budget = Budget(3, "1e-6", composition=composition)
        for left in (2, 1, 0):
            budget.spend(1)
            found = budget.remaining
            assert found.epsilon == left and found.share == pytest.approx(left / 3)
        assert budget.spent == (3.0, 0.0)
        with pytest.raises(BudgetError, match="exceeds what is left"):
            budget.spend("1e-9")
        assert [asked.epsilon for asked in budget.history] == [1, 1, 1]


def test_adding_leaves_all_of_delta_and_tight_half_of_it():
    adding, tight = Budget(3, "1e-6", composition="adding"), Budget(3, "1e-6")
    for budget, most in ((adding, F("1e-6")), (tight, F("5e-7"))):
        assert F(budget.remaining.delta) <= most < F(budget.remaining.delta) * (1 + F(1, 2**50))
        with pytest.raises(BudgetError, match="delta"):
            budget.spend("0.1", most + F(1, 10**20))
        budget.spend("0.1", most)
        assert budget.remaining.delta in (0.0, 2.5e-7)  # nothing, or what events have in the tight sums
    with pytest.raises(BudgetError, match="composition='adding'"):
        tight.spend(3, "1e-8")


def test_without_delta_epsilons_add_up_and_no_more():
    budget = Budget(1)
    for _ in range(1000):
        budget.spend("0.001")
    assert budget.remaining == Remaining(0.0, 0.0, 0.0)
    with pytest.raises(BudgetError, match="and 1e-12 more is needed"):
        budget.spend("1e-12")


def test_many_small_questions_cost_less_than_their_sum():
    budget = Budget(1, "1e-6")
    asked = 0
    with pytest.raises(BudgetError):
        while True:
            budget.spend("0.005")
            asked += 1
    rho = zcdp_rho(F(1), F("1e-6") / 8)
    assert asked == math.floor(rho / (F("0.005") ** 2 / 2)) > 1000  # 200 by adding
    assert budget.spent[0] <= 1.0


def test_gaussian_noise_is_composed_as_such():
    budget, one = Budget(3, "1e-6"), Loss(gaussian=F("0.056"))
    asked = 0
    with pytest.raises(BudgetError):
        while True:
            budget.spend(1, "1e-6", loss=one)
            asked += 1
    assert gaussian_delta(F(3), asked * one.gaussian) <= F("1e-6")
    assert asked >= 0.7 * max(n for n in range(1, 40) if gaussian_delta(F(3), n * one.gaussian) <= F("1e-6"))


@pytest.mark.parametrize("epsilon", ["1e-12", "0.5", "7", "900"])
def test_a_pure_mechanism_is_gaussian_dp_with_this_mu_and_hardly_less(epsilon):
    mu = pure_mu(F(epsilon))
    with mp.workdps(30):
        half = mp.mpf(mu.numerator) / mu.denominator / 2
        goal = 1 / (1 + mp.exp(mp.mpf(F(epsilon).numerator) / F(epsilon).denominator))
        assert mp.erfc(half / mp.sqrt(2)) / 2 <= goal
        less = half * (1 - mp.mpf(10) ** -6)
        assert mp.erfc(less / mp.sqrt(2)) / 2 > goal


@pytest.mark.parametrize("mu", ["0", "1e-60", "1e-6", "0.5", "7", "84", "1e9"])
def test_what_a_mu_allows_is_allowed_and_nearly_the_most(mu):
    epsilon = pure_epsilon(F(mu))
    assert epsilon >= 0 and (not epsilon or pure_mu(epsilon) <= F(mu))
    more = epsilon * (1 + F(1, 10**6)) if F(mu) < 80 else epsilon * F(3, 2)
    assert F(mu) < F("1e-6") or pure_mu(more) > F(mu)


def test_what_may_be_asked_after_gaussian_noise_may_be_asked():
    """Where the sums of epsilons and of rho are full, those of mu^2 may have room."""
    budget = Budget(3, "1e-6")
    while (square := budget.remaining.share) > F(1, 50):
        budget.spend(1, loss=Loss(gaussian=F(3, 1000)))
    least = budget.remaining.epsilon
    assert least > 0.01 and square < F(1, 50)
    with pytest.raises(BudgetError):
        budget.spend(F(least) * 2, loss=Loss(laplace=((F(least) * 2, 1),)))
    budget.spend(F(least), loss=Loss(laplace=((F(least), 1),)))


@pytest.mark.parametrize(
    "rho, epsilon", [("1e-6", "0.01"), ("0.01", "1"), ("0.5", "2"), ("0.5", "0.1"), ("20", "90")]
)
def test_zero_concentrated_privacy_by_the_best_order(rho, epsilon):
    """Against the least bound over Renyi orders, at high precision; and epsilon is the inverse of delta."""
    rho, epsilon = F(rho), F(epsilon)
    delta = zcdp_delta(rho, epsilon)
    with mp.workdps(60):
        r, e = (mp.mpf(number.numerator) / number.denominator for number in (rho, epsilon))

        def log_bound(order):
            return (order - 1) * (order * r - e) - mp.log(order - 1) + order * mp.log(1 - 1 / order)

        low, high = mp.mpf(10) ** -9, mp.mpf(10) ** 9  # of order - 1: the bound falls, and then rises
        for _ in range(300):
            third = (high / low) ** (mp.mpf(1) / 3)
            first, second = low * third, high / third
            low, high = (low, second) if log_bound(1 + first) < log_bound(1 + second) else (first, high)
        least = min(mp.mpf(1), mp.exp(log_bound(1 + low)))
        assert least <= mp.mpf(delta.numerator) / delta.denominator * (1 + mp.mpf(10) ** -30)
        assert mp.mpf(delta.numerator) / delta.denominator <= least * (1 + mp.mpf(10) ** -9)
    if delta < 1:
        assert epsilon * (1 - F(1, 10**6)) <= zcdp_epsilon(rho, delta) <= epsilon * (1 + F(1, 10**6))


@given(st.fractions(F(1, 1000), 50), st.integers(3, 300))
@settings(max_examples=8, deadline=None)
def test_the_limit_of_rho_is_within_and_near(epsilon, digits):
    delta = F(1, 10**digits)
    rho = zcdp_rho(epsilon, delta)
    assert rho == 0 or zcdp_delta(rho, epsilon) <= delta
    assert zcdp_delta(rho + epsilon / 2**38, epsilon) > delta


@pytest.mark.long
def test_no_history_costs_less_than_it_loses_by_distributions():
    """Fixed histories against dp_accounting's privacy-loss distributions; benchmarks/budget.py has 500."""
    spec = importlib.util.spec_from_file_location("histories", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    found = [benchmark.compared(seed) for seed in range(20)]
    # The distributions' own grid is off by at most 1e-3 a noise, upwards.
    # The sum is the nearest float, and what is spent the next one up.
    assert all(truth * 0.98 - 0.02 <= spent <= math.nextafter(added, 100) for spent, added, truth, _ in found)
    assert sorted(spent / truth for spent, _, truth, _ in found)[10] < 2


def test_the_deltas_of_all_sums_come_to_that_of_the_budget():
    """Each sum has a delta of its own: with all of it in each, a strategy could lose several times as much."""
    named, (rho, events), (square, others) = (each.limit for each in Budget(1, "1e-6")._account.cap._filters)
    assert events == others
    used = named[1] + events + zcdp_delta(rho, F(1)) + gaussian_delta(F(1), square)
    assert F("0.999e-6") < used <= F("1e-6")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0,), BudgetError), ((math.nan,), BudgetError), (("x",), BudgetError), ((1, 1), BudgetError),
        ((1, -1e-9), BudgetError), ((True,), BudgetError), ((10**400,), BudgetError),
    ],
)  # fmt: skip
def test_what_is_no_budget_is_refused(arguments, error):
    with pytest.raises(error):
        Budget(*arguments)
    with pytest.raises(error):
        Budget(1, "0.1").spend(*arguments)


def test_a_refusal_spends_nothing_and_is_not_in_the_history():
    budget = Budget(1, "1e-6")
    budget.spend("0.5", what="first")
    before = budget.remaining
    for epsilon, delta in ((1, 0), ("0.1", "0.5"), ("nonsense", 0), (0, 0)):
        with pytest.raises(BudgetError):
            budget.spend(epsilon, delta)
    assert budget.remaining == before
    assert [spent.what for spent in budget.history] == ["first"]


@pytest.mark.parametrize(("delta", "granted"), [(0, 100), ("1e-6", 250)])  # of 1e-9 each, events have 250
def test_threads_overspend_nothing(delta, granted):
    budget, refused = Budget(1, delta), []

    def spend():
        for _ in range(50):
            try:
                budget.spend("0.01", "1e-9" if delta else 0)
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) + len(budget.history) == 400
    assert len(budget.history) == granted


@pytest.mark.long
def test_an_interrupt_in_the_middle_leaves_the_budget_to_others():
    """At each call of Python code within a spend; a lock of ours would stay taken by some."""

    class Interrupt(BaseException):
        pass

    def interrupted(place):
        calls = iter(range(place))

        def trace(frame, event, argument):
            # In a generator that is closed it would be lost.
            if not frame.f_code.co_flags & inspect.CO_GENERATOR and next(calls, None) is None:
                sys.settrace(None)
                raise Interrupt

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            budget.spend("0.001")
        except Interrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    budget, place = Budget(1), 0
    while interrupted(place):
        place += 1
        with ThreadPoolExecutor(1) as other:
            other.submit(budget.spend, "0.001").result(timeout=10)
    assert place > 10
    assert F(budget.remaining.epsilon) <= 1 - sum(asked.epsilon for asked in budget.history)


def test_what_is_said_to_be_left_may_be_asked():
    for composition in ("tight", "adding"):
        budget = Budget("2/3", "1e-6", composition=composition)
        with pytest.raises(BudgetError) as refused:
            budget.spend(1)
        left = re.search(
            r"(?:a query can still spend epsilon=|left of the budget: )([\d.]*\d)[ ,]", str(refused.value)
        )
        budget.spend(left[1])
        assert budget.remaining.share < 1e-9


def test_a_child_spends_nothing(in_child):
    budget = Budget(1)
    kind, _ = in_child(lambda: budget.spend("0.1"))
    assert kind is BudgetError and budget.history == ()
