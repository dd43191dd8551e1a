"""The journal: who asked what and what came of it, in a chain that shows what was changed; and what it finds odd."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

import sfumato as sf
from sfumato.budget.ledger import journal, ledger_accounts
from sfumato.budget.ledger import journal_lines as chain
from sfumato.budget.ledger.journal_audit import equalities, names, template
from sfumato.budget.ledger.ledger_tables import ACCOUNTS
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import BudgetError, EngineError, ParameterError

pytestmark = pytest.mark.noise_cannot_matter(
    "what is written of questions is looked at, no number of an answer"
)

VERSIONS = Path(__file__).parent / "versions"
MARK = "Private Value"
ROWS = pa.table(
    {
        "id": [1, 1, 2, 3],
        "town": ["A", "B", "A", MARK],
        "v": [1, 2, 3, 4],
        "age": [30, 31, 40, 50],
        "job": ["x", "y", "x", MARK],
    }
)
VISITS = sf.scan(ROWS, privacy_unit="id")
ONE = VISITS.bound(groups=2, rows=1)
TOWNS = ONE.group_by("town", keys=["A", "B"])
COUNT = ONE.agg(n=sf.count())
PRIVATE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, privacy_unit_column = id) COUNT(*) AS n FROM v"
)


@pytest.fixture
def ledger(place: str) -> sf.Ledger:
    return made(place)


@pytest.fixture
def of_file(file: str) -> sf.Ledger:
    return made(file)


def made(place: str) -> sf.Ledger:
    ledger = sf.Ledger(place)
    ledger.create("shop", epsilon=100, delta="1e-6")
    ledger.grant("shop", "ann", epsilon=50)
    ledger.grant("shop", "bob", epsilon=50)
    return ledger


def counted() -> Any:
    """A question of this process, as a child may not ask of its parent's table."""
    return sf.scan(ROWS, privacy_unit="id", threads=1).bound(groups=2, rows=1).agg(n=sf.count())


def kinds(ledger: sf.Ledger) -> list[str]:
    return [line.kind for line in ledger.journal.lines() if line.kind != "cap"]


def failing(*_: object, **__: object) -> None:
    raise EngineError("the rows cannot be read")


# What is written.

WAYS: dict[str, tuple[Callable[[sf.Budget], Any], int]] = {
    "groups": (lambda b: TOWNS.agg(n=sf.count()).release(epsilon=1, budget=b), 1),
    "largest": (lambda b: VISITS.top("town", k=1, keys=["A", "B"]).release(epsilon=1, budget=b), 1),
    "diagnostics beside": (lambda b: COUNT.release(epsilon=1, diagnostics="0.1", budget=b), 1),
    "looks": (lambda b: ONE.agg(m=sf.mean("v", lower=0, upper="auto")).release(epsilon=1, budget=b), 1),
    "looks of a share": (lambda b: ONE.agg(m=sf.mean("v", lower=0, upper="auto")).release(share="1/9", budget=b), 2),
    "SQL": (lambda b: sf.sql(PRIVATE, tables={"v": ROWS}, budget=b), 1),
    "SQL around": (lambda b: sf.sql(f"SELECT n + 1 AS m FROM ({PRIVATE})", tables={"v": ROWS}, budget=b), 1),
    "SQL of two": (
        lambda b: sf.sql(f"SELECT x.n + y.n AS n FROM ({PRIVATE}) AS x, ({PRIVATE}) AS y", tables={"v": ROWS}, budget=b), 1
    ),
}  # fmt: skip


QUICK = ("groups", "looks of a share", "SQL of two")


@pytest.mark.parametrize(
    "number, way",
    [pytest.param(i, way, marks=[pytest.mark.long] * (way not in QUICK)) for i, way in enumerate(WAYS)],
)
def test_every_way_to_ask_is_written_with_its_plan_and_what_came(number, way, of_file, tmp_path):
    ask, least = WAYS[way]
    release = ask(of_file.budget("shop", "ann"))
    count = len(of_file.budget("shop", "ann").history)
    assert count >= least and kinds(of_file) == ["asked"] * count
    assert "Entries without an outcome" in str(of_file.journal.verify())
    looks = (release.to_arrow, lambda: release.write(tmp_path / "a.parquet"), release.receipt)
    looks[number % 3]()
    assert kinds(of_file) == ["asked"] * count + ["answered"] * count
    asked, answered = of_file.journal.lines()[-count - 1], of_file.journal.lines()[-1]
    plan = answered.detail.get("plan") or asked.detail["plan"]
    assert plan == json.loads(json.dumps(release.canonical()))
    assert asked.analyst == "ann" and asked.entry == answered.entry == of_file.history()[-1].number
    assert asked.detail["entered"] == of_file.history()[-1].row()
    if answered.detail.get("rows") is not None:
        assert answered.detail["receipt"] == release.receipt().sha256
    assert of_file.journal.verify().ok and "without an outcome" not in str(of_file.journal.verify())


