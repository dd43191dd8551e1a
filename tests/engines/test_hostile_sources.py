"""Whatever one unit's rows hold, in any format: nothing raises, and the statistics of all others stay.

Each test writes rows of units 100 to 139 and hostile ones of unit 7, and asks about those that are not of
unit 7: exactly the same must come as without the hostile rows.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import struct
import tracemalloc
from contextlib import suppress
from datetime import date
from decimal import Decimal

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

import sfumato as sf
from sfumato.engines.duckdb import text_lines
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.sources import open_source
from sfumato.errors import ColumnError, EngineError, QueryError, SfumatoError, SqlError
from sfumato.query import sizes
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Derive, Filter
from sfumato.transformations import Count, CountUnits

pytestmark = pytest.mark.long

TYPES = {"id": "BIGINT", "s": "VARCHAR", "x": "DOUBLE"}
OTHERS = [(100 + i % 40, f"g{i % 3}", float(i % 11)) for i in range(120)]
HOSTILE = 7


def tried(examples: int):
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def statistics(engine, key: str = "upper(s)", others: bool = True) -> list[tuple]:
    """Count rows and units by a derived key; of all units but the hostile one."""
    steps = (Filter(f"id <> {HOSTILE}"),) if others else ()
    query = ExactQuery((*steps, Derive("key", key)), "id", ("key",), None, 100)
    query = ExactQuery(query.steps, "id", ("key",), None, 100, (CountUnits(), Count(100)))
    batches = engine.statistics(query, 10_000)
    return [tuple(map(str, row.values())) for batch in batches for row in batch.to_pylist()]


def of_file(path, types=None, **options):
    return statistics(DuckDBEngine.open(str(path), types=types), **options)


EXPECTED = [(f"G{i}", str(len({u for u, s, _ in OTHERS if s == f"g{i}"})), "40") for i in range(3)]


def test_the_expected_statistics():
    rows = pa.table(dict(zip(TYPES, map(list, zip(*OTHERS, strict=True)), strict=True)))
    assert statistics(DuckDBEngine.open(rows)) == EXPECTED


# CSV.


def csv_with(line: bytes, quoting: int, at: int = 60, rows=OTHERS, end: str = "\n") -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n", quoting=quoting).writerows([list(TYPES), *rows])
    before = written.getvalue().encode().split(b"\n")[:-1]
    return end.encode().join([*before[:at], line, *before[at:]]) + end.encode()


CSV_LINES = {
    "carriage return": b"7,a\rb,3",
    "carriage return at the end": b"7,ab,3\r",
    "carriage return in quotes": b'7,"a\rb",3',
    "a row behind a carriage return": b"7,ab,3\r100,g1,5",
    "zero byte": b"7,a\0b,3",
    "not UTF-8": b"7,a\xff\xfeb,3",
    "surrogate": b"7,\xed\xa0\x80,3",
    "UTF-16": "7,ab,3".encode("utf-16"),
    "too many": b"7,a,3,4,5",
    "too few": b"7,a",
    "empty": b"",
    "open quote": b'7,"abc,3',
    "open quote first": b'"7,abc,3',
    "quote alone": b'"',
    "quote in the middle": b'7,a"b,3',
    "text behind a quote": b'7,"a"b,3',
    "doubled": b'7,"a""b",3',
    "doubled and open": b'7,"a"",3',
    "long": b"7," + b"z" * 3_000_000 + b",3",
    "long and open": b'7,"' + b"z" * 3_000_000 + b",3",
    "many fields": b"7" + b",1" * 100_000,
    "backslash": b'7,"a\\",3',
    "no number": b"7,a,1e999",
    "line break in quotes": b'7,"a\nb",3',
    "a row in quotes": b'7,"a\n100,g1,5\n",3',
}


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], ids=["minimal", "all"])
@pytest.mark.parametrize("what", CSV_LINES)
def test_a_hostile_line_of_csv(tmp_path, what, quoting):
    (tmp_path / "rows.csv").write_bytes(csv_with(CSV_LINES[what], quoting))
    assert of_file(tmp_path / "rows.csv", TYPES) == EXPECTED


@pytest.mark.parametrize("what", ["carriage return", "open quote", "too many", "not UTF-8", "long"])
def test_a_hostile_line_behind_those_that_are_guessed_from(tmp_path, what):
    rows = OTHERS * 300
    for name, line in (("rows.csv", CSV_LINES[what]), ("without.csv", b"7,a,3")):
        (tmp_path / name).write_bytes(csv_with(line, csv.QUOTE_MINIMAL, 30_000, rows))
    assert of_file(tmp_path / "rows.csv") == of_file(tmp_path / "without.csv")


def fields(path, block: int, **how) -> list[tuple]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "TEXT_BYTES", block)
        batches = list(text_lines.Csv(**how).batches(str(path), list(TYPES), list(TYPES)))
    return [row for b in batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True)]


@tried(1500)
@given(
    st.sampled_from([b"7,", b'"7",', b'7,"']),
    st.lists(st.sampled_from([b'"', b",", b"\r", b"\0", b"\xff", b"\xc3", b"a", b" ", b"\\", b"3"]) | st.binary(max_size=3)),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([7, 50, 1 << 20]),
)  # fmt: skip
def test_noise_in_csv(tmp_path_factory, start, noise, quoting, end, block):
    path = tmp_path_factory.getbasetemp() / "noise.csv"
    line = start + b"".join(noise).replace(b"\n", b"")
    path.write_bytes(csv_with(line, quoting, 3, OTHERS[:6], end))
    others = [row for row in fields(path, block) if not (row[0] or "").startswith("7")]
    assert others == [tuple(map(str, row)) for row in OTHERS[:6]]


INCHES = [(100, '6"', 1.0), (101, 'a"b', 2.0), (102, "g", 3.0), (104, '6"', 5.0)]


@pytest.mark.parametrize(
    "line", [b'7,a"b,"c', b'7,"a"b,"c', b'7,a"b"c,"', b'7,3,"abc', b'"7,a', b'7,a,"3","']
)
def test_an_open_quote_of_one_line_takes_no_other_along(tmp_path, line):
    """The others were not written well either: a quote stands in their texts, before a delimiter too."""
    written = b"".join(b"%d,%s,%r\n" % (u, s.encode(), x) for u, s, x in INCHES)
    read = []
    for before, name in ((b"id,s,x\n", "without.csv"), (b"id,s,x\n" + line + b"\n", "with.csv")):
        (tmp_path / name).write_bytes(before + written)
        read.append([row for row in fields(tmp_path / name, 1 << 20) if (row[0] or "")[:1] == "1"])
    assert read[0] == read[1]
    assert [row[0] for row in read[0]] == ["100", "101", "102", "104"]


PIECES = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b"a",
    b"\xff",
    b"\xc3\xa9",
    b"\xc3",
    b"\0",
    b'""',
    b'",',
    b',"',
    b"7",
]
LINES = [
    b"a,b,c",
    b'"a","b",c',
    b'"a,""",b,\r',
    b'"","",""',
    b",,",
    b'"x""y",\xff,',
    b'7,"a',
    b'a"b,"c',
    b'6",5,',
]


