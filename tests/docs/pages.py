"""What the pages of the reference show: each entry, and of a class the methods and properties beside it."""

import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "api"
EXTENSION = REFERENCE.parents[1] / "extensions" / "reference.py"
PROMPT = ">" * 3
SHOWN = re.compile(r"^\.\. auto(?:class|function):: (sfumato[\w.]*)\n((?:   :.*\n)*)", re.M)
ENTRY = re.compile(r"^\.\. (?:auto|py:)\w+:: (sfumato[\w.]*)$", re.M)

_spec = importlib.util.spec_from_file_location("reference", EXTENSION)
assert _spec is not None and _spec.loader is not None
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)


@dataclass(frozen=True)
class Entry:
    """A class or function of the reference, or a method that it shows with its class.

    Args:
        name: where it is imported from.
        value: the class or function.
        owner: of a method its class; None of others.
        options: how Sphinx shows it, a line each.
    """

    name: str
    value: Any
    owner: type | None = None
    options: str = ""


def read() -> dict[str, str]:
    """Return the pages by their names."""
    return {page.name: page.read_text() for page in REFERENCE.glob("*.md")}


def entries(texts: Iterable[str]) -> list[str]:
    """Return the names of all entries of pages."""
    return [entry for text in texts for entry in ENTRY.findall(text)]


def hidden(options: str) -> set[str]:
    """Return the names of members that a page does not show."""
    return {*re.findall(r"\w+", " ".join(re.findall(":exclude-members: (.*)", options)))}


def members(kind: type, options: str) -> Iterator[tuple[str, Any]]:
    """Yield what a page shows of a class, as the class has it: its own, and what is above where it says so."""
    found = hidden(options)
    above = kind.__mro__[:-1] if ":inherited-members:" in options else (kind,)
    for one in above if ":members:" in options else ():
        for name, held in vars(one).items():
            if not name.startswith("_") and name not in found:
                found.add(name)
                yield name, held


def function(held: Any) -> Any:
    """Return the function of a method or a property; of all else itself."""
    if isinstance(held, property | cached_property):
        return held.fget if isinstance(held, property) else held.func
    return getattr(held, "__func__", held)


def shown(texts: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries of pages, each class with its methods behind it."""
    for text in texts:
        for name, options in SHOWN.findall(text):
            module, _, last = name.rpartition(".")
            value = getattr(importlib.import_module(module), last)
            yield Entry(name, value, options=options)
            for member, held in members(value, options) if isinstance(value, type) else ():
                if inspect.isfunction(function(held)) and not isinstance(held, property | cached_property):
                    yield Entry(f"{name}.{member}", function(held), value)
