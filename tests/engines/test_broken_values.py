"""Values of Parquet files: whether a row counts follows from the row, not from others, nor from what a file says of itself.

Values at which DuckDB's reader stops count as NULL; the file is then read again, by Arrow, and all other values are
what they were. A file names the smallest and largest value of each part, without NaN, which DuckDB takes for larger
than any number: it skips parts by them, and works out whole conditions before it reads anything.
"""

import math
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import parquet
from sfumato.errors import EngineError

from .made_rows import rows_of

SIZE = 100


def column(kind: str, broken: int, nulls: int, good: int) -> pa.Array:
    """Return values that are broken, then NULLs, then good ones."""
    many = broken + nulls + good
    valid = pa.array([not broken <= i < broken + nulls for i in range(many)]).buffers()[1]
    if kind == "text":
        sizes = [1 if i < broken or i >= broken + nulls else 0 for i in range(many)]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        data = b"\xff" * broken + b"a" * good
        return pa.Array.from_buffers(pa.string(), many, [valid, pa.py_buffer(offsets), pa.py_buffer(data)])
    whole, beyond = {"time": (np.int32, 2**31 - 1), "timestamp": (np.int64, 2**63 - 1)}[kind]
    values = np.array([beyond] * broken + [0] * nulls + [7] * good, whole)
    typed = pa.time32("ms") if kind == "time" else pa.timestamp("ms")
    return pa.Array.from_buffers(typed, many, [valid, pa.py_buffer(values)])


def counted(path, rows: pa.Array, question) -> int:
    pq.write_table(pa.table({"id": range(len(rows)), "x": rows}), path, row_group_size=SIZE)
    asked = question(sf.scan(path, privacy_unit="id").bound(rows=1))
    query = asked.plan(epsilon=1, noise="laplace").exact
    (batch,) = asked.table._engine.statistics(query, 10)
    return int(batch.column(0)[0].as_py()) >> -query.statistics[0].exponent


COUNT_NULL = ("IS NULL", "derived", "per unit", "by unit and x")
MIN = {"VARCHAR": "x >= ''", "TIME": "x >= TIME '00:00:00'", "TIMESTAMP": "x > TIMESTAMP '1960-01-01'"}
QUESTIONS = {
    "IS NULL": lambda t: t.filter("x IS NULL").agg(n=sf.count()),
    "IS NOT NULL": lambda t: t.filter("x IS NOT NULL").agg(n=sf.count()),
    "derived": lambda t: t.with_columns(y="x IS NULL").filter("y").agg(n=sf.count()),
    "compared": lambda t: t.filter(MIN[t.schema["x"].type_name]).agg(n=sf.count()),
    "count": lambda t: t.agg(n=sf.count("x")),
    "per unit": lambda t: t.per_unit(n="count(x)").filter("n = 0").bound(rows=1).agg(n=sf.count()),
    "by unit and x": lambda t: t.per_unit("x", n="count(*)").filter("x IS NULL").bound(rows=1).agg(n=sf.count()),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("text", ["IS NULL", "count"]),
        *(pytest.param(kind, QUESTIONS, marks=pytest.mark.long) for kind in ("text", "time", "timestamp")),
    ],
)
def test_one_more_unit_changes_one(kind, names, tmp_path):
    for name in names:
        question, path = QUESTIONS[name], tmp_path / f"{name}.parquet"
        before = counted(path, column(kind, 3 * SIZE, 0, 0), question)
        for nulls, good in ((1, 0), (0, 1)):
            after = counted(path, column(kind, 3 * SIZE, nulls, good), question)
            assert abs(after - before) <= 1, (name, before, after)
        if kind != "timestamp":  # which are infinite there
            assert before == (3 * SIZE if name in COUNT_NULL else 0)


# Read again by Arrow.

MS = [2**63 - 1, 1 - 2**63, 0, 5]
HALF = np.float16(1.5)


def times(*zone: str) -> pa.Array:
    return pa.Array.from_buffers(pa.timestamp("ms", *zone), 4, [None, pa.py_buffer(np.array(MS, np.int64))])


def durations(unit: str) -> pa.Array:
    return pa.array([1, 2, 0, 5], pa.duration(unit))


COLUMNS = {
    "times in milliseconds": times(),
    "times in lists": pa.ListArray.from_arrays([0, 1, 2, 3, 4], times()),
    "durations in ms": durations("ms"),
    "durations in maps": pa.array([[(1, 2)], [(2, 3)], [], None], pa.map_(pa.duration("ns"), pa.duration("s"))),
    "halves": pa.array([HALF, None, np.float16("nan"), np.float16(0)], pa.float16()),
    "halves in lists": pa.array([[HALF], [], None, [None]], pa.list_(pa.float16())),
}  # fmt: skip


def shown(column: pa.Array, stops: bool, path) -> list[tuple[int, str, str]]:
    """Return rows as text; with one more, whose text is not UTF-8, where that is to stop DuckDB."""
    texts = pa.array([b"a"] * 4 + [b"\xff"] * stops).view(pa.string())
    column = pa.concat_arrays([column, column.slice(0, 1)]) if stops else column
    pq.write_table(pa.table({"id": range(len(texts)), "x": column, "text": texts}), path)
    table = sf.scan(str(path), privacy_unit="id").sql(
        "SELECT id, CAST(x AS VARCHAR) AS shown, text FROM self WHERE text IS NOT NULL"
    )
    made = table._engine.rows_after(table._part)
    assert made.source.again is not None
    source = made.source.again([name for name, _ in made.source.columns]) if stops else made.source
    with source.session() as session:
        source.load(session, [name for name, _ in source.columns])
        return sorted(session.execute(made.after(source.relation)).fetchall())


