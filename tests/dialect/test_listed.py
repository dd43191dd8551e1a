"""Bins, listed values and vectors in SQL: the same questions as in Python, and the same numbers in text."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError

N = 60
TABLE = pa.table(
    {
        "id": range(N),
        "x": [float(i % 7) for i in range(N)],
        "s": [["a", "b", "it's"][i % 3] for i in range(N)],
        "b": [i % 4 == 0 for i in range(N)],
        "d": [datetime.date(2020, 2, 28 + i % 2) for i in range(N)],
        "w": [1.0 + i % 3 for i in range(N)],
        "v": pa.array([[0.6, 0.8]] * N, pa.list_(pa.float64())),
    }
)
PEOPLE = sf.scan(TABLE, privacy_unit="id")
WEIGHTS, BOUNDS = {"weight": "w", "max_weight": 2}, {"length": 2, "bound": 1}


def text(select: str, options: str = "") -> str:
    options = f"epsilon = 1e6, privacy_unit_column = id{options}"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {select} FROM t"


CALLS = [
    ("HISTOGRAM(x, [0, 2, 4], outside => 'count')", sf.histogram("x", [0, 2, 4], outside="count")),
    ("HISTOGRAM(x, [0, 2, 4], shares => TRUE)", sf.histogram("x", [0, 2, 4], shares=True)),
    ("HISTOGRAM(x, [0, 2], PER => 'unit')", sf.histogram("x", [0, 2], per="unit")),
    (
        "HISTOGRAM(x, [-1, 2], weight => w, per => 'unit', max_weight => 2)",
        sf.histogram("x", [-1, 2], per="unit", **WEIGHTS),
    ),
    ("VALUE_COUNTS(s, ['a', 'it''s'])", sf.value_counts("s", ["a", "it's"])),
    ("VALUE_COUNTS(s, ['b'], other => TRUE)", sf.value_counts("s", ["b"], other=True)),
    (
        "VALUE_COUNTS(s, ['a', 'b'], shares => true, weight => w, max_weight => 2)",
        sf.value_counts("s", ["a", "b"], shares=True, **WEIGHTS),
    ),
    ("VALUE_COUNTS(b, [TRUE, false])", sf.value_counts("b", [True, False])),
    ("VALUE_COUNTS(d, [DATE '2020-02-29'])", sf.value_counts("d", [datetime.date(2020, 2, 29)])),
    ("VALUE_COUNTS(id, [3, -1, +7])", sf.value_counts("id", [3, -1, 7])),
    ("VALUE_COUNTS(id, [-9223372036854775808])", sf.value_counts("id", [-(2**63)])),
    ("VECTOR_SUM(v, length => 2, bound => 1)", sf.vector_sum("v", **BOUNDS)),
    (
        "VECTOR_SUM(v, length => 2, bound => 1, norm => 'l1', per => 'row')",
        sf.vector_sum("v", **BOUNDS, norm="l1", per="row"),
    ),
    ("VECTOR_AVG(v, bound => 1, length => 2, norm => 'linf')", sf.vector_mean("v", **BOUNDS, norm="linf")),
]


@pytest.mark.flakiness(k=100, because="noise of scale 2e-5 or less against 1e-2")
def test_sql_asks_what_python_asks():
    asked = {f"o{i}": aggregate for i, (_, aggregate) in enumerate(CALLS)}
    calls = ", ".join(f"{call} AS o{i}" for i, (call, _) in enumerate(CALLS))
    release = sf.sql(text(calls, ", max_rows_per_group = 1"), tables={"t": TABLE})
    assert release.plan.query.aggregates == PEOPLE.bound(rows=1).agg(**asked).query.aggregates
    row = release.to_arrow().to_pylist()[0]
    assert [row[f"o0_{bin}"] for bin in ("under_0", "0_2", "2_4", "over_4")] == [0, 18, 26, 16]
    assert row["o7_true"] == 15 and row["o8_2020-02-29"] == 30 and row["o9_3"] == 1 and row["o9_-1"] == 0
    assert row["o11"] == pytest.approx([36, 48], abs=0.01)
    assert row["o13"] == pytest.approx([0.6, 0.8], abs=0.01)


@pytest.mark.noise_cannot_matter("names alone are compared")
def test_names_without_one_and_units_that_need_no_limit_of_rows():
    calls = "VALUE_COUNTS(s, ['a', 'b'], per => 'unit'), VECTOR_SUM(v, length => 2, bound => 1)"
    release = sf.sql(text(calls), tables={"t": TABLE})
    assert release.to_arrow().column_names == ["value_counts_s_a", "value_counts_s_b", "vector_sum_v"]
    derived = sf.sql(text("VALUE_COUNTS(upper(s), ['A'], per => 'unit') AS n"), tables={"t": TABLE})
    assert derived.to_arrow().column_names == ["n_A"]


@pytest.mark.flakiness(k=100, because="noise of scale 1e-5 against 0.5")
def test_outputs_of_bins_are_columns_to_compute_with():
    inside = text("VALUE_COUNTS(s, ['a', 'b'], per => 'unit') AS n, DP_INTERVAL_HIGH(n_a) AS high")
    found = sf.sql(f"SELECT n_a - n_b AS more, high FROM ({inside})", tables={"t": TABLE}).to_arrow()
    assert found["more"][0].as_py() == 0 and 20 < found["high"][0].as_py() < 20.5


def test_columns_of_other_types_are_refused():
    for call in ("VALUE_COUNTS(x, [1])", "VALUE_COUNTS(s, [1])", "VECTOR_SUM(x, length => 2, bound => 1)"):
        with pytest.raises(ColumnError, match="try_cast"):
            sf.sql(text(call, ", max_rows_per_group = 1"), tables={"t": TABLE})
