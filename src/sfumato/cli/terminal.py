"""The two streams: answers on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import io
import sys

from rich.console import Console
from rich.text import Text

from sfumato.display.text import visible


def printer() -> Console:
    """Return the console for answers."""
    return Console(highlight=False)


def error_console() -> Console:
    """Return the console for errors and progress."""
    return Console(stderr=True, highlight=False)


def print_error(message: str) -> None:
    """Print an error's text as it is: its marks stand under the places that they mean."""
    line = Text("error: ", style="bold red")
    line.append(visible(message, lines=True), style="default not bold")
    error_console().print(line, soft_wrap=True)


def forgiving() -> None:
    """Let a character that a terminal cannot show become a question mark, not an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, io.UnsupportedOperation):
                stream.reconfigure(errors="replace")