@tried(1500)
@given(
    st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join)
    | st.lists(st.sampled_from(LINES), max_size=8).map(b"\n".join),
    st.sampled_from([4, 9, 1 << 20]),
)
def test_all_lines_at_once_are_read_as_one_by_one(tmp_path_factory, text, block):
    path = tmp_path_factory.getbasetemp() / "blocks.csv"
    path.write_bytes(b"id,s,x\n" + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "FIRST_TEXT_BYTES", 4)
        at_once = fields(path, block)
        patch.setattr(text_lines, "columns_of", lambda *_: None)
        assert at_once == fields(path, block) == fields(path, 1 << 20)


@tried(600)
@given(
    st.lists(
        st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join) | st.sampled_from(LINES), max_size=8
    ),
    st.sampled_from([4, 9, 1 << 20]),
)
def test_lines_that_are_rows_are_read_whatever_the_others_hold(tmp_path_factory, written, block):
    path, alone = tmp_path_factory.getbasetemp() / "rows_in_lines.csv", []
    for line in (line for text in written for line in text.split(b"\n")):
        path.write_bytes(b"id,s,x\n" + line + b"\n")
        alone += fields(path, block, multiline=False)
    path.write_bytes(b"id,s,x\n" + b"\n".join([*written, b""]))
    assert fields(path, block, multiline=False) == alone


def test_an_open_quote_takes_the_next_line_along_unless_each_line_is_a_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b'id,s,x\n7,a,"3\n100,g1,5"\n101,"g\n2",6\n102,g0,7\n')
    assert sorted(of_file(path, TYPES)) == [
        ("G\n2", "1", "1"),
        ("G0", "1", "1"),
    ]  # that of 100 is in a field of 7
    alone = statistics(DuckDBEngine.open(path, types=TYPES, multiline=False))
    assert sorted(alone) == [("G0", "1", "1"), ("G1", "1", "1")]
    assert sf.scan(path, privacy_unit="id", multiline=False).schema.keys() == TYPES.keys()
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, multiline = {}) "
        f"COUNT(*) AS n FROM '{path}'"
    )
    assert sf.sql(text.format("false"), types=TYPES).spent == (1.0, 0.0)
    with pytest.raises(SqlError, match="multiline must be one of true, false"):
        sf.sql(text.format("0"))
    for source in (pa.table({"id": [1]}), pa.schema([("id", pa.int64())]), tmp_path / "rows.jsonl"):
        with pytest.raises(QueryError, match="multiline=False says how CSV is written"):
            sf.scan(source, privacy_unit="id", multiline=False)


def test_a_line_of_delimiters_alone_takes_no_memory(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"id,s,x\n7" + b"," * 30_000_000 + b"\n100,a,3\n")
    tracemalloc.start()
    assert fields(path, 1 << 20) == [("100", "a", "3")]
    assert tracemalloc.get_traced_memory()[1] < 200_000_000
    tracemalloc.stop()


