"""What commands about a ledger share: its place, how they end, and how they print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.mistaken import Commands
from sfumato.cli.options import fail
from sfumato.errors import EngineError, SfumatoError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sfumato.budget.ledger import Ledger


class LedgerCode(IntEnum):
    """Exit codes."""

    DONE = 0
    LEDGER = 1  # the ledger, a file or the installation must be fixed
    BUDGET = 2  # the budget or the command line must be fixed


def ledger_option(help: str, **more: Any) -> Any:
    """Declare --ledger, which the environment may give."""
    return typer.Option("--ledger", "-l", metavar="PLACE", envvar="SFUMATO_LEDGER", help=help, **more)


Place = Annotated[
    str, ledger_option("The path of a file, or postgresql://USER@HOST/DATABASE.", show_default=False)
]
Dataset = Annotated[
    str | None, typer.Argument(metavar="[DATASET]", help="Of one dataset; else of all.", show_default=False)
]


def commands(help: str, failed: str) -> typer.Typer:
    """Return a group of commands about a ledger.

    Args:
        help: what they are about.
        failed: what exit code 1 says.
    """
    return typer.Typer(
        cls=Commands,
        help=help,
        no_args_is_help=True,
        epilog=f"Exit codes: 0 done; 1 {failed}; 2 the command line must be fixed.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


@contextmanager
def told() -> Iterator[Console]:
    """Give the console, and end the command badly where something is wrong."""
    from sfumato.cli.terminal import forgiving, printer

    forgiving()
    try:
        yield printer()
    except (EngineError, OSError) as error:
        fail(error, LedgerCode.LEDGER)
    except SfumatoError as error:
        fail(error, LedgerCode.BUDGET, ("epsilon", "delta", "composition", "period"))


def opened_ledger(place: str) -> Ledger:
    """Open a ledger, which takes some time to import."""
    from sfumato.budget.ledger import Ledger
    from sfumato.budget.ledger.transactions import IN_COMMANDS

    ledger = Ledger(place)
    ledger._terms = IN_COMMANDS
    return ledger


def visible_text(text: str) -> str:
    """Return what an analyst wrote as text alone: no codes of terminals, and no markup."""
    from rich.markup import escape

    from sfumato.display.text import visible

    return escape(visible(text))


def print_table(console: Console, table: Table) -> None:
    """Print a table in lines that are as long as they are: a terminal folds them, and `grep` finds them."""
    from rich import box

    table.box, table.header_style, table.pad_edge = box.SIMPLE_HEAD, "bold", False
    for column in table.columns:
        column.no_wrap = True
    console.width = max(
        console.width, console.measure(table, options=console.options.update(width=10_000)).maximum
    )
    console.print(table)
