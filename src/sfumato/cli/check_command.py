"""`sfumato check`, `analyze` and `verify`: compare a query with its rows, or a table with its receipt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import (
    NO_LIMITS,
    ExitCode,
    answering,
    argument,
    check_written,
    fail,
    option,
    print_text,
    read_catalog,
    read_sql_file,
    sources,
    tell_written,
)
from sfumato.display.progress import find_progress
from sfumato.errors import ParameterError, QueryError


def check(
    what: Annotated[Path, argument("path.check")],
    catalog: Annotated[Path | None, option("catalog.check")] = None,
    table: Annotated[list[str] | None, option("table.check")] = None,
    public: Annotated[list[str] | None, option("public.check")] = None,
    splits: Annotated[int | None, option("splits")] = None,
    removed: Annotated[int | None, option("removed")] = None,
) -> None:
    """Compare a catalog or a query with its rows. The output is NOT PRIVATE: for the owner only."""
    with answering(engine=ExitCode.MISUSED) as console:
        try:
            if what.suffix.lower() == ".toml":
                if any(given is not None for given in (catalog, table, public, splits, removed)):
                    raise QueryError(
                        f"{what} is a catalog, which has no query options. Leave the options out, "
                        "or pass query.sql"
                    )
                found = _check_catalog(what)
            else:
                counts = {"splits": splits, "removed": removed}
                found = _check_question(what, read_catalog(catalog), sources(table, public), counts)
        except KeyboardInterrupt:
            fail("stopped before the check ended, without a verdict", ExitCode.STOPPED)
    print_text(console, str(found))
    raise typer.Exit(ExitCode.DONE if found.ok else ExitCode.FAILED)


def _check_catalog(path: Path) -> Any:
    from sfumato.cli.terminal import Watch

    declared = read_catalog(path)
    with Watch("Reading rows"):
        return declared.check()


def _check_question(path: Path, catalog: Any, tables: dict[str, Any], counts: dict[str, int | None]) -> Any:
    from sfumato.cli.terminal import Watch
    from sfumato.engines.question_check import check as checked

    done: list[float] = [0.0]
    given: dict[str, Any] = {"catalog": catalog, **counts}
    given = {name: value for name, value in given.items() if value is not None}
    text = read_sql_file(path, "PATH")
    with Watch("Querying some units, and others", lambda: done[-1]):
        return checked(text, tables=tables or None, progress=done.append, **given)


def verify(
    receipt: Annotated[Path, argument("receipt")],
    answer: Annotated[Path | None, argument("answer")] = None,
) -> None:
    """Recompute the epsilon of a release from its receipt; with a table, also compare it with the receipt.

    Reads no rows and spends nothing.
    """
    from sfumato.certificate.certificate import checked, digest, report
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
    print_text(console, said)
    raise typer.Exit(ExitCode.DONE if ok else ExitCode.FAILED)


def analyze(
    file: Annotated[Path, argument("path")],
    not_private: Annotated[bool, option("not-private")] = False,
    groups: Annotated[str | None, option("groups")] = None,
    rows: Annotated[str | None, option("rows")] = None,
    total_rows: Annotated[str | None, option("total-rows")] = None,
    bounds: Annotated[list[str] | None, option("bounds")] = None,
    table: Annotated[list[str] | None, option("table.files")] = None,
    public: Annotated[list[str] | None, option("public.files")] = None,
    catalog: Annotated[Path | None, option("catalog.files")] = None,
    output: Annotated[list[Path] | None, option("output.analyze")] = None,
    plot: Annotated[Path | None, option("plot.analyze")] = None,
) -> None:
    """Compare limits and bounds on the rows. The output is NOT PRIVATE: for the owner only."""
    from sfumato.cli.terminal import Watch
    from sfumato.release.release_files import write

    with answering() as console:
        if not not_private:
            raise QueryError(
                "sfumato analyze shows exact numbers of rows, which are not private. If the rows are "
                "yours, add --not-private; sfumato sql --preview shows errors without reading them"
            )
        compared = {
            "groups": _limits("--groups", groups),
            "rows": _limits("--rows", rows),
            "total_rows": _limits("--total-rows", total_rows),
            "bounds": _bounds(bounds or []),
        }
        files = check_written(output or [], plot)
        release = _plan_query(file, catalog, sources(table, public))
        for path, name in files:
            release._check_no_source(path, name)
        with Watch("Reading rows, comparing limits", find_progress(release._engine)):
            found = _print_findings(release, compared)
        print_text(console, str(found))
        for path in output or []:
            write(path, iter(found.to_arrow(by_group=True).to_batches()))
        if plot is not None:
            found.plot(plot)
        tell_written(console, [path for path, _ in files])


def _plan_query(file: Path, catalog: Path | None, tables: dict[str, Any]) -> Any:
    """Return the planned, undrawn release of the query that `sfumato analyze` reads from a file."""
    from sfumato.engines.sql import ask
    from sfumato.release.release import Release

    text, declared = read_sql_file(file, "PATH"), read_catalog(catalog)
    asked = ask(text, tables=tables, catalog=declared, types=None, limits=NO_LIMITS)
    asked.check_planned("analyze")
    release: Any = asked.release()
    parts = getattr(release, "_releases", (release,))
    if len(parts) > 1:
        raise QueryError(
            f"analyze: {file} has {len(parts)} private SELECTs. Put the one to analyze into a file"
        )
    if not isinstance(parts[0], Release):
        raise QueryError(f"analyze: {file} asks for the largest groups, which have no limits to compare")
    return parts[0]


def _print_findings(release: Any, compared: dict[str, Any]) -> Any:
    from sfumato.guidance.analysis import analysed

    plan = release.plan
    return analysed(
        plan.query, release._engine, options={"epsilon": plan.epsilon, "delta": plan.delta}, **compared
    )


def _limits(option: str, value: str | None) -> list[int] | None:
    """Return the limits in an option of `sfumato analyze`, written N,N,..."""
    if value is None:
        return None
    try:
        return [int(number) for number in value.split(",")]
    except ValueError:
        raise ParameterError(option, value, "whole numbers, such as 1,2,4,8") from None


def _bounds(values: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the bounds in options of `sfumato analyze`, written NAME=LOW:HIGH,LOW:HIGH."""
    found: dict[str, list[tuple[str, str]]] = {}
    for entry in values:
        name, _, pairs = entry.rpartition("=")
        ends = [pair.split(":") for pair in pairs.split(",")]
        if not name or any(len(pair) != 2 for pair in ends):
            raise ParameterError("--bounds", entry, "NAME=LOW:HIGH, such as visits=0:10,0:30")
        if name in found:
            raise QueryError(
                f"--bounds: {name!r} is given twice. Write its bounds once, with commas between them"
            )
        found[name] = [(low, high) for low, high in ends]
    return found
