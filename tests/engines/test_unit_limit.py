"""Joined rows of one unit: held to a definition that counts them one by one, and never made beyond the limit."""

from __future__ import annotations

import resource
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.duckdb import combinations
from sfumato.errors import ParameterError
from sfumato.query import sizes

from .made_rows import rows_of, table
from .test_combined_on_workers import LocalEngine

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


@given(some_rows, some_rows, st.integers(1, 12), st.sampled_from(["inner", "left"]), st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_joined_rows_are_those_of_the_definition(left, right, most, how, on):
    first, second = opened(left, right)
    asked = first.join(second, on=["id", "k"][:on], how=how, unit_rows=most)
    assert rows_of(asked) == defined(left, right, most, how, on)


MANY = [(1, 1, i) for i in range(5)] + [(2, 1, i) for i in range(4)] + [(3, 2, 1)]


def differs() -> bool:
    """Whether joined rows are not those of the definition, for a few tables."""
    first, second = opened(MANY, MANY)
    for most in (5, 9, 17):
        asked = first.join(second, on="id", unit_rows=most).union(first.join(second, on="id", unit_rows=99))
        limited, whole = (defined(MANY, MANY, one, "inner", 1) for one in (most, 99))
        if rows_of(asked) != limited + whole:
            return True
    return False


def of_all_units(monkeypatch):
    real = combinations.UnitLimit.kept
    monkeypatch.setattr(
        combinations.UnitLimit, "kept", lambda self: real(self).replace(f"PARTITION BY {self._unit} ", "")
    )


def behind_the_join(monkeypatch):
    """The first joined rows of a unit, in whichever order they come."""

    def joined(how, left, right, resources):
        found = combinations_joined(replace(how, unit_rows=10**6), left, right, resources)
        text = f"(FROM {found.relation} QUALIFY row_number() OVER (PARTITION BY id ORDER BY y) <= {how.unit_rows})"
        return replace(found, relation=text, looked=lambda session: text)

    combinations_joined = combinations.joined
    monkeypatch.setattr(combinations, "joined", joined)


def one_more(monkeypatch):
    real = combinations.UnitLimit.kept
    monkeypatch.setattr(
        combinations.UnitLimit, "kept", lambda self: real(self).replace("<= most", "<= most + 5")
    )


def never(monkeypatch):
    monkeypatch.setattr(
        combinations.UnitLimit, "look", lambda self: "wide AS (SELECT 1) FROM wide WHERE false"
    )
    monkeypatch.setattr(combinations.UnitLimit, "kept", lambda self: "FROM left_rows")


def as_they_come(monkeypatch):
    """In the order of rows' values backwards: it is not that of the definition."""
    real = combinations.UnitLimit.kept
    monkeypatch.setattr(
        combinations.UnitLimit, "kept", lambda self: real(self).replace("ORDER BY hash(", "ORDER BY -hash(")
    )


def test_no_defect_is_there():
    assert not differs()


@pytest.mark.parametrize("plant", [of_all_units, behind_the_join, one_more, never, as_they_come])
def test_planted_defects_are_found(monkeypatch, plant):
    plant(monkeypatch)
    try:
        assert differs()
    except (AssertionError, duckdb.Error):
        return  # rows of the one form are not those of the other


@given(some_rows, some_rows, st.sets(st.sampled_from([1, 2, 3])), st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_rows_of_some_units_are_the_same_without_the_others(left, right, chosen, most):
    def made(one: Any, other: Any) -> Counter[tuple[Any, ...]]:
        first, second = opened(one, other)
        twice = first.join(second, on="id", unit_rows=most).join(second, on=["id", "k"], unit_rows=most)
        return rows_of(twice.union(twice), reordered=False)

    parts = [
        made(*([row for row in rows if (row[0] in chosen) is of] for rows in (left, right)))
        for of in (True, False)
    ]
    assert made(left, right) == parts[0] + parts[1]


def test_five_rows_of_one_unit_joined_again_and_again_take_nothing():
    one = sf.scan(pa.table({"id": [1] * 5 + [2], "x": range(6)}), privacy_unit="id")
    sides = {"left": one, "right": one, "both": one}
    began = time.process_time()
    for _ in range(10):
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


@pytest.mark.parametrize("seed", range(3))
def test_on_workers_the_same_rows_are_kept(seed):
    from .test_combined_on_workers import Table, statistics

    rows = [((i * 7 + seed) % 4, i % 3, i % 9) for i in range(60)]
    other = [(i % 4, i % 2, i) for i in range(30)]

    def made(engine: Any) -> sf.Table:
        one, two = (Table(engine(table(s, r)), "id") for s, r in ((LEFT, rows), (RIGHT, other)))
        return one.join(two, on="id", unit_rows=20 + seed).join(two, on=["id", "k"], unit_rows=33, how="left")

    assert statistics(made(LocalEngine)) == statistics(
        made(lambda rows: sf.scan(rows, privacy_unit="id")._engine)
    )


@pytest.mark.parametrize("given", [0, -1, 10_000_001, 2.5, "many", True])
def test_other_limits_are_refused(given):
    first, second = opened([], [])
    with pytest.raises(ParameterError, match="unit_rows"):
        first.join(second, on="id", unit_rows=given)


def test_the_limit_is_told_and_is_part_of_the_question():
    first, second = opened([], [])
    asked = [first.join(second, on="id", unit_rows=most).bound(rows=1).agg(n=sf.count()) for most in (7, 8)]
    told = [one.plan(epsilon=1).explain() if hasattr(one.plan(epsilon=1), "explain") else "" for one in asked]
    assert "at most 7 joined rows" in str(asked[0].table.notes) + str(told[0])
    contents = [one.table._engine.content() for one in asked]
    assert contents[0] != contents[1] and contents[0]["table"]["unit_rows"] == 7
