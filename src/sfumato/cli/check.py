"""`sfumato check`: a catalog, or a question, beside the rows, for their owner."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import fail, optional
from sfumato.errors import QueryError, SfumatoError


class CheckCode(IntEnum):
    """Exit codes."""

    AS_DECLARED = 0
    NOT_AS_DECLARED = 1
    CATALOG = 2  # the catalog, the question or the command line must be fixed
    STOPPED = 130  # by the keyboard: there is no verdict


def check(
    what: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="catalog.toml, which is compared with its rows; or query.sql, of which it is checked on the "
            "rows that it keeps privacy units apart.",
            show_default=False,
        ),
    ],
    catalog: Annotated[
        Path | None,
        optional("--catalog", "-c", metavar="PATH", help="Of a question: declares the tables in FROM."),
    ] = None,
    table: Annotated[
        list[str] | None,
        optional("--table", "-t", metavar="NAME=PATH", help="Of a question: a file; as for sfumato sql."),
    ] = None,
    public: Annotated[
        list[str] | None,
        optional("--public", metavar="NAME=PATH", help="Of a question: a file of public knowledge."),
    ] = None,
    splits: Annotated[
        int | None,
        optional("--splits", metavar="N", help="Of a question: split all units so often; 3 if left out."),
    ] = None,
    removed: Annotated[
        int | None,
        optional(
            "--removed",
            metavar="N",
            help="Of a question: units to remove, one at a time; 10 if left out.",
        ),
    ] = None,
) -> None:
    """Compare a catalog or a question with its rows. What is printed is NOT PRIVATE: for the owner alone."""
    from rich.text import Text

    from sfumato.cli.terminal import forgiving, printer
    from sfumato.display.text import visible

    forgiving()
    try:
        if what.suffix.lower() == ".toml":
            if any(given is not None for given in (catalog, table, public, splits, removed)):
                raise QueryError(
                    f"{what} is a catalog, which is checked as it is; options are of a question, query.sql"
                )
            found = _of_catalog(what)
        else:
            found = _of_question(what, catalog, table or [], public or [], splits, removed)
    except (SfumatoError, OSError) as error:
        fail(error, CheckCode.CATALOG)
    except KeyboardInterrupt:
        fail("stopped before the check ended: there is no verdict", CheckCode.STOPPED)
    printer().print(Text(visible(str(found), lines=True)), soft_wrap=True)
    raise typer.Exit(CheckCode.AS_DECLARED if found.ok else CheckCode.NOT_AS_DECLARED)


def _of_catalog(path: Path) -> Any:
    from sfumato.cli.progress import Watch
    from sfumato.engines.catalog import catalog

    declared = catalog(path)
    with Watch("Reading rows"):
        return declared.check()


def _of_question(
    path: Path,
    catalog: Path | None,
    private: list[str],
    public: list[str],
    splits: int | None,
    removed: int | None,
) -> Any:
    from sfumato.cli.given import sources, text_of
    from sfumato.cli.progress import Watch
    from sfumato.engines.catalog import catalog as read_catalog
    from sfumato.engines.check import check as checked

    done: list[float] = [0.0]
    counts = {"splits": splits, "removed": removed}
    given: dict[str, Any] = {name: count for name, count in counts.items() if count is not None}
    if catalog is not None:
        given["catalog"] = read_catalog(catalog)
    text, tables = text_of(path, "PATH"), sources(private, public)
    with Watch("Asking of some units, and of others", lambda: done[-1]):
        return checked(text, tables=tables or None, progress=done.append, **given)
