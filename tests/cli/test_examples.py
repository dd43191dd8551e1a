"""The examples: what a newcomer runs first."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf

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


BOUNDS = re.compile(
    r"""docvis[^\n]{0,60}?(?:lower"?[ ]?[=:][ ]?0,[ ]"?upper"?[ ]?[=:][ ]?|\(0,[ ])(\d+)""",
    re.X,
)


@pytest.mark.long
def test_no_bound_of_visits_that_a_reader_sees_bites(registry):
    """Of bounds 0 to 30, by 0.16 of the mean of 1984, more than its error bar."""
    root = EXAMPLES.parent
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *EXAMPLES.rglob("*.*")]
    texts = {page: page.read_text() for page in pages if page.suffix in (".md", ".py", ".sql", ".ipynb")}
    found = [
        (page, int(upper)) for page, text in texts.items() for upper in BOUNDS.findall(text.replace("\\", ""))
    ]
    assert len(found) > 30 and {page.name for page, _ in found} >= {
        "README.md",
        "visits_by_year.sql",
        "visits.ipynb",
    }
    rows = pq.read_table(registry, columns=["year", "docvis"]).to_pandas()

    def shift(upper: int) -> float:
        clamped = rows.assign(docvis=rows.docvis.clip(0, upper))
        return float((rows - clamped).groupby(rows.year).docvis.mean().max())

    bites = {(page.name, upper) for page, upper in found if shift(upper) > 0.032}
    assert not bites
    assert shift(30) > 0.15  # planted: the bound that stood there


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
@pytest.mark.noise_cannot_matter("it looks at columns and explanations, which are there before any noise")
def test_sql_and_python_ask_the_same(registry, capsys):
    release = sf.sql((EXAMPLES / "visits_by_year.sql").read_text())
    runpy.run_path(str(EXAMPLES / "visits_by_year.py"))["main"]()
    said = capsys.readouterr().out
    assert said.rstrip().endswith(str(release.explain()))
    for name in release.to_arrow().schema.names:
        assert name in said


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
