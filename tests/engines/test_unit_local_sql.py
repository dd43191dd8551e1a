"""Unit-local SQL: `Q(A + B) = Q(A) + Q(B)`, bit for bit, for tables A and B with no unit in common."""

import random
from collections import Counter
from datetime import UTC, date, datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import QueryError

from . import made_rows
from .made_rows import table

NUMBERS = [0.0, -0.0, 1.5, 0.1, 0.2, 0.3, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), None]
TOWNS = ["A", "B", "a", "", None]
TYPES = {
    "visits": pa.schema({"id": pa.float64(), "town": pa.string(), "cost": pa.float64(), "n": pa.int64()}),
    "people": pa.schema({"pid": pa.float64(), "age": pa.int32(), "town": pa.string()}),
}
TOWN_ROWS = pa.table({"town": ["A", "B", "B", None, "a"], "region": ["n", "s", "t", "x", "n"]})

units = st.sampled_from([1.0, 2.0, 3.0, 4.0, 0.0, float("nan"), None])
# Few numbers, so that rows have the same place in many orders.
visits = st.tuples(units, st.sampled_from(TOWNS), st.sampled_from(NUMBERS), st.sampled_from([0, 1, 2, 2**62]))
people = st.tuples(units, st.integers(0, 99), st.sampled_from(TOWNS))

TEXTS = {
    "left join of units": "SELECT v.id, v.cost, p.age, p.pid FROM visits v LEFT JOIN people p ON v.id = p.pid AND v.town = p.town",
    "join computed public": "SELECT v.id, t.c FROM visits v JOIN (SELECT lower(town) AS town, count(*) AS c FROM towns GROUP BY ALL) t ON v.town = t.town",
    "values of public tables": "SELECT id, sum(cost) / (SELECT count(*) FROM towns) AS s, (SELECT max(region) FROM towns) AS r FROM visits WHERE town <= (SELECT min(town) FROM towns) OR n > (SELECT 0) GROUP BY id HAVING count(*) < (SELECT 3)",
    "grouped by more": "SELECT upper(town) AS t, id, cost, sum(cost) / count(*) AS r FROM visits GROUP BY ALL",
    "union of types": "SELECT id, n, town FROM visits UNION ALL SELECT id, cost, NULL FROM visits UNION ALL SELECT pid, age::DECIMAL(9, 1), town FROM people",
    "row_number": "SELECT id, town, cost, n, row_number() OVER (PARTITION BY id ORDER BY n) AS r FROM visits",
    "values": "SELECT id, town, first_value(cost) OVER w AS a, last_value(town) OVER w AS b, nth_value(cost, 2) OVER w AS c, last_value(cost IGNORE NULLS) OVER w AS d FROM visits WINDOW w AS (PARTITION BY id ORDER BY n)",
    "sums": "SELECT id, sum(cost) OVER (PARTITION BY id) AS a, sum(cost) OVER (PARTITION BY id ORDER BY n) AS b, avg(cost) OVER (PARTITION BY id ORDER BY n ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS c, max(cost) OVER (PARTITION BY id, town) AS d FROM visits",
    "distances": "SELECT id, sum(cost) OVER (PARTITION BY id ORDER BY cost RANGE BETWEEN 0.3 PRECEDING AND 1e18 FOLLOWING) AS a, first_value(town) OVER (PARTITION BY id ORDER BY n DESC RANGE 1 PRECEDING) AS b, avg(n) OVER (PARTITION BY id, town ORDER BY n RANGE BETWEEN 1 FOLLOWING AND 5 FOLLOWING) AS c FROM visits",
    "everything": "WITH v AS (SELECT id, town, cost, n FROM visits WHERE town IN (SELECT town FROM towns)), "
    "p AS (SELECT id, town, count(*) AS c, sum(cost) AS s FROM v GROUP BY id, town HAVING count(*) > 0), "
    "q AS (SELECT id, town, s, lag(s) OVER (PARTITION BY id ORDER BY c) AS before FROM p UNION ALL SELECT id, town, cost, n * 0.5::DOUBLE FROM v) "
    "SELECT DISTINCT q.id, t.region, q.s, q.before, r.age FROM q LEFT JOIN towns t USING (town) LEFT JOIN people r ON q.id = r.pid",
}  # fmt: skip


FIRST = "left join of units", "grouped by more", "row_number"


def rows_of(text: str, v, p, reordered: bool = True) -> Counter:
    """Return the rows that a text makes, bit for bit, without those of no unit."""
    known = {
        "visits": sf.scan(table(TYPES["visits"], v), privacy_unit="id"),
        "people": sf.scan(table(TYPES["people"], p), privacy_unit="pid"),
        "towns": sf.public(TOWN_ROWS),
    }
    return made_rows.rows_of(known["visits"].sql(text, tables=known), reordered)


