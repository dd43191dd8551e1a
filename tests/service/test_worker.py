"""Processes that answer: one that hangs, dies or errs takes nothing along, and another one comes."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import EngineError
from sfumato.service.query_service import QueryRequest, QueryResponse
from sfumato.service.worker_processes import Inline, Pace, Unexpected, Workers

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a new process find the module: it is given this one's path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def desk(begins: str = "") -> Any:
    return partial(importlib.import_module("odd_desk").Odd, begins)


def told(workers: Any, *texts: str, kind: str = "ask") -> list[QueryResponse | BaseException]:
    """Return what comes of jobs that are asked at once."""

    async def all_of_them() -> list[QueryResponse | BaseException]:
        return await asyncio.gather(
            *(workers.run(QueryRequest(kind, "ann", text)) for text in texts), return_exceptions=True
        )

    return asyncio.run(all_of_them())


def test_what_hangs_or_dies_is_replaced() -> None:
    workers = Workers(desk(), 2, 1.0)
    try:
        found = told(workers, "hang", "spin", "", "die", "exit", "", "refuse", kind="release")
        assert [one.status for one in found if isinstance(one, QueryResponse)] == [
            504,
            504,
            200,
            503,
            503,
            200,
            400,
        ]
        assert (
            b"stays spent" in found[0].body and b"1 seconds of computing or 4 seconds in all" in found[0].body
        )
        assert workers.killed == 4
    finally:
        workers.stop()
    assert not any(one._process.is_alive() for one in workers._workers if one._process._popen is not None)


def test_accounts_have_a_process_of_their_own() -> None:
    workers = Workers(desk(), 1, 60.0)

    async def beside() -> list[Any]:
        slow = asyncio.ensure_future(workers.run(QueryRequest("release", "ann", "hang")))
        found = [
            await workers.run(QueryRequest(kind, "ann")) for kind in ("budget", "history", "tables", "ready")
        ]
        os.kill(workers._workers[workers.places]._process.pid or 0, signal.SIGKILL)
        found.append(await workers.run(QueryRequest("budget", "ann")))  # and it is replaced
        assert not slow.done()
        slow.cancel()
        os.kill(workers._workers[0]._process.pid or 0, signal.SIGKILL)
        return found

    try:
        assert [one.status for one in asyncio.run(beside())] == [200] * 5
    finally:
        workers.stop()


def test_seconds_count_what_is_computed_and_not_what_others_do() -> None:
    """A question that waits, as for a machine that others use, is not stopped; one that computes is."""
    workers = Workers(desk(), 1, 1.0)
    try:
        (waits,) = told(workers, "wait", kind="release")
        assert isinstance(waits, QueryResponse) and waits.status == 200 and workers.killed == 0
        (spins,) = told(workers, "spin", kind="release")
        assert (
            isinstance(spins, QueryResponse)
            and spins.status == 504
            and b"1 seconds of computing" in spins.body
        )
        (both,) = told(workers, "spin on two threads", kind="release")
        assert isinstance(both, QueryResponse) and both.status == 504
        assert workers.killed == 2
    finally:
        workers.stop()


def test_one_that_is_killed_with_nothing_to_do_loses_no_question() -> None:
    workers = Workers(desk(), 2, 10.0)
    try:
        for _ in range(5):
            for one in workers._workers[
                : workers.places
            ]:  # some have begun and wait, others are still beginning
                os.kill(one._process.pid or 0, signal.SIGKILL)
            assert [one.status for one in told(workers, "", "") if isinstance(one, QueryResponse)] == [
                200,
                200,
            ]
        assert workers.killed == 10
    finally:
        workers.stop()


def test_whatever_happens_an_answer_comes_at_its_pace() -> None:
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)

    pace = Pace(0.5, lambda: now[0], sleep)  # of which .45 seconds are real ones: the clock stands still
    workers = Workers(desk(), 1, 60.0, pace)
    try:
        found = told(workers, "", "refuse", "break", kind="release")
        assert [getattr(one, "status", 500) for one in found] == [200, 400, 500]
        assert slept == [0.5] * 3
        assert told(workers, "", kind="ask") and len(slept) == 3  # it reads no rows
        for text, status in (("hang", 504), ("die", 503), ("exit", 503)):
            workers._workers[0].ready(300)
            (one,) = told(workers, text, kind="release")
            assert isinstance(one, QueryResponse) and one.status == status and b"stays spent" in one.body
        assert slept == [0.5] * 6
        workers._workers[0].ready(300)
        (one,) = told(workers, "die", kind="ask")  # which costs nothing
        assert isinstance(one, QueryResponse) and b"nothing was spent" in one.body and len(slept) == 6
        assert told(workers, "", kind="ask")
        workers._replace(0)
        now[0] = 7.0
        workers._pace = Pace(1e-9, lambda: now[0], sleep)  # the process that begins is not there in time
        (one,) = told(workers, "", kind="release")
        assert isinstance(one, QueryResponse) and one.status == 503 and b"Nothing was spent" in one.body
        assert len(slept) == 7
    finally:
        workers.stop()


def test_a_fault_says_where_and_not_what() -> None:
    workers = Workers(desk(), 1, 10.0)
    try:
        (broken,) = told(workers, "break")
    finally:
        workers.stop()
    assert isinstance(broken, Unexpected) and "KeyError at" in str(broken) and "value" not in str(broken)
    (broken,) = told(Inline(desk()), "break")
    assert isinstance(broken, Unexpected) and "odd_desk.py" in str(broken) and "value" not in str(broken)
    assert broken.__context__ is None or "value" not in str(broken.__cause__)


@pytest.mark.parametrize(
    ("begins", "says"),
    [("fails", "there is no table"), ("breaks", "KeyError at"), ("dies", "ended while it began")],
)
def test_one_that_cannot_begin(begins: str, says: str) -> None:
    with pytest.raises(EngineError, match=says) as error:
        Workers(desk(begins), 2, 1.0)
    assert "a value of a row" not in str(error.value)


def test_jobs_wait_for_their_turn() -> None:
    workers = Workers(desk(), 2, 30.0)
    try:
        found = told(workers, *[""] * 40)
        assert {one.status for one in found if isinstance(one, QueryResponse)} == {200} and len(found) == 40
        assert len({one.body for one in found if isinstance(one, QueryResponse)}) == 2
    finally:
        workers.stop()
