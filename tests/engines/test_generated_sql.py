"""Generated unit-local SQL: the rows of DuckDB, and `Q(A + B) = Q(A) + Q(B)`."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError

from . import made_rows

REGIONS = pa.table({"t": ["A", "B", "B", None], "r": ["x", "y", "z", "w"], "n": [1, 2, 3, 4]})
# Each takes tables of the columns id, a and t, and gives one; what is ordered is ordered in full.
STEPS = (
    "SELECT id, a, t FROM ({0}) s WHERE a > 1 OR t IS NULL",
    "SELECT id, a + 1 AS a, upper(t) AS t FROM ({0})",
    "SELECT id, sum(a)::BIGINT AS a, max(t) AS t FROM ({0}) s GROUP BY id HAVING count(*) > 1",
    "SELECT id, count(a) AS a, t FROM ({0}) s GROUP BY ALL",
    "SELECT DISTINCT id, a, t FROM ({0}) s",
    "SELECT id, a, t FROM ({0}) UNION ALL SELECT id, a, t FROM ({1})",
    "SELECT x.id, y.a, x.t FROM ({0}) x JOIN ({1}) y ON x.id = y.id",
    "SELECT x.id, y.a, x.t FROM ({0}) x LEFT JOIN ({1}) y ON x.id = y.id AND x.t = y.t",
    "SELECT x.id, x.a, r.r AS t FROM ({0}) x LEFT JOIN r USING (t)",
    "SELECT x.id, x.a, x.t FROM ({0}) x JOIN (SELECT upper(r) AS t, max(n) AS n FROM r GROUP BY ALL) y ON x.t = y.t",
    "SELECT id, rank() OVER (PARTITION BY id ORDER BY a) AS a, t FROM ({0})",
    "SELECT id, sum(a) OVER (PARTITION BY id, t)::BIGINT AS a, t FROM ({0})",
    "SELECT id, lag(a) OVER (PARTITION BY id ORDER BY a, t) AS a, t FROM ({0})",
    "SELECT id, a, t FROM ({0}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY a DESC, t) <= 2",
    "SELECT id, count(*) OVER (PARTITION BY id ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS a, t FROM ({0})",
    "SELECT id, sum(a) OVER (PARTITION BY id ORDER BY a DESC NULLS LAST RANGE BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)::BIGINT AS a, t FROM ({0})",
    "SELECT id, dense_rank() OVER (PARTITION BY id ORDER BY a RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a, t FROM ({0})",
    "SELECT id, a, t FROM ({0}) WHERE t NOT IN (SELECT t FROM r WHERE t IS NOT NULL)",
    "SELECT id, CASE WHEN t IN (SELECT t FROM r) THEN a ELSE -1 END AS a, t FROM ({0}) s",
    "WITH w AS ({0}), v AS (SELECT id, max(a) AS m FROM w GROUP BY id) "
    "SELECT w.id, w.a - v.m AS a, w.t FROM w JOIN v USING (id)",
)  # fmt: skip


def text(chance: random.Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(["SELECT id, a, t FROM o", "SELECT * FROM p"])
    return chance.choice(STEPS).format(text(chance, depth - 1), text(chance, depth - 1))


def people(chance: random.Random, rows: int) -> pa.Table:
    columns = [
        pa.array([chance.choice(values) for _ in range(rows)], kind)
        for values, kind in (
            ([1, 2, 3, None], pa.int64()),
            ([None, 0, 1, 2], pa.int64()),
            (["A", "B", None, "c"], pa.string()),
        )
    ]
    return pa.table(columns, ["id", "a", "t"])


def rows_of(query: str, o: pa.Table, p: pa.Table, reordered: bool = False) -> Counter:
    known = {"o": sf.scan(o, privacy_unit="id"), "p": sf.scan(p, privacy_unit="id"), "r": sf.public(REGIONS)}
    return made_rows.rows_of(known["o"].sql(query, tables=known), reordered)


@pytest.mark.parametrize("seed", [pytest.param(i, marks=[pytest.mark.long] * (i > 9)) for i in range(150)])
def test_generated_sql_has_the_rows_of_duckdb_and_of_each_half(seed):
    chance = random.Random(seed)
    query = text(chance, chance.randrange(1, 5))
    o, p = people(chance, chance.randrange(15)), people(chance, chance.randrange(8))
    try:
        found = rows_of(query, o, p, reordered=True)
    except QueryError as error:
        assert "more than 60 joins" in str(error) or "HUGEINT leaves no room" in str(error)
        return
    session = duckdb.connect()
    for name, rows in (("o", o), ("p", p), ("r", REGIONS)):
        session.register(name, rows)
    assert found == Counter(row for row in session.execute(query).fetchall() if row[0] is not None)
    chosen = {unit for unit in (1, 2, 3) if chance.random() < 0.5}
    halves = [
        rows_of(
            query,
            *(
                t.filter(pa.array([(u in chosen) == of for u in t["id"].to_pylist()], pa.bool_()))
                for t in (o, p)
            ),
        )
        for of in (True, False)
    ]
    assert found == halves[0] + halves[1]
