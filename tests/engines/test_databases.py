"""Tables of SQLite and PostgreSQL: whatever a row holds it is its own affair, and all are of one moment."""

import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.duckdb import databases
from sfumato.engines.sql import check_no_secret
from sfumato.errors import EngineError, SfumatoError, SqlError

SECRET = "hunter2%"
DDL = (
    "CREATE TABLE t (id INTEGER, name VARCHAR(20), price DOUBLE PRECISION, day DATE, at DATETIME, ok BOOLEAN, "
    "raw BLOB, amount DECIMAL(9, 2), anything)"
)
GOOD = (1, "a", 0.5, "2024-01-31", "2024-01-31 01:02:03", 1, b"\0\xff", 1.25, "x")

KINDS = ["BIGINT", "VARCHAR", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", "BLOB", "DOUBLE", "VARCHAR"]

odd = (
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=True) | st.text(max_size=4) | st.binary(max_size=4)
    | st.sampled_from(["2024-01-31", "infinity", "99999-01-01", "2024-02-30", "1e400", "NaN", "true", b"2024-01-31"])
)  # fmt: skip
rows = st.lists(st.tuples(*[odd] * len(GOOD)), min_size=1, max_size=8)


def stored(path: Any, values: Any, ddl: str = DDL) -> str:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(ddl)
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(GOOD))})", values)
        # Text that is no UTF-8, which Python would not write.
        connection.execute(
            "UPDATE t SET name = CAST(raw AS TEXT) WHERE typeof(raw) = 'blob' AND typeof(name) = 'blob'"
        )
    return f"{path}/t"


def rows_of(asked: Any) -> Counter:
    made = asked._engine.rows_after(asked._part)
    with made.source.session() as session:
        made.source.load(session, [name for name, _ in made.source.columns])
        return Counter(map(str, session.execute(made.after(made.source.relation)).fetchall()))


def test_columns_have_their_declared_types(tmp_path):
    asked = sf.scan(stored(tmp_path / "t.sqlite", [GOOD]), privacy_unit="id")
    assert [column.type_name for column in asked.schema.values()] == KINDS
    (row,) = rows_of(asked)
    assert row == (
        "(1, 'a', 0.5, datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 1, 2, 3), True, "
        "b'\\x00\\xff', 1.25, 'x')"
    )
    assert asked._engine.files == (str(tmp_path / "t.sqlite"),)


@pytest.mark.long
@given(rows, rows)
@settings(max_examples=40, deadline=None)
def test_no_value_changes_another_row_or_stops_it(first, second):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for i, values in enumerate((first, second, [*first, *second])):
            found.append(rows_of(sf.scan(stored(f"{folder}/{i}.sqlite", values), privacy_unit="id")))
    assert found[0] + found[1] == found[2]


@pytest.mark.flakiness(k=100, because="noise of 0.01 or less rounds to 0 in counts")
def test_a_release_reads_what_it_needs(tmp_path):
    path = stored(tmp_path / "t.sqlite", [GOOD, (2, *GOOD[1:]), ("no number", *GOOD[1:])])
    asked = (
        sf.scan(path, privacy_unit="id").bound(rows=1).agg(n=sf.count(), s=sf.sum("amount", lower=0, upper=9))
    )
    (row,) = asked.release(epsilon=1_000_000).to_arrow().to_pylist()
    assert (row["n"], round(row["s"], 1)) == (2, 2.5)
    release = sf.sql(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000, privacy_unit_column = id) COUNT(*) AS n "
        f"FROM '{path}' WHERE ok"
    )
    assert release.to_arrow().to_pylist() == [{"n": 2}]
    units = sf.scan(path, privacy_unit=["id", "date_trunc('month', day)"]).bound(rows=1).agg(n=sf.count())
    assert units.release(epsilon=1_000_000).to_arrow().to_pylist() == [{"n": 2}]