def test_what_is_refused_is_written_and_costs_nothing(ledger):
    with pytest.raises(BudgetError, match="more than is left"):
        COUNT.release(epsilon=60, budget=ledger.budget("shop", "ann"))
    (line,) = [line for line in ledger.journal.lines() if line.kind == "refused"]
    assert line.detail["plan"]["budget"]["epsilon"] == "60" and line.detail["why"] == "BudgetError"
    assert ledger.budget("shop").spent == (0.0, 0.0) and ledger.journal.verify().ok
    for kept in ledger.accounts():
        assert kept.lifetime.spent == (0.0, 0.0)


@pytest.mark.long
def test_no_row_is_in_it(of_file, monkeypatch):
    budget = of_file.budget("shop", "ann")
    for ask, _ in WAYS.values():
        ask(budget).receipt()
    ONE.group_by("town").agg(n=sf.count()).release(epsilon=20, delta="1e-7", budget=budget).to_arrow()
    monkeypatch.setattr(DuckDBEngine, "statistics", failing)
    with pytest.raises(EngineError):
        COUNT.release(epsilon=1, budget=budget).to_arrow()
    assert MARK.encode() not in Path(of_file._store._path).read_bytes()


def test_who_is_refused_without_end_fills_no_disk(ledger, monkeypatch):
    """Of very many refusals of one analyst on one day, one line says that there were more."""
    monkeypatch.setattr(journal, "MOST_REFUSALS", 3)

    def refused(analyst: str = "ann") -> None:
        ledger.journal._record_rejected_text("shop", analyst, "SELECT * FROM v", "SqlError")
        with pytest.raises(BudgetError, match="more than is left"):
            ledger.budget("shop", "ann" if analyst == "ann" else "bob").spend(60)

    def short_decimal(analyst: str) -> list[bool]:
        lines = ledger.journal.lines(analyst=analyst)
        return ["more" in line.detail for line in lines if line.kind == "refused"]

    for _ in range(5):
        refused()
    assert short_decimal("ann") == [False, False, False, True]
    refused("bob")
    assert short_decimal("bob") == [False, False]  # whom that of another does not silence
    ledger.budget("shop", "ann").spend(1)
    assert kinds(ledger)[-1] == "asked" and ledger.journal.verify().ok


@pytest.mark.long
def test_what_a_refusal_writes_is_short(of_file):
    budget, before = of_file.budget("shop", "ann"), Path(of_file._store._path).stat().st_size
    for _ in range(20):
        with pytest.raises(BudgetError, match="more than is left"):
            budget.spend(60, plan={"asks": "x", "keys": ["y" * 100] * 2000}, what="\u1e9e" * 10_000)
    of_file.journal._record_rejected_text("shop", "ann", "\ud800" * 10**6, "SqlError")
    sizes = [len(json.dumps(line.row())) for line in of_file.journal.lines() if line.kind == "refused"]
    assert max(sizes) < 32 * 1024 and Path(of_file._store._path).stat().st_size - before < 21 * 64 * 1024


# What is changed later.


