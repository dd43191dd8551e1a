"""What a callable of the reference returns is in the reference too, with its fields and methods."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
import typing
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from .pages import Entry, function, hidden, members, reference, shown

# What is shown has these in it, and nobody looks there: other rooms do.
INSIDE = {
    "Sum": "what `sum` returns, which `top(by=...)` keeps",
    "ExactQuery": "what an engine computes for a plan",
    "Query": "what a question asks, for plans; `Question` and `explain` tell it",
    "Requirements": "of which numbers outputs are made, for noise; `explain` tells it",
    "PlannedDiagnostics": "what diagnostics add to a plan; `Diagnostics` tells it",
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
    "PostProcessing": "the SELECT around the private one of a SQL text",
    "GroupingSets": "the sets of keys of a SQL text",
    "Largest": "the LIMIT of a SQL text",
    "NotSelected": "a key that a SQL text leaves out, for the error",
}


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
        for name, annotation in inspect.get_annotations(one).items():
            found |= classes(annotation, one.__module__) if name in described else set()
    return found


def returned(function: Any) -> set[type]:
    """Return the classes in what a function returns."""
    if not inspect.isfunction(function):
        return set()
    return classes(function.__annotations__.get("return"), function.__module__)


def unlisted(entries: Iterable[Entry]) -> dict[type, set[str]]:
    """Return the classes that have no entry, of what is shown and what it returns or has in a field; and where.

    Args:
        entries: as pages show them.
    """
    there, given = set[Any](), defaultdict[type, set[str]](set)
    for entry in entries:
        there.add(entry.value)
        if not isinstance(entry.value, type):
            found = {entry.name: returned(entry.value)}
        else:
            shown_beside = members(entry.value, entry.options)
            found = {f"{entry.name}.{member}": returned(function(one)) for member, one in shown_beside}
            found[entry.name] = held_by(entry.value, entry.options)
        for where, kinds in found.items():
            for kind in kinds:
                given[kind].add(where)
    return {kind: where for kind, where in given.items() if kind not in there}


@pytest.mark.long  # it imports Beam and all else
def test_what_is_returned_can_be_looked_up(pages: dict[str, str]) -> None:
    found = unlisted(shown(pages.values()))
    assert not {kind: where for kind, where in found.items() if kind.__name__ not in INSIDE}
    assert {kind.__name__ for kind in found} == {*INSIDE}, "nothing has it any more"
