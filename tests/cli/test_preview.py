"""`sfumato sql --preview`: errors of made-up groups, and nothing is read or spent."""

from __future__ import annotations

import pytest

from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.release.release import Release

from .conftest import question

TEXT = question("year, COUNT(*) AS n", options="epsilon = 1, delta = 1e-6, privacy_unit_column = id")


def test_three_budgets_and_three_sizes(visits, run, monkeypatch):
    def refuse(*given, **options):
        raise AssertionError("noise was drawn for rows")

    monkeypatch.setattr(Release, "_draw", refuse)
    done = run("sql", "--preview", TEXT, columns=120)
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["epsilon", "units", "shown", "n", "n_error"]
    assert [row[:2] for row in rows[1:10]] == [
        [epsilon, units] for epsilon in ("0.5", "1", "2") for units in ("100", "1,000", "10,000")
    ]
    assert "no row was read, nothing was spent" in done.stdout


@pytest.mark.long
def test_a_picture_and_several_selects(visits, run, tmp_path):
    both = f"SELECT * FROM ({TEXT}) UNION ALL ({TEXT})"
    done = run("sql", "--preview", both, columns=120)
    assert done.exit_code == 0 and done.stdout.count("no row was read") == 2, done.output
    done = run("sql", "--preview", "--plot", "errors.svg", TEXT)
    assert done.exit_code == 0 and "units in the group" in (tmp_path / "errors.svg").read_text()


def test_rows_are_those_of_made_up_groups_alone(visits, run, monkeypatch):
    read = DuckDBEngine.statistics

    def watched(self, query, batch_rows):
        assert not self.files, "the file was read"
        return read(self, query, batch_rows)

    monkeypatch.setattr(DuckDBEngine, "statistics", watched)
    assert run("sql", "--preview", TEXT).exit_code == 0
