"""Declarations of tables and columns by their owner: units, bounds, domains, limits, foreign keys."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Displayed, Rows, Sentences
from sfumato.display.formatting import Spelled, exact, visible
from sfumato.errors import QueryError, nearest, shown
from sfumato.names import SuggestingArguments
from sfumato.query.schema import match_name

_MAX_LISTED = 40  # tables, and columns of all of them
_FIRST = 5  # values of a domain


def catalog_card(catalog: Declarations) -> Card:
    """Return the card that shows a catalog's declarations, without sources, which may hold passwords."""
    tables = list(catalog.tables.values())
    rows = [[one.name, _whose(catalog, one), _limits(one)] for one in tables[:_MAX_LISTED]]
    columns = [(table, column) for table in tables for column in table.columns]
    known = [[table.name, column.name, _known(column)] for table, column in columns[:_MAX_LISTED]]
    return Card(
        catalog_title(catalog.name),
        [
            Rows(
                ["table", "whose rows", "limits"], rows, left=3, beyond=_omitted_line("tables", len(tables))
            ),
            Rows(
                ["table", "column", "what is known"],
                known,
                left=3,
                beyond=_omitted_line("columns", len(columns)),
            )
            if known
            else None,
            Sentences(["Nothing was read for this: a source is opened only when one of its tables is."]),
        ],
    )


def catalog_title(name: str) -> str:
    """Return how a catalog's declarations are titled: its file name without folders."""
    last = re.split(r"[/\\]", name)[-1]
    return "Catalog" if last == "catalog" else f"Catalog {last}"


def _whose(catalog: Declarations, table: TableDeclaration) -> str:
    """Return whose rows a declared table has, for the catalog's card."""
    if table.public:
        return "public"
    unit = ", ".join(table.unit_parts) or catalog.unit_name(table.name)
    key = table.foreign_key
    by = "" if key is None else f", by {key.column} → {key.table}.{key.key}"
    return f"private, of each {unit}{by}"


def _limits(table: TableDeclaration) -> str:
    """Return the declared limits of a table, for the catalog's card."""
    limits = ("groups", table.max_groups), ("rows", table.max_rows), ("joined rows", table.max_joined_rows)
    return ", ".join(f"{name}={limit:,}" for name, limit in limits if limit is not None)


def _known(column: ColumnDeclaration) -> str:
    """Return the declared bounds and domain of a column, for the catalog's card."""
    known = []
    if column.bounds is not None:
        lower, upper = column.bounds
        known.append(f"{exact(lower)} to {exact(upper)}")
    if column.domain is not None:
        more = f", … ({len(column.domain):,} values)" if len(column.domain) > _FIRST else ""
        known.append(f"one of {', '.join(map(str, column.domain[:_FIRST]))}{more}")
    if column.complete:
        known.append("never missing")
    return "; ".join(known)


def _omitted_line(what: str, number: int) -> str:
    """Return the line that says how many declarations the catalog's card leaves out."""
    return f"The first {_MAX_LISTED} of {number:,} {what}." if number > _MAX_LISTED else ""


@dataclass(frozen=True, repr=False)
class ColumnDeclaration(Spelled):
    """The declaration of a column: its bounds and domain, as public knowledge.

    Args:
        name: the column.
        bounds: a range that its values are known to be in, lower and upper; None where none is declared.
        domain: all values that it has, as public knowledge; None where they are not declared.
        complete: whether rows without a value are dropped, as there are none.
    """

    name: str
    bounds: tuple[Fraction, Fraction] | None = None
    domain: tuple[Hashable, ...] | None = None
    complete: bool = False


@dataclass(frozen=True)
class ForeignKey:
    """A declared foreign key: a column that names a row of another table.

    Args:
        column: the column here.
        table, key: the table there, and its column, whose values are unique.
    """

    column: str
    table: str
    key: str


# What a question may not go beyond.
LIMITS = ("max_groups", "max_rows", "max_joined_rows")


