"""Tables made of tables where rows are on many machines: the same statistics as on one, bit for bit."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
import sfumato.beam
from sfumato.api.table import Table
from sfumato.engines.distributed_engine import DistributedEngine
from sfumato.engines.duckdb import combined_stages
from sfumato.engines.duckdb.combined_stages import CombinedStages
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Payload
from sfumato.errors import CatalogError, EngineError, ParameterError, QueryError
from sfumato.query.tables.public_table import PublicTable

from .conftest import as_arrow
from .made_rows import table
from .test_combined import CHAINS, REFUSED, REGIONS, TOWNS, TYPES
from .test_spark import killing, shipped_by_value
from .tiers import some


class LocalEngine(DistributedEngine):
    """Workers without a cluster: shuffled rows in random parts, in few batches or in many."""

    name = "stages"

    def __init__(self, rows: pa.Table, seed: int = 0) -> None:
        super().__init__(rows.schema)
        self.given, self.chance = rows, random.Random(seed)

    def statistics(self, query, batch_rows):
        chance = self.chance
        stages = pickle.loads(pickle.dumps(self.stages(query, chance.randint(1, 4))))
        moved: dict[int, list[Payload]] = {}
        for number, schema in stages.arriving.items():
            rows = self.tables[number].engine.given.select(schema.names)
            rows = rows.take(chance.sample(range(rows.num_rows), rows.num_rows))
            moved[number] = []
            cuts = sorted(chance.choices(range(rows.num_rows + 1), k=chance.randint(0, 3)))
            for start, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True):
                some = rows.slice(start, end - start)
                batches = some.to_batches(max_chunksize=chance.choice((3, 1000)))
                moved[number] += stages.partials(batches, number)
        for hop in stages.key_joins:
            met = self.by_shard(moved.pop(hop.owners) + moved.pop(hop.rows))
            moved[hop.gives] = [part for data in met for part in stages.reached(hop, data)]
        parts = [part for of_table in moved.values() for part in of_table]
        totals = [p.data for data in self.by_shard(parts) for p in stages.totals(data)]
        return stages.bare.merged(None, totals, batch_rows)

    def by_shard(self, parts: list[Payload]) -> list[list[bytes]]:
        """Bring parts together as a shuffle does, in any order."""
        self.chance.shuffle(parts)
        shards: dict[int, list[bytes]] = {}
        for part in parts:
            shards.setdefault(part.shard, []).append(part.data)
        return list(shards.values())


def questions(asked: Table) -> list[sf.Question]:
    """Ask for rows, units and sums of all numbers: by text where there is one, and of everybody."""
    sums = {
        f"s{i}": sf.sum(name, lower=-9, upper=9)
        for i, (name, column) in enumerate(asked.schema.items())
        if column.kind.numeric and name != asked.unit
    }
    wanted = {"n": sf.count(), "units": sf.count_units(), **sums}
    texts = [n for n, column in asked.schema.items() if column.type_name == "VARCHAR" and n != asked.unit]
    made = [asked.bound(rows=3).agg(**wanted)]
    for name in texts[-1:]:
        made.append(asked.group_by(name).bound(groups=2, rows=3).agg(**wanted))
        keys = [town for town in TOWNS if town is not None]
        made.append(asked.group_by(name, keys=keys).bound(groups=2, rows=3).agg(**wanted))
    return made


def statistics(asked: Table) -> list[list[dict]]:
    plans = [one.plan(epsilon=1, delta=1e-6, noise="gaussian") for one in questions(asked)]
    return [
        [row for batch in asked._engine.statistics(plan.exact, 1000) for row in batch.to_pylist()]
        for plan in plans
    ]


def chain(name: str, v, p, opened: Callable[[pa.Table], object], regions: PublicTable | None = None) -> Table:
    tables = [Table(opened(table(TYPES[n], rows)), "id") for n, rows in (("visits", v), ("people", p))]
    return CHAINS[name](*tables, sf.public(REGIONS) if regions is None else regions)


def on_one_machine(name: str, v, p) -> Table:
    return chain(name, v, p, DuckDBEngine.open)


def rows_by_chance(seed: int):
    """Rows of every unit and kind of value, some units with many."""
    chance = random.Random(seed)
    units = [1.0, 2.0, 3.0, 4.0, 0.0, -0.0, float("nan"), None]
    numbers = [0.0, -0.0, 1.5, 0.1, 1e300, float("inf"), float("nan"), None]
    v = [
        (
            chance.choice(units),
            chance.choice(TOWNS),
            chance.choice(numbers),
            chance.randint(-(2**63), 2**63 - 1),
        )
        for _ in range(120)
    ]
    p = [(chance.choice(units), chance.randint(0, 99), chance.choice(TOWNS)) for _ in range(40)]
    return v, p


@pytest.mark.parametrize("name", some(CHAINS, 4))
@pytest.mark.parametrize("seed", some(range(2), 2))
def test_workers_compute_what_one_machine_does(name, seed, fixed_salt):
    v, p = rows_by_chance(seed)
    found = statistics(chain(name, v, p, lambda rows: LocalEngine(rows, seed)))
    assert found == statistics(on_one_machine(name, v, p))


@pytest.mark.long
@pytest.mark.parametrize("name", CHAINS)
def test_workers_keep_the_rows_that_one_machine_does(name, fixed_salt):
    """Where a unit's rows over all groups are limited: whether rows are sent, or combined where they are."""
    v, p = rows_by_chance(0)
    found = []
    for opened in (lambda rows: LocalEngine(rows, 0), DuckDBEngine.open):
        asked = chain(name, v, p, opened)
        texts = [n for n, c in asked.schema.items() if c.type_name == "VARCHAR" and n != asked.unit]
        question = asked.group_by(*texts[-1:]).bound(total_rows=4).agg(n=sf.count(), units=sf.count_units())
        plan = question.plan(epsilon=1, delta=1e-6, noise="laplace")
        found.append([row for b in asked._engine.statistics(plan.exact, 1000) for row in b.to_pylist()])
    assert found[0] == found[1]


