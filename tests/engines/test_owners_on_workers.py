"""Foreign keys followed where rows are on many machines: the statistics of one machine, to the bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb import stages
from sfumato.engines.duckdb.bounding_sql import BoundingSql
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import ForeignKeyJoin
from sfumato.engines.scan import unit_table
from sfumato.errors import CatalogError, QueryError
from sfumato.query import sizes
from sfumato.query.tables.combined_tables import Reached
from sfumato.query.tables.table_part import Part

from .conftest import as_arrow
from .made_rows import table
from .test_combined_on_workers import UNITS, LocalEngine, statistics
from .test_owners import CUSTOMERS, KEYS, LINES, ORDERS, PERSONS
from .tiers import some

Opened = Callable[[pa.Table], Any]
REGIONS = sf.public(pa.table({"item": ["x", "y", "y", None], "kind": ["tea", "cup", "tea", "cup"]}))


def rows_by_chance(seed: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Rows in which no key is unique, some lead nowhere, and half of the orders are of one."""
    chance = random.Random(seed)
    some_of = chance.choice
    c = [(some_of(KEYS), some_of(PERSONS), chance.randint(20, 23)) for _ in range(30)]
    o = [
        (some_of([1, 2, 3, 4, None]), some_of([*KEYS, 9.0, *[1.0] * 8]), some_of([0.5, -0.0, 2.25, None]))
        for _ in range(60)
    ]
    return c, o, [(some_of([1, 2, 3, 5, 1, None]), some_of("xyz")) for _ in range(80)]


def with_owners(rows: Any, owners: Table[Any], column: str, key: str, unit: str) -> Table[Any]:
    """Return rows with the units that they reach, as a catalog does."""
    made = rows.combined(Reached(Part(rows, (), None), owners._part, column, key, unit))
    return Table(made, unit, _unit_parts=owners._unit_parts)


class Shop:
    """Customers, their orders, and lines of these.

    Args:
        unit: of the customers.
        seed: of the rows.
        opened: what reads them.
    """

    def __init__(self, unit: Any, seed: int, opened: Opened) -> None:
        c, o, n = rows_by_chance(seed)
        parts = unit if isinstance(unit, list) else []
        self.customers = unit_table(opened(table(CUSTOMERS, c)), unit, parts, "UTC")
        of_orders = "customer" if unit == "id" else self.customers.unit
        self.orders = with_owners(opened(table(ORDERS, o)), self.customers, "customer", "id", of_orders)
        self.lines = with_owners(opened(table(LINES, n)), self.orders, "order", "number", of_orders)


BOTH = ["person", "age"]
CHAINS: dict[str, tuple[Any, Callable[[Shop], Table[Any]]]] = {
    "lines": ("person", lambda s: s.lines),
    "orders": ("person", lambda s: s.orders),
    "orders of keys that are units": ("id", lambda s: s.orders),
    "lines of keys that are units": ("id", lambda s: s.lines),
    "lines of units of two columns": (BOTH, lambda s: s.lines),
    "steps": ("person", lambda s: s.orders.filter("price > 0").with_columns(double="price * 2")),
    "a public table": ("person", lambda s: s.lines.join(REGIONS, on="item", how="left")),
    "a public table, of two columns": (BOTH, lambda s: s.lines.join(REGIONS, on="item")),
    "per unit": ("person", lambda s: s.lines.per_unit("item", n="count(*)", last="max(item)")),
    "per unit of two columns": (BOTH, lambda s: s.orders.per_unit(n="count(*)", p="sum(price)")),
    "with their customers": (
        "person",
        lambda s: s.orders.join(s.customers, on={"customer": "id", "person": "person"}),
    ),
    "with customers of two columns": (
        BOTH,
        lambda s: s.customers.join(s.orders, on={"id": "customer", "person and age": "person and age"}, how="left"),
    ),
    "put together": (
        "person",
        lambda s: s.lines.sql("SELECT person, item AS x FROM self").union(
            s.customers.sql("SELECT person, CAST(age AS VARCHAR) AS x FROM self")
        ),
    ),
    "all three": (
        "person",
        lambda s: (
            s.lines.join(s.orders, on={"order": "number", "person": "person"})
            .join(s.customers, on={"customer": "id", "person": "person"})
            .filter("age > 20")
        ),
    ),
}  # fmt: skip


def numbers(asked: Table[Any]) -> list[Any]:
    """Return statistics of all kinds, and within limits that no unit comes to."""
    plan = asked.bound(rows=10**6).agg(n=sf.count(), u=sf.count_units()).plan(epsilon=1)
    whole = [batch.to_pylist() for batch in asked._engine.statistics(plan.exact, 1000)]
    return [*statistics(asked), whole]


