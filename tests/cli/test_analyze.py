"""`sfumato analyze`: for the owner alone, and only where that is said."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from .conftest import question

TEXT = question(
    "year, COUNT(*) AS n, AVG(visits, contribution_bounds_per_row => (0, 5)) AS mean",
    options="epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_rows_per_group = 1",
)


@pytest.fixture
def query(visits):
    (visits.parent / "query.sql").write_text(TEXT)
    return "query.sql"


def test_limits_side_by_side(query, run, tmp_path):
    compared = ["--groups", "1,3", "--bounds", "mean=0:5,0:10", "-o", "groups.parquet", "--plot", "map.svg"]
    done = run("analyze", query, "--not-private", *compared, columns=160)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("NOT PRIVATE") and "n: groups=3, rows=1, mean 0 to" in done.stdout
    found = pq.read_table(tmp_path / "groups.parquet").to_pylist()
    assert len(found) == 4 * 2 * 3
    assert found[0]["bias"] == pytest.approx(-600) and {r["exact"] for r in found if r["output"] == "n"} == {
        900
    }
    assert "NOT PRIVATE" in (tmp_path / "map.svg").read_text()


def test_it_needs_the_flag(query, run):
    done = run("analyze", query, "--groups", "1,3")
    assert done.exit_code == 2 and "--not-private" in done.output and "900" not in done.output


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--groups", "1;2"], "whole numbers"),
        (["--groups", "0"], "groups is 0"),
        (["--bounds", "mean"], "NAME=LOW:HIGH"),
        (["--bounds", "mean=0:5", "--bounds", "mean=0:6"], "given twice"),
        (["--bounds", "mean=a:b"], "bounds of mean"),
        (["--output", "visits.parquet"], "visits.parquet"),
        (["--plot", "map.pdf"], "plot path"),
    ],
)
def test_a_bad_command_line_is_refused(given, text, query, run):
    done = run("analyze", query, "--not-private", *given, columns=200)
    assert done.exit_code == 2 and text in done.output


def test_several_selects_are_refused(visits, run):
    (visits.parent / "two.sql").write_text(f"SELECT * FROM ({TEXT}) UNION ALL ({TEXT})")
    done = run("analyze", "two.sql", "--not-private", columns=160)
    assert done.exit_code == 2 and "2 private SELECTs" in done.output


def test_what_a_release_would_find_is_refused(visits, run):
    options = (
        "epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_rows_per_group = 1, auto_bounds = true"
    )
    (visits.parent / "auto.sql").write_text(question("year, AVG(visits) AS mean", options=options))
    done = run("analyze", "auto.sql", "--not-private", columns=160)
    assert (
        done.exit_code == 2
        and "analyze: the bounds of mean" in done.output
        and "NOT PRIVATE" not in done.output
    )
