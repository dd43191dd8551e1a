"""SQL text -> query: the same query as the fluent calls, exact numbers, and refusals with their place."""

import dataclasses
import re
from datetime import date
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.api.question import Question
from sfumato.dialect import SqlQuery, parse
from sfumato.dialect.from_clause import From
from sfumato.dialect.keywords import PRIVATE, refusals
from sfumato.errors import QueryError, SqlError
from sfumato.query.query import Query
from sfumato.query.schema import Derive

KINDS: dict[str, Any] = {name: pa.int64() for name in ("id", "year", "age", "docvis", "w")} | {
    "hhninc": pa.float64(), "ok": pa.bool_(), "day": pa.date32(), "city": pa.string(), "school": pa.string(),
    "v": pa.list_(pa.float64()),
}  # fmt: skip
PEOPLE = sf.scan(pa.schema(KINDS.items()).empty_table(), privacy_unit="id")
BY_YEAR = PEOPLE.group_by("year")


def dp(
    select: str, tail: str = "GROUP BY year", options: str = "", clause: str = "DIFFERENTIAL_PRIVACY"
) -> str:
    given = f"epsilon = 1, delta = 1e-6, privacy_unit_column = id{options and ', '}{options}"
    return f"SELECT WITH {clause} OPTIONS ({given})\n{select}\nFROM people\n{tail}"


def opened(text: str, table: sf.Table = PEOPLE) -> Question:
    found = parse(text).question(lambda source, unit: table)
    assert isinstance(found, Question)
    return found


def asked(*given: str, **named: str) -> Query:
    return dataclasses.replace(opened(dp(*given, **named)).query, notes=())


def refused(text: str) -> str:
    """Return the text above the carets of the error."""
    with pytest.raises(SqlError) as caught:
        parse(text)
    _, where, shown, marks = str(caught.value).split("\n")
    line, column = map(int, re.fullmatch(r"line (\d+), column (\d+):", where).groups())
    start = len(marks) - len(marks.lstrip())
    marked = shown[start : start + marks.count("^")]
    source = "".join(c if c.isprintable() else " " for c in re.split(r"\r\n|\r|\n", text)[line - 1])
    assert source[column - 1 :].startswith(marked)
    return marked


# The same query as the fluent calls.

