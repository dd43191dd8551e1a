"""Examples of the reference: each method is called in one, and whoever copies one has the names that it uses."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator

import pytest

from .pages import PROMPT, Entry, shown


def example(docstring: str | None) -> ast.Module:
    """Return the program that the examples of a docstring are."""
    parts = doctest.DocTestParser().get_examples(docstring or "")
    return ast.parse("".join(part.source for part in parts))


def called(docstring: str | None) -> set[str]:
    """Return the methods that the examples of a docstring call, by their names."""
    calls = (node.func for node in ast.walk(example(docstring)) if isinstance(node, ast.Call))
    return {function.attr for function in calls if isinstance(function, ast.Attribute)}


def without_their_own(entries: Iterator[Entry]) -> set[str]:
    """Return the methods that no example calls, and the aggregations of Beam that have none of their own.

    The example of a method is its own, or its class's; or that of a class above, whose method it replaces:
    a release of another kind is looked at in the same way.
    """
    found = set()
    for entry in entries:
        if entry.owner is not None:
            name = entry.value.__name__
            told = [kind.__doc__ for kind in entry.owner.__mro__ if kind is not object]
            told += [getattr(vars(kind).get(name), "__doc__", None) for kind in entry.owner.__mro__]
            lacks = not any(name in called(one) for one in told)
        else:
            kinds = entry.value.__mro__ if isinstance(entry.value, type) else ()
            lacks = "Aggregation" in [kind.__name__ for kind in kinds] and PROMPT not in (
                entry.value.__doc__ or ""
            )
        if lacks:
            found.add(entry.name)
    return found


@pytest.mark.long  # it imports Beam and all else
def test_each_method_has_an_example_that_calls_it(pages: dict[str, str]) -> None:
    assert without_their_own(shown(pages.values())) == set()
