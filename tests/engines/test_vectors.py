"""What each unit adds of vectors is the definition's, to the last step, and in the ball."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import QueryError
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import Ball, VectorCount, VectorSum
from sfumato.transformations.statistics import vector_sum
from sfumato.transformations.statistics.vector_sum import MAX_ENTRIES

LENGTH = 3
RADII = (1, 7, 1000, 2**31 - 1, 2**40)


def rows() -> list[list[float]]:
    random = np.random.default_rng(5)
    small = random.integers(-9, 10, (60, LENGTH)).tolist()
    large = [(random.integers(-(2**31), 2**31, LENGTH) * 2.0**power).tolist() for power in range(0, 60, 3)]
    # Around where a square fills a float, and around whole roots.
    edges = [[2.0**e + d, 2.0**e, 0.0] for e in (26, 31, 51, 52, 53, 62) for d in (-1, 0, 1)]
    return [
        *small,
        *large,
        *edges,
        [float("inf"), 1.0, -2.0],
        [3.0, 4.0, 0.0],
        [8.0, 0.0, 0.0],
        [1.0, 1.0, 0.0],
        [1.0, 1.0, 1.0],
        [7.0, 3.0, 2.0],
        [2.0**52] * 3,
    ]


STATISTICS = [
    VectorSum(f"{ball.value} {radius} {limit}", "v", LENGTH, 0, radius, ball, limit)
    for ball in Ball
    for radius in RADII
    for limit in (None, 1)
]


def added(opened: Any) -> list[dict[str, list[int]]]:
    """What each row's unit adds, each in a group of its own."""
    query = ExactQuery((), "unit", ("unit",), None, 1, tuple(STATISTICS))
    return [row for batch in opened.statistics(query, 1 << 10) for row in batch.to_pylist()]


def table(values: list[list[float]]) -> pa.Table:
    return pa.table({"unit": list(range(len(values))), "v": pa.array(values, pa.list_(pa.float64()))})


def wrong(opened: Any, values: list[list[float]]) -> list[str]:
    """Say which unit adds what the definition does not, or what is outside of the ball."""
    found = []
    for value, row in zip(values, added(opened), strict=True):
        for statistic in STATISTICS:
            got = [int(x) for x in row[statistic.names[0]]]
            if not statistic.ball.holds(got, statistic.radius):
                found.append("outside")
            elif got != list(statistic.contribution([{"v": value}]).values()):
                found.append("another")
    return found


def test_units_add_what_the_definition_says(openers):
    for name in ("duckdb", "stages"):
        assert not wrong(openers(name)(table(rows())), rows())


@pytest.mark.parametrize(
    ("ball", "length"),
    [
        (Ball.L1, 2048),
        *(pytest.param(ball, MAX_ENTRIES, marks=pytest.mark.long) for ball in Ball),
    ],
)
def test_no_vector_of_many_large_entries_stops_a_release(ball, length):
    """The sum of 2,048 entries at the end of their range is beyond 64 bits."""
    values = [[1e300] * length, [-1e300] * (length - 1) + [2.5], [0.5] * length]
    statistic = VectorSum("v", "v", length, -20, 1 << 40, ball, 1)
    query = ExactQuery((), "unit", ("unit",), None, 1, (statistic,))
    answer = pa.Table.from_batches(DuckDBEngine.open(table(values)).statistics(query, 10))
    for value, row in zip(values, answer.to_pylist(), strict=True):
        got = [int(x) for x in row[statistic.names[0]]]
        assert got == list(statistic.contribution([{"v": value}]).values())
        assert ball.holds(got, statistic.radius)


def planted(place: Any, name: str, old: str, new: str) -> Callable[..., Any]:
    source = textwrap.dedent(inspect.getsource(getattr(place, name)))
    assert old in source
    scope = dict(vars(vector_sum))
    exec("from __future__ import annotations\n" + source.replace(old, new), scope)
    return scope[name]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "old", "new", "seen"),
    [
        ("_within_sql", "for by in (2, 1)", "for by in (3, 2, 1)", None),  # one more look below changes nothing
        ("_within_sql", "{above} - {by}) >= {square}", "{above} - {by} + 2) > {square}", "outside"),  # a root below
        ("_within_sql", "room // radius", "room", "stopped"),  # beyond 64 bits
        ("_within_sql", "x * {radius}::BIGINT // {size}", "CAST(round(x * {radius}::DOUBLE / {size}) AS BIGINT)", "outside"),
        ("_within_sql", 'longer = f"{size} > {radius}"', 'longer = f"{size} > {radius + 1}"', "outside"),
        ("_within_sql", "{-FAR_STEPS}), {FAR_STEPS})", "{-FAR_STEPS}), {2 * FAR_STEPS})", "another"),
    ],
)  # fmt: skip
def test_planted_forms_are_seen(openers, monkeypatch, name, old, new, seen):
    from sfumato.errors import EngineError

    monkeypatch.setattr(VectorSum, name, planted(VectorSum, name, old, new))
    try:
        found = wrong(openers("duckdb")(table(rows())), rows())
    except EngineError:
        found = ["stopped"]
    assert (seen in found) if seen else not found


