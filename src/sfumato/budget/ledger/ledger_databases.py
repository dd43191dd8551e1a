"""Databases that hold a ledger, files and servers: whole transactions, and errors in our words."""

from __future__ import annotations

import os
import sqlite3
import time
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from sfumato.budget.ledger.ledger_entries import MISREAD, damage, damaged
from sfumato.budget.ledger.ledger_tables import LEDGER
from sfumato.errors import BudgetError, EngineError, ParameterError, in_own_words, shown
from sfumato.ownership import process

T = TypeVar("T")
_never_closed: list[Any] = []
WAIT = 30  # seconds for others, whose changes take milliseconds
_ATTEMPTS = 20
UNCHANGED = "nothing was entered"


class Store(ABC):
    """A database that holds a ledger; each transaction has its own connection, never shared by processes.

    Args:
        shown: what messages call it; never with a password.
        engine: SQLAlchemy's.
    """

    def __init__(self, shown: str, engine: Engine) -> None:
        self.shown = shown
        self._engine = engine
        event.listen(engine, "before_cursor_execute", lambda connection, *_: _check_same(connection))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work in a reading transaction of the ledger's database, with one snapshot."""
        return self._run(self.begin_read, work)

    def change(self, work: Callable[[Connection], T]) -> T:
        """Run work in a writing transaction of the ledger's database, and return when it is on disk.

        The work is perhaps done again, where the database asks for that.

        Raises:
            EngineError: the database cannot be changed, or it is not known whether it was.
        """
        return self._run(self.begin_change, work)

    def _run(self, begin: Callable[[Connection], None], work: Callable[[Connection], T]) -> T:
        """Run work in a transaction, with retries and with the database's errors in our words."""
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
        """Whether the ledger's database exists to connect to."""
        return True

    def prepare(self) -> None:
        """Create the ledger's database file if there is none."""
        return

    def _once(
        self,
        begin: Callable[[Connection], None],
        work: Callable[[Connection], T],
        about_to_end: Callable[[], None],
    ) -> T:
        """Run work once in a transaction, on a connection of this process alone.

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
        """Begin a database transaction that reads one snapshot."""

    @abstractmethod
    def begin_change(self, connection: Connection) -> None:
        """Begin a database transaction that is on disk before its commit returns."""

    @abstractmethod
    def now(self, connection: Connection) -> datetime:
        """Return the time, in UTC, by the clock that all users of the ledger's database share."""

    @abstractmethod
    def again(self, error: DBAPIError) -> bool:
        """Whether the database rolled the transaction back and asks to retry."""

    @abstractmethod
    def why(self, error: Exception, ending: bool) -> str:
        """Return what is wrong with the ledger's database, without the driver's text: it can hold a password.

        Args:
            error: what was raised.
            ending: the transaction was about to end, so that it may have ended well.
        """

    def broken(self, connection: Connection) -> str:
        """Return what is wrong with how the database keeps the ledger's tables; "" if nothing."""
        return ""

    @abstractmethod
    def check_empty(self, connection: Connection) -> None:
        """Refuse to create a ledger in a database that other tables use; wait for others who create one."""


def _check_same(connection: Connection) -> None:
    """Refuse to use the ledger's database connection in a child that was forked since."""
    if connection.info.get("process", process()) != process():
        raise BudgetError(
            "a ledger belongs to the process that opened it. Open it again here, with sf.Ledger(...)"
        )


# Looks at each page when it is read, not when something on it is missed.
_CHECKED = "PRAGMA cell_size_check = ON"
_SEE_HISTORY = "see sfumato budget history before you query again"
# By the beginnings of SQLite's own names of errors.
_REASONS = {
    "SQLITE_FULL": f"the disk is full; {UNCHANGED}",
    "SQLITE_IOERR": f"the disk is full, or cannot be read or written; {UNCHANGED}",
    "SQLITE_READONLY": f"the file or its folder cannot be written; {UNCHANGED}",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that it exists and that this user may read it",
    "SQLITE_PERM": "this user may not open the file",
    "SQLITE_NOTADB": (
        "the file is not a ledger, nor any SQLite database; name another file, or restore the last good copy"
    ),
    "SQLITE_CORRUPT": damage("SQLite cannot read its pages"),
    "SQLITE_BUSY": f"another process held the file for {WAIT} seconds; {UNCHANGED}",
    "SQLITE_LOCKED": f"another process holds the file; {UNCHANGED}",
    "SQLITE_SCHEMA": damage("its tables are not those of a ledger"),
    "SQLITE_MISMATCH": damage("its tables are not those of a ledger"),
    "SQLITE_CONSTRAINT": damage("its tables refuse what a ledger writes"),
}


