"""Start a service on the German health registry, with a budget, and a token for ann.

    python examples/serve/start.py [folder]

It writes the registry, a ledger and a file of tokens to a folder (`registry`, if none is named), prints ann's
token, answers at http://127.0.0.1:8000 until it is stopped, and opens the page in a browser, where there is
one. `pip install '.[serve,examples]'` in a checkout brings what it needs.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import threading
import time
import webbrowser
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.service.access_tokens import Tokens
from sfumato.service.server import Settings, listening, run

HERE = Path(__file__).parent


def main(place: str = "registry", port: str = "8000") -> None:
    folder = Path(place)
    settings = Settings(
        str(folder / "registry.toml"),
        ledger=str(folder / "budget.db"),
        tokens=str(folder / "tokens.db"),
        port=int(port),
    )
    url = f"http://127.0.0.1:{port}"
    with listening(settings) as sockets:  # before anything is made, so that a port in use leaves nothing
        token = prepared(folder)
        print(f"Ann's token: {token}\nEnter it at {url}. Press Ctrl+C to stop the service.", flush=True)
        threading.Thread(target=show, args=(url,), daemon=True).start()
        run(settings, sockets=sockets)


def prepared(folder: Path) -> str:
    """Write what is missing of the registry, its ledger and its tokens, and return a new token of ann."""
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "registry.toml", folder)
    if not (folder / "rwm5yr.parquet").exists():
        runpy.run_path(str(HERE.parent / "rwm5yr.py"))["main"](str(folder / "rwm5yr.parquet"))
    if not (folder / "budget.db").exists():
        ledger = sf.Ledger(folder / "budget.db")
        ledger.create("registry", epsilon=10, delta="1e-5")
        ledger.grant("registry", "ann", epsilon=5, delta="1e-5")
    return Tokens(folder / "tokens.db").create("ann", days=1)


def show(url: str) -> None:
    """Open the page when the service answers; the token is typed there, and in no address."""
    while True:
        try:
            urlopen(f"{url}/health").close()
            break
        except URLError:
            time.sleep(0.1)
    # Without a screen a browser of the terminal would take its place.
    seen = (
        sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & os.environ.keys()
    )
    if seen:
        webbrowser.open(url)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except SfumatoError as error:
        sys.exit(f"error: {error}")
