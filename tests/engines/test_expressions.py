"""Row expressions: no value of a row makes one raise, whatever it is built of; and it means what it says."""

import math
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.expressions import validation
from sfumato.engines.duckdb.expressions.safe_forms import TYPES, to_safe_form
from sfumato.engines.duckdb.expressions.safe_parts import DoesNotBind, check_cast, is_missing_cast
from sfumato.engines.duckdb.expressions.validation import ValidatedExpression, validate
from sfumato.errors import ColumnError, SfumatoError
from sfumato.query.schema import Column, Kind
from tests.support.expressions import AWKWARD, NAMES, SCHEMA, expression, rows, signatures

COMPARED = [name for name, (kind, _) in AWKWARD.items() if validation._COMPARED.fullmatch(kind)]
many_examples = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def awkward(tmp_path_factory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with every awkward value, all optimizers on: as a table, and as a file where types allow it."""
    path = tmp_path_factory.mktemp("awkward") / "rows.parquet"
    with duckdb.connect() as connection:
        made = rows(list(AWKWARD))
        texts = pa.table({name: pa.array(values, pa.string()) for name, (_, values) in made.items()})
        connection.register("texts", texts)
        typed = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, (kind, _) in made.items())
        connection.execute(f"CREATE TABLE rows AS SELECT {typed} FROM texts")
        columns = ", ".join(f'"{name}"' for name in COMPARED)
        connection.execute(f"COPY (SELECT {columns} FROM rows) TO '{path}' (ROW_GROUP_SIZE 2048)")
        connection.execute(f"CREATE VIEW file AS FROM read_parquet('{path}')")
        yield connection


def admitted(text: str) -> ValidatedExpression | None:
    try:
        return validate("filter", text, SCHEMA)
    except SfumatoError:
        return None


def evaluated(source: str, *texts: str) -> list[list]:
    """Return the values of expressions on the rows that a query gives; no TRY is around their total forms."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS {source}")
        described = connection.execute("DESCRIBE rows").fetchall()
        schema = {row[0]: Column(Kind.OTHER, row[1]) for row in described}
        forms = [validate("filter", text, schema).text for text in texts]
        return [[v for (v,) in connection.execute(f"SELECT ({form}) FROM rows").fetchall()] for form in forms]


def selected(table: Table) -> int:
    """Return the exact number of rows, of which each unit has one."""
    plan = table.bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
    (batch,) = table._engine.statistics(plan.exact, 10)
    return next(v for c in batch.columns for v in c.to_pylist())


# No value raises.


def check_total(connection: duckdb.DuckDBPyConnection, chance: random.Random, depth: int) -> None:
    """Without TRY, with all optimizers: as a filter, a column, a key, twice in a row, under an aggregate."""
    one = admitted(expression(chance, list(AWKWARD), depth))
    if one is None:
        return
    e = f"({one.text})"
    for select in (
        f"SELECT hash({e}) FROM rows",
        f"SELECT hash(y), hash(y) FROM (SELECT {e} AS y FROM rows)",
        f"SELECT count(*) FROM rows WHERE TRY_CAST({e} AS BOOLEAN)",
        f"SELECT count({e}), min(hash({e})) FROM rows GROUP BY hash({e}), a",
    ):
        connection.execute(select).fetchall()


@pytest.mark.long
@many_examples
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_an_expression_cannot_raise(awkward, chance, depth):
    check_total(awkward, chance, depth)


CONSTANT_ARGUMENTS = "; 'day'; 'UTC'; 'a'; 'a' 'b'; '$.a'; 1; '%Y'; 2 'l1'; 2 'l2'; 3 'linf'; 2 -40; 3 900"


@pytest.mark.long
def test_every_name_is_admitted_somewhere_and_tried(awkward):
    """Each function meets all pairs of awkward values, for each list of types that DuckDB gives it."""
    chance, tried, seen = random.Random(3), Counter(), set()
    for name in NAMES:
        for types in [types for types in signatures()[name] or [["VARCHAR", "VARCHAR"]] for _ in range(2)]:
            arguments = []
            for kind in types:
                plain = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}.get(kind, kind).partition("(")[0]
                of_type = [n for n in AWKWARD if AWKWARD[n][0].partition("(")[0] == plain]
                arguments.append(chance.choice(of_type) if of_type else "NULL")
            for constants in map(str.split, CONSTANT_ARGUMENTS.split(";")):
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
    "days": "d + 1",
    "differences": "date_diff('microsecond', ts, TIMESTAMP '9999-01-01')",
    "weeks": "date_trunc('week', da)",
    "moments": "to_timestamp(x)",
    "microseconds": "make_timestamp(a)",
    "intervals": "a * INTERVAL '1 day'",
    "places": "substring(s, a, b)",
}


