"""Objects that belong to the process that made them: no copies, no use after a fork.

A release that two processes draw is two releases for one price; a budget that two copies spend is spent
twice. Both happen without a call of ours: by a fork, by `copy.copy`, by pickling. So whatever holds such
state is `Owned`: it is never copied, and where it finds itself in another process it does nothing.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, Self, SupportsIndex

from sfumato.errors import RefusalError, SfumatoError

_forks = 0


def _count_fork() -> None:
    global _forks  # noqa: PLW0603 - a process-wide fact, changed by the operating system alone
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def process() -> tuple[int, int]:
    """Return an identity of this process that no forked child or parent shares."""
    # Numbers of processes are used again; how often a line of processes forked only grows.
    return os.getpid(), _forks


class Turn:
    """A lock for objects that one process owns: other threads wait, a re-entrant signal handler is refused.

    A plain lock would let the handler wait for ever, and one that its thread may take twice would let it
    change what is half changed. The lock itself is what `with` takes and gives back: an interrupt comes
    before or after that, and never leaves it taken, as it could in code of ours.

    >>> turn = Turn()
    >>> with turn(), turn():
    ...     pass
    Traceback (most recent call last):
    sfumato.errors.RefusalError: a query started while the same thread runs another one. ...
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held = threading.Condition(self._lock)

    def __call__(self) -> AbstractContextManager[object]:
        """Return the lock of the owned object, for a `with`."""
        # A handler that comes from here on has its turn, and gives it back, before the lock is taken.
        with suppress(RuntimeError):  # what a condition raises whose lock this thread does not hold
            self._held.notify(0)
            raise RefusalError(
                "a query started while the same thread runs another one. Wait until that one has finished"
            )
        return self._lock


class _OfInit:
    """The signature of an owned class for `help`: that of its `__init__`, not of `__new__`."""

    def __get__(self, made: object, owner: type[Any]) -> Any:
        from inspect import signature

        found = signature(owner.__init__)
        return found.replace(parameters=list(found.parameters.values())[1:])


class Owned:
    """Base class of process-local objects: a copy is refused, and use in a fork by `_check_home`.

    A class says by `_elsewhere` what would be wrong in another place and what to do instead (and by `_called`
    what it is, where its name does not tell), and calls `_check_home` before its state is used or changed,
    and before a lock is taken: one that another thread held while the process forked is never given back.

    >>> class Ticket(Owned):
    ...     _elsewhere = "a ticket is used once; buy another"
    ...     def use(self):
    ...         self._check_home()
    >>> ticket = Ticket()
    >>> ticket.use()
    >>> import copy
    >>> copy.copy(ticket)
    Traceback (most recent call last):
    sfumato.errors.RefusalError: this Ticket belongs to the process that made it, and cannot be copied: ...
    """

    _elsewhere: ClassVar[str]
    _called: ClassVar[str] = ""
    _refusal: ClassVar[type[SfumatoError]] = RefusalError
    _home: tuple[tuple[int, int], weakref.ref[Any]]

    __signature__: _OfInit = _OfInit()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the process that owns the new object."""
        made = super().__new__(cls)
        made._settle()
        return made

    def _settle(self) -> None:
        """Make this process and object the owner."""
        # The object too: its attributes may come to stand in another one, without a call of ours.
        object.__setattr__(self, "_home", (process(), weakref.ref(self)))

    @property
    def _at_home(self) -> bool:
        """Whether this process and object own the state."""
        made_in, owner = self._home
        return made_in == process() and owner() is self

    def _check_home(self) -> None:
        """Refuse use in another process, or in an object that was given this one's attributes."""
        if not self._at_home:
            raise self._refusal(self._describe())

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Refuse to copy or pickle an owned object."""
        raise self._refusal(self._describe())

    def _describe(self) -> str:
        called = self._called or type(self).__name__
        return f"this {called} belongs to the process that made it, and cannot be copied: {self._elsewhere}"
