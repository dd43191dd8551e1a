"""Whether a row passes a condition follows from the row: not from the smallest and largest value beside it.

A file of Parquet names both for each part of it, and leaves out NaN, which DuckDB takes for larger than any
number. It skips parts of a file by them, and works out whole conditions before it reads anything.
"""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import sanitized_columns
from sfumato.engines.duckdb.sources import of_fields

from .made_rows import rows_of
from .tiers import some

NAN = math.nan
VALUES = [NAN, 0.0, 5.0, None, NAN, -0.0, math.inf, -math.inf, 2.0]
KINDS = {
    "double": (pa.float64(), lambda v: v, "x"),
    "float": (pa.float32(), lambda v: v, "x"),
    "struct": (pa.struct([("a", pa.float64())]), lambda v: {"a": v}, "x.a"),
    "list": (pa.list_(pa.float32()), lambda v: [v], "x[1]"),
}
CONDITIONS = ["{} > 9", "{} >= 1", "{} = 'nan'::DOUBLE", "{} <> 0", "{} + 1 > 9", "NOT ({} <= 9)",
              "{} NOT BETWEEN -9 AND 9", "{} IN (2, 'nan'::DOUBLE)", "CASE WHEN {} > 9 THEN true END"]  # fmt: skip


def passing(rows, condition):
    table = sf.scan(rows, privacy_unit="id").sql(f"SELECT id FROM self WHERE {condition}")
    return sorted(row[0] for row in rows_of(table, reordered=False).elements())


def told_by_a_file_and_by_the_rows(kind, folder, view=False):
    """Return which rows pass, by conditions: of a file in parts, and of a table in memory."""
    of_type, made, column = KINDS[kind]
    values = pa.array([v if v is None else made(v) for v in VALUES], of_type)
    table = pa.table({"id": range(len(VALUES)), "x": values})
    file = str(folder / "rows.parquet")
    pq.write_table(table, file, row_group_size=3)
    if view:
        with duckdb.connect(str(folder / "views.duckdb")) as there:
            there.execute(f"CREATE VIEW v AS FROM '{file}'")
        file = str(folder / "views.duckdb/v")
    conditions = [one.format(column) for one in CONDITIONS]
    return [(passing(file, condition), passing(table, condition)) for condition in conditions]


@pytest.mark.parametrize("view", [False, True], ids=["file", "view"])
@pytest.mark.parametrize("kind", some(KINDS, 3))
def test_a_row_passes_whatever_is_beside_it(kind, view, tmp_path):
    for by_file, by_rows in told_by_a_file_and_by_the_rows(kind, tmp_path, view):
        assert by_file == by_rows


@pytest.fixture
def unguarded(monkeypatch):
    """Floats as they are; what is remembered of schemas is forgotten before and after."""
    of_fields.cache_clear()
    monkeypatch.setattr(sanitized_columns, "FLOATS", frozenset())
    yield
    of_fields.cache_clear()


@pytest.mark.usefixtures("unguarded")
def test_that_duckdb_believes_what_files_say_would_be_found(tmp_path):
    found = told_by_a_file_and_by_the_rows("double", tmp_path)
    assert any(by_file != by_rows for by_file, by_rows in found)


@pytest.mark.parametrize("kind", ["table", "file", "text", "relation", "database"])
@pytest.mark.parametrize(
    "condition", ["CAST(x AS VARCHAR) = '-nan'", "CAST(x AS VARCHAR) <> 'nan'", "length(x || '') = 4"]
)
def test_all_nan_are_one_whatever_is_beside_them(kind, condition, tmp_path):
    negative = np.array([0xFFF8 << 48] * 6, np.uint64).view(np.float64)
    found = []
    for values in (negative, [*negative, 1.0], [*negative, NAN]):
        rows = pa.table({"id": range(len(values)), "x": values})
        path = str(tmp_path / f"{kind}{len(found)}")
        source: object = rows
        if kind == "file":
            source = f"{path}.parquet"
            pq.write_table(rows, source)
        elif kind == "text":
            source = f"{path}.csv"
            lines = [
                "id,x",
                *(f"{i},{'1.0' if v == 1 else '-nan' if i < 6 else 'nan'}" for i, v in enumerate(values)),
            ]
            Path(source).write_text("\n".join(lines) + "\n")
        elif kind == "relation":
            source = duckdb.connect().from_arrow(rows)
        elif kind == "database":
            source = f"{path}.duckdb/t"
            with duckdb.connect(f"{path}.duckdb") as there:
                there.execute("CREATE TABLE t AS FROM rows")
        types = {"id": "BIGINT", "x": "DOUBLE"} if kind == "text" else None
        opened = sf.scan(source, privacy_unit="id", types=types)
        asked = opened.sql(f"SELECT id FROM self WHERE {condition}")
        found.append({row[0] for row in rows_of(asked).elements()} & set(range(6)))
    assert found[0] == found[1] == found[2]
