"""Budgets of a ledger: caps that hold together, by period, exactly, and as `sf.Budget` does."""

import random
import re
from datetime import date
from fractions import Fraction as F

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.budget import Loss
from sfumato.budget.ledger import Entry, Ledger, ledger_entries
from sfumato.budget.ledger.ledger_entries import PERIODS, format_period
from sfumato.errors import BudgetError, ParameterError

pytestmark = pytest.mark.noise_cannot_matter("what is paid is looked at, no answer")


def made(place: str, **how: object) -> Ledger:
    ledger = sf.Ledger(place)
    ledger.create("hospital", **({"epsilon": 3, "delta": "1e-6"} | how))
    return ledger


def test_what_is_spent_is_there_for_whoever_opens_it(place):
    ledger = made(place)
    ledger.grant("hospital", "ann", epsilon=1)
    budget = ledger.budget("hospital", analyst="ann")
    budget.spend("0.25", "1e-8", what="patients by year")
    again = sf.Ledger(place).budget("hospital", analyst="ann")
    for one in (budget, again):
        assert one.remaining.epsilon == 0.75 and one.spent == (0.25, 1e-8) and one.total == (1, 1e-6)
        (entry,) = one.history
        assert isinstance(entry, Entry) and (entry.what, entry.analyst) == ("patients by year", "ann")
        assert (entry.epsilon, entry.delta) == (F(1, 4), F("1e-8"))
    assert ledger.budget("hospital").spent == (0.25, 1e-8)
    assert "75.0% left" in repr(again) and "for ann" in repr(again)
    kinds = [(entry.number, entry.kind, entry.analyst) for entry in ledger.history()]
    assert kinds == [(1, "create", None), (2, "grant", "ann"), (3, "spend", "ann")]
    ledger.check()


def test_analysts_together_never_pass_the_cap_of_the_dataset(place):
    ledger = made(place, delta=0)
    for name in ("ann", "bob", "cleo", "dan"):
        ledger.grant("hospital", name, epsilon=1)
    for name in ("ann", "bob", "cleo"):
        ledger.budget("hospital", name).spend(1)
        if name == "cleo":  # with whom the cap over all is reached, too
            break
        with pytest.raises(BudgetError, match=f"left of {name}'s budget of 'hospital': 0"):
            ledger.budget("hospital", name).spend("1e-9")
    dan = ledger.budget("hospital", "dan")
    assert dan.remaining == (0, 0, 0) and dan.spent == (0, 0)
    with pytest.raises(BudgetError, match="left of the budget of 'hospital' over all analysts: 0"):
        dan.spend("1e-9")
    assert [entry.analyst for entry in ledger.budget("hospital").history] == ["ann", "bob", "cleo"]
    assert dan.history == ()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_ledger_admits_what_a_budget_admits(place, seed):
    chosen = random.Random(seed)
    cap = chosen.choice(
        [
            {"epsilon": 2, "delta": "1e-5"},
            {"epsilon": 1},
            {"epsilon": "7/3", "delta": "1e-6", "composition": "adding"},
        ]
    )
    ledger = sf.Ledger(place)
    ledger.create("hospital", **cap)
    kept, held = ledger.budget("hospital"), sf.Budget(**cap)
    for _ in range(15):
        rate = F(chosen.randint(1, 1000), chosen.choice([1000, 3001]))
        loss, *asked = chosen.choice([
            (Loss(gaussian=rate * rate), rate * 5, F("1e-7")),
            (Loss(laplace=((rate, 1), (rate / 3, 2)), pure=rate), rate, F(0)),
            (Loss(laplace=((rate / 2, 1),), additive_delta=F("1e-7")), rate, F("1e-7")),
            (None, rate, F(0)),
        ])  # fmt: skip
        told = []
        for budget in (kept, held):
            try:
                budget.spend(*asked, loss=loss, what="q")
                told.append("")
            except BudgetError as error:
                told.append(re.sub("the budget of 'hospital' over all analysts", "the budget", str(error)))
        assert told[0] == told[1]
        assert (kept.spent, kept.remaining) == (held.spent, held.remaining)
    assert [(s.epsilon, s.delta, s.loss) for s in kept.history] == [
        (s.epsilon, s.delta, s.loss) for s in held.history
    ]
    assert kept._accounts()[0].totals == held._account.totals


