"""Row expressions against somebody who wants one row to show: values and texts that broke their form before."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.dialect import syntax_tree
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.expressions import LONGEST, validated
from sfumato.errors import ColumnError, QueryError
from sfumato.query.schema import Column, Derive, Kind


def evaluated(rows: str, text: str) -> list:
    """Return the values of an expression on the rows that a query gives; no TRY is around its total form."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS {rows}")
        described = connection.execute("DESCRIBE rows").fetchall()
        one = validated("filter", text, {row[0]: Column(Kind.OTHER, row[1]) for row in described})
        return [value for (value,) in connection.execute(f"SELECT ({one.text}) FROM rows").fetchall()]


LISTS = "SELECT [1, 2, 3] AS l, 'abc' AS s, unnest([1, 2, 0, -1, NULL]) AS i"
FIRST_DAY = "SELECT unnest(['2020-12-31', '5877642-06-25 (BC)', 'infinity']) AS s"
VECTORS = "SELECT unnest(['[3, -4]', '[1e308, 1e308]', '[inf, -inf]', '[nan, 1]', '[1, NULL]', '[1]', '[]', NULL])::DOUBLE[] AS v"
INF, TOP = float("inf"), 2**62
TOTAL = {
    "vector_norm(v, 2, 'l1')": (VECTORS, [7, INF, INF, *[None] * 5]),
    "vector_norm(v, 2, 'l2')": (VECTORS, [5, INF, INF, *[None] * 5]),
    "vector_norm(v, 2, 'linf')": (VECTORS, [4, 1e308, INF, *[None] * 5]),
    "vector_norm(v, 1, 'l2')": (VECTORS, [*[None] * 5, 1, None, None]),
    "vector_steps(v, 2, -3)": (VECTORS, [(24, -32), (TOP, TOP), (TOP, -TOP), *[None] * 5]),
    "vector_norm(i, 2, 'l2')": ("SELECT [3, 4]::TINYINT[2] AS i", [5]),
    "l[1:3:i]": (LISTS, [[1, 2, 3], [1, 3], None, [], None]),
    "l[:-:i]": (LISTS, [[1, 2, 3], [1, 3], None, [3, 2, 1], None]),
    "l[1:3:0]": (LISTS, [None] * 5),
    "week(s::DATE)": (FIRST_DAY, [53, None, None]),
    "weekofyear(s::DATE)": (FIRST_DAY, [53, None, None]),
    "yearweek(s::DATE)": (FIRST_DAY, [202053, None, None]),
    "isoyear(s::DATE)": (FIRST_DAY, [2020, None, None]),
    "date_part('week', s::DATE)": (FIRST_DAY, [53, None, None]),
    "date_part('isoyear', s::DATE)": (FIRST_DAY, [2020, None, None]),
}


@pytest.mark.parametrize("text", TOTAL)
def test_no_value_stops_it(text):
    rows, expected = TOTAL[text]
    assert evaluated(rows, text) == expected


