"""Totals on the terminal and in pictures: what is of all values says so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import sfumato as sf
from sfumato.cli.table_printer import check_processed, print_table
from sfumato.errors import QueryError
from sfumato.query.error_bars import Bars
from sfumato.release.chart import Chart, bar_chart

pytestmark = pytest.mark.noise_cannot_matter("keys are looked at, and no noisy number")


@pytest.fixture
def release():
    table = pa.table({"id": [1, 2, 3], "region": ["N", "S", "S"], "town": [None, 1, 2]})
    keys = [("N", None), ("S", 1), ("S", 2)]
    grouped = sf.scan(table, privacy_unit="id").group_by("region", "town", keys=keys).totals(integer=True)
    return grouped.bound(groups=1, rows=1).agg(n=sf.count()).release(epsilon=1, delta="1e-6")


def test_a_table(release):
    console = Console(width=100, record=True, no_color=True)
    print_table(console, release, release.to_arrow(), release.errors(0.95), Bars(), 50)
    lines = [line.split() for line in console.export_text().splitlines()]
    assert "grouping" not in str(lines)
    assert [line[:2] for line in lines if line[:1] in (["N"], ["S"], ["all"])] == [
        ["N", "NULL"], ["S", "1"], ["S", "2"], ["N", "all"], ["S", "all"], ["all", "all"],
    ]  # fmt: skip


def test_a_picture(release):
    assert Chart.of(release, Bars()).labels == [
        "N · NULL", "S · 1", "S · 2", "N · all", "S · all", "all · all",
    ]  # fmt: skip


def test_totals_of_sql_are_drawn_as_they_were_released(monkeypatch):
    table = pa.table({"id": [1, 2, 3], "region": ["N", "S", "S"], "town": [3, 1, 2]})
    tables = {"visits": table, "places": sf.public(table.select(["region", "town"]))}

    def asked(columns, behind):
        text = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, "
            f"max_rows_per_group = 1, group_selection_strategy = PUBLIC_GROUPS) {columns} FROM visits "
            "RIGHT OUTER JOIN (SELECT DISTINCT region, town FROM places) AS p ON visits.region = p.region "
            f"AND visits.town = p.town {behind}"
        )
        return sf.sql(text, tables=tables)

    rollup = asked("p.region, p.town, COUNT(*) AS n", "GROUP BY ROLLUP (p.region, p.town) ORDER BY n")
    check_processed(rollup, plot=True, errors=False)
    chart = rollup._chart(rollup.bars)
    assert isinstance(chart, Chart)
    assert chart.labels[-1] == "all · all" and len(chart.labels) == 6
    assert chart.footer.endswith("before the SQL computes with them.")
    assert sorted(rollup.released["n"]) == rollup["n"]
    plain = asked("p.region, p.town, COUNT(*) * 2 AS n", "GROUP BY p.region, p.town")
    with pytest.raises(QueryError, match="leave out what is computed"):
        check_processed(plain, plot=True, errors=False)
    with pytest.raises(QueryError, match="draw .released"):
        plain.plot()


@pytest.mark.long
def test_a_picture_is_written(release, tmp_path):
    bar_chart(release, tmp_path / "totals.svg")
    assert "all" in Path(tmp_path / "totals.svg").read_text()
