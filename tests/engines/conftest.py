"""The engines that the suite holds to the framework: each opens typed rows as a source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

import duckdb
import pyarrow as pa
import pytest

from sfumato.engines.duckdb.engine import DuckDBEngine


def write_rows(path: str, columns: Mapping[str, tuple[str, Sequence[str | None]]]) -> None:
    """Write a table `rows` to a DuckDB file: by column, its SQL type and its values as text."""
    texts = pa.table({name: pa.array(list(values), pa.string()) for name, (_, values) in columns.items()})
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in columns}
    typed = ", ".join(
        f"CAST({quoted[name]} AS {kind}) AS {quoted[name]}" for name, (kind, _) in columns.items()
    )
    with duckdb.connect(path) as connection:
        connection.register("texts", texts)
        connection.execute(f"CREATE TABLE rows AS SELECT {typed} FROM texts")


def _duckdb(folder: str) -> Callable[..., DuckDBEngine]:
    numbers = count()

    def open_rows(columns: Mapping[str, tuple[str, Sequence[str | None]]] | pa.Table) -> DuckDBEngine:
        if isinstance(columns, pa.Table):
            return DuckDBEngine.open(columns)
        path = f"{folder}/{next(numbers)}.duckdb"
        write_rows(path, columns)
        return DuckDBEngine.open(f"{path}/rows")

    return open_rows


ENGINES = {"duckdb": _duckdb}


@pytest.fixture(params=ENGINES, scope="session")
def engine(request, tmp_path_factory):
    """Rows -> Engine. Rows are an Arrow table, or a SQL type and texts for each column."""
    return ENGINES[request.param](str(tmp_path_factory.mktemp("rows")))


@pytest.fixture
def fixed_salt(monkeypatch):
    """The same choice of groups in every release."""
    monkeypatch.setattr("secrets.randbits", lambda bits: 0x9E3779B97F4A7C15 & ((1 << bits) - 1))
