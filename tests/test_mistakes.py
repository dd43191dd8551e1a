"""What newcomers write by mistake, and what they are told: docs/mistakes.md is the list, each entry of it a test.

`python tests/test_mistakes.py` writes the messages of today into the page, to be read as a newcomer would.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato as sf
import sfumato.audit
import sfumato.budget
import sfumato.client
import sfumato.framework
import sfumato.measurements
import sfumato.noise
import sfumato.snapping
import sfumato.testing
import sfumato.transformations
from sfumato.cli.main import app
from sfumato.errors import SfumatoError
from sfumato.release.payment import payment
from sfumato.release.release import Release

if __name__ == "__main__":  # pytest does this; an installed package may be called tests, too
    sys.modules["tests"] = ModuleType("tests")
    sys.modules["tests"].__path__ = [str(Path(__file__).parent)]

from tests.support.changed_plans import scaled

PAGE = Path(__file__).parent.parent / "docs" / "mistakes.md"
MARK = "Private Value"  # a value of the table, which no message may hold
ROWS = pa.table(
    {
        "id": [1, 1, 2, 3],
        "town": [MARK, "B", "A", "B"],
        "age": [30, 31, 40, 50],
        "wage": [1500.5, 2000, 3000, 4000],
        "day": [date(2020, 1, n) for n in (1, 2, 3, 4)],
        "seen": [datetime(2020, 1, n) for n in (1, 2, 3, 4)],
        "employed": [True, False, True, True],
    }
)


class Entry(NamedTuple):
    """A mistake: under which heading, the code, and the message as the page has it."""

    heading: str
    code: str
    message: str


def entries(text: str) -> Iterator[Entry]:
    """Yield the entries of a page: code, and below it, four spaces further in, what comes of it."""
    for heading, block in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        for fence in re.findall(r"^```prose\n(.*?)^```", block, re.M | re.S):
            for entry in re.split(r"\n\n(?! )", fence.strip("\n")):
                code, _, told = entry.partition("\n    ")
                yield Entry(heading, code, re.sub("^ {4}", "", told, flags=re.M))


def names() -> dict[str, Any]:
    """Return what the page has made before."""
    people = sf.scan(ROWS, privacy_unit="id")
    by_town = people.group_by("town").bound(groups=2, rows=1)
    question = people.bound(groups=1, rows=2).agg(n=sf.count())
    return {
        "sf": sf,
        "pa": pa,
        "sfumato": sfumato,
        "rows": ROWS,
        "frame": pd.DataFrame({"age": [30]}),
        "people": people,
        "by_town": by_town,
        "bounded": people.bound(groups=1, rows=2),
        "question": question,
        "budget": sf.Budget(epsilon=1),
        "release": question.release(epsilon=1),
        "faulty": Faulty(question),
    }


class Faulty(NamedTuple):
    """A question whose planner draws a quarter of the noise that it states."""

    question: sf.Question[Any]

    def release(self, **options: Any) -> Any:
        plan = self.question.plan(noise="laplace", **options)
        return payment(None, [scaled(plan, Fraction(1, 4))], "a question")


def came(entry: Entry) -> tuple[str, BaseException | None]:
    """Return what comes of an entry, as the page shows it."""
    if entry.heading == "Command line":
        return commanded(entry.code), None
    try:
        if entry.heading == "SQL":
            made = sf.sql(entry.code, tables={"people": ROWS})
        elif entry.heading == "Catalogs":
            made = declared(entry.code)
        else:
            made = eval(entry.code, names())
    except Exception as error:
        told = re.sub(r"looked in '[^']+'", "looked in '/home/ann'", str(error))
        return f"{type(error).__name__}: {told}", error
    return f"nothing: it gives {type(made).__name__}", None


def commanded(line: str) -> str:
    """Return what a command shows, without its usage, and the exit code."""
    with TemporaryDirectory() as folder, chdir(folder):
        pq.write_table(ROWS, "people.parquet")
        ran = CliRunner().invoke(app, shlex.split(line)[2:], env={"COLUMNS": "80"})
    told = "\n".join(one for one in ran.output.split("\n") if not re.match(r"Usage|Try", one))
    return f"exit {ran.exit_code}: {told.strip().removeprefix('Error: ')}"


def declared(text: str) -> Any:
    """Open the table of a catalog, and ask of it."""
    with TemporaryDirectory() as folder, chdir(folder):
        pq.write_table(ROWS, "people.parquet")
        Path("catalog.toml").write_text(text)
        return sf.catalog("catalog.toml").table("people").bound(rows=1).agg(m=sf.mean("age"))


LISTED = list(entries(PAGE.read_text())) if PAGE.exists() else []
pytestmark = pytest.mark.noise_cannot_matter("nothing is drawn")


@pytest.fixture
def nothing_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: Any) -> None:
        pytest.fail("noise was drawn")

    monkeypatch.setattr(Release, "_draw", drawn)


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: entry.code.replace("\n", " ")[:60])
def test_the_message(entry: Entry, nothing_drawn: None) -> None:
    told, error = came(entry)
    assert told == entry.message
    assert told.startswith("exit") or error is not None
    assert MARK not in told and (error is None or MARK not in repr(error.args) + repr(error.__context__))


def test_a_budget_pays_for_no_mistake() -> None:
    for entry in LISTED:
        if "budget=budget" in entry.code:
            given = names()
            with pytest.raises(SfumatoError):
                eval(entry.code, given)
            assert given["budget"].spent == (0, 0)


# Attributes that are not there.


@pytest.mark.parametrize(
    "odd", ["", " ", "a b", "é" * 5, "x" * 10**6, "\x1b[31m", "\ud800", "\n" * 9, "💥", "\0"]
)
def test_odd_names(odd: str) -> None:
    for thing in names().values():
        if type(thing).__module__.startswith("sfumato") or thing is sf:
            with pytest.raises(AttributeError) as raised:
                getattr(thing, odd)
            told = str(raised.value)
            assert len(told) < 400 and told.isprintable()
    for called in (sf.mean, names()["people"].bound):
        with pytest.raises(TypeError) as raised_too:
            called(**{odd: MARK})
        told = str(raised_too.value)
        assert len(told) < 400 and told.isprintable() and MARK not in told


def write() -> None:
    """Write the messages of today into the page."""
    text = PAGE.read_text()
    for entry in entries(text):
        told = "".join(f"    {line}".rstrip() + "\n" for line in came(entry)[0].split("\n"))
        before = (
            entry.code + "\n" + "".join(f"    {line}".rstrip() + "\n" for line in entry.message.split("\n"))
            if entry.message
            else entry.code + "\n"
        )
        text = text.replace(f"\n{before}", f"\n{entry.code}\n{told}", 1)
    PAGE.write_text(text)


if __name__ == "__main__":
    write()
