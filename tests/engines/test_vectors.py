"""What each unit adds of vectors is the definition's, to the last step, and in the ball."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import Ball, VectorCount, VectorSum
from sfumato.transformations.statistics.vector_sum import MAX_ENTRIES

LENGTH = 3
RADII = (1, 1000, 2**40)


def rows() -> list[list[float]]:
    random = np.random.default_rng(5)
    small = random.integers(-9, 10, (30, LENGTH)).tolist()
    large = [(random.integers(-(2**31), 2**31, LENGTH) * 2.0**power).tolist() for power in range(0, 60, 3)]
    # Around where a square fills a float, and around whole roots.
    edges = [[2.0**e + d, 2.0**e, 0.0] for e in (26, 31, 51, 52, 53, 62) for d in (-1, 0, 1)]
    plain = [[np.inf, 1, -2], [3, 4, 0], [8, 0, 0], [1, 1, 0], [1, 1, 1], [7, 3, 2], [2.0**52] * 3]
    return [*small, *large, *edges, *(list(map(float, row)) for row in plain)]


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


@pytest.mark.long
def test_units_add_what_the_definition_says(openers):
    for name in ("duckdb", "stages"):
        assert not wrong(openers(name)(table(rows())), rows())


@pytest.mark.parametrize(
    ("ball", "length"),
    [
        pytest.param(ball, length, marks=pytest.mark.long)
        for ball, length in ((Ball.L1, 2048), *((ball, MAX_ENTRIES) for ball in Ball))
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


def test_rows_of_any_number_of_units_and_lengths_stop_nothing(local_engine):
    odd = [None, [], [1.0], [1.0, None, 2.0], [1.0, float("nan"), 2.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 2.0]]
    made = pa.table({"unit": [1] * len(odd), "v": pa.array(odd, pa.list_(pa.float64()))})
    query = ExactQuery((), "unit", (), None, 1, (VectorSum("x", "v", LENGTH, 0, 3, Ball.L2),))
    for rows_ in (made, made.slice(0, 0), made.slice(0, 6)):
        (batch,) = local_engine(rows_).statistics(query, 10)
        assert [int(x) for x in batch.column(0)[0].as_py()] == ([1, 2, 2] if len(rows_) == 7 else [0, 0, 0])


NAN, INF = float("nan"), float("inf")
ODD = [None, [], [1.0], [1.0, None, 2.0], [1.0, None, 2.0, 3.0]]
ODD += [[1.0, NAN, 2.0], [NAN] * 3, [0.0, INF, 1.0], [1.0] * 3]


def counted(opened: Callable[[pa.Table], Any]) -> int:
    """How many of the rows of one unit count, in sixteenths, where three of nine may."""
    made = pa.table({"unit": [1] * len(ODD), "v": pa.array(ODD, pa.list_(pa.float64()))})
    statistic = VectorCount("v", LENGTH, 3, -4)
    (batch,) = opened(made).statistics(ExactQuery((), "unit", (), None, 1, (statistic,)), 10)
    (expected,) = statistic.contribution([{"v": v} for v in ODD]).values()
    assert expected == 2 * 16 * 3 // 9
    return int(batch.column(0)[0].as_py()) - expected


def test_rows_with_a_vector_are_counted_as_defined(local_engine):
    assert counted(local_engine) == 0
