"""Which table a query reads, and what its steps keep and derive, as plain data that two equal queries share.

A table is known by its name and columns, never by what is private in it. Derived columns are written out,
in one spelling, so that their names, spaces, the case of names and the order of filters make no difference.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import duckdb

from sfumato.dataclass import dataclass
from sfumato.dialect.syntax_tree import (
    Node,
    NotSql,
    column_node,
    descendants,
    parse_expressions,
    slots,
    write_sql,
)
from sfumato.query.schema import Derive, Filter, Step
from sfumato.query.tables.combined_tables import Combination, PerUnit, Reached, all_parts
from sfumato.release.canonical_form import plain
from sfumato.sql_text import same_name

_TRY = "OPERATOR_TRY"


@dataclass(frozen=True)
class Inlined:
    """Filters and columns of a query's steps with derived columns written out.

    Args:
        filters: conditions that all hold of the rows that are kept, sorted, each once.
        columns: SQL of each column, in columns of the source alone.
    """

    filters: tuple[str, ...]
    columns: Mapping[str, str]


def inline_columns(steps: Sequence[Step], names: Iterable[str]) -> Inlined | None:
    """Return a query's steps with derived columns written out, in one spelling.

    Args:
        steps: filters and derived columns.
        names: the columns of the source.
    Returns:
        None where they are nested too deep, or a field is taken of a derived column.
    """
    with suppress(RecursionError, NotSql, duckdb.Error, _Unfit):
        return _inline(tuple(steps), tuple(names))
    return None


@lru_cache(maxsize=64)  # a question says several times what it is, and the next one is often like it
def _inline(steps: tuple[Step, ...], names: tuple[str, ...]) -> Inlined:
    known: dict[str, tuple[str, Node]] = {same_name(name): (name, column_node(name)) for name in names}
    filters: set[str] = set()
    for step in steps:
        (tree,) = parse_expressions(f"SELECT (\n{step.expression}\n)")
        tree = _over(tree, {name: found for name, (_, found) in known.items()})
        if isinstance(step, Filter):
            filters |= {write_sql(part) for part in _parts(tree)}
        else:
            known[same_name(step.name)] = step.name, _derived_tree(step, tree)
    columns = {name: write_sql(_bare(tree)) for name, tree in known.values()}
    return Inlined(tuple(sorted(filters)), MappingProxyType(columns))


def normalize_expression(text: str) -> str:
    """Return a SQL expression in the parser's spelling; unchanged where the parser reads none."""
    with suppress(RecursionError, NotSql, duckdb.Error):
        return ", ".join(write_sql(tree) for tree in parse_expressions(f"SELECT (\n{text}\n)"))
    return text


class _Unfit(Exception):
    """A field of a derived column, which cannot be written out."""


def _derived_tree(step: Derive, tree: Node) -> Node:
    """Return a derived column's tree as other steps see it: with TRY around."""
    if tree["class"] == "COLUMN_REF" or tree["type"] == _TRY:
        return tree
    node = column_node(step.name) | {"class": "OPERATOR", "type": _TRY, "children": [tree]}
    del node["column_names"]
    return node


def _bare(tree: Node) -> Node:
    """Return a derived column's tree without TRY around."""
    bare: Node = tree["children"][0] if tree["type"] == _TRY else tree
    return bare


def _parts(tree: Node) -> list[Node]:
    """Return the conditions that AND joins in a filter."""
    found, waiting = [], [tree]
    while waiting:
        one = waiting.pop()
        if one["type"] == "CONJUNCTION_AND":
            waiting += one["children"]
        else:
            found.append(one)
    return found


def _over(tree: Node, known: Mapping[str, Node]) -> Node:
    """Return a step's tree in terms of the source's columns."""
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


# A file of a database, in a name such as shop.duckdb/visits.
_DATABASE = re.compile(r"\.(duckdb|ddb|db|sqlite|sqlite3|db3)$", re.IGNORECASE)


