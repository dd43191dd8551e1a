"""Questions that a new user would try, in SQL and as a chain, beside plain DuckDB."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf

PEOPLE, DAY = 300, datetime.date(2024, 1, 1)
TOWNS = ["Ulm", "Bonn", "Kiel", "Jena", "Trier", "Celle", "Hof"]
_ORDERS = [(i, k) for i in range(PEOPLE) if i % 7 for k in range(1 + i % 5)]
ROWS = {
    "customers": pa.table(
        {
            "id": range(PEOPLE),
            "age": [18 + i * 7 % 60 for i in range(PEOPLE)],
            "household": [i // 3 if i % 5 else i for i in range(PEOPLE)],
        }
    ),
    "orders": pa.table(
        {
            "id": [i for i, _ in _ORDERS],
            "number": [10 * i + k for i, k in _ORDERS],
            "day": [DAY + datetime.timedelta(i * 13 % 110 + 9 * k) for i, k in _ORDERS],
            "town": [TOWNS[(i + (k > 2)) % 7] for i, k in _ORDERS],
            "price": [5.0 + (i * 3 + k * 8) % 40 for i, k in _ORDERS],
        }
    ),
    "shop": pa.table(
        {"id": [i for i in range(0, PEOPLE, 2)], "price": [3.0 + i % 20 for i in range(0, PEOPLE, 2)]}
    ),
    "sent_back": pa.table(
        {
            "id": [i for i, k in _ORDERS if k == 1],
            "number": [10 * i + 1 for i, k in _ORDERS if k == 1],
            "returned": [DAY + datetime.timedelta(i * 13 % 110 + 9 + i % 60) for i, k in _ORDERS if k == 1],
        }
    ),
}
PUBLIC = {
    "towns": pa.table(
        {
            "town": TOWNS,
            "region": ["south", "west", "north", "east", "west", "north", "south"],
            "usual": [20.0, 25.0, 15.0, 18.0, 22.0, 30.0, 21.0],
        }
    )
}
# @DP is SELECT with the clause; @U of households; @S(lower, upper) and @A(...) are bounds per unit and per row.
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 20, max_rows_per_group = 10)"
WORDS = {
    "@DP": CLAUSE,
    "@U": CLAUSE.replace("= id", "= household"),
    "@R": "contribution_bounds_per_row =>",
    "@G": "contribution_bounds_per_group =>",
}


@dataclass(frozen=True)
class Asked:
    """A question.

    Args:
        sql: with the clause; bounds stand in square brackets, which plain SQL has not.
        chain: the same of opened tables, without a sort and what is computed behind; None where that is all.
        compared: rows of the plain answer in the order of the chain's, where it is another one.
    """

    sql: str
    chain: Callable[[Any], Any] | None = None
    compared: str = ""


QUESTIONS = {
    "orders by month and region": Asked(
        "@DP month(o.day) AS month, t.region, COUNT(*) AS n FROM orders AS o JOIN towns AS t ON o.town = t.town GROUP BY 1, 2",
        lambda t: (
            t.orders.join(t.towns, on="town").with_columns(month="month(day)").group_by("month", "region")
            .bound(groups=20, rows=10).agg(n=sf.count())
        ),
    ),
    "share of people with three or more orders": Asked(
        "@DP AVG(CASE WHEN n >= 3 THEN 1 ELSE 0 END[, @R (0, 1)]) AS share FROM (SELECT id, COUNT(*) AS n FROM orders GROUP BY id) AS p",
        lambda t: t.orders.per_unit(n="count(*)").with_columns(often="n >= 3").bound(rows=1).agg(share=sf.mean("often", lower=0, upper=1)),
    ),
    "average of people's averages": Asked(
        "@DP AVG(mine[, @R (0, 50)]) AS price FROM (SELECT id, AVG(price) AS mine FROM orders GROUP BY id) AS p",
        lambda t: t.orders.per_unit(mine="avg(price)").bound(rows=1).agg(price=sf.mean("mine", lower=0, upper=50)),
    ),
    "the three largest regions": Asked(
        "@DP t.region, SUM(o.price[, @G (0, 500)]) AS turnover FROM orders AS o JOIN towns AS t ON o.town = t.town GROUP BY t.region ORDER BY turnover DESC LIMIT 3",
        lambda t: t.orders.join(t.towns, on="town").group_by("region").bound(groups=4).agg(turnover=sf.sum("price", lower=0, upper=500)),
        compared="SELECT region, sum(price) FROM orders JOIN towns USING (town) GROUP BY region",
    ),
    "spend per person by age band, with people who spent nothing": Asked(
        "@DP c.age // 10 * 10 AS band, AVG(coalesce(p.spent, 0)[, @R (0, 500)]) AS spent FROM customers AS c "
        "LEFT JOIN (SELECT id, SUM(price) AS spent FROM orders GROUP BY id) AS p ON c.id = p.id GROUP BY 1",
        lambda t: (
            t.customers.join(t.orders.per_unit(spent="sum(price)"), on="id", how="left")
            .with_columns(band="age // 10 * 10", all="coalesce(spent, 0)").group_by("band")
            .bound(groups=1, rows=1).agg(spent=sf.mean("all", lower=0, upper=500))
        ),
    ),
    "people per household": Asked(
        "@U AVG(n[, @R (0, 10)]) AS people FROM (SELECT household, COUNT(*) AS n FROM customers GROUP BY household) AS h",
        lambda t: t.households.per_unit(n="count(*)").bound(rows=1).agg(people=sf.mean("n", lower=0, upper=10)),
    ),
    "returns within 30 days of the order": Asked(
        "@DP COUNT(*) AS n FROM orders AS o JOIN sent_back AS s ON o.id = s.id AND o.number = s.number WHERE s.returned - o.day <= 30",
        lambda t: t.orders.join(t.sent_back, on=["id", "number"]).filter("returned - day <= 30").bound(rows=10).agg(n=sf.count()),
    ),
    "new people by month: the first order of each": Asked(
        "@DP month(first) AS month, COUNT(*) AS people FROM (SELECT id, MIN(day) AS first FROM orders GROUP BY id) AS p GROUP BY 1",
        lambda t: (
            t.orders.per_unit(first="min(day)").with_columns(month="month(first)").group_by("month")
            .bound(groups=1, rows=1).agg(people=sf.count())
        ),
    ),
    "people who ordered in spring and in summer": Asked(
        "@DP AVG(CASE WHEN spring AND summer THEN 1 ELSE 0 END[, @R (0, 1)]) AS both FROM "
        "(SELECT id, bool_or(month(day) IN (3, 4, 5)) AS spring, bool_or(month(day) IN (6, 7, 8)) AS summer FROM orders GROUP BY id) AS p",
        lambda t: (
            t.orders.per_unit(spring="bool_or(month(day) IN (3, 4, 5))", summer="bool_or(month(day) IN (6, 7, 8))")
            .with_columns(stayed="spring AND summer").bound(rows=1).agg(both=sf.mean("stayed", lower=0, upper=1))
        ),
    ),
    "people who never ordered": Asked(
        "@DP COUNT(DISTINCT c.id) AS people FROM customers AS c LEFT JOIN orders AS o ON c.id = o.id WHERE o.number IS NULL",
        lambda t: t.customers.join(t.orders, on="id", how="left").filter("number IS NULL").agg(people=sf.count_units()),
    ),
    "the median spend of a person": Asked(
        "@DP PERCENTILE_CONT(spent, 0.5[, @R (0, 200)]) AS middle FROM (SELECT id, SUM(price) AS spent FROM orders GROUP BY id) AS p",
        lambda t: t.orders.per_unit(spent="sum(price)").bound(rows=1).agg(middle=sf.quantiles("spent", 0.5, lower=0, upper=200)),
    ),
    "towns that a person orders from": Asked(
        "@DP AVG(towns[, @R (0, 7)]) AS towns FROM (SELECT id, COUNT(DISTINCT town) AS towns FROM orders GROUP BY id) AS p",
        lambda t: t.orders.per_unit(towns="count(DISTINCT town)").bound(rows=1).agg(towns=sf.mean("towns", lower=0, upper=7)),
    ),
    "the share of each region in all turnover": Asked(
        "@DP t.region, SUM(o.price[, @G (0, 500)]) / SUM(SUM(o.price[, @G (0, 500)])) OVER () AS share "
        "FROM orders AS o JOIN towns AS t ON o.town = t.town GROUP BY t.region ORDER BY t.region",
    ),
    "orders dearer than is usual in their town": Asked(
        "@DP t.town, COUNT(*) AS n FROM orders AS o JOIN towns AS t ON o.town = t.town WHERE o.price > t.usual GROUP BY t.town",
        lambda t: t.orders.join(t.towns, on="town").filter("price > usual").group_by("town").bound(groups=7, rows=10).agg(n=sf.count()),
    ),
    "days from the first to the last order": Asked(
        "@DP AVG(days[, @R (0, 366)]) AS days FROM (SELECT id, MAX(day) - MIN(day) AS days FROM orders GROUP BY id) AS p",
        lambda t: (
            t.orders.per_unit(first="min(day)", last="max(day)").with_columns(days="last - first")
            .bound(rows=1).agg(days=sf.mean("days", lower=0, upper=366))
        ),
    ),
    "the dearest order of each person, by age": Asked(
        "@DP c.age >= 50 AS older, AVG(p.dearest[, @R (0, 50)]) AS dearest FROM (SELECT id, MAX(price) AS dearest FROM orders GROUP BY id) AS p "
        "JOIN customers AS c ON p.id = c.id GROUP BY 1",
        lambda t: (
            t.orders.per_unit(dearest="max(price)").join(t.customers, on="id").with_columns(older="age >= 50").group_by("older")
            .bound(groups=1, rows=1).agg(dearest=sf.mean("dearest", lower=0, upper=50))
        ),
    ),
    "orders by day of the week": Asked(
        "@DP dayofweek(day) AS weekday, COUNT(*) AS n FROM orders GROUP BY 1",
        lambda t: t.orders.with_columns(weekday="dayofweek(day)").group_by("weekday").bound(groups=7, rows=10).agg(n=sf.count()),
    ),
    "a second order within three weeks of the one before": Asked(
        "@DP COUNT(*) AS n FROM (SELECT id, day - lag(day) OVER (PARTITION BY id ORDER BY day) AS gap FROM orders) AS g WHERE gap <= 21",
        lambda t: t.orders.sql("SELECT id, day - lag(day) OVER (PARTITION BY id ORDER BY day) AS gap FROM self").filter("gap <= 21").bound(rows=10).agg(n=sf.count()),
    ),
    "people by how many orders they have": Asked(
        "@DP n, COUNT(*) AS people FROM (SELECT id, COUNT(*) AS n FROM orders GROUP BY id) AS p GROUP BY n",
        lambda t: t.orders.per_unit(n="count(*)").group_by("n").bound(groups=1, rows=1).agg(people=sf.count()),
    ),
    "turnover of both shops": Asked(
        "@DP SUM(price[, @G (0, 500)]) AS turnover FROM (SELECT id, price FROM orders UNION ALL SELECT id, price FROM shop) AS a",
        lambda t: t.orders.sql("SELECT id, price FROM self").union(t.shop.sql("SELECT id, price FROM self")).agg(turnover=sf.sum("price", lower=0, upper=500, per="unit")),
    ),
    "orders from towns of the south": Asked(
        "@DP COUNT(*) AS n FROM orders WHERE town IN (SELECT town FROM towns WHERE region = 'south')",
        lambda t: t.orders.join(t.towns.filter("region = 'south'"), on="town").bound(rows=10).agg(n=sf.count()),
    ),
    "the price of the latest order of each person": Asked(
        "@DP AVG(price[, @R (0, 50)]) AS price FROM (SELECT id, price, row_number() OVER (PARTITION BY id ORDER BY day DESC) AS place FROM orders) AS o WHERE place = 1",
        lambda t: t.orders.sql("SELECT id, price FROM self QUALIFY row_number() OVER (PARTITION BY id ORDER BY day DESC) = 1").bound(rows=1).agg(price=sf.mean("price", lower=0, upper=50)),
    ),
}  # fmt: skip


class Tables:
    """All tables, opened."""

    def __init__(self) -> None:
        for name, rows in ROWS.items():
            setattr(self, name, sf.scan(rows, privacy_unit="id"))
        self.towns = sf.public(PUBLIC["towns"])
        self.households = sf.scan(ROWS["customers"], privacy_unit="household")


def plain(text: str) -> str:
    """Return the SQL without its clause and bounds."""
    while "[" in text:
        before, _, rest = text.partition("[")
        text = before + rest.partition("]")[2]
    return text.replace("PERCENTILE_CONT", "quantile_cont").replace("@DP", "SELECT").replace("@U", "SELECT")


def private(text: str) -> str:
    for word, meaning in WORDS.items():
        text = text.replace(word, meaning)
    return text.replace("[", "").replace("]", "")


def expected(text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, rows in {**ROWS, **PUBLIC}.items():
            connection.register(name, rows)
        return connection.execute(text).fetchall()


def check(found: pa.Table, rows: list[tuple[Any, ...]], ordered: bool) -> None:
    mine = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert len(mine) == len(rows) > 0
    for one, other in zip(*([mine, rows] if ordered else [sorted(mine), sorted(rows)]), strict=True):
        for a, b in zip(one, other, strict=True):
            assert a == b if isinstance(b, (str, bool)) else a == pytest.approx(float(b), rel=2e-3, abs=0.02)


NEGLIGIBLE = "epsilon is so large that noise of scale below 0.01 moves nothing by what is told apart"


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) >= 20
    assert sum(asked.chain is None for asked in QUESTIONS.values()) <= 1


@pytest.mark.flakiness(k=20, because=NEGLIGIBLE)
@pytest.mark.parametrize("name", QUESTIONS)
def test_in_sql(name: str) -> None:
    asked = QUESTIONS[name]
    tables = {**ROWS, **{name: sf.public(rows) for name, rows in PUBLIC.items()}}
    found = sf.sql(private(asked.sql), tables=tables).to_arrow()
    check(found, expected(plain(asked.sql)), "ORDER BY turnover" in asked.sql)


@pytest.mark.flakiness(k=20, because=NEGLIGIBLE)
@pytest.mark.parametrize("name", [name for name, asked in QUESTIONS.items() if asked.chain])
def test_as_a_chain(name: str) -> None:
    asked = QUESTIONS[name]
    assert asked.chain is not None
    found = asked.chain(Tables()).release(epsilon=1_000_000, delta=1e-6).to_arrow()
    check(found, expected(asked.compared or plain(asked.sql)), False)
