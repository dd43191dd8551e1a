"""A client gives the answers and the errors of the process of the rows; a token leaves it for its service alone."""

import copy
import http.server
import pickle
import socket
import threading
import time
from contextlib import closing

import pytest

import sfumato as sf
from sfumato import errors
from sfumato.client import connect
from sfumato.errors import (
    EngineError,
    ParameterError,
    QueryError,
    RefusalError,
    SfumatoError,
    SqlError,
)
from sfumato.service.wire_format import KINDS, error_from_json, error_to_json
from tests.support.service import DECLARED, QUERY, LocalService, served

EXACT = QUERY.replace("epsilon = 1", "epsilon = 1000000")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A service, and its address on a real port."""
    service = LocalService(tmp_path_factory.mktemp("client"))
    with served(service) as url:
        yield service, url


@pytest.fixture
def ann(place):
    return connect(place[1], place[0].secrets["ann"])


@pytest.mark.flakiness(k=100, because="noise of 1e-4 or less rounds to 0 in counts")
def test_the_same_answer_as_beside_the_rows(ann):
    far, near = ann.sql(EXACT), sf.sql(EXACT, catalog=sf.catalog({"tables": DECLARED}))
    assert far.to_arrow().schema.names == near.to_arrow().schema.names
    assert far.to_arrow().select(["year", "n"]) == near.to_arrow().select(["year", "n"])
    assert far.spent == near.spent == (1e6, 0.0)
    assert far.explain() == str(near.explain()) and far.hints == near.hints
    for name in ("year", "n"):
        assert far.errors(0.95)[name].to_pylist() == near.errors()[name].to_pylist()
    assert list(far.to_pandas()["n"]) == [300] * 3 and far.to_polars()["n"].to_list() == [300] * 3
    assert repr(far) == "<RemoteRelease of year, n, v; epsilon=1e+06, delta=0>"
    assert far.receipt().verify(far.to_arrow()).ok and far.receipt().spent == (1_000_000, 0) and not far.dummy


def test_arguments_are_checked_here(ann):
    for wrong in (lambda: ann.sql(QUERY, confidence=2), lambda: ann.ask(QUERY, units=[0])):
        with pytest.raises(QueryError, match="but must be"):
            wrong()
    for url in (
        "localhost:8000",
        "ftp://x",
        "http://",
        "http://ann:x@host",
        "http://h/?q=1",
        "http://h:x",
        5,
    ):
        with pytest.raises(QueryError, match="url"):
            connect(url, "token")
    for token in ("", "a\r\nX: y", "é", None):
        with pytest.raises(QueryError, match="token"):
            connect("http://127.0.0.1:1", token)


def test_every_kind_of_error_travels():
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SfumatoError)]
    assert set(kinds) == set(KINDS.values())
    for kind in kinds:
        error = kind("rows", 0, "at least 1") if kind is ParameterError else kind("words\nline 1, column 2")
        again = error_from_json(error_to_json(error))
        assert type(again) is kind and str(again) == str(error)
    again = error_from_json(error_to_json(ParameterError("rows", 0, "at least 1")))
    assert (again.name, again.value, again.expected) == ("rows", "0", "at least 1")
    assert type(error_from_json({"kind": "Later", "text": "x"})) is SfumatoError
    assert error_from_json(error_to_json(SqlError("not so", (3, 5)))).place == (3, 5)
    for bad in ("3 5", [3], [3, 5, 7], ["3", "5"], None, {"start": 3}, [True, 5], [3.5, 5]):
        assert error_from_json({"kind": "SqlError", "text": "x", "place": bad}).place is None


def test_a_token_is_in_no_error_file_or_copy(place, ann):
    service, url = place
    token = service.tokens.create("carl")
    carl = connect(url, token)
    assert carl.spent == (0.0, 0.0)
    service.tokens.revoke(service.tokens.all()[-1].id)
    with pytest.raises(QueryError, match="token: the request has no valid token") as error:
        carl.sql(QUERY)
    for shown in (repr(carl), str(error.value), repr(error.value.__context__), str(vars(error.value))):
        assert token not in shown
    for held in (ann, ann.table("visits"), ann.table("visits").agg(n=sf.count())):
        for put in (pickle.dumps, copy.deepcopy):
            with pytest.raises(RefusalError, match=r"a client has a token.*Call connect\(\.\.\.\) there"):
                put(held)


class Other(http.server.BaseHTTPRequestHandler):
    """Another server than ours: it sends clients elsewhere, or sends something else."""

    seen = []  # noqa: RUF012

    def do_GET(self):
        Other.seen.append(self.path)
        self.send_response(302 if self.path.startswith("/v1/tables") else 500)
        self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_):
        return


@pytest.mark.long
def test_another_server_is_not_followed(place):
    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever).start()
        client = connect(f"http://127.0.0.1:{other.server_port}", "token")
        for name, status in (("tables", 302), ("spent", 500)):
            with pytest.raises(EngineError, match=f"status {status}"):
                getattr(client, name)
        other.shutdown()
    assert Other.seen == ["/v1/tables", "/v1/budget"]
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9 does not answer"):
        connect("http://127.0.0.1:9", "token").sql(QUERY)
    with pytest.raises(QueryError, match="no such path"):
        _ = connect(place[1] + "/data/", place[0].secrets["ann"]).tables


@pytest.mark.long
def test_connections_that_are_silent_or_slow_are_closed(tmp_path):
    """A head that never ends, and one that is not begun; a body that does not come is an error."""
    service = LocalService(tmp_path, arrival=0.4)
    with served(service) as url:
        place, began = ("127.0.0.1", int(url.rpartition(":")[2])), time.monotonic()
        for sent in (b"", b"GET /v1/tables HTTP/1.1\r\nHost: a\r\nX-Slow: "):
            with closing(socket.create_connection(place, timeout=60)) as opened:
                opened.sendall(sent)
                assert opened.recv(100) == b""
        assert time.monotonic() - began > 0.7
        with closing(socket.create_connection(place, timeout=60)) as opened:
            token = service.secrets["ann"].encode()
            head = b"POST /v1/release HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token
            opened.sendall(head + b"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
            assert b" 408 " in opened.recv(4096)