def differs(name: str) -> bool:
    v, p = rows_by_chance(0)
    found = statistics(chain(name, v, p, lambda rows: LocalEngine(rows, 1)))
    return found != statistics(on_one_machine(name, v, p))


def test_a_unit_whose_equal_values_go_to_two_workers_would_be_found(monkeypatch, fixed_salt):
    assert not differs("per unit")
    monkeypatch.setattr(combined_stages, "canonical", lambda unit, schema: unit)
    assert differs("per unit")


def test_a_public_table_that_is_loaded_twice_would_be_found(monkeypatch, fixed_salt):
    fill = CombinedStages._fill
    monkeypatch.setattr(CombinedStages, "_fill", lambda self, session, data: fill(self, session, [*data] * 2))
    assert differs("join public")


def test_a_part_that_goes_elsewhere_when_it_is_made_again_would_be_found(monkeypatch, fixed_salt):
    made = CombinedStages._as_they_are
    monkeypatch.setattr(
        CombinedStages, "_as_they_are", lambda self, session, number, batches, shard: made(
            self, session, number, batches, f"CAST(({shard} + {random.randint(0, 9)}) % {self.shards} AS INTEGER)"
        )
    )  # fmt: skip
    assert differs("join private")


def test_only_columns_that_are_read_move_and_rows_stay_where_they_can():
    v, p = rows_by_chance(0)

    def sent(name: str, ask: Callable[[Table], sf.Question]):
        asked = ask(chain(name, v, p, LocalEngine))
        plan = asked.plan(epsilon=1, delta=1e-6, noise="laplace")
        stages = asked.table._engine.stages(plan.exact, 3)
        return stages.by_rows, [t.rows.names for t in stages.tables]

    def by_region(asked):
        return asked.group_by("region").bound(groups=1, rows=1).agg(n=sf.count())

    assert sent("join public", by_region) == (True, [["id", "town"], ["town", "region"]])
    spent = sent("per unit and town", lambda t: t.bound(rows=1).agg(s=sf.sum("spent", lower=0, upper=1)))
    assert spent == (False, [["id", "town", "cost"]])
    assert sent("union", lambda t: t.bound(rows=1).agg(n=sf.count())) == (True, [["id", "town"]])
    assert sent("join private", lambda t: t.bound(rows=1).agg(n=sf.count()))[0] is False


