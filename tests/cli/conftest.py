"""Fixtures of tests of commands: rows in the current folder, and the command line in this process."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """900 people in three years, in the file visits.parquet of the current folder."""
    monkeypatch.chdir(tmp_path)
    people = range(900)
    table = pa.table(
        {
            "id": [p for p in people for _ in range(3)],
            "year": [year for _ in people for year in (1984, 1985, 1986)],
            "visits": [float(p % 7) for p in people for _ in range(3)],
        }
    )
    pq.write_table(table, tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


@pytest.fixture
def run():
    """Return a function that runs the command line as on a terminal of 80 columns."""

    def invoke(*arguments, columns=80, stdin=None):
        env = {"COLUMNS": str(columns), "TERM": "dumb"}
        return CliRunner().invoke(app, list(arguments), input=stdin, env=env)

    return invoke
