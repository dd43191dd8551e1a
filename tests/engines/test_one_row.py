"""A limit of rows may be left out where each unit has one row in a group by how the rows are made."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import QueryError
from tests.support.workers import LocalEngine

from .made_rows import rows_of

ROWS = pa.table({"id": [1, 1, 2, None], "town": ["A", "B", "A", "B"], "price": [1.0, 2.0, 3.0, 4.0]})
TOWNS = sf.public(pa.table({"town": ["A", "A"], "region": ["n", "s"]}))
Shape = Callable[[Any, Any], Any]
ONE: dict[str, Shape] = {
    "per unit": lambda o, p: p,
    "in groups of what is derived": lambda o, p: p.with_columns(z="s // 2").group_by("z"),
    "by town, in groups of towns": lambda o, p: o.per_unit("town", n="count(*)").group_by("town"),
    "SQL": lambda o, p: o.sql("SELECT id AS u, sum(price) AS s FROM self GROUP BY id HAVING s > 0"),
    "DISTINCT": lambda o, p: o.sql("SELECT DISTINCT id FROM self"),
    "window": lambda o, p: p.sql("SELECT *, row_number() OVER (PARTITION BY id) AS r FROM self WHERE s > (SELECT 1)"),
    "joined with one": lambda o, p: p.join(o.per_unit(n="count(*)"), on="id", how="left"),
}  # fmt: skip
SEVERAL: dict[str, Shape] = {
    "rows": lambda o, p: o,
    "by town, in other groups": lambda o, p: o.per_unit("town", k="count(*)").group_by("k"),
    "another TOWN": lambda o, p: o.per_unit("town", n="count(*)").with_columns(TOWN="'x'").group_by("TOWN"),
    "town left out": lambda o, p: o.sql("SELECT id FROM (SELECT id, town FROM self GROUP BY id, town) AS s"),
    "joined with a public table": lambda o, p: o.per_unit("town", n="count(*)").join(TOWNS, on="town").group_by("town"),
    "union": lambda o, p: p.union(p),
}  # fmt: skip


def made(shape: Shape, opened: Callable[[pa.Table], Any] = DuckDBEngine.open) -> Any:
    orders: Any = sf.Table(opened(ROWS), "id")
    return shape(orders, orders.per_unit(s="sum(price)"))


def test_rows_may_be_left_out_where_a_unit_has_one():
    for name, shape in ONE.items():
        table = made(shape, LocalEngine if name in ("SQL", "window") else DuckDBEngine.open).bound(groups=2)
        question, said = table.agg(n=sf.count()), table.bound(rows=1).agg(n=sf.count())
        plans = [one.plan(epsilon=1, delta=1e-6) for one in (question, said)]
        assert plans[0].exact == plans[1].exact and question.query.max_rows == 1, name
        assert "rows was not given" in question.query.notes[-1]
        assert question.query.notes[:-1] == said.query.notes
        assert table.bound(rows=3).agg(n=sf.count()).query.max_rows == 3
        assert table.agg(n=sf.count_units()).query.max_rows is None


@pytest.mark.long
def test_there_a_unit_has_one_row_indeed():
    for name, shape in ONE.items():
        table = made(shape)
        places = [list(table.schema).index(column) for column in (table.unit, *table.keys)]
        found = [tuple(row[i] for i in places) for row in rows_of(table, reordered=False).elements()]
        assert found and len(set(found)) == len(found), name


def test_elsewhere_a_limit_is_asked_for():
    for shape in SEVERAL.values():
        with pytest.raises(QueryError, match="rows is missing"):
            made(shape).bound(groups=2).agg(n=sf.count())


def test_what_a_catalog_allows_at_most_is_no_reason_for_more():
    declared = {"source": ROWS, "privacy_unit": "id", "max_rows": 5}
    orders = sf.catalog({"tables": {"orders": declared}}).table("orders")
    assert orders.agg(n=sf.count()).query.max_rows == 5
    assert orders.per_unit(s="sum(price)").agg(n=sf.count()).query.max_rows == 1
