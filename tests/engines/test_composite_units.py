"""Privacy units of several columns: equal where all parts are, of nobody where one is missing, local in all."""

import datetime as dt
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ParameterError, QueryError

from .made_rows import rows_of, table

UTC = dt.UTC
VISITS = pa.schema(
    {"id": pa.string(), "month": pa.float64(), "n": pa.int64(), "ts": pa.timestamp("us", "UTC")}
)
PEOPLE = pa.schema({"id": pa.string(), "month": pa.float64(), "age": pa.int32()})
IDS = ["a", "A", "", "a1", "1", "1:a", None]
MONTHS = [1.0, 11.0, 0.0, -0.0, float("nan"), None]
TIMES = [dt.datetime(2024, 1, d, h, tzinfo=UTC) for d in (7, 8) for h in (0, 22, 23)] + [None]
PARTS = ["id", "month"]

visits = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from(MONTHS), st.integers(-5, 5), st.sampled_from(TIMES)),
    max_size=20,
)


people = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(MONTHS), st.integers(0, 99)), max_size=10)


def unit_of(row: Any) -> Any:
    return None if row[0] is None or row[1] is None else (row[0], "nan" if row[1] != row[1] else row[1] + 0.0)


CHAINS = {
    "left join on more": lambda v, p: v.join(p.with_columns(n="age % 5"), on=["month", "n", "id"], how="left"),
    "join itself": lambda v, p: v.join(v.filter("n > 0"), on=["id", "month"]),
    "union": lambda v, p: v.union(v.filter("n > 0")),
    "per unit by id alone": lambda v, p: v.per_unit("id", n="sum(n)", rows="count(*)"),
    "everything": lambda v, p: (
        v.filter("n > -4").per_unit("id", n="sum(n)").join(p, on="id and month", how="left").filter("age > 9")
    ),
}  # fmt: skip


def chain(name: str, v: Any, p: Any) -> Any:
    return CHAINS[name](
        sf.scan(table(VISITS, v), privacy_unit=PARTS), sf.scan(table(PEOPLE, p), privacy_unit=tuple(PARTS))
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n != "left join on more")) for n in CHAINS]
)
@given(visits, people, st.sets(st.tuples(st.sampled_from(IDS), st.sampled_from([1.0, 11.0, 0.0, "nan"]))))
@settings(max_examples=4, deadline=None)
def test_rows_of_some_units_are_the_same_without_the_others(name, v, p, chosen):
    whole = rows_of(chain(name, v, p))
    halves = [
        rows_of(chain(name, *([r for r in rows if (unit_of(r) in chosen) == of] for rows in (v, p))))
        for of in (True, False)
    ]
    assert whole == halves[0] + halves[1]


@example([("a", 1.0, 1, None), ("A", 1.0, 1, None), ("", None, 1, None), (None, 1.0, 1, None)])
@given(visits)
@settings(max_examples=6, deadline=None)
def test_units_are_equal_where_all_parts_are(v):
    asked = sf.scan(table(VISITS, v), privacy_unit=PARTS).per_unit(rows="count(*)")
    expected = Counter(unit for row in v if (unit := unit_of(row)) is not None)
    assert sorted(row[1] for row in rows_of(asked).elements()) == sorted(expected.values())


