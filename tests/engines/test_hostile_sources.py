"""Whatever one unit's rows hold, in memory or in files with types: nothing raises, and all others' values stay.

Each test makes rows of units 100 to 139 and hostile ones of unit 7, and asks about those that are not of unit 7:
exactly the same must come as without the hostile rows.
"""

import struct
import uuid
from collections import Counter
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.sanitized_columns import sanitize
from sfumato.engines.duckdb.sources import open_source
from sfumato.errors import EngineError, QueryError, SfumatoError
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Derive, Filter
from sfumato.transformations import Count, CountUnits

OTHERS = [(100 + i % 40, f"g{i % 3}") for i in range(120)]
HOSTILE = 7


def statistics(engine, key: str, others: bool = True) -> list[tuple]:
    """Count units and rows by a derived key; of all units but the hostile one."""
    steps = (Filter(f"id <> {HOSTILE}"),) if others else ()
    parts = CountUnits(), Count(100)
    query = ExactQuery((*steps, Derive("key", key)), "id", ("key",), None, 100, parts)
    batches = engine.statistics(query, 10_000)
    return [tuple(map(str, row.values())) for batch in batches for row in batch.to_pylist()]


def counted(engine, key: str) -> dict[str, str]:
    """Count rows of all units by a key."""
    return {row[0]: row[-1] for row in statistics(engine, key, others=False)}


def rows_with(column: pa.Array, others: pa.Array | None = None) -> pa.Table:
    """Return rows of all units, with a column of which only the hostile unit has values."""
    n = len(column)
    hostile = pa.concat_arrays([column, pa.nulls(len(OTHERS), column.type) if others is None else others])
    return pa.table(
        {
            "id": [*([HOSTILE] * n), *(u for u, _ in OTHERS)],
            "s": [*(["g0"] * n), *(s for _, s in OTHERS)],
            "h": hostile,
        }
    )


def in_table(rows: pa.Table, folder) -> DuckDBEngine:
    return DuckDBEngine.open(rows)


def as_relation(rows: pa.Table, folder) -> DuckDBEngine:
    connection = duckdb.connect()
    connection.register("given", rows)
    return DuckDBEngine.open(connection.sql("FROM given"))


def in_parquet(rows: pa.Table, folder) -> DuckDBEngine:
    pq.write_table(rows, folder / "rows.parquet")
    return DuckDBEngine.open(str(folder / "rows.parquet"))


def in_rows(column: pa.Array) -> list:
    source = open_source(pa.table({"h": column}))
    with source.session() as session:
        source.load(session, ["h"])
        return [row[0] for row in session.sql(f"FROM {source.relation}").fetchall()]


# Plain values.

TEXTS = [b"g0", b"\xff", b"a\xc3", b"\xbc", b"\xed\xa0\x80", b"\xc0\x80", b"a\0b", b"\xf4\x90\x80\x80", b"z"]
TEXT_TYPES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
TEXT_TYPES[pa.string_view()] = pa.binary_view()
EXTREMES = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, -(2**62), -1, 0, 300_000_000_000, 9_223_372_036_854_775]
TIME_TYPES = [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.date32(), pa.date64()),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]  # fmt: skip
TIME_KEYS = ["CAST(h AS VARCHAR)", "h", "year(h)", "strftime(h, '%Y-%m')", "hour(h)"]


def as_text(values: list[bytes], kind: pa.DataType | None = None) -> pa.Array:
    kind = kind or pa.string()
    return pa.array(values, pa.binary()).cast(TEXT_TYPES[kind]).view(kind)


def as_time(numbers: list[int], kind: pa.DataType) -> pa.Array:
    if kind.bit_width == 32:
        return pa.array([(n + 2**31) % 2**32 - 2**31 for n in numbers], pa.int32()).view(kind)
    return pa.array(numbers, pa.int64()).view(kind)


def check_others(engine, keys: list[str], hostile: int) -> None:
    """Hold the others' rows to what they are, by each key that fits the type."""
    fitting = 0
    for key in keys:
        with suppress(QueryError):  # by the type alone
            engine.schema((Derive("key", key),))
            fitting += 1
            found = statistics(engine, key, others=False)
            assert sum(int(row[-1]) for row in found) == len(OTHERS) + hostile
            assert statistics(engine, key) == [("None", "40", "120")], key
    assert fitting