def digest_address(source: Any, types: object, multiline: bool, encoding: str | None) -> str | None:
    """Return a digest of where a source is and how it is read; None for rows in memory."""
    if not isinstance(source, str | os.PathLike):
        return None
    place = os.path.expanduser(os.fspath(source))  # to each user a home of their own
    remote = "://" in place and not place.lower().startswith(("sqlite", "file"))
    told = [place, "" if remote or os.path.isabs(place) else os.getcwd(), repr(types), multiline, encoding]
    return hashlib.sha256(repr(told).encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Origin:
    """The identity of the table that a query reads: names, columns and how rows are made.

    Args:
        name: of the source, as the user gave it.
        files: that are read.
        columns: names and types.
        title: what a catalog calls the table.
        how: of which tables the rows are made, if they are.
        parts, timezone: of what the privacy unit is made, if it is, and where that reads times.
        made_up: how rows were made up, of dummy tables.
        address: a digest of where it is and how it is read, from wherever; None of rows in memory.
        rows_digest: of public rows in memory, which nothing else tells from others; None of all others.
    """

    name: str
    files: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    title: str | None = None
    how: Combination | Reached | None = None
    parts: tuple[str, ...] = ()
    timezone: str | None = None
    made_up: tuple[tuple[str, int], ...] = ()
    address: str | None = None
    rows_digest: Callable[[], str] | None = field(default=None, compare=False)

    def content(self, steps: Sequence[Step]) -> dict[str, Any]:
        """Return the table, its filters and the SQL of each column, as plain data for the canonical form."""
        found = inline_columns(steps, [name for name, _ in self.columns])
        table: dict[str, Any] = self._table()
        if self.parts:
            table |= {"unit_of": list(map(normalize_expression, self.parts)), "unit_timezone": self.timezone}
        if found is not None:
            return {"table": table, "where": list(found.filters), "columns": dict(found.columns)}
        told = [[s.name, s.expression] if isinstance(s, Derive) else s.expression for s in steps]
        known = {name: name for name, _ in self.columns} | {
            s.name: s.name for s in steps if isinstance(s, Derive)
        }
        return {"table": table, "where": [], "steps": told, "columns": known}

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """Digests of where the table's rows come from; None where some are in memory."""
        if self.how is None:
            return None if self.address is None else (self.address,)
        found = [getattr(part.engine, "addresses", None) for part in all_parts(self.how)]
        return None if None in found else tuple(address for each in found for address in each or ())

    @property
    def titles(self) -> tuple[str, ...]:
        """The catalog's names of the tables that rows come from; none where one is of no catalog."""
        if self.title is not None or self.how is None:
            return () if self.title is None else (self.title,)
        found: list[tuple[str, ...]] = [getattr(part.engine, "titles", ()) for part in all_parts(self.how)]
        return tuple(dict.fromkeys(title for titles in found for title in titles)) if all(found) else ()

    def _table(self) -> dict[str, Any]:
        if self.how is not None:
            made: dict[str, Any] = plain(_normalize_combination(self.how))
            return made
        found: dict[str, Any] = {"name": self.title or self._path_name, "columns": dict(self.columns)}
        if self.rows_digest is not None:
            found["sha256"] = self.rows_digest()
        return found | ({"dummy": dict(self.made_up)} if self.made_up else {})

    @property
    def _path_name(self) -> str | None:
        """The last part of a source's path, without private folders; None for rows in memory."""
        if not re.search(r"[./\\]", self.name):
            return None
        *folders, last = re.split(r"[/\\]", self.name.rstrip("/"))
        database = folders[-1] if folders and (_DATABASE.search(folders[-1]) or "://" in self.name) else None
        return last if database is None else f"{database}/{last}"


def _normalize_combination(how: Combination | Reached) -> Combination | Reached:
    """Return a combination of tables with its SQL texts in one spelling."""
    if isinstance(how, PerUnit):
        return replace(
            how, aggregates=tuple((name, normalize_expression(text)) for name, text in how.aggregates)
        )
    return how