R, G = "contribution_bounds_per_row => (0, 30)", "contribution_bounds_per_group => (0, 30)"
TWO = "contribution_bounds_per_row => ((0, 30), (2.5e1, 64))"
X, BOTH = {"lower": 0, "upper": 30}, {"docvis": (0, 30), "age": (25, 64)}
W, WEIGHT = "weight => people.w, max_weight => 5.5", {"weight": "w", "max_weight": "5.5"}
STRATA = "stratum => school, strata => ['a', 'b'], asked => [3, 2], population => [9, 4]"
SIZES = {"stratum": "school", "asked": {"a": 3, "b": 2}, "population": {"b": 4, "a": 9}}
DAYS, TRUTHS = {date(2024, 1, 31): 2}, {True: 2, False: 3}
SAME: dict[str, dict[str, Any]] = {
    "count( * ) As `n`, COUNT(*) m, ": {"n": sf.count(), "m": sf.count()},
    "COUNT(*), COUNT(ALL city)": {"count": sf.count(), "count_city": sf.count("city")},
    "COUNT(DISTINCT ID)": {"count_units": sf.count_units()},
    f'AVG("docvis", {R})': {"avg_docvis": sf.mean("docvis", **X)},
    f"AVG(people.DOCVIS, {R}) AS v": {"v": sf.mean("docvis", **X)},
    f"SUM(docvis, {R})": {"sum_docvis": sf.sum("docvis", **X, per="row")},
    f"SUM(docvis, {G})": {"sum_docvis": sf.sum("docvis", **X, per="unit")},
    f"VARIANCE(docvis, {R}), STDDEV(age, {R})": {
        "var_docvis": sf.variance("docvis", **X),
        "stddev_age": sf.stddev("age", **X),
    },
    f"COVAR_POP(docvis, age, {TWO})": {"covar_docvis_age": sf.covariance("docvis", "age", bounds=BOTH)},
    f"CORR(people.docvis, `age`, {TWO}) AS r": {"r": sf.correlation("docvis", "age", bounds=BOTH)},
    f"LINEAR_REGRESSION(docvis, age, {TWO}) AS f": {
        "f": sf.linear_regression("docvis", ["age"], bounds=BOTH)
    },
    f"APPROX_QUANTILES(docvis, 4, {R}) AS q": {"q": sf.quantiles("docvis", [0, 0.25, 0.5, 0.75, 1], **X)},
    f"QUANTILES(docvis, [0.1, .5], {R})": {"quantiles_docvis": sf.quantiles("docvis", [0.1, 0.5], **X)},
    f"PERCENTILE_CONT(docvis, 1, {R}, error_bars => FALSE) AS top": {
        "top": sf.quantiles("docvis", 1.0, **X, error_bars=False)
    },
    f"PERCENTILE_CONT(.5, {R}) WITHIN GROUP (ORDER BY docvis) AS a, QUANTILE_CONT(docvis, 0.25, {R})": {
        "a": sf.quantiles("docvis", 0.5, **X),
        "quantile_docvis": sf.quantiles("docvis", 0.25, **X),
    },
    f"PERCENTILE_CONT(1, {R}) WITHIN GROUP (ORDER BY docvis) FILTER (WHERE ok) AS a": {
        "a": sf.quantiles("_value_1", 1.0, **X),
    },
    f"QUANTILES(docvis, [0.5], Error_Bars => true, {R}) AS q": {"q": sf.quantiles("docvis", [0.5], **X)},
    f"COUNT(*, {W}), SUM(age, {R}, {W}), AVG(age, {W}, {R})": {
        "count": sf.count(**WEIGHT),
        "sum_age": sf.sum("age", **X, per="row", **WEIGHT),
        "avg_age": sf.mean("age", **X, **WEIGHT),
    },
    "HISTOGRAM(docvis, [-1, 0, 2.5])": {"histogram_docvis": sf.histogram("docvis", [-1, 0, 2.5])},
    "HISTOGRAM(docvis, [0, 1e2], outside => 'count', shares => TRUE) AS h": {
        "h": sf.histogram("docvis", [0, 100], outside="count", shares=True)
    },
    f"HISTOGRAM(docvis, [0, 9], PER => 'unit', {W}) AS h": {
        "h": sf.histogram("docvis", [0, 9], per="unit", **WEIGHT)
    },
    "VALUE_COUNTS(city, ['a', 'it''s'], other => TRUE) AS c": {
        "c": sf.value_counts("city", ["a", "it's"], other=True)
    },
    "VALUE_COUNTS(age, [3, -1, 2.0, -9223372036854775808])": {
        "value_counts_age": sf.value_counts("age", [3, -1, 2, -(2**63)])
    },
    "VALUE_COUNTS(ok, [TRUE, false]) AS b, VALUE_COUNTS(day, [DATE '2020-02-29']) AS d": {
        "b": sf.value_counts("ok", [True, False]),
        "d": sf.value_counts("day", [date(2020, 2, 29)]),
    },
    "VECTOR_SUM(v, length => 2, bound => 1, norm => 'l1', per => 'row') AS s, VECTOR_AVG(v, bound => 1, length => 2) AS m": {
        "s": sf.vector_sum("v", length=2, bound=1, norm="l1", per="row"),
        "m": sf.vector_mean("v", length=2, bound=1),
    },
    f"STRATIFIED_PROPORTION(ok, confidence => 0.9, {STRATA}) AS p": {
        "p": sf.proportion("ok", confidence="0.9", **SIZES)
    },
    "STRATIFIED_PROPORTION(ok, stratum => day, strata => [DATE '2024-01-31'], asked => [2], population => [2]) AS p": {
        "p": sf.proportion("ok", stratum="day", asked=DAYS, population=DAYS)
    },
    "STRATIFIED_PROPORTION(ok, stratum => ok, strata => [TRUE, false], asked => [2, 3], population => [2, 3]) AS p": {
        "p": sf.proportion("ok", stratum="ok", asked=TRUTHS, population=TRUTHS)
    },
}


def test_distinct_keys_are_groups() -> None:
    text = dp("DISTINCT year, city", "")
    assert opened(text).query.keys == opened(dp("year, city", "GROUP BY ALL")).query.keys == ("year", "city")


@pytest.mark.parametrize("select", SAME)
def test_bigquery_equals_fluent(select: str) -> None:
    assert dict(asked(select, "").aggregates) == SAME[select]


