"""Budgets that last: in a file or a database, for many processes and analysts."""

from sfumato.budget.ledger.entry import Again, Entry
from sfumato.budget.ledger.ledger import Ledger
from sfumato.budget.ledger.shared import LedgerBudget

__all__ = ["Again", "Entry", "Ledger", "LedgerBudget"]