class _Connection(sqlite3.Connection):
    """A SQLite connection that releases its locks when closed, even while a cursor is kept.

    As the frames of an interrupt do: SQLite itself would wait for the cursor, and all others for SQLite.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursors: list[sqlite3.Cursor] = []

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        made = super().cursor(*args, **kwargs)
        self._cursors.append(made)
        return made

    def close(self) -> None:
        with suppress(sqlite3.Error):
            for one in self._cursors:
                one.close()
            self.rollback()
        super().close()


class SqliteStore(Store):
    """A SQLite file that holds a ledger.

    Args:
        place: of the file; its folder must be there.
    Raises:
        EngineError: it cannot be a file.
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        path = _check_path(place)

        def connect() -> sqlite3.Connection:
            # A missing file is an error: a name that is mistyped gives no budget that nobody has spent.
            address = f"file:{urllib.parse.quote(os.fsencode(path))}?mode=rw"
            return sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None, factory=_Connection)

        # Of one folder, wherever the process goes later.
        self._path = path
        super().__init__(
            shown(str(place)),
            create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True),
        )

    def exists(self) -> bool:
        """Whether the SQLite file has content: a kill during creation leaves an empty one."""
        try:
            return self._path.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError as error:
            why = error.strerror
        raise EngineError(f"{self.shown}: the file cannot be opened: {why}")

    def prepare(self) -> None:
        """Create the SQLite file, readable by its owner alone, if there is none."""
        why = ""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return
        except OSError as error:
            why = error.strerror or ""
        if why:
            raise EngineError(f"{self.shown}: the file cannot be made: {why}")

    def begin_read(self, connection: Connection) -> None:
        """Begin a SQLite transaction that reads one snapshot."""
        connection.exec_driver_sql(_CHECKED)
        connection.exec_driver_sql("BEGIN")
        self._check_whole(connection)

    def begin_change(self, connection: Connection) -> None:
        """Begin a SQLite write transaction that syncs the file and its folder at commit."""
        # FULL would leave open whether the end of a transaction outlives a loss of power.
        connection.exec_driver_sql("PRAGMA synchronous = EXTRA")
        connection.exec_driver_sql("PRAGMA fullfsync = ON")
        connection.exec_driver_sql(_CHECKED)
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        self._check_whole(connection)

    def _check_whole(self, connection: Connection) -> None:
        """Refuse a SQLite file whose end is missing or that has a second hard link."""
        pages, size, mode = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_count", "page_size", "journal_mode")
        )
        found = self._path.stat()
        # An empty file is about to be a ledger, and of one with a log beside it, part is there.
        if mode != "wal" and 0 < found.st_size < pages * size:
            raise EngineError(f"{self.shown}: {_REASONS['SQLITE_CORRUPT']}")
        if found.st_nlink > 1:
            # What a kill leaves beside the one name, to be undone, is not looked for beside the other.
            raise EngineError(f"{self.shown}: the file has a second name, a hard link. Remove one of them")

    def now(self, connection: Connection) -> datetime:
        """Return the time by the clock of this machine, which has the SQLite file."""
        return _clock()

    def again(self, error: DBAPIError) -> bool:
        """Return False: SQLite waits for locks by itself."""
        return False

    def why(self, error: Exception, ending: bool) -> str:
        """Return what is wrong with the SQLite file and what to do."""
        original = error.orig if isinstance(error, DBAPIError) else error
        name = getattr(original, "sqlite_errorname", None) or ""
        for part, reason in _REASONS.items():
            if name.startswith(part):
                return reason
        if name == "SQLITE_ERROR" or isinstance(original, SQLAlchemyError | sqlite3.InterfaceError):
            return damage("its tables are not those of a ledger")
        if not name and isinstance(original, sqlite3.OperationalError):  # of Python, not of SQLite
            return damage("it has text that cannot be decoded")
        reason = f"SQLite cannot use it ({name or type(original).__name__})"
        return f"{reason}; {_SEE_HISTORY}" if ending else f"{reason}; {UNCHANGED}"

    def broken(self, connection: Connection) -> str:
        """Return what SQLite's integrity check finds wrong with pages and indexes."""
        found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        return "" if found == "ok" else "its pages or indexes contradict each other"

    def check_empty(self, connection: Connection) -> None:
        """Refuse to create a ledger in a SQLite file with other tables."""
        names = inspect(connection).get_table_names()
        if names and LEDGER.name not in names:
            raise EngineError(
                f"{self.shown}: the file is an SQLite database, but not a ledger. Give the ledger a "
                "file of its own"
            )


def _clock() -> datetime:
    return datetime.now(UTC)


def _check_path(place: str | os.PathLike[str]) -> Path:
    """Return the path of a ledger's SQLite file whose folder exists."""
    text = os.fspath(place)
    plain = isinstance(text, str) and text.isprintable() and text not in ("", ":memory:")
    if not plain or "://" in text or text.startswith("file:"):
        what = "the path of a file on disk, such as 'budget.db', or postgresql://USER@HOST/DATABASE"
        # An address of another kind may have a password.
        raise ParameterError("place", "..." if plain else text, what)
    path = Path(text).absolute()
    why = ""
    try:
        if path.is_dir():
            why = "it is a folder. Name a file in it"
        elif not path.parent.is_dir():
            why = f"there is no folder {shown(str(path.parent))}. Make it first"
    except OSError as error:
        why = error.strerror or "it cannot be a file"
    if why:
        raise EngineError(f"the ledger {shown(text)}: {why}")
    return path


