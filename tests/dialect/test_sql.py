"""SQL text -> question: acceptance, refusals with their place, and the same question as the fluent calls."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.api.question import Question
from sfumato.api.table import Table
from sfumato.dialect import SqlQuery, parse
from sfumato.dialect.from_clause import From
from sfumato.dialect.keywords import PRIVATE, refusals
from sfumato.dialect.sql_tokens import tokenize
from sfumato.errors import ColumnError, QueryError, SqlError
from sfumato.query import aggregates as sf
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Column, Derive, Filter, Kind, Schema, Step


class FakeEngine:
    """Knows columns by name only; whatever is derived is real."""

    name = "fake"
    noises = ("laplace", "gaussian")

    def __init__(self, **kinds: str) -> None:
        self.columns = {n: Column(Kind(k), k.upper()) for n, k in kinds.items()}

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        derived = {s.name: Column(Kind.REAL, "DOUBLE") for s in steps if isinstance(s, Derive)}
        return {**self.columns, **derived}

    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        raise NotImplementedError

    def reads_zone(self, steps: Sequence[Step] = ()) -> bool:
        return False

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


ENGINE = FakeEngine(
    id="integer",
    year="integer",
    age="integer",
    docvis="integer",
    hhninc="real",
    city="other",
    edlevel="other",
)
PEOPLE = Table(ENGINE, "id")


def open_people(source: str, privacy_unit: str) -> Table:
    assert source == "people"
    return Table(ENGINE, privacy_unit)


def dp(
    select: str, tail: str = "GROUP BY year", options: str = "", clause: str = "DIFFERENTIAL_PRIVACY"
) -> str:
    options = f", {options}" if options else ""
    return (
        f"SELECT WITH {clause} OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id{options})\n"
        f"{select}\nFROM people\n{tail}"
    )


def asked(
    select: str, tail: str = "GROUP BY year", options: str = "", clause: str = "DIFFERENTIAL_PRIVACY"
) -> Question:
    return parse(dp(select, tail, options, clause)).question(open_people)


def without_notes(question: Question) -> Question:
    return dataclasses.replace(question, table=dataclasses.replace(question.table, notes=()))


def refused(text: str) -> tuple[str, str]:
    """Return the error's first line, and the text above its carets."""
    with pytest.raises(SqlError) as caught:
        parse(text)
    message, where, shown, marks = str(caught.value).split("\n")
    line, column = map(int, re.fullmatch(r"line (\d+), column (\d+):", where).groups())
    source = re.split(r"\r\n|\r|\n", text)[line - 1]
    start = len(marks) - len(marks.lstrip())
    marked = shown[start : start + marks.count("^")]
    printable = "".join(c if c.isprintable() else " " for c in source)
    assert printable[column - 1 :].startswith(marked)
    return message, marked


# The same question as the fluent calls.

ROWS = "contribution_bounds_per_row => (0, 30)"
STRATA = "stratum => s, strata => ['a', 'b'], asked => [3, 2], population => [9, 4]"
BY_YEAR = PEOPLE.group_by("year").bound(groups=1, rows=1)


@pytest.mark.parametrize("clause", ["DIFFERENTIAL_PRIVACY", "ANONYMIZATION"])
def test_a_limit_of_rows_over_all_groups(clause: str) -> None:
    older = clause == "ANONYMIZATION"
    count = "ANON_COUNT(*)" if older else "COUNT(*)"
    total = "ANON_SUM(age CLAMPED BETWEEN 0 AND 30)" if older else f"SUM(age, {ROWS})"
    question = asked(f"year, {count} AS n, {total} AS s", options="max_rows_contributed = 5", clause=clause)
    chain = PEOPLE.group_by("year").bound(total_rows=5)
    per = {"per": "unit" if older else "row"}
    same = chain.agg(n=sf.count(), s=sf.sum("age", lower=0, upper=30, **per))
    assert without_notes(question).query == same.query
    assert not [note for note in question.table.notes if "max_groups" in note or "max_rows" in note]
    whole = asked(f"{count} AS n", "", "max_rows_contributed = 5", clause)
    assert without_notes(whole).query == PEOPLE.bound(total_rows=5).agg(n=sf.count()).query
    bounded = (
        f"{count[:-1]} CLAMPED BETWEEN 0 AND 4)"
        if older
        else "COUNT(*, contribution_bounds_per_group => (0, 4))"
    )
    message, _ = refused(dp(f"year, {bounded}", options="max_rows_contributed = 5", clause=clause))
    assert "a COUNT is bounded by 4 in each group, but max_rows_contributed = 5" in message


@pytest.mark.parametrize(
    ("select", "aggregates"),
    [
        ("year, COUNT(*) AS n", {"n": sf.count()}),
        ("year, COUNT(*) n", {"n": sf.count()}),
        ("year, count( * ) As `n`", {"n": sf.count()}),
        ("COUNT(*), year", {"count": sf.count()}),
        ("year, COUNT(city)", {"count_city": sf.count("city")}),
        ("year, COUNT(*), ", {"count": sf.count()}),
        (f"year, AVG(docvis, {ROWS})", {"avg_docvis": sf.mean("docvis", lower=0, upper=30)}),
        (f'year, AVG("docvis", {ROWS})', {"avg_docvis": sf.mean("docvis", lower=0, upper=30)}),
        (f"year, AVG(people.DOCVIS, {ROWS}) AS v", {"v": sf.mean("docvis", lower=0, upper=30)}),
        (f"year, SUM(docvis, {ROWS})", {"sum_docvis": sf.sum("docvis", lower=0, upper=30, per="row")}),
        (f"year, VAR_POP(docvis, {ROWS})", {"var_docvis": sf.variance("docvis", lower=0, upper=30)}),
        (f"year, VARIANCE(docvis, {ROWS})", {"var_docvis": sf.variance("docvis", lower=0, upper=30)}),
        (
            "year, COVAR_POP(docvis, age, contribution_bounds_per_row => ((0, 30), (2.5e1, 64)))",
            {"covar_docvis_age": sf.covariance("docvis", "age", bounds={"docvis": (0, 30), "age": (25, 64)})},
        ),
        (
            "year, CORR(people.docvis, `age`, contribution_bounds_per_row => ((0, 30), (25, 64))) AS r",
            {"r": sf.correlation("docvis", "age", bounds={"docvis": (0, 30), "age": (25, 64)})},
        ),
        (
            "year, LINEAR_REGRESSION(docvis, age, contribution_bounds_per_row => ((0, 30), (25, 64))) AS fit",
            {"fit": sf.linear_regression("docvis", ["age"], bounds={"docvis": (0, 30), "age": (25, 64)})},
        ),
        (f"year, STDDEV_POP(docvis, {ROWS})", {"stddev_docvis": sf.stddev("docvis", lower=0, upper=30)}),
        (f"year, STDDEV(docvis, {ROWS})", {"stddev_docvis": sf.stddev("docvis", lower=0, upper=30)}),
        (
            f"year, APPROX_QUANTILES(docvis, 4, {ROWS}) AS q",
            {"q": sf.quantiles("docvis", [0, 0.25, 0.5, 0.75, 1], lower=0, upper=30)},
        ),
        (
            f"year, QUANTILES(docvis, [0.1, .5], {ROWS})",
            {"quantiles_docvis": sf.quantiles("docvis", [0.1, 0.5], lower=0, upper=30)},
        ),
        (
            "year, HISTOGRAM(docvis, [-1, 0, 2.5])",
            {"histogram_docvis": sf.histogram("docvis", [-1, 0, 2.5])},
        ),
        ("year, HISTOGRAM(docvis, [0, 1e2]) AS h", {"h": sf.histogram("docvis", [0, 100])}),
        (
            "year, HISTOGRAM(docvis, [0, 9], outside => 'count', shares => TRUE) AS h",
            {"h": sf.histogram("docvis", [0, 9], outside="count", shares=True)},
        ),
        (
            "year, VALUE_COUNTS(docvis, [0, -1, 2.0])",
            {"value_counts_docvis": sf.value_counts("docvis", [0, -1, 2])},
        ),
        (
            "year, HISTOGRAM(docvis, [0, 9], weight => age, max_weight => 50) AS h",
            {"h": sf.histogram("docvis", [0, 9], weight="age", max_weight=50)},
        ),
        (
            f"year, PERCENTILE_CONT(docvis, 0.5, {ROWS})",
            {"percentile_docvis": sf.quantiles("docvis", 0.5, lower=0, upper=30)},
        ),
        (
            f"year, PERCENTILE_CONT(docvis, 1, {ROWS}) AS top",
            {"top": sf.quantiles("docvis", 1.0, lower=0, upper=30)},
        ),
        (
            f"year, PERCENTILE_CONT(docvis, 1, {ROWS}, error_bars => FALSE) AS top",
            {"top": sf.quantiles("docvis", 1.0, lower=0, upper=30, error_bars=False)},
        ),
        (
            f"year, QUANTILES(docvis, [0.5], Error_Bars => true, {ROWS}) AS q",
            {"q": sf.quantiles("docvis", [0.5], lower=0, upper=30)},
        ),
    ],
)
def test_bigquery_equals_fluent(select: str, aggregates: dict[str, sf.Aggregate]) -> None:
    assert without_notes(asked(select)) == BY_YEAR.agg(**aggregates)


