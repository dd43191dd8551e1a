"""Tables made of tables where rows are on many machines: what moves, what is refused, and SQL on Spark and Beam."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
import sfumato.beam
from sfumato.api.table import Table
from sfumato.engines.duckdb import combined_stages
from sfumato.engines.duckdb.combined_stages import CombinedStages
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import CatalogError, ColumnError, EngineError, ParameterError, QueryError
from sfumato.query.tables.combined_tables import Reached
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.table_part import Part
from sfumato.testing import recording
from tests.support.engines import as_arrow
from tests.support.verdicts import verdicts
from tests.support.workers import LocalEngine, exact, killing, statistics

from .test_statistics_on_workers import chain, on_workers, rows_by_chance

near = pytest.mark.flakiness(k=100, because="noise of scale below 0.01 rounds to less than 1")


# What moves.
MOVED = {
    "a public table": ("town", True, {0: ["id", "town"]}),
    "union": ("town", True, {0: ["id", "town"]}),
    "a private table": ("town", False, {0: ["id", "town", "cost", "n"], 1: ["id", "age", "town"]}),
    "per unit": ("town", False, {0: ["id", "town", "n"]}),
    "window": ("town", False, {0: ["id", "town"]}),
    "weeks": ("month", True, {0: ["id", "month", "n", "ts"]}),
    "orders": ("number", True, {1: ["id", "person"], 2: ["number", "customer", "price"]}),
    "lines of units of two columns": ("kind", True, {2: ["order", "item"], 3: ["id", "person", "age"], 4: ["number", "customer"]}),
    "lines per unit": ("item", False, {1: ["number", "customer"], 2: ["order", "item"], 3: ["id", "person"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_only_columns_that_are_read_move_and_rows_are_summed_where_they_can_be(name):
    by, alone, columns = MOVED[name]
    question = chain(name, on_workers(0)).group_by(by).bound(groups=1, rows=1).agg(n=sf.count())
    stages = question.table._engine.stages(question.plan(epsilon=1, delta=1e-6).exact, 3)
    assert stages.by_rows is alone
    assert sorted(rows.names for rows in stages.arriving.values()) == sorted(columns.values())


def test_a_column_that_was_not_sent_stops_the_worker(monkeypatch):
    real = CombinedStages._read
    fewer = lambda self: {name: columns - {"n"} for name, columns in real(self).items()}  # noqa: E731
    monkeypatch.setattr(CombinedStages, "_read", fewer)
    with pytest.raises(EngineError, match="a worker's DuckDB stopped"):
        statistics(chain("per unit", on_workers(0)))


# SQL inside a private SELECT.
PLACES = pa.table({"town": ["A", "B", "B", None], "region": ["n", "s", "t", "x"], "pop": [10, 20, 30, 40]})


def sql_rows(seed: int) -> dict[str, pa.Table]:
    """Return rows of many units, some without one, with every kind of float, and values in several rows."""
    chance = random.Random(seed)
    prices = [0.0, -0.0, 0.1, 0.2, 0.3, 1e10, 1e300, -1.0, float("nan"), float("inf"), None]
    towns = ["A", "B", "C", "a", "", "é", None]
    columns = {
        "orders": {
            "id": [*range(12), None], "town": towns, "price": [*prices, chance.random()],
            "n": [0, 1, 2, 3, 4, 5, 9, None, 2**40], "day": ["2024-01-05", "2024-02-01", "2023-12-31", None],
        },
        "customers": {"customer": [*range(14), None], "age": [30, 40, 50, None], "town": towns},
    }  # fmt: skip
    made = {
        name: pa.table({c: [chance.choice(v) for _ in range(150 if name == "orders" else 40)] for c, v in of.items()})
        for name, of in columns.items()
    }  # fmt: skip
    return {**made, "towns": PLACES}


def made_by(text: str, opened: Any, rows: dict[str, pa.Table]) -> Table[Any]:
    known = {
        "orders": Table(opened(rows["orders"]), "id"),
        "customers": Table(opened(rows["customers"]), "customer"),
        "towns": sf.public(rows["towns"]),
    }
    return known["orders"].sql(text, tables=known)


def asked(table: Table[Any], kind: int) -> sf.Question[Any]:
    """Ask for every row with all its columns as texts, or for what one of the kinds of limits leaves."""
    columns = [name for name in table.schema if name != table.unit]
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    texts = {f"text_{i}": f"CAST({name} AS VARCHAR)" for i, name in enumerate(quoted)}
    wanted = {"rows": sf.count(), "units": sf.count_units()}
    wanted |= {
        f"s{i}": sf.sum(n, lower=-9, upper=9) for i, n in enumerate(columns) if table.schema[n].kind.numeric
    }
    if not texts or kind == 1:
        return table.bound(rows=3).agg(**wanted)
    table = table.with_columns(**texts)
    if kind == 2:
        return table.group_by(list(texts)[-1]).bound(groups=2, rows=2).agg(**wanted)
    return table.group_by(*texts).bound(groups=1000, rows=1000).agg(**wanted)


SAME = [text for _, text in verdicts("inside.txt", "same")]


@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.long) for i in range(1, 5))])
def test_sql_inside_means_on_workers_what_it_means_on_one_machine(part, fixed_salt):
    """Of every third text, as that all mean the same on one machine is held elsewhere."""
    for number, text in [*enumerate(SAME[::3])][part * 2 :: 10]:
        found = [
            repr(exact(asked(made_by(text, opened, sql_rows(1)), number % 3), noise="gaussian"))
            for opened in (DuckDBEngine.open, lambda rows: LocalEngine(rows, 1))
        ]
        assert found[0] == found[1], text


BY_ROWS = [
    (True, "SELECT id AS u, n FROM orders WHERE town IN (SELECT town FROM towns)"),
    (True, "SELECT o.id, t.region FROM orders o LEFT JOIN (SELECT town, region FROM towns) t ON o.town = t.town"),
    (True, "SELECT id, town FROM orders UNION ALL SELECT customer, town FROM customers"),
    (False, "SELECT u, k FROM (SELECT id AS u, count(*) AS k FROM orders GROUP BY id) AS s WHERE k > 1"),
    (False, "SELECT id, town FROM orders UNION ALL SELECT customer, max(town) FROM customers GROUP BY customer"),
    (False, "SELECT id FROM (SELECT id, town, lag(n) OVER (PARTITION BY id ORDER BY n) AS x FROM orders) AS s "
     "WHERE town IN (SELECT town FROM towns)"),
    (False, "SELECT DISTINCT id, town FROM orders"),
]  # fmt: skip


@pytest.mark.parametrize(("alone", "text"), BY_ROWS)
def test_rows_stay_where_they_are_only_where_each_is_combined_by_itself(alone, text):
    table = made_by(text, LocalEngine, sql_rows(0))
    plan = table.bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
    assert table._engine.stages(plan.exact, 2).by_rows is alone


FIRST = (
    "SELECT id, x FROM (SELECT q.id, q.d, q.x FROM orders AS q LEFT JOIN customers AS r ON q.id = r.customer) AS j "
    "QUALIFY row_number() OVER (PARTITION BY id ORDER BY d RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) = 1"
)


def test_one_person_does_not_turn_the_order_of_all_rows_on_workers(fixed_salt):
    """Of two rows that are tied everybody's first was another one, where one person had many rows more."""
    people, found = range(300), set()
    for seed, more in ((0, 0), (1, 15_000)):
        chance = random.Random(seed)
        tied = [(i, 0, x) for i in people for x in (0, 1)]
        customers = [*people, *[0] * more]
        chance.shuffle(tied)
        chance.shuffle(customers)
        orders = pa.table(dict(zip(("id", "d", "x"), zip(*tied, strict=True), strict=True)))
        rows = {"orders": orders, "customers": pa.table({"customer": customers}), "towns": PLACES}
        table = made_by(FIRST, lambda rows, seed=seed: LocalEngine(rows, seed), rows)
        (row,) = exact(table.bound(rows=1).agg(s=sf.sum("x", lower=0, upper=1, per="row")))
        found.add(int([*row.values()][-1]))
    assert found == {0}


