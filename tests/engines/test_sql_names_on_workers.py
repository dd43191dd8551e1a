"""Largest groups, cumulative totals and regressions that are asked in SQL, on Spark and Beam: Python's question."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf

N = 2100
TABLE = pa.table(
    {
        "id": [i // 2 for i in range(N)],
        "week": [i % 7 for i in range(N)],
        "x": [float(i % 5) for i in range(N)],
        "y": [float(i % 5 + 2 * (i % 3)) for i in range(N)],
        "z": [float(i % 3) for i in range(N)],
    }
)
GIVEN = "epsilon = 1000, delta = 1e-9, privacy_unit_column = id"
STEPS = {"steps": sf.public(pa.table({"week": range(7)}))}
TOP = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({GIVEN}) APPROX_TOP_COUNT(week % 2, 1) AS odd FROM visits"
TOTALS = (
    f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({GIVEN}, max_groups_contributed = 2, group_selection_strategy = "
    "PUBLIC_GROUPS) p.week, CUMULATIVE_COUNT(*) AS n FROM visits RIGHT JOIN (SELECT DISTINCT week FROM steps) AS p "
    "ON visits.week = p.week GROUP BY p.week"
)
LINE = (
    f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({GIVEN}, max_rows_per_group = 2) LINEAR_REGRESSION(y, x, z, "
    "contribution_bounds_per_row => ((0, 8), (0, 4), (0, 2))) AS fit FROM visits"
)
# Each unit has an even week, and not all have an odd one.
EVEN = len({i // 2 for i in range(N) if i % 7 % 2 == 0})


def check(top, totals, line):
    (first,) = top
    assert (first["rank"], first["odd"]) == (1, 0) and abs(first["units"] - EVEN) <= 1
    for row in totals:
        assert abs(row["n"] - sum(i % 7 <= row["week"] for i in range(N))) <= 1
    assert sorted(row["week"] for row in totals) == list(range(7))
    (fit,) = line
    assert abs(fit["fit_x"] - 1) < 0.01 and abs(fit["fit_z"] - 2) < 0.01 and abs(fit["fit_intercept"]) < 0.02


SMALL = pytest.mark.flakiness(
    k=60, because="noise of scale 0.01 or less against 1, or of slopes 0.0002 against 0.01"
)


@SMALL
def test_here():
    tables = {"visits": TABLE, **STEPS}
    check(*(sf.sql(text, tables=tables).to_arrow().to_pylist() for text in (TOP, TOTALS, LINE)))


@pytest.mark.long
@SMALL
def test_on_spark(frame_of):
    tables = {"visits": frame_of(TABLE), **STEPS}
    top = sf.sql(TOP, tables=tables)
    assert top.spent == (1000.0, 1e-9)
    others = (sf.sql(text, tables=tables).toArrow().to_pylist() for text in (TOTALS, LINE))
    check(top.to_arrow().to_pylist(), *others)


@pytest.mark.long
@SMALL
def test_on_beam(run):
    import apache_beam as beam

    tables = {"visits": TABLE.schema, **STEPS}
    found = []
    for text in (TOP, TOTALS, LINE):
        transform = sf.sql(text, tables=tables)

        def build(pipeline, transform=transform):
            return pipeline | beam.Create([TABLE]) | transform

        found.append(list(run(build)))
    check(*found)