@tried(300)
@given(
    st.lists(
        st.tuples(*[st.text(st.sampled_from('a",\n\r \0é;\t1'), max_size=6)] * 3), min_size=1, max_size=5
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([3, 17, 1 << 20]),
)
def test_csv_that_is_written_well_is_read_as_it_was(tmp_path_factory, rows, end, block):
    """Any text can stand in quotes, rows of others too: it stays in its field."""
    path = tmp_path_factory.getbasetemp() / "well.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([list(TYPES), *rows])
    assert fields(path, block) == [tuple(field or None for field in row) for row in rows]


def test_forms_of_csv(tmp_path):
    text = csv_with(b"7,a,3", csv.QUOTE_MINIMAL).decode()
    (tmp_path / "semicolons.csv").write_text(text.replace(",", ";"))
    (tmp_path / "tabs.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "marked.csv").write_text(text, encoding="utf-8-sig")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    with pa.output_stream(str(tmp_path / "packed.csv.zst"), compression="zstd") as file:
        file.write(text.encode())
    for path in tmp_path.iterdir():
        assert of_file(path, TYPES) == EXPECTED, path
        assert of_file(path) == EXPECTED, path
    (tmp_path / "broken.csv.gz").write_bytes(gzip.compress(text.encode() * 50)[:-30])
    with pytest.raises(EngineError) as caught:  # of the file, whatever is in its rows
        of_file(tmp_path / "broken.csv.gz", TYPES)
    assert caught.value.__context__ is None


# JSON.

JSON_LINES = {
    "malformed": b'{"id":7,"s":"a","x":3',
    "lone surrogate": b'{"id":7,"s":"\\ud800","x":3}',
    "control character": b'{"id":7,"s":"a\x01b","x":3}',
    "zero byte": b'{"id":7,"s":"a\0b","x":3}',
    "not UTF-8": b'{"id":7,"s":"\xff","x":3}',
    "array": b'[{"id":7}]',
    "no object": b"7",
    "empty": b"",
    "two objects": b'{"id":7}{"id":100,"s":"g1"}',
    "deep": b'{"id":7,"s":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep and open": b'{"id":7,"s":' + b"[" * 100_000,
    "long": b'{"id":7,"s":"' + b"z" * 20_000_000 + b'","x":3}',
    "many values": b'{"id":7,"s":[' + b"1," * 8_000_000 + b'1],"x":3}',
    "twice": b'{"id":7,"id":7,"s":"a","s":3}',
    "other types": b'{"id":7,"s":{"a":[1]},"x":"no"}',
    "huge number": b'{"id":7,"x":1e99999}',
    "carriage return": b'{"id":7,"s":"a"}\r{"id":100,"s":"g1"}',
}


def json_with(line: bytes, at: int = 60, rows=OTHERS) -> bytes:
    written = [json.dumps(dict(zip(TYPES, row, strict=True))).encode() for row in rows]
    return b"\n".join([*written[:at], line, *written[at:]]) + b"\n"


@pytest.mark.parametrize("what", JSON_LINES)
def test_a_hostile_line_of_json(tmp_path, what):
    (tmp_path / "rows.jsonl").write_bytes(json_with(JSON_LINES[what]))
    assert of_file(tmp_path / "rows.jsonl", TYPES) == EXPECTED


def test_a_text_in_json_that_is_not_utf8_is_null_as_anywhere_else(tmp_path):
    lines_of_bad_texts = [
        b'{"id":1,"s":"\xff","x":1}',
        rb'{"id":2,"s":"\ud800","x":1}',
        rb'{"id":3,"s":"\ud83d\ude00 \uD83D","x":1}',
        rb'{"id":4,"s":"\ud83d\ude00","x":1}',
        rb'{"id":5,"s":"\\ud800","x":1}',
        b'{"id":6,"\xc3" :"a","s":"ok","x":1}',
        b'{"id":7,"s":"\xff","x":1',
        b'{"id":8,"s":"\xff\\',
        b'{"id":9,"s":"\xff","x":"\\q"}',
        b'{"id":10,"s":"a","x":1}\xff',
        b'{"id":11,"s":"\xed\xa0\x80\\"","x":1}',
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines_of_bad_texts))
    found = of_file(tmp_path / "rows.jsonl", TYPES, key="id || ' ' || coalesce(s, 'NULL')", others=False)
    expected = ["1 NULL", "2 NULL", "3 NULL", "4 \U0001f600", r"5 \ud800", "6 ok", "11 NULL"]
    assert [row[0] for row in found] == sorted(expected)


@tried(25)
@given(st.lists(st.tuples(st.integers(8, 40), st.binary(max_size=2))), st.sampled_from([7, 1 << 20]))
def test_noise_in_json(tmp_path_factory, cuts, block):
    path = tmp_path_factory.getbasetemp() / "noise.json"
    line = b'{"id":7,"s":"a\\u00e4","x":[{"b":1.5}]}'
    for at, noise in cuts:
        line = line[:at] + noise.replace(b"\n", b"") + line[at + 1 :]
    path.write_bytes(json_with(line))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "TEXT_BYTES", block)
        assert of_file(path, TYPES) == EXPECTED


@pytest.mark.parametrize("text", ['[\n{"id":1}]', ' [{"id":1}]', '{\n"id":1}'])
def test_json_of_another_form_is_refused(tmp_path, text):
    (tmp_path / "rows.json").write_text(text)
    for types in (None, TYPES):
        with pytest.raises(EngineError, match="one JSON object a line"):
            sf.scan(tmp_path / "rows.json", privacy_unit="id", types=types)


# Declared types.


def test_types_are_names_of_columns_and_of_types(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_with(b"7,a,3", csv.QUOTE_MINIMAL))
    schema = sf.scan(path, privacy_unit="id", types={"ID": "int", "x": "decimal(9, 2)"}).schema
    assert [c.type_name for c in schema.values()] == ["INTEGER", "VARCHAR", "DECIMAL(9,2)"]
    for types, text in (
        ({"y": "DOUBLE"}, "there is no column 'y'"),
        ({"x": "DOUBEL"}, "did you mean DOUBLE"),
        ({"x": "INT); DROP TABLE t"}, "no type"),
        ({"x": "STRUCT(a INT)"}, "only columns of JSON have"),
        ({"x": "INTERVAL"}, "cannot be read as"),
        ({"x": 3}, "no type"),
        ({3: "INT"}, "no name of a column"),
        ({"x": "INT", "X": "INT"}, "twice"),
        ({}, "empty"),
        ("x INT", "must give each column a type"),
    ):
        with pytest.raises(QueryError, match=text):
            sf.scan(path, privacy_unit="id", types=types)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "rows.parquet")
    for source in (tmp_path / "rows.parquet", pa.table({"id": [1]}), pa.schema([("id", pa.int64())])):
        with pytest.raises(QueryError, match="declares its own types"):
            sf.scan(source, privacy_unit="id", types={"id": "INT"})


