"""What commands share: the form of their options, the files that --output names, and how they end badly."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sfumato.errors import QueryError
from sfumato.files import whole_place

if TYPE_CHECKING:
    from rich.console import Console


def optional(*names: str, metavar: str, help: str) -> Any:
    """Declare an option that may be left out, with nothing in its place."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


def flag(*names: str, help: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(*names, metavar=" ", help=help)


def outputs(what: str) -> Any:
    """Declare --output; `what` is written, and the endings of the files it may be written to."""
    return optional("--output", "-o", metavar="PATH", help=f"Write {what}. May be repeated.")


TableFiles = Annotated[
    list[str] | None,
    optional("--table", "-t", metavar="NAME=PATH", help="A file that FROM names; as for sfumato sql."),
]
PublicFiles = Annotated[
    list[str] | None,
    optional("--public", metavar="NAME=PATH", help="A file of public knowledge; as for sfumato sql."),
]
CatalogFile = Annotated[
    Path | None,
    optional("--catalog", "-c", metavar="PATH", help="A TOML file that declares the tables in FROM."),
]
# What of the machine a command may take that has no options for it.
NO_LIMITS = {"memory_limit": None, "threads": None, "temp_directory": None}


def check_written(outputs: Sequence[Path], plot: Path | None) -> list[tuple[Path, str]]:
    """Return the files that --output and --plot name, each with its option.

    Raises:
        QueryError, ParameterError: one cannot be written, by its name, or is named twice.
        EngineError: matplotlib is not installed.
    """
    from sfumato.query.released.output import checked_path

    check_distinct([*outputs, *filter(None, [plot])])
    for path in outputs:
        checked_path(path)
    if plot is None:
        return [(path, "--output") for path in outputs]
    from sfumato.query.released.chart import checked_plot

    checked_plot(plot)
    return [*((path, "--output") for path in outputs), (plot, "--plot")]


def check_distinct(paths: Sequence[Path]) -> None:
    """Refuse a file that is named twice."""
    if len({whole_place(path) for path in paths}) < len(paths):
        raise QueryError("--output: a file is named twice; give each its own name")


def tell_written(console: Console, paths: Sequence[Path]) -> None:
    """Say which files there are now."""
    from rich.text import Text

    if paths:
        console.print(Text(f"Wrote {', '.join(map(str, paths))}."), soft_wrap=True)


def fail(error: Exception | str, code: IntEnum, options: Sequence[str] = ()) -> NoReturn:
    """Print what was wrong, and end the command.

    Args:
        error: what was wrong.
        code: the command's exit code.
        options: parameters that are options of the command, which the message calls by their option's name.
    """
    from sfumato.cli.terminal import print_error

    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        error = f"{where}{error.strerror or error}"
    name, verb, rest = str(error).partition(" is ")
    option = "output" if name == "output path" else name
    known = verb and option in ("output", *options)
    print_error(f"--{option}{verb}{rest}" if known else str(error))
    raise typer.Exit(code)
