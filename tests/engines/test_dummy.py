"""Dummy tables: made from declarations alone, so that every question runs on them, and nothing is read or spent."""

from __future__ import annotations

import datetime
import re
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
from sfumato.engines.duckdb import sources
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import CatalogError, EngineError, ParameterError, QueryError, SfumatoError
from sfumato.query.tables.dummy_rows import MADE_UP
from sfumato.query.tables.public_table import PublicTable

pytestmark = pytest.mark.noise_cannot_matter(
    "that questions are answered is shown, and what made-up rows are"
)

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


def test_columns_and_types_are_those_of_the_table():
    real = sf.scan(SCHEMA.empty_table(), privacy_unit="id")
    assert dummy().schema == real.schema
    assert list(dummy().schema) == SCHEMA.names


def test_values():
    found = table_of(dummy(rows=2000, units=300)._engine)
    assert found.num_rows == 2000 and len(set(found["id"].to_pylist())) == 300
    counts = found.group_by("id").aggregate([("id", "count")])["id_count"].to_pylist()
    assert min(counts) >= 1 and max(counts) > 3 * 2000 / 300  # people are unlike
    for name in SCHEMA.names:
        missing = found[name].null_count
        if name in ("id", "always"):
            assert missing == 0
        elif name == "pair":  # of structs nothing is made up
            assert missing == 2000
        else:
            assert 40 <= missing <= 180, name
            assert len(set(map(str, found[name].to_pylist()))) >= 3, name
    assert set(found["town"].to_pylist()) == {None, *(f"town {i}" for i in range(1, 11))}
    assert all(len(v) == 3 and all(0 <= x <= 1 for x in v) for v in found["vector"].to_pylist() if v)
    assert all(0 <= x <= 100 for x in found["price"].to_pylist() if x is not None)
    assert all(abs(x) < 1 for x in found["tiny"].to_pylist() if x is not None)


def test_the_same_declarations_make_the_same_rows_and_a_seed_others():
    assert rows_of(dummy()) == rows_of(dummy()) != rows_of(dummy(seed=1))
    assert rows_of(dummy(seed=1)) == rows_of(dummy(seed=1))


def peeking(rows: pa.Table) -> Any:
    """A table that is made up with a peek at the rows: their number, as one that is honest would not have it."""
    return sf.scan(rows, privacy_unit="id").dummy(rows=rows.num_rows)


def honest(rows: pa.Table) -> Any:
    return sf.scan(rows, privacy_unit="id").dummy(rows=3)


ONE = pa.table({"id": [1, 2, 3], "k": pa.array(["a", "b", None]).dictionary_encode(), "v": [1.0, 2.0, None]})
TWO = pa.table(
    {
        "id": [7, 7, 9, 10],
        "k": pa.array(["x", "y", "z", "w"]).dictionary_encode(),
        "v": [-1e300, 2.0, 5.0, 9.0],
    }
)


def same_for(make: Any) -> bool:
    return rows_of(make(ONE)) == rows_of(make(TWO))


def test_tables_with_other_rows_are_made_up_alike_and_a_peek_is_found():
    assert same_for(honest)
    assert not same_for(peeking)


@pytest.mark.parametrize(
    "kind", ["parquet", "relation", "polars", "lazy", "pandas", "duckdb", "batch", "csv", "json"]
)
def test_alike_for_every_source(kind, tmp_path, unread):
    def opened(rows: pa.Table, name: str) -> Any:
        path = tmp_path / f"{name}.{kind}"
        types = {"id": "BIGINT", "k": "VARCHAR", "v": "DOUBLE"} if kind in ("csv", "json") else None
        match kind:
            case "parquet":
                pq.write_table(rows, path)
            case "csv":
                polars.from_arrow(rows).write_csv(path)
            case "json":
                polars.from_arrow(rows).write_ndjson(path)
            case "duckdb":
                with duckdb.connect(path) as connection:
                    connection.execute("CREATE TABLE t AS FROM rows")
                path = path / "t"
        source = {
            "relation": lambda: duckdb.from_arrow(rows),
            "polars": lambda: polars.from_arrow(rows),
            "lazy": lambda: polars.from_arrow(rows).lazy(),
            "pandas": rows.to_pandas,
            "batch": lambda: rows.combine_chunks().to_batches()[0],
        }.get(kind, lambda: path)()
        return sf.scan(source, privacy_unit="id", types=types).dummy(rows=50)

    one, two = opened(ONE, "one"), opened(TWO, "two")
    assert rows_of(one) == rows_of(two)
    assert one._engine.files == ()