OPENED = [in_table, pytest.param(as_relation, marks=pytest.mark.long)]


def test_views_of_short_values(tmp_path):
    """DuckDB ends the process at those that Arrow 24 cast."""
    texts = pa.array(["a", "b", None] * 5).cast(pa.string_view())
    values = pa.array([b"a", b"b", None] * 5, pa.binary()).cast(pa.binary_view())
    documents = pa.array(['"a"', '"b"', None] * 5).cast(pa.string_view())
    columns = {
        "h": texts,
        "CAST(h AS VARCHAR)": values,
        "json_extract_string(h, '$')": pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), documents),
        "h[1]": pa.ListArray.from_arrays(pa.array(range(16), pa.int32()), texts),
    }
    for key, column in columns.items():
        found = counted(in_table(pa.table({"id": range(15), "h": column}), tmp_path), key)
        assert found == {"a": "5", "b": "5", "None": "5"}, key


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("opened", OPENED)
def test_text_that_is_not_utf8(opened, kind, tmp_path):
    engine = opened(rows_with(as_text(TEXTS, kind)), tmp_path)
    check_others(engine, ["upper(h)", "h || 'x'"], len(TEXTS))
    assert counted(engine, "h") == {"g0": "1", "a\0b": "1", "z": "1", "None": str(len(OTHERS) + 6)}


@pytest.mark.parametrize("opened", OPENED)
def test_times_beyond_every_calendar(opened, tmp_path):
    for kind in TIME_TYPES if opened is not in_table else TIME_TYPES[::3]:
        stops = pa.types.is_duration(kind) or getattr(kind, "tz", None)
        if opened is as_relation and stops and kind.unit in ("s", "ms"):
            continue  # the relation itself does
        engine = opened(rows_with(as_time(EXTREMES, kind)), tmp_path)
        check_others(engine, TIME_KEYS[: 5 if opened is in_table else 2], len(EXTREMES))
        if pa.types.is_timestamp(kind):
            assert "True" not in counted(engine, "isfinite(h) AND h > TIMESTAMP '9999-12-31 23:59:59'")


# Nested values, dictionaries and maps.

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
    return lists


@pytest.mark.long
def test_a_nested_value_is_the_same_whatever_is_beside_it():
    """A dictionary that a batch shares among its rows has the bad texts of all."""
    for bad in (BAD_TEXT, BAD_TIME, pa.DictionaryArray.from_arrays(FIVE, BAD_TEXT)):
        for shape, column in nested(bad).items():
            alone = [in_rows(column.slice(i, 1))[0] for i in range(5)]
            assert in_rows(column) == alone, shape
            sound = ["ab" in str(v) or "0, 5)" in str(v) for v in alone]
            assert sound == [True, False, False, False, False], shape


@pytest.mark.long
def test_lists_of_codes_of_which_all_but_one_are_empty(tmp_path):
    """DuckDB stopped unless one of the first rows had a value: in memory, in Parquet, and of enumerations."""
    kinds = {
        pa.list_(CODED): (["a"], []),
        pa.list_view(CODED): (["a"], []),
        pa.list_(CODED, 1): (["a"], None),
        pa.list_(pa.list_(CODED)): ([["a"]], []),
        pa.struct({"p": pa.list_(CODED)}): ({"p": ["a"]}, {"p": []}),
        pa.map_(pa.string(), pa.list_(CODED)): ([("k", ["a"])], [("k", [])]),
    }
    for kind, (full, empty) in kinds.items():
        found = in_rows(pa.array([empty] * 6000, kind))
        with_one = in_rows(pa.array([empty] * 3000 + [full] + [empty] * 2999, kind))
        assert [v for i, v in enumerate(with_one) if i != 3000] == found[1:] and with_one[3000] != found[0]
    rows = rows_with(pa.nulls(2, pa.map_(pa.string(), pa.list_(CODED))))
    assert statistics(in_parquet(rows, tmp_path), "h IS NULL") == [("True", "40", "120")]
    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE letter AS ENUM ('a', 'b')")
        rows = connection.sql("SELECT i AS id, CAST(NULL AS letter[]) AS h FROM range(5) AS of(i)")
        assert statistics(DuckDBEngine.open(rows), "h IS NULL") == [("True", "5", "5")]


