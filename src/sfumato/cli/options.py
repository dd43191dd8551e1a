"""What commands share: their options and arguments, how they end, and what they are given and write."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from sfumato.errors import EngineError, ParameterError, QueryError, SfumatoError
from sfumato.files import resolve_output_path
from sfumato.names.foreign_names import COMMAND_LINE

if TYPE_CHECKING:
    from rich.console import Console


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    DONE = 0
    FAILED = 1  # a source, a file or the installation must be fixed; or what was judged is not as claimed
    MISUSED = 2  # the question, the catalog, the budget or the command line must be fixed
    STOPPED = 130  # by the keyboard


@cache
def _option_entry(kind: str, name: str) -> dict[str, Any]:
    """Return a command-line option's entry in `options.toml`; the part after a dot overrides it."""
    declared = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))[kind]
    entry, _, part = name.partition(".")
    found: dict[str, Any] = declared[entry] | declared[entry].get(part, {})
    return found


def option(name: str) -> Any:
    """Return a command-line option of `options.toml`, such as "plot" or "plot.advise"."""
    entry = _option_entry("options", name)
    return typer.Option(
        *entry["names"].split(),
        metavar=entry.get("value", " "),
        help=entry["help"],
        show_default="value" not in entry or entry.get("shown", False),
        envvar=entry.get("environment"),
    )


def argument(name: str) -> Any:
    """Return a command-line argument of `options.toml`."""
    entry = _option_entry("arguments", name)
    return typer.Argument(metavar=entry["value"], help=entry["help"], show_default=False)


class Commands(TyperGroup):
    """A command group whose help lists each command with its whole first paragraph."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the command group's help if there are no arguments."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands in the command group's help."""
        paragraphs = {
            name: inspect.cleandoc(self.commands[name].help or "").partition("\n\n")[0]
            for name in self.list_commands(ctx)
        }
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(text.split())) for name, text in paragraphs.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run a command; for options and commands of other tools, say what to write instead."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            _advise(error)
            raise


def _advise(error: Any) -> None:
    """Add what to write instead to Typer's error about an unknown option or command."""
    text = str(getattr(error, "message", ""))
    named = re.match(r"No such (?:option: |command ')([-\w]+)", text)
    advice = COMMAND_LINE.get(named[1]) if named else None
    if advice and not text.endswith(advice):  # a group within another has said it
        error.message, error.possibilities = f"{text.partition('. Did')[0].rstrip('.')}; {advice}", None


def commands(help: str, **options: Any) -> typer.Typer:
    """Return a command group.

    Args:
        help: what they are about.
        options: others of `typer.Typer`.
    """
    settings = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(
        cls=Commands,
        help=help,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=settings,
        **options,
    )


@contextmanager
def answering(*options: str, engine: ExitCode = ExitCode.FAILED) -> Iterator[Console]:
    """Provide the console for a command, and turn errors into messages and exit codes.

    Args:
        options: parameters that are options of the command, which messages call by their option's name.
        engine: the exit code where a source, a file or the installation is wrong.
    """
    from sfumato.cli.terminal import forgiving, printer

    forgiving()
    try:
        yield printer()
    except (EngineError, OSError) as error:
        fail(error, engine, options)
    except SfumatoError as error:
        fail(error, ExitCode.MISUSED, options)


def fail(error: Exception | str, code: IntEnum, options: Sequence[str] = ()) -> NoReturn:
    """Print an error and end the command with an exit code.

    Args:
        error: what was wrong.
        code: the command's exit code.
        options: as for `answering`.
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


def read_sql_file(file: Path, option: str) -> str:
    """Return the SQL in a file that an option names.

    Raises:
        QueryError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise QueryError(f"{option}: {str(file)!r} is not text in UTF-8") from None
    except OSError as error:
        raise QueryError(f"{option}: {str(file)!r} cannot be read: {error.strerror}") from None


def check_no_file(text: str) -> str:
    """Return SQL from an argument, unless it is a file name."""
    if text.endswith(".sql") and " " not in text:
        raise QueryError(f"{text} is the name of a file, not SQL. Write --file {text}")
    return text


def sources(private: Sequence[str] | None, public: Sequence[str] | None) -> dict[str, Any]:
    """Return the tables in --table and --public, written NAME=PATH.

    Raises:
        ParameterError: an entry has another form.
        QueryError: a name is given twice.
    """
    import sfumato

    found: dict[str, Any] = {}
    for option, entries in (("--table", private), ("--public", public)):
        for entry in entries or ():
            name, equals, path = entry.partition("=")
            if not (name and equals and path) or "://" in name:
                # The address of a database may hold a password.
                hidden = entry if "://" not in entry else entry.partition("://")[0] + "://..."
                raise ParameterError(option, hidden, "NAME=PATH, such as visits=data/visits.parquet")
            if name in found:
                raise QueryError(f"{option}: {name!r} is given twice. Keep one")
            found[name] = path if option == "--table" else sfumato.public(path)
    return found


def read_catalog(path: Path | None) -> Any:
    """Return the catalog that --catalog names; None without it."""
    from sfumato.engines.catalog import catalog

    return None if path is None else catalog(path)


# What of the machine a command may take that has no options for it.
NO_LIMITS = {"memory_limit": None, "threads": None, "temp_directory": None}


def check_written(outputs: Sequence[Path], plot: Path | None) -> list[tuple[Path, str]]:
    """Return the files that --output and --plot name, each with its option.

    Raises:
        QueryError, ParameterError: one cannot be written, by its name, or is named twice.
        EngineError: matplotlib is not installed.
    """
    from sfumato.release.release_files import check_path

    check_distinct([*outputs, *filter(None, [plot])])
    for path in outputs:
        check_path(path)
    if plot is None:
        return [(path, "--output") for path in outputs]
    from sfumato.display.pictures import check_picture

    check_picture(plot, "plot path")
    return [*((path, "--output") for path in outputs), (plot, "--plot")]


def check_distinct(paths: Sequence[Path]) -> None:
    """Refuse a file that two output options name."""
    if len({resolve_output_path(path) for path in paths}) < len(paths):
        raise QueryError("--output: a file is named twice. Give each output its own name")


def print_text(console: Console, text: str) -> None:
    """Print a command's text of several lines as it is, without wrapping or markup."""
    from rich.text import Text

    from sfumato.display.formatting import visible

    console.print(Text(visible(text, lines=True)), soft_wrap=True)


def tell_written(console: Console, paths: Sequence[Path]) -> None:
    """Print which output files a command has written."""
    if paths:
        print_text(console, f"Wrote {', '.join(map(str, paths))}.")
