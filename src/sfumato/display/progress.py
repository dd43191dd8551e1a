"""The progress of long work in a notebook: a bar that comes after half a second and goes with the work.

On a terminal nothing is shown but by the command, which has a bar of its own; in a program nothing at all.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sfumato.display.cards import progress_bar

PATIENCE = 0.5  # seconds, after which work is long
EVERY = 0.2

Fraction = Callable[[], float | None]


def unknown() -> float | None:
    """Return None: the progress is unknown."""
    return None


def find_progress(*owners: object) -> Fraction:
    """Return the function that gives the progress of some work: the first owner's method `progress`."""
    for owner in owners:
        # Its class is asked first: what users hold makes a sentence of advice about a name that it has not.
        if callable(getattr(type(owner), "progress", None)):
            told: Fraction = owner.progress  # type: ignore[attr-defined]
            return told
    return unknown


@contextmanager
def notebook_bar(title: str, fraction: Fraction = unknown) -> Iterator[None]:
    """Show a progress bar in a notebook for the work of a `with` block; elsewhere do nothing.

    Args:
        title: what is being done.
        fraction: polled from another thread, between 0 and 1; what it raises counts as not known.

    >>> with notebook_bar("Counting"):
    ...     sum(range(10))
    45
    """
    show, done = _display(), threading.Event()
    if show is None:
        yield
        return
    thread = threading.Thread(
        target=_follow, args=(title, fraction, show, done), name="sfumato-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _follow(title: str, fraction: Fraction, show: Callable[..., Any], done: threading.Event) -> None:
    """Show the progress of work that takes long until it is done."""
    began, reached = time.monotonic(), 0.0
    if done.wait(PATIENCE):
        return
    with suppress(Exception):  # a courtesy, whose failure must not be the work's
        handle = show({"text/html": "", "text/plain": ""}, raw=True, display_id=True)
        while not done.wait(EVERY):
            known = None
            with suppress(Exception):
                known = fraction()
            reached = max(reached, min(known or 0.0, 1.0))
            bar = progress_bar(title, reached or None, time.monotonic() - began)
            handle.update({"text/html": bar, "text/plain": title}, raw=True)
        handle.update({"text/html": "", "text/plain": ""}, raw=True)


def _display() -> Callable[..., Any] | None:
    """Return the notebook's display function for progress, if this runs in one; nothing is imported."""
    with suppress(Exception):
        shell = sys.modules["IPython"].get_ipython()
        if getattr(shell, "kernel", None) is not None:
            show: Callable[..., Any] = sys.modules["IPython.display"].display
            return show
    return None
