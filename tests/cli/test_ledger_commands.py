"""`sfumato sql --ledger`, `budget` and `journal`: what is paid and when, what an owner sees and changes, and exit codes."""

import csv
import json
import os
import re
import runpy
import shlex
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato import errors
from sfumato.budget.ledger import LedgerBudget
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from tests.support.commands import line, query, refused

pytestmark = pytest.mark.noise_cannot_matter("what is paid is looked at, no number")

OPTIONS = "epsilon = 1, delta = 1e-7, privacy_unit_column = id, max_rows_per_group = 1"
COUNT = query("year, COUNT(*) AS n", options=OPTIONS)
LOOKS = query("AVG(visits) AS v", options=f"{OPTIONS}, auto_bounds = TRUE", groups=False)
AROUND = f"SELECT year, n + 1 AS more FROM ({COUNT})"
LARGEST = query("APPROX_TOP_COUNT(year, 2)", options=OPTIONS.rpartition(",")[0], groups=False)
PAID = ("--ledger", "budget.db", "--dataset", "hospital", "--analyst", "ann")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def ledger(visits):
    """A ledger with a budget of 10 of the hospital, and of 2 of ann."""
    made = sf.Ledger("budget.db")
    made.create("hospital", epsilon=10, delta="1e-6")
    made.grant("hospital", "ann", epsilon=2)
    return made


@pytest.fixture
def owner(run, monkeypatch):
    """Return a function that runs a command with the ledger of the current folder; it ends with `code`."""
    monkeypatch.setenv("SFUMATO_LEDGER", "budget.db")

    def said(*arguments, code=0):
        done = run(*arguments, columns=60)
        assert done.exit_code == code and "Traceback" not in done.output, done.output
        return done.output

    return said


def spent(ledger):
    """Return the epsilons of what was asked."""
    return [float(one.epsilon) for one in ledger.history() if one.kind == "spend"]


# What is paid.


@pytest.mark.parametrize(
    "text",
    [COUNT, *(pytest.param(one, marks=pytest.mark.long) for one in (LOOKS, AROUND, LARGEST))],
    ids=["groups", "looks", "around", "largest"],
)
def test_a_query_is_paid_once_before_a_row_is_read_and_what_is_left_is_said(text, ledger, run, monkeypatch):
    seen, statistics = [], DuckDBEngine.statistics

    def looking(self, *arguments):
        seen.append(spent(sf.Ledger("budget.db")))
        return statistics(self, *arguments)

    monkeypatch.setattr(DuckDBEngine, "statistics", looking)
    done = run("sql", text, *PAID, "-o", "a.csv", "--receipt", "r.json", "--explain")
    assert done.exit_code == 0 and spent(ledger) == [1], done.output
    assert seen[0] and max(map(sum, seen)) == 1
    last = done.stdout.rstrip().splitlines()[-1]
    assert last.startswith("Budget of 'hospital' for ann: 50.0% left, a query can")
    assert "epsilon=1 and delta=" in done.stdout and "is not charged to a budget" not in done.stdout
    entry = ledger.budget("hospital", "ann").history[-1].row()
    assert json.loads(Path("r.json").read_text())["ledger"] == [entry]
    done = run("verify", "r.json", "a.csv")
    assert done.exit_code == 0 and f"entry {entry['entry']} of " in done.stdout


MISTAKES = [
    (COUNT.replace("epsilon = 1,", "epsilon = 3,"), PAID, 2, "exceeds what is left of ann's budget of 'hospital' by epsilon="),
    (AROUND.replace("epsilon = 1,", "epsilon = 3,"), PAID, 2, "exceeds what is left of ann's budget"),
    (COUNT, (*PAID, "-o", "visits.parquet"), 2, "a file other than the source of the rows"),
    (COUNT, (*PAID, "-o", "link.csv", "-l", "link.csv"), 2, "a file other than the ledger"),
    (COUNT, (*PAID, "--receipt", "kept.json", "-l", "link.csv"), 2, "a file other than the ledger"),
    (COUNT, (*PAID, "--analyst", "bob"), 2, "grants nothing of 'hospital' to 'bob'"),
    (COUNT, (*PAID, "--ledger", "visits.parquet"), 1, "visits.parquet"),
    (COUNT, ("--ledger", "budget.db"), 2, "--ledger: the budget is missing. Add --dataset NAME"),
    (COUNT, ("--dataset", "hospital"), 2, "--dataset: the ledger is missing. Add --ledger PLACE"),
]  # fmt: skip


def test_refusals_and_plans_read_no_row_and_cost_nothing(ledger, run, monkeypatch):
    monkeypatch.delenv("SFUMATO_LEDGER", raising=False)
    monkeypatch.setattr(DuckDBEngine, "statistics", lambda *_: pytest.fail("rows were read"))
    shutil.copy("budget.db", "kept.json")
    Path("link.csv").symlink_to("kept.json")
    before = Path("visits.parquet").read_bytes(), Path("kept.json").read_bytes()
    for text, options, code, says in MISTAKES:
        refused(run("sql", text, *options), code, says)
        assert spent(ledger) == [] == spent(sf.Ledger("kept.json"))
        assert before == (Path("visits.parquet").read_bytes(), Path("kept.json").read_bytes())
    done = run("sql", COUNT, *PAID, "--dry-run")
    assert done.exit_code == 0 and "100.0% left, a query can spend epsilon=2" in done.stdout
    assert spent(ledger) == []


