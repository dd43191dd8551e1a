"""SQL that this package writes: nothing in it can overflow, whatever rows there are."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
import sfumato.transformations as tf
from sfumato.api.table import LARGEST_LIMIT
from sfumato.engines.duckdb import source_reader
from sfumato.engines.duckdb.bounding_sql import PARTIALS, PUBLIC_KEYS, TOTALS, BoundingSql
from sfumato.engines.duckdb.row_steps import make_column
from sfumato.query.engine_protocol import ExactQuery
from sfumato.sql_text import identifier
from tests.support.overflows import Overflows, bound_plan, columns_of, narrow_arithmetic

COLUMNS = {
    "unit": "BIGINT", "key": "INTEGER", "town": "VARCHAR", "real": "DOUBLE", "single": "FLOAT", "wide": "HUGEINT",
    "huge": "UHUGEINT", "small": "UTINYINT", "vector": "DOUBLE[]",
}  # fmt: skip
SCHEMA = {name: make_column(kind, True) for name, kind in COLUMNS.items()}
HUGE = 1 << 62


def statistics(rows: int) -> list[tf.Statistic]:
    """One of each kind at least, with the largest steps that a plan gives."""
    fine = tf.ValueGrid.around(Fraction(-10), Fraction(30), tf.Grid.for_noise(Fraction(40), 30))
    axes = tf.Axis("a", "real", fine, fine.half_range**2), tf.Axis("small", "small", fine, 0)
    weights = tf.WeightGrid(-20, 3 << 20)
    few = min(rows, 10)
    return [
        tf.CountUnits(), tf.Count(rows), tf.Count(rows, "real", -14), tf.Count(rows, "wide", -30),
        tf.Moments("m", "real", rows, fine, True, -14, 30),
        tf.Moments("n", "small", rows, fine, False, 0, None),
        tf.UnitSum("s", "real", -20, -(HUGE >> 8), HUGE >> 8, False, 7),
        tf.UnitSum("i", "wide", 0, 0, HUGE >> 8, True), tf.UnitSum("h", "huge", 0, 0, HUGE >> 8, True, HUGE >> 9),
        tf.QuantileTree("q", "real", rows, 0.0, 30.0, -14), tf.ValueTree("v", "wide", rows, tf.Lattice(0.0, 30.0, True), -14, (1, 6)), tf.Leaves("l", "real", rows, tf.Lattice(0.0, 30.0), -14),
        tf.WeightedSum("w", "small", rows, weights, "real", fine, 20), tf.WeightedSum("y", "real", rows, weights),
        tf.CrossMoments("c", axes, rows, ((0, 0), (0, 1), (1, 1)), -14),
        tf.RowsInBins("bins", "real", rows, tf.Edges((0.0, 1.5, math.inf), True, True), -30),
        tf.UnitsInBins("units", "wide", 1, tf.Listed(tuple(range(70)), True), -30),
        tf.WeightsInBins("weights", "wide", rows, tf.Listed((3, -1, HUGE + 1), True), -14, weight="real", weights=weights),
        tf.DistinctMatched("town", few), tf.DistinctShared("wide", few, -20), tf.DistinctShared("single", few, -20),
        tf.VectorCount("vector", 2, rows, -14), tf.VectorSum("far", "vector", 16, -20, 1 << 40, tf.Ball.LINF, rows),
        tf.VectorSum("all", "vector", 16, -20, 1 << 40, tf.Ball.LINF),
    ]  # fmt: skip


# What the ranges do not show: an entry times the radius over the length of its vector is no more than the radius.
SHORTENED = [
    tf.VectorSum(f"{ball.value} {rows}", "vector", 16, -20, 1 << 40, ball, rows)
    for ball in (tf.Ball.L1, tf.Ball.L2)
    for rows in (None, 7)
]


def query(kind: str, groups: int, rows: int, of: list[tf.Statistic]) -> ExactQuery:
    keys = () if kind == "none" else ("key", "town")
    public = (
        pa.table({"key": pa.array([1], pa.int32()), "town": ["a"]}) if kind in ("public", "scaled") else None
    )
    if kind == "scaled":
        of = [s for s in of if s.divisible]
    total = rows if kind in ("total", "none") and rows > 1 else None
    return ExactQuery((), "unit", keys, public, groups, tuple(of), kind == "scaled", total)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        create(found, "rows", COLUMNS)
        create(found, PUBLIC_KEYS, {"k0": "INTEGER", "k1": "VARCHAR"})
        yield found


def create(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, str]) -> None:
    named = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
    connection.execute(f"CREATE OR REPLACE TABLE {table} ({named})")


def looked_at(
    connection: duckdb.DuckDBPyConnection, asked: ExactQuery, few_rows: bool
) -> Iterator[Overflows]:
    """Yield the statements of a query on one machine and in stages, each with what it can compute."""
    options = ("rows", list(COLUMNS), SCHEMA, 77, 1 if few_rows else None)
    whole, staged, tables = BoundingSql(asked, *options), BoundingSql(asked, *options, staged=True), {}

    def one(text: str, name: str = "") -> Overflows:
        found = Overflows(bound_plan(connection, text), tables)
        if name:
            create(connection, name, columns_of(connection, text))
            tables[name] = dict(zip(columns_of(connection, text), found.columns, strict=True))
        return found

    yield one(whole.text())
    yield one(staged.partials(4), PARTIALS)
    yield one(staged.joined_partials())
    yield one(staged.totals(4), TOTALS)
    yield one(staged.joined_totals())
    yield one(staged.merged())


# On both sides of each number of words of a bitmap, and of all of them; limits of rows up to the largest.
CASES = [
    ("private", 1, 1), ("private", 20, 7), ("private", 40, 7), ("private", 126, LARGEST_LIMIT), ("private", 504, 7),
    ("private", LARGEST_LIMIT, 7), ("none", 1, LARGEST_LIMIT), ("none", 1, 1), ("public", 100, 7),
    ("scaled", 1, 7), ("scaled", LARGEST_LIMIT, LARGEST_LIMIT), ("total", 3, 3), ("total", LARGEST_LIMIT, LARGEST_LIMIT),
]  # fmt: skip
FIRST_TIER = {("private", 126, LARGEST_LIMIT), ("scaled", LARGEST_LIMIT, LARGEST_LIMIT)}


@pytest.mark.long
@pytest.mark.parametrize("few_rows", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("kind", "groups", "rows"),
    [pytest.param(*case, marks=[pytest.mark.long] * (case not in FIRST_TIER)) for case in CASES],
)
def test_nothing_overflows(connection, kind, groups, rows, few_rows):
    for found in looked_at(connection, query(kind, groups, rows, statistics(rows)), few_rows):
        assert not found.found
        assert not set(narrow_arithmetic(found.plan))


@pytest.mark.long
def test_shortened_vectors_compute_in_wide_types(connection):
    for found in looked_at(connection, query("private", 2, 7, SHORTENED), False):
        assert not set(narrow_arithmetic(found.plan))


PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) SUM(t, contribution_bounds_per_row => (0, 1)) AS s FROM "
INSIDE = [
    "(SELECT id, sum(small) OVER (PARTITION BY id ORDER BY d) AS t FROM orders) AS f",
    "(SELECT id, count(*) OVER (PARTITION BY id ORDER BY n RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS t FROM orders) AS f",
    "(SELECT id, avg(small) OVER (PARTITION BY id ORDER BY d ROWS 3 PRECEDING) AS t FROM orders) AS f",
    "(SELECT id, sum(small) AS t FROM orders GROUP BY id) AS f",
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("shop") / "shop.duckdb")
    with duckdb.connect(path) as made:
        columns = (
            "i % 10 AS id, (i % 7)::TINYINT AS k, (i % 100)::TINYINT AS small, i::INT AS n, i::DOUBLE AS x"
        )
        made.execute(
            f"CREATE TABLE orders AS SELECT {columns}, DATE '2020-01-01' + i::INT AS d FROM range(300) t(i)"
        )
        made.execute("CREATE TABLE visits AS SELECT i % 10 AS id, (i % 7)::TINYINT AS k FROM range(300) t(i)")
    return path


@pytest.fixture
def statements(monkeypatch) -> list[tuple[str, Any]]:
    """The statements that read rows, as they are run, with their plans."""
    found, run = list[tuple[str, Any]](), source_reader.batches

    def looked(connection: duckdb.DuckDBPyConnection, text: str, rows: int) -> Iterator[pa.RecordBatch]:
        found.append((text, bound_plan(connection, text)))
        return run(connection, text, rows)

    monkeypatch.setattr(source_reader, "batches", looked)
    return found


@pytest.mark.long
@pytest.mark.noise_cannot_matter("statements are looked at, no number")
def test_joins_windows_and_unit_aggregates_do_not_overflow(shop, statements):
    orders, visits = (sf.scan(f"{shop}/{name}", privacy_unit="id") for name in ("orders", "visits"))
    joined = orders.join(visits, on=["id", "k"], rows=3)
    spent = orders.per_unit(
        "k", a="sum(small)", b="avg(n)", c="count(*)", d="sum(x)", e="max(small)", f="avg(x)"
    )
    for table in (joined, spent.with_columns(n="a")):
        asked = table.group_by("k").bound(groups=2, rows=3).agg(n=sf.count(), s=sf.sum("n", lower=0, upper=9))
        asked.release(epsilon=1, delta="1e-6").to_arrow()
    for inside in INSIDE:
        sf.sql(PRIVATE + inside, tables={"orders": f"{shop}/orders"}).to_arrow()
    assert len(statements) == 2 + len(INSIDE)
    for text, plan in statements:
        assert not Overflows(plan).found, text
        assert not set(narrow_arithmetic(plan)), text
