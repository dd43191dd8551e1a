"""The journal: who asked what and what came of it, in a chain that shows what was changed; and what it finds odd."""

import hashlib
import json
import logging
import os
import random
import resource
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget.ledger import journal
from sfumato.budget.ledger import journal_lines as chain
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import BudgetError, EngineError, ParameterError

pytestmark = pytest.mark.noise_cannot_matter(
    "what is written of questions is looked at, no number of an answer"
)

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

WAYS: dict[str, Callable[[sf.Budget], Any]] = {
    "groups": lambda b: TOWNS.agg(n=sf.count()).release(epsilon=1, budget=b),
    "looks of a share": lambda b: ONE.agg(m=sf.mean("v", lower=0, upper="auto")).release(share="1/9", budget=b),
    "SQL of two": lambda b: sf.sql(
        f"SELECT x.n + y.n AS n FROM ({PRIVATE}) AS x, ({PRIVATE}) AS y", tables={"v": ROWS}, budget=b
    ),
    "largest": lambda b: VISITS.top("town", k=1, keys=["A", "B"]).release(epsilon=1, budget=b),
    "diagnostics": lambda b: COUNT.release(epsilon=1, diagnostics="0.1", budget=b),
}  # fmt: skip


QUICK = ("groups", "looks of a share", "SQL of two")


@pytest.mark.parametrize(
    "way", [pytest.param(one, marks=[pytest.mark.long] * (one not in QUICK)) for one in WAYS]
)
def test_every_way_to_ask_is_written_with_its_plan_and_what_came(way, of_file):
    budget = of_file.budget("shop", "ann")
    release = WAYS[way](budget)
    count = len(budget.history)
    assert kinds(of_file) == ["asked"] * count and count >= (2 if way == "looks of a share" else 1)
    assert "Entries without an outcome" in str(of_file.journal.verify())
    receipt = release.receipt()
    assert kinds(of_file) == ["asked"] * count + ["answered"] * count
    assert json.loads(json.dumps(receipt.ledger)) == [entry.row() for entry in budget.history]
    asked, answered = of_file.journal.lines()[-count - 1], of_file.journal.lines()[-1]
    plan = answered.detail.get("plan") or asked.detail["plan"]
    assert plan == json.loads(json.dumps(release.canonical()))
    assert asked.analyst == "ann" and asked.entry == answered.entry == of_file.history()[-1].number
    assert asked.detail["entered"] == of_file.history()[-1].row()
    assert answered.detail.get("rows") is None or answered.detail["receipt"] == receipt.sha256
    assert of_file.journal.verify().ok and "without an outcome" not in str(of_file.journal.verify())


def test_what_is_refused_is_written_and_costs_nothing(ledger):
    with pytest.raises(BudgetError, match="exceeds what is left"):
        COUNT.release(epsilon=60, budget=ledger.budget("shop", "ann"))
    (line,) = [line for line in ledger.journal.lines() if line.kind == "refused"]
    assert line.detail["plan"]["budget"]["epsilon"] == "60" and line.detail["why"] == "BudgetError"
    assert not any(any(one.lifetime.spent) for one in ledger.accounts()) and ledger.journal.verify().ok


@pytest.mark.long
def test_no_row_is_in_it(of_file, monkeypatch):
    budget = of_file.budget("shop", "ann")
    for ask in WAYS.values():
        ask(budget).receipt()
    ONE.group_by("town").agg(n=sf.count()).release(epsilon=20, delta="1e-7", budget=budget).to_arrow()
    monkeypatch.setattr(DuckDBEngine, "statistics", failing)
    with pytest.raises(EngineError):
        COUNT.release(epsilon=1, budget=budget).to_arrow()
    assert MARK.encode() not in Path(of_file._store._path).read_bytes()


