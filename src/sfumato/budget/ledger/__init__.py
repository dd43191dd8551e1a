"""Budgets that last: in a file or a database, for many processes and analysts."""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.budget.ledger.entries import Again, Entry
    from sfumato.budget.ledger.ledger import Ledger
    from sfumato.budget.ledger.shared import LedgerBudget

__all__ = ["Again", "Entry", "Ledger", "LedgerBudget"]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "budget.ledger.entries": "Again Entry",
    "budget.ledger.ledger": "Ledger",
    "budget.ledger.shared": "LedgerBudget",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("budget.ledger", __all__, _HOMES)
