"""Bounds that a release found stand under the table."""

from __future__ import annotations

import re

import pytest

from .conftest import question

pytestmark = pytest.mark.flakiness(k=30, because="noise of scale 3 or less against 900 people in each group")


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_they_stand_under_the_table_and_are_explained(visits, run):
    asked = question("year, AVG(visits) AS mean_visits").replace("epsilon =", "auto_bounds = true, epsilon =")
    done = run("sql", "--explain", asked)
    assert done.exit_code == 0, done.output
    shown = one_line(done.stdout)
    assert re.search(r"found bounds of the rows of 'visits': \S+ to \S+, found with epsilon", shown)
    assert "Look first, with noise, for the bounds" in shown
    assert "epsilon 1000," in shown, "what is spent is all of it"


def test_a_dry_run_cannot_find_them(visits, run):
    asked = question("year, AVG(visits) AS mean_visits").replace("epsilon =", "auto_bounds = true, epsilon =")
    done = run("sql", "--dry-run", asked)
    assert done.exit_code != 0
    assert "only a release finds them" in one_line(done.output)
