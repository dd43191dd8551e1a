"""Totals on the terminal and in pictures: what is of all values says so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import sfumato as sf
from sfumato.cli.plot import _Chart, bar_chart
from sfumato.cli.table import print_table

pytestmark = pytest.mark.noise_cannot_matter("keys are looked at, and no noisy number")


@pytest.fixture
def release():
    table = pa.table({"id": [1, 2, 3], "region": ["N", "S", "S"], "town": [None, 1, 2]})
    keys = [("N", None), ("S", 1), ("S", 2)]
    grouped = sf.scan(table, privacy_unit="id").group_by("region", "town", keys=keys).totals(integer=True)
    return grouped.bound(groups=1, rows=1).agg(n=sf.count()).release(epsilon=1, delta="1e-6")


def test_a_table(release):
    console = Console(width=100, record=True, no_color=True)
    print_table(console, release, release.to_arrow(), release.errors(0.95), 0.95, False, 50)
    lines = [line.split() for line in console.export_text().splitlines()]
    assert "grouping" not in str(lines)
    assert [line[:2] for line in lines if line[:1] in (["N"], ["S"], ["all"])] == [
        ["N", "NULL"], ["S", "1"], ["S", "2"], ["N", "all"], ["S", "all"], ["all", "all"],
    ]  # fmt: skip


def test_a_picture(release):
    assert _Chart.of(release, 0.95, False).labels == [
        "N · NULL", "S · 1", "S · 2", "N · all", "S · all", "all · all",
    ]  # fmt: skip


@pytest.mark.long
def test_a_picture_is_written(release, tmp_path):
    bar_chart(release, tmp_path / "totals.svg")
    assert "all" in Path(tmp_path / "totals.svg").read_text()