def test_names_of_files_and_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored("shop.db", [GOOD])
    with closing(sqlite3.connect("shop.sqlite")) as connection, connection:
        connection.executescript(
            'CREATE TABLE t (id INTEGER, "odd \'"" name" TEXT); INSERT INTO t VALUES (1, \'x\')'
        )
    with duckdb.connect("duck.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
    for path in ("shop.db/t", f"sqlite:///{tmp_path}/shop.db/t", "duck.db/t", "shop.sqlite/t"):
        assert sum(rows_of(sf.scan(path, privacy_unit="id")).values()) == 1
    Path("old.sqlite").mkdir()
    Path("old.sqlite/t.csv").write_text("id,x\n1,2\n")
    assert list(sf.scan("old.sqlite/t.csv", privacy_unit="id").schema) == ["id", "x"]


def test_a_column_that_is_renamed_meanwhile_is_no_text(tmp_path):
    asked = sf.scan(stored(tmp_path / "t.sqlite", [GOOD]), privacy_unit="name")
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection, connection:
        connection.execute("ALTER TABLE t RENAME COLUMN name TO called")
    with pytest.raises(EngineError, match="the rows"):  # SQLite would give 'name' for each
        asked.agg(n=sf.count_units()).release(epsilon=1).to_arrow()


def moved(monkeypatch: Any, reader: Any, change: Any) -> None:
    """Let somebody change the tables after the first of them is read."""
    real, seen = reader.batches, []

    def batches(self: Any, table: str, columns: Any) -> Any:
        yield from real(self, table, columns)
        if not seen:
            seen.append(table)
            change()

    monkeypatch.setattr(reader, "batches", batches)


def test_all_tables_of_a_question_are_of_one_moment(tmp_path, monkeypatch):
    path = str(tmp_path / "shop.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE a (id INTEGER); CREATE TABLE b (id INTEGER);"
            "INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1), (2)"
        )

    def change() -> None:
        with closing(sqlite3.connect(path)) as writer, writer:
            writer.executescript("DELETE FROM a; DELETE FROM b; INSERT INTO b VALUES (3)")

    a, b = (sf.scan(f"{path}/{name}", privacy_unit="id") for name in "ab")
    plan = a.join(b, on="id").bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
    moved(monkeypatch, databases.SqliteReader, change)
    (batch,) = a.join(b, on="id")._engine.statistics(plan.exact, 10)
    assert str(batch.column(0)[0]) == "2"


ADDRESSES = [
    f"postgresql://ann:{SECRET}@127.0.0.1:1/shop/orders",
    "postgres://ann:hunter2 %25@127.0.0.1:1/shop/orders",
    "mysql://ann:hunter2%25@127.0.0.1:1/shop/orders.parquet",
    " postgresql://ann:hunter2@127.0.0.1:1/shop/orders",
    "postgresql://ann:x/hunter2@127.0.0.1:1/shop",
    "postgresql://ann:hunter2/x@127.0.0.1:1/shop",
]


def check_secret(error: BaseException | None) -> None:
    """See that no error has the password, nor those that are behind it, which are ours too."""
    while error is not None:
        assert isinstance(error, SfumatoError) and "hunter" not in str(error) + repr(error)
        error = error.__context__


def test_texts_with_a_user_in_an_address_are_refused():
    address = "postgresql://ann:hunter 2@h/shop"
    for text in [f"'{address}'", f'"{address}"', address, f"-- it's\n'{address}'", "'postgresql://ann:o''x@h'",
                 '"postgresql://ann:o\'x@h"', "'postgresql://ann:a\nb@h'", "'https://h/a.csv?Token=x'"]:  # fmt: skip
        with pytest.raises(SqlError, match="with its user in it"):
            check_no_secret(f"SELECT 1 FROM {text} WHERE x = 1")
    for text in ["'https://h/a' WHERE x LIKE '%@h'", "'https://h/a' WHERE s <> '' AND m = 'a@b'", "x -- https://h",
                 "://" * 80_000]:  # of which each was once looked at to the end  # fmt: skip
        check_no_secret(f"SELECT '@' FROM {text}")


def test_no_error_has_the_password(tmp_path):
    pytest.importorskip("adbc_driver_postgresql")
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1{}) COUNT(*) AS n FROM {}"
    for path in ADDRESSES:
        catalog = sf.catalog({"tables": {"orders": {"source": path, "privacy_unit": "id"}}})
        (tmp_path / "catalog.toml").write_text(f'[tables.orders]\nsource = "{path}"\nprivacy_unit = "id"\n')
        quoted = text.format(", privacy_unit_column = id", f"'{path}'")
        asks = [
            lambda: sf.catalog(tmp_path / "catalog.toml").table("orders"),
            lambda path=path: sf.scan(path, privacy_unit="id"),
            lambda path=path: sf.public(path),
            lambda catalog=catalog: sf.sql(text.format("", "orders"), catalog=catalog),
            lambda quoted=quoted: sf.sql(quoted),
            lambda path=path: sf.sql(text.format("", f"'{path}'") + " WHERE ("),
        ]
        for ask in asks:
            with pytest.raises((EngineError, SqlError)) as caught:
                ask()
            check_secret(caught.value)
        assert "hunter2" not in repr(catalog) + str(catalog.check())
    for open_source in (lambda s: sf.scan(s, privacy_unit="id"), sf.public):
        with pytest.raises(EngineError, match="Write it as an address") as caught:
            open_source("host=127.0.0.1 user=ann Password = hunter2 dbname=shop")
        check_secret(caught.value)


@pytest.fixture
def server(postgresql_server: str) -> str:
    """A server of its own for tests: the folder of its socket."""
    pytest.importorskip("adbc_driver_postgresql", reason="needs the extra postgresql")
    return postgresql_server


