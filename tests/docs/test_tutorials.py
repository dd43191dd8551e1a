"""The front page, the tutorials and the pages of single tasks, run as a reader would: what they print, but for numbers with noise, and what they draw.

`SFUMATO_PICTURES=1 pytest -m 'long or not long' tests/docs/test_tutorials.py` writes outputs and pictures anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import SfumatoError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures" / "tutorials"
PAGES = [
    DOCS / "index.md",
    *(page for part in ("tutorials", "howto", "coming_from") for page in sorted(DOCS.glob(f"{part}/*.md"))),
]
# Of which nothing runs for more than a second.
SHORT = {"index.md", "first_table.md"}
SAYS = (
    "text",
    "prose",
    "example",
)  # of an example, which is of one run, other words may come than at its begin
ANEW = "SFUMATO_PICTURES" in os.environ
NUMBER = re.compile(r"-?\d(?:[\d,]*\d)?(\.\d+)?(e-?\d+)?%?")
TOKEN = re.compile(r"\b[\w-]{30,}\b")
DATABASE = "postgresql://ann@db.example.org/clinic"  # of the pages, where nothing is
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<code>.*?)^```$", flags=re.S | re.M)


@dataclass
class Terminal:
    """Where a reader types commands, 100 columns wide; what serves, does so until the end of the page."""

    serving: contextlib.ExitStack
    token: str = ""

    def run(self, line: str) -> str:
        program, *arguments = shlex.split(line)
        if program == "pytest":
            ran = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments]
            return subprocess.run(ran, capture_output=True, text=True, check=False).stdout
        if program == "python":
            place = [str(ROOT / one) if one.startswith("tools/") else one for one in arguments]
            return subprocess.run([sys.executable, *place], capture_output=True, text=True, check=True).stdout
        if arguments[0] == "serve":
            self.serve(arguments)
            return ""
        done = CliRunner().invoke(app, arguments, env={"COLUMNS": "100", "TERM": "dumb"})
        if arguments[:2] == ["token", "create"]:
            (self.token,) = TOKEN.findall(done.stdout)
        return str(done.output)

    def serve(self, arguments: list[str]) -> None:
        started = "import sys; from sfumato.cli.main import app; app(sys.argv[1:])"
        process = subprocess.Popen([sys.executable, "-c", started, *arguments], stderr=subprocess.DEVNULL)
        self.serving.callback(process.wait)
        self.serving.callback(process.terminate)
        url = f"http://127.0.0.1:{arguments[arguments.index('--port') + 1]}/health"
        for _ in range(3000):
            assert process.poll() is None
            with contextlib.suppress(URLError):
                urlopen(url).close()
                return
            time.sleep(0.1)
        raise AssertionError("the service did not start")


@dataclass(frozen=True)
class Step:
    """Something that a reader does, and what the page says that comes of it, which stands at `place`."""

    kind: str
    code: str
    said: str | None
    place: tuple[int, int]
    example: bool

    def on(self, port: str, server: str, folder: Path) -> Step:
        """The same with a port that is free, in the place of 8000, and a server of PostgreSQL that is there; Spark, which other tests may have started elsewhere, reads in the reader's folder."""
        code = self.code.replace("8000", port).replace(
            'spark.read.parquet("', f'spark.read.parquet("{folder}/'
        )
        for table in ("/visits", ""):
            code = code.replace(f'{DATABASE}{table}"', f'postgresql://ann@/postgres{table}?host={server}"')
        return replace(self, code=code)

    def compared(self, text: str) -> str:
        """What must be the same in each run."""
        text = without_numbers(text)
        return " ".join(text.split()[:3]) if self.example else text

    def run(self, names: dict[str, Any], terminal: Terminal) -> str:
        """Return what it prints; of an error its last line, as Python prints it."""
        if self.kind == "sh":
            lines = [
                line for line in self.code.splitlines() if line.startswith(("sfumato ", "pytest ", "python "))
            ]
            return "".join(map(terminal.run, lines))
        code = self.code.replace("sfumato_...", terminal.token)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                exec(compile(code, "page", "exec"), names)
            except (SfumatoError, AssertionError) as error:
                if self.said is None:
                    raise
                print(f"{type(error).__name__}: {error}")
        return printed.getvalue()


def steps(text: str) -> list[Step]:
    """The steps of a page, in order: what is in a block of `text`, `prose` or `example` behind one is what that prints."""
    blocks = list(BLOCK.finditer(text))
    found = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["kind"] in ("python", "sh"):
            says = following is not None and following["kind"] in SAYS
            said = following if says else None
            span = said.span("code") if said else (0, 0)
            example = said is not None and said["kind"] == "example"
            found.append(Step(block["kind"], block["code"], said and said["code"], span, example))
    return found


def without_numbers(text: str) -> str:
    """What does not depend on noise and chance: no number or token, nor how wide a column of numbers is."""
    return " ".join(re.sub("─+", "─", NUMBER.sub("#", TOKEN.sub("token", text))).split())


def anew(page: Path, text: str, outputs: list[tuple[Step, str]]) -> None:
    assert page.read_text() == text, "it was changed meanwhile"
    for step, printed in reversed(outputs):
        if step.said is not None:
            shown = TOKEN.sub(f"sfumato_{'x' * 56}", printed).strip("\n")
            lines = "".join(f"{line.rstrip()}\n" for line in shown.splitlines())
            text = text[: step.place[0]] + lines + text[step.place[1] :]
    page.write_text(text)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("registry") / "rwm5yr.parquet"
    subprocess.run([sys.executable, ROOT / "examples" / "rwm5yr.py", path], check=True, capture_output=True)
    return path


@pytest.fixture
def registry(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a reader is in, with the data of the first step."""
    shutil.copy(written, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.noise_cannot_matter("numbers are left out of what is compared")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(p, id=f"{p.parent.name}-{p.stem}", marks=[] if p.name in SHORT else [pytest.mark.long])
        for p in PAGES
    ],
)
def test_a_page(
    page: Path, registry: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text, names = page.read_text(), {"__name__": "__main__"}
    server = request.getfixturevalue("postgresql_server") if DATABASE in text else ""
    if "sfumato.spark" in text and shutil.which("java") is None:
        pytest.skip("needs Java")
    monkeypatch.syspath_prepend(registry)
    with contextlib.ExitStack() as serving:
        terminal = Terminal(serving)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = str(one.getsockname()[1])
        outputs = [(step, step.on(port, server, registry).run(names, terminal)) for step in steps(text)]
    drawn = re.findall(r"\]\((?:\.\./)?pictures/tutorials/([\w.]+)\)", text)
    if ANEW:
        anew(page, text, outputs)
        PICTURES.mkdir(exist_ok=True)
        for name in drawn:
            shutil.copy(registry / name, PICTURES / name)
    for step, printed in outputs:
        if step.said is not None and not ANEW:
            assert step.compared(printed) == step.compared(step.said), step.code
    for name in drawn:
        assert (registry / name).exists() and (PICTURES / name).exists(), f"{page.name} does not draw {name}"


def test_the_commands_of_the_front_page_are_those_of_the_readme() -> None:
    commands = [step.code for step in steps((DOCS / "index.md").read_text()) if step.kind == "sh"]
    assert len(commands) == 2
    for code in commands:
        assert f"```sh\n{code}```" in (ROOT / "README.md").read_text()
