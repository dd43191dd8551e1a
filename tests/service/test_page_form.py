"""The form of the page: conditions, names and values of anything, what is not finished; and charts of lists."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.service.http_app import words

from .browser import Browser, Tab, program
from .browser import running as browsing
from .pages import Clinic, answered, entered, harmless, picture, priced, serving, text, write

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
ROWS = 600
DAY = dt.date(2024, 2, 29)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("needs a browser: chromium in PATH, or Debian's package chromium")
    with browsing(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    """A table whose columns are called like words of SQL, and worse."""
    folder = tmp_path_factory.mktemp("odd")
    at = range(ROWS)
    columns = {
        "id": [*at],
        "at": [i % 3 for i in at],
        "order": [HOSTILE[i % len(HOSTILE)] for i in at],
        "epsilon": [i % 2 for i in at],
        "we\"ird, n'ame": [i / 4 for i in at],
        "Größe": [Decimal(i) / 10 for i in at],
        "n": [i % 5 for i in at],
        "day": [DAY + dt.timedelta(i % 7) for i in at],
        "seen": [dt.datetime(2024, 2, 29, i % 24) for i in at],
        "zoned": [dt.datetime(2024, 2, 29, i % 24, tzinfo=dt.UTC) for i in at],
        "ill": [i % 4 == 0 for i in at],
        "town": [["Ulm", "Bonn", "L'Aquila"][i % 3] for i in at],
        "steps": [[1.0, 2.0, 3.0, 4.0] for _ in at],
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    (folder / "odd.toml").write_text(
        '[tables.visits]\nsource = "rows.parquet"\nprivacy_unit = "id"\n[tables.visits.columns]\n'
        'town = {domain = ["Ulm", "Bonn", "L\'Aquila"]}\nat = {domain = [0, 1, 2]}\nn = {lower = 0, upper = 4}\n'
    )
    with serving(folder, folder / "odd.toml", epsilon=100_000) as made:
        yield made


def choose(tab: Tab, place: str, value: str) -> None:
    tab.evaluate(
        f"((e) => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})(document.getElementById('{place}'))"
    )


def put(tab: Tab, place: str, value: str) -> None:
    """Write in a box of the form, where another text was."""
    tab.evaluate(
        f"((e) => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input')); }})(document.getElementById('{place}'))"
    )


def condition(tab: Tab, i: int, column: str, comparison: str, value: str | None) -> None:
    tab.click("#condition-add")
    choose(tab, f"where-{i}", column)
    choose(tab, f"comparison-{i}", comparison)
    if value is not None and tab.evaluate(f"document.getElementById('value-{i}').tagName") == "SELECT":
        choose(tab, f"value-{i}", value)
    elif value is not None:
        put(tab, f"value-{i}", value)


def asked(tab: Tab) -> str:
    return str(tab.evaluate("document.getElementById('sql').value"))


def tree(condition: str) -> Any:
    """What DuckDB reads in a condition: its one statement's WHERE."""
    with duckdb.connect() as connection:
        sql = f"SELECT 1 FROM t WHERE {condition}"
        (read,) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone() or ("{}",)
    found = json.loads(read)
    assert not found["error"] and len(found["statements"]) == 1, condition
    node = found["statements"][0]["node"]
    assert node["from_table"]["table_name"] == "t" and not node["modifiers"]
    return node["where_clause"]


def reads_as(condition: str, column: str, value: object) -> bool:
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


