"""Files, folders, datasets and streams in which a name, a link or one value could change what is read."""

import decimal
import itertools
import os
import signal
import struct

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import EngineError

TABLE = pa.table({"id": [1, 2, 3, 4], "x": [1, 2, 3, 4]})
WRITERS = {"parquet": pq.write_table, "csv": pyarrow.csv.write_csv}

exactly = pytest.mark.noise_cannot_matter("noise of scale 10/10^6 is rounded to nothing")


def rows_of(source, **asked):
    told = sf.scan(source, privacy_unit="id").bound(rows=10).agg(n=sf.count(), **asked).release(epsilon=10**6)
    return {name: values[0] for name, values in told.to_arrow().to_pydict().items()}


@exactly
@pytest.mark.parametrize("kind", WRITERS)
def test_a_name_that_looks_like_a_pattern(kind, tmp_path):
    for name in ("part[1]", "part1", "{a,b}"):
        WRITERS[kind](TABLE, tmp_path / f"{name}.{kind}")
    assert rows_of(tmp_path)["n"] == 12
    assert rows_of(tmp_path / f"part[1].{kind}")["n"] == 4
    assert rows_of([tmp_path / f"part[1].{kind}", tmp_path / f"part1.{kind}"])["n"] == 8


def test_a_name_that_would_name_others_too(tmp_path):
    """DuckDB took it for a pattern, and read the other file a second time."""
    for name in ("*", "part?", os.fsdecode(b"part\xff")):
        for one in (name, "part1"):
            pq.write_table(TABLE, tmp_path / "written")
            (tmp_path / "written").rename(tmp_path / f"{one}.parquet")
        for source in (tmp_path, tmp_path / f"{name}.parquet"):
            with pytest.raises(EngineError, match="has '.' or '.' in it, or is not UTF-8"):
                sf.scan(source, privacy_unit="id")
        (tmp_path / f"{name}.parquet").unlink()


@exactly
def test_links_in_a_folder(tmp_path):
    kind = "parquet"
    inside, beside = tmp_path / "inside", tmp_path / "beside"
    inside.mkdir(), beside.mkdir()
    WRITERS[kind](TABLE, inside / f"a.{kind}")
    WRITERS[kind](TABLE, beside / f"b.{kind}")
    (inside / "linked").symlink_to(beside)
    (inside / "around").symlink_to(inside)
    assert rows_of(inside)["n"] == 8
    (inside / f"again.{kind}").symlink_to(inside / f"a.{kind}")
    with pytest.raises(EngineError, match="is there twice, so its rows would be read twice"):
        sf.scan(inside, privacy_unit="id")
    (inside / f"again.{kind}").unlink()
    (inside / f"none.{kind}").symlink_to(tmp_path / "nothing")
    with pytest.raises(EngineError, match="is not a file. Take it out of the folder"):
        sf.scan(inside, privacy_unit="id")
    (inside / f"none.{kind}").unlink()
    os.mkfifo(inside / f"pipe.{kind}")
    signal.alarm(20)  # opening it for reading waits until somebody writes
    try:
        with pytest.raises(EngineError, match="is not a file"):
            sf.scan(inside, privacy_unit="id")
    finally:
        signal.alarm(0)


BAD = pa.array([b"a", b"a", b"a", b"\xff"]).view(pa.string())


def test_a_folder_that_names_a_column_of_its_files(tmp_path):
    """DuckDB takes the folder's value, and Arrow, where one text is broken, that of the file: of all rows."""
    (tmp_path / "Year=2024").mkdir()
    pq.write_table(TABLE.append_column("year", [[7] * 4]), tmp_path / "Year=2024" / "rows.parquet")
    for source in (tmp_path, tmp_path / "Year=2024", tmp_path / "Year=2024" / "rows.parquet"):
        with pytest.raises(
            EngineError, match=r"has a column 'year', and the name of its folder gives one too"
        ):
            sf.scan(source, privacy_unit="id")


@exactly
@pytest.mark.parametrize("text", [pa.array(["a"] * 4), BAD])
def test_values_of_folders_are_the_same_beside_a_broken_text(text, tmp_path):
    """Of one file alone 007 is a number, and beside another folder a text."""
    for year in ("007", "none"):
        (tmp_path / f"agent={year}").mkdir()
        pq.write_table(TABLE.append_column("s", text), tmp_path / f"agent={year}" / "rows.parquet")
    table = sf.scan(tmp_path, privacy_unit="id").with_columns(bond="CAST(agent = '007' AS INTEGER)")
    told = (
        table.bound(rows=10).agg(n=sf.sum("bond", lower=0, upper=1), m=sf.count("s")).release(epsilon=10**6)
    )
    assert told.to_arrow()["n"].to_pylist() == [4]


CASTS = {
    "narrower": (pa.array([1, 300]), pa.int8()),
    "number": (pa.array(["1", "a private value"]), pa.int64()),
    "text": (pa.array([b"a", b"\xff"]), pa.string()),
    "digits": (pa.array([decimal.Decimal("1.0"), decimal.Decimal("9999.9")]), pa.decimal128(4, 1)),
    "whole": (pa.array([1.0, 1.5]), pa.int64()),
    "nested": (pa.array([[1], [300]]), pa.list_(pa.int8())),
}


