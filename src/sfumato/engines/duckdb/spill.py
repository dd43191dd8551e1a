"""Where DuckDB spills rows: a folder of this process, which nobody else enters and which goes with it.

DuckDB makes, fills and removes folders of its own, open to all, inside; ours is locked while its process
lives. A process that is killed leaves it behind, unlocked: the next one that starts, or ends, sweeps it.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import stat
import tempfile
import threading
import weakref
from dataclasses import dataclass
from multiprocessing.util import Finalize
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from sfumato.errors import EngineError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, which has neither these locks nor forks
    fcntl = None  # type: ignore[assignment]

# A folder has the first name until it is locked: what has the second and no lock is of a dead process.
NEW, LOCKED = "sfumato-new-", "sfumato-spill-"
Kept = TypeVar("Kept", duckdb.DuckDBPyConnection, pa.RecordBatchReader)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass
class _Folder:
    """This process's folder; its lock is held as long as it is open."""

    path: str
    opened: int | None


_mine: _Folder | None = None
_inside: str | None = None
_making = threading.RLock()  # a handler of a signal may ask in the middle
_numbers = itertools.count()
_kept: weakref.WeakSet[Any] = weakref.WeakSet()


def inside(folder: str | None) -> None:
    """Let this process, if it has no folder yet, make it in one that somebody else empties at the end.

    Args:
        folder: None for the folder of temporary files.
    """
    global _inside  # noqa: PLW0603 - one place for a process
    _inside = folder


def place() -> str:
    """Return where a new database may spill: a path inside this process's folder, where nothing is yet."""
    return os.path.join(ready(), str(next(_numbers)))


def ready() -> str:
    """Return this process's folder, made if it is not there, after a look at who may enter it.

    Raises:
        EngineError: something else stands in its place.
    """
    global _mine  # noqa: PLW0603 - one folder for a process
    if _mine is None:
        sweep()
    with _making:
        if _mine is None:
            _mine = _made(tempfile.mkdtemp(prefix=NEW, dir=_inside))
            # In a child of multiprocessing too, where nothing that is registered with atexit is called.
            Finalize(None, _remove, exitpriority=0)
        elif not os.path.lexists(_mine.path):
            # Something clears the folder of temporary files from time to time.
            _close(_mine)
            _mine.opened = None  # its number is another file's soon, should the next line raise
            _mine = _made(tempfile.mkdtemp(prefix=NEW, dir=_inside), _mine.path)
        found = os.lstat(_mine.path)
        if not stat.S_ISDIR(found.st_mode) or not _own(found):
            raise EngineError(
                f"the folder for rows that do not fit in memory, {_mine.path!r}, is not the one that was "
                "made for it; set TMPDIR to a folder that only you may write to"
            )
        if stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
            os.chmod(_mine.path, stat.S_IRWXU)
        return _mine.path


def keep(thing: Kept) -> Kept:
    """Let no forked child close a database, or what reads from one.

    It would empty the files that its parent has spilled to, or wait for threads that it has not.
    """
    _kept.add(thing)
    return thing


def sweep() -> None:
    """Remove what processes of this user that are dead left behind."""
    if fcntl is None:  # pragma: no cover
        return
    try:
        with os.scandir(_inside or tempfile.gettempdir()) as entries:
            left = [entry.path for entry in entries if entry.name.startswith(LOCKED)]
    except OSError:  # the folder of temporary files went before its process, or shows nobody what is in it
        return
    for path in left:
        try:
            opened = os.open(path, _FOLDER)
        except OSError:  # gone, a link, or somebody else's
            continue
        try:
            if _own(os.fstat(opened)):
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # One that was cleared away, and made again, has the name now, and a lock of its own.
                if os.path.samestat(os.fstat(opened), os.lstat(path)):
                    shutil.rmtree(path, ignore_errors=True)
        except OSError:  # locked: its process lives, in another container perhaps
            pass
        finally:
            os.close(opened)


def _made(new: str, path: str | None = None) -> _Folder:
    path = path or os.path.join(os.path.dirname(new), LOCKED + os.path.basename(new).removeprefix(NEW))
    os.chmod(new, stat.S_IRWXU)  # whatever the process takes from new files
    opened = None
    if fcntl is not None:
        opened = os.open(new, _FOLDER)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a file system without locks: the folder keeps a name that nobody sweeps
            os.close(opened)
            return _Folder(new, None)
    os.rename(new, path)
    return _Folder(path, opened)


def _remove() -> None:
    """At the end of the process that made it."""
    global _mine  # noqa: PLW0603
    if _mine is not None:
        shutil.rmtree(_mine.path, ignore_errors=True)
        _close(_mine)
        _mine = None
    sweep()


def _own(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def _close(folder: _Folder) -> None:
    if folder.opened is not None:
        os.close(folder.opened)


def _forget() -> None:
    """In a forked child: the folder, its lock, the databases and what reads from them are the parent's."""
    global _mine, _making
    # A lock ends when all have closed it.
    if _mine is not None:
        _close(_mine)
    _mine, _making = None, threading.RLock()
    for thing in list(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