def test_a_guess_is_told(tmp_path):
    for name, text in (("rows.csv", csv_with), ("rows.json", json_with)):
        line = (b"7,a,3", csv.QUOTE_MINIMAL) if name == "rows.csv" else (b"{}",)
        (tmp_path / name).write_bytes(text(*line))
        question = sf.scan(tmp_path / name, privacy_unit="id").bound(rows=1).agg(n=sf.count())
        (note,) = question.plan(epsilon=1, noise="laplace").explain().to_dict()["notes"]
        assert "were guessed" in note and "types={'id': 'BIGINT', 's': 'VARCHAR', 'x': 'DOUBLE'}" in note
        question = sf.scan(tmp_path / name, privacy_unit="id", types=TYPES).bound(rows=1).agg(n=sf.count())
        assert not question.plan(epsilon=1, noise="laplace").explain().to_dict()["notes"]


def test_names_that_are_equal_whatever_their_case_are_refused_in_files_too(tmp_path):
    """An expression of one would be judged by the type of the other, and raise at a row."""
    for one, other in (("ss", "\u00df"), ("k", "\u212a"), ("\u00c9", "\u00e9")):
        rows = pa.table({"id": [1, 2], one: [1.5, 2.5], other: ["7", "x"]})
        pq.write_table(rows, tmp_path / "rows.parquet")
        with duckdb.connect(f"{tmp_path}/rows.db") as connection:
            connection.execute("CREATE OR REPLACE TABLE rows AS FROM rows")
        for source in (tmp_path / "rows.parquet", f"{tmp_path}/rows.db/rows", rows):
            with pytest.raises(EngineError, match="two columns"):
                sf.scan(source, privacy_unit="id")


def test_types_in_sql(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_with(b"7,a,3", csv.QUOTE_MINIMAL))
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id{}) "
        f"SUM(x, contribution_bounds_per_group => (0, 9)) AS s FROM '{path}'"
    )
    declared = text.format(", types = 'id BIGINT, x DOUBLE'")
    for release, guessed in (
        (sf.sql(declared), False),
        (sf.sql(text.format(""), types=TYPES), False),
        (sf.sql(text.format("")), True),
    ):
        assert any("guessed" in note for note in release.explain().to_dict()["notes"]) is guessed
    with pytest.raises(QueryError, match="twice"):
        sf.sql(declared, types=TYPES)
    for wrong in ("5", "'id'", "''", "'id INT, id INT'"):
        with pytest.raises(QueryError, match="types is written"):
            sf.sql(text.format(f", types = {wrong}"))


def test_files_of_a_glob_have_the_same_columns(tmp_path):
    for part, column in enumerate(([1], [2.5], ["a"])):
        pq.write_table(pa.table({"id": [1], "x": column}), tmp_path / f"{part}.parquet")
    with pytest.raises(EngineError, match="'x' is not the same"):
        sf.scan(f"{tmp_path}/*.parquet", privacy_unit="id")
    (tmp_path / "0.csv").write_bytes(csv_with(b"7,a,3", csv.QUOTE_MINIMAL))
    (tmp_path / "1.csv").write_text("x,id,s\n3,7,a\n")
    assert of_file(f"{tmp_path}/*.csv", TYPES) == EXPECTED
    (tmp_path / "2.csv").write_text("id,s,y\n7,a,3\n")
    with pytest.raises(EngineError, match="header"):
        of_file(f"{tmp_path}/*.csv", TYPES)


# Arrow, in memory, in a table of DuckDB's, as a relation and in stages.

