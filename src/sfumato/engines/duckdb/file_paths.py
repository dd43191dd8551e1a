"""Paths of files of one kind, on this machine or at an address (s3://, gs://, https:// and others).

Files at an address are copied here whole before anything is read of them. So what reads them is what reads
files of this machine, where no row can stop it, and no connection that breaks stops a release half-way.
Copies are in the folder that rows are spilled to, which only this user may enter and which goes with the
process. A file that has not changed, so its server says, is fetched once.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import escape, glob, has_magic
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.databases import SQLITE_ENDINGS, sqlite_address
from sfumato.engines.duckdb.resources import Resources, new_spill_folder
from sfumato.errors import EngineError, SfumatoError, in_own_words, shown
from sfumato.files import resolve_source_path

# Arrow speaks to these itself; fsspec to the others, where what it needs for them is installed.
_ARROWS = ("s3", "gs", "gcs")
SCHEMES = (*_ARROWS, "http", "https", "abfs", "abfss", "az", "ftp", "hdfs", "memory", "sftp")
_ADDRESS = re.compile(r"([a-z0-9+.-]+)://", re.IGNORECASE)
# A folder that is named after the value of a column, as in year=2024, has that name here too.
_VALUE = re.compile(r"[\w.=%+,@~ -]{1,200}")
_SILENCE = 60  # seconds without a byte, after which a server is taken to be gone

_copies: dict[tuple[object, ...], str] = {}


def is_address(path: str) -> bool:
    """Whether a path is an address from which files are fetched.

    >>> is_address("s3://bucket/visits.parquet"), is_address("visits.parquet"), is_address("postgresql://host/db/table")
    (True, False, False)
    """
    found = _ADDRESS.match(path)
    return found is not None and found[1].lower() in SCHEMES


def redact_address(address: str) -> str:
    """Return a file address without user, password and options, as messages show it.

    >>> redact_address("https://ann:secret@example.org/visits.csv?signature=3f")
    'https://example.org/visits.csv'
    """
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetch_files(address: str, ending: str, resources: Resources) -> tuple[str, ...]:
    """Return local copies of the files at an address, s3://, https:// and others.

    Args:
        address: of a file, or a pattern of several: `*` in a name, `**` for folders.
        ending: that all must have.
        resources: which tell where copies are kept.
    Raises:
        EngineError: there are none, or they cannot be fetched; the address has a password.
    """
    name = redact_address(address)
    if ":" in urlsplit(address).netloc.rpartition("@")[0]:
        raise EngineError(
            f"scan: the address of {name} has a password in it. Leave it out, and give it in the "
            "environment or in the credentials file of its service"
        )
    with in_own_words(lambda error: _unreachable(name, error), Exception):
        scheme, _, rest = address.partition("://")
        files, path = _open_file_system(
            f"{scheme.lower()}://{rest}"
        )  # to fsspec HTTP:// is another one than http://
        found = _matching(files, path) if "*" in path and not path.startswith("http") else [path]
        if not found:
            raise EngineError(f"scan: there is no file {name!r}")
        return tuple(_copy_remote(files, one, address, ending, resources) for one in found)


def _open_file_system(address: str) -> tuple[Any, str]:
    """Return the fsspec file system of an address, and the path there."""
    try:
        from fsspec.core import url_to_fs
        from fsspec.implementations.arrow import ArrowFSWrapper
    except ImportError:
        raise EngineError("scan: install support for remote files: pip install 'sfumato[remote]'") from None
    scheme = urlsplit(address).scheme.lower()
    if scheme in _ARROWS:
        from pyarrow.fs import FileSystem

        found, path = FileSystem.from_uri(re.sub(r"^gcs", "gs", address, flags=re.IGNORECASE))
        return ArrowFSWrapper(found), path
    options: dict[str, Any] = {}
    if scheme in ("http", "https"):
        from aiohttp import ClientTimeout

        # No limit of the whole, which would depend on how much there is.
        waits = ClientTimeout(total=None, sock_connect=_SILENCE, sock_read=_SILENCE)
        options = {"client_kwargs": {"timeout": waits}}
    files, path = url_to_fs(address, **options)
    return files, path


def _matching(files: Any, pattern: str) -> list[str]:
    """Return the remote paths that fit a pattern in an address."""
    if not hasattr(files, "fs"):
        return sorted(files.glob(pattern))
    # fsspec asks for one folder after the other, and Google's storage has none.
    from fsspec.utils import glob_translate
    from pyarrow.fs import FileSelector

    base, fits = pattern.partition("*")[0].rpartition("/")[0], re.compile(glob_translate(pattern))
    listed = files.fs.get_file_info(FileSelector(base, recursive=True, allow_not_found=True))
    return sorted(one.path for one in listed if one.is_file and fits.match(one.path))


def _copy_remote(files: Any, path: str, address: str, ending: str, resources: Resources) -> str:
    """Return the local copy of a remote file, which is fetched if none is there yet."""
    name, told = redact_address(address), files.info(path)
    if told.get("type") == "directory":
        raise EngineError(
            f"scan: {name!r} is a folder. Name the files in it, such as '{name.rstrip('/')}/*.parquet'"
        )
    version = told.get("ETag") or told.get("mtime") or told.get("LastModified")
    key = (os.getpid(), resources.temp_directory, address, path, told.get("size"), str(version))
    # No lock, which a fork would leave taken: of two threads that want one file, both may fetch it.
    if version is not None and os.path.isfile(_copies.get(key, "")):
        return _copies[key]
    folders = [part for part in os.path.dirname(path).split("/") if "=" in part]
    if not all(_VALUE.fullmatch(part) for part in folders):
        raise EngineError(
            f"scan: a folder at {name!r} has a name that is not valid on this machine. Rename it"
        )
    home = new_spill_folder(resources.temp_directory)
    place = os.path.join(home, *folders)
    os.makedirs(place, mode=0o700)
    copy, size, whole = os.path.join(place, f"rows{ending}{_packing(path)}"), told.get("size"), False
    try:
        files.get_file(path, copy)
        whole = size is None or os.path.getsize(copy) == size
    finally:
        if not whole:  # what broke off takes no room
            shutil.rmtree(home, ignore_errors=True)
    if not whole:
        raise EngineError(
            f"scan: {name!r} changed, or the connection broke, while it was downloaded. Try again"
        )
    _copies[key] = copy
    return copy


def _packing(path: str) -> str:
    found = re.search(r"\.(gz|zst)$", urlsplit(path).path, re.IGNORECASE)
    return found[0].lower() if found else ""


def _unreachable(name: str, error: Exception) -> SfumatoError:
    """Return the error of a remote file that cannot be fetched; the library's text may hold keys."""
    why: dict[type[Exception], str] = {
        FileNotFoundError: "there is no such file, or no server that answers",
        PermissionError: "its server refuses access. Check the credentials",
        TimeoutError: "its server does not answer",
        ImportError: "the package for such servers is not installed. fsspec names the package for each",
        OSError: "its server cannot be reached, or refuses access",
        ValueError: "an option in its address is unknown",
    }
    if any(getattr(one, "status", None) in (401, 403) for one in (error, error.__cause__)):
        error = PermissionError()
    said = next((text for kind, text in why.items() if isinstance(error, kind)), type(error).__name__)
    return EngineError(f"scan: {name!r} cannot be downloaded: {said}")


