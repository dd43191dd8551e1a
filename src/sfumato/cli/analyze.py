"""`sfumato analyze`: what limits and bounds cut of exact rows, and what noise adds, for their owner alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from sfumato.cli.options import (
    NO_LIMITS,
    answering,
    argument,
    check_written,
    option,
    read_catalog,
    sources,
    tell,
    tell_written,
    text_of,
)
from sfumato.display.progress import fraction_of
from sfumato.errors import ParameterError, QueryError


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
    """Compare limits and bounds on the rows. What is printed is NOT PRIVATE: for the owner alone."""
    from sfumato.cli.terminal import Watch
    from sfumato.release.release_files import write

    with answering() as console:
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
        release = _planned(file, catalog, sources(table, public))
        for path, name in files:
            release._check_no_source(path, name)
        with Watch("Reading rows, comparing limits", fraction_of(release._engine)):
            found = _found(release, compared)
        tell(console, str(found))
        for path in output or []:
            write(path, iter(found.to_arrow(by_group=True).to_batches()))
        if plot is not None:
            found.plot(plot)
        tell_written(console, [path for path, _ in files])


def _planned(file: Path, catalog: Path | None, tables: dict[str, Any]) -> Any:
    from sfumato.engines.sql import ask
    from sfumato.release.release import Release

    text, declared = text_of(file, "PATH"), read_catalog(catalog)
    asked = ask(text, tables=tables, catalog=declared, types=None, limits=NO_LIMITS)
    asked.check_planned("analyze")
    release: Any = asked.release()
    parts = getattr(release, "_releases", (release,))
    if len(parts) > 1:
        raise QueryError(
            f"analyze: {file} has {len(parts)} private SELECTs; put the one that is meant into a file"
        )
    if not isinstance(parts[0], Release):
        raise QueryError(f"analyze: {file} asks for the largest groups, which have no limits to compare")
    return parts[0]


def _found(release: Any, compared: dict[str, Any]) -> Any:
    from sfumato.guidance.analysis import analysed

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
