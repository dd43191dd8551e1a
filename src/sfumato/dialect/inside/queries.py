"""SELECTs inside a private one: their trees, the names that each knows, and where they stand in the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from sfumato.dataclass import dataclass
from sfumato.dialect.tree import Node, byte_of, in_scope
from sfumato.dialect.words import Place, refusal
from sfumato.errors import SqlError

DEEPEST = 30  # SELECTs in SELECTs


@dataclass(frozen=True)
class Written:
    """A text, and where in it the bytes of a tree come from."""

    text: str
    place: Callable[[int], Place]

    def refuse(self, node: Node | None, message: str) -> SqlError:
        """Make an error that marks what a node begins with."""
        return refusal(self.text, self.place(byte_of(node or {})), message)


@dataclass(frozen=True, eq=False)
class Query:
    """A SELECT, or several with UNION ALL, that stands where a table could.

    Args:
        name: what it is called, for messages.
        node: DuckDB's tree.
        names: the tables of WITH that it may read.
        columns: the names of its columns, where they are written behind its own.
    """

    name: str
    node: Node
    names: CommonTables
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def first(self) -> Node | None:
        """A node at its beginning, as near as the tree tells."""
        listed = self.node.get("select_list") or self.node.get("children") or [None]
        node = listed[0]
        return Query("", node, self.names).first if node and "class" not in node else node

    def refuse(self, node: Node | None, message: str) -> SqlError:
        """Make an error that marks the place of a node."""
        return self.names.written.refuse(node, message)


Source = str | Query


@dataclass(frozen=True)
class CommonTables:
    """The tables of WITH that are known at a place: of each WITH the first ones, and those around it."""

    written: Written
    around: CommonTables | None = None
    known: dict[str, tuple[int, Query]] = field(default_factory=dict, repr=False)
    most: int = 0

    def find(self, name: str) -> Query | None:
        """Return what a name stands for; None where it is a table of its own."""
        names: CommonTables | None = self
        while names is not None:
            number, query = names.known.get(name.casefold(), (names.most, None))
            if number < names.most:
                return query
            names = names.around
        return None

    def within(self, node: Node) -> CommonTables:
        """Return what is known inside of a query: also what its own WITH names, each those before it."""
        return self.after([(cte["key"], cte["value"]) for cte in node["cte_map"]["map"]])

    def after(self, tables: list[tuple[str, Node]]) -> CommonTables:
        """Return what is known behind WITH."""
        if not tables:
            return self
        known: dict[str, tuple[int, Query]] = {}
        for i, (name, value) in enumerate(tables):
            here = CommonTables(self.written, self, known, i)
            known[name.casefold()] = i, Query(name, value["query_node"], here, tuple(value["aliases"]))
        return CommonTables(self.written, self, known, len(tables))


def tables_of(node: Node, names: CommonTables) -> Iterator[tuple[Node, Source]]:
    """Yield what a tree reads at any depth and does not name itself: nodes of tables, and what they are."""
    for one, scope in in_scope(node):
        if "RECURSIVE" in str(one.get("type")):
            raise names.written.refuse(None, "WITH RECURSIVE: write it without")
        if one.get("type") == "BASE_TABLE" and "class" not in one:
            path = one["qualified_name"]["path"]
            if len(path) > 1 or not scope[path[0].casefold()] > 0:
                found = names.find(path[0]) if len(path) == 1 else None
                yield one, found or ".".join(path)