# Types.
UNITS = {
    "whole numbers": ("INTEGER", "UBIGINT", ["1", "2", "3", "0", None]),
    "text": ("VARCHAR", "VARCHAR", ["a", "A", "", "é", None]),
    "decimals": ("DECIMAL(9,2)", "DECIMAL(9,2)", ["1.00", "1.01", "-1", None]),
    "days": ("DATE", "DATE", ["2020-02-29", "infinity", "2020-03-01", None]),
    "times": ("TIMESTAMPTZ", "TIMESTAMPTZ", ["2020-10-25 00:30:00+00", "2020-10-25 01:30:00+00", None]),
    "bytes": ("BLOB", "BLOB", ["a", "b", "\\x00", None]),
    "truth values": ("BOOLEAN", "BOOLEAN", ["true", "false", None]),
    "floats": ("FLOAT", "FLOAT", ["0.0", "-0.0", "nan", "1.5", None]),
}


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


# What is refused.
REFUSED = [
    (lambda v, p: v.join(p, on="town"), "add 'id': 'id' to on"),
    (lambda v, p: v.join(p, on="id", rows=10**6), "at most 10,000"),
    (lambda v, p: v.union(p), "union: "),
    (lambda v, p: v.per_unit(n="first(cost)"), "first is no aggregate"),
    (lambda v, p: v.with_columns(x="random()"), "random"),
]  # fmt: skip


