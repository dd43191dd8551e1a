"""Steps with derived columns written out, in one spelling: what a question keeps of rows, and counts of them.

So that the names of derived columns, spaces, the case of names and the order of filters make no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from types import MappingProxyType

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.syntax_tree import Node, NotSql, column_node, descendants, parsed, slots, written
from sfumato.query.schema import Derive, Filter, Step
from sfumato.sql_text import same_name

_TRY = "OPERATOR_TRY"


@dataclass(frozen=True)
class Inlined:
    """What steps come to.

    Args:
        filters: conditions that all hold of the rows that are kept, sorted, each once.
        columns: SQL of each column, in columns of the source alone.
    """

    filters: tuple[str, ...]
    columns: Mapping[str, str]


def inlined(steps: Sequence[Step], names: Iterable[str]) -> Inlined | None:
    """Return steps, which were judged before, with derived columns written out.

    Args:
        steps: filters and derived columns.
        names: the columns of the source.
    Returns:
        None where they are nested too deep, or a field is taken of a derived column.
    """
    with suppress(RecursionError, NotSql, duckdb.Error, _Unfit):
        return _inlined(tuple(steps), tuple(names))
    return None


@lru_cache(maxsize=64)  # a question says several times what it is, and the next one is often like it
def _inlined(steps: tuple[Step, ...], names: tuple[str, ...]) -> Inlined:
    known: dict[str, tuple[str, Node]] = {same_name(name): (name, column_node(name)) for name in names}
    filters: set[str] = set()
    for step in steps:
        (tree,) = parsed(f"SELECT (\n{step.expression}\n)")
        tree = _over(tree, {name: found for name, (_, found) in known.items()})
        if isinstance(step, Filter):
            filters |= {written(part) for part in _parts(tree)}
        else:
            known[same_name(step.name)] = step.name, _derived(step, tree)
    columns = {name: written(_bare(tree)) for name, tree in known.values()}
    return Inlined(tuple(sorted(filters)), MappingProxyType(columns))


def spelled_once(text: str) -> str:
    """Return SQL of one expression in the parser's spelling; as it is, where the parser reads none."""
    with suppress(RecursionError, NotSql, duckdb.Error):
        return ", ".join(written(tree) for tree in parsed(f"SELECT (\n{text}\n)"))
    return text


class _Unfit(Exception):
    """A field of a derived column, which has no name to write it behind."""


def _derived(step: Derive, tree: Node) -> Node:
    """Return a derived column as others see it: an error of its own is NULL there."""
    if tree["class"] == "COLUMN_REF" or tree["type"] == _TRY:
        return tree
    node = column_node(step.name) | {"class": "OPERATOR", "type": _TRY, "children": [tree]}
    del node["column_names"]
    return node


def _bare(tree: Node) -> Node:
    """Return a column's expression without what stands around it for others."""
    bare: Node = tree["children"][0] if tree["type"] == _TRY else tree
    return bare


def _parts(tree: Node) -> list[Node]:
    """Return the conditions that AND puts together."""
    found, waiting = [], [tree]
    while waiting:
        one = waiting.pop()
        if one["type"] == "CONJUNCTION_AND":
            waiting += one["children"]
        else:
            found.append(one)
    return found


def _over(tree: Node, known: Mapping[str, Node]) -> Node:
    """Return a tree with columns in terms of the source's."""
    holder = {"child": deepcopy(tree)}
    places: list[tuple[dict[str, Node], str]] = [(holder, "child")]
    places += [place for node in list(descendants(holder["child"])) for place in slots(node)]
    for container, place in places:
        if container[place]["class"] == "COLUMN_REF":
            container[place] = _named(container[place], known)
    return holder["child"]


def _named(node: Node, known: Mapping[str, Node]) -> Node:
    name, *fields = node["column_names"]
    found = known[same_name(name)]
    if not fields:
        return found
    if found["class"] != "COLUMN_REF":
        raise _Unfit
    return {**found, "column_names": [*found["column_names"], *fields]}
