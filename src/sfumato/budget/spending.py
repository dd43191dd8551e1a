"""One budget for many questions, of which later ones may depend on earlier answers.

Three sums are kept beside each other, each with a limit of its own (`filters`), and a question may be asked
as long as one of the three would stay within its limit (`account`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.budget.account import Account, Cap, Unspent, told
from sfumato.budget.filters import Spent, Way
from sfumato.budget.loss import Loss
from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.display.card import Card, Facts, Rows
from sfumato.display.displayed import Displayed
from sfumato.display.numbers import exact
from sfumato.errors import BudgetError, ParameterError
from sfumato.exact import round_down
from sfumato.names import Helpful, foreign, helpful
from sfumato.ownership import Owned, Turn

if TYPE_CHECKING:
    from sfumato.budget.ledger.entry import Entry


_MOST = 20  # questions that are shown

LOG = logging.getLogger("sfumato.budget")


class Remaining(NamedTuple):
    """What is left of a budget.

    What `Budget` says by `remaining`.

    Args:
        epsilon: what the next question may surely ask for; with Gaussian noise perhaps more (or less, at a
            delta of a percent and above).
        delta: what it may name beside.
        share: the part of the budget that is left, from 0 to 1.
    """

    epsilon: float
    delta: float
    share: float


class Budget(Helpful, Displayed, Owned):
    """An (epsilon, delta) for all questions together, which cannot be overspent.

    What is asked next, and for how much, may depend on all answers before. A question that does not fit is
    refused before anything is read, and costs nothing. Several threads may ask, of the process that made the
    budget alone; there are no copies.

    Args:
        epsilon: all that may be lost, greater than 0. A float is the number that was written,
            and ten times 0.1 is 1.
        delta: in [0, 1).
        composition: "tight" also keeps sums in zero-concentrated and in Gaussian DP, so that many small
            questions cost less than their epsilons add up to; of delta it leaves one half for what
            questions name. "adding" adds epsilons and deltas, of which questions may name all. With delta 0
            both are one.
    Raises:
        BudgetError: epsilon or delta is not admissible.
        ParameterError: composition is none of these.

    >>> budget = Budget(epsilon=1)
    >>> budget.spend("0.75")
    >>> budget.remaining
    Remaining(epsilon=0.25, delta=0.0, share=0.25)
    >>> budget.spend("0.5")
    Traceback (most recent call last):
    sfumato.errors.BudgetError: epsilon='0.5' is more than is left of the budget: 0.25, so that 0.25 is...

    Source:
        docs/proofs/budget.md, after Rogers, Roth, Ullman and Vadhan 2016; Feldman and Zrnic 2021; Smith and
        Thakurta 2022; Whitehouse, Ramdas, Rogers and Wu 2023.
    """

    _foreign = foreign.BUDGET
    _elsewhere = (
        "what is spent in two places would be counted in neither; give each place a budget of its own"
    )
    _refusal = BudgetError

    @helpful
    def __init__(self, epsilon: Any, delta: Any = 0, *, composition: str = "tight") -> None:
        self._account = Account.empty(Cap.of(epsilon, delta, composition))
        self._history: list[Spent] = []
        self._turn = Turn()

    @property
    def total(self) -> tuple[float, float]:
        """All that may be lost: epsilon and delta."""
        cap = self._accounts()[-1].cap
        return float(cap.epsilon), float(cap.delta)

    @property
    def history(self) -> tuple[Spent, ...]:
        """What was paid, in order."""
        return tuple(self._history)

    @property
    def spent(self) -> tuple[float, float]:
        """An (epsilon, delta) that what was asked so far stays within, rounded up.

        It is the smallest epsilon of a budget with the same delta that would have allowed these questions.
        What is promised of later questions too is `total`.
        """
        return self._accounts()[-1].spent

    @property
    def remaining(self) -> Remaining:
        """What is left, rounded down."""
        return Remaining(*map(round_down, self._left()))

    def spend(
        self,
        epsilon: Any,
        delta: Any = 0,
        *,
        loss: Loss | None = None,
        what: str = "a question",
        plan: Mapping[str, Any] | None = None,
    ) -> Entry | None:
        """Pay for a question; what asks releases does so itself.

        Args:
            epsilon, delta: what the question stays within.
            loss: what its noises lose, where more is known than epsilon and delta; both must be true.
            what: in a few words, for `history`.
            plan: what is asked, in canonical form, for the journal of a ledger; others do not keep it.
        Returns:
            What was entered in the ledger that keeps the budget; None of one that no ledger keeps.
        Raises:
            BudgetError: it is not admissible, or more than is left, or this is another process than that
                which made the budget; nothing is spent then.
            ParameterError: loss or plan is none.
            RefusalError: it is asked in the middle of another question, as by a handler of a signal.
        """
        self._check_home()
        eps, dlt = admissible_epsilon(epsilon), admissible_delta(delta)
        if not isinstance(loss, Loss | None):
            raise ParameterError("loss", type(loss).__name__, "a Loss of sfumato.budget, or left out")
        if not isinstance(plan, Mapping | None):
            raise ParameterError("plan", type(plan).__name__, "the canonical form of a plan, or left out")
        asked = Spent(str(what), eps, dlt, loss or Loss(approximate=((eps, dlt, 1),)))
        with self._turn():
            entry = self._pay(asked, epsilon, delta, plan)
        with suppress(Exception):  # of a handler: what is spent is spent
            LOG.info("spent epsilon=%.6g, delta=%.6g", eps, dlt)
        return entry

    def _ways(self, share: Fraction) -> list[Way]:
        """Return how a question may take a share: by sums of which the least is used up.

        Once a question has taken a share by one of them, so do those after it: their shares add up.

        Args:
            share: greater than 0 and at most 1.
        Raises:
            BudgetError: less is left.
        """
        return self._accounts()[-1]._ways(share)

    # What a budget that is kept elsewhere does in its own way.

    def _accounts(self) -> tuple[Account, ...]:
        """Return all accounts that a question must fit; the last is the budget's own."""
        return (self._account,)

    def _pay(self, asked: Spent, epsilon: Any, delta: Any, plan: Mapping[str, Any] | None) -> Entry | None:
        """Pay, or refuse in words that quote epsilon and delta as they were given."""
        after = self._account.after(asked)
        if not after.fits:
            raise self._account.refusal(asked, epsilon, delta)
        self._account = after
        self._history.append(asked)
        return None

    def _left(self) -> Unspent:
        """Return what fits all accounts: less of any of the three fits, where more does."""
        return Unspent(*map(min, zip(*(account.left for account in self._accounts()), strict=True)))

    def _card(self) -> Card:
        cap, left, (epsilon, delta) = self._accounts()[-1].cap, self.remaining, self.spent
        facts = [
            ("in all", f"epsilon {exact(cap.epsilon)}, delta {exact(cap.delta)}"),
            ("spent", f"within {_price(epsilon, delta)}"),
            ("left", f"{left.share:.1%}; a question may ask for {_price(left.epsilon, left.delta)}"),
        ]
        paid = [[one.what, exact(one.epsilon), exact(one.delta)] for one in self.history[-_MOST:]]
        more = f"The last {_MOST} of {len(self.history):,} questions." if len(self.history) > _MOST else ""
        rows = Rows(["paid for", "epsilon", "delta"], paid, beyond=more) if paid else None
        return Card(self._title, [Facts(facts), rows])

    @property
    def _title(self) -> str:
        return "Budget of all questions together"

    def __repr__(self) -> str:
        left = self._left()
        cap = self._account.cap
        return (
            f"<Budget of epsilon={told(cap.epsilon)}, delta={told(cap.delta)}: {float(left.share):.1%} "
            f"left, a question may ask for epsilon={told(left.epsilon)}>"
        )


def _price(epsilon: float, delta: float) -> str:
    return f"epsilon {epsilon:.6g}, delta {delta:.6g}"