# Nothing is read, and nothing spent.


TYPES = {"id": "BIGINT", "town": "VARCHAR", "age": "INTEGER", "day": "DATE"}
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
        "items": {
            "source": "nowhere/items.csv",
            "foreign_keys": {"ord": "orders.order_id"},
            "types": {"ord": "VARCHAR", "pieces": "SMALLINT", "shipped": "TIMESTAMP"},
            "columns": {"pieces": {"lower": 1, "upper": 5}},
        },
        "regions": {
            "source": "nowhere/regions.csv",
            "public": True,
            "types": {"region": "VARCHAR", "people": "BIGINT"},
            "columns": {"region": {"domain": ["north", "south"]}},
        },
        "products": {"source": "nowhere/products.csv", "public": True, "types": {"product": "VARCHAR", "kind": "VARCHAR"}},
        "monthly": {
            "source": "nowhere/m.csv",
            "privacy_unit": ["id", "date_trunc('month', day)"],
            "types": TYPES,
        },
    }
}  # fmt: skip
SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, max_groups_contributed = 2, max_rows_per_group = 3) "


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
    assert len(set(table_of(made.table("monthly")._engine)["id"].to_pylist())) == 250
    assert table_of(made.public("regions")._engine)["region"].to_pylist() == ["north", "south"]


