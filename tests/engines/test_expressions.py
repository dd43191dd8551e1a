"""Row expressions: no value of a row makes one raise, whatever it is built of; and it means what it says."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.expressions import validated, validation
from sfumato.engines.duckdb.expressions.binding import DoesNotBind, check_cast, is_missing_cast
from sfumato.engines.duckdb.expressions.safe_forms import TYPES, total
from sfumato.engines.duckdb.expressions.validation import ValidatedExpression
from sfumato.errors import QueryError, SfumatoError
from sfumato.query.schema import Column, Kind

from .random_expressions import AWKWARD, LOCAL, NAMES, SCHEMA, expression, rows, signatures

EVERYWHERE = [name for name in AWKWARD if name not in LOCAL]


@pytest.fixture(scope="module")
def awkward():
    """A database with every awkward value, all optimizers on: nothing here may rest on TRY."""
    with duckdb.connect() as connection:
        made = rows(list(AWKWARD))
        texts = pa.table({name: pa.array(values, pa.string()) for name, (_, values) in made.items()})
        connection.register("texts", texts)
        typed = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, (kind, _) in made.items())
        connection.execute(f"CREATE TABLE rows AS SELECT {typed} FROM texts")
        yield connection


def admitted(text: str) -> ValidatedExpression | None:
    try:
        return validated("filter", text, SCHEMA)
    except SfumatoError:
        return None


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_an_expression_cannot_raise(awkward, chance, depth):
    """Without TRY, with all optimizers: as a filter, a column, a key, twice in a row, under an aggregate."""
    text = expression(chance, list(AWKWARD), depth)
    one = admitted(text)
    if one is None:
        return
    e = f"({one.text})"
    for select in (
        f"SELECT hash({e}) FROM rows",
        f"SELECT hash(y), hash(y) FROM (SELECT {e} AS y FROM rows)",
        f"SELECT count(*) FROM rows WHERE TRY_CAST({e} AS BOOLEAN)",
        f"SELECT count({e}), min(hash({e})) FROM rows GROUP BY hash({e}), a",
    ):
        awkward.execute(select).fetchall()


@pytest.mark.long
def test_every_name_is_admitted_somewhere_and_tried(awkward):
    """Each function meets all pairs of awkward values, for each list of types that DuckDB gives it."""
    chance, tried, seen = random.Random(3), Counter(), set()
    for name in NAMES:
        for types in signatures()[name] or [["VARCHAR", "VARCHAR"]]:
            for _ in range(2):
                arguments = []
                for kind in types:
                    plain = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}.get(kind, kind).partition("(")[0]
                    of_type = [n for n in AWKWARD if AWKWARD[n][0].partition("(")[0] == plain]
                    arguments.append(chance.choice(of_type) if of_type else "NULL")
                for constants in (
                    [],
                    ["'day'"],
                    ["'UTC'"],
                    ["'a'"],
                    ["'a'", "'b'"],
                    ["'$.a'"],
                    ["1"],
                    ["'%Y'"],
                    ["2", "'l1'"],
                    ["2", "'l2'"],
                    ["3", "'linf'"],
                    ["2", "-40"],
                    ["3", "900"],
                ):
                    used = arguments[: len(arguments) - len(constants)] + constants
                    if constants in (["'day'"], ["'UTC'"]):
                        used = [*constants, *arguments[1:]]
                    text = f'"{name}"({", ".join(used)})'
                    if text not in seen and (one := admitted(text)) is not None:
                        awkward.execute(f"SELECT hash(({one.text})) FROM rows").fetchall()
                        tried[name] += 1
                    seen.add(text)
    assert set(NAMES) == set(tried)


# Each raises on some row as it is written. Under TRY a part that repeats raised too in some versions of DuckDB.
RAISING = {
    "a cast twice": "CASE WHEN CAST(s AS DOUBLE) > 0 THEN CAST(s AS DOUBLE) ELSE 0 END",
    "absolute values": "abs(a) + abs(a)",
    "squares": "a * a + a * a",
    "whole numbers": "s::INT + s::INT",
    "dates": "year(strptime(s, '%Y-%m-%d')) + day(strptime(s, '%Y-%m-%d'))",
    "decimals": "CAST(x AS DECIMAL(4,1)) * CAST(x AS DECIMAL(4,1))",
    "JSON": "(s ->> '$.a') || (s ->> '$.a')",
}


@pytest.mark.parametrize(
    "text", ["0 IN (0, '')", "CASE WHEN true THEN 1 ELSE CAST('' AS INT) END", "coalesce(1, CAST('' AS INT))"]
)
def test_a_constant_that_raises_in_an_aggregate_is_refused(awkward, text):
    """DuckDB computes what it leaves out elsewhere; whether it does must not follow from rows."""
    one = admitted(text)
    if one is not None:
        awkward.execute(f"SELECT min(hash(({one.text}))) FROM rows GROUP BY hash(({one.text})), a").fetchall()
    assert one is None or " IN (" not in text


@pytest.mark.parametrize("name", RAISING)
def test_what_raises_as_it_is_written_does_not_in_its_total_form(awkward, name):
    text = RAISING[name]
    with pytest.raises(duckdb.Error):
        awkward.execute(f"SELECT hash(({text})) FROM rows").fetchall()
    one = admitted(text)
    assert one is not None
    awkward.execute(f"SELECT hash(({one.text})) FROM rows").fetchall()


@pytest.mark.parametrize("name", AWKWARD)
def test_a_cast_that_is_admitted_stops_at_no_value(awkward, name):
    """Those that a text may name, and those that DuckDB makes where values of two types meet."""
    given, refused = AWKWARD[name][0], []
    for kind in sorted({kind for kind, _ in AWKWARD.values()} | set(TYPES)):
        try:
            check_cast(given, kind)
        except DoesNotBind:
            if not is_missing_cast(given, kind):
                refused.append(kind)
            continue
        awkward.execute(f'SELECT hash(TRY_CAST("{name}" AS {kind})) FROM rows').fetchall()
    assert ("BIT" in refused) == (given == "JSON")


def test_the_suite_would_see_an_expression_that_raises(awkward):
    """The same random expressions, as they are written, raise: the property above can fail."""
    chance, raised = random.Random(1), 0
    for _ in range(2000):
        text = expression(chance, list(AWKWARD), 2)
        if admitted(text) is None:
            continue
        try:
            awkward.execute(f"SELECT hash(({text})) FROM rows").fetchall()
        except duckdb.Error:
            raised += 1
            if raised == 3:
                return
    raise AssertionError(f"only {raised} expressions raised")


def texts_of(engine, names: list[str]) -> dict[str, tuple[str, list[str | None]]]:
    made = rows(names)
    count = len(made[names[0]][1])
    return {"id": ("BIGINT", [str(i % 50) for i in range(count)])} | made


def asked(engine_rows, chance: random.Random):
    """Return a question that uses one random expression in a random place, or None."""
    table = Table(engine_rows, "id")
    text = expression(chance, EVERYWHERE, chance.choice([1, 2, 2, 3]))
    try:
        match chance.randrange(4):
            case 0:
                return table.filter(text).bound(rows=1).agg(n=sf.count())
            case 1:
                derived = table.with_columns(y=text, z=f"({text}) IS NULL")
                return derived.filter("z").bound(rows=2).agg(n=sf.count("y"))
            case 2:
                derived = table.with_columns(y=f"hash({text}) % 5")
                return derived.group_by("y").bound(groups=2, rows=1).agg(n=sf.count())
            case _:
                derived = table.with_columns(y=f"TRY_CAST({text} AS DOUBLE)", z=f"TRY_CAST({text} AS BIGINT)")
                return derived.bound(rows=1).agg(
                    m=sf.mean("y", lower=0, upper=1), s=sf.sum("z", lower=0, upper=1)
                )
    except SfumatoError:
        return None


@pytest.mark.long
def test_no_expression_stops_a_release(engine):
    """On every engine, in every place where an expression may stand."""
    opened = engine(texts_of(engine, EVERYWHERE))
    chance, answered = random.Random(engine.few(7)), 0
    while answered < engine.few(90):
        question = asked(opened, chance)
        if question is not None:
            plan = question.plan(epsilon=1, delta=1e-6)
            assert sum(batch.num_rows for batch in opened.statistics(plan.exact, 1000)) >= 0
            answered += 1


@pytest.mark.long
def test_one_row_does_not_decide_whether_a_release_fails(engine):
    """The attack: with the row and without it."""
    values = {"s": "n/a", "a": str(-(2**63)), "x": "1e300"}
    good = {"s": "2", "a": "2", "x": "2.0"}
    kinds = {"s": "VARCHAR", "a": "BIGINT", "x": "DOUBLE"}
    for last in (good, values):
        columns = {"id": ("BIGINT", [str(i) for i in range(40)])} | {
            n: (kinds[n], [good[n]] * 39 + [last[n]]) for n in kinds
        }
        derived = {f"{name}, {copy}": text for name, text in RAISING.items() for copy in "yz"}
        table = Table(engine(columns), "id").with_columns(**derived)
        plan = table.bound(rows=1).agg(**{name: sf.count(name) for name in derived}).plan(epsilon=1)
        assert sum(b.num_rows for b in table._engine.statistics(plan.exact, 10)) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", RAISING)
def test_try_is_a_second_wall(monkeypatch, openers, name):
    """Were a form not total after all, TRY would hold, as the optimizers that move things out of it are off."""
    monkeypatch.setattr(validation, "total", lambda tree, kinds: replace(total(tree, kinds), node=tree))
    assert "TRY" not in validated("filter", RAISING[name], SCHEMA).text
    for engine in (openers("duckdb"), openers("stages")):
        opened = engine(texts_of(engine, ["s", "a", "x"]))
        table = Table(opened, "id").with_columns(y=RAISING[name], z=RAISING[name])
        question = table.filter(f"({RAISING[name]}) IS NULL").bound(rows=1).agg(n=sf.count("y"))
        assert sum(b.num_rows for b in opened.statistics(question.plan(epsilon=1).exact, 10)) == 1


# What an expression says is what it computes: on values that do not fail, and are not beyond what docs/expressions.md
# names, the total form has the value of the text itself.
ORDINARY = {
    "bo": ("BOOLEAN", ["true", "false", None]),
    "i": ("INTEGER", ["3", "-7", "0", "12", None]),
    "a": ("BIGINT", ["5", "-2", "100000", "0", None]),
    "b": ("BIGINT", ["3", "1", "-4", "17", None]),
    "x": ("DOUBLE", ["0.5", "-2.25", "1000.0", "3.0", None]),
    "p": ("DECIMAL(18,3)", ["1.500", "-0.125", "20.000", None]),
    "s": ("VARCHAR", ["abc", "12", "2020-02-29", "b,c", '{"a": 3}', None]),
    "t": ("VARCHAR", ["b", "%", "abc", ",", None]),
    "d": ("DATE", ["2020-02-29", "1999-12-31", "0800-01-01", None]),
    "ts": ("TIMESTAMP", ["2020-02-29 12:34:56", "1970-01-01 00:00:00", None]),
    "l": ("VARCHAR[]", ["[a, b]", "[abc]", None]),
}  # fmt: skip


@pytest.fixture(scope="module")
def ordinary():
    with duckdb.connect() as connection:
        columns = []
        for name, (kind, values) in ORDINARY.items():
            listed = ", ".join("NULL" if v is None else f"'{v}'" for v in values)
            columns.append(
                f"CAST(list_extract([{listed}], 1 + (n * {len(name) + 3} + n // 7) % {len(values)}) AS {kind}) AS {name}"
            )
        connection.execute(f"CREATE TABLE rows AS SELECT {', '.join(columns)} FROM range(60) AS t(n)")
        yield connection


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_a_total_form_has_the_value_of_its_text(ordinary, chance, depth):
    schema = {name: Column(Kind.OTHER, kind) for name, (kind, _) in ORDINARY.items()}
    text = expression(chance, list(ORDINARY), depth)
    try:
        one = validated("filter", text, schema)
    except SfumatoError:
        return
    for (n,) in ordinary.execute("SELECT rowid FROM rows USING SAMPLE 6").fetchall():
        try:
            (said,) = ordinary.execute(f"SELECT ({text}) FROM rows WHERE rowid = {n}").fetchone()
        except Exception:  # the text itself fails on this row; or its value is none of Python's
            continue
        if (
            said is None and "TRY(" in text
        ):  # it failed inside, where the total form may lose a part of it alone
            continue
        (found,) = ordinary.execute(f"SELECT ({one.text}) FROM rows WHERE rowid = {n}").fetchone()
        assert same_value(said, found) or documented(text, said, found), (text, one.text, said, found)


def same_value(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    try:
        return one == other or abs(float(one) - float(other)) <= 1e-9 * abs(float(one))
    except (TypeError, ValueError, OverflowError):
        return False


def documented(text: str, said, found) -> bool:
    """Whether a NULL stands where docs/expressions.md says that one does: beyond the calendar, or 10^37."""
    return found is None and bool(
        re.search(r"[+*-]|trunc|last_day|strftime|diff|split|timestamp|json|->>|\[", text)
    )


REFUSED = {
    "s::JSON::VARIANT": "VARIANT",
    "CAST(s AS INTEGER[])": "INTEGER",
    "CAST(s AS STRUCT(a INTEGER))": "STRUCT",
    "levenshtein(s, t)": "levenshtein",
    "jaro_similarity(s, t)": "jaro_similarity",
    "s ->> '$..*'": r"path with \*",
    "json_extract(j, '$.a[*]')": r"path with \*",
    "replace(s, 'a', s)": "replace a column where it takes a constant",
    "regexp_replace(s, t, s, 'g')": "constant",
    "regexp_matches(s, t)": "constant",
    "s LIKE 'a!' ESCAPE '!'": "ends with its escape character",
    "s LIKE 'a' ESCAPE t": "constant",
    "a << 1": "<<",
    "chr(i)": "chr",
    "[[a], [b]]": "list of lists",
    "l || l": "joins what is no text",
    "iv + d": "computes with INTERVAL",
    "d + INTERVAL '300000 years'": "too long an interval",
    "d > '2020-13-01'": "'2020-13-01' is no DATE",
    "a = 'x'": "'x' is no BIGINT",
    "CAST('x' AS INTEGER) = a": "cannot be computed",
    "round(a, b)": "constant",
    "vector_norm(l, 2, 'l2')": "no column of lists of numbers",
    "vector_norm(nn, 2, 'l2')": "no column of lists of numbers",
    "vector_norm(n, 2, 'l3')": "is no norm",
    "vector_norm(n, a, 'l2')": "two constants",
    "vector_norm(n, 5000, 'l2')": "from 1 to 4,096",
    "vector_steps(n, 2, 1000)": "no exponent of 2",
    "date_part(s, d)": "constant",
    "date_part('none', d)": "not recognized",
    "strptime(s, '%')": "format",
    "j.a": "json_extract",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_could_raise_or_grow_is_refused_in_words(text):
    with pytest.raises(QueryError, match=REFUSED[text]):
        validated("with_columns", text, SCHEMA)


def test_types_whose_casts_raise_are_refused_wherever_they_are(tmp_path):
    """TRY_CAST of a BIGNUM beyond its target closes DuckDB's whole database, also under TRY."""
    with duckdb.connect(f"{tmp_path}/rows.db") as connection:
        connection.execute(
            "CREATE TABLE rows AS SELECT i AS id, (CASE WHEN i = 3 THEN repeat('9', 60) ELSE '5' END)::BIGNUM AS b, "
            "[b] AS l, {'b': b, 'k': i} AS st FROM range(5) AS t(i)"
        )
    opened = sf.scan(f"{tmp_path}/rows.db/rows", privacy_unit="id")
    for text in (
        "b::INT",
        "l[1]::INT",
        "st.b::UTINYINT",
        "struct_extract(st, 'b')::INT",
        "list_contains(l, 5)",
    ):
        with pytest.raises(QueryError, match="BIGNUM; cast it before scan"):
            opened.with_columns(y=text)
    assert opened.with_columns(y="st.k").schema["y"].type_name == "BIGINT"


