"""The FROM clause: its tables, subqueries, WITH tables and joins on equal columns; opens and joins them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace

from sfumato.dataclass import dataclass
from sfumato.dialect.keywords import refusals
from sfumato.dialect.sql_tokens import Place, refusal
from sfumato.dialect.syntax_tree import Node, get_byte_offset, in_scope, made
from sfumato.errors import ColumnError, QueryError, SqlError
from sfumato.query.tables.combined_tables import JoinKind

MAX_DEPTH = 30  # SELECTs in SELECTs


@dataclass(frozen=True)
class Written:
    """SQL text, and the places in it from which a syntax tree's bytes come."""

    text: str
    place: Callable[[int], Place]

    def refuse(self, node: Node | None, message: str) -> SqlError:
        """Make a SqlError that marks where a node of the FROM clause or subquery begins."""
        return refusal(self.text, self.place(get_byte_offset(node or {})), message)


@dataclass(frozen=True, eq=False)
class Query:
    """A subquery in a FROM clause: a SELECT, or several with UNION ALL.

    Args:
        name: what it is called, for messages.
        node: DuckDB's tree.
        names: the WITH tables that it may read.
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
        """The first node of the subquery that has a place, for messages."""
        listed = self.node.get("select_list") or self.node.get("children") or [None]
        node = listed[0]
        return Query("", node, self.names).first if node and "class" not in node else node

    def refuse(self, node: Node | None, message: str) -> SqlError:
        """Make a SqlError that marks a node of the subquery."""
        return self.names.written.refuse(node, message)


Source = str | Query


@dataclass(frozen=True)
class CommonTables:
    """The WITH tables (common table expressions) that a FROM clause may name, innermost first."""

    written: Written
    enclosing: CommonTables | None = None
    known: dict[str, tuple[int, Query]] = field(default_factory=dict, repr=False)
    most: int = 0

    def find(self, name: str) -> Query | None:
        """Return the WITH table of this name; None where FROM names a real table."""
        names: CommonTables | None = self
        while names is not None:
            number, query = names.known.get(name.casefold(), (names.most, None))
            if number < names.most:
                return query
            names = names.enclosing
        return None

    def within(self, node: Node) -> CommonTables:
        """Return the WITH tables that are visible inside a query, with those of its own WITH clause."""
        return self.after([(cte["key"], cte["value"]) for cte in node["cte_map"]["map"]])

    def after(self, tables: list[tuple[str, Node]]) -> CommonTables:
        """Return the WITH tables that are visible behind a WITH clause."""
        if not tables:
            return self
        known: dict[str, tuple[int, Query]] = {}
        for i, (name, value) in enumerate(tables):
            here = CommonTables(self.written, self, known, i)
            known[name.casefold()] = i, Query(name, value["query_node"], here, tuple(value["aliases"]))
        return CommonTables(self.written, self, known, len(tables))


def iter_tables(node: Node, names: CommonTables) -> Iterator[tuple[Node, Source]]:
    """Yield the tables that FROM clauses at any depth of a query read, without its own WITH tables."""
    for one, scope in in_scope(node):
        if "RECURSIVE" in str(one.get("type")):
            raise names.written.refuse(None, "WITH RECURSIVE is not supported. Leave RECURSIVE out")
        if one.get("type") == "BASE_TABLE" and "class" not in one:
            path = one["qualified_name"]["path"]
            if len(path) > 1 or not scope[path[0].casefold()] > 0:
                found = names.find(path[0]) if len(path) == 1 else None
                yield one, found or ".".join(path)


_KINDS: dict[str, JoinKind] = {
    "INNER": "inner",
    "LEFT": "left",
    "SEMI": "inner",
    "ANTI": "left",
    "NATURAL": "inner",
    "CROSS": "inner",
}
_NO_TABLE = "name a file or a table here: FROM 'file.parquet' or FROM table"
_MAX_JOINS = 50
# A name that ends so is a path, and no name for columns.
_FILES = ("parquet", "pq", "csv", "tsv", "json", "jsonl", "ndjson", "gz", "zst", "duckdb", "db", "ddb")


class NotJoined(Exception):
    """A FROM clause of a form that is not supported; the text says what to write instead."""


@dataclass(frozen=True)
class Reference:
    """A column in a join condition, perhaps qualified by its table."""

    table: str | None
    column: str


@dataclass(frozen=True)
class Joined:
    """A table that a FROM clause joins.

    Args:
        source, alias: its path or name, or a SELECT; and what its columns may be qualified with.
        how: "inner" or "left".
        on: pairs of columns that are equal.
        using: columns that are equal and have one name.
        natural: whether these are all that have one name.
        where: for a join without a condition, pairs of columns that are equal in WHERE; some may be of
            other tables.
        matching: whether it only keeps rows that match ("inner") or match none ("left"), and adds no columns.
    """

    source: Source
    alias: str | None
    how: JoinKind
    on: tuple[tuple[Reference, Reference], ...]
    using: tuple[str, ...]
    natural: bool = False
    where: tuple[tuple[Reference, Reference], ...] | None = None
    matching: bool = False

    def shared(self, columns: Mapping[str, str], before: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the columns that have one name in both tables and are compared.

        Args:
            columns: this table's columns, by name in lower case.
            before: whether a table before it has a column.
        Raises:
            QueryError: a natural join has none.
        """
        shared = tuple(name for name in columns.values() if before(name)) if self.natural else self.using
        if self.natural and not shared:
            raise QueryError(f"NATURAL JOIN: {str(self.source)!r} has no column in common. Write JOIN ... ON")
        return shared

    def pairs(
        self, columns: Mapping[str, str], before: Callable[[str], bool], earlier: Callable[[Reference], str]
    ) -> list[tuple[str, str]]:
        """Return the pairs of columns that the join in FROM compares, those of tables before it first.

        Args:
            columns: this table's columns, by name in lower case.
            before: whether a table before it has a column.
            earlier: gives the column of those tables that a condition names.
        Raises:
            QueryError: a condition does not compare columns of both.
        """
        found = [
            (earlier(Reference(None, name)), self._find_joined_column(name, columns))
            for name in self.shared(columns, before)
        ]
        for pair in self.on:
            mine, rest = self.split_condition(pair, columns, before)
            found.append((earlier(rest), self._find_joined_column(mine.column, columns)))
        for pair in self.where or ():
            with suppress(QueryError):
                mine, rest = self.split_condition(pair, columns, before)
                found.append((earlier(rest), self._find_joined_column(mine.column, columns)))
        return list(dict.fromkeys(found))

    def _find_joined_column(self, name: str, columns: Mapping[str, str]) -> str:
        """Return the joined table's column of this name in FROM, in any case."""
        if name.casefold() not in columns:
            raise ColumnError._unknown(name, columns.values(), str(self.source))
        return columns[name.casefold()]

    def split_condition(
        self, pair: tuple[Reference, Reference], columns: Collection[str], before: Callable[[str], bool]
    ) -> tuple[Reference, Reference]:
        """Return the two columns of a join condition in FROM, this table's column first.

        Args:
            pair: the two.
            columns: this table's columns, in lower case.
            before: whether a table before it has a column.
        Raises:
            QueryError: both are of this table, or none is, or that is not clear.
        """
        mine = [self._has(reference, columns, before) for reference in pair]
        if mine[0] == mine[1]:
            raise QueryError(
                f"ON compares {pair[0].column} with {pair[1].column}, but must compare a column "
                f"of {str(self.source)!r} with one of a table before it. Write the table's name "
                "before each column, as in o.town = t.town"
            )
        return pair if mine[0] else (pair[1], pair[0])

    def _has(self, reference: Reference, columns: Collection[str], before: Callable[[str], bool]) -> bool:
        """Whether a column of a join condition belongs to this table."""
        if reference.table is not None:
            return reference.table.casefold() == (self.alias or "").casefold()
        inside = reference.column.casefold() in columns
        if inside and before(reference.column):
            raise QueryError(
                f"ON: several tables have a column {reference.column!r}. Write the table's name before it"
            )
        return inside