QUESTIONS = {
    "chain by domains": lambda c: c.table("customers").group_by("region").agg(age=sf.mean("age"), n=sf.count()),
    "private groups": lambda c: c.table("orders").group_by("product").bound(groups=2, rows=2).agg(s=sf.sum("price")),
    "keys of keys": lambda c: c.table("items").bound(rows=2).agg(m=sf.mean("pieces")),
    "declared join": lambda c: c.table("orders").join(c.table("customers"), on={"cust": "customer"})
    .group_by("region", keys=["north", "south"]).bound(groups=1, rows=2).agg(n=sf.count()),
    "public join": lambda c: c.table("customers").join(c.public("regions"), on="region").bound(rows=1)
    .agg(p=sf.mean("people", lower=0, upper=10)),
    "a unit of two columns": lambda c: c.table("monthly").bound(rows=1).agg(n=sf.count()),
    "per unit": lambda c: c.table("orders").per_unit(n="count(*)").agg(m=sf.mean("n", lower=0, upper=9)),
    "inside": lambda c: c.table("orders").sql("SELECT cust, max(price) AS p FROM self GROUP BY cust")
    .agg(m=sf.mean("p", lower=0, upper=9)),
    "union": lambda c: c.table("orders").union(c.table("orders")).bound(rows=2).agg(n=sf.count()),
}  # fmt: skip
TEXTS = {
    "declared groups": "region, AVG(age) AS age FROM customers GROUP BY region",
    "joined": "c.region, AVG(o.price) AS p FROM orders o JOIN customers c ON o.cust = c.customer GROUP BY c.region",
    "public": "p.kind, COUNT(*) AS n FROM orders o JOIN products p USING (product) GROUP BY p.kind",
    "groups of a public table": "r.region, COUNT(*) AS n FROM customers RIGHT JOIN (SELECT DISTINCT region FROM regions) AS r ON customers.region = r.region GROUP BY r.region",
    "sorted": "product, COUNT(*) AS n FROM orders GROUP BY product ORDER BY n DESC LIMIT 3",
    "window": "AVG(lagged, contribution_bounds_per_row => (0, 9)) AS m FROM (SELECT cust, LAG(price) OVER (PARTITION BY cust ORDER BY price) AS lagged FROM orders)",
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_chains_on_a_dummy_catalog(name, unread):
    budget = sf.Budget(epsilon="0.1", delta="1e-9")
    question = QUESTIONS[name](sf.catalog(CATALOG).dummy())
    release = question.release(epsilon=1, delta="1e-6", budget=budget)
    assert release.to_arrow().num_rows > 0
    assert budget.spent == (0, 0)
    assert MADE_UP in question.query.notes and "of made-up rows" in repr(release)


@pytest.mark.parametrize("name", TEXTS)
def test_sql_on_a_dummy_catalog(name, unread):
    budget = sf.Budget(epsilon="0.1", delta="1e-9")
    text = SQL + TEXTS[name]
    if "RIGHT JOIN" in text:
        text = text.replace("delta = 1e-6", "group_selection_strategy = PUBLIC_GROUPS")
    release = sf.sql(text, catalog=sf.catalog(CATALOG).dummy(), budget=budget)
    assert release.to_arrow().num_rows > 0 and budget.spent == (0, 0)
    text = str(release.explain())
    assert "on made-up rows" in text and "THESE ROWS ARE MADE UP" in text
    receipt = release.receipt()
    assert receipt.dummy and not receipt.verify(release.to_arrow()).ok
    assert "NOT A RELEASE" in str(receipt.verify(release.to_arrow()))


def test_a_dummy_receipt_is_told_from_a_real_one():
    rows = sf.scan(ONE, privacy_unit="id")
    forms = [table.agg(n=sf.count_units()).release(epsilon=1).receipt() for table in (rows, rows.dummy())]
    assert forms[0].plan != forms[1].plan and forms[1].plan["table"]["dummy"] == {
        "rows": 1000,
        "units": 250,
        "seed": 0,
    }
    real = rows.agg(n=sf.count_units()).release(epsilon=1)
    assert real.receipt().verify(real.to_arrow()).ok and not real.receipt().dummy


def declared(**entry: Any) -> Any:
    return sf.catalog({"tables": {"t": {"source": "nowhere.csv", "privacy_unit": "id", **entry}}}).dummy()


@pytest.mark.parametrize(
    "kind",
    [
        "BIGINT",
        "TINYINT",
        "VARCHAR",
        "UUID",
        "DATE",
        "DECIMAL(9,2)",
        "TIMESTAMP",
        "TIMESTAMPTZ",
        "DOUBLE",
        "HUGEINT",
    ],
)
def test_units_of_every_type(kind):
    found = table_of(declared(types={"id": kind}).dummy(rows=400, units=90).table("t")._engine)[
        "id"
    ].to_pylist()
    assert len(set(found)) == 90 and None not in found


def test_a_unit_of_several_columns_has_as_many_first_ones():
    table = declared(privacy_unit=["id", "town"], types={"id": "BIGINT", "town": "VARCHAR"}).table("t")
    found = table_of(table._engine)
    assert len(set(found["id"].to_pylist())) == 250 and len(set(found["town"].to_pylist())) == 11


def test_bounds_beyond_a_type_or_between_its_values():
    types = {
        "id": "BIGINT",
        "a": "TINYINT",
        "b": "DECIMAL(3,3)",
        "c": "HUGEINT",
        "d": "UBIGINT",
        "e": "FLOAT",
        "f": "TINYINT",
    }
    wide = {"a": 1000, "b": 5, "c": 10**38, "d": 5, "e": 1e50}
    columns = {name: {"lower": -most, "upper": most} for name, most in wide.items()} | {
        "f": {"lower": 0.2, "upper": 0.4}
    }
    found = table_of(declared(types=types, columns=columns).table("t")._engine)
    for name in wide:
        assert len({one for one in found[name].to_pylist() if one is not None}) > 3, name


@pytest.mark.parametrize(
    "kind, domain", [("TINYINT", [1, 300]), ("UUID", ["a"]), ("DATE", ["Monday"]), ("BIGINT", ["a"])]
)
def test_domains_that_do_not_fit_are_said_as_of_real_rows(kind, domain):
    made = declared(types={"id": "BIGINT", "x": kind}, columns={"x": {"domain": domain}})
    with pytest.raises(CatalogError, match=r"tables\.t: columns\.x: domain"):
        made.table("t")


# Every shape of question in docs/statistics.md.

BOUNDS = {"price": (0, 10), "weight": (1, 3)}
SHAPES: dict[str, dict[str, Any]] = {
    "count": {"n": sf.count(), "m": sf.count("price"), "u": sf.count_units(), "t": sf.count_if("member")},
    "distinct": {"d": sf.count_distinct("town", values=2)},
    "distinct shares": {"d": sf.count_distinct("town", values=2, method="shares")},
    "sums": {"a": sf.sum("price", lower=0, upper=9), "b": sf.sum("age", lower=0, upper=9, per="row")},
    "means": {"a": sf.mean("price", lower=0, upper=9), "v": sf.variance("price", lower=0, upper=9), "s": sf.stddev("small", lower=0, upper=9)},
    "decimals": {"a": sf.mean("dec", lower=0, upper=9), "b": sf.sum("tiny", lower=0, upper=1), "c": sf.mean("large", lower=0, upper=9)},
    "proportion": {"p": sf.proportion("member")},
    "quantiles": {"q": sf.quantiles("price", [0.25, 0.75], lower=0, upper=100), "m": sf.median("age", lower=0, upper=9), "o": sf.quantile("age", 0.1, lower=0, upper=9)},
    "extremes": {"a": sf.min("price", lower=0, upper=100), "b": sf.max("price", lower=0, upper=100)},
    "vectors": {"s": sf.vector_sum("vector", length=3, bound=1), "m": sf.vector_mean("vector", length=3, bound=1)},
    "bins": {"h": sf.histogram("price", [0, 18, 65], outside="count"), "v": sf.value_counts("town", ["town 1", "town 2"], other=True)},
    "bins of units": {"h": sf.histogram("price", [0, 18, 65], per="unit"), "s": sf.value_counts("member", [True, False], shares=True)},
    "weights": {"n": sf.count(weight="weight", max_weight=50), "m": sf.mean("price", lower=0, upper=9, weight="weight", max_weight=50)},
    "weighted bins": {"h": sf.histogram("price", [0, 50, 100], weight="weight", max_weight=50)},
    "cross": {"c": sf.covariance("price", "weight", bounds=BOUNDS), "r": sf.correlation("price", "weight", bounds=BOUNDS), "f": sf.linear_regression("price", ["weight"], bounds=BOUNDS)},
    "derived": {"n": sf.count(), "s": sf.sum("price", lower=0, upper=9, per="row"), "r": sf.ratio("s", "n"), "d": sf.difference("s", "n")},
}  # fmt: skip


def test_every_function_of_the_page_is_among_the_shapes():
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()
    source = Path(__file__).read_text()
    named = set(re.findall(r"`sf\.(\w+)", page)) - {"Budget", "scan"}
    assert len(named) > 15
    assert {name for name in named if f"sf.{name}(" not in source} == set()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "groups", ["public", *(pytest.param(name, marks=pytest.mark.long) for name in ("whole", "private"))]
)
def test_every_statistic(name, groups, unread):
    table = dummy().bound(groups=2, rows=2)
    keys = {
        "whole": lambda: table,
        "public": lambda: table.group_by("week", keys=[1, 2]),
        "private": lambda: table.group_by("member"),
    }
    release = keys[groups]().agg(**SHAPES[name]).release(epsilon=50, delta="1e-6")
    assert release.to_arrow().num_rows > 0
    assert release.errors(0.9).num_rows == release.to_arrow().num_rows


