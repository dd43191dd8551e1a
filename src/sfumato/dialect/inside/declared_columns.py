"""What a catalog says of the tables of FROM, SELECTs among them: of columns that stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sfumato.catalogs.declarations import ColumnDeclaration, Declarations, TableDeclaration
from sfumato.dialect.from_clause import (
    DEEPEST,
    From,
    Joined,
    NotJoined,
    Query,
    Reference,
    Source,
    qualified,
    read_from,
    tables_of,
)
from sfumato.dialect.inside.scope import traced
from sfumato.dialect.tree import Node
from sfumato.errors import QueryError
from sfumato.query.schema import spelled


def of_tables(source: From, catalog: Declarations, depth: int = 0) -> TableDeclaration:
    """Return what a catalog says of the tables of FROM, as of one: the first, with the columns of all.

    Raises:
        QueryError: there is no such table, or the first has no privacy unit of its own.
    """
    source = source.private_first([name for name, table in catalog.tables.items() if table.public])
    found = declared(source.source, catalog, depth)
    if found.public and isinstance(source.source, Query):
        raise QueryError(
            f"FROM begins with {source.source}, which reads public tables; begin with a private one"
        )
    if isinstance(source.source, str) and (depth or source.joined) and found.public:
        raise QueryError(
            f"FROM begins with {source.source!r}, a public table; begin with the private one, and JOIN this: "
            "else rows that match nothing would have no privacy unit"
        )
    if isinstance(source.source, str):
        found = catalog.private(source.source)
    columns, private = [*found.columns, *_named(source, found)], [found]
    for one in source.joined:
        other = declared(one.source, catalog, depth)
        if not other.public:
            other = catalog.private(one.source) if isinstance(one.source, str) else other
            private.append(other)
        # A bare name may be that of a column before it, of which nothing is declared.
        columns += _named(one, other)
    names = ", ".join([found.name, *(str(one.source) for one in source.joined)])  # as messages say where
    return replace(found.beside(private), name=names, columns=tuple(columns))


def _named(one: From | Joined, table: TableDeclaration) -> list[ColumnDeclaration]:
    """Return the columns of a table behind FROM under their qualified names."""
    return [replace(column, name=qualified(one.alias, column.name)) for column in table.columns if one.alias]


def declared(source: Source, catalog: Declarations, depth: int = 0) -> TableDeclaration:
    """Return what a catalog says of a table, or of the columns of a SELECT that stay as they are.

    Raises:
        QueryError: there is no such table, or a SELECT of private ones that drops the privacy unit.
    """
    if isinstance(source, str):
        return catalog.declaration(source)
    if depth == DEEPEST:
        raise source.refuse(source.first, f"SELECTs in SELECTs stand {DEEPEST} deep at most")
    if _public(source, catalog):
        return TableDeclaration(source.name, catalog.name, None, public=True)
    if source.node["type"] == "SELECT_NODE":
        return _of_select(source, catalog, depth)
    names = source.names.within(source.node)
    nodes = source.node.get("children") or []
    if not nodes:
        raise source.refuse(source.first, f"{source.node['type']} has no place here")
    found = [declared(Query(source.name, node, names, source.columns), catalog, depth + 1) for node in nodes]
    private = next((one for one in found if not one.public), found[0])
    return replace(private.beside(found), name=private.name, columns=())


def _public(source: Query, catalog: Declarations) -> bool:
    waiting: list[Source] = [source]
    seen: set[Source] = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if isinstance(one, Query):
            waiting.extend(read for _, read in tables_of(one.node, one.names))
        elif not catalog.declaration(one).public:
            return False
    return True


def _of_select(query: Query, catalog: Declarations, depth: int) -> TableDeclaration:
    try:
        tables = read_from(query.node["from_table"], query.names.within(query.node))
    except NotJoined as error:
        raise query.refuse(query.node["from_table"], str(error)) from None
    base = of_tables(tables, catalog, depth + 1)
    known = {column.name.casefold(): column for column in reversed(base.columns)}  # the first of a name
    aliases = {name.casefold(): name for name in (tables.alias, *tables.aliases.values()) if name}
    columns: dict[str, ColumnDeclaration] = {}
    unit = None
    for i, (name, reference) in enumerate(_plain(query.node, tables, known, base.privacy_unit or "")):
        new = query.columns[i] if i < len(query.columns) else name
        first = traced(tables, reference)
        if unit is None and first is not None and first.casefold() == (base.privacy_unit or "").casefold():
            unit = new
        alias = aliases.get((reference.table or "").casefold())
        column = known.get((qualified(alias, reference.column) if alias else reference.column).casefold())
        if column is not None:
            columns[new.casefold()] = replace(column, name=new)
    if unit is None:
        raise query.refuse(
            query.first,
            "each SELECT of a private table keeps its privacy unit: add "
            + spelled(base.privacy_unit or "")
            + " to the SELECT list, as it is; what is computed of it is none",
        )
    return replace(base, name=query.name, privacy_unit=unit, columns=tuple(columns.values()))


def _plain(
    node: Node, tables: From, known: dict[str, ColumnDeclaration], unit: str
) -> Iterator[tuple[str, Reference]]:
    """Yield the columns of a SELECT that are columns as they are; of others a reference to nothing."""
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
