"""The two streams: answers on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sfumato.display.text import visible


class _Trimmed:
    """A table without the blanks that fill its lines: whoever copies one, or compares files, has none."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self.table, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                text, style, control = line.pop()
                line.append(Segment(text.rstrip(), style, control))
            yield from line
            yield Segment.line()


class _Printer(Console):
    def print(self, *objects: RenderableType, **options: Any) -> None:
        """Print, tables without blanks at the ends of lines."""
        super().print(*(_Trimmed(one) if isinstance(one, Table) else one for one in objects), **options)


def printer() -> Console:
    """Return the console for answers."""
    return _Printer(highlight=False)


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
