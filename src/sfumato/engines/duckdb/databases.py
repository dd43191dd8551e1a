"""Tables of SQLite and PostgreSQL: rows come as Arrow, and go to a temporary table of the session that reads.

Whatever a row holds, each value comes as one of its column's declared type, or as NULL: the queries here
see to it in the database itself, so that no row stops the reading of others.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

import duckdb
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb import column_types
from sfumato.engines.duckdb.column_types import base_type, cast
from sfumato.engines.duckdb.connection import session_factory
from sfumato.engines.duckdb.ordering import order_by
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.sanitized_columns import describe_relation, within_types
from sfumato.engines.duckdb.source import Source, no_rows, one_snapshot, register_rows
from sfumato.errors import EngineError, SfumatoError, in_own_words, nearest, shown
from sfumato.files import resolve_source_path
from sfumato.query import sizes
from sfumato.sql_text import identifier, literal

_numbers = itertools.count()


@dataclass(frozen=True)
class Stored:
    """A column of a table in an SQLite or PostgreSQL database.

    Args:
        name: of the column.
        value: SQL of the database that has its values; NULL for what does not fit.
        arrow: the type in which they come.
        kind: DuckDB's type to which they are cast, perhaps with a format; what does not fit is NULL.
    """

    name: str
    value: str
    arrow: pa.DataType
    kind: str


class Reader(Protocol):
    """A connection to a database, in one read transaction from its first query to its end."""

    def tables(self) -> list[str]:
        """Return the names of a database's tables and views."""
        ...

    def columns(self, table: str) -> list[Stored]:
        """Return the columns of a database table."""
        ...

    def batches(self, table: str, columns: Sequence[Stored]) -> Generator[pa.RecordBatch]:
        """Yield rows of a database table; at most one table is read at a time."""
        ...

    def close(self) -> None:
        """End the database's read transaction."""
        ...


@dataclass(frozen=True)
class Address:
    """The address of a table in a database.

    Args:
        database: what is told of the database; no password.
        table: the name of the table there.
        key: what two addresses of one database have in common; not for messages, as a password may be in it.
        connect: opens a connection.
        files: the files that are read.
    """

    database: str
    table: str
    key: str = field(repr=False)
    connect: Callable[[], Reader] = field(repr=False, compare=False)
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of a database table in messages."""
        return f"{self.database}/{self.table}"


@contextmanager
def _connect(address: Address) -> Iterator[Reader]:
    with one_snapshot() as readers:
        if address.key not in readers:
            readers[address.key] = address.connect()
        yield readers[address.key]


def open_table(
    address: Address, resources: Resources, columns_of: Callable[[list[Stored]], list[Stored]]
) -> Source:
    """Open a database table as a source; no row is read.

    Args:
        address: where it is.
        resources: what reading it may take.
        columns_of: gives the columns as they are to be read, of those that the database declares.
    Raises:
        EngineError: there is no such table.
    """
    with _connect(address) as reader:
        names = _list_tables(address, reader.tables)
        if address.table not in names:
            near = nearest(address.table, names) if address.table else None
            hint = f"did you mean {near!r}? " if near else ""
            listed = ", ".join(sorted(names)) or "(there are none)"
            raise EngineError(
                f"scan: {address.database} has no table {address.table!r}; {hint}write "
                f"'{address.database}/NAME' with one of: {listed}"
            )
        stored = columns_of(_list_tables(address, lambda: reader.columns(address.table)))
    table, session = f"database_{next(_numbers)}", session_factory(resources=resources)
    casts = f"(SELECT {', '.join(_cast(one) for one in stored)} FROM arriving)"
    kinds = [(one.name, base_type(one.kind)) for one in stored]
    with session() as here:
        here.register("arriving", no_rows(_schema(stored)))
        columns = describe_relation(here, within_types(casts, kinds))
        here.unregister("arriving")

    def load(session: duckdb.DuckDBPyConnection, read: Sequence[str]) -> None:
        chosen = [one for one in stored if one.name in read] or stored[:1]
        # Columns that nobody reads are there, without values.
        text = ", ".join(
            identifier(name)
            if any(one.name == name for one in chosen)
            else f"NULL::{kind} AS {identifier(name)}"
            for name, kind in columns
        )
        inside = within_types(
            f"(SELECT {', '.join(_cast(one) for one in chosen)} FROM arriving)",
            [(one.name, base_type(one.kind)) for one in chosen],
        )
        with (
            _connect(address) as reader,
            closing(reader.batches(address.table, chosen)) as batches,
            register_rows(session, _schema(chosen), batches),
        ):
            session.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {text} FROM {inside}")

    return Source(address.name, table, columns, session, pending=load, files=address.files, anywhere=True)


def _schema(stored: Sequence[Stored]) -> pa.Schema:
    return pa.schema([(one.name, one.arrow) for one in stored])


def _cast(one: Stored) -> str:
    name = identifier(one.name)
    typed = cast(name, one.kind) if base_type(one.kind) != one.kind else f"TRY_CAST({name} AS {one.kind})"
    return f"{typed} AS {name}"


def _list_tables(address: Address, ask: Callable[[], list]) -> list:  # type: ignore[type-arg]
    """Query a database's list of tables; its own error texts are dropped."""
    with suppress(Exception), in_own_words():
        return ask()
    raise EngineError(
        f"scan: {address.database} does not list its tables. Check that this user can read them"
    )