MAPS = {
    "text": pa.array(["a", "a", "b"]),
    "not UTF-8": as_text([b"a", b"\xff", b"b"]),
    "coded": pa.array(["a", "a", "b"]).dictionary_encode(),
    "short decimals": pa.array([1, 1, 2], pa.decimal32(3, 1)),
    "zero": pa.array([0.0, -0.0, 1.0]),
    "not a number": pa.array([float("nan"), float("nan"), 1.0]),
}


def test_a_map_with_a_key_twice(tmp_path):
    """DuckDB takes no such map, wherever it is."""
    for what, keys in MAPS.items():
        column = pa.MapArray.from_arrays(pa.array([0, 2, 3], pa.int32()), keys, pa.array([1, 2, 3]))
        inside = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column)
        for rows, none in ((rows_with(column), "121"), (rows_with(inside), "120")):
            for opened in (in_table, in_parquet) if what in ("text", "zero") else (in_table,):
                found = counted(opened(rows, tmp_path), "h IS NULL")
                assert found == {"False": str(122 - int(none)), "True": none}, what


def test_maps_in_slices_and_under_nulls():
    values = [[("a", i)] * (1 + (i % 3 == 0)) if i % 5 else None for i in range(100)]
    column = pa.array(values, pa.map_(pa.string(), pa.int64()))
    expected = [value if value and len(value) == 1 else None for value in values]
    assert sanitize(column).to_pylist() == expected
    assert sanitize(column.slice(7, 50)).to_pylist() == expected[7:57]
    inside = pa.ListArray.from_arrays(np.arange(0, 101, 2), column)
    pairs = [expected[i : i + 2] for i in range(0, 100, 2)]
    assert sanitize(inside.slice(3)).to_pylist() == pairs[3:]


MIN, MAX = -(2**63), 2**63 - 1
STAMP, ZONED, CLOCK = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")
# Type, a value of the others, and one that stopped DuckDB.
INSIDE = {
    "a map in a struct in a list": (
        pa.list_(pa.struct({"m": pa.map_(pa.binary(), pa.int64())})),
        [{"m": [(b"a", 1)]}, {"m": []}, None],
        [{"m": [(b"a", 1), (b"b", 1), (b"a", None)]}],
    ),
    "a fixed list of times": (pa.list_(STAMP, 2), [1, None], [5, MIN]),
    "a map to times": (pa.map_(pa.string(), STAMP), [("a", 1)], [("a", MIN), ("b", 1)]),
    "a map of times": (pa.map_(ZONED, STAMP), [(1, 1)], [(MIN, 1), (2, 2)]),
    "a struct of times": (pa.struct({'a" b': STAMP, "c": CLOCK}), {'a" b': 1, "c": 1}, {'a" b': MIN, "c": MAX}),
    "times of day in a map in a list": (
        pa.list_(pa.map_(pa.string(), pa.list_(CLOCK))),
        [[("a", [1])]],
        [[("a", [-1])], None],
    ),
    "times of day in nanoseconds": (pa.list_(pa.time64("ns")), [1], [-1]),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "opened", [in_table, *(pytest.param(f, marks=pytest.mark.long) for f in (in_parquet, as_relation))]
)
def test_a_value_inside_of_another(opened, tmp_path):
    for what, (kind, good, bad) in INSIDE.items():
        if opened is as_relation and "map" in str(kind) and what not in ("a map to times", "a map of times"):
            continue  # the relation itself stops
        rest = pa.array([good, None] * 60, kind)
        without = in_table(rows_with(pa.array([good], kind), rest), tmp_path)
        engine = opened(rows_with(pa.array([bad], kind), rest), tmp_path)
        for key in ("CAST(h AS VARCHAR)", "CAST(h AS JSON) IS NOT NULL"):
            assert statistics(engine, key) == statistics(without, key), what


