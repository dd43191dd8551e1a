"""FROM with joins: the same rows as DuckDB's, or a refusal."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import ColumnError, QueryError, SqlError

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
    "FROM orders AS o JOIN customers AS c ON o.id = c.id WHERE c.age >= 30",
    "FROM orders o JOIN customers c ON c.id = o.id AND o.town = c.town WHERE o.price < 3 AND C.Town = 'A'",
    "FROM orders o INNER JOIN customers c USING (id) WHERE age < 35",
    "FROM orders o LEFT JOIN customers c USING (id) WHERE c.id IS NULL",
    "FROM orders o LEFT OUTER JOIN customers c ON ((o.id = c.id)) WHERE c.age IS NULL OR c.age > 35",
    "FROM orders JOIN customers USING (id) WHERE orders.town = customers.town",
    "FROM orders JOIN towns USING (town) WHERE region = 'n'",
    "FROM orders AS o JOIN towns AS t ON o.town = t.town WHERE t.region <> 'n'",
    'FROM orders AS o JOIN towns AS "t t" ON o.town = "t t".town WHERE "t t"."order" > 1',
    "FROM orders o LEFT JOIN towns t ON o.town = t.town WHERE t.town IS NULL",
    "FROM orders o JOIN customers c USING (id) JOIN towns t ON c.town = t.town WHERE t.region IN ('n', 's')",
    "FROM orders o JOIN towns t USING (town) LEFT JOIN customers c ON o.id = c.id AND t.town = c.town",
    "FROM orders a JOIN orders b USING (id) WHERE a.price < b.price",
    "FROM orders a JOIN orders b ON a.id = b.id AND a.price = b.price JOIN orders c ON b.id = c.id",
    "FROM customers o JOIN orders p USING (id) WHERE o.o.x = 1 AND p.price > 1",
    "FROM orders p JOIN customers o USING (id) WHERE o.o.x = 1 -- o.nothing\n AND 'o.town' <> p.town",
]


@pytest.mark.parametrize("number", range(len(SAME)))
@pytest.mark.parametrize(
    "select",
    [
        "o.town, COUNT(*) AS n",
        pytest.param("COUNT(*) AS n", marks=pytest.mark.long),
        pytest.param("COUNT(DISTINCT id) AS n", marks=pytest.mark.long),
    ],
)
def test_what_is_counted_is_what_duckdb_joins(number, select):
    text = SAME[number]
    first = text.split()[1]
    alias = text.split()[3 if text.split()[2] == "AS" else 2]
    alias = first if alias in ("JOIN", "LEFT") else alias
    select = select.replace("o.town", f"{alias}.town")
    group = f" GROUP BY {alias}.town" if "town" in select else ""
    question = asked(f"{select} {text}{group}")
    plan = question.plan(epsilon=1, delta=1e-6, noise="laplace")
    session = duckdb.connect()
    for name, rows in TABLES.items():
        session.register(name, rows)
    session.execute("CREATE VIEW present AS FROM orders WHERE id IS NOT NULL")
    plain = (
        text.replace("FROM orders", "FROM present AS orders", 1)
        if "orders.town" in text
        else text.replace("FROM orders", "FROM present", 1).replace("present JOIN", "present AS orders JOIN")
    )
    counted = "count(*)" if "DISTINCT" not in select else f"count(DISTINCT {alias}.id)"
    expected = session.execute(f"SELECT {alias}.town, {counted} {plain} GROUP BY ALL ORDER BY ALL").fetchall()
    if not group:
        (total,) = session.execute(f"SELECT {counted} {plain}").fetchall()
        expected = [("", *total)]
    (batch,) = question.table._engine.statistics(plan.exact, 1000)
    found = [[str(v) for v in row.values()] for row in batch.to_pylist()]
    step = plan.coordinates[0].step if hasattr(plan, "coordinates") else 1
    assert step == 1
    wanted = [str(n) for *_, n in expected if n]
    assert sorted(row[-1] for row in found if row[-1] != "0") == sorted(wanted), (found, expected)


REFUSED = [
    ("FROM orders o JOIN customers c ON o.id = c.id WHERE town = 'A'", "'town' is in several tables"),
    ("FROM towns JOIN orders USING (town)", "begin with the private one"),
    ("FROM orders JOIN customers USING (town)", "add 'id': 'id' to on"),
    ("FROM orders o JOIN customers c ON o.id = c.age", "add 'id': 'id' to on"),
    ("FROM orders o JOIN customers c ON o.id = c.id OR o.town = c.town", "ON has columns that are equal"),
    ("FROM orders o JOIN customers c ON o.id = c.id AND o.price > c.age", "ON has columns that are equal"),
    ("FROM orders o JOIN customers c ON o.id IS NOT DISTINCT FROM c.id", "ON has columns that are equal"),
    ("FROM orders o JOIN customers c ON o.id = c.id + 0", "ON has columns that are equal"),
    ("FROM orders o JOIN customers c ON TRUE", "ON has columns that are equal"),
    ("FROM orders o JOIN customers c ON o.id = o.id", "one must be of 'customers'"),
    ("FROM orders o JOIN customers c ON c.id = c.id", "one must be of 'customers'"),
    ("FROM orders o JOIN customers c ON x.id = c.id", "no table is x"),
    ("FROM orders o JOIN customers c ON id = c.id", "'id' is in several tables|one must be"),
    ("FROM orders o JOIN customers c ON o.id = c.nothing", "nothing"),
    ("FROM orders o JOIN customers c USING (nothing)", "nothing"),
    ("FROM orders o JOIN customers c USING (id) WHERE c.nothing = 1", "nothing"),
    ("FROM orders o JOIN customers c USING (id) WHERE x.age = 1", "x"),
    ("FROM orders JOIN orders USING (id)", "two tables have one name"),
    ("FROM orders o JOIN customers O USING (id)", "two tables have one name"),
    ("FROM orders o JOIN towns t ON o.price = t.town", "values of two types"),
    ("FROM orders o JOIN customers c", "JOIN|ON|understood"),
    ("FROM orders o JOIN (customers c JOIN towns t USING (town)) ON o.id = c.id", "subquery|table here"),
    ("FROM (orders o JOIN customers c USING (id))", "subquery"),
    ("FROM orders o JOIN customers c USING (id), towns", "second table"),
    ("FROM orders o JOIN LATERAL (SELECT 1) c ON TRUE", "table here|subquery|ON has|table function"),
    ("FROM orders o JOIN customers c (a, b) USING (id)", "table function|name a file"),
    ("FROM orders o JOIN customers c TABLESAMPLE 10% USING (id)", "TABLESAMPLE"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused(number):
    text, says = REFUSED[number]
    with pytest.raises((SqlError, QueryError, ColumnError), match=says):
        asked(f"COUNT(*) AS n {text}")


def test_a_key_of_a_joined_table_has_its_own_name():
    question = asked("t.region, c.age // 10 AS decade, AVG(c.age, contribution_bounds_per_row => (0, 99)) FROM "
                     "orders o JOIN customers c USING (id) JOIN towns t ON o.town = t.town GROUP BY 1, 2")  # fmt: skip
    assert question.query.keys == ("region", "decade") and question.output_names == ("avg_age",)


@pytest.mark.parametrize("select", ["t.region", "t.region AS place", "COUNT(*) AS n, t.region"])
def test_a_key_may_leave_out_whose_column_it_is(select):
    tables = "orders o JOIN customers c USING (id) JOIN towns t ON o.town = t.town"
    counted = "" if "COUNT" in select else ", COUNT(*) AS n"
    long, short = (asked(f"{select}{counted} FROM {tables} GROUP BY {key}") for key in ("t.region", "Region"))
    assert long.query.keys == short.query.keys and long.output_names == short.output_names
    with pytest.raises(QueryError, match="in several tables; write whose it is"):
        asked(f"t.town{counted or ', COUNT(*) AS n'} FROM {tables} GROUP BY town")


def test_a_thousand_conditions_are_read_in_no_time():
    text = " AND ".join(["o.id = c.id"] * 1000)
    assert asked(f"COUNT(*) AS n FROM orders o JOIN customers c ON {text}")
    with pytest.raises(SqlError, match="at most 50 tables"):
        asked("COUNT(*) AS n FROM orders o " + " ".join(f"JOIN customers c{i} USING (id)" for i in range(60)))


@pytest.mark.noise_cannot_matter("names of columns alone are looked at")
def test_sql_takes_public_tables():
    names = {"orders": TABLES["orders"], "towns": PUBLIC["towns"]}
    release = sf.sql(HEAD + "COUNT(*) AS n FROM orders JOIN towns USING (town)", tables=names)
    assert release.to_arrow().column_names == ["n"]
    with pytest.raises(SqlError, match="'regions', which is no path"):
        sf.sql(HEAD + "COUNT(*) AS n FROM orders JOIN regions USING (town)", tables=names)


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
    with pytest.raises(SqlError, match="begin with the private one"):
        parse(
            text.replace("FROM orders AS o JOIN", "FROM towns AS o LEFT JOIN"),
            catalog,
        )
    with pytest.raises(SqlError, match="no table 'nothing'"):
        parse(text.replace("JOIN customers", "JOIN nothing"), catalog)
    with pytest.raises(SqlError, match="at most 2|limit|2"):
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


@pytest.mark.parametrize(
    "condition",
    ["lower(o.town) = lower(t.town)", "o.town = upper(t.town)", "o.id - 1 = t.town", "abs(o.id) = t.town"],
)
def test_a_condition_of_expressions_is_told_as_one(condition):
    with pytest.raises(SqlError, match="ON has columns that are equal"):
        asked(f"COUNT(*) AS n FROM orders o JOIN towns t ON {condition}")