@pytest.mark.long
def test_statistics_of_whole_tables_and_time(unread):
    table = dummy().bound(groups=4, rows=1)
    strata = {
        "p": sf.proportion(
            "member",
            stratum="town",
            asked={"town 1": 90, "town 2": 90},
            population={"town 1": 900, "town 2": 900},
        )
    }
    assert table.agg(**strata).release(epsilon=9).to_arrow().num_rows == 1
    weeks = table.group_by("week", keys=range(4))
    assert weeks.agg(c=sf.cumulative(sf.count())).release(epsilon=9, delta="1e-6").to_arrow().num_rows == 4
    both = table.group_by("week", "member", keys=[(w, m) for w in (1, 2) for m in (True, False)])
    assert both.totals().agg(n=sf.count()).release(epsilon=9, delta="1e-6").to_arrow().num_rows == 7
    for by in (None, sf.sum("price", lower=0, upper=9)):
        assert dummy().top("town", k=2, by=by).release(epsilon=9, delta="1e-6").to_arrow().num_columns == 3
    found = table.agg(m=sf.mean("price", lower="auto", upper="auto")).release(epsilon=9, diagnostics=0.1)
    assert found.to_arrow().num_rows == 1 and found.diagnostics is not None
    compared = table.group_by("member", keys=[True, False]).agg(n=sf.count()).release(epsilon=9)
    assert compared.compare("n", True, False) and compared.share_of_total("n").num_rows == 2