def written(tab: Tab, column: dict[str, str], comparison: str, value: str) -> dict[str, str]:
    """What the form makes of a value."""
    call = f"{json.dumps(column)}, {json.dumps(comparison)}, {json.dumps(value)}"
    found: dict[str, str] = tab.evaluate(
        f"(async () => {{ {MODULES} (await load('sql')).reserve({json.dumps(words()['reserved'])}); "
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
def test_a_value_is_one_literal_or_refused(browser: Browser, odd: Clinic) -> None:
    tab = browser.tab(odd.url)
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
    harmless(tab, odd)


def test_what_gets_out_of_a_literal_is_seen() -> None:
    """The planted defects of the test before: values that are not quoted, or names."""
    assert reads_as("\"at\" = 'it''s'", "at", "it's")
    for one in HOSTILE[:5]:
        assert not reads_as(f"\"at\" = '{one}'", "at", one)
    assert not reads_as("\"at\" = 'x' OR 1 = 1", "at", "x") and not reads_as("\"at\" = '1'", "at", 1)
    assert not reads_as("true = 1", "true", 1) and not reads_as("at = 1", "at", 1)


def test_words_that_need_no_quotes_need_none() -> None:
    """Each word of DuckDB's grammar is reserved, or a column of this name is that column."""
    with duckdb.connect() as connection:
        found = connection.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()
    reserved = set(words()["reserved"])
    free = sorted({str(word) for (word,) in found} - reserved | {"epsilon", "options", "count", "private"})
    assert {"at", "order", "group", "true", "over"} <= reserved and len(free) > 300
    table = pa.table({"id": [1, 2]} | {word: [1, 2] for word in free})
    catalog = sf.catalog({"tables": {"t": {"source": table, "privacy_unit": "id"}}})
    options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 900, delta = 1e-6)"
    for held, n in (("2", 1), ("3", 0)):
        where = " AND ".join(f"{word} = {held}" for word in free)
        release = sf.sql(
            f"{options} COUNT(*) AS n FROM t WHERE {where}", catalog=catalog, budget=sf.Budget(1000, "1e-3")
        )
        assert release.to_arrow()["n"].to_pylist() == [n]
    for word in free[::40]:
        sql = f"{options} {word}, AVG({word}, contribution_bounds_per_row => (0, 1)) AS m FROM t GROUP BY {word}"
        assert sf.sql(sql, catalog=catalog, budget=sf.Budget(1000, "1e-3")).plan.query.keys == (word,)