def changed(ledger: sf.Ledger, *statements: str) -> None:
    with closing(sqlite3.connect(ledger._store._path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def asked(ledger: sf.Ledger) -> str:
    """Ask and answer some questions; return the head."""
    ledger.journal.declare("shop", "1")
    for epsilon in (1, 2, 3):
        budget = ledger.budget("shop", "ann")
        entry = budget.spend(epsilon, plan={"asks": "statistics"}, what=f"question {epsilon}")
        known = ledger.journal._repeat_answer("shop", "ann", {"asks": epsilon})
        budget._record_outcome(
            entry, "answered", question=known.question, data=known.data, body=b"body" * epsilon, rows=1
        )
    return ledger.journal.head


def written_anew(ledger: sf.Ledger, change: Callable[[dict[str, Any]], None]) -> None:
    """What whoever can write the file can do: change lines, and all digests behind them."""
    with closing(sqlite3.connect(ledger._store._path)) as connection:
        digest = hashlib.sha256(
            connection.execute("SELECT begins FROM sfumato_ledger").fetchone()[0].encode()
        ).hexdigest()
        for number, was in connection.execute(
            "SELECT id, content FROM sfumato_journal ORDER BY id"
        ).fetchall():
            content = json.loads(was)
            change(content)
            text = json.dumps(content, sort_keys=True, separators=(",", ":"))
            digest = chain.after(digest, text)
            connection.execute(
                "UPDATE sfumato_journal SET content = ?, sha256 = ? WHERE id = ?", (text, digest, number)
            )
        connection.execute("UPDATE sfumato_ledger SET journal = ?", (digest,))
        connection.commit()


CHANGES = {
    "a line": (["UPDATE sfumato_journal SET content = replace(content, 'question 2', 'question 9') WHERE id = 7"], "line 7 is not what was written"),
    "a digest": (["UPDATE sfumato_journal SET sha256 = replace(sha256, substr(sha256, 1, 1), 'x') WHERE id = 5"], "line 5 is not what was written"),
    "a line in the middle": (["DELETE FROM sfumato_journal WHERE id = 6"], "line 6 is missing"),
    "the last line": (["DELETE FROM sfumato_journal WHERE id = 10"], "behind line 9 the end is missing"),
    "all lines": (["DELETE FROM sfumato_journal"], "behind line 0 the end is missing"),
    "who asked, where lines are found by it": (["UPDATE sfumato_journal SET analyst = 'bob' WHERE id = 5"], "line 5 would be found as another"),
    "an entry": (["UPDATE sfumato_entries SET epsilon = '1/2' WHERE id = 5"], "entry 5 of the ledger is not what line 7 says"),
    "an entry that is taken out": (["DELETE FROM sfumato_entries WHERE id = 5"], "entry 5, which the ledger does not have"),
    "an entry that is put in": (
        ["INSERT INTO sfumato_entries (at, day, kind, dataset, analyst, what, epsilon, delta, loss) SELECT at, day, kind, dataset, analyst, what, epsilon, delta, loss FROM sfumato_entries WHERE id = 4"],
        "entry 7 of the ledger has no line",
    ),
    "an account": (["UPDATE sfumato_accounts SET totals = replace(totals, '6', '1'), lifetime = replace(lifetime, '6', '1')"], "the column totals of the budget of 'shop'"),
    "an answer": (["UPDATE sfumato_answers SET body = x'41'"], "the answer that is kept for line 6 is not"),
    "an answer that is taken out": (["DELETE FROM sfumato_answers WHERE id = 8"], "the answer that was kept for line 8 is missing"),
    "the ledger's name": (["UPDATE sfumato_ledger SET name = 'x'"], "it is the journal of another ledger"),
    "a line that nests without end": (["UPDATE sfumato_journal SET content = replace(hex(zeroblob(50000)), '00', '[') WHERE id = 5"], "line 5 is not what was written"),
    "what stands before it": (["UPDATE sfumato_ledger SET begins = replace(begins, '0', '1')"], "line 1 is not what was written"),
}  # fmt: skip


def test_what_was_changed_is_found_where_it_is(of_file):
    asked(of_file)
    assert of_file.journal.verify().ok
    place = Path(of_file._store._path)
    whole = place.read_bytes()
    for what, (statements, says) in CHANGES.items():
        place.write_bytes(whole)
        changed(of_file, *statements)
        found = sf.Ledger(place).journal.verify()
        assert not found.ok and any(says in wrong for wrong in found.wrong), (what, found.wrong)
        assert says in str(found) and "is broken" in str(found)


def test_a_journal_that_lost_its_end_pays_for_nothing(of_file):
    asked(of_file)
    changed(of_file, "DELETE FROM sfumato_journal WHERE id = 10")
    before = of_file.history()
    for ask in (
        lambda: of_file.budget("shop", "ann").spend(1),
        lambda: of_file.grant("shop", "eve", 1),
        lambda: of_file.journal.declare("shop", "2"),
    ):
        with pytest.raises(
            EngineError, match="changed by hand: the end of the journal is missing, or is not what it was"
        ):
            ask()
    assert of_file.history() == before and of_file.budget("shop", "ann").spent[0] == 6


def test_whoever_writes_all_of_it_anew_is_found_by_the_head_alone(of_file):
    head = asked(of_file)
    written_anew(of_file, lambda content: None)
    assert of_file.journal.verify(head).ok  # nothing was changed

    def other(content: dict[str, Any]) -> None:
        if content["kind"] == "answered":
            content["rows"] = 2

    written_anew(of_file, other)
    assert of_file.journal.verify().ok, "as docs/journal.md says: whoever can write the file can do that"
    assert "were written anew" in str(of_file.journal.verify(head))


def test_an_end_that_is_cut_off_cleanly_is_found_by_the_head_alone(of_file):
    head = asked(of_file)
    copy = f"{of_file._store._path}.copy"
    shutil.copy(of_file._store._path, copy)
    ledger = sf.Ledger(copy)
    with closing(sqlite3.connect(copy)) as connection:
        last = 8
        (digest,) = connection.execute("SELECT sha256 FROM sfumato_journal WHERE id = ?", (last,)).fetchone()
        connection.execute("DELETE FROM sfumato_journal WHERE id > ?", (last,))
        connection.execute("DELETE FROM sfumato_answers WHERE id > ?", (last,))
        left = connection.execute("SELECT max(entry) FROM sfumato_journal").fetchone()
        connection.execute("DELETE FROM sfumato_entries WHERE id > ?", left)
        connection.execute("UPDATE sfumato_ledger SET journal = ?", (digest,))
        connection.commit()
    engine = create_engine(f"sqlite:///{copy}", poolclass=NullPool)
    with engine.begin() as connection:  # accounts as they were then
        kept: ledger_accounts.Accounts = {}
        assert not list(ledger_accounts._replay(ledger_accounts.entries(connection, copy), kept))
        for (dataset, analyst), one in kept.items():
            its = ACCOUNTS.c.dataset == dataset, ACCOUNTS.c.analyst == analyst
            cells = ledger_accounts.cap_cells(one) | ledger_accounts.paid_cells(one)
            connection.execute(ACCOUNTS.update().where(*its).values(**cells))
    found = ledger.journal.verify(head)
    assert "the end was cut off" in str(found)
    assert ledger.journal.verify().ok
    # And a head of an earlier time is one of today's journal.
    assert of_file.journal.verify(f"{last}:{digest}").ok


def test_a_head_that_is_none_is_refused(of_file):
    for head in ("", "3:abc", "x:" + "0" * 64, 7, "-1:" + "0" * 64):
        with pytest.raises(ParameterError, match="head"):
            of_file.journal.verify(head)


# Kills, disks.


def in_child(work: Callable[[], None]) -> int:
    """Run in a process of its own; return how it ended. One that hangs is ended by an alarm."""
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "when",
    [
        "before it is drawn",
        *(pytest.param(f"before {it}", marks=pytest.mark.long) for it in ("it is written", "that ends")),
    ],
)
def test_a_kill_between_payment_and_outcome_stays_spent(of_file, monkeypatch, when):
    path = of_file._store._path

    def end(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        release = counted().release(epsilon=1, budget=sf.Ledger(path).budget("shop", "ann"))
        if when == "before it is drawn":
            monkeypatch.setattr(DuckDBEngine, "statistics", end)
        elif when == "before it is written":
            monkeypatch.setattr(chain, "append", end)
        else:
            monkeypatch.setattr(
                "sfumato.budget.ledger.ledger_databases._check_same",
                lambda _, seen=[]: seen.append(1) or len(seen) < 9 or end(),
            )
        release.to_arrow()

    assert os.WTERMSIG(in_child(work)) == signal.SIGKILL
    ledger = sf.Ledger(path)
    assert kinds(ledger) == ["asked"] and ledger.budget("shop", "ann").spent[0] == 1
    told = ledger.journal.verify()
    assert told.ok and "failed or were not looked at, and stay spent: 4" in str(told)
    COUNT.release(epsilon=1, budget=ledger.budget("shop", "ann")).to_arrow()
    assert kinds(ledger) == ["asked", "asked", "answered"] and ledger.journal.verify().ok


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.long
@pytest.mark.parametrize("count", [40])
def test_kills_at_any_call_leave_a_whole_journal(of_file, count):
    """A real SIGKILL at calls of what pays for a question and writes what came of it."""
    import sys

    path, chosen = of_file._store._path, random.Random(5)
    ended = 0
    for _ in range(count):
        step = chosen.randrange(40_000)

        def work(step: int = step) -> None:
            budget, left = sf.Ledger(path).budget("shop", "bob"), [step]

            def counted(*_: object) -> None:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.setprofile(counted)
            entry = budget.spend("1/1000", plan={"asks": "statistics"})
            budget._record_outcome(entry, "answered", rows=1)
            sys.setprofile(None)

        ended += bool(os.WIFSIGNALED(in_child(work)))
        ledger = sf.Ledger(path)
        assert ledger.journal.verify().ok
        spent = [line.entry for line in ledger.journal.lines() if line.kind == "asked"]
        assert spent == [entry.number for entry in ledger.history() if entry.kind == "spend"]
    assert ended >= count // 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_full_disk_takes_no_answer_that_was_paid(of_file):
    path = of_file._store._path

    def work() -> None:
        logging.getLogger("sfumato.budget").setLevel(logging.CRITICAL)
        release = counted().release(epsilon=1, budget=sf.Ledger(path).budget("shop", "ann"))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        os._exit(7 if release.to_arrow().num_rows == 1 else 1)

    assert os.WEXITSTATUS(in_child(work)) == 7
    ledger = sf.Ledger(path)
    assert (
        kinds(ledger) == ["asked"]
        and ledger.journal.verify().ok
        and ledger.budget("shop", "ann").spent[0] == 1
    )


# What a person should look at.


def ask(ledger: sf.Ledger, question: Any, analyst: str | None = "ann", epsilon: Any = "1/8") -> int:
    budget = ledger.budget("shop", analyst)
    question.release(epsilon=epsilon, budget=budget)
    return budget.history[-1].number


def found(ledger: sf.Ledger) -> dict[str, list[tuple[int, ...]]]:
    told: dict[str, list[tuple[int, ...]]] = {}
    for one in ledger.journal.audit().findings:
        told.setdefault(one.kind, []).append(one.entries)
    return told


SINGLE = {
    "by its id": ONE.filter("id = 4217").agg(n=sf.count()),
    "by a list": ONE.filter("id IN (4217, 4218)").agg(n=sf.count()),
    "by a range": ONE.filter("age > 3 OR id BETWEEN 4217 AND 4217").agg(n=sf.count()),
    "in what is added up": ONE.with_columns(w="CASE WHEN id = 4217 THEN v ELSE 0 END").agg(s=sf.sum("w", lower=0, upper=9)),
    "by a name of its own": ONE.with_columns(who="id + 1").filter("who = 4218").agg(n=sf.count()),
    "by a group": VISITS.with_columns(who="id").group_by("who", keys=[1, 2]).bound(groups=1, rows=1).agg(n=sf.count()),
}  # fmt: skip


def test_a_question_about_one_unit_is_listed(of_file):
    entries = [(ask(of_file, question),) for question in SINGLE.values()]
    assert found(of_file)["one unit"] == entries


def test_totals_and_parts_are_listed_over_all_who_ask(of_file):
    whole = ask(of_file, COUNT)
    part = ask(
        of_file,
        ONE.filter("NOT (age = 50 AND job = 'z')").agg(rows=sf.count(), v=sf.sum("v", lower=0, upper=9)),
        "bob",
    )
    told = of_file.journal.audit()
    (finding,) = told.findings
    assert finding.kind == "part" and finding.entries == (whole, part) and finding.analysts == ("ann", "bob")
    assert f"condition in {part} than in {whole}" in finding.words and "job = 'z'" in finding.words


def test_what_differs_in_a_value_is_listed(of_file):
    first = ask(of_file, ONE.filter("age < 50 AND town = 'A'").agg(n=sf.count()))
    second = ask(of_file, ONE.filter("age < 51 AND town = 'A'").agg(n=sf.count()))
    ask(of_file, ONE.filter("age < 52 AND town = 'B'").agg(n=sf.count()))  # two values
    assert found(of_file) == {"literal": [(first, second)]}


def test_what_is_asked_again_and_again_is_listed_with_its_loss(of_file):
    entries = tuple(ask(of_file, COUNT, epsilon=epsilon) for epsilon in ("1/8", "1/4", "1/8"))
    told = of_file.journal.audit()
    (finding,) = told.findings
    assert (finding.kind, finding.entries) == (
        "again",
        entries,
    ) and "3 times, for epsilons that add up to 0.5" in finding.words
    assert [(loss.analyst, loss.epsilon) for loss in told.losses] == [(None, 0.5), ("ann", 0.5), ("bob", 0.0)]


def test_the_same_under_other_names_is_asked_again(of_file):
    one = {"n": sf.count(), "v": sf.sum("v", lower=0, upper=9), "r": sf.ratio("v", "n")}
    other = {"rows": sf.count(), "total": sf.sum("v", lower=0, upper=9), "share": sf.ratio("total", "rows")}
    turned = {"n": sf.count(), "v": sf.sum("v", lower=0, upper=9), "r": sf.ratio("n", "v")}
    entries = [ask(of_file, ONE.agg(**asked)) for asked in (one, other, turned)]
    assert found(of_file) == {"again": [tuple(entries[:2])]}


def test_refusals_are_listed_with_who_and_why(of_file):
    for epsilon, analyst in ((60, "bob"), (70, "bob"), (80, "ann")):
        with pytest.raises(BudgetError):
            COUNT.release(epsilon=epsilon, budget=of_file.budget("shop", analyst))
    of_file.journal._record_rejected_text(
        "shop", "bob", "SELECT id\n- shop, eve: 9 questions FROM v", "SqlError"
    )
    told = of_file.journal.audit()
    assert [(one.analyst, one.count, one.kinds) for one in told.refused] == [
        ("bob", 3, (("BudgetError", 2), ("SqlError", 1))),
        ("ann", 1, (("BudgetError", 1),)),
    ]
    bob, ann = (str(one) for one in told.refused)
    assert bob == (
        "shop, bob: 3 questions (2 BudgetError, 1 SqlError), lines 4 to 7; the last: "
        r"SELECT id\n- shop, eve: 9 questions FROM v"
    )
    assert ann == "shop, ann: 1 question (1 BudgetError), line 6; the last: n"
    assert told.findings == () and "Refused questions, at no charge:\n- shop, bob" in str(told)
    assert "refused" not in str(of_file.journal.audit("shop")).partition("Refused questions")[0]


def test_questions_that_have_nothing_to_do_with_each_other_are_not_listed(of_file):
    for question in (
        TOWNS.agg(n=sf.count()),
        ONE.filter("age > 30").agg(s=sf.sum("v", lower=0, upper=9)),
        ONE.filter("town = 'A'").agg(m=sf.mean("v", lower=0, upper=9)),
        VISITS.top("job", k=1, keys=["x", "y"]),
    ):
        ask(of_file, question)
    told = of_file.journal.audit()
    assert told.findings == () and told.asked == 4 and "- nothing" in str(told)


def test_words_of_expressions():
    assert names('("my ""id""" = 1e5) OR (x.y <> \'id\')') == {'my "id"', "x", "y", "OR"}
    assert template("((a >= -1.5e3) AND (b = 'x''y'))") == "((a >= -?) AND (b = ?))"
    assert equalities(["(a = 1)", "(b >= 2)", "(c IN (1, 2))", "((d = 1) OR (e = 2))", "(f != 1)"]) == 2


def test_a_question_that_is_published_must_have_an_answer(ledger):
    asked(ledger)
    for entry in (1, 99):
        with pytest.raises(BudgetError, match=f"no answer to the question of entry {entry} is kept"):
            ledger.journal.publish(entry)
    ledger.journal.publish(5)
    assert ledger.journal._repeat_answer("shop", "bob", {"asks": 2}).body == b"bodybody"
    assert ledger.journal._repeat_answer("shop", "bob", {"asks": 1}).body is None
    with pytest.raises(BudgetError, match="no budget of 'shp'"):
        ledger.journal.declare("shp", "2")
    for wrong in ("", " x", "a\nb", 3):
        with pytest.raises(ParameterError, match="version"):
            ledger.journal.declare("shop", wrong)
    assert ledger.journal.verify().ok


def test_a_file_of_version_2_opens_for_ever(tmp_path):
    """Whatever else changes, this file, and what its journal says, does not."""
    path = tmp_path / "budget.db"
    shutil.copy(VERSIONS / "version_2.db", path)
    os.chmod(path, 0o600)
    ledger = sf.Ledger(path)
    assert ledger.journal.verify(HEAD_OF_VERSION_2).ok
    lines = ledger.journal.lines()
    assert [line.kind for line in lines] == ["cap"] * 4 + ["asked"] * 3 + [
        "data",
        "asked",
        "answered",
        "published",
    ]
    assert lines[8].detail["plan"]["where"] == ["(id = 3)"] and lines[8].detail["data"] == "2026-11"
    assert ledger.journal._repeat_answer("hospital", None, {"asks": 1}).body == b"an answer"
    ledger.budget("hospital").spend("0.1")
    assert ledger.journal.verify(HEAD_OF_VERSION_2).ok


HEAD_OF_VERSION_2 = "11:75595efc64431ce2a2a4404a61d20cb0f1c676df331affdbdba0c967f87fdab4"
