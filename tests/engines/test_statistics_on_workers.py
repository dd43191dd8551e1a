"""All statistics, and tables made of tables, on workers: those of one machine, whoever has which rows, and one noise.

The noise of a batch follows from its exact numbers. So if Spark or Beam releases what the same work releases here, it
had the same exact numbers, bit for bit: one job compares many questions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.scan import unit_table
from sfumato.query import sizes
from sfumato.query.tables.combined_tables import Reached
from sfumato.query.tables.table_part import Part
from tests.support.workers import LocalEngine, exact, released, statistics

pytestmark = pytest.mark.noise_cannot_matter("both sides draw with the secret of one release")
Opened = Callable[[str, pa.Table], Any]
TOWNS = ["A", "A", "A", "B", "C", "a", "", "é", "e\u0301", "x'\"; --", None]
REALS = [0.0, -0.0, 1.5, 0.1, -7.25, 1e308, 5e-324, math.nan, math.inf, -math.inf, None]
WHOLE = [0, 1, 2, 3, -5, 2**62, -(2**63), 2**63 - 1, None]
# Floats as units: one zero, one NaN.
UNITS = [1.0, 2.0, 3.0, 4.0, 0.0, -0.0, math.nan, None]
PERSONS = ["a", "A", "b", "c", "", None]
TIMES = [datetime(2024, 1, day, hour, tzinfo=UTC) for day in (7, 8) for hour in (0, 22, 23)] + [None]
COLUMNS: dict[str, tuple[int, dict[str, tuple[pa.DataType, list[Any]]]]] = {
    "rows": (
        400,
        {
            "id": (pa.int64(), [*range(30), *[7] * 10, None]),  # one of whom has a quarter of the rows
            "g": (pa.string(), TOWNS),
            "x": (pa.float64(), REALS),
            "y": (pa.float64(), [*map(float, range(9))]),
            "k": (pa.int64(), WHOLE),
            "b": (pa.bool_(), [True, False, None]),
            "w": (pa.float64(), REALS),
            "v": (pa.list_(pa.float64()), [[3.0, 4.0], [0.5, -0.125], [1e308, 1.0], [math.nan, 1.0], [1.0], [], None]),
        },
    ),
    "visits": (
        120,
        {"id": (pa.float64(), UNITS), "town": (pa.string(), TOWNS), "cost": (pa.float64(), REALS), "n": (pa.int64(), WHOLE)},
    ),
    "people": (
        40,
        {"id": (pa.float64(), UNITS), "age": (pa.int32(), [*range(40)]), "town": (pa.string(), TOWNS)},
    ),
    "customers": (30, {"id": (pa.float64(), UNITS), "person": (pa.string(), PERSONS), "age": (pa.int32(), [20, 21, 22])}),
    "orders": (
        60,
        {
            "number": (pa.int64(), [1, 2, 3, 4, None]),
            "customer": (pa.float64(), [*UNITS, 9.0, *[1.0] * 8]),
            "price": (pa.float64(), [0.5, -0.0, 2.25, None]),
        },
    ),
    "lines": (80, {"order": (pa.int32(), [1, 2, 3, 5, None]), "item": (pa.string(), ["x", "y", "z"])}),
    "stays": (
        120,
        {
            "id": (pa.string(), ["a", "A", "", "a1", "1", "1:a", None]),
            "month": (pa.float64(), [1.0, 11.0, 0.0, -0.0, math.nan, None]),
            "n": (pa.int64(), [*range(-5, 6)]),
            "ts": (pa.timestamp("us", "UTC"), TIMES),
        },
    ),
}  # fmt: skip
REGIONS = pa.table({"town": ["A", "B", "B", None, "a"], "region": ["n", "s", "t", "x", "n"]})
KINDS = sf.public(pa.table({"item": ["x", "y", "y", None], "kind": ["tea", "cup", "tea", "cup"]}))


def rows_by_chance(name: str, seed: int) -> pa.Table:
    """Return rows of a table, in which no key is unique, and some lead nowhere."""
    size, columns = COLUMNS[name]
    chance = random.Random(f"{name} {seed}")
    return pa.table(
        {n: pa.array([chance.choice(values) for _ in range(size)], kind) for n, (kind, values) in columns.items()}
    )  # fmt: skip


# All statistics at once.
X, Y = {"lower": -5, "upper": 5}, {"lower": 0, "upper": 9}
XY = {"x": (-5, 5), "y": (0, 9)}
ALL = {
    "n": sf.count(), "nx": sf.count("x"), "nw": sf.count(weight="w", max_weight=3), "u": sf.count_units(),
    "ni": sf.count_if("b"), "d": sf.count_distinct("k", values=3), "ds": sf.count_distinct("x", values=2, method="shares"),
    "s": sf.sum("x", **X, per="row"), "su": sf.sum("x", **X, per="unit"), "si": sf.sum("k", lower=-9, upper=9),
    "sw": sf.sum("x", **X, weight="w", max_weight=3), "m": sf.mean("x", **X), "mw": sf.mean("x", **X, weight="w", max_weight=2),
    "var": sf.variance("x", **X), "sd": sf.stddev("y", **Y), "q": sf.quantiles("x", [0.25, 0.5], **X), "lo": sf.min("y", **Y),
    "h": sf.histogram("x", [-5, 0, 5], outside="count"), "hu": sf.histogram("y", [0, 4, 9], per="unit"),
    "hw": sf.histogram("y", [0, 4, 9], weight="w", max_weight=2), "vc": sf.value_counts("k", [0, 1, 2], other=True),
    "p": sf.proportion("b"), "cov": sf.covariance("x", "y", bounds=XY), "fit": sf.linear_regression("y", ["x"], bounds=XY),
    "qi": sf.quantiles("k", [0.5, 0.9], lower=0, upper=99), "vs": sf.vector_sum("v", length=2, bound=8), "vm": sf.vector_mean("v", length=2, bound=4, norm="l1"),
}  # fmt: skip
FEW = {name: ALL[name] for name in ("n", "u", "m", "q", "qi")}
KEYS = ["A", "", "nobody", None]


def all_of(opened: Opened, keys: Any = None, wanted: Any = ALL, **bounds: Any) -> sf.Question[Any]:
    table = Table(opened("rows", rows_by_chance("rows", 0)), "id")
    if keys == "none":
        return table.bound(rows=3).agg(**wanted)
    return table.group_by("g", keys=keys).bound(**({"groups": 2, "rows": 3} | bounds)).agg(**wanted)


# Tables made of tables.
class Tables:
    """All tables, each opened when it is asked for.

    Args:
        opened: opens the rows of a name.
        seed: of the rows.
    """

    def __init__(self, opened: Opened, seed: int) -> None:
        self._opened, self._seed, self._engines = opened, seed, dict[str, Any]()
        self.regions = sf.public(REGIONS)

    def _engine(self, name: str) -> Any:
        if name not in self._engines:
            self._engines[name] = self._opened(name, rows_by_chance(name, self._seed))
        return self._engines[name]

    def of(self, name: str, *unit: str) -> Table[Any]:
        """Return a table with its privacy unit, which may be of several columns."""
        if len(unit) == 1:
            return Table(self._engine(name), unit[0])
        return unit_table(self._engine(name), "", list(unit), "Europe/Berlin")

    def owned(self, name: str, *unit: str) -> Table[Any]:
        """Return orders, or their lines, with the units that they reach by foreign keys."""
        if name == "customers":
            return self.of(name, *unit)
        foreign, owners, key = {"orders": ("customer", "customers", "id"), "lines": ("order", "orders", "number")}[name]  # fmt: skip
        there = self.owned(owners, *unit)
        named = "customer" if unit == ("id",) else there.unit
        made = self._engine(name).combined(
            Reached(Part(self._engine(name), (), None), there._part, foreign, key, named)
        )
        return Table(made, named, _unit_parts=there._unit_parts)


WEEKS = "id", "date_trunc('week', ts)"
BOTH = "person", "age"
CHAINS: dict[str, Callable[[Tables], Table[Any]]] = {
    "a public table": lambda t: t.of("visits", "id").join(t.regions, on="town", how="left").with_columns(none="region IS NULL"),
    "a private table": lambda t: t.of("visits", "id").join(t.of("people", "id"), on=["town", "id"], how="left"),
    "per unit": lambda t: t.of("visits", "id").per_unit(
        "town", rows="count(*)", towns="count(DISTINCT n)", spent="sum(cost * cost)", mean="avg(n)",
        low="min(cost) FILTER (WHERE n > 0)", every="bool_and(cost > 0)",
    ),
    "window": lambda t: t.of("visits", "id").sql("SELECT id, town, n, lag(n) OVER (PARTITION BY id ORDER BY n, cost) AS before FROM self"),
    "everything": lambda t: (
        t.of("visits", "id").join(t.regions, on="town", how="left")
        .with_columns(big="cost > 1").per_unit("region", spent="sum(cost)", big="count(*) FILTER (WHERE big)")
        .join(t.of("people", "id").per_unit(age="max(age)", towns="count(DISTINCT town)"), on="id")
        .filter("age > 20 OR spent IS NULL")
    ),
    "weeks": lambda t: t.of("stays", *WEEKS).filter("n > 0").with_columns(m="month * 2"),
    "weeks, each one row": lambda t: t.of("stays", *WEEKS).per_unit("month", n="sum(n)", last="max(ts)"),
    "orders": lambda t: t.owned("orders", "person").filter("price > 0").with_columns(double="price * 2"),
    "lines of units of two columns": lambda t: t.owned("lines", *BOTH).join(KINDS, on="item"),
    "lines with all owners": lambda t: (
        t.owned("lines", "person").join(t.owned("orders", "person"), on={"order": "number", "person": "person"})
        .join(t.owned("customers", "person"), on={"customer": "id", "person": "person"}).filter("age > 20")
    ),
}  # fmt: skip
QUICK = "everything", "lines of units of two columns", "weeks, each one row"


def chain(name: str, opened: Opened, seed: int = 0) -> Table[Any]:
    return CHAINS[name](Tables(opened, seed))


def here(name: str, rows: pa.Table) -> DuckDBEngine:
    return DuckDBEngine.open(rows)


def on_workers(seed: int) -> Opened:
    return lambda name, rows: LocalEngine(rows, seed)


@pytest.mark.parametrize(
    ("keys", "groups"),
    [
        (None, 9),
        pytest.param(KEYS, 4, marks=pytest.mark.long),
        pytest.param("none", 1, marks=pytest.mark.long),
    ],
    ids=["private", "public", "whole"],
)
def test_all_statistics_are_those_of_one_machine(keys, groups, fixed_salt, small_sizes):
    expected = exact(all_of(here, keys), noise="gaussian")
    assert len(expected) == groups
    assert exact(all_of(on_workers(1), keys), noise="gaussian") == expected


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, (i + 2) % 3, marks=[pytest.mark.long] * (name not in QUICK))
        for i, name in enumerate(CHAINS)
    ],
)
def test_tables_made_of_tables_are_those_of_one_machine(name, seed, fixed_salt):
    expected = statistics(chain(name, here, seed))
    assert statistics(chain(name, on_workers(seed), seed)) == expected
    assert expected[0][0]["rows"]


# One job, and one pipeline.
CASES: dict[str, tuple[Callable[[Opened], sf.Question[Any]], dict[str, Any]]] = {
    "all, private groups": (all_of, {"noise": "gaussian", "confidence": 0.9}),
    "public groups": (lambda o: all_of(o, KEYS, FEW, groups=4), {"noise": "k_norm", "delta": 0}),
    "nobody": (lambda o: all_of(o, [f"n{i}" for i in range(8)], {"n": sf.count()}), {"noise": "laplace", "delta": 0}),
    "everything": (lambda o: chain("everything", o).group_by("region", keys=["n", "s"]).bound(groups=1, rows=2).agg(n=sf.count()), {}),
    "lines": (
        lambda o: chain("lines of units of two columns", o).group_by("kind").bound(groups=2, rows=3).agg(n=sf.count()), {},
    ),
}  # fmt: skip
MORE = {
    "all, public groups": (lambda o: all_of(o, KEYS), {"noise": "laplace", "delta": 0}),
    "all, whole table": (lambda o: all_of(o, "none"), {"noise": "gaussian"}),
    "total rows": (lambda o: all_of(o, wanted=FEW, groups=None, rows=None, total_rows=4), {}),
} | {
    name: (lambda o, name=name: chain(name, o).bound(rows=3).agg(n=sf.count(), u=sf.count_units()), {})
    for name in CHAINS
}  # fmt: skip
TIERS = [pytest.param(CASES, id="few"), pytest.param(MORE, id="more", marks=pytest.mark.long)]
OPTIONS: dict[str, Any] = {"epsilon": 20, "delta": 1e-6}


def as_text(found: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, found))


def planned(question: Any, options: dict[str, Any]) -> tuple[Any, float | None]:
    given = OPTIONS | options
    confidence = given.pop("confidence", None)
    return question.plan(**given), confidence


@pytest.mark.parametrize("cases", TIERS)
def test_one_job_of_spark_releases_what_is_released_here(cases, spark, frame_of, settings):
    """In small batches, with a partition of one row and one of none, where Spark would cut and join shards as it likes."""
    from sfumato.engines.spark.spark_engine import SparkEngine

    settings(ODD_SETTINGS)

    def opened(name: str, rows: pa.Table) -> SparkEngine:
        first, rest = frame_of(rows.slice(0, 1)), frame_of(rows.slice(1))
        engine = SparkEngine(first.union(rest.where("false")).union(rest.coalesce(1)))
        engine.given = rows
        return engine

    def telling(case: str):
        def told(batches):  # sent by value: workers cannot import this file
            for batch in batches:
                rows = [repr((case, row)) for row in batch.to_pylist()]
                yield pa.RecordBatch.from_arrays([pa.array(rows, pa.string())], names=["told"])

        return told

    frames, expected = [], []
    for case, (ask, options) in cases.items():
        question = ask(opened)
        engine, (plan, confidence) = question.table._engine, planned(question, options)
        work = engine.work(plan, confidence)
        frames.append(engine.released(work).mapInArrow(telling(case), "told string"))
        expected += [(case, row) for row in released(engine, work)]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    assert sorted(row.told for row in whole.collect()) == as_text(expected)


# With which Spark would cut shards, put small ones together, and send rows in batches of three.
ODD_SETTINGS = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1b",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1b",
    "spark.sql.adaptive.localShuffleReader.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}


@pytest.mark.parametrize("cases", TIERS)
def test_one_pipeline_of_beam_releases_what_is_released_here(cases, run):
    """Of dictionaries and of batches, some of which come in another order than they were made."""
    import apache_beam as beam

    from sfumato.beam import Release, named
    from sfumato.engines.beam.beam_engine import BeamEngine

    def opened(name: str, rows: pa.Table) -> BeamEngine:
        engine = BeamEngine(named(name, rows.schema))
        engine.given = rows
        return engine

    made, expected, tables, alone = {}, [], {}, {}
    for case, (ask, options) in cases.items():
        question = ask(opened)
        made[case] = release = Release(question, **OPTIONS | options, shards=3)
        engine = question.table._engine
        tables |= {leaf.engine.collection: leaf.engine.given for leaf in engine.tables.values() if hasattr(leaf.engine, "given")}  # fmt: skip
        alone[case] = getattr(next(iter(engine.tables.values())).engine, "collection", None)
        expected += [(case, row) for row in released(engine, release._work)]

    def build(pipeline):
        brought = {}
        for name, rows in tables.items():
            half = rows.num_rows // 2
            elements = [*rows.slice(half).to_pylist()[::-1], *rows.slice(0, half).to_batches(max_chunksize=7)]
            brought[name] = pipeline | f"Make {name}" >> beam.Create(elements)
        found = []
        for case, release in made.items():
            names = release._names_of
            given = (
                brought[alone[case]] if names is None else {name: brought[name] for name in names.values()}
            )
            rows = given | case >> release
            found.append(rows | f"Tell {case}" >> beam.Map(lambda row, case=case: repr((case, row))))
        return tuple(found) | beam.Flatten()

    assert sorted(run(build)) == as_text(expected)


# What is computed again.
def joined_rows() -> dict[str, pa.Table]:
    chance = random.Random(0)
    columns = {"id": 60, "town": 40, "price": 9}
    rows = pa.table({name: [chance.randrange(most) for _ in range(180)] for name, most in columns.items()})
    owners = pa.table({"key": range(60), "person": [f"p{i % 30}" for i in range(60)]})
    return {"rows": rows.set_column(1, "town", rows["town"].cast(pa.string())), "owners": owners}


AGAIN = {
    "one group": lambda o: o.bound(rows=5).agg(n=sf.count()),
    "groups": lambda o: o.group_by("town").bound(groups=3, rows=5).agg(n=sf.count(), m=sf.quantiles("price", [0.5], **Y)),
    "total rows": lambda o: o.group_by("town").bound(total_rows=4).agg(n=sf.count("price")),
}  # fmt: skip


def kinds_of_outputs(name: str, owners: bool) -> tuple[int, int]:
    """Return how many kinds there are of what a foreign-key join gives, and of totals, of parts in five orders."""
    tables = joined_rows()
    made = Table(LocalEngine(tables["rows"]), "id")
    if owners:
        there = Table(LocalEngine(tables["owners"]), "person")
        rows = Part(LocalEngine(tables["rows"]), (), None)
        made = Table(rows.engine.combined(Reached(rows, there._part, "id", "key", "person")), "person")
    question = AGAIN[name](made)
    engine, plan = question.table._engine, question.plan(epsilon=1, delta=1e-6)
    work = engine.stages(plan.exact, 1)
    parts = [
        part.data
        for number, read in work.arriving.items()
        for start in range(0, 180, 9)
        for part in work.from_table(number).partials(
            engine.tables[number].engine.given.select(read.names).slice(start, 9).to_batches(), number
        )
    ]
    joins, totals = set(), set()
    for seed in range(5):
        random.Random(seed).shuffle(parts)
        units = parts
        for join in work.key_joins:
            units = [part.data for part in work.reached(join, parts)]
            joins.add(tuple(units))
            units = [*reversed(units)]
        totals.add(tuple(part.data for part in work.totals(units)))
    return len(joins), len(totals)


@pytest.mark.parametrize("owners", [True, False])
def test_what_is_computed_again_from_parts_in_another_order_is_the_same(owners, fixed_salt, monkeypatch):
    """Else Spark would take it for that of rows that changed, where a machine is lost."""
    monkeypatch.setattr(sizes, "FEW_ROWS", 0)  # DuckDB is asked for many rows in other steps
    for name in AGAIN:
        assert kinds_of_outputs(name, owners) == (int(owners), 1)
