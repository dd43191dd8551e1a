"""The service as its owner starts it: a real process on a port, met by clients that are slow, many or hostile."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.client import Client, connect
from sfumato.errors import EngineError
from sfumato.service.access_tokens import Tokens

from .asking import SECRET, VISITS

pytestmark = [pytest.mark.long, pytest.mark.noise_cannot_matter("it looks at statuses, times and costs")]

COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) year, COUNT(*) AS n FROM visits GROUP BY year"
FOR_EVER = f"WITH a AS ({COUNT}) SELECT count(*) AS n FROM {', '.join(f'a AS a{i}' for i in range(24))}"
ARRIVAL, SECONDS = 1.0, 3.0
START = """
import sys
from sfumato.service.http_app import Limits
from sfumato.service.server import Settings, run
if __name__ == "__main__":
    run(Settings(**eval(sys.argv[1])), Limits(arrival={arrival}, waiting=16, each=8))
"""


class Running:
    """A service in a process of its own."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.log = folder, folder / "log"
        pq.write_table(VISITS, folder / "visits.parquet")
        (folder / "clinic.toml").write_text(
            '[tables.visits]\nsource = "visits.parquet"\nprivacy_unit = "id"\nmax_groups = 3\nmax_rows = 3\n'
            "columns = {year = {domain = [2020, 2021, 2022]}}\n"
        )
        self.ledger = sf.Ledger(folder / "budget.db")
        self.ledger.create("clinic", epsilon=1000)
        for name in ("ann", "bob"):
            self.ledger.grant("clinic", name, epsilon=900)
        tokens = Tokens(folder / "tokens.db")
        self.tokens = {name: tokens.create(name) for name in ("ann", "bob")}
        self.tokens["olga"] = tokens.create("olga", role="owner")
        given = {
            "catalog": str(folder / "clinic.toml"), "ledger": str(folder / "budget.db"), "tokens": str(folder / "tokens.db"),
            "port": 0, "seconds": SECONDS, "limits": {"threads": 1, "memory_limit": "500MB"},
        }  # fmt: skip
        (folder / "start.py").write_text(START.format(arrival=ARRIVAL))
        with self.log.open("wb") as log:
            command = [sys.executable, str(folder / "start.py"), repr(given | settings)]
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        self.port = self._listening()

    def _listening(self) -> int:
        until = time.monotonic() + 300
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.lines():
                if line["event"] == "listening":
                    return int(line["port"])
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def lines(self) -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")
        ]

    def client(self, name: str = "ann", **options: Any) -> Client:
        return connect(f"http://127.0.0.1:{self.port}", self.tokens[name], **options)

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def children(self) -> list[int]:
        return [
            int(pid)
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def memory(self) -> float:
        """Return what the process that listens holds, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def health(self) -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as opened:
            opened.request("GET", "/health")
            return opened.getresponse().status


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    made = Running(folder, **settings)
    try:
        yield made
    finally:
        made.process.terminate()
        made.process.wait(30)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server")) as made:
        yield made


def test_a_question_is_in_the_ledger(service: Running) -> None:
    bob = service.client("bob")
    assert bob.sql(COUNT).to_arrow().column_names == ["year", "n"]
    assert bob.spent == (1.0, 0.0) and service.ledger.budget("clinic", analyst="bob").spent == (1.0, 0.0)
    assert bob.history[-1].what == "n by year" and bob.history[-1].analyst == "bob" and bob.history[-1].at


def test_connections_that_say_nothing_are_closed(service: Running) -> None:
    begun = [
        b"",
        b"G",
        b"GET /health HTTP/1.1\r\nHost: a\r\n",
        b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 999,
        b"\x16\x03",
    ]
    opened = [service.socket() for _ in range(100)]
    for i, one in enumerate(opened):
        one.sendall(begun[i % len(begun)])
    assert service.health() == 200
    for one in opened:
        with closing(one):
            while one.recv(4096):  # until it is closed by the other side, or this one's own patience ends
                pass
    assert service.health() == 200


def closed_after(one: socket.socket, part: bytes, most: float) -> bytes:
    """Send a part again and again until the other side closes; return what it said."""
    said, until = b"", time.monotonic() + most
    one.settimeout(0.1)
    while time.monotonic() < until:
        try:
            one.sendall(part)
            got = one.recv(4096)
            if not got:
                return said
            said += got
        except TimeoutError:
            continue
        except OSError:
            return said
    raise AssertionError("it is still open")


def test_slow_headers_and_slow_bodies(service: Running) -> None:
    with closing(service.socket()) as one:
        one.sendall(b"GET /v1/tables HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        assert closed_after(one, b"a", 10 * ARRIVAL) == b""
    with closing(service.socket()) as one:
        token = service.tokens["ann"].encode()
        one.sendall(
            b"POST /v1/release HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token
            + b"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        )  # fmt: skip
        assert b" 408 " in closed_after(one, b" ", 10 * ARRIVAL)
    with closing(service.socket()) as one:
        one.sendall(
            b"POST /v1/release HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token
            + b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )  # fmt: skip
        assert b" 413 " in closed_after(one, b"10000\r\n" + b"x" * 0x10000 + b"\r\n", 10 * ARRIVAL)


RAW = [
    b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 500, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"GET \xff HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /v1/tables HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", b"GET http://evil/ HTTP/1.1\r\nHost: a\r\n\r\n",
    b"CONNECT evil:443 HTTP/1.1\r\nHost: evil\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX\x00: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"GET / HTTP/1.1\nHost: a\n\n",
    b"POST /v1/ask HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("raw", RAW, ids=range(len(RAW)))
def test_what_is_no_http(service: Running, raw: bytes) -> None:
    with closing(service.socket()) as one:
        try:
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
            said = b""
            while got := one.recv(65536):
                said += got
        except OSError:
            said = b""
    assert (
        b"Traceback" not in said
        and SECRET.encode() not in said
        and b" 500 " not in said
        and b"/sfumato/" not in said
    )
    assert service.health() == 200


def test_a_question_that_takes_for_ever_is_stopped_and_stays_spent(service: Running) -> None:
    ann = service.client()
    before = ann.spent.epsilon
    with pytest.raises(EngineError, match="3 seconds of computing.*stays spent"):
        ann.sql(FOR_EVER)
    assert ann.spent.epsilon == before + 1 and ann.sql(COUNT).spent == (1.0, 0.0)
    assert "sfumato_killed_total" in str(metrics(service))


def metrics(service: Running) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)) as opened:
        opened.request("GET", "/metrics", headers={"Authorization": f"Bearer {service.tokens['olga']}"})
        return opened.getresponse().read().decode()


def test_a_worker_that_is_killed_is_replaced(service: Running) -> None:
    found: list[object] = []

    def ask() -> None:
        try:
            found.append(service.client().sql(FOR_EVER))
        except EngineError as error:
            found.append(str(error))

    paid = len(service.ledger.history("clinic", "ann"))
    thread = threading.Thread(target=ask)
    thread.start()
    until = time.monotonic() + 60
    while len(service.ledger.history("clinic", "ann")) == paid:
        assert time.monotonic() < until
        time.sleep(0.02)
    for child in service.children():
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
            os.kill(child, signal.SIGKILL)
    thread.join()
    assert found and "stays spent" in str(found[0])
    assert service.client().sql(COUNT).spent == (1.0, 0.0)


def test_a_flood(service: Running) -> None:
    service.client().sql(COUNT)
    before, seen = service.memory(), Counter[int]()
    body = json.dumps({"sql": "x" * 200_000}).encode()
    headers = {"Content-Type": "application/json"}

    def flood(name: str) -> None:
        for _ in range(20):
            try:
                with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)) as opened:
                    given = headers | {"Authorization": f"Bearer {service.tokens[name]}"}
                    opened.request("POST", "/v1/ask", body, given)
                    seen[opened.getresponse().status] += 1
            except OSError:
                seen[0] += 1

    threads = [threading.Thread(target=flood, args=("bob",)) for _ in range(40)]
    for thread in threads:
        thread.start()
    assert service.client("ann").spent.epsilon > 0  # others have their turn in the middle of it
    for thread in threads:
        thread.join()
    assert set(seen) <= {0, 400, 429, 503} and seen[400] and seen[429] and seen[0] < 80, seen
    assert service.health() == 200 and service.memory() - before < 150


def test_the_log_has_no_question_and_no_row(service: Running) -> None:
    service.client().sql(COUNT)
    until = time.monotonic() + 60  # an answer is logged when it was sent
    while not (told := [one for one in service.lines() if one.get("epsilon") == 1.0]):
        assert time.monotonic() < until
        time.sleep(0.02)
    assert told[0]["event"] == "answered"
    text = service.log.read_text()
    assert SECRET not in text and "DIFFERENTIAL" not in text and "Traceback" not in text


def refused(client: Client) -> None:
    with pytest.raises(EngineError):
        client.sql(FOR_EVER)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_end_takes_all_processes_along_and_loses_no_spend(tmp_path: Path, how: signal.Signals) -> None:
    with running(tmp_path) as service:
        thread = threading.Thread(target=refused, args=(service.client(),))
        thread.start()
        until = time.monotonic() + 20
        while not service.ledger.history("clinic", "ann")[1:] and time.monotonic() < until:
            time.sleep(0.02)
        children = service.children()
        service.process.send_signal(how)
        service.process.wait(30)
        thread.join()
        assert [one.what for one in service.ledger.history("clinic", "ann") if one.kind == "spend"] == [
            "n by year"
        ]
        until = time.monotonic() + 20
        while any(Path(f"/proc/{child}/cmdline").exists() for child in children) and time.monotonic() < until:
            time.sleep(0.05)
        assert children and not any(Path(f"/proc/{child}/cmdline").exists() for child in children)
        assert "Traceback" not in service.log.read_text()


def test_tls(tmp_path: Path) -> None:
    certificate(tmp_path)
    with running(tmp_path, certfile=str(tmp_path / "cert.pem"), keyfile=str(tmp_path / "key.pem")) as service:
        url = f"https://127.0.0.1:{service.port}"
        trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        assert connect(url, service.tokens["ann"], context=trusting).spent == (0.0, 0.0)
        with pytest.raises(EngineError, match="certificate"):
            _ = connect(url, service.tokens["ann"]).spent
        with pytest.raises(EngineError):
            _ = service.client(seconds=5).spent  # without TLS


def certificate(folder: Path) -> None:
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now).not_valid_after(now + dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
    )