@pytest.mark.parametrize(
    ("select", "aggregate"),
    [
        ("ANON_COUNT(city CLAMPED BETWEEN 0 AND 1)", sf.count("city")),
        ("ANON_COUNT(DISTINCT id)", sf.count_units()),
        ("ANON_COUNT(DISTINCT city CLAMPED BETWEEN 0 AND 3)", sf.count_distinct("city", values=3)),
        ("ANON_SUM(docvis CLAMPED BETWEEN -1 AND 30)", sf.sum("docvis", lower=-1, upper=30, per="unit")),
        ("ANON_AVG(docvis CLAMPED BETWEEN 0 AND 30)", sf.mean("docvis", **X)),
        ("ANON_VAR_POP(docvis CLAMPED BETWEEN 0 AND 30)", sf.variance("docvis", **X)),
        ("ANON_QUANTILES(docvis, 2 CLAMPED BETWEEN 0 AND 30)", sf.quantiles("docvis", [0, 0.5, 1], **X)),
        ("ANON_PERCENTILE_CONT(docvis, 0.9 CLAMPED BETWEEN 0 AND 30)", sf.quantiles("docvis", 0.9, **X)),
    ],
)
def test_zetasql_equals_fluent(select: str, aggregate: Any) -> None:
    found = asked(f"year, {select} x, ANON_COUNT(*) AS n", options="kappa = 3", clause="ANONYMIZATION")
    assert found == BY_YEAR.bound(groups=3, rows=1).agg(x=aggregate, n=sf.count()).query


@pytest.mark.parametrize("function", ["COUNT(DISTINCT city, {})", "APPROX_COUNT_DISTINCT(city, {})"])
def test_different_values(function: str) -> None:
    found = asked(f"year, {function.format('contribution_bounds_per_group => (0, 3)')}")
    method = "shares" if "APPROX" in function else "matching"
    counted = sf.count_distinct("city", values=3, method=method)
    assert found == BY_YEAR.bound(groups=1).agg(count_distinct_city=counted).query


@pytest.mark.parametrize("clause", ["DIFFERENTIAL_PRIVACY", "ANONYMIZATION"])
def test_limits_of_rows(clause: str) -> None:
    older = clause == "ANONYMIZATION"
    count = "ANON_COUNT(*)" if older else "COUNT(*)"
    bounded = f"{count[:-1]}{' CLAMPED BETWEEN 0 AND 2' if older else f', {G}'.replace('30', '2')})"
    total = asked(f"year, {count} AS n", options="max_rows_contributed = 5", clause=clause)
    assert total == BY_YEAR.bound(total_rows=5).agg(n=sf.count()).query
    for select, options in (
        (bounded, ""),
        (count, "max_rows_per_group = 2"),
        (bounded, "max_rows_per_group = 2"),
    ):
        assert parse(dp(f"year, {select}", options=options, clause=clause)).rows == 2
    for options in ("max_rows_contributed = 5", "max_rows_per_group = 3"):
        assert refused(dp(f"year, {bounded}", options=options, clause=clause)) == "2"


def test_whole_example() -> None:
    query = parse(
        "select with differential_privacy options (EPSILON = .5, delta = 1E-6, privacy_unit_column = p.id,\n"
        "  max_groups_contributed = 5, max_rows_per_group = 2, noise_kind = Gaussian, group_selection = 'laplace',\n"
        "  min_privacy_units_per_group = 10)\n"
        "  -- doctors\n"
        "  p.year, count(*) as n /* rows */\n"
        "from \"d ir/file.parquet\" as p where p.age  >= 25 and city <> 'p.x' and s.p.x > 1 -- adults\n"
        "group by p.year;"
    )
    options = {
        "epsilon": ".5",
        "delta": "1E-6",
        "noise": "gaussian",
        "group_selection": "laplace",
        "pre_threshold": 10,
    }
    assert query.release_options == options
    assert query == SqlQuery(
        tables=From("d ir/file.parquet", "p"),
        plain=frozenset({"city", "s"}),
        where="age  >= 25 and city <> 'p.x' and s.p.x > 1",
        keys=("year",),
        aggregates=(("n", sf.count()),),
        privacy_unit_column="id",
        groups=5,
        rows=2,
        **options,
    )


