"""Columns in a subquery's FROM clause: joins, the scope of names, and what a catalog declares of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sfumato.api.table import Table
from sfumato.catalogs.declarations import ColumnDeclaration, Declarations, TableDeclaration
from sfumato.dialect.from_clause import (
    MAX_DEPTH,
    From,
    Joined,
    NotJoined,
    Query,
    Reference,
    Source,
    conditions_moved,
    iter_tables,
    qualify_name,
    read_from,
)
from sfumato.dialect.joined_tables import crossed, filter_matches
from sfumato.dialect.syntax_tree import Node, fresh
from sfumato.errors import ColumnError, QueryError, SqlError
from sfumato.query.schema import FLOATS, format_name, quote_name
from sfumato.query.tables.combined_tables import with_units
from sfumato.query.tables.public_table import PublicTable

Opener = Callable[[Source, str], "Table[Any] | PublicTable"]


class Scope:
    """The scope of column names in a subquery: the joined tables of its FROM clause.

    Args:
        query: the SELECT, for messages.
        node: its tree.
        unit: what its privacy unit is called in the first table, or how the SELECT calls it.
        open_table: gives a table, from its source and its privacy unit's column.
        mentioned: names of columns that the SELECT reads, in lower case; None for all.
        joined_rows: the limit of joined rows of a unit; None for that of `Table.join`.
    """

    def __init__(
        self,
        query: Query,
        node: Node,
        unit: Callable[[From], str],
        open_table: Opener,
        mentioned: set[str] | None,
        joined_rows: int | None = None,
    ) -> None:
        self.query = query
        self.mentioned = mentioned
        self.open_table = open_table
        self.joined_rows = joined_rows
        self._shown: dict[tuple[int, str], str] = {}
        try:
            self.tables: From = read_from(node["from_table"], query.names, node["where_clause"])
        except NotJoined as error:
            raise query.refuse(node["from_table"], str(error)) from None
        self.source: str
        first, self.source = self._first(unit)
        # A private table can begin where a public one is written first in an inner join.
        self._is_swapped = isinstance(first, PublicTable) and self.tables.swapped is not self.tables
        if self._is_swapped:
            self.tables = self.tables.swapped
            first, self.source = self._first(unit)
        if not isinstance(first, Table):
            raise query.refuse(
                node["from_table"],
                f"FROM begins with a public table, {str(self.tables.source)!r}, so rows without a "
                "match would have no privacy unit. Begin with the private table, and JOIN the public "
                "one",
            )
        if first.unit.casefold() != self.source.casefold():
            raise query.refuse(
                node["from_table"],
                f"{self.tables.source} has the privacy unit {first.unit}, but {self.source} is used as one",
            )
        self.table: Table[Any] = first
        self.merged: set[str] = {self.table.unit.casefold()}
        columns = {name.casefold(): name for name in first.schema}
        self.places: list[tuple[str | None, dict[str, str]]] = [(self.tables.alias, columns)]
        for one in self.tables.joined:
            self._join(one)

    def _first(self, unit: Callable[[From], str]) -> tuple[Table[Any] | PublicTable, str]:
        """Return the first table in the subquery's scope, and its privacy unit."""
        try:
            source = unit(self.tables)
        except SqlError:
            if self.tables.swapped is self.tables or not isinstance(self.tables.source, str):
                raise
            source = unit(self.tables.swapped)
            first = self.open_table(self.tables.source, source)
            if not isinstance(first, PublicTable):
                raise
            return first, source
        return self.open_table(self.tables.source, source), source

    def columns(self, alias: str | None) -> list[tuple[str, str]]:
        """Return the columns that a star in the subquery stands for, with their names."""
        if alias is None and self._is_swapped:
            raise QueryError(
                "SELECT * of a join that begins with a public table is not supported. List the columns"
            )
        found: list[tuple[str, str]] = []
        for i, (name, columns) in enumerate(self.places):
            if alias is not None and (name or "").casefold() != alias.casefold():
                continue
            for shown, column in columns.items():
                if alias is None and i and shown in self.merged and column in self.places[0][1].values():
                    continue  # which USING shows once
                found.append((self._shown.get((i, shown), column), column))
        if not found:
            raise QueryError(f"there is no table {alias} here")
        return found

    def resolve(self, names: Sequence[str]) -> list[str] | None:
        """Return the column that a name in the subquery stands for, with its fields; None for others.

        Raises:
            QueryError: several tables have it.
        """
        first, *rest = names
        for alias, columns in self.places if rest else ():
            if alias is not None and alias.casefold() == first.casefold():
                if rest[0].casefold() not in columns:
                    raise ColumnError._unknown(rest[0], columns, f"{alias} has")
                return [columns[rest[0].casefold()], *rest[1:]]
        name = first.casefold()
        found = dict.fromkeys(columns[name] for _, columns in self.places if name in columns)
        if len(found) > 1 and name not in self.merged:
            aliases = [alias for alias, columns in self.places if alias and name in columns]
            raise QueryError(
                f"several tables have a column {first!r}. Write the table's name before it: "
                + " or ".join(f"{alias}.{first}" for alias in aliases)
            )
        return [next(iter(found)), *rest] if found else None

    def _join(self, one: Joined) -> None:
        """Join a table and add its columns to the subquery's scope."""
        table = self.table
        other = self._open_joined(one)
        own = {name.casefold(): name for name in other.schema}

        def before(name: str) -> bool:
            return self.resolve([name]) is not None

        pairs = one.pairs(own, before, self._earlier)
        if one.where is not None and not pairs:
            table, other, pairs = crossed(table, other)
        merged = {name.casefold() for name in one.shared(own, before)}
        if isinstance(other, Table):  # where all parts of the units are compared, these are
            pairs = list(with_units(tuple(pairs), table._part, other._part))
        # A column that is compared does not come along: it is the other one, or comes under another name.
        columns, copies = dict[str, str](), dict[str, str]()
        taken = {name.casefold() for name in (*table.schema, *other.schema)}
        for left, right in pairs:
            here, there = table.schema[left], other.schema[right]
            same = here.type_name == there.type_name
            # 0.0 and -0.0 are equal, and one unit.
            same = same and (left == table.unit or here.type_name not in FLOATS)
            if one.how == "inner" and same:
                columns[right.casefold()] = left
            elif self.mentioned is None or right.casefold() in self.mentioned:
                copy = fresh(right, taken)
                other = other.with_columns(**{copy: quote_name(right)})
                copies[right.casefold()] = copy
        if isinstance(other, Table) and (table.unit, other.unit) not in pairs:
            names = one.alias or str(one.source)
            raise QueryError(
                "both tables are private, so only rows of the same unit can be joined. Join "
                f"{names} ON its privacy unit too: {format_name(other.unit)} = {format_name(table.unit)}"
            )
        if one.matching:
            self.table = filter_matches(table, other, pairs, one.how, self.joined_rows)
            return
        compared = {right for _, right in pairs}
        brought = [name for name in other.schema if name not in compared]
        joined = table.join(other, on=pairs, how=one.how, unit_rows=self.joined_rows)
        now = list(joined.schema)[len(table.schema) :]
        renamed = dict(zip(brought, now, strict=True))
        columns |= {name.casefold(): new for name, new in renamed.items() if name.casefold() in own}
        columns |= {name: renamed[copy] for name, copy in copies.items()}
        self.table = joined
        self.merged |= merged
        ordered = {name: columns[name] for name in own if name in columns}
        for name in ordered:
            self._shown[len(self.places), name] = own[name]
        self.places.append((one.alias, ordered))

    def _open_joined(self, one: Joined) -> Table[Any] | PublicTable:
        """Open a table that the subquery joins, by the name of its privacy unit's column."""
        if isinstance(one.source, str):
            with suppress(ColumnError):
                return self.open_table(one.source, self.table.unit)
        return self.open_table(one.source, self._compared_unit(one))

    def _compared_unit(self, one: Joined) -> str:
        """Return the joined table's column that is compared with the privacy unit's column."""
        if any(name.casefold() == self.table.unit.casefold() for name in one.using):
            return next(name for name in one.using if name.casefold() == self.table.unit.casefold())
        alias = (one.alias or "").casefold()
        for pair in (*one.on, *(one.where or ())):
            for mine, rest in (pair, pair[::-1]):
                if mine.table is not None and mine.table.casefold() == alias != (rest.table or "").casefold():
                    found = self.resolve([rest.column] if rest.table is None else [rest.table, rest.column])
                    if found is not None and found[0].casefold() == self.table.unit.casefold():
                        return mine.column
        return self.table.unit

    def _earlier(self, reference: Reference) -> str:
        """Return the column of the tables before a join that a condition names."""
        names = [reference.column] if reference.table is None else [reference.table, reference.column]
        if reference.table is not None and not any(
            (alias or "").casefold() == reference.table.casefold() for alias, _ in self.places
        ):
            raise QueryError(
                f"ON names {reference.table}.{reference.column}, but no table {reference.table} "
                "comes before it"
            )
        found = self.resolve(names)
        if found is None:
            raise ColumnError._unknown(reference.column, self.table.schema, "ON")
        return found[0]


