"""Many processes on one ledger, and processes that are killed while they spend."""

import glob
import importlib
import inspect
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import BudgetError, EngineError

BENCHMARKS = str(Path(__file__).parents[3] / "benchmarks")
ANALYSTS = [f"analyst {number}" for number in range(8)]


def loaded(name: str) -> Any:
    """Return a benchmark, as a module."""
    with pytest.MonkeyPatch.context() as path:
        path.syspath_prepend(BENCHMARKS)  # where one finds the others
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def kills() -> Any:
    return loaded("ledger")


@pytest.fixture(scope="module")
def servers() -> Any:
    pytest.importorskip("psycopg", reason="needs the extra ledger")
    if shutil.which("cc") is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a compiler of C, on Linux")
    if not glob.glob("/usr/lib/postgresql/*/bin/initdb"):
        pytest.skip("needs Debian's package postgresql")
    return loaded("ledger_server")


@pytest.fixture(autouse=True)
def forks() -> Any:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of forks beside threads
        yield


def at_once(*functions: Callable[[], None]) -> list[int]:
    """Run each in a process of its own, all of which begin together; return how they ended."""
    reader, writer = os.pipe()
    children = []
    for function in functions:
        child = os.fork()
        if not child:
            code = 1
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(120)
                os.close(writer)
                os.read(reader, 1)  # the end of the pipe
                function()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(writer)
    os.close(reader)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def made(place: str, epsilon: object, each: object) -> None:
    ledger = sf.Ledger(place)
    ledger.create("hospital", epsilon)
    for analyst in ANALYSTS:
        ledger.grant("hospital", analyst, each)


def spending(place: str, analyst: str, spends: int) -> Callable[[], None]:
    def spend() -> None:
        budget = sf.Ledger(place).budget("hospital", analyst)
        for number in range(spends):
            try:
                budget.spend("1/100", what=str(number))
            except BudgetError:
                continue

    return spend


@pytest.mark.parametrize("spends", [5, pytest.param(15, marks=pytest.mark.long)])
def test_eight_analysts_in_eight_processes_spend_what_there_is_and_no_more(place, spends):
    # For the whole dataset less than all of them would take; for each less than they ask for.
    made(place, F(6 * spends, 100), F(spends - 1, 100))
    assert at_once(*(spending(place, analyst, spends) for analyst in ANALYSTS)) == [0] * 8
    ledger = sf.Ledger(place)
    assert ledger.journal.verify().ok
    entries = ledger.budget("hospital").history
    assert len(entries) == 6 * spends and ledger.budget("hospital").remaining.epsilon == 0
    own = [[e.what for e in entries if e.analyst == analyst] for analyst in ANALYSTS]
    assert max(map(len, own)) <= spends - 1
    assert all(whats == sorted(whats, key=int) for whats in own)
    assert all(
        len(ledger.budget("hospital", a).history) == len(o) for a, o in zip(ANALYSTS, own, strict=True)
    )


