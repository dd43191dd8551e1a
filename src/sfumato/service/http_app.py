"""The service as an ASGI application: authentication, limits and endpoints over HTTP.

Starlette does what is common to all HTTP services; each answer is written here, so that nothing of a request
or of a fault comes back that was not meant to.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, QueryError, RefusalError, SfumatoError, nearest, shown
from sfumato.service.access_tokens import Caller, Tokens
from sfumato.service.answer_formats import JSON, MEDIA, as_json
from sfumato.service.monitoring import Metrics, digest, log
from sfumato.service.openapi import FIELDS, admits, document
from sfumato.service.page_files import POLICY, list_sql_words, routes
from sfumato.service.query_service import QueryRequest, QueryResponse, make_refusal
from sfumato.service.worker_processes import Unexpected, where

Turn = asyncio.Future[None]


class Turns:
    """A fair queue of HTTP requests: analysts take turns in a number of places.

    A free place goes to the analyst who has the fewest; of several to the one whose last turn began longest
    ago; and there to the question that came first. Nobody has all places, where there is more than one: the
    last one is kept for whoever comes next.

    Args:
        places: how many questions are answered at once.

    >>> async def example():
    ...     turns, order = Turns(1), []
    ...     async def ask(who):
    ...         await turns.take(who)
    ...         order.append(who)
    ...         await asyncio.sleep(0)
    ...         turns.over(who)
    ...     await asyncio.gather(*map(ask, ["ann", "ann", "ann", "bob", "bob"]))
    ...     return order
    >>> asyncio.run(example())
    ['ann', 'bob', 'ann', 'bob', 'ann']
    """

    def __init__(self, places: int) -> None:
        self._places, self._most = places, max(1, places - 1)
        self._taken = Counter[str]()
        self._waiting = dict[str, deque[Turn]]()
        # The number of everybody's last turn: of names with tokens, which the owner makes, so few.
        self._last, self._number = dict[str, int](), 0

    async def take(self, who: str) -> None:
        """Wait in the queue for a turn, which `over` ends."""
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(who, turn)
            else:  # it came at that moment
                self.over(who)
            raise

    def over(self, who: str) -> None:
        """End a turn, so that its place in the queue is free."""
        self._taken[who] -= 1
        self._taken += Counter()  # drops names at 0
        self._give()

    def _give(self) -> None:
        """Give free places of the queue to waiting requests."""
        while self._taken.total() < self._places:
            may = [who for who in self._waiting if self._taken[who] < self._most]
            if not may:
                return
            who = min(may, key=lambda one: (self._taken[one], self._last.get(one, 0)))
            turn = self._waiting[who][0]
            self._leave(who, turn)
            if not turn.done():  # as one is that was cancelled, and has not left yet
                self._number += 1
                self._taken[who] += 1
                self._last[who] = self._number
                turn.set_result(None)

    def _leave(self, who: str, turn: Turn) -> None:
        line = self._waiting.get(who)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[who]


_FAILED = "the service failed. Its owner can find the reason by this request's id"
_BUSY = "the service has too many queries waiting. Try again in a few seconds; nothing was spent"
_AT_ONCE = "at most {} of your queries can run at once. Wait for one of them; nothing was spent"
_LEFT = "the client disconnected before its query started. Nothing was spent"
_NO_TOKENS = "tokens cannot be looked up now. Try again in a few seconds; nothing was spent"
_LOOKUPS = 8  # tokens that are looked up at once
_GONE = 499  # of no standard, but what logs of proxies call it
_WHO = "token: the request has no valid token. Send the header Authorization: Bearer sfumato_..."
_SLOW = "the request did not arrive within {:g} seconds"
_LONG = "the request is longer than {:,} bytes"
_FORM = 'the request\'s body must be one JSON object of at most a few levels, such as {"sql": "SELECT ..."}'
_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]

T = TypeVar("T")
_KEY, _ENTRY = re.compile(r"[A-Za-z0-9._-]{16,128}"), re.compile(r"[0-9]{1,15}")
_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


class Runner(Protocol):
    """An object that runs query requests for the HTTP application; see `worker_processes.py`."""

    killed: int
    places: int  # jobs that are answered at once

    async def run(self, job: QueryRequest) -> QueryResponse:
        """Return the response to a query request."""
        ...


@dataclass(frozen=True)
class Limits:
    """The limits of one HTTP request.

    Args:
        bytes: of its body.
        arrival: seconds in which it must arrive.
        waiting: requests that are answered or wait, of all together; beyond, each analyst may have one.
        each: of one analyst.
    """

    bytes: int = 256 * 1024
    arrival: float = 10.0
    waiting: int = 64
    each: int = 8


class _Refused(Exception):
    """An HTTP error response, raised."""

    def __init__(self, status: int, error: SfumatoError, **headers: str) -> None:
        super().__init__(status)
        self.outcome, self.headers = make_refusal(error, status), headers


class Service:
    """The ASGI application of the service, with its endpoints.

    Args:
        runner: answers jobs.
        tokens: who may ask.
        limits: of one request.
        page: the folder of files that anybody may read, such as the page of the service.
    """

    def __init__(self, runner: Runner, tokens: Tokens, limits: Limits, page: Path) -> None:
        self.runner = runner
        self.tokens = tokens
        self.limits = limits
        self.metrics: Metrics = Metrics()
        self._key = tokens.key("log")
        # Of questions, and of accounts, which wait for no question.
        self._asking = {False: Counter[str](), True: Counter[str]()}
        self._turns = {False: Turns(runner.places), True: Turns(1)}
        # No lookup in the event loop: where the file of tokens is locked, it takes seconds.
        self._lookups = ThreadPoolExecutor(_LOOKUPS, "tokens")
        self._readiness: asyncio.Task[QueryResponse] | None = None
        endpoints: list[tuple[str, str, Callable[[Request, Caller], Awaitable[Response]]]] = [
            ("GET", "/v1/tables", self._tables),
            ("POST", "/v1/ask", self._ask),
            ("POST", "/v1/release", self._release),
            ("GET", "/v1/budget", self._budget),
            ("GET", "/v1/history", self._history),
            ("GET", "/v1/answers/{entry}", self._send_prior_answer),
            ("GET", "/metrics", self._metrics),
        ]
        self.routes: list[Route] = [
            Route(path, self._known(path, asked), methods=[method]) for method, path, asked in endpoints
        ]
        self.routes += [
            Route("/health", self._open_endpoint("health", {"status": "ok"}), methods=["GET"]),
            Route("/ready", self._ready, methods=["GET"]),
            Route("/openapi.json", self._open_endpoint("openapi", document()), methods=["GET"]),
            Route("/v1/words", self._open_endpoint("words", list_sql_words()), methods=["GET"]),
            *routes(page),
        ]
        # Not Starlette's application, which has words of its own for what nobody expected.
        router = Router(self.routes, redirect_slashes=False)
        self._inner: ASGIApp = ExceptionMiddleware(router, {HTTPException: self._no_such})

    # Endpoints.

    async def _tables(self, request: Request, caller: Caller) -> Response:
        return await self._answer(request, QueryRequest("tables", caller.name, role=caller.role))

    async def _ask(self, request: Request, caller: Caller) -> Response:
        given = await self._body(request, "ask")
        job = QueryRequest(
            "ask",
            caller.name,
            **_question(given),
            confidence=given["confidence"],
            units=tuple(given["units"]),
            epsilons=tuple(given["epsilons"]),
            dummy=given["dummy"],
        )
        return await self._answer(request, job)

    async def _release(self, request: Request, caller: Caller) -> Response:
        given, media = (
            await self._body(request, "release"),
            _preferred_media_type(request.headers.get("accept")),
        )
        job = QueryRequest(
            "release",
            caller.name,
            **_question(given),
            media=media,
            confidence=given["confidence"],
            simultaneous=given["simultaneous"],
            dummy=given["dummy"],
            key=_idempotency_key(request.headers.get("idempotency-key")),
        )
        return await self._answer(request, job)

    async def _send_prior_answer(self, request: Request, caller: Caller) -> Response:
        text = request.path_params["entry"]
        if not _ENTRY.fullmatch(text):
            raise _Refused(
                404, QueryError("answers: /v1/answers/ must be followed by a number from /v1/history")
            )
        media = _preferred_media_type(request.headers.get("accept"))
        return await self._answer(request, QueryRequest("answer", caller.name, media=media, entry=int(text)))

    async def _budget(self, request: Request, caller: Caller) -> Response:
        everybody = _everybody(request, caller)
        return await self._answer(
            request, QueryRequest("budget", caller.name, everybody=everybody, role=caller.role)
        )

    async def _history(self, request: Request, caller: Caller) -> Response:
        return await self._answer(
            request, QueryRequest("history", caller.name, everybody=_everybody(request, caller))
        )

    async def _ready(self, request: Request) -> Response:
        """Respond whether the service is ready to charge and answer; one check at a time for all requests."""
        request.state.route = "ready"
        if self._readiness is None or self._readiness.done():
            self._readiness = asyncio.ensure_future(self._looked())
        return self._response(request, await asyncio.shield(self._readiness))

    async def _looked(self) -> QueryResponse:
        try:
            await self._in_thread(self.tokens.all)
        except EngineError as error:
            log("tokens cannot be read", logging.ERROR, why=str(error))
            return make_refusal(EngineError(_NO_TOKENS), 503)
        return await self.runner.run(QueryRequest("ready", ""))

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._lookups, function, *args)

    async def _metrics(self, request: Request, caller: Caller) -> Response:
        request.state.route = "metrics"
        if not caller.is_owner:
            raise _Refused(403, RefusalError("metrics: only owners of the service can read these"))
        text = self.metrics.text(self.runner.killed)
        return Response(text, media_type="text/plain; version=0.0.4")

    # What is common to them.

    def _known(self, path: str, handler: Callable[[Request, Caller], Awaitable[Response]]) -> Any:
        """Return an HTTP endpoint that requires an access token."""

        async def endpoint(request: Request) -> Response:
            request.state.route = path.removeprefix("/v1").split("/")[1]
            try:
                caller = await self._caller(request)
                request.state.caller = caller.name
                return await handler(request, caller)
            except _Refused as error:
                return self._response(request, error.outcome, error.headers)

        return endpoint

    def _open_endpoint(self, route: str, data: Mapping[str, Any]) -> Any:
        """Return an HTTP endpoint with the same JSON for everybody."""
        body = as_json(data)

        async def endpoint(request: Request) -> Response:
            request.state.route = route
            return Response(body, media_type=JSON)

        return endpoint

    async def _caller(self, request: Request) -> Caller:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        found = None
        if scheme.lower() == "bearer":
            try:
                found = await self._in_thread(self.tokens.caller, token.strip())
            except EngineError as error:
                log("tokens cannot be read", logging.ERROR, why=str(error))
                raise _Refused(503, EngineError(_NO_TOKENS), **{"retry-after": "5"}) from None
        if found is None:
            raise _Refused(401, QueryError(_WHO), **{"www-authenticate": "Bearer"})
        return found

    async def _body(self, request: Request, of: str) -> dict[str, Any]:
        """Return the validated JSON body of an HTTP request."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise _Refused(415, QueryError(f"content-type: the body must be {JSON}"))
        body = await self._bytes(request)
        try:
            given = json.loads(body, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise _Refused(400, QueryError(_FORM)) from None
        if not isinstance(given, dict):
            raise _Refused(400, QueryError(_FORM))
        fields = FIELDS[of]
        for name in given:
            if name not in fields:
                near = nearest(name, fields)
                hint = f"; did you mean {near!r}?" if near else f". There are: {', '.join(fields)}"
                raise _Refused(400, QueryError(f"{of}: there is no field {shown(name)}{hint}"))
        found = {}
        for name, field in fields.items():
            value = given.get(name, field.get("default"))
            if not (admits(field, value) or (value is None and "default" not in field)):
                raise _Refused(400, QueryError(f"{of}: {name} must be {field['description']}"))
            found[name] = value
        if (found["sql"] is None) == (found["chain"] is None):
            raise _Refused(400, QueryError(f"{of}: give the query either as sql or as chain"))
        request.state.question = digest(self._key, _question(found)["text"])
        return found

    async def _bytes(self, request: Request) -> bytes:
        """Return the body of an HTTP request, within the limits of size and time."""
        most, found = self.limits.bytes, bytearray()
        long = _Refused(413, QueryError(_LONG.format(most)), connection="close")
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdecimal() and (len(length) > 18 or int(length) > most):
            raise long
        try:
            async with asyncio.timeout(self.limits.arrival):
                async for part in request.stream():
                    found += part
                    if len(found) > most:
                        raise long
        except TimeoutError:
            words = _SLOW.format(self.limits.arrival)
            raise _Refused(408, EngineError(words), connection="close") from None
        except ClientDisconnect:
            raise _Refused(400, QueryError(_FORM), connection="close") from None
        return bytes(found)

    async def _answer(self, request: Request, job: QueryRequest) -> Response:
        """Queue a query request if the limits allow, and return its HTTP response."""
        asking = self._asking[job.is_account]
        own = asking[job.analyst]
        if own >= self.limits.each:
            raise _Refused(429, EngineError(_AT_ONCE.format(self.limits.each)), **{"retry-after": "1"})
        # Who has nothing here is let in: else eight analysts with eight questions each keep all others out.
        if own and sum(asking.values()) >= self.limits.waiting:
            raise _Refused(503, EngineError(_BUSY), **{"retry-after": "5"})
        asking[job.analyst] += 1
        try:
            await self._turn(request, job)
        except BaseException:
            self._log_request(job)
            raise
        # Shielded: whoever goes away gives the place back only when it is free.
        return self._response(request, await asyncio.shield(asyncio.ensure_future(self._run(job))))

    async def _turn(self, request: Request, job: QueryRequest) -> None:
        """Wait for an analyst's turn while the HTTP client is connected and the token valid."""
        turns = self._turns[job.is_account]
        turn, left = asyncio.ensure_future(turns.take(job.analyst)), asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((turn, left), return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                raise _Refused(_GONE, EngineError(_LEFT))
            await self._caller(request)  # whose token may have been revoked meanwhile
        except BaseException:
            if not turn.cancel():  # it came at that moment
                turns.over(job.analyst)
            raise
        finally:
            left.cancel()

    async def _run(self, job: QueryRequest) -> QueryResponse:
        """Run a query request in its turn, even if its HTTP client disconnects."""
        try:
            return await self.runner.run(job)
        finally:
            self._turns[job.is_account].over(job.analyst)
            self._log_request(job)

    def _log_request(self, job: QueryRequest) -> None:
        asking = self._asking[job.is_account]
        asking[job.analyst] -= 1
        asking += Counter()  # drops names at 0, in its place

    def _response(
        self, request: Request, outcome: QueryResponse, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the HTTP response for a query response."""
        request.state.log = outcome.log
        return Response(outcome.body, outcome.status, {**outcome.headers, **(headers or {})}, outcome.media)

    async def _no_such(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = "there is no such path. See /openapi.json"
        if error.status_code == 405:
            words = "this path does not have that method. See /openapi.json"
        return self._response(request, make_refusal(QueryError(words), error.status_code), error.headers)

    # Around all of it.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request, with headers, log line and metrics, whatever happens."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inner(scope, receive, send)
            return
        known, began, status, fault = secrets.token_hex(8), time.perf_counter(), 0, ""
        scope = {**scope, "app": self, "state": {**scope.get("state", {}), "route": "other"}}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS, (b"x-request-id", known.encode())]
            await send(message)

        self.metrics.running += 1
        try:
            await self._inner(scope, receive, sending)
        except Unexpected as error:
            fault = str(error)
        except Exception as error:  # its words may hold anything, and go nowhere
            fault = where(error)
        finally:
            self.metrics.running -= 1
        if fault and not status:
            response = Response(make_refusal(EngineError(_FAILED), 500).body, 500, media_type=JSON)
            await response(scope, receive, sending)
        self._log(scope, known, status, time.perf_counter() - began, fault)

    def _log(self, scope: Scope, known: str, status: int, seconds: float, fault: str) -> None:
        state = scope["state"]
        self.metrics.done(state["route"], status, seconds)
        fields = {"id": known, "route": state["route"], "status": status, "ms": round(seconds * 1000, 1)}
        fields |= {name: state[name] for name in ("caller", "question") if name in state}
        fields |= state.get("log", {}) | ({"fault": fault} if fault else {})
        log("answered", logging.ERROR if fault else logging.INFO, **fields)


async def _left(request: Request) -> None:
    """Return when the HTTP client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _question(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query in an HTTP request's body, as arguments of a query request."""
    if given["chain"] is None:
        return {"text": given["sql"]}
    chain, options = given["chain"], given["options"]
    return {"text": json.dumps({"chain": chain, "options": options}), "chain": chain, "options": options}


def _everybody(request: Request, caller: Caller) -> bool:
    """Return whether an HTTP request asks for everybody's budget, by `?everybody=true`."""
    given = request.query_params.multi_items()
    if given not in ([], [("everybody", "true")]):
        raise _Refused(400, QueryError("the only parameter here is everybody=true, for owners"))
    if given and not caller.is_owner:
        raise _Refused(
            403, RefusalError("everybody: only owners of the service can see what others have spent")
        )
    return bool(given)


def _idempotency_key(header: str | None) -> str | None:
    """Return the header Idempotency-Key, by which a request that is sent again is recognized."""
    if header is not None and not _KEY.fullmatch(header):
        raise _Refused(400, QueryError("idempotency-key: it must be 16 to 128 letters, digits and . _ -"))
    return header


def _no_number(_: str) -> None:
    """Refuse NaN and infinities in a request's JSON, which has none."""
    raise ValueError


def _preferred_media_type(header: str | None) -> str:
    """Return the media type that the header Accept prefers.

    >>> _preferred_media_type("text/html, text/csv;q=0.5, application/json;q=0.2")
    'text/csv'
    """
    wanted: list[tuple[float, str]] = []
    for part in (header or "*/*").split(",")[:20]:
        media, *options = [piece.strip().lower() for piece in part.split(";")]
        quality = next((o[2:] for o in options if o.startswith("q=")), "1")
        if not _QUALITY.fullmatch(quality):
            continue
        kinds = [m for m in MEDIA if media in ("*/*", m, f"{m.partition('/')[0]}/*")]
        if kinds and float(quality) > 0:
            wanted.append((float(quality), kinds[0]))
    if not wanted:
        raise _Refused(406, QueryError(f"accept: answers are written as {', '.join(MEDIA)}"))
    best = max(quality for quality, _ in wanted)
    return next(media for quality, media in wanted if quality == best)
