"""The front page and the tutorials, run as a reader would: what they print, but for numbers with noise, and what they draw.

`SFUMATO_PICTURES=1 pytest -m 'long or not long' tests/docs/test_tutorials.py` writes outputs and pictures anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import SfumatoError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures" / "tutorials"
PAGES = [DOCS / "index.md", *sorted((DOCS / "tutorials").glob("*.md"))]
# Of which nothing runs for more than a second.
SHORT = {"index.md", "first_table.md"}
ANEW = "SFUMATO_PICTURES" in os.environ
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e-?\d+)?%?")
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<code>.*?)^```$", flags=re.S | re.M)


@dataclass(frozen=True)
class Step:
    """Something that a reader does, and what the page says that comes of it, which stands at `place`."""

    kind: str
    code: str
    said: str | None
    place: tuple[int, int]

    def run(self, names: dict[str, Any]) -> str:
        """Return what it prints; of an error its last line, as Python prints it."""
        if self.kind == "sh":
            lines = self.code.replace("\\\n", " ").splitlines()
            return "".join(command(line) for line in lines if line.startswith("sfumato "))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                exec(compile(self.code, "page", "exec"), names)
            except (SfumatoError, AssertionError) as error:
                if self.said is None:
                    raise
                print(f"{type(error).__name__}: {error}")
        return printed.getvalue()


def steps(text: str) -> list[Step]:
    """The steps of a page, in order: what is in a block of `text` or `prose` behind one is what that prints."""
    blocks = list(BLOCK.finditer(text))
    found = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["kind"] in ("python", "sh"):
            says = following is not None and following["kind"] in ("text", "prose")
            said = following if says else None
            found.append(
                Step(
                    block["kind"], block["code"], said and said["code"], said.span("code") if said else (0, 0)
                )
            )
    return found


def without_numbers(text: str) -> str:
    """What does not depend on noise: no number, nor how wide a column of numbers is."""
    return " ".join(re.sub("─+", "─", NUMBER.sub("#", text)).split())


def anew(page: Path, outputs: list[tuple[Step, str]]) -> None:
    text = page.read_text()
    for step, printed in reversed(outputs):
        if step.said is not None:
            lines = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
            text = text[: step.place[0]] + lines + text[step.place[1] :]
    page.write_text(text)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a reader is in, with the data of the first step."""
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, ROOT / "examples" / "rwm5yr.py"], check=True, capture_output=True)
    return tmp_path


def command(line: str) -> str:
    """Run the command line on a terminal of 100 columns."""
    done = CliRunner().invoke(app, shlex.split(line)[1:], env={"COLUMNS": "100", "TERM": "dumb"})
    return str(done.output)


@pytest.mark.noise_cannot_matter("numbers are left out of what is compared")
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.stem, marks=[] if p.name in SHORT else [pytest.mark.long]) for p in PAGES],
)
def test_a_page(page: Path, registry: Path) -> None:
    text, names = page.read_text(), {"__name__": "page"}
    outputs = [(step, step.run(names)) for step in steps(text)]
    drawn = re.findall(r"\]\((?:\.\./)?pictures/tutorials/([\w.]+)\)", text)
    if ANEW:
        anew(page, outputs)
        PICTURES.mkdir(exist_ok=True)
        for name in drawn:
            shutil.copy(registry / name, PICTURES / name)
    for step, printed in outputs:
        if step.said is not None and not ANEW:
            assert without_numbers(printed) == without_numbers(step.said), step.code
    for name in drawn:
        assert (registry / name).exists() and (PICTURES / name).exists(), f"{page.name} does not draw {name}"


def test_what_is_compared() -> None:
    """Numbers may differ, words, signs and the number of rows may not."""
    same = partial(lambda a, b: without_numbers(a) == without_numbers(b))
    assert same("1984  3,870 ± 36  2.9\n────", "1985  970 ± 1e-05   30%\n──")
    assert not same("a 1\na 2", "a 1")
    assert not same("1 ± 2", "1")
    assert not same("people 3", "visits 3")


def test_the_commands_of_the_front_page_are_those_of_the_readme() -> None:
    commands = [step.code for step in steps((DOCS / "index.md").read_text()) if step.kind == "sh"]
    assert len(commands) == 2
    for code in commands:
        assert f"```sh\n{code}```" in (ROOT / "README.md").read_text()