@dataclass(frozen=True)
class From:
    """A parsed FROM clause: the first table, and the tables that are joined with it."""

    source: Source
    alias: str | None
    joined: tuple[Joined, ...] = ()

    @property
    def swapped(self) -> From:
        """The FROM clause with its first two tables swapped, which an inner join allows; else itself.

        It is itself where there is no second table, or that is joined in another way.
        """
        if not self.joined or self.joined[0].how != "inner" or self.joined[0].matching:
            return self
        second, *others = self.joined
        first = replace(second, source=self.source, alias=self.alias)
        return From(second.source, second.alias, (first, *others))

    def private_first(self, public: Collection[str]) -> From:
        """Return the FROM clause with a private table first, where an inner join allows the swap.

        Args:
            public: the names of public tables.
        """
        names = set(map(str.casefold, public))
        known = [isinstance(s, str) and s.casefold() in names for s in (self.source, self.swapped.source)]
        return self.swapped if known == [True, False] else self

    @property
    def compared(self) -> set[str]:
        """The columns of joined tables that conditions in the FROM clause name, by qualified name."""
        aliases = self.aliases
        references = (reference for one in self.joined for pair in one.on for reference in pair)
        return {self.name(r) for r in references if (r.table or "").casefold() in aliases}

    def name(self, reference: Reference) -> str:
        """Return the name that a column of the FROM clause has after its tables are joined.

        Raises:
            QueryError: no table has such a name.
        """
        if reference.table is None or reference.table.casefold() == (self.alias or "").casefold():
            return reference.column
        if reference.table.casefold() not in self.aliases:
            raise QueryError(
                f"ON names {reference.table}.{reference.column}, but there is no table {reference.table}"
            )
        return qualify_name(self.aliases[reference.table.casefold()], reference.column)

    @property
    def aliases(self) -> dict[str, str]:
        """The aliases of tables that the FROM clause joins, by their lower-case form."""
        return {one.alias.casefold(): one.alias for one in self.joined if one.alias}


