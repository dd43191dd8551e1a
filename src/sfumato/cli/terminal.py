"""The terminal: answers on standard output; errors and progress bars on standard error."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sfumato.display.formatting import visible
from sfumato.display.progress import PATIENCE, Fraction, unknown

if TYPE_CHECKING:
    from sfumato.audit import Progress as AuditProgress


class _Trimmed:
    """A table on the terminal without trailing blanks, to copy or compare."""

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
        """Print on the terminal, with tables trimmed."""
        super().print(*(_Trimmed(one) if isinstance(one, Table) else one for one in objects), **options)


def printer() -> Console:
    """Return the terminal's console for answers."""
    return _Printer(highlight=False)


def error_console() -> Console:
    """Return the terminal's console for errors and progress bars."""
    return Console(stderr=True, highlight=False)


def print_error(message: str) -> None:
    """Print an error on the terminal as it is, so that marks stay under their places."""
    line = Text("error: ", style="bold red")
    line.append(visible(message, lines=True), style="default not bold")
    error_console().print(line, soft_wrap=True)


def forgiving() -> None:
    """Let a character that the terminal cannot show become a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, io.UnsupportedOperation):
                stream.reconfigure(errors="replace")


EVERY = 0.1


class Bell(Protocol):
    """An event that ends a progress bar: a threading.Event, or a script in tests."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether the event happened within the timeout."""
        ...


def follow(console: Console, title: str, fraction: Fraction, done: Bell) -> None:
    """Show a progress bar with elapsed time on the terminal until the work is done.

    Args:
        console: where to; nothing is shown where it is no terminal.
        title: what is being done.
        fraction: polled; what it raises counts as not known.
        done: rings when the work is over. Nothing is shown if that is within PATIENCE seconds.
    """
    if not console.is_terminal or done.wait(PATIENCE):
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task(visible(title), total=None)
        reached = 0.0
        while True:
            known = _read_progress(fraction)
            if known is not None:
                reached = max(reached, min(known, 1.0))
                bar.update(task, total=1.0, completed=reached)
            if done.wait(EVERY):
                return


def _read_progress(fraction: Fraction) -> float | None:
    """Return the fraction of work done for a progress bar; None if it is unknown."""
    try:
        return fraction()
    except Exception:  # progress is a courtesy; its failure must not be the work's
        return None


class Watch:
    """A context manager that shows a progress bar for its block, from another thread."""

    def __init__(self, title: str, fraction: Fraction = unknown) -> None:
        self._done = threading.Event()
        given = error_console(), title, fraction, self._done
        self._thread = threading.Thread(target=follow, args=given, name="sfumato-progress", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()


class Meter:
    """A context manager that shows an audit's progress on the terminal; call it with each `Progress`.

    Args:
        bets: whether there is wealth to show.
    """

    def __init__(self, bets: bool) -> None:
        self._bets = bets
        self._console = error_console()
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._shown_at = 0.0

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, progress: AuditProgress) -> None:
        """Update the audit's progress on the terminal, at most ten times a second."""
        if not self._console.is_terminal or progress.seconds < max(PATIENCE, self._shown_at + 0.1):
            return
        self._shown_at = progress.seconds
        self._live.start()
        self._live.update(self._lines(progress), refresh=True)

    def _lines(self, progress: AuditProgress) -> RenderableType:
        lines = Table.grid(padding=(0, 2))
        lines.add_column()
        lines.add_column(width=24)
        lines.add_column(no_wrap=True, overflow="ellipsis")
        drawn = progress.samples / progress.max_samples, progress.seconds / progress.max_seconds
        spent = f"{progress.samples:,} of {progress.max_samples:,}, {progress.seconds:.0f} of "
        lines.add_row("draws", _bar(max(drawn)), Text(f"{spent}{progress.max_seconds:g} s"))
        if self._bets:
            share = progress.log10_wealth / progress.log10_needed
            evidence = f"10^{round(progress.log10_wealth, 1) + 0.0} of 10^{progress.log10_needed:.1f}"
            lines.add_row("wealth", _bar(share), Text(evidence))
        told = Table.grid(padding=(0, 2))
        told.add_column(width=6)
        told.add_column(no_wrap=True, overflow="ellipsis")
        told.add_row("pair", Text(visible(progress.edge)))
        both = Table.grid()
        both.add_row(lines)
        both.add_row(told)
        return both


def _bar(share: float) -> ProgressBar:
    return ProgressBar(total=1.0, completed=min(max(share, 0.0), 1.0), width=24)
