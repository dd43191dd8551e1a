"""What keeps a service from answering: files that are locked, gone or open to others, and slow questions."""

from __future__ import annotations

import ast
import http.client
import inspect
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import sfumato as sf
from sfumato.errors import EngineError
from sfumato.service import http_app
from sfumato.service.access_tokens import Tokens
from sfumato.service.monitoring import LinesQueue
from sfumato.service.query_service import QueryRequest, QueryService
from sfumato.service.server import Settings, opened_budgets, run

from .asking import QUESTION, Asked, served

pytestmark = pytest.mark.noise_cannot_matter("it looks at statuses and times")


def get(url: str, path: str, asked: Asked, name: str = "ann", **body: Any) -> tuple[int, bytes]:
    where = urlsplit(url)
    with closing(http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)) as opened:
        headers = asked.headers(name, **({"content-type": "application/json"} if body else {}))
        opened.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        answer = opened.getresponse()
        return answer.status, answer.read()


def with_ledger(asked: Asked, folder: Path) -> sf.Ledger:
    """Let a ledger pay."""
    ledger = sf.Ledger(folder / "budget.db")
    ledger.create("clinic", epsilon=100)
    for name in asked.secrets:
        ledger.grant("clinic", name, epsilon=10)
    asked.desk.budgets = opened_budgets(str(folder / "budget.db"), "clinic")
    return ledger


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep a file of SQLite from all others."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError


def test_a_locked_file_of_tokens_makes_nobody_else_wait(asked: Asked) -> None:
    with served(asked) as url, ThreadPoolExecutor(4) as threads:
        with locked(asked.tokens.path):
            waiting = [threads.submit(get, url, "/v1/budget", asked) for _ in range(4)]
            until(lambda: asked.service.metrics.running >= 4)
            began = time.monotonic()
            for path in ("/health", "/openapi.json", "/", "/health"):
                assert get(url, path, asked)[0] == 200
            took = time.monotonic() - began
            assert not any(one.done() for one in waiting)
        assert took < 5, took  # four lookups wait for ten seconds each
        assert [one.result()[0] for one in waiting] == [200] * 4


def test_tokens_that_cannot_be_read_are_no_fault_of_whoever_asks(asked: Asked) -> None:
    away = asked.tokens.path.with_name("away")
    asked.tokens.path.rename(away)
    answer = asked.get("/v1/budget")
    assert answer.status_code == 503 and "tokens cannot be looked up" in answer.text
    assert asked.http.get("/ready").status_code == 503 and "tokens" in asked.http.get("/ready").text
    assert not asked.tokens.path.exists()  # an empty one would know nobody
    away.rename(asked.tokens.path)
    assert asked.get("/v1/budget").status_code == 200 and asked.http.get("/ready").status_code == 200


def test_nothing_in_the_event_loop_reads_a_file() -> None:
    """Tokens are looked up in threads, and jobs run there: no coroutine calls either by itself."""
    tree = ast.parse(inspect.getsource(http_app))
    inside = [one for one in ast.walk(tree) if isinstance(one, ast.AsyncFunctionDef)]
    calls = [one for function in inside for one in ast.walk(function) if isinstance(one, ast.Call)]
    names = [ast.unparse(one.func) for one in calls]
    assert "self.runner.run" in names and "self._in_thread" in names
    assert not [name for name in names if name.startswith(("self.tokens", "open", "os.", "sqlite3", "Path"))]


def test_a_log_that_nobody_reads_makes_nobody_wait() -> None:
    read, written = os.pipe()
    os.set_blocking(written, True)
    with os.fdopen(written, "w") as stream:
        lines = LinesQueue(stream, most=2000)
        logger = logging.Logger("here")
        logger.addHandler(lines)
        began = time.monotonic()
        for i in range(5000):  # more than a pipe and the queue hold
            logger.warning("x" * 200, extra={"fields": {"i": i}})
        assert time.monotonic() - began < 10
        taken = threading.Thread(
            target=lambda: os.read(read, 1 << 22) and list(iter(lambda: os.read(read, 1 << 16), b"")),
            daemon=True,
        )
        taken.start()
        lines.stop(30)
        logger.warning("behind the end")
    taken.join(30)
    os.close(read)