SCHEMES = ("postgresql://", "postgres://")
_FORM = (
    "write postgresql://USER@HOST/DATABASE. In a name or a password, write / as %2F, @ as %40, : as "
    "%3A and % as %25; better, put the password in PGPASSWORD or ~/.pgpass"
)
# By the beginnings of SQLSTATE.
_STATES = {
    "28": "the user or the password is refused",
    "3D000": "the server has no such database",
    "3F000": "there is no schema to make tables in; see search_path",
    "42501": (
        f"this user may not do that there; {UNCHANGED}. Only the ledger's owner can change caps and "
        "tables, and docs/ledger.md lists what spenders need"
    ),
    "42P01": "the database has no ledger; see sfumato budget create, or search_path",
    "42703": damage("its tables are not those of a ledger"),
    "23": damage("its tables refuse what a ledger writes"),
    "XX001": damage("the server cannot read its pages"),
    "XX002": damage("the server cannot read its indexes"),
    "25006": f"the server, or this user's transactions, are read-only; {UNCHANGED}",
    "53": f"the server has no disk, memory or connections left; {UNCHANGED}",
    "55P03": f"another process held the ledger for {WAIT} seconds; {UNCHANGED}",
    "40": f"the server undid the change each time, because others changed the same; {UNCHANGED}",
    "57014": f"the server stopped the query at its statement_timeout; {UNCHANGED}",
}
_TEXTS = {
    "no password supplied": "it needs a password, in the address, PGPASSWORD or ~/.pgpass",
    "authentication failed": "the user or the password is refused",
    "does not exist": "it has no such database or user",
    "translate host name": "there is no such host",
    "resolve host": "there is no such host",
    "refused": "no server answers there",
    "No such file": "no server answers there",
    "timeout": "no server answers in time",
    "timed out": "no server answers in time",
}


class PostgresqlStore(Store):
    """A PostgreSQL database that holds a ledger.

    Args:
        address: postgresql://...
    """

    def __init__(self, address: str) -> None:
        wrong = ""
        try:
            with in_own_words():
                url = make_url(address).set(drivername="postgresql+psycopg")
                host = url.host or url.query.get("host") or "localhost"
                shown = f"postgresql://{host}/{urllib.parse.quote(url.database or '')}"
                engine = create_engine(
                    url,
                    poolclass=NullPool,
                    hide_parameters=True,
                    use_native_hstore=False,  # which would be looked up on the server
                    # Of a pool of servers each may be asked once.
                    connect_args={"prepare_threshold": None}
                    | ({} if "connect_timeout" in url.query else {"connect_timeout": WAIT}),
                )
        except (ArgumentError, ValueError):
            wrong = f"the address of the ledger cannot be read: {_FORM}"
        except ImportError:
            wrong = "install support for ledgers on PostgreSQL: pip install 'sfumato[ledger]'"
        if not wrong and not url.database:
            wrong = f"the address of the ledger names no database: {_FORM}"
        if wrong:
            raise EngineError(wrong)
        super().__init__(shown, engine)

    def begin_read(self, connection: Connection) -> None:
        """Begin a PostgreSQL transaction that reads one snapshot."""
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_change(self, connection: Connection) -> None:
        """Begin a PostgreSQL transaction whose commit waits for the server's disk."""
        # Who waited for the ledger's row sees what was changed meanwhile.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT}s'")
        connection.exec_driver_sql(
            "SELECT set_config('synchronous_commit', 'on', true) "
            "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )

    def now(self, connection: Connection) -> datetime:
        """Return the time by the PostgreSQL server's clock."""
        # A number, as no setting of the server's writes it otherwise.
        asked = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        since = timedelta(microseconds=connection.exec_driver_sql(asked).scalar_one())
        return datetime(1970, 1, 1, tzinfo=UTC) + since

    def again(self, error: DBAPIError) -> bool:
        """Whether PostgreSQL reported a failed serialization or a deadlock."""
        return getattr(error.orig, "sqlstate", None) in ("40001", "40P01")

    def why(self, error: Exception, ending: bool) -> str:
        """Return what is wrong with the PostgreSQL server and what to do."""
        original = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(original, "sqlstate", None) or ""
        for part, reason in _STATES.items():
            if state.startswith(part):
                return reason
        if ending:
            return (
                "the connection broke while a change was committed, so it may or may not have been "
                "entered: see sfumato budget history. Nothing was released"
            )
        text = str(original)
        for part, reason in _TEXTS.items():
            if not state and part in text:
                return f"{reason}; {UNCHANGED}"
        known = state or type(original).__name__
        return f"the server cannot be used ({known}): check with psql; {UNCHANGED}"

    def check_empty(self, connection: Connection) -> None:
        """Take the PostgreSQL lock that lets one process at a time create the ledger's tables."""
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('sfumato_ledger'))")