@pytest.mark.parametrize(
    ("written", "source", "alias"),
    [
        ("'it''s a b/*.csv' AS t", "it's a b/*.csv", "t"),
        ('"file.parquet"', "file.parquet", None),
        ("main.visits", "main.visits", "visits"),
        ("`my-project`.data.visits AS `v w`", "my-project.data.visits", "v w"),
    ],
)
def test_sources(written: str, source: str, alias: str | None) -> None:
    query = parse(dp("COUNT(*)", "").replace("FROM people", f"FROM {written}"))
    assert (query.source, query.tables.alias) == (source, alias)


def test_generated_names_do_not_clash() -> None:
    table = sf.scan(pa.table({"id": [1], "_value_1": [1.0], "x": [1.0]}), privacy_unit="id")
    for select in (f"AVG(x + 1, {R}) AS a, AVG(_value_1, {R}) AS b", f"AVG(x + 1, {R}) AS a"):
        (step,) = opened(dp(select, ""), table).table._steps
        assert step.expression == "x + 1" and step.name not in table.schema


def test_a_key_may_hide_a_source_column() -> None:
    found = opened(dp(f"age // 10 AS age, AVG(age, {R}) AS a, AVG(age + 1, {R}) AS b", "GROUP BY 1"))
    *early, last = found.table._steps
    names = {s.expression: s.name for s in early}
    assert last == Derive("age", "age // 10") and set(names) == {'"age"', "age + 1"}
    assert {n: a.column for n, a in found.aggregates} == {"a": names['"age"'], "b": names["age + 1"]}
    swapped = opened(dp("age AS year, year AS age, COUNT(*) AS n", "GROUP BY 1, 2")).table
    first, second, third, fourth = swapped._steps
    assert (first.expression, second.expression) == ("age", "year") and swapped.keys == ("year", "age")
    assert third == Derive("year", f'"{first.name}"') and fourth == Derive("age", f'"{second.name}"')


@pytest.mark.parametrize(
    "expression",
    [
        "list_max(list_transform([age, docvis], lambda x: x + 1))",
        "{'a': age}['a']",
        "'a\\' || city",
        "$$GROUP BY$$ || city",
        "regexp_matches(city, 'GROUP BY|\\d''') and a IS DISTINCT FROM b",
    ],
)
def test_row_expressions_are_duckdb_text(expression: str) -> None:
    query = parse(
        dp(f"AVG({expression}, {R}) AS a, {expression} AS k", f"WHERE {expression} GROUP BY {expression}")
    )
    assert query.where == expression and {e for _, e in query.derived} == {expression}


# Numbers are exact.


@settings(max_examples=25, deadline=None)
@given(
    sign=st.sampled_from(["", "-", "+"]),
    whole=st.integers(0, 10**30).map(str),
    part=st.one_of(st.just(""), st.integers(0, 10**20).map(".{}".format)),
    power=st.one_of(st.just(""), st.integers(-300, 300).map("e{}".format)),
)
def test_numbers_are_exactly_as_written(sign: str, whole: str, part: str, power: str) -> None:
    number = whole + part + power
    if Fraction(number) > 0:
        query = parse(dp("COUNT(*)", "").replace("epsilon = 1,", f"epsilon = {number},"))
        assert Fraction(query.release_options["epsilon"]) == Fraction(number)
    if Fraction(number) < 10**60:
        query = parse(dp(f"SUM(x, contribution_bounds_per_group => ({sign} {number}, 1e61)) AS s", ""))
        assert query.aggregates[0][1].lower == Fraction(sign + number)


# Refusals, each with its place: what would be answered otherwise than it is written, if it were accepted.

TEXTS = [
    ("", ""),
    ("SELECT COUNT(*) FROM t", "COUNT"),
    ("SELECT WITH DIFERENTIAL_PRIVACY OPTIONS () 1", "DIFERENTIAL_PRIVACY"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM t", "COUNT"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t", "DIFFERENTIAL_PRIVACY"),
]


OPTIONS = [
    ("epsilom = 1", "epsilom"),
    ("epsilon = 2", "epsilon"),
    ("max_groups_contributed = 0", "0"),
    ("noise = gausian", "gausian"),
    ("group_selection_strategy = PUBLIC_GROUPS", "PUBLIC_GROUPS"),
    ("max_rows_contributed = 5, max_rows_per_group = 2", "max_rows_per_group"),
    ("max_groups_contributed = 2 + 1", "+"),
]