def test_what_raises_as_it_is_written_does_not_in_its_total_form(awkward):
    for text in RAISING.values():
        with pytest.raises(duckdb.Error):
            awkward.execute(f"SELECT hash(({text})) FROM rows").fetchall()
        awkward.execute(f"SELECT hash(({admitted(text).text})) FROM rows").fetchall()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ("s", "ts", "j") else pytest.mark.long) for n in AWKWARD]
)
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


def with_units(columns: dict[str, tuple[str, list[str | None]]]) -> dict[str, tuple[str, list[str | None]]]:
    count = len(next(iter(columns.values()))[1])
    return {"id": ("BIGINT", [str(i % 50) for i in range(count)])} | columns


@pytest.mark.long
def test_try_is_a_second_wall(monkeypatch, openers):
    """Were a form not total after all, TRY would hold, as the optimizers that move things out of it are off."""
    monkeypatch.setattr(
        validation, "to_safe_form", lambda tree, kinds: replace(to_safe_form(tree, kinds), node=tree)
    )
    texts = list(RAISING.values())[:7]
    assert "TRY" not in validate("filter", texts[0], SCHEMA).text
    for name in ("duckdb", "stages"):
        opened = openers(name)(with_units(rows(["s", "a", "x"])))
        table = Table(opened, "id").with_columns(**{f"y{i}": text for i, text in enumerate([*texts, *texts])})
        for text in texts:
            table = table.filter(f"({text}) IS NULL OR a > -9")
        plan = table.bound(rows=1).agg(n=sf.count("y0"), m=sf.count("y13")).plan(epsilon=1)
        assert sum(b.num_rows for b in opened.statistics(plan.exact, 10)) == 1


# An expression has the value that it says.