@pytest.mark.long
def test_only_rows_where(browser: Browser, odd: Clinic, tmp_path: Path) -> None:
    tab = entered(browser, odd, "ann")
    assert tab.evaluate(
        "[...document.querySelectorAll('#where-0')].length"
    ) == 0 and "all rows count" in text(tab, "#by-form")
    tab.click("#group-0")  # not by at, which is declared
    tab.wait("!document.getElementById('sql').value.includes('GROUP BY')")
    condition(tab, 0, "at", "is", "2")
    condition(tab, 1, "epsilon", "most", "0.5")
    # A number with a part of one, for a column of whole numbers.
    tab.wait("/condition 2 needs a whole number/.test(document.getElementById('expected').textContent)")
    assert text(tab, "#wrong-value-1") == "needs a whole number" and "bounds" not in text(tab, "#expected")
    invalid = "[...document.querySelectorAll('#by-form [aria-invalid]')].map((e) => [e.id, e.getAttribute('aria-describedby')])"
    assert tab.evaluate(invalid) == [["value-1", "wrong-value-1"]] and asked(tab) == ""
    assert tab.evaluate(
        "document.getElementById('release').disabled && document.getElementById('try').disabled"
    )
    picture(tab, "page-condition-wrong", tmp_path, "#ask")
    put(tab, "value-1", "0")
    condition(tab, 2, "order", "not", "it's")
    condition(tab, 3, "we\"ird, n'ame", "more", "10.5")
    condition(tab, 4, "Größe", "least", "3")
    condition(tab, 5, "day", "least", "2024-03-01")
    condition(tab, 6, "seen", "less", "2024-02-29T20:00")
    condition(tab, 7, "zoned", "present", None)
    condition(tab, 8, "ill", "is", "false")
    condition(tab, 9, "town", "is", "L'Aquila")
    assert tab.evaluate("document.getElementById('condition-add').disabled")  # ten are enough
    assert tab.evaluate(invalid) == []
    where = asked(tab).partition("WHERE ")[2]
    assert where.split("\n  AND ") == [
        '"at" = 2', "epsilon <= 0", "\"order\" <> 'it''s'", '"we""ird, n\'ame" > 10.5', '"Größe" >= 3', "day >= DATE '2024-03-01'",
        "seen < TIMESTAMP '2024-02-29 20:00:00'", "zoned IS NOT NULL", "ill = false", "town = 'L''Aquila'",
    ]  # fmt: skip
    # The slider changes the budget, and no condition on a column that is called like it.
    tab.evaluate("document.getElementById('epsilon').focus()")
    tab.key("ArrowRight")
    tab.wait("/epsilon = 2,/.test(document.getElementById('sql').value)")
    assert "epsilon <= 0" in asked(tab)
    write(tab, asked(tab).replace("epsilon = 2,", "epsilon = 900,"))
    assert priced(tab) == "Ask, and spend epsilon 900"
    tab.click("#release")
    answered(tab)
    with duckdb.connect() as connection:
        rows = f"'{odd.folder / 'rows.parquet'}'"
        (n,) = connection.execute(
            f"SET timezone = 'UTC'; SELECT count(*) FROM {rows} WHERE {where}"
        ).fetchone() or (0,)
    assert 0 < n < ROWS and text(tab, "#answer tbody th").partition(" ")[0] == str(n)
    told = tab.evaluate("[...document.querySelectorAll('#answer details pre')].map((e) => e.textContent)")
    assert told[0].endswith(where) and where in told[1]
    done = subprocess.run([sys.executable, "-c", told[1]], check=False, env=os.environ | {"SFUMATO_TOKEN": odd.tokens["ann"]}, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and str(n) in done.stdout, done.stderr
    # A reload keeps the conditions; the first is taken away.
    tab.click("input[value=form]")
    tab.reload()
    tab.wait("document.getElementById('value-9')")
    tab.click("#condition-remove-0")
    tab.wait("document.querySelectorAll('[id^=condition-remove]').length === 9")
    assert asked(tab).partition("WHERE ")[2] == where.partition("\n  AND ")[2].replace('"at"', "at")
    assert tab.evaluate("document.activeElement.id") == "condition-add"
    harmless(tab, odd)


@pytest.mark.long
def test_a_hostile_text_is_looked_for_and_nothing_else(browser: Browser, odd: Clinic) -> None:
    tab = entered(browser, odd, "eve")
    tab.click("#group-0")
    condition(tab, 0, "order", "is", "x")
    for one in HOSTILE[:6] + HOSTILE[11:12]:
        put(tab, "value-0", one)
        sql = asked(tab)
        assert sql.count("epsilon = ") == 1 + one.count("epsilon = ")
        write(tab, sql.replace("epsilon = 1,", "epsilon = 900,"))
        tab.evaluate("document.getElementById('status').textContent = ''")
        priced(tab)
        tab.click("#release")
        answered(tab)
        assert text(tab, "#answer tbody th").partition(" ")[0] == str(
            sum(HOSTILE[i % len(HOSTILE)] == one for i in range(ROWS))
        )
        tab.click("input[value=form]")
    harmless(tab, odd)


@pytest.mark.long
def test_what_is_lacking_is_marked_where_it_is(browser: Browser, odd: Clinic) -> None:
    tab = entered(browser, odd, "dora")

    def says(*parts: str) -> None:
        told = f"The question is not finished: {'; '.join(parts)}."
        tab.wait(f"document.getElementById('expected').textContent === {json.dumps(told)}")

    def lacking() -> list[Any]:
        return [
            *tab.evaluate("[...document.querySelectorAll('#by-form [aria-invalid=true]')].map((e) => e.id)")
        ]

    tab.click("#condition-add")
    choose(tab, "where-0", "Größe")
    says("condition 1 needs a value")
    choose(tab, "kind-0", "mean")
    choose(tab, "column-0", "epsilon")
    says("condition 1 needs a value", "statistic 1 needs bounds, between which its values lie")
    assert lacking() == ["value-0", "lower-0"]
    put(tab, "value-0", "1,5")
    put(tab, "lower-0", "zero")
    says(
        "condition 1 needs a number, such as 12.5",
        "statistic 1 needs a number, such as 12.5 as its lower bound",
    )
    put(tab, "value-0", "1.5")
    put(tab, "lower-0", "1")
    put(tab, "upper-0", "0")
    says("statistic 1 needs an upper bound above the lower one")
    assert lacking() == ["upper-0"]
    put(tab, "upper-0", "3")
    put(tab, "max-rows", "0")
    says("the limit of rows needs a whole number from 1 to 1000000")
    put(tab, "max-rows", "2")
    assert lacking() == [] and priced(tab) == "Ask, and spend epsilon 1"
    assert 'WHERE "Größe" = 1.5' in asked(tab) and "max_rows_per_group = 2" in asked(tab)
    # Lists are no numbers to average, and no values to compare.
    assert "steps" not in tab.evaluate(
        "[...document.querySelectorAll('#column-0 option')].map((e) => e.value)"
    )
    choose(tab, "where-0", "steps")
    assert tab.evaluate("[...document.querySelectorAll('#comparison-0 option')].map((e) => e.value)") == [
        "missing",
        "present",
    ]
    write(tab, "")
    tab.wait("/There is no question yet/.test(document.getElementById('expected').textContent)")
    harmless(tab, odd)


SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 900, max_rows_per_group = 1)\n  {}\nFROM visits"


