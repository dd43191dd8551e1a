"""The form of the page: values are single literals or refused, names are quoted, and what is not finished is said."""

import datetime as dt
import json
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.service.http_app import list_sql_words
from tests.support.browser import program
from tests.support.browser import running as browsing
from tests.support.page import harmless, serving

pytestmark = pytest.mark.noise_cannot_matter(
    "epsilon is 900 where it looks at numbers: P(|Z| > 1/2) < 1e-150"
)

MODULES = "const load = (name) => import(new URL(`page/${name}.js`, location.href).href);"
# What a text may hold, and must stay in it.
HOSTILE = [
    "it's", "''", "'", "' OR 1=1 --", "'; DROP TABLE visits; --", "\\", "\\'", "a\\' OR '1", "/* */ --", "-- x", "$$x$$", "E'\\n'", '"', "`",
    "?", "$1", ":a", "{}", "%_", "ä𝒟\u202e\u0301", "\u2019\u02bc", "\ttab", " blank ", "epsilon = 99", "OPTIONS (epsilon = 99)", ")", "NULL", "x" * 5000,
    "a\u00a0b", "\u0001", "'||'", "' UNION SELECT 1 --", "\ufeff", "<b>",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if program() is None:
        pytest.skip("needs a browser: chromium in PATH, or Debian's package chromium")
    with browsing(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    pq.write_table(pa.table({"id": [1, 2]}), folder / "rows.parquet")
    (folder / "page.toml").write_text('[tables.visits]\nsource = "rows.parquet"\nprivacy_unit = "id"\n')
    with serving(folder, folder / "page.toml") as made:
        yield made


def tree(condition):
    """What DuckDB reads in a condition: its one statement's WHERE."""
    with duckdb.connect() as connection:
        sql = f"SELECT 1 FROM t WHERE {condition}"
        (read,) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone() or ("{}",)
    found = json.loads(read)
    assert not found["error"] and len(found["statements"]) == 1, condition
    node = found["statements"][0]["node"]
    assert node["from_table"]["table_name"] == "t" and not node["modifiers"]
    return node["where_clause"]


def reads_as(condition, column, value):
    """Whether a condition is one comparison, of this column and of this constant, and nothing else."""
    try:
        found = tree(condition)
    except AssertionError:
        return False
    if found["class"] != "COMPARISON" or found["left"].get("column_names") != [column]:
        return False
    right = found["right"]
    if right["class"] == "CAST":  # DATE '...'
        right = right["child"]
    while right["class"] == "FUNCTION" and right["function_name"] == "-" and len(right["children"]) == 1:
        right = right["children"][0]  # of a number below zero
    if right["class"] != "CONSTANT":
        return False
    with duckdb.connect() as connection:
        got = connection.execute(f"SELECT {condition.partition(' = ')[2]}").fetchone()
    return got is not None and got[0] == value


def written(tab, column, comparison, value):
    """What the form makes of a value."""
    call = f"{json.dumps(column)}, {json.dumps(comparison)}, {json.dumps(value)}"
    found = tab.evaluate(
        f"(async () => {{ {MODULES} (await load('sql')).reserve({json.dumps(list_sql_words()['reserved'])}); "
        f"return (await load('conditions')).condition({call}); }})()"
    )
    return found


GOOD: list[tuple[str, str, object]] = [
    ("BIGINT", "12", 12),
    ("BIGINT", "-12", -12),
    ("BIGINT", " +007 ", 7),
    ("UTINYINT", "9" * 37, int("9" * 37)),
    ("DOUBLE", "1e300", 1e300),
    ("DOUBLE", "-.5", Decimal("-0.5")),
    ("DECIMAL(18,2)", "0.10", Decimal("0.10")),
    ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
    ("DATE", "0001-01-01", dt.date(1, 1, 1)),
    ("TIMESTAMP", "2024-02-29T08:30", dt.datetime(2024, 2, 29, 8, 30)),
    ("TIMESTAMP_NS", "2024-02-29 08:30:05", dt.datetime(2024, 2, 29, 8, 30, 5)),
    ("TIME", "08:30", dt.time(8, 30)),
    ("BOOLEAN", "true", True),
    *(("VARCHAR", one, one) for one in HOSTILE),
]


_NUMBERS = ["", "a", "1 OR 1=1", "1--2", "--1", "1;", "1/2", "1,5", "0x10", "1_000", "١٢", "NaN", "Infinity", "1e999", "1e", "9" * 38, "1'", "(1)", "1\n2", "−1"]  # fmt: skip


BAD = [
    *(("BIGINT", one) for one in [*_NUMBERS, "1.5", "1e3"]),
    *((kind, one) for kind in ("DOUBLE", "DECIMAL(9,2)") for one in _NUMBERS),
    *(("DATE", one) for one in ["", "2023-02-29", "2024-13-01", "2024-1-1", "2024-01-01' OR '1", "0000-01-01", "12024-01-01", "today"]),
    *(("TIMESTAMP", one) for one in ["", "2024-02-30 08:00", "2024-01-01 24:00", "2024-01-01 08:00 x", "2024-01-01 08:00'", "08:00"]),
    *(("TIME", one) for one in ["", "25:00", "08:60", "8:30", "08:30'--"]),
    *(("BOOLEAN", one) for one in ["", "1", "TRUE OR true", "yes"]),
    *(("VARCHAR", one) for one in ["", "a\0b", "\ud800"]),
    *((kind, "1") for kind in ("BIGINT[]", "STRUCT(a BIGINT)", "BLOB", "INTERVAL", "MAP(VARCHAR, BIGINT)")),
]  # fmt: skip


@pytest.mark.long
def test_a_value_is_one_literal_or_refused(browser, page):
    tab = browser.tab(page.url)
    for name in ("at", "we\"ird, n'ame", "Größe", "a--b", "plain", "true", "x') OR ('1"):
        for kind, value, meant in GOOD if name == "at" else GOOD[:1] + GOOD[-3:]:
            found = written(tab, {"name": name, "type": kind}, "is", value)
            assert reads_as(found.get("sql", ""), name, meant), (name, kind, value, found)
    for kind, value in BAD:
        assert set(written(tab, {"name": "x", "type": kind}, "is", value)) == {"wrong"}, (kind, value)
    # Of texts by their parts, and of what is missing.
    told = "it's %' OR 1=1 --"
    for comparison, kept in (("contains", 2), ("begins", 1)):
        sql = written(tab, {"name": "at", "type": "VARCHAR"}, comparison, told)["sql"]
        assert tree(sql)["class"] == "FUNCTION"
        with duckdb.connect() as connection:
            rows = "SELECT unnest([$1 || 'z', 'z' || $1, 'it', '%', '']) AS at"
            assert connection.execute(f"SELECT count(*) FROM ({rows}) WHERE {sql}", [told]).fetchone() == (
                kept,
            )
    assert written(tab, {"name": "order", "type": "BLOB"}, "missing", "' OR 1=1") == {
        "sql": '"order" IS NULL'
    }
    harmless(tab, page)


@pytest.mark.long
def test_what_gets_out_of_a_literal_is_seen():
    """The planted defects of the test before: values that are not quoted, or names."""
    assert reads_as("\"at\" = 'it''s'", "at", "it's")
    for one in HOSTILE[:5]:
        assert not reads_as(f"\"at\" = '{one}'", "at", one)
    assert not reads_as("\"at\" = 'x' OR 1 = 1", "at", "x") and not reads_as("\"at\" = '1'", "at", 1)
    assert not reads_as("true = 1", "true", 1) and not reads_as("at = 1", "at", 1)
