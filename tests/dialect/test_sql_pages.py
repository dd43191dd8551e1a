"""Pages about SQL: each aggregate and each SQL name has a row, and functions of BigQuery give what is said of them."""

import re
from pathlib import Path

import duckdb

from sfumato.dialect.keywords import PRIVATE, refusals
from sfumato.query import aggregates as ask

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"


def table_of(page: str) -> list[list[str]]:
    """Return the cells of the page's first table."""
    lines = page.split("\n| Python | SQL |", 1)[1].split("\n\n", 1)[0].split("\n")
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


CELLS = table_of(PAGE.read_text())


def missing(cells: list[list[str]]) -> set[str]:
    """Return the public aggregates and SQL functions without a row of their own, whatever they take."""
    own = [row for row in cells if "weight=" not in row[0]]
    python, written = (" ".join(row[place] for row in own) for place in (0, 1))
    told = set(re.findall(r"(?:sf|release)\.(\w+)", python))
    newer = {name for name in PRIVATE if not name.startswith("ANON_")}
    # Other spellings, which docs/sql.md lists.
    newer -= {"VARIANCE", "STDDEV", "QUANTILES", "COUNT_IF"}
    asked = {function.__name__ for function in ask.FUNCTIONS} | {"share_of_total", "compare"}
    return (asked - told) | (newer - set(re.findall(r"[A-Z]+(?:_[A-Z]+)*", written)))


def test_each_public_aggregate_and_each_sql_name_has_a_row():
    assert missing(CELLS) == set()
    assert all(
        missing([row for row in CELLS if word not in row[0]])
        for word in ("sf.count_units", "sf.mean", "sf.cumulative")
    )


def test_each_sql_name_is_on_the_page_of_sql_too():
    page = (PAGE.parent / "sql.md").read_text()
    assert [name for name in PRIVATE if f"`{name}" not in page] == []
    assert not set(PRIVATE) & set(refusals("aggregates"))


def test_the_page_for_people_from_bigquery_says_what_functions_give():
    page = PAGE.parent / "coming_from/bigquery.md"
    table = page.read_text().partition("## Functions that mean something else")[2]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) > 6
    connection = duckdb.connect()
    for here, value, there, instead in rows:
        for expression, expected in ((here, value), (instead, there)):
            text, wanted = (
                re.search("`(.*?)`", cell)[1].replace("\\|", "|") for cell in (expression, expected)
            )
            (got,) = connection.execute(f"SELECT {text}").fetchone()
            shown = "NULL" if got is None else str(got).removesuffix(" 00:00:00")
            assert shown == wanted, text
