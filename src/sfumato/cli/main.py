"""`sfumato sql`: ask in SQL, get a noisy table, error bars, an explanation and a chart.

The other commands join it here. Whatever takes long to import is imported by a command when it runs:
`sfumato --help` answers at once.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato import __version__
from sfumato.cli.advise import advise
from sfumato.cli.analyze import analyze
from sfumato.cli.audit import audit
from sfumato.cli.budget import budget
from sfumato.cli.check import check
from sfumato.cli.given import sources, text_of
from sfumato.cli.job import Job
from sfumato.cli.journal import journal
from sfumato.cli.mistaken import Told
from sfumato.cli.options import fail, flag, optional, outputs
from sfumato.cli.payer import payer
from sfumato.cli.serve import serve, token
from sfumato.cli.verify import verify
from sfumato.errors import EngineError, ParameterError, QueryError, SfumatoError


class ExitCode(IntEnum):
    """Exit codes."""

    DONE = 0
    ENGINE = 1  # a source, a file or the installation must be fixed
    QUESTION = 2  # the question, the budget or the command line must be fixed


app: typer.Typer = typer.Typer(
    cls=Told,
    help="Ask a table of personal rows; get noisy numbers that are safe to publish.",
    epilog="What the words of an answer mean is in the glossary, docs/glossary.md.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
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


app.command(
    epilog="Exit codes: 0 nothing found; 1 violated; 2 the command line must be fixed, or the mechanism "
    "cannot be judged."
)(audit)
app.command(
    epilog="Exit codes: 0 the rows are as declared, or units are kept apart; 1 they are not; 2 the catalog, "
    "the question or the command line must be fixed."
)(check)
app.command(
    epilog="Exit codes: 0 done; 1 a file or the installation must be fixed; 2 the question, or the command "
    "line, must be fixed."
)(analyze)
app.command(
    epilog="Exit codes: 0 done; 1 a file or the installation must be fixed; 2 a question, the budget or the "
    "command line must be fixed."
)(advise)
app.command(
    epilog="Exit codes: 0 the receipt is certified, and the table agrees; 1 not so, or the receipt is of "
    "made-up rows or of noise for tests; 2 a file cannot be read, or the command line must be fixed."
)(verify)
app.add_typer(budget, name="budget")
app.add_typer(journal, name="journal")

app.command(
    epilog="Exit codes: 0 ended as asked; 1 a file or the installation must be fixed; 2 the catalog, the "
    "budget or the command line must be fixed."
)(serve)
app.add_typer(token, name="token")


@app.command(
    epilog="Exit codes: 0 done; 1 a file or the installation must be fixed; 2 the question must be fixed."
)
def sql(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL",
            help="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ... FROM 'file.parquet' ...; "
            "or - to read it from standard input.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        optional("--file", "-f", metavar="PATH", help="Read the SQL from a file."),
    ] = None,
    table: Annotated[
        list[str] | None,
        optional(
            "--table",
            "-t",
            metavar="NAME=PATH",
            help="The file that a name in FROM stands for. May be repeated.",
        ),
    ] = None,
    public: Annotated[
        list[str] | None,
        optional(
            "--public",
            metavar="NAME=PATH",
            help="A file of public knowledge, to JOIN with; nothing in it is protected. May be repeated.",
        ),
    ] = None,
    catalog: Annotated[
        Path | None,
        optional(
            "--catalog",
            "-c",
            metavar="PATH",
            help="A TOML file that declares the tables that FROM may name; see docs/catalog.md.",
        ),
    ] = None,
    dummy: Annotated[
        bool,
        flag("--dummy", help="Ask made-up rows, of what --catalog declares: no row is read, nothing spent."),
    ] = False,
    types: Annotated[
        str | None,
        optional(
            "--types",
            metavar="TYPES",
            help="Types of a CSV or JSON file's columns, such as 'id BIGINT, amount DOUBLE, day DATE'.",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        optional(
            "--memory-limit",
            metavar="AMOUNT",
            help="Memory before rows are spilled to disk, such as 4GB or 50%. Default: 80% of the machine's.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        optional("--threads", metavar="N", help="At most so many threads. Default: one for each core."),
    ] = None,
    temp_directory: Annotated[
        Path | None,
        optional(
            "--temp-directory",
            metavar="PATH",
            help="Spill rows here, in a folder that only you may enter. Default: the temporary files'.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        flag("--explain", help="Show each step, with bounds, noise and share of the budget."),
    ] = False,
    dry_run: Annotated[
        bool,
        flag("--dry-run", help="Only plan and explain: no row is read, nothing is spent."),
    ] = False,
    preview: Annotated[
        bool,
        flag(
            "--preview",
            help="Only say how wide error bars would be: no row is read, nothing is spent.",
        ),
    ] = False,
    diagnostics: Annotated[
        bool,
        flag("--diagnostics", help="Also tell how much limits and bounds changed, for 5% of epsilon."),
    ] = False,
    output: Annotated[
        list[Path] | None,
        outputs("the table to .parquet, .csv, .json or .xlsx"),
    ] = None,
    errors: Annotated[
        bool,
        flag("--errors", help="Write error bars to --output too, as NAME_error columns."),
    ] = False,
    plot: Annotated[
        Path | None,
        optional("--plot", "-p", metavar="PATH", help="Draw bars with error bars to .png or .svg."),
    ] = None,
    receipt: Annotated[
        Path | None,
        optional(
            "--receipt",
            metavar="PATH",
            help="Write what was asked, what it cost and a digest of the answer, for sfumato verify.",
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        optional(
            "--ledger",
            "-l",
            metavar="PLACE",
            help="The ledger that pays: a path, or postgresql://USER@HOST/DATABASE. Default: the variable "
            "SFUMATO_LEDGER, where --dataset is given.",
        ),
    ] = None,
    dataset: Annotated[
        str | None, optional("--dataset", metavar="NAME", help="Whose budget in the ledger pays.")
    ] = None,
    analyst: Annotated[
        str | None,
        optional("--analyst", metavar="NAME", help="Who asks, and pays; the owner if left out."),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="NUMBER", help="Of the error bars.")
    ] = 0.95,
    simultaneous: Annotated[
        bool,
        flag(
            "--simultaneous",
            help="Let the confidence hold for all numbers at once, not for each by itself.",
        ),
    ] = False,
    sampling: Annotated[
        bool,
        flag("--sampling", help="Let error bars hold the sampling error, for statements about a population."),
    ] = False,
    show: Annotated[int, typer.Option("--show", metavar="N", help="Print at most N groups.")] = 40,
    quiet: Annotated[
        bool,
        flag("--quiet", "-q", help="Print no table. A single --output is then streamed."),
    ] = False,
) -> None:
    """Ask in SQL, and print the noisy table with its error bars.

    The noise is drawn once: table, files and chart show the same numbers.
    """
    from sfumato.cli.terminal import forgiving, printer
    from sfumato.query.bars import Bars

    forgiving()
    try:
        _check(
            confidence,
            show,
            quiet,
            diagnostics,
            bool(output or plot or receipt or explain or dry_run or preview),
        )
        question = _question(text, file)
        tables = sources(table or [], public or [])
        Job(
            question,
            {"tables": tables, "types": _types(types), **_catalog(catalog, dummy)},
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
        ).run(printer())
    except (EngineError, OSError) as error:
        fail(error, ExitCode.ENGINE)
    except SfumatoError as error:
        fail(error, ExitCode.QUESTION)


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
        found = text or ""
        if found.endswith(".sql") and " " not in found:
            raise QueryError(f"{found!r} is the name of a file, not SQL; write --file {found}")
    if not found.strip():
        raise QueryError("The SQL is empty; write SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ...")
    return found


def _types(given: str | None) -> dict[str, str] | None:
    """Read NAME TYPE, NAME TYPE."""
    if given is None:
        return None
    from sfumato.dialect.options import TYPES_FORM, types_of

    types = types_of(given)
    if types is None:
        raise ParameterError("--types", given, TYPES_FORM)
    return types


def _catalog(path: Path | None, dummy: bool) -> dict[str, Any]:
    """Read the catalog, before the question; perhaps over made-up rows."""
    if path is None:
        if dummy:
            raise QueryError("--dummy: rows are made up from what a catalog declares; add --catalog")
        return {}
    from sfumato.engines.catalog import catalog

    found = catalog(path)
    return {"catalog": found.dummy() if dummy else found}