@pytest.mark.parametrize("kind", ["release", "top", "share", "diagnose", "auto", "sql", "sql computed"])
def test_nothing_of_a_budget_is_spent(kind):
    budget, table = sf.Budget(epsilon=3, delta="1e-6"), dummy().bound(rows=1)
    catalog, mean = sf.catalog(CATALOG).dummy(), sf.mean("price", lower="auto", upper="auto")
    text = SQL + "COUNT(*) AS n FROM customers"
    {
        "release": lambda: table.agg(n=sf.count()).release(epsilon=2, budget=budget),
        "top": lambda: dummy().top("town", k=2, keys=["town 1", "a"]).release(epsilon=2, budget=budget),
        "share": lambda: table.agg(n=sf.count()).release(share="1/2", budget=budget),
        "diagnose": lambda: table.agg(n=sf.mean("price", lower=0, upper=1)).diagnose(
            epsilon=2, budget=budget
        ),
        "auto": lambda: table.agg(n=mean).release(epsilon=2, budget=budget),
        "sql": lambda: sf.sql(text, catalog=catalog, budget=budget),
        "sql computed": lambda: sf.sql(f"SELECT n + 1 FROM ({text})", catalog=catalog, budget=budget),
    }[kind]()
    assert budget.spent == (0, 0)
    with pytest.raises(ParameterError, match="budget"):
        table.agg(n=sf.count()).release(epsilon=2, budget=3)


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
            with pytest.raises(SfumatoError, match="some of the tables are made up and others not"):
                mix(one, other)


def test_a_public_table_that_is_made_up_makes_no_question_free():
    made = sf.catalog(CATALOG).dummy().public("products")
    real = sf.scan(pa.table({"id": [1], "product": ["product 1"]}), privacy_unit="id").join(
        made, on="product"
    )
    budget = sf.Budget(epsilon=1)
    real.agg(n=sf.count_units()).release(epsilon=1, budget=budget)
    assert budget.spent == (1, 0) and not real._engine.made_up and MADE_UP not in real.notes


def test_the_flag_is_no_argument_of_anybody():
    """A planted defect: an engine that says that it is made up does not pay, which the tests above would see."""
    real = sf.scan(ONE, privacy_unit="id")
    with pytest.raises(AttributeError):
        real._engine.made_up = True


# What is refused.


@pytest.mark.parametrize(
    "given, said",
    [
        ({"rows": 0}, "rows is 0"),
        ({"rows": 10**9}, "at most 1,000,000"),
        ({"rows": 3, "units": 4}, "units is 4"),
        ({"units": "many"}, "units is 'many'"),
        ({"seed": "s"}, "seed is 's'"),
        ({"seed": True}, "seed is True"),
    ],
)
def test_numbers_that_are_not_admissible(given, said):
    with pytest.raises(ParameterError, match=said):
        dummy(**given)
    with pytest.raises(ParameterError, match=said):
        sf.catalog(CATALOG).dummy(**given)


def test_tables_that_are_made_of_others_or_grouped(tmp_path):
    table = sf.scan(ONE, privacy_unit="id")
    with pytest.raises(QueryError, match="dummy: this table is made of others"):
        table.per_unit(n="count(*)").dummy()
    with pytest.raises(QueryError, match="dummy: comes before group_by"):
        table.group_by("k").dummy()


