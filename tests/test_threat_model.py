"""The threat model names files that are there: a mechanism and tests in each line of what is defended."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
DEFENDED = "## What is defended"


def named(text: str, room: str) -> list[str]:
    return re.findall(rf"`({room}/[\w./-]+)`", text)


def lines(page: str) -> list[str]:
    """The lines of the table of what is defended."""
    table = page.split(DEFENDED)[1].split("\n## ", maxsplit=1)[0]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def wrong(page: str, root: Path = ROOT) -> list[str]:
    """What is wrong with a page: files that are not there, and lines without a mechanism or a test."""
    found = [
        f"no file {n}" for room in ("src", "tests") for n in named(page, room) if not (root / n).is_file()
    ]
    for line in lines(page):
        what, mechanism, tests = (cell.strip() for cell in line.strip("|").split("|"))
        if not named(mechanism, "src"):
            found.append(f"no mechanism against: {what}")
        if not named(tests, "tests"):
            found.append(f"no test of: {what}")
        for name in named(tests, "tests"):
            if (root / name).is_file() and "def test_" not in (root / name).read_text():
                found.append(f"no test in {name}")
    return found


def test_every_line_has_a_mechanism_and_tests_that_are_there():
    assert len(lines(PAGE)) > 15
    assert not wrong(PAGE)


def test_what_it_says_of_time_is_so_until_it_is_measured():
    """`--constant-time` would make the page wrong: who adds it says so there."""
    sources = "\n".join(path.read_text() for path in (ROOT / "src" / "sfumato").rglob("*.py"))
    assert ("constant-time" in sources) != ("Nothing measures yet" in PAGE)
