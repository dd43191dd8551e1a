"""GROUP BY inside: rows of one unit with the same keys become one row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.dialect.inside.queries import Query
from sfumato.dialect.inside.trees import column_node, fresh, is_aggregate, parts, rewritten, shape
from sfumato.dialect.tree import Node, written
from sfumato.query.local import distinct_keys
from sfumato.query.schema import spelled
from sfumato.query.table import Table


@dataclass
class Item:
    """An entry of the SELECT list: its name, as it is written, and over the columns of FROM."""

    name: str
    node: Node
    tree: Node


def group_keys(query: Query, items: Sequence[Item], plain: Callable[[Node], Node]) -> list[tuple[Node, Node]]:
    """Return what a SELECT groups by: as it is written, and over the columns of FROM.

    Args:
        query: the SELECT.
        items: its list.
        plain: gives an expression over the columns of FROM.
    Raises:
        SqlError: a position is none of the list.
    """
    if query.node["aggregate_handling"] == "FORCE_AGGREGATES":  # GROUP BY ALL
        alone = [one for one in items if not any(is_aggregate(part) for part in parts(one.tree))]
        return [(one.node, one.tree) for one in alone]
    found: list[tuple[Node, Node]] = []
    for node in query.node["group_expressions"]:
        number = node["literal"]["text"] if node["class"] == "CONSTANT" else ""
        if number.isdigit() and node["literal"]["kind"] == "INTEGER":
            if not 1 <= int(number[:9]) <= len(items):
                raise query.refuse(node, f"GROUP BY {number}: the SELECT list has {len(items)} entries")
            found.append((node, items[int(number) - 1].tree))
        else:
            found.append((node, plain(node)))
    return found


class Grouped:
    """A table that is grouped: its aggregates are collected, then it is made.

    Args:
        query: the SELECT, for messages.
        table: its rows.
        keys: what it groups by, as written, and over the table's columns.
        by: the columns of the keys.
        values: columns that are the same in all rows.
    Raises:
        SqlError: the privacy unit is no key.
    """

    def __init__(
        self,
        query: Query,
        table: Table[Any],
        keys: Sequence[tuple[Node, Node]],
        by: Sequence[str],
        values: Collection[str],
    ) -> None:
        self.query = query
        self.table = table
        self.by: list[str] = list(dict.fromkeys(by))
        if table.unit not in by:
            where = keys[0][0] if keys else query.first
            raise query.refuse(
                where,
                "rows of several units would become one row: add the privacy unit, GROUP BY "
                + spelled(table.unit)
                + "".join(f", {name}" for name in by[:3]),
            )
        self.named: dict[str, str] = {shape(tree): name for (_, tree), name in zip(keys, by, strict=True)}
        self.kinds: set[tuple[str, str]] = {(tree["class"], tree["type"]) for _, tree in keys}
        self.asked: dict[str, tuple[str, Node]] = {}
        self.names: set[str] = {name.casefold() for name in (*by, *values)}
        self.values = values
        self.constant: set[str] = set[str]()

    def rewritten(self, tree: Node, name: str) -> Node:
        """Return an expression over the keys and aggregates; `name` is that of its aggregate, if it is free.

        Raises:
            SqlError: it reads a column of single rows.
        """

        def change(one: Node) -> Node | None:
            if (one["class"], one["type"]) in self.kinds and (key := self.named.get(shape(one))) is not None:
                return column_node(key)
            if is_aggregate(one):
                if any(is_aggregate(p) or p["class"] == "WINDOW" for p in parts(one) if p is not one):
                    message = "an aggregate in an aggregate: write the inner one in a SELECT inside"
                    raise self.query.refuse(one, message)
                key = shape(one)
                if key not in self.asked:
                    self.asked[key] = fresh(name, self.names), one
                return column_node(self.asked[key][0])
            if one["class"] == "COLUMN_REF" and one["column_names"][0] in self.table.schema:
                column = one["column_names"][0]
                if column in self.values:
                    self.constant.add(column)
                    return one
                message = f"{column} is neither in GROUP BY nor in an aggregate; add it to one"
                raise self.query.refuse(one, message)
            return None

        return rewritten(tree, change)

    def result(self) -> Table[Any]:
        """Return the table of one row for each unit and keys."""
        aggregates = {name: written(node) for name, node in self.asked.values()}
        others = [name for name in self.by if name != self.table.unit]
        return self.table.per_unit(*others, **aggregates) if aggregates else distinct_keys(self.table, others)
