"""Files behind what was computed upstream, as far as it tells: what is written must not replace them.

A relation, a view and a lazy frame say in words where their rows come from. Texts that may be paths are taken
from these words; who reads a file by another way, through a variable of Python for one, is not seen.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from glob import glob, has_magic
from typing import Any

import duckdb

from sfumato.errors import in_own_words
from sfumato.files import whole_source

_VIEWS = "SELECT sql FROM duckdb_views() WHERE NOT internal"
_DATABASES = "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL"
_QUOTED = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)\"""")
_SCANNED = re.compile(r"SCAN \[([^\]\n]*)")


def relation(rows: duckdb.DuckDBPyRelation) -> tuple[str, ...]:
    """Return files that a relation names, and views and databases on its connection."""
    texts = []
    with suppress(Exception):
        texts.append(rows.sql_query())
    name = f"sfumato_{secrets.token_hex(8)}"  # of a view that a query of the relation's connection leaves
    for asked in (_VIEWS, _DATABASES):
        with suppress(Exception), in_own_words():
            texts += [_as_text(asked, text) for (text,) in rows.query(name, asked).fetchall()]
    with suppress(Exception), in_own_words():
        rows.query(name, f"DROP VIEW {name}")
    return _files(texts)


def views(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return files that views name."""
    with suppress(Exception), in_own_words():
        return _files(text for (text,) in connection.execute(_VIEWS).fetchall())
    return ()


def lazy(frame: Any) -> tuple[str, ...]:
    """Return files that a lazy Polars frame names; where it reads several, that is the first."""
    with suppress(Exception):
        found = _SCANNED.findall(frame.explain(optimized=False))
        return _there(path for text in found for path in text.split(", "))
    return ()


def _as_text(asked: str, text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if asked == _DATABASES else text


def _files(texts: Iterable[str]) -> tuple[str, ...]:
    quoted = (pair for text in texts for pair in _QUOTED.findall(text))
    return _there(one.replace("''", "'") or other.replace('""', '"') for one, other in quoted)


def _there(paths: Iterable[str]) -> tuple[str, ...]:
    # A pattern has a folder or an ending: '*' may be what a text is compared with.
    found = dict.fromkeys(path for path in paths if os.path.isfile(path) or _is_pattern(path))
    return tuple(map(whole_source, found))


def _is_pattern(path: str) -> bool:
    return has_magic(path) and bool(re.search(r"/|\.\w+$", path)) and bool(glob(path, recursive=True))
