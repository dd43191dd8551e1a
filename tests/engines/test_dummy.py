"""Dummy tables: made from declarations alone, so that every question runs on them, and nothing is read or spent."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import EngineError, SfumatoError
from sfumato.query.tables.dummy_rows import MADE_UP
from sfumato.query.tables.public_table import PublicTable

pytestmark = pytest.mark.noise_cannot_matter("that questions are answered is shown, and what dummy rows are")

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("town", pa.string()), ("age", pa.int8()), ("price", pa.float64()), ("small", pa.float32()),
        ("tiny", pa.decimal128(2, 2)), ("dec", pa.decimal128(38, 2)), ("member", pa.bool_()), ("day", pa.date32()),
        ("at", pa.timestamp("us")), ("zoned", pa.timestamp("us", "UTC")), ("hour", pa.time64("us")), ("raw", pa.binary()),
        ("vector", pa.list_(pa.float32(), 3)), ("list", pa.list_(pa.int64())), ("names", pa.list_(pa.string())),
        ("pair", pa.struct([("x", pa.int64())])), ("large", pa.uint64()), pa.field("always", pa.int32(), nullable=False),
        ("weight", pa.float64()), ("said", pa.dictionary(pa.int32(), pa.string())), ("span", pa.duration("us")),
        ("week", pa.int32()), ('odd "name\'s', pa.string()),
    ]
)  # fmt: skip


def table_of(engine: Any) -> pa.Table:
    """All rows of an engine, in an order that says nothing."""
    with engine.rows(list(engine.schema())) as (session, relation):
        found = session.sql(f"FROM {relation}").to_arrow_table()
    rows = sorted(map(str, found.to_pylist()))
    assert len(rows) == found.num_rows
    return found


def rows_of(table: Any) -> list[str]:
    return sorted(map(str, table_of(table._engine).to_pylist()))


def dummy(**options: Any) -> Table[Any]:
    return sf.scan(SCHEMA.empty_table(), privacy_unit="id").dummy(**options)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever looks at rows of an engine fail, but of made-up ones."""
    for name in ("statistics", "rows", "contributions"):
        true = getattr(DuckDBEngine, name)

        def looks(self: DuckDBEngine, *given: Any, true: Any = true, **options: Any) -> Any:
            assert self.made_up, "rows were read"
            return true(self, *given, **options)

        monkeypatch.setattr(DuckDBEngine, name, looks)


# What is made up.


ONE = pa.table({"id": [1, 2, 3], "k": pa.array(["a", "b", None]).dictionary_encode(), "v": [1.0, 2.0, None]})

TWO = pa.table({"id": [7, 7, 9], "k": pa.array(["x", "y", "z"]).dictionary_encode(), "v": [-1e300, 2.0, 5.0]})


def written(rows: pa.Table, path: Path) -> Any:
    """Return a table as a source of the kind that a file's ending says."""
    match path.suffix:
        case ".parquet":
            pq.write_table(rows, path)
        case ".csv":
            polars.from_arrow(rows).write_csv(path)
        case ".duckdb":
            with duckdb.connect(path) as connection:
                connection.execute("CREATE TABLE t AS FROM rows")
            return path / "t"
    lazy = polars.from_arrow(rows).lazy()
    made = {".relation": duckdb.from_arrow(rows), ".lazy": lazy, ".pandas": rows.to_pandas()}
    return made.get(path.suffix, path)


@pytest.mark.long
def test_rows_follow_from_declarations_alone(tmp_path, unread):
    """The same for other rows of every kind of source; and others for a seed."""
    for kind in ("parquet", "csv", "duckdb", "relation", "lazy", "pandas"):
        types = {"id": "BIGINT", "k": "VARCHAR", "v": "DOUBLE"} if kind == "csv" else None
        sources = [written(rows, tmp_path / f"{n}.{kind}") for n, rows in enumerate((ONE, TWO))]
        tables = [sf.scan(source, privacy_unit="id", types=types).dummy(rows=50) for source in sources]
        assert rows_of(tables[0]) == rows_of(tables[1]) and tables[0]._engine.files == ()
    assert rows_of(dummy()) == rows_of(dummy()) != rows_of(dummy(seed=1)) == rows_of(dummy(seed=1))


# Nothing is read, and nothing spent.

