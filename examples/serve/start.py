"""Start a service on the German health registry, with a budget, and a token for ann.

    python examples/serve/start.py [folder]

It writes the registry, a ledger and a file of tokens to a folder (`registry`, if none is named), prints ann's
token and answers at http://127.0.0.1:8000 until it is stopped. `pip install '.[serve,examples]'` in a
checkout brings what it needs.
"""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import sfumato as sf
from sfumato.service.serving import Settings, run
from sfumato.service.tokens import Tokens

HERE = Path(__file__).parent


def main(place: str = "registry", port: str = "8000") -> None:
    folder = Path(place)
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "registry.toml", folder)
    if not (folder / "rwm5yr.parquet").exists():
        runpy.run_path(str(HERE.parent / "rwm5yr.py"))["main"](str(folder / "rwm5yr.parquet"))
    if not (folder / "budget.db").exists():
        ledger = sf.Ledger(folder / "budget.db")
        ledger.create("registry", epsilon=10, delta="1e-5")
        ledger.grant("registry", "ann", epsilon=5, delta="1e-5")
    token = Tokens(folder / "tokens.db").create("ann", days=1)
    settings = Settings(
        str(folder / "registry.toml"),
        ledger=str(folder / "budget.db"),
        tokens=str(folder / "tokens.db"),
        port=int(port),
    )
    print(f"Ann's token: {token}\nListening at http://127.0.0.1:{port} when the log says so.", flush=True)
    run(settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
