"""What a callable of the reference returns is in the reference too, with its fields and methods."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import pytest

from sfumato.query.released.comparing import Comparison

from .test_reference import REFERENCE, SHOWN, reference

# What is shown has these in it, and nobody looks there: other rooms do.
INSIDE = {
    "Query": "what a question asks, for plans; `Question` and `explain` tell it",
    "Requirements": "of which numbers outputs are made, for noise; `explain` tells it",
    "Beside": "what diagnostics add to a plan; `Diagnostics` tells it",
    "GroupSelection": "the base of rules: `TruncatedGeometric` and the thresholds",
    "NoiseKind": "names, which `sfumato.measurements.NoiseKind` stands for",
    "Rollup": "levels of totals, which a transformation makes and its metric keeps",
    "Toeplitz": "weights of time steps, which a transformation makes and its metric keeps",
    "Tree": "blocks of time steps, which a transformation makes and its metric keeps",
    "Places": "the base of bins, such as `Edges`",
    "StratifiedDesign": "the sizes of strata as they were checked",
    "From": "the tables of a SQL text as they are written",
    "CommonTables": "the WITH of a SQL text",
    "PublicGroups": "the public side of a join of a SQL text",
    "Outside": "the SELECT around the private one of a SQL text",
    "GroupingSets": "the sets of keys of a SQL text",
    "Largest": "the LIMIT of a SQL text",
    "NotSelected": "a key that a SQL text leaves out, for the error",
}


def hidden(options: str) -> set[str]:
    """Return the names of members that a page does not show."""
    return {*re.findall(r"\w+", " ".join(re.findall(":exclude-members: (.*)", options)))}


def members(kind: type, options: str) -> Iterator[tuple[str, Any]]:
    """Yield what a page shows of a class: its methods and properties, and those above it where it says so."""
    left_out = hidden(options)
    above = kind.__mro__[:-1] if ":inherited-members:" in options else (kind,)
    for one in above if ":members:" in options else ():
        for name, held in vars(one).items():
            if not name.startswith("_") and name not in left_out:
                made = held.fget if isinstance(held, property) else getattr(held, "func", held)
                yield name, getattr(made, "__func__", made)


@cache
def names_of(module: str) -> dict[str, Any]:
    """Return what names stand for in annotations of a module, those of which only checkers of types know too."""
    held = sys.modules[module]
    found = dict[str, Any]()
    for node in ast.walk(ast.parse(inspect.getsource(held))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sfumato"):
            source = importlib.import_module(str(node.module))
            found |= {name.asname or name.name: getattr(source, name.name, None) for name in node.names}
    return found | vars(held)


def classes(annotation: Any, module: str) -> set[type]:
    """Return the classes of this package in an annotation, inside of others too."""
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, names_of(module))
        except NameError:
            return set()  # of what is installed apart, such as pandas
    inner = [classes(part, module) for part in typing.get_args(annotation)]
    kind = typing.get_origin(annotation) or annotation
    own = {kind} if isinstance(kind, type) and kind.__module__.startswith("sfumato") else set()
    return own.union(*inner)


def held_by(kind: type, options: str) -> set[type]:
    """Return the classes in the fields of a class, of those that its docstring describes."""
    if not dataclasses.is_dataclass(kind) and not hasattr(kind, "_fields"):
        return set()
    found, described = set[type](), reference.described(kind.__doc__) - hidden(options)
    for one in kind.__mro__:
        for name, annotation in vars(one).get("__annotations__", {}).items():
            found |= classes(annotation, one.__module__) if name in described else set()
    return found


def returned(function: Any) -> set[type]:
    """Return the classes in what a function returns."""
    if not inspect.isfunction(function):
        return set()
    return classes(function.__annotations__.get("return"), function.__module__)


def unlisted(shown: Iterable[tuple[str, Any, str]]) -> dict[type, set[str]]:
    """Return the classes that have no entry, of what is shown and what it returns or has in a field; and where.

    Args:
        shown: name, value and options of each entry.
    """
    entries, given = set[Any](), defaultdict[type, set[str]](set)
    for name, value, options in shown:
        entries.add(value)
        if not isinstance(value, type):
            found = {name: returned(value)}
        else:
            found = {f"{name}.{member}": returned(one) for member, one in members(value, options)}
            found[name] = held_by(value, options)
        for where, kinds in found.items():
            for kind in kinds:
                given[kind].add(where)
    return {kind: where for kind, where in given.items() if kind not in entries}


def entries_of(pages: Iterable[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield name, value and options of each entry of pages."""
    for text in pages:
        for _, name, options in SHOWN.findall(text):
            module, _, last = name.rpartition(".")
            yield name, getattr(importlib.import_module(module), last), options


@pytest.mark.long  # it imports Beam and all else
def test_what_is_returned_can_be_looked_up() -> None:
    found = unlisted(entries_of(page.read_text() for page in REFERENCE.glob("*.md")))
    assert not {kind: where for kind, where in found.items() if kind.__name__ not in INSIDE}
    assert {kind.__name__ for kind in found} == {*INSIDE}, "nothing has it any more"


def test_what_cannot_be_looked_up_is_found() -> None:
    """Comparisons in what a function, a method or a property returns, inside of others, and in a field."""

    def compared() -> list[Comparison]:
        return []

    class Release:
        def compare(self) -> Comparison | None:
            return None

        @property
        def compared(self) -> dict[str, Comparison]:
            return {}

    @dataclasses.dataclass
    class Kept:
        """What is kept.

        Args:
            one: a comparison.
        """

        one: Comparison

    def left_out(name: str, value: Any, options: str) -> set[str]:
        return unlisted([(name, value, options)]).get(Comparison, set())

    assert left_out("compared", compared, "") == {"compared"}
    assert left_out("Release", Release, "   :members:\n") == {"Release.compare", "Release.compared"}
    assert left_out("Release", Release, "") == set()
    assert left_out("Release", Release, "   :members:\n   :exclude-members: compare, compared\n") == set()
    assert left_out("Kept", Kept, "") == {"Kept"}
    assert unlisted([("compared", compared, ""), ("Comparison", Comparison, "")]) == {}