def test_rows_of_any_number_of_units_and_lengths_stop_nothing(engine):
    odd = [None, [], [1.0], [1.0, None, 2.0], [1.0, float("nan"), 2.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 2.0]]
    made = pa.table({"unit": [1] * len(odd), "v": pa.array(odd, pa.list_(pa.float64()))})
    query = ExactQuery((), "unit", (), None, 1, (VectorSum("x", "v", LENGTH, 0, 3, Ball.L2),))
    for rows_ in (made, made.slice(0, 0), made.slice(0, 6)):
        (batch,) = engine(rows_).statistics(query, 10)
        assert [int(x) for x in batch.column(0)[0].as_py()] == ([1, 2, 2] if len(rows_) == 7 else [0, 0, 0])


NAN, INF = float("nan"), float("inf")
ODD = [
    None,
    [],
    [1.0],
    [1.0, None, 2.0],
    [1.0, None, 2.0, 3.0],
    [1.0, NAN, 2.0],
    [NAN] * 3,
    [0.0, INF, 1.0],
    [1.0] * 3,
]


def counted(opened: Callable[[pa.Table], Any]) -> int:
    """How many of the rows of one unit count, in sixteenths, where three of nine may."""
    made = pa.table({"unit": [1] * len(ODD), "v": pa.array(ODD, pa.list_(pa.float64()))})
    statistic = VectorCount("v", LENGTH, 3, -4)
    (batch,) = opened(made).statistics(ExactQuery((), "unit", (), None, 1, (statistic,)), 10)
    (expected,) = statistic.contribution([{"v": v} for v in ODD]).values()
    assert expected == 2 * 16 * 3 // 9
    return int(batch.column(0)[0].as_py()) - expected


def test_rows_with_a_vector_are_counted_as_defined(engine):
    assert counted(engine) == 0


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("_is_vector_sql", "isnan(x)", "isinf(x)"),
        ("_is_vector_sql", "list_count({entries}) = {length}", "list_count({entries}) >= 0"),
        ("_is_vector_sql", "len({entries}) = {length}", "len({entries}) >= {length}"),
        ("_sql_parts", "sql.scaled(total, self.rows, self.body)", "total"),
        ("_sql_parts", "count(*) FILTER ({sql.value(f'({present})', 'BOOLEAN')})", "count(*)"),
    ],
)
def test_planted_counts_of_vectors_are_seen(openers, monkeypatch, name, old, new):
    place = VectorCount if name == "_sql_parts" else vector_sum
    monkeypatch.setattr(place, name, planted(place, name, old, new))
    assert counted(openers("duckdb")) != 0


@pytest.mark.long
@pytest.mark.noise_cannot_matter("epsilon is so large that noise shows in no digit that is compared")
def test_rows_of_a_pipeline_have_vectors():
    import apache_beam as beam
    from apache_beam.testing.util import assert_that

    import sfumato as sf
    from sfumato.beam import ToRows

    given = [(1, [3.0, 4.0]), (2, (0.5, 0)), (3, None), (4, "text"), (5, [1.0]), (6, np.array([0.0, 1.0]))]
    columns = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float64()))])
    asked = sf.scan(columns, privacy_unit="id").agg(v=sf.vector_sum("v", length=2, bound=1))

    def near(found: list[Any]) -> None:
        (one,) = found
        assert np.abs(np.array(one["v"]) - [1.1, 1.8]).max() < 0.01

    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create(given) | ToRows(columns, lambda row: {"id": row[0], "v": row[1]})
        assert_that(rows | asked.release(epsilon=10**6), near)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.list_(pa.float64(), 2)])
def test_what_is_suggested_for_a_sum_of_lists_works(kind):
    rows = pa.table({"id": [1, 2], "v": pa.array([[1, 2], [3, 4]], kind)})
    people = sf.scan(rows, privacy_unit="id")
    with pytest.raises(QueryError, match=r"takes a number, but this is .*; take one entry, as x\[1\]$"):
        people.per_unit(y="sum(v)")
    assert people.per_unit(y="sum(v[1])").schema["y"].missing