# Types of Arrow that are written in another way than their values: read as these, or refused by name.


def stored(kind: pa.DataType, values: list, storage: pa.DataType) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, storage))


ENDS = pa.array([2, 4], pa.int32())
EXACT = [Decimal("1.50"), None, Decimal("-2.25")]
ARRAYS = {
    "bool8": stored(pa.bool8(), [1, 0, None, 7], pa.int8()),
    "uuid": stored(pa.uuid(), [uuid.UUID(int=5).bytes, None], pa.binary(16)),
    "json": stored(pa.json_(), ['{"a":1}', "2", None], pa.string()),
    "opaque": stored(pa.opaque(pa.int64(), "kind", "vendor"), [1, None, 3], pa.int64()),
    "dictionary of decimals": pa.array(EXACT).dictionary_encode(),
    "run ends of views": pa.RunEndEncodedArray.from_arrays(ENDS, pa.array(["a", None], pa.string_view())),
    "dictionary of views": pa.DictionaryArray.from_arrays([1, 0, None], pa.array(["a", "b"], pa.string_view())),
    "map to views": pa.array([[("a", b"b")], None], pa.map_(pa.string(), pa.binary_view())),
    "fixed binary": pa.array([b"ab", None], pa.binary(2)),
    "month_day_nano": pa.array([pa.MonthDayNano([0, 2, 0]), None], pa.month_day_nano_interval()),
    "list_view": pa.array([[1], None, []], pa.list_view(pa.int64())),
    "list of bool8": pa.ListArray.from_arrays([0, 1], stored(pa.bool8(), [1], pa.int8())),
}  # fmt: skip
REFUSED = {
    "decimal256": pa.array(EXACT, pa.decimal256(60, 2)),
    "half": pa.array([1.5, None], pa.float16()),
    "dense union": pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
    "list of run ends": pa.ListArray.from_arrays([0, 2], pa.RunEndEncodedArray.from_arrays([2], ["a"])),
    "run ends of dictionaries": pa.RunEndEncodedArray.from_arrays([2], pa.array(["a"]).dictionary_encode()),
}  # fmt: skip


def plain(value):
    """Return a value as one compares it: DuckDB gives an interval of days as a duration."""
    if isinstance(value, pa.MonthDayNano):
        return timedelta(value.days)
    return list(value.items()) if isinstance(value, dict) else value


@pytest.mark.long
def test_duckdb_reads_the_values_or_says_the_column():
    for kind, array in ARRAYS.items():
        assert list(map(plain, in_rows(array))) == list(map(plain, array.to_pylist())), kind
    for kind, array in REFUSED.items():
        sources = [pa.table({"k": array}), pa.schema([("k", array.type)])]
        for source in sources[: 2 if kind in ("decimal256", "half", "dense union") else 1]:
            with pytest.raises(EngineError, match="the column 'k' is .* cannot be read. Drop it, or cast it"):
                sf.scan(source, privacy_unit="k")


# Parquet: a value is put into the file's bytes, as no writer would.

MARK, MARKED = 0x0123456, b"MARKED_VALUE"


def patched(path, column: pa.Array, old: bytes, new: bytes, encoding: str | None = None) -> None:
    options = (
        {"use_dictionary": ["h"]}
        if encoding is None
        else {"use_dictionary": False, "column_encoding": {"h": encoding}}
    )
    pq.write_table(rows_with(column), path, compression="none", write_statistics=False, **options)
    written = path.read_bytes()
    assert len(old) == len(new) and written.count(old) == 1
    path.write_bytes(written.replace(old, new))


