"""`sfumato verify`: what a receipt proves, and a released table beside it."""

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
        Path | None,
        typer.Argument(
            metavar="[ANSWER]",
            help="The released table: .parquet, .csv or .json, as it was written, or .arrow.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Recompute the epsilon of a release from its receipt alone; with a table, say whether it is that one.

    Reads no rows and spends nothing.
    """
    from rich.text import Text

    from sfumato.certificate.checking import checked, digest, report
    from sfumato.cli.terminal import forgiving, printer
    from sfumato.display.text import visible
    from sfumato.query.released.receipt import Receipt, plain

    forgiving()
    try:
        given = plain(receipt, alone=answer is None)
        certificate, wrong = checked(given)
        refused = "\n".join(f"Refused: {one}" for one in wrong)
        if answer is not None and given.get("sha256") == digest(given):
            found = Receipt.read(receipt).verify(answer)
            said, ok = str(found), found.ok
        else:
            said, ok = (report(certificate), True) if certificate and not wrong else (refused, False)
    except (SfumatoError, OSError, RecursionError) as error:
        fail(error, VerifyCode.UNREADABLE)
    printer().print(Text(visible(said, lines=True)), soft_wrap=True)
    raise typer.Exit(VerifyCode.AGREES if ok else VerifyCode.DIFFERS)
