"""Public keys, as they are written, in the type of their column: the same values, or an error that says why."""

import datetime
import decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError

pytestmark = pytest.mark.noise_cannot_matter("keys are looked at, not counts")

ROWS = pa.table(
    {
        "id": [1, 2],
        "ubigint": pa.array([2**64 - 1, 1], pa.uint64()),
        "text": ["1", "2"],
        "float": pa.array([0.1, 0.2], pa.float32()),
        "double": [0.1, 0.2],
        "tinyint": pa.array([1, 2], pa.int8()),
        "day": [datetime.date(2020, 1, 1)] * 2,
        "price": pa.array([decimal.Decimal("0.10")] * 2, pa.decimal128(5, 2)),
    }
)
ENGINE = sf.scan(ROWS, privacy_unit="id")._engine


def keys_of(column, values):
    return ENGINE.public_keys([column], values, ()).column(0).to_pylist()


FIT = [
    ("ubigint", [2**64 - 1, 1], [1, 2**64 - 1]),
    ("ubigint", pd.Series([2**64 - 1], dtype=object), [2**64 - 1]),
    ("ubigint", [decimal.Decimal(2**64 - 1)], [2**64 - 1]),
    ("float", [0.1, 0.5], [float(np.float32(0.1)), 0.5]),
    ("float", ["0.1"], [float(np.float32(0.1))]),
    ("double", [0.1, 1], [0.1, 1.0]),
    ("tinyint", [1.0, 2.0], [1, 2]),
    ("text", pd.Series(["1"], dtype="category"), ["1"]),
    ("text", pa.array(["1"]).dictionary_encode(), ["1"]),
    ("text", [None], [None]),
    ("day", ["2020-01-01"], [datetime.date(2020, 1, 1)]),
    ("day", [datetime.datetime(2020, 1, 1)], [datetime.date(2020, 1, 1)]),
    ("price", [0.1], [decimal.Decimal("0.10")]),
]


def test_keys_that_fit():
    for column, values, keys in FIT:
        assert keys_of(column, values) == keys


UNFIT = [
    ("ubigint", [2**64], "'18446744073709551616', which does not fit ubigint"),
    ("ubigint", [-1], "'-1', which does not fit ubigint"),
    ("float", [0.123456789012], "'0.123456789012', which does not fit float"),
    ("double", [2**53 + 1], "'9007199254740993', which does not fit double"),
    ("tinyint", [1.5], "'1.5', which does not fit tinyint"),
    ("text", [1, 2], "type int64, but text is text.*Give texts, such as '1'"),
    ("text", [1.5], "type double, but text is text"),
    ("day", [datetime.datetime(2020, 1, 1, 5)], "'2020-01-01 05:00:00', which does not fit day"),
    ("price", [decimal.Decimal("0.123")], "does not fit price"),
]


def test_keys_that_do_not_fit():
    for column, values, told in UNFIT:
        with pytest.raises(QueryError, match=f"keys= .*{told}"):
            keys_of(column, values)


def test_keys_that_are_equal_are_one_group(tmp_path):
    """Zeros of both signs are, and all NaN; texts are not that the collation of their column takes for equal."""
    with duckdb.connect(f"{tmp_path}/rows.db") as made:
        made.execute("CREATE TABLE t (id INTEGER, x DOUBLE, s VARCHAR COLLATE NOCASE)")
        made.execute("INSERT INTO t VALUES (1, -0.0, 'A'), (2, 0.0, 'a'), (3, 'nan', 'b'), (4, '-nan', 'b')")
    table = sf.scan(f"{tmp_path}/rows.db/t", privacy_unit="id")
    for key, values in (("x", ["0.0", "nan"]), ("s", ["A", "a", "b"])):
        asked = table.group_by(key).bound(groups=1).agg(n=sf.count_units())
        found = table._engine.statistics(asked.plan(epsilon=1, delta="1e-6").exact, 9)
        assert sorted(str(row[key]) for batch in found for row in batch.to_pylist()) == values


# Names, whatever their case.

PUBLIC = sf.public(pa.table({"text": ["1", "2"], "town": ["A", "B"]}))
TEXT = (
    "WITH x AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = ID, "
    "max_groups_contributed = 1) COUNT(*) AS n FROM VISITS) SELECT n FROM x JOIN {} ON true"
)


def test_a_private_table_is_not_read_as_a_public_one_by_its_case():
    for name in ("visits", "Visits", "ORDERS"):
        with pytest.raises(QueryError, match="is a private table"):
            sf.sql(TEXT.format(name), tables={"visits": ROWS, "orders": ROWS, "Orders": PUBLIC})