def on_workers(name: str, seed: int) -> list[Any]:
    unit, made = CHAINS[name]
    return numbers(made(Shop(unit, seed, lambda rows: LocalEngine(rows, seed))))


def on_one_machine(name: str, seed: int) -> list[Any]:
    unit, made = CHAINS[name]
    return numbers(made(Shop(unit, seed, DuckDBEngine.open)))


@pytest.mark.parametrize("name", some(CHAINS, 20))
@pytest.mark.parametrize("seed", some(range(4), 4))
def test_workers_compute_what_one_machine_does(name, seed, fixed_salt):
    found = on_workers(name, seed)
    assert found == on_one_machine(name, seed)
    assert found[-1][0][0] != {"c0": 0} and len(found) >= 2


def differs(name: str) -> bool:
    return on_workers(name, 0) != on_one_machine(name, 0)


def planted(text: Callable[..., str], old: str, new: str) -> Callable[..., str]:
    def changed(*given: Any) -> str:
        whole = text(*given)
        assert old in whole
        return whole.replace(old, new)

    return changed


@pytest.mark.long
@pytest.mark.parametrize("name", ["orders", "lines of units of two columns"])
def test_keys_that_a_unit_has_twice_would_be_found(name, monkeypatch, fixed_salt):
    assert not differs(name)
    for owner, text in ((stages, "foreign_key_rows"), (ForeignKeyJoin, "owners_sent")):
        monkeypatch.setattr(owner, text, planted(getattr(owner, text), "SELECT DISTINCT", "SELECT"))
    assert differs(name)


@pytest.mark.long
def test_equal_keys_that_go_to_two_workers_would_be_found(monkeypatch, fixed_salt):
    monkeypatch.setattr(
        stages,
        "_shard",
        lambda column, schema, shards: f"CAST(hash(CAST({stages.identifier(column)} AS VARCHAR)) % {shards} AS INTEGER) AS shard",
    )  # fmt: skip
    assert differs("orders")


@pytest.mark.long
def test_keys_without_a_value_that_meet_would_be_found(monkeypatch, fixed_salt):
    monkeypatch.setattr(
        stages,
        "foreign_key_rows",
        planted(stages.foreign_key_rows, "l.k = r.k", "l.k IS NOT DISTINCT FROM r.k"),
    )
    assert not differs("orders")  # they do not come this far
    for name, key in (("owners_sent", "id"), ("rows_sent", "customer")):
        kept = planted(getattr(ForeignKeyJoin, name), f'"{key}" IS NOT NULL', "true")
        monkeypatch.setattr(ForeignKeyJoin, name, kept)
    assert differs("orders")


@pytest.mark.long
@pytest.mark.parametrize("kind", UNITS)
def test_keys_of_every_kind_meet(kind, fixed_salt):
    left, right, values = UNITS[kind]
    texts = [values[i * i % len(values)] for i in range(60)]
    units = [str(i % 5) for i in range(60)]
    there = as_arrow({"k": (right, texts), "u": ("INTEGER", units), "c0": ("VARCHAR", texts)})
    odd = {'a.b "x"': ("INTEGER", units), "shard": ("VARCHAR", texts)}
    here = as_arrow({"f": (left, texts[:20]), **{name: (t, v[:20]) for name, (t, v) in odd.items()}})
    found = []
    for opened in (DuckDBEngine.open, LocalEngine):
        owners = Table(opened(there), "u")
        found.append(numbers(with_owners(opened(here), owners, "f", "k", "u")))
    assert found[0] == found[1]
    assert found[0][-1] != [[{"c0": 0}]]


def test_only_columns_that_are_read_move_and_sums_where_they_can():
    def sent(name: str, ask: Callable[[Any], sf.Question]) -> tuple[bool, dict[int, list[str]]]:
        unit, made = CHAINS[name]
        question = ask(made(Shop(unit, 0, LocalEngine)))
        stages = question.table._engine.stages(question.plan(epsilon=1, delta=1e-6).exact, 3)
        return stages.by_rows, {number: rows.names for number, rows in stages.arriving.items()}

    def counted(asked: Any) -> sf.Question:
        return asked.bound(rows=1).agg(n=sf.count())

    def by_item(asked: Any) -> sf.Question:
        return asked.group_by("item").bound(groups=1, rows=1).agg(n=sf.count())

    assert sent("orders", counted) == (True, {1: ["id", "person"], 2: ["customer"]})
    assert sent("lines", by_item) == (
        True,
        {2: ["order", "item"], 3: ["id", "person"], 4: ["number", "customer"]},
    )
    of_two = sent("lines of units of two columns", counted)
    assert of_two == (True, {2: ["order"], 3: ["id", "person", "age"], 4: ["number", "customer"]})
    assert sent("per unit", counted)[0] is False


