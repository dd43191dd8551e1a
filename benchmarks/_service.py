"""A service of the registry of examples/rwm5yr.py, as its owner starts it, for benchmarks."""

from __future__ import annotations

import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import sfumato as sf
from sfumato.client import connect
from sfumato.errors import EngineError
from sfumato.service.access_tokens import Tokens

EXAMPLES = Path(__file__).parents[1] / "examples"
_START = "import sys\nfrom sfumato.cli.main import app\nif __name__ == '__main__':\n    app()\n"


@dataclass(frozen=True)
class Served:
    """A service that runs.

    Args:
        folder: has its registry.toml.
        url: where it is.
        ledger: that pays.
        tokens: of its analysts, in their order.
        pid: of its process.
    """

    folder: Path
    url: str
    ledger: sf.Ledger
    tokens: tuple[str, ...]
    pid: int


@contextmanager
def served(rows: pa.Table, options: Sequence[str], analysts: Sequence[str] = ("ann",)) -> Iterator[Served]:
    """Start a service in a process of its own, and end it.

    Args:
        rows: of the registry.
        options: others of `sfumato serve`.
        analysts: who may ask as much as they like.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copy(EXAMPLES / "serve" / "registry.toml", folder)
        pq.write_table(rows, folder / "rwm5yr.parquet")
        ledger = sf.Ledger(folder / "budget.db")
        ledger.create("registry", epsilon=10**6, delta="0.1", composition="adding")
        for name in analysts:
            ledger.grant("registry", name, epsilon=10**6)
        tokens = tuple(map(Tokens(folder / "tokens.db").create, analysts))
        (folder / "serve.py").write_text(_START)
        port = _free_port()
        command = [sys.executable, "serve.py", "serve", "registry.toml", "--port", str(port), *options]
        with (folder / "log").open("wb") as log:
            service = subprocess.Popen(command, cwd=folder, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url, tokens[0])
            yield Served(folder, url, ledger, tokens, service.pid)
        finally:
            service.terminate()
            service.wait()


def registry() -> pa.Table:
    """Return the rows of the registry."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rwm5yr.parquet"
        runpy.run_path(str(EXAMPLES / "rwm5yr.py"))["main"](str(path))
        return pq.read_table(path)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(url: str, token: str) -> bool:
    for _ in range(3000):
        try:
            return bool(connect(url, token).tables)
        except EngineError:
            time.sleep(0.1)
    raise SystemExit("the service does not begin")
