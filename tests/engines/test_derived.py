"""Ratios, differences and proportions of strata on Spark and Beam: the numbers and bars that DuckDB has."""

from __future__ import annotations

import math

import apache_beam as beam
import pyarrow as pa
import pytest

import sfumato as sf

pytestmark = [
    pytest.mark.long,
    pytest.mark.flakiness(k=100, because="noise of scale 1e-3 or less against differences of 1 and of 0.01"),
]

ROWS = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "g": pa.array([i % 3 for i in range(300)], pa.int64()),
        "x": pa.array([float(i % 11) for i in range(300)]),
        "yes": pa.array([[True, False, None, True][i % 4] for i in range(300)]),
    }
)
BUDGET = {"epsilon": 10**5, "noise": "laplace", "confidence": 0.9}
SIZES = {"asked": dict.fromkeys(range(3), 100), "population": {0: 100, 1: 5000, 2: 900}}


def by_group(rows):
    asked = sf.scan(rows, privacy_unit="id").group_by("g", keys=[0, 1, 2, 7]).bound(groups=1, rows=1)
    total = sf.sum("x", lower=0, upper=10)
    return asked.agg(n=sf.count(), s=total, r=sf.ratio("s", "n"), d=sf.difference("s", "n"))


def of_strata(rows):
    proportion = sf.proportion("yes", stratum="g", **SIZES)
    return (
        sf.scan(rows, privacy_unit="id")
        .bound(rows=1)
        .agg(p=proportion, q=proportion, d=sf.difference("p", "q"))
    )


def same(found: list[dict], asked) -> None:
    expected = asked(ROWS).release(**BUDGET).to_arrow().to_pylist()
    found = sorted(found, key=lambda row: row.get("g", 0))
    assert [list(row) for row in found] == [list(row) for row in expected]
    for row, other in zip(found, expected, strict=True):
        for name, value in other.items():
            if row.get("g") == 7 and name.startswith("r"):  # of a group without rows there is no ratio
                assert name == "r" or math.isinf(row[name])
            else:
                assert row[name] == pytest.approx(value, abs=0.01), name


@pytest.mark.parametrize("asked", [by_group, of_strata])
def test_on_spark(frame_of, fixed_salt, asked):
    frame = asked(frame_of(ROWS)).release(**BUDGET)
    same([row.asDict() for row in frame.collect()], asked)


@pytest.mark.parametrize("asked", [by_group, of_strata])
def test_on_beam(run, fixed_salt, asked):
    transform = asked(ROWS.schema).release(**BUDGET)
    found = run(lambda p: p | beam.Create(ROWS.to_pylist(), reshuffle=False) | transform)
    same([dict(row) if isinstance(row, dict) else row._asdict() for row in found], asked)
