"""Worker processes: one that hangs, dies or fails takes nothing with it, is replaced, and its charge stays."""

import asyncio
import importlib
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from sfumato.errors import EngineError, QueryError
from sfumato.service import worker_processes
from sfumato.service.query_service import QueryRequest, QueryResponse, make_refusal
from sfumato.service.worker_processes import Inline, Pace, Unexpected, Workers


def run(workers, *texts, kind="release"):
    """Return what comes of requests that are sent at once."""

    async def all_of_them():
        jobs = [workers.run(QueryRequest(kind, "ann", text)) for text in texts]
        return await asyncio.gather(*jobs, return_exceptions=True)

    return asyncio.run(all_of_them())


class Process:
    """Stands for a worker process: what it does is the text of its request."""

    slow = False

    def __init__(self, make):
        self.job, self.computed_too_long = None, False

    def ready(self, seconds):
        if self.slow:
            raise TimeoutError

    def takes(self, job, slot, seconds):
        self.ready(slot.left(300))
        self.job = job
        return job.text != "gone" or Process.gone.pop()

    def receive(self, seconds):
        match self.job.text:
            case "hang":
                raise TimeoutError
            case "die":
                raise EOFError
            case "spin":
                self.computed_too_long = True
                raise EOFError
            case "fault":
                return "KeyError at desk.py:1"
            case "refuse":
                return make_refusal(QueryError("not so"), 400)
        return QueryResponse(200, "text/plain", str(id(self)).encode())

    def kill(self):
        self.job = "killed"


@pytest.fixture
def workers(monkeypatch):
    """Two workers without processes, whose clock stands still; `slept` is what they waited."""
    monkeypatch.setattr(worker_processes, "_Worker", Process)
    monkeypatch.setattr(Process, "slow", False)
    monkeypatch.setattr(Process, "gone", [True, False], raising=False)
    slept = []
    made = Workers(lambda: None, 2, 3.0, Pace(0.5, lambda: 0.0, slept.append))
    made.slept = slept
    return made


@pytest.mark.parametrize(
    ("text", "status", "killed"), [("", 200, 0), ("refuse", 400, 0), ("hang", 504, 1), ("spin", 504, 1), ("die", 503, 1)]
)  # fmt: skip
def test_what_fails_is_replaced_stays_spent_and_comes_at_its_pace(workers, text, status, killed):
    before = list(workers._workers)
    (found,) = run(workers, text)
    assert found.status == status and workers.killed == killed and workers.slept == [0.5]
    assert (b"stays spent" in found.body) is bool(killed)
    replaced = [one for one, now in zip(before, workers._workers, strict=True) if one is not now]
    assert [one.job for one in replaced] == ["killed"] * killed
    (again,) = run(workers, text, kind="ask")  # which reads no rows, and costs nothing
    assert again.status == status and workers.slept == [0.5]
    assert (b"nothing was spent" in again.body) is bool(killed)


def test_a_fault_is_raised_at_its_pace_too(workers):
    (found,) = run(workers, "fault")
    assert isinstance(found, Unexpected) and workers.slept == [0.5] and not workers.killed


def test_a_worker_that_is_gone_before_it_begins_loses_no_query(workers):
    assert [one.status for one in run(workers, "gone")] == [200] and workers.killed == 1


def test_a_worker_that_is_not_ready_in_time_costs_nothing(workers, monkeypatch):
    monkeypatch.setattr(Process, "slow", True)
    (found,) = run(workers, "")
    assert found.status == 503 and b"othing was spent" in found.body and workers.slept == [0.5]


def test_requests_wait_for_their_turn_and_accounts_have_a_worker_of_their_own(workers):
    found = run(workers, *[""] * 9)
    assert {one.status for one in found} == {200} and len({one.body for one in found}) == 2
    (account,) = run(workers, "", kind="budget")
    assert account.body not in {one.body for one in found}


def test_a_fault_says_where_and_not_what(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    odd = importlib.import_module("odd_desk").Odd
    (broken,) = run(Inline(odd), "break")
    assert isinstance(broken, Unexpected) and "KeyError at" in str(broken) and "value" not in str(broken)
    assert "odd_desk.py" in str(broken) and "value" not in str(broken.__cause__)


@pytest.mark.long
def test_real_processes(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # a new process is given this one's path
    make = importlib.import_module("odd_desk").Odd
    workers = Workers(partial(make), 2, 1.0)
    try:
        found = run(workers, "hang", "spin on two threads", "", "die", "exit", "refuse", "wait")
        assert [one.status for one in found] == [504, 504, 200, 503, 503, 400, 200]
        assert b"1 seconds of computing or 4 seconds in all" in found[0].body and workers.killed == 4
        for one in workers._workers[: workers.places]:  # with nothing to do
            os.kill(one._process.pid, signal.SIGKILL)
        found = run(workers, "", "break")
        assert found[0].status == 200 and "KeyError at" in str(found[1]) and "value" not in str(found[1])
        pids = [one._process.pid for one in workers._workers]
    finally:
        workers.stop()
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids)
    for begins, says in (
        ("fails", "there is no table"),
        ("breaks", "KeyError at"),
        ("dies", "ended while it started"),
    ):
        with pytest.raises(EngineError, match=says) as error:
            Workers(partial(make, begins), 2, 1.0)
        assert "a value of a row" not in str(error.value)
