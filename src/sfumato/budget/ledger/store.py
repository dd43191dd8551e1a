"""A database that holds a ledger: transactions that are whole or not there, and its errors in our words."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.errors import EngineError, in_own_words

T = TypeVar("T")
WAIT = 30  # seconds for others, whose changes take milliseconds
_ATTEMPTS = 20
UNTOLD = "nothing was entered"


class Store(ABC):
    """One database. Each transaction has a connection of its own, so that no two processes share one.

    Args:
        shown: what messages call it; never with a password.
        engine: SQLAlchemy's.
    """

    def __init__(self, shown: str, engine: Engine) -> None:
        self.shown, self._engine = shown, engine

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return what is read within one transaction, all of one moment."""
        return self._run(self.begin_read, work)

    def change(self, work: Callable[[Connection], T]) -> T:
        """Return what a change returns, when it is on disk; where anything fails, nothing was changed.

        The work is perhaps done again, where the database asks for that.

        Raises:
            EngineError: the database cannot be changed, or it is not known whether it was.
        """
        return self._run(self.begin_change, work)

    def _run(self, begin: Callable[[Connection], None], work: Callable[[Connection], T]) -> T:
        ending = False

        def says(error: Exception) -> EngineError:
            return EngineError(f"{self.shown}: {self.why(error, ending)}")

        with in_own_words(says, SQLAlchemyError, OSError):
            for left in reversed(range(_ATTEMPTS)):
                ending = False
                try:
                    with self._engine.connect() as connection:
                        begin(connection)
                        done = work(connection)
                        ending = True
                        connection.commit()
                        return done
                except DBAPIError as error:
                    if not left or not self.again(error):
                        raise
                time.sleep(0.01 * (_ATTEMPTS - left))
            raise AssertionError  # the last attempt returns or raises

    def exists(self) -> bool:
        """Whether there is anything to connect to."""
        return True

    def prepare(self) -> None:
        """Make what a connection needs, where it is not there."""
        return

    @abstractmethod
    def begin_read(self, connection: Connection) -> None:
        """Begin a transaction that sees one moment."""

    @abstractmethod
    def begin_change(self, connection: Connection) -> None:
        """Begin a transaction whose end is on disk before it is told."""

    @abstractmethod
    def now(self, connection: Connection) -> datetime:
        """Return the time, in UTC, by the clock that all users of the database share."""

    @abstractmethod
    def again(self, error: DBAPIError) -> bool:
        """Whether the database undid all, and asks to try again."""

    @abstractmethod
    def why(self, error: Exception, ending: bool) -> str:
        """Say what is wrong and what to do, without what the driver says, which may have a password.

        Args:
            error: what was raised.
            ending: the transaction was about to end, so that it may have ended well.
        """

    @abstractmethod
    def check_empty(self, connection: Connection) -> None:
        """Refuse to make a ledger among what others keep, and let others wait who make one too."""