def test_a_column_that_was_not_sent_stops_the_worker(monkeypatch, fixed_salt):
    real = CombinedStages._read
    monkeypatch.setattr(
        CombinedStages,
        "_read",
        lambda self: {name: columns - {"town"} for name, columns in real(self).items()},
    )
    with pytest.raises(EngineError, match="a worker's DuckDB stopped"):
        differs("per unit and town")


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused_on_one_machine_is_refused_with_the_same_words(number):
    said = []
    for opened in (DuckDBEngine.open, LocalEngine):
        v, p = (Table(opened(table(TYPES[n], [])), "id") for n in ("visits", "people"))
        with pytest.raises((QueryError, ParameterError)) as refused:
            REFUSED[number][0](v, p, sf.public(REGIONS))
        said.append((refused.type, str(refused.value)))
    assert said[0] == said[1]


def test_notes_are_the_same():
    v, p = rows_by_chance(0)
    for name in CHAINS:
        assert chain(name, v, p, LocalEngine).notes == on_one_machine(name, v, p).notes


def test_tables_of_several_engines_do_not_meet():
    here, there = (
        Table(LocalEngine(table(TYPES["visits"], [])), "id"),
        sf.scan(TYPES["visits"], privacy_unit="id"),
    )
    file = sf.scan(table(TYPES["visits"], []), privacy_unit="id")
    for one, other in ((here, there), (there, here), (here, file)):
        with pytest.raises(QueryError, match="private tables are all (stages|Beam)'s"):
            one.join(other, on="id")
    with pytest.raises(QueryError, match="not read by DuckDB"):
        file.join(here, on="id")


def test_private_rows_without_a_unit_are_not_taken_for_public_ones():
    here = Table(LocalEngine(table(TYPES["visits"], [])), "id")
    with pytest.raises(QueryError, match="each with its privacy unit"):
        here.join(PublicTable(LocalEngine(table(TYPES["people"], []))), on="town")


def test_public_tables_beyond_what_every_worker_can_be_sent_are_refused(monkeypatch):
    v, p = rows_by_chance(0)
    (question,) = questions(chain("join public", v, p, LocalEngine))[:1]
    monkeypatch.setattr(combined_stages, "PUBLIC_BYTES", 10)
    with pytest.raises(QueryError, match="public tables are larger than 0 MB"):
        question.table._engine.stages(question.plan(epsilon=1).exact, 2)


# On real engines, in the second tier, where each is several jobs.
def in_turn(place: int):
    """One after the other, as workers without a cluster make each kind, above; the largest in the first tier, on both."""
    others = [name for name in CHAINS if name != "everything"]
    return pytest.mark.parametrize("name", some(["everything", *others[place::2]], len(CHAINS)))


@in_turn(1)
def test_spark_computes_what_one_machine_does(name, openers, frame_of, fixed_salt):
    v, p = rows_by_chance(7)
    regions = sf.public(frame_of(REGIONS)) if name == "everything" else None
    found = statistics(chain(name, v, p, openers("spark"), regions))
    assert found == statistics(on_one_machine(name, v, p))


