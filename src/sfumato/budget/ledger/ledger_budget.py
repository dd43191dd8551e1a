"""The budget of a dataset, or of an analyst there, as a ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.budget.budget import Account, Budget, six_digits
from sfumato.budget.filters import Spent
from sfumato.budget.loss import Loss

if TYPE_CHECKING:
    from sfumato.budget.ledger.ledger import Ledger
    from sfumato.budget.ledger.ledger_accounts import LedgerAccount
    from sfumato.budget.ledger.ledger_entries import Entry, PriorAnswer


class LedgerBudget(Budget):
    """A budget that a ledger keeps; each property reads the ledger's current state.

    `Ledger.budget` returns it. It has all members of a `Budget`. `total`, `spent` and `history` are the
    analyst's, or those of all analysts if none is named; `remaining` fits both caps.

    >>> import tempfile
    >>> import sfumato as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = sf.Ledger(f"{folder}/budget.db")
    ...     ledger.create("hospital", epsilon=3)
    ...     ledger.grant("hospital", "ann", epsilon=1, period="year")
    ...     budget = ledger.budget("hospital", analyst="ann")
    ...     _ = budget.spend("0.25", what="patients by year")
    ...     print(budget.remaining.epsilon, budget.lifetime, budget.history)
    0.75 (0.25, 0.0) (<Entry 3 of 'hospital' for ann: patients by year, epsilon=0.25, delta=0>,)
    """

    _called = "budget of a ledger"
    _elsewhere = "open the ledger there, with sf.Ledger(...) of the same place, and take its budget"

    def __init__(self, ledger: Ledger, dataset: str, analyst: str | None) -> None:
        self._ledger, self._dataset, self._analyst = ledger, dataset, analyst
        self._turn = ledger._turn
        self._key: str | None = None
        self._first = True

    @property
    def history(self) -> tuple[Entry, ...]:
        """The charged queries of the analyst, in order; those of all analysts if none is named."""
        return self._ledger._entries(self._dataset, self._analyst)

    @property
    def lifetime(self) -> tuple[float, float]:
        """An (epsilon, delta) that bounds the loss of all queries ever, rounded up.

        If the budget is renewed by period, this keeps growing and nothing bounds it.
        """
        return self._kept()[-1].lifetime.spent

    @property
    def period(self) -> str:
        """The current period, such as "2026-11"; "" if the budget is never renewed."""
        return self._kept()[-1].since

    def _kept(self) -> tuple[LedgerAccount, ...]:
        """Return the accounts that the ledger budget's queries must fit."""
        return self._ledger._kept(self._dataset, self._analyst)

    def spend(
        self,
        epsilon: Any,
        delta: Any = 0,
        *,
        loss: Loss | None = None,
        what: str = "a question",
        plan: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Charge one query to the ledger budget, as `Budget.spend`, and return the ledger's entry."""
        entry = super().spend(epsilon, delta, loss=loss, what=what, plan=plan)
        assert entry is not None  # as `_charge` gives it
        return entry

    def _accounts(self) -> tuple[Account, ...]:
        """Return all accounts that the ledger budget's queries must fit; its own is the last."""
        return tuple(kept.account for kept in self._kept())

    def _charge(self, requested: Spent, epsilon: Any, delta: Any, plan: Mapping[str, Any] | None) -> Entry:
        """Enter the query in the ledger and its journal, or refuse it."""
        of = (self._dataset, self._analyst, requested, epsilon, delta, plan)
        entry = self._ledger._spend(*of, self._key, self._first)
        self._first = False
        return entry

    def _keyed(self, key: str) -> LedgerBudget:
        """Return the same ledger budget for one request, which is paid once however often it is sent.

        Args:
            key: a digest of the request.
        """
        made = LedgerBudget(self._ledger, self._dataset, self._analyst)
        made._key = key
        return made

    def _paid_answer(self, *, key: str | None = None, entry: int | None = None) -> PriorAnswer:
        """Return an answer to its payer again; see `Journal._paid_answer`."""
        return self._ledger.journal._paid_answer(self._dataset, self._analyst, key=key, entry=entry)

    def _record_outcome(self, entry: Entry, kind: str, **said: Any) -> None:
        """Write in the ledger's journal how a paid query ended; releases do this themselves.

        Args:
            entry: of the question.
            kind: "answered", "failed" or "handed".
            said: of it, as for `Journal._record_outcome`.
        Raises:
            BudgetError: this is another process than that which opened the ledger.
            EngineError: it cannot be written; the question stays spent.
        """
        self._ledger.journal._record_outcome(entry.number, kind, **said)

    def _find_answer(self, request: Mapping[str, Any]) -> PriorAnswer:
        """Return the answer that the ledger's journal keeps to the same query."""
        return self._ledger.journal._find_answer(self._dataset, self._analyst, request)

    def _repeat_answer(self, request: Mapping[str, Any]) -> PriorAnswer:
        """Return the kept answer to the same query, and record in the journal that it is repeated."""
        return self._ledger.journal._repeat_answer(self._dataset, self._analyst, request)

    def _entry(self, number: int) -> Entry:
        """Return any entry of the ledger budget's ledger, such as that of a repeated answer.

        Raises:
            EngineError: the ledger cannot be read, or has no such entry.
        """
        return self._ledger._entry(number)

    @property
    def _title(self) -> str:
        whose = "" if self._analyst is None else f" for {self._analyst}"
        return f"Budget of {self._dataset!r}{whose}, in a ledger"

    def __str__(self) -> str:
        left, whose = self._left(), "" if self._analyst is None else f" for {self._analyst}"
        return (
            f"Budget of {self._dataset!r}{whose}: {float(left.share):.1%} left, a query can "
            f"spend epsilon={six_digits(left.epsilon)} and delta={six_digits(left.delta)}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"
