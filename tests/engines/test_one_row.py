"""A limit of rows may be left out where each unit has one row in a group by how the rows are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb import combinations
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import QueryError

from .made_rows import rows_of
from .test_combined_on_workers import LocalEngine

ROWS = pa.table({"id": [1, 1, 2, None], "town": ["A", "B", "A", "B"], "price": [1.0, 2.0, 3.0, 4.0]})
TOWNS = sf.public(pa.table({"town": ["A", "A"], "region": ["n", "s"]}))
Shape = Callable[[Any, Any], Any]
ONE: dict[str, Shape] = {
    "per unit": lambda o, p: p,
    "filtered, derived": lambda o, p: p.filter("s > 1").with_columns(z="s + 1"),
    "in groups of what is derived": lambda o, p: p.with_columns(z="s // 2").group_by("z"),
    "by town, in groups of towns": lambda o, p: o.per_unit("town", n="count(*)").group_by("town"),
    "SQL": lambda o, p: o.sql("SELECT id AS u, sum(price) AS s FROM self GROUP BY id HAVING s > 0"),
    "DISTINCT": lambda o, p: o.sql("SELECT DISTINCT id FROM self"),
    "renamed": lambda o, p: o.sql("SELECT id, town AS t FROM self GROUP BY id, town").group_by("t"),
    "window": lambda o, p: p.sql("SELECT *, row_number() OVER (PARTITION BY id) AS r FROM self WHERE s > (SELECT 1)"),
    "joined with one": lambda o, p: p.join(o.per_unit(n="count(*)"), on="id", how="left"),
    "more joined with one": lambda o, p: o.per_unit("town", n="count(*)").join(p, on="id").group_by("town"),
}  # fmt: skip
SEVERAL: dict[str, Shape] = {
    "rows": lambda o, p: o,
    "by town": lambda o, p: o.per_unit("town", n="count(*)"),
    "by town, in other groups": lambda o, p: o.per_unit("town", k="count(*)").group_by("k"),
    "another town": lambda o, p: o.per_unit("town", n="count(*)").with_columns(town="'x'").group_by("town"),
    "another TOWN": lambda o, p: o.per_unit("town", n="count(*)").with_columns(TOWN="'x'").group_by("TOWN"),
    "town left out": lambda o, p: o.sql("SELECT id FROM (SELECT id, town FROM self GROUP BY id, town) AS s"),
    "joined with rows": lambda o, p: p.join(o, on="id"),
    "joined with a public table": lambda o, p: o.per_unit("town", n="count(*)").join(TOWNS, on="town").group_by("town"),
    "rows joined with one": lambda o, p: o.join(p, on="id"),
    "union": lambda o, p: p.union(p),
}  # fmt: skip


def made(shape: Shape, opened: Callable[[pa.Table], Any] = DuckDBEngine.open) -> Any:
    orders: Any = sf.Table(opened(ROWS), "id")
    return shape(orders, orders.per_unit(s="sum(price)"))


@pytest.mark.parametrize("opened", [DuckDBEngine.open, LocalEngine])
@pytest.mark.parametrize("name", ONE)
def test_rows_may_be_left_out_where_a_unit_has_one(name, opened):
    table = made(ONE[name], opened).bound(groups=2)
    question = table.agg(n=sf.count())
    said = table.bound(rows=1).agg(n=sf.count())
    plans = [one.plan(epsilon=1, delta=1e-6) for one in (question, said)]
    assert plans[0].exact == plans[1].exact and question.query.max_rows == 1
    assert "rows was not given" in question.query.notes[-1] and question.query.notes[:-1] == said.query.notes
    assert table.bound(rows=3).agg(n=sf.count()).query.max_rows == 3
    assert table.agg(n=sf.count_units()).query.max_rows is None


@pytest.mark.parametrize("name", ONE)
def test_there_a_unit_has_one_row_indeed(name):
    table = made(ONE[name])
    places = [list(table.schema).index(column) for column in (table.unit, *table.keys)]
    found = [tuple(row[i] for i in places) for row in rows_of(table).elements()]
    assert found and len(set(found)) == len(found)


@pytest.mark.parametrize("name", SEVERAL)
def test_elsewhere_a_limit_is_asked_for(name):
    with pytest.raises(QueryError, match="rows is missing"):
        made(SEVERAL[name]).bound(groups=2).agg(n=sf.count())


def test_a_join_that_forgets_to_look_would_be_found(monkeypatch):
    real = combinations.source_of

    def forgetful(text, parts, schema, resources, unique=(), looked=None):
        return real(text, parts, schema, resources, unique or parts[0].unique, looked)

    monkeypatch.setattr(combinations, "source_of", forgetful)
    made(SEVERAL["joined with rows"]).agg(n=sf.count())  # which the test above would report


def test_what_a_catalog_allows_at_most_is_no_reason_for_more():
    declared = {"source": ROWS, "privacy_unit": "id", "max_rows": 5}
    orders = sf.catalog({"tables": {"orders": declared}}).table("orders")
    assert orders.agg(n=sf.count()).query.max_rows == 5
    assert orders.per_unit(s="sum(price)").agg(n=sf.count()).query.max_rows == 1


CATALOG = sf.catalog({"tables": {
    "sales": {"source": ROWS, "privacy_unit": "id", "columns": {"town": {"domain": ["A"]}}},
    "people": {"source": ROWS.select(["id", "price"]), "privacy_unit": "id"},
}})  # fmt: skip
MADE = "(SELECT id, sum(price) AS m FROM sales GROUP BY id)"
ADVICE = [
    ("price", "sales", ", or declare lower and upper of price in catalog: tables.sales"),
    ("s.price", "sales AS s", ", or declare lower and upper of price in catalog: tables.sales"),
    ("m", f"{MADE} AS s", "; m is of a SELECT inside, of which no bounds are declared"),
    ("s.m", f"{MADE} AS s", "; m is of a SELECT inside, of which no bounds are declared"),
    ("m", "s", "; m is of a SELECT inside, of which no bounds are declared"),
    ("s.m", f"people AS p JOIN {MADE} AS s ON p.id = s.id", "; m is of a SELECT inside, of which no bounds"),
    ("p.price", f"people AS p JOIN {MADE} AS s ON p.id = s.id", "price in catalog: tables.people"),
    ("p.price", "sales AS s JOIN people AS p ON p.id = s.id", "price in catalog: tables.people"),
    ("price", "sales AS s JOIN people AS p ON p.id = s.id", "price in catalog: tables.sales, people"),
]


@pytest.mark.parametrize(("column", "source", "says"), ADVICE)
def test_the_advice_about_bounds_is_of_the_tables_that_have_the_column(column, source, says):
    head = f"WITH s AS {MADE} " if source == "s" else ""
    with pytest.raises(QueryError) as caught:
        sf.sql(
            f"{head}SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) AVG({column}) AS a FROM {source}",
            catalog=CATALOG,
        )
    assert "Write AVG(x, contribution_bounds_per_row => (lower, upper))" in str(caught.value)
    assert says in str(caught.value)


def test_a_column_beside_one_of_a_subquery_gets_no_advice_that_may_be_wrong():
    with pytest.raises(QueryError) as caught:
        sf.sql(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) AVG(m) AS a FROM people AS p "
            f"JOIN {MADE} AS s ON p.id = s.id",
            catalog=CATALOG,
        )
    assert "declare" not in str(caught.value) and "Write AVG(x" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        (lambda t: t, "; or declare lower and upper of price in catalog: tables.sales"),
        (lambda t: t.per_unit(price="sum(price)"), "; the question makes price, so that no bounds"),
        (lambda t: t.with_columns(price="price + 1"), "; the question makes price, so that no bounds"),
        (lambda t: t.sql("SELECT id, price + 1 AS price FROM self"), "; the question makes price"),
        (
            lambda t: t.join(CATALOG.table("people"), on="id").with_columns(price="price_right"),
            "write mean('price', lower=..., upper=...)",
        ),
    ],
)
def test_the_same_in_a_chain(shape, says):
    with pytest.raises(QueryError) as caught:
        shape(CATALOG.table("sales")).agg(a=sf.mean("price"))
    assert "write mean('price', lower=..., upper=...)" in str(caught.value)
    assert says in str(caught.value)


def test_a_column_that_looks_like_one_with_bounds_is_named():
    declared = {"source": ROWS, "privacy_unit": "id", "columns": {"price": {"lower": 0, "upper": 9}}}
    catalog = sf.catalog({"tables": {"sales": declared}})
    for written, says in [
        ("pryce", "no bounds of pryce are declared; did you mean AVG(price)? Else AVG without bounds"),
        ("id", "or declare"),
    ]:
        with pytest.raises(QueryError) as caught:
            asked = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) AVG({written}) AS a FROM sales"
            sf.sql(asked, catalog=catalog)
        assert says in str(caught.value)
