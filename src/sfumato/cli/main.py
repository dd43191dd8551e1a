"""`sfumato sql`: ask in SQL, get a noisy table, error bars, an explanation and a chart.

The other commands join it here. Whatever takes long to import is imported by a command when it runs:
`sfumato --help` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato import __version__
from sfumato.cli.advise_command import advise
from sfumato.cli.analyze import analyze
from sfumato.cli.audit_command import audit
from sfumato.cli.check_command import check, verify
from sfumato.cli.ledger_command import budget, journal, payer
from sfumato.cli.options import (
    answering,
    argument,
    check_no_file,
    commands,
    option,
    read_catalog,
    sources,
    text_of,
)
from sfumato.cli.serve_command import serve, token
from sfumato.cli.sql_command import Job
from sfumato.errors import ParameterError, QueryError

app: typer.Typer = commands(
    "Ask a table of personal rows; get noisy numbers that are safe to publish.",
    epilog="What the words of an answer mean is in the glossary, docs/glossary.md.",
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
            "--version", metavar=" ", callback=_version, is_eager=True, help="Show the version and stop."
        ),
    ] = False,
) -> None:
    """Ask a table of personal rows; get noisy numbers that are safe to publish."""


def _codes(done: str, failed: str, misused: str) -> str:
    return f"Exit codes: 0 {done}; 1 {failed}; 2 {misused} must be fixed."


app.command(
    epilog="Exit codes: 0 nothing found; 1 violated; 2 the command line must be fixed, or the mechanism "
    "cannot be judged."
)(audit)
app.command(
    epilog=_codes(
        "the rows are as declared, or units are kept apart",
        "they are not",
        "the catalog, the question or the command line",
    )
)(check)
app.command(epilog=_codes("done", _FILE, "the question, or the command line,"))(analyze)
app.command(epilog=_codes("done", _FILE, "a question, the budget or the command line"))(advise)
app.command(
    epilog=_codes(
        "the receipt is certified, and the table agrees",
        "not so, or the receipt is of made-up rows or of noise for tests",
        "a file cannot be read, or the command line",
    )
)(verify)
app.add_typer(budget, name="budget")
app.add_typer(journal, name="journal")
app.command(epilog=_codes("ended as asked", _FILE, "the catalog, the budget or the command line"))(serve)
app.add_typer(token, name="token")


@app.command(epilog=_codes("done", _FILE, "the question"))
def sql(
    text: Annotated[str | None, argument("sql")] = None,
    file: Annotated[Path | None, option("file")] = None,
    table: Annotated[list[str] | None, option("table")] = None,
    public: Annotated[list[str] | None, option("public")] = None,
    catalog: Annotated[Path | None, option("catalog")] = None,
    dummy: Annotated[bool, option("dummy")] = False,
    types: Annotated[str | None, option("types")] = None,
    memory_limit: Annotated[str | None, option("memory-limit")] = None,
    threads: Annotated[int | None, option("threads")] = None,
    temp_directory: Annotated[Path | None, option("temp-directory")] = None,
    explain: Annotated[bool, option("explain")] = False,
    dry_run: Annotated[bool, option("dry-run")] = False,
    preview: Annotated[bool, option("preview")] = False,
    diagnostics: Annotated[bool, option("diagnostics")] = False,
    output: Annotated[list[Path] | None, option("output")] = None,
    errors: Annotated[bool, option("errors")] = False,
    plot: Annotated[Path | None, option("plot")] = None,
    receipt: Annotated[Path | None, option("receipt")] = None,
    ledger: Annotated[str | None, option("ledger")] = None,
    dataset: Annotated[str | None, option("dataset")] = None,
    analyst: Annotated[str | None, option("analyst")] = None,
    confidence: Annotated[float, option("confidence")] = 0.95,
    simultaneous: Annotated[bool, option("simultaneous")] = False,
    sampling: Annotated[bool, option("sampling")] = False,
    show: Annotated[int, option("show")] = 40,
    quiet: Annotated[bool, option("quiet")] = False,
) -> None:
    """Ask in SQL, and print the noisy table with its error bars.

    The noise is drawn once: table, files and chart show the same numbers.
    """
    from sfumato.query.error_bars import Bars

    with answering() as console:
        wanted = bool(output or plot or receipt or explain or dry_run or preview)
        _check(confidence, show, quiet, diagnostics, wanted)
        question = _question(text, file)
        given = {
            "tables": sources(table, public),
            "types": _types(types),
            "catalog": _catalog(catalog, dummy),
        }
        Job(
            question,
            given,
            {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory},
            payer(ledger, dataset, analyst),
            explain or dry_run,
            dry_run,
            preview,
            diagnostics,
            tuple(output or ()),
            errors,
            plot,
            receipt,
            Bars(confidence, simultaneous, sampling),
            show,
            quiet,
        ).run(console)


def _check(confidence: float, show: int, quiet: bool, diagnostics: bool, wanted: bool) -> None:
    if not 0 < confidence < 1:
        raise ParameterError("--confidence", confidence, "between 0 and 1, such as 0.95")
    if show < 1:
        raise ParameterError("--show", show, "a whole number of at least 1")
    if quiet and diagnostics:
        raise QueryError("--quiet: diagnostics are printed, and nothing would come of theirs; leave one out")
    if quiet and not wanted:
        raise QueryError("--quiet: nothing would come of the budget that is spent; add --output or --plot")


def _question(text: str | None, file: Path | None) -> str:
    """Return the SQL, from wherever it was given."""
    if (text is None) == (file is None):
        both = "both as an argument and by --file; keep one" if text is not None else "nowhere"
        remedy = (
            ""
            if text is not None
            else '. Write sfumato sql "SELECT ...", --file query.sql, or - for standard input'
        )
        raise QueryError(f"The SQL is given {both}{remedy}")
    if file is not None:
        found = text_of(file, "--file")
    elif text == "-":
        found = typer.get_text_stream("stdin").read()
    else:
        found = check_no_file(text or "")
    if not found.strip():
        raise QueryError("The SQL is empty; write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ...")
    return found


def _types(given: str | None) -> dict[str, str] | None:
    """Read NAME TYPE, NAME TYPE."""
    if given is None:
        return None
    from sfumato.dialect.options_clause import TYPES_FORM, types_of

    types = types_of(given)
    if types is None:
        raise ParameterError("--types", given, TYPES_FORM)
    return types


def _catalog(path: Path | None, dummy: bool) -> Any:
    """Read the catalog, before the question; perhaps over made-up rows."""
    if dummy and path is None:
        raise QueryError("--dummy: rows are made up from what a catalog declares; add --catalog")
    found = read_catalog(path)
    return found.dummy() if dummy else found