@pytest.mark.long
def test_datasets_and_owners_at_once_end(place):
    """Nobody waits in a circle, whatever comes first: caps that change, other datasets, readers."""
    made(place, 1000, 1000)
    sf.Ledger(place).create("school", 1000)
    sf.Ledger(place).grant("school", ANALYSTS[0], 1000)

    def both() -> None:
        budgets = [sf.Ledger(place).budget(name, ANALYSTS[0]) for name in ("school", "hospital")]
        for number in range(8):
            budgets[number % 2].spend("1/100")
            budgets[(number // 2) % 2].spend("1/100")

    def owner() -> None:
        ledger = sf.Ledger(place)
        for number in range(8):
            ledger.grant("hospital", ANALYSTS[number], 1000 + number)
            ledger.create("school", 1000 + number, replace=True)

    def reader() -> None:
        ledger = sf.Ledger(place)
        for _ in range(15):
            ledger.check()
            spent = ledger.budget("hospital").spent[0]
            assert ledger.budget("hospital").spent[0] >= spent

    assert at_once(both, both, owner, owner, reader, reader, both) == [0] * 7
    ledger = sf.Ledger(place)
    ledger.check()
    assert len(ledger.budget("school").history) + len(ledger.budget("hospital").history) == 3 * 16


@pytest.mark.long
def test_hundreds_of_processes_are_killed(place, kills):
    """In each place, five at a time, that spend at once; `python benchmarks/ledger.py kills 1000` does more."""
    kills.make(place)
    count, chosen, killed, rounds = kills.held(place), random.Random(2), 0, 40
    until = time.monotonic() + rounds * 9 * kills.seconds(place)  # three times what they take
    for done in range(rounds):
        if time.monotonic() > until and done >= 10:
            break
        arms = [kills.at_call(chosen.randrange(21_000)) for _ in range(5)]
        count, many = kills.together(place, count, arms)
        killed += many
    assert killed >= 4 * (done + 1) or (place.startswith("postgresql") and killed >= done + 1)
    assert sf.Ledger(place).journal.verify().ok


@pytest.mark.long
def test_a_server_is_killed_in_the_middle_of_its_own_writes(servers):
    """Before, after and within writes to its log; at any time; and as a whole. `benchmarks/ledger_server.py` does more."""
    with servers.server() as made:
        servers.make(made.place)
        count, killed = servers.at_writes(made, 18, servers.held(made.place))
        assert killed >= 15
        count, killed = servers.at_any_time(made, 5, count, random.Random(1), whole=False)
        count, servers_killed = servers.at_any_time(made, 1, count, random.Random(2), whole=True)
        assert killed >= 1 and servers_killed == 1
        ledger = sf.Ledger(made.place)
        ledger.check()
        assert ledger.journal.verify().ok and len(ledger.budget("d", "ann").history) == count


@pytest.mark.parametrize(("where", "again"), [("save", True), ("append", False), ("accounts", False)])
def test_a_fork_in_the_middle_of_a_spend_pays_once_and_for_one(place, fork, monkeypatch, where, again):
    """The child stands in the middle of its parent's transaction, and neither ends it nor shows anything."""

    made(place, 1000, 1000)
    ledger = sf.Ledger(place)
    from sfumato.budget.ledger import ledger_accounts

    real, left = getattr(ledger_accounts, where), [1]

    def forking(*arguments: Any, **named: Any) -> Any:
        done = real(*arguments, **named) if again else None
        if left:
            left.clear()
            fork.here()
        return done if again else real(*arguments, **named)

    budget = ledger.budget("hospital", ANALYSTS[0])
    monkeypatch.setattr(ledger_accounts, where, forking)
    assert fork.told(lambda: budget.spend(1), BudgetError) == ("refused", "went on")
    assert len(ledger.budget("hospital").history) == 1 and budget.spent[0] == 1
    ledger.check()


def test_a_fork_after_the_spend_is_refused_what_its_parent_paid(place, fork, monkeypatch):
    made(place, 1000, 1000)
    ledger = sf.Ledger(place)
    change = ledger._store.change

    def forking(work: Any) -> Any:
        done = change(work)
        fork.here()
        return done

    monkeypatch.setattr(ledger._store, "change", forking)
    budget = ledger.budget("hospital")
    assert fork.told(lambda: budget.spend(1), BudgetError) == ("refused", "went on")
    assert len(budget.history) == 1


@pytest.mark.parametrize("steps", [6, pytest.param(60, marks=pytest.mark.long)])
def test_an_interrupt_in_the_middle_leaves_the_ledger_to_others(file, monkeypatch, steps):
    """Also while what was interrupted is looked at, as a debugger would, with all its frames."""

    class Interrupt(BaseException):
        pass

    from sfumato.budget.ledger import ledger_databases

    monkeypatch.setattr(ledger_databases, "WAIT", 0.3)
    made(file, 1000, 1000)
    budget, kept = sf.Ledger(file).budget("hospital"), []
    other = sf.Ledger(file).budget("hospital", ANALYSTS[0])
    paid = 0
    for place in range(3, 2000, 2000 // steps):
        calls = iter(range(place))

        def trace(frame: Any, *_: Any, calls: Iterator[int] = calls) -> None:
            if next(calls, None) is None and not frame.f_code.co_flags & inspect.CO_GENERATOR:
                sys.settrace(None)
                raise Interrupt

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            budget.spend("1/100")
            paid += 1
        except (Interrupt, EngineError) as interrupt:  # as SQLAlchemy fails, where it lost what it was about
            kept.append(interrupt)
        finally:
            sys.settrace(before)
        other.spend("1/100")
        assert other._ledger is not budget._ledger
    assert kept
    sf.Ledger(file).check()
    entries = len(sf.Ledger(file).budget("hospital").history)
    assert entries >= paid + len(other.history)