def test_who_is_refused_without_end_fills_no_disk(ledger, monkeypatch):
    """Of very many refusals of one analyst on one day, one line says that there were more."""
    monkeypatch.setattr(journal, "MAX_REFUSALS", 3)

    def refused(analyst: str = "ann") -> None:
        ledger.journal._record_rejected_text("shop", analyst, "SELECT * FROM v", "SqlError")
        with pytest.raises(BudgetError, match="exceeds what is left"):
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
        with pytest.raises(BudgetError, match="exceeds what is left"):
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
    "a line": (["UPDATE sfumato_journal SET content = replace(content, 'question 2', 'question 9') WHERE id = 7"], "line 7, or what comes before it, was changed"),
    "a digest": (["UPDATE sfumato_journal SET sha256 = replace(sha256, substr(sha256, 1, 1), 'x') WHERE id = 5"], "line 5, or what comes before it, was changed"),
    "a line in the middle": (["DELETE FROM sfumato_journal WHERE id = 6"], "line 6 is missing"),
    "the last line": (["DELETE FROM sfumato_journal WHERE id = 10"], "the end is missing, or was changed, after line 9"),
    "all lines": (["DELETE FROM sfumato_journal"], "the end is missing, or was changed, after line 0"),
    "who asked, where lines are found by it": (["UPDATE sfumato_journal SET analyst = 'bob' WHERE id = 5"], "line 5 has an index that does not match it"),
    "an entry": (["UPDATE sfumato_entries SET epsilon = '1/2' WHERE id = 5"], "entry 5 of the ledger differs from line 7"),
    "an entry that is taken out": (["DELETE FROM sfumato_entries WHERE id = 5"], "entry 5, which the ledger does not have"),
    "an entry that is put in": (
        ["INSERT INTO sfumato_entries (at, day, kind, dataset, analyst, what, epsilon, delta, loss) SELECT at, day, kind, dataset, analyst, what, epsilon, delta, loss FROM sfumato_entries WHERE id = 4"],
        "entry 7 of the ledger has no line",
    ),
    "an account": (["UPDATE sfumato_accounts SET totals = replace(totals, '6', '1'), lifetime = replace(lifetime, '6', '1')"], "the column totals of the budget of 'shop'"),
    "an answer": (["UPDATE sfumato_answers SET body = x'41'"], "the answer that is kept for line 6 was changed"),
    "an answer that is taken out": (["DELETE FROM sfumato_answers WHERE id = 8"], "the answer that was kept for line 8 is missing"),
    "the ledger's name": (["UPDATE sfumato_ledger SET name = 'x'"], "it is the journal of another ledger"),
    "a line that nests without end": (["UPDATE sfumato_journal SET content = replace(hex(zeroblob(50000)), '00', '[') WHERE id = 5"], "line 5, or what comes before it, was changed"),
    "what stands before it": (["UPDATE sfumato_ledger SET begins = replace(begins, '0', '1')"], "line 1, or what comes before it, was changed"),
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
            EngineError, match="changed by hand: the end of the journal is missing, or was changed"
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
    assert "they were rewritten" in str(of_file.journal.verify(head))


def test_an_end_that_is_cut_off_cleanly_is_found_by_the_head_alone(of_file):
    """Somebody puts an older copy in the place of a ledger, which is whole."""
    place = Path(of_file._store._path)
    asked(of_file)
    older, earlier = place.read_bytes(), of_file.journal.head
    of_file.budget("shop", "ann").spend(1)
    head = of_file.journal.head
    assert of_file.journal.verify(earlier).ok  # a head of an earlier time is one of today's journal
    place.write_bytes(older)
    ledger = sf.Ledger(place)
    assert ledger.journal.verify().ok
    assert "the end was cut off" in str(ledger.journal.verify(head))


def test_a_head_that_is_none_is_refused(of_file):
    for head in ("", "3:abc", "x:" + "0" * 64, 7, "-1:" + "0" * 64):
        with pytest.raises(ParameterError, match="head"):
            of_file.journal.verify(head)


# Kills, disks.


