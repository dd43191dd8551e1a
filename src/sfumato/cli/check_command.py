"""`sfumato check` and `sfumato verify`: a catalog or a question beside the rows, and a receipt by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import (
    ExitCode,
    answering,
    argument,
    fail,
    option,
    read_catalog,
    sources,
    tell,
    text_of,
)
from sfumato.errors import QueryError


def check(
    what: Annotated[Path, argument("path.check")],
    catalog: Annotated[Path | None, option("catalog.check")] = None,
    table: Annotated[list[str] | None, option("table.check")] = None,
    public: Annotated[list[str] | None, option("public.check")] = None,
    splits: Annotated[int | None, option("splits")] = None,
    removed: Annotated[int | None, option("removed")] = None,
) -> None:
    """Compare a catalog or a question with its rows. What is printed is NOT PRIVATE: for the owner alone."""
    with answering(engine=ExitCode.MISUSED) as console:
        try:
            if what.suffix.lower() == ".toml":
                if any(given is not None for given in (catalog, table, public, splits, removed)):
                    raise QueryError(
                        f"{what} is a catalog, which is checked as it is; options are of a question, "
                        "query.sql"
                    )
                found = _of_catalog(what)
            else:
                counts = {"splits": splits, "removed": removed}
                found = _of_question(what, read_catalog(catalog), sources(table, public), counts)
        except KeyboardInterrupt:
            fail("stopped before the check ended: there is no verdict", ExitCode.STOPPED)
    tell(console, str(found))
    raise typer.Exit(ExitCode.DONE if found.ok else ExitCode.FAILED)


def _of_catalog(path: Path) -> Any:
    from sfumato.cli.terminal import Watch

    declared = read_catalog(path)
    with Watch("Reading rows"):
        return declared.check()


def _of_question(path: Path, catalog: Any, tables: dict[str, Any], counts: dict[str, int | None]) -> Any:
    from sfumato.cli.terminal import Watch
    from sfumato.engines.question_check import check as checked

    done: list[float] = [0.0]
    given: dict[str, Any] = {"catalog": catalog, **counts}
    given = {name: value for name, value in given.items() if value is not None}
    text = text_of(path, "PATH")
    with Watch("Asking of some units, and of others", lambda: done[-1]):
        return checked(text, tables=tables or None, progress=done.append, **given)


def verify(
    receipt: Annotated[Path, argument("receipt")],
    answer: Annotated[Path | None, argument("answer")] = None,
) -> None:
    """Recompute the epsilon of a release from its receipt alone; with a table, say whether it is that one.

    Reads no rows and spends nothing.
    """
    from sfumato.certificate.checking import checked, digest, report
    from sfumato.release.receipt import Receipt, plain

    with answering(engine=ExitCode.MISUSED) as console:
        try:
            given = plain(receipt, alone=answer is None)
            certificate, wrong = checked(given)
            refused = "\n".join(f"Refused: {one}" for one in wrong)
            if answer is not None and given.get("sha256") == digest(given):
                found = Receipt.read(receipt).verify(answer)
                said, ok = str(found), found.ok
            else:
                said, ok = (report(certificate), True) if certificate and not wrong else (refused, False)
        except RecursionError as error:
            fail(error, ExitCode.MISUSED)
    tell(console, said)
    raise typer.Exit(ExitCode.DONE if ok else ExitCode.FAILED)
