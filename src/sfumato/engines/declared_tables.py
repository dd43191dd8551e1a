"""Tables of a catalog: opened as their owner declares them, or over dummy rows that fit each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any

from sfumato.catalogs.declarations import (
    ColumnDeclaration,
    Declarations,
    ForeignKey,
    TableDeclaration,
    owner_notes,
)
from sfumato.catalogs.declared_table import DeclaredTable
from sfumato.engines.duckdb.column_types import as_toml, base_type, check_types, inferred_note
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.resources import DEFAULTS, Resources, check_resources
from sfumato.engines.duckdb.sources import empty_source, guesses, takes_types
from sfumato.engines.scan import public, read_elsewhere, scan
from sfumato.errors import CatalogError, ColumnError, EngineError, QueryError
from sfumato.query.engine_protocol import Engine
from sfumato.query.schema import FLOATS, Column, Filter, Step, check_flat, quote_name
from sfumato.query.tables.combined_tables import Reached, alike
from sfumato.query.tables.dummy_rows import UNIT, DummyRows, Known, Making, Reference
from sfumato.query.tables.public_table import PublicTable
from sfumato.query.tables.table_part import Part


def opened(
    catalog: Declarations,
    name: str,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> DeclaredTable[Any]:
    """Open a catalog's private table, and those that lead to its unit; no row is read.

    Args:
        catalog: what its owner declares.
        name: the table's.
        memory_limit, threads, temp_directory: as for `scan`.
    Raises:
        QueryError: there is no such table, or it is public.
        CatalogError: what is declared does not fit the source's columns and their types.
        EngineError: the source is not there, or cannot be read.
        ParameterError: a limit is none.
    """
    declared = catalog.private(name)
    limits: dict[str, Any] = {
        "memory_limit": memory_limit,
        "threads": threads,
        "temp_directory": temp_directory,
    }
    resources = check_resources(memory_limit, threads, temp_directory)  # which is no fault of the catalog
    if declared.foreign_key is not None:
        return _join_units(
            declared, declared.foreign_key, opened(catalog, declared.foreign_key.table, **limits), resources
        )
    with name_table_in_errors(declared):
        table = scan(
            declared.source,
            privacy_unit=declared.unit_parts or declared.privacy_unit or "",
            timezone=declared.timezone,
            unit_timezone=declared.unit_timezone,
            types=_declared_source_types(declared),
            multiline=declared.multiline,
            encoding=declared.encoding,
            **limits,
        )
    check_columns(table._engine, declared)
    table._engine.titled(declared.name)
    notes = _rename_in_notes(table.notes, table._engine, declared)
    return DeclaredTable(
        table._engine,
        table.unit,
        _complete_rows(table._engine, declared),
        notes=notes,
        _unit_parts=table._unit_parts,
        declared=declared,
    )


def _complete_rows(engine: Engine[Any], declared: TableDeclaration) -> tuple[Step, ...]:
    """Return the step that drops rows without a value in columns that are declared to have no such row."""
    schema = engine.schema()
    names = [match_column(engine, column.name, "columns") for column in declared.columns if column.complete]
    kept = [
        f"NOT isnan({quote_name(name)})"
        if schema[name].type_name in FLOATS
        else f"{quote_name(name)} IS NOT NULL"
        for name in names
        if schema[name].missing
    ]
    return (Filter(" AND ".join(kept)),) if kept else ()


def open_without_unit(declared: TableDeclaration, resources: Resources = DEFAULTS) -> Any:
    """Open a catalog's table that has no privacy unit of its own; no row is read.

    Returns:
        What reads it, here or on workers.
    Raises:
        CatalogError: columns are not as declared.
        EngineError: the source is not there, or cannot be read.
    """
    with name_table_in_errors(declared):
        plain = declared.multiline and declared.encoding is None
        engine = read_elsewhere(
            declared.source,
            _declared_source_types(declared),
            plain,
            public=declared.public,
            timezone=declared.timezone,
        ) or DuckDBEngine.open(
            declared.source,
            declared.timezone,
            types=_declared_source_types(declared),
            multiline=declared.multiline,
            encoding=declared.encoding,
            resources=resources,
        )
        if declared.foreign_key is not None:
            match_column(engine, declared.foreign_key.column, "foreign_keys")
    check_columns(engine, declared)
    engine.titled(declared.name)
    return engine


def unlike(here: Column, there: Column, column: str, name: str) -> str | None:
    """Return why a declared foreign key's type does not fit its key's; else None."""
    if alike(here, there):
        return None
    return f"{column} is {here.type_name}, but {name} is {there.type_name}. Give both the same type"


def _join_units(
    declared: TableDeclaration, key: ForeignKey, owners: DeclaredTable[Any], resources: Resources
) -> DeclaredTable[Any]:
    """Return a declared table with the units that its foreign key leads to."""
    engine, unit = open_without_unit(declared, resources), declared.privacy_unit or ""
    with name_table_in_errors(declared):
        if owners._engine.name != engine.name:
            raise CatalogError(
                f"foreign_keys: {owners._engine.name} reads the rows of {key.table}, and "
                f"{engine.name} these. Read all private tables with the same engine"
            )
        column = match_column(engine, key.column, "foreign_keys")
        name = match_column(owners._engine, key.key, f"foreign_keys: {key.table}")
        taken = {known.casefold() for known in engine.schema()}
        if key.key.casefold() == owners.unit.casefold():
            taken.discard(column.casefold())  # whose place the unit takes, with the same values
        if unit.casefold() in taken:
            raise CatalogError(
                f"foreign_keys: the privacy unit of {key.table} becomes a column {unit!r}, but "
                "there is a column of that name here. Rename it in the source, or in a view"
            )
        for one, schema in ((column, engine.schema()), (name, owners.schema)):
            if one != owners.unit:
                check_flat("foreign_keys", one, schema, "in the source")
        if text := unlike(engine.schema()[column], owners.schema[name], column, f"{key.table}.{name}"):
            raise CatalogError(f"foreign_keys: {text}")
    of_source = _rename_in_notes(getattr(engine, "notes", ()), engine, declared)
    notes = dict.fromkeys([*of_source, *owners.notes, *owner_notes(declared, key, owners.unit)])
    made = engine.combined(Reached(Part(engine, (), None), owners._part, column, name, unit))
    made.titled(declared.name)
    return DeclaredTable(
        made,
        unit,
        _complete_rows(made, declared),
        notes=tuple(notes),
        _unit_parts=owners._unit_parts,
        declared=declared,
    )


def open_public(
    declared: TableDeclaration,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> PublicTable:
    """Open a catalog's public table; no row is read. Takes and raises what `opened` does."""
    check_resources(memory_limit, threads, temp_directory)
    with name_table_in_errors(declared):
        table = public(
            declared.source,
            types=_declared_source_types(declared),
            multiline=declared.multiline,
            encoding=declared.encoding,
            memory_limit=memory_limit,
            threads=threads,
            temp_directory=temp_directory,
        )
    table = replace(table, _engine=table._engine.in_timezone(declared.timezone))
    check_columns(table._engine, declared)
    table._engine.titled(declared.name)
    steps = _complete_rows(table._engine, declared)
    return replace(table, _steps=steps, notes=_rename_in_notes(table.notes, table._engine, declared))


