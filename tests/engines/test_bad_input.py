"""Bad questions, sources and budgets: a clear error before anything is read, started or drawn."""

from contextlib import suppress

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
