"""Where DuckDB spills rows: a folder of this process, which nobody else enters and which goes with it.

It is made in the folder of temporary files, or where somebody says; then each such place has one.

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
from contextlib import suppress
from multiprocessing.util import Finalize
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
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


_mine: dict[str | None, _Folder] = {}  # by the place that was asked for
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


def place(within: str | None = None) -> str:
    """Return where a new database may spill: a path inside this process's folder, where nothing is yet."""
    return os.path.join(ready(within), str(next(_numbers)))


def ready(within: str | None = None) -> str:
    """Return this process's folder, made if it is not there, after a look at who may enter it.

    Args:
        within: the folder that it is in; None for the folder of temporary files, or the one of `inside`.
    Raises:
        EngineError: something else stands in its place, or none can be made.
    """
    if within not in _mine:
        sweep(within)
    with _making:
        mine = _mine.get(within)
        if mine is None:
            if not _mine:
                # In a child of multiprocessing too, where nothing that is registered with atexit is called.
                Finalize(None, _remove, exitpriority=0)
            mine = _mine[within] = _made(_new(within))
        elif not os.path.lexists(mine.path):
            # Something clears the folder of temporary files from time to time.
            _close(mine)
            mine.opened = None  # its number is another file's soon, should the next line raise
            mine = _mine[within] = _made(_new(within), mine.path)
        found = os.lstat(mine.path)
        if not stat.S_ISDIR(found.st_mode) or not _own(found):
            raise EngineError(
                f"the folder for rows that do not fit in memory, {mine.path!r}, is not the one that was "
                "made for it; set TMPDIR, or temp_directory, to a folder that only you may write to"
            )
        if stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
            os.chmod(mine.path, stat.S_IRWXU)
        return mine.path


def _new(within: str | None) -> str:
    """Return a new folder that only this user may enter."""
    with suppress(OSError):
        return tempfile.mkdtemp(prefix=NEW, dir=within or _inside)
    where = within or _inside or "TMPDIR, /tmp, or the current folder"
    raise EngineError(
        f"no folder for rows that do not fit in memory can be made in {where}; set TMPDIR, or "
        "temp_directory, to a folder that you may write to and that has space"
    )


def keep(thing: Kept) -> Kept:
    """Let no forked child close a database, or what reads from one.

    It would empty the files that its parent has spilled to, or wait for threads that it has not.
    """
    _kept.add(thing)
    return thing


def sweep(within: str | None = None) -> None:
    """Remove what processes of this user that are dead left behind in a folder, as for `ready`."""
    if fcntl is None:  # pragma: no cover
        return
    try:
        with os.scandir(within or _inside or tempfile.gettempdir()) as entries:
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
    """At the end of the process that made them."""
    while _mine:
        within, mine = _mine.popitem()
        shutil.rmtree(mine.path, ignore_errors=True)
        _close(mine)
        sweep(within)


def _own(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def _close(folder: _Folder) -> None:
    if folder.opened is not None:
        os.close(folder.opened)


def _forget() -> None:
    """In a forked child: folders, their locks, databases and what reads from them are the parent's."""
    global _making  # noqa: PLW0603 - one lock for a process
    # A lock ends when all have closed it.
    while _mine:
        _close(_mine.popitem()[1])
    _making = threading.RLock()
    for thing in list(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
