"""Cumulative totals in SQL: the question of `sf.cumulative`, over steps that are public."""

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SqlError
from sfumato.query.query import Query
from tests.support.tiers import one_in

N = 420
TABLE = pa.table(
    {
        "id": [i // 2 for i in range(N)],
        "week": [i % 7 for i in range(N)],
        "town": [["A", "B"][i // 7 % 2] for i in range(N)],
        "x": [float(i % 5) for i in range(N)],
    }
)
STEPS = pa.table({"week": [w for w in range(7) for _ in "AB"], "town": ["A", "B"] * 7})
TABLES = {"visits": TABLE, "steps": sf.public(STEPS)}
GROUP = "contribution_bounds_per_group => (0, 10)"
ONE = "visits RIGHT JOIN (SELECT DISTINCT week FROM steps) AS p ON visits.week = p.week"
TWO = "visits RIGHT JOIN (SELECT week, town FROM steps) AS p ON visits.week = p.week AND visits.town = p.town"
TWO = TWO.replace("SELECT week", "SELECT DISTINCT week")


def text(columns: str, keys: str = "p.week", source: str = ONE, options: str = "", epsilon: str = "1") -> str:
    given = (
        f"epsilon = {epsilon}, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 2{options}"
    )
    strategy = ", group_selection_strategy = PUBLIC_GROUPS" if "JOIN" in source else ""
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({given}{strategy}) {keys}, {columns} FROM {source} "
        f"GROUP BY {keys.replace(' AS w', '')}"
    )


def asked(*given: str, **more: str) -> Query:
    return sf.sql(text(*given, **more), tables=TABLES).plan.query


COUNT = sf.cumulative(sf.count(), over="week")
SAME = {
    "CUMULATIVE_COUNT(*)": {"cumulative_count": COUNT},
    "CUMULATIVE_COUNT(*, over => week) AS n": {"n": COUNT},
    "cumulative_count(*, OVER => p.week) AS n": {"n": COUNT},
    "CUMULATIVE_COUNT(x)": {"cumulative_count_x": sf.cumulative(sf.count("x"), over="week")},
    "CUMULATIVE_COUNT(DISTINCT id)": {"cumulative_count_units": sf.cumulative(sf.count_units(), over="week")},
    f"CUMULATIVE_SUM(x, {GROUP}), COUNT(*) AS n": {
        "cumulative_sum_x": sf.cumulative(sf.sum("x", lower=0, upper=10, per="unit"), over="week"),
        "n": sf.count(),
    },
    "CUMULATIVE_SUM(x, contribution_bounds_per_row => (0, 10)) AS s": {
        "s": sf.cumulative(sf.sum("x", lower=0, upper=10, per="row"), over="week")
    },
}


@pytest.mark.parametrize("columns", one_in(2, SAME))
def test_sql_asks_what_python_asks(columns):
    assert dict(asked(columns).aggregates) == SAME[columns]


C, S = "CUMULATIVE_COUNT", "CUMULATIVE_SUM"
REFUSED = [
    (text(f"{C}()"), "write CUMULATIVE_COUNT(*)"),
    (text(f"{S}(x)"), "contribution_bounds_per_group => (lower, upper)"),
    (text(f"{S}(DISTINCT x, {GROUP})"), "DISTINCT"),
    (text(f"{S}(x, contribution_bounds_per_group => (3, 0))"), "not below"),
    (text(f"{C}(DISTINCT x, contribution_bounds_per_group => (0, 3))"), "a number of distinct values cannot be accumulated over steps"),
    (text(f"{C}(*, weight => x, max_weight => 3)"), "CUMULATIVE_COUNT: weights cannot be accumulated over steps"),
    (text(f"{C}(*, over => town)"), "CUMULATIVE_COUNT: over is none of the group keys. Write one of week"),
    (text(f"{C}(*, over => week, over => week)"), "given twice"),
    (text("COUNT(*, over => week)"), "there is no argument over"),
    (text(f"{C}(*) OVER (ORDER BY week)"), "takes no OVER"),
    (text(f"{C}(*)", "p.week, p.town", TWO), "which of week, town is time?"),
    (text(f"{C}(*)", options=", max_rows_contributed = 4").replace("max_groups_contributed = 2, ", ""), "not max_rows_contributed"),
    (text(f"{C}(*)", "week", "visits"), "all time steps as public groups"),
    (text(f"{C}(*)").replace("GROUP BY p.week", "GROUP BY ROLLUP (p.week)"), "cumulative totals cannot be combined with ROLLUP, CUBE or GROUPING SETS"),
    (text(f"{C}(*)").replace("DIFFERENTIAL_PRIVACY", "ANONYMIZATION"), "CUMULATIVE_COUNT cannot be used in WITH ANONYMIZATION"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "says"), one_in(2, REFUSED))
def test_wrong_uses_are_refused_in_words(written, says):
    with pytest.raises(SqlError, match="line 1, column") as caught:
        sf.sql(written, tables=TABLES)
    assert says in str(caught.value)