def test_weeks_are_those_of_the_declared_time_zone(monkeypatch):
    """Sunday 23:00 in London is Monday in Berlin."""
    rows = table(
        VISITS,
        [
            ("a", 1.0, 1, dt.datetime(2024, 1, 7, 23, tzinfo=UTC)),
            ("a", 1.0, 2, dt.datetime(2024, 1, 8, tzinfo=UTC)),
        ],
    )
    for machine in ("America/Lima", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", machine)
        week = ["id", "date_trunc('week', ts)"]
        assert len(rows_of(sf.scan(rows, privacy_unit=week).per_unit(n="count(*)"))) == 2
        berlin = sf.scan(rows, privacy_unit=week, unit_timezone="Europe/Berlin")
        assert len(rows_of(berlin.per_unit(n="count(*)"))) == 1
        assert "read in Europe/Berlin" in str(berlin.notes)
        with pytest.raises(QueryError, match="one unit_timezone"):
            berlin.union(sf.scan(rows, privacy_unit=week))


def test_an_expression_that_fails_is_of_nobody():
    rows = pa.table({"id": [1, 2, 3], "day": ["2024-01-01", "no day", None]})
    asked = sf.scan(rows, privacy_unit=["id", "date_trunc('month', CAST(day AS DATE))"])
    assert [row[0] for row in rows_of(asked)] == [1]


def a_table(columns: Any = None, unit: Any = PARTS, **options: Any) -> Any:
    empty = pa.table({"id": pa.array([], pa.int64()), "month": pa.array([], pa.int64())})
    return sf.scan(empty if columns is None else pa.table(columns), privacy_unit=unit, **options)


EMPTY = pa.array([], pa.string())
REFUSED = [
    (lambda: a_table().join(a_table(unit="id"), on="id"), "join: a row belongs to one id and month here, but to one id in the other table"),
    (lambda: a_table().join(a_table(), on="id"), "Add 'id': 'id', 'month': 'month' to on"),
    (lambda: a_table().join(a_table({"id": EMPTY, "month": EMPTY}), on=PARTS), "id is a whole number here, but id is"),
    (lambda: a_table(unit=["id", "to_timestamp(month)"]), "with a zone"),
    (lambda: a_table(unit=["id", "[month]"]), "cannot be compared reliably"),
    (lambda: a_table({"id": EMPTY, "id and id || 'x'": EMPTY}, ["id", "id || 'x'"]), "already"),
    (lambda: a_table().with_columns(**{"id and month": "1"}), "cannot be redefined"),
]  # fmt: skip


def test_what_has_no_such_unit_is_refused():
    for ask_, says in REFUSED:
        with pytest.raises((QueryError, ParameterError), match=says):
            ask_()


@pytest.mark.long
def test_a_foreign_key_leads_to_them():
    visits_ = pa.table({"id": [1, 1], "month": [1, 2], "number": [7, 8]})
    bills = pa.table({"visit": [7, 7, 8, 9], "amount": [1, 2, 3, 4]})
    cat = sf.catalog({"tables": {
        "visits": {"source": visits_, "privacy_unit": PARTS},
        "bills": {"source": bills, "foreign_keys": {"visit": "visits.number"}},
    }})  # fmt: skip
    asked = cat.table("bills")
    assert asked.unit == "id and month"
    assert sorted(row[1] for row in rows_of(asked.per_unit(n="count(*)"))) == [1, 2]
    assert sum(rows_of(asked.join(cat.table("visits"), on={"visit": "number"})).values()) == 3


@pytest.mark.parametrize("limit", [2, 600])
def test_limits_are_those_of_one_column_that_holds_the_same(limit, tmp_path):
    path = str(tmp_path / "t.parquet")
    duckdb.sql(
        "SELECT i % 50 AS id, i % 4 AS month, (i % 50) * 4 + i % 4 AS both, (i * 7) % 5 AS g, i % 3 AS x "
        "FROM range(4000) t(i) UNION ALL SELECT NULL, 1, NULL, 1, 1 UNION ALL SELECT 1, NULL, NULL, 1, 1"
    ).write_parquet(path)
    found = []
    for unit in (["id", "month"], "both"):
        asked = sf.scan(path, privacy_unit=unit).group_by("g").bound(groups=limit, rows=3)
        question = asked.agg(u=sf.count_units(), n=sf.count(), m=sf.sum("x", lower=0, upper=1, per="unit"))
        plan = question.plan(epsilon=1, delta=1e-6)
        (batch,) = asked._engine.statistics(plan.exact, 1000)
        totals = [sum(int(v) for v in column.to_pylist()) for column in batch.columns[1:3]]
        found.append(totals if limit < 5 else [column.to_pylist() for column in batch.columns])
    assert found[0] == found[1]
