"""`--diagnostics`: what limits and bounds changed, under the table."""

from __future__ import annotations

import re

import pytest

from .conftest import question

pytestmark = pytest.mark.flakiness(k=30, because="noise of scale 3 or less against 900 people in each group")
MEAN = question("year, AVG(visits, contribution_bounds_per_row => (0, 10)) AS mean_visits")
TOLD = r"about \S+ ± \S+ of rows and \S+ ± \S+ of units were beyond groups="


def one_line(text: str) -> str:
    return re.sub(r"\s+limits\s+|\s+", " ", text)


def test_they_stand_under_the_table(visits, run):
    done = run("sql", "--diagnostics", MEAN)
    assert done.exit_code == 0, done.output
    table, _, below = done.stdout.partition("limits")
    assert "mean_visits" in table
    assert re.search(TOLD, one_line("limits " + below))
    assert "epsilon 1000," in done.stdout, "what is spent is all of it"
    assert "--diagnostics, for 5%" not in one_line(done.stdout)


def test_they_are_offered_and_off(visits, run):
    done = run("sql", MEAN)
    assert "and bounds; --diagnostics estimates it." in one_line(done.stdout)
    assert not re.search(TOLD, one_line(done.stdout))


def test_options_say_another_share(visits, run):
    asked = MEAN.replace("epsilon =", "diagnostics = 0.5, epsilon =")
    done = run("sql", "--explain", "--dry-run", "--diagnostics", asked)
    assert "at epsilon 500; all together cost 1000" in one_line(done.stdout)
    assert re.search(TOLD, one_line(run("sql", asked).stdout))


def test_several_releases_have_their_own(visits, run):
    both = f"SELECT a.year, a.n, b.n AS m FROM ({question('year, COUNT(*) AS n')}) a JOIN ({question('year, COUNT(*) AS n')}) b USING (year)"
    done = run("sql", "--diagnostics", both)
    assert done.exit_code == 0, done.output
    assert "limits 1" in done.stdout
    assert "limits 2" in done.stdout


@pytest.mark.parametrize("share", ["0", "1", "'a'", "-1"])
def test_shares_that_are_none(share, visits, run):
    done = run("sql", MEAN.replace("epsilon =", f"diagnostics = {share}, epsilon ="))
    assert done.exit_code == 2
    assert "diagnostics" in done.stderr


def test_nothing_would_come_of_them_where_nothing_is_printed(visits, run):
    done = run("sql", "--diagnostics", "--quiet", "-oout.csv", MEAN)
    assert done.exit_code == 2
    assert "diagnostics are printed" in one_line(done.stderr)


def test_the_largest_groups_have_nothing_to_tell_of(visits, run):
    options = "epsilon = 10, delta = 1e-6, privacy_unit_column = id"
    asked = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) APPROX_TOP_COUNT(year, 2) AS y FROM 'visits.parquet'"
    assert run("sql", asked).exit_code == 0
    done = run("sql", "--diagnostics", asked)
    assert done.exit_code == 2
    assert "drawn without limits" in one_line(done.stderr)
