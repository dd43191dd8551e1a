"""`sfumato analyze`: what limits and bounds cut of exact rows, and what noise adds, for their owner alone."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import (
    NO_LIMITS,
    CatalogFile,
    PublicFiles,
    TableFiles,
    check_written,
    fail,
    flag,
    optional,
    outputs,
    tell_written,
)
from sfumato.display.progress import fraction_of
from sfumato.errors import EngineError, ParameterError, QueryError, SfumatoError


class AnalyzeCode(IntEnum):
    """Exit codes."""

    DONE = 0
    ENGINE = 1  # a source, a file or the installation must be fixed
    QUESTION = 2  # the question, the budget or the command line must be fixed


def analyze(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="query.sql, SELECT WITH DIFFERENTIAL_PRIVACY ..., with the budget that is considered.",
            show_default=False,
        ),
    ],
    not_private: Annotated[
        bool,
        flag("--not-private", help="Needed: exact numbers of rows are shown, for their owner alone."),
    ] = False,
    groups: Annotated[
        str | None,
        optional("--groups", metavar="N,N,...", help="Limits to compare: groups of a unit, such as 1,2,4,8."),
    ] = None,
    rows: Annotated[
        str | None,
        optional("--rows", metavar="N,N,...", help="Limits to compare: rows of a unit in a group."),
    ] = None,
    total_rows: Annotated[
        str | None,
        optional("--total-rows", metavar="N,N,...", help="Limits to compare: rows of a unit in all groups."),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        optional(
            "--bounds",
            metavar="NAME=LOW:HIGH,...",
            help="Bounds of an output to compare, such as visits=0:10,0:30. May be repeated.",
        ),
    ] = None,
    table: TableFiles = None,
    public: PublicFiles = None,
    catalog: CatalogFile = None,
    output: Annotated[
        list[Path] | None,
        outputs("what is found of each group, exact numbers, to .parquet, .csv or .json"),
    ] = None,
    plot: Annotated[
        Path | None,
        optional("--plot", "-p", metavar="PATH", help="Draw a heat map of the errors to .png or .svg."),
    ] = None,
) -> None:
    """Compare limits and bounds on the rows. What is printed is NOT PRIVATE: for the owner alone."""
    from rich.text import Text

    from sfumato.cli.progress import Watch
    from sfumato.cli.terminal import forgiving, printer
    from sfumato.display.text import visible
    from sfumato.query.released.output import write

    forgiving()
    try:
        if not not_private:
            raise QueryError(
                "sfumato analyze shows exact numbers of rows, which are not private: if the rows are yours, "
                "add --not-private; to see errors without a look at them, write sfumato sql --preview"
            )
        compared = {
            "groups": _limits("--groups", groups),
            "rows": _limits("--rows", rows),
            "total_rows": _limits("--total-rows", total_rows),
            "bounds": _bounds(bounds or []),
        }
        files = check_written(output or [], plot)
        release = _planned(file, catalog, table or [], public or [])
        for path, option in files:
            release._check_no_source(path, option)
        with Watch("Reading rows, comparing limits", fraction_of(release._engine)):
            found = _found(release, compared)
        console = printer()
        console.print(Text(visible(str(found), lines=True)), soft_wrap=True)
        for path in output or []:
            write(path, iter(found.to_arrow(by_group=True).to_batches()))
        if plot is not None:
            found.plot(plot)
        tell_written(console, [path for path, _ in files])
    except (EngineError, OSError) as error:
        fail(error, AnalyzeCode.ENGINE)
    except SfumatoError as error:
        fail(error, AnalyzeCode.QUESTION)


def _planned(file: Path, catalog: Path | None, private: list[str], public: list[str]) -> Any:
    from sfumato.cli.given import sources, text_of
    from sfumato.engines.asked import ask
    from sfumato.engines.catalog import catalog as read_catalog
    from sfumato.query.released.release import Release

    declared = None if catalog is None else read_catalog(catalog)
    tables = sources(private, public)
    asked = ask(text_of(file, "PATH"), tables=tables, catalog=declared, types=None, limits=NO_LIMITS)
    asked.check_planned("analyze")
    release: Any = asked.release()
    parts = getattr(release, "releases", (release,))
    if len(parts) > 1:
        raise QueryError(
            f"analyze: {file} has {len(parts)} private SELECTs; put the one that is meant into a file"
        )
    if not isinstance(parts[0], Release):
        raise QueryError(f"analyze: {file} asks for the largest groups, which have no limits to compare")
    return parts[0]


def _found(release: Any, compared: dict[str, Any]) -> Any:
    from sfumato.query.analysis.analyse import analysed

    plan = release.plan
    return analysed(
        plan.query, release._engine, options={"epsilon": plan.epsilon, "delta": plan.delta}, **compared
    )


def _limits(option: str, given: str | None) -> list[int] | None:
    """Read N,N,..."""
    if given is None:
        return None
    try:
        return [int(number) for number in given.split(",")]
    except ValueError:
        raise ParameterError(option, given, "whole numbers, such as 1,2,4,8") from None


def _bounds(given: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Read NAME=LOW:HIGH,LOW:HIGH."""
    found: dict[str, list[tuple[str, str]]] = {}
    for entry in given:
        name, _, pairs = entry.rpartition("=")
        ends = [pair.split(":") for pair in pairs.split(",")]
        if not name or any(len(pair) != 2 for pair in ends):
            raise ParameterError("--bounds", entry, "NAME=LOW:HIGH, such as visits=0:10,0:30")
        if name in found:
            raise QueryError(f"--bounds: {name!r} is given twice; put its bounds behind one, with commas")
        found[name] = [(low, high) for low, high in ends]
    return found