def unreachable(database: str, why: str) -> SfumatoError:
    """Return the error of a database that cannot be connected to, without its address."""
    return EngineError(f"scan: cannot connect to {database}: {why}")


SQLITE_ENDINGS = (".sqlite3", ".sqlite", ".db3")
SQLITE_SCHEME = "sqlite:///"
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


def sqlite_address(path: str) -> Address | None:
    """Return the SQLite table that a path names: sqlite:///FILE/TABLE or FILE.sqlite/TABLE; else None.

    A file that ends in `.db` is one of SQLite where it begins like one.
    """
    plain = path.removeprefix(SQLITE_SCHEME)
    for ending in (*SQLITE_ENDINGS, ".db"):
        head, found, table = plain.partition(f"{ending}/")
        file = head + ending if found else plain
        if Path(file).is_dir() and plain == path:
            continue
        if not (found or plain.endswith(ending)) or (
            ending == ".db" and plain == path and not _is_sqlite(file)
        ):
            continue
        return _sqlite_address(file, table if found else "")
    if plain == path:
        return None
    file, _, table = plain.rpartition("/")
    return _sqlite_address(plain, "") if Path(plain).is_file() or not file else _sqlite_address(file, table)


def _sqlite_address(file: str, table: str) -> Address:
    whole = os.path.abspath(file)
    return Address(
        file, table, f"sqlite:{whole}", lambda: SqliteReader(file, whole), (resolve_source_path(file),)
    )


