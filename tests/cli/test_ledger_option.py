"""`sfumato sql --ledger`: a question is paid when all is checked, and before a row is read."""

from __future__ import annotations

import json
import runpy
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato import errors
from sfumato.budget.ledger import LedgerBudget
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine

from .conftest import question

pytestmark = pytest.mark.noise_cannot_matter("what is paid is looked at, no number")

OPTIONS = "epsilon = 1, delta = 1e-7, privacy_unit_column = id, max_rows_per_group = 1"
COUNT = question("year, COUNT(*) AS n", options=OPTIONS)
LOOKS = question("AVG(visits) AS v", options=f"{OPTIONS}, auto_bounds = TRUE", groups=False)
AROUND = f"SELECT year, n + 1 AS more FROM ({COUNT})"
LARGEST = question(
    "APPROX_TOP_COUNT(year, 2)", options="epsilon = 1, delta = 1e-7, privacy_unit_column = id", groups=False
)
ROOT = Path(__file__).parents[2]
PAID = ("--ledger", "budget.db", "--dataset", "hospital", "--analyst", "ann")  # fmt: skip


@pytest.fixture
def ledger(visits: Path) -> sf.Ledger:
    made = sf.Ledger("budget.db")
    made.create("hospital", epsilon=10, delta="1e-6")
    made.grant("hospital", "ann", epsilon=2)
    return made


def spent(ledger: sf.Ledger) -> list[float]:
    """Return the epsilons of what was asked."""
    return [float(one.epsilon) for one in ledger.history() if one.kind == "spend"]


@pytest.mark.parametrize(
    "text", [COUNT, LOOKS, AROUND, LARGEST], ids=["groups", "looks", "around", "largest"]
)
def test_a_question_is_paid_once_and_what_is_left_is_said(text, ledger, run):
    done = run("sql", text, *PAID, "-o", "a.csv", "--receipt", "r.json", "--explain")
    assert done.exit_code == 0, done.output
    assert spent(ledger) == [1]
    assert (
        done.stdout.rstrip()
        .splitlines()[-1]
        .startswith("Budget of 'hospital' for ann: 50.0% left, a question may")
    )
    assert "epsilon=1 and delta=" in done.stdout and "is not charged to a budget" not in done.stdout
    entry = ledger.budget("hospital", "ann").history[-1].row()
    assert json.loads(Path("r.json").read_text())["ledger"] == [entry]
    done = run("verify", "r.json", "a.csv")
    assert done.exit_code == 0 and f"entry {entry['entry']} of " in done.stdout


def test_the_owner_asks_too_and_the_place_may_stand_in_the_environment(ledger, run, monkeypatch):
    monkeypatch.setenv("SFUMATO_LEDGER", "budget.db")
    done = run("sql", COUNT, "--dataset", "hospital")
    assert done.exit_code == 0 and "Budget of 'hospital': 80.0% left" in done.stdout
    assert "is not charged to a budget" in run("sql", COUNT, "--dry-run").stdout
    done = run("sql", COUNT)  # nobody's budget is named
    assert done.exit_code == 0 and "Budget of" not in done.stdout and spent(ledger) == [1]


def test_what_does_not_fit_is_refused_before_a_row_is_read(ledger, run, monkeypatch):
    monkeypatch.setattr(DuckDBEngine, "statistics", lambda *_: pytest.fail("rows were read"))
    for text in (COUNT, LOOKS, AROUND, LARGEST):
        done = run(
            "sql", text.replace("epsilon = 1,", "epsilon = 3,"), *PAID, "-o", "a.csv", "--receipt", "r.json"
        )
        assert done.exit_code == 2 and done.stdout == "" and spent(ledger) == []
        assert "is more than is left of ann's budget of 'hospital', epsilon=" in " ".join(done.stderr.split())
        assert not Path("a.csv").exists() and not Path("r.json").exists()


