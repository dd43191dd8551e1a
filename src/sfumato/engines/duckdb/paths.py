"""What a path names: files of one kind, by their ending, here or at an address."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import escape, glob, has_magic
from pathlib import Path
from urllib.parse import urlsplit

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.addresses import called, fetched, is_address
from sfumato.engines.duckdb.databases import SQLITE_ENDINGS, sqlite_address
from sfumato.engines.duckdb.resources import Resources
from sfumato.errors import EngineError, shown
from sfumato.files import whole_source

PARQUET, CSV, JSON = (".parquet", ".pq"), (".csv", ".tsv"), (".json", ".jsonl", ".ndjson")
READERS = (*PARQUET, *CSV, *JSON)
DATABASES = (".duckdb", ".db", ".ddb")
_PACKED = (".gz", ".zst")


@dataclass(frozen=True)
class Files:
    """Files that are read as one table.

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
    """Return the paths that a source is given by, where it is a path or a list of them; else None.

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
    """Whether a text reads as the path of a file, there or not, rather than as the name of a table."""
    stem = text.lower()
    for packed in _PACKED:
        stem = stem.removesuffix(packed)
    return "/" in text or stem.endswith((*READERS, *DATABASES, *SQLITE_ENDINGS))


def ending(source: object) -> str:
    """Return what kind of file a source is of, as far as its path says, or what is in its folder; else ''."""
    paths = as_paths(source)
    if not paths:
        return ""
    if os.path.isdir(paths[0]):
        return next((_ending(file) for file in _inside(paths[0])), "")
    return _ending(paths[0])


def files_of(paths: Sequence[str], resources: Resources) -> Files:
    """Return the files that paths, patterns, folders and addresses name, fetched where they are elsewhere.

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
            f"scan: the files in the list are of several kinds, {' and '.join(kinds)}; give those of one"
        )
    return Files(
        f"{found[0].name} and {len(found) - 1} more",
        files,
        found[0].ending,
        tuple(source for one in found for source in one.sources),
        tuple(note for one in found for note in one.notes),
    )


def _check_files(files: Sequence[str], where: str) -> None:
    """Refuse what is none, whose rows would come twice, or whose name means others too."""
    seen: set[str] = set()
    for file in files:
        if not os.path.isfile(file):  # a pipe, at which reading would wait for ever, or a link to nothing
            raise EngineError(f"scan: {shown(file)} is not a file; take it out of the folder, or name others")
        # DuckDB takes each name for a pattern where it can be one, and has names in UTF-8 alone.
        if "*" in file or "?" in file or (not file.isascii() and _unspeakable(file)):
            raise EngineError(
                f"scan: the name of {shown(file)} has '*' or '?' in it, as patterns have, or is not UTF-8; "
                "rename it"
            )
        if os.path.realpath(file) in seen:
            raise EngineError(
                f"scan: {shown(file)} is {where} twice, and its rows would be too; name it once"
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
        name, suffix = called(path), _ending(urlsplit(path).path)
        _check_kind(name, suffix)
        return Files(name, fetched(path, suffix, resources), suffix)
    if os.path.isdir(path):
        return _of_folder(path)
    # A file may be called what a pattern looks like, such as "visits [1].csv".
    files = sorted(glob(path, recursive=True)) if has_magic(path) and not os.path.isfile(path) else [path]
    if not files or not all(os.path.isfile(file) for file in files):
        raise EngineError(f"scan: there is no file {shown(path)} (looked in {os.getcwd()!r})")
    suffix = _ending(path)
    _check_kind(path, suffix)
    return Files(path, tuple(files), suffix, (whole_source(path),))


def _check_kind(path: str, suffix: str) -> None:
    if suffix not in READERS:
        known = ", ".join([*READERS, *(f"{d}/table" for d in (*DATABASES, *SQLITE_ENDINGS))])
        raise EngineError(f"scan: {path!r} ends in {suffix!r}, which is none of {known}")


def _of_folder(path: str) -> Files:
    """Return the files in a folder, and in folders in it: all that have an ending of one kind."""
    inside = list(_inside(path))
    endings = sorted({_ending(file) for file in inside})
    if not endings:
        raise EngineError(
            f"scan: the folder {shown(path)} has no file that ends in one of {', '.join(READERS)}, nor have "
            "the folders in it"
        )
    if len(endings) > 1:
        told = os.path.join(path, f"**/*{endings[0]}")
        raise EngineError(
            f"scan: the folder {shown(path)} has files of several kinds, {', '.join(endings)}; name those "
            f"that are meant, such as {told!r}"
        )
    # A file that is written into the folder, at any depth, would be read by the next question.
    folders = dict.fromkeys([path, *map(os.path.dirname, inside)])
    patterns = tuple(whole_source(os.path.join(escape(folder), f"*{endings[0]}*")) for folder in folders)
    return Files(path, tuple(inside), endings[0], patterns)


def _inside(folder: str) -> Iterator[str]:
    """Yield files that can be read, but for hidden ones and marks of programs, as _SUCCESS."""
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
    """Return what kind of file a path says it is of, packed or not."""
    suffix = Path(path).suffix.lower()
    return Path(Path(path).stem).suffix.lower() if suffix in _PACKED else suffix


def _family(suffix: str) -> str:
    return next(kind[0] for kind in (PARQUET, (".csv",), (".tsv",), JSON) if suffix in kind)


def database(path: str) -> tuple[str, str, str]:
    """Return the file of DuckDB that a path names, its ending, and a table; '' for what it does not name."""
    for suffix in DATABASES:
        head, found, table = path.partition(f"{suffix}/")
        if found:
            return head + suffix, found, table
        if path.endswith(suffix):
            return path, "", ""
    return "", "", ""
