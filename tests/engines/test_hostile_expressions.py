"""Row expressions of somebody who wants one row to show, or a query without end: what is refused, what grows."""

import re

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.expressions.validation import LONGEST, validate
from sfumato.errors import ColumnError, QueryError
from sfumato.query.schema import Column, Kind
from tests.support.expressions import SCHEMA


def refusal(text: str) -> str:
    """Return why an expression is refused; nothing where it is not."""
    try:
        validate("with_columns", text, SCHEMA)
    except QueryError as error:
        return str(error)
    return ""


def nested(before: str, text: str, after: str, times: int) -> str:
    return before * times + text + after * times


def several(form: str, count: int) -> str:
    return f"coalesce({', '.join(form.format(i) for i in range(count))})"


# What could raise on a row, or grow.
REFUSED = {
    "s::JSON::VARIANT": "VARIANT",
    "CAST(s AS INTEGER[])": "INTEGER",
    "levenshtein(s, t)": "levenshtein",
    "s ->> '$..*'": r"path with \*",
    "replace(s, 'a', s)": "passes a column to replace where it takes a constant",
    "regexp_replace(s, t, s, 'g')": "constant",
    "s LIKE 'a!' ESCAPE '!'": "ends with its escape character",
    "a << 1": "<<",
    "[[a], [b]]": "list of lists",
    "[j, j]::JSON": "JSON, which cannot be in a list",
    "l || l": "joins a value that is not text",
    "iv + d": "computes with INTERVAL",
    "d + INTERVAL '300000 years'": "too long an interval",
    "d > '2020-13-01'": "'2020-13-01' is no DATE",
    "a = 'x'": "'x' is no BIGINT",
    "CAST('x' AS INTEGER) = a": "cannot be computed",
    "round(a, b)": "constant",
    "vector_norm(l, 2, 'l2')": "not a column of lists of numbers",
    "vector_norm(n, a, 'l2')": "two constants",
    "vector_steps(n, 2, 1000)": "not an exponent of 2",
    "date_part(s, d)": "constant",
    "tz AT TIME ZONE 'Nowhere'": "not a known time zone",
    "j IN (bo, bi)": "JSON cannot be read as BIT",
    "bo IN (st, mp)": "cannot be read as MAP",
    "bi & bj": "BIT",
    "-uh": "UHUGEINT",
    "tz::BIGINT": "DuckDB has no cast from",
    "regexp_replace(s, '\\C', '')": "single bytes",
    # Constants are computed before a row is read, so they may not grow either, nor be of other types.
    f"length(replace(replace(replace('{'a' * 2000}', 'a', '{'a' * 2000}'), 'a', 'b'), 'a', 'c')) > 1": "constant",
    f"s = '{'a' * 2000}' || '{'a' * 2000}' || '{'a' * 2000}'": "constant of more than 4096",
    "s = CAST('x' AS ENUM('x', 'y'))": "ENUM",
    "s = 'a\0b'": "NUL",
    "s = '\ud800'": "half of a surrogate pair",
    # What costs much for each row: copies of a text, steps for each of its characters, texts that are held at once.
    " AND ".join(["a > 1"] * 2100): "more than 2048 operations",
    "abs(" * 100 + f"list_position([{'1,' * 2000} 1], 1)" + ")" * 100: "more than 1000",
    f"strftime(d, '{'%c' * 200}') > 'a'": "format of more than 256",
    f"translate(s, '{'c' * 5000}', 'x') > 'a'": "text of more than 4096",
    "regexp_matches(s, '(a[ab]{900}c|b[ab]{900}d|a[ab]{900})')": "pattern of more than 2000",
    "s SIMILAR TO '((a{1,20}b){1,20}c){1,20}'": "pattern of more than 2000",
    "len(string_split_regex(s, '((ab?){50}){50}')) > 1": "pattern of more than 2000",
    # What raised RecursionError, or kept everybody waiting.
    "NOT " * 900 + "a > 0": "nested too deep",
    "(" * 20_000: "nested too deep",
    nested("[", "1", "]", 299): "list",
    "s" + ".a" * 5000: "more fields|nested too deep",
    f"'{'a' * LONGEST}'": "longer than",
    **{
        opening * (LONGEST // len(opening)): "nested too deep"
        for opening in ("- ", "(WITH a AS (", ")((", "-+")
    },
}


def test_what_could_raise_or_grow_is_refused():
    """In words that name it."""
    told = {text: refusal(text) for text in REFUSED}
    assert not [(text[:80], told[text]) for text, why in REFUSED.items() if not re.search(why, told[text])]
    validate("filter", f"regexp_matches(s, '{'[(]' * 400}')", SCHEMA)  # brackets that are characters


GROWING = [
    "replace(s, 'a', 'bbbbbbbbbb')", "regexp_replace(s, '', '\\0\\0bbbb', 'g')", "s || s || s || s", "concat(s, s, s)",
    "split(s, '')", "string_split_regex(s, '')", "upper(s)", "split_part(s, 'x', 1)", "translate(s, 'a', '😀')",
]  # fmt: skip


def test_no_text_grows_without_end():
    """However often it is applied to what it made: by derived columns, which may be as many as one likes."""
    with duckdb.connect() as connection:
        for text in GROWING:
            connection.execute("CREATE OR REPLACE TABLE level AS SELECT repeat('a', 100000) AS s")
            one = validate("with_columns", text, SCHEMA)
            if one.type_name != "VARCHAR":
                assert connection.execute(f"SELECT len({one.text}) FROM level").fetchone() <= (4096,)
                continue
            for _ in range(4):
                connection.execute(f"CREATE OR REPLACE TABLE level AS SELECT ({one.text}) AS s FROM level")
                (size,) = connection.execute("SELECT strlen(s) FROM level").fetchone()
                assert size <= (100_000 if text in ("upper(s)", "translate(s, 'a', '😀')") else 1 << 16) * 4


LISTED = {
    # Quotes are escaped once more at each step, and so are the escapes: twelve steps made them 4,096 times as many.
    nested("[", "s", "]::VARCHAR", 12): "'" * 1000,
    nested("[", "s", "]::JSON::VARCHAR", 12): '"' * 1000,
    f"[{', '.join(['s'] * 200)}]::VARCHAR": "a" * 100_000,
    f"regexp_extract(s, '((((((.*))))))', {list('abcdef')})::VARCHAR": "a" * 100_000,
}


def test_texts_in_lists_do_not_grow():
    for text, value in LISTED.items():
        form = validate("filter", text, {"s": Column(Kind.OTHER, "VARCHAR")}).text
        ((found,),) = duckdb.execute(f"SELECT strlen({form}) FROM (SELECT ? AS s)", [value]).fetchall()
        assert found < 200_000


def test_derived_columns_do_not_grow_without_end():
    """DuckDB writes them out in the conditions that use them: 24 of these took more than 2 GB to plan."""
    table = sf.scan(pa.table({"id": [1, 2], "a": [5, 6], "b": [5, 6], "s": ["x", "y"]}), privacy_unit="id")
    made = table
    for _ in range(20):  # each once
        made = made.with_columns(b="a + b")
    with pytest.raises(QueryError, match="Use each fewer times"):
        for _ in range(24):
            made = made.with_columns(a="nullif(a, 3)")
    for text in (
        several("length(s || '{}')", 50),
        several("json_extract_string(s, '$[{}]')", 20),
        several("split(s, '{}')[1]", 9),
    ):
        with pytest.raises(QueryError, match="more than 128 texts"):
            table.filter(f"({text}) IS NOT NULL")
    derived = {f"c{i}": "lower(trim(s))" for i in range(64)}
    full = table.with_columns(**derived)
    for ask in (lambda: full.with_columns(one="upper(s)"), lambda: full.filter("c0 = 'x'")):
        with pytest.raises(QueryError, match="more than 128 texts"):
            ask()
    assert table.with_columns(**dict(list(derived.items())[:42])).filter("c0 || c0 = 'x'")


def test_deep_documents_crash_nothing_and_take_no_memory():
    """Brackets as JSON crashed the process as VARIANT, and take some 50 times their text."""
    texts = pa.array(['{"a": 1}'] * 9 + ["[" * 5_000_000 + "]" * 5_000_000])
    rows = pa.table(
        {"id": range(10), "s": texts, "j": pa.ExtensionArray.from_storage(pa.json_(pa.string()), texts)}
    )
    asked = sf.scan(rows, privacy_unit="id")
    for text in ("json_extract(s, '$.a')::INT", "s::JSON::VARCHAR", "json_extract(j, '$.a')::INT", "j"):
        table = asked.with_columns(v=text).filter("v IS NOT NULL")
        (batch,) = table._engine.statistics(table.bound(rows=1).agg(n=sf.count()).plan(epsilon=1).exact, 10)
        assert [v for c in batch.columns for v in c.to_pylist()] == [9]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE deep AS SELECT repeat('[', 60000) || repeat(']', 60000) AS s")
        for text in ("s::JSON", "s ->> '$[0]'", "json_type(s)", "json_array_length(s)", "json_valid(s)"):
            form = validate("filter", text, SCHEMA).text
            connection.execute(f"SELECT hash(({form})) FROM deep").fetchall()


def test_types_whose_casts_raise_are_refused_wherever_they_are(tmp_path):
    """TRY_CAST of a BIGNUM beyond its target closes DuckDB's whole database; Arrow holds no offset of a time."""
    with duckdb.connect(f"{tmp_path}/rows.db") as connection:
        connection.execute(
            "CREATE TABLE rows AS SELECT i AS id, (CASE WHEN i = 3 THEN repeat('9', 60) ELSE '5' END)::BIGNUM AS b, "
            "[b] AS l, {'b': b, 'k': i} AS st, '00:00:00+15'::TIMETZ AS t FROM range(5) AS t(i)"
        )
    opened = sf.scan(f"{tmp_path}/rows.db/rows", privacy_unit="id")
    for text in ("b::INT", "l[1]::INT", "st.b::UTINYINT", "list_contains(l, 5)"):
        with pytest.raises(QueryError, match="BIGNUM. Cast it before scan"):
            opened.with_columns(y=text)
    assert opened.with_columns(y="st.k").schema["y"].type_name == "BIGINT"
    with pytest.raises(ColumnError, match=r"CAST\(t AS VARCHAR\)"):
        opened.group_by("t")


def test_a_macro_of_a_database_is_not_called(tmp_path):
    with duckdb.connect(f"{tmp_path}/rows.db") as connection:
        connection.execute("CREATE TABLE rows AS SELECT 1 AS id; CREATE MACRO abs(x) AS (SELECT 7 / 0)")
    for text in ("stored.main.abs(id) = 1", "main.abs(id) = 1"):
        with pytest.raises(QueryError, match="names the schema of abs"):
            sf.scan(f"{tmp_path}/rows.db/rows", privacy_unit="id").filter(text)
