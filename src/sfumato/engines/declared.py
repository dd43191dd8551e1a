"""Declared tables, opened: what is declared must fit the columns of the source, and their types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

from sfumato.catalogs.declarations import ColumnDeclaration, TableDeclaration
from sfumato.catalogs.table import DeclaredTable
from sfumato.engines.duckdb.resources import checked_resources
from sfumato.engines.scan import public, scan
from sfumato.errors import CatalogError, ColumnError, EngineError, QueryError
from sfumato.query.engine import Engine
from sfumato.query.schema import check_flat
from sfumato.query.table import PublicTable


def opened(
    declared: TableDeclaration,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> DeclaredTable[Any]:
    """Open a private table that has a privacy unit; no row is read.

    Args:
        declared: what its owner declares.
        memory_limit, threads, temp_directory: as for `scan`.
    Raises:
        CatalogError: what is declared does not fit the source's columns and their types.
        EngineError: the source is not there, or cannot be read.
        ParameterError: a limit is none.
    """
    checked_resources(memory_limit, threads, temp_directory)  # which is no fault of the catalog
    with said_where(declared):
        table = scan(
            declared.source,
            privacy_unit=declared.privacy_unit or "",
            types=declared.types,
            multiline=declared.multiline,
            memory_limit=memory_limit,
            threads=threads,
            temp_directory=temp_directory,
        )
    check_columns(table.engine, declared)
    return DeclaredTable(table.engine, table.unit, notes=table.notes, declared=declared)


def opened_public(
    declared: TableDeclaration,
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> PublicTable:
    """Open a public table; no row is read. Takes and raises what `opened` does."""
    checked_resources(memory_limit, threads, temp_directory)
    with said_where(declared):
        table = public(
            declared.source,
            types=declared.types,
            multiline=declared.multiline,
            memory_limit=memory_limit,
            threads=threads,
            temp_directory=temp_directory,
        )
    check_columns(table.engine, declared)
    return table


@contextmanager
def said_where(table: TableDeclaration) -> Iterator[None]:
    """Let errors of a block say which table of the catalog they are about."""
    try:
        yield
    except EngineError as error:
        raise EngineError(f"{table.where}: {error}") from None
    except QueryError as error:
        raise CatalogError(f"{table.where}: {error}") from None


def check_columns(engine: Engine[Any], declared: TableDeclaration) -> None:
    """Refuse declarations of columns that are not there, or do not fit their types; rows are not read.

    Raises:
        CatalogError: with the column's place.
    """
    for column in declared.columns:
        with said_where(declared):
            _check_column(engine, column)


def spelled(engine: Engine[Any], name: str, where: str) -> str:
    """Return a column's own name, whatever the case in which it is declared.

    Raises:
        ColumnError: there is no such column.
    """
    for column in engine.schema():
        if column.casefold() == name.casefold():
            return column
    raise ColumnError.unknown(name, engine.schema(), where)


def _check_column(engine: Engine[Any], column: ColumnDeclaration) -> None:
    where, schema = f"columns.{column.name}", engine.schema()
    name = spelled(engine, column.name, where)
    if column.bounds is not None and not schema[name].kind.numeric:
        kind = schema[name].type_name
        raise CatalogError(f"{where}: bounds are of numbers, but the column is {kind}; leave them out")
    if column.domain is not None:
        check_flat(f"{where}: domain", name, schema, "in the source")
        try:
            engine.public_keys([name], list(column.domain), ())
        except QueryError as error:
            text = str(error).replace("group_by: keys=", "domain")
            raise CatalogError(f"{where}: {text}") from None
