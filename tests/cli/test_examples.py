"""The examples: what a newcomer runs first."""

import re
import runpy
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def registry(tmp_path, monkeypatch, capsys) -> Path:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "rwm5yr.py"))["main"]()
    assert "Wrote rwm5yr.parquet: 19,609 rows" in capsys.readouterr().out
    return tmp_path / "rwm5yr.parquet"


def test_the_registry_is_what_its_comments_say(registry):
    nullable = {field.name: field.nullable for field in pq.read_schema(registry)}
    assert not nullable["docvis"] and not nullable["id"] and nullable["hhninc"]
    table = pq.read_table(registry, columns=["id", "year"]).to_pandas()
    assert table.groupby(["id", "year"]).size().max() == 1
    assert table.groupby("id").size().max() == 5


@pytest.mark.long
def test_the_catalog_of_the_service_passes_its_check(registry, run):
    (registry.parent / "registry.toml").write_text((EXAMPLES / "serve" / "registry.toml").read_text())
    done = run("check", "registry.toml")
    assert done.exit_code == 0 and "WRONG" not in done.stdout, done.stdout
    (registry.parent / "narrow.toml").write_text(
        (EXAMPLES / "serve" / "registry.toml").read_text().replace("upper = 150", "upper = 30")
    )
    assert run("check", "narrow.toml").exit_code == 1


@pytest.mark.long
@pytest.mark.flakiness(k=30, because="noise of scale 30 or less against thousands of people in each year")
def test_the_command_of_the_readme(registry, run):
    (command,) = re.findall(r"\.venv/bin/sfumato (.*)", (EXAMPLES.parent / "README.md").read_text())
    done = run(*shlex.split(command.replace("examples/", f"{EXAMPLES}/")))
    assert done.exit_code == 0, done.output
    assert "How the answer is made" in done.stdout and "Wrote chart.png." in done.stdout
    assert Path("chart.png").stat().st_size > 10_000  # which .gitignore knows
    assert run("sql", (EXAMPLES / "visits_by_year.sql").read_text()).exit_code == 0


@pytest.mark.flakiness(k=25, because="noise of scale 0.006 takes a share of 0.58 to 1")
def test_a_survey(capsys):
    runpy.run_path(str(EXAMPLES / "stratified_proportion.py"))["main"]()
    said = capsys.readouterr().out
    assert "private       0." in said and "the truth     0.584" in said
    assert "Budget: epsilon 1, for the answer of each respondent" in said