def _rename_in_notes(notes: Iterable[str], engine: Any, declared: TableDeclaration) -> tuple[str, ...]:
    """Return notes that name the declared table instead of its files."""
    origin = getattr(engine, "origin", None)  # of rows that are read here
    if origin is None:
        return tuple(notes)
    types = getattr(engine, "inferred_types", None)
    if types is not None:
        inferred = inferred_note(origin.name, types), inferred_note(origin.name, types, "toml")
        notes = (inferred[1] if note == inferred[0] else note for note in notes)
    return tuple(note.replace(origin.name, declared.name) for note in notes)


@contextmanager
def name_table_in_errors(table: TableDeclaration) -> Iterator[None]:
    """Name a catalog's table in the errors of a block."""
    try:
        yield
    except EngineError as error:
        raise EngineError(f"{table.where}: {error}") from None
    except QueryError as error:
        raise CatalogError(f"{table.where}: {error}") from None


def _declared_source_types(declared: TableDeclaration) -> Any:
    """Return a declared table's types for a source that has none of its own."""
    return declared.types if takes_types(declared.source) else None


def check_columns(engine: Engine[Any], declared: TableDeclaration) -> None:
    """Refuse a catalog's declarations of columns that are not there or do not fit; no row is read.

    Raises:
        CatalogError: with the column's place.
    """
    if not takes_types(declared.source):
        with name_table_in_errors(declared):
            _check_types(engine, check_types(declared.types, nested=True) or {})
    for column in declared.columns:
        with name_table_in_errors(declared):
            _check_column(engine, declared, column)


def _check_types(engine: Engine[Any], types: Mapping[str, str]) -> None:
    for name, kind in types.items():
        found = engine.schema()[match_column(engine, name, "types")].type_name
        if found != kind:
            raise CatalogError(
                f"types: {name!r} is declared {kind}, but is {found} in the source. Write that "
                "type, or leave it out, because the source declares its own"
            )


def match_column(engine: Engine[Any], name: str, where: str) -> str:
    """Return a declared column's own name, whatever the case in which it is written.

    Raises:
        ColumnError: there is no such column.
    """
    for column in engine.schema():
        if column.casefold() == name.casefold():
            return column
    raise ColumnError._unknown(name, engine.schema(), where)


