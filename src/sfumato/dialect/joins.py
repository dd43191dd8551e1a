"""FROM with joins: which tables, and where their columns are equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sfumato.catalogs.declarations import Declarations, TableDeclaration
from sfumato.dialect.tree import Node
from sfumato.errors import ColumnError, QueryError
from sfumato.query.combining import JoinKind
from sfumato.query.table import PublicTable, Table

_KINDS: dict[str, JoinKind] = {"INNER": "inner", "LEFT": "left"}
_MOST = 50
# A name that ends so is a path, and no name for columns.
_FILES = ("parquet", "pq", "csv", "tsv", "json", "jsonl", "ndjson", "gz", "zst", "duckdb", "db", "ddb")


class NotJoined(Exception):
    """A FROM that has another form, with what to write instead."""


@dataclass(frozen=True)
class Reference:
    """A column as a condition names it: perhaps with its table's name before it."""

    table: str | None
    column: str


@dataclass(frozen=True)
class Joined:
    """A table behind JOIN.

    Args:
        source, alias: its path or name, and what its columns may be qualified with.
        how: "inner" or "left".
        on: pairs of columns that are equal.
        using: columns that are equal and have one name.
    """

    source: str
    alias: str | None
    how: JoinKind
    on: tuple[tuple[Reference, Reference], ...]
    using: tuple[str, ...]


@dataclass(frozen=True)
class From:
    """What stands behind FROM: the first table, and those that are joined with it, in order."""

    source: str
    alias: str | None
    joined: tuple[Joined, ...] = ()

    @property
    def compared(self) -> set[str]:
        """Columns of joined tables that conditions name, by their qualified names."""
        aliases = self.aliases
        references = (reference for one in self.joined for pair in one.on for reference in pair)
        return {self.name(r) for r in references if (r.table or "").casefold() in aliases}

    def name(self, reference: Reference) -> str:
        """Return the name that a column has once the tables are joined.

        Raises:
            QueryError: no table has such a name.
        """
        if reference.table is None or reference.table.casefold() == (self.alias or "").casefold():
            return reference.column
        if reference.table.casefold() not in self.aliases:
            raise QueryError(
                f"ON names {reference.table}.{reference.column}, but no table is {reference.table}"
            )
        return qualified(self.aliases[reference.table.casefold()], reference.column)

    @property
    def aliases(self) -> dict[str, str]:
        """The names that columns of joined tables are qualified with, by their form in lower case."""
        return {one.alias.casefold(): one.alias for one in self.joined if one.alias}


def read_from(node: Node) -> From:
    """Read DuckDB's tree of what stands behind FROM.

    Raises:
        NotJoined: it is neither a table nor tables with INNER or LEFT joins on equal columns.
    """
    joins: list[Joined] = []
    while node["type"] == "JOIN":
        kind = node["join_type"]
        if node["ref_type"] != "REGULAR" or kind not in _KINDS:
            raise NotJoined("tables are joined with JOIN or LEFT JOIN, and ON or USING, here")
        if len(joins) == _MOST:
            raise NotJoined(f"at most {_MOST} tables are joined")
        source, alias = _named(node["right"])
        joins.append(
            Joined(
                source, alias, _KINDS[kind], tuple(_equal(node["condition"])), tuple(node["using_columns"])
            )
        )
        node = node["left"]
    found = From(*_named(node), tuple(reversed(joins)))
    names = [name.casefold() for name in (found.alias, *(one.alias for one in joins)) if name]
    if len(set(names)) < len(names):
        raise NotJoined("two tables have one name; give each its own: FROM orders AS o JOIN orders AS p")
    return found


def _named(node: Node) -> tuple[str, str | None]:
    odd = ("sample", "column_name_alias", "at_clause")
    if node["type"] != "BASE_TABLE" or any(node.get(name) for name in odd):
        raise NotJoined("name a file or a table here: FROM 'file.parquet' or FROM table")
    source = ".".join(node["qualified_name"]["path"])
    *_, last = source.rsplit(".", 1)
    is_file = "/" in source or last.lower() in _FILES
    return source, node["alias"] or (None if is_file else last)


def _equal(condition: Node | None) -> Iterator[tuple[Reference, Reference]]:
    parts = [] if condition is None else [condition]
    while parts:
        part = parts.pop()
        if part["type"] == "CONJUNCTION_AND":
            parts.extend(reversed(part["children"]))
            continue
        sides = [part.get(side, part)["class"] for side in ("left", "right")]
        if part["type"] != "COMPARE_EQUAL" or sides != ["COLUMN_REF"] * 2:
            raise NotJoined(
                "ON has columns that are equal, with AND between: ON o.town = t.town; for JOIN another "
                "condition is the same in WHERE"
            )
        yield _reference(part["left"]), _reference(part["right"])


