"""Files at an address, s3://, gs://, https:// and others, copied here whole before anything is read of them.

So what reads them is what reads files of this machine, where no row can stop it, and no connection that
breaks stops a release half-way. Copies are in the folder that rows are spilled to, which only this user may
enter and which goes with the process. A file that has not changed, so its server says, is fetched once.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import Any
from urllib.parse import urlsplit

from sfumato.engines.duckdb.resources import Resources, new_spill_folder
from sfumato.errors import EngineError, SfumatoError, in_own_words

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


def called(address: str) -> str:
    """Return what messages call an address: without user, password and options, in which keys may be.

    >>> called("https://ann:secret@example.org/visits.csv?signature=3f")
    'https://example.org/visits.csv'
    """
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def fetched(address: str, ending: str, resources: Resources) -> tuple[str, ...]:
    """Return copies of the files at an address.

    Args:
        address: of a file, or a pattern of several: `*` in a name, `**` for folders.
        ending: that all must have.
        resources: which tell where copies are kept.
    Raises:
        EngineError: there are none, or they cannot be fetched; the address has a password.
    """
    name = called(address)
    if ":" in urlsplit(address).netloc.rpartition("@")[0]:
        raise EngineError(
            f"scan: the address of {name} has a password in it; leave it out, give it in the environment, "
            "or the file of credentials, that its service reads"
        )
    with in_own_words(lambda error: _unreachable(name, error), Exception):
        scheme, _, rest = address.partition("://")
        files, path = _opened(f"{scheme.lower()}://{rest}")  # to fsspec HTTP:// is another one than http://
        found = _matching(files, path) if "*" in path and not path.startswith("http") else [path]
        if not found:
            raise EngineError(f"scan: there is no file {name!r}")
        return tuple(_copied(files, one, address, ending, resources) for one in found)


def _opened(address: str) -> tuple[Any, str]:
    """Return the files that a server has, as fsspec sees them, and the path there."""
    try:
        from fsspec.core import url_to_fs
        from fsspec.implementations.arrow import ArrowFSWrapper
    except ImportError:
        raise EngineError("scan: install what fetches files: pip install 'sfumato[remote]'") from None
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
    """Return the paths of files that fit a pattern."""
    if not hasattr(files, "fs"):
        return sorted(files.glob(pattern))
    # fsspec asks for one folder after the other, and Google's storage has none.
    from fsspec.utils import glob_translate
    from pyarrow.fs import FileSelector

    base, fits = pattern.partition("*")[0].rpartition("/")[0], re.compile(glob_translate(pattern))
    listed = files.fs.get_file_info(FileSelector(base, recursive=True, allow_not_found=True))
    return sorted(one.path for one in listed if one.is_file and fits.match(one.path))


def _copied(files: Any, path: str, address: str, ending: str, resources: Resources) -> str:
    """Return the copy of a file, which is fetched if none is there yet."""
    name, told = called(address), files.info(path)
    if told.get("type") == "directory":
        raise EngineError(
            f"scan: {name!r} is a folder; name the files in it, such as '{name.rstrip('/')}/*.parquet'"
        )
    version = told.get("ETag") or told.get("mtime") or told.get("LastModified")
    key = (os.getpid(), resources.temp_directory, address, path, told.get("size"), str(version))
    # No lock, which a fork would leave taken: of two threads that want one file, both may fetch it.
    if version is not None and os.path.isfile(_copies.get(key, "")):
        return _copies[key]
    folders = [part for part in os.path.dirname(path).split("/") if "=" in part]
    if not all(_VALUE.fullmatch(part) for part in folders):
        raise EngineError(f"scan: a folder at {name!r} has a name that is none on this machine; rename it")
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
        raise EngineError(f"scan: {name!r} changed, or broke off, while it was fetched; ask again")
    _copies[key] = copy
    return copy


def _packing(path: str) -> str:
    found = re.search(r"\.(gz|zst)$", urlsplit(path).path, re.IGNORECASE)
    return found[0].lower() if found else ""


def _unreachable(name: str, error: Exception) -> SfumatoError:
    """Return the error of files that cannot be fetched; the text of the other one may hold keys."""
    why: dict[type[Exception], str] = {
        FileNotFoundError: "there is no such file, or no server that answers",
        PermissionError: "its server refuses access; are the credentials right?",
        TimeoutError: "its server does not answer",
        ImportError: "what speaks to such servers is not installed; fsspec names the package for each",
        OSError: "its server cannot be reached, or refuses access",
        ValueError: "an option in its address is none that is known",
    }
    if any(getattr(one, "status", None) in (401, 403) for one in (error, error.__cause__)):
        error = PermissionError()
    said = next((text for kind, text in why.items() if isinstance(error, kind)), type(error).__name__)
    return EngineError(f"scan: {name!r} cannot be fetched: {said}")
