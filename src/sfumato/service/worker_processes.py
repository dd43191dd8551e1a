"""Worker processes of the service: each runs one query at a time, and is killed after a time limit.

A thread could not be stopped in the middle of a question that is made to take for ever, and a crash of the
database would take the service along. What a worker spends is in the ledger before it reads a row. Answers
may be sent at a fixed pace, so that the time of one does not tell how long its rows took.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from multiprocessing.connection import Connection
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, SfumatoError
from sfumato.service.query_service import QueryRequest, QueryResponse, QueryService, failed, make_refusal

_SPARE = 0.1  # of a pace is left to end what takes too long, and to begin anew


@dataclass(frozen=True)
class Pace:
    """When worker processes send answers: at once, or a fixed time after the query's turn began.

    Args:
        seconds: from the turn of a question to its answer; None for as soon as it is there.
        clock, sleep: as those of `time`.

    >>> now = [0.0]
    >>> pace = Pace(2.0, lambda: now[0], lambda seconds: now.append(now.pop() + seconds))
    >>> slot = pace.slot()
    >>> now[0] = 0.5
    >>> slot.left(60), slot.wait(), now
    (1.3, None, [2.0])
    """

    seconds: float | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def slot(self) -> Slot:
        """Start the time slot of one answer."""
        return Slot(self, None if self.seconds is None else self.clock() + self.seconds)


AT_ONCE = Pace()


@dataclass(frozen=True)
class Slot:
    """The time slot of one answer from a worker process.

    Args:
        pace: how it was begun.
        until: when the answer is sent, by the pace's clock; None for as soon as it is there.
    """

    pace: Pace
    until: float | None

    def left(self, maximum: float) -> float:
        """Return the seconds of a time slot that are left to a query, at most `maximum`."""
        if self.until is None or self.pace.seconds is None:
            return maximum
        return max(0.0, min(maximum, self.until - self.pace.clock() - _SPARE * self.pace.seconds))

    def wait(self) -> None:
        """Wait until the end of the time slot, when the answer can be sent."""
        if self.until is not None:
            self.pace.sleep(max(0.0, self.until - self.pace.clock()))


_COUNTED = hasattr(signal, "setitimer")  # whether the system counts what a process computes
_ENDS = 5.0  # seconds for a process that has closed its connection to be gone
MakeQueryService = Callable[[], QueryService]
_TOO_LONG = (
    "the query took longer than this service allows, {:g} seconds of computing or {:g} seconds in "
    "all, and was stopped; {}. Send a smaller query, or ask the owner"
)
_DIED = "the query ended the process that read the rows; {}. Ask the owner"
_NOT_YET = "the service restarts after a query that took too long. Try again; nothing was spent"
_BEGAN = "a worker process ended while it started"
# Times as long as it may compute: for the disk, for a database elsewhere, and for other programs here.
_WAITS = 4
_START = 300.0  # seconds for a worker to be there


def _describe_charge(job: QueryRequest) -> str:
    """Return what to say about the cost of a query whose worker was stopped."""
    costs = job.kind == "release" and not job.dummy
    return "what it cost stays spent" if costs else "nothing was spent"


class Unexpected(Exception):
    """A fault in a worker: its place in the code and type, without its text, which can hold rows."""


def where(error: BaseException) -> str:
    """Return an error's type and the lines of code that it came through, without any value."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames[-12:]]
    return f"{type(error).__name__} at {' > '.join(lines)}"


class Inline:
    """A stand-in for worker processes that runs queries in this process, for tests and embedding.

    Args:
        make: gives the desk.
    """

    def __init__(self, make: MakeQueryService) -> None:
        self._desk = make()
        self._turns = {False: threading.Lock(), True: threading.Lock()}  # of questions, and of accounts
        self.killed: int = 0
        self.places: int = 1

    async def run(self, job: QueryRequest) -> QueryResponse:
        """Return the response to a request, run in a thread of this process.

        Raises:
            Unexpected: a fault of ours.
        """
        return await asyncio.to_thread(self._run, job)

    def _run(self, job: QueryRequest) -> QueryResponse:
        with self._turns[job.is_account]:
            return _answered(self._desk, job)

    def stop(self) -> None:
        """Do nothing: there are no worker processes to stop."""