CATALOG = {
    "tables": {
        "customers": {
            "source": "nowhere/customers.csv",
            "privacy_unit": "customer",
            "types": {"customer": "BIGINT", "region": "VARCHAR", "age": "INTEGER", "since": "DATE"},
            "columns": {"age": {"lower": 18, "upper": 90}, "region": {"domain": ["north", "south"]}},
            "max_groups": 2,
            "max_rows": 3,
        },
        "orders": {
            "source": "nowhere/orders.json",
            "foreign_keys": {"cust": "customers.customer"},
            "types": {"order_id": "VARCHAR", "cust": "BIGINT", "price": "DOUBLE", "product": "VARCHAR"},
            "columns": {"price": {"lower": Decimal("0.5"), "upper": 20}},
        },
        "items": {"source": "nowhere/items.csv", "foreign_keys": {"ord": "orders.order_id"}, "types": {"ord": "VARCHAR"}},
        "products": {"source": "nowhere/products.csv", "public": True, "types": {"product": "VARCHAR", "kind": "VARCHAR"}},
    }
}  # fmt: skip
SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, max_groups_contributed = 2, max_rows_per_group = 3) "


@pytest.mark.long
def test_a_catalog_whose_files_are_not_there(unread):
    catalog = sf.catalog(CATALOG)
    with pytest.raises(EngineError, match="there is no file"):
        catalog.table("customers")
    made = catalog.dummy()
    customers, orders, items = (made.table(name) for name in ("customers", "orders", "items"))
    assert set(table_of(customers._engine)["region"].to_pylist()) == {"north", "south", None}
    ages = [age for age in table_of(customers._engine)["age"].to_pylist() if age is not None]
    assert min(ages) >= 18 and max(ages) <= 90 and max(ages) - min(ages) > 50
    # A customer is one row, and each has orders; each order has items.
    people = set(table_of(customers._engine)["customer"].to_pylist())
    assert len(people) == table_of(customers._engine).num_rows == 250
    found = table_of(orders._engine)
    assert found.num_rows == 1000 and set(found["cust"].to_pylist()) == people
    assert (
        set(table_of(items._engine)["cust"].to_pylist()) <= people
        and table_of(items._engine).num_rows == 1000
    )
    assert isinstance(made.public("products"), PublicTable) and made.check().ok


@pytest.mark.long
def test_nothing_of_a_budget_is_spent():
    budget, table = sf.Budget(epsilon=3, delta="1e-6"), dummy().bound(rows=1)
    mean = sf.mean("price", lower="auto", upper="auto")
    release = table.agg(n=sf.count()).release(epsilon=2, budget=budget)
    dummy().top("town", k=2, keys=["town 1", "a"]).release(epsilon=2, budget=budget)
    table.agg(n=sf.count()).release(share="1/2", budget=budget)
    table.agg(n=sf.mean("price", lower=0, upper=1)).diagnose(epsilon=2, budget=budget)
    table.agg(n=mean).release(epsilon=2, budget=budget)
    text, catalog = SQL + "COUNT(*) AS n FROM customers", sf.catalog(CATALOG).dummy()
    sf.sql(f"SELECT n + 1 FROM ({text})", catalog=catalog, budget=budget)
    assert budget.spent == (0, 0)
    receipt = release.receipt()
    assert receipt.dummy and receipt.plan["table"]["dummy"] == {"rows": 1000, "units": 250, "seed": 0}
    assert not receipt.verify(release.to_arrow()).ok


# What is free must be made up, all of it.


def derived(table: Table[Any]) -> Iterator[Table[Any]]:
    """What can be made of a table."""
    towns = sf.public(pa.table({"k": ["a"], "r": [1]}))
    yield table.filter("v > 0").with_columns(w="v + 1")
    yield table.for_analysts()
    yield table.join(towns, on="k")
    yield table.join(table, on="id")
    yield table.union(table)
    yield table.per_unit(n="count(*)")
    yield table.sql(
        "SELECT id, k, lag(v) OVER (PARTITION BY id ORDER BY v) AS l FROM self WHERE k IN (SELECT r FROM t)",
        tables={"t": sf.public(pa.table({"r": ["a"]}))},
    )
    yield table.per_unit(n="count(*)").join(towns.filter("r > 0"), on={"n": "r"}).for_analysts()


def test_what_is_made_of_rows_is_real_and_of_made_up_ones_made_up():
    for real in derived(sf.scan(ONE, privacy_unit="id")):
        assert not real._engine.made_up and MADE_UP not in real.notes
        budget = sf.Budget(epsilon=1)
        real.agg(n=sf.count_units()).release(epsilon=1, budget=budget)
        assert budget.spent == (1, 0)
    for made in derived(sf.scan(ONE, privacy_unit="id").dummy()):
        assert made._engine.made_up and MADE_UP in made.notes


def test_made_up_rows_and_real_ones_do_not_meet():
    real = sf.scan(ONE, privacy_unit="id")
    for one, other in ((real, real.dummy()), (real.dummy(), real)):
        for mix in (
            lambda a, b: a.join(b, on="id"),
            lambda a, b: a.union(b),
            lambda a, b: a.sql("SELECT id, t.v FROM self JOIN t USING (id)", tables={"t": b}),
        ):
            with pytest.raises(SfumatoError, match="some private tables are dummy tables and others are not"):
                mix(one, other)
