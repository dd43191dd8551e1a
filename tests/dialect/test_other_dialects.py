"""Forms that people bring from BigQuery, PostgreSQL and others: what they give here, or what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import QueryError, SqlError

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
BY_LABEL = [{"label": name, "n": 50} for name in "abc"]


def answer(text: str) -> list[dict]:
    return sf.sql(BEGIN + text, tables=TABLES).to_arrow().to_pylist()


@pytest.mark.parametrize("keys", ["k", "(k)", "((k))", "(1)", "( k )"])
def test_keys_in_brackets(keys):
    expected = [{"k": k, "n": 50} for k in range(4)]
    assert answer(f"k, COUNT(*) AS n FROM t GROUP BY {keys}") == expected


def test_several_keys_in_brackets():
    plain = answer("k, x, COUNT(*) AS n FROM t GROUP BY k, x")
    for keys in ("(k, x)", "(k), (x)", "((k), x)"):
        assert answer(f"k, x, COUNT(*) AS n FROM t GROUP BY {keys}") == plain
    with pytest.raises(SqlError, match="missing in GROUP BY|not selected"):
        answer("COUNT(*) AS n FROM t GROUP BY (k, x)")
    with pytest.raises(SqlError):
        answer("k, COUNT(*) AS n FROM t GROUP BY ()")


@pytest.mark.parametrize(
    "place, rank",
    [("OFFSET(0)", 0), ("OFFSET(2)", 0.5), ("SAFE_OFFSET(3)", 0.75), ("ORDINAL(1)", 0), ("ORDINAL(5)", 1)],
)
def test_one_place_of_a_list_of_quantiles(place, rank):
    one, other = (
        parse(f"{BEGIN}{call} AS q FROM t").aggregates
        for call in (f"APPROX_QUANTILES(x, 4, {BOUNDS})[{place}]", f"PERCENTILE_CONT(x, {rank}, {BOUNDS})")
    )
    assert one == other


@pytest.mark.parametrize("place", ["OFFSET(5)", "ORDINAL(0)", "ORDINAL(6)", "SAFE_OFFSET(-1)", "OFFSET(k)"])
def test_a_place_that_a_list_has_not(place):
    with pytest.raises(SqlError) as error:
        answer(f"APPROX_QUANTILES(x, 4, {BOUNDS})[{place}] AS q FROM t")
    assert "<=" not in str(error.value)


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


@pytest.mark.parametrize(
    "text",
    [
        "label, COUNT(*) AS n FROM p JOIN t ON t.k = p.key GROUP BY label",
        "label, COUNT(*) AS n FROM q JOIN t USING (k) GROUP BY label",
        "label, COUNT(*) AS n FROM (SELECT t.id, label FROM p JOIN t ON t.k = p.key) AS j GROUP BY label",
        "label, COUNT(*) AS n FROM (SELECT id, label FROM q JOIN t USING (k)) AS j GROUP BY label",
    ],
)
def test_an_inner_join_can_begin_with_a_public_table(text):
    assert answer(text) == BY_LABEL


def test_a_left_join_begins_with_the_private_table():
    with pytest.raises(QueryError, match="begin with the private one"):
        answer("label, COUNT(*) AS n FROM q LEFT JOIN t USING (k) GROUP BY label")
    with pytest.raises(QueryError, match="name the columns"):
        answer("label, COUNT(*) AS n FROM (SELECT * FROM q JOIN t USING (k)) AS j GROUP BY label")


IN_CATALOG = {
    "t": {"source": ROWS, "privacy_unit": "id"},
    "q": {"source": pa.table({"k": [0, 1, 2], "label": ["a", "b", "c"]}), "public": True},
}


@pytest.mark.parametrize(
    "tables",
    [
        "q JOIN t USING (k)",
        "(SELECT id, label FROM q JOIN t USING (k)) AS j",
        "q AS a JOIN t AS b ON a.k = b.k",
    ],
)
def test_a_public_table_can_stand_first_in_a_catalog(tables):
    begin = BEGIN.replace(", privacy_unit_column = id", "")
    text = f"{begin}label, COUNT(*) AS n FROM {tables} GROUP BY label"
    assert sf.sql(text, catalog=sf.catalog({"tables": IN_CATALOG})).to_arrow().to_pylist() == BY_LABEL


@pytest.mark.parametrize(
    "tables", ["q LEFT JOIN t USING (k)", "q AS a JOIN q AS b USING (k) JOIN t USING (k)"]
)
def test_other_joins_of_a_catalog_are_told_to_begin_with_the_private_table(tables):
    text = f"{BEGIN.replace(', privacy_unit_column = id', '')}COUNT(*) AS n FROM {tables}"
    with pytest.raises(QueryError, match="begin with the private one"):
        sf.sql(text, catalog=sf.catalog({"tables": IN_CATALOG}))


@pytest.mark.parametrize("name", ["key", "KEY", "p.key"])
def test_a_column_of_one_joined_table_needs_no_table_s_name(name):
    rows = answer(f"{name} AS u, COUNT(*) AS n FROM t JOIN p ON t.k = p.key GROUP BY {name}")
    assert rows == [{"u": k, "n": 50} for k in range(3)]


def test_such_a_column_is_null_where_a_left_join_finds_nothing():
    text = "SUM(key, contribution_bounds_per_row => (0, 2)) AS s, COUNT(key) AS n FROM t LEFT JOIN p ON t.k = p.key"
    assert answer(text) == [{"s": 150, "n": 150}]
    assert answer("COUNT(*) AS n FROM t LEFT JOIN p ON t.k = p.key WHERE key IS NULL") == [{"n": 50}]


@pytest.mark.parametrize("name", ["order", "table", "select"])
def test_a_table_that_is_called_like_a_word_of_sql_is_quoted(name):
    with pytest.raises(SqlError) as error:
        answer(f"COUNT(*) AS n FROM {name}")
    (written,) = re.findall(r'FROM "(\w+)"', str(error.value))
    assert written == name
    if name in TABLES:
        assert answer(f'COUNT(*) AS n FROM "{written}"') == [{"n": 200}]


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