INF, TOP = float("inf"), 2**62
ONE = (
    "SELECT 3 AS i, -7::BIGINT AS a, 2.5 AS x, 999.9::DECIMAL(4,1) AS p, 'b,c,d' AS s, NULL::VARCHAR AS none, "
    "DATE '2024-02-29' AS d, TIMESTAMP '2024-02-29 12:34:56.789' AS ts, '{\"a\": [1, 2]}' AS j, ['u', 'v'] AS l"
)
LISTS = "SELECT [1, 2, 3] AS l, 'abc' AS s, unnest([1, 2, 0, -1, NULL])::BIGINT AS i"
FIRST_DAY = "SELECT unnest(['2020-12-31', '5877642-06-25 (BC)', 'infinity']) AS s"
VECTORS = "SELECT unnest(['[3, -4]', '[1e308, 1e308]', '[inf, -inf]', '[nan, 1]', '[1, NULL]', '[1]', '[]', NULL])::DOUBLE[] AS v"
ZONES = "SELECT unnest(['2020-01-01 00:00:00 UTC', '2020-01-01 00:00:00 ' || repeat('Europe/', 40)]) AS s"
ENDS = (
    "SELECT unnest([DATE '0001-01-01', DATE '9999-12-31', DATE '10000-01-01', DATE '0001-01-01 (BC)']) AS d"
)
SECONDS = "SELECT unnest([0, -62135596800, 253402300799, 253402300800]) AS n"
MEETING = (
    f"SELECT {2**127 - 1}::HUGEINT AS h, {'9' * 38}::DECIMAL(38,0) AS p38, 0.5::DECIMAL(38,38) AS r, '300' AS s, "
    f"'400' AS s2, 5::UTINYINT AS u, {2**63 - 1} AS a, 999.9::DECIMAL(4,1) AS p, DATE '2020-01-01' AS d, "
    "TIMESTAMP '1500-01-01' AS ts, TIMESTAMP_NS '2020-06-01' AS ns"
)
TRUE = (
    "d + 1 = DATE '2024-03-01'; d - 1 = DATE '2024-02-28'; ts + INTERVAL '1 day' > ts; "
    "d + i * INTERVAL '1 day' = DATE '2024-03-03'; strptime('1/2/2024', '%d/%m/%Y') < d; "
    "make_date(2024, 2, i + 26) = d; epoch(ts AT TIME ZONE 'Asia/Tokyo') < epoch(ts); "
    "ifnull(none, s) = 'b,c,d'; nullif(i, 3) IS NULL; coalesce(none, s, 'z') = 'b,c,d'; p + p = 1999.8; "
    "p - p * 2 = -999.9; p * p = 999800.01; a // i = -2; a % i = -1; (i // 0) IS NULL; round(p, 0) = 1000; "
    "concat(s, none) = 'b,c,d'; replace(s, ',', ';;') = 'b;;c;;d'; "
    "regexp_replace(s, '[a-c]', 'q') = 'q,c,d'; regexp_replace(s, '[a-c]', '<\\0>', 'g') = '<b>,<c>,d'; "
    "regexp_extract(s, '(.),(.)', 2) = 'c'; split_part(s, ',', 2) = 'c'; split_part(s, ',', 9) = ''; "
    "split_part(none, ',', 1) IS NULL; string_split(s, ',')[3] = 'd'; right(s, -2) = 'c,d'; "
    "substring(s, 3, 1) = 'c'; s[1:3] = 'b,c'; l[2] = 'v'; json_extract(j, '$.a[1]')::INT = 2; "
    "NOT json_valid(s); d - DATE '2024-02-01' = 28; date_diff('day', DATE '2024-01-01', d) = 59; "
    "CAST('x' || s AS INT) IS NULL; (CASE WHEN i = 4 THEN 'a' WHEN i = 3 THEN 'b' ELSE 'c' END) = 'b'"
)
TRUE_OF_TWO_TYPES = (
    "h > 0.5; p38 > r; s <> u; u NOT IN (7, s2, a, s); ts < ns; d < ns; substring(s, 1, a) = s; "
    "list_extract(string_split(s, ','), a) IS NULL; p + 100000 = 100999.9; a % p < p; coalesce(u, 300) = 5; "
    "u > -1; d - u = DATE '2019-12-27'; greatest(h, 0.5) > 1e38; NOT h IN (1, 2.5); NOT p IN (5, 100000.25)"
)
VALUES = {
    ONE: dict.fromkeys(TRUE.split("; "), True),
    VECTORS: {
        "vector_norm(v, 2, 'l1')": [7, INF, INF, *[None] * 5],
        "vector_norm(v, 2, 'l2')": [5, INF, INF, *[None] * 5],
        "vector_norm(v, 2, 'linf')": [4, 1e308, INF, *[None] * 5],
        "vector_norm(v, 1, 'l2')": [*[None] * 5, 1, None, None],
        "vector_steps(v, 2, -3)": [(24, -32), (TOP, TOP), (TOP, -TOP), *[None] * 5],
    },
    LISTS: {
        "l[1:3:i]": [[1, 2, 3], [1, 3], None, [], None],
        "l[:-:i]": [[1, 2, 3], [1, 3], None, [3, 2, 1], None],
        "l[1:3:0]": [None] * 5,
        "list_element(l, i)": [1, 2, None, 3, None],
        "s[i]": ["a", "b", "", "c", None],
        "left(s, i)": ["a", "ab", "", "ab", None],
    },
    FIRST_DAY: {
        "week(s::DATE)": [53, None, None],
        "yearweek(s::DATE)": [202053, None, None],
        "date_part('week', s::DATE)": [53, None, None],
    },
    ENDS: {
        "d + 1 IS NULL": [False, False, True, True],
        "d - INTERVAL '1 month' IS NULL": [False, False, True, True],
        "date_trunc('month', d) IS NULL": [False, False, True, True],
    },
    SECONDS: {
        "to_timestamp(n) IS NULL": [False, False, False, True],
        "make_timestamp(n * 1000000) IS NULL": [False, False, False, True],
    },
    ZONES: {
        "s::TIMESTAMPTZ IS NULL": [False, True],
        "strptime(s, '%Y-%m-%d %H:%M:%S %Z') IS NULL": [False, True],
    },
    # A value that is legal stays one where two types meet that have no narrow type in common.
    MEETING: dict.fromkeys(TRUE_OF_TWO_TYPES.split("; "), True),
    "SELECT [3, 4]::TINYINT[2] AS i": {"vector_norm(i, 2, 'l2')": 5},
    f"SELECT MAP {{{2**63 - 1}: 'a', 2: 'b'}} AS m, unnest([{2**63 - 1}, 2, 3]) AS k": {
        "m[k]": ["a", "b", None]
    },
    "SELECT repeat(chr(768) || chr(790), 3000) AS s": {"length(nfc_normalize(s))": 4096},
    # A text of 100,000 characters took minutes; one match is found in one pass.
    "SELECT repeat('a', 5000) || 'c' AS s": {
        "regexp_replace(s, 'a.*b|a', '', 'g')": "",
        "length(regexp_replace(s, 'c', ''))": 5000,
    },
}


