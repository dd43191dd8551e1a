"""SQLite: rows of a table, of which each value may be of any type, as values of the declared ones."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from sfumato.engines.duckdb import declared
from sfumato.engines.duckdb.databases import Address, Stored, unreachable
from sfumato.engines.duckdb.text import identifier
from sfumato.errors import EngineError, in_own_words, shown
from sfumato.files import whole_source
from sfumato.query import sizes

ENDINGS = (".sqlite3", ".sqlite", ".db3")
SCHEME = "sqlite:///"
_MAGIC = b"SQLite format 3\0"
_INTEGER, _REAL = pa.int64(), pa.float64()
_TEXT, _BYTES = pa.large_string(), pa.large_binary()
# By what a declared type has in it, as SQLite itself reads them; dates are texts there, and truth is 0 or 1.
_DECLARED = (
    ("BOOL", "BOOLEAN"),
    ("INT", "BIGINT"),
    ("CHAR", "VARCHAR"),
    ("CLOB", "VARCHAR"),
    ("TEXT", "VARCHAR"),
    ("BLOB", "BLOB"),
    ("REAL", "DOUBLE"),
    ("FLOA", "DOUBLE"),
    ("DOUB", "DOUBLE"),
    ("DATETIME", "TIMESTAMP"),
    ("TIMESTAMP", "TIMESTAMP"),
    ("DATE", "DATE"),
    ("TIME", "TIME"),
    ("NUM", "DOUBLE"),
    ("DEC", "DOUBLE"),
)
_VALUES = {
    "BIGINT": (_INTEGER, "CASE typeof({0}) WHEN 'integer' THEN {0} END"),
    "BOOLEAN": (_INTEGER, "CASE WHEN typeof({0}) = 'integer' AND {0} COLLATE BINARY IN (0, 1) THEN {0} END"),
    "DOUBLE": (_REAL, "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END"),
    "BLOB": (_BYTES, "CASE typeof({0}) WHEN 'blob' THEN {0} END"),
}
_AS_TEXT = "CASE WHEN typeof({0}) IN ('text', 'integer', 'real') THEN CAST({0} AS TEXT) END"


def address(path: str) -> Address | None:
    """Return where a table is that a path names: sqlite:///FILE/TABLE, or FILE.sqlite/TABLE; else None.

    A file that ends in `.db` is one of SQLite where it begins like one.
    """
    plain = path.removeprefix(SCHEME)
    for ending in (*ENDINGS, ".db"):
        head, found, table = plain.partition(f"{ending}/")
        file = head + ending if found else plain
        if Path(file).is_dir() and plain == path:
            continue
        if not (found or plain.endswith(ending)) or (
            ending == ".db" and plain == path and not _is_sqlite(file)
        ):
            continue
        return _address(file, table if found else "")
    if plain == path:
        return None
    file, _, table = plain.rpartition("/")
    return _address(plain, "") if Path(plain).is_file() or not file else _address(file, table)


def _address(file: str, table: str) -> Address:
    whole = os.path.abspath(file)
    return Address(file, table, f"sqlite:{whole}", lambda: SqliteReader(file, whole), (whole_source(file),))


def _is_sqlite(file: str) -> bool:
    with suppress(OSError), open(file, "rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC
    return False


def typed(stored: list[Stored], types: object, name: str) -> list[Stored]:
    """Return columns with the types that somebody declares for them."""
    wanted = declared.checked_types(types)
    if wanted is None:
        return stored
    kinds = declared.columns_of([one.name for one in stored], wanted, name)
    named = declared.declared_names(wanted, [one.name for one in stored])
    return [_stored(one.name, kinds[one.name]) if one.name in named else one for one in stored]


def _stored(name: str, kind: str) -> Stored:
    arrow, value = _VALUES.get(kind, (_TEXT, _AS_TEXT))
    # A quoted name alone would be a text where no column has it, as when it was renamed meanwhile.
    return Stored(name, value.format(f"part.{identifier(name)}"), arrow, kind)


def _kind(text: str) -> str:
    return next((kind for part, kind in _DECLARED if part in text.upper()), "VARCHAR")


class SqliteReader:
    """One read transaction on a file of SQLite.

    Args:
        file: as it was given, for messages.
        whole: the whole path.
    """

    def __init__(self, file: str, whole: str) -> None:
        if not Path(whole).is_file():
            raise EngineError(f"scan: there is no file {shown(file)} (looked in {os.getcwd()!r})")
        import sqlite3

        opened = None
        with suppress(sqlite3.Error), in_own_words():
            # Rows are read where DuckDB asks for them, one thread after the other.
            opened = self._connection = sqlite3.connect(
                f"file:{quote(whole)}?mode=ro", uri=True, check_same_thread=False, isolation_level=None
            )
            self._connection.text_factory = bytes  # no text need be UTF-8
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
            return
        if opened is not None:
            opened.close()
        raise unreachable(file, "it is no file of SQLite, is encrypted or damaged, or must not be read")

    def tables(self) -> list[str]:
        """Return the names of tables and views."""
        found = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        ).fetchall()
        return [name.decode("utf-8", "replace") for (name,) in found]

    def columns(self, table: str) -> list[Stored]:
        """Return the columns of a table; those without a type are text."""
        found = self._connection.execute(f"PRAGMA table_xinfo({identifier(table)})").fetchall()
        return [
            _stored(row[1].decode("utf-8", "replace"), _kind((row[2] or b"").decode("utf-8", "replace")))
            for row in found
            if row[6] != 1  # of a virtual table, and no part of its rows
        ]

    def batches(self, table: str, columns: Sequence[Stored]) -> Generator[pa.RecordBatch]:
        """Yield a table's rows."""
        schema = pa.schema([(one.name, one.arrow) for one in columns])
        text = f"SELECT {', '.join(one.value for one in columns)} FROM {identifier(table)} AS part"
        with closing(self._connection.execute(text)) as cursor:
            while rows := cursor.fetchmany(sizes.SQLITE_ROWS):
                arrays = [
                    _array(one.arrow, values)
                    for one, values in zip(columns, zip(*rows, strict=True), strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def close(self) -> None:
        """End the transaction."""
        self._connection.close()


def _array(kind: pa.DataType, values: Sequence[object]) -> pa.Array:
    # Bytes of a text may be anything; what is no UTF-8 is found where columns are made harmless.
    return pa.array(values, _BYTES).view(_TEXT) if kind == _TEXT else pa.array(values, kind)
