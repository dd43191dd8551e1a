"""What commands about a ledger share: its place, how they end, and how they print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated

import typer

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


Place = Annotated[
    str,
    typer.Option(
        "--ledger",
        "-l",
        metavar="PLACE",
        envvar="SFUMATO_LEDGER",
        help="The path of a file, or postgresql://USER@HOST/DATABASE.",
        show_default=False,
    ),
]


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
        fail(error, LedgerCode.BUDGET)


def opened_ledger(place: str) -> Ledger:
    """Open a ledger, which takes some time to import."""
    from sfumato.budget.ledger import Ledger

    return Ledger(place)


def visible_text(text: str) -> str:
    """Return what an analyst wrote as text alone: no codes of terminals, and no markup."""
    from rich.markup import escape

    from sfumato.cli.terminal import visible

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
