"""Tables made of tables where rows are on many machines: what moves, what is refused, and SQL on Spark and Beam."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
import sfumato.beam
from sfumato.api.table import Table
from sfumato.engines.duckdb import combined_stages
from sfumato.engines.duckdb.combined_stages import CombinedStages
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import EngineError, QueryError
from sfumato.query.tables.combined_tables import Reached
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.table_part import Part
from tests.support.engines import as_arrow
from tests.support.workers import LocalEngine, exact, killing, statistics

from .test_statistics_on_workers import chain, on_workers, rows_by_chance

near = pytest.mark.flakiness(k=100, because="noise of scale below 0.01 rounds to less than 1")


def test_a_column_that_was_not_sent_stops_the_worker(monkeypatch):
    real = CombinedStages._read
    fewer = lambda self: {name: columns - {"n"} for name, columns in real(self).items()}  # noqa: E731
    monkeypatch.setattr(CombinedStages, "_read", fewer)
    with pytest.raises(EngineError, match="a worker's DuckDB stopped"):
        statistics(chain("per unit", on_workers(0)))


# Types.
UNITS = {
    "text": ("VARCHAR", "VARCHAR", ["a", "A", "", "é", None]),
    "days": ("DATE", "DATE", ["2020-02-29", "infinity", "2020-03-01", None]),
    "times": ("TIMESTAMPTZ", "TIMESTAMPTZ", ["2020-10-25 00:30:00+00", "2020-10-25 01:30:00+00", None]),
    "floats": ("FLOAT", "FLOAT", ["0.0", "-0.0", "nan", "1.5", None]),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.long] * (k != "floats")) for k in UNITS])
def test_units_and_foreign_keys_of_every_kind_meet(kind, fixed_salt):
    left, right, values = UNITS[kind]
    texts, numbers = [values[i * i % len(values)] for i in range(60)], [str(i % 7) for i in range(60)]
    odd = {name: ("INTEGER", numbers) for name in ("shard", "c0", 'a.b "x"')}
    here = as_arrow({"id": (left, texts), **odd})
    there = as_arrow(
        {"id": (right, texts[:20]), "u": ("INTEGER", numbers[:20]), "shard": ("VARCHAR", texts[:20])}
    )
    found = []
    for opened in (DuckDBEngine.open, LocalEngine):
        one, other = (Table(opened(rows), "id") for rows in (here, there))
        joined = one.join(other, on="id").with_columns(x='c0 + "a.b ""x""" + u')
        owners = Table(opened(there), "u")
        reached = opened(here).combined(Reached(Part(opened(here), (), None), owners._part, "id", "id", "u"))
        tables = joined, one.per_unit(n="count(*)", s="max(shard)"), Table(reached, "u")
        found.append([statistics(table) for table in tables])
    assert found[0] == found[1]
    assert all(of[0][0]["rows"] for of in found[0])


def test_a_foreign_key_meets_its_owner_on_one_worker_though_zero_has_two_signs(fixed_salt):
    rows, owners = (as_arrow({"id": ("DOUBLE", [zero]), "u": ("INTEGER", ["1"])}) for zero in ("-0.0", "0.0"))
    found = []
    for opened in (DuckDBEngine.open, lambda given: LocalEngine(given, 16)):
        part = Table(opened(owners), "u")._part
        reached = opened(rows).combined(Reached(Part(opened(rows), (), None), part, "id", "id", "owner"))
        found.append(statistics(Table(reached, "owner")))
    assert found[0] == found[1] and found[0][0][0]["rows"] == 1


@pytest.mark.long
def test_public_tables_of_every_kind_are_sent(tmp_path, fixed_salt):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as session:
        session.execute(
            "CREATE TABLE t AS SELECT i AS n, (['ann', 'bob'])[i % 2 + 1]::ENUM('ann', 'bob') AS e, "
            "10::HUGEINT ** 37 + i AS h, '101'::BIT AS b, '12:00:00+01'::TIMETZ AS z, [i] AS l, {'a': i} AS s, "
            "INTERVAL 1 DAY AS d, uuid() AS u, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS w FROM range(5) t(i)"
        )
    rows = pa.table({"id": list(range(20)), "n": [i % 7 for i in range(20)]})
    towns = sf.public(f"{tmp_path}/t.duckdb/t")
    found = []
    for opened in (DuckDBEngine.open, LocalEngine):
        table = Table(opened(rows), "id").join(towns, on="n", how="left").with_columns(
            x="concat(h::VARCHAR, b::VARCHAR, z::VARCHAR, l[1]::VARCHAR, s.a::VARCHAR, d::VARCHAR, u::VARCHAR, e)"
        )  # fmt: skip
        found.append(exact(table.group_by("x").bound(groups=1, rows=1).agg(n=sf.count())))
    assert found[0] == found[1] and len(found[0]) == 6


