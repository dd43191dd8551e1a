"""`sf.check`: what keeps units apart passes, and planted defects do not."""

import math

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb import combinations
from sfumato.engines.question_check import check_question
from sfumato.errors import EngineError
from sfumato.transformations import Count
from sfumato.transformations.row_sql import RowSql, SqlPart

ORDERS = pa.table(
    {
        "id": [i for i in range(60) for _ in range(i % 7)] + [None, None],
        "town": [["A", "B", None][(i + k) % 3] for i in range(60) for k in range(i % 7)] + ["A", "A"],
        "price": [0.1 * (i * k % 11) for i in range(60) for k in range(i % 7)] + [1e300, float("nan")],
    }
)
PEOPLE = pa.table({"id": list(range(50)), "age": [20 + i for i in range(50)]})
REGIONS = pa.table({"town": ["A", "B", "B"], "region": ["n", "s", "t"]})
SQL = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 2)
  r.region, COUNT(*) AS n, AVG(o.price, contribution_bounds_per_row => (0, 1)) AS m
  FROM orders AS o JOIN people AS p ON o.id = p.id LEFT JOIN regions AS r ON o.town = r.town GROUP BY 1"""


def tables():
    return {"orders": ORDERS, "people": PEOPLE, "regions": sf.public(REGIONS)}


def opened():
    return [sf.scan(rows, privacy_unit="id") for rows in (ORDERS, PEOPLE)]


@pytest.mark.long
def test_sql_that_keeps_units_apart():
    found = sf.check(SQL, tables=tables(), splits=2, removed=4)
    assert found.ok and found.units == 42 and len(found.splits) == 2 and len(found.moved) == 4
    assert all(sum(split.units) == 42 for split in found.splits)
    assert 0 < max(found.moved) <= 1
    told = str(found)
    assert told.startswith("NOT PRIVATE") and "WRONG" not in told and "in all checks" in told
    found = sf.check(opened()[0].bound(rows=9).agg(n=sf.count()), splits=1, removed=1)
    assert found.ok and found.without_unit == 2 and "2 rows of no unit, in no answer" in str(found)
    nobody = sf.scan(ORDERS.slice(0, 0), privacy_unit="id").bound(rows=9).agg(n=sf.count())
    assert sf.check(nobody).ok and "nothing to check" in str(sf.check(nobody))


def over_everybody(monkeypatch):
    """A planted defect: a number of all rows beside each."""
    real = combinations._select_join_side

    def side(rows, part, keys):
        return (
            real(f"SELECT * REPLACE (age + count(*) OVER () AS age) FROM ({rows})", part, keys)
            if "age" in part.schema
            else real(rows, part, keys)
        )

    monkeypatch.setattr(combinations, "_select_join_side", side)


@pytest.mark.long
def test_a_defect_in_a_join_is_found(monkeypatch):
    over_everybody(monkeypatch)
    orders, people = opened()
    asked = orders.join(people, on="id").bound(rows=9).agg(a=sf.mean("age", lower=0, upper=99))
    found = check_question(asked, asked.plan(epsilon=1), 1, 2)
    assert not found.ok and all(split.differing_rows for split in found.splits)
    assert "WRONG split 1" in str(found) and "does NOT keep privacy units apart" in str(found)


@pytest.mark.long
def test_a_defect_in_bounding_is_found(monkeypatch):
    """No limit of rows: the rows are apart, and a unit moves numbers by more than is claimed."""
    real = RowSql.whole_number
    monkeypatch.setattr(
        RowSql, "whole_number", lambda sql, count, *rest: real(sql, count.replace("least(n, 2)", "n"), *rest)
    )
    asked = opened()[0].bound(rows=2).agg(n=sf.count())
    found = check_question(asked, asked.plan(epsilon=1), 1, 60)
    assert not found.ok and not found.splits[0].differing_rows and max(found.moved) == 3
    assert "WRONG one unit less: for 33 of 51 units, exact numbers move by up to 3 times" in str(found)


@pytest.mark.long
def test_a_failure_that_one_unit_decides_about_is_found(monkeypatch):
    """A number of rows in 8 bits: the query fails with the unit that has 200, and answers without it."""

    def narrow(by: int):
        return lambda *_: [SqlPart("rows", "", f"sum(CAST(n + {by} AS TINYINT))")]

    monkeypatch.setattr(Count, "_sql_parts", narrow(0))
    rows = pa.table({"id": [1] * 200 + [2, 3, 4], "k": [1] * 203})
    asked = sf.scan(rows, privacy_unit="id").bound(rows=300).agg(n=sf.count())
    found = sf.check(asked)
    assert not found.ok and found.moved.count(math.inf) == 1
    assert "for 1 of 4 units, it decides whether the query fails" in str(found)
    monkeypatch.setattr(Count, "_sql_parts", narrow(200))
    with pytest.raises(EngineError, match="DuckDB stopped"):
        sf.check(asked)
