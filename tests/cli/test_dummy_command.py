"""`sfumato sql --dummy`: questions on made-up rows of what a catalog declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.cli.options import ExitCode

pytestmark = pytest.mark.noise_cannot_matter("notes and files are looked at, no number")

CATALOG = """
[tables.people]
source = "nowhere.csv"
privacy_unit = "id"
types = {id = "BIGINT", year = "BIGINT", visits = "DOUBLE"}
max_groups = 3
max_rows = 1

[tables.people.columns]
visits = {lower = 0, upper = 6}
year = {domain = [1984, 1985, 1986]}
"""
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) "
TEXTS = {
    "plain": "year, AVG(visits) AS mean FROM people GROUP BY year",
    "computed": "year, AVG(visits) AS mean FROM people GROUP BY year ORDER BY mean",
    "largest": "APPROX_TOP_COUNT(year, 2) FROM people",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "catalog.toml").write_text(CATALOG)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", TEXTS)
def test_an_answer_about_nobody(name, run):
    done = run(
        "sql",
        "--dummy",
        "-c",
        "catalog.toml",
        OPTIONS + TEXTS[name],
        "-o",
        "a.csv",
        "--receipt",
        "r.json",
        "--explain",
    )
    assert done.exit_code == 0, done.output
    shown = " ".join(done.stdout.split())
    assert "THESE ROWS ARE MADE UP" in shown
    assert "spent NOTHING, as the rows are made up; of real rows epsilon 1, delta" in shown
    done = run("verify", "r.json", "a.csv")
    assert done.exit_code == ExitCode.FAILED
    assert "NOT A RELEASE" in done.stdout and "Of real rows it would spend: epsilon 1" in done.stdout


def test_two_releases(run):
    one = OPTIONS + "COUNT(*) AS n FROM people"
    done = run("sql", "--dummy", "-c", "catalog.toml", f"SELECT a.n + b.n AS n FROM ({one}) a, ({one}) b")
    assert done.exit_code == 0, done.output
    assert "NOTHING, as the rows are made up; of real rows epsilon 2" in " ".join(done.stdout.split())


def test_without_it_the_files_are_asked(run):
    done = run("sql", "-c", "catalog.toml", OPTIONS + TEXTS["plain"])
    assert done.exit_code == 1 and "there is no file" in done.stderr


def test_it_needs_a_catalog(run):
    done = run("sql", "--dummy", OPTIONS + "COUNT(*) AS n FROM 'a.parquet'")
    assert done.exit_code == 2 and "add --catalog" in done.stderr


def test_plans_previews_and_diagnostics(run):
    for more in ("--dry-run", "--preview", "--diagnostics"):
        done = run("sql", "--dummy", "-c", "catalog.toml", OPTIONS + TEXTS["plain"], more)
        assert done.exit_code == 0, done.output