def trace_column(tables: From, reference: Reference) -> str | None:
    """Return the first table's column that a column in a subquery equals by inner joins; None for others."""
    aliases = [(one.alias or "").casefold() for one in tables.joined]
    for _ in range(len(aliases) + 1):
        table = (reference.table or "").casefold()
        if reference.table is None or table == (tables.alias or "").casefold():
            return reference.column
        if table not in aliases:
            return None
        one = tables.joined[aliases.index(table)]
        if reference.column.casefold() in {name.casefold() for name in one.using}:
            return reference.column
        for pair in (*one.on, *(one.where or ())):
            for mine, rest in (pair, pair[::-1]):
                same = mine.column.casefold() == reference.column.casefold()
                if same and (mine.table or "").casefold() == table and one.how == "inner":
                    reference = rest
                    break
            else:
                continue
            break
        else:
            return None
    return None


def trace_declarations(source: From, catalog: Declarations, depth: int = 0) -> TableDeclaration:
    """Return what a catalog declares of the columns in FROM, traced through subqueries and joins.

    Raises:
        QueryError: there is no such table, or the first has no privacy unit of its own.
    """
    source = source.private_first([name for name, table in catalog.tables.items() if table.public])
    found = read_declarations(source.source, catalog, depth)
    if found.public and isinstance(source.source, Query):
        raise QueryError(
            f"FROM begins with {source.source}, which reads public tables. Begin with a private one"
        )
    if isinstance(source.source, str) and (depth or source.joined) and found.public:
        raise QueryError(
            f"FROM begins with a public table, {source.source!r}, so rows without a match would "
            "have no privacy unit. Begin with the private table, and JOIN the public one"
        )
    if isinstance(source.source, str):
        found = catalog.private(source.source)
    columns, private = [*found.columns, *_named(source, found)], [found]
    for one in source.joined:
        other = read_declarations(one.source, catalog, depth)
        if not other.public:
            other = catalog.private(one.source) if isinstance(one.source, str) else other
            private.append(other)
        # A bare name may be that of a column before it, of which nothing is declared.
        columns += _named(one, other)
    names = ", ".join([found.name, *(str(one.source) for one in source.joined)])  # as messages say where
    return replace(found.joined_with(private), name=names, columns=tuple(columns))