def test_an_expression_has_the_value_that_it_says():
    for source, texts in VALUES.items():
        for (text, value), found in zip(texts.items(), evaluated(source, *texts), strict=True):
            expected = value if isinstance(value, list) else [value]
            assert all(same_value(*pair) for pair in zip(expected, found, strict=True)), (text, found)


@pytest.mark.long
@pytest.mark.parametrize("name", ["greatest", "least"])
def test_the_largest_of_several(openers, name):
    """DuckDB copies the plan where units are cut to some groups, and took two equal ones for one named argument."""
    values = [5, 2, 9, 4, 7, 3, 8]
    for count in (1, 2, 3, 7):
        source = f"SELECT {', '.join(f'{v} AS c{i}' for i, v in enumerate(values))}, NULL::INT AS none"
        text = f"{name}(none, {', '.join(f'c{i}' for i in range(count))})"
        assert evaluated(source, text) == [[(max if name == "greatest" else min)(values[:count])]]
    columns = {"id": ("BIGINT", [str(i % 9) for i in range(40)])} | {
        n: ("BIGINT", [str(i * step % 7) for i in range(40)]) for n, step in (("a", 3), ("i", 5))
    }
    for text in (f"{name}(i, a, a)", f"{name}(a, a, a, i, a)", f"{name}(i, a + 0, coalesce(a), a)"):
        table = Table(openers("duckdb")(columns), "id").with_columns(y=text)
        plan = table.group_by("y").bound(groups=1, rows=1).agg(n=sf.count()).plan(epsilon=1, delta=1e-6)
        assert sum(batch.num_rows for batch in table._engine.statistics(plan.exact, 10)) > 1


# On values that do not fail, and are not beyond what docs/expressions.md names, a total form has the value of the text.
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
            place = f"1 + (n * {len(name) + 3} + n // 7) % {len(values)}"
            columns.append(f"CAST(list_extract([{listed}], {place}) AS {kind}) AS {name}")
        connection.execute(f"CREATE TABLE rows AS SELECT {', '.join(columns)} FROM range(60) AS t(n)")
        yield connection


@pytest.mark.long
@many_examples
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_a_total_form_has_the_value_of_its_text(ordinary, chance, depth):
    schema = {name: Column(Kind.OTHER, kind) for name, (kind, _) in ORDINARY.items()}
    text = expression(chance, list(ORDINARY), depth)
    try:
        one = validate("filter", text, schema)
    except SfumatoError:
        return
    for (n,) in ordinary.execute("SELECT rowid FROM rows USING SAMPLE 6").fetchall():
        try:
            (said,) = ordinary.execute(f"SELECT ({text}) FROM rows WHERE rowid = {n}").fetchone()
        except Exception:  # the text itself fails on this row; or its value is none of Python's
            continue
        if said is None and "TRY(" in text:  # it failed inside, where the total form may lose a part of it
            continue
        (found,) = ordinary.execute(f"SELECT ({one.text}) FROM rows WHERE rowid = {n}").fetchone()
        assert same_value(said, found) or documented(text, found), (text, one.text, said, found)


def same_value(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    try:
        return one == other or abs(float(one) - float(other)) <= 1e-9 * abs(float(one))
    except (TypeError, ValueError, OverflowError):
        return False


def documented(text: str, found) -> bool:
    """Whether a NULL stands where docs/expressions.md says that one does: beyond the calendar, or 10^37."""
    beyond = r"[+*-]|trunc|last_day|strftime|diff|split|timestamp|json|->>|\["
    return found is None and bool(re.search(beyond, text))


# Conditions in parts, of which comparisons stand without TRY: they raise on no value, and keep the same rows.


def check_kept(connection: duckdb.DuckDBPyConnection, relation: str, text: str, schema) -> str:
    """Hold a condition to the whole expression under TRY; return it."""
    one = validate("filter", text, schema)
    whole = f"TRY(TRY_CAST((\n{one.text}\n) AS BOOLEAN))"
    seen = f"SELECT count(*), bit_xor(hash(rows)), sum(hash(rows)) FROM {relation} AS rows WHERE "
    found, expected = (connection.execute(seen + where).fetchall() for where in (one.condition, whole))
    assert found == expected, text
    return one.condition


def comparisons(name: str) -> list[str]:
    kind, values = AWKWARD[name]
    others = [f"CAST('{v}' AS {kind})" for v in values if v is not None]
    others += [n for n in COMPARED if AWKWARD[n][0] == kind]
    made = [f"{name} {sign} {other}" for sign in ("=", "<>", "<", ">", "<=", ">=") for other in others]
    made += [f"{name} BETWEEN {low} AND {high}" for low in others[:3] for high in others[-3:]]
    return [*made, f"{name} IS NOT NULL"]


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "da" else pytest.mark.long) for n in COMPARED]
)
def test_a_plain_comparison_raises_on_no_value(awkward, name):
    of_file = {row[0]: Column(Kind.OTHER, row[1]) for row in awkward.execute("DESCRIBE file").fetchall()}
    for text in comparisons(name):
        assert "TRY" not in check_kept(awkward, "rows", text, SCHEMA)
        check_kept(awkward, "file", text, of_file)  # which has DOUBLE in the place of HUGEINT, and casts


