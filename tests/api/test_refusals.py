"""Bad questions: a clear error before anything is read or drawn.

What every engine has in common is tried once; `engines/test_bad_input.py` tries a mistake of each kind on all.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.question import Question
from sfumato.api.table import Table
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import (
    BudgetError,
    ColumnError,
    ParameterError,
    QueryError,
)
from sfumato.noise import laws as noise_law

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "year": [2020, 2020, 2021],
        "docvis": [1, 2, 3],
        "name": ["a", "b", "c"],
        "income": [1.5, None, 2.5],
    }
)


ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "year": [2020, 2020, 2021],
        "docvis": [1, 2, 3],
        "name": ["a", "b", "c"],
        "income": [1.5, None, 2.5],
    }
)


@pytest.fixture
def people(monkeypatch):
    """A table that fails the test if a row is read or noise drawn."""

    def read(*_: object, **__: object):
        raise AssertionError("rows are read")

    def drawn(*_: object, **__: object):
        raise AssertionError("noise is drawn")

    monkeypatch.setattr(DuckDBEngine, "statistics", read)
    monkeypatch.setattr(noise_law.Law, "rounded", drawn)
    return Table(DuckDBEngine.open(ROWS), "id")


def count_by_year(people, **bound):
    return people.group_by("year").bound(**({"groups": 1, "rows": 1} | bound)).agg(n=sf.count())


COLUMNS = {
    "group_by": (lambda t: t.group_by("yaer"), "'yaer'", "'year'"),
    "case of a key": (lambda t: t.group_by("YEAR"), "'YEAR'", "'year'"),
    "sum": (lambda t: t.bound(rows=1).agg(s=sf.sum("docvist", lower=0, upper=1)), "'docvist'", "'docvis'"),
    "count": (lambda t: t.bound(rows=1).agg(s=sf.count("nam")), "'nam'", "'name'"),
    "quantiles": (
        lambda t: t.bound(rows=1).agg(s=sf.quantiles("incom", 0.5, lower=0, upper=1)),
        "'incom'",
        "'income'",
    ),
    "filter": (lambda t: t.filter("yaer > 2020"), "'yaer'", "'year'"),
    "with_columns": (lambda t: t.with_columns(z="docvi + 1"), "'docvi'", "'docvis'"),
    "unit": (lambda t: Table(t._engine, "idd"), "'idd'", "'id'"),
}


@pytest.mark.parametrize("where", COLUMNS)
def test_an_unknown_column_is_named_with_the_nearest(people, where):
    ask, named, near = COLUMNS[where]
    with pytest.raises(ColumnError) as caught:
        ask(people)
    assert named in str(caught.value) and f"did you mean {near}" in str(caught.value)


def test_no_near_name_no_guess(people):
    with pytest.raises(ColumnError) as caught:
        people.group_by("zzzzzz")
    assert str(caught.value).endswith("'zzzzzz'. The columns are: id, year, docvis, name, income")


MISSING = {
    "lower": (lambda t: sf.sum("docvis", upper=3), "lower missing"),
    "upper": (lambda t: sf.mean("docvis", lower=3), "upper missing"),
    "both": (lambda t: t.agg(q=sf.quantiles("docvis", 0.5)), "lower and upper missing"),
    "variance": (lambda t: t.agg(v=sf.variance("docvis")), "lower and upper missing"),
    "stddev": (lambda t: sf.stddev("docvis", lower=0), "upper missing"),
    "groups": (lambda t: t.group_by("year").bound(rows=1).agg(n=sf.count()), "groups is missing: "),
    "rows": (lambda t: t.group_by("year").bound(groups=1).agg(n=sf.count()), "rows is missing"),
    "rows of the whole": (lambda t: t.agg(m=sf.mean("docvis", lower=0, upper=1)), "rows is missing"),
    "aggregates": (lambda t: t.bound(rows=1).agg(), "nothing is asked"),
    "a name": (lambda t: t.bound(rows=1).agg(sf.count()), "agg(n=sf.count())"),
}


@pytest.mark.parametrize("what", MISSING)
def test_missing_bounds_and_limits(people, what):
    ask, text = MISSING[what]
    with pytest.raises(QueryError, match=re.escape(text)):
        ask(people)


@pytest.mark.parametrize(
    "make", [sf.sum, sf.mean, sf.variance, sf.stddev, lambda c, **k: sf.quantiles(c, 0.5, **k)]
)
@pytest.mark.parametrize(
    "bounds",
    [(2, 1), (1, 1), (0, -0.0), (math.nan, 1), (0, math.nan), (-math.inf, 1), (0, math.inf), ("a", 1), (0, "1e99999"),
     (True, 5), (0, 2.0**1010), (None, 1), ([0], 1), (0, 1j)],
)  # fmt: skip
def test_bounds_must_be_finite_and_increase(make, bounds):
    with pytest.raises(QueryError) as caught:
        make("docvis", lower=bounds[0], upper=bounds[1])
    assert "docvis" in str(caught.value)


@pytest.mark.parametrize(
    "epsilon", [0, -1, math.nan, math.inf, -math.inf, "x", None, True, "1e", 0.0, "-0.5", [1], 1j]
)
def test_epsilon_must_be_finite_and_positive(people, epsilon):
    with pytest.raises(BudgetError, match="epsilon"):
        count_by_year(people).release(epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9, math.nan, math.inf, "x", None, True, 2])
def test_delta_must_be_in_its_range(people, delta):
    with pytest.raises(BudgetError, match="delta"):
        count_by_year(people).release(epsilon=1, delta=delta)


def test_private_groups_need_delta(people):
    for delta in ({}, {"delta": 0}, {"delta": 0.0}):
        with pytest.raises(BudgetError, match="private groups need more"):
            count_by_year(people).release(epsilon=1, **delta)
    with pytest.raises(BudgetError, match="Gaussian"):
        people.bound(rows=1).agg(n=sf.count()).release(epsilon=1, noise="gaussian")


def test_options_must_be_known(people):
    for option in (
        {"noise": "gauss"},
        {"noise": None},
        {"group_selection": "magic"},
        {"pre_threshold": 0},
        {"pre_threshold": 1.5},
    ):
        with pytest.raises(ParameterError, match=next(iter(option))):
            count_by_year(people).release(epsilon=1, delta=1e-6, **option)
    for option in ({"group_selection": "laplace"}, {"pre_threshold": 5}):
        with pytest.raises(ParameterError, match="public"):
            people.group_by("year", keys=[2020]).bound(groups=1, rows=1).agg(n=sf.count()).release(
                epsilon=1, delta=1e-6, **option
            )
    with pytest.raises(ParameterError, match="unsafe_words"):
        count_by_year(people).release(epsilon=1, delta=1e-6, unsafe_words=np.random.default_rng())
    for ask in (Question.release, Question.plan):  # they name themselves
        with pytest.raises(TypeError, match=rf"^{ask.__name__}: .*shards"):
            ask(count_by_year(people), epsilon=1, shards=4)
    with pytest.raises(TypeError, match=r"^plan: epsilon is missing"):
        count_by_year(people).plan()
    with pytest.raises(BudgetError, match="epsilon is left out"):  # a share of a budget may be in its place
        count_by_year(people).release()


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, "3", True, math.nan, Fraction(2), [1]])
@pytest.mark.parametrize("limit", ["groups", "rows"])
def test_limits_are_whole_numbers(people, limit, value):
    with pytest.raises(ParameterError, match=limit):
        people.group_by("year").bound(**{limit: value})


def test_bounds_on_texts(people):
    for ask in (sf.sum, sf.mean, sf.variance, sf.stddev):
        with pytest.raises(ColumnError, match=r"name.*VARCHAR; use try_cast\(name AS DOUBLE\) in its place"):
            people.bound(rows=1).agg(s=ask("name", lower=0, upper=1))


def test_names_of_outputs_are_distinct(people):
    grouped = people.group_by("year").bound(groups=1, rows=1)
    for aggregates in (
        {"year": sf.count()},
        {"Year": sf.count()},
        {"n": sf.count(), "N": sf.count_units()},
        {"q_50": sf.count(), "q": sf.quantiles("income", [0.5], lower=0, upper=1)},
        {"q": sf.quantiles("income", [0.1234567, 0.1234568], lower=0, upper=1)},
    ):
        with pytest.raises(QueryError, match="twice"):
            grouped.agg(**aggregates)
    with pytest.raises(QueryError, match="twice"):
        people.group_by("year", "year")


@pytest.mark.parametrize(
    "aggregate", ["count(*)", len, max, None, 3, "docvis", pa.compute.sum if hasattr(pa, "compute") else abs]
)
def test_only_private_aggregates(people, aggregate):
    for table in (people, people.bound(rows=1)):  # and before it is looked at which limits they need
        for beside in ({}, {"m": sf.count()}):
            with pytest.raises(QueryError, match="agg: n is .* not a private aggregate"):
                table.agg(**beside, n=aggregate)


@pytest.mark.parametrize(
    "ranks", [[], [0.5, 0.5], [-0.1], [1.1], math.nan, [math.inf], "half", None, ["a"], [None], True]
)
def test_ranks(ranks):
    with pytest.raises(QueryError, match="ranks"):
        sf.quantiles("income", ranks, lower=0, upper=1)


def test_ranks_of_every_numeric_type():
    for rank in (0.5, Fraction(1, 2), np.float32(0.5), np.float64(0.5), "0.5"):
        assert sf.quantiles("income", [rank], lower=0, upper=1).ranks == (0.5,)
    for rank in (0.5, np.float64(0.5), np.float32(0.5), Fraction(1, 2)):
        assert sf.quantiles("income", rank, lower=0, upper=1).scalar


def test_columns_are_names():
    for make in (sf.count, lambda c: sf.sum(c, lower=0, upper=1), lambda c: sf.mean(c, lower=0, upper=1)):
        for column in (3, ["docvis"], b"docvis"):
            with pytest.raises(QueryError, match="column"):
                make(column)
    with pytest.raises(ParameterError, match="per"):
        sf.sum("docvis", lower=0, upper=1, per="rows")


def test_the_unit_is_no_key_and_no_result(people):
    with pytest.raises(QueryError, match="privacy unit"):
        people.group_by("id")
    with pytest.raises(QueryError, match="privacy unit"):
        people.with_columns(id="year")
    with pytest.raises(QueryError, match="before group_by"):
        people.group_by("year").with_columns(year="1")


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "  ",
        None,
        3,
        "docvis >",
        "docvis; SELECT 1",
        "docvis) OR (true",
        "docvis > 1 --",
        "/* x",
        "(SELECT 1)",
        "max(docvis) > 1",
    ],
)
def test_expressions(people, expression):
    try:
        kept = people.filter(expression)
    except QueryError as error:
        assert str(error).startswith("filter: ")
    else:
        assert expression in ("docvis > 1 --", "docvis) OR (true"), kept


@pytest.mark.parametrize(
    ("expression", "why", "marked"),
    [
        ("docvis >", "ends too early", " >"),
        ("docvis >\n", "ends too early", ""),
        ("docvis > (3", "ends too early", "(3"),
        ("docvis) > 3", "has a ) too many", " > 3"),
        ("docvis 3", 'is not SQL: syntax error at or near "3"', "docvis "),
        ("name = 'é' 3", 'is not SQL: syntax error at or near "3"', "name = 'é' "),
        ("name = 'é' OR foo(3)", "uses foo", "name = 'é' OR "),
    ],
)
def test_expressions_are_marked_where_they_fail(people, expression, why, marked):
    with pytest.raises(QueryError) as caught:
        people.filter(expression)
    first, line, marks = str(caught.value).split("\n")
    assert why in first and line[: marks.index("^")].endswith(marked)


@pytest.mark.parametrize(
    "keys",
    [[], 5, "2020", [2020, 2020], ["x"], [(2020, 1)], [()], pa.table({"other": [1]}), [2020, "x"], [{"a": 1}], [[2020]], {2020: 1}, [2020.5], [1e300]],
    ids=str,
)  # fmt: skip
def test_public_keys_must_fit(people, keys):
    with pytest.raises(QueryError, match="keys="):
        people.group_by("year", keys=keys)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ([2020, 2021, 2020], "names '2020' twice"),
        (["2020", "x"], "'x'.* year .BIGINT"),
        ([2020, 2020.5], "'2020.5'"),
        ([object()], "type object for 'year'"),
        ([2020, "x"], "type int and str"),
        ([2**200], "type int"),
        (np.array([[2020]]), "list of values"),
        (np.array([2020], np.float16), "halffloat"),
        (pandas.Series([2020, "x"]), "type int and str"),
        (pandas.DataFrame({"other": [2020]}), "'other'.*'year'"),
        (pandas.DataFrame([[1, 2]], columns=["year", "year"]), "'year', 'year'"),
    ],
    ids=range(11),
)
def test_what_is_wrong_with_public_keys_is_named(people, keys, named):
    with pytest.raises(QueryError, match=f"group_by: .*{named}"):
        people.group_by("year", keys=keys)


def test_equal_numbers_are_one_public_key(people):
    with pytest.raises(QueryError, match="twice"):
        people.group_by("income", keys=[0.0, -0.0])
    with pytest.raises(QueryError, match=r"names \('2020', 'a'\) twice"):
        people.group_by("year", "name", keys=[(2020, "a")] * 2)


@pytest.mark.parametrize(
    "keys",
    [
        np.array([2020, 2021]),
        pa.array([2020, 2021]),
        pa.chunked_array([[2020], [2021]]),
        pandas.Series([2020, 2021]),
        pandas.Series([2020, 2021, 2020]).unique(),
        pandas.Series(["2020", "2021", "2020"]).unique(),
        pandas.Index([2021, 2020]),
        pandas.Categorical([2020, 2021]),
        polars.Series([2020, 2021]),
        polars.DataFrame({"year": [2020, 2021]}),
        pandas.DataFrame({"year": [2020, 2021]}),
    ],
    ids=lambda keys: f"{type(keys).__module__}.{type(keys).__name__}",
)
def test_public_keys_may_be_columns_of_other_libraries(people, keys):
    assert people.group_by("year", keys=keys)._public_keys["year"].to_pylist() == [2020, 2021]


def test_public_keys_may_be_spelled_in_other_types(people):
    assert people.group_by("year", keys=["2020", "2021"])._public_keys["year"].to_pylist() == [2020, 2021]
    assert people.group_by("year", keys=[2020.0])._public_keys["year"].to_pylist() == [2020]


def test_a_tiny_epsilon_finds_a_rule_for_private_groups(people):
    """Where one rule of selection is impossible, `auto` takes another."""
    assert count_by_year(people).plan(epsilon=1e-6, delta=1e-6).selection is not None
