"""Files that sfumato writes: never over their sources, and visible only when complete."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from glob import escape, glob, has_magic
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import EngineError, ParameterError, RefusalError
from sfumato.ownership import process

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

_written: set[BinaryIO] = set()


def _let_go() -> None:
    """In a forked child, redirect the parent's unfinished output files to nowhere."""
    for file in _written:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, file.fileno())
        os.close(nowhere)
    _written.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def replacing(path: Path, check: Callable[[], object] = lambda: None) -> Iterator[BinaryIO]:
    """Provide a new file that replaces a path when the block succeeds, and is removed when it fails.

    It is a new file beside the path, under a name that nobody can have foreseen; where there is a link of
    the path's name it replaces the link. Its mode is what the process gives to new files. A child that is
    forked within the block, by a handler of a signal perhaps, neither adds to the file nor takes it away.

    Args:
        path: whose place it takes.
        check: refuses, by what it raises, once more before that: what has the name may be another file now.
    Raises:
        RefusalError: the block ends in such a child.
    """
    part, began_in = path.with_name(f"{path.name[:40]}.{os.urandom(8).hex()}.part"), process()
    with os.fdopen(os.open(part, _NEW, 0o666), "w+b") as file:
        _written.add(file)
        try:
            _check_same(path, began_in)
            yield file
            file.flush()
            _check_same(path, began_in)
            check()
            part.replace(path)
        finally:
            _written.discard(file)
            if process() == began_in:
                part.unlink(missing_ok=True)


def _check_same(path: Path, began_in: tuple[int, int]) -> None:
    """Refuse to write the file in a forked child."""
    if process() != began_in:
        raise RefusalError(f"{path} can be written only by the process that opened it")


def check_output_path(path: object, name: str, endings: Sequence[str]) -> Path:
    """Return the absolute path of an output file, if it can be written.

    Args:
        path: to be written.
        name: the parameter that the path came by.
        endings: of names, one for each format that there is.
    Raises:
        ParameterError: it is no path, ends otherwise, or is in no folder; or there is a folder, a pipe or a
            device of the name.
        OSError: no file can have the name.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(name, path, "a path")
    place = Path(path)
    if place.suffix.lower() not in endings:
        named = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        raise ParameterError(name, str(place), f"a name that ends in {named}")
    if not place.parent.is_dir():
        raise ParameterError(name, str(place), "in a folder that exists")
    if place.is_dir():
        raise ParameterError(name, str(place), "the name of a file, not of a folder")
    if _taken(place, name):
        raise ParameterError(name, str(place), "the name of a regular file, as this one would be replaced")
    return place.absolute()


def _taken(place: Path, name: str) -> bool:
    """Whether a file's path is taken by something other than a plain file or link."""
    try:
        found = place.lstat().st_mode
    except FileNotFoundError:
        return False
    except ValueError:  # of a NUL, or half a surrogate pair
        found = None
    if found is None:
        raise ParameterError(name, str(place), "a name that a file can have")
    return not stat.S_ISREG(found) and not stat.S_ISLNK(found)


def resolve_output_path(path: str | Path) -> str:
    """Return the resolved path of an output file, the same however its folder is reached."""
    # The folder alone: what is beyond a link of the path's own name is not written.
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def resolve_source_path(path: str) -> str:
    """Return the absolute path or glob pattern of source files."""
    here = os.getcwd()
    return os.path.join(escape(here) if has_magic(path) else here, path)


def identity(file: BinaryIO) -> tuple[int, ...]:
    """Return a file's identity: it changes when the file is replaced or modified."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def check_no_source(path: Path, sources: Iterable[str], name: str = "output path") -> None:
    """Refuse an output path that would replace a source file, under any name.

    Args:
        path: to be written.
        sources: paths and patterns of files, as `resolve_source_path` gives them.
        name: the parameter that the path came by.
    Raises:
        ParameterError: it is one of the files, a link to one, or fits a pattern.
    """
    for source in sources:
        # What DuckDB has beside a database belongs to it.
        files = [source, f"{source}.wal", *_matching(source)]
        if any(_same(path, file) for file in files) or _fits(path, source):
            raise ParameterError(
                name,
                str(path),
                f"a file other than the source of the rows ({source}), which it would replace",
            )


def _same(path: Path, file: str) -> bool:
    """Whether two paths are the same file."""
    try:
        return path.samefile(file)
    except OSError:  # one of them is not there yet
        return resolve_output_path(path) == resolve_output_path(file)


def _fits(path: Path, pattern: str) -> bool:
    """Whether a source file pattern would read an output path too."""
    folder, name = os.path.split(pattern)
    if not has_magic(pattern) or not fnmatch(path.name, name):
        return False
    return any(_same(path.parent, found) for found in (folder, *_matching(folder)))


def _matching(pattern: str) -> list[str]:
    return glob(pattern, recursive=True, include_hidden=True) if has_magic(pattern) else []


def check_private(status: os.stat_result, place: str) -> None:
    """Refuse a file that others can read or change: mode beyond 0640, or another user's.

    Args:
        status: of the file, as it was opened.
        place: what messages call it.
    Raises:
        EngineError: it is such a file.
    """
    if os.name != "posix":
        return
    if status.st_uid not in (0, os.geteuid()):
        raise EngineError(
            f"{place}: it belongs to a user other than the one of this process, who may read and "
            "change it. Run chown, to this user or to root"
        )
    if status.st_mode & 0o037:
        raise EngineError(
            f"{place}: others may read or change it, with permissions "
            f"{stat.S_IMODE(status.st_mode):o}. Run chmod 600 or 640"
        )
