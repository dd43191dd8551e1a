"""Databases that are lent: each to one user at a time, and again only if nothing of the user is in it."""

import gc
import weakref

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import connection, sources
from sfumato.engines.duckdb.connection import check_out, check_out_closed
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import CountUnits

ROWS = pa.table({"id": [1, 1, 2], "k": [0, 1, 0]})


@pytest.fixture(autouse=True)
def none_idle(monkeypatch):
    monkeypatch.setattr(connection, "_idle", {})


def place(session: duckdb.DuckDBPyConnection) -> str:
    """What tells a database from all others."""
    return session.execute("SELECT current_setting('temp_directory')").fetchall()[0][0]


def idle() -> list[str]:
    return [place(database) for _, database, _ in connection._idle.values()]


def lent_place(**options) -> str:
    with check_out(**options) as session:
        return place(session)


def counted(source) -> list[tuple[int, int]]:
    """The exact number of units in each group."""
    query = ExactQuery((), "id", ("k",), None, 2, (CountUnits(),))
    table = pa.Table.from_batches(sf.scan(source, privacy_unit="id")._engine.statistics(query, 100))
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_what_a_session_has_ends_with_it():
    with check_out() as session:
        home = place(session)
        session.register("source_rows", ROWS)
        session.execute("CREATE TEMP TABLE mine AS FROM source_rows")
        session.execute("CREATE TEMP VIEW view AS FROM mine")
        session.execute("CREATE TEMP MACRO f() AS 'private'")
        session.execute("PREPARE q AS FROM mine")
        session.execute("SET VARIABLE v = 'private'")
        session.execute("SET enable_progress_bar = true")
    with pytest.raises(duckdb.Error):
        session.execute("FROM mine")
    with check_out() as session:
        assert place(session) == home
        for text in ("FROM source_rows", "FROM mine", "FROM view", "SELECT f()", "EXECUTE q"):
            with pytest.raises(duckdb.Error):
                session.execute(text)
        found = session.execute("SELECT getvariable('v'), current_setting('enable_progress_bar')").fetchall()
        assert found == [(None, False)]


def test_one_for_given_tables_alone_is_lent_again_without_them(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a\n1\n")
    for _ in range(2):
        with check_out_closed("Europe/Berlin", locked=True) as session:
            assert session.execute("SELECT current_setting('TimeZone')").fetchall() == [("Europe/Berlin",)]
            for text in (
                "FROM given",
                "FROM view",
                f"FROM '{file}'",
                "SET threads = 3",
                "SET TimeZone = 'UTC'",
            ):
                with pytest.raises(duckdb.Error, match="exception_type"):  # as JSON
                    session.execute(text)
            session.register("given", ROWS)
            session.execute("CREATE TEMP VIEW view AS FROM given; SET VARIABLE v = 'private'")
            assert session.sql("FROM view").to_arrow_table() == ROWS
    with check_out_closed("Europe/Berlin", locked=True) as session:
        assert session.execute("SELECT getvariable('v')").fetchall() == [(None,)]
    with check_out_closed("UTC", locked=True) as session:
        assert session.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]


def test_a_database_in_which_something_is_left_is_closed():
    for leave in (
        "CREATE TABLE left_behind AS SELECT 'private' AS v",
        "CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS v",
        "CREATE VIEW left_behind AS SELECT 'private' AS v",
        "ATTACH ':memory:' AS other",
        "BEGIN; CREATE TABLE left_behind (v INTEGER); COMMIT",
    ):
        with check_out() as session:
            home = place(session)
            session.execute(leave)
        assert idle() == [] and lent_place() != home
        connection._idle.clear()


def test_a_source_sees_its_own_rows_alone(tmp_path):
    """Whatever the one before it was, the tables of the next are its own."""
    pq.write_table(pa.table({"id": [1, 2, 3], "k": [5, 5, 5]}), tmp_path / "rows.parquet")
    in_order = [
        (ROWS, [(0, 2), (1, 1)]),
        (pa.table({"id": [7], "k": [9]}), [(9, 1)]),
        (tmp_path / "rows.parquet", [(5, 3)]),
        (pa.table({"id": ["a"], "k": ["b"]}), [("b", 1)]),
        (ROWS.to_pandas(), [(0, 2), (1, 1)]),
    ]
    for _ in range(2):
        for source, expected in in_order:
            assert counted(source) == expected
        assert all(connection._as_new(database) for _, database, _ in connection._idle.values())
    assert len(idle()) == 1  # one did for all of them
    rows = pa.table({"id": pa.array([1, 2]), "k": pa.array([0, 0])})
    held = weakref.ref(rows)
    assert counted(rows) == [(0, 2)]
    del rows
    gc.collect()
    assert held() is None  # nor are rows held for the next


def test_a_child_takes_none_of_its_parents(in_child):
    home = lent_place()
    in_the_child = in_child(lambda: [lent_place(), lent_place()])
    assert home not in in_the_child
    assert len(set(in_the_child)) == 1
    assert in_child(lambda: counted(ROWS)) == [(0, 2), (1, 1)]
    assert idle() == [home] == [lent_place()]


def test_a_child_gives_nothing_back(in_child):
    """It is forked while a database is lent, and leaves it to its parent."""
    with check_out() as session:
        borrowed = check_out()
        borrowed.__enter__()
        in_child(lambda: borrowed.__exit__(None, None, None))
        assert session.execute("SELECT 1").fetchall() == [(1,)]
        borrowed.__exit__(None, None, None)
    assert len(idle()) == 2


def test_what_is_known_of_a_schema_is_not_of_rows():
    """Two tables of one schema share what is known; a label of a dictionary is a value."""
    before = sources.read_options.cache_info().misses
    for values in (["secret one"], ["another secret"]):
        coded = pa.table({"id": [1], "k": pa.array(values).dictionary_encode()})
        assert counted(coded) == [(values[0], 1)]
    told = ROWS.replace_schema_metadata({"of the rows": "secret"})
    assert counted(told) == counted(ROWS)
    assert sources.read_options.cache_info().misses <= before + 2
    coded = pa.table({"id": [1], "k": pa.array(["secret one"]).dictionary_encode()})
    assert b"secret" not in coded.schema.serialize().to_pybytes()


def test_types_that_stand_in_metadata_are_told_apart():
    """Equal schemas, as Arrow compares them: but one is JSON."""
    texts = pa.array(['{"a": 1}'])
    fields = [pa.field("id", pa.string(), metadata=m) for m in ({}, {"ARROW:extension:name": "arrow.json"})]
    assert pa.schema([fields[0]]) == pa.schema([fields[1]])
    tables = [pa.Table.from_arrays([texts], schema=pa.schema([field])) for field in fields]
    kinds = [dict(sources.open_source(table).columns)["id"] for table in tables]
    assert kinds == ["VARCHAR", "JSON"]