amounts = st.fractions(0, 10, max_denominator=99) | st.builds(
    F, st.integers(1, 10**30), st.sampled_from([3**9000, 10**200, 7**1000, 10**1400])
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(amounts, st.lists(st.tuples(amounts.filter(bool), st.integers(1, 9)), max_size=3), amounts)
def test_what_is_written_is_what_was_asked_or_more(gaussian, laplace, delta):
    asked = sf.budget.Spent(
        "q", F(1), delta % 1, Loss(gaussian=gaussian, laplace=tuple(laplace), additive_delta=delta)
    )
    paid = ledger_entries.as_written(asked)
    again = ledger_entries.read_loss(ledger_entries.loss_text(paid.loss))
    assert again == paid.loss
    assert paid.delta >= asked.delta and again.gaussian >= gaussian and again.additive_delta >= delta
    small = all(n.denominator.bit_length() <= 4096 for n in (gaussian, delta, *(r for r, _ in laplace)))
    assert (paid == asked) is small or not small
    assert again.basic_epsilon >= asked.loss.basic_epsilon


def test_odd_numbers_stay_exact(place):
    budget = made(place, epsilon=1, delta=0).budget("hospital")
    for _ in range(3):
        budget.spend("1/3")
    assert budget.remaining.epsilon == 0 and budget._accounts()[0].totals == ((F(1), F(0)),)
    long = F(1, 3**8000)
    large = sf.Ledger(place)
    large.create("other", epsilon=1)
    for _ in range(3):
        large.budget("other").spend(long)
    ((paid, _),) = large.budget("other")._accounts()[0].totals
    assert 3 * long <= paid <= F(3, 2**4096)
    large.check()


@pytest.mark.parametrize("period", PERIODS)
def test_periods_are_in_order_and_whole(period):
    days = [date.fromordinal(n) for n in range(date(2020, 1, 1).toordinal(), date(2031, 1, 1).toordinal())]
    names = [format_period(day, period) for day in days]
    assert names == sorted(names)
    lengths = {names.count(name) for name in set(names[800:2000])}
    assert (
        lengths
        <= {"week": {7}, "month": {28, 29, 30, 31}, "quarter": {90, 91, 92}, "year": {365, 366}}[period]
    )


def test_a_period_renews_what_is_left_and_the_lifetime_grows(file, clock):
    clock("2026-01-31")
    ledger = made(file, epsilon=10)
    ledger.grant("hospital", "ann", epsilon=1, period="month")
    budget = ledger.budget("hospital", "ann")
    for day, name in (("2026-01-31", "2026-01"), ("2026-02-01", "2026-02"), ("2026-04-30", "2026-04")):
        clock(day)
        assert budget.period == name and budget.remaining.epsilon == 1 and budget.spent == (0, 0)
        budget.spend(1)
        with pytest.raises(BudgetError, match=f"ann's budget of 'hospital' in {name}"):
            budget.spend(1)
    assert budget.spent == (1, 0) and budget.lifetime == (3, 0)
    assert ledger.budget("hospital").remaining.epsilon == 7  # which is never renewed
    assert len(budget.history) == 3


def spent_on(ledger: Ledger, clock: object, days: list[str]) -> int:
    done = 0
    for day in days:
        clock(day)
        try:
            ledger.budget("hospital").spend(3)
            done += 1
        except BudgetError:
            pass
    return done


DAYS = ["2026-03-31", "2026-02-28", "2025-12-31", "2026-03-31", "2026-04-01", "2026-03-31", "2026-04-02"]


def test_a_clock_that_goes_back_renews_nothing(file, clock):
    clock("2026-03-01")
    ledger = made(file, period="month")
    assert spent_on(ledger, clock, DAYS) == 2
    assert [entry.day for entry in ledger.history()] == sorted(entry.day for entry in ledger.history())
    ledger.check()


def test_a_cap_that_changes_keeps_what_was_spent(place):
    ledger = made(place)
    ledger.grant("hospital", "ann", epsilon=1)
    ann = ledger.budget("hospital", "ann")
    ann.spend(1)
    ledger.grant("hospital", "ann", epsilon=2, period="year")
    assert ann.remaining.epsilon == 1 and ann.spent == (1, 0)
    ledger.grant("hospital", "ann", epsilon="1/2")
    assert ann.remaining == (0, 0, 0) and ann.spent == (1, 0)
    with pytest.raises(BudgetError, match="exceeds what is left of ann's budget"):
        ann.spend("0.1")
    with pytest.raises(BudgetError, match="exceeds what is left of ann's budget"):
        ann._ways(F(1, 10))
    ledger.create("hospital", epsilon=1, delta=0, replace=True)
    assert ledger.budget("hospital").remaining == (0, 0, 0)
    with pytest.raises(BudgetError, match="no budget of 'school'"):
        ledger.create("school", epsilon=1, replace=True)
    ledger.check()
    assert [entry.kind for entry in ledger.history()] == [
        "create",
        "grant",
        "spend",
        "grant",
        "grant",
        "create",
    ]


@pytest.mark.parametrize(
    ("arguments", "named", "error"), [((1, 1), {}, BudgetError), ((1,), {"period": "day"}, ParameterError)]
)
def test_what_is_no_cap_is_refused_before_a_file_is_made(tmp_path, arguments, named, error):
    with pytest.raises(error):
        sf.Ledger(tmp_path / "budget.db").create("hospital", *arguments, **named)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["a\0b", "\ud800", "x" * 10**5, "'; DROP TABLE sfumato_entries; --"])