def test_what_is_refused_on_one_machine_is_refused_with_the_same_words():
    cases = [(ask, says, None) for ask, says in REFUSED] + [
        (None, ".", t) for _, t in verdicts("inside.txt", "refused")[::30]
    ]
    for ask, says, text in cases:
        said = []
        for opened in (DuckDBEngine.open, LocalEngine):
            with pytest.raises((QueryError, ParameterError, ColumnError), match=says) as refused:
                if ask is None:
                    made_by(text, opened, sql_rows(0))
                else:
                    ask(*(Table(opened(rows_by_chance(name, 0)), "id") for name in ("visits", "people")))
            said.append((refused.type, str(refused.value)))
        assert said[0] == said[1]


def test_tables_that_cannot_be_combined_on_workers_are_refused(monkeypatch):
    rows = rows_by_chance("visits", 0)
    here, there = Table(LocalEngine(rows), "id"), sf.scan(rows.schema, privacy_unit="id")
    file = sf.scan(rows, privacy_unit="id")
    for one, other in ((here, there), (there, here), (here, file)):
        with pytest.raises(QueryError, match="private tables are all (stages|Beam)'s"):
            one.join(other, on="id")
    with pytest.raises(QueryError, match="not read by DuckDB"):
        file.join(here, on="id")
    with pytest.raises(QueryError, match="each with its privacy unit"):  # rows without one are not public
        here.join(PublicTable(LocalEngine(rows)), on="town")
    with pytest.raises(QueryError, match="not read by stages"):
        owners = sf.scan(rows.schema, privacy_unit="n")
        here._engine.combined(Reached(Part(here._engine, (), None), owners._part, "id", "id", "n"))
    question = chain("a public table", on_workers(0)).bound(rows=1).agg(n=sf.count())
    monkeypatch.setattr(combined_stages, "PUBLIC_BYTES", 10)
    with pytest.raises(QueryError, match="public tables are larger than 0 MB"):
        question.table._engine.stages(question.plan(epsilon=1).exact, 2)


def test_what_workers_cannot_do_is_refused_with_what_to_write_instead():
    rows = sql_rows(0)
    table = made_by("SELECT id, n FROM orders WHERE n > 1", LocalEngine, rows)
    with pytest.raises(QueryError, match="those of stages are with workers"):
        sf.check(table.bound(rows=1).agg(n=sf.count()))
    columns = {name: of.schema for name, of in rows.items()} | {"towns": sf.public(PLACES.schema)}
    with pytest.raises(QueryError, match="not of Beam"):
        sf.sql(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, max_rows_per_group = 1) "
            "COUNT(*) AS n FROM orders WHERE town IN (SELECT town FROM towns)",
            tables=columns,
        )


