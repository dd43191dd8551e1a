"""Whatever is inside of lists, structs and maps: nothing raises, and the rows of others stay as they are."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.sanitized_columns import described, sanitized, within_types
from sfumato.errors import ColumnError, SfumatoError
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Derive, Filter
from sfumato.transformations import Count

pytestmark = pytest.mark.long

LEAST, MOST = -(2**63), 2**63 - 1
STAMP, ZONED, CLOCK = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("us")
# Type, a value of the others, and one that stopped DuckDB.
VALUES = {
    "a key twice": (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", 1), ("a", 2)]),
    "zeros of both signs": (pa.map_(pa.float64(), pa.int64()), [(1.5, 1)], [(0.0, 1), (-0.0, 1)]),
    "a map in a struct in a list": (
        pa.list_(pa.struct({"m": pa.map_(pa.binary(), pa.int64())})),
        [{"m": [(b"a", 1)]}, {"m": []}, None],
        [{"m": [(b"a", 1), (b"b", 1), (b"a", None)]}],
    ),
    "a list of times": (pa.list_(STAMP), [1, None], [LEAST]),
    "a fixed list of times": (pa.list_(STAMP, 2), [1, None], [5, LEAST]),
    "a map to times": (pa.map_(pa.string(), STAMP), [("a", 1)], [("a", LEAST), ("b", 1)]),
    "a map of times": (pa.map_(ZONED, STAMP), [(1, 1)], [(LEAST, 1), (2, 2)]),
    "a struct of times": (pa.struct({'a" b': STAMP, "c": CLOCK}), {'a" b': 1, "c": 1}, {'a" b': LEAST, "c": MOST}),
    "times of day": (pa.list_(CLOCK), [1], [MOST]),
    "times of day in a map in a list": (
        pa.list_(pa.map_(pa.string(), pa.list_(CLOCK))),
        [[("a", [1])]],
        [[("a", [-1])], None],
    ),
    "times of day in nanoseconds": (pa.list_(pa.time64("ns")), [1], [-1]),
}  # fmt: skip
QUERIES = ["v IS NULL", "CAST(v AS VARCHAR) <> ''", "CAST(v AS JSON) IS NOT NULL", "v = v"]


def rows_with(kind: pa.DataType, values: list) -> pa.Table:
    return pa.table({"id": range(len(values)), "v": pa.array(values, kind)})


def counted(engine, condition: str) -> dict[str, str]:
    """Count the others' rows for which a condition holds, does not, and is NULL."""
    steps = (Filter("id <> 4"), Derive("k", f"CAST({condition} AS VARCHAR)"))
    query = ExactQuery(steps, "id", ("k",), None, 100, (Count(100),))
    rows = [row for batch in engine.statistics(query, 100) for row in batch.to_pylist()]
    return {str(row["k"]): str(list(row.values())[-1]) for row in rows}


def in_table(rows: pa.Table, folder) -> DuckDBEngine:
    return DuckDBEngine.open(rows)


def as_relation(rows: pa.Table, folder) -> DuckDBEngine:
    connection = duckdb.connect()
    connection.register("given", rows)
    return DuckDBEngine.open(connection.sql("FROM given"))


def in_parquet(rows: pa.Table, folder) -> DuckDBEngine:
    pq.write_table(rows, folder / "rows.parquet")
    return DuckDBEngine.open(str(folder / "rows.parquet"))


@cache
def counted_without(what: str) -> list[dict[str, str]]:
    """Count the others' rows where a good value stands in the place of the bad one."""
    kind, good, _ = VALUES[what]
    engine = in_table(rows_with(kind, [good, None, good, good, good, good, good]), None)
    return [counted(engine, condition) for condition in QUERIES]


@pytest.mark.parametrize("what", VALUES)
@pytest.mark.parametrize("opened", [in_table, as_relation, in_parquet], ids=lambda f: f.__name__)
def test_a_value_inside_of_another(opened, what, tmp_path):
    kind, good, bad = VALUES[what]
    if opened is as_relation and "map" in str(kind) and what not in ("a map to times", "a map of times"):
        pytest.skip("the relation itself stops")
    engine = opened(rows_with(kind, [good, None, good, good, bad, good, good]), tmp_path)
    for condition, expected in zip(QUERIES, counted_without(what), strict=True):
        found = counted(engine, condition)
        assert sum(map(int, found.values())) == 6
        assert found == expected


@pytest.mark.parametrize("what", VALUES)
def test_on_each_engine(what, engine):
    kind, good, bad = VALUES[what]
    found = opened = None
    with suppress(SfumatoError, NotImplementedError, pa.ArrowInvalid, PySparkException):
        opened = engine(rows_with(kind, [good, None, good, good, bad, good, good]))
    if opened is not None:  # what Spark takes into no frame of its own does not come
        found = counted(opened, QUERIES[1])
        assert found == {"true": "5", "None": "1"}


def test_maps_in_slices_and_under_nulls():
    kind = pa.map_(pa.string(), pa.int64())
    values = [[("a", i)] * (1 + (i % 3 == 0)) if i % 5 else None for i in range(100)]
    column = pa.array(values, kind)
    expected = [value if value and len(value) == 1 else None for value in values]
    assert sanitized(column).to_pylist() == expected
    assert sanitized(column.slice(7, 50)).to_pylist() == expected[7:57]
    inside = pa.ListArray.from_arrays(np.arange(0, 101, 2), column)
    pairs = [values[i : i + 2] for i in range(0, 100, 2)]
    sound = [[value if value and len(value) == 1 else None for value in pair] for pair in pairs]
    assert sanitized(inside.slice(3)).to_pylist() == sound[3:]


def test_what_is_sound_stays():
    with duckdb.connect() as connection:
        for kind, good, _ in VALUES.values():
            rows = rows_with(kind, [good, None])
            connection.register("given", rows)
            kinds = described(connection, "given")
            relation = within_types("given", kinds)
            assert described(connection, relation) == kinds
            both = (connection.execute(f"SELECT v FROM {what}").fetchall() for what in ("given", relation))
            assert next(both) == next(both)


def test_a_list_of_decimals_is_no_number():
    rows = pa.table({"id": [1], "v": pa.array([[Decimal(1)]], pa.list_(pa.decimal128(9, 2)))})
    asked = sf.scan(rows, privacy_unit="id")
    for ask in (
        lambda: asked.bound(rows=1).agg(s=sf.sum("v", lower=0, upper=3)),
        lambda: asked.group_by("v"),
        lambda: sf.scan(rows, privacy_unit="v"),
    ):
        with pytest.raises(ColumnError, match=r"'v'.* is DECIMAL\(9,2\)\[\]"):
            ask()
