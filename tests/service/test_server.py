"""The service as its owner starts it: a real process on a port, met by clients that are slow, many or hostile."""

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
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
from tests.support.service import VISITS

pytestmark = [pytest.mark.long, pytest.mark.noise_cannot_matter("it looks at statuses, times and costs")]

COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) year, COUNT(*) AS n FROM visits GROUP BY year"
FOR_EVER = f"WITH a AS ({COUNT}) SELECT count(*) AS n FROM {', '.join(f'a AS a{i}' for i in range(24))}"
ARRIVAL, SECONDS = 30.0, 3.0
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


def test_a_question_that_takes_for_ever_is_stopped_and_stays_spent(service):
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


def refused(client: Client) -> None:
    with pytest.raises(EngineError):
        client.sql(FOR_EVER)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_end_takes_all_processes_along_and_loses_no_spend(tmp_path, how):
    with running(tmp_path) as service:
        thread = threading.Thread(target=refused, args=(service.client(),))
        thread.start()
        until = time.monotonic() + 120
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


def test_tls(tmp_path):
    made = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run(["openssl", *made.split(), *files], check=True, capture_output=True)
    with running(tmp_path, certfile=str(tmp_path / "cert.pem"), keyfile=str(tmp_path / "key.pem")) as service:
        url = f"https://127.0.0.1:{service.port}"
        trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        assert connect(url, service.tokens["ann"], context=trusting).spent == (0.0, 0.0)
        with pytest.raises(EngineError, match="certificate"):
            _ = connect(url, service.tokens["ann"]).spent
        with pytest.raises(EngineError):
            _ = service.client(seconds=5).spent  # without TLS
