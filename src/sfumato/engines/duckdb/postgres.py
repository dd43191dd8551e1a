"""PostgreSQL: rows of a table by ADBC, which streams them; all tables of a question in one transaction."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from sfumato.engines.duckdb.databases import Address, Stored, unreachable
from sfumato.engines.duckdb.ordering import order_by
from sfumato.engines.duckdb.text import identifier, literal
from sfumato.errors import EngineError, in_own_words

SCHEMES = ("postgresql://", "postgres://")
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
    ("no password supplied", "it asks for a password, which is in the address, PGPASSWORD or ~/.pgpass"),
    ("does not exist", "it has no such database or user"),
    ("translate host name", "there is no such host"),
    ("refused", "no server answers there"),
    ("No such file", "no server answers there"),
    ("timeout", "no server answers in time"),
    (
        "percent-encoded",
        "its address is not well written: %, /, : and @ in a password are %25, %2F, %3A and %40",
    ),
    ("use percent-encoded", "its address is not well written: a space is %20"),
)


def address(url: str) -> Address | None:
    """Return where a table is that a URL names: postgresql://user@host/database/table; else None.

    Raises:
        EngineError: the address cannot be read.
    """
    if not url.startswith(SCHEMES):
        return None
    head, mark, options = url.partition("?")
    scheme, _, rest = head.partition("://")
    place, _, path = rest.partition("/")
    database, _, table = path.partition("/")
    host = place.rpartition("@")[2]
    if not database or "/" in table or "@" in path:  # which would be the rest of a password with a slash
        raise EngineError(
            "scan: write postgresql://USER@HOST/DATABASE/TABLE, and options such as ?sslmode=... last; /, @ "
            "and ? in a password or a name are %2F, %40 and %3F"
        )
    shown = f"postgresql://{host}/{unquote(database)}"
    target = f"{scheme}://{place}/{database}{mark}{options}"
    return Address(shown, unquote(table), target, lambda: PostgresReader(shown, target))


class PostgresReader:
    """One read transaction, in which all rows are those of one moment.

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
            why = "install what reads PostgreSQL: pip install 'sfumato[postgresql]'"
        if why:
            raise EngineError(f"scan: {why}")
        self._shown = shown
        try:
            with in_own_words():
                self._connection: Any = dbapi.connect(target)
        except Exception as error:
            why = next((told for part, told in _REASONS if part in str(error)), "see whether psql can")
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
            raise unreachable(shown, "it begins no transaction that reads")
        if found[0][1] not in _ENCODINGS:
            self.close()
            raise unreachable(
                shown,
                f"its encoding is {found[0][1]}, of which some texts may not be sent; those that are read "
                f"are {', '.join(_ENCODINGS)}",
            )

    def tables(self) -> list[str]:
        """Return the names of tables and views; those of other schemas than `public` with their schema."""
        return [called for called, _, _ in self._rows(_TABLES)]

    def columns(self, table: str) -> list[Stored]:
        """Return the columns of a table; what has no type of DuckDB is text.

        NOT NULL is not believed: of foreign tables, which others may inherit from, nobody enforces it.
        """
        schema, name = self._place(table)
        found = self._rows(
            "SELECT column_name::text, data_type::text, numeric_precision::int8, numeric_scale::int8 "
            "FROM information_schema.columns "
            f"WHERE table_schema = {literal(schema)} AND table_name = {literal(name)} "
            + order_by(["ordinal_position"])
        )
        return [_stored(*row) for row in found]

    def batches(self, table: str, columns: Sequence[Stored]) -> Generator[pa.RecordBatch]:
        """Yield a table's rows."""
        schema, name = self._place(table)
        values = ", ".join(f"{one.value} AS {identifier(one.name)}" for one in columns)
        wanted = pa.schema([(one.name, one.arrow) for one in columns])
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(f"SELECT {values} FROM {identifier(schema)}.{identifier(name)}")
            with closing(cursor.fetch_record_batch()) as reader:
                for batch in reader:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=wanted)

    def close(self) -> None:
        """End the transaction."""
        self._connection.close()

    def _run(self, text: str) -> None:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(text)

    def _rows(self, text: str) -> list[Any]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def _place(self, table: str) -> tuple[str, str]:
        """Return the schema and the name of a table; a dot may be in either."""
        order = order_by(["schema", "name"], ["schema = 'public'"])
        text = f"SELECT * FROM ({_TABLES}) AS known WHERE called = {literal(table)} {order}"
        return next(((schema, name) for _, schema, name in self._rows(text)), ("public", table))


def _stored(name: str, kind: str, digits: int | None, places: int | None) -> Stored:
    column = identifier(name)
    if kind in _KINDS:
        value, arrow, of = _KINDS[kind]
        return Stored(name, value.replace("{0}", column), arrow, of)
    of = "VARCHAR"
    if kind == "numeric":  # which holds NaN, infinity and any number of digits
        fits = digits is not None and places is not None and 0 < digits <= 38 and 0 <= places <= digits
        of = f"DECIMAL({digits},{places})" if fits else "DOUBLE"
    return Stored(name, f"{column}::text", pa.string(), of)
