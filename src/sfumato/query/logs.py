"""What the log says of a question: its plan, and how long its answer took. Nothing of rows or answers.

What a release finds before, by looks, are noisy numbers too: they, and how many looks it takes, are not told.
A handler that fails takes an answer from nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

LOG = logging.getLogger("sfumato.query")
LOG.addHandler(logging.NullHandler())
_looks = ContextVar("looks", default=False)


def planned(engine: str, aggregates: int, **cost: Any) -> None:
    """Log that a release is planned.

    Args:
        engine: on which it will run.
        aggregates: how many are asked.
        cost: epsilon and delta that it stays within, or its share of a budget.
    """
    with suppress(Exception):
        told = ", ".join(f"{name}={float(value):.6g}" for name, value in cost.items())
        LOG.info("planned: aggregates=%d, %s, on %s", aggregates, told, engine)


def answered(engine: str, seconds: float) -> None:
    """Log that an answer is there, and how long it took, which tells a little of the rows; not of a look.

    Args:
        engine: on which it ran.
        seconds: from the first look to the last number.
    """
    if not _looks.get():
        with suppress(Exception):
            LOG.info("answered in %.3f s, on %s", seconds, engine)


@contextmanager
def looking() -> Iterator[None]:
    """Keep what is drawn within out of the log."""
    before = _looks.set(True)
    try:
        yield
    finally:
        _looks.reset(before)
