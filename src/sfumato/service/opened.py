"""A catalog as analysts meet it: tables that admit releases alone, and no path of a file in any word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sfumato.catalogs.declarations import TableDeclaration
from sfumato.catalogs.declared_table import DeclaredTable
from sfumato.dataclass import dataclass
from sfumato.engines.catalog import Catalog
from sfumato.errors import CatalogError
from sfumato.query.tables.combining import UNIT_ROWS
from sfumato.service.answers import plain

_NAME = "catalog"  # in the place of the path of its file, which explanations and errors would show


@dataclass(frozen=True)
class AnalystsCatalog(Catalog):
    """The tables of a catalog, opened for people who may see releases and nothing exact."""

    @classmethod
    def of(cls, catalog: Catalog) -> AnalystsCatalog:
        """Return the same tables for analysts.

        Raises:
            CatalogError: private tables have units of several kinds, whose losses one budget cannot add up.
        """
        tables = {
            # What nobody limits, an analyst could set to a hundred times as much.
            name: replace(table, catalog=_NAME, max_joined_rows=table.max_joined_rows or UNIT_ROWS)
            for name, table in catalog.tables.items()
        }
        made = cls(_NAME, tables)
        kinds = {made.unit_kind(name): name for name, table in tables.items() if not table.public}
        if len(kinds) > 1:
            one, other = list(kinds.values())[:2]
            raise CatalogError(
                f"{catalog.name}: the privacy units of {one} and {other} are made of different parts. "
                "One budget pays for all questions of a service, and what protects a person does not add up "
                "with what protects a person's month: give each kind a catalog, and a service, of its own"
            )
        return made

    def unit_kind(self, name: str) -> tuple[str, ...]:
        """Return the parts that the units of a private table are made of; none where it is one column."""
        table = self.declaration(name)
        while table.foreign_key is not None:
            table = self.declaration(table.foreign_key.table)
        return (*sorted(table.unit_parts), table.unit_timezone) if table.unit_parts else ()

    def table(self, name: str, **limits: Any) -> DeclaredTable[Any]:
        """Open a private table for releases alone; as `Catalog.table`."""
        table = super().table(name, **limits)
        return replace(table, _engine=table._engine.for_analysts())

    def described(self, **limits: Any) -> list[dict[str, Any]]:
        """Return what is publicly known of all tables, as what JSON has; sources are opened, no row is read.

        Raises:
            CatalogError, EngineError: as from `Catalog.table`.
        """
        return [self._described(table, limits) for table in self.tables.values()]

    def _described(self, declared: TableDeclaration, limits: Mapping[str, Any]) -> dict[str, Any]:
        opened: Any = (self.public if declared.public else self.table)(declared.name, **limits)
        columns = []
        for name, column in opened.schema.items():
            told: dict[str, Any] = {"name": name, "type": column.type_name, "missing": column.missing}
            bounds, domain = declared.bounds(name), declared.domains([name])
            if bounds is not None:
                told |= {"lower": _exact(bounds[0]), "upper": _exact(bounds[1])}
            if domain is not None:
                told["domain"] = plain(domain[0])
            columns.append(told)
        told = {"name": declared.name, "public": declared.public, "columns": columns}
        told |= {"notes": list(opened.notes)}
        if not declared.public:
            parts = [part.text for part in opened._unit_parts]
            told |= {"privacy_unit": opened.unit, "privacy_unit_parts": parts}
            told |= {"unit_timezone": declared.unit_timezone, "foreign_key": _key(declared)}
            told |= {"timezone": declared.timezone}
            told |= {"max_groups": declared.max_groups, "max_rows": declared.max_rows}
            told |= {"max_joined_rows": declared.max_joined_rows}
        return told


def _key(declared: TableDeclaration) -> dict[str, str] | None:
    """Return by which column a table reaches its privacy unit, through another one; None where it has one."""
    key = declared.foreign_key
    return None if key is None else {"column": key.column, "table": key.table, "key": key.key}


def _exact(number: Fraction) -> str:
    """Return a bound as a text that says all of it: a whole number, or a quotient."""
    return str(number)