def read_from(node: Node, names: CommonTables, where: Node | None = None) -> From:
    """Return the FROM clause that a syntax tree holds: tables, subqueries and joins.

    Args:
        node: the tree.
        names: the WITH tables that are visible there.
        where: the tree of WHERE, which says what joins without a condition compare.
    Raises:
        NotJoined: it is neither a table nor tables that are joined on equal columns.
    """
    joins: list[Joined] = []
    equal = tuple(pair for part in conjuncts(where) if (pair := _pair(part)) is not None)
    while node["type"] == "JOIN":
        kind = node["join_type"]
        how = kind if node["ref_type"] == "REGULAR" else node["ref_type"]
        if how not in _KINDS:
            raise NotJoined(
                refusals("joins").get(how, "only JOIN and LEFT JOIN, with ON or USING, are supported")
            )
        if len(joins) == _MAX_JOINS:
            raise NotJoined(f"at most {_MAX_JOINS} tables can be joined")
        source, alias = _named(node["right"], names)
        on, using = tuple(_equal(node["condition"])), tuple(node["using_columns"])
        joins.append(
            Joined(
                source,
                alias,
                _KINDS[how],
                on,
                using,
                natural=how == "NATURAL",
                where=equal if how == "CROSS" else None,
                matching=how in ("SEMI", "ANTI"),
            )
        )
        node = node["left"]
    found = From(*_named(node, names), tuple(reversed(joins)))
    aliases = [name.casefold() for name in (found.alias, *(one.alias for one in joins)) if name]
    if len(set(aliases)) < len(aliases):
        raise NotJoined("two tables have the same name. Give each its own: FROM orders AS o JOIN orders AS p")
    return found


