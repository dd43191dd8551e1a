"""Forms that people bring from BigQuery, PostgreSQL and others: what they give here, or what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import SqlError

pytestmark = pytest.mark.noise_cannot_matter("noise of scale 10^-3 at most is rounded to nothing")

BEGIN = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6, delta = 1e-6, privacy_unit_column = id) "
BOUNDS = "contribution_bounds_per_row => (0, 10)"
ROWS = pa.table({"id": range(200), "k": [i % 4 for i in range(200)], "x": [i % 5 for i in range(200)]})
NAMES = {"key": [0, 1, 2], "label": ["a", "b", "c"]}
TABLES = {
    "t": ROWS,
    "order": ROWS,
    "p": sf.public(pa.table(NAMES)),
    "q": sf.public(pa.table({"k": NAMES["key"], "label": NAMES["label"]})),
}


def answer(text: str) -> list[dict]:
    return sf.sql(BEGIN + text, tables=TABLES).to_arrow().to_pylist()


def test_all_in_an_aggregate_is_the_default():
    assert answer("COUNT(ALL x) AS n FROM t") == [{"n": 200}]
    assert answer(f"SUM(ALL x, {BOUNDS}) AS s FROM t") == [{"s": 400}]


def test_within_group_is_told_the_whole_call():
    with pytest.raises(SqlError, match=r"write PERCENTILE_CONT\(x, 0.5, ") as error:
        answer("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x ASC) AS m FROM t")
    written = (
        re.search(r"PERCENTILE_CONT\(.*\)(?=\n)", str(error.value))
        .group(0)
        .replace("(lower, upper)", "(0, 10)")
    )
    one, other = (
        parse(f"{BEGIN}{call} AS m FROM t").aggregates
        for call in (written, f"PERCENTILE_CONT(x, 0.5, {BOUNDS})")
    )
    assert one == other


@pytest.mark.parametrize("name", ["KEY", "p.key"])
def test_a_column_of_one_joined_table_needs_no_table_s_name(name):
    rows = answer(f"{name} AS u, COUNT(*) AS n FROM t JOIN p ON t.k = p.key GROUP BY {name}")
    assert rows == [{"u": k, "n": 50} for k in range(3)]


def test_such_a_column_is_null_where_a_left_join_finds_nothing():
    text = "SUM(key, contribution_bounds_per_row => (0, 2)) AS s, COUNT(key) AS n FROM t LEFT JOIN p ON t.k = p.key"
    assert answer(text) == [{"s": 150, "n": 150}]
    assert answer("COUNT(*) AS n FROM t LEFT JOIN p ON t.k = p.key WHERE key IS NULL") == [{"n": 50}]


@pytest.mark.parametrize("clause", ["", "ANON_"])
def test_sample_variances_have_an_expression_that_runs(clause):
    begin = BEGIN if not clause else BEGIN.replace("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
    bounds = f", {BOUNDS}" if not clause else " CLAMPED BETWEEN 0 AND 10"
    for function, truth in (("VAR_SAMP", 2.0100503), ("STDDEV_SAMP", 1.4177625)):
        with pytest.raises(SqlError) as error:
            sf.sql(f"{begin}{clause}{function}(x{bounds}) AS v FROM t", tables=TABLES)
        written = (
            str(error.value).partition("write ")[2].partition("\n")[0].replace("(x, ...)", f"(x{bounds})")
        )
        (row,) = sf.sql(f"{begin}{written} AS v FROM t", tables=TABLES).to_arrow().to_pylist()
        assert row["v"] == pytest.approx(truth, abs=1e-3)


def test_the_page_for_people_from_bigquery_says_what_functions_give():
    page = Path(__file__).parents[2] / "docs/coming_from/bigquery.md"
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
