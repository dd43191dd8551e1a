"""Bad questions: a clear error before anything is read or drawn."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import (
    BudgetError,
    ColumnError,
    EngineError,
    ParameterError,
    QueryError,
    RefusalError,
    SfumatoError,
    SqlError,
)
from sfumato.noise import law as noise_law
from sfumato.query.table import Question, Table

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
def people(engine, monkeypatch):
    """A table that fails the test if a row is read, a job started or noise drawn."""
    opened = engine(ROWS)

    def read(*_: object, **__: object):
        raise AssertionError("rows are read")

    def drawn(*_: object, **__: object):
        raise AssertionError("noise is drawn")

    monkeypatch.setattr(type(opened), "statistics", read)
    monkeypatch.setattr(noise_law.Law, "rounded", drawn)
    monkeypatch.setattr(type(opened), "released", read, raising=False)
    before = engine.jobs()
    yield Table(opened, "id")
    assert engine.jobs() == before


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
    "unit": (lambda t: Table(t.engine, "idd"), "'idd'", "'id'"),
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
    "both": (lambda t: sf.quantiles("docvis", 0.5), "lower and upper missing"),
    "variance": (lambda t: sf.variance("docvis"), "lower and upper missing"),
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


EXTREME = [(0, 2**1000), (-(2**1000), 2**1000), (0, 1e300), (0, 1e-310), (0, 5e-324), (2**999, 2**1000), (0, "1e-400"),
           (1, Fraction(1) + Fraction(1, 2**200)), (1e300, math.nextafter(1e300, math.inf))]  # fmt: skip


@pytest.mark.parametrize("column", ["docvis", "income"])
@pytest.mark.parametrize("kind", ["sum", "row sum", "mean", "variance", "quantiles"])
def test_admissible_extremes_are_answered_or_refused_in_words(engine, column, kind):
    """Bounds at the edge of what is admitted: an answer, or an error that names them; nothing else."""
    make = {
        "sum": sf.sum,
        "row sum": lambda c, **b: sf.sum(c, **b, per="row"),
        "mean": sf.mean,
        "variance": sf.variance,
        "quantiles": lambda c, **b: sf.quantiles(c, 0.5, **b),
    }[kind]
    failed = []
    for lower, upper in EXTREME:
        try:
            asked = make(column, lower=lower, upper=upper)
            release = Table(engine(ROWS), "id").bound(rows=2).agg(a=asked).release(epsilon=1)
        except QueryError:
            continue
        try:
            (value,), (width,) = release.to_arrow()["a"].to_pylist(), release.errors()["a"].to_pylist()
            if not (math.isfinite(value) and math.isfinite(width)):
                failed.append((lower, upper, value, width))
        except Exception as error:
            failed.append((lower, upper, repr(error)))
    assert not failed


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
    for options, name in (({}, "epsilon"), ({"epsilon": 1, "shards": 4}, "shards")):
        for ask in (Question.release, Question.plan):  # they name themselves
            with pytest.raises(TypeError, match=rf"Question\.{ask.__name__}\(\) .*'{name}'"):
                ask(count_by_year(people), **options)


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, "3", True, math.nan, Fraction(2), [1]])
@pytest.mark.parametrize("limit", ["groups", "rows"])
def test_limits_are_whole_numbers(people, limit, value):
    with pytest.raises(ParameterError, match=limit):
        people.group_by("year").bound(**{limit: value})


@pytest.mark.parametrize("rows", [10**12, 10**18, 2**63, 2**64, 2**130, 2**1100])
def test_an_enormous_limit_is_answered_or_refused_beforehand(engine, rows):
    try:
        question = Table(engine(ROWS), "id").bound(rows=rows)
    except QueryError:
        assert rows > 10**9
        return
    for asked in (
        {"n": sf.count()},
        {"m": sf.mean("income", lower=0, upper=1)},
        {"q": sf.quantiles("income", 0.5, lower=0, upper=1)},
    ):
        try:
            release = question.agg(**asked).release(epsilon=1)
        except (QueryError, BudgetError, RefusalError):
            continue
        assert release.to_arrow().num_rows == 1


@pytest.mark.flakiness(k=17, because="two groups at delta 1e-12, of which each may have a millionth")
@pytest.mark.parametrize("groups", [10**6, 2**63, 2**64, 2**130])
def test_an_enormous_limit_of_groups(engine, groups):
    try:
        question = Table(engine(ROWS), "id").group_by("year").bound(groups=groups, rows=1).agg(n=sf.count())
        release = question.release(epsilon=1, delta=1e-12)
    except SfumatoError:
        return
    assert release.to_arrow().num_rows == 0


def test_bounds_on_texts(people):
    for ask in (sf.sum, sf.mean, sf.variance, sf.stddev):
        with pytest.raises(ColumnError, match=r"name.*VARCHAR; use try_cast\(name AS DOUBLE\) in its place"):
            people.bound(rows=1).agg(s=ask("name", lower=0, upper=1))


def test_columns_whose_values_do_not_compare():
    nested = pa.table({"id": [1], "a place": [{"x": 1}], "bytes": [b"a"]})
    with pytest.raises(ColumnError, match=r'use CAST\("a place" AS VARCHAR\), or a field .* before scan'):
        sf.scan(nested, privacy_unit="a place")
    table = sf.scan(nested, privacy_unit="id")
    for column, texts in (
        ("a place", ['CAST("a place" AS VARCHAR)', '"a place".x']),
        ("bytes", ["CAST(bytes AS VARCHAR)"]),
    ):
        with pytest.raises(ColumnError, match="do not compare") as caught:
            table.group_by(column)
        assert "with_columns" in str(caught.value)
        for text in texts:  # what the error says can be done
            assert text in str(caught.value)
            table.with_columns(x=text).group_by("x")


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


def test_names_of_error_columns_are_distinct_too(engine, tmp_path):
    question = Table(engine(ROWS), "id").bound(rows=1).agg(n=sf.count(), n_error=sf.count_units())
    release = question.release(epsilon=1)
    try:
        release.write(tmp_path / "out.parquet", confidence=0.9)
    except SfumatoError:
        return
    import pyarrow.parquet

    names = pyarrow.parquet.read_table(tmp_path / "out.parquet").column_names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "aggregate", ["count(*)", len, max, None, 3, "docvis", pa.compute.sum if hasattr(pa, "compute") else abs]
)
def test_only_private_aggregates(people, aggregate):
    with pytest.raises(QueryError, match="not a private aggregate"):
        people.bound(rows=1).agg(n=aggregate)


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


def test_equal_numbers_are_one_public_key(engine):
    table = Table(engine(ROWS), "id")
    with pytest.raises(QueryError, match="twice"):
        table.group_by("income", keys=[0.0, -0.0])
    with pytest.raises(QueryError, match=r"names \('2020', 'a'\) twice"):
        table.group_by("year", "name", keys=[(2020, "a")] * 2)


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
    assert people.group_by("year", keys=keys).public_keys["year"].to_pylist() == [2020, 2021]


def test_public_keys_may_be_spelled_in_other_types(people):
    assert people.group_by("year", keys=["2020", "2021"]).public_keys["year"].to_pylist() == [2020, 2021]
    assert people.group_by("year", keys=[2020.0]).public_keys["year"].to_pylist() == [2020]


FILES = {
    "empty.parquet": b"",
    "damaged.parquet": b"PAR1 not really PAR1",
    "empty.csv": b"",
    "empty.json": b"",
    "damaged.duckdb": b"not a database",
    "unknown.xyz": b"a,b",
}


@pytest.mark.parametrize("name", FILES)
def test_unreadable_files(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    with pytest.raises((EngineError, ColumnError)) as caught:
        sf.scan(str(path), privacy_unit="id")
    assert name in str(caught.value) or isinstance(caught.value, ColumnError)


def test_what_is_not_there(tmp_path):
    for path in ("nowhere.parquet", "no*.parquet", "folder/", "", ".", "x.duckdb/t", str(tmp_path)):
        with pytest.raises(EngineError):
            sf.scan(path, privacy_unit="id")
    for source in (None, 3, [1, 2], {"id": [1]}, pandas.Series([1]), pandas.Index([1]), polars.Series([1])):
        with pytest.raises(EngineError, match="cannot read a.*Spark.*Arrow schema"):
            sf.scan(source, privacy_unit="id")


def test_tables_have_names():
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id) COUNT(*) FROM "
    with pytest.raises(QueryError, match=r"tables is a DataFrame, but must give each table a name"):
        sf.sql(f"{text} visits", tables=ROWS.to_pandas())
    for name in ("visits", "`project.visits`"):
        with pytest.raises(SqlError, match=r"FROM names .*visits', .* tables=\{.*visits': \.\.\.\}"):
            sf.sql(text + name)
    with pytest.raises(SqlError, match="did you mean 'visits'"):
        sf.sql(f"{text} visist", tables={"visits": ROWS})
    with pytest.raises(EngineError, match="there is no file 'visits.csv.gz'"):  # though a name is near
        sf.sql(f"{text} 'visits.csv.gz'", tables={"visits": ROWS})


def test_a_folder_is_named_with_what_would_read_it(tmp_path):
    for name, ending in (("released", ".parquet"), ("released.csv", ".csv")):
        folder = tmp_path / name
        folder.mkdir()
        with pytest.raises(EngineError, match="is a folder") as caught:
            sf.scan(folder, privacy_unit="id")
        assert f"'{folder}/*{ending}'" in str(caught.value)
    pq.write_table(ROWS, tmp_path / "released" / "part-0.parquet")
    assert "year" in sf.scan(f"{tmp_path}/released/*.parquet", privacy_unit="id").schema


ODD_COLUMNS = {
    "half": pa.array(np.array([1, 2], np.float16)),
    "long": pa.array([None, None], pa.decimal256(60, 2)),
    "halves": pa.array([[], None], pa.list_(pa.float16())),
    "mixed": pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]
    ),
}


@pytest.mark.parametrize("name", ODD_COLUMNS)
def test_a_column_that_cannot_be_read_is_named(name):
    table = pa.table({"id": [1, 2], name: ODD_COLUMNS[name], "x": [1, 2]})
    for source in (table, table.to_batches()[0], table.schema):
        with pytest.raises(EngineError, match=f"column '{name}' is .*; cast it"):
            sf.scan(source, privacy_unit="id")


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        (pandas.DataFrame({"id": [1], "x": [1j]}), "column 'x' of the pandas frame .complex128."),
        (pandas.DataFrame([[1, 2, 3]], columns=["id", "a", "a"]), "two columns 'a'"),
        (pandas.DataFrame(), "no columns"),
        (polars.DataFrame({"id": [1], "x": polars.Series([1], dtype=polars.Int128)}), "'x' of the Polars frame"),
        (polars.DataFrame({"id": [1], "x": polars.Series([1.0], dtype=polars.Float16)}), "'x' is halffloat"),
        (polars.LazyFrame({"id": [1], "ID": [1]}), "two columns 'ID'"),
        (pa.table([[1], [2], [3]], ["id", "a", "a"]), "two columns 'a'"),
        (pa.table({}), "no columns"),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_frame_that_cannot_be_read_says_why(frame, named):
    with pytest.raises(EngineError, match=named):
        sf.scan(frame, privacy_unit="id")


@pytest.mark.parametrize("unit", [None, 3, "", ["id"]])
def test_the_unit_is_a_column_of_the_table(unit):
    with pytest.raises(QueryError, match="privacy_unit"):
        sf.scan(ROWS, privacy_unit=unit)


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, math.nan, "0.9", None])
def test_confidence(engine, confidence):
    release = Table(engine(ROWS), "id").bound(rows=1).agg(n=sf.count()).release(epsilon=1)
    with pytest.raises(ParameterError, match="confidence"):
        release.errors(confidence)


@pytest.mark.noise_cannot_matter("it looks at whether there is an answer")
@pytest.mark.parametrize("epsilon", ["1e-30", 1e-12, 1e-6, 1e4, 1e9, 10**30])
@pytest.mark.parametrize("groups", [1, 100, 10**6])
@pytest.mark.parametrize("noise", ["auto", "gaussian", "laplace"])
def test_enormous_and_tiny_budgets_are_answered_or_refused_beforehand(engine, epsilon, groups, noise):
    question = (
        Table(engine(ROWS), "id")
        .group_by("year")
        .bound(groups=groups, rows=1)
        .agg(n=sf.count(), m=sf.mean("income", lower=0, upper=1))
    )
    try:
        release = question.release(epsilon=epsilon, delta=1e-6, noise=noise)
    except (BudgetError, RefusalError, QueryError):
        assert noise != "auto" or not Fraction(1, 10**9) <= Fraction(epsilon) <= 10**6
        return
    assert all(math.isfinite(float(scale)) and scale > 0 for scale in release.plan.scales.values())
    release.to_arrow()


def test_a_tiny_epsilon_finds_a_rule_for_private_groups(people):
    """Where one rule of selection is impossible, `auto` takes another."""
    assert count_by_year(people).plan(epsilon=1e-6, delta=1e-6).selection is not None