class Workers:
    """The pool of worker processes, each of which runs one query at a time.

    One more answers for budgets, tables and histories alone: these wait for no question.

    Args:
        make: gives each process its desk; a function of a module with plain arguments, as it is sent there.
        count: of processes that answer questions.
        seconds: that a job may compute, all its threads together, whatever else the machine does; it may take
            four times as long. Where the system does not count that, seconds that it may take.
        pace: of answers that rows were read for. A process is not free for the next question before it, so
            that nobody's wait tells how long another one's question took.
    Raises:
        EngineError: the first one does not begin, and why.
    """

    def __init__(self, make: MakeQueryService, count: int, seconds: float, pace: Pace = AT_ONCE) -> None:
        self._make, self._seconds, self._pace = make, seconds, pace
        self.killed: int = 0
        self.places = count
        first = _Worker(make)
        try:
            first.ready(_START)
        except (EngineError, EOFError, TimeoutError) as error:
            first.kill()
            raise EngineError(str(error) or _BEGAN) from None
        self._workers = [first, *(_Worker(make) for _ in range(count))]
        self._free: dict[bool, asyncio.Queue[int]] = {}
        self._threads = ThreadPoolExecutor(count + 1)  # of which each waits for one worker

    async def run(self, job: QueryRequest) -> QueryResponse:
        """Return the response to a request from the next free worker process.

        Raises:
            Unexpected: a fault of ours.
        """
        if not self._free:  # a queue belongs to the loop that it is first used in
            self._free = {False: asyncio.Queue(), True: asyncio.Queue()}
            for i in range(len(self._workers)):
                self._free[i == self.places].put_nowait(i)
        place = await self._free[job.is_account].get()
        # Shielded: an asker who goes away gives the place back only when the worker is free.
        return await asyncio.shield(asyncio.ensure_future(self._at(place, job)))

    async def _at(self, place: int, job: QueryRequest) -> QueryResponse:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, place, job)
        finally:
            self._free[job.is_account].put_nowait(place)

    def _run(self, place: int, job: QueryRequest) -> QueryResponse:
        slot = (self._pace if job.reads_rows else AT_ONCE).slot()
        try:
            return self._outcome(place, job, slot)
        finally:
            slot.wait()

    def _outcome(self, place: int, job: QueryRequest, slot: Slot) -> QueryResponse:
        """Return the response of a worker process; replace the process if it dies or is too slow."""
        try:
            # Where it ended with nothing to do, nothing is lost.
            if not self._workers[place].takes(job, slot, self._seconds):
                self._replace(place)
                if not self._workers[place].takes(job, slot, self._seconds):
                    raise EngineError(_BEGAN)
        except TimeoutError:  # at a fixed pace it is waited for no longer, and may be there for the next one
            if slot.until is None:
                self._replace(place)
            return make_refusal(EngineError(_NOT_YET), 503)
        except EngineError as error:
            self._replace(place)
            return failed(error)
        longest = slot.left(self._seconds * (_WAITS if _COUNTED else 1))
        text = _TOO_LONG.format(
            round(min(self._seconds, longest), 1), round(longest, 1), _describe_charge(job)
        )
        try:
            found = self._workers[place].receive(longest)
        except TimeoutError:
            self._replace(place)
            return make_refusal(EngineError(text), 504)
        except (EOFError, OSError):
            computed_too_long = self._workers[place].computed_too_long
            self._replace(place)
            if computed_too_long:
                return make_refusal(EngineError(text), 504)
            return make_refusal(EngineError(_DIED.format(_describe_charge(job))), 503)
        if isinstance(found, str):
            raise Unexpected(found)
        return found

    def _replace(self, place: int) -> None:
        self._workers[place].kill()
        self._workers[place] = _Worker(self._make)
        self.killed += 1

    def stop(self) -> None:
        """Kill all worker processes."""
        for worker in self._workers:
            worker.kill()


class _Worker:
    """One worker process, which reports when it is ready and then runs requests."""

    def __init__(self, make: MakeQueryService) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would take threads' locks along
        self._here, there = context.Pipe()
        self._process = context.Process(target=_work, args=(there, make), daemon=True)
        self._process.start()
        there.close()
        self._is_ready = False

    def ready(self, seconds: float) -> None:
        """Wait until the worker process is ready.

        Raises:
            TimeoutError: it is not there by then.
            EngineError: it could not begin, and why.
            EOFError: it ended without a word.
        """
        if self._is_ready:
            return
        if not self._here.poll(seconds):
            raise TimeoutError
        said: Any = self._here.recv()
        if said is not None:
            raise EngineError(said)
        self._is_ready = True

    def takes(self, job: QueryRequest, slot: Slot, seconds: float) -> bool:
        """Send a request to the worker process, and return whether it started; if not, nothing was charged.

        Args:
            job: what it is to do.
            slot: when its answer is sent.
            seconds: that it may compute.
        Raises:
            TimeoutError: the process is not there in time.
            EngineError: it could not begin.
        """
        try:
            self.ready(slot.left(_START))
            self._here.send((job, seconds))  # to a process that was killed, and can seem alive for a while
            self._here.recv()
        except TimeoutError:
            raise
        except (EOFError, OSError):
            return False
        return True

    def receive(self, seconds: float) -> QueryResponse | str:
        """Return the worker's response to its request, or the place of a fault in our code.

        Raises:
            TimeoutError: it takes longer.
            EOFError, OSError: the process is gone.
        """
        if not self._here.poll(seconds):
            raise TimeoutError
        found: QueryResponse | str = self._here.recv()
        return found

    @property
    def computed_too_long(self) -> bool:
        """Whether the worker process ended because its query computed for too long."""
        self._process.join(_ENDS)
        return _COUNTED and self._process.exitcode == -signal.SIGPROF

    def kill(self) -> None:
        """Kill the worker process."""
        self._process.kill()
        self._process.join()
        self._here.close()


def _answered(desk: QueryService, job: QueryRequest) -> QueryResponse:
    try:
        return desk.answer(job)
    except Exception as error:
        raise Unexpected(where(error)) from None


def _work(there: Connection, make: MakeQueryService) -> None:
    """Run requests in a worker process until the service closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is for the service; it ends its workers
    if _COUNTED:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        try:
            desk = make()
        except Exception as error:
            there.send(str(error) if isinstance(error, SfumatoError) else where(error))
            return
        there.send(None)
        while True:
            job, seconds = there.recv()
            there.send(None)  # from here on it may have read and spent
            _limit_cpu_time(seconds)
            try:
                found: QueryResponse | str = _answered(desk, job)
            except Unexpected as error:
                found = str(error)
            _limit_cpu_time(0)
            there.send(found)


def _limit_cpu_time(seconds: float) -> None:
    """Limit the worker's computing time over all its threads; 0 removes the limit."""
    if _COUNTED:
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _end_with_parent() -> None:
    """End the worker process when the service ends, even when the service is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
