"""The odometer: what it adds up, what it refuses, and that nothing is drawn or spent where it does."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction as F
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import framework as fw
from sfumato.errors import BudgetError, QueryError
from sfumato.measurements import PrivacyLoss, convert, gaussian, laplace

pytestmark = pytest.mark.noise_cannot_matter("losses are looked at, not what is drawn")

steady = settings(derandomize=True, database=None, deadline=None, max_examples=40)

WHOLE, DISTANCE = fw.AtomDomain(int), fw.AbsoluteDistance()


def odometer(measure, budget, **more):
    return fw.Odometer(10**6, WHOLE, DISTANCE, measure, budget, **more)


def claimed(measure, loss, function=lambda value: "drawn"):
    """A measurement with a loss of one's own at distance 1."""
    return fw.Measurement("claimed", WHOLE, DISTANCE, measure, function, lambda d_in: loss)


def never(value):
    raise AssertionError("drawn")


@pytest.mark.parametrize(
    "measure, budget, losses, spent, remaining, too_much",
    [
        (fw.PureDP(), "1", [F(1, 3), F(1, 3)], F(2, 3), F(1, 3), F(1, 3) + F(1, 10**30)),
        (fw.ZeroConcentratedDP(), F(1, 2), [F(1, 8)] * 3, F(3, 8), F(1, 8), F(1, 7)),
        (fw.GaussianDP(), 5, [F(3)], F(3), F(4), F(4) + F(1, 10**30)),
        (fw.ApproximateDP(), (1, "1e-6"), [(F(1, 2), F("4e-7"))], (F(1, 2), F("4e-7")), (F(1, 2), F("6e-7")), (F(1, 4), F("7e-7"))),
        (fw.ApproximateDP(), (1, 0), [(F(1, 2), F(0))], (F(1, 2), 0), (F(1, 2), 0), (F(2, 3), F(0))),
    ],
)  # fmt: skip
def test_what_is_spent_left_and_refused(measure, budget, losses, spent, remaining, too_much):
    ledger = odometer(measure, budget)
    for loss in losses:
        assert ledger.ask(claimed(measure, loss)) == "drawn"
    assert (ledger.spent, ledger.remaining) == (spent, remaining)
    for _ in range(2):
        with pytest.raises(BudgetError, match="claimed would lose .* is left of the budget"):
            ledger.ask(claimed(measure, too_much, never))
        assert (ledger.spent, ledger.remaining) == (spent, remaining)
    assert ledger.ask(claimed(measure, remaining)) == "drawn"  # to the last bit
    nothing = measure.total([])
    assert ledger.remaining == nothing
    assert ledger.ask(claimed(measure, nothing)) == "drawn"  # what costs nothing always fits
    with pytest.raises(BudgetError):
        ledger.ask(claimed(measure, losses[0], never))


MEASURES = [fw.PureDP(), fw.ZeroConcentratedDP(), fw.GaussianDP()]


@pytest.mark.long
@steady
@given(st.sampled_from(MEASURES), st.fractions(0, 5), st.lists(st.fractions(0, 2), max_size=12))
def test_what_was_released_never_exceeds_the_budget(measure, budget, losses):
    """The total of all that was drawn, added up at the end; and what was refused would have exceeded it."""
    ledger, drawn = odometer(measure, budget), []
    exact = (lambda parts: sum(p * p for p in parts)) if measure == fw.GaussianDP() else sum
    limit = budget**2 if measure == fw.GaussianDP() else budget
    for loss in losses:
        try:
            ledger.ask(claimed(measure, loss))
            drawn.append(loss)
        except BudgetError:
            assert exact([*drawn, loss]) > limit * (1 - F(1, 2**120))
    assert exact(drawn) <= limit


@steady
@given(st.fractions(F(1, 100), 100), st.fractions(0, 1))
def test_what_is_left_of_a_mu_fits_and_little_more_does(budget, share):
    measure = fw.GaussianDP()
    spent = budget * share
    rest = measure.remaining(spent, budget)
    assert measure.within(measure.total([spent, rest]), budget)
    assert not measure.within(measure.total([spent, rest + budget * F(1, 2**50)]), budget)


def test_losses_are_taken_at_the_distance_of_neighbours():
    ledger = odometer(fw.PureDP(), 1, d_in=3)
    ledger.ask(laplace(6))
    assert ledger.spent == F(1, 2)
    with pytest.raises(
        BudgetError, match="laplace would lose 3/5 at distance 3: 1/2 is left of the budget 1"
    ):
        ledger.ask(laplace(5))


@pytest.mark.parametrize(
    "asked, what",
    [
        (laplace(1, fw.VectorDomain(WHOLE)), "domain"), (laplace(1, fw.AtomDomain(int, 0, 9)), "domain"),
        (gaussian(1), "measure"), (convert(laplace(1), fw.ApproximateDP()), "measure"),
    ],
)  # fmt: skip
def test_other_spaces_are_refused(asked, what):
    ledger = odometer(fw.PureDP(), 100)
    with pytest.raises(QueryError, match=f"has the {what} .*, but the odometer has"):
        ledger.ask(asked)
    assert ledger.spent == 0


def test_a_draw_that_fails_has_been_paid():
    def fail(value):
        raise OSError("the source is gone")

    ledger = odometer(fw.PureDP(), 1)
    with pytest.raises(QueryError, match="failed with an OSError"):
        ledger.ask(claimed(fw.PureDP(), F(1), fail))
    assert ledger.remaining == 0


def test_threads_cannot_overspend():
    """16 threads start together and ask for a tenth of the budget each, again and again."""
    ledger, start = odometer(fw.PureDP(), 1), Barrier(16)

    def ask(_):
        start.wait()
        granted = 0
        for _ in range(20):
            try:
                ledger.ask(claimed(fw.PureDP(), F(1, 10)))
                granted += 1
            except BudgetError:
                pass
        return granted

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(ask, range(16))) == 10
    assert ledger.spent == 1


@pytest.mark.parametrize("measure", [PrivacyLoss(), None, "PureDP", fw.PureDP])
def test_measures_without_a_filter_are_refused(measure):
    with pytest.raises(QueryError, match="must be fixed beforehand, with compose. Measures"):
        odometer(measure, (1, "1e-6"))
    assert issubclass(PrivacyLoss, fw.Measure) and not issubclass(PrivacyLoss, fw.Filter)


@pytest.mark.parametrize("budget", [-1, math.nan, "x", (1, 0)])
def test_bad_budgets(budget):
    for measure in MEASURES:
        with pytest.raises(BudgetError, match="budget"):
            odometer(measure, budget)


@pytest.mark.parametrize("budget", [1, "ab", (1, 2, 3), (-1, 0), (1, 1), (1, math.nan)])
def test_bad_pairs(budget):
    with pytest.raises(BudgetError, match="budget|epsilon|delta"):
        odometer(fw.ApproximateDP(), budget)