def at_statistics(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
    """Do something where rows would be read."""
    monkeypatch.setattr(DuckDBEngine, "statistics", lambda *_, **__: work())


def ended(work: Callable[[], object]) -> int:
    """Run in a process of its own; return how it ended. One that hangs is ended by an alarm."""
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_kill_between_payment_and_outcome_stays_spent(of_file, monkeypatch):
    path = of_file._store._path

    def work() -> None:
        at_statistics(monkeypatch, killed)
        counted().release(epsilon=1, budget=sf.Ledger(path).budget("shop", "ann")).to_arrow()

    assert ended(work) == -signal.SIGKILL
    ledger = sf.Ledger(path)
    assert kinds(ledger) == ["asked"] and ledger.budget("shop", "ann").spent[0] == 1
    told = ledger.journal.verify()
    assert told.ok and "failed or were not released, and stay spent: 4" in str(told)
    COUNT.release(epsilon=1, budget=ledger.budget("shop", "ann")).to_arrow()
    assert kinds(ledger) == ["asked", "asked", "answered"] and ledger.journal.verify().ok


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.long
def test_kills_at_any_call_leave_a_whole_journal(of_file):
    """A real SIGKILL at calls of what pays for a question and writes what came of it."""
    path, chosen, count = of_file._store._path, random.Random(5), 40

    def work(step: int) -> None:
        budget, calls = sf.Ledger(path).budget("shop", "bob"), iter(range(step))
        sys.setprofile(lambda *_: next(calls, None) is None and killed())
        entry = budget.spend("1/1000", plan={"asks": "statistics"})
        budget._record_outcome(entry, "answered", rows=1)
        sys.setprofile(None)

    kills = 0
    for _ in range(count):
        kills += ended(partial(work, chosen.randrange(40_000))) == -signal.SIGKILL
        ledger = sf.Ledger(path)
        assert ledger.journal.verify().ok
        spent = [line.entry for line in ledger.journal.lines() if line.kind == "asked"]
        assert spent == [entry.number for entry in ledger.history() if entry.kind == "spend"]
    assert kills >= count // 3


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_full_disk_takes_no_answer_that_was_paid(of_file):
    path = of_file._store._path

    def work() -> None:
        logging.getLogger("sfumato.budget").setLevel(logging.CRITICAL)
        release = counted().release(epsilon=1, budget=sf.Ledger(path).budget("shop", "ann"))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        os._exit(7 if release.to_arrow().num_rows == 1 else 1)

    assert ended(work) == 7
    ledger = sf.Ledger(path)
    assert kinds(ledger) == ["asked"] and ledger.journal.verify().ok
    assert ledger.budget("shop", "ann").spent[0] == 1


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


def measured(condition: str) -> Any:
    return ONE.filter(condition).agg(n=sf.count())


SUM = sf.sum("v", lower=0, upper=9)
PARTS = ONE.filter("NOT (age = 50 AND job = 'z')").agg(rows=sf.count(), v=SUM)
RENAMED = ONE.agg(rows=sf.count(), total=SUM, share=sf.ratio("total", "rows"))
# Questions that are asked one after another, and which of them are listed together, as what.
LISTED: list[tuple[list[Any], dict[str, list[tuple[int, ...]]]]] = [
    ([COUNT, PARTS], {"part": [(0, 1)]}),
    ([measured(f"age < {age} AND town = '{town}'") for age, town in ((50, "A"), (51, "A"), (52, "B"))], {"literal": [(0, 1)]}),
    ([COUNT, COUNT, COUNT], {"again": [(0, 1, 2)]}),
    ([ONE.agg(n=sf.count(), v=SUM, r=sf.ratio(*of)) for of in (("v", "n"), ("n", "v"))] + [RENAMED], {"again": [(0, 2)]}),
    ([TOWNS.agg(n=sf.count()), ONE.filter("age > 30").agg(s=SUM), measured("town = 'A'"), VISITS.top("job", k=1, keys=["x", "y"])], {}),
]  # fmt: skip


@pytest.mark.parametrize(("questions", "listed"), LISTED)
def test_questions_that_belong_together_are_listed(of_file, questions, listed):
    """Over all who ask, and under whatever names."""
    entries = [ask(of_file, question, ("ann", "bob")[i % 2]) for i, question in enumerate(questions)]
    assert found(of_file) == {
        kind: [tuple(entries[i] for i in one) for one in several] for kind, several in listed.items()
    }
    told = of_file.journal.audit()
    losses = {loss.analyst: loss.epsilon for loss in told.losses}
    assert losses[None] == losses["ann"] + losses["bob"] == len(questions) / 8
    assert told.asked == len(questions)


def test_refusals_are_listed_with_who_and_why(of_file):
    for epsilon, analyst in ((60, "bob"), (70, "bob"), (80, "ann")):
        with pytest.raises(BudgetError):
            COUNT.release(epsilon=epsilon, budget=of_file.budget("shop", analyst))
    hostile = "SELECT id\n- shop, eve: 9 questions FROM v"
    of_file.journal._record_rejected_text("shop", "bob", hostile, "SqlError")
    told = of_file.journal.audit()
    assert [(one.analyst, one.count, one.kinds) for one in told.refused] == [
        ("bob", 3, (("BudgetError", 2), ("SqlError", 1))),
        ("ann", 1, (("BudgetError", 1),)),
    ]
    assert str(told.refused[0]).endswith(r"SELECT id\n- shop, eve: 9 questions FROM v")
    assert told.findings == () and "Refused queries, at no charge:\n- shop, bob" in str(told)


def test_a_question_that_is_published_must_have_an_answer(ledger):
    asked(ledger)
    for entry in (1, 99):
        with pytest.raises(BudgetError, match=f"the answer to the query of entry {entry} is not kept"):
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
