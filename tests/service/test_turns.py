"""Turns: whoever asks much makes nobody else wait, and nobody is forgotten."""

from __future__ import annotations

import asyncio
import functools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.service import http_app
from sfumato.service.http_app import Turns
from sfumato.service.query_service import QueryRequest, QueryResponse
from tests.support.service import LocalService

JSON = {"content-type": "application/json"}


class Held:
    """A runner of which a test says when each job ends."""

    def __init__(self, places: int) -> None:
        self.places, self.killed = places, 0
        self.began: list[str] = []
        self._ends: list[tuple[str, asyncio.Event]] = []

    async def run(self, job: QueryRequest) -> QueryResponse:
        assert len(self._ends) < self.places, "more jobs at once than places"
        one = (job.analyst, asyncio.Event())
        self.began.append(job.analyst)
        self._ends.append(one)
        try:
            await one[1].wait()
        finally:
            self._ends.remove(one)
        return QueryResponse(200, "text/plain", b"done")

    def end(self, who: str) -> None:
        next(event for name, event in self._ends if name == who and not event.is_set()).set()


async def at_once(function: Callable[..., Any], *args: Any) -> Any:
    """Look a token up in the loop, so that a test knows when it is done."""
    return function(*args)


class Web:
    """Requests to a service, in the loop of a test."""

    def __init__(self, folder: Path, places: int, **limits: Any) -> None:
        self.local, self.held = LocalService(folder, **limits), Held(places)
        made = self.local.app
        self.service = http_app.Service(self.held, made.tokens, made.limits, folder)
        self.service._in_thread = at_once  # type: ignore[method-assign]

    def ask(self, who: str, path: str = "/v1/ask", method: str = "POST") -> Request:
        return Request(self, who, path, method)

    def end(self) -> None:
        for _, event in list(self.held._ends):
            event.set()


