"""A service on made-up rows, in the process of the test."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import sfumato as sf
from sfumato.service.access_tokens import Tokens
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.http_app import Limits, Service
from sfumato.service.query_service import QueryService
from sfumato.service.server import Settings, server
from sfumato.service.worker_processes import Inline

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # it would rather have another client than httpx, beside which nothing is lost
    from starlette.testclient import TestClient

PAGE = Path(sf.__file__).parent / "service" / "page"
# Values of rows that stand nowhere else: what shows one shows a row.
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
DECLARED: dict[str, Any] = {
    "visits": {
        "source": VISITS,
        "privacy_unit": "id",
        "max_groups": 3,
        "max_rows": 3,
        "columns": {"v": {"lower": 0, "upper": 20}, "year": {"domain": [2020, 2021, 2022]}},
    },
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
QUESTION = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) year, COUNT(*) AS n, AVG(v) AS v FROM visits GROUP BY year"


class Budgets:
    """A budget for each analyst, which ends with the test."""

    def __init__(self, epsilon: Any) -> None:
        self.epsilon, self.made = epsilon, dict[str | None, sf.Budget]()

    def of(self, analyst: str | None) -> sf.Budget:
        if analyst not in self.made:
            self.made[analyst] = sf.Budget(self.epsilon, "1e-3", composition="adding")
        return self.made[analyst]

    def refused(self, analyst: str, text: str, error: Exception) -> None:
        """There is no journal."""


class Asked:
    """A service, and those who ask it."""

    def __init__(
        self, folder: Path, epsilon: Any = 10**9, declared: dict[str, Any] = DECLARED, **limits: Any
    ) -> None:
        self.tokens = Tokens(folder / "tokens.db")
        self.catalog = AnalystsCatalog.of(sf.catalog({"tables": declared}))
        self.budgets = Budgets(epsilon)
        self.desk = QueryService(self.catalog, self.budgets, {"threads": 1})
        self.service = Service(Inline(lambda: self.desk), self.tokens, Limits(**limits), PAGE)
        self.http = TestClient(self.service, base_url="http://service")
        roles = {"ann": "analyst", "bob": "analyst", "olga": "owner"}
        self.secrets = {name: self.tokens.create(name, role=role) for name, role in roles.items()}

    def headers(self, name: str = "ann", **more: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets[name]}", **more}

    def get(self, path: str, name: str = "ann") -> Any:
        return self.http.get(path, headers=self.headers(name))

    def send(self, path: str, content: bytes, name: str = "ann", **headers: str) -> Any:
        given = self.headers(name, **{"content-type": "application/json"} | headers)
        return self.http.post(path, content=content, headers=given)

    def post(self, path: str, name: str = "ann", accept: str = "*/*", **body: Any) -> Any:
        return self.send(path, json.dumps(body).encode(), name, accept=accept)


@contextmanager
def served(asked: Asked) -> Iterator[str]:
    """Serve on a port that is free, in a thread."""
    running = server(asked.service, Settings("", port=0))
    thread = threading.Thread(target=running.run)
    running.install_signal_handlers = lambda: None
    thread.start()
    try:
        while not running.started:
            assert thread.is_alive()
        port = running.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join()
