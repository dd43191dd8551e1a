"""SQL that this package writes: each column is of the type that its writer declares, and nothing in it can overflow."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import LARGEST_LIMIT
from sfumato.engines.duckdb import source_reader
from sfumato.engines.duckdb.bounding_sql import PARTIALS, PUBLIC_KEYS, TOTALS, BoundingSql, each_of
from sfumato.engines.duckdb.row_steps import column_of
from sfumato.query import sizes
from sfumato.query.engine_protocol import ExactQuery
from sfumato.sql_text import identifier
from sfumato.transformations import (
    Axis,
    Ball,
    Count,
    CountUnits,
    CrossMoments,
    DistinctMatched,
    DistinctShared,
    Edges,
    Grid,
    Lattice,
    Leaves,
    Listed,
    Moments,
    QuantileTree,
    RowsInBins,
    Statistic,
    UnitsInBins,
    UnitSum,
    ValueGrid,
    VectorCount,
    VectorSum,
    WeightedSum,
    WeightGrid,
    WeightsInBins,
)
from tests.support.overflows import Overflows, bound_plan, columns_of, narrow_arithmetic

COLUMNS = {
    "unit": "BIGINT", "key": "INTEGER", "town": "VARCHAR", "real": "DOUBLE", "single": "FLOAT", "wide": "HUGEINT",
    "huge": "UHUGEINT", "small": "UTINYINT", "vector": "DOUBLE[]",
}  # fmt: skip
SCHEMA = {name: column_of(kind, True) for name, kind in COLUMNS.items()}
HUGE = 1 << 62


def statistics(rows: int) -> list[Statistic]:
    """One of each kind at least, with the largest steps that a plan gives."""
    fine = ValueGrid.around(Fraction(-10), Fraction(30), Grid.for_noise(Fraction(40), 30))
    axes = Axis("a", "real", fine, fine.half_range**2), Axis("small", "small", fine, 0)
    weights = WeightGrid(-20, 3 << 20)
    few = min(rows, 10)
    return [
        CountUnits(), Count(rows), Count(rows, "real", -14), Count(rows, "wide", -30),
        Moments("m", "real", rows, fine, True, -14, 30),
        Moments("n", "small", rows, fine, False, 0, None),
        UnitSum("s", "real", -20, -(HUGE >> 8), HUGE >> 8, False, 7),
        UnitSum("i", "wide", 0, 0, HUGE >> 8, True), UnitSum("h", "huge", 0, 0, HUGE >> 8, True, HUGE >> 9),
        QuantileTree("q", "real", rows, 0.0, 30.0, -14), Leaves("l", "real", rows, Lattice(0.0, 30.0), -14),
        WeightedSum("w", "small", rows, weights, "real", fine, 20), WeightedSum("y", "real", rows, weights),
        CrossMoments("c", axes, rows, ((0, 0), (0, 1), (1, 1)), -14),
        RowsInBins("bins", "real", rows, Edges((0.0, 1.5, math.inf), True, True), -30),
        UnitsInBins("units", "wide", 1, Listed(tuple(range(70)), True), -30),
        WeightsInBins("weights", "wide", rows, Listed((3, -1, HUGE + 1), True), -14, weight="real", weights=weights),
        DistinctMatched("town", few), DistinctShared("wide", few, -20), DistinctShared("single", few, -20),
        VectorCount("vector", 2, rows, -14), VectorSum("far", "vector", 16, -20, 1 << 40, Ball.LINF, rows),
        VectorSum("all", "vector", 16, -20, 1 << 40, Ball.LINF),
    ]  # fmt: skip


# What the ranges do not show: an entry times the radius over the length of its vector is no more than the radius.
SHORTENED = [
    VectorSum(f"{ball.value} {rows}", "vector", 16, -20, 1 << 40, ball, rows)
    for ball in (Ball.L1, Ball.L2)
    for rows in (None, 7)
]


def query(kind: str, groups: int, rows: int, of: list[Statistic]) -> ExactQuery:
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
) -> Iterator[tuple[BoundingSql, Overflows]]:
    """Yield the statements of a query on one machine and in stages, each with what it can compute."""
    options = ("rows", list(COLUMNS), SCHEMA, 77, 1 if few_rows else None)
    whole, staged, tables = BoundingSql(asked, *options), BoundingSql(asked, *options, staged=True), {}

    def one(writer: BoundingSql, text: str, name: str = "") -> tuple[BoundingSql, Overflows]:
        found = Overflows(bound_plan(connection, text), tables)
        if name:
            create(connection, name, columns_of(connection, text))
            tables[name] = dict(zip(columns_of(connection, text), found.columns, strict=True))
        return writer, found

    yield one(whole, whole.text())
    yield one(staged, staged.partials(4), PARTIALS)
    yield one(staged, staged.joined_partials())
    yield one(staged, staged.totals(4), TOTALS)
    yield one(staged, staged.joined_totals())
    yield one(staged, staged.merged())


# On both sides of each number of words of a bitmap, and of all of them; limits of rows up to the largest.
CASES = [
    ("private", 1, 1), ("private", 20, 7), ("private", 40, 7), ("private", 126, LARGEST_LIMIT), ("private", 504, 7),
    ("private", LARGEST_LIMIT, 7), ("none", 1, LARGEST_LIMIT), ("none", 1, 1), ("public", 100, 7),
    ("scaled", 1, 7), ("scaled", LARGEST_LIMIT, LARGEST_LIMIT), ("total", 3, 3), ("total", LARGEST_LIMIT, LARGEST_LIMIT),
]  # fmt: skip
FIRST_TIER = {("private", 126, LARGEST_LIMIT), ("scaled", LARGEST_LIMIT, LARGEST_LIMIT)}


# Types of columns that have the same name in every query, where they are: of rows, of units, and of pairs.
TYPES = {
    "h": "UBIGINT",
    "below": "UBIGINT",
    "many": "BOOLEAN",
    "shard": "INTEGER",
    "leaves": "UBIGINT[]",
    **dict.fromkeys(("n", "m", "w", "sure", "copy", "start", "b", "r", "p"), "BIGINT"),
    **{f"b{word}": "BIGINT" for word in range(sizes.BITMAP_WORDS)},
}


def types(writer: BoundingSql) -> dict[str, set[str]]:
    """Return the types of the columns that statements compute, by name; there may be several in several tables."""
    columns = {"u": writer.query.unit, **{f"v:{name}": name for name in writer._used}}
    columns |= dict(zip(writer.keys, writer.query.keys, strict=True))
    named = TYPES | {alias: writer.schema[name].type_name for alias, name in columns.items()}
    found = {name: {kind} for name, kind in (named | writer.values.types).items()}

    def add(name: str, *kinds: str) -> None:
        found.setdefault(name, set()).update(kinds)

    for part in writer.parts:
        add(part.coordinate, *part.types)
    for index, tree in enumerate(writer.trees):
        leaf, first = tree.place_type, f"first{index}"
        entries = f"STRUCT(leaf {leaf}, m BIGINT)", f"STRUCT(leaf {leaf}, weight {tree.weight_type})"
        add("leaf", leaf, *entries)
        add(first, leaf)
        add(each_of(first), "BIGINT")
        add("one", "BIGINT", "HUGEINT")
        add("weight", tree.weight_type, "HUGEINT")
        add(tree.names[0], *(f"{entry}[]" for entry in entries))
        if isinstance(tree, DistinctMatched):
            add("u", "UBIGINT")
            add(tree.names[0], "UBIGINT[][]", "STRUCT(sure BIGINT, sets UBIGINT[][])")
        elif isinstance(tree, DistinctShared):
            add(tree.names[0], "BIGINT")
        elif isinstance(tree, RowsInBins):
            add("bins", "HUGEINT[]")
            for name in tree.names:
                add(name, "HUGEINT")
    return found


def undeclared(writer: BoundingSql, found: Overflows) -> set[tuple[str, str]]:
    """Return columns of a type that their writer does not declare, at any depth of a statement."""
    declared = types(writer)
    return {
        (name, kind)
        for name, kinds in found.projected.items()
        for kind in kinds
        if kind not in declared.get(name, ()) and name not in COLUMNS and "(" not in name
    }


@pytest.mark.parametrize("few_rows", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("kind", "groups", "rows"),
    [pytest.param(*case, marks=[pytest.mark.long] * (case not in FIRST_TIER)) for case in CASES],
)
def test_columns_are_as_declared_and_nothing_overflows(connection, kind, groups, rows, few_rows):
    for writer, found in looked_at(connection, query(kind, groups, rows, statistics(rows)), few_rows):
        assert not found.found
        assert not undeclared(writer, found)
        assert not set(narrow_arithmetic(found.plan))


def test_shortened_vectors_are_as_declared(connection):
    for writer, found in looked_at(connection, query("private", 2, 7, SHORTENED), False):
        assert not undeclared(writer, found)
        assert not set(narrow_arithmetic(found.plan))


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        # As it was: TINYINTs, whose sum failed from 128 groups on.
        (r"CAST\((bit_count\(b\d\)) AS BIGINT\)|0::BIGINT \+ ", r"\1"),
        (r"1::BIGINT << \(b - 63\)", "1::BIGINT << b"),  # a bit beyond its word
        (r"::HUGEINT \* 1024", "::INTEGER * 1024"),  # steps of a count
        (r"count\(\*\) AS n", "CAST(count(*) AS INTEGER) AS n"),
    ],
)
def test_seeded_faults_are_seen(connection, found, fault):
    asked = query("private", 200, 7, [CountUnits(), Count(7, "real", -10)])
    writer = BoundingSql(asked, "rows", list(COLUMNS), SCHEMA, 77)
    text = re.sub(found, fault, writer.text())
    assert text != writer.text()
    looked = Overflows(bound_plan(connection, text))
    assert looked.found or undeclared(writer, looked) or set(narrow_arithmetic(looked.plan))


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