UNDER_TRY = "CAST(s AS INTEGER) > 5; i + 1 > 5; s = 'a'; i = a; NOT bo; i > 5 OR a > 5; st.k > 5; l = l"


@pytest.mark.long
def test_parts_of_conditions(awkward):
    """What may fail stands under TRY; parts are cut at AND alone; many parts stay together."""
    for text in UNDER_TRY.split("; "):
        assert validate("filter", text, SCHEMA).condition.startswith("TRY("), text
    assert validate("filter", "i > 5 AND s = 'a'", SCHEMA).condition.count("TRY(") == 1
    few, many = (" AND ".join(f"i <> {n}" for n in range(1000, 1000 + count)) for count in (50, 51))
    assert "TRY" not in check_kept(awkward, "rows", few, SCHEMA)
    assert check_kept(awkward, "rows", many, SCHEMA).startswith("TRY(")
    chance = random.Random(1)
    for _ in range(3):
        one, two, three = (chance.choice(comparisons(n)) for n in chance.choices(COMPARED, k=3))
        for text in (
            f"{one} AND {two} AND {three}",
            f"({one} OR {two}) AND {three}",
            f"NOT ({one} AND {two})",
        ):
            check_kept(awkward, "rows", text, SCHEMA)


@pytest.mark.long
@many_examples
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_any_condition_keeps_what_its_expression_keeps(awkward, chance, depth):
    text = " AND ".join(f"({expression(chance, list(AWKWARD), depth)})" for _ in range(chance.randint(1, 3)))
    if admitted(text) is not None:
        check_kept(awkward, "rows", text, SCHEMA)


@pytest.mark.long
def test_a_column_may_have_any_name(local_engine):
    """DuckDB gives a subquery without a name one of its own, and ignores the case of ASCII alone."""
    names = ["unnamed_subquery", "steps", "source_rows"]
    structs = pa.array([{"k": i} for i in range(20)])
    opened = local_engine(
        pa.table({"id": range(20), **dict.fromkeys(names, structs), "É": range(20), "K": range(20)})
    )
    for name in names:
        table = Table(opened, "id").with_columns(y=f"{name}.k").filter(f"{name}.k >= 15")
        assert selected(table.filter("y >= 17")) == 3
    with pytest.raises(ColumnError, match="É"):
        Table(opened, "id").filter("é > 3")
    table = Table(opened, "id").with_columns(é="É + 1", k="k + 1").filter("é > 3 AND K > 3")
    assert {"é", "k"} <= set(table.schema) and "K" not in table.schema
    assert selected(table) == 17


# Columns.


@pytest.mark.long
def test_parts_of_longer_columns_are_read(openers):
    """DuckDB stops at structs in structs that are a part: one row more, and so another batch, was an error."""
    structs = [{"a": {"b": ["x"], "c": i}} for i in range(20)]
    given = pa.table({"id": range(20), "st": structs, "li": [[{"k": i}] for i in range(20)]}).slice(5)
    for name in ("duckdb", "stages"):
        table = Table(openers(name)(given), "id").filter("st.a.c >= 15 AND li[1].k < 18")
        assert [selected(table) for _ in range(3)] == [3, 3, 3]


def test_keys_fit_what_holds_them(engine):
    """A group beyond 38 digits made a table that Arrow itself calls invalid."""
    values = ["5", str(2**127 - 1), "-" + "9" * 38]
    table = Table(engine(pa.table({"id": range(60), "s": values * 20})), "id")
    table = table.with_columns(y="CAST(s AS HUGEINT)").group_by("y")
    plan = table.bound(groups=1, rows=1).agg(n=sf.count()).plan(epsilon=1, delta=1e-6)
    found = []
    for batch in table._engine.statistics(plan.exact, 10):
        batch.validate(full=True)
        found += batch.column(0).to_pylist()
    assert {None if v is None else int(v) for v in found} == {5, -(10**38) + 1, None}
