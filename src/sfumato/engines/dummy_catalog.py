"""The tables of a catalog over made-up rows, which fit each other as foreign keys say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike

from sfumato.catalogs.declarations import Declarations, TableDeclaration
from sfumato.engines.declared import said_where, without_unit
from sfumato.engines.duckdb.declared import base_type, checked_types
from sfumato.engines.duckdb.sources import guesses, without_rows
from sfumato.errors import CatalogError, EngineError
from sfumato.query.tables.dummy import UNIT, DummyRows, Known, Making, Reference

_FEW = 10  # rows of a public table


def made_up(catalog: Declarations, making: Making) -> Mapping[str, TableDeclaration]:
    """Return the declarations of a catalog, each with made-up rows as its source; no row is read.

    Raises:
        CatalogError, EngineError: a source that must tell its columns does not.
    """
    return {
        name: replace(one, source=_rows(catalog, one, making), types=None, multiline=True, encoding=None)
        for name, one in catalog.tables.items()
    }


def _rows(catalog: Declarations, one: TableDeclaration, making: Making) -> DummyRows:
    columns, complete = _columns(catalog, one)
    if one.public:
        making = replace(making, rows=max((len(c.domain) for c in one.columns if c.domain), default=_FEW))
    unit = next(iter(_spelled(columns, one.unit_parts or (one.privacy_unit or "",))), None)
    unique, refers = _named_by(catalog, one, columns), None
    if unique is not None and unique == unit and not one.unit_parts:
        making = replace(making, rows=making.units)  # one row for each
    if (key := one.foreign_key) is not None:
        there = catalog.tables[key.table]
        of_unit = key.key.casefold() == (there.privacy_unit or "").casefold()
        count = making.units if of_unit else _rows(catalog, there, making).making.rows
        (column,) = _spelled(columns, (key.column,)) or (key.column,)
        refers = Reference(column, count, UNIT if of_unit else key.key.casefold())
    known = {c.name.casefold(): Known(c.bounds, c.domain) for c in one.columns}
    by_name = {name: known[name.casefold()] for name in columns if name.casefold() in known}
    return DummyRows(making, columns, complete, unit, by_name, unique, refers, one.public, one.name)


def _named_by(catalog: Declarations, one: TableDeclaration, columns: Mapping[str, str]) -> str | None:
    """Return the column that foreign keys of other tables name; None where none does."""
    return next(iter(_spelled(columns, _keys(catalog, one))), None)


def _keys(catalog: Declarations, one: TableDeclaration) -> list[str]:
    keys = (table.foreign_key for table in catalog.tables.values())
    return [key.key for key in keys if key is not None and key.table == one.name]


def _spelled(columns: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return the own names of columns, of those that there are."""
    by_fold = {name.casefold(): name for name in columns}
    return [by_fold[name.casefold()] for name in names if name.casefold() in by_fold]


def _columns(catalog: Declarations, one: TableDeclaration) -> tuple[dict[str, str], frozenset[str]]:
    """Return names and types of columns, and those that lack no value: as declared here, or in the source."""
    with said_where(one):
        types = checked_types(one.types, nested=True)
    types = types and {name: base_type(kind) for name, kind in types.items()}
    if types is not None and guesses(one.source):
        return _of_types(catalog, one, types), frozenset()
    if guesses(one.source):
        opened = f"catalog.{'public' if one.public else 'table'}({one.name!r})"
        raise CatalogError(
            f"{one.where}: its types would be guessed from rows, and made-up rows follow from declarations "
            f"alone. Declare the types that {opened}.notes says"
        )
    try:
        schema = without_unit(replace(one, source=without_rows(one.source))).schema()
    except EngineError:
        if types is None or not isinstance(one.source, str | PathLike):
            raise
        return _of_types(catalog, one, types), frozenset()  # of a file that is not here
    types = {name: column.type_name for name, column in schema.items()}
    return types, frozenset(name for name, column in schema.items() if not column.missing)


def _of_types(catalog: Declarations, one: TableDeclaration, types: Mapping[str, str]) -> dict[str, str]:
    """Return declared types; of columns that are only named, in the declarations, that of text."""
    key = one.foreign_key
    plain = [part for part in one.unit_parts if part.isidentifier()]
    named = [*([one.privacy_unit] if one.privacy_unit and not one.unit_parts else plain)]
    named += [key.column] if key is not None else []
    named += [c.name for c in one.columns] + _keys(catalog, one)
    known = {name.casefold() for name in types}
    return {name: "VARCHAR" for name in named if name.casefold() not in known} | dict(types)
