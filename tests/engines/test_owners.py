"""Foreign keys followed: each row has the unit that it reaches, and what a unit has follows from its own rows."""

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sfumato as sf

from .made_rows import rows_of, table
from .tiers import some

CUSTOMERS = pa.schema({"id": pa.float64(), "person": pa.string(), "age": pa.int32()})
ORDERS = pa.schema({"number": pa.int64(), "customer": pa.float64(), "price": pa.float64()})
LINES = pa.schema({"order": pa.int32(), "item": pa.string()})
KEYS = [1.0, 2.0, 3.0, 0.0, -0.0, float("nan"), None]
PERSONS = ["a", "A", "b", "c", "", None]

# No key is unique here: what a unit has must not depend on it.
customers = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(PERSONS), st.integers(0, 99)), max_size=12
)
orders = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from(KEYS), st.sampled_from([0.5, -0.0, None])),
    max_size=12,
)


lines = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, None]), st.sampled_from("xy")), max_size=12)


def catalog(c: Any, o: Any, n: Any, unit: str = "person", key: str = "id") -> Any:
    given = [
        rows if isinstance(rows, (str, pa.Table)) else table(schema, rows)
        for schema, rows in ((CUSTOMERS, c), (ORDERS, o), (LINES, n))
    ]
    return sf.catalog(
        {
            "tables": {
                "customers": {"source": given[0], "privacy_unit": unit},
                "orders": {"source": given[1], "foreign_keys": {"customer": f"customers.{key}"}},
                "lines": {"source": given[2], "foreign_keys": {"order": "orders.number"}},
            }
        }
    )


def canonical(key: float | None) -> Any:
    return None if key is None else "nan" if key != key else key + 0.0


def reached(o: Any, c: Any, persons: Any) -> list[Any]:
    keys = {canonical(k) for k, p, _ in c if p in persons} - {None}
    return [row for row in o if canonical(row[1]) in keys]


CHAINS = {
    "orders": lambda cat: cat.table("orders"),
    "lines": lambda cat: cat.table("lines"),
    "with their customers": lambda cat: cat.table("orders").join(
        cat.table("customers"), on={"customer": "id"}
    ),
    "from customers": lambda cat: cat.table("customers").join(
        cat.table("orders"), on={"id": "customer"}, how="left"
    ),
    "all three": lambda cat: (
        cat.table("lines")
        .join(cat.table("orders"), on={"order": "number"})
        .join(cat.table("customers"), on={"customer": "id"})
        .filter("age > 20")
    ),
    "per unit": lambda cat: cat.table("lines").per_unit(n="count(*)", items="count(DISTINCT item)"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", some(CHAINS, 8))
@given(customers, orders, lines, st.sets(st.sampled_from([p for p in PERSONS if p is not None])))
@settings(max_examples=3, deadline=None)
def test_rows_of_some_units_are_the_same_without_the_others(name, c, o, n, chosen):
    whole = rows_of(CHAINS[name](catalog(c, o, n)))
    halves = [[row for row in c if (row[1] in chosen) == of] for of in (True, False)]
    # Whether orders that others alone reach are there or not changes nothing.
    found = [rows_of(CHAINS[name](catalog(half, o, n))) for half in halves]
    kept = [rows_of(CHAINS[name](catalog(h, reached(o, h, set(PERSONS) - {None}), n))) for h in halves]
    assert whole == found[0] + found[1] == kept[0] + kept[1]


@example([(1.0, "a", 20), (1.0, "a", 30)], [(1, 1.0, 0.5), (1, 1.0, None)], [(1, "x")])
@given(customers, orders, lines)
@settings(max_examples=5, deadline=None)
def test_the_units_are_those_of_sql(c, o, n):
    session = duckdb.connect()
    for name, schema, rows in (("c", CUSTOMERS, c), ("o", ORDERS, o), ("n", LINES, n)):
        session.register(name, table(schema, rows))
    owned = "SELECT DISTINCT id + 0 AS id, person FROM c WHERE person IS NOT NULL"
    expected = session.execute(
        f"SELECT n.order, item, person FROM n JOIN (SELECT DISTINCT number, person FROM o JOIN ({owned}) AS w "
        'ON o.customer = w.id) AS x ON n."order" = x.number'
    ).fetchall()
    assert rows_of(catalog(c, o, n).table("lines")) == Counter(expected)


def test_a_key_that_is_the_unit_keeps_its_name():
    c, o = [(1.0, "a", 20), (-0.0, "b", 20)], [(1, 1.0, 0.5), (2, 0.0, 0.5), (3, 9.0, 0.5), (4, None, 0.5)]
    asked = catalog(c, o, [(1, "x"), (3, "y")], unit="id").table("orders")
    assert asked.unit == "customer" and list(asked.schema) == ["number", "price", "customer"]
    assert {row[0] for row in rows_of(asked)} == {1, 2}
    assert not any("unique" in note for note in asked.notes)
    below = catalog(c, o, [(1, "x"), (3, "y")], unit="id").table("lines")
    assert below.unit == "customer" and [row[1] for row in rows_of(below)] == ["x"]
    assert any("orders.number is declared unique" in note for note in below.notes)


@pytest.mark.flakiness(k=100, because="noise of 0.01 or less rounds to 0 in counts, and to less in a mean")
def test_in_sql_a_foreign_key_joins_rows_of_one_unit():
    c = [(1.0, "a", 20), (1.0, "b", 40), (2.0, "b", 60)]  # of two units is key 1
    query = sf.sql(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000, max_rows_per_group = 9) COUNT(*) AS n, "
        "COUNT(DISTINCT person) AS p, AVG(c.age, contribution_bounds_per_row => (0, 100)) AS age "
        "FROM orders AS o JOIN customers AS c ON o.customer = c.id",
        catalog=catalog(c, [(1, 1.0, 0.5), (2, 2.0, 0.5), (3, 3.0, 0.5)], []),
    )
    (row,) = query.to_arrow().to_pylist()
    assert (row["n"], row["p"], round(row["age"])) == (3, 2, 40)