def test_any_words_may_be_said_of_a_question(place, what):
    budget = made(place).budget("hospital")
    budget.spend(1, what=what)
    (entry,) = budget.history
    assert entry.what == what or (len(entry.what) <= 2000 and entry.what[:1] in (what[0], "\\"))
    assert repr(entry).isprintable()


@pytest.mark.parametrize("epsilon", ["1e-1300", F(1, 3**4000)])
def test_a_cap_of_which_a_ledger_can_hold_nothing_is_refused(file, epsilon):
    """It was entered as 0, after which nobody could read any account of the ledger."""
    ledger = made(file)
    for ask in (lambda: ledger.create("tiny", epsilon), lambda: ledger.grant("hospital", "ann", epsilon)):
        with pytest.raises(BudgetError, match="less than 1e-1233"):
            ask()
    assert len(ledger.accounts()) == 1 and len(ledger.history()) == 1


@pytest.mark.long
def test_sums_of_any_fractions_can_be_written_and_are_never_less(place):
    """Denominators that have nothing in common multiply, and Python writes no more than 4,300 digits."""
    ledger = made(place, epsilon=30)
    budget, paid = ledger.budget("hospital"), [F(1, p**e) for p, e in ((3, 2500), (5, 1700), (7, 1400))]
    paid += [F(1, n) for n in range(101, 1000, 60)]
    for epsilon in paid:
        budget.spend(epsilon)
    ledger.check()
    (kept,) = ledger.accounts()
    for account in (kept.account, kept.lifetime):
        assert 0 <= account.totals[0][0] - sum(paid) < F(1, 2**4000)
    ledger.create("hospital", 31, "1e-6", replace=True)  # adds up anew
    assert ledger.accounts()[0].account.totals[0] == kept.account.totals[0]


@pytest.mark.long
def test_a_child_opens_its_own(place, in_child):
    ledger = made(place)
    budget = ledger.budget("hospital")
    for use in (
        lambda: budget.spend(1),
        lambda: ledger.budget("hospital"),
        lambda: ledger.create("school", 1),
        lambda: ledger.grant("hospital", "ann", 1),
    ):
        kind, text = in_child(use)
        assert kind is BudgetError and "belongs to the process that made it" in text
    in_child(lambda: sf.Ledger(place).budget("hospital").spend(1))
    budget.spend(1)
    assert budget.spent[0] == 2 and len(ledger.history()) == 3
