"""The budget of a dataset, or of an analyst there, as a ledger keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.budget.account import Account, told
from sfumato.budget.filters import Spent
from sfumato.budget.spending import Budget

if TYPE_CHECKING:
    from sfumato.budget.ledger.book import Kept
    from sfumato.budget.ledger.entry import Entry
    from sfumato.budget.ledger.ledger import Ledger


class LedgerBudget(Budget):
    """A budget that a ledger keeps; what is read of it is what the ledger has at that moment.

    `Ledger.budget` gives it. `total`, `spent` and `history` are the analyst's own, or those of all analysts
    where none is named; `remaining` is what fits both.
    """

    _called = "budget of a ledger"
    _elsewhere = "open the ledger there, by sf.Ledger(...) of the same place, and take its budget"

    def __init__(self, ledger: Ledger, dataset: str, analyst: str | None) -> None:
        self._ledger, self._dataset, self._analyst = ledger, dataset, analyst
        self._turn = ledger._turn

    @property
    def history(self) -> tuple[Entry, ...]:
        """What was paid, in order, by the analyst; by all where none is named."""
        return self._ledger._entries(self._dataset, self._analyst)

    @property
    def lifetime(self) -> tuple[float, float]:
        """An (epsilon, delta) that all that was ever asked stays within, rounded up.

        Where the budget is renewed by period, this grows on, and nothing bounds it.
        """
        return self._kept()[-1].lifetime.spent

    @property
    def period(self) -> str:
        """The period that counts, such as "2026-11"; "" where the budget is never renewed."""
        return self._kept()[-1].since

    def _kept(self) -> tuple[Kept, ...]:
        return self._ledger._kept(self._dataset, self._analyst)

    def _accounts(self) -> tuple[Account, ...]:
        """Return all accounts that a question must fit; the last is the analyst's own, or that over all."""
        return tuple(kept.account for kept in self._kept())

    def _pay(self, asked: Spent, epsilon: Any, delta: Any) -> Entry:
        """Enter the question in the ledger, or refuse it."""
        return self._ledger._spend(self._dataset, self._analyst, asked, epsilon, delta)

    def __str__(self) -> str:
        left, whose = self._left(), "" if self._analyst is None else f" for {self._analyst}"
        return (
            f"Budget of {self._dataset!r}{whose}: {float(left.share):.1%} left, a question may ask for "
            f"epsilon={told(left.epsilon)} and delta={told(left.delta)}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"
