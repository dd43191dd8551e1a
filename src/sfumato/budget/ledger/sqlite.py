"""A ledger in a file, which SQLite keeps whole."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from sfumato.budget.ledger.store import UNTOLD, WAIT, Store
from sfumato.budget.ledger.tables import LEDGER
from sfumato.budget.ledger.written import damage
from sfumato.errors import EngineError, ParameterError, shown

# Looks at each page when it is read, not when something on it is missed.
_CHECKED = "PRAGMA cell_size_check = ON"
_MOST_TOLD = "see sfumato budget history before you ask again"
# By the beginnings of SQLite's own names of errors.
_REASONS = {
    "SQLITE_FULL": f"the disk is full; {UNTOLD}",
    "SQLITE_IOERR": f"the disk cannot be read or written, or is full; {UNTOLD}",
    "SQLITE_READONLY": f"the file, or its folder, cannot be written; {UNTOLD}",
    "SQLITE_CANTOPEN": "the file cannot be opened; see whether it is there, and this user may read it",
    "SQLITE_PERM": "this user may not open the file",
    "SQLITE_NOTADB": "the file is no ledger, nor any database of SQLite; name another file, or restore the "
    "last whole copy",
    "SQLITE_CORRUPT": damage("SQLite cannot read its pages"),
    "SQLITE_BUSY": f"another process has kept the file for {WAIT} seconds; {UNTOLD}",
    "SQLITE_LOCKED": f"another process keeps the file; {UNTOLD}",
    "SQLITE_SCHEMA": damage("its tables are not those of a ledger"),
    "SQLITE_MISMATCH": damage("its tables are not those of a ledger"),
    "SQLITE_CONSTRAINT": damage("its tables refuse what a ledger writes"),
}


class _Connection(sqlite3.Connection):
    """A connection that gives its locks back when it is closed, also while somebody keeps a cursor of it.

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
    """A file.

    Args:
        place: of the file; its folder must be there.
    Raises:
        EngineError: it cannot be a file.
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        path = _checked(place)

        def connect() -> sqlite3.Connection:
            # A missing file is an error: a name that is mistyped gives no budget that nobody has spent.
            address = f"file:{quote(os.fsencode(path))}?mode=rw"
            return sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None, factory=_Connection)

        # Of one folder, wherever the process goes later.
        self._path = path
        super().__init__(
            shown(str(place)),
            create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True),
        )

    def exists(self) -> bool:
        """Whether there is a file with anything in it: a kill while it is made leaves an empty one."""
        try:
            return self._path.stat().st_size > 0
        except FileNotFoundError:
            return False
        except OSError as error:
            why = error.strerror
        raise EngineError(f"{self.shown}: the file cannot be opened: {why}")

    def prepare(self) -> None:
        """Make the file, which its owner alone may read, where there is none."""
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
        """Begin a transaction that sees one moment."""
        connection.exec_driver_sql(_CHECKED)
        connection.exec_driver_sql("BEGIN")
        self._check_whole(connection)

    def begin_change(self, connection: Connection) -> None:
        """Take the right to write at once, and wait for the disk, and its folder, at the end."""
        # FULL would leave open whether the end of a transaction outlives a loss of power.
        connection.exec_driver_sql("PRAGMA synchronous = EXTRA")
        connection.exec_driver_sql("PRAGMA fullfsync = ON")
        connection.exec_driver_sql(_CHECKED)
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        self._check_whole(connection)

    def _check_whole(self, connection: Connection) -> None:
        """Refuse a file whose end is missing, which SQLite would find when it comes to what stood there."""
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
            raise EngineError(f"{self.shown}: the file has a second name, by a hard link; remove one of them")

    def now(self, connection: Connection) -> datetime:
        """Return the time by the clock of this machine, which has the file."""
        return _clock()

    def again(self, error: DBAPIError) -> bool:
        """Nothing: SQLite waits by itself."""
        return False

    def why(self, error: Exception, ending: bool) -> str:
        """Say what is wrong and what to do."""
        original = error.orig if isinstance(error, DBAPIError) else error
        name = getattr(original, "sqlite_errorname", None) or ""
        for part, reason in _REASONS.items():
            if name.startswith(part):
                return reason
        if name == "SQLITE_ERROR" or isinstance(original, SQLAlchemyError | sqlite3.InterfaceError):
            return damage("its tables are not those of a ledger")
        if not name and isinstance(original, sqlite3.OperationalError):  # of Python, not of SQLite
            return damage("it holds a text that cannot be decoded")
        told = f"SQLite cannot use it ({name or type(original).__name__})"
        return f"{told}; {_MOST_TOLD}" if ending else f"{told}; {UNTOLD}"

    def broken(self, connection: Connection) -> str:
        """Say what is wrong with pages and indexes, which a question would not find what they hide."""
        found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
        return "" if found == "ok" else "its pages or indexes contradict each other"

    def check_empty(self, connection: Connection) -> None:
        """Refuse to make a ledger among tables of others."""
        names = inspect(connection).get_table_names()
        if names and LEDGER.name not in names:
            raise EngineError(
                f"{self.shown}: the file is a database of SQLite, but no ledger; give a ledger a file of its "
                "own"
            )


def _clock() -> datetime:
    return datetime.now(UTC)


def _checked(place: str | os.PathLike[str]) -> Path:
    """Return the path of a file whose folder is there."""
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
            why = "it is a folder; name a file in it"
        elif not path.parent.is_dir():
            why = f"there is no folder {shown(str(path.parent))}; make it first"
    except OSError as error:
        why = error.strerror or "it cannot be a file"
    if why:
        raise EngineError(f"the ledger {shown(text)}: {why}")
    return path
