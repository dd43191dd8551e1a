"""Types of Arrow that are written in another way than their values: read as these, or refused by name."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb.sources import open_source
from sfumato.errors import EngineError


def stored(kind: pa.DataType, values: list, storage: pa.DataType) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, storage))


def written(kind: pa.DataType, values: list) -> pa.Array:
    return pa.array(values, kind)


EXACT = [Decimal("1.50"), None, Decimal("-2.25")]
ARRAYS = {
    "bool8": stored(pa.bool8(), [1, 0, None, 7], pa.int8()),
    "uuid": stored(pa.uuid(), [uuid.UUID(int=5).bytes, None], pa.binary(16)),
    "json": stored(pa.json_(), ['{"a":1}', "2", None], pa.string()),
    "opaque": stored(pa.opaque(pa.int64(), "kind", "vendor"), [1, None, 3], pa.int64()),
    "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "dictionary of decimals": pa.array(EXACT).dictionary_encode(),
    "dictionary of times": pa.array([datetime(2020, 1, 1), None]).dictionary_encode(),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array([1.5, 2.0])),
    "run ends of views": pa.RunEndEncodedArray.from_arrays(
        pa.array([2, 4], pa.int32()), pa.array(["a", None], pa.string_view())
    ),
    "run ends of json": pa.RunEndEncodedArray.from_arrays(
        pa.array([2, 4], pa.int32()), stored(pa.json_(), ["1", None], pa.string())
    ),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        [1, 0, None], pa.array(["a", "b"], pa.string_view())
    ),
    "list of views": written(pa.list_(pa.string_view()), [["a", None], None]),
    "map to views": written(pa.map_(pa.string(), pa.binary_view()), [[("a", b"b")], None]),
    "dictionary of dictionaries": pa.DictionaryArray.from_arrays([0], pa.array(["a"]).dictionary_encode()),
    "run ends of dictionaries": pa.RunEndEncodedArray.from_arrays([2], pa.array(["a"]).dictionary_encode()),
    "run ends of lists": pa.RunEndEncodedArray.from_arrays([2], pa.array([["a"]])),
    "list of run ends": pa.ListArray.from_arrays([0, 2], pa.RunEndEncodedArray.from_arrays([2], ["a"])),
    "decimal32": written(pa.decimal32(5, 2), EXACT),
    "decimal64": written(pa.decimal64(15, 2), EXACT),
    "decimal256": written(pa.decimal256(60, 2), EXACT),
    "string_view": written(pa.string_view(), ["a", None, "x" * 30]),
    "binary_view": written(pa.binary_view(), [b"a", None, b"x" * 30]),
    "large_string": written(pa.large_string(), ["a", None]),
    "fixed binary": written(pa.binary(2), [b"ab", None]),
    "half": written(pa.float16(), [1.5, None]),
    "month_day_nano": written(pa.month_day_nano_interval(), [pa.MonthDayNano([0, 2, 0]), None]),
    "duration": written(pa.duration("us"), [timedelta(2), None]),
    "time32": written(pa.time32("s"), [time(1), None]),
    "date64": written(pa.date64(), [date(2020, 1, 1), None]),
    "list_view": written(pa.list_view(pa.int64()), [[1], None, []]),
    "list of bool8": pa.ListArray.from_arrays([0, 1], stored(pa.bool8(), [1], pa.int8())),
    "list of dictionaries": pa.ListArray.from_arrays([0, 1], pa.array(EXACT[:1]).dictionary_encode()),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
    ),
}
REFUSED = {"decimal256", "half", "dense union", "list of run ends"}
REFUSED_BY_DUCKDB = REFUSED | {"dictionary of dictionaries", "run ends of dictionaries", "run ends of lists"}
REFUSED_BY_BEAM = REFUSED | {"opaque", "list of bool8", "list of dictionaries"}


def seen(values: list) -> list:
    """Return values as one compares them: DuckDB gives an interval of days as a duration."""
    days = [timedelta(v.days) if isinstance(v, pa.MonthDayNano) else v for v in values]
    lists = [list(v.items()) if isinstance(v, dict) else v for v in days]
    return [list(v) if isinstance(v, tuple) else v for v in lists]


@pytest.mark.long
@pytest.mark.parametrize("kind", ARRAYS)
def test_duckdb_reads_the_values_or_says_the_column(kind):
    table = pa.table({"k": ARRAYS[kind]})
    if kind in REFUSED_BY_DUCKDB:
        with pytest.raises(EngineError, match="the column 'k' is .* cannot be read"):
            sf.scan(table, privacy_unit="k")
        return
    source = open_source(table)
    with source.session() as session:
        source.load(session, ["k"])
        read = session.sql(f"FROM {source.relation}").fetchall()
    assert seen([row[0] for row in read]) == seen(ARRAYS[kind].to_pylist())


@pytest.mark.long
@pytest.mark.parametrize("kind", ARRAYS)
def test_beam_reads_the_values_or_says_the_column(kind):
    """From rows, where a type that Arrow makes of no Python value would be NULL, and from batches."""
    pytest.importorskip("apache_beam")
    from sfumato.engines.beam.beam_engine import BeamEngine
    from sfumato.engines.beam.beam_rows import Columns

    array = ARRAYS[kind]
    declared = pa.schema([("k", array.type)])
    if kind in REFUSED_BY_BEAM:
        with pytest.raises(EngineError, match="the column 'k' is "):
            BeamEngine(declared)
        return
    columns = Columns(BeamEngine(declared)._rows)
    (rows,) = columns.of_rows([{"k": value} for value in array.to_pylist()])
    (batch,) = columns.of_arrow(pa.table({"k": array}))
    assert rows.column(0).to_pylist() == batch.column(0).to_pylist() == array.to_pylist()


CODED = pa.dictionary(pa.int8(), pa.string())
NESTED = {
    "list": pa.list_(CODED),
    "large list": pa.large_list(CODED),
    "fixed list": pa.list_(CODED, 2),
    "list of lists": pa.list_(pa.list_(CODED)),
    "list in a struct": pa.struct([("a", pa.list_(CODED))]),
    "list in a map": pa.map_(pa.string(), pa.list_(CODED)),
    "list view": pa.list_view(CODED),
}


@pytest.mark.flakiness(k=100, because="noise of scale 0.001 rounds to 0")
@pytest.mark.parametrize("kind", NESTED)
def test_empty_lists_of_dictionaries_do_not_stop_anything(kind, tmp_path):
    """DuckDB stops at a batch that has no others: whether it did so followed from rows."""
    table = pa.table({"id": [1, 2], "v": pa.nulls(2, NESTED[kind])})
    sources = [table]
    if kind != "list view":  # which Parquet has none of
        pq.write_table(table, tmp_path / "rows.parquet")
        sources.append(tmp_path / "rows.parquet")
    for source in sources:
        asked = sf.scan(source, privacy_unit="id").filter("v IS NULL").bound(rows=1).agg(n=sf.count())
        assert asked.release(epsilon=1000).to_arrow().to_pylist() == [{"n": 2}]


@pytest.mark.flakiness(k=100, because="noise of scale 0.001 rounds to 0")
def test_empty_lists_of_enumerations_do_not_stop_anything():
    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE letter AS ENUM ('a', 'b')")
        rows = connection.sql("SELECT i AS id, CAST(NULL AS letter[]) AS v FROM range(5) AS of(i)")
        asked = sf.scan(rows, privacy_unit="id").filter("v IS NULL").bound(rows=1).agg(n=sf.count())
        assert asked.release(epsilon=1000).to_arrow().to_pylist() == [{"n": 5}]


def test_more_values_than_a_declared_dictionary_holds():
    from sfumato.engines.beam.beam_engine import BeamEngine
    from sfumato.engines.beam.beam_rows import Columns

    columns = Columns(BeamEngine(pa.schema([("k", pa.dictionary(pa.int8(), pa.string()))]))._rows)
    texts = [str(i) for i in range(300)]
    (batch,) = columns.of_rows([{"k": text} for text in texts])
    assert batch.column(0).to_pylist() == texts


SPARK_REFUSES = ["bool8", "uuid", "json", "opaque", "run ends", "string_view", "half", "month_day_nano"]


@pytest.mark.parametrize("kind", SPARK_REFUSES)
def test_spark_refuses_the_type_itself(spark, kind):
    """A frame of Spark has none of them: what scan is given has been read by Spark."""
    from pyspark.errors import PySparkTypeError

    with pytest.raises(PySparkTypeError, match="UNSUPPORTED_DATA_TYPE_FOR_ARROW_CONVERSION"):
        spark.createDataFrame(pa.table({"k": ARRAYS[kind]}))
