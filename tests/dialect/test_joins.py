"""FROM with joins: the same rows as DuckDB's, or a refusal; what a catalog says of joined tables; limits of joined rows."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import CatalogError, QueryError, SqlError
from sfumato.release.canonical_form import plain
from tests.support.tiers import one_in

TABLES = {
    "orders": pa.table({
        "id": [1, 1, 2, 3, 3, None],
        "town": ["A", "B", "A", "C", None, "A"],
        "price": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    }),
    "customers": pa.table({"id": [1, 2, 4], "age": [30, 40, 50], "town": ["A", "B", "C"], "o": [{"x": 1}] * 3}),
    "towns": pa.table({"town": ["A", "B", "B"], "region": ["n", "s", "t"], "order": [1, 2, 3]}),
}  # fmt: skip
HEAD = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, "
    "max_rows_per_group = 100, max_groups_contributed = 10) "
)
PUBLIC = {"towns": sf.public(TABLES["towns"])}


def asked(text: str) -> sf.Question:
    return parse(HEAD + text).question(
        lambda name, unit: PUBLIC.get(name) or sf.scan(TABLES[name], privacy_unit=unit)
    )


SAME = [
    "FROM orders o JOIN customers c ON o.id = c.id AND o.price * 20 > c.age",
    "FROM orders o JOIN towns t ON lower(o.town) = lower(t.town) AND t.region <> 'n' WHERE o.price > 1",
    "FROM orders o CROSS JOIN towns t WHERE t.region <> o.town",
    "FROM orders AS o , customers c, towns t WHERE o.id = c.id AND c.town = t.town AND t.region = 'n'",
    "FROM orders AS o NATURAL JOIN towns WHERE region = 'n'",
    "FROM orders o SEMI JOIN towns t USING (town)",
    "FROM orders o WHERE ID IN (SELECT Id FROM customers) AND price < 3 + (SELECT count(*) FROM towns)",
    "FROM orders o WHERE id IN (SELECT c.id FROM customers c WHERE o.x = 1)",
    "FROM orders p WHERE EXISTS (SELECT 1 FROM customers c WHERE c.o.x = 1 AND c.Id = P.ID AND c.age = 30 + (SELECT count(*) - 3 FROM towns))",
    'FROM orders o WHERE price + (SELECT count(*) FROM towns) IN (SELECT CAST("order" + 3 AS DOUBLE) FROM towns)',
    "FROM orders o ANTI JOIN customers c ON o.id = c.id AND o.town = c.town WHERE o.price < 3",
    "FROM orders o JOIN customers c ON c.id = o.id AND o.town = c.town WHERE o.price < 3 AND C.Town = 'A'",
    "FROM orders AS o JOIN customers AS c ON o.id = c.id WHERE c.age >= 30",
    "FROM orders o INNER JOIN customers c USING (id) WHERE age < 35",
    "FROM orders o LEFT JOIN customers c USING (id) WHERE c.id IS NULL",
    "FROM orders o LEFT OUTER JOIN customers c ON ((o.id = c.id)) WHERE c.age IS NULL OR c.age > 35",
    "FROM orders JOIN customers USING (id) WHERE orders.town = customers.town",
    "FROM orders JOIN towns USING (town) WHERE region = 'n'",
    "FROM orders AS o JOIN towns AS t ON o.town = t.town WHERE t.region <> 'n'",
    'FROM orders AS o JOIN towns AS "t t" ON o.town = "t t".town WHERE "t t"."order" > 1',
    "FROM orders o LEFT JOIN towns t ON o.town = t.town WHERE t.town IS NULL",
    "FROM orders o JOIN customers c USING (id) JOIN towns t ON c.town = t.town WHERE t.region = 'n'",
    "FROM orders o JOIN towns t USING (town) LEFT JOIN customers c ON o.id = c.id AND t.town = c.town",
    "FROM orders a JOIN orders b USING (id) WHERE a.price < b.price",
    "FROM orders a JOIN orders b ON a.id = b.id AND a.price = b.price JOIN orders c ON b.id = c.id",
    "FROM customers o JOIN orders p USING (id) WHERE o.o.x = 1 AND p.price > 1",
    "FROM orders p JOIN customers o USING (id) WHERE o.o.x = 1 -- o.nothing\n AND 'o.town' <> p.town",
]


@pytest.mark.parametrize("text", one_in(2, SAME), ids=range(len(SAME)))
def test_what_is_counted_is_what_duckdb_joins(text):
    first = text.split()[1]
    alias = text.split()[3 if text.split()[2] == "AS" else 2]
    alias = first if alias in ("JOIN", "LEFT") else alias
    question = asked(f"{alias}.town, COUNT(*) AS n {text} GROUP BY {alias}.town")
    plan = question.plan(epsilon=1, delta=1e-6, noise="laplace")
    session = duckdb.connect()
    for name, rows in TABLES.items():
        session.register(name, rows)
    session.execute("CREATE VIEW present AS FROM orders WHERE id IS NOT NULL")
    of_units = (
        text.replace("FROM orders", "FROM present AS orders", 1)
        if "orders.town" in text
        else text.replace("FROM orders", "FROM present", 1).replace("present JOIN", "present AS orders JOIN")
    )
    expected = session.execute(f"SELECT {alias}.town, count(*) {of_units} GROUP BY ALL").fetchall()
    (batch,) = question.table._engine.statistics(plan.exact, 1000)
    found = [tuple(row.values()) for row in batch.to_pylist()]
    assert sorted((str(row[0]), int(row[-1])) for row in found) == sorted((str(t), n) for t, n in expected)


# Later tables with columns that have the names of columns that joins need for themselves.
HIDDEN = [
    'o CROSS JOIN towns t NATURAL JOIN (SELECT 2 AS one, "order", region FROM towns) u',
    "o CROSS JOIN (VALUES (1), (2)) AS u(one) WHERE one = 2",
    "o SEMI JOIN customers c USING (id) NATURAL JOIN (SELECT id, NOT (age > 0) AS matched FROM customers) d",
    "o ANTI JOIN customers c USING (id) NATURAL JOIN (SELECT id, TRUE AS matched FROM orders) d",
    "o SEMI JOIN customers c USING (id) CROSS JOIN (VALUES (1), (2)) AS u(matched) WHERE matched = 2",
    "o JOIN towns t ON o.town = t.town NATURAL JOIN (SELECT id, 'x' AS _town FROM orders) d WHERE town = 'A'",
]


@pytest.mark.parametrize("text", HIDDEN, ids=range(len(HIDDEN)))
def test_no_name_means_a_column_that_only_a_join_needs(text):
    orders = "FROM (SELECT id, price FROM orders) "
    if "_town" in text:
        orders, text = (
            "FROM orders ",
            text.replace("o JOIN", "AS o JOIN").replace("WHERE town", "WHERE o.town"),
        )
    question = asked(f"COUNT(*) AS n {orders}{text}")
    plan = question.plan(epsilon=1, noise="laplace")
    session = duckdb.connect()
    for name, rows in TABLES.items():
        session.register(name, rows)
    ((expected,),) = session.execute(f"SELECT count(o.id) {orders}{text}").fetchall()
    (batch,) = question.table._engine.statistics(plan.exact, 1000)
    assert [int([*row.values()][-1]) for row in batch.to_pylist()] == [expected]


def test_composite_units_are_written_in_quotes_in_suggestions():
    rows = sf.scan(TABLES["customers"], privacy_unit=["id", "age"])
    for text in (
        'SELECT "id and age", town FROM self a CROSS JOIN self b',
        'SELECT "id and age", town FROM self AS a WHERE EXISTS (SELECT 1 FROM self AS b WHERE a.id = b.id)',
    ):
        with pytest.raises(QueryError, match='"id and age" = [ab]."id and age"'):
            rows.sql(text)


# What would be joined on less than is written, on other rows, or with rows of other units.
REFUSED = [
    "orders o JOIN customers c ON o.id = c.id WHERE town = 'A'",
    "towns LEFT JOIN orders USING (town)",
    "orders JOIN customers USING (town)",
    "orders o JOIN customers c ON o.id = c.age",
    "orders o JOIN customers c ON o.id = c.id OR o.town = c.town",
    "orders o JOIN customers c ON o.id IS NOT DISTINCT FROM c.id",
    "orders o JOIN customers c ON o.id = c.id + 0",
    "orders o JOIN customers c ON o.id = o.id",
    "orders o JOIN customers c ON x.id = c.id",
    "orders o JOIN customers c ON o.id = c.nothing",
    "orders o JOIN customers c USING (id) WHERE c.nothing = 1",
    "orders JOIN orders USING (id)",
    "orders o JOIN customers O USING (id)",
    "orders o JOIN towns t ON o.price = t.town",
    "orders o JOIN (customers c JOIN towns t USING (town)) ON o.id = c.id",
    "(orders o JOIN customers c USING (id))",
    "orders o JOIN customers c TABLESAMPLE 10% USING (id)",
]


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(text):
    with pytest.raises(QueryError):
        asked(f"COUNT(*) AS n FROM {text}")


def test_a_thousand_conditions_are_read_in_no_time():
    text = " AND ".join(["o.id = c.id"] * 1000)
    assert asked(f"COUNT(*) AS n FROM orders o JOIN customers c ON {text}")
    with pytest.raises(SqlError, match="at most 50 tables"):
        asked("COUNT(*) AS n FROM orders o " + " ".join(f"JOIN customers c{i} USING (id)" for i in range(60)))


CATALOG = {
    "tables": {
        "orders": {
            "source": TABLES["orders"],
            "privacy_unit": "id",
            "max_rows": 5,
            "max_groups": 3,
            "columns": {"price": {"lower": 0, "upper": 10}},
        },
        "customers": {
            "source": TABLES["customers"].rename_columns(["person", "age", "town", "o"]),
            "privacy_unit": "person",
            "max_rows": 2,
            "columns": {"age": {"lower": 18, "upper": 99}},
        },
        "towns": {
            "source": TABLES["towns"],
            "public": True,
            "columns": {"region": {"domain": ["n", "s", "t"]}},
        },
    }
}


@pytest.mark.noise_cannot_matter("groups and names alone are looked at")
def test_joins_of_a_catalog_know_the_bounds_domains_and_limits_of_all_tables():
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) t.region, COUNT(*) AS n, AVG(c.age) AS age, "
        "SUM(price) AS total FROM orders AS o JOIN customers AS c ON o.id = c.person "
        "JOIN towns AS t ON o.town = t.town GROUP BY 1"
    )
    catalog = sf.catalog(CATALOG)
    query = parse(text, catalog)
    assert (query.rows, query.groups, query.domains) == (2, 3, (("n", "s", "t"),))
    assert [(one.lower, one.upper) for _, one in query.aggregates[1:]] == [(18, 99), (0, 10)]
    assert sf.sql(text, catalog=catalog).to_arrow()["region"].to_pylist() == ["n", "s", "t"]
    with pytest.raises(SqlError, match="Begin with the private"):
        parse(text.replace("FROM orders AS o JOIN", "FROM towns AS o LEFT JOIN"), catalog)
    with pytest.raises(SqlError, match="allows at most 2"):
        parse(text.replace("epsilon = 1", "epsilon = 1, max_rows_per_group = 4"), catalog)


def test_what_is_declared_of_a_column_is_not_said_of_what_is_made_of_it():
    catalog = sf.catalog(CATALOG)
    orders, towns = catalog.table("orders"), catalog.public("towns")
    assert orders.join(towns, on="town").bound(rows=1).agg(m=sf.mean("price"))
    for made in (
        orders.with_columns(price="price * 2").join(towns, on="town"),
        orders.per_unit(price="sum(price)"),
        orders.union(orders),
    ):
        with pytest.raises(QueryError, match="price"):
            made.bound(rows=1).agg(m=sf.mean("price"))
        with pytest.raises(QueryError, match="bound"):
            made.bound(rows=6)
    with pytest.raises(QueryError, match="the table is private"):
        catalog.public("orders")


# A public table may stand first in an inner join, and bring columns without its name.
SOLD = pa.table({"id": range(200), "k": [i % 4 for i in range(200)]})

LABELS = pa.table({"k": [0, 1, 2], "label": ["a", "b", "c"]})

IN_CATALOG = {"t": {"source": SOLD, "privacy_unit": "id"}, "q": {"source": LABELS, "public": True}}


@pytest.mark.noise_cannot_matter("noise of scale 10^-3 at most is rounded to nothing")
@pytest.mark.parametrize(
    "tables",
    [
        "q JOIN t USING (k)",
        "(SELECT id, label FROM q JOIN t USING (k)) AS j",
        "q AS a JOIN t AS b ON a.k = b.k",
        "t LEFT JOIN q ON t.k = q.k WHERE label IS NOT NULL",
    ],
)
@pytest.mark.parametrize("declared", [True, False], ids=["catalog", "tables"])
def test_an_inner_join_can_begin_with_a_public_table(tables, declared):
    given: dict[str, Any] = {"catalog": sf.catalog({"tables": IN_CATALOG})}
    unit = "" if declared else ", privacy_unit_column = id"
    if not declared:
        given = {"tables": {"t": SOLD, "q": sf.public(LABELS)}}
    begin = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6, delta = 1e-6{unit}) "
    found = sf.sql(f"{begin}label, COUNT(*) AS n FROM {tables} GROUP BY label", **given).to_arrow()
    assert found.to_pylist() == [{"label": name, "n": 50} for name in "abc"]
    for wrong in ("q LEFT JOIN t USING (k)", "q AS a JOIN q AS b USING (k) JOIN t USING (k)"):
        with pytest.raises(QueryError, match="Begin with the private"):
            sf.sql(f"{begin}COUNT(*) AS n FROM {wrong}", **given)


# Limits of joined rows of a unit, as SQL and catalogs say it.
MANY = pa.table({"id": [1] * 20 + [2], "x": range(21)})
JOINS = (
    "a JOIN b ON a.id = b.id",
    "(SELECT a.id AS id, a.x AS x FROM a JOIN b ON a.id = b.id) AS s",
    "a JOIN (SELECT b.id AS id, b.x AS y FROM b JOIN b AS c ON b.id = c.id) AS s ON a.id = s.id",
)


def catalog(**of_a: Any) -> sf.Catalog:
    a, b = ({"source": MANY, "privacy_unit": "id"} for _ in range(2))
    return sf.catalog({"tables": {"a": a | of_a, "b": b}})


def limits(found: Any) -> list[int]:
    """All limits of joined rows in a question's plain data."""
    if isinstance(found, dict):
        own = [found["unit_rows"]] if "unit_rows" in found else []
        return own + [one for value in found.values() for one in limits(value)]
    return [one for value in found for one in limits(value)] if isinstance(found, list) else []