def outputs_in_any_order(asked: Table[Any]) -> list[int]:
    """Return of how many kinds is what each hop gives, of the same parts in several orders."""
    plan = asked.bound(rows=5).agg(n=sf.count()).plan(epsilon=1)
    stages = asked._engine.stages(plan.exact, 1)
    moved = {
        number: [
            part
            for i in range(0, 60, 7)
            for part in stages.partials(
                asked._engine.tables[number].engine.given.select(rows.names).slice(i, 7).to_batches(), number
            )
        ]
        for number, rows in stages.arriving.items()
    }
    kinds = []
    for hop in stages.key_joins:
        met, found = moved.pop(hop.owners) + moved.pop(hop.rows), []
        for seed in range(6):
            random.Random(seed).shuffle(met)
            found.append(list(stages.reached(hop, [part.data for part in met])))
        moved[hop.gives] = found[0]
        kinds.append(len({tuple(one) for one in found}))
    return kinds


@pytest.mark.long
@pytest.mark.parametrize("name", ["lines", "per unit", "with their customers"])
def test_what_is_computed_again_from_parts_in_another_order_is_the_same(name, monkeypatch):
    """Else Spark would take it for that of rows that changed, where a machine is lost."""
    unit, made = CHAINS[name]
    assert set(outputs_in_any_order(made(Shop(unit, 0, LocalEngine)))) == {1}
    monkeypatch.setattr("sfumato.engines.duckdb.combined_stages.in_one_order", lambda kinds: "")
    assert (outputs_in_any_order(made(Shop(unit, 0, LocalEngine)))[-1] > 1) is (name != "lines")


LARGER = {
    "one group": lambda o: o.bound(rows=5).agg(n=sf.count()),
    "groups": lambda o: o.group_by("town").bound(groups=3, rows=5).agg(n=sf.count()),
    "total rows": lambda o: o.group_by("town").bound(total_rows=4).agg(n=sf.count("price")),
    "quantiles": lambda o: o.group_by("town").bound(groups=3, rows=5).agg(m=sf.quantiles("price", [0.5], lower=0, upper=9)),
}  # fmt: skip


def kinds_of_outputs(made, owners: bool) -> tuple[int, int]:
    """Return how many kinds there are of what a hop gives, and of totals, of parts in five orders."""
    chance = random.Random(0)
    customers = pa.table({"id": range(60), "p": [f"p{i % 30}" for i in range(60)]})
    columns = {"cust": 60, "town": 40, "price": 9}
    rows = pa.table({name: [chance.randrange(most) for _ in range(180)] for name, most in columns.items()})
    rows = rows.set_column(1, "town", rows["town"].cast(pa.string()))
    orders = Table(LocalEngine(rows), "cust")
    if owners:
        orders = with_owners(LocalEngine(rows), Table(LocalEngine(customers), "p"), "cust", "id", "p")
    question = made(orders)
    engine = question.table._engine
    stages = engine.stages(question.plan(epsilon=1, delta=1e-6).exact, 1)
    parts = [
        part.data
        for number, read in stages.arriving.items()
        for start in range(0, 180, 9)
        for part in stages.partials(
            engine.tables[number].engine.given.select(read.names).slice(start, 9).to_batches(), number
        )
    ]
    hops, totals = set(), set()
    for seed in range(5):
        random.Random(seed).shuffle(parts)
        units = parts
        for hop in stages.key_joins:
            units = [part.data for part in stages.reached(hop, parts)]
            hops.add(tuple(units))
            units = [*reversed(units)]
        totals.add(tuple(part.data for part in stages.totals(units)))
    return len(hops), len(totals)


@pytest.fixture
def as_if_many(monkeypatch):
    """Rows are taken to be many, of which DuckDB is asked in other steps."""
    monkeypatch.setattr(sizes, "FEW_ROWS", 0)


@pytest.mark.parametrize("owners", [True, False])
@pytest.mark.parametrize("name", LARGER)
def test_sums_of_many_parts_in_another_order_are_the_same(name, owners, fixed_salt, as_if_many):
    assert kinds_of_outputs(LARGER[name], owners) == (int(owners), 1)


@pytest.mark.parametrize("owners", [True, False])
@pytest.mark.parametrize("name", LARGER)
def test_sums_of_parts_in_another_order_are_the_same(name, owners, fixed_salt):
    assert kinds_of_outputs(LARGER[name], owners) == (int(owners), 1)