def _named(one: From | Joined, table: TableDeclaration) -> list[ColumnDeclaration]:
    """Return a joined table's declared columns under their qualified names, for a subquery's FROM."""
    return [
        replace(column, name=qualify_name(one.alias, column.name)) for column in table.columns if one.alias
    ]


def read_declarations(source: Source, catalog: Declarations, depth: int = 0) -> TableDeclaration:
    """Return what a catalog declares of a table, or of the columns that a subquery passes on unchanged.

    Raises:
        QueryError: there is no such table, or a SELECT of private ones that drops the privacy unit.
    """
    if isinstance(source, str):
        return catalog.declaration(source)
    if depth == MAX_DEPTH:
        raise source.refuse(source.first, f"subqueries can be nested at most {MAX_DEPTH} deep")
    if _public(source, catalog):
        return TableDeclaration(source.name, catalog.name, None, public=True)
    if source.node["type"] == "SELECT_NODE":
        return _trace_select(source, catalog, depth)
    names = source.names.within(source.node)
    nodes = source.node.get("children") or []
    if not nodes:
        raise source.refuse(source.first, f"{source.node['type']} is not supported here")
    found = [
        read_declarations(Query(source.name, node, names, source.columns), catalog, depth + 1)
        for node in nodes
    ]
    private = next((one for one in found if not one.public), found[0])
    return replace(private.joined_with(found), name=private.name, columns=())


