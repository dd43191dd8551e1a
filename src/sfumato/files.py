"""Files that are written: never over what the rows come from, and under their name only when complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import ParameterError, RefusalError
from sfumato.ownership import process

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

_written: set[BinaryIO] = set()


def _let_go() -> None:
    """In a forked child: what it has yet to write of its parent's files, it writes nowhere."""
    for file in _written:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, file.fileno())
        os.close(nowhere)
    _written.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the path's place when the block ends well, and else is gone.

    It is a new file beside the path, under a name that nobody can have foreseen; where there is a link of
    the path's name it replaces the link. Its mode is what the process gives to new files. A child that is
    forked within the block, by a handler of a signal perhaps, neither adds to the file nor takes it away.

    Raises:
        RefusalError: the block ends in such a child.
    """
    part = path.with_name(f"{path.name[:40]}.{secrets.token_hex(8)}.part")
    with os.fdopen(os.open(part, _NEW, 0o666), "w+b") as file:
        began_in = process()
        _written.add(file)
        try:
            yield file
            file.flush()
            if process() != began_in:
                raise RefusalError(f"{path} is written by the process that began to")
            part.replace(path)
        finally:
            _written.discard(file)
            if process() == began_in:
                part.unlink(missing_ok=True)


def identity(file: BinaryIO) -> tuple[int, ...]:
    """Return what another file, or the same one after a change, has not."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def check_no_source(path: Path, sources: Iterable[str], name: str = "output path") -> None:
    """Refuse a path whose file, under whatever name, is read, or would be by the same source.

    Args:
        path: to be written.
        sources: paths and patterns of files, as DuckDB takes them.
        name: the parameter that the path came by.
    Raises:
        ParameterError: it is one of the files, a link to one, or fits a pattern.
    """
    for source in sources:
        # What DuckDB has beside a database belongs to it.
        files = glob(source, recursive=True) if has_magic(source) else [source, f"{source}.wal"]
        if any(_same(path, file) for file in files) or _fits(path, source):
            raise ParameterError(
                name,
                str(path),
                f"another file than those that the rows come from ({source}), which it would replace",
            )


def _same(path: Path, file: str) -> bool:
    try:
        return path.samefile(file)
    except OSError:  # one of them is not there yet
        return _whole(path) == _whole(file)


def _fits(path: Path, pattern: str) -> bool:
    """Whether a file of that name would be read by the pattern too."""
    if not has_magic(pattern):
        return False
    names, wanted = _whole(path).split(os.sep), _whole(pattern).split(os.sep)
    if "**" in wanted:
        return fnmatch(os.sep.join(names), os.sep.join(wanted).replace(f"**{os.sep}", "*"))
    return len(names) == len(wanted) and all(map(fnmatch, names, wanted))


def _whole(path: str | Path) -> str:
    # The folder alone: what is beyond a link of the path's own name is not written.
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)