PARQUET, CSV, JSON = (".parquet", ".pq"), (".csv", ".tsv"), (".json", ".jsonl", ".ndjson")
READERS = (*PARQUET, *CSV, *JSON)
DATABASES = (".duckdb", ".db", ".ddb")
_PACKED = (".gz", ".zst")


@dataclass(frozen=True)
class Files:
    """Files of one kind that are read as one table.

    Args:
        name: what messages call them.
        paths: of each, on this machine.
        ending: which all have, packed or not.
        sources: paths and patterns that must not be written to.
        notes: sentences for the explanation of a release.
    """

    name: str
    paths: tuple[str, ...]
    ending: str
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def as_paths(source: object) -> tuple[str, ...] | None:
    """Return the file paths that a source is given by: one path or a list; else None.

    What a list has may be rows, given by mistake, which no message may quote: each must end as a path does.
    """
    given = list(source) if isinstance(source, (list, tuple)) else [source]
    texts = [str(os.fspath(one)) for one in given if isinstance(one, (str, os.PathLike))]
    if not texts or len(texts) < len(given) or (given != [source] and not all(map(_ends_as_path, texts))):
        return None
    return tuple(map(os.path.expanduser, texts))


def _ends_as_path(text: str) -> bool:
    named = _ending(text) in READERS or "://" in text or bool(database(text)[0] or sqlite_address(text))
    return named or os.path.isdir(os.path.expanduser(text))


def is_path(text: str) -> bool:
    """Whether a text reads as a file path, rather than as the name of a table."""
    stem = text.lower()
    for packed in _PACKED:
        stem = stem.removesuffix(packed)
    return "/" in text or stem.endswith((*READERS, *DATABASES, *SQLITE_ENDINGS))


def ending(source: object) -> str:
    """Return the file ending that tells a source's kind, also of a folder; else ''."""
    paths = as_paths(source)
    if not paths:
        return ""
    if os.path.isdir(paths[0]):
        return next((_ending(file) for file in _iter_folder(paths[0])), "")
    return _ending(paths[0])