TEXTS = [b"g0", b"\xff", b"a\xc3", b"\xbc", b"\xed\xa0\x80", b"\xc0\x80", b"a\0b", b"\xf4\x90\x80\x80"]
TEXT_TYPES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
EXTREMES = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, -(2**62), -1, 0, 172_800_000_000, 9_223_372_036_854_775]
TIME_TYPES = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32(), pa.date64()),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]  # fmt: skip


def rows_with(column: pa.Array) -> pa.Table:
    """Return rows of all units, with a column of which only the hostile unit has values."""
    n = len(column)
    ids = [*([HOSTILE] * n), *(u for u, _, _ in OTHERS)]
    texts = [*(["g0"] * n), *(s for _, s, _ in OTHERS)]
    hostile = pa.concat_arrays([column, pa.nulls(len(OTHERS), column.type)])
    return pa.table({"id": ids, "s": texts, "h": hostile})


def as_text(values: list[bytes], kind: pa.DataType | None = None) -> pa.Array:
    kind = kind or pa.string()
    return pa.array(values, pa.binary()).cast(TEXT_TYPES[kind]).view(kind)


def as_time(numbers: list[int], kind: pa.DataType) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([(n + 2**31) % 2**32 - 2**31 if width == pa.int32() else n for n in numbers], width).view(
        kind
    )


def in_table(rows: pa.Table, folder) -> DuckDBEngine:
    return DuckDBEngine.open(rows)


def in_database(rows: pa.Table, folder) -> DuckDBEngine:
    path = f"{folder}/{random.getrandbits(64)}.duckdb"
    with duckdb.connect(path) as connection:
        connection.register("given", rows)
        try:
            connection.execute("CREATE TABLE rows AS FROM given")
        except duckdb.Error:
            pytest.skip("DuckDB stores no such value itself, so no file of it has one")
    return DuckDBEngine.open(f"{path}/rows")


def as_relation(rows: pa.Table, folder) -> DuckDBEngine:
    connection = duckdb.connect()
    connection.register("given", rows)
    return DuckDBEngine.open(connection.sql("FROM given"))


KEYS = ["upper(h)", "h || 'x'", "CAST(h AS VARCHAR)"]
TIME_KEYS = [
    "CAST(h AS VARCHAR)",
    "year(h)",
    "strftime(h, '%Y-%m')",
    "date_trunc('month', h)",
    "hour(h)",
    "h",
]
FEW_TIME_KEYS = ["CAST(h AS VARCHAR)", "h"]  # what has become NULL in one source is as in another


def asked(engine, keys: list[str]) -> int:
    """Ask by each key that fits the type; return how many did."""
    fitting = 0
    for key in keys:
        with suppress(QueryError):  # by the type alone
            engine.schema((Derive("key", key),))
            fitting += 1
            counted = statistics(engine, key, others=False)
            assert sum(int(row[-1]) for row in counted) == len(OTHERS) + len(EXTREMES)
            assert [row for row in statistics(engine, key)] == [("None", "40", "120")], key
    return fitting


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("opened", [in_table, in_database, as_relation], ids=lambda f: f.__name__)
def test_text_that_is_not_utf8(opened, kind, tmp_path):
    engine = opened(rows_with(as_text([*TEXTS, b"end"], kind)), tmp_path)
    assert asked(engine, KEYS) == len(KEYS)
    counted = dict((row[0], row[-1]) for row in statistics(engine, "h", others=False))
    assert counted == {"g0": "1", "a\0b": "1", "end": "1", "None": str(len(OTHERS) + 6)}


@pytest.mark.parametrize("kind", TIME_TYPES, ids=str)
@pytest.mark.parametrize("opened", [in_table, in_database, as_relation], ids=lambda f: f.__name__)
def test_times_beyond_every_calendar(opened, kind, tmp_path):
    column = as_time(EXTREMES, kind)
    try:
        engine = opened(rows_with(column), tmp_path)
    except duckdb.Error:  # DuckDB itself takes no such row into a table
        return
    if (
        opened is as_relation
        and (pa.types.is_duration(kind) or getattr(kind, "tz", None))
        and kind.unit in ("s", "ms")
    ):
        return  # the relation itself stops
    assert asked(engine, TIME_KEYS if opened is in_table else FEW_TIME_KEYS) >= 1


@pytest.mark.parametrize("kind", [*TEXT_TYPES, *TIME_TYPES], ids=str)
def test_stages_bear_it(kind, engine):
    """Where rows are on many machines the same."""
    with suppress(pytest.skip.Exception):
        column = as_text([*TEXTS, b"end"], kind) if kind in TEXT_TYPES else as_time(EXTREMES, kind)
        opened = None
        # What Spark takes into no frame of its own does not come.
        with suppress(SfumatoError, NotImplementedError, pa.ArrowInvalid, PySparkException):
            opened = engine(rows_with(column))
        if opened is not None:
            assert statistics(opened, "CAST(h AS VARCHAR)") == [("None", "40", "120")]


BAD_TEXT = as_text([b"ab", b"\xff", b"c", b"longer than twelve bytes", b"ab\xc3"])
BAD_TIME = as_time([5, 2**62, 7, 8, -(2**62)], pa.timestamp("s"))
FIVE = pa.array(range(5))
CODED = pa.dictionary(pa.int8(), pa.string())