ORDERS = pa.table({"id": [i // 3 for i in range(900)], "price": [float(i % 40) for i in range(900)]})
PEOPLE = pa.table({"id": list(range(300)), "town": [["Ulm", "Bonn"][i % 2] for i in range(300)]})
LIES = pa.table({"town": ["Ulm", "Bonn"], "region": ["south", "west"]})
JOINED = """
    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100000, delta = 1e-6, privacy_unit_column = id, max_rows_per_group = 3)
      t.region, COUNT(*) AS n, SUM(o.price, contribution_bounds_per_group => (0, 200)) AS s
    FROM orders AS o JOIN people AS p ON o.id = p.id LEFT JOIN towns AS t ON p.town = t.town
    WHERE o.price > 6 GROUP BY t.region"""
EXPECTED = [
    {"region": region, "n": sum(kept), "s": sum(price for price, of in zip(prices, kept, strict=True) if of)}
    for region, place in (("south", 0), ("west", 1))
    for prices in [[p for i, p in enumerate(ORDERS["price"].to_pylist()) if i // 3 % 2 == place]]
    for kept in [[p > 6 for p in prices]]
]
near = pytest.mark.flakiness(k=100, because="noise of scale below 0.01 rounds to less than 1")


def close(rows: list[dict]) -> bool:
    rows = sorted(rows, key=lambda row: row["region"])
    return [(r["region"], r["n"]) for r in rows] == [(r["region"], r["n"]) for r in EXPECTED] and all(
        abs(r["s"] - e["s"]) < 1 for r, e in zip(rows, EXPECTED, strict=True)
    )


@near
@pytest.mark.long
def test_sql_joins_data_frames(frame_of):
    tables = {"orders": frame_of(ORDERS), "people": frame_of(PEOPLE), "towns": sf.public(LIES)}
    released = sf.sql(JOINED, tables=tables)
    assert close(released.toArrow().to_pylist())


@pytest.mark.long
@near
def test_sql_joins_tables_of_a_spark_session_that_a_catalog_names(spark, frame_of, tmp_path):
    for name, rows in (("orders", ORDERS), ("people", PEOPLE), ("towns", LIES)):
        frame_of(rows).createOrReplaceTempView(f"held_{name}")
    path = tmp_path / "catalog.toml"
    path.write_text("""
        [tables.orders]
        source = "held_orders"
        privacy_unit = "id"
        max_rows = 3
        [tables.people]
        source = "held_people"
        privacy_unit = "id"
        [tables.towns]
        source = "held_towns"
        public = true
    """)
    catalog = sf.catalog(path, spark=spark)
    released = sf.sql(JOINED.replace("privacy_unit_column = id, ", ""), catalog=catalog)
    assert close(released.toArrow().to_pylist())
    assert list(catalog.table("orders").schema) == ["id", "price"]
    with pytest.raises(CatalogError, match="tables.x: Spark has no table or view 'nowhere'"):
        sf.catalog({"tables": {"x": {"source": "nowhere", "privacy_unit": "id"}}}, spark=spark)
    with pytest.raises(ParameterError, match="spark"):
        sf.catalog(path, spark="local")


def test_public_keys_may_be_a_data_frame(frame_of):
    asked = sf.scan(frame_of(PEOPLE), privacy_unit="id")
    keys = asked.group_by("town", keys=frame_of(LIES.select(["town"])))._public_keys
    assert keys.to_pydict() == {"town": ["Bonn", "Ulm"]}
    with pytest.raises(QueryError, match="names 'Ulm' twice"):
        asked.group_by("town", keys=frame_of(pa.table({"town": ["Ulm", "Ulm"]})))
    with pytest.raises(QueryError, match="has the columns"):
        asked.group_by("town", keys=frame_of(LIES))


@pytest.mark.long
@near
@pytest.mark.parametrize("table", ["filtered", "whole"])
def test_groups_of_sql_may_be_those_of_a_data_frame(frame_of, table):
    towns = sf.public(
        frame_of(pa.table({"town": ["Ulm", "Kiel", "Ulm"], "region": ["south", "north", "south"]}))
    )
    towns = towns.filter("region = 'north'") if table == "filtered" else towns
    private = frame_of(PEOPLE)
    text = """
        SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100000, privacy_unit_column = id, max_rows_per_group = 9,
          group_selection_strategy = PUBLIC_GROUPS, max_groups_contributed = 1) town, COUNT(*) AS n
        FROM people RIGHT OUTER JOIN (SELECT DISTINCT town FROM towns) AS t USING (town) GROUP BY town"""
    found = sf.sql(text, tables={"people": private, "towns": towns}).toArrow().to_pylist()
    expected = {"Kiel": 0} if table == "filtered" else {"Kiel": 0, "Ulm": 150}
    assert {row["town"]: row["n"] for row in found} == expected


def test_frames_that_are_read_in_two_time_zones_do_not_meet(spark, frame_of):
    """Those that are named; what the sessions of Spark have is no matter."""
    here, there = frame_of(ORDERS), spark.newSession()
    there.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    other = there.createDataFrame([(1, "A")], "id long, town string")
    left = sf.scan(here, privacy_unit="id")
    with pytest.raises(QueryError, match="several time zones, UTC and Europe/Berlin"):
        left.join(sf.scan(other, privacy_unit="id", timezone="Europe/Berlin"), on="id")
    assert "town" in left.join(sf.scan(other, privacy_unit="id"), on="id").schema


@in_turn(0)
def test_beam_computes_what_one_machine_does(name, openers, fixed_salt):
    v, p = rows_by_chance(7)
    opened, regions = openers("beam"), None
    if name in ("everything", "join public"):
        engine = type(opened(REGIONS))
        regions = PublicTable(engine(REGIONS, public=True))
    found = statistics(chain(name, v, p, opened, regions))
    assert found == statistics(on_one_machine(name, v, p))


def by_name(tables: dict[str, pa.Table]):
    """Return what brings rows to a pipeline, in rows and in batches."""
    import apache_beam as beam

    def brought(pipeline):
        return {
            name: pipeline
            | f"Create {name}"
            >> beam.Create(rows.to_pylist() if name == "orders" else [rows], reshuffle=False)
            for name, rows in tables.items()
        }

    return brought


@near
@pytest.mark.parametrize("public", ["a collection", "here"])
def test_sql_joins_collections(run, public):
    rows = {"orders": ORDERS, "people": PEOPLE, "towns": LIES}
    tables = {name: table.schema for name, table in rows.items()}
    tables["towns"] = sf.public(LIES.schema if public == "a collection" else LIES)
    release = sf.sql(JOINED, tables=tables)
    if public == "here":
        del rows["towns"]
    brought = by_name(rows)
    assert close(run(lambda pipeline: brought(pipeline) | release))


@near
def test_public_rows_beside_private_ones_need_no_shuffle_of_rows(run):
    import apache_beam as beam

    people, towns = (sfumato.beam.named(n, t.schema) for n, t in (("people", PEOPLE), ("towns", LIES)))
    joined = sf.scan(people, privacy_unit="id").join(sf.public(towns), on="town")
    asked = joined.group_by("region", keys=["south", "west"]).bound(groups=1, rows=1).agg(n=sf.count())
    release = asked.release(epsilon=10**5)
    brought = by_name({"people": PEOPLE, "towns": LIES})
    labels = []

    def build(pipeline):
        made = brought(pipeline) | release

        class Steps(beam.pipeline.PipelineVisitor):
            def visit_transform(self, node):
                labels.append(type(node.transform).__name__)

            def enter_composite_transform(self, node):
                labels.append(type(node.transform).__name__)

        pipeline.visit(Steps())
        return made

    found = run(build)
    assert [(r["region"], r["n"]) for r in found] == [("south", 150), ("west", 150)]
    assert labels.count("CombinePerKey") == 2 and labels.count("Flatten") == 2


def test_collections_are_told_apart_by_name():
    columns = ORDERS.schema
    one, other = (sf.scan(sfumato.beam.named(n, columns), privacy_unit="id") for n in "ab")
    nameless = sf.scan(columns, privacy_unit="id")
    with pytest.raises(QueryError, match=r'need names.*sfumato\.beam\.named\("orders", schema\)'):
        one.join(nameless, on="id")
    again = sf.scan(sfumato.beam.named("a", columns), privacy_unit="id")
    with pytest.raises(QueryError, match="two tables are named 'a'"):
        one.join(again, on="id")
    one.join(one.filter("price > 3"), on="id")  # which is the same table
    for name, rows in (("", columns), (7, columns), ("a", ORDERS)):
        with pytest.raises(ParameterError):
            sfumato.beam.named(name, rows)
    asked = one.union(other).bound(rows=1).agg(n=sf.count())
    import apache_beam as beam

    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([])
    for given, says in (
        (rows, "not to a PCollection"),
        ({"a": rows}, r"\{'a': \.\.\., 'b': \.\.\.\} | release, not to 'a'"),
        ({"a": rows, "c": rows}, "not to 'a', 'c'"),
    ):
        with pytest.raises(QueryError, match=says):
            given | says >> asked.release(epsilon=1)


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
ODD = ["shard", "c0", 'a.b "x"', "u"]


@pytest.mark.parametrize("kind", some(UNITS, 8))
def test_units_and_columns_of_every_kind_meet(kind, fixed_salt):
    left, right, values = UNITS[kind]
    texts = [values[i * i % len(values)] for i in range(60)]
    numbers = {name: ("INTEGER", [str(i % 7) for i in range(60)]) for name in ODD}
    here = as_arrow({"id": (left, texts), **numbers})
    there = as_arrow({"id": (right, texts[:20]), "shard": ("VARCHAR", [f"t{i % 3}" for i in range(20)])})
    found = []
    for opened in (DuckDBEngine.open, LocalEngine):
        one, other = (Table(opened(rows), "id") for rows in (here, there))
        asked = one.join(other, on="id").with_columns(x='c0 + "a.b ""x""" + shard')
        found.append(statistics(asked) + statistics(one.per_unit(n="count(*)", s="max(shard)")))
    assert found[0] == found[1]
    assert any(row["rows"] for row in found[0][1])


def test_public_tables_of_every_kind_are_sent(tmp_path, fixed_salt):
    session = duckdb.connect(str(tmp_path / "t.duckdb"))
    session.execute(
        "CREATE TABLE t AS SELECT i AS n, (['ann', 'bob'])[i % 2 + 1]::ENUM('ann', 'bob') AS e, "
        "10::HUGEINT ** 37 + i AS h, '101'::BIT AS b, '12:00:00+01'::TIMETZ AS z, [i] AS l, {'a': i} AS s, "
        "INTERVAL 1 DAY AS d, uuid() AS u, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS w FROM range(5) t(i)"
    )
    session.close()
    rows = pa.table({"id": list(range(20)), "n": [i % 7 for i in range(20)]})
    towns = sf.public(f"{tmp_path}/t.duckdb/t")
    found = []
    for opened in (DuckDBEngine.open, LocalEngine):
        asked = Table(opened(rows), "id").join(towns, on="n", how="left").with_columns(
            x="concat(h::VARCHAR, b::VARCHAR, z::VARCHAR, l[1]::VARCHAR, s.a::VARCHAR, d::VARCHAR, u::VARCHAR, e)"
        )  # fmt: skip
        asked = asked.group_by("x").bound(groups=1, rows=1).agg(n=sf.count())
        plan = asked.plan(epsilon=1, delta=1e-6, noise="laplace")
        found.append([b.to_pylist() for b in asked.table._engine.statistics(plan.exact, 100)])
    assert found[0] == found[1] and len(found[0][0]) == 6


@pytest.mark.long
@near
def test_a_worker_that_is_killed_between_rows_and_their_join_changes_nothing(frame_of, tmp_path):
    marker, rows = tmp_path / "killed", frame_of(ORDERS)
    orders = rows.mapInArrow(shipped_by_value(killing(str(marker), 0)), rows.schema)
    tables = {"orders": orders, "people": frame_of(PEOPLE), "towns": sf.public(frame_of(LIES))}
    released = sf.sql(JOINED, tables=tables)
    assert marker.exists() and close(released.toArrow().to_pylist())
