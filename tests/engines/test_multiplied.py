"""Public tables that multiply rows: how often they have a key is looked at before anything is paid or read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
import sfumato.beam
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import QueryError, SqlError
from sfumato.query.schema import Derive, Filter

pytestmark = pytest.mark.noise_cannot_matter("questions are refused, or their noise is not looked at")

ROWS = pa.table({"id": [1, 1, 2], "k": [1, 2, 1]})
TENS = pa.table({"k": [1] * 10 + [2] * 3 + [None] * 40, "v": range(53)})


def visits() -> sf.Table:
    return sf.scan(ROWS, privacy_unit="id")


def refused(table: sf.Table, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        table.agg(n=sf.count_units()).release(epsilon=1)


floats = st.sampled_from([0.0, -0.0, float("nan"), 1.5, None])


@given(st.lists(st.tuples(floats, st.sampled_from(["a", "A", "", None]), st.integers(0, 3)), max_size=25))
@settings(max_examples=20, deadline=None)
def test_the_most_rows_of_a_key_are_those_of_the_definition(rows: list[tuple[Any, str | None, int]]) -> None:
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(KINDS)]
    engine = DuckDBEngine.open(pa.table(columns, ["x", "t", "i"]))

    def value(x: Any) -> Any:
        return "nan" if x != x else x + 0.0  # 0.0 and -0.0 are equal, and all NaN

    def most(keys: Any) -> int:
        return max(Counter(keys).values(), default=0)

    assert engine.max_equal_rows(["x"]) == most(value(x) for x, _, _ in rows if x is not None)
    assert engine.max_equal_rows(["t"]) == most(t for _, t, _ in rows if t is not None)
    both = [(value(x), t) for x, t, _ in rows if x is not None and t is not None]
    assert engine.max_equal_rows(["x", "t"]) == most(both)
    steps = (Filter("i > 1"), Derive("j", "i % 2"))
    assert engine.max_equal_rows(["j"], steps) == most(i % 2 for _, _, i in rows if i > 1)


KINDS = pa.float64(), pa.string(), pa.int64()


def test_a_chain_makes_the_product() -> None:
    tens = sf.public(TENS)
    five = visits().bound(rows=1)
    for _ in range(5):
        five = five.join(tens, on="k")
    assert five.agg(n=sf.count_units()).release(epsilon=1).to_arrow().num_rows == 1  # 100,000 of one
    six = five.join(tens, on="k")
    refused(
        six,
        "one row could become 1,000,000 rows, but the limit is 100,000, .* up to 10 rows with the same k, and joins before it make 100,000 of one",
    )
    raised = five.join(tens, on="k", unit_rows=10**6).agg(n=sf.count_units())
    assert raised.plan(epsilon=1).epsilon == 1
    raised.table._engine.check_release(raised.plan(epsilon=1), None)
    refused(
        visits().join(tens, on="k", unit_rows=9),
        "become 10 rows, but the limit is 9, .*up to 10 rows with the same k. Join",
    )


def test_what_stands_around_the_joins() -> None:
    tens = sf.public(TENS)
    joined = visits().join(tens, on="k", unit_rows=50)
    again = joined.join(tens, on="k", unit_rows=50)
    refused(again.filter("v > 3"), "become 100 rows")
    refused(again.union(again), "become 100 rows")
    refused(visits().join(again, on="id"), "become 100 rows")
    refused(again.per_unit(n="count(*)"), "become 100 rows")
    # One row of a unit is one again, where it is not put apart by what was joined.
    alone = joined.per_unit(k="min(k)").join(tens, on="k", unit_rows=50)
    assert alone.agg(n=sf.count_units()).release(epsilon=1).to_arrow().num_rows == 1
    refused(joined.per_unit("k", n="count(*)").join(tens, on="k", unit_rows=50), "become 100 rows")
    # A join of private tables has its own limit.
    both = joined.join(joined, on="id").join(tens.filter("v < 5"), on="k", unit_rows=50)
    assert both.agg(n=sf.count_units()).release(epsilon=1).to_arrow().num_rows == 1


def test_whatever_is_asked() -> None:
    tens = sf.public(TENS)
    table = visits().join(tens, on="k", unit_rows=9)
    with pytest.raises(QueryError, match="become 10 rows"):
        table.top("v", k=1, keys=[1, 2, 3]).release(epsilon=1)
    text = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, max_rows_per_group = 1{})
        COUNT(*) AS n FROM visits JOIN tens ON visits.k = tens.k"""
    tables = {"visits": ROWS, "tens": tens}
    assert sf.sql(text.format(""), tables=tables).to_arrow().num_rows == 1
    with pytest.raises((SqlError, QueryError), match="become 10 rows.* in SQL max_joined_rows"):
        sf.sql(text.format(", max_joined_rows = 9"), tables=tables)


def test_nothing_private_is_read_and_nothing_is_paid(tmp_path: Any) -> None:
    pq.write_table(ROWS, tmp_path / "visits.parquet")
    table = sf.scan(str(tmp_path / "visits.parquet"), privacy_unit="id").join(
        sf.public(TENS), on="k", unit_rows=9
    )
    (tmp_path / "visits.parquet").unlink()  # who reads it meets an EngineError
    ledger = sf.Ledger(tmp_path / "budget.db")
    ledger.create("clinic", epsilon=1)
    for budget in (ledger.budget("clinic"), sf.Budget(epsilon=1)):
        with pytest.raises(QueryError, match="become 10 rows"):
            table.bound(rows=1).agg(n=sf.count()).release(epsilon=1, budget=budget)
        assert budget.spent == (0, 0)