def limited(tables: str, options: str, **of_a: Any) -> list[int]:
    head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows_per_group = 9{options}) COUNT(*) AS n"
    release = sf.sql(f"{head} FROM {tables}", catalog=catalog(**of_a), budget=sf.Budget(2))
    return limits(plain(release.canonical()))


@pytest.mark.parametrize("tables", one_in(2, JOINS), ids=range(len(JOINS)))
def test_every_join_of_a_text_has_its_limit(tables):
    joins = tables.count("JOIN")
    assert limited(tables, "") == [100_000] * joins
    assert limited(tables, ", max_joined_rows = 50") == [50] * joins
    assert limited(tables, "", max_joined_rows=60) == [60] * joins
    assert limited(tables, ", max_joined_rows = 50", max_joined_rows=60) == [50] * joins
    for value in ("61", "0", "10000001", "'5'", "NULL", "1.5"):
        with pytest.raises(SqlError):
            limited(tables, f", max_joined_rows = {value}", max_joined_rows=60)


def test_a_chain_takes_the_owners_limit_and_none_beyond_it():
    made = catalog(max_joined_rows=60)
    a, b = made.table("a"), made.table("b")
    for one, other in ((a, b), (b, a)):
        assert limits(one.join(other, on="id")._engine.content()) == [60]
        assert limits(one.join(other, on="id", unit_rows=7)._engine.content()) == [7]
        with pytest.raises(QueryError, match=r"unit_rows is 61, but catalog: tables\.a allows at most 60"):
            one.join(other, on="id", unit_rows=61)
    for given in (0, 10_000_001, "many", 2.5, True):
        with pytest.raises(CatalogError, match="must be a whole number from 1 to 10,000,000"):
            catalog(max_joined_rows=given)