def nested(values: pa.Array) -> dict[str, pa.Array]:
    """Return columns of five rows, each made of one of five values."""
    ends, names = pa.array(range(6), pa.int32()), pa.array(list("abcde"))
    lists = {
        "list": pa.ListArray.from_arrays(ends, values),
        "large list": pa.LargeListArray.from_arrays(ends.cast(pa.int64()), values),
        "fixed list": pa.FixedSizeListArray.from_arrays(values, 1),
        "list view": pa.ListViewArray.from_arrays(ends[:5], pa.array([1] * 5, pa.int32()), values),
        "struct": pa.StructArray.from_arrays([values, FIVE], ["p", "q"]),
        "map": pa.MapArray.from_arrays(ends, names, values),
        "keys": pa.MapArray.from_arrays(ends, values, FIVE),
        "list of structs": pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([values], ["p"])),
    }
    return lists | {"list of lists": pa.ListArray.from_arrays(ends, lists["list"])}


def in_rows(column: pa.Array) -> list:
    source = open_source(pa.table({"h": column}))
    with source.session() as session:
        source.load(session, ["h"])
        return [row[0] for row in session.sql(f"FROM {source.relation}").fetchall()]


@pytest.mark.parametrize("shape", nested(FIVE))
@pytest.mark.parametrize("values", [BAD_TEXT, BAD_TIME], ids=["text", "time"])
@pytest.mark.parametrize("coded", [False, True], ids=["plain", "dictionary"])
def test_a_nested_value_is_the_same_whatever_is_beside_it(values, coded, shape):
    """A dictionary that a batch shares among its rows has the bad texts of all."""
    values = pa.DictionaryArray.from_arrays(pa.array(range(5)), values) if coded else values
    column = nested(values)[shape]
    alone = [in_rows(column.slice(i, 1))[0] for i in range(5)]
    assert in_rows(column) == alone
    assert ["ab" in str(v) or "0, 5)" in str(v) for v in alone] == [True, False, False, False, False]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(CODED), pa.large_list(CODED), pa.list_(CODED, 1), pa.list_view(CODED), pa.list_(pa.list_(CODED)),
     pa.struct({"p": pa.list_(CODED)}), pa.map_(pa.string(), pa.list_(CODED))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 3_000, 5_999])
def test_lists_of_codes_of_which_all_but_one_are_empty(kind, at):
    """DuckDB stopped unless one of the first rows had a value."""

    def value(kind: pa.DataType, empty: bool):
        if pa.types.is_dictionary(kind):
            return "a"
        if pa.types.is_struct(kind):
            return {"p": value(kind.field(0).type, empty)}
        if pa.types.is_map(kind):
            return [("k", value(kind.item_type, empty))]
        if pa.types.is_fixed_size_list(kind):
            return None if empty else ["a"]
        return [] if empty else [value(kind.value_type, empty)]

    rows = [value(kind, True)] * 6_000
    found = in_rows(pa.array(rows, kind))
    rows[at] = value(kind, False)
    with_one = in_rows(pa.array(rows, kind))
    assert [v for i, v in enumerate(with_one) if i != at] == found[1:] and with_one[at] != found[at]


MAPS = {
    "text": pa.array(["a", "a", "b"]),
    "views": pa.array(["a", "a", "b"], pa.string_view()),
    "not UTF-8": as_text([b"a", b"\xff", b"b"]),
    "coded": pa.array(["a", "a", "b"]).dictionary_encode(),
    "short decimals": pa.array([1, 1, 2], pa.decimal32(3, 1)),
    "coded apart": pa.DictionaryArray.from_arrays([0, 1, 2], ["a", "a", "b"]),
    "zero": pa.array([0.0, -0.0, 1.0]),
    "not a number": pa.array([float("nan"), float("nan"), 1.0]),
    "bytes": pa.array([b"a", b"a", b"b"]),
}


@pytest.mark.parametrize("what", MAPS)
@pytest.mark.parametrize("deep", [False, True], ids=["map", "list of maps"])
def test_a_map_with_a_key_twice(tmp_path, what, deep):
    """DuckDB takes no such map, wherever it is."""
    column = pa.MapArray.from_arrays(pa.array([0, 2, 3], pa.int32()), MAPS[what], pa.array([1, 2, 3]))
    if deep:
        column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column)
    rows = rows_with(column)
    pq.write_table(rows, tmp_path / "rows.parquet")
    for source in (rows, tmp_path / "rows.parquet"):
        engine = DuckDBEngine.open(source)
        assert statistics(engine, "CAST(h IS NULL AS VARCHAR)") == [("true", "40", "120")]
        counted = statistics(engine, "CAST(h IS NULL AS VARCHAR)", others=False)
        assert [row[-1] for row in counted] == (["2", "120"] if deep else ["1", "121"])


# Parquet: a value is put into the file's bytes, as no writer would.

ENCODINGS = ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
MARK, MARKED = 0x0123456, b"MARKED_VALUE"