def _check_column(engine: Engine[Any], declared: TableDeclaration, column: ColumnDeclaration) -> None:
    where, schema = f"columns.{column.name}", engine.schema()
    name = match_column(engine, column.name, where)
    if column.bounds is not None and not schema[name].kind.numeric:
        kind = schema[name].type_name
        typed = ""
        if kind == "VARCHAR" and takes_types(declared.source):
            types = dict(getattr(engine, "inferred_types", None) or declared.types or {}) | {name: "DOUBLE"}
            typed = f", or, if its texts are numbers, declare {as_toml(types)}"
        raise CatalogError(
            f"{where}: only numbers have bounds, but the column is {kind}. Leave them out{typed}"
        )
    if column.domain is not None:
        check_flat(f"{where}: domain", name, schema, "in the source")
        try:
            engine.public_keys([name], list(column.domain), ())
        except QueryError as error:
            text = str(error).replace("group_by: keys=", "domain")
            raise CatalogError(f"{where}: {text}") from None


_FEW = 10  # rows of a public table


def made_up(catalog: Declarations, making: Making) -> Mapping[str, TableDeclaration]:
    """Return a catalog's declarations over dummy rows; no row is read.

    Raises:
        CatalogError, EngineError: a source that must tell its columns does not.
    """
    return {
        name: replace(one, source=_rows(catalog, one, making), types=None, multiline=True, encoding=None)
        for name, one in catalog.tables.items()
    }


def _rows(catalog: Declarations, one: TableDeclaration, making: Making) -> DummyRows:
    columns, complete = _columns(catalog, one)
    complete |= {*_match_columns(columns, [column.name for column in one.columns if column.complete])}
    if one.public:
        making = replace(making, rows=max((len(c.domain) for c in one.columns if c.domain), default=_FEW))
    unit = next(iter(_match_columns(columns, one.unit_parts or (one.privacy_unit or "",))), None)
    unique, refers = _find_key_column(catalog, one, columns), None
    if unique is not None and unique == unit and not one.unit_parts:
        making = replace(making, rows=making.units)  # one row for each
    if (key := one.foreign_key) is not None:
        there = catalog.tables[key.table]
        of_unit = key.key.casefold() == (there.privacy_unit or "").casefold()
        count = making.units if of_unit else _rows(catalog, there, making).making.rows
        (column,) = _match_columns(columns, (key.column,)) or (key.column,)
        refers = Reference(column, count, UNIT if of_unit else key.key.casefold())
    known = {c.name.casefold(): Known(c.bounds, c.domain) for c in one.columns}
    by_name = {name: known[name.casefold()] for name in columns if name.casefold() in known}
    return DummyRows(making, columns, complete, unit, by_name, unique, refers, one.public, one.name)


def _find_key_column(catalog: Declarations, one: TableDeclaration, columns: Mapping[str, str]) -> str | None:
    """Return the column of a declared table that foreign keys name; None where none does."""
    return next(iter(_match_columns(columns, _keys(catalog, one))), None)


def _keys(catalog: Declarations, one: TableDeclaration) -> list[str]:
    keys = (table.foreign_key for table in catalog.tables.values())
    return [key.key for key in keys if key is not None and key.table == one.name]


def _match_columns(columns: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return the own names of declared columns that are there."""
    by_fold = {name.casefold(): name for name in columns}
    return [by_fold[name.casefold()] for name in names if name.casefold() in by_fold]


def _columns(catalog: Declarations, one: TableDeclaration) -> tuple[dict[str, str], frozenset[str]]:
    """Return a declared table's column types, and the columns without missing values."""
    with name_table_in_errors(one):
        types = check_types(one.types, nested=True)
    types = types and {name: base_type(kind) for name, kind in types.items()}
    if types is not None and guesses(one.source):
        return _type_mapping(catalog, one, types), frozenset()
    if guesses(one.source):
        opened = f"catalog.{'public' if one.public else 'table'}({one.name!r})"
        raise CatalogError(
            f"{one.where}: its types would be inferred from rows, but dummy rows depend on "
            f"declarations only. Declare the types in {opened}.notes"
        )
    try:
        schema = open_without_unit(replace(one, source=empty_source(one.source))).schema()
    except EngineError:
        if types is None or not isinstance(one.source, str | PathLike):
            raise
        return _type_mapping(catalog, one, types), frozenset()  # of a file that is not here
    types = {name: column.type_name for name, column in schema.items()}
    return types, frozenset(name for name, column in schema.items() if not column.missing)


def _type_mapping(catalog: Declarations, one: TableDeclaration, types: Mapping[str, str]) -> dict[str, str]:
    """Return a declared table's types; text for columns that are only named."""
    key = one.foreign_key
    plain = [part for part in one.unit_parts if part.isidentifier()]
    named = [*([one.privacy_unit] if one.privacy_unit and not one.unit_parts else plain)]
    named += [key.column] if key is not None else []
    named += [c.name for c in one.columns] + _keys(catalog, one)
    known = {name.casefold() for name in types}
    return {name: "VARCHAR" for name in named if name.casefold() not in known} | dict(types)
