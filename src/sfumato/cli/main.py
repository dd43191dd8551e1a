"""The command line `sfumato`: all commands in one application.

Whatever takes long to import is imported by a command when it runs:
`sfumato --help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato import __version__
from sfumato.cli.advise_command import advise
from sfumato.cli.audit_command import audit
from sfumato.cli.check_command import analyze, check, verify
from sfumato.cli.ledger_command import budget, journal
from sfumato.cli.options import commands
from sfumato.cli.serve_command import serve, token
from sfumato.cli.sql_command import sql

app: typer.Typer = commands(
    "Query a table of personal rows, and get noisy numbers that are safe to publish.",
    epilog="The glossary, docs/glossary.md, explains the terms of an answer.",
    add_completion=False,
)
_FILE = "a file or the installation must be fixed"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar=" ", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Query a table of personal rows; get noisy numbers that are safe to publish."""


def _codes(done: str, failed: str, misused: str) -> str:
    return f"Exit codes: 0 {done}; 1 {failed}; 2 {misused} must be fixed."


app.command(
    epilog=(
        "Exit codes: 0 nothing found; 1 violated; 2 the command line must be fixed, or the mechanism "
        "cannot be audited."
    )
)(audit)
app.command(
    epilog=_codes(
        "the rows are as declared, or units are kept apart",
        "they are not",
        "the catalog, the query or the command line",
    )
)(check)
app.command(epilog=_codes("done", _FILE, "the query or the command line"))(analyze)
app.command(epilog=_codes("done", _FILE, "the query, the budget or the command line"))(advise)
app.command(
    epilog=_codes(
        "the receipt is certified, and the table agrees",
        "it is not, or the receipt is about dummy rows or test noise",
        "a file cannot be read, or the command line",
    )
)(verify)
app.add_typer(budget, name="budget")
app.add_typer(journal, name="journal")
app.command(epilog=_codes("stopped on request", _FILE, "the catalog, the budget or the command line"))(serve)
app.add_typer(token, name="token")
app.command(epilog=_codes("done", _FILE, "the query"))(sql)