def patched(path, column: pa.Array, old: bytes, new: bytes, encoding: str | None = None) -> None:
    kept = pa.concat_arrays([column, pa.nulls(len(OTHERS), column.type)])
    texts = [*(["g0"] * len(column)), *(s for _, s, _ in OTHERS)]
    ids = [*([HOSTILE] * len(column)), *(u for u, _, _ in OTHERS)]
    options = (
        {"use_dictionary": ["h"]}
        if encoding is None
        else {"use_dictionary": False, "column_encoding": {"h": encoding}}
    )
    table = pa.table({"id": ids, "s": texts, "h": kept})
    pq.write_table(table, path, compression="none", write_statistics=False, **options)
    written = path.read_bytes()
    assert len(old) == len(new) and written.count(old) == 1
    path.write_bytes(written.replace(old, new))


@pytest.mark.parametrize("encoding", [None, *ENCODINGS])
@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80"])
def test_text_in_parquet_that_is_not_utf8(tmp_path, encoding, bad):
    path = tmp_path / "rows.parquet"
    new = b"MARKED_VALUE"[: -len(bad)] + bad
    patched(path, pa.array(["g0", MARKED.decode(), "end"]), MARKED, new, encoding)
    assert of_file(path) == EXPECTED
    counted = dict((row[0], row[-1]) for row in of_file(path, key="lower(h)", others=False))
    assert counted == {"g0": "1", "end": "1", "None": str(len(OTHERS) + 1)}


def test_a_character_on_the_border_of_two_texts_in_parquet(tmp_path):
    """Two texts, neither of them UTF-8, whose bytes together are."""
    path = tmp_path / "rows.parquet"
    patched(
        path, pa.array(["abcdE", "Efghi"]), b"abcdEEfghi", "abcdéfghi".encode(), "DELTA_LENGTH_BYTE_ARRAY"
    )
    assert of_file(path, key="upper(h)", others=False) == [("None", "41", "122")]


