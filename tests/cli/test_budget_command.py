"""`sfumato budget`: what an owner sees and changes, and how it ends where something is wrong."""

from __future__ import annotations

import csv
import json
import os
import shlex
from fractions import Fraction as F

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import app

LINE_ENDS = "\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", "budget.db")
    return tmp_path / "budget.db"


def said(*arguments, code=0):
    done = CliRunner().invoke(app, ["budget", *arguments], env={"COLUMNS": "60", "TERM": "dumb"})
    assert done.exit_code == code, done.output
    return done.output


def test_an_owner_makes_budgets_and_sees_what_becomes_of_them(place):
    assert "hospital" in said("create", "hospital", "--epsilon", "3", "--delta", "1e-6", "--period", "year")
    shown = said("grant", "hospital", "ann", "--epsilon", "1/2")
    assert "(all)" in shown and "0.5, 1e-06" in shown and "100.0%" in shown
    sf.Ledger(place).budget("hospital", "ann").spend("1/8", what="patients by year")
    shown = said("show")
    assert "75.0%" in shown and "0.125, 0" in shown and "in a lifetime, which nothing bounds" in shown
    assert said("show", "hospital") == shown
    lines = said("history").splitlines()
    assert [line.split()[3] for line in lines if line.strip()[:1] in "123" and line.strip()] == [
        "create",
        "grant",
        "spend",
    ]
    assert "patients by year" in said("history", "hospital", "--analyst", "ann")
    assert "create" not in said("history", "hospital", "--analyst", "ann")


def test_what_is_exported_is_exact(place):
    said("create", "hospital", "--epsilon", "7/3")
    sf.Ledger(place).budget("hospital").spend("1/3", what="=HYPERLINK('x')\n\x1b[31m")
    assert "Wrote" in said("export", "-o", "all.csv") and "Wrote" in said(
        "export", "-o", "all.json", "hospital"
    )
    with open("all.csv", newline="") as file:
        create, spend = csv.DictReader(file)
    assert (create["kind"], F(create["epsilon"]), create["composition"]) == ("create", F(7, 3), "tight")
    assert F(spend["epsilon"]) == F(1, 3) and spend["what"].startswith("'=HYPERLINK")
    with open("all.json") as file:
        rows = [json.loads(line) for line in file]
    assert rows == [entry.row() for entry in sf.Ledger(place).history()]
    assert rows[1]["what"] == "=HYPERLINK('x')\n\x1b[31m" and json.loads(rows[1]["loss"])
    assert "\x1b[31m" not in said("history") and r"\x1b[31m" in said("history")


