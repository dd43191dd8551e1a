"""Progress on standard error: only where somebody looks, and only when it takes a while."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from sfumato.cli.terminal import error_console
from sfumato.display.progress import PATIENCE, Fraction, unknown
from sfumato.display.text import visible

EVERY = 0.1


class Bell(Protocol):
    """What `follow` waits for: a threading.Event, or a script in tests."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it rang within the seconds."""
        ...


def follow(console: Console, title: str, fraction: Fraction, done: Bell) -> None:
    """Show a line with the elapsed time, and a bar as soon as a fraction is known, until it is done.

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
            known = _asked(fraction)
            if known is not None:
                reached = max(reached, min(known, 1.0))
                bar.update(task, total=1.0, completed=reached)
            if done.wait(EVERY):
                return


def _asked(fraction: Fraction) -> float | None:
    try:
        return fraction()
    except Exception:  # progress is a courtesy; its failure must not be the work's
        return None


class Watch:
    """Follows the work of a `with` block from another thread."""

    def __init__(self, title: str, fraction: Fraction = unknown, console: Console | None = None) -> None:
        self._done = threading.Event()
        console = console or error_console()
        self._thread = threading.Thread(
            target=follow, args=(console, title, fraction, self._done), name="sfumato-progress", daemon=True
        )

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
