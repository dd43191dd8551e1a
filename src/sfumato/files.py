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

from sfumato.errors import ParameterError

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the path's place when the block ends well, and else is gone.

    It is a new file beside the path, under a name that nobody can have foreseen; where there is a link of
    the path's name it replaces the link. Its mode is what the process gives to new files.
    """
    part = path.with_name(f"{path.name[:40]}.{secrets.token_hex(8)}.part")
    with os.fdopen(os.open(part, _NEW, 0o666), "w+b") as file:
        try:
            yield file
            file.flush()
            part.replace(path)
        finally:
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