def test_derived_columns_do_not_double_without_end():
    """DuckDB writes them out in the conditions that use them: 24 of these took more than 2 GB to plan."""
    table = sf.scan(pa.table({"id": [1, 2], "a": [5, 6], "b": [5, 6]}), privacy_unit="id")
    for _ in range(100):  # each once
        table = table.with_columns(b="a + b")
    with pytest.raises(QueryError, match="use each fewer times"):
        for _ in range(24):
            table = table.with_columns(a="nullif(a, 3)")


GROWING = [
    "replace(s, 'a', 'bbbbbbbbbb')", "regexp_replace(s, '', '\\0\\0bbbb', 'g')", "s || s || s || s", "concat(s, s, s)",
    "split(s, '')", "string_split_regex(s, '')", "upper(s)", "split_part(s, 'x', 1)", "translate(s, 'a', '😀')",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("text", GROWING)
def test_no_text_grows_without_end(text):
    """However often it is applied to what it made: by derived columns, which may be as many as one likes."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows AS SELECT repeat('a', 100000) AS s")
        longest, source = 0, "rows"
        for level in range(6):
            one = validated("with_columns", text, SCHEMA)
            if one.type_name != "VARCHAR":
                (size,) = connection.execute(f"SELECT len({one.text}) FROM {source}").fetchone()
                assert size <= 4096
                return
            connection.execute(f"CREATE TABLE level{level} AS SELECT ({one.text}) AS s FROM {source}")
            source = f"level{level}"
            (size,) = connection.execute(f"SELECT strlen(s) FROM {source}").fetchone()
            longest = max(longest, size)
        assert longest <= (100_000 if text in ("upper(s)", "translate(s, 'a', '😀')") else 1 << 16) * 4


def test_deep_brackets_crash_nothing(awkward):
    """60,000 brackets as JSON, which crashed the process as VARIANT."""
    awkward.execute("CREATE OR REPLACE TABLE deep AS SELECT repeat('[', 60000) || repeat(']', 60000) AS s")
    for text in (
        "s::JSON",
        "s ->> '$[0]'",
        "json_type(s)",
        "json_array_length(s)",
        "json_extract(s, '$[0][0]')",
        "json_valid(s)",
    ):
        one = validated("filter", text, SCHEMA)
        awkward.execute(f"SELECT hash(({one.text})) FROM deep").fetchall()


@pytest.mark.long
def test_long_expressions_are_judged_in_linear_time():
    """Counted, not timed: each part of an expression is bound once."""
    import sfumato.dialect.syntax_tree as tree

    def questions(parts: int) -> int:
        asked, real = [], tree._judge
        text = " AND ".join(f"a > {i % 7}" for i in range(parts))

        class Counting:
            def __init__(self, connection):
                self.connection = connection

            def execute(self, *arguments):
                asked.append(1)
                return self.connection.execute(*arguments)

        tree._judge = lambda process: (Counting(real(process)[0]), real(process)[1])
        try:
            validated("filter", text, SCHEMA)
        finally:
            tree._judge = real
        return len(asked)

    questions(10)
    assert questions(2000) <= 2.2 * questions(1000) + 50


CONSTANTS = [
    "length(replace(replace(replace('{a}', 'a', '{a}'), 'a', '{a}'), 'a', '{a}')) > 1",
    "s = '{a}' || '{a}' || '{a}' || '{a}'",
    "s = CAST('x' AS ENUM('x', 'y'))",
    "s = 'a\0b'",
    "s = '\ud800'",
]  # fmt: skip


@pytest.mark.parametrize("text", CONSTANTS, ids=range(len(CONSTANTS)))
def test_constants_are_judged_too(text):
    """They are computed before a row is read, so they may not grow either, nor be of other types."""
    with pytest.raises(QueryError):
        validated("filter", text.format(a="a" * 2000), SCHEMA)


def test_a_column_of_structs_may_have_any_name(engine):
    """DuckDB gives a subquery without a name one of its own, which hides such a column."""
    names = ["unnamed_subquery", "steps", "source_rows"]
    structs = pa.array([{"k": i} for i in range(20)])
    rows = pa.table({"id": range(20), **dict.fromkeys(names, structs)})
    for name in names:
        table = Table(engine(rows), "id").with_columns(y=f"{name}.k").filter(f"{name}.k >= 15")
        plan = table.filter("y >= 17").bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
        (batch,) = table._engine.statistics(plan.exact, 10)
        assert [v for c in batch.columns for v in c.to_pylist()] == [3]


def test_threads_share_a_table(tmp_path):
    """Each sees all rows of the columns that it reads, whatever others read."""
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "rows.csv"
    path.write_text("id,a,b,c\n" + "".join(f"{i},1,2,3\n" for i in range(2000)))
    sources = [
        sf.scan(path, privacy_unit="id", types={"id": "BIGINT", "a": "INT", "b": "INT", "c": "INT"}),
        sf.scan(
            duckdb.sql("SELECT i AS id, 1 AS a, 2 AS b, 3 AS c FROM range(2000) t(i)"), privacy_unit="id"
        ),
    ]
    for table in sources:

        def counted(column, table=table):
            plan = table.filter(f"{column} > 0").bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
            (batch,) = table._engine.statistics(plan.exact, 10)
            return [v for c in batch.columns for v in c.to_pylist()]

        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(counted, ["a", "b", "c"] * 4)) == [[2000]] * 12


@pytest.mark.parametrize(
    "constant", ["'a\nb'", "'\t'", "chr(27) || '[31m'", "'--'", "'/*'", "''''", "'_0'", "'\"'", "'漢'"]
)
def test_constants_may_hold_any_text(awkward, constant):
    one = validated("filter", f"s = {constant} OR replace(s, {constant}, '') = s", SCHEMA)
    awkward.execute(f"SELECT hash(({one.text})) FROM rows").fetchall()


@pytest.mark.parametrize("text", ["list_element('ab', b)", "s[b]", '"left"(s, b)', "substring(s, b, 2)"])
def test_a_place_that_is_missing_gives_nothing(text):
    """`greatest` and `least` skip NULL, and so would a place that they bring into 32 bits."""
    schema = {"b": Column(Kind.OTHER, "BIGINT"), "s": Column(Kind.OTHER, "VARCHAR")}
    found = duckdb.sql(
        f"SELECT ({validated('filter', text, schema).text}) FROM (SELECT 'ab' AS s, NULL::BIGINT AS b)"
    )
    assert found.fetchall() == [(None,)]