def test_types_that_were_guessed_from_rows(tmp_path, monkeypatch):
    for name, text in (("rows.csv", "id,v\n1,2\n"), ("rows.json", '{"id": 1, "v": 2}\n')):
        (tmp_path / name).write_text(text)
        with pytest.raises(QueryError, match=r"dummy: .* guessed from its first rows"):
            sf.scan(tmp_path / name, privacy_unit="id").dummy()
        catalog = sf.catalog({"tables": {"t": {"source": str(tmp_path / name), "privacy_unit": "id"}}})
        monkeypatch.setattr(sources, "_open_path", None)  # nor is the file opened
        with pytest.raises(CatalogError, match=r"tables\.t: its types would be guessed from rows"):
            catalog.dummy()
        monkeypatch.undo()


def test_a_parquet_file_whose_types_are_declared_need_not_be_there(tmp_path, unread):
    entry = {
        "source": str(tmp_path / "rows.parquet"),
        "privacy_unit": "id",
        "types": {"id": "BIGINT", "k": "VARCHAR", "v": "DOUBLE"},
    }
    catalog = sf.catalog({"tables": {"t": entry}})
    before = rows_of(catalog.dummy().table("t"))
    pq.write_table(ONE, tmp_path / "rows.parquet")
    assert before == rows_of(catalog.dummy().table("t")) and len(before) == 1000
    assert catalog.table("t").schema.keys() == catalog.dummy().table("t").schema.keys()


def test_types_that_a_parquet_file_declares_too_are_checked(tmp_path):
    pq.write_table(ONE, tmp_path / "rows.parquet")
    entry = {
        "source": str(tmp_path / "rows.parquet"),
        "privacy_unit": "id",
        "types": {"id": "BIGINT", "v": "DOUBLE"},
    }
    assert sf.catalog({"tables": {"t": entry}}).check().ok
    entry["types"] = {"v": "FLOAT"}
    with pytest.raises(CatalogError, match="'v' is declared FLOAT, but is DOUBLE in the source"):
        sf.catalog({"tables": {"t": entry}}).dummy()


def test_a_file_that_must_tell_its_columns_and_is_not_there():
    catalog = sf.catalog({"tables": {"t": {"source": "nowhere.parquet", "privacy_unit": "id"}}})
    with pytest.raises(EngineError, match=r"tables\.t: .* there is no file 'nowhere.parquet'"):
        catalog.dummy()


def test_a_catalog_of_frames_is_not_read(unread):
    frames = {
        "arrow": ONE,
        "polars": polars.from_arrow(ONE),
        "lazy": polars.from_arrow(ONE)
        .lazy()
        .map_batches(_fails, schema={"id": polars.Int64, "k": polars.String, "v": polars.Float64}),
        "pandas": ONE.to_pandas(),
    }
    catalog = sf.catalog(
        {"tables": {n: {"source": frame, "privacy_unit": "id"} for n, frame in frames.items()}}
    )
    for name in frames:
        assert catalog.dummy().table(name).agg(n=sf.count_units()).release(epsilon=1).to_arrow().num_rows == 1


def _fails(_: Any) -> Any:
    raise AssertionError("rows were read")


def test_public_parts_of_a_dummy_catalog_are_public_tables():
    assert isinstance(sf.catalog(CATALOG).dummy().public("products"), PublicTable)
    with pytest.raises(QueryError, match="is public"):
        sf.catalog(CATALOG).dummy().table("products")


def test_a_catalog_that_is_checked_against_its_dummy_rows_is_as_declared():
    assert sf.catalog(CATALOG).dummy().check().ok, str(sf.catalog(CATALOG).dummy().check())


def test_a_schema_for_a_pipeline_and_dates(unread):
    table = sf.scan(pa.schema({"id": pa.int64(), "day": pa.date32()}), privacy_unit="id").dummy(rows=100)
    days = [day for day in table_of(table._engine)["day"].to_pylist() if day is not None]
    assert (
        min(days) >= datetime.date(2024, 1, 1)
        and table.agg(n=sf.count_units()).release(epsilon=1).to_arrow().num_rows
    )