def _public(source: Query, catalog: Declarations) -> bool:
    """Whether a catalog declares all tables that a subquery reads as public."""
    waiting: list[Source] = [source]
    seen: set[Source] = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if isinstance(one, Query):
            waiting.extend(read for _, read in iter_tables(one.node, one.names))
        elif not catalog.declaration(one).public:
            return False
    return True


def _trace_select(query: Query, catalog: Declarations, depth: int) -> TableDeclaration:
    """Return what a catalog declares of the columns that one subquery passes on, and its privacy unit."""
    try:
        node = conditions_moved(query.node)
        tables = read_from(node["from_table"], query.names.within(node), node["where_clause"])
    except NotJoined as error:
        raise query.refuse(query.node["from_table"], str(error)) from None
    base = trace_declarations(tables, catalog, depth + 1)
    known = {column.name.casefold(): column for column in reversed(base.columns)}  # the first of a name
    aliases = {name.casefold(): name for name in (tables.alias, *tables.aliases.values()) if name}
    columns: dict[str, ColumnDeclaration] = {}
    unit = None
    for i, (name, reference) in enumerate(_plain(query.node, tables, known, base.privacy_unit or "")):
        new = query.columns[i] if i < len(query.columns) else name
        first = trace_column(tables, reference)
        if unit is None and first is not None and first.casefold() == (base.privacy_unit or "").casefold():
            unit = new
        alias = aliases.get((reference.table or "").casefold())
        column = known.get((qualify_name(alias, reference.column) if alias else reference.column).casefold())
        if column is not None:
            columns[new.casefold()] = replace(column, name=new)
    if unit is None:
        raise query.refuse(
            query.first,
            "each SELECT of a private table must keep its privacy unit. Add "
            + format_name(base.privacy_unit or "")
            + " to the SELECT list as a plain column, not an expression of it",
        )
    return replace(base, name=query.name, privacy_unit=unit, columns=tuple(columns.values()))


def _plain(
    node: Node, tables: From, known: dict[str, ColumnDeclaration], unit: str
) -> Iterator[tuple[str, Reference]]:
    """Yield a subquery's output columns with the source column of each; computed ones refer to nothing."""
    for one in node["select_list"]:
        if one["class"] == "STAR":
            left_out = {str(name).casefold() for name in one["exclude_list"]}
            names = dict.fromkeys([unit, *(c.name for c in known.values() if "." not in c.name)])
            own = one["relation_name"] or None
            yield from ((name, Reference(own, name)) for name in names if name.casefold() not in left_out)
        elif one["class"] == "COLUMN_REF" and len(one["column_names"]) <= 2:
            *table, column = one["column_names"]
            yield one["alias"] or column, Reference(table[0] if table else None, column)
        else:
            yield one["alias"], Reference("", "")