# SQL on Spark and Beam.
ORDERS = pa.table({"id": [i // 3 for i in range(900)], "price": [float(i % 40) for i in range(900)]})
PEOPLE = pa.table({"id": list(range(300)), "town": [["Ulm", "Bonn"][i % 2] for i in range(300)]})
LIES = pa.table({"town": ["Ulm", "Bonn"], "region": ["south", "west"]})
JOINED = """
    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100000, delta = 1e-6, max_rows_per_group = 3)
      t.region, COUNT(*) AS n, SUM(o.price, contribution_bounds_per_group => (0, 200)) AS s
    FROM orders AS o JOIN people AS p ON o.id = p.id LEFT JOIN towns AS t ON p.town = t.town
    WHERE o.price > 6 GROUP BY t.region"""
EXPECTED = [
    {"region": region, "n": len(kept), "s": sum(kept)}
    for region, place in (("south", 0), ("west", 1))
    for kept in [[p for i, p in enumerate(ORDERS["price"].to_pylist()) if i // 3 % 2 == place and p > 6]]
]


def close(rows: list[dict[str, Any]]) -> bool:
    rows = sorted(rows, key=lambda row: row["region"])
    return [(r["region"], r["n"]) for r in rows] == [(r["region"], r["n"]) for r in EXPECTED] and all(
        abs(r["s"] - e["s"]) < 1 for r, e in zip(rows, EXPECTED, strict=True)
    )


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
    assert marker.exists() and close(released.toArrow().to_pylist())
    assert list(catalog.table("orders").schema) == ["id", "price"]
    with pytest.raises(CatalogError, match="tables.x: Spark has no table or view 'nowhere'"):
        sf.catalog({"tables": {"x": {"source": "nowhere", "privacy_unit": "id"}}}, spark=spark)
    with pytest.raises(ParameterError, match="spark"):
        sf.catalog({"tables": declared}, spark="local")


@near
@pytest.mark.long
def test_groups_of_sql_may_be_those_of_a_data_frame(frame_of):
    towns = sf.public(frame_of(pa.table({"town": ["Ulm", "Kiel", "Ulm"], "region": ["s", "n", "s"]})))
    text = """
        SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100000, privacy_unit_column = id, max_rows_per_group = 9,
          group_selection_strategy = PUBLIC_GROUPS, max_groups_contributed = 1) town, COUNT(*) AS n
        FROM people RIGHT OUTER JOIN (SELECT DISTINCT town FROM towns) AS t USING (town) GROUP BY town"""
    found = sf.sql(text, tables={"people": frame_of(PEOPLE), "towns": towns}).toArrow().to_pylist()
    assert {row["town"]: row["n"] for row in found} == {"Kiel": 0, "Ulm": 150}


@pytest.mark.long
def test_public_keys_and_time_zones_of_data_frames(spark, frame_of):
    people = sf.scan(frame_of(PEOPLE), privacy_unit="id")
    keys = people.group_by("town", keys=frame_of(LIES.select(["town"])))._public_keys
    assert keys.to_pydict() == {"town": ["Bonn", "Ulm"]}
    with pytest.raises(QueryError, match="names 'Ulm' twice"):
        people.group_by("town", keys=frame_of(pa.table({"town": ["Ulm", "Ulm"]})))
    with pytest.raises(QueryError, match="has the columns"):
        people.group_by("town", keys=frame_of(LIES))
    there = spark.newSession()  # whose own zone is no matter
    there.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    other = there.createDataFrame([(1, "A")], "id long, of string")
    with pytest.raises(QueryError, match="several time zones, UTC and Europe/Berlin"):
        people.join(sf.scan(other, privacy_unit="id", timezone="Europe/Berlin"), on="id")
    assert "of" in people.join(sf.scan(other, privacy_unit="id"), on="id").schema


@pytest.mark.long
@pytest.mark.noise_cannot_matter(
    "only the truth is looked at; at epsilon 1,000,000 no share moves by 1/1,000"
)
def test_records_and_diagnostics_on_spark_are_those_of_one_machine(frame_of, fixed_salt):
    text = (
        "WITH s AS (SELECT id AS u, town, row_number() OVER (PARTITION BY id ORDER BY n, price) AS place FROM orders) "
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 20, delta = 1e-6, privacy_unit_column = u, "
        "max_groups_contributed = 2, max_rows_per_group = 2) place, COUNT(*) AS n FROM s GROUP BY place"
    )
    rows, found = sql_rows(3)["orders"], []
    for source in (rows, frame_of(rows)):
        with recording() as recorder:
            truth = recorder[sf.sql(text, tables={"orders": source})].truth
        of = sf.scan(source, privacy_unit="id").group_by("town").bound(groups=1, rows=1)
        asked = of.agg(n=sf.count(), m=sf.mean("n", lower=2, upper=5))
        shares = [(f.limit, f.of, f.share) for f in asked.diagnose(epsilon=10**6).findings()]
        found.append((sorted(map(str, truth.to_pylist())), shares))
        if source is not rows:
            with pytest.raises(QueryError, match=r"question.diagnose\(epsilon=0.05\)"):
                asked.release(epsilon=1, delta=1e-6, diagnostics=0.05)
    (truth, here), (there, shares) = found
    assert truth == there and truth and here
    assert [one[:2] for one in here] == [one[:2] for one in shares]
    assert [one[2] for one in shares] == pytest.approx([one[2] for one in here], abs=2e-3)


@near
@pytest.mark.long
def test_sql_joins_collections_and_rows_that_need_none_are_not_shuffled(run):
    """Public tables that are here or come as collections, and foreign keys of a catalog, in one pipeline."""
    import apache_beam as beam

    held = {
        "orders": ORDERS,
        "people": PEOPLE,
        "towns": LIES,
        "lines": ORDERS.append_column("n", ORDERS["id"]),
    }
    given = {name: table.schema for name, table in held.items()}
    text = JOINED.replace("delta", "privacy_unit_column = id, delta")
    releases = {
        where: sf.sql(text, tables={**given, "towns": sf.public(LIES.schema if where == "brought" else LIES)})
        for where in ("brought", "here")
    }
    catalog = {
        "people": {"source": given["people"], "privacy_unit": "id"},
        "lines": {"source": given["lines"].remove(0), "foreign_keys": {"n": "people.id"}},
    }
    lines = sf.catalog({"tables": catalog}).table("lines").group_by("price", keys=[0.0, 39.0])
    releases["lines"] = lines.bound(groups=3, rows=1000).agg(n=sf.count()).release(epsilon=10**6)
    people, towns = (sfumato.beam.named(n, held[n].schema) for n in ("people", "towns"))
    joined = sf.scan(people, privacy_unit="id").join(sf.public(towns), on="town")
    joined = joined.group_by("region", keys=["south", "west"]).bound(groups=1, rows=1).agg(n=sf.count())
    releases["by rows"] = joined.release(epsilon=10**5)
    steps = []

    def build(pipeline):
        brought = {
            n: pipeline | f"make {n}" >> beam.Create(t.to_pylist() if n == "orders" else [t])
            for n, t in held.items()
        }
        found = []
        for name, release in releases.items():
            rows = {of: brought[of] for of in release._names_of.values()} | name >> release
            found.append(rows | f"tell {name}" >> beam.Map(lambda row, name=name: (name, row)))

        class Steps(beam.pipeline.PipelineVisitor):
            def enter_composite_transform(self, node):
                steps.append((node.full_label.partition("/")[0], type(node.transform).__name__))

        pipeline.visit(Steps())
        return tuple(found) | beam.Flatten()

    found = run(build)
    rows = {name: [row for of, row in found if of == name] for name in releases}
    assert close(rows["brought"]) and close(rows["here"])
    assert {row["price"]: row["n"] for row in rows["lines"]} == {0.0: 23, 39.0: 22}
    assert [(row["region"], row["n"]) for row in rows["by rows"]] == [("south", 150), ("west", 150)]
    assert steps.count(("by rows", "CombinePerKey")) == 2 and steps.count(("here", "CombinePerKey")) == 1


def test_collections_are_told_apart_by_name():
    import apache_beam as beam

    columns = ORDERS.schema
    one, other = (sf.scan(sfumato.beam.named(n, columns), privacy_unit="id") for n in "ab")
    with pytest.raises(QueryError, match=r'need names.*sfumato\.beam\.named\("orders", schema\)'):
        one.join(sf.scan(columns, privacy_unit="id"), on="id")
    with pytest.raises(QueryError, match="two tables are named 'a'"):
        one.join(sf.scan(sfumato.beam.named("a", columns), privacy_unit="id"), on="id")
    one.join(one.filter("price > 3"), on="id")  # which is the same table
    for name, rows in (("", columns), (7, columns), ("a", ORDERS)):
        with pytest.raises(ParameterError):
            sfumato.beam.named(name, rows)
    asked = one.union(other).bound(rows=1).agg(n=sf.count())
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([])
    for given, says in (
        (rows, "not to a PCollection"),
        ({"a": rows}, r"\{'a': \.\.\., 'b': \.\.\.\} | release, not to 'a'"),
        ({"a": rows, "c": rows}, "not to 'a', 'c'"),
    ):
        with pytest.raises(QueryError, match=says):
            given | says >> asked.release(epsilon=1)
    # Whose owners have a name that another collection has with other columns.
    owners = sf.scan(sfumato.beam.named("people", PEOPLE.schema), privacy_unit="town")
    rows = sf.scan(sfumato.beam.named("orders", columns), privacy_unit="price")._engine
    reached = Table(rows.combined(Reached(Part(rows, (), None), owners._part, "id", "id", "town")), "town")
    fewer = sf.scan(sfumato.beam.named("people", PEOPLE.schema.remove(0)), privacy_unit="town")
    with pytest.raises(QueryError, match="two tables are named 'people'"):
        reached.join(fewer, on="town")
    reached.join(owners, on="town")
