"""What messages say to write can be written: the calls and names that docs/mistakes.md suggests are there."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import sfumato as sf
from sfumato.release.noisy_table import NoisyTable
from tests.test_mistakes import LISTED, ROWS, Entry, came

pytestmark = pytest.mark.noise_cannot_matter("what is released is not looked at")

# Words of other languages, which the mark in a message shows.
OTHER_WORDS = {"ORDER": "SORT", "LIMIT": "TOP"}
MODULES = "audit budget client framework measurements noise snapping testing transformations"
HOMES = [importlib.import_module(f"sfumato.{name}") for name in MODULES.split()]
HOMES += [sf, sf.Table, sf.Question, sf.Budget, NoisyTable]
_CALL = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)\([^()]*(?:\([^()]*\)[^()]*)*\)")
_MEANT = re.compile(r"did you mean (?:'([^']+)'|([\w-]+(?: and [\w-]+)?(?:\.\w+)*))", re.IGNORECASE)


def told(entry: Entry) -> str:
    """Return a message without what it quotes of the query."""
    return entry.message.partition("\nline 1, column")[0].partition("\n    ...")[0]


def suggested_calls() -> Iterator[ast.Call]:
    """Yield the calls of Python in messages, and those within these."""
    for entry in LISTED:
        for found in _CALL.finditer(told(entry) if entry.heading != "SQL" else ""):
            try:
                tree = ast.parse(found[0].replace(", ...)", ")"), mode="eval")
            except SyntaxError:
                continue  # a mistake that is quoted
            yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def functions(name: str) -> list[Any]:
    return [getattr(home, name) for home in HOMES if callable(getattr(home, name, None))]


@pytest.mark.long
def test_calls_that_messages_suggest_are_there() -> None:
    seen = 0
    for call in suggested_calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {argument.arg for argument in call.keywords}
        known = [inspect.signature(function).parameters for function in functions(name)]
        seen += bool(known)
        ours = known or ast.unparse(call.func).startswith("sf.")
        assert not ours or any(
            given <= set(one) or any(p.kind is p.VAR_KEYWORD for p in one.values()) for one in known
        ), ast.unparse(call)
    assert seen > 40


@pytest.mark.long
@pytest.mark.parametrize(
    "entry", [one for one in LISTED if _MEANT.search(told(one))], ids=lambda one: one.code[:50]
)
def test_with_the_names_that_are_meant_a_mistake_is_gone(
    entry: Entry, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(ROWS, "visits.csv")
    words = re.findall(r"[\w-]+", entry.code)
    for found in _MEANT.finditer(told(entry)):
        text = next(filter(None, found.groups()))
        before = entry.message[: entry.message.lower().index("did you mean")]
        said = [word for word in re.findall(r"[\w-]+", before) if word in words or word.upper() in words]
        code, meant = entry.code, text.split(" and ")
        for i, name in enumerate(meant):
            near = difflib.get_close_matches(name, [word for word in words if word != name], 1, 0.6)
            wrong = near[0] if near and len(meant) == 1 else OTHER_WORDS.get(name) or said[i - len(meant)]
            code = re.sub(rf"(?<![\w-]){re.escape(wrong)}(?![\w-])", name, code, flags=re.IGNORECASE)
        again, _ = came(entry._replace(code=code))
        assert again != entry.message and f"mean {text}" not in again and f"mean '{text}'" not in again