def _named(node: Node, names: CommonTables) -> tuple[Source, str | None]:
    """Return a table or subquery of the FROM clause and its alias."""
    alias, columns = node["alias"] or None, tuple(node.get("column_name_alias") or ())
    if node["type"] == "SUBQUERY" and not node.get("sample"):
        return Query(alias or "a SELECT in FROM", node["subquery"]["node"], names, columns), alias
    odd = ("sample", "at_clause")
    if node["type"] != "BASE_TABLE" or any(node.get(name) for name in odd):
        raise NotJoined(refusals("tables").get(node["type"], _NO_TABLE))
    path = node["qualified_name"]["path"]
    found = names.find(path[0]) if len(path) == 1 else None
    if found is not None:
        query = replace(found, columns=columns) if columns else found
        if columns and found.columns:
            raise NotJoined(f"{path[0]} has names for its columns in WITH. Leave the names out here")
        return query, alias or path[0]
    if columns:
        raise NotJoined(
            "column names after a table's name are not supported. Write (SELECT a AS x, ... FROM table) AS t"
        )
    source = ".".join(path)
    *_, last = source.rsplit(".", 1)
    is_file = "/" in source or last.lower() in _FILES
    return source, alias or (None if is_file else last)


def conjuncts(condition: Node | None) -> list[Node]:
    """Return the conditions between the ANDs of a condition."""
    if condition is None or condition["type"] != "CONJUNCTION_AND":
        return [] if condition is None else [condition]
    return [part for child in condition["children"] for part in conjuncts(child)]


def _pair(part: Node) -> tuple[Reference, Reference] | None:
    """Return the two columns that a condition in FROM or WHERE compares with =; None for others."""
    sides = [part.get(side) or {} for side in ("left", "right")]
    if part["type"] != "COMPARE_EQUAL" or any(one.get("class") != "COLUMN_REF" for one in sides):
        return None
    if any(len(one["column_names"]) > 2 for one in sides):
        return None
    first, second = map(_reference, sides)
    return first, second


def _may_join(pair: tuple[Reference, Reference] | None) -> bool:
    """Whether a comparison in ON may be of columns of two tables."""
    return pair is not None and (pair[0].table is None or pair[0].table != pair[1].table)


def _equal(condition: Node | None) -> Iterator[tuple[Reference, Reference]]:
    """Yield the pairs of columns that a join in the FROM clause compares, all with =."""
    for part in conjuncts(condition):
        pair = _pair(part)
        if pair is None:
            raise NotJoined(
                "ON must be equal columns combined with AND, such as ON o.town = t.town. In a join that is "
                "not inner, write other conditions in the joined table: (SELECT ... FROM t WHERE ...) AS t"
            )
        yield pair


def conditions_moved(select: Node) -> Node:
    """Return a SELECT whose inner joins compare columns alone, with their other conditions in WHERE."""
    moved: list[Node] = []

    def plain(node: Node) -> Node:
        if node["type"] != "JOIN":
            return node
        node = node | {"left": plain(node["left"])}
        if (node["join_type"], node["ref_type"]) != ("INNER", "REGULAR") or node["using_columns"]:
            return node
        parts = conjuncts(node["condition"])
        equal = [part for part in parts if _may_join(_pair(part))]
        moved.extend(part for part in parts if part not in equal)
        return node | {"condition": conjunction(equal), "ref_type": "REGULAR" if equal else "CROSS"}

    table = plain(select["from_table"])
    where = [] if select["where_clause"] is None else [select["where_clause"]]
    return select | {"from_table": table, "where_clause": conjunction([*where, *moved])} if moved else select


def conjunction(conditions: Sequence[Node]) -> Node | None:
    """Return the conjunction of conditions."""
    if len(conditions) < 2:
        return next(iter(conditions), None)
    return made(" AND ".join(f"_{i}" for i in range(len(conditions))), *conditions)


def _reference(node: Node) -> Reference:
    """Return the column that a node of a join condition names."""
    *table, column = node["column_names"]
    if len(table) > 1:
        raise NotJoined("ON must name a column as table.column, not a field of one")
    return Reference(table[0] if table else None, column)


def qualify_name(alias: str, column: str) -> str:
    """Return the qualified name that a joined table's column has in the joined table.

    >>> qualify_name("c", "age")
    'c.age'
    """
    return f"{alias}.{column}"