@pytest.mark.parametrize("order", ["partial_order", "total_order"])
def test_sums_in_no_order_would_be_found(order, monkeypatch, fixed_salt, as_if_many):
    monkeypatch.setattr(BoundingSql, order, "")
    found = kinds_of_outputs(LARGER["groups"], order == "partial_order")
    assert found[order == "total_order"] > 1


def test_tables_of_two_engines_do_not_meet():
    customers = sf.scan(table(CUSTOMERS, []), privacy_unit="person")
    with pytest.raises(QueryError, match="not read by stages"):
        with_owners(LocalEngine(table(ORDERS, [])), customers, "customer", "id", "person")


REAL = ["all three", "lines of units of two columns", "orders of keys that are units", "a public table", "per unit"]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark", "beam"])
@pytest.mark.parametrize("name", REAL)
def test_spark_and_beam_compute_what_one_machine_does(name, engine, openers, fixed_salt):
    unit, made = CHAINS[name]
    assert numbers(made(Shop(unit, 7, openers(engine)))) == on_one_machine(name, 7)


def declared(c: Any, o: Any, n: Any) -> dict[str, Any]:
    return {
        "customers": {"source": c, "privacy_unit": "person"},
        "orders": {"source": o, "foreign_keys": {"customer": "customers.id"}},
        "lines": {"source": n, "foreign_keys": {"order": "orders.number"}},
    }


ASKED = """
    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000, max_rows_per_group = 1000)
      COUNT(*) AS n, COUNT(DISTINCT person) AS people
    FROM lines AS l JOIN orders AS o ON l.order = o.number JOIN customers AS c ON o.customer = c.id
    WHERE c.age >= 21"""


@pytest.mark.long
@pytest.mark.flakiness(k=100, because="noise of scale below 0.01 rounds to 0")
def test_a_catalog_declares_them_for_spark_and_beam(frame_of, spark, run, tmp_path):
    import apache_beam as beam

    given = zip(("customers", "orders", "lines"), (CUSTOMERS, ORDERS, LINES), rows_by_chance(3), strict=True)
    rows = {name: table(schema, made) for name, schema, made in given}

    def of(catalog: Any) -> Any:
        return sf.sql(ASKED, catalog=sf.catalog(catalog, **({"spark": spark} if catalog == path else {})))

    path = tmp_path / "catalog.toml"
    path.write_text("""
        [tables.customers]
        source = "shop_customers"
        privacy_unit = "person"
        [tables.orders]
        source = "shop_orders"
        foreign_keys = {customer = "customers.id"}
        [tables.lines]
        source = "shop_lines"
        foreign_keys = {order = "orders.number"}
    """)
    for name, one in rows.items():
        frame_of(one).createOrReplaceTempView(f"shop_{name}")
    expected = of({"tables": declared(*rows.values())}).to_arrow().to_pylist()
    assert expected[0]["n"] > 0
    assert [row.asDict() for row in of(path).collect()] == expected
    release = of({"tables": declared(*(one.schema for one in rows.values()))})

    def build(pipeline: Any) -> Any:
        brought = {n: pipeline | n >> beam.Create(one.to_pylist()) for n, one in rows.items()}
        return brought | release

    assert run(build) == expected
    assert "customers.id is declared unique" in str(release.explain())


def test_collections_are_brought_by_name_once():
    tables = declared(CUSTOMERS, ORDERS, LINES)
    asked = sf.catalog({"tables": tables}).table("lines").bound(rows=1).agg(n=sf.count())
    release = asked.release(epsilon=1)
    assert sorted(release._names_of.values()) == ["customers", "lines", "orders"]
    with pytest.raises(
        QueryError, match=r"\{'lines': \.\.\., 'customers': \.\.\., 'orders': \.\.\.\} \| release"
    ):
        release.expand({})  # fmt: skip
    nameless = tables["orders"] | {"source": ORDERS}
    with pytest.raises(CatalogError, match="customer is VARCHAR, but customers.id is DOUBLE"):
        other = ORDERS.set(1, pa.field("customer", pa.string()))
        sf.catalog({"tables": tables | {"orders": nameless | {"source": other}}}).table("lines")


def test_collections_of_one_name_with_other_columns_are_refused():
    from sfumato.beam import named

    owners = sf.scan(named("customers", CUSTOMERS), privacy_unit="person")
    fewer = sf.scan(named("customers", CUSTOMERS.remove(2)), privacy_unit="person")
    rows = sf.scan(named("orders", ORDERS), privacy_unit="number")._engine
    orders = with_owners(rows, owners, "customer", "id", "person")
    with pytest.raises(QueryError, match="two tables are named 'customers'"):
        orders.join(fewer, on="person")
    orders.join(sf.scan(named("customers", CUSTOMERS), privacy_unit="person"), on="person")
