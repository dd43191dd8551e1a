"""Every kind of source gives the same answer, and a release is drawn once."""

import re

import adbc_driver_duckdb.dbapi
import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import EngineError
from sfumato.release import release_files

from .made_rows import rows_of

TABLE = pa.table(
    {
        "id": [i // 2 for i in range(600)],
        "g": [["a", "b", "ü"][i % 3] for i in range(600)],
        "x": [i % 11 + 0.5 for i in range(600)],
    }
)


class Stream:
    """What other libraries give: its rows, once, by Arrow's interface in C."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def as_parquet(folder):
    pq.write_table(TABLE, folder / "rows.parquet")
    return folder / "rows.parquet"


def as_glob(folder):
    for part in range(3):
        pq.write_table(TABLE.slice(200 * part, 200), folder / f"part{part}.parquet")
    return str(folder / "part*.parquet")


def as_csv(folder):
    pyarrow.csv.write_csv(TABLE, folder / "rows.csv")
    return str(folder / "rows.csv")


def as_json(folder):
    TABLE.to_pandas().to_json(folder / "rows.json", orient="records", lines=True, force_ascii=False)
    return str(folder / "rows.json")


def database(folder):
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE TABLE rows AS FROM given")
    return str(folder / "rows.duckdb")


def as_relation(folder):
    connection = duckdb.connect()
    connection.register("given", TABLE)
    return connection.sql("SELECT * FROM given")


def as_folder(folder):
    for part in range(3):
        (folder / f"year={2000 + part}").mkdir()
        pq.write_table(TABLE.slice(200 * part, 200), folder / f"year={2000 + part}" / "rows.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".rows.parquet.crc").write_bytes(b"none of the rows")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "0.json").write_text("{}")
    (folder / "notes.txt").write_text("about the rows")
    return folder


SOURCES = {
    "parquet": as_parquet,
    "glob": as_glob,
    "folder": as_folder,
    "dataset": lambda folder: pyarrow.dataset.dataset(
        as_folder(folder), partitioning="hive", exclude_invalid_files=True
    ),
    "reader": lambda folder: TABLE.to_reader(max_chunksize=7),
    "stream": lambda folder: Stream(TABLE),
    "csv": as_csv,
    "json": as_json,
    "table": lambda folder: database(folder) + "/rows",
    "relation": as_relation,
    "arrow": lambda folder: TABLE,
    "batch": lambda folder: TABLE.combine_chunks().to_batches()[0],
    "polars": lambda folder: polars.from_arrow(TABLE),
    "lazy polars": lambda folder: polars.from_arrow(TABLE).lazy(),
    "pandas": lambda folder: pandas.DataFrame(TABLE.to_pydict()),
}


def question(source, **types):
    asked = sf.scan(source, privacy_unit="id", **types).group_by("g").bound(groups=3, rows=600)
    return asked.agg(n=sf.count(), people=sf.count_units(), total=sf.sum("x", lower=0, upper=6000))


def exact(asked):
    """Return the exact statistics of a question."""
    query = asked.plan(epsilon=1000, delta=1e-6).exact
    return [row for b in asked.table._engine.statistics(query, 100) for row in b.to_pylist()]


QUICK = ("parquet", "csv", "json", "table", "relation", "stream", "pandas")


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param(tuple(SOURCES.keys() - QUICK), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_every_source_has_the_same_rows(names, tmp_path):
    expected = exact(question(TABLE))
    for name in names:
        (tmp_path / name).mkdir()
        assert exact(question(SOURCES[name](tmp_path / name))) == expected, name


def test_a_cursor_of_adbc(tmp_path):
    with adbc_driver_duckdb.dbapi.connect(database(tmp_path)) as connection, connection.cursor() as cursor:
        with pytest.raises(EngineError, match="the cursor has no rows. Execute a query first"):
            question(cursor)
        cursor.execute("SELECT * FROM rows")
        asked = question(cursor)  # whose rows come once, and are kept
        assert exact(asked) == exact(asked) == exact(question(TABLE))


NO_TABLE = [
    (["rows.parquet", "rows.csv"], "of several kinds, .csv and .parquet. Pass files of one kind"),
    (["rows.parquet", "./rows.parquet"], "'./rows.parquet' is in the list twice"),
    (["rows.parquet", "*.parquet"], "'rows.parquet' is in the list twice"),
    (["rows.parquet", "postgresql://ann@host/db/rows"], "Pass a table of a database by itself"),
    (".", "has files of several kinds, .csv, .parquet. Name the files to read, such as './**/*.csv'"),
]


def test_paths_that_name_no_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    as_parquet(tmp_path), as_csv(tmp_path)
    for source, says in NO_TABLE:
        with pytest.raises(EngineError, match=re.escape(says)):
            sf.scan(source, privacy_unit="id")


def test_one_row_cannot_stop_a_dataset(tmp_path):
    """Arrow stops at a row that is written badly; what reads the files themselves does not."""
    as_csv(tmp_path)
    files = pyarrow.dataset.dataset(tmp_path, format="csv")
    for dataset in (files, pyarrow.dataset.dataset([files])):
        with pytest.raises(EngineError, match=r"reading a dataset of csv files fails on a malformed"):
            sf.scan(dataset, privacy_unit="id")


def test_a_stream_that_breaks_off_is_not_taken_for_whole():
    def batches():
        yield TABLE.to_batches()[0]
        raise ValueError("a private value")

    asked = question(pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    with pytest.raises(EngineError) as broken:
        asked.release(epsilon=1, delta=1e-6).to_arrow()
    with pytest.raises(EngineError, match="can be read only once, and stopped before"):
        asked.release(epsilon=1, delta=1e-6).to_arrow()
    assert "private" not in str(broken.value)


def test_declared_columns_without_missing_values(tmp_path):
    fields = [
        pa.field("id", pa.int64()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("x", pa.float64(), nullable=False),
    ]
    table = pa.table({"id": [1], "n": [1], "x": [1.0]}, schema=pa.schema(fields))
    pq.write_table(table, tmp_path / "rows.parquet")
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE rows (id BIGINT, n BIGINT NOT NULL, x DOUBLE NOT NULL)")
    for source in (table, tmp_path / "rows.parquet", f"{tmp_path}/rows.duckdb/rows"):
        schema = sf.scan(source, privacy_unit="id").schema
        # NaN is a missing value that no declaration excludes.
        assert [schema[c].missing for c in ("id", "n", "x")] == [True, False, True]
    duckdb.sql(f"COPY (SELECT * FROM range(3) t(n)) TO '{tmp_path}/written.parquet' (FORMAT parquet)")
    assert sf.scan(tmp_path / "written.parquet", privacy_unit="n").schema["n"].missing
    filtered = sf.scan(table, privacy_unit="id").filter("id IS NOT NULL AND x IS NOT NULL")
    assert [filtered.schema[c].missing for c in ("id", "n", "x")] == [False, False, True]


def test_row_groups_do_not_tell_how_many_groups_there_were(monkeypatch):
    """Batches of a release have the lengths that selection left; a file's row groups must not."""
    monkeypatch.setattr(release_files, "ROW_GROUP", 10)
    schema = pa.schema([("k", pa.int64())])
    lengths = [3, 0, 14, 9, 1, 8]
    start = [sum(lengths[:i]) for i in range(len(lengths))]
    batches = [
        pa.record_batch([list(range(s, s + n))], schema=schema) for s, n in zip(start, lengths, strict=True)
    ]
    cut = list(release_files.regular(iter(batches)))
    assert [b.num_rows for b in cut] == [10, 10, 10, 5]
    assert pa.Table.from_batches(cut)["k"].to_pylist() == list(range(35))
    assert [b.num_rows for b in release_files.regular(iter(batches[1:2]))] == [0]


LABELLED = {
    "w": "VARCHAR",
    "[w, w]::label[2]": "VARCHAR[2]",
    "{'a b': w, 'i': i}": 'STRUCT("a b" VARCHAR, i BIGINT)',
    "MAP {'a'::label: [w]}": "MAP(VARCHAR, VARCHAR[])",
    "union_value(a := w)": "UNION(a VARCHAR)",
}


@pytest.mark.long
def test_an_enum_is_text_whatever_order_its_type_has(tmp_path):
    """The labels of a type may be all people's values, as may their order be."""
    for number, (value, kind) in enumerate(LABELLED.items()):
        found = []
        for turn in range(2):
            labels = [*"dabc"[turn:], *"dabc"[:turn]]
            path = f"{tmp_path}/{number}{turn}.duckdb"
            with duckdb.connect(path) as session:
                session.execute(f"CREATE TYPE label AS ENUM ({', '.join(map(repr, labels))})")
                session.execute(
                    f"CREATE TABLE t AS SELECT i AS id, {value} AS x, w, 'b'::label AS v "
                    "FROM (SELECT i, (['a', 'b', 'c', NULL, 'd'])[i + 1]::label AS w FROM range(5) r(i))"
                )
            asked = sf.scan(f"{path}/t", privacy_unit="id")
            assert asked.schema["x"].type_name == kind
            text = "SELECT id, w < v AS less, hash([w]) AS h, [w] > [v] AS more, x::VARCHAR AS x FROM self"
            found.append(rows_of(asked.sql(text)))
        assert found[0] == found[1]


def test_an_enum_may_have_no_label_or_odd_ones(tmp_path, noise_free):
    """A type made of rows has no label where no row is: that must not show as an error."""
    found = []
    for turn, labels in enumerate(
        ["SELECT 'a' WHERE false", "SELECT unnest(['a''b, ''ENUM(''x'')', ',', ''])"]
    ):
        with duckdb.connect(str(tmp_path / f"{turn}.duckdb")) as session:
            session.execute(f"CREATE TYPE label AS ENUM ({labels})")
            session.execute(
                'CREATE TABLE t(id INTEGER, w label, many label[][2], parts STRUCT("a ""ENUM(b)" label, "o)" label))'
            )
            session.execute("INSERT INTO t(id) VALUES (1), (2)")
        asked = sf.scan(f"{tmp_path}/{turn}.duckdb/t", privacy_unit="id")
        found.append([column.type_name for column in asked.schema.values()])
        asked = asked.group_by("w", keys=["a"]).bound(groups=1, rows=1).agg(n=sf.count())
        released = asked.release(epsilon=1)
        assert released.to_arrow()["n"].to_pylist() == [0]
    parts = 'STRUCT("a ""ENUM(b)" VARCHAR, "o)" VARCHAR)'
    assert found == [["INTEGER", "VARCHAR", "VARCHAR[][2]", parts]] * 2
