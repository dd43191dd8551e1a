"""Joined rows of one unit: held to a definition that counts them one by one, and never made beyond the limit."""

import resource
import time
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.query import sizes

from .made_rows import rows_of, table

LEFT = pa.schema({"id": pa.int64(), "k": pa.int64(), "x": pa.int64()})
RIGHT = pa.schema({"id": pa.int64(), "k": pa.int64(), "y": pa.int64()})
units, keys = st.sampled_from([1, 2, 3, None]), st.sampled_from([1, 2, None])
some_rows = st.lists(st.tuples(units, keys, st.integers(0, 9)), max_size=18)


def opened(left: Any, right: Any) -> tuple[sf.Table, sf.Table]:
    made = (table(schema, rows) for schema, rows in ((LEFT, left), (RIGHT, right)))
    first, second = (sf.scan(rows, privacy_unit="id") for rows in made)
    return first, second


def defined(left: Any, right: Any, most: int, how: str, on: int) -> Counter[tuple[Any, ...]]:
    """Return what is joined: unit by unit, row by row, in the order of DuckDB's hash of a row's columns."""

    def order(row: Any) -> Any:
        return duckdb.execute("SELECT hash(?::BIGINT, ?::BIGINT, ?::BIGINT)", list(row)).fetchall()

    found: Counter[tuple[Any, ...]] = Counter()
    for unit in {row[0] for row in left} - {None}:
        own, others = ([row for row in rows if row[0] == unit] for rows in (left, right))
        limit, made = max(most, len(own), len(others)), 0
        for row in sorted(own, key=order):
            met = [other for other in others if None not in row[:on] and row[:on] == other[:on]]
            joined = [(*row, *other[on:]) for other in met]
            if not met and how == "left":
                joined = [(*row, *[None] * (len(RIGHT) - on))]
            made += len(joined)
            if made > limit:
                break
            found.update(joined)
    return found


MANY = [(1, 1, i) for i in range(5)] + [(2, 1, i) for i in range(4)] + [(3, 2, 1)]


@example(MANY, MANY, 9, "inner", 1)
@example(MANY, MANY, 17, "inner", 1)
@given(some_rows, some_rows, st.integers(1, 12), st.sampled_from(["inner", "left"]), st.integers(1, 2))
@settings(max_examples=5, deadline=None)
def test_joined_rows_are_those_of_the_definition(left, right, most, how, on):
    first, second = opened(left, right)
    asked = first.join(second, on=["id", "k"][:on], how=how, unit_rows=most)
    assert rows_of(asked) == defined(left, right, most, how, on)


@pytest.mark.long
def test_five_rows_of_one_unit_joined_again_and_again_take_nothing():
    one = sf.scan(pa.table({"id": [1] * 5 + [2], "x": range(6)}), privacy_unit="id")
    sides = {"left": one, "right": one, "both": one}
    began = time.process_time()
    for _ in range(6):
        sides["left"] = sides["left"].join(one, on="id")
        sides["right"] = one.join(sides["right"], on="id")
    for _ in range(4):
        sides["both"] = sides["both"].join(sides["both"], on="id")
    for asked in sides.values():
        plan = asked.bound(rows=10**9).agg(n=sf.count()).plan(epsilon=1)
        (batch,) = asked._engine.statistics(plan.exact, 100)
        assert 1000 < int(str(batch.column(0)[0])) <= 100_000 + 1
    assert time.process_time() - began < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3 << 20


@pytest.mark.long
def test_a_unit_with_more_rows_than_the_limit_keeps_them_where_they_do_not_grow():
    left, right = ([(1, i, i) for i in range(40)] for _ in range(2))
    first, second = opened(left, right)
    assert rows_of(first.join(second, on=["id", "k"], unit_rows=7)).total() == 40
    assert rows_of(first.join(second, on="id", unit_rows=7)).total() == 40
    assert rows_of(first.join(second.per_unit(n="count(*)"), on="id", unit_rows=1)).total() == 40


@pytest.mark.parametrize("few", [1, 10**9])
def test_units_are_found_in_buckets_or_not(few, monkeypatch, tmp_path):
    monkeypatch.setattr(sizes, "COUNTED_ROWS", few)
    rows = pa.table({"id": [i for i in range(200) for _ in range(i % 5 + 1)], "n": range(600)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    one, other = (sf.scan(tmp_path / "rows.parquet", privacy_unit="id") for _ in range(2))
    met = Counter(row[0] for row in rows_of(one.join(other, on="id", unit_rows=12)).elements())
    assert met == {i: {1: 1, 2: 4, 3: 9, 4: 12, 5: 10}[i % 5 + 1] for i in range(200)}
