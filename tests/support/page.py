"""The page of a service in a browser: a service in a thread, and what a person does with its page."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.service.access_tokens import Tokens
from sfumato.service.analyst_catalog import AnalystsCatalog
from sfumato.service.http_app import Limits, Service
from sfumato.service.query_service import QueryService
from sfumato.service.server import PAGE, Settings, open_budgets, server
from sfumato.service.worker_processes import Inline
from tests.support.browser import Browser, Tab

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
# Of whom one is for each test that spends, or sees that nothing is spent: tests come in any order.
PEOPLE = {"ann": 5, "bob": 1, "cleo": 5, "dora": 5, "eve": 5, "fay": 5}


@dataclass
class Clinic:
    """A service in a thread, and who may ask it."""

    folder: Path
    url: str
    tokens: dict[str, str]
    budgets: Any


@contextmanager
def serving(folder: Path, catalog: Path, epsilon: int | None = None) -> Iterator[Clinic]:
    """A service of a catalog; `epsilon` is of each person, where it is not as in PEOPLE."""
    ledger = sf.Ledger(folder / "budget.db")
    ledger.create("registry", epsilon=20 if epsilon is None else 10 * epsilon, delta="1e-5")
    for name, own in PEOPLE.items():
        ledger.grant("registry", name, epsilon=own if epsilon is None else epsilon, delta="1e-5")
    tokens = Tokens(folder / "tokens.db")
    budgets = open_budgets(str(folder / "budget.db"), "registry")
    desk = QueryService(AnalystsCatalog.from_catalog(sf.catalog(str(catalog))), budgets, {"threads": 1})
    secrets = {name: tokens.create(name) for name in PEOPLE}
    made = server(
        Service(Inline(lambda: desk), tokens, Limits(), PAGE), Settings(catalog=str(catalog), port=0)
    )
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        while not made.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = made.servers[0].sockets[0].getsockname()[1]
        yield Clinic(folder, f"http://127.0.0.1:{port}/", secrets, budgets)
    finally:
        made.should_exit = True
        thread.join(30)


def entered(browser: Browser, clinic: Clinic, name: str = "ann") -> Tab:
    """A tab in which somebody has given a token, as by hand."""
    tab = browser.tab(clinic.url)
    tab.wait("document.activeElement.id === 'token'")
    tab.type(clinic.tokens[name])
    tab.key("Enter")
    tab.wait("!document.getElementById('desk').hidden")
    return tab


def text(tab: Tab, selector: str) -> str:
    return str(tab.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))


def write(tab: Tab, sql: str) -> None:
    """Write in the box, where another text was."""
    tab.click("input[value=sql]")
    tab.click("#sql")
    tab.evaluate("document.getElementById('sql').select()")
    tab.type(sql)


def priced(tab: Tab) -> str:
    """Wait until the cost is told, and return the button that spends it."""
    return str(
        tab.wait(
            "((b) => /spend/.test(b.textContent) && !b.disabled && b.textContent)(document.getElementById('release'))"
        )
    )


def answered(tab: Tab) -> None:
    tab.wait("document.getElementById('status').textContent.startsWith('Answered')")
    tab.wait("document.querySelector('#history table')")


def picture(tab: Tab, name: str, folder: Path, clip: str | None = None) -> None:
    """Write a picture, and see that it shows something; those of the docs also there, where that is asked for."""
    path = folder / f"{name}.png"
    tab.picture(path, clip)
    assert path.stat().st_size > 5_000
    if os.environ.get("SFUMATO_PICTURES") and f"{name}.png" in (ROOT / "docs" / "serve.md").read_text():
        from PIL import Image

        Image.open(path).convert("RGB").quantize(64).save(PICTURES / path.name, optimize=True)


def harmless(tab: Tab, clinic: Clinic) -> None:
    """Nothing failed or was refused, nothing is another host's, and the token is in no address."""
    assert tab.complaints == []
    ours = (clinic.url, "about:blank", "data:", "blob:")
    assert [one for one in tab.requests if not one.startswith(ours)] == []
    assert not any(secret in one for one in tab.requests for secret in clinic.tokens.values())
    assert tab.evaluate("document.cookie + JSON.stringify(localStorage) + location.search") == "{}"