@pytest.mark.parametrize("many", [1, 7])
def test_accounts_do_not_wait_for_own_questions(asked: Asked, many: int) -> None:
    """One place, and her own questions in it: a budget, tables and a history are there at once."""
    go, begun = threading.Event(), threading.Event()

    def slow(job: QueryRequest) -> Any:
        begun.set()
        assert go.wait(60)
        return QueryService._release(asked.desk, job)

    asked.desk._release = slow  # type: ignore[method-assign]
    with served(asked) as url, ThreadPoolExecutor(many) as threads:
        try:
            slows = [threads.submit(get, url, "/v1/release", asked, sql=QUESTION) for _ in range(many)]
            assert begun.wait(60)
            until(lambda: asked.service.metrics.running == many)
            for path in ("/v1/budget", "/v1/history", "/v1/tables", "/ready"):
                assert get(url, path, asked)[0] == 200
            assert not any(one.done() for one in slows)
        finally:
            go.set()
        assert [one.result()[0] for one in slows] == [200] * many


def test_a_ledger_that_is_gone_is_named_as_such(
    asked: Asked, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_ledger(asked, tmp_path)
    assert asked.http.get("/ready").json() == {"status": "ready"}
    assert asked.post("/v1/release", sql=QUESTION).status_code == 200
    caplog.set_level(logging.INFO)
    (tmp_path / "budget.db").rename(tmp_path / "away.db")
    answers = [asked.get(path) for path in ("/v1/budget", "/v1/history", "/ready")]
    answers += [asked.post("/v1/release", sql=QUESTION), asked.post("/v1/ask", sql=QUESTION, units=[])]
    for answer in answers:
        assert answer.status_code == 503 and "the ledger that pays" in answer.text, answer.text
        assert "tables" not in answer.text and str(tmp_path) not in answer.text
    assert asked.get("/health").status_code == 200 and asked.get("/v1/tables").status_code == 200
    assert "budget.db" in str([vars(record) for record in caplog.records])  # the owner reads why
    (tmp_path / "away.db").rename(tmp_path / "budget.db")
    assert asked.http.get("/ready").status_code == 200


def test_a_mistyped_path_of_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="toknes.db cannot be opened: No such file.*sfumato token create"):
        Tokens(tmp_path / "toknes.db", make=False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "c.toml").write_text('[tables.v]\nsource = "v.csv"\npublic = true\n')
    (tmp_path / "v.csv").write_text("a\n1\n")
    with pytest.raises(EngineError, match="toknes"):
        run(Settings(str(tmp_path / "c.toml"), tokens=str(tmp_path / "toknes.db"), port=0))
    assert not (tmp_path / "toknes.db").exists()


@pytest.mark.parametrize("rights", [0o604, 0o620, 0o602, 0o644, 0o666, 0o660, 0o601])
def test_files_that_others_can_read_or_change_are_refused(tmp_path: Path, rights: int) -> None:
    Tokens(tmp_path / "tokens.db").create("ann")
    ledger = sf.Ledger(tmp_path / "budget.db")
    ledger.create("clinic", epsilon=1)
    for name, opened in (
        ("tokens.db", Tokens),
        ("budget.db", lambda place: opened_budgets(str(place), "clinic")),
    ):
        path = tmp_path / name
        path.chmod(rights)
        with pytest.raises(EngineError, match=f"others may read or change it, as its rights are {rights:o}"):
            opened(path)
        for allowed in (0o600, 0o640):
            path.chmod(allowed)
            opened(path)


def test_files_of_another_user_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Tokens(tmp_path / "tokens.db").create("ann")
    status = list(os.stat(tmp_path / "tokens.db"))
    status[4] = 12345
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(status))
    with pytest.raises(EngineError, match="it belongs to another user"):
        Tokens(tmp_path / "tokens.db")