@pytest.mark.long
def test_what_fails_after_the_payment_stays_spent_and_that_is_said(ledger, run, monkeypatch):
    def failing(*_, **__):
        raise errors.EngineError("the rows cannot be read")

    def gone(*_, **__):
        raise BrokenPipeError(32, "Broken pipe")

    with monkeypatch.context() as now:
        now.setattr(DuckDBEngine, "statistics", failing)
        done = run("sql", COUNT, *PAID)
    assert done.exit_code == 1 and "cannot be read" in done.stderr and "Wrote" not in done.stdout
    assert "Budget of 'hospital' for ann: 50.0% left" in done.stdout and spent(ledger) == [1]
    # A reader who has gone costs nothing before the payment, and no answer after it.
    with monkeypatch.context() as now:
        now.setattr("sfumato.cli.table_printer.print_explanation", gone)
        done = run("sql", COUNT, *PAID, "--explain", "-o", "a.csv")  # whose explanation needs no row
        assert done.exit_code == 1 and spent(ledger) == [1] and not Path("a.csv").exists()
        done = run("sql", LOOKS, *PAID, "--explain", "-o", "a.csv")
        assert done.exit_code == 1 and spent(ledger) == [1, 1] and Path("a.csv").exists()

    def kept(self):
        raise errors.EngineError("budget.db: another process keeps it")

    monkeypatch.setattr(LedgerBudget, "_left", kept)
    done = run("sql", COUNT, "--ledger", "budget.db", "--dataset", "hospital")
    assert done.exit_code == 0 and "What is left of the budget cannot be read now: budget.db" in done.stdout


@pytest.mark.long
def test_the_page_says_what_happens(tmp_path, run, monkeypatch):
    section = (ROOT / "docs" / "cli.md").read_text().split("## Paid by a ledger")[1].split("## ")[0]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    runpy.run_path("examples/rwm5yr.py")["main"]()
    said = ""
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```", section, re.M | re.S):
        if kind == "text":
            assert block.strip() in said
        for text in block.splitlines() if kind == "sh" else ():
            done = run(*shlex.split(text)[1:])
            assert done.exit_code == 0, done.output
            said += done.stdout
    assert said


# Budgets.


def test_an_owner_makes_budgets_and_sees_what_becomes_of_them(visits, owner):
    assert "hospital" in owner(
        "budget", "create", "hospital", "--epsilon", "3", "--delta", "1e-6", "--period", "year"
    )
    shown = owner("budget", "grant", "hospital", "ann", "--epsilon", "1/2")
    assert "(all)" in shown and "0.5, 1e-06" in shown and "100.0%" in shown
    ledger = sf.Ledger("budget.db")
    ledger.budget("hospital", "ann").spend("1/8", what="=HYPERLINK('x')\n\x1b[31m[red]")
    shown = owner("budget", "show")
    assert "75.0%" in shown and "0.125, 0" in shown and "in a lifetime, which has no limit" in shown
    assert owner("budget", "show", "hospital") == shown
    lines = [text.split() for text in owner("budget", "history").splitlines()]
    assert [one[3] for one in lines if one and one[0] in ("1", "2", "3")] == ["create", "grant", "spend"]
    of_ann = owner("budget", "history", "hospital", "--analyst", "ann")
    assert "create" not in of_ann and r"\x1b[31m[red]" in of_ann and "\x1b" not in of_ann
    # What is exported is exact, and no formula.
    owner("budget", "export", "-o", "all.csv")
    owner("budget", "export", "-o", "all.json", "hospital")
    with open("all.csv", newline="") as file:
        create, _, spend = csv.DictReader(file)
    assert (create["kind"], Fraction(create["epsilon"]), create["composition"]) == ("create", 3, "tight")
    assert Fraction(spend["epsilon"]) == Fraction(1, 8) and spend["what"].startswith("'=HYPERLINK")
    rows = [json.loads(text) for text in Path("all.json").read_text().splitlines()]
    assert rows == [entry.row() for entry in ledger.history()]
    # A budget that is there is changed by --replace alone.
    told = line(owner("budget", "create", "hospital", "--epsilon", "2", code=2))
    assert "already" in told and "Add --replace to change its cap" in told
    assert "2, 0" in owner("budget", "create", "hospital", "--epsilon", "2", "--period", "year", "--replace")


def test_what_is_no_budget_makes_no_ledger(tmp_path, owner, monkeypatch):
    monkeypatch.chdir(tmp_path)
    create = ("budget", "create", "x", "--epsilon", "1")
    owner("budget", "show", code=1)
    for given, code in (("--delta", "3"), 2), (("--period", "day"), 2), (("--ledger", "none/b.db"), 1):
        owner(*create, *given, code=code)
    assert "hunter2" not in owner(*create, "--ledger", "mysql://a:hunter2@h/d", code=2) and not os.listdir()


def test_the_journal_is_verified_with_a_head_that_was_kept(ledger, owner):
    ledger.budget("hospital", "ann").spend("1/4")
    first = owner("journal", "verify")
    head = first.splitlines()[-1].removeprefix("head ")
    assert "is whole: 3 lines" in first and "Not compared with an earlier head" in first
    assert head == ledger.journal.head
    ledger.budget("hospital", "ann").spend("1/2")
    told = owner("journal", "verify", "--head", head)
    assert "is whole: 4 lines" in told and "Not compared" not in told and "stay spent: " in told
    with closing(sqlite3.connect("budget.db")) as changed, changed:
        changed.execute("UPDATE sfumato_journal SET content = replace(content, 'ann', 'bob') WHERE id = 3")
    assert "- line 3, or what comes before" in owner("journal", "verify", "--head", head, code=1)