@pytest.mark.parametrize("number", [-1, 2**31 - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    "kind",
    [*(pa.timestamp(u, z) for u in ("ms", "us", "ns") for z in (None, "UTC")), pa.time64("us"), pa.time64("ns"),
     pa.time32("ms"), pa.date32()],
    ids=str,
)  # fmt: skip
def test_times_in_parquet(tmp_path, kind, number):
    width, form = (pa.int32(), "<i") if kind.bit_width == 32 else (pa.int64(), "<q")
    if kind.bit_width == 32:
        number = (number + 2**31) % 2**32 - 2**31
    path = tmp_path / "rows.parquet"
    column = pa.array([0, MARK], width).view(kind)
    patched(path, column, struct.pack(form, MARK), struct.pack(form, number), "PLAIN")
    engine = DuckDBEngine.open(str(path))
    assert statistics(engine) == EXPECTED
    assert statistics(engine, "CAST(h AS VARCHAR)") == [("None", "40", "120")]
    counted = statistics(engine, "CAST(h AS VARCHAR)", others=False)
    assert sum(int(row[-1]) for row in counted) == len(OTHERS) + 2


def test_what_arrow_reads_again_is_what_duckdb_reads(tmp_path):
    """One bad text: all other columns, of any type, have the same values as without it."""
    with duckdb.connect() as connection:
        made = connection.sql(
            "SELECT i AS id, 'g' || (i % 3) AS s, i::TINYINT AS a, i::UBIGINT AS b, (i / 7)::FLOAT AS c, i / 7 AS d, "
            "(i / 7)::DECIMAL(9, 3) AS e, i % 2 = 0 AS f, DATE '2020-02-28' + i::INT AS g, "
            "TIMESTAMP '1969-12-31 23:59:59.5' + to_microseconds(i * 7) AS h, TIME '12:00:00' + to_seconds(i) AS j, "
            "TIMESTAMPTZ '2020-01-01 00:00:00+00' + to_hours(i) AS k, [i, NULL] AS l, {'q': 'x' || i, 'r': i} AS m, "
            "('\\x' || lpad(hex(i), 2, '0'))::BLOB AS n, NULL::INT AS o, md5(i::VARCHAR)::UUID AS p, "
            "TIMESTAMP_NS '2020-01-01 00:00:00.123456789' AS q, i::HUGEINT AS r, (i::DECIMAL(30, 2)) AS t "
            "FROM range(100, 120) AS rows(i)"
        )  # fmt: skip
        made.write_parquet(str(tmp_path / "good.parquet"))
        rows = pq.read_table(tmp_path / "good.parquet")
        pq.write_table(rows, tmp_path / "good.parquet")
        bad = as_text([b"\xff", *([b"g0"] * 19)])
        pq.write_table(rows.set_column(1, "s", bad), tmp_path / "bad.parquet")
    good, bad = (DuckDBEngine.open(f"{tmp_path}/{name}.parquet") for name in ("good", "bad"))
    for column in set(rows.column_names) - {"id", "s"}:
        key = f"coalesce(CAST({column} AS VARCHAR), '') || left(coalesce(s, ''), 0)"
        assert statistics(good, key, others=False) == statistics(bad, key, others=False), column


def test_folders_of_a_partition_are_read_again_too(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        rows = pa.table({"id": [7, 100], "s": as_text([b"\xff" if year == 2021 else b"a", b"b"])})
        pq.write_table(rows, tmp_path / f"year={year}" / "rows.parquet")
    found = of_file(f"{tmp_path}/*/*.parquet", key="CAST(year AS VARCHAR) || upper(s)", others=False)
    assert found == [("2020A", "1", "1"), ("2020B", "1", "1"), ("2021B", "1", "1"), ("None", "1", "1")]


# pandas.


@tried(60)
@given(
    st.lists(
        st.one_of(
            st.none(), st.text(max_size=3), st.integers(), st.floats(), st.binary(max_size=2), st.booleans(), st.dates(),
            st.decimals(), st.complex_numbers(), st.lists(st.integers(), max_size=2), st.just("\ud800"),
            st.builds(object), st.just(pandas.NaT), st.just(pandas.NA), st.uuids(), st.times(),
        ),
        max_size=6,
    ),
    st.sampled_from([None, "DOUBLE", "VARCHAR", "DATE", "BOOLEAN", "DECIMAL(5,2)"]),
)  # fmt: skip
def test_any_objects_in_a_column_of_pandas(values, kind):
    n = len(values)
    frame = pandas.DataFrame(
        {
            "id": [*([HOSTILE] * n), *(u for u, _, _ in OTHERS)],
            "s": [*(["g0"] * n), *(s for _, s, _ in OTHERS)],
            "h": pandas.Series([*values, *([None] * len(OTHERS))], dtype=object),
        }
    )
    engine = DuckDBEngine.open(frame, types=None if kind is None else {"h": kind})
    assert engine.schema()["h"].type_name == (kind or "VARCHAR")
    assert statistics(engine, "CAST(h AS VARCHAR)") == [("None", "40", "120")]
    assert sum(int(row[-1]) for row in statistics(engine, "CAST(h AS VARCHAR)", others=False)) == n + 120


def test_half_a_surrogate_pair_in_texts_and_categories_of_pandas():
    texts = pandas.array(["a", "\ud800", "b"], dtype=pandas.StringDtype("python"))
    categories = pandas.Categorical.from_codes([0, 1, 2, -1], categories=pandas.Index(texts))
    for column in (pandas.Series(texts), pandas.Series(categories)):
        frame = pandas.DataFrame({"id": range(len(column)), "h": column})
        keys = {row[0] for row in statistics(DuckDBEngine.open(frame), "h", others=False)}
        assert keys == {"a", "b", "None"}


def test_columns_of_objects_are_text_unless_declared():
    values = ["a", None, float("nan"), 1.5, True, Decimal("2.50"), date(2020, 2, 29), b"b", [1], "9"]
    frame = pandas.DataFrame({"id": range(10), "h": pandas.Series(values, dtype=object), "n": 1})
    keys = {row[0] for row in statistics(DuckDBEngine.open(frame), "h", others=False)}
    assert keys == {"a", "None", "1.5", "True", "2.50", "2020-02-29", "b", "9"}
    (note,) = sf.scan(frame, privacy_unit="id").notes
    assert "read as text: 'h'" in note and "types={'h': 'VARCHAR'}" in note
    declared = sf.scan(frame, privacy_unit="id", types={"h": "DOUBLE"})
    assert not declared.notes and declared.schema["h"].type_name == "DOUBLE"
    for types, text in (
        ({"n": "INT"}, "has one"),
        ({"z": "INT"}, "no column 'z'"),
        ({"h": "X"}, "There are"),
    ):
        with pytest.raises((EngineError, ColumnError, QueryError), match=text):
            sf.scan(frame, privacy_unit="id", types=types)
    mixed = pandas.DataFrame({"id": [1, 2], "h": pandas.Categorical(["a", 7])})
    assert statistics(DuckDBEngine.open(mixed), "h", others=False) == [("7", "1", "1"), ("a", "1", "1")]


# Errors.


def chained(error: BaseException | None) -> str:
    texts = ""
    while error is not None:
        texts, error = texts + str(error), error.__context__ or error.__cause__
    return texts


def test_errors_of_scan_hold_no_value(tmp_path):
    secret = "SECRET_OF_A_ROW"
    connection = duckdb.connect()
    relation = connection.sql(f"SELECT 1 AS id, CAST('{secret}' || range AS INT) AS x FROM range(3)")
    import polars

    lazy = polars.LazyFrame({"id": [1], "x": [secret]}).with_columns(polars.col("x").cast(polars.Int64))
    (tmp_path / "rows.csv").write_bytes(b"\0")
    (tmp_path / "rows.json").write_text(f'{{"{secret}')
    with duckdb.connect(f"{tmp_path}/rows.duckdb") as database:
        database.execute(
            f"CREATE VIEW v AS SELECT 1 AS id, CAST('{secret}' || i AS INT) AS x FROM range(3) t(i)"
        )
    for source in (
        relation,
        lazy,
        tmp_path / "rows.csv",
        tmp_path / "rows.json",
        f"{tmp_path}/rows.duckdb/v",
    ):
        with pytest.raises(SfumatoError) as caught:
            statistics(DuckDBEngine.open(source), "CAST(x AS VARCHAR)", others=False)
        assert secret not in chained(caught.value)
