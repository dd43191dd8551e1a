"""What DuckDB may take of the machine: memory, threads, and folders to spill in."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import stat
import tempfile
import threading
import weakref
from contextlib import suppress
from fractions import Fraction
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.exact.parameters import positive_int

# Of the machine's memory, or the container's, where nobody says otherwise: DuckDB's own share.
SHARE = Fraction(4, 5)
# With less DuckDB stops at queries whose rows it could spill.
MIN_BYTES = 100 * 10**6
_UNITS = {"b": 1} | {
    prefix + ending: base**power
    for power, prefix in enumerate("kmgt", 1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(%|[kmgt]?i?b)", re.IGNORECASE)
_AMOUNTS = "at least 100MB, such as '4GB' or '512MiB', or a share of the machine's memory, such as '50%'"
_CGROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Resources:
    """The memory, threads and spill folder that DuckDB may use for one source.

    Args:
        memory_bytes: DuckDB's, beyond which it spills; None for a share of what there is.
        threads: None for one for each core.
        temp_directory: an existing folder to spill in; None for the folder of temporary files.
    """

    memory_bytes: int | None = None
    threads: int | None = None
    temp_directory: str | None = None

    @property
    def settings(self) -> dict[str, str | int]:
        """DuckDB's settings of memory and threads."""
        memory = int(SHARE * machine_memory()) if self.memory_bytes is None else self.memory_bytes
        return {"memory_limit": f"{memory}B"} | ({} if self.threads is None else {"threads": self.threads})


DEFAULTS = Resources()


def check_resources(memory_limit: object, threads: object, temp_directory: object) -> Resources:
    """Return checked limits of memory, threads and spill folder; None leaves one to the machine.

    Raises:
        ParameterError: an amount is none, or too small; the folder is not there or not to be written to.

    >>> check_resources("4GB", 2, None)
    Resources(memory_bytes=4000000000, threads=2, temp_directory=None)
    """
    return Resources(
        None if memory_limit is None else _memory_bytes(memory_limit),
        None if threads is None else positive_int(threads, "threads"),
        None if temp_directory is None else _folder(temp_directory),
    )


def refuse_resources(memory_limit: object, threads: object, temp_directory: object, source: str) -> None:
    """Refuse limits of memory, threads and spill folder for rows that workers read.

    Raises:
        QueryError: one is given.
    """
    given = {"memory_limit": memory_limit, "threads": threads, "temp_directory": temp_directory}
    for name, value in given.items():
        if value is not None:
            raise QueryError(
                f"{name} is for rows that this process reads, but workers read those of {source}, "
                "with limits of their own. Leave it out"
            )


def _memory_bytes(value: object) -> int:
    found = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ParameterError("memory_limit", value, _AMOUNTS)
    number, unit = Fraction(found[1]), found[2].lower()
    amount = number * machine_memory() / 100 if unit == "%" else number * _UNITS.get(unit, 0)
    if amount < MIN_BYTES or (unit == "%" and number > 100):
        raise ParameterError("memory_limit", value, _AMOUNTS)
    return int(amount)


def _folder(value: object) -> str:
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        # NUL, of which no path has one, would be an error of the system's.
        if isinstance(path, str) and "\0" not in path and os.path.isdir(path):
            path = os.path.abspath(path)
            if os.access(path, os.R_OK | os.W_OK | os.X_OK):
                return path
    raise ParameterError("temp_directory", value, "an existing folder that you can write to")


@cache
def machine_memory() -> int:
    """Return the memory of this machine, or of its container where that is less, in bytes."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, OSError, ValueError):
        return 4 << 30
    for path in _limits():
        try:
            found.append(int(path.read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(found)


def _limits() -> list[Path]:
    """Return the control-group files that may hold a memory limit of this process."""
    found = [_CGROUPS / "memory.max", _CGROUPS / "memory" / "memory.limit_in_bytes"]
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except (OSError, UnicodeError):
        return found
    for line in lines:
        _, kinds, own = [*line.split(":", 2), "", ""][:3]
        root, file = _CGROUPS, "memory.max"
        if kinds:  # of the first version
            if "memory" not in kinds.split(","):
                continue
            root, file = _CGROUPS / "memory", "memory.limit_in_bytes"
        place = root / own.lstrip("/")
        found += [around / file for around in (place, *place.parents) if around.is_relative_to(root)]
    return found


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
    """This process's spill folder; its lock is held as long as it is open."""

    path: str
    opened: int | None


_mine: dict[str | None, _Folder] = {}  # by the place that was asked for
_inside: str | None = None
_making = threading.RLock()  # a handler of a signal may ask in the middle
_numbers = itertools.count()
_kept: weakref.WeakSet[Any] = weakref.WeakSet()


def set_spill_folder(folder: str | None) -> None:
    """Make this process's spill folder in a folder that somebody else empties.

    Args:
        folder: None for the folder of temporary files.
    """
    global _inside  # noqa: PLW0603 - one place for a process
    _inside = folder


def new_spill_folder(within: str | None = None) -> str:
    """Return a new path inside this process's spill folder."""
    return os.path.join(spill_folder(within), str(next(_numbers)))


def spill_folder(within: str | None = None) -> str:
    """Return this process's spill folder, made if it is not there, after a check of its owner.

    Args:
        within: the folder that it is in; None for that of temporary files, or the one of `set_spill_folder`.
    Raises:
        EngineError: something else stands in its place, or none can be made.
    """
    if within not in _mine:
        sweep_spill_folders(within)
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
        if not stat.S_ISDIR(found.st_mode) or not _is_process_local(found):
            raise EngineError(
                f"the folder for temporary files, {mine.path!r}, was replaced by another. Set "
                "TMPDIR, or temp_directory, to a folder that only you can write to"
            )
        if stat.S_IMODE(found.st_mode) != stat.S_IRWXU:
            os.chmod(mine.path, stat.S_IRWXU)
        return mine.path


def _new(within: str | None) -> str:
    """Return a new spill folder that only this user may enter."""
    with suppress(OSError):
        return tempfile.mkdtemp(prefix=NEW, dir=within or _inside)
    where = within or _inside or "TMPDIR, /tmp, or the current folder"
    raise EngineError(
        f"no folder for temporary files can be made in {where}. Set TMPDIR, or temp_directory, to a "
        "folder that you can write to and that has space"
    )


def keep_open(thing: Kept) -> Kept:
    """Keep a database or reader open in forked children, which must not close it.

    It would empty the files that its parent has spilled to, or wait for threads that it has not.
    """
    _kept.add(thing)
    return thing


def sweep_spill_folders(within: str | None = None) -> None:
    """Remove the spill folders of this user's dead processes."""
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
            if _is_process_local(os.fstat(opened)):
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
    """Remove this process's spill folders at its end."""
    while _mine:
        within, mine = _mine.popitem()
        shutil.rmtree(mine.path, ignore_errors=True)
        _close(mine)
        sweep_spill_folders(within)


def _is_process_local(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def _close(folder: _Folder) -> None:
    if folder.opened is not None:
        os.close(folder.opened)


def _forget() -> None:
    """Drop the parent's spill folders, locks and databases in a forked child."""
    global _making  # noqa: PLW0603 - one lock for a process
    # A lock ends when all have closed it.
    while _mine:
        _close(_mine.popitem()[1])
    _making = threading.RLock()
    for thing in list(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