@pytest.mark.long
@pytest.mark.parametrize(("encoding", "bad"), [(None, b"\xff"), ("DELTA_LENGTH_BYTE_ARRAY", b"\xed\xa0\x80")])
def test_text_in_parquet_that_is_not_utf8(encoding, bad, tmp_path):
    path = tmp_path / "rows.parquet"
    texts = pa.array(["g0", MARKED.decode(), "end"])
    patched(path, texts, MARKED, MARKED[: -len(bad)] + bad, encoding)
    engine = DuckDBEngine.open(path)
    assert statistics(engine, "lower(h)") == [("None", "40", "120")]
    assert counted(engine, "lower(h)") == {"g0": "1", "end": "1", "None": "121"}
    if encoding == "DELTA_LENGTH_BYTE_ARRAY":  # two texts, neither of them UTF-8, whose bytes together are
        patched(path, pa.array(["abcdE", "Efghi"]), b"abcdEEfghi", "abcdéfghi".encode(), encoding)
        assert counted(DuckDBEngine.open(path), "upper(h)") == {"None": "122"}


@pytest.mark.long
def test_times_in_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    times = pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.time64("us")
    kinds = [*times, pa.time32("ms"), pa.date32()]
    for kind, number in zip(kinds, [2**63 - 1, 2**62, -(2**63), -1, 2**31 - 1, -(2**31)], strict=True):
        width, form = (pa.int32(), "<i") if kind.bit_width == 32 else (pa.int64(), "<q")
        column = pa.array([0, MARK], width).view(kind)
        patched(path, column, struct.pack(form, MARK), struct.pack(form, number), "PLAIN")
        check_others(DuckDBEngine.open(path), ["CAST(h AS VARCHAR)"], 2)


def test_columns_of_objects_are_text_unless_declared():
    values = ["a", None, float("nan"), 1.5, True, Decimal("2.50"), date(2020, 2, 29), b"b", [1], "9"]
    values += ["\ud800", object()]
    frame = pandas.DataFrame({"id": range(12), "h": pandas.Series(values, dtype=object), "n": 1})
    texts = ["a", "1.5", "True", "2.50", "2020-02-29", "b", "9"]
    assert counted(DuckDBEngine.open(frame), "h") == dict.fromkeys(texts, "1") | {"None": "5"}
    (note,) = sf.scan(frame, privacy_unit="id").notes
    assert "read as text: 'h'" in note and "types={'h': 'VARCHAR'}" in note
    declared = sf.scan(frame, privacy_unit="id", types={"h": "DOUBLE"})
    assert not declared.notes and declared.schema["h"].type_name == "DOUBLE"
    halves = pandas.array(["a", "\ud800", "b", "b"], dtype=pandas.StringDtype("python"))
    categories = pandas.Categorical.from_codes([0, 1, 2, -1], categories=pandas.Index(halves[:3]))
    for column, expected in (
        (pandas.Series(halves), {"a": "1", "b": "2", "None": "1"}),
        (pandas.Series(categories), {"a": "1", "b": "1", "None": "2"}),
        (pandas.Series(pandas.Categorical(["a", 7, None, 7])), {"a": "1", "7": "2", "None": "1"}),
    ):
        frame = pandas.DataFrame({"id": range(len(column)), "h": column})
        assert Counter(counted(DuckDBEngine.open(frame), "h")) == expected


# Errors.


@pytest.mark.long
def test_errors_of_scan_hold_no_value(tmp_path):
    secret = "SECRET_OF_A_ROW"
    cast = f"SELECT 1 AS id, CAST('{secret}' || i AS INT) AS x FROM range(3) t(i)"
    lazy = polars.LazyFrame({"id": [1], "x": [secret]}).with_columns(polars.col("x").cast(polars.Int64))
    (tmp_path / "rows.csv").write_bytes(b"\0")
    (tmp_path / "rows.json").write_text(f'{{"{secret}')
    with duckdb.connect(f"{tmp_path}/rows.duckdb") as database:
        database.execute(f"CREATE VIEW v AS {cast}")
    files = tmp_path / "rows.csv", tmp_path / "rows.json", f"{tmp_path}/rows.duckdb/v"
    for source in (duckdb.connect().sql(cast), lazy, *files):
        with pytest.raises(SfumatoError) as caught:
            statistics(DuckDBEngine.open(source), "CAST(x AS VARCHAR)", others=False)
        error: BaseException | None = caught.value
        while error is not None:
            assert secret not in str(error)
            error = error.__context__ or error.__cause__