def test_a_stratified_proportion_is_that_of_python() -> None:
    def of(call: str) -> Any:
        text = f"OPTIONS (epsilon = 1, privacy_unit_column = id, max_rows_per_group = 1) {call}"
        query = parse(f"SELECT WITH DIFFERENTIAL_PRIVACY {text} FROM t AS p")
        return query.aggregates, query.derived

    asked, population = {"a": 3, "b": 2}, {"b": 4, "a": 9}
    sizes: dict[str, Any] = {"asked": asked, "population": population}
    plain = sf.proportion("ok", stratum="school", **sizes)
    assert of(f"STRATIFIED_PROPORTION(ok, {STRATA.replace('=> s,', '=> school,')})")[0] == (
        ("proportion_ok", plain),
    )
    given = STRATA.replace("=> s,", "=> p.`school`,")
    aggregates, derived = of(f"STRATIFIED_PROPORTION(p.reply = 'yes', confidence => 0.9, {given}) AS x")
    assert derived == (("_value_1", "reply = 'yes'"),)
    assert aggregates == (("x", sf.proportion("_value_1", stratum="school", confidence="0.9", **sizes)),)
    days = {date(2024, 1, 31): 2}
    by_day = "stratum => day, strata => [DATE '2024-01-31'], asked => [2], population => [2]"
    assert of(f"STRATIFIED_PROPORTION(ok, {by_day}) AS x")[0] == (
        ("x", sf.proportion("ok", stratum="day", asked=days, population=days)),
    )
    truths = {True: 2, False: 3}
    by_truth = "stratum => ok, strata => [TRUE, false], asked => [2, 3], population => [2, 3]"
    assert of(f"STRATIFIED_PROPORTION(ok, {by_truth}) AS x")[0] == (
        ("x", sf.proportion("ok", stratum="ok", asked=truths, population=truths)),
    )


def test_sum_per_group_needs_no_rows() -> None:
    question = asked(
        "year, SUM(docvis, contribution_bounds_per_group => (-1.5, +3e1)) AS s, COUNT(DISTINCT ID) AS p"
    )
    table = PEOPLE.group_by("year").bound(groups=1)
    expected = table.agg(s=sf.sum("docvis", lower="-1.5", upper=30, per="unit"), p=sf.count_units())
    assert without_notes(question) == expected
    assert question.table.notes == (
        "max_groups_contributed was not given: a privacy unit counts in at most 1 group (BigQuery's default).",
    )


@pytest.mark.parametrize(
    ("select", "aggregate"),
    [
        ("ANON_COUNT(*) AS x", sf.count()),
        ("ANON_COUNT(* CLAMPED BETWEEN 0 AND 1) AS x", sf.count()),
        ("ANON_COUNT(city CLAMPED BETWEEN 0 AND 1) AS x", sf.count("city")),
        ("ANON_COUNT(DISTINCT id) AS x", sf.count_units()),
        ("ANON_COUNT(DISTINCT city CLAMPED BETWEEN 0 AND 3) AS x", sf.count_distinct("city", values=3)),
        ("ANON_SUM(docvis CLAMPED BETWEEN -1 AND 30) x", sf.sum("docvis", lower=-1, upper=30, per="unit")),
        ("ANON_AVG(docvis CLAMPED BETWEEN 0 AND 30) x", sf.mean("docvis", lower=0, upper=30)),
        ("ANON_VAR_POP(docvis CLAMPED BETWEEN 0 AND 30) x", sf.variance("docvis", lower=0, upper=30)),
        ("ANON_STDDEV_POP(docvis CLAMPED BETWEEN 0 AND 30) x", sf.stddev("docvis", lower=0, upper=30)),
        (
            "ANON_QUANTILES(docvis, 2 CLAMPED BETWEEN 0 AND 30) x",
            sf.quantiles("docvis", [0, 0.5, 1], lower=0, upper=30),
        ),
        (
            "ANON_PERCENTILE_CONT(docvis, 0.9 CLAMPED BETWEEN 0 AND 30) x",
            sf.quantiles("docvis", 0.9, lower=0, upper=30),
        ),
        (
            "ANON_PERCENTILE_CONT(docvis, 0.9 CLAMPED BETWEEN 0 AND 30, error_bars => false) x",
            sf.quantiles("docvis", 0.9, lower=0, upper=30, error_bars=False),
        ),
    ],
)
def test_zetasql_equals_fluent(select: str, aggregate: sf.Aggregate) -> None:
    question = asked(f"year, {select}, ANON_COUNT(*) AS n", options="kappa = 3", clause="ANONYMIZATION")
    expected = PEOPLE.group_by("year").bound(groups=3, rows=1).agg(x=aggregate, n=sf.count())
    assert without_notes(question) == expected


@pytest.mark.parametrize(
    ("select", "name", "method"),
    [
        ("COUNT(DISTINCT city, {})", "count_distinct_city", "matching"),
        ("count(distinct city, {}) AS n", "n", "matching"),
        ("APPROX_COUNT_DISTINCT(city, {})", "count_distinct_city", "shares"),
    ],
)
def test_different_values(select, name, method):
    question = asked(
        f"year, {select.format('contribution_bounds_per_group => (0, 3)')}",
        options="max_groups_contributed = 3",
    )
    counted = sf.count_distinct("city", values=3, method=method)
    assert without_notes(question) == PEOPLE.group_by("year").bound(groups=3).agg(**{name: counted})


@pytest.mark.parametrize(
    ("select", "options"),
    [
        ("COUNT(*, contribution_bounds_per_group => (0, 2))", ""),
        ("COUNT(city, contribution_bounds_per_group => (0, 2)) AS count", ""),
        ("COUNT(*)", "max_rows_per_group = 2"),
        ("COUNT(*, contribution_bounds_per_group => (0, 2))", "max_rows_per_group = 2"),
    ],
)
def test_rows_per_group(select: str, options: str) -> None:
    assert parse(dp(f"year, {select}", options=options)).rows == 2


def test_whole_example() -> None:
    query = parse(
        "select with differential_privacy options (EPSILON = .5, delta = 1E-6, privacy_unit_column = p.id,\n"
        "  max_groups_contributed = 5, max_rows_per_group = 2, noise_kind = Gaussian, group_selection = 'laplace',\n"
        "  min_privacy_units_per_group = 10)\n"
        "  -- doctors\n"
        "  p.year, count(*) as n /* rows */\n"
        "from \"d ir/file.parquet\" as p where p.age  >= 25 and city <> 'p.x' -- adults\n"
        "group by p.year;"
    )
    assert query == SqlQuery(
        tables=From("d ir/file.parquet", "p"),
        plain=frozenset({"city"}),
        where="age  >= 25 and city <> 'p.x'",
        derived=(),
        keys=("year",),
        aggregates=(("n", sf.count()),),
        epsilon=".5",
        delta="1E-6",
        privacy_unit_column="id",
        groups=5,
        rows=2,
        noise="gaussian",
        group_selection="laplace",
        pre_threshold=10,
        notes=(),
    )
    assert query.release_options == {
        "epsilon": ".5",
        "delta": "1E-6",
        "noise": "gaussian",
        "group_selection": "laplace",
        "pre_threshold": 10,
    }


@pytest.mark.parametrize(
    ("written", "source", "alias"),
    [
        ("'a b/*.parquet'", "a b/*.parquet", None),
        ("'it''s.csv' AS t", "it's.csv", "t"),
        ('"file.parquet"', "file.parquet", None),
        ("visits", "visits", "visits"),
        ("visits v", "visits", "v"),
        ("main.visits", "main.visits", "visits"),
        ("`project.visits`", "project.visits", "visits"),
        ("`my-project`.data.visits AS `v w`", "my-project.data.visits", "v w"),
    ],
)
def test_sources(written: str, source: str, alias: str | None) -> None:
    query = parse(dp("COUNT(*)", "").replace("FROM people", f"FROM {written}"))
    assert (query.source, query.tables.alias) == (source, alias)