def test_no_value_of_a_dataset_is_cast(tmp_path):
    """Arrow stops at one that does not fit, after the question was paid."""
    for name, (values, kind) in CASTS.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"id": [1, 2], "x": values}), tmp_path / name / "rows.parquet")
        schema = pa.schema([("id", pa.int64()), ("x", kind)])
        dataset = pyarrow.dataset.dataset(tmp_path / name, schema=schema)
        for one in (dataset, pyarrow.dataset.dataset([dataset])):
            with pytest.raises(
                EngineError, match=r"'x' of the dataset is .*, so Arrow may fail on a"
            ) as refused:
                sf.scan(one, privacy_unit="id")
            assert "private" not in str(refused.value)
    risky = pyarrow.dataset.dataset(pa.table({"id": [1, 2], "s": ["1", "a private value"]}))
    risky = risky.filter(pyarrow.dataset.field("s").cast("int64") > 0)
    with pytest.raises(EngineError, match=r"the dataset has a filter.*call filter\(\) on the table"):
        sf.scan(risky, privacy_unit="id")
    times = pa.array([0, 2**40], pa.timestamp("s"))  # beyond nanoseconds in 64 bits
    for column in (times, pa.StructArray.from_arrays([times], ["t"])):
        pyarrow.orc.write_table(pa.table({"id": [1, 2], "t": column}), tmp_path / "rows.orc")
        with pytest.raises(
            EngineError, match="'t' of the dataset has times, and Arrow fails on times before 1677"
        ):
            sf.scan(pyarrow.dataset.dataset(tmp_path / "rows.orc", format="orc"), privacy_unit="id")


def test_names_that_are_equal_whatever_their_case(tmp_path):
    """An expression of one would be judged by the type of the other, and raise at a row."""
    for one, other in (("ss", "\u00df"), ("k", "\u212a"), ("\u00c9", "\u00e9")):
        rows = pa.table({"id": [1, 2], one: [1.5, 2.5], other: ["7", "x"]})
        pq.write_table(rows, tmp_path / "rows.parquet")
        for source in (tmp_path / "rows.parquet", rows, rows.to_reader(), pyarrow.dataset.dataset(rows)):
            with pytest.raises(EngineError, match="two columns"):
                sf.scan(source, privacy_unit="id")


def test_files_of_a_pattern_have_the_same_columns(tmp_path):
    for part, column in enumerate(([1], [2.5], ["a"])):
        pq.write_table(pa.table({"id": [1], "x": column}), tmp_path / f"{part}.parquet")
    with pytest.raises(EngineError, match="'x' is not the same"):
        sf.scan(f"{tmp_path}/*.parquet", privacy_unit="id")


@exactly
@pytest.mark.parametrize("kind", WRITERS)
def test_a_process_that_goes_elsewhere_reads_the_same_files(kind, tmp_path, monkeypatch):
    for place, rows in (("here", 4), ("there", 1)):
        (tmp_path / place / "rows").mkdir(parents=True)
        WRITERS[kind](TABLE.slice(0, rows), tmp_path / place / "rows" / f"part.{kind}")
    for source in ("rows", f"rows/*.{kind}", [f"rows/part.{kind}"]):
        monkeypatch.chdir(tmp_path / "here")
        asked = sf.scan(source, privacy_unit="id").bound(rows=10).agg(n=sf.count())
        monkeypatch.chdir(tmp_path / "there")
        assert asked.release(epsilon=10**6).to_arrow()["n"].to_pylist() == [4]


@exactly
def test_a_stream_that_is_given_twice():
    """The second table would have no rows, and nobody would be told."""
    stream = TABLE.to_reader()
    table = sf.scan(stream, privacy_unit="id")
    for _ in range(2):
        with pytest.raises(EngineError, match="was passed to scan before, and can be read only once"):
            sf.scan(stream, privacy_unit="id")
    told = table.bound(rows=10).agg(n=sf.count()).release(epsilon=10**6).to_arrow()
    assert told["n"].to_pylist() == [4]


def texts_of(values: list[bytes], kind: pa.DataType) -> pa.Array:
    """Text whose bytes nobody has looked at."""
    ends = struct.pack(f"<{len(values) + 1}i", *itertools.accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    )


@exactly
@pytest.mark.parametrize("nested", [False, True])
def test_text_that_is_not_utf_8_in_a_dictionary_stops_no_release(tmp_path, nested):
    """Arrow wrote the column as a dictionary; one person's value made the release fail."""
    for first, n in ((b"no", 6), (b"\xff\xfe", 5)):
        column = pa.DictionaryArray.from_arrays(
            pa.array([0] + [1] * 5, pa.int8()), texts_of([first, b"ok"], pa.string())
        )
        if nested:
            column = pa.ListArray.from_arrays(pa.array(range(7), pa.int32()), column)
        rows = pa.table(
            {"id": range(6), "c": column, "t": pa.array(range(6), pa.duration("s")), "f": [0.5] * 6}
        )
        path = tmp_path / f"{n}.parquet"
        pq.write_table(rows, path)
        table = sf.scan(path, privacy_unit="id").with_columns(x="c[1]" if nested else "c").bound(rows=1)
        asked = table.agg(n=sf.count("x"), s=sf.sum("t", lower=0, upper=10), f=sf.sum("f", lower=0, upper=1))
        (row,) = asked.release(epsilon=10**6).to_arrow().to_pylist()
        assert (row["n"], row["s"], round(row["f"], 3)) == (n, 15, 3.0)
