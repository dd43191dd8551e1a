"""What messages say to write can be written: each call and each name that docs/mistakes.md suggests is run."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Iterator
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest

import sfumato as sf
import sfumato.measurements
from sfumato.framework import AtomDomain
from tests.test_mistakes import LISTED, Entry, came

pytestmark = pytest.mark.noise_cannot_matter("what is released is not looked at")

COUNT = 40
ROWS = pa.table(
    {
        "id": range(COUNT),
        "town": ["A", "B"] * (COUNT // 2),
        "age": [30 + i for i in range(COUNT)],
        "wage": [1500.5 + i for i in range(COUNT)],
        "day": [date(2020, 1, 1)] * COUNT,
        "seen": [datetime(2020, 1, 1)] * COUNT,
        "employed": [True, False] * (COUNT // 2),
        "year": [2020, 2021] * (COUNT // 2),
        "week": [1, 2] * (COUNT // 2),
        "steps": [[1.0] * 7] * COUNT,
        "price": [1.5] * COUNT,
        "product": ["A", "B"] * (COUNT // 2),
    }
)
# What stands for something of the reader's own.
OWN = {"lower": 0, "upper": 100, "scale": 2.0, "size": 10, "column": "age", "epsilon": 1, "delta": 1e-6}
OWN |= {"groups": 3, "rows": 1, "values": 3, "keys": ["A", "B"], "budget": sf.Budget(epsilon=100, delta=1e-3)}
OWN |= {
    "kind": "real",
    "actual": 1,
    "expected": 1,
    "path": "table.csv",
    "q": 0.5,
    "noise": "laplace",
    "number": 30,
    "source": "visits.csv",
}
# Words of other languages, which the mark in a message shows.
OTHER_WORDS = {"ORDER": "SORT", "LIMIT": "TOP"}
# Calls that leave something out, and what stands for it. An audit takes seconds.
SHORT = {
    "release(...)": "released",
    "sf.scan(...)": "bounded",
    "Loss(...)": "sfumato.budget.Loss(pure=1)",
    "audit(": "inspect.signature(sfumato.audit.audit).bind(",
}
# By which object a method is called that stands without one.
METHODS = {
    **dict.fromkeys(("bound", "filter", "group_by", "join", "per_unit", "top", "with_columns"), "people"),
    **dict.fromkeys(("agg",), "bounded"),
    **dict.fromkeys(("plan", "preview", "release", "epsilon_for"), "question"),
    **dict.fromkeys(("errors", "to_arrow", "to_pandas", "to_polars", "write"), "released"),
    **dict.fromkeys(("check", "spend"), "budget"),
}
_CALL = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*\(")
_MEANT = re.compile(r"did you mean (?:'([^']+)'|([\w-]+(?: and [\w-]+)?(?:\.\w+)*))", re.IGNORECASE)


class Suggestion(NamedTuple):
    """A piece of a text that can be run: in what form, and the mistake to which it was said."""

    form: str
    text: str
    entry: Entry


def end_of(text: str, at: int) -> int | None:
    """Return where the bracket ends that opens in a text."""
    depth, quote = 0, ""
    for i in range(at, len(text)):
        if quote:
            quote = "" if text[i] == quote else quote
        elif text[i] in "\"'":
            quote = text[i]
        elif text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if not depth:
                return i + 1
    return None


def calls(text: str) -> Iterator[str]:
    """Yield the calls in a text, each with those that are chained to it."""
    at = 0
    while found := _CALL.search(text, at):
        end = end_of(text, found.end() - 1)
        at = end or found.end()
        while end and (more := re.match(r"\.[a-z_]+\(", text[end:])):
            end = at = end_of(text, end + more.end() - 1) or len(text)
        if end:
            yield text[found.start() : end]


def in_message(entry: Entry) -> Iterator[Suggestion]:
    """Yield what a message suggests; what it quotes of the mistake is none."""
    told = entry.message.partition("\nline 1, column")[0]
    told = told.partition("\n    ...")[0]
    squeezed = re.sub(r"\s", "", entry.code)
    for call in calls(told):
        head = call.partition("(")[0]
        python = "." in head or head in METHODS or hasattr(sf, head) or entry.heading == "Names in modules"
        if (
            python
            and entry.heading != "SQL"
            and re.sub(r"\s", "", call).casefold() not in squeezed.casefold()
        ):
            yield Suggestion("call", call, entry)
    for found in _MEANT.finditer(told):
        yield Suggestion("name", next(filter(None, found.groups())), entry)


SUGGESTIONS = [one for entry in LISTED for one in in_message(entry)]


@cache
def made() -> dict[str, Any]:
    """Return what a call may name."""
    people = sf.scan(ROWS, privacy_unit="id")
    question = people.bound(groups=1, rows=1).agg(n=sf.count())
    return {
        **OWN,
        "sf": sf,
        "sfumato": sfumato,
        "people": people,
        "bounded": people.bound(groups=1, rows=2),
        "question": question,
        "other": sf.public(pa.table({"id": range(COUNT), "region": ["x"] * COUNT})),
        "domain": AtomDomain(float, lower=0, upper=100),
        "mechanism": sfumato.measurements.laplace(scale=2),
        "token": "token",
    }


def run_call(one: Suggestion) -> None:
    """Run a call; of one with dots in it, see that it is there and has the arguments that are named."""
    head = one.text.partition("(")[0]
    released = made()["question"].release(epsilon=1)
    given = made() | {"rows": ROWS, "inspect": inspect, "duckdb": duckdb, "released": released}
    short = next((short for short in SHORT if one.text.startswith(short)), None)
    module = re.match(r"sfumato(\.\w+)+", one.entry.code) if one.entry.heading == "Names in modules" else None
    text = one.text
    if short is not None:
        text = text.replace(short, SHORT[short], 1)
    elif "." not in head and module is not None and hasattr(eval(module[0].rpartition(".")[0], given), head):
        text = f"{module[0].rpartition('.')[0]}.{text}"
    elif "." not in head:
        text = f"{METHODS.get(head, 'sf')}.{text}"
    if text.endswith("()") and text.count("(") == 1:
        # The name of a function, perhaps one that needs arguments.
        assert callable(eval(text[:-2], given))
        return
    tree = ast.parse(text.replace(", ...)", ")"), mode="eval")
    if isinstance(tree.body, ast.Name):
        return  # a call of which nothing is said but its name
    assert isinstance(tree.body, ast.Call)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            for argument in call.keywords:
                if isinstance(argument.value, ast.Constant) and argument.value.value is ...:
                    argument.value = ast.Name(argument.arg or "", ast.Load())
    if any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(tree)) or "..." in text:
        called = tree.body
        function = eval(ast.unparse(called.func), given)
        names = [argument.arg for argument in called.keywords]
        known = inspect.signature(function).parameters
        open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
        assert open_ended or set(names) <= {*known, None}, names
        return
    eval(compile(ast.fix_missing_locations(tree), "suggestion", "eval"), given)


def run_name(one: Suggestion) -> None:
    """Write the names that are meant in the place of those that the message is about; then it says another thing."""
    words = re.findall(r"[\w-]+", one.entry.code)
    before, _, _ = re.split("(did you mean)", one.entry.message, maxsplit=1, flags=re.IGNORECASE)
    said = [word for word in re.findall(r"[\w-]+", before) if word in words or word.upper() in words]
    code, meant = one.entry.code, one.text.split(" and ")
    for i, name in enumerate(meant):
        near = difflib.get_close_matches(name, [word for word in words if word != name], 1, 0.6)
        wrong = near[0] if near and len(meant) == 1 else OTHER_WORDS.get(name) or said[i - len(meant)]
        code = re.sub(rf"(?<![\w-]){re.escape(wrong)}(?![\w-])", name, code, flags=re.IGNORECASE)
    told, _ = came(one.entry._replace(code=code))
    assert (
        told != one.entry.message and f"mean {one.text}" not in told and f"mean '{one.text}'" not in told
    ), told


def run(one: Suggestion) -> None:
    (run_call if one.form == "call" else run_name)(one)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(ROWS.drop_columns("steps"), "visits.csv")
    Path("rows.csv").write_text("id,v\na,1\n")
    Path("towns.csv").write_text("town,region\nA,x\n")
    Path("catalog.toml").write_text('[tables.visits]\nsource = "visits.csv"\nprivacy_unit = "id"\n')
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("one", SUGGESTIONS, ids=lambda one: f"{one.form} {one.text}"[:50])
def test_what_a_message_says_to_write_can_be_written(one: Suggestion, here: Path) -> None:
    run(one)


# What stands in the source, of which only some is on the page.


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module but for its docstrings, with {} for what is filled in."""
    strings = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            strings.add(id(node.body[0].value))  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in strings:
            yield node.value


# Notes and explanations, of rows and questions that have many.
