"""Answers at a fixed pace: so that the time of one does not tell how long its rows took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from sfumato.dataclass import dataclass

_SPARE = 0.1  # of a pace is left to end what takes too long, and to begin anew


@dataclass(frozen=True)
class Pace:
    """When answers are sent: as soon as they are there, or a fixed time after their question's turn came.

    Args:
        seconds: from the turn of a question to its answer; None for as soon as it is there.
        clock, sleep: as those of `time`.

    >>> now = [0.0]
    >>> pace = Pace(2.0, lambda: now[0], lambda seconds: now.append(now.pop() + seconds))
    >>> slot = pace.slot()
    >>> now[0] = 0.5
    >>> slot.left(60), slot.wait(), now
    (1.3, None, [2.0])
    """

    seconds: float | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def slot(self) -> Slot:
        """Begin the time of one answer."""
        return Slot(self, None if self.seconds is None else self.clock() + self.seconds)


AT_ONCE = Pace()


@dataclass(frozen=True)
class Slot:
    """The time of one answer.

    Args:
        pace: how it was begun.
        until: when the answer is sent, by the pace's clock; None for as soon as it is there.
    """

    pace: Pace
    until: float | None

    def left(self, most: float) -> float:
        """Return the seconds, `most` of them, that are left to a question."""
        if self.until is None or self.pace.seconds is None:
            return most
        return max(0.0, min(most, self.until - self.pace.clock() - _SPARE * self.pace.seconds))

    def wait(self) -> None:
        """Return when the answer may be sent."""
        if self.until is not None:
            self.pace.sleep(max(0.0, self.until - self.pace.clock()))