@dataclass(frozen=True)
class TableDeclaration:
    """The declaration of a table in a catalog.

    Args:
        name: what FROM and `Catalog.table` call it.
        catalog: the catalog's file, or "catalog" where it is a dict; for messages.
        source: what `sfumato.scan` takes; a path of a file's catalog begins at the folder of that file.
        public: whether anybody may see its rows.
        privacy_unit: the column of the privacy unit; None where the table is public, or reaches its
            unit by the foreign key, until `Declarations.private` follows that.
        unit_parts: the columns and expressions that make a unit together; none where it is one column.
        unit_timezone: in which these expressions read times with a zone.
        timezone: in which all else does, where a query names no other; that of the catalog.
        types, multiline, encoding: as for `sfumato.scan`.
        foreign_key: how a private table without a privacy unit of its own reaches one.
        max_groups, max_rows: the largest limits, of groups per unit and of rows per unit and group, that a
            question may have, and those of a question that has none; None where not declared.
        max_joined_rows: the same of joined rows of a unit.
        columns: what is known of columns, by their names as declared.
    """

    name: str
    catalog: str
    source: Any = field(repr=False, compare=False)
    public: bool = False
    privacy_unit: str | None = None
    unit_parts: tuple[str, ...] = ()
    unit_timezone: str = "UTC"
    timezone: str = "UTC"
    types: Mapping[str, str] | None = field(default=None, hash=False)
    multiline: bool = True
    encoding: str | None = None
    foreign_key: ForeignKey | None = None
    max_groups: int | None = None
    max_rows: int | None = None
    max_joined_rows: int | None = None
    columns: tuple[ColumnDeclaration, ...] = ()

    @property
    def where(self) -> str:
        """The place of the declaration, for messages."""
        return f"{self.catalog}: tables.{self.name}"

    def joined_with(self, others: Sequence[TableDeclaration]) -> TableDeclaration:
        """Return the declaration for rows made of several private tables: the smallest of their limits.

        Args:
            others: that are joined with this one, or united.
        """
        tables = (self, *others)
        limits = {name: [getattr(one, name) for one in tables] for name in LIMITS}
        least: dict[str, Any] = {
            name: min((limit for limit in of if limit is not None), default=None)
            for name, of in limits.items()
        }
        names = dict.fromkeys(name for one in tables for name in one.name.split(", "))
        return replace(self, name=", ".join(names), **least)

    def bounds(self, column: str) -> tuple[Fraction, Fraction] | None:
        """Return the declared bounds of a column, in any case; None where there are none."""
        found = self._column(column)
        return None if found is None else found.bounds

    def domains(self, columns: Sequence[str]) -> tuple[tuple[Hashable, ...], ...] | None:
        """Return the declared domains of columns; None where one has none, or no column is named."""
        declared = [self._column(column) for column in columns]
        found = [column.domain for column in declared if column is not None and column.domain is not None]
        return tuple(found) if found and len(found) == len(columns) else None

    def nearest(self, column: str) -> str | None:
        """Return the column with declared bounds whose name is closest to an undeclared one."""
        return None if self._column(column) else nearest(column, [c.name for c in self.columns if c.bounds])

    def _column(self, name: str) -> ColumnDeclaration | None:
        return next((one for one in self.columns if one.name.casefold() == name.casefold()), None)


@dataclass(frozen=True, repr=False)
class Declarations(SuggestingArguments, Displayed):
    """The declarations of a catalog's tables, by name.

    Args:
        name: the catalog's file, or "catalog" where it is a dict; for messages.
        tables: by name, in the order in which they are declared.
    """

    name: str
    tables: Mapping[str, TableDeclaration] = field(hash=False)

    def declaration(self, name: str) -> TableDeclaration:
        """Return the declaration of a table.

        Raises:
            QueryError: there is no such table.
        """
        own = match_name(name, self.tables) if isinstance(name, str) else None
        if own not in self.tables:
            near = nearest(name, self.tables) if isinstance(name, str) else None
            hint = f"; did you mean {near!r}?" if near else "."
            listed = ", ".join(self.tables)
            raise QueryError(f"{self.name}: there is no table {shown(name)}{hint} The tables are: {listed}")
        return self.tables[own]

    def unit_name(self, name: str) -> str:
        """Return the declared privacy unit of a table, perhaps reached by its foreign key."""
        table = self.declaration(name)
        key = table.foreign_key
        if key is None:
            return table.privacy_unit or ""
        there = self.unit_name(key.table)
        # A column that names units is one itself, and keeps its name.
        return key.column if key.key.casefold() == there.casefold() else there

    def private(self, name: str) -> TableDeclaration:
        """Return the declaration of a private table, with its privacy unit's column filled in.

        Raises:
            QueryError: there is no such table, or it is public.
        """
        table = self.declaration(name)
        if table.public:
            raise QueryError(
                f"{table.where}: the table is public, so it needs no noise. Read it directly, or "
                f"open it with catalog.public({name!r}) to join it to a private table"
            )
        return replace(table, privacy_unit=self.unit_name(name))

    def _card(self) -> Card:
        return catalog_card(self)

    def __repr__(self) -> str:
        return f"<{catalog_title(self.name)}: {', '.join(map(visible, self.tables))}>"


