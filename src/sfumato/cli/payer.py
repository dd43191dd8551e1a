"""`sfumato sql --ledger`: what pays for a question, and what is left of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.files import whole_place

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.budget.ledger import LedgerBudget

_PLACE = "SFUMATO_LEDGER"


@dataclass(frozen=True)
class Payer:
    """A budget of a ledger, as the command line names it.

    Args:
        place: the ledger's path or URL.
        budget: the budget.
    """

    place: str
    budget: LedgerBudget

    def check_no_ledger(self, path: Path, name: str) -> None:
        """Refuse to write a file in the ledger's place.

        Raises:
            ParameterError: the path, which came by the option `name`, is the ledger's.
        """
        if whole_place(path) in (whole_place(self.place), os.path.realpath(self.place)):
            raise ParameterError(name, str(path), "another file than the ledger, which it would replace")

    def tell_left(self, console: Console) -> None:
        """Say what is left. That it cannot be read is no failure of what was asked before."""
        from rich.text import Text

        try:
            words = str(self.budget)
        except EngineError as error:
            words = f"What is left of the budget cannot be read now: {error}"
        console.print(Text(f"{words}."), soft_wrap=True)


def payer(ledger: str | None, dataset: str | None, analyst: str | None) -> Payer | None:
    """Return what pays, where a data set is named; a ledger may then be named by the environment.

    Raises:
        QueryError: something is left out.
        BudgetError: the ledger has no such budget.
        EngineError: it cannot be opened.
    """
    if dataset is None:
        if ledger is not None or analyst is not None:
            given = "--ledger" if ledger is not None else "--analyst"
            raise QueryError(f"{given}: say whose budget pays: add --dataset NAME, as sfumato budget has it")
        return None
    place = ledger or os.environ.get(_PLACE)
    if not place:
        raise QueryError(f"--dataset: say where its budget is: add --ledger PLACE, or set {_PLACE}")
    from sfumato.cli.ledgers import opened_ledger

    return Payer(place, opened_ledger(place).budget(dataset, analyst))
