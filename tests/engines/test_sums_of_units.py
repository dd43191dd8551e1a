"""Sums with bounds per unit and group count nothing for a unit without a value, however they are requested."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf

pytestmark = pytest.mark.noise_cannot_matter(
    "noise of scale 10^-4 at most is rounded to nothing or is within 0.1"
)

VALUES = [None, None, 7, 8]
UNITS = 100
BIG = {"epsilon": 1_000_000, "delta": "1e-6"}
TRUTH = {(5, 10): 25 * 15, (-20, 3): 50 * 3, (9, 12): 50 * 9, (-9, -4): 50 * -4}


def table(kind: pa.DataType, rows: int = 1) -> pa.Table:
    """Half of the units have no value; each has its values `rows` times."""
    at = [i for i in range(UNITS) for _ in range(rows)]
    values = pa.array([VALUES[i % 4] for i in at], kind)
    return pa.table({"id": at, "k": ["a"] * len(at), "t": [1 + i % 2 for i in at], "v": values})


def released(asked: sf.query.table.Table, noise: str, **outputs) -> list[dict]:
    return asked.agg(**outputs).release(**BIG, noise=noise).to_arrow().to_pylist()


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
@pytest.mark.parametrize("bounds", TRUTH, ids=str)
def test_alone_and_with_other_numbers(noise, kind, bounds):
    low, high = bounds
    whole = sf.scan(table(kind), privacy_unit="id").bound(rows=1)
    asked = sf.sum("v", lower=low, upper=high, per="unit")
    with_others = {"n": sf.count_units(), "m": sf.mean("v", lower=0, upper=20), "c": sf.count("v")}
    for others in ({}, {"n": sf.count_units()}, with_others):
        (row,) = released(whole, noise, s=asked, **others)
        assert abs(row["s"] - TRUTH[bounds]) < 0.1, (others, row)


@pytest.mark.parametrize("keys", [None, ["a", "b"]])
def test_by_group_with_many_rows(keys):
    by_group = (
        sf.scan(table(pa.int64(), rows=3), privacy_unit="id").group_by("k", keys=keys).bound(groups=1, rows=2)
    )
    rows = by_group.agg(s=sf.sum("v", lower=25, upper=40)).release(**BIG).to_arrow().to_pylist()
    assert rows == [{"k": "a", "s": 50 * 25}] + ([{"k": "b", "s": 0}] if keys else [])


def test_a_limit_of_rows_in_all_groups():
    limited = sf.scan(table(pa.int64(), rows=2), privacy_unit="id").bound(total_rows=1)
    assert released(limited, "laplace", s=sf.sum("v", lower=5, upper=10)) == [{"s": 375}]


def test_cumulative():
    by_time = sf.scan(table(pa.int64()), privacy_unit="id").group_by("t", keys=[1, 2]).bound(groups=1, rows=1)
    rows = released(by_time, "gaussian", s=sf.cumulative(sf.sum("v", lower=5, upper=10)))
    assert [round(row["s"]) for row in rows] == [175, 375]


def test_the_largest_groups():
    rows = (
        sf.scan(table(pa.int64()), privacy_unit="id")
        .top("t", k=2, keys=[1, 2], by=sf.sum("v", lower=5, upper=10))
        .release(epsilon=1_000_000)
        .to_arrow()
        .to_pylist()
    )
    assert sorted(row["sum"] for row in rows) == [175, 200]


def test_sql_and_declared_columns():
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6, privacy_unit_column = id) "
        "SUM(v, contribution_bounds_per_group => (5, 10)) AS s FROM t"
    )
    given = table(pa.int64())
    assert sf.sql(text, tables={"t": given}).to_arrow().to_pylist() == [{"s": 375}]
    full = pa.schema([*list(given.schema)[:3], pa.field("v", pa.int64(), nullable=False)])
    complete = given.set_column(3, "v", pa.array([7] * UNITS, pa.int64())).cast(full)
    plans = [
        sf.scan(one, privacy_unit="id")
        .bound(rows=1)
        .agg(n=sf.count_units(), s=sf.sum("v", lower=5, upper=10))
        .plan(epsilon=1, noise="laplace")
        for one in (given, complete)
    ]
    assert plans[0].deviations["v[5,10].total"] > plans[1].deviations["v[5,10].total"]
