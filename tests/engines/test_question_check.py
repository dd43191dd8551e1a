"""`sf.check`: what keeps units apart passes, and planted defects do not."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import combinations, combined_rows, shaped
from sfumato.engines.duckdb.ordering import order_by
from sfumato.engines.question_check import checked
from sfumato.errors import EngineError, ParameterError, QueryError
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


def everything(limit=2):
    orders, people = opened()
    made = orders.join(sf.public(REGIONS), on="town", how="left").per_unit("region", spent="sum(price)")
    made = made.join(people, on="id").filter("age > 20").with_columns(old="age > 40")
    grouped = made.group_by("region", "old").bound(groups=limit, rows=1)
    return grouped.agg(
        n=sf.count(), s=sf.sum("spent", lower=0, upper=2), q=sf.quantiles("age", 0.5, lower=0, upper=99)
    )


def test_sql_that_keeps_units_apart():
    found = sf.check(SQL, tables=tables(), splits=2, removed=4)
    assert found.ok and found.units == 42 and len(found.splits) == 2 and len(found.moved) == 4
    assert all(sum(split.units) == 42 for split in found.splits)
    assert 0 < max(found.moved) <= 1
    told = str(found)
    assert told.startswith("NOT PRIVATE") and "WRONG" not in told and "wherever this looked" in told
    found = sf.check(opened()[0].bound(rows=9).agg(n=sf.count()), splits=1, removed=1)
    assert found.ok and found.without_unit == 2 and "2 rows of no unit, in no answer" in str(found)
    nobody = sf.scan(ORDERS.slice(0, 0), privacy_unit="id").bound(rows=9).agg(n=sf.count())
    assert sf.check(nobody).ok and "nothing to check" in str(sf.check(nobody))


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "keys"), [("laplace", None), ("k_norm", ["n", "s"]), ("gaussian", ["n", "t", None])]
)
def test_every_kind_of_plan(noise, keys):
    made = opened()[0].join(sf.public(REGIONS), on="town", how="left")
    asked = made.group_by("region", keys=keys).bound(groups=2, rows=2).agg(
        n=sf.count(), m=sf.mean("price", lower=0, upper=1), v=sf.variance("price", lower=0, upper=1)
    )  # fmt: skip
    found = checked(asked, asked.plan(epsilon=1, delta=1e-6, noise=noise), 1, 60)
    assert found.ok and len(found.moved) == found.units and max(found.moved) > 0
    seen = []
    sf.check(everything(), splits=1, removed=1, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == 1


def over_everybody(monkeypatch):
    """A planted defect: a number of all rows beside each."""
    real = combinations._side

    def side(rows, part, keys):
        return (
            real(f"SELECT * REPLACE (age + count(*) OVER () AS age) FROM ({rows})", part, keys)
            if "age" in part.schema
            else real(rows, part, keys)
        )

    monkeypatch.setattr(combinations, "_side", side)


def of_everybody(monkeypatch):
    """A planted defect: a unit is joined with the rows of others too."""
    real = combinations._side
    monkeypatch.setattr(combinations, "_side", lambda *given: real(*given).replace("AS k0", "// 2 AS k0"))


@pytest.mark.parametrize("plant", [over_everybody, pytest.param(of_everybody, marks=pytest.mark.long)])
def test_a_defect_in_a_join_is_found(monkeypatch, plant):
    plant(monkeypatch)
    orders, people = opened()
    asked = orders.join(people, on="id").bound(rows=9).agg(a=sf.mean("age", lower=0, upper=99))
    found = checked(asked, asked.plan(epsilon=1), 1, 2)
    assert not found.ok and all(split.differing_rows for split in found.splits)
    assert "WRONG split 1" in str(found) and "does NOT keep privacy units apart" in str(found)


def test_a_defect_in_bounding_is_found(monkeypatch):
    """No limit of rows: the rows are apart, and a unit moves numbers by more than is claimed."""
    real = RowSql.whole_number
    monkeypatch.setattr(
        RowSql, "whole_number", lambda sql, count, *rest: real(sql, count.replace("least(n, 2)", "n"), *rest)
    )
    asked = opened()[0].bound(rows=2).agg(n=sf.count())
    found = checked(asked, asked.plan(epsilon=1), 1, 60)
    assert not found.ok and not found.splits[0].differing_rows and max(found.moved) == 3
    assert "WRONG one unit less: for 33 of 51 units, exact numbers move by up to 3 times" in str(found)


FIRST = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) SUM(x, contribution_bounds_per_row => (0, 1)) AS s
  FROM (SELECT id, x FROM (SELECT q.id, q.d, q.x FROM orders AS q LEFT JOIN visits AS r ON q.id = r.id) AS j
  QUALIFY row_number() OVER (PARTITION BY id ORDER BY d RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) = 1) AS f"""


