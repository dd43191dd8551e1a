"""`sfumato check`: a catalog beside its rows, for their owner."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import fail
from sfumato.errors import SfumatoError


class CheckCode(IntEnum):
    """Exit codes."""

    AS_DECLARED = 0
    NOT_AS_DECLARED = 1
    CATALOG = 2  # the catalog or the command line must be fixed


def check(
    catalog: Annotated[
        Path,
        typer.Argument(metavar="CATALOG", help="The TOML file that declares tables.", show_default=False),
    ],
) -> None:
    """Compare a catalog with its rows. What is printed is NOT PRIVATE: for the owner alone."""
    from rich.text import Text

    from sfumato.cli.terminal import forgiving, printer, visible
    from sfumato.engines.catalog import catalog as read_catalog

    forgiving()
    try:
        found = read_catalog(catalog).check()
    except (SfumatoError, OSError) as error:
        fail(error, CheckCode.CATALOG)
    printer().print(Text(visible(str(found), lines=True)), soft_wrap=True)
    raise typer.Exit(CheckCode.AS_DECLARED if found.ok else CheckCode.NOT_AS_DECLARED)
