"""Bad questions, sources and budgets: a clear error before anything is read, started or drawn."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

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
    QueryError,
    RefusalError,
    SqlError,
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


@pytest.mark.flakiness(k=17, because="two groups at delta 1e-12, of which each may have a millionth")
def test_an_enormous_limit_is_answered_or_refused_beforehand(openers):
    table = Table(openers("duckdb")(ROWS), "id")
    for limit in (10**9, 2**63, 2**64, 2**1100):
        if limit > 10**9:
            for given in ({"rows": limit}, {"groups": limit}):
                with pytest.raises(QueryError):
                    table.bound(**given)
            continue
        for asked in (sf.count(), sf.mean("income", lower=0, upper=1)):
            with suppress(QueryError, BudgetError, RefusalError):
                assert table.bound(rows=limit).agg(a=asked).release(epsilon=1).to_arrow().num_rows == 1
        question = table.group_by("year").bound(groups=limit, rows=1).agg(n=sf.count())
        assert question.release(epsilon=1, delta=1e-12).to_arrow().num_rows == 0


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


FILES = {
    "empty.parquet": b"",
    "damaged.parquet": b"PAR1 not really PAR1",
    "empty.csv": b"",
    "empty.json": b"",
    "damaged.duckdb": b"not a database",
    "unknown.xyz": b"a,b",
}


def test_unreadable_files(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises((EngineError, ColumnError)) as caught:
            sf.scan(str(tmp_path / name), privacy_unit="id")
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


FRAMES = [
    (pandas.DataFrame({"id": [1], "x": [1j]}), "column 'x' of the pandas frame .complex128."),
    (pandas.DataFrame([[1, 2, 3]], columns=["id", "a", "a"]), "two columns 'a'"),
    (pandas.DataFrame(), "no columns"),
    (polars.DataFrame({"id": [1], "x": polars.Series([1], dtype=polars.Int128)}), "'x' of the Polars frame"),
    (polars.LazyFrame({"id": [1], "ID": [1]}), "two columns 'ID'"),
    (pa.table([[1], [2], [3]], ["id", "a", "a"]), "two columns 'a'"),
    (pa.table({}), "no columns"),
]


def test_a_frame_that_cannot_be_read_says_why():
    for frame, named in FRAMES:
        with pytest.raises(EngineError, match=named):
            sf.scan(frame, privacy_unit="id")
    for unit in (None, 3, "", [], ["nothing"], [3]):
        with pytest.raises(QueryError, match="privacy_unit"):
            sf.scan(ROWS, privacy_unit=unit)


@pytest.mark.long
@pytest.mark.noise_cannot_matter("it looks at whether there is an answer")
@pytest.mark.parametrize("epsilon", ["1e-30", 1e-6, 1e4, 10**30])
@pytest.mark.parametrize(
    ("groups", "noise"), [(1, "auto"), (100, "laplace"), (10**6, "gaussian"), (10**6, "auto")]
)
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
