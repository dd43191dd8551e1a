"""What pays for the questions of a service: a data set's budget in a ledger, as each analyst has it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, SfumatoError, shown
from sfumato.files import check_private

if TYPE_CHECKING:
    from sfumato.budget import Budget
    from sfumato.budget.ledger import Ledger

# The ledger's own words name the place where it lies.
_NOTHING = "nothing of the budget is granted to {!r}; ask the owner of the tables"


@dataclass(frozen=True)
class LedgerBudgets:
    """The budgets of a data set.

    Args:
        ledger: that holds them.
        dataset: what it calls the data.
    """

    ledger: Ledger
    dataset: str

    def of(self, analyst: str | None) -> Budget:
        """Return what pays for an analyst's questions; for None what is paid by all.

        Raises:
            BudgetError: nothing is granted to them.
        """
        try:
            return self.ledger.budget(self.dataset, analyst=analyst)
        except BudgetError:
            pass
        raise BudgetError(_NOTHING.format(analyst))

    def refused(self, analyst: str, text: str, error: SfumatoError) -> None:
        """Write in the journal that a question was refused, and why; it is told in any case."""
        with suppress(SfumatoError):
            self.ledger.journal.turned_away(self.dataset, analyst, text, type(error).__name__)


def opened_budgets(place: str, dataset: str) -> LedgerBudgets:
    """Return the budgets of a data set in a ledger.

    Raises:
        BudgetError: the ledger has none.
        EngineError: it cannot be opened, or others can read or change its file.
    """
    from sfumato.budget.ledger import Ledger

    if "://" not in place and os.path.exists(place):
        check_private(os.stat(place), f"the ledger {shown(place)}")
    ledger = Ledger(place)
    ledger.budget(dataset)
    return LedgerBudgets(ledger, dataset)