@pytest.mark.parametrize("by", ["1", "decade", "DECADE", "cast(AGE/10 as INT64)", "ALL"])
def test_derived_key(by: str) -> None:
    question = asked("CAST(age/10 AS INT64) AS decade, COUNT(*) AS n", f"WHERE age > 3 GROUP BY {by}")
    expected = (
        PEOPLE.filter("age > 3")
        .with_columns(decade="CAST(age/10 AS INT64)")
        .group_by("decade")
        .bound(groups=1, rows=1)
        .agg(n=sf.count())
    )
    assert without_notes(question) == expected


def test_keys_follow_the_select_list() -> None:
    query = parse(dp("edlevel AS school, COUNT(*), year, age % 2", "GROUP BY 4, year, edlevel"))
    assert query.keys == ("school", "year", "key_4")
    assert query.derived == (("school", "edlevel"), ("key_4", "age % 2"))


def test_same_expression_is_derived_once() -> None:
    question = asked(f"year, AVG(docvis * 2, {ROWS}) AS m, SUM(DOCVIS*2, {ROWS}) AS s")
    assert question.table._steps == (Derive("_value_1", "docvis * 2"),)
    assert {a.column for _, a in question.aggregates} == {"_value_1"}


def test_generated_names_do_not_clash() -> None:
    engine = FakeEngine(id="integer", _value_1="real", x="real")
    query = parse(dp(f"AVG(x + 1, {ROWS}) AS a, AVG(_value_1, {ROWS}) AS b", ""))
    question = query.question(lambda source, unit: Table(engine, unit))
    (step,) = question.table._steps
    columns = {name: a.column for name, a in question.aggregates}
    assert step.expression == "x + 1" and columns == {"a": step.name, "b": "_value_1"}
    assert step.name not in engine.columns
    query = parse(dp(f"AVG(x + 1, {ROWS}) AS a", ""))
    question = query.question(lambda source, unit: Table(engine, unit))
    assert question.table._steps[0].name not in engine.columns


def test_a_key_may_hide_a_source_column() -> None:
    question = asked(f"age // 10 AS age, AVG(age, {ROWS}) AS a, AVG(age + 1, {ROWS}) AS b", "GROUP BY 1")
    *early, last = question.table._steps
    assert last == Derive("age", "age // 10")
    assert {s.expression for s in early} == {'"age"', "age + 1"}
    names = {s.expression: s.name for s in early}
    assert {n: a.column for n, a in question.aggregates} == {"a": names['"age"'], "b": names["age + 1"]}
    assert question.table.keys == ("age",)


def test_two_keys_may_swap_names() -> None:
    question = asked("age AS year, year AS age, COUNT(*) AS n", "GROUP BY 1, 2")
    first, second, third, fourth = question.table._steps
    assert (first.expression, second.expression) == ("age", "year")
    assert third == Derive("year", f'"{first.name}"') and fourth == Derive("age", f'"{second.name}"')
    assert question.table.keys == ("year", "age")


def test_a_column_may_be_called_self() -> None:
    engine = FakeEngine(id="integer")
    engine.columns["self"] = Column(Kind.REAL, "DOUBLE")
    query = parse(dp(f"self + 1 AS self, AVG(self, {ROWS}) AS s", "GROUP BY 1"))
    question = query.question(lambda source, unit: Table(engine, unit))
    assert question.table._steps == (Derive("_self", '"self"'), Derive("self", "self + 1"))
    assert parse(dp("COUNT(*) AS self", "")).question(open_people).output_names == ("self",)


def test_where_comes_first_and_text_is_kept() -> None:
    text = "regexp_matches(city, 'GROUP BY|\\d''') and x::INT in (1, /* two */ 2) and a IS DISTINCT FROM b"
    question = asked("COUNT(*) AS n", f"WHERE {text}")
    assert question.table._steps == (Filter(text),)


@pytest.mark.parametrize(
    "expression",
    [
        "age // 10",
        "list_max(list_transform([age, docvis], lambda x: x + 1))",
        "case when city = 'x' then 1 end",
        "try_cast(city AS DOUBLE)",
        "{'a': age}['a']",
        "docvis::DOUBLE ** 2",
        "coalesce(hhninc, 0) - -1",
        "extract(year from date '2020-01-01')",
        'length("city")',
        "'a\\' || city",
        "`age` + 1",
        "$$GROUP BY$$ || city",
    ],
)
def test_row_expressions_are_duckdb_text(expression: str) -> None:
    query = parse(
        dp(f"AVG({expression}, {ROWS}) AS a, {expression} AS k", f"WHERE {expression} GROUP BY {expression}")
    )
    assert query.where == expression
    assert {e for _, e in query.derived} == {expression}


def test_qualifiers_are_dropped() -> None:
    query = parse(
        dp("people.year, COUNT(people.city) AS n", "WHERE s.people.x + people.age > 'people.z' GROUP BY year")
    )
    assert query.where == "s.people.x + age > 'people.z'"
    assert query.keys == ("year",) and query.aggregates == (("n", sf.count("city")),)


def test_weights_are_columns_with_a_largest_one() -> None:
    weights = "weight => people.w, max_weight => 5.5"
    query = parse(
        dp(
            f"year, COUNT(*, {weights}) AS n, SUM(docvis, {ROWS}, {weights}) AS t, AVG(docvis, {weights}, {ROWS}) AS m"
        )
    )
    given = {"weight": "w", "max_weight": "5.5"}
    low, high = (0, 30)
    assert [aggregate for _, aggregate in query.aggregates] == [
        sf.count(**given),
        sf.sum("docvis", lower=low, upper=high, per="row", **given),
        sf.mean("docvis", lower=low, upper=high, **given),
    ]


def test_default_names() -> None:
    select = (
        f"year, COUNT(*), COUNT(DISTINCT id), COUNT(city), SUM(docvis, {ROWS}), AVG(docvis + 1, {ROWS}), "
        f"VARIANCE(docvis, {ROWS}), QUANTILES(docvis, [0.25, 0.5], {ROWS})"
    )
    assert asked(select).output_names == (
        *("count", "count_units", "count_city", "sum_docvis", "avg_6", "var_docvis"),
        *("quantiles_docvis_25", "quantiles_docvis_50"),
    )


def test_notes() -> None:
    text = (
        "SELECT WITH ANONYMIZATION OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id) "
        "ANON_AVG(docvis CLAMPED BETWEEN 0 AND 30), city FROM people GROUP BY city"
    )
    assert parse(text).question(open_people).table.notes == (
        "ANON_AVG clamps each row; ZetaSQL clamps the average of each privacy unit.",
        "max_groups_contributed was not given: a privacy unit counts in at most 1 group (BigQuery's default).",
        "max_rows_per_group was not given: a privacy unit counts as at most 1 row in a group.",
    )
    whole = text.replace("delta = 1e-6, ", "").replace(", city FROM people GROUP BY city", " FROM people")
    assert parse(whole).notes[-1] == "delta was not given: 0 is taken."
    given = dp(
        "COUNT(*), STDDEV(docvis, contribution_bounds_per_row => (0, 3))", "", "max_rows_per_group = 1"
    )
    assert parse(given).notes == (
        "STDDEV is that of the population: divided by the count, not the count less one.",
    )


def test_columns_are_found_whatever_their_case() -> None:
    question = asked(f"YEAR, AVG(DocVis, {ROWS}) AS a", "GROUP BY Year")
    assert question.table.keys == ("year",) and question.aggregates[0][1].column == "docvis"


@pytest.mark.parametrize(
    ("select", "tail", "near"),
    [
        (f"AVG(docvist, {ROWS})", "", "docvis"),
        ("yeer, COUNT(*)", "GROUP BY 1", "year"),
        ("age // 10 AS decade, COUNT(decade)", "GROUP BY 1", "decade"),
    ],
)
def test_unknown_columns(select: str, tail: str, near: str) -> None:
    with pytest.raises(ColumnError, match=near):
        asked(select, tail)


# Numbers are exact.


