"""What docs/serve.md says: the owner's commands and the analyst's program, run as they stand there."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sfumato.client import connect
from sfumato.errors import EngineError
from sfumato.service.openapi import PATHS

pytestmark = [pytest.mark.long, pytest.mark.noise_cannot_matter("it looks at what is printed")]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text()
SHELL, CURL = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SFUMATO = f"#!{sys.executable}\nfrom sfumato.cli.main import app\nif __name__ == '__main__':\n    app()\n"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def prepared(folder: Path) -> dict[str, str]:
    """Give a folder what a checkout has, and return the environment of somebody who works there."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "bin").mkdir()
    for name, text in {
        "sfumato": SFUMATO,
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "pip": "#!/bin/sh\n",
    }.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def finished(
    command: list[str], environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)


def ready(url: str, token: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(3000):
        assert process.poll() is None
        try:
            _ = connect(url, token).spent
        except EngineError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("nothing listens")


def test_from_nothing_to_an_answer(tmp_path: Path) -> None:
    environment, port = prepared(tmp_path), free_port()
    commands, serving = SHELL.rsplit("sfumato serve", 1)
    done = finished(["bash", "-e", "-c", commands], environment, tmp_path)
    assert done.returncode == 0, done.stderr
    token = done.stdout.split()[-1]
    environment["SFUMATO_LEDGER"] = "budget.db"
    process = subprocess.Popen(
        ["bash", "-c", f"exec sfumato serve {serving.strip()} --port {port}"],
        cwd=tmp_path / "clinic",
        env=environment,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        ready(url, token, process)
        program = PROGRAM.replace("http://127.0.0.1:8000", url).replace(", token)", f", {token!r})")
        done = finished([sys.executable, "-c", program], environment, tmp_path)
        assert done.returncode == 0, done.stderr
        assert "docvis" in done.stdout and "Cost(epsilon=1.0" in done.stdout and "1984" in done.stdout
        assert "Paid(what='n, visits by year'" in done.stdout and "1. Read with DuckDB" in done.stdout
        command = CURL.replace("http://127.0.0.1:8000", url)
        done = finished(["bash", "-c", command], environment | {"TOKEN": token}, tmp_path)
        assert done.stdout.startswith('"people","people_error"\n'), done.stdout + done.stderr
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_the_example_in_one_command(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "browser").write_text('#!/bin/sh\necho "$1" > opened\n')
    (tmp_path / "browser").chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "serve" / "start.py"), str(tmp_path / "registry"), str(port)],
        stdout=subprocess.PIPE, cwd=tmp_path, env=os.environ | {"BROWSER": str(tmp_path / "browser")},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = ""
        while "token: " not in said:
            said += process.stdout.readline().decode()
        token = said.rpartition("token: ")[2].strip()
        ready(f"http://127.0.0.1:{port}", token, process)
        assert connect(f"http://127.0.0.1:{port}", token).remaining.epsilon > 2
        until = time.monotonic() + 60
        while not (tmp_path / "opened").exists() and time.monotonic() < until:
            time.sleep(0.1)
        assert (tmp_path / "opened").read_text() == f"http://127.0.0.1:{port}\n"  # and no token in it
    finally:
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def test_the_paths_of_the_page_are_there() -> None:
    named = set(re.findall(r"`(/[\w/{}.]+)", PAGE))
    assert len(named) > 7 and named <= set(PATHS)