BUDGETS = [
    ("epsilon = 1", "epsilon = 0", "0"),
    ("epsilon = 1", "epsilon = 1/3", "/"),
    ("delta = 1e-6", "delta = 1", "1"),
    ("delta = 1e-6, ", "", "DIFFERENTIAL_PRIVACY"),
    ("privacy_unit_column = id", "privacy_unit_column = 3", "3"),
]
SELECTS = [
    ("DISTINCT year, COUNT(*)", "DISTINCT"),
    (f"AVG(x, {R}) WITHIN GROUP (ORDER BY y)", "WITHIN"),
    (f"PERCENTILE_CONT(0.5, {R}) WITHIN GROUP (x)", "WITHIN"),
    (f"PERCENTILE_CONT(0.5, {R}) WITHIN GROUP (ORDER BY x DESC)", "DESC"),
    (f"AVG(x, {G})", G),
    (f"CORR(x, x, {TWO})", "x"),
    (f"COVAR_POP(x, y, {R})", R),
    (f"LINEAR_REGRESSION(y, a, b, {TWO})", TWO),
    (f"COUNTIF(x > 1, {G.replace('0,', '1,')})", "1"),
    ("COUNT(DISTINCT id) FILTER (WHERE x > 1)", "x > 1"),
    ("COUNT(DISTINCT city)", "COUNT"),
    (f"COUNT(DISTINCT city, {G.replace('0,', '1,')})", "1"),
    ("COUNT(*, weight => w, max_weight => 0)", "0"),
    (f"COUNT(DISTINCT id, {W})", "COUNT"),
    (f"SUM(x, {G}, {W})", G),
    (f"AVG(x, {R.replace('0,', '30,')})", R.replace("0,", "30,")),
    ("AVG(x CLAMPED BETWEEN 0 AND 1)", "CLAMPED BETWEEN 0 AND 1"),
    (f"COUNT(*, {G.replace('0,', '1,')})", "1"),
    (f"COUNT(*, {G}) AS a, COUNT(x, {G.replace('30', '3')})", "3"),
    (f"APPROX_QUANTILES(x, 0, {R})", "0"),
    (f"QUANTILES(x, [0.5, 1.5], {R})", "1.5"),
    ("HISTOGRAM(x, [0, 1, 1])", "1"),
    ("VALUE_COUNTS(x, ['a', 1])", "1"),
    ("VALUE_COUNTS(x, [9223372036854775808])", "9223372036854775808"),
    (f"STRATIFIED_PROPORTION(x, {STRATA.replace('4]', '4, 5]')})", "9, 4, 5"),
    (f"STRATIFIED_PROPORTION(x, {STRATA.replace('[3', '[1')})", "'a'"),
    ("ANON_COUNT(*)", "ANON_COUNT"),
    (f"SUM(MAX(x), {R})", "MAX"),
    ("COUNT(*) FILTER (WHERE x IN (SELECT 1))", "SELECT"),
    (f"AVG((SELECT 1), {R})", "SELECT"),
    ("city, COUNT(*)", "city"),
    (f"COUNT(*) AS n, SUM(x, {R}) AS N", "N"),
]


TAILS = [
    ("GROUP BY year; SELECT 1", ";"),
    ("GROUP BY " + "year, " * 2000 + "city", "city"),
    ("WHERE year = ALL (SELECT 1)", "SELECT"),
    ("TABLESAMPLE BERNOULLI (1 PERCENT)", "TABLESAMPLE"),
    ("GROUP BY year, n", "n"),
    ("", "year"),
    ("AS p RIGHT JOIN other USING (id)", "RIGHT"),
    ("ASOF JOIN other USING (id, age)", "ASOF"),
]


SOURCES = [("read_csv('x')", "("), ("my-project.x", "-"), ("''", "''"), ("3", "3")]
YEARS = dp("year, COUNT(*)")
REFUSED = [
    *TEXTS,
    *((dp("year, COUNT(*)", options=options), marked) for options, marked in OPTIONS),
    *((YEARS.replace(old, new), marked) for old, new, marked in BUDGETS),
    *((dp(f"year, {select}"), marked) for select, marked in SELECTS),
    *((dp("year, COUNT(*) AS n", tail), marked) for tail, marked in TAILS),
    *((YEARS.replace("people", source), marked) for source, marked in SOURCES),
]


