"""A catalog as a card: its tables, whose rows are in them, and what is declared of columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sfumato.display.card import Card, Rows, Sentences
from sfumato.display.numbers import exact

if TYPE_CHECKING:
    from sfumato.catalogs.declarations import ColumnDeclaration, Declarations, TableDeclaration

_MOST = 40  # tables, and columns of all of them
_FIRST = 5  # values of a domain


def catalog_card(catalog: Declarations) -> Card:
    """Return what a catalog declares. Sources are not told: an address may have a password in it."""
    tables = list(catalog.tables.values())
    rows = [[one.name, _whose(catalog, one), _limits(one)] for one in tables[:_MOST]]
    columns = [(table, column) for table in tables for column in table.columns]
    known = [[table.name, column.name, _known(column)] for table, column in columns[:_MOST]]
    return Card(
        called(catalog.name),
        [
            Rows(["table", "whose rows", "limits"], rows, left=3, beyond=_beyond("tables", len(tables))),
            Rows(["table", "column", "what is known"], known, left=3, beyond=_beyond("columns", len(columns)))
            if known
            else None,
            Sentences(["Nothing was read for this: no source is opened before a table of it is."]),
        ],
    )


def called(name: str) -> str:
    """Return what a catalog is called, without folders."""
    last = re.split(r"[/\\]", name)[-1]
    return "Catalog" if last == "catalog" else f"Catalog {last}"


def _whose(catalog: Declarations, table: TableDeclaration) -> str:
    if table.public:
        return "public"
    unit = ", ".join(table.unit_parts) or catalog.unit_name(table.name)
    key = table.foreign_key
    by = "" if key is None else f", by {key.column} → {key.table}.{key.key}"
    return f"private, of each {unit}{by}"


def _limits(table: TableDeclaration) -> str:
    limits = ("groups", table.max_groups), ("rows", table.max_rows), ("joined rows", table.max_joined_rows)
    return ", ".join(f"{name}={limit:,}" for name, limit in limits if limit is not None)


def _known(column: ColumnDeclaration) -> str:
    known = []
    if column.bounds is not None:
        lower, upper = column.bounds
        known.append(f"{exact(lower)} to {exact(upper)}")
    if column.domain is not None:
        more = f", … ({len(column.domain):,} values)" if len(column.domain) > _FIRST else ""
        known.append(f"one of {', '.join(map(str, column.domain[:_FIRST]))}{more}")
    return "; ".join(known)


def _beyond(what: str, number: int) -> str:
    return f"The first {_MOST} of {number:,} {what}." if number > _MOST else ""
