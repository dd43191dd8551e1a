"""How a ledger is read and changed: by transactions, of the same ledger as before, in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from sfumato.errors import BudgetError, EngineError, ParameterError
from sfumato.names import Helpful, helpful
from sfumato.ownership import Owned, Turn

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sfumato.budget.ledger.stores import Store

T = TypeVar("T")


class Advice(NamedTuple):
    """What messages tell an owner to write: in Python, or on the command line.

    Args:
        create, grant: what makes a budget, and what grants a part of it.
        replace: what changes a cap.
        use: how to go on with a budget that is there.
    """

    create: str
    grant: str
    replace: str
    use: str


IN_PYTHON = Advice(
    "ledger.create({0!r}, epsilon=...)",
    "ledger.grant({0!r}, {1!r}, epsilon=...)",
    "Pass replace=True",
    "ledger.budget({0!r})",
)
IN_COMMANDS = Advice(
    "sfumato budget create {2} --epsilon NUMBER --ledger PLACE",
    "sfumato budget grant {2} {3} --epsilon NUMBER --ledger PLACE",
    "Add --replace",
    "sfumato sql --dataset {2} --ledger PLACE",
)


class Transactions(Helpful, Owned):
    """What a ledger does with its database, whatever stands there.

    Args:
        place: as of `Ledger`.
    """

    _elsewhere = "open it there, by sf.Ledger(...) of the same place"
    _refusal = BudgetError

    @helpful
    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._store = _store(place)
        self._terms = IN_PYTHON
        self._turn = Turn()
        self._there = self._looked()
        # By which a file that takes the place of this one is told: its name, and its last entry.
        self._known: tuple[str, int] | None = None

    def _change(self, work: Callable[[Connection, datetime, date], T]) -> T:
        """Do work in a transaction beside which no other runs, on a day never before an earlier one."""
        self._check_home()
        with _of_ledger():
            return self._changed(work)

    def _changed(self, work: Callable[[Connection, datetime, date], T]) -> T:
        if not self._is_there():
            raise self._missing()
        known = self._known

        def all_of(connection: Connection) -> tuple[T, tuple[str, int]]:
            from sfumato.budget.ledger import book, ledger_tables

            head = ledger_tables.head(connection, self._store.shown, lock=True)
            self._check_same((head.name, book.newest(connection)), known)
            at = self._store.now(connection)
            # A clock that goes back gives nobody a period anew.
            day = max(at.date(), head.day)
            done = work(connection, at, day)
            if day > head.day:
                connection.execute(ledger_tables.LEDGER.update().values(day=day.isoformat()))
            return done, (head.name, book.newest(connection))

        done, self._known = self._store.change(all_of)
        self._check_home()  # one that was forked meanwhile has paid nothing
        return done

    def _read(self, work: Callable[[Connection, date], T]) -> T:
        """Read what is of one moment, and the day by which periods go."""
        with _of_ledger():
            return self._found(work)

    def _found(self, work: Callable[[Connection, date], T]) -> T:
        if not self._is_there():
            raise self._missing()
        known = self._known

        def all_of(connection: Connection) -> tuple[T, tuple[str, int]]:
            from sfumato.budget.ledger import book, ledger_tables

            head = ledger_tables.head(connection, self._store.shown, lock=False)
            found = head.name, book.newest(connection)
            self._check_same(found, known)
            return work(connection, max(self._store.now(connection).date(), head.day)), found

        done, self._known = self._store.read(all_of)
        return done

    def _check_same(self, found: tuple[str, int], known: tuple[str, int] | None) -> None:
        """Refuse another ledger in the place of the one that was read before, or an older copy of it."""
        if known is not None and (found[0] != known[0] or found[1] < known[1]):
            raise EngineError(
                f"{self._store.shown} is not what it was: another ledger, or an older copy of this one, was "
                "put in its place; enter what was spent since, and open it anew, by sf.Ledger(...)"
            )

    def _is_there(self) -> bool:
        """Whether there is a ledger, perhaps by now."""
        self._there = self._there or self._looked()
        return self._there

    def _looked(self) -> bool:
        """Look whether there is a ledger, and make one of an earlier version one of today."""
        from sfumato.budget.ledger import ledger_tables

        if not self._store.exists():
            return False
        version = self._store.read(ledger_tables.version)
        if version is not None and version < ledger_tables.VERSION:
            self._store.change(
                lambda connection: ledger_tables.head(connection, self._store.shown, lock=True)
            )
        return version is not None

    def _make(self) -> None:
        """Make an empty ledger where there is none."""
        self._check_home()
        if self._is_there():
            return

        def work(connection: Connection) -> None:
            from sfumato.budget.ledger import ledger_tables

            self._store.check_empty(connection)
            if ledger_tables.version(connection) is None:
                ledger_tables.make(connection, self._store.now(connection).date())

        self._store.prepare()
        self._store.change(work)

    def _advised(self, what: str, dataset: str, analyst: str = "") -> str:
        """Return what an owner is to write, with names in it."""
        return str(getattr(self._terms, what)).format(dataset, analyst, quote(dataset), quote(analyst))

    def _missing(self) -> EngineError:
        return EngineError(
            f"there is no ledger {self._store.shown} yet. Its owner makes one, with a first budget, by "
            + self._advised("create", "NAME")
        )

    def __repr__(self) -> str:
        return f"<Ledger {self._store.shown}>"


@contextmanager
def _of_ledger() -> Iterator[None]:
    """Mark what is wrong with a ledger, which is told apart from what is wrong with tables."""
    try:
        yield
    except EngineError as error:
        error.of_ledger = True
        raise


def _store(place: str | os.PathLike[str]) -> Store:
    """Return the database of a place."""
    if not isinstance(place, str | os.PathLike):
        raise ParameterError("place", place, "the path of a file, or postgresql://USER@HOST/DATABASE")
    missing = False
    try:
        from sfumato.budget.ledger.stores import SCHEMES, PostgresqlStore, SqliteStore
    except ImportError:
        missing = True
    if missing:
        raise EngineError("install what ledgers need: pip install 'sfumato[ledger]'")
    if isinstance(place, str) and place.lower().startswith(SCHEMES):
        return PostgresqlStore(place)
    return SqliteStore(place)