MISTAKES: dict[str, Any] = {
    "a picture of what is computed": (AROUND, ["--plot", "p.png"], 2, "--plot draws groups"),
    "bars of what is computed": (AROUND.replace("SELECT year", "SELECT DISTINCT year"), ["--errors", "-o", "a.csv"], 2, "--errors"),
    "lists in CSV": (f"SELECT [n, n] AS both FROM ({COUNT})", ["--quiet", "-o", "a.csv"], 2, "a list or the like"),
    "a name of bars that is taken": (
        question("year, COUNT(*) AS n, COUNT(*) AS n_error", options=OPTIONS), ["--errors", "-o", "a.csv"], 2, "n_error"
    ),
    "the rows": (COUNT, ["-o", "visits.parquet"], 2, "rows come from"),
    "the ledger": (COUNT, ["-o", "link.csv", "-l", "link.csv"], 2, "another file than the ledger"),
    "a link to the ledger": (COUNT, ["--receipt", "kept.json", "-l", "link.csv"], 2, "another file than the ledger"),
    "diagnostics of the largest": (LARGEST, ["--diagnostics"], 2, "diagnostics"),
    "a preview": (LARGEST, ["--preview"], 2, "--preview"),
    "no such data": (COUNT, ["--dataset", "hospitl"], 2, "did you mean 'hospital'?"),
    "no such analyst": (COUNT, ["--analyst", "bob"], 2, "grants nothing of 'hospital' to 'bob'"),
    "no such ledger": (COUNT, ["--ledger", "none.db"], 1, "there is no ledger"),
    "no ledger": (COUNT, ["--ledger", "visits.parquet"], 1, "visits.parquet"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_cost_nothing(mistake, ledger, run):
    shutil.copy("budget.db", "kept.json")
    Path("link.csv").symlink_to("kept.json")
    before = Path("visits.parquet").read_bytes(), Path("kept.json").read_bytes()
    text, options, code, says = MISTAKES[mistake]
    done = run("sql", text, *PAID, *options)
    assert done.exit_code == code, done.output
    assert says in " ".join(done.stderr.split()) and "Traceback" not in done.output
    assert spent(ledger) == [] == spent(sf.Ledger("kept.json"))
    assert before == (Path("visits.parquet").read_bytes(), Path("kept.json").read_bytes())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ledger", "budget.db"], "--ledger: say whose budget pays: add --dataset NAME"),
        (["--analyst", "ann"], "--analyst: say whose budget pays: add --dataset NAME"),
        (["--dataset", "hospital"], "--dataset: say where its budget is: add --ledger PLACE"),
    ],
)
def test_what_is_left_out_is_asked_for(options, says, ledger, run, monkeypatch):
    monkeypatch.delenv("SFUMATO_LEDGER", raising=False)
    done = run("sql", COUNT, *options)
    assert done.exit_code == 2 and says in " ".join(done.stderr.split()) and done.stdout == ""


def test_a_plan_costs_nothing(ledger, run, monkeypatch):
    monkeypatch.setattr(DuckDBEngine, "statistics", lambda *_: pytest.fail("rows were read"))
    done = run("sql", COUNT, *PAID, "--dry-run")
    assert done.exit_code == 0 and "100.0% left, a question may ask for epsilon=2" in done.stdout
    assert spent(ledger) == []


def test_a_preview_costs_nothing(ledger, run):
    assert run("sql", COUNT, *PAID, "--preview").exit_code == 0
    assert spent(ledger) == []


def test_what_fails_later_stays_spent_and_that_is_said(ledger, run, monkeypatch):
    def failing(*_: object, **__: object) -> None:
        raise errors.EngineError("the rows cannot be read")

    monkeypatch.setattr(DuckDBEngine, "statistics", failing)
    done = run("sql", COUNT, *PAID)
    assert done.exit_code == 1 and "cannot be read" in done.stderr and "Wrote" not in done.stdout
    assert "Budget of 'hospital' for ann: 50.0% left" in done.stdout and spent(ledger) == [1]


