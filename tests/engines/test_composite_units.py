"""Privacy units of several columns: equal where all parts are, of nobody where one is missing, local in all."""

import datetime as dt
from collections import Counter
from typing import Any

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


def a_table(columns: Any = None, unit: Any = PARTS, **options: Any) -> Any:
    empty = pa.table({"id": pa.array([], pa.int64()), "month": pa.array([], pa.int64())})
    return sf.scan(empty if columns is None else pa.table(columns), privacy_unit=unit, **options)


EMPTY = pa.array([], pa.string())
REFUSED = [
    (lambda: a_table().join(a_table(unit="id"), on="id"), "a row belongs to one id and month here, and to one id in"),
    (lambda: a_table().join(a_table(), on="id"), "add 'id': 'id', 'month': 'month' to on"),
    (lambda: a_table().join(a_table({"id": EMPTY, "month": EMPTY}), on=PARTS), "id is a whole number here, and id is"),
    (lambda: a_table(unit=["id", "to_timestamp(month)"]), "with a zone"),
    (lambda: a_table(unit=["id", "[month]"]), "do not compare alike"),
    (lambda: a_table({"id": EMPTY, "id and id || 'x'": EMPTY}, ["id", "id || 'x'"]), "already"),
    (lambda: a_table().with_columns(**{"id and month": "1"}), "cannot be redefined"),
]  # fmt: skip


def test_what_has_no_such_unit_is_refused():
    for ask_, says in REFUSED:
        with pytest.raises((QueryError, ParameterError), match=says):
            ask_()