MAX_GROUPS = 1_000_000  # that are public, and so all in the output


def size(domains: Sequence[Sequence[object]]) -> int:
    """Return the number of groups that declared domains have together."""
    return math.prod(map(len, domains))


def check_size(columns: Sequence[str], domains: Sequence[Sequence[object]]) -> None:
    """Refuse declared domains that have too many groups together.

    Raises:
        QueryError: there are more than 1,000,000.
    """
    if size(domains) > MAX_GROUPS:
        sizes = " times ".join(f"{len(domain):,}" for domain in domains)
        raise QueryError(
            f"group_by: the domains of {', '.join(columns)} have {sizes} = {size(domains):,} "
            f"groups, but at most {MAX_GROUPS:,} can be shown. Choose groups privately with "
            "group_by(..., keys='private'), in SQL OPTIONS (group_selection = auto), or group by "
            "fewer columns"
        )


def product(columns: Sequence[str], domains: Sequence[Sequence[Hashable]]) -> pa.Table:
    """Return the groups of declared domains: each combination of their values, as a table.

    >>> product(["year", "city"], [(1, 2), ("Ulm", "Bonn")]).to_pylist()[1]
    {'year': 1, 'city': 'Bonn'}
    """
    check_size(columns, domains)
    places, repeated = np.arange(size(domains)), size(domains)
    table = {}
    for column, domain in zip(columns, domains, strict=True):
        repeated //= len(domain)
        table[column] = pa.array(list(domain)).take(pa.array(places // repeated % len(domain)))
    return pa.table(table)


def bounds_note(table: TableDeclaration, column: str, bounds: tuple[Fraction, Fraction]) -> str:
    """Return the note that a column's bounds come from its declaration."""
    lower, upper = (str(float(b)) if b.denominator > 1 else str(b) for b in bounds)
    return (
        f"{column} has no bounds in the question, so each row is clamped to {lower} to {upper}, "
        f"from {table.where}."
    )


def groups_note(table: TableDeclaration, keys: Sequence[str], domains: Sequence[Sequence[object]]) -> str:
    """Return the note that groups are public because their domains are declared."""
    return (
        f"the {size(domains)} groups by {', '.join(keys)} are public, from the domains in "
        f"{table.where}: each is shown, and rows with other values are dropped."
    )


def limit_note(table: TableDeclaration, name: str, limit: int) -> str:
    """Return the note that a limit comes from a table's declaration."""
    return f"{name} was not given, so it is {limit}, the most that {table.where} allows."


def unused_note(table: TableDeclaration, name: str) -> str:
    """Return the note that a declared limit has no effect on the largest groups."""
    return (
        f"{name} of {table.where} has no effect here: a unit counts in all of its groups, and the "
        "noise covers any number of them."
    )


def exceeded_limit_message(table: TableDeclaration, name: str, value: int, limit: int) -> str:
    """Return the message that a limit is above the declared one."""
    return f"{name} is {value}, but {table.where} allows at most {limit}"


def owner_notes(table: TableDeclaration, key: ForeignKey, unit: str) -> list[str]:
    """Return the notes on rows that reach their unit by a declared foreign key."""
    told = [
        f"each row of {table.name} belongs to the {unit} of the row of {key.table} whose "
        f"{key.key} is its {key.column}, from {table.where}. Rows without a match are dropped."
    ]
    if key.key.casefold() != unit.casefold():
        told.append(
            f"{key.table}.{key.key} is declared unique, which no release checks, as that would "
            f"reveal rows. A row of {table.name} whose {key.column} belongs to several {unit} "
            "counts for each of them, which divides its protection."
        )
    return told
