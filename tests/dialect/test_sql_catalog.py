"""SQL on a catalog: what the text leaves out is the catalog's; without one nothing changes."""

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import SqlError
from sfumato.query.query import Query

ROWS = pa.table(
    {"id": [1, 2], "year": [1999, 1998], "City": ["a", "b"], "age": [500.0, -3.0], "height": [1.0, 2.0]}
)
VISITS = {
    "source": ROWS,
    "privacy_unit": "id",
    "max_groups": 3,
    "max_rows": 2,
    "columns": {
        "age": {"lower": 0, "upper": 120},
        "year": {"domain": [2020, 2021]},
        "city": {"domain": ["Ulm", "Bonn", "Ost"]},
    },
}
CATALOG = sf.catalog(
    {
        "tables": {
            "visits": VISITS,
            "bare": {"source": ROWS, "privacy_unit": "id"},
            "measured": {
                "source": ROWS,
                "privacy_unit": "id",
                "columns": {"age": {"lower": 0, "upper": 120}, "height": {"lower": 40, "upper": 230}},
            },
            "regions": {"source": ROWS, "public": True},
            "orders": {"source": ROWS, "foreign_keys": {"id": "visits.id"}},
        }
    }
)
BOUNDS = "contribution_bounds_per_row => (0, 120)"


def text(columns: str, options: str = "", rest: str = "", source: str = "visits", delta: str = "0") -> str:
    given = f"epsilon = 1, delta = {delta}{', ' * bool(options)}{options}"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({given}) {columns} FROM {source} {rest}"


def asked(sql: str, catalog: Any = CATALOG) -> Query:
    query = parse(sql, catalog)
    if catalog is None:
        question = query.question(lambda _, unit: sf.scan(ROWS, privacy_unit=unit))
    else:
        question = query.question(lambda name, _: catalog.table(name))
    return dataclasses.replace(question.query, notes=())


