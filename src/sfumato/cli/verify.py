"""`sfumato verify`: a released table beside its receipt."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import fail
from sfumato.errors import SfumatoError


class VerifyCode(IntEnum):
    """Exit codes."""

    AGREES = 0
    DIFFERS = 1
    UNREADABLE = 2  # a file, or the command line, must be fixed


def verify(
    receipt: Annotated[
        Path,
        typer.Argument(
            metavar="RECEIPT",
            help="receipt.json, as release.receipt().write or --receipt wrote it.",
            show_default=False,
        ),
    ],
    answer: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWER",
            help="The released table: .parquet, .csv or .json, as it was written, or .arrow.",
            show_default=False,
        ),
    ],
) -> None:
    """Say whether a table is the one that a receipt is of, and where it is not. Nothing is spent."""
    from rich.text import Text

    from sfumato.cli.terminal import forgiving, printer
    from sfumato.display.text import visible
    from sfumato.query.released.receipt import Receipt

    forgiving()
    try:
        found = Receipt.read(receipt).verify(answer)
    except (SfumatoError, OSError) as error:
        fail(error, VerifyCode.UNREADABLE)
    printer().print(Text(visible(str(found), lines=True)), soft_wrap=True)
    raise typer.Exit(VerifyCode.AGREES if found.ok else VerifyCode.DIFFERS)