def _reference(node: Node) -> Reference:
    *table, column = node["column_names"]
    if len(table) > 1:
        raise NotJoined("ON names a column by table.column, and no part of one")
    return Reference(table[0] if table else None, column)


def qualified(alias: str, column: str) -> str:
    """Return the name that a joined table's column has beside all others.

    >>> qualified("c", "age")
    'c.age'
    """
    return f"{alias}.{column}"


def of_tables(source: From, catalog: Declarations) -> TableDeclaration:
    """Return what a catalog says of the tables of FROM, as of one: the first, with the columns of all.

    Raises:
        QueryError: there is no such table, or the first has no privacy unit of its own.
    """
    found = catalog.private(source.source)
    columns, groups, rows = list(found.columns), [found.max_groups], [found.max_rows]
    for one in source.joined:
        other = catalog.declaration(one.source)
        if not other.public:
            other = catalog.private(one.source)
            groups.append(other.max_groups)
            rows.append(other.max_rows)
        columns += other.columns
        if one.alias:
            columns += [replace(column, name=qualified(one.alias, column.name)) for column in other.columns]
    most = [min((limit for limit in limits if limit is not None), default=None) for limits in (groups, rows)]
    names = ", ".join([found.name, *(one.source for one in source.joined)])  # as messages say where
    return replace(found, name=names, columns=tuple(columns), max_groups=most[0], max_rows=most[1])


def opened(
    source: From,
    unit: str,
    named: Iterable[str],
    plain: Collection[str],
    open_table: Callable[[str, str], Any],
) -> Table[Any]:
    """Open the tables and join them.

    Args:
        source: what stands behind FROM.
        unit: the privacy unit's column in all private tables.
        named: columns of joined tables that are read by their qualified names.
        plain: columns that are read without a table's name, in lower case.
        open_table: gives a private or public table, from its source and the privacy unit's column.
    Raises:
        QueryError: columns are unknown, ambiguous or of several types, or no table is private.
    """
    table = open_table(source.source, unit)
    if not isinstance(table, Table):
        raise QueryError(
            f"FROM begins with {source.source!r}, a public table; begin with the private one, and JOIN this"
        )
    names, equal = {*named, *source.compared}, dict[str, str]()
    for one in source.joined:
        other = open_table(one.source, unit)
        table = _join(table, other, one, source, names, plain, equal)
    return table


def _join(
    table: Table[Any],
    other: Table[Any] | PublicTable,
    one: Joined,
    source: From,
    names: Collection[str],
    plain: Collection[str],
    equal: dict[str, str],
) -> Table[Any]:
    """Join one table more; `equal` has what inner joins made the same, by qualified name, as the unit is."""
    shared = {n.casefold() for n in other.schema} & {n.casefold() for n in table.schema}
    if both := sorted(shared & set(plain) - {table.unit.casefold(), *(n.casefold() for n in one.using)}):
        raise QueryError(
            f"the column {both[0]!r} is in several tables; write whose it is: {one.alias or 'name'}.{both[0]}"
        )
    pairs = [(_found(name, table, "FROM"), _found(name, other, one.source)) for name in one.using]
    for pair in one.on:
        mine = [reference for reference in pair if _is_of(reference, one, table, other)]
        rest = [reference for reference in pair if reference not in mine]
        if len(mine) != 1:
            raise QueryError(
                f"ON compares {pair[0].column} with {pair[1].column}: one must be of {one.source!r}, and one "
                "of a table before it; write whose each is, as o.town = t.town"
            )
        earlier = source.name(rest[0])
        earlier = equal.get(earlier.casefold()) or _found(earlier, table, "FROM")
        pairs.append((earlier, _found(mine[0].column, other, one.source)))
    if one.alias:
        if one.how == "inner":
            equal |= {qualified(one.alias, theirs).casefold(): ours for ours, theirs in pairs}
        before = f"{one.alias}."
        for name in sorted(name for name in names if name.startswith(before)):
            column = _found(name.removeprefix(before), other, one.source)
            other = other.with_columns(**{name: '"' + column.replace('"', '""') + '"'})
    return table.join(other, on=pairs, how=one.how)


def _is_of(reference: Reference, one: Joined, table: Table[Any], other: Table[Any] | PublicTable) -> bool:
    if reference.table is not None:
        return reference.table.casefold() == (one.alias or "").casefold()
    folded = reference.column.casefold()
    inside = folded in {n.casefold() for n in other.schema}
    if inside and folded in {n.casefold() for n in table.schema}:
        raise QueryError(f"ON: the column {reference.column!r} is in several tables; write whose it is")
    return inside


def _found(name: str, table: Table[Any] | PublicTable, where: str) -> str:
    schema = table.schema
    for column in schema:
        if column.casefold() == name.casefold():
            return column
    raise ColumnError.unknown(name, schema, where)