UNIT = "privacy_unit_column = id"
SAME = {
    "AVG": (text("AVG(age)"), text(f"AVG(age, {BOUNDS})", f"{UNIT}, max_rows_per_group = 2")),
    "of two columns": (
        text("CORR(age, height)", source="measured"),
        text(
            "CORR(age, height, contribution_bounds_per_row => ((0, 120), (40, 230)))", UNIT, source="measured"
        ),
    ),
    "whatever the case": (text("AVG(AGE)"), text(f"AVG(AGE, {BOUNDS})", f"{UNIT}, max_rows_per_group = 2")),
    "SUM is of rows": (text("SUM(age)"), text(f"SUM(age, {BOUNDS})", f"{UNIT}, max_rows_per_group = 2")),
    "quantiles": (
        text("QUANTILES(v.age, [0.1, 0.9]), PERCENTILE_CONT(age, 0.5), STDDEV(age)", rest="AS v"),
        text(
            f"QUANTILES(age, [0.1, 0.9], {BOUNDS}), PERCENTILE_CONT(age, 0.5, {BOUNDS}), STDDEV(age, {BOUNDS})",
            f"{UNIT}, max_rows_per_group = 2",
        ),
    ),
    "the source's column, not the key of its name": (
        text("age // 10 AS age, AVG(age) AS m", delta="1e-6", rest="GROUP BY age"),
        text(
            f"age // 10 AS age, AVG(age, {BOUNDS}) AS m",
            f"{UNIT}, max_groups_contributed = 3, max_rows_per_group = 2",
            "GROUP BY age",
            delta="1e-6",
        ),
    ),
    "groups chosen on demand": (
        text("year, COUNT(*)", "group_selection = auto", "GROUP BY year", delta="1e-6"),
        text(
            "year, COUNT(*)",
            f"{UNIT}, max_groups_contributed = 3, max_rows_per_group = 2",
            "GROUP BY year",
            delta="1e-6",
        ),
    ),
    "least sizes are of groups that are chosen": (
        text("year, COUNT(*)", "min_privacy_units_per_group = 5", "GROUP BY year", delta="1e-6"),
        text(
            "year, COUNT(*)",
            f"{UNIT}, max_groups_contributed = 3, max_rows_per_group = 2",
            "GROUP BY year",
            delta="1e-6",
        ),
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_the_same_question(what):
    left_out, said = SAME[what]
    assert asked(left_out) == asked(said, None)


@pytest.mark.parametrize(
    "columns", ["year + 1 AS year", "year, age", "year, age // 10 AS decade", "city || 'x'", "-year AS city"]
)
def test_groups_of_anything_else_are_chosen(columns):
    keys = f"{columns}, COUNT(*) AS n"
    with pytest.raises(SqlError, match="group exists costs privacy. Write OPTIONS .delta"):
        asked(text(keys, rest="GROUP BY ALL"))
    assert asked(text(keys, rest="GROUP BY ALL", delta="1e-6")).private_groups


def test_notes_say_what_came_from_the_catalog():
    notes = parse(text("year, AVG(age), SUM(age)", rest="GROUP BY 1"), CATALOG).notes
    assert [note for note in notes if "visits" in note] == [
        "age has no bounds in the question, so each row is clamped to 0 to 120, from catalog: tables.visits.",
        "the 2 groups by year are public, from the domains in catalog: tables.visits: each is shown, and rows "
        "with other values are dropped.",
        "max_groups_contributed was not given, so it is 3, the most that catalog: tables.visits allows.",
        "max_rows_per_group was not given, so it is 2, the most that catalog: tables.visits allows.",
    ]
    bare = parse(text("year, COUNT(*)", delta="1e-6", source="bare", rest="GROUP BY 1"), CATALOG)
    assert (bare.groups, bare.rows, bare.privacy_unit_column) == (1, 1, "id")
    assert "at most 1 group (BigQuery's default)" in " ".join(bare.notes)


REFUSED = {
    "no bounds": (text("AVG(year)"), "or declare lower and upper of year in catalog: tables.visits", "AVG"),
    "bounds of an expression": (text("AVG(age + 1)"), "AVG has no bounds", "AVG"),
    "another unit": (
        text("AVG(age)", "privacy_unit_column = age"),
        "privacy_unit_column is declared as id in catalog: tables.visits",
        "age",
    ),
    "groups beyond": (
        text("COUNT(*)", "max_groups_contributed = 4"),
        "max_groups_contributed is 4, but catalog: tables.visits allows at most 3",
        "4",
    ),
    "rows of all groups beyond": (
        text("COUNT(*)", "max_rows_contributed = 3"),
        "max_rows_contributed is 3, but catalog: tables.visits allows at most 2",
        "3",
    ),
    "rows beyond": (text("COUNT(*)", "max_rows_per_group = 3"), "allows at most 2", "3"),
    "rows of a count": (
        text("COUNT(*, contribution_bounds_per_group => (0, 3))"),
        "the bound of a COUNT is 3, but catalog: tables.visits allows at most 2",
        "3",
    ),
    "a public table": (text("COUNT(*)", source="regions"), "the table is public", "regions"),
    "a group for each unit": (text("id, COUNT(*)", rest="GROUP BY 1"), "a group for each privacy unit", "id"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_its_place(what):
    sql, words, marked = REFUSED[what]
    with pytest.raises(SqlError) as caught:
        sf.sql(sql, catalog=CATALOG)
    *message, line, marks = str(caught.value).split("\n")
    assert words in " ".join(message)
    start = marks.index("^")
    assert line[start : start + marks.count("^")].startswith(marked)


def test_what_is_declared_of_a_joined_table_is_not_taken_for_a_column_of_another():
    """Both have an age, of which one is declared; and which is meant is said by its table's name."""
    tables = {"o": {"source": ROWS, "privacy_unit": "id"}, "p": VISITS}
    catalog = sf.catalog({"tables": tables})
    join = "FROM o JOIN p ON o.id = p.id"
    given = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows_per_group = 1)"
    for column in ("o.age", "age"):
        with pytest.raises(SqlError, match="no bounds of age are declared"):
            parse(f"{given} SUM({column}) AS s {join}", catalog)
    assert parse(f"{given} SUM(p.age) AS s {join}", catalog).aggregates[0][1].upper == 120