@pytest.mark.parametrize(("text", "marked"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(text: str, marked: str) -> None:
    assert refused(text) == marked


KEYS = ["*", "people.*", "DISTINCT year", "AS STRUCT year", "1", "id, COUNT(*)", "year AS ID, COUNT(*)"]

ANONYMIZED = [
    "COUNT(*)",
    "HISTOGRAM(x, [0, 1])",
    "ANON_SUM(x)",
    f"ANON_SUM(x, {G})",
    "ANON_SUM(x CLAMPED BETWEEN 3 AND 1)",
    "ANON_COUNT(* CLAMPED BETWEEN 1 AND 2)",
]


def test_keys_are_not_the_privacy_unit_and_older_calls_are_for_the_older_clause() -> None:
    for select in KEYS:  # nor all columns, nor constants alone
        refused(dp(select, "GROUP BY 1"))
    for select in ANONYMIZED:
        refused(dp(f"year, {select}", clause="ANONYMIZATION"))


def test_group_options_need_groups() -> None:
    for option in ("pre_threshold = 3", "group_selection = laplace"):
        assert refused(dp("COUNT(*)", "", option)) == option.split(" ")[0]


def test_no_aggregate_hides_in_a_row_expression() -> None:
    for name in (*PRIVATE, *refusals("aggregates")):
        assert refused(dp(f"COUNT([{name.lower()} (x)])", "")) == name.lower()
        assert refused(dp("COUNT(*)", f"WHERE CASE WHEN {name}(x) THEN 1 END")) == name


# Garbage in, SqlError out.

SEEDS = [
    dp(f"year, COUNT(*) AS n, AVG(docvis, {R}) AS v", "WHERE age >= 25 GROUP BY year"),
    dp(
        "CAST(age/10 AS INT64) AS d, APPROX_QUANTILES(x, 4, contribution_bounds_per_row => (-1.5, 1e3)) AS q, "
        f"QUANTILES(x, [0.25, .5], {R}), COUNT(DISTINCT id)",
        "GROUP BY 1",
        "max_groups_contributed = 3, noise = laplace, pre_threshold = 2",
    ),
    dp(
        "t.year, ANON_SUM(x CLAMPED BETWEEN 0 AND 3) AS s, ANON_COUNT(* CLAMPED BETWEEN 0 AND 2) c",
        "AS t WHERE a IS DISTINCT FROM 'b''c' AND [1, {'a': 2}][1] > 0 GROUP BY ALL;",
        "kappa = 2",
        "ANONYMIZATION",
    ),
    dp(
        f"year, age % 10 AS e, (age % 10) * 10 AS d, SUM(x, {R}) / COUNT(*) AS r, "
        "DP_INTERVAL_LOW(count) AS low, rank() OVER (ORDER BY COUNT(*)) k, COUNT(*)",
        "GROUP BY year, age % 10 HAVING COUNT(*) > 3 QUALIFY k < 3 ORDER BY 2 DESC NULLS LAST, r LIMIT 3 OFFSET 1",
    ),
    f"WITH t AS ({dp('year, COUNT(*) AS n')}) SELECT *, DP_INTERVAL_HIGH(t.n) FROM t JOIN (SELECT max(n) AS m FROM t) "
    "ON n < m WHERE year IN (1, 2)",
]
ODD = (
    "( ) (( [ ] { } ' \" ` $$ $ -- /* */ ; ? @ @@ # \\ \0 :: -> := => |> e'\\ 0x 1e é 中 \u2028 😀 SELECT FROM JOIN "
    "OVER INTERVAL CASE CAST( EXTRACT( NOT IN BETWEEN lambda LIKE ANY( EXISTS ARRAY[ MAP STRUCT TRY_CAST( PIVOT TABLE "
    "COLUMNS(*) JSON XML( DATE COLLATE AT TIME ZONE"
)
WORDS = [*re.findall(r"\w+|\s+|[^\w\s]+", " ".join(SEEDS)), *ODD.split(" ")]


@st.composite
def mutations(draw: st.DrawFn) -> str:
    words = re.findall(r"\w+|\s+|[^\w\s]", draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 6))):
        i = draw(st.integers(0, len(words)))
        j = min(len(words), i + draw(st.integers(0, 3)))
        words[i:j] = draw(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=3)), max_size=3))
    return "".join(words)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.one_of(mutations(), st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)))
def test_garbage_gives_sql_errors_alone(text: str) -> None:
    try:
        query = parse(text)
    except QueryError:
        return
    assert isinstance(query, SqlQuery) and (query.aggregates or query.refused)
