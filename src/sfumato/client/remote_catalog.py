"""The tables of a service as their owner declares them: a catalog whose rows are elsewhere.

On it a question is checked, planned and previewed as beside the rows. In the place of each table's rows
stands one that is made up, of which nothing is ever asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.catalogs.declarations import ColumnDeclaration, ForeignKey, TableDeclaration
from sfumato.engines.catalog import Catalog
from sfumato.query.tables.dummy_rows import DummyRows, Making

NAME = "catalog"  # as errors of the service call it
_ONE = Making(1, 1, 0)
# How values of a domain, which are texts in JSON, are read by the type of their column.
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "DECIMAL": Decimal,
    "TIMESTAMP": datetime.fromisoformat,
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
}


def declared_catalog(tables: Mapping[str, Mapping[str, Any]]) -> Catalog:
    """Return the catalog of tables as a service tells them."""
    return Catalog(NAME, {name: _table(told) for name, told in tables.items()})


def _table(told: Mapping[str, Any]) -> TableDeclaration:
    key, parts = told.get("foreign_key"), tuple(told.get("privacy_unit_parts", ()))
    unit: str | None = None if told["public"] else told["privacy_unit"]
    # A unit of several columns is no column of the source; nor is one that another table brings.
    brought = bool(parts) or (
        key is not None and unit is not None and unit.casefold() != key["column"].casefold()
    )
    columns = [one for one in told["columns"] if not (brought and one["name"] == unit)]
    rows = DummyRows(
        _ONE,
        {one["name"]: one["type"] for one in columns},
        frozenset(one["name"] for one in columns if not one["missing"]),
        None if brought else unit,
        public=told["public"],
        name=told["name"],
        elsewhere=True,
    )
    return TableDeclaration(
        told["name"],
        NAME,
        rows,
        public=told["public"],
        privacy_unit=None if key is not None else unit,
        unit_parts=() if key is not None else parts,
        unit_timezone=told.get("unit_timezone", "UTC"),
        timezone=told.get("timezone", "UTC"),
        foreign_key=None if key is None else ForeignKey(key["column"], key["table"], key["key"]),
        max_groups=told.get("max_groups"),
        max_rows=told.get("max_rows"),
        max_joined_rows=told.get("max_joined_rows"),
        columns=tuple(_column(one) for one in columns if "lower" in one or "domain" in one),
    )


def _column(told: Mapping[str, Any]) -> ColumnDeclaration:
    bounds = (Fraction(told["lower"]), Fraction(told["upper"])) if "lower" in told else None
    read = next((read for kind, read in _VALUES.items() if told["type"].startswith(kind)), None)
    values = told.get("domain")
    if values is not None and read is not None:
        values = [value if value is None else read(value) for value in values]
    return ColumnDeclaration(told["name"], bounds, None if values is None else tuple(values))