@pytest.mark.long
def test_an_order_that_is_left_open_is_found(monkeypatch):
    """Ties stay as they lie: in halves they may be the same, and where the rows of one person turn a join they are not."""
    people = range(300)
    orders = pa.table({"id": [i for i in people for _ in (0, 1)], "d": [0] * 600, "x": [0, 1] * 300})
    known = {"orders": orders, "visits": pa.table({"id": list(people)})}
    good = sf.check(FIRST, tables=known, splits=1, removed=2)
    assert good.ok and len(good.orders) == 4 and "rows more of one unit in Arrow table" in str(good)
    monkeypatch.setattr(shaped, "order_by", lambda apart, first=(): order_by([], first))
    found = sf.check(FIRST, tables=known, splits=1, removed=2)
    assert not found.ok and any(one.differing_rows for one in found.orders)
    assert "WRONG order" in str(found) and "does NOT keep privacy units apart" in str(found)


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


def test_what_is_not_asked_rightly(tmp_path):
    asked = opened()[0].bound(rows=9).agg(n=sf.count())
    with pytest.raises(QueryError, match="has its tables already"):
        sf.check(asked, tables={})
    with pytest.raises(ParameterError, match="SQL text, or a question"):
        sf.check(opened()[0])
    with pytest.raises(ParameterError, match="splits"):
        sf.check(asked, splits=0)
    with pytest.raises(ParameterError, match="removed"):
        sf.check(asked, removed=0)
    path = tmp_path / "orders.parquet"
    pq.write_table(ORDERS, path)
    broken = sf.scan(path, privacy_unit="id").bound(rows=9).agg(n=sf.count())
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(EngineError, match="cannot be read") as error:
        sf.check(broken)
    assert error.value.__cause__ is None
    later = sf.scan(ORDERS.schema, privacy_unit="id").bound(rows=9).agg(n=sf.count())
    with pytest.raises(QueryError, match="rows are looked at in this process"):
        sf.check(later)


@pytest.mark.long
@pytest.mark.parametrize("planted", [False, True])
def test_a_defect_in_a_foreign_key_is_found(monkeypatch, planted):
    """Two units have each key, of which the planted join takes one: the other one has its rows alone."""
    accounts = pa.table({"number": [i // 2 for i in range(80)], "person": list(range(80))})
    orders = pa.table({"id": list(range(40)), "account": list(range(40))})
    lines = pa.table({"order": list(range(40))})
    if planted:
        real = combined_rows.reached

        def reached(how, here, there, resources):
            kept = f"QUALIFY row_number() OVER (PARTITION BY {how.key} ORDER BY person) = 1"
            one = replace(there, after=lambda rows: f"SELECT * FROM ({there.after(rows)}) {kept}")
            return real(how, here, one if how.key == "number" else there, resources)

        monkeypatch.setattr(combinations, "reached", reached)
    catalog = sf.catalog({"tables": {
        "accounts": {"source": accounts, "privacy_unit": "person"},
        "orders": {"source": orders, "foreign_keys": {"account": "accounts.number"}},
        "lines": {"source": lines, "foreign_keys": {"order": "orders.id"}},
    }})  # fmt: skip
    for name in ("orders", "lines"):
        found = sf.check(catalog.table(name).bound(rows=9).agg(n=sf.count()))
        assert found.ok is not planted and found.units == (40 if planted else 80)