def test_tables_that_cannot_be_combined_on_workers_are_refused(monkeypatch):
    rows = rows_by_chance("visits", 0)
    here, there = Table(LocalEngine(rows), "id"), sf.scan(rows.schema, privacy_unit="id")
    file = sf.scan(rows, privacy_unit="id")
    for one, other in ((here, there), (there, here), (here, file)):
        with pytest.raises(
            QueryError, match="Read all private tables with (stages|Beam), and open public ones"
        ):
            one.join(other, on="id")
    with pytest.raises(QueryError, match="not read by DuckDB"):
        file.join(here, on="id")
    with pytest.raises(QueryError, match="Read all private tables with"):  # rows without one are not public
        here.join(PublicTable(LocalEngine(rows)), on="town")
    with pytest.raises(QueryError, match="not read by stages"):
        owners = sf.scan(rows.schema, privacy_unit="n")
        here._engine.combined(Reached(Part(here._engine, (), None), owners._part, "id", "id", "n"))
    question = chain("a public table", on_workers(0)).bound(rows=1).agg(n=sf.count())
    monkeypatch.setattr(combined_stages, "PUBLIC_BYTES", 10)
    with pytest.raises(QueryError, match="public tables that are read exceed 0 MB"):
        question.table._engine.stages(question.plan(epsilon=1).exact, 2)


# SQL on Spark and Beam.
ORDERS = pa.table({"id": [i // 3 for i in range(900)], "price": [float(i % 40) for i in range(900)]})

PEOPLE = pa.table({"id": list(range(300)), "town": [["Ulm", "Bonn"][i % 2] for i in range(300)]})

LIES = pa.table({"town": ["Ulm", "Bonn"], "region": ["south", "west"]})

JOINED = """
    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100000, delta = 1e-6, max_rows_per_group = 3)
      t.region, COUNT(*) AS n, SUM(o.price, contribution_bounds_per_group => (0, 200)) AS s
    FROM orders AS o JOIN people AS p ON o.id = p.id LEFT JOIN towns AS t ON p.town = t.town
    WHERE o.price > 6 GROUP BY t.region"""


@near
@pytest.mark.long
def test_sql_joins_tables_of_spark_that_a_catalog_names_though_a_worker_is_killed(spark, frame_of, tmp_path):
    marker, rows = tmp_path / "killed", frame_of(ORDERS)
    rows.mapInArrow(killing(str(marker)), rows.schema).createOrReplaceTempView("held_orders")
    for name, table in (("people", PEOPLE), ("towns", LIES)):
        frame_of(table).createOrReplaceTempView(f"held_{name}")
    declared = {
        "orders": {"source": "held_orders", "privacy_unit": "id", "max_rows": 3},
        "people": {"source": "held_people", "privacy_unit": "id"},
        "towns": {"source": "held_towns", "public": True},
    }
    catalog = sf.catalog({"tables": declared}, spark=spark)
    released = sf.sql(JOINED, catalog=catalog)
    found = sorted((row["region"], row["n"], round(row["s"])) for row in released.toArrow().to_pylist())
    kept = [
        [p for i, p in enumerate(ORDERS["price"].to_pylist()) if i // 3 % 2 == t and p > 6] for t in (0, 1)
    ]
    assert found == [(r, len(k), round(sum(k))) for r, k in zip(("south", "west"), kept, strict=True)]
    assert marker.exists()
    assert list(catalog.table("orders").schema) == ["id", "price"]


def test_collections_are_told_apart_by_name():
    columns = ORDERS.schema
    one = sf.scan(sfumato.beam.named("a", columns), privacy_unit="id")
    with pytest.raises(QueryError, match=r'need names.*sfumato\.beam\.named\("orders", schema\)'):
        one.join(sf.scan(columns, privacy_unit="id"), on="id")
    with pytest.raises(QueryError, match="two tables have the name 'a'"):
        one.join(sf.scan(sfumato.beam.named("a", columns), privacy_unit="id"), on="id")
    one.join(one.filter("price > 3"), on="id")  # which is the same table