class Request:
    """One request, whose sender may go away."""

    def __init__(self, web: Web, who: str, path: str, method: str) -> None:
        self.status, self.gone = 0, asyncio.Event()
        headers = [(k.encode(), v.encode()) for k, v in web.local.headers(who, **JSON).items()]
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": headers, "query_string": b"",
            "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("service", 80), "client": ("here", 1),
        }  # fmt: skip
        self._first = True
        self.task = asyncio.ensure_future(web.service(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._first:
            self._first = False
            return {"type": "http.request", "body": b'{"sql": "SELECT 1"}', "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


async def settled() -> None:
    """Let all that can go on go on: more steps of the loop than any chain of these waits has."""
    for _ in range(50):
        await asyncio.sleep(0)


async def finished(web: Web, *asked: Request) -> None:
    """Answer until all requests are answered."""
    while not all(one.task.done() for one in asked):
        web.end()
        await settled()


def in_loop(test: Callable[..., Any]) -> Callable[..., None]:
    """Let a test run in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), 60))

    return run


@pytest.mark.parametrize("places", [1, 3])
@in_loop
async def test_many_questions_of_one_make_nobody_else_wait(places, tmp_path):
    """Ann asks eight questions, and then bob one, which is asked when one of ann's has ended."""
    web = Web(tmp_path, places)
    asked = [web.ask("ann") for _ in range(8)]
    await settled()
    bob = web.ask("bob")
    await settled()
    if places == 1:
        web.held.end("ann")
        await settled()
    began = list(web.held.began)
    await finished(web, *asked, bob)
    assert {one.status for one in (*asked, bob)} == {200}
    assert began[-1] == "bob" and len(began) == max(2, places)


@in_loop
async def test_who_goes_away_before_their_turn_is_not_asked_for(tmp_path):
    web = Web(tmp_path, 1, each=3)
    first, second, third = (web.ask("ann") for _ in range(3))
    await settled()
    refused = web.ask("ann")
    await settled()
    assert refused.status == 429
    second.gone.set()  # while it waits: its place in the line is free at once
    first.gone.set()  # while it is answered: it goes on, as it may have paid
    await settled()
    assert second.task.done() and second.status == 499 and not first.task.done()
    fourth = web.ask("ann")
    await settled()
    assert not fourth.task.done() and web.held.began == ["ann"]
    again = web.ask("ann")
    await settled()
    assert again.status == 429  # the one that goes on counts
    for _ in range(3):
        web.held.end("ann")
        await settled()
    assert (first.status, third.status, fourth.status) == (200, 200, 200) and len(web.held.began) == 3


@in_loop
async def test_a_token_that_is_revoked_while_its_question_waits_asks_nothing(tmp_path):
    web = Web(tmp_path, 1)
    first, second = web.ask("ann"), web.ask("bob")
    await settled()
    tokens = web.local.tokens
    for one in tokens.all():
        tokens.revoke(one.id)
    web.held.end("ann")
    await settled()
    assert (first.status, second.status) == (200, 401) and web.held.began == ["ann"]
    assert not any(web.service._asking.values()) and not web.service._turns[False]._taken


@pytest.mark.long
@in_loop
async def test_a_request_that_the_server_ends_gives_its_place_back_when_it_is_free(tmp_path):
    web = Web(tmp_path, 2, each=3)
    requests = [web.ask("ann") for _ in range(3)]
    await settled()
    for one in requests:
        one.task.cancel()
    await settled()
    assert web.held.began == ["ann"]  # and none of those that waited
    last = web.ask("ann")
    await settled()
    assert web.held.began == ["ann"]
    web.held.end("ann")
    await settled()
    web.held.end("ann")
    await settled()
    assert last.status == 200 and not any(web.service._asking.values())
    assert not web.service._turns[False]._taken


@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.release) for i in range(1, 10))])
@in_loop
async def test_any_history_of_turns(seed):
    """No place stands empty where somebody may have it, nobody has more than their part, all get their turn."""
    draw = random.Random(seed)
    places = draw.choice([1, 2, 3, 4])
    turns, most = Turns(places), max(1, places - 1)
    running, waiting = Counter[str](), dict[asyncio.Task[None], str]()
    names, since = "abcde"[: draw.randint(1, 5)], Counter[str]()

    async def take(who: str) -> None:
        await turns.take(who)
        others = {w for task, w in waiting.items() if task is not asyncio.current_task() and w != who}
        for other in others:  # who waits, and has nothing here, sees each other one begin once at most
            if not running[other]:
                since[other, who] += 1
                assert since[other, who] <= 1, "one had two turns while another waited for its first"
        for pair in [pair for pair in since if pair[0] == who]:
            del since[pair]
        running[who] += 1
        del waiting[asyncio.current_task()]

    for _ in range(200):
        action = draw.random()
        if action < 0.5:
            who = draw.choice(names)
            waiting[asyncio.ensure_future(take(who))] = who
        elif action < 0.8 and running:
            who = draw.choice(sorted(running))
            running[who] -= 1
            running += Counter()
            turns.over(who)
        elif waiting:
            task = draw.choice(list(waiting))
            task.cancel()
            who = waiting.pop(task)  # whose turn may have come at that moment, and is over then
            for pair in [pair for pair in since if pair[0] == who]:
                del since[pair]
            if draw.random() < 0.5:
                continue  # more happens before it hears of it
        await settled()
        assert running.total() <= places and all(n <= most for n in running.values())
        free = places - running.total()
        assert not free or not any(running[who] < most for who in waiting.values())
        assert dict(running) == {k: v for k, v in turns._taken.items() if v}
    while running or waiting:
        for who in list(running.elements()):
            running[who] -= 1
            running += Counter()
            turns.over(who)
            await settled()
    assert not turns._waiting and not turns._taken


@in_loop
async def test_accounts_do_not_wait_for_queries(tmp_path):
    """One place, and queries of the same analyst in it: budget, tables, history and readiness are there at once."""
    web = Web(tmp_path, 1)
    slow = [web.ask("ann") for _ in range(3)]
    await settled()
    web.held.places = 9  # of the runner, whose other process answers for accounts
    for path in ("/v1/budget", "/v1/history", "/v1/tables", "/ready"):
        account = web.ask("ann", path, "GET")
        await settled()
        web.held._ends[-1][1].set()
        await settled()
        assert account.status == 200 and not any(one.status for one in slow), path
    await finished(web, *slow)