@pytest.mark.long
def test_lists_and_histograms_are_drawn(browser: Browser, odd: Clinic, tmp_path: Path) -> None:
    tab = entered(browser, odd, "cleo")
    points = "[...document.querySelectorAll('#answer .point')].length"

    def ask(sql: str) -> None:
        write(tab, sql)
        tab.evaluate("document.getElementById('status').textContent = ''")
        priced(tab)
        tab.click("#release")
        answered(tab)

    ask(SQL.format("VECTOR_SUM(steps, length => 4, bound => 8) AS walked"))
    assert tab.evaluate(points) == 4 and "walked by entry: entry 1 " in tab.evaluate("document.querySelector('#answer svg').getAttribute('aria-label')")  # fmt: skip
    picture(tab, "page-list", tmp_path, "#answer figure")
    ask(
        SQL.format("town, COUNT(*) AS n, VECTOR_AVG(steps, length => 4, bound => 8) AS pace")
        + " GROUP BY town"
    )
    assert tab.evaluate(points) == 3 and not tab.evaluate(
        "document.getElementById('chart-group').checkVisibility()"
    )
    choose(tab, "chart-of", "1")
    assert tab.evaluate(points) == 4 and tab.evaluate(
        "document.getElementById('chart-group').checkVisibility()"
    )
    groups = tab.evaluate("[...document.querySelectorAll('#chart-group option')].map((e) => e.textContent)")
    assert sorted(groups) == ["Bonn", "L'Aquila", "Ulm"]
    choose(tab, "chart-group", "2")
    assert tab.evaluate(points) == 4
    picture(tab, "page-list-group", tmp_path, "#answer")
    for sql, count, name in (
        ("HISTOGRAM(n, [0, 1, 2, 3, 5]) AS h", 4, "h_0_1"),
        ("VALUE_COUNTS(town, ['Ulm', 'Bonn']) AS c", 2, "c_Ulm"),
        ("QUANTILES(n, [0.25, 0.5, 0.75]) AS q", 3, "q_25"),
    ):
        ask(SQL.format(sql))
        assert tab.evaluate(points) == count and name in text(tab, "#answer figure")
    picture(tab, "page-histogram", tmp_path, "#answer figure")
    harmless(tab, odd)


@pytest.mark.long
def test_charts_of_odd_lists(browser: Browser, odd: Clinic) -> None:
    tab = browser.tab(odd.url)
    cases: list[tuple[list[Any], list[Any], int]] = [
        ([[1, 2, None]], [[0.1, None, None]], 2),
        ([[]], [[]], 0),
        ([[1] * 500], [[0.5] * 500], 500),
        ([[1e300, -1e300]], [[1, 1]], 2),
        ([None, [1, 2]], [None, [1, 1]], 0),
        ([["9223372036854775807", 1, 2]], [None], 3),
    ]
    for rows, errors, points in cases:
        given = {"columns": [{"name": "v", "type": "list<item: double>"}], "keys": [], "rows": [[row] for row in rows], "errors": {"v": errors}}  # fmt: skip
        found = tab.evaluate(
            f"(async () => {{ {MODULES} const made = (await load('chart')).chart({json.dumps(given)}, ['v']); "
            "const odd = [...made.querySelectorAll('*')].flatMap((e) => [...e.attributes]).filter((a) => "
            "/NaN|Infinity|undefined/.test(a.value)).map((a) => a.name + a.value); "
            "return [made.querySelectorAll('.point').length, odd]; })()"
        )
        assert found == [points, []], rows
    for rows in ([["a"]], [[["a", 1]]], [[{"x": 1}]]):  # texts, lists with texts, and structs: no numbers
        given = {"columns": [{"name": "v", "type": "x"}], "keys": [], "rows": rows, "errors": {}}
        assert tab.evaluate(f"(async () => {{ {MODULES} return (await load('chart')).chart({json.dumps(given)}, ['v']); }})()") is None  # fmt: skip
    harmless(tab, odd)


@pytest.mark.long
def test_the_form_narrow_and_wide_light_and_dark(browser: Browser, odd: Clinic, tmp_path: Path) -> None:
    tab = entered(browser, odd, "fay")
    condition(tab, 0, "we\"ird, n'ame", "more", "ten")
    condition(tab, 1, "seen", "least", "2024-02-29T20:00")
    condition(tab, 2, "town", "is", "Ulm")
    tab.click("#form-add")
    choose(tab, "column-1", "epsilon")
    tab.wait("/not finished/.test(document.getElementById('expected').textContent)")
    for scheme, width in [("light", 320), ("light", 1280), ("dark", 360), ("dark", 1280)]:
        tab.scheme(scheme)
        tab.size(width, 800)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        picture(tab, f"page-form-{scheme}-{width}", tmp_path)
    harmless(tab, odd)
