"""`sfumato check`, and `sfumato sql --catalog`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.cli.options import ExitCode

CATALOG = """
[tables.people]
source = "visits.parquet"
privacy_unit = "id"
max_groups = 3
max_rows = 1

[tables.people.columns]
visits = {lower = 0, upper = 6}
year = {domain = [1984, 1985, 1986]}
"""
QUESTION = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) year, AVG(visits) AS mean FROM people GROUP BY 1"


@pytest.fixture
def catalog(visits: Path) -> Path:
    path = visits.parent / "catalog.toml"
    path.write_text(CATALOG)
    return path


@pytest.mark.flakiness(k=30, because="noise of scale below 1 against 900 people moves no mean by 0.003")
def test_sql_on_a_catalog(catalog, run):
    done = run("sql", "--catalog", "catalog.toml", QUESTION)
    assert done.exit_code == 0, done.output
    assert "1985   2.99" in done.stdout and "3 shown: all, as they are public" in done.stdout
    assert "catalog.toml: tables.people" in done.stdout


def test_a_question_or_catalog_that_must_be_fixed(catalog, run):
    done = run("sql", "-c", "catalog.toml", QUESTION.replace("people", "peple"))
    assert done.exit_code == 2 and "did you mean 'people'?" in done.stderr
    done = run("sql", "-c", "catalog.toml", "-t", "people=visits.parquet", QUESTION)
    assert done.exit_code == 2 and "catalog= says what tables there are" in done.stderr
    done = run("sql", "-c", "none.toml", QUESTION)
    assert done.exit_code == 1 and "'none.toml' cannot be read" in done.stderr
    catalog.write_text("tables = 3")
    done = run("sql", "-c", "catalog.toml", QUESTION)
    assert done.exit_code == 2 and "catalog.toml: tables is 3" in done.stderr


def test_rows_that_are_as_declared(catalog, run):
    done = run("check", "catalog.toml")
    assert done.exit_code == ExitCode.DONE, done.output
    assert done.stdout.startswith("NOT PRIVATE") and "people: private, 2,700 rows" in done.stdout


def test_rows_that_are_not(catalog, run):
    catalog.write_text(CATALOG.replace("upper = 6", "upper = 5.5"))
    done = run("check", "catalog.toml")
    assert done.exit_code == ExitCode.FAILED
    assert "columns.visits: 384 rows outside 0 to 5.5" in done.stdout


def test_a_catalog_that_must_be_fixed(catalog, run):
    catalog.write_text(CATALOG.replace("lower", "lowr"))
    done = run("check", "catalog.toml")
    assert done.exit_code == ExitCode.MISUSED and "did you mean lower?" in done.stderr
    assert run("check", "none.toml").exit_code == ExitCode.MISUSED


ASKED = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 5)
year, COUNT(*) AS n, AVG(visits, contribution_bounds_per_row => (0, 6)) AS mean FROM people GROUP BY year"""


@pytest.fixture
def query(visits: Path) -> Path:
    path = visits.parent / "query.sql"
    path.write_text(ASKED)
    return path


def test_a_question_that_keeps_units_apart(query, run):
    done = run("check", "query.sql", "--table", "people=visits.parquet", "--splits", "2", "--removed", "3")
    assert done.exit_code == ExitCode.DONE, done.output
    assert done.stdout.startswith("NOT PRIVATE") and "split 2: " in done.stdout
    assert "for 3 units, one at a time, exact numbers move by at most 1 of" in done.stdout


def test_a_question_on_a_catalog(query, catalog, run):
    query.write_text(ASKED.replace("_contributed = 5", "_contributed = 3"))
    done = run("check", "query.sql", "--catalog", "catalog.toml", "--splits", "1", "--removed", "1")
    assert done.exit_code == ExitCode.DONE, done.output


def test_a_question_that_does_not(query, run, monkeypatch):
    from sfumato.engines import question_check

    monkeypatch.setattr(question_check, "_moved", lambda *_: 7)
    done = run("check", "query.sql", "-t", "people=visits.parquet", "--splits", "1", "--removed", "1")
    assert done.exit_code == ExitCode.FAILED and "WRONG one unit less" in done.stdout


def test_a_question_that_must_be_fixed(query, catalog, run):
    done = run("check", "query.sql")
    assert done.exit_code == ExitCode.MISUSED and "--table people=PATH" in done.stderr
    done = run("check", "catalog.toml", "--splits", "3")
    assert done.exit_code == ExitCode.MISUSED and "options are of a question" in done.stderr
    done = run("check", "query.sql", "-t", "people=visits.parquet", "--splits", "0")
    assert done.exit_code == ExitCode.MISUSED and "splits is 0" in done.stderr
    done = run("check", "none.sql")
    assert done.exit_code == ExitCode.MISUSED and "'none.sql' cannot be read" in done.stderr