def unit_of(row) -> str:
    return "none" if row[0] is None else "nan" if row[0] != row[0] else str(row[0] + 0.0)


def halves(rows, chosen) -> list[list]:
    return [[row for row in rows if (unit_of(row) in chosen) == of] for of in (True, False)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in FIRST)) for name in TEXTS]
)
@given(
    st.lists(visits, max_size=20),
    st.lists(people, max_size=8),
    st.sets(st.sampled_from(["1.0", "2.0", "0.0", "nan"])),
    st.randoms(use_true_random=False),
)
@settings(max_examples=4, deadline=None)
def test_rows_of_some_units_are_the_same_without_the_others_and_in_any_order(name, v, p, chosen, chance):
    whole = rows_of(TEXTS[name], v, p)
    chance.shuffle(v)
    chance.shuffle(p)
    both = zip(halves(v, chosen), halves(p, chosen), strict=True)
    parts = [rows_of(TEXTS[name], *half, reordered=False) for half in both]
    assert whole == parts[0] + parts[1]


@pytest.mark.long
def test_public_values_are_looked_up_before_private_rows_are_near():
    """An error in public SQL comes whether or not a private row meets the value that raises."""
    text = (
        "SELECT v.id FROM visits v JOIN (SELECT town, region::INTEGER AS r FROM towns) t ON v.town = t.town"
    )
    for rows in ([], [(1.0, "C", 1.0, 1)], [(1.0, "A", 1.0, 1)]):
        with pytest.raises(sf.errors.EngineError, match="public tables failed"):
            rows_of(text, rows, [])


@pytest.mark.long
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "UTC"])
def test_dates_of_a_public_table_are_those_of_the_private_one_s_time_zone(zone, monkeypatch):
    """Not that of the machine, nor one in which the public table was opened."""
    evening = pa.array([datetime(2024, 1, 1, 20, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    monkeypatch.setenv("TZ", "America/New_York")
    engine = DuckDBEngine.open(pa.table({"id": [1], "moment": evening}), "Europe/Berlin")
    visits = sf.scan(pa.table({"id": [1]}), privacy_unit="id", timezone=zone)
    known = {"visits": visits, "moments": sf.PublicTable(engine)}
    dates = "SELECT id, CAST(moment AS DATE) AS day FROM (SELECT DISTINCT id, moment FROM moments)"
    made = known["visits"].sql(f"SELECT id, day FROM visits JOIN ({dates}) AS d USING (id)", tables=known)
    assert list(made_rows.rows_of(made)) == [(1, date(2024, 1, 2 if zone == "Asia/Tokyo" else 1))]


# Generated SQL: the rows of DuckDB, and of each half.
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


def people_of(chance: random.Random, rows: int) -> pa.Table:
    columns = [
        pa.array([chance.choice(values) for _ in range(rows)], kind)
        for values, kind in (
            ([1, 2, 3, None], pa.int64()),
            ([None, 0, 1, 2], pa.int64()),
            (["A", "B", None, "c"], pa.string()),
        )
    ]
    return pa.table(columns, ["id", "a", "t"])


def generated_rows(query: str, o: pa.Table, p: pa.Table, reordered: bool = False) -> Counter:
    known = {"o": sf.scan(o, privacy_unit="id"), "p": sf.scan(p, privacy_unit="id"), "r": sf.public(REGIONS)}
    return made_rows.rows_of(known["o"].sql(query, tables=known), reordered)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 3, *(pytest.param(i, marks=pytest.mark.long) for i in range(4, 50))])
def test_generated_sql_has_the_rows_of_duckdb_and_of_each_half(seed):
    chance = random.Random(seed)
    query = text(chance, chance.randrange(1, 5))
    o, p = people_of(chance, chance.randrange(15)), people_of(chance, chance.randrange(8))
    try:
        found = generated_rows(query, o, p, reordered=True)
    except QueryError as error:
        assert "more than 60 joins" in str(error) or "HUGEINT leaves no room" in str(error)
        return
    session = duckdb.connect()
    for name, rows in (("o", o), ("p", p), ("r", REGIONS)):
        session.register(name, rows)
    assert found == Counter(row for row in session.execute(query).fetchall() if row[0] is not None)
    chosen = {unit for unit in (1, 2, 3) if chance.random() < 0.5}

    def half(rows: pa.Table, of: bool) -> pa.Table:
        return rows.filter(pa.array([(u in chosen) == of for u in rows["id"].to_pylist()], pa.bool_()))

    parts = [generated_rows(query, half(o, of), half(p, of)) for of in (True, False)]
    assert found == parts[0] + parts[1]
