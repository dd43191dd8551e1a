from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from sfumato.cli.main import app

# Enough budget that every group shows and no test depends on luck: at this epsilon the noise of a
# count of hundreds is far below one.
OPTIONS = "epsilon = 1000, delta = 1e-6, privacy_unit_column = id, max_rows_per_group = 1"

# The number of different visits, by matching and by shares.
KINDS = (
    "COUNT(DISTINCT visits, contribution_bounds_per_group => (0, 1)) AS kinds, "
    "APPROX_COUNT_DISTINCT(visits, contribution_bounds_per_group => (0, 1)) AS about"
)


def question(
    columns: str, *, groups: bool = True, source: str = "visits.parquet", options: str = OPTIONS
) -> str:
    limit = ", max_groups_contributed = 3" if groups else ""
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}{limit}) {columns} FROM '{source}'"
        + " GROUP BY ALL" * groups
    )


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """900 people in three years, in the current folder."""
    monkeypatch.chdir(tmp_path)
    people = list(range(900))
    table = pa.table(
        {
            "id": [p for p in people for _ in range(3)],
            "year": [year for _ in people for year in (1984, 1985, 1986)],
            "visits": [float(p % 7) for p in people for _ in range(3)],
        }
    )
    path = tmp_path / "visits.parquet"
    pq.write_table(table, path)
    return path


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run the command line on a terminal of 80 columns."""

    def invoke(*arguments: str, columns: int = 80, stdin: str | None = None) -> Result:
        return CliRunner().invoke(
            app, list(arguments), input=stdin, env={"COLUMNS": str(columns), "TERM": "dumb"}
        )

    return invoke
