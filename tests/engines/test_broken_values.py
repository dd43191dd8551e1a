"""Values at which DuckDB's reader of Parquet stops count as NULL, whatever else is in the file."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import sanitized_columns

from .tiers import some

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


def counted(path, broken: int, nulls: int, good: int, kind: str, question) -> int:
    rows = pa.table({"id": range(broken + nulls + good), "x": column(kind, broken, nulls, good)})
    pq.write_table(rows, path, row_group_size=SIZE)
    asked = question(sf.scan(path, privacy_unit="id").bound(rows=1))
    query = asked.plan(epsilon=1, noise="laplace").exact
    (batch,) = asked.table._engine.statistics(query, 10)
    return int(batch.column(0)[0].as_py()) >> -query.statistics[0].exponent


COUNT_NULL = ("IS NULL", "derived", "per unit", "by unit and x")
LEAST = {"VARCHAR": "x >= ''", "TIME": "x >= TIME '00:00:00'", "TIMESTAMP": "x > TIMESTAMP '1960-01-01'"}
QUESTIONS = {
    "IS NULL": lambda t: t.filter("x IS NULL").agg(n=sf.count()),
    "IS NOT NULL": lambda t: t.filter("x IS NOT NULL").agg(n=sf.count()),
    "not IS NULL": lambda t: t.filter("NOT (x IS NULL)").agg(n=sf.count()),
    "is itself": lambda t: t.filter("x = x").agg(n=sf.count()),
    "in CASE": lambda t: t.filter("CASE WHEN x IS NULL THEN FALSE ELSE TRUE END").agg(n=sf.count()),
    "derived": lambda t: t.with_columns(y="x IS NULL").filter("y").agg(n=sf.count()),
    "compared": lambda t: t.filter(LEAST[t.schema["x"].type_name]).agg(n=sf.count()),
    "count": lambda t: t.agg(n=sf.count("x")),
    "per unit": lambda t: t.per_unit(n="count(x)").filter("n = 0").bound(rows=1).agg(n=sf.count()),
    "by unit and x": lambda t: t.per_unit("x", n="count(*)").filter("x IS NULL").bound(rows=1).agg(n=sf.count()),
}  # fmt: skip


@pytest.mark.parametrize("kind", some(["text", "time", "timestamp"], 3))
@pytest.mark.parametrize("name", QUESTIONS)
def test_one_more_unit_changes_one(name, kind, tmp_path):
    question, path = QUESTIONS[name], tmp_path / "rows.parquet"
    before = counted(path, 3 * SIZE, 0, 0, kind, question)
    for nulls, good in ((1, 0), (0, 1)):
        after = counted(path, 3 * SIZE, nulls, good, kind, question)
        assert abs(after - before) <= 1, (before, after)
    if kind != "timestamp":  # which are infinite there
        assert before == (3 * SIZE if name in COUNT_NULL else 0)


@pytest.mark.parametrize(
    "missing", ["x IS NULL", "x.a IS NULL", "NOT (x.a IS NOT NULL)", "coalesce(x.a, '') = ''"]
)
def test_one_more_unit_changes_one_where_the_text_is_in_a_struct(missing, tmp_path):
    found = []
    for nulls in (0, 1, SIZE):
        rows = pa.StructArray.from_arrays([column("text", SIZE, nulls, 0)], ["a"])
        pq.write_table(pa.table({"id": range(len(rows)), "x": rows}), tmp_path / "rows.parquet")
        table = sf.scan(tmp_path / "rows.parquet", privacy_unit="id").filter(missing)
        asked = table.bound(rows=1).agg(n=sf.count())
        query = asked.plan(epsilon=1, noise="laplace").exact
        (batch,) = asked.table._engine.statistics(query, 10)
        found.append(int(batch.column(0)[0].as_py()) >> -query.statistics[0].exponent)
    assert found in ([0, 0, 0], [SIZE, SIZE + 1, 2 * SIZE])


def test_what_files_say_of_themselves_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sanitized_columns, "_STOPPING", ())
    question, path = QUESTIONS["IS NULL"], tmp_path / "rows.parquet"
    before, after = (counted(path, 3 * SIZE, nulls, 0, "text", question) for nulls in (0, 1))
    assert after - before > 1


KINDS = (
    "BOOLEAN", "TINYINT", "UBIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(18,3)",
    "DECIMAL(38,38)", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S",
    "TIMESTAMP_MS", "TIMESTAMP_NS", "TIME_NS", "UUID", "JSON", "ENUM('a')", "ENUM('a')[]", "INTEGER[]",
)  # fmt: skip


@pytest.mark.parametrize("check_text", [False, True])
def test_types_that_are_not_looked_up_again_are_kept(check_text):
    kept = 0
    with duckdb.connect() as connection:
        for kind in KINDS:
            connection.execute(f"CREATE OR REPLACE TABLE rows (x {kind})")
            kinds = sanitized_columns.described(connection, "rows")
            inside, found = sanitized_columns.within(
                connection, "rows", kinds, check_text=check_text, decoded=False
            )
            assert found == sanitized_columns.described(connection, inside)
            kept += sanitized_columns._KEPT.fullmatch(kinds[0][1]) is not None
    assert kept == 16