def told(server: str, *statements: str, database: str = "postgres") -> None:
    """Run statements, of which the driver takes one at a time."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(f"postgresql://ann@/{database}?host={server}", autocommit=True) as connection:
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute(statement)


def at(server: str, table: str) -> str:
    return f"postgresql://ann:hunter2%25@/postgres/{table}?host={server}"


EVERYTHING = {
    "i8": ("bigint", ["1", "-9223372036854775808"], "BIGINT"),
    "f8": ("double precision", ["0.1", "'NaN'", "'infinity'"], "DOUBLE"),
    "b": ("boolean", ["true"], "BOOLEAN"),
    "d": ("date", ["'2024-01-31'", "'infinity'", "'4713-01-01 BC'", "'5874897-12-31'"], "DATE"),
    "ts": ("timestamp", ["'2024-01-31 01:02:03'", "'infinity'", "'4713-01-01 BC'", "'294276-12-31'"], "TIMESTAMP"),
    "tz": ("timestamptz", ["'2024-01-31 01:02:03+01'", "'-infinity'", "'294276-12-31'"], "TIMESTAMP WITH TIME ZONE"),
    "t": ("time", ["'01:02:03'", "'24:00'"], "TIME"),
    "n": ("numeric", ["1.25", "'NaN'", "'infinity'", "1e400", "1e-400", "10::numeric ^ 2000"], "DOUBLE"),
    "n9": ("numeric(9, 2)", ["1.25", "'NaN'"], "DECIMAL(9,2)"),
    "j": ("jsonb", ["'{\"a\": 1}'", "'null'"], "VARCHAR"),
    "y": ("bytea", ["'\\x00ff'", "''"], "BLOB"),
    "l": ("integer[]", ["'{1,2}'", "'{}'"], "VARCHAR"),
    "iv": ("interval", ["'1 month -30 days'"], "VARCHAR"),
}  # fmt: skip


@pytest.mark.long
def test_postgresql_has_every_type_and_no_value_stops_it(server):
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in EVERYTHING.items())
    insert = [
        f"INSERT INTO everything (id, {name}) VALUES ({i}, {value})"
        for name, (_, values, _) in EVERYTHING.items() for i, value in enumerate([*values, "NULL"])
    ]  # fmt: skip
    told(server, f"CREATE TABLE everything (id bigint NOT NULL, {columns})", *insert)
    asked = sf.scan(at(server, "everything"), privacy_unit="id")
    assert {n: c.type_name for n, c in asked.schema.items()} == {
        "id": "BIGINT", **{name: kind for name, (_, _, kind) in EVERYTHING.items()}}  # fmt: skip
    assert all(column.missing for column in asked.schema.values())
    found = rows_of(asked)
    assert sum(found.values()) == len(insert)
    assert any("Decimal('1.25')" in row for row in found)
    told(server, "CREATE TABLE one AS SELECT * FROM everything WHERE id = 0",
         "CREATE TABLE rest AS SELECT * FROM everything WHERE id > 0")  # fmt: skip
    halves = [rows_of(sf.scan(at(server, name), privacy_unit="id")) for name in ("one", "rest")]
    assert found == halves[0] + halves[1]


@pytest.mark.long
@pytest.mark.parametrize("encoding, expected", [("LATIN1", "'ä'"), ("SQL_ASCII", "None"), ("EUC_JP", "")])
def test_texts_of_every_encoding_are_read_or_none(server, encoding, expected):
    name = encoding.lower()
    told(server, f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    path = at(server, "t").replace("/postgres/", f"/{name}/")
    if not expected:
        with pytest.raises(EngineError, match="its encoding is EUC_JP, some of whose texts cannot be sent"):
            sf.scan(path, privacy_unit="id")
        return
    text = r"convert_from('\xe4', 'LATIN1')" if encoding == "LATIN1" else r"convert_from('\xe4', 'SQL_ASCII')"
    told(
        server,
        "CREATE TABLE t (id bigint, x text)",
        f"INSERT INTO t VALUES (1, 'a'), (2, {text})",
        database=name,
    )
    assert rows_of(sf.scan(path, privacy_unit="id")) == Counter(["(1, 'a')", f"(2, {expected})"])


@pytest.mark.long
def test_postgresql_is_read_at_one_moment(server, monkeypatch):
    from sfumato.engines.duckdb.databases import PostgresReader

    told(server, "DROP TABLE IF EXISTS a, b", "CREATE TABLE a AS SELECT generate_series(1, 2)::bigint AS id",
         "CREATE TABLE b AS SELECT generate_series(1, 2)::bigint AS id")  # fmt: skip
    a, b = (sf.scan(at(server, name), privacy_unit="id") for name in "ab")
    plan = a.join(b, on="id").bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
    moved(monkeypatch, PostgresReader, lambda: told(server, "DELETE FROM a", "DELETE FROM b"))
    (batch,) = a.join(b, on="id")._engine.statistics(plan.exact, 10)
    assert str(batch.column(0)[0]) == "2"
