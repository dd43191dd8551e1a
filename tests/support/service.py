"""A service on made-up tables in the process of the test, its analysts, and a client without a network."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import sfumato as sf
from sfumato.client import Client
from sfumato.service.access_tokens import Tokens
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.http_app import Limits, Service
from sfumato.service.query_service import QueryService
from sfumato.service.server import PAGE, Settings, open_budgets, server
from sfumato.service.worker_processes import Inline

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another client than httpx
    from starlette.testclient import TestClient

# Values of rows that are nowhere else: an answer that contains one shows a row.
SECRET, NUMBER = "zzq7secretvalue", 1234567.25
ROWS = 900
VISITS = pa.table(
    {
        "id": [i % 300 for i in range(ROWS)],
        "year": [2020 + i % 3 for i in range(ROWS)],
        "town": [SECRET if i == 7 else ("Ulm" if i % 2 else "Bonn") for i in range(ROWS)],
        "city": [SECRET if i == 7 else ("Ulm" if i % 2 else "Bonn") for i in range(ROWS)],
        "v": [i % 20 for i in range(ROWS)],
        "age": [20 + i % 61 for i in range(ROWS)],
        "income": [NUMBER if i == 11 else 10.0 + i % 7 for i in range(ROWS)],
    }
)
TOWNS = pa.table({"town": ["Ulm", "Bonn"], "city": ["Ulm", "Bonn"], "region": ["south", "west"]})
COLUMNS = {"v": {"lower": 0, "upper": 20}, "year": {"domain": [2020, 2021, 2022]}}
DECLARED: dict[str, Any] = {
    "visits": {"source": VISITS, "privacy_unit": "id", "max_groups": 3, "max_rows": 3, "columns": COLUMNS},
    "visits_again": {"source": VISITS, "privacy_unit": "id"},
    "people": {"source": VISITS.select(["id", "year", "city"]), "privacy_unit": "id"},
    "orders": {
        "source": pa.table({"id": [1, 2], "price": [1.5, 2.5], "n": [1, 2], "town": ["Ulm", SECRET]}),
        "privacy_unit": "id",
    },
    "customers": {
        "source": pa.table({"customer": [1], "age": [77], "town": [SECRET]}),
        "privacy_unit": "customer",
    },
    "towns": {"source": TOWNS, "public": True},
    "years": {"source": pa.table({"year": [2020, 2021], "label": ["a", "b"]}), "public": True},
}
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
QUERY = f"{OPTIONS} year, COUNT(*) AS n, AVG(v) AS v FROM visits GROUP BY year"
COUNT = f"{OPTIONS} COUNT(*) AS n FROM visits"
ROLES = {"ann": "analyst", "bob": "analyst", "olga": "owner"}


class Budgets:
    """A budget for each analyst, which ends with the test."""

    def __init__(self, epsilon: Any) -> None:
        self.epsilon, self.made = epsilon, dict[str | None, sf.Budget]()

    def charged_by(self, analyst: str | None) -> sf.Budget:
        if analyst not in self.made:
            self.made[analyst] = sf.Budget(self.epsilon, "1e-3", composition="adding")
        return self.made[analyst]

    def refused(self, analyst: str, text: str, error: Exception) -> None:
        """There is no journal."""


class LocalService:
    """A service with the analysts ann and bob, and its owner olga.

    Args:
        folder: of the files of tokens and ledger.
        epsilon: of the budget of each; with `ledger`, the cap of each in a ledger.
        declared: the tables of its catalog.
        ledger: whether a ledger is charged; else budgets in memory.
        limits: of requests.
    """

    def __init__(
        self,
        folder: Path,
        epsilon: Any = 10**9,
        declared: Mapping[str, Any] = DECLARED,
        *,
        ledger: bool = False,
        **limits: Any,
    ) -> None:
        self.folder, self.tokens = folder, Tokens(folder / "tokens.db")
        self.catalog = AnalystsCatalog.from_catalog(sf.catalog({"tables": declared}))
        self.budgets: Any = self._with_ledger(epsilon) if ledger else Budgets(epsilon)
        self.desk = QueryService(self.catalog, self.budgets, {"threads": 1})
        self.app = Service(Inline(lambda: self.desk), self.tokens, Limits(**limits), PAGE)
        self.http = TestClient(self.app, base_url="http://service")
        self.secrets = {name: self.tokens.create(name, role=role) for name, role in ROLES.items()}

    def _with_ledger(self, epsilon: Any) -> Any:
        place = self.folder / "budget.db"
        ledger = sf.Ledger(place)
        ledger.create("clinic", epsilon=10 * epsilon, delta="1e-3")
        for name in ROLES:
            ledger.grant("clinic", name, epsilon=epsilon, delta="1e-3")
        return open_budgets(str(place), "clinic")

    @property
    def ledger(self) -> sf.Ledger:
        found: sf.Ledger = self.budgets.ledger
        return found

    def headers(self, name: str = "ann", **more: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets[name]}", **more}

    def get(self, path: str, name: str = "ann", **headers: str) -> Any:
        return self.http.get(path, headers=self.headers(name, **headers))

    def send(self, path: str, content: bytes, name: str = "ann", **headers: str) -> Any:
        given = self.headers(name, **{"content-type": "application/json"} | headers)
        return self.http.post(path, content=content, headers=given)

    def post(self, path: str, name: str = "ann", accept: str = "*/*", **body: Any) -> Any:
        return self.send(path, json.dumps(body).encode(), name, accept=accept)

    def spent(self, name: str = "ann") -> float:
        return float(self.get("/v1/budget", name).json()["spent"]["epsilon"])


class LocalClient(Client):
    """A client of a service in this process; `sent` lists the paths and bodies of its requests."""

    def __init__(self, service: LocalService, name: str = "ann") -> None:
        super().__init__("http://service", service.secrets[name], 10.0, None)
        self.service, self._name, self.sent = service, name, list[tuple[str, Any]]()

    def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None, accept: str, key: str | None = None
    ) -> tuple[int, bytes]:
        self.sent.append((path, body))
        if body is None:
            found = self.service.get(path, self._name, accept=accept)
        else:
            headers = {"accept": accept} | ({} if key is None else {"idempotency-key": key})
            found = self.service.send(path, json.dumps(body).encode(), self._name, **headers)
        return found.status_code, bytes(found.content)


@contextmanager
def served(service: LocalService) -> Iterator[str]:
    """Serve on a free port, in a thread; gives the address."""
    running = server(service.app, Settings("", port=0))
    running.install_signal_handlers = lambda: None
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.005)
        port = running.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join()