def test_names_are_no_markup(place):
    said("create", "[red]x[/red]", "--epsilon", "1")
    assert "[red]x[/red]" in said("show")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show",), 1, "there is no ledger 'budget.db' yet"),
        (("grant", "x", "ann", "--epsilon", "1"), 1, "there is no ledger"),
        (("create", "x", "--epsilon", "0"), 2, "--epsilon is '0', but must be a finite number greater than 0"),
        (("create", "x", "--epsilon", "1", "--period", "day"), 2, "--period is 'day', but must be one of"),
        (("create", "x", "--epsilon", "1", "--ledger", "none/b.db"), 1, "there is no folder"),
        (("create", "x", "--epsilon", "1", "--ledger", "mysql://a:hunter2@h/d"), 2, "the path of a file"),
        (("create", "x", "--epsilon", "1", "--delta", "3"), 2, "--delta is '3'"),
        (("create", "x", "--epsilon", "1", "--composition", "none"), 2, "--composition is 'none'"),
        (("export", "-o", "x.xlsx"), 2, "--output is 'x.xlsx', but must be a name that ends in .csv or .json"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(place, arguments, code, says):
    told = said(*arguments, code=code)
    assert says in told.replace("\n", " ") and "Traceback" not in told and "hunter2" not in told
    assert not os.listdir()


def test_a_budget_that_is_there_is_changed_by_asking_for_it(place):
    said("create", "hospital", "--epsilon", "1")
    told = said("create", "hospital", "--epsilon", "2", code=2)
    assert (
        "already" in told
        and "Add --replace to change its cap" in told.replace("\n", " ")
        and "=True" not in told
    )
    assert "2, 0" in said("create", "hospital", "--epsilon", "2", "--replace")
    assert "no budget of 'school'" in said("show", "school", code=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("budget", "show", "hospitl"), "did you mean 'hospital'?"),
        (("budget", "history", "hospitl"), "did you mean 'hospital'?"),
        (("budget", "history", "hospital", "--analyst", "an"), "did you mean 'ann'?"),
        (("budget", "history", "--analyst", "eve"), "grants nothing to 'eve'"),
        (("budget", "export", "school", "-o", "x.csv"), "no budget of 'school'"),
        (
            ("budget", "create", "school", "--epsilon", "1", "--replace"),
            "sfumato budget create school --epsilon",
        ),
        (
            ("budget", "grant", "a school", "ann", "--epsilon", "1"),
            "sfumato budget create 'a school' --epsilon",
        ),
        (("journal", "show", "school"), "no budget of 'school'"),
        (("journal", "show", "--analyst", "eve"), "grants nothing to 'eve'"),
        (("journal", "audit", "school"), "no budget of 'school'"),
        (("journal", "declare", "school", "1"), "sfumato budget create school --epsilon"),
    ],
)
def test_names_that_nobody_has_are_an_error_in_the_terms_of_the_command(place, arguments, says):
    said("create", "hospital", "--epsilon", "1")
    said("grant", "hospital", "ann", "--epsilon", "1/2")
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "60", "TERM": "dumb"})
    told = done.output.replace("\n", " ")
    assert done.exit_code == 2 and says in told, told
    assert "ledger." not in told and not os.path.exists("x.csv")


def test_the_command_that_a_message_names_does_what_it_says(place):
    """With numbers in the place of NUMBER, and the ledger in that of PLACE."""
    said("create", "hospital", "--epsilon", "1")
    told = said("grant", "a school", "Jörg Müller", "--epsilon", "1", code=2).replace("\n", " ")
    advice = told[told.index("sfumato budget create") :].strip()
    said(*shlex.split(advice.replace("NUMBER", "1").replace("PLACE", "budget.db"))[2:])
    assert "Jörg Müller" in said("grant", "a school", "Jörg Müller", "--epsilon", "1/2")


@pytest.mark.parametrize(
    ("whole", "own", "above"),
    [
        (("1",), ("2",), True),
        (("1",), ("1",), False),
        (("1", "--delta", "1e-6"), ("1", "--delta", "1e-5"), True),
        (("1",), ("2", "--period", "week"), True),
        (("1", "--period", "month"), ("2",), False),
        (("1", "--period", "month"), ("2", "--period", "week"), True),
    ],
)
def test_a_grant_above_the_cap_says_so(place, whole, own, above):
    said("create", "hospital", "--epsilon", *whole)
    words = "The cap of ann is above that of 'hospital' over all analysts"
    assert (words in said("grant", "hospital", "ann", "--epsilon", *own).replace("\n", " ")) is above
    assert (words in said("show").replace("\n", " ")) is above


NAMES = {
    "ann": True, "Jörg Müller": True, "ann@example.org": True, "名前": True, "a/b": True, "x" * 100: True,
    "": False, " ann": False, "ann ": False, "a\nb": False, "a\u202eb": False, "a\0b": False, "x" * 101: False,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_one_place_says_what_a_name_is(place, name):
    """A ledger and a file of tokens take the same names, so that whoever has a grant can have a token."""
    said("create", "hospital", "--epsilon", "1")
    grant = CliRunner().invoke(app, ["budget", "grant", "hospital", "--epsilon", "1", "--", name])
    token = CliRunner().invoke(app, ["token", "create", "--tokens", "t.db", "--", name])
    assert (grant.exit_code == 0, token.exit_code == 0) == (NAMES[name], NAMES[name]), (
        grant.output,
        token.output,
    )