def _is_sqlite(file: str) -> bool:
    with suppress(OSError), open(file, "rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC
    return False


def sqlite_typed(stored: list[Stored], types: object, name: str) -> list[Stored]:
    """Return columns of an SQLite table with declared types."""
    wanted = column_types.check_types(types)
    if wanted is None:
        return stored
    kinds = column_types.declared_types([one.name for one in stored], wanted, name)
    named = column_types.match_declared_names(wanted, [one.name for one in stored])
    return [_sqlite_column(one.name, kinds[one.name]) if one.name in named else one for one in stored]


def _sqlite_column(name: str, kind: str) -> Stored:
    arrow, value = _VALUES.get(kind, (_TEXT, _AS_TEXT))
    # A quoted name alone would be a text where no column has it, as when it was renamed meanwhile.
    return Stored(name, value.format(f"part.{identifier(name)}"), arrow, kind)


def _kind(text: str) -> str:
    return next((kind for part, kind in _DECLARED if part in text.upper()), "VARCHAR")


class SqliteReader:
    """One read transaction on an SQLite file.

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
        raise unreachable(file, "it is not a SQLite file, is encrypted or damaged, or cannot be read")

    def tables(self) -> list[str]:
        """Return the names of tables and views in an SQLite file."""
        found = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        ).fetchall()
        return [name.decode("utf-8", "replace") for (name,) in found]

    def columns(self, table: str) -> list[Stored]:
        """Return the columns of an SQLite table; those without a type are text."""
        found = self._connection.execute(f"PRAGMA table_xinfo({identifier(table)})").fetchall()
        return [
            _sqlite_column(
                row[1].decode("utf-8", "replace"), _kind((row[2] or b"").decode("utf-8", "replace"))
            )
            for row in found
            if row[6] != 1  # of a virtual table, and no part of its rows
        ]

    def batches(self, table: str, columns: Sequence[Stored]) -> Generator[pa.RecordBatch]:
        """Yield the rows of an SQLite table."""
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
        """End the read transaction of an SQLite file."""
        self._connection.close()


def _array(kind: pa.DataType, values: Sequence[object]) -> pa.Array:
    # Bytes of a text may be anything; what is no UTF-8 is found where columns are sanitized.
    return pa.array(values, _BYTES).view(_TEXT) if kind == _TEXT else pa.array(values, kind)


POSTGRES_SCHEMES = ("postgresql://", "postgres://")
# Encodings of which each text that is stored can be sent: no row stops the reading.
_ENCODINGS = ("UTF8", "LATIN1", "SQL_ASCII")
_DAYS = "{0} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
_TIMES = "{0} BETWEEN '0001-01-01 00:00:00'::{1} AND '9999-12-31 23:59:59.999999'::{1}"
_WITHIN = "CASE WHEN {} THEN {{0}} END"
_KINDS: dict[str, tuple[str, pa.DataType, str]] = {
    "smallint": ("{0}::int8", pa.int64(), "BIGINT"),
    "integer": ("{0}::int8", pa.int64(), "BIGINT"),
    "bigint": ("{0}::int8", pa.int64(), "BIGINT"),
    "real": ("{0}::float8", pa.float64(), "DOUBLE"),
    "double precision": ("{0}::float8", pa.float64(), "DOUBLE"),
    "boolean": ("{0}", pa.bool_(), "BOOLEAN"),
    "date": (_WITHIN.format(_DAYS), pa.date32(), "DATE"),
    "timestamp without time zone": (
        _WITHIN.format(_TIMES.replace("{1}", "timestamp")),
        pa.timestamp("us"),
        "TIMESTAMP",
    ),
    "timestamp with time zone": (
        _WITHIN.format(
            _TIMES.replace(" 00:00:00'", " 00:00:00+00'")
            .replace("999999'", "999999+00'")
            .replace("{1}", "timestamptz")
        ),
        pa.timestamp("us", "UTC"),
        "TIMESTAMP WITH TIME ZONE",
    ),
    "time without time zone": ("{0}::text", pa.string(), "TIME"),
    "bytea": ("{0}", pa.binary(), "BLOB"),
}
# What tables and views are called here, their schemas and names.
_TABLES = (
    "SELECT CASE table_schema WHEN 'public' THEN '' ELSE table_schema || '.' END || table_name AS called, "
    "table_schema::text AS schema, table_name::text AS name FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)
# Of what the driver says, what has nothing of the address in it.
_REASONS = (
    ("authentication failed", "the user or the password is refused"),
    ("no password supplied", "it needs a password, in the address, PGPASSWORD or ~/.pgpass"),
    ("does not exist", "it has no such database or user"),
    ("translate host name", "there is no such host"),
    ("refused", "no server answers there"),
    ("No such file", "no server answers there"),
    ("timeout", "no server answers in time"),
    (
        "percent-encoded",
        "its address is malformed: in a password, write % as %25, / as %2F, : as %3A and @ as %40",
    ),
    ("use percent-encoded", "its address is malformed: write a space as %20"),
)


def postgres_address(url: str) -> Address | None:
    """Return the PostgreSQL table that a URL names: postgresql://user@host/database/table; else None.

    Raises:
        EngineError: the address cannot be read.
    """
    if not url.startswith(POSTGRES_SCHEMES):
        return None
    head, mark, options = url.partition("?")
    scheme, _, rest = head.partition("://")
    place, _, path = rest.partition("/")
    database, _, table = path.partition("/")
    host = place.rpartition("@")[2]
    if not database or "/" in table or "@" in path:  # which would be the rest of a password with a slash
        raise EngineError(
            "scan: write postgresql://USER@HOST/DATABASE/TABLE, with options such as ?sslmode=... "
            "last. In a password or a name, write / as %2F, @ as %40 and ? as %3F"
        )
    shown = f"postgresql://{host}/{unquote(database)}"
    target = f"{scheme}://{place}/{database}{mark}{options}"
    return Address(shown, unquote(table), target, lambda: PostgresReader(shown, target))


class PostgresReader:
    """One read transaction on a PostgreSQL database.

    Args:
        shown: what messages call the database.
        target: its address, with what opens it.
    """

    def __init__(self, shown: str, target: str) -> None:
        why = ""
        try:
            with in_own_words():
                from adbc_driver_postgresql import dbapi
        except ImportError:
            why = "install PostgreSQL support: pip install 'sfumato[postgresql]'"
        if why:
            raise EngineError(f"scan: {why}")
        self._shown = shown
        try:
            with in_own_words():
                self._connection: Any = dbapi.connect(target)
        except Exception as error:
            why = next((told for part, told in _REASONS if part in str(error)), "check with psql")
        if why:
            raise unreachable(shown, why)
        found: list[Any] = []
        with suppress(Exception), in_own_words():
            # Before any query: it holds for the transaction, which begins by itself.
            self._run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = self._rows(
                "SELECT current_setting('transaction_isolation'), current_setting('server_encoding')"
            )
            # Of bytes without an encoding the server would stop at those that are no UTF-8.
            ascii_alone = found[0][1] == "SQL_ASCII"
            self._run(f"SET client_encoding TO '{'SQL_ASCII' if ascii_alone else 'UTF8'}'")
        if not found or found[0][0] != "repeatable read":
            self.close()
            raise unreachable(shown, "it does not start a read transaction")
        if found[0][1] not in _ENCODINGS:
            self.close()
            raise unreachable(
                shown,
                f"its encoding is {found[0][1]}, some of whose texts cannot be sent. Supported "
                f"encodings are {', '.join(_ENCODINGS)}",
            )

    def tables(self) -> list[str]:
        """Return the names of PostgreSQL tables and views, with their schema where it is not `public`."""
        return [called for called, _, _ in self._rows(_TABLES)]

    def columns(self, table: str) -> list[Stored]:
        """Return the columns of a PostgreSQL table; types that DuckDB lacks are text.

        NOT NULL is not believed: of foreign tables, which others may inherit from, nobody enforces it.
        """
        schema, name = self._place(table)
        found = self._rows(
            "SELECT column_name::text, data_type::text, numeric_precision::int8, numeric_scale::int8 "
            "FROM information_schema.columns "
            f"WHERE table_schema = {literal(schema)} AND table_name = {literal(name)} "
            + order_by(["ordinal_position"])
        )
        return [_postgres_column(*row) for row in found]

    def batches(self, table: str, columns: Sequence[Stored]) -> Generator[pa.RecordBatch]:
        """Yield the rows of a PostgreSQL table."""
        schema, name = self._place(table)
        values = ", ".join(f"{one.value} AS {identifier(one.name)}" for one in columns)
        wanted = pa.schema([(one.name, one.arrow) for one in columns])
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(f"SELECT {values} FROM {identifier(schema)}.{identifier(name)}")
            with closing(cursor.fetch_record_batch()) as reader:
                for batch in reader:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=wanted)

    def close(self) -> None:
        """End the read transaction of a PostgreSQL database."""
        self._connection.close()

    def _run(self, text: str) -> None:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(text)

    def _rows(self, text: str) -> list[Any]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def _place(self, table: str) -> tuple[str, str]:
        """Return schema and name of a PostgreSQL table; a dot may be in either."""
        order = order_by(["schema", "name"], ["schema = 'public'"])
        text = f"SELECT * FROM ({_TABLES}) AS known WHERE called = {literal(table)} {order}"
        return next(((schema, name) for _, schema, name in self._rows(text)), ("public", table))


def _postgres_column(name: str, kind: str, digits: int | None, places: int | None) -> Stored:
    column = identifier(name)
    if kind in _KINDS:
        value, arrow, of = _KINDS[kind]
        return Stored(name, value.replace("{0}", column), arrow, of)
    of = "VARCHAR"
    if kind == "numeric":  # which holds NaN, infinity and any number of digits
        fits = digits is not None and places is not None and 0 < digits <= 38 and 0 <= places <= digits
        of = f"DECIMAL({digits},{places})" if fits else "DOUBLE"
    return Stored(name, f"{column}::text", pa.string(), of)
