"""Bad questions, sources and budgets: a clear error before anything is read, started or drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
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


MISTAKES = {
    "a column": lambda t: t.filter("yaer > 2020"),
    "an expression": lambda t: t.filter("docvis >"),
    "an aggregate": lambda t: t.bound(rows=1).agg(n=len),
    "a text that is added": lambda t: t.bound(rows=1).agg(s=sf.sum("name", lower=0, upper=1)),
    "bounds": lambda t: t.bound(rows=1).agg(s=sf.sum("docvis", lower=1, upper=0)),
    "a limit": lambda t: t.bound(rows=0),
    "no limit": lambda t: t.group_by("year").bound(rows=1).agg(n=sf.count()),
    "the unit as key": lambda t: t.group_by("id"),
    "public keys": lambda t: t.group_by("year", keys=["x"]),
    "equal public keys": lambda t: t.group_by("income", keys=[0.0, -0.0]),
    "names": lambda t: t.group_by("year").bound(groups=1, rows=1).agg(Year=sf.count()),
    "epsilon": lambda t: t.bound(rows=1).agg(n=sf.count()).release(epsilon=0),
    "delta": lambda t: t.bound(rows=1).agg(n=sf.count()).release(epsilon=1, delta=1),
    "no delta": lambda t: t.group_by("year").bound(groups=1, rows=1).agg(n=sf.count()).release(epsilon=1),
    "an option": lambda t: t.bound(rows=1).agg(n=sf.count()).release(epsilon=1, noise="gauss"),
}


@pytest.mark.long
@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_told_before_anything_is_read(engine, what, monkeypatch):
    """`tests/api/test_refusals.py` looks at each error's text."""
    opened = engine(ROWS)

    def read(*_: object, **__: object):
        raise AssertionError("rows are read")

    monkeypatch.setattr(type(opened), "statistics", read)
    monkeypatch.setattr(type(opened), "released", read, raising=False)
    monkeypatch.setattr(noise_law.Law, "rounded", read)
    before = engine.jobs()
    with pytest.raises(SfumatoError):
        MISTAKES[what](Table(opened, "id"))
    assert engine.jobs() == before


EXTREME = [(0, 2**1000), (-(2**1000), 2**1000), (0, 1e300), (0, 1e-310), (0, 5e-324), (2**999, 2**1000), (0, "1e-400"),
           (1, Fraction(1) + Fraction(1, 2**200)), (1e300, math.nextafter(1e300, math.inf))]  # fmt: skip


@pytest.mark.parametrize("kind", ["sum", "row sum", "mean", "variance", "quantiles"])
@pytest.mark.parametrize("column", ["docvis", "income"])
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
    some = slice(len(kind) % 3, None, 3) if engine.slow else slice(None)  # each of them for some kind
    for lower, upper in EXTREME[some]:
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
    for source in ([1, 2], {"id": [1]}):
        with pytest.raises(EngineError, match="cannot read a.*; make a table of it first"):
            sf.scan(source, privacy_unit="id")
    for source in (None, 3, pandas.Series([1]), pandas.Index([1]), polars.Series([1])):
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


@pytest.mark.parametrize("unit", [None, 3, "", [], ["nothing"], [3]])
def test_the_unit_is_a_column_of_the_table(unit):
    with pytest.raises(QueryError, match="privacy_unit"):
        sf.scan(ROWS, privacy_unit=unit)


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, math.nan, "0.9", None])
def test_confidence(engine, confidence):
    release = Table(engine(ROWS), "id").bound(rows=1).agg(n=sf.count()).release(epsilon=1)
    with pytest.raises(ParameterError, match="confidence"):
        release.errors(confidence)


@pytest.mark.long
@pytest.mark.noise_cannot_matter("it looks at whether there is an answer")
@pytest.mark.parametrize("epsilon", ["1e-30", 1e-12, 1e-6, 1e4, 1e9, 10**30])
@pytest.mark.parametrize("groups", [1, 100, 10**6])
@pytest.mark.parametrize("noise", ["auto", "gaussian", "laplace"])
def test_enormous_and_tiny_budgets_are_answered_or_refused_beforehand(epsilon, groups, noise):
    question = (
        sf.scan(ROWS, privacy_unit="id")
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
