"""Foreign names, of other libraries, and what to write instead: `foreign_names.toml`, read on first use."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

# Aggregates of one column with bounds, of which the name tells the call.
_OF_A_COLUMN = ("sum", "mean", "median", "variance", "stddev", "min", "max")


@cache
def _read() -> dict[str, Any]:
    """Return the contents of `foreign_names.toml`."""
    return tomllib.loads(Path(__file__).with_name("foreign_names.toml").read_text(encoding="utf-8"))


class Advice(Mapping[str, str]):
    """Advice on foreign names, computed on first use. The name "" stands for all others.

    Args:
        make: gives the advice.

    >>> both = Advice(lambda: {"avg": "write mean"}) | {"std": "write stddev"}
    >>> both.get("avg"), both.get("std"), both.get("sum")
    ('write mean', 'write stddev', None)
    """

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._make = make

    @cached_property
    def _entries(self) -> Mapping[str, str]:
        return self._make()

    def __getitem__(self, name: str) -> str:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __or__(self, other: Mapping[str, str]) -> Advice:
        return Advice(lambda: {**self, **other})


def section(title: str, within: str = "") -> Advice:
    """Return the advice of one section of `foreign_names.toml`; a line there holds several names.

    Args:
        title: of the section; one that is not there has no advice.
        within: the section that it is part of.
    """

    def make() -> dict[str, str]:
        lines = (_read()[within] if within else _read()).get(title, {})
        return {name: advice for advice, names in lines.items() for name in names.split() or [""]}

    return Advice(make)


def example(aggregate: str) -> str:
    """Return an example call of a Python aggregate, for advice on a foreign name.

    >>> example("mean")
    'sf.mean("age", lower=0, upper=100)'
    """
    call = _read()["examples"].get(aggregate) or f'{aggregate}("age", lower=0, upper=100)'
    return f"sf.{call}"


def sql_example(aggregate: str) -> str:
    """Return an example call of a SQL aggregate, for advice on a foreign name.

    >>> sql_example("AVG")
    'AVG(x, contribution_bounds_per_row => (0, 100))'
    """
    default = f"{aggregate}(x, contribution_bounds_per_row => (0, 100))"
    return str(_read()["sql_examples"].get(aggregate, default))


def examples() -> dict[str, str]:
    """Return an example call of each Python aggregate, by name."""
    return {name: example(name) for name in (*_read()["examples"], *_OF_A_COLUMN)}


def _method_advice() -> dict[str, str]:
    """Return the advice on foreign aggregates that are called as methods of a table."""
    calls = examples()
    called = {**AGGREGATES, **{name: name for name in calls}}
    return {
        name: f"write bound(groups=1, rows=1).agg(x={calls[ours]}).release(epsilon=1)"
        for name, ours in called.items()
    }


AGGREGATES, NO_AGGREGATES = section("aggregates"), section("no_aggregates")
MODULE = (
    Advice(lambda: {name: f"write {example(ours)}" for name, ours in AGGREGATES.items()})
    | NO_AGGREGATES
    | section("module")
)
TABLE, QUESTION, RELEASE = section("table"), section("question"), section("release")
BUDGET, AGGREGATE = section("budget"), section("aggregate")
# Aggregates that are asked of a table as of a frame.
ASKED = NO_AGGREGATES | Advice(_method_advice)
INDEXED = (
    'a private table cannot be indexed or iterated. Choose rows with filter("age >= 25"), and '
    'summarize a column with agg(m=sf.mean("age", lower=0, upper=100))'
)
# Names of arguments: what they are here; and those that belong elsewhere, or nowhere.
ARGUMENTS, ELSEWHERE = section("arguments"), section("elsewhere")
OF_RELEASE = ("epsilon", "delta", "noise", "budget", "share", "group_selection", "diagnostics")
# Functions of columns, of which one is made where it is used elsewhere.
NAMED_FIRST = {
    "group_by": 'name the expression first, with_columns(decade="age // 10"), and group by "decade"'
}
# How a function is called: an example where it has one.
FORMS = Advice(lambda: {**examples(), **_read()["forms"]})
COMMAND_LINE = section("command_line")
