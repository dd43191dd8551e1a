"""A database that holds a ledger: transactions that are whole or not there, and its errors in our words."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.budget.ledger.written import MISREAD, damaged
from sfumato.errors import BudgetError, EngineError, in_own_words
from sfumato.ownership import process

T = TypeVar("T")
_never_closed: list[Any] = []
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
        self.shown = shown
        self._engine = engine
        event.listen(engine, "before_cursor_execute", lambda connection, *_: _check_same(connection))

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

        def about_to_end(now: bool = True) -> None:
            nonlocal ending
            ending = now

        def says(error: Exception) -> EngineError:
            if isinstance(error, MISREAD):
                return damaged(self.shown)
            return EngineError(f"{self.shown}: {self.why(error, ending)}")

        with in_own_words(says, SQLAlchemyError, OSError, *MISREAD):
            for left in reversed(range(_ATTEMPTS)):
                about_to_end(False)
                try:
                    return self._once(begin, work, about_to_end)
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

    def _once(
        self,
        begin: Callable[[Connection], None],
        work: Callable[[Connection], T],
        about_to_end: Callable[[], None],
    ) -> T:
        """Return what work returns within a transaction, on a connection for its process alone.

        A child that is forked in the middle, by a handler of a signal, stands in the same place with the same
        connection: what it told the database, even that it goes, would be told in the name of its parent.
        """
        connection, same = self._engine.connect(), True
        driver: Any = connection.connection.driver_connection
        connection.info["process"] = began = process()
        # Not a function with `yield`: an interrupt on the way to its end would leave the ledger locked, as
        # long as somebody keeps the interrupt's frames. So would one within `connection.close`.
        try:
            try:
                begin(connection)
                done = work(connection)
                about_to_end()
                _check_same(connection)
                connection.commit()
            finally:
                same = began == process()
                if same:
                    connection.close()
        finally:
            if same:
                driver.close()
            else:
                _never_closed.append(driver)
        return done

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

    def broken(self, connection: Connection) -> str:
        """Say what is wrong with how the database keeps the tables, whatever stands in them."""
        return ""

    @abstractmethod
    def check_empty(self, connection: Connection) -> None:
        """Refuse to make a ledger among what others keep, and let others wait who make one too."""


def _check_same(connection: Connection) -> None:
    """Refuse to go on in a child that was forked since the connection was opened."""
    if connection.info.get("process", process()) != process():
        raise BudgetError("a ledger is written by the process that began to; open it anew, by sf.Ledger(...)")
