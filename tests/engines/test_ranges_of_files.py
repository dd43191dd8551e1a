"""Whether a row passes a condition follows from the row: not from the smallest and largest value beside it.

A file of Parquet names both for each part of it, and leaves out NaN, which DuckDB takes for larger than any
number. It skips parts of a file by them, and works out whole conditions before it reads anything.
"""

from __future__ import annotations

import math
import re

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import harmless

from .made_rows import rows_of

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
    return sorted(row[0] for row in rows_of(table).elements())


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
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_passes_whatever_is_beside_it(kind, view, tmp_path):
    for by_file, by_rows in told_by_a_file_and_by_the_rows(kind, tmp_path, view):
        assert by_file == by_rows


def test_that_duckdb_believes_what_files_say_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(harmless, "_MISJUDGED", re.compile("(?!)"))
    found = told_by_a_file_and_by_the_rows("double", tmp_path)
    assert any(by_file != by_rows for by_file, by_rows in found)
