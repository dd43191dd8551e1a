"""GROUP BY ROLLUP, CUBE and GROUPING SETS: the same rows as DuckDB has without noise, and what is refused."""

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import QueryError, SqlError
from sfumato.testing import noise_free
from tests.support.tiers import one_in

VISITS = pa.table(
    {
        "id": list(range(12)) * 3,
        "region": ["A", "B", "B", "C"] * 9,
        "town": [1, 2, 3] * 12,
        "price": [float(i % 5) for i in range(36)],
    }
)
PLACES = pa.table({"region": list("ABC") * 3, "town": [1, 1, 1, 2, 2, 2, 3, 3, 3]})
OPTIONS = (
    "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, "
    "max_groups_contributed = 9, max_rows_per_group = 3, group_selection_strategy = PUBLIC_GROUPS)"
)
JOIN = (
    "FROM visits RIGHT OUTER JOIN (SELECT DISTINCT region, town FROM places) AS p "
    "ON visits.region = p.region AND visits.town = p.town"
)


def asked(columns, behind):
    text = f"SELECT {OPTIONS} {columns} {JOIN} {behind}"
    return sf.sql(text, tables={"visits": VISITS, "places": sf.public(PLACES)})


def rows(table):
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize(
    "columns, behind",
    one_in(
        3,
        [
            ("p.region, p.town, COUNT(*) AS n", "GROUP BY ROLLUP (p.region, p.town)"),
            ("p.town, p.region AS r, COUNT(*) AS n", "GROUP BY CUBE (r, p.town)"),
            ("p.region, p.town, COUNT(*) AS n", "GROUP BY GROUPING SETS ((p.region), (p.town), ())"),
            ("p.region, p.town, COUNT(*) AS n", "GROUP BY GROUPING SETS (p.town, ROLLUP (p.region, p.town))"),
            ("p.region, p.town, COUNT(*) AS n", "GROUP BY p.region, ROLLUP (p.town)"),
            ("p.region, p.town, COUNT(*) AS n", "GROUP BY ROLLUP ((p.region, p.town))"),
            (
                "p.region, p.town, GROUPING(p.region, p.town) * 10 AS g, GROUPING_ID(p.town, p.region) AS h, COUNT(*) AS n",
                "GROUP BY CUBE (p.region, p.town) HAVING GROUPING(p.region) = 0 AND COUNT(*) > 3",
            ),
            (
                "p.region, p.town, COUNT(*) AS n",
                "GROUP BY ROLLUP (p.region, p.town) ORDER BY n DESC, 1, 2 LIMIT 3",
            ),
            # An output that is called as the column of the released table that GROUPING is read from.
            (
                "p.region, p.town, GROUPING(p.town) AS grouping, COUNT(*) AS n",
                "GROUP BY CUBE (p.region, p.town) HAVING grouping = 1",
            ),
            (
                "p.region AS town, p.town AS region, GROUPING(p.region, p.town) AS g, COUNT(*) AS n",
                "GROUP BY ROLLUP (1, 2)",
            ),
        ],
    ),
)
def test_rows_are_those_of_duckdb(columns, behind):
    with noise_free():
        found = asked(columns, behind).to_arrow()
    visits, places = VISITS, PLACES
    expected = duckdb.sql(
        f"SELECT {columns} FROM visits JOIN places AS p ON visits.region = p.region AND visits.town = p.town "
        + behind
    ).to_arrow_table()
    assert visits is not places and found.schema.names == expected.schema.names
    assert found.schema.types[:2] == expected.schema.types[:2]
    # Public groups without rows are there too.
    empty = [r for r in found.to_pylist() if r["n"] == 0]
    assert rows(found) == sorted([*rows(expected), *map(repr, empty)])


@pytest.mark.parametrize(
    "columns, behind, message",
    [
        ("p.region, p.town, COUNT(*)", "GROUP BY ROLLUP (p.region, p.town) + 1", "nothing after it"),
        ("p.region, p.town, COUNT(*)", "GROUP BY CUBE (1, 2, 1, 2, 1, 2, 1)", "at most 64 sets of keys are supported"),
        ("p.region, p.town, COUNT(*)", "GROUP BY " + "GROUPING SETS (" * 12 + "1" + ")" * 12, "nested too deeply"),
        ("p.region, p.town, COUNT(*)", "GROUP BY ROLLUP (p.region, 2, p.town)", "this group key is listed twice"),
        ("p.region, p.town, GROUPING(p.town) AS g, COUNT(*)", "GROUP BY p.region, p.town", "is for GROUP BY ROLLUP"),
        ("p.region, p.town, GROUPING(n) AS g, COUNT(*) AS n", "GROUP BY ROLLUP (1, 2)", "takes group keys"),
        ("p.region, p.town, COUNT(DISTINCT id) AS n", "GROUP BY ROLLUP (1, 2)", "do not add up"),
        ("p.region, p.town, MEDIAN(price, contribution_bounds_per_row => (0, 4)) AS n", "GROUP BY CUBE (1, 2)", "totals are for counts, sums, means"),
        ("p.region AS grouping, p.town, COUNT(*)", "GROUP BY ROLLUP (1, 2)", "grouping"),
        ("p.region, p.town, 2 * COUNT(*) AS n", "GROUP BY CUBE (1, 2) ORDER BY grouping", "columns are region, town.. Write GROUPING"),
    ],
)  # fmt: skip
def test_what_is_refused(columns, behind, message):
    with pytest.raises(QueryError, match=message):
        asked(columns, behind)


def test_groups_that_are_chosen_privately_are_refused():
    with pytest.raises(SqlError, match="totals need public groups"):
        parse(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id) "
            "region, COUNT(*) FROM visits GROUP BY ROLLUP (region)"
        )
    with pytest.raises(SqlError, match="before they are grouped"):
        asked("p.region, p.town, COUNT(*)", "WHERE GROUPING(region) = 1 GROUP BY ROLLUP (1, 2)")