@given(
    sign=st.sampled_from(["", "-", "+"]),
    whole=st.integers(0, 10**30).map(str),
    part=st.one_of(st.none(), st.integers(0, 10**20).map(str)),
    power=st.one_of(st.none(), st.integers(-300, 300)),
    mark=st.sampled_from("eE"),
)
def test_numbers_are_exactly_as_written(
    sign: str, whole: str, part: str | None, power: int | None, mark: str
) -> None:
    number = whole + ("" if part is None else f".{part}") + ("" if power is None else f"{mark}{power}")
    if Fraction(number) > 0:
        query = parse(dp("COUNT(*)", "").replace("epsilon = 1,", f"epsilon = {number},"))
        assert query.epsilon == number and Fraction(query.release_options["epsilon"]) == Fraction(number)
    if Fraction(number) < 10**60:
        query = parse(dp(f"SUM(x, contribution_bounds_per_group => ({sign} {number}, 1e61)) AS s", ""))
        assert query.aggregates[0][1].lower == Fraction(sign + number)


# Refusals, each with its place.


@pytest.mark.parametrize(
    ("text", "says", "marked"),
    [
        ("", "begins with SELECT WITH", ""),
        ("DELETE FROM t", "begins with SELECT WITH", "DELETE"),
        ("SELECT year FROM t", "privacy clause is missing", "year"),
        ("SELECT COUNT(*) FROM t", "privacy clause is missing", "COUNT"),
        ("WITH a AS (SELECT 1) SELECT 2", "there is no private SELECT", "WITH"),
        (
            "SELECT WITH DIFERENTIAL_PRIVACY OPTIONS () 1",
            "did you mean DIFFERENTIAL_PRIVACY",
            "DIFERENTIAL_PRIVACY",
        ),
        ("SELECT WITH AGGREGATION_THRESHOLD x FROM t", "not a privacy clause", "AGGREGATION_THRESHOLD"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM t", "write OPTIONS", "COUNT"),
        ("SELECT WITH ANONYMIZATION OPTIONS () ANON_COUNT(*) FROM t", "epsilon is missing", "ANONYMIZATION"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t",
            "privacy_unit_column is missing",
            "DIFFERENTIAL_PRIVACY",
        ),
        ("SELECT 'x", "does not end", "'"),
        ("SELECT /* x", "", ""),
    ],
)
def test_refused_texts(text: str, says: str, marked: str) -> None:
    message, found = refused(text)
    assert says in message and found == marked


@pytest.mark.parametrize(
    ("options", "says", "marked"),
    [
        ("epsilom = 1", "did you mean epsilon?", "epsilom"),
        ("colour = 1", "there is no option colour. The options are: epsilon", "colour"),
        ("epsilon = 2", "given twice", "epsilon"),
        ("kappa = 2, max_groups_contributed = 2", "the same", "max_groups_contributed"),
        ("max_groups_contributed = 0", "whole number of at least 1", "0"),
        ("max_groups_contributed = 1.5", "whole number of at least 1", "1.5"),
        ("max_groups_contributed = -1", "whole number of at least 1", "-1"),
        ("max_groups_contributed = NULL", "without a limit", "NULL"),
        ("max_rows_per_group = many", "whole number of at least 1", "many"),
        ("noise = gausian", "did you mean gaussian?", "gausian"),
        ("group_selection = best", "must be one of auto", "best"),
        ("group_selection_strategy = PUBLIC_GROUPS", "RIGHT OUTER JOIN (SELECT DISTINCT", "PUBLIC_GROUPS"),
        ("group_selection_strategy = MAGIC", "LAPLACE_THRESHOLD", "MAGIC"),
        ("pre_threshold = 'ten'", "whole number", "'ten'"),
        ("k_threshold = 5", "set delta instead", "k_threshold"),
        ("max_rows_contributed = 0", "whole number of at least 1", "0"),
        ("max_rows_contributed = NULL", "without a limit", "NULL"),
        (
            "max_rows_contributed = 5, max_groups_contributed = 2",
            "keep one of the two",
            "max_groups_contributed",
        ),
        ("kappa = 2, max_rows_contributed = 5", "in the place of kappa", "kappa"),
        ("max_rows_contributed = 5, max_rows_per_group = 2", "keep one of the two", "max_rows_per_group"),
        ("max_rows_contributed = 5, max_rows_contributed = 5", "is given twice", "max_rows_contributed"),
        ("noise", "name = value", ")"),
        ("noise = ", "value is missing", ")"),
        ("= 3", "name = value", "="),
        ("noise = laplace gaussian", "a comma or )", "gaussian"),
        ("max_groups_contributed = 2 + 1", "a comma or )", "+"),
    ],
)
def test_refused_options(options: str, says: str, marked: str) -> None:
    message, found = refused(dp("year, COUNT(*)", options=options))
    assert says in message and found == marked


@pytest.mark.parametrize(
    ("old", "new", "says", "marked"),
    [
        ("epsilon = 1", "epsilon = 0", "greater than 0", "0"),
        ("epsilon = 1", "epsilon = -1", "greater than 0", "-1"),
        ("epsilon = 1", "epsilon = '1'", "must be a number", "'1'"),
        ("epsilon = 1", "epsilon = inf", "must be a number", "inf"),
        ("epsilon = 1", "epsilon = 1e", "must be written as a number", "1e"),
        ("epsilon = 1", "epsilon = 1_0", "must be written as a number", "1_0"),
        ("epsilon = 1", "epsilon = 1/3", "a comma or )", "/"),
        ("epsilon = 1", "epsilon = 1e999999999", "out of all range", "1e999999999"),
        ("delta = 1e-6", "delta = 1", "below 1", "1"),
        ("delta = 1e-6", "delta = -0.1", "at least 0", "-0.1"),
        ("delta = 1e-6", "delta = 0.0", "OPTIONS (delta = 1e-6, ...)", "DIFFERENTIAL_PRIVACY"),
        ("delta = 1e-6, ", "", "OPTIONS (delta = 1e-6, ...)", "DIFFERENTIAL_PRIVACY"),
        ("privacy_unit_column = id", "privacy_unit_column = 3", "names the column", "3"),
    ],
)
def test_refused_budgets(old: str, new: str, says: str, marked: str) -> None:
    message, found = refused(dp("year, COUNT(*)").replace(old, new))
    assert says in message and found == marked


@pytest.mark.parametrize(
    ("select", "says", "marked"),
    [
        ("MIN(x)", "MIN without bounds", "MIN"),
        ("max(x, 0.9, contribution_bounds_per_row => (0, 1))", "takes one expression", "0.9"),
        (
            "MEDIAN(x, contribution_bounds_per_group => (0, 1))",
            "bounds each row",
            "contribution_bounds_per_group => (0, 1)",
        ),
        ("ARRAY_AGG(x)", "single rows", "ARRAY_AGG"),
        ("VAR_SAMP(x, contribution_bounds_per_row => (0, 1))", "write VAR_POP", "VAR_SAMP"),
        (f"CORR(x, {ROWS})", "with two columns", "contribution_bounds_per_row"),
        ("CORR(x)", "with two columns", ")"),
        ("CORR(x, x, contribution_bounds_per_row => ((0, 1), (0, 1)))", "VAR_POP", "x"),
        ("CORR(x, y)", "CORR without bounds", "CORR"),
        (f"COVAR_POP(x, y, {ROWS})", "each row of each column", ROWS),
        ("COVAR_POP(x, y + 1, contribution_bounds_per_row => ((0, 1), (0, 1)))", "two columns", "y"),
        (
            "COVAR_POP(x, y, contribution_bounds_per_row => ((0, 1), (1, 1)))",
            "not below",
            "contribution_bounds_per_row => ((0, 1), (1, 1))",
        ),
        ("COVAR_POP(x, y, contribution_bounds_per_row => ((0, 1)))", "numbers for each column", ")"),
        (
            "COVAR_POP(x, y, contribution_bounds_per_row => ((0, 1), (0, 1), (0, 1)))",
            "each row of each column",
            "contribution_bounds_per_row => ((0, 1), (0, 1), (0, 1))",
        ),
        (
            "COVAR_POP(x, y, contribution_bounds_per_group => ((0, 1), (0, 1)))",
            "each row of each",
            "contribution_bounds_per_group => ((0, 1), (0, 1))",
        ),
        ("APPROX_TOP_COUNT(x, 5)", "stands alone in the SELECT list", "APPROX_TOP_COUNT"),
        ("APPROX_TOP_SUM(x, y, 5)", "stands alone in the SELECT list", "APPROX_TOP_SUM"),
        ("CORR(x, y, z)", "at most 2 columns", "z"),
        ("LINEAR_REGRESSION(y, a, b, c, d, e, f, g, h, i)", "at most 9 columns", "i"),
        ("LINEAR_REGRESSION(y, x, Y)", "name another column", "Y"),
        ("LINEAR_REGRESSION(y, a, b)", "(y, x1, x2, contribution_bounds_per_row", "LINEAR_REGRESSION"),
        (
            "LINEAR_REGRESSION(y, a, b, contribution_bounds_per_row => ((0, 1), (0, 1)))",
            "each row of each column",
            "contribution_bounds_per_row => ((0, 1), (0, 1))",
        ),
        ("LINEAR_REGRESSION(y, a, 3, contribution_bounds_per_row => ((0, 1), (0, 1)))", "write LINEAR", "3"),
        ("CUMULATIVE_COUNT(*) OVER (ORDER BY year)", "takes no OVER", "CUMULATIVE_COUNT"),
        ("APPROX_TOP_COUNT(x, 5) OVER (ORDER BY year)", "takes no OVER", "APPROX_TOP_COUNT"),
        ("COVAR_SAMP(x, y, contribution_bounds_per_row => ((0, 1), (0, 1)))", "COVAR_POP", "COVAR_SAMP"),
        ("REGR_SLOPE(y, x)", "LINEAR_REGRESSION(y, x, contrib", "REGR_SLOPE"),
        ("LINEAR_REGRESSION(y, x)", "LINEAR_REGRESSION without bounds", "LINEAR_REGRESSION"),
        (
            "LINEAR_REGRESSION(x, x, contribution_bounds_per_row => ((0, 1), (0, 1)))",
            "name another column",
            "x",
        ),
        ("LINEAR_REGRESSION(y, 2 * x, contribution_bounds_per_row => ((0, 1), (0, 1)))", "two columns", "2"),
        (
            "LINEAR_REGRESSION(y, x, contribution_bounds_per_row => ((0, 1), (0, 1))) + 1",
            "gives 2 columns",
            "LINEAR_REGRESSION(y, x, contribution_bounds_per_row => ((0, 1), (0, 1)))",
        ),
        (
            "AVG(x, contribution_bounds_per_row => ((0, 1), (0, 1)))",
            "is of one column",
            "contribution_bounds_per_row => ((0, 1), (0, 1))",
        ),
        (
            "COUNT(*, contribution_bounds_per_group => ((0, 1), (0, 1)))",
            "is of one column",
            "contribution_bounds_per_group => ((0, 1), (0, 1))",
        ),
        (
            "COUNT(DISTINCT city, contribution_bounds_per_group => ((0, 3), (0, 3)))",
            "of one column",
            "contribution_bounds_per_group => ((0, 3), (0, 3))",
        ),
        ("COUNTIF(*)", "write a condition", "COUNTIF"),
        ("COUNTIF(*) FILTER (WHERE x > 1)", "write a condition", "COUNTIF"),
        ("COUNT_IF(DISTINCT x > 1)", "no DISTINCT", "COUNT_IF"),
        ("COUNTIF(x > 1, contribution_bounds_per_group => (1, 5))", "must be 0", "1"),
        ("COUNT(DISTINCT id) FILTER (WHERE x > 1)", "in WHERE", "x > 1"),
        ("COUNT(DISTINCT city)", "COUNT(DISTINCT id)", "COUNT"),
        (
            "COUNT(DISTINCT id, contribution_bounds_per_group => (0, 5))",
            "leave the bounds out",
            "contribution_bounds_per_group => (0, 5)",
        ),
        ("COUNT(DISTINCT city, contribution_bounds_per_group => (1, 5))", "must be 0", "1"),
        ("COUNT(DISTINCT city, contribution_bounds_per_group => (0, 2.5))", "whole number", "2.5"),
        ("COUNT(DISTINCT city, contribution_bounds_per_group => (0, 0))", "at least 1", "0"),
        (
            "COUNT(DISTINCT city, contribution_bounds_per_group => (0, 1000001))",
            "at most 1,000,000",
            "1000001",
        ),
        (
            "COUNT(DISTINCT city, contribution_bounds_per_row => (0, 5))",
            "what a unit adds to a group",
            "contribution_bounds_per_row => (0, 5)",
        ),
        ("APPROX_COUNT_DISTINCT(city)", "contribution_bounds_per_group => (0, 3)", "APPROX_COUNT_DISTINCT"),
        ("SUM(DISTINCT x, contribution_bounds_per_row => (0, 1))", "DISTINCT", "SUM"),
        ("AVG(x)", "without bounds", "AVG"),
        ("SUM(x)", "contribution_bounds_per_group => (lower, upper)", "SUM"),
        (
            "PERCENTILE_CONT(x, 0.5)",
            "PERCENTILE_CONT(x, rank, contribution_bounds_per_row",
            "PERCENTILE_CONT",
        ),
        ("COUNT(*, weight => w)", "weight => column, max_weight => 50", "w"),
        ("COUNT(*, max_weight => 3)", "weight => column, max_weight => 50", "3"),
        ("COUNT(*, weight => w + 1, max_weight => 3)", "with the name of a column", "w"),
        ("COUNT(*, weight => a.b.c, max_weight => 3)", "with the name of a column", "a"),
        ("COUNT(*, weight => (SELECT 1), max_weight => 3)", "with the name of a column", "("),
        ("COUNT(*, weight => w, weight => w, max_weight => 3)", "given twice", "weight"),
        ("COUNT(*, weight => w, max_weight => 0)", "greater than 0", "0"),
        ("COUNT(*, weight => w, max_weight => x)", "a number here", "x"),
        ("COUNT(*, weigth => w)", "did you mean weight?", "weigth"),
        ("COUNT(DISTINCT id, weight => w, max_weight => 3)", "has no weights", "COUNT"),
        (
            f"VAR_POP(x, {ROWS}, weight => w, max_weight => 3)",
            "COUNT, SUM, AVG, HISTOGRAM and VALUE_COUNTS have",
            "w",
        ),
        (
            "SUM(x, contribution_bounds_per_group => (0, 1), weight => w, max_weight => 3)",
            "bounds of each row",
            "contribution_bounds_per_group => (0, 1)",
        ),
        (
            "AVG(x, contribution_bounds_per_group => (0, 1))",
            "averages of the units",
            "contribution_bounds_per_group => (0, 1)",
        ),
        (
            "VAR_POP(x, contribution_bounds_per_group => (0, 1))",
            "bounds each row",
            "contribution_bounds_per_group => (0, 1)",
        ),
        (
            "AVG(x, contribution_bound_per_row => (0, 1))",
            "did you mean contribution_bounds_per_row",
            "contribution_bound_per_row",
        ),
        (
            "AVG(x, contribution_bounds_per_row => (1, 0))",
            "not below",
            "contribution_bounds_per_row => (1, 0)",
        ),
        (
            "AVG(x, contribution_bounds_per_row => (0.1, 1e-1))",
            "not below",
            "contribution_bounds_per_row => (0.1, 1e-1)",
        ),
        ("AVG(x, contribution_bounds_per_row => (0, 1 + 1))", "with two numbers", "+"),
        ("AVG(x, contribution_bounds_per_row => (0, y))", "must be written as a number", "y"),
        ("AVG(x, contribution_bounds_per_row => (NULL, 1))", "must be written as a number", "NULL"),
        ("AVG(x, contribution_bounds_per_row => (0, '1'))", "must be written as a number", "'1'"),
        ("AVG(x, contribution_bounds_per_row => 3)", "with two numbers", "3"),
        ("AVG(x, contribution_bounds_per_row => (0))", "with two numbers", ")"),
        (
            "AVG(x, contribution_bounds_per_row => (0, 1), contribution_bounds_per_row => (0, 1))",
            "bounds twice",
            "contribution_bounds_per_row => (0, 1)",
        ),
        (
            "AVG(x CLAMPED BETWEEN 0 AND 1)",
            "bounds are written contribution_bounds",
            "CLAMPED BETWEEN 0 AND 1",
        ),
        ("AVG(x, 3, contribution_bounds_per_row => (0, 1))", "takes one expression", "3"),
        ("AVG(*, contribution_bounds_per_row => (0, 1))", "name a column", "AVG"),
        ("AVG()", "of nothing", ")"),
        ("COUNT()", "write COUNT(*)", ")"),
        ("COUNT(*, 3)", "takes one expression", "3"),
        ("COUNT(*, contribution_bounds_per_group => (1, 3))", "must be 0", "1"),
        ("COUNT(*, contribution_bounds_per_group => (0, 2.5))", "whole number", "2.5"),
        (
            "COUNT(*, contribution_bounds_per_row => (0, 1))",
            "per_group => (0, rows)",
            "contribution_bounds_per_row => (0, 1)",
        ),
        (
            "COUNT(*, contribution_bounds_per_group => (0, 2)) AS a, COUNT(x, contribution_bounds_per_group => (0, 3))",
            "bounded by 2",
            "3",
        ),
        ("APPROX_QUANTILES(x, 0, contribution_bounds_per_row => (0, 1))", "whole number", "0"),
        ("APPROX_QUANTILES(x, 1e9, contribution_bounds_per_row => (0, 1))", "whole number", "1e9"),
        ("APPROX_QUANTILES(x, 1001, contribution_bounds_per_row => (0, 1))", "at most 1000", "1001"),
        ("APPROX_QUANTILES(x, contribution_bounds_per_row => (0, 1))", "second argument", "APPROX_QUANTILES"),
        ("APPROX_QUANTILES(x, [0.5], contribution_bounds_per_row => (0, 1))", "is written 4", "0.5"),
        ("QUANTILES(x, 0.5, contribution_bounds_per_row => (0, 1))", "[0.25, 0.5, 0.75]", "0.5"),
        ("QUANTILES(x, [0.5, 1.5], contribution_bounds_per_row => (0, 1))", "in [0, 1]", "1.5"),
        ("QUANTILES(x, [0.5, .50], contribution_bounds_per_row => (0, 1))", "asked twice", ".50"),
        (
            "QUANTILES(x, [0.5, contribution_bounds_per_row => (0, 1))",
            "a ] is missing",
            "[",
        ),
        ("HISTOGRAM(x)", "write HISTOGRAM(x, [0, 18, 65])", "HISTOGRAM"),
        ("HISTOGRAM(x, 5)", "write HISTOGRAM(x, [0, 18, 65])", "5"),
        ("HISTOGRAM(x, [5])", "from 1 to 1,000 bins", "HISTOGRAM"),
        ("HISTOGRAM(x, [0, 1, 1])", "above the one before", "1"),
        ("HISTOGRAM(x, [0, 1e400])", "above the one before", "1e400"),
        ("HISTOGRAM(DISTINCT x, [0, 1])", "no private form", "HISTOGRAM"),
        ("HISTOGRAM(*, [0, 1])", "name a column", "HISTOGRAM"),
        ("HISTOGRAM(x, [0, NULL])", "must be written as a number", "NULL"),
        (
            "HISTOGRAM(x, [0, 1], contribution_bounds_per_row => (0, 1))",
            "no bounds but their edges",
            "contribution_bounds_per_row => (0, 1)",
        ),
        (
            "STRATIFIED_PROPORTION(x)",
            "stratum and strata and asked and population missing",
            "STRATIFIED_PROPORTION",
        ),
        ("STRATIFIED_PROPORTION(*, stratum => s)", "name a column", "STRATIFIED_PROPORTION"),
        ("STRATIFIED_PROPORTION(x, stratum => s + 1)", "name of a column as stratum", "s"),
        ("STRATIFIED_PROPORTION(x, strata => 'a')", "strata is a list", "'a'"),
        ("STRATIFIED_PROPORTION(x, strata => [a])", "a value is written 'text', 3", "a"),
        ("STRATIFIED_PROPORTION(x, asked => ['a'])", "a size in asked", "'a'"),
        ("STRATIFIED_PROPORTION(x, asked => [1, 2)", "a ] is missing", "["),
        ("STRATIFIED_PROPORTION(x, asked => [1], asked => [2])", "given twice", "asked"),
        (
            f"STRATIFIED_PROPORTION(x, {STRATA.replace('4]', '4, 5]')})",
            "population has 3 sizes, strata has 2",
            "9, 4, 5",
        ),
        (f"STRATIFIED_PROPORTION(x, {STRATA.replace('[9', '[2.5')})", "whole number", "2.5"),
        (f"STRATIFIED_PROPORTION(x, {STRATA.replace('[3', '[1')})", "asked['a'] is 1", "'a'"),
        (
            f"STRATIFIED_PROPORTION(x, {STRATA.replace(chr(39) + 'b', chr(39) + 'a')})",
            "each is there once",
            "'a'",
        ),
        (f"STRATIFIED_PROPORTION(x, {STRATA.replace(repr('b'), '1')})", "none of the texts", "1"),
        (f"STRATIFIED_PROPORTION(x, {STRATA}, confidence => 1)", "less than 1", "'a'"),
        (f"STRATIFIED_PROPORTION(x, 3, {STRATA})", "has no bounds", "3"),
        (f"STRATIFIED_PROPORTION(x, {STRATA}, weight => w, max_weight => 2)", "has no weights", "w"),
        ("AVG(x, stratum => s)", "AVG has no strata", "stratum => s"),
        ("HISTOGRAM(x, [0, 1], shares => 1)", "shares => TRUE or shares => FALSE", "1"),
        ("HISTOGRAM(x, [0, 1], per => unit)", "write per => 'unit' or per => 'row'", "unit"),
        ("HISTOGRAM(x, [0, 1], outside => 'clamp')", "outside => 'drop' or outside => 'count'", "'clamp'"),
        ("HISTOGRAM(x, [0, 1], per => 'unit', per => 'row')", "given twice", "per"),
        ("HISTOGRAM(x, [0, 1], pre => 'unit')", "did you mean per?", "pre"),
        ("HISTOGRAM(x, [0, 1], other => TRUE)", "no argument other", "other"),
        ("COUNT(*, per => 'unit')", "no argument per", "per"),
        (
            f"HISTOGRAM(x, [{', '.join(map(str, range(102)))}], shares => TRUE)",
            "at most 100 bins",
            "HISTOGRAM",
        ),
        ("VALUE_COUNTS(x)", "write VALUE_COUNTS(x, ['a', 'b'])", "VALUE_COUNTS"),
        ("VALUE_COUNTS(x, 'a')", "write VALUE_COUNTS(x, ['a', 'b'])", "'a'"),
        ("VALUE_COUNTS(x, [])", "a value is written 'text', 3", "]"),
        ("VALUE_COUNTS(x, [NULL])", "a value is written 'text', 3", "NULL"),
        ("VALUE_COUNTS(x, [y])", "a value is written 'text', 3", "y"),
        ("VALUE_COUNTS(x, [(SELECT 1)])", "a value is written 'text', 3", "("),
        ("VALUE_COUNTS(x, ['a', 1])", "none of the texts that stand before it", "1"),
        ("VALUE_COUNTS(x, ['a', 'a'])", "counted twice", "'a'"),
        ("VALUE_COUNTS(x, [1, 1.0])", "counted twice", "1.0"),
        ("VALUE_COUNTS(x, [1.5])", "this is none", "1.5"),
        ("VALUE_COUNTS(x, [9223372036854775808])", "out of range", "9223372036854775808"),
        ("VALUE_COUNTS(x, [1e4000])", "out of range", "1e4000"),
        ("VALUE_COUNTS(x, [DATE '2020-02-30'])", "this is none", "'2020-02-30'"),
        ("VALUE_COUNTS(x, ['a' 'b'])", "in the values of VALUE_COUNTS", "'b'"),
        ("VALUE_COUNTS(DISTINCT x, ['a'])", "no private form", "VALUE_COUNTS"),
        ("VALUE_COUNTS(*, ['a'])", "name a column", "VALUE_COUNTS"),
        (f"VALUE_COUNTS(x, ['a'], {ROWS})", "no bounds but their values", ROWS),
        ("VALUE_COUNTS(x, ['a'], weight => w)", "max_weight => 50", "w"),
        ("VALUE_COUNTS(x, ['a'], outside => 'count')", "no argument outside", "outside"),
        ("VECTOR_SUM(x)", "length is missing", "VECTOR_SUM"),
        ("VECTOR_SUM(x, length => 3)", "bound is missing", "VECTOR_SUM"),
        ("VECTOR_SUM(x, 3)", "write VECTOR_SUM(x, length => 128", "3"),
        ("VECTOR_SUM(x, length => 2.5, bound => 1)", "a whole number", "2.5"),
        ("VECTOR_SUM(x, length => 1e9, bound => 1)", "at most 4,096", "VECTOR_SUM"),
        ("VECTOR_SUM(x, length => 3, bound => 0)", "between 1e-100", "VECTOR_SUM"),
        ("VECTOR_SUM(x, length => 3, bound => 1, norm => 'l3')", "write norm => 'l2'", "'l3'"),
        ("VECTOR_SUM(x, length => n, bound => 1)", "must be written as a number", "n"),
        (f"VECTOR_SUM(x, length => 3, bound => 1, {ROWS})", "that of its norm", ROWS),
        ("VECTOR_SUM(x, length => 3, bound => 1, weight => w, max_weight => 2)", "has no weights", "w"),
        ("VECTOR_AVG(x, length => 3, bound => 1, per => 'unit')", "no argument per", "per"),
        ("PERCENTILE_CONT(x, 50, contribution_bounds_per_row => (0, 1))", "in [0, 1]", "50"),
        (
            "AVG(x, contribution_bounds_per_row => (0, 1), error_bars => FALSE)",
            "always has",
            "error_bars => FALSE",
        ),
        ("COUNT(*, error_bars => FALSE)", "always has error bars", "error_bars => FALSE"),
        ("QUANTILES(x, [0.5], error_bars => 0)", "error_bars => TRUE or", "0"),
        ("QUANTILES(x, [0.5], error_bars => TRUE, error_bars => TRUE)", "given twice", "error_bars"),
        ("QUANTILES(x, [0.5], error_bar => FALSE)", "did you mean error_bars", "error_bar"),
        ("ANON_COUNT(*)", "write COUNT", "ANON_COUNT"),
        ("ANON_QUANTILES(x, 4 CLAMPED BETWEEN 0 AND 1)", "write APPROX_QUANTILES", "ANON_QUANTILES"),
        ("SUM(MAX(x), contribution_bounds_per_row => (0, 1))", "inside SUM(...)", "MAX"),
        ("AVG(row_number() OVER (), contribution_bounds_per_row => (0, 1))", "inside AVG(...)", "row_number"),
        ("COUNT(*) FILTER (x)", "write COUNT(...) FILTER (WHERE condition)", "("),
        ("COUNT(*) FILTER (WHERE)", "write COUNT(...) FILTER (WHERE condition)", "("),
        ("COUNT(*) FILTER (WHERE x IN (SELECT 1))", "subquery in FILTER", "SELECT"),
        ("COUNT(*) FILTER (WHERE MAX(x) > 1)", "MAX in FILTER: it sees single rows", "MAX"),
        ("COUNT(*) FILTER (WHERE x THEN)", "is missing in COUNT(...)", "THEN"),
        ("AVG((SELECT 1), contribution_bounds_per_row => (0, 1))", "subquery", "SELECT"),
        ("*", "SELECT *", "*"),
        ("people.*", "*", "people.*"),
        ("DISTINCT year", "SELECT DISTINCT", "DISTINCT"),
        ("AS STRUCT year", "SELECT AS", "AS"),
        ("city, COUNT(*)", "neither a group key", "city"),
        ("3, COUNT(*)", "neither a group key", "3"),
        ("COUTN(x)", "did you mean COUNT?", "COUTN(x)"),
        ("COUNT(*), COUNT(*)", "used twice", "COUNT(*)"),
        ("COUNT(*) AS n, SUM(x, contribution_bounds_per_row => (0, 1)) AS N", "used twice", "N"),
        ("COUNT(*) AS year", "used twice", "year"),
        ("COUNT(*) AS ''", "a name is missing", "''"),
        ("COUNT(*) AS `  `", "an empty name", "`  `"),
        ("COUNT(x AND)", "not understood", ")"),
        ("COUNT(?)", "parameter", "?"),
        ("COUNT(* 2)", "a comma or )", "2"),
        ("COUNT(x", "a ) is missing", "("),
        ("COUNT(*) n m", "FROM is missing", "m"),
        ("COUNT(*) {# x #}", "FROM is missing", "{"),
        ("COUNT(*) -- x\n {# x #}", "FROM is missing", "{"),
        ("COUNT(*) # x", "", "#"),
    ],
)
def test_refused_selects(select: str, says: str, marked: str) -> None:
    message, found = refused(dp(select if select[0] in "*D" or select[:3] == "AS " else f"year, {select}"))
    assert says in message and found == marked


@pytest.mark.parametrize(
    ("select", "says", "marked"),
    [
        ("COUNT(*)", "write ANON_COUNT", "COUNT"),
        ("VARIANCE(x)", "write ANON_VAR_POP", "VARIANCE"),
        ("CORR(x, y, contribution_bounds_per_row => ((0, 1), (0, 1)))", "ask in WITH DIFFERENTIAL", "CORR"),
        (f"STRATIFIED_PROPORTION(x, {STRATA})", "ask in WITH DIFFERENTIAL_PRIVACY", "STRATIFIED_PROPORTION"),
        ("HISTOGRAM(x, [0, 1])", "ask in WITH DIFFERENTIAL_PRIVACY", "HISTOGRAM"),
        ("VALUE_COUNTS(x, ['a'])", "ask in WITH DIFFERENTIAL_PRIVACY", "VALUE_COUNTS"),
        ("VECTOR_SUM(x, length => 2, bound => 1)", "ask in WITH DIFFERENTIAL_PRIVACY", "VECTOR_SUM"),
        ("VECTOR_AVG(x, length => 2, bound => 1)", "ask in WITH DIFFERENTIAL_PRIVACY", "VECTOR_AVG"),
        ("ANON_SUM(x)", "ANON_SUM(x CLAMPED BETWEEN lower AND upper)", "ANON_SUM"),
        (
            "ANON_SUM(x, contribution_bounds_per_group => (0, 1))",
            "CLAMPED",
            "contribution_bounds_per_group => (0, 1)",
        ),
        ("ANON_SUM(x CLAMPED BETWEEN 3 AND 1)", "not below", "CLAMPED BETWEEN 3 AND 1"),
        ("ANON_SUM(x CLAMPED BETWEEN 3, 1)", "CLAMPED BETWEEN lower AND upper", ","),
        ("ANON_COUNT(* CLAMPED BETWEEN 1 AND 2)", "must be 0", "1"),
        ("ANON_VAR_SAMP(x CLAMPED BETWEEN 1 AND 2)", "write ANON_VAR_POP", "ANON_VAR_SAMP"),
    ],
)
def test_refused_anonymization(select: str, says: str, marked: str) -> None:
    message, found = refused(dp(f"year, {select}", clause="ANONYMIZATION"))
    assert says in message and found == marked


@pytest.mark.parametrize(
    ("tail", "says", "marked"),
    [
        ("GROUP BY year; SELECT 1", "several statements", ";"),
        ("GROUP BY year WHERE x", "WHERE comes before", "WHERE"),
        ("GROUP BY year year", "should end here", "year"),
        ("GROUP BY year, 1", "named twice", "1"),
        ("GROUP BY " + "year, " * 2000 + "city", "at most 2000 group keys", "city"),
        ("WHERE age > 1 AND 1 < age < 3", "Chained comparisons", "age > 1 AND 1 < age < 3"),
        ("WHERE (WITH a AS (", "is never closed", "("),
        ("WHERE EXISTS (WITH a AS (SELECT 1))", "a subquery", "WITH"),
        ("WHERE EXISTS (FROM x)", "a subquery", "EXISTS (FROM x)"),
        ("WHERE regr_slope(x, y) > 1", "it sees single rows", "regr_slope"),
        ("USING SAMPLE 3", "TABLESAMPLE", "USING"),
        ("AS p (a, b)", "a table function", "("),
        ("GROUP BY 3", "has 2 entries", "3"),
        ("GROUP BY 0", "has 2 entries", "0"),
        ("GROUP BY year, 2", "not a group key", "2"),
        ("GROUP BY year, n", "not a group key", "n"),
        ("GROUP BY year, id", "each privacy unit is not private", "id"),
        ("GROUP BY ROLLUP (year)", "totals need all groups", "year"),
        ("GROUP BY year, CUBE (year)", "totals need all groups", "year"),
        ("GROUP BY year, GROUPING SETS ((year), ())", "totals need all groups", "year"),
        ("GROUP BY COUNT(*)", "before they are grouped", "COUNT"),
        ("GROUP BY", "expression is missing", ""),
        ("", "neither a group key", "year"),
        ("WHERE COUNT(*) > 1", "before they are grouped", "COUNT"),
        ("WHERE any_value(x)", "before they are grouped", "any_value"),
        ("WHERE", "expression is missing", ""),
        ("WHERE age >", "not understood", ""),
        ("WHERE x OVER y", "window", "OVER"),
        ("AS p RIGHT JOIN other USING (id)", "RIGHT JOIN", "RIGHT"),
        ("AS p FULL JOIN other USING (id)", "FULL JOIN", "FULL"),
        ("NATURAL JOIN other", "write USING", "NATURAL"),
        ("CROSS JOIN other", "a join of a kind", "CROSS"),
        ("ASOF JOIN other USING (id, age)", "a join of a kind", "ASOF"),
        ("POSITIONAL JOIN other", "a join of a kind", "POSITIONAL"),
        ("SEMI JOIN other USING (id)", "a join of a kind", "SEMI"),
        ("ANTI JOIN other USING (id)", "a join of a kind", "ANTI"),
        ("JOIN range(7) AS o USING (id)", "table function", "("),
        (", other", "a second table", ","),
        ("TABLESAMPLE BERNOULLI (1 PERCENT)", "TABLESAMPLE", "TABLESAMPLE"),
    ],
)
def test_refused_tails(tail: str, says: str, marked: str) -> None:
    text = dp("year, COUNT(*) AS n", tail)
    message, found = refused(text)
    assert says in message and found == marked


@pytest.mark.parametrize(
    ("source", "says", "marked"),
    [
        ("FROM read_csv('x')", "a table function", "("),
        ("FROM my-project.x", "written in quotes", "-"),
        ("FROM ''", "no name", "''"),
        ("FROM 3", "name a file or a table", "3"),
        ("", "FROM is missing", "GROUP BY"),
    ],
)
def test_refused_sources(source: str, says: str, marked: str) -> None:
    message, found = refused(dp("year, COUNT(*)").replace("FROM people", source))
    assert says in message and found == marked


def test_keys_are_not_the_privacy_unit() -> None:
    assert "not private" in refused(dp("id, COUNT(*)", "GROUP BY 1"))[0]
    assert "another name" in refused(dp("year AS ID, COUNT(*)", "GROUP BY 1"))[0]


def test_group_options_need_groups() -> None:
    assert refused(dp("COUNT(*)", "", "pre_threshold = 3"))[1] == "pre_threshold"
    assert refused(dp("COUNT(*)", "", "group_selection = laplace"))[1] == "group_selection"


def test_rows_given_twice_must_agree() -> None:
    text = dp("COUNT(*, contribution_bounds_per_group => (0, 2))", "", "max_rows_per_group = 3")
    assert refused(text) == (
        "a COUNT is bounded by 2, but max_rows_per_group is 3; one limit of rows holds for the whole question",
        "2",
    )


def test_something_must_be_asked() -> None:
    assert "nothing is asked" in refused(dp("year"))[0]


def test_the_place_is_shown() -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY\r\n\tOPTIONS (epsilon = 1, privacy_unit_column = id)\r\n\tMIN(x) FROM t"
    with pytest.raises(SqlError) as caught:
        parse(text)
    assert str(caught.value).split("\n")[1:] == ["line 3, column 2:", "     MIN(x) FROM t", "     ^^^"]


def test_long_lines_are_cut() -> None:
    text = dp(f"COUNT(*) AS {'n' * 200}, MIN(x)", "").replace("\n", " ")
    with pytest.raises(SqlError) as caught:
        parse(text)
    *_, shown, marks = str(caught.value).split("\n")
    assert len(shown) < 120 and shown.startswith("    ...")
    assert shown[marks.index("^") :].startswith("MIN")


@pytest.mark.parametrize("text", [None, 3, b"SELECT"])
def test_not_a_text(text: object) -> None:
    with pytest.raises(QueryError, match="must be SQL text"):
        parse(text)


@pytest.mark.parametrize("name", [*PRIVATE, *refusals("aggregates")])
def test_no_aggregate_hides_in_a_row_expression(name: str) -> None:
    for inner in (f"1 + {name}(x)", f"[{name.lower()} (x)]", f"CASE WHEN {name}(x) THEN 1 END"):
        written = name.lower() if inner.startswith("[") else name
        assert refused(dp(f"COUNT({inner})", "")) == (
            f"{name} inside COUNT(...): an aggregate takes an expression of one row",
            written,
        )
        assert refused(dp("COUNT(*)", f"WHERE {inner}")) == (
            f"{name} in WHERE: it sees single rows, before they are grouped",
            written,
        )


# Garbage in, SqlError out.

SEEDS = [
    dp(
        "year, COUNT(*) AS n, AVG(docvis, contribution_bounds_per_row => (0, 30)) AS v",
        "WHERE age >= 25 GROUP BY year",
    ),
    dp(
        "CAST(age/10 AS INT64) AS d, APPROX_QUANTILES(x, 4, contribution_bounds_per_row => (-1.5, 1e3)) AS q, "
        "QUANTILES(x, [0.25, .5], contribution_bounds_per_row => (0, 1)), COUNT(DISTINCT id)",
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
        "year, age % 10 AS e, (age % 10) * 10 AS d, SUM(x, contribution_bounds_per_row => (0, 1)) / COUNT(*) AS r, "
        "DP_INTERVAL_LOW(count) AS low, rank() OVER (ORDER BY COUNT(*)) k, COUNT(*)",
        "GROUP BY year, age % 10 HAVING COUNT(*) > 3 QUALIFY k < 3 ORDER BY 2 DESC NULLS LAST, r LIMIT 3 OFFSET 1",
    ),
    "WITH t AS ("
    + dp("year, COUNT(*) AS n", "GROUP BY year")
    + ") SELECT *, DP_INTERVAL_HIGH(t.n) FROM t JOIN (SELECT max(n) AS m FROM t) ON n < m WHERE year IN (1, 2)",
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
@settings(max_examples=600, deadline=None)
@given(st.one_of(mutations(), st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)))
def test_garbage_gives_sql_errors_alone(text: str) -> None:
    try:
        query = parse(text)
    except QueryError:
        return
    assert isinstance(query, SqlQuery) and (query.aggregates or query.refused)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_stands_between_words_means_nothing(data: st.DataObject) -> None:
    """Spaces and comments do not, nor the case of words but for those that are in texts and names."""
    seed = data.draw(st.sampled_from(SEEDS))
    gaps = st.sampled_from([" ", "\n", "\t\u00a0", " -- it's `\n", '/* " /* ) */ ; */', "/**/"])
    tokens, written = tokenize(seed), ""
    for token in tokens[:-1]:
        word = seed[token.start : token.stop]
        if token.kind == "word":
            word = (
                data.draw(st.sampled_from([word, word.upper(), word.lower()]))
                if token.word in KEYWORDS
                else word
            )
        written += word + ("" if word in "<>" else data.draw(gaps))
    expected, found = parse(seed), parse(written)
    assert bare(found) == bare(expected)


KEYWORDS = {
    "SELECT",
    "WITH",
    "OPTIONS",
    "COUNT",
    "AVG",
    "AS",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "ALL",
    "CLAMPED",
    "BETWEEN",
}


def bare(query: SqlQuery) -> SqlQuery:
    """Return a query whose expressions are words alone."""

    def words(text: str) -> str:
        return " ".join(token.text.casefold() for token in tokenize(text))

    derived = tuple((name, words(text)) for name, text in query.derived)
    outside = query.outside and dataclasses.replace(
        query.outside, sql=words(query.outside.sql), text="", places=((), ())
    )
    return dataclasses.replace(query, where=words(query.where or ""), derived=derived, outside=outside)


@pytest.mark.long
@pytest.mark.parametrize(
    "opening", ["(", "[", "NOT ", "- ", "f(", "CASE WHEN ", "{'a': ", "CAST(", "(WITH a AS (", "a + -("]
)
def test_deep_nesting_is_refused(opening: str) -> None:
    closing = {"(": ")", "[": "]", "{": "}"}
    closed = "".join(closing[c] for c in reversed(opening) if c in closing)
    for text in (
        opening * 20000,
        opening * 20000 + "a b" + closed * 20000,
        opening * 800 + "a b" + closed * 800,
    ):
        with pytest.raises(SqlError):
            parse(dp("COUNT(*)", "WHERE " + text))


def test_whoever_sorts_private_groups_and_cuts_is_told_of_the_largest():
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, "
        "max_groups_contributed = 3{}) year, COUNT(DISTINCT id) AS n FROM 'rows.parquet' GROUP BY year{}"
    )

    def told(after: str, options: str = "") -> bool:
        return any("APPROX_TOP_COUNT" in note for note in parse(text.format(options, after)).notes)

    assert told(" ORDER BY n DESC LIMIT 10") and told(" ORDER BY 2 DESC, year LIMIT 3 OFFSET 1")
    assert not told("") and not told(" ORDER BY n DESC") and not told(" ORDER BY year LIMIT 3")
    assert not told(' ORDER BY "DESC" LIMIT 3'.replace('"DESC"', "n"))
