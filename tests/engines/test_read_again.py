"""A Parquet file is read again, by Arrow, where a value stops DuckDB: all other values are what they were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import parquet, sanitized_columns
from sfumato.errors import EngineError

ROWS = 4
MS = [2**63 - 1, 1 - 2**63, 0, 5]
HALF = np.float16(1.5)


def numbers(kind: pa.DataType, values: list[int]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, np.int64))])


def durations(unit: str) -> pa.Array:
    return pa.array([1, 2, 0, 5], pa.duration(unit))


COLUMNS = {
    "times in milliseconds": numbers(pa.timestamp("ms"), MS),
    "times with a zone": numbers(pa.timestamp("ms", "UTC"), MS),
    "times in lists": pa.ListArray.from_arrays([0, 1, 2, 3, 4], numbers(pa.timestamp("ms"), MS)),
    **{f"durations in {unit}": durations(unit) for unit in ("s", "ms", "us", "ns")},
    "durations in structs": pa.StructArray.from_arrays([durations("ms")], ["a"]),
    "durations in lists": pa.array([[1], [2], [], None], pa.list_(pa.duration("us"))),
    "durations in maps": pa.array([[(1, 2)], [(2, 3)], [], None], pa.map_(pa.duration("s"), pa.duration("s"))),
    "halves": pa.array([HALF, None, np.float16("nan"), np.float16(0)], pa.float16()),
    "halves in structs": pa.array([{"a": HALF}, {"a": None}, None, {"a": HALF}], pa.struct([("a", pa.float16())])),
    "halves in lists": pa.array([[HALF], [], None, [None]], pa.list_(pa.float16())),
}  # fmt: skip


def shown(column: pa.Array, stops: bool, path) -> list[tuple[int, str, str]]:
    """Return rows as text; with one more, whose text is not UTF-8, where that is to stop DuckDB."""
    texts = pa.array([b"a"] * ROWS + [b"\xff"] * stops).view(pa.string())
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


@pytest.mark.parametrize("name", COLUMNS)
def test_all_other_values_stay(name, tmp_path):
    before = shown(COLUMNS[name], False, tmp_path / "before.parquet")
    after = shown(COLUMNS[name], True, tmp_path / "after.parquet")
    assert len(before) == ROWS and after == before


@pytest.mark.parametrize("plant", ["types", "infinite times"])
def test_a_reader_that_takes_values_for_others_would_be_found(plant, tmp_path, monkeypatch):
    if plant == "types":
        monkeypatch.setattr(parquet, "_as_duckdb_reads", lambda kind: kind)
    else:
        real = sanitized_columns._fitting

        def fitting(column):
            given = column.view(pa.int64()).to_pylist()
            values = [None if value and abs(value) > 2**62 else value for value in given]
            return real(pa.array(values, pa.int64()).view(column.type))

        monkeypatch.setattr(sanitized_columns, "_fitting", fitting)
    name = "durations in ms" if plant == "types" else "times in milliseconds"
    before = shown(COLUMNS[name], False, tmp_path / "before.parquet")
    assert shown(COLUMNS[name], True, tmp_path / "after.parquet") != before


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1] * ROWS, pa.decimal256(50, 0)),
        pa.array([[1]] * ROWS, pa.list_(pa.decimal256(39, 2))),
        pa.array([[(HALF, 1)]] * ROWS, pa.map_(pa.float16(), pa.int8())),
    ],
)
def test_types_that_are_read_in_two_ways_are_refused_before_a_row_is_read(column, tmp_path):
    pq.write_table(pa.table({"id": range(ROWS), "x": column}), tmp_path / "rows.parquet")
    with pytest.raises(EngineError, match="'x' .* which DuckDB and Arrow read in two ways; cast it"):
        sf.scan(str(tmp_path / "rows.parquet"), privacy_unit="id")