def test_a_reader_who_has_gone_does_not_cost_what_is_paid(ledger, run, monkeypatch):
    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sfumato.cli.table_printer.print_explanation", gone)
    done = run("sql", COUNT, *PAID, "--explain", "-o", "a.csv")  # whose explanation needs no row
    assert done.exit_code == 1 and spent(ledger) == [] and not Path("a.csv").exists()
    done = run("sql", LOOKS, *PAID, "--explain", "-o", "a.csv")
    assert done.exit_code == 1 and spent(ledger) == [1] and Path("a.csv").exists()


def test_a_ledger_that_cannot_be_read_after_the_answer_does_not_fail_it(ledger, run, monkeypatch):
    def kept(self: LedgerBudget) -> None:
        raise errors.EngineError("budget.db: another process keeps it")

    monkeypatch.setattr(LedgerBudget, "_left", kept)
    done = run("sql", COUNT, *PAID)
    assert done.exit_code == 0 and "What is left of the budget cannot be read now: budget.db" in done.stdout


def test_quiet_is_quiet(ledger, run):
    done = run("sql", COUNT, *PAID, "--quiet", "-o", "a.csv")
    assert (done.exit_code, done.output, spent(ledger)) == (0, "", [1])


def test_made_up_rows_are_free(ledger, run):
    Path("catalog.toml").write_text(
        '[tables.people]\nsource = "none.csv"\nprivacy_unit = "id"\ntypes = {id = "BIGINT", year = "BIGINT"}\n'
        "max_groups = 1\nmax_rows = 1\n"
    )
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM people"
    done = run("sql", text, *PAID, "--dummy", "-c", "catalog.toml", "--receipt", "r.json")
    assert done.exit_code == 0 and "100.0% left" in done.stdout and spent(ledger) == []
    assert json.loads(Path("r.json").read_text())["ledger"] is None


@pytest.mark.parametrize("planted", [False, True])
def test_it_is_paid_before_a_row_is_read(ledger, run, monkeypatch, planted):
    """The planted defect asks, and pays for nothing."""
    seen, statistics = [], DuckDBEngine.statistics

    def looking(self: Any, *arguments: Any) -> Any:
        seen.append(spent(sf.Ledger("budget.db")))
        return statistics(self, *arguments)

    monkeypatch.setattr(DuckDBEngine, "statistics", looking)
    if planted:
        monkeypatch.setattr("sfumato.engines.sql.Asked.release", lambda self, budget: self.trial())
    assert run("sql", COUNT, *PAID).exit_code == 0
    assert (seen == [[1.0]]) is not planted


@pytest.mark.long
def test_the_page_says_what_happens(tmp_path, run, monkeypatch):
    page = (ROOT / "docs" / "cli.md").read_text()
    section = page.split("## Paid by a ledger")[1].split("## ")[0]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    runpy.run_path("examples/rwm5yr.py")["main"]()
    said = ""
    for line in section.splitlines():
        if line.startswith("    sfumato "):
            done = run(*shlex.split(line)[1:])
            assert done.exit_code == 0, done.output
            said += done.stdout
        elif line.startswith("    "):
            assert line.strip() in said


def test_the_same_question_again_is_answered_by_the_journal_and_says_so(ledger, run, monkeypatch):
    ledger.journal.declare("hospital", "2026-11")
    before = run("sql", COUNT, *PAID, "--dry-run").stdout
    done = run("sql", COUNT, *PAID, "-o", "a.csv", "--receipt", "r.json")
    assert done.exit_code == 0 and "once more" not in before + done.stdout
    entry = ledger.history()[-1].number
    said = f"It is the answer of entry {entry} of the ledger once more, for nothing."
    monkeypatch.setattr(DuckDBEngine, "statistics", lambda *_: pytest.fail("rows were read"))
    assert said in run("sql", COUNT, *PAID, "--dry-run").stdout
    again = run("sql", COUNT, *PAID, "-o", "b.csv", "--receipt", "s.json", "--confidence", "0.5")
    assert again.exit_code == 0 and said in again.stdout and spent(ledger) == [1]
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert Path("r.json").read_bytes() == Path("s.json").read_bytes()