def find_files(paths: Sequence[str], resources: Resources) -> Files:
    """Return the files that paths, patterns, folders and addresses name; remote ones are fetched.

    Args:
        paths: as `as_paths` gives them.
        resources: which tell where fetched files are kept.
    Raises:
        EngineError: one is not there, or twice; they are of no kind that is known, or of several kinds.
    """
    found = [_files(path, resources) for path in paths]
    files = tuple(file for one in found for file in one.paths)
    _check_files(files, "in the list" if len(found) > 1 else "there")
    # The same ones at a release, wherever the process goes to meanwhile.
    files = tuple(map(os.path.abspath, files))
    if len(found) == 1:
        return replace(found[0], paths=files)
    kinds = sorted({_family(one.ending) for one in found})
    if len(kinds) > 1:
        raise EngineError(
            f"scan: the files in the list are of several kinds, {' and '.join(kinds)}. Pass files of one kind"
        )
    return Files(
        f"{found[0].name} and {len(found) - 1} more",
        files,
        found[0].ending,
        tuple(source for one in found for source in one.sources),
        tuple(note for one in found for note in one.notes),
    )


def _check_files(files: Sequence[str], where: str) -> None:
    """Refuse a path that is no file, is there twice, or that DuckDB takes for a pattern."""
    seen: set[str] = set()
    for file in files:
        if not os.path.isfile(file):  # a pipe, at which reading would wait for ever, or a link to nothing
            raise EngineError(
                f"scan: {shown(file)} is not a file. Take it out of the folder, or name the files"
            )
        # DuckDB takes each name for a pattern where it can be one, and has names in UTF-8 alone.
        if "*" in file or "?" in file or (not file.isascii() and _unspeakable(file)):
            raise EngineError(
                f"scan: the name of {shown(file)} has '*' or '?' in it, or is not UTF-8. Rename it"
            )
        if os.path.realpath(file) in seen:
            raise EngineError(
                f"scan: {shown(file)} is {where} twice, so its rows would be read twice. Name it once"
            )
        seen.add(os.path.realpath(file))


def _unspeakable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False


def _files(path: str, resources: Resources) -> Files:
    if is_address(path):
        name, suffix = redact_address(path), _ending(urlsplit(path).path)
        _check_kind(name, suffix)
        return Files(name, fetch_files(path, suffix, resources), suffix)
    if os.path.isdir(path):
        return _find_folder_files(path)
    # A file may be called what a pattern looks like, such as "visits [1].csv".
    files = sorted(glob(path, recursive=True)) if has_magic(path) and not os.path.isfile(path) else [path]
    if not files or not all(os.path.isfile(file) for file in files):
        raise EngineError(f"scan: there is no file {shown(path)} (looked in {os.getcwd()!r})")
    suffix = _ending(path)
    _check_kind(path, suffix)
    return Files(path, tuple(files), suffix, (resolve_source_path(path),))


def _check_kind(path: str, suffix: str) -> None:
    if suffix not in READERS:
        known = ", ".join([*READERS, *(f"{d}/table" for d in (*DATABASES, *SQLITE_ENDINGS))])
        raise EngineError(f"scan: {path!r} ends in {suffix!r}, but must end in one of {known}")


def _find_folder_files(path: str) -> Files:
    """Return the files of one kind in a folder and in folders in it."""
    inside = list(_iter_folder(path))
    endings = sorted({_ending(file) for file in inside})
    if not endings:
        raise EngineError(
            f"scan: neither the folder {shown(path)} nor the folders in it have a file that ends in "
            f"one of {', '.join(READERS)}"
        )
    if len(endings) > 1:
        told = os.path.join(path, f"**/*{endings[0]}")
        raise EngineError(
            f"scan: the folder {shown(path)} has files of several kinds, {', '.join(endings)}. "
            f"Name the files to read, such as {told!r}"
        )
    # A file that is written into the folder, at any depth, would be read by the next question.
    folders = dict.fromkeys([path, *map(os.path.dirname, inside)])
    patterns = tuple(
        resolve_source_path(os.path.join(escape(folder), f"*{endings[0]}*")) for folder in folders
    )
    return Files(path, tuple(inside), endings[0], patterns)


def _iter_folder(folder: str) -> Iterator[str]:
    """Yield readable files in a folder, without hidden files and marks such as _SUCCESS."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        if os.path.realpath(place) in seen:  # by a link to a folder around it, which would go on for ever
            folders.clear()
            continue
        seen.add(os.path.realpath(place))
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(names):
            if not name.startswith((".", "_")) and _ending(name) in READERS:
                yield os.path.join(place, name)


def _ending(path: str) -> str:
    """Return the file ending of a path without that of compression."""
    suffix = Path(path).suffix.lower()
    return Path(Path(path).stem).suffix.lower() if suffix in _PACKED else suffix


def _family(suffix: str) -> str:
    return next(kind[0] for kind in (PARQUET, (".csv",), (".tsv",), JSON) if suffix in kind)


def database(path: str) -> tuple[str, str, str]:
    """Return the DuckDB file that a path names, its ending, and a table; '' for what it does not name."""
    for suffix in DATABASES:
        head, found, table = path.partition(f"{suffix}/")
        if found:
            return head + suffix, found, table
        if path.endswith(suffix):
            return path, "", ""
    return "", "", ""