@pytest.mark.parametrize("name", ["times in milliseconds", "durations in ms", "halves"])
def test_other_values_are_the_same_when_read_again(name, tmp_path):
    before = shown(COLUMNS[name], False, tmp_path / "before.parquet")
    assert len(before) == 4 and shown(COLUMNS[name], True, tmp_path / "after.parquet") == before


@pytest.mark.long
def test_all_other_values_are_the_same_when_read_again(tmp_path):
    for name, values in COLUMNS.items():
        before = shown(values, False, tmp_path / "before.parquet")
        assert len(before) == 4 and shown(values, True, tmp_path / "after.parquet") == before, name


def test_folders_of_a_partition_are_read_again_too(tmp_path):
    for year, text in ((2020, b"a"), (2021, b"\xff")):
        (tmp_path / f"year={year}").mkdir()
        texts = pa.array([text, b"b"]).view(pa.string())
        pq.write_table(pa.table({"id": [7, 100], "s": texts}), tmp_path / f"year={year}" / "rows.parquet")
    table = sf.scan(f"{tmp_path}/*/*.parquet", privacy_unit="id").group_by("year", "s").bound(groups=9)
    plan = table.agg(n=sf.count_units()).plan(epsilon=1, delta="1e-6")
    found = {
        (row["year"], row["s"]) for b in table._engine.statistics(plan.exact, 9) for row in b.to_pylist()
    }
    assert found == {(2020, "a"), (2020, "b"), (2021, "b"), (2021, None)}


def test_types_that_are_read_in_two_ways_are_refused_before_a_row_is_read(tmp_path):
    for values in (
        pa.array([1], pa.decimal256(50, 0)),
        pa.array([[1]], pa.list_(pa.decimal256(39, 2))),
        pa.array([[(HALF, 1)]], pa.map_(pa.float16(), pa.int8())),
    ):
        pq.write_table(pa.table({"id": [1], "x": values}), tmp_path / "rows.parquet")
        with pytest.raises(EngineError, match="'x' .* which DuckDB and Arrow read differently. Cast it"):
            sf.scan(str(tmp_path / "rows.parquet"), privacy_unit="id")


def test_statistics_of_a_file_prove_what_they_say(tmp_path):
    """Decimals of more digits than their type has: a file's numbers may say so, and each is NULL."""
    path = tmp_path / "rows.parquet"
    for values, missing in (([1, 9999], 0), ([1, 10**4], 1)):
        stored = pa.array([Decimal(v).scaleb(-1) for v in values], pa.decimal128(18, 1))
        pq.write_table(pa.table({"id": [1, 2], "x": stored}), path, store_decimal_as_integer=True)
        # A file says the digits of a column in its footer, in one byte of the type and one of the schema.
        footer = pq.read_metadata(path)
        kinds = [("x", "DECIMAL(4,1)")]
        assert len(parquet.proven_columns([footer], kinds)) == 1 - missing
        assert parquet.proven_columns([footer], [("x", "VARCHAR")]) == frozenset()


# What files say of numbers.

NAN = math.nan
VALUES = [NAN, 0.0, 5.0, None, NAN, -0.0, math.inf, -math.inf, 2.0]
KINDS = {
    "double": (pa.float64(), lambda v: v, "x"),
    "struct": (pa.struct([("a", pa.float64())]), lambda v: {"a": v}, "x.a"),
    "list": (pa.list_(pa.float32()), lambda v: [v], "x[1]"),
}
CONDITIONS = ["{} > 9", "{} = 'nan'::DOUBLE", "{} <> 0", "{} + 1 > 9", "NOT ({} <= 9)", "{} NOT BETWEEN -9 AND 9",
              "{} IN (2, 'nan'::DOUBLE)", "CASE WHEN {} > 9 THEN true END"]  # fmt: skip


def passing(rows, condition):
    table = sf.scan(rows, privacy_unit="id").sql(f"SELECT id FROM self WHERE {condition}")
    return sorted(row[0] for row in rows_of(table, reordered=False).elements())


@pytest.mark.parametrize(
    ("kind", "view"),
    [
        ("double", False),
        *(pytest.param(k, v, marks=pytest.mark.long) for k in KINDS for v in (False, True)),
    ],
)
def test_a_row_passes_whatever_is_beside_it(kind, view, tmp_path):
    of_type, made, name = KINDS[kind]
    values = pa.array([v if v is None else made(v) for v in VALUES], of_type)
    table = pa.table({"id": range(len(VALUES)), "x": values})
    file = str(tmp_path / "rows.parquet")
    pq.write_table(table, file, row_group_size=3)
    if view:
        with duckdb.connect(str(tmp_path / "views.duckdb")) as there:
            there.execute(f"CREATE VIEW v AS FROM '{file}'")
        file = str(tmp_path / "views.duckdb/v")
    for condition in (one.format(name) for one in CONDITIONS):
        assert passing(file, condition) == passing(table, condition), condition


@pytest.mark.long
@pytest.mark.parametrize("kind", ["table", pytest.param("file", marks=pytest.mark.long)])
def test_all_nan_are_one_whatever_is_beside_them(kind, tmp_path):
    negative = np.array([0xFFF8 << 48] * 6, np.uint64).view(np.float64)
    found = []
    for values in (negative, [*negative, 1.0], [*negative, NAN]):
        source: object = pa.table({"id": range(len(values)), "x": values})
        if kind == "file":
            pq.write_table(source, tmp_path / f"{len(found)}.parquet")
            source = tmp_path / f"{len(found)}.parquet"
        opened = sf.scan(source, privacy_unit="id")
        asked = opened.sql("SELECT id FROM self WHERE CAST(x AS VARCHAR) <> 'nan' OR length(x || '') = 4")
        found.append({row[0] for row in rows_of(asked).elements()} & set(range(6)))
    assert found[0] == found[1] == found[2]