BITS = "SELECT '101'::BIT AS b, unnest(['010'::BIT, '1']) AS c"
TEXTS = "SELECT unnest(['abc', 'é']) AS s, '5'::JSON AS j, 'x'::BLOB AS bl, [1] AS l"
WIDE = "SELECT unnest([0::UHUGEINT, 340282366920938463463374607431768211455]) AS u"
MIXED = "SELECT true AS t, '101'::BIT AS b, '5'::JSON AS j, MAP {1: 'x'} AS m, {'a': 1} AS st"
REFUSED = {
    "j IN (t, b)": (MIXED, "JSON is never read as BIT"),
    "j IN (t, m)": (MIXED, "JSON is never read as MAP"),
    "t IN (st, m)": (MIXED, "is never read as MAP"),
    "b & c": (BITS, "BIT"),
    "b | c": (BITS, "BIT"),
    "xor(b, c)": (BITS, "BIT"),
    "-u": (WIDE, "UHUGEINT"),
    "regexp_replace(s, '\\C', '')": (TEXTS, "single bytes"),
    "regexp_extract(s, '^\\C')": (TEXTS, "single bytes"),
    "regexp_extract(s, '(\\C)(.)', ['a', 'b'])": (TEXTS, "single bytes"),
    "string_split_regex(s, '\\C')": (TEXTS, "single bytes"),
    "s SIMILAR TO '\\C'": (TEXTS, "single bytes"),
    "json_extract(s, ['$', '$', '$'])": (TEXTS, "list of paths"),
    "s ->> ['$', '$']": (TEXTS, "list of paths"),
    "[j, j]::JSON": (TEXTS, "JSON, which is not listed"),
    "[bl, bl]::VARCHAR": (TEXTS, "BLOB, which is not listed"),
    "[[[1]]] IS NULL": (TEXTS, "list of lists"),
    "s.a.b.c = 'x'": (TEXTS, "more fields"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_raises_on_some_values_or_grows_is_refused(text):
    rows, why = REFUSED[text]
    with pytest.raises(QueryError, match=why):
        evaluated(rows, text)


def nested(before: str, text: str, after: str, times: int) -> str:
    return before * times + text + after * times


GROWING = {
    # Quotes are escaped once more at each step, and so are the escapes: twelve steps made them 4,096 times as many.
    nested("[", "s", "]::VARCHAR", 12): "repeat('''', 1000)",
    nested("[", "s", "]::JSON::VARCHAR", 12): "repeat('\"', 1000)",
    f"[{', '.join(['s'] * 200)}]::VARCHAR": "repeat('a', 100000)",
    "regexp_extract(s, '((((((((((.*))))))))))', ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'])::VARCHAR": (
        "repeat('a', 100000)"
    ),
}


@pytest.mark.parametrize("text", GROWING, ids=range(len(GROWING)))
def test_texts_in_lists_do_not_grow(text):
    (value,) = evaluated(f"SELECT {GROWING[text]} AS s", text)
    assert len(value) < 200_000


def test_what_takes_the_square_of_a_text_takes_its_beginning():
    """A text of 100,000 characters took minutes, under a constant pattern or none."""
    marks = "repeat(chr(768) || chr(790), 3000)"
    assert evaluated(f"SELECT {marks} AS s", "length(nfc_normalize(s))") == [4096]
    searched = evaluated("SELECT repeat('a', 5000) || 'c' AS s", "regexp_replace(s, 'a.*b|a', '', 'g')")
    assert searched == [""]
    first = evaluated("SELECT repeat('a', 5000) || 'c' AS s", "length(regexp_replace(s, 'c', ''))")
    assert first == [5000]  # one match is found in one pass


@pytest.mark.parametrize(
    "text", ["greatest(i, a, a)", "least(a, a, a, i, a)", "greatest(i, a + 0, coalesce(a), a)"]
)
def test_a_column_stands_twice_in_a_comparison_of_several(openers, text):
    """DuckDB copies the plan where units are cut to some groups, and took both for one named argument."""
    columns = {"id": ("BIGINT", [str(i % 9) for i in range(40)])} | {
        name: ("BIGINT", [str(i * step % 7) for i in range(40)]) for name, step in (("a", 3), ("i", 5))
    }
    table = Table(openers("duckdb")(columns), "id").with_columns(y=text)
    plan = table.group_by("y").bound(groups=1, rows=1).agg(n=sf.count()).plan(epsilon=1, delta=1e-6)
    assert sum(batch.num_rows for batch in table._engine.statistics(plan.exact, 10)) > 1


@pytest.mark.parametrize("name", ["greatest", "least"])
@pytest.mark.parametrize("count", range(1, 8))
def test_the_largest_of_several(name, count):
    values = [5, 2, 9, 4, 7, 3, 8][:count]
    rows = f"SELECT {', '.join(f'{v} AS c{i}' for i, v in enumerate(values))}, NULL::INT AS none"
    text = f"{name}({', '.join(f'c{i}' for i in range(count))}, none)"
    assert evaluated(rows, text) == [max(values) if name == "greatest" else min(values)]


ZONES = "SELECT unnest(['2020-01-01 00:00:00 UTC', '2020-01-01 00:00:00 ' || repeat('Europe/', 40)]) AS s"


@pytest.mark.parametrize(
    "text",
    ["s::TIMESTAMPTZ", "strptime(s, '%Y-%m-%d %H:%M:%S %Z')", "year(s::TIMESTAMPTZ)"],
)
def test_names_of_time_zones_are_read_to_a_length(text):
    """DuckDB looks for zones of a like name: for a text of 200,000 characters that took minutes."""
    schema = {"s": Column(Kind.OTHER, "VARCHAR")}
    assert '"left"(s, 200)' in validated("filter", text, schema).text
    assert [value is None for value in evaluated(ZONES, text)] == [False, True]


def test_keys_of_maps_are_no_places():
    rows = "SELECT MAP {9223372036854775807: 'a', 2: 'b'} AS m, unnest([9223372036854775807, 2, 3]) AS k"
    assert evaluated(rows, "m[k]") == ["a", "b", None]


HOSTILE = {
    "nots": "NOT " * 900 + "a > 0",
    "signs": "- " * 900 + "a",
    "sums": "+".join(["a"] * 900),
    "cases": nested("CASE WHEN a > 0 THEN ", "1", " ELSE 0 END", 900),
    "subscripts": "s" + "[1]" * 900,
    "open brackets": "(" * 20_000,
    "lists": nested("[", "1", "]", 299),
    "fields": "s" + ".a" * 5000,
    "arguments": f"coalesce({','.join(['a'] * 20_000)})",
    "length": "'" + "a" * LONGEST + "'",
}


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_texts_that_nobody_writes_are_refused_in_words(name):
    """They raised RecursionError, which is no error of this library, or kept everybody waiting."""
    schema = {"a": Column(Kind.INTEGER, "BIGINT"), "s": Column(Kind.OTHER, "VARCHAR")}
    with pytest.raises(QueryError):
        validated("filter", HOSTILE[name], schema)


def test_brackets_in_patterns_may_be_many():
    schema = {"s": Column(Kind.OTHER, "VARCHAR")}
    validated("filter", "regexp_matches(s, '" + "[(]" * 400 + "')", schema)


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [f"a IN ({', '.join(map(str, range(20_000)))})", f"s IN ({', '.join(f'{chr(39)}{i}{chr(39)}' for i in range(9999))})"],
    ids=["numbers", "texts"],
)  # fmt: skip
def test_long_lists_of_constants_are_judged_together(monkeypatch, text):
    """Each was asked about four times: 20,000 took a minute, in which nobody else's were judged."""
    asked, real = [], syntax_tree._judge

    class Counting:
        def __init__(self, connection):
            self.connection = connection

        def execute(self, *arguments):
            asked.append(1)
            return self.connection.execute(*arguments)

    monkeypatch.setattr(syntax_tree, "_judge", lambda process: (Counting(real(process)[0]), real(process)[1]))
    schema = {"a": Column(Kind.INTEGER, "BIGINT"), "s": Column(Kind.OTHER, "VARCHAR")}
    validated("filter", text, schema)
    assert len(asked) < 400


COSTLY = {
    "operations": (" AND ".join(["a > 1"] * 2100), "more than 2048 operations"),
    "constants in constants": ("abs(" * 100 + f"list_position([{'1,' * 2000} 1], 1)" + ")" * 100, "more than 1000"),
    # Each row had a copy of its own: a gigabyte for 2,048 of them, and minutes for 100,000.
    "format": (f"strftime(d, '{'%c' * 200}') > 'a'", "format of more than 256"),
    "text": (f"length(s || '{'c' * 5000}') > 3", "text of more than 4096"),
    "translate": (f"translate(s, '{'c' * 5000}', 'x') > 'a'", "text of more than 4096"),
    # DuckDB takes as many steps for each character of a text.
    "repetitions": ("regexp_matches(s, '(a[ab]{900}c|b[ab]{900}d|a[ab]{900})')", "pattern of more than 2000"),
    "repetitions in repetitions": ("s SIMILAR TO '((a{1,20}b){1,20}c){1,20}'", "pattern of more than 2000"),
    "split": ("len(string_split_regex(s, '((ab?){50}){50}')) > 1", "pattern of more than 2000"),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTLY)
def test_what_costs_much_for_each_row_is_refused(name):
    text, why = COSTLY[name]
    schema = {
        "a": Column(Kind.INTEGER, "BIGINT"),
        "s": Column(Kind.OTHER, "VARCHAR"),
        "d": Column(Kind.OTHER, "DATE"),
    }
    with pytest.raises(QueryError, match=why):
        validated("filter", text, schema)


HELD = [
    "coalesce({})".format(", ".join(f"length(s || '{i}')" for i in range(50))),
    "coalesce({})".format(", ".join(["length(reverse(s))"] * 130)),
    "greatest({})".format(", ".join(f"if(id > {i}, s, '{i}')" for i in range(130))),
    "coalesce({})".format(", ".join(f"json_extract_string(s, '$[{i}]')" for i in range(20))),
    "coalesce({})".format(", ".join(f"split(s, '{i}')[1]" for i in range(9))),
    "coalesce({})".format(", ".join(["len([s, s, s, s, s, s, s, s])"] * 9)),
    "coalesce({})".format(", ".join(f"regexp_matches(s, 'a{i}')::INT" for i in range(130))),
]


@pytest.mark.parametrize(
    "text", [HELD[0], *(pytest.param(t, marks=pytest.mark.long) for t in HELD[1:])], ids=range(len(HELD))
)
def test_texts_that_are_held_at_once_are_counted(text):
    """DuckDB keeps what every part makes of 2,048 rows: texts of 4,096 characters took gigabytes."""
    table = sf.scan(pa.table({"id": [1], "s": ["x"]}), privacy_unit="id")
    with pytest.raises(QueryError, match="more than 128 texts"):
        table.filter(f"({text}) IS NOT NULL")


def test_texts_of_derived_columns_are_counted_too():
    table = sf.scan(pa.table({"id": [1], "s": ["x"]}), privacy_unit="id")
    derived = {f"c{i}": "lower(trim(s))" for i in range(64)}
    full = table.with_columns(**derived)
    with pytest.raises(QueryError, match="more than 128 texts"):
        full.with_columns(one="upper(s)")
    # DuckDB writes derived columns out in conditions, where they are made again.
    assert table.with_columns(**dict(list(derived.items())[:42])).filter(" || ".join(["c0"] * 2) + " = 'x'")
    with pytest.raises(QueryError, match="more than 128 texts"):
        full.filter("c0 = 'x'")


@pytest.mark.long
def test_as_many_steps_as_duckdb_plans():
    """Five hundred were an error of the release, which named the rows."""
    table = sf.scan(pa.table({"id": range(400), "a": range(400)}), privacy_unit="id")
    for i in range(300):
        table = table.filter(f"a > {i}")
    (batch,) = table._engine.statistics(table.bound(rows=1).agg(n=sf.count()).plan(epsilon=1).exact, 10)
    assert [v for c in batch.columns for v in c.to_pylist()] == [100]
    with pytest.raises(QueryError, match="more than 300 filters and derived columns"):
        table.with_columns(y="a + 1")


def test_names_are_the_same_where_duckdb_says_so(engine):
    """It ignores the case of ASCII alone; what was judged otherwise was an error of the release."""
    opened = Table(engine(pa.table({"id": range(9), "É": range(9), "K": range(9)})), "id")
    with pytest.raises(ColumnError, match="É"):
        opened.filter("é > 3")
    table = opened.with_columns(é="É + 1", k="k + 1").filter("é > 3 AND K > 3")  # each in the other's place
    assert set(table.schema) == {"id", "é", "k"}
    (batch,) = table._engine.statistics(table.bound(rows=1).agg(n=sf.count()).plan(epsilon=1).exact, 10)
    assert [v for c in batch.columns for v in c.to_pylist()] == [6]


def test_keys_fit_what_holds_them(engine):
    """A group beyond 38 digits made a table that Arrow itself calls invalid."""
    values = ["5", str(2**127 - 1), "-" + "9" * 38]
    rows = pa.table({"id": range(60), "s": values * 20})
    table = Table(engine(rows), "id").with_columns(y="CAST(s AS HUGEINT)").group_by("y")
    plan = table.bound(groups=1, rows=1).agg(n=sf.count()).plan(epsilon=1, delta=1e-6)
    found = []
    for batch in table._engine.statistics(plan.exact, 10):
        batch.validate(full=True)
        found += batch.column(0).to_pylist()
    assert {None if v is None else int(v) for v in found} == {5, -(10**38) + 1, None}


def test_times_with_an_offset_are_no_keys(tmp_path):
    """Arrow holds no offset: two groups would be one, to whoever reads them."""
    with duckdb.connect(f"{tmp_path}/rows.db") as connection:
        connection.execute(
            "CREATE TABLE rows AS SELECT 1 AS id, unnest(['00:00:00+15'::TIMETZ, '00:00:00']) AS t"
        )
    table = sf.scan(f"{tmp_path}/rows.db/rows", privacy_unit="id")
    with pytest.raises(ColumnError, match=r"CAST\(t AS VARCHAR\)"):
        table.group_by("t")
    assert table.bound(rows=1).agg(n=sf.count("t")).plan(epsilon=1)


def test_parts_of_longer_columns_are_read(openers):
    """DuckDB stops at structs in structs that are a part: one row more, and so another batch, was an error."""
    structs = [{"a": {"b": ["x"], "c": i}} for i in range(20)]
    rows = pa.table({"id": range(20), "st": structs, "li": [[{"k": i}] for i in range(20)]}).slice(5)
    for name in ("duckdb", "stages"):
        table = Table(openers(name)(rows), "id").filter("st.a.c >= 15 AND li[1].k < 18")
        for _ in range(3):
            plan = table.bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
            (batch,) = table._engine.statistics(plan.exact, 10)
            assert [v for c in batch.columns for v in c.to_pylist()] == [3]


@pytest.mark.parametrize(
    "expression",
    ["json_extract(s, '$.a')::INT", "s::JSON::VARCHAR", "json_valid(s)", "s ->> '$.a'", "json_extract(j, '$.a')::INT", "j"],
)  # fmt: skip
def test_reading_json_takes_no_more_memory_than_there_is(expression):
    """Brackets take some 50 times their text: one document was an error."""
    short, long = '{"a": 1}', "[" * 5_000_000 + "]" * 5_000_000
    texts = pa.array([short] * 9 + [long])
    rows = pa.table(
        {"id": range(10), "s": texts, "j": pa.ExtensionArray.from_storage(pa.json_(pa.string()), texts)}
    )
    table = sf.scan(rows, privacy_unit="id").with_columns(v=expression).filter("v IS NOT NULL")
    (batch,) = table._engine.statistics(table.bound(rows=1).agg(n=sf.count()).plan(epsilon=1).exact, 10)
    assert [v for c in batch.columns for v in c.to_pylist()] == [9]


@pytest.mark.parametrize("opening", ["- ", "(", "(WITH a AS (", ")((", "-+"])
def test_what_the_parser_would_take_long_to_refuse(opening: str):
    text = opening * (LONGEST // len(opening))
    with pytest.raises(QueryError, match="nested too deep"):
        validated("filter", text, {"a": Column(Kind.INTEGER, "INTEGER")})


@pytest.mark.parametrize("number", [300, 301, 5000])
def test_so_many_steps_are_judged_one_after_the_other(number):
    """All at once, as SQL brings them: in calls within calls, three for each, Python would give up."""
    engine = DuckDBEngine.open(pa.table({"v": [1]}))
    steps = [Derive(f"c{i}", f"v + {i}") for i in range(number)]
    if number == 300:
        assert len(engine.schema(steps)) == 301
        return
    with pytest.raises(
        QueryError, match="with_columns: the question has more than 300 filters and derived columns"
    ):
        engine.schema(steps)
