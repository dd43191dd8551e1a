"""Budgets that last: in a file or a database, for many processes and analysts."""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.budget.ledger.ledger import Ledger
    from sfumato.budget.ledger.ledger_budget import LedgerBudget
    from sfumato.budget.ledger.ledger_entries import Entry, PriorAnswer

__all__ = ["Entry", "Ledger", "LedgerBudget", "PriorAnswer"]

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "budget.ledger.ledger_entries": "PriorAnswer Entry",
    "budget.ledger.ledger": "Ledger",
    "budget.ledger.ledger_budget": "LedgerBudget",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("budget.ledger", __all__, _HOMES)
