"""Schemas: columns with their types, and the steps that filter and derive."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, QueryError, shown
from sfumato.framework import AtomDomain, Domain, VectorDomain

# Types of columns, as DuckDB calls them: whole numbers, with how many digits they have at most.
INTEGERS = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 39,
    "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20,
}  # fmt: skip
# 0.0 and -0.0 are equal, and all NaN.
FLOATS = frozenset({"FLOAT", "DOUBLE"})
# With a sign or without.
INT128 = Fraction(-(2**127)), Fraction(2**128 - 1)
# A list of what is no list, or an array, whose length is in its type.
_LIST = re.compile(r"([^\[\]]+)\[(\d*)\]")
# Where an expression goes that takes the place of a column, whichever way a question is asked.
IN_PLACE = "instead (in Python, on a column that with_columns derives first)"


class Kind(Enum):
    """The kind of a column: `INTEGER`, `REAL`, `BOOLEAN`, or `OTHER`, such as text.

    An `OPAQUE` column has values that do not compare or print the same everywhere, so it cannot be a key or a
    privacy unit.

    >>> [kind.value for kind in Kind if kind.numeric]
    ['integer', 'real', 'boolean']
    """

    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    OTHER = "other"
    # Values that do not compare, or print, alike everywhere: no keys and no units.
    OPAQUE = "opaque"

    @property
    def numeric(self) -> bool:
        """Whether a column of this kind can have bounds."""
        return self in (Kind.INTEGER, Kind.REAL, Kind.BOOLEAN)


@dataclass(frozen=True)
class Column:
    """A column of a schema: its type, and whether values may be missing.

    Args:
        kind: the kind of its values.
        type_name: the engine's name for the type.
        missing: whether a row may lack a value (NULL or NaN), according to types, catalogs and conditions.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 2], "hours": [[0.5, 2.0], [1.0]]}), privacy_unit="id")
    >>> column = visits.schema["hours"]
    >>> column.type_name, column.kind.value, column.entries, column.length
    ('DOUBLE[]', 'opaque', AtomDomain(kind=float, nan=True, null=True), None)
    """

    kind: Kind
    type_name: str
    missing: bool = True

    @property
    def entries(self) -> AtomDomain | None:
        """The domain of the entries, for a column of lists of numbers; None for other columns."""
        of = _LIST.fullmatch(self.type_name)
        if of is None:
            return None
        if of[1] in INTEGERS:
            return AtomDomain(int, *INT128, null=True)
        if of[1] == "BOOLEAN":
            return AtomDomain(bool, null=True)
        real = of[1] in FLOATS or of[1].startswith("DECIMAL")
        return AtomDomain(float, nan=True, null=True) if real else None

    @property
    def length(self) -> int | None:
        """The length of each list in the column, if the type fixes it."""
        of = _LIST.fullmatch(self.type_name)
        return int(of[2]) if of is not None and of[2] else None

    @property
    def values(self) -> Domain:
        """The domain of a column's values; for texts, only whether they are NULL matters."""
        if (entries := self.entries) is not None:
            return VectorDomain(entries, null=True)
        if self.kind is Kind.INTEGER:
            return AtomDomain(int, *INT128, null=self.missing)
        if self.kind is Kind.REAL:
            return AtomDomain(float, nan=self.missing, null=self.missing)
        return AtomDomain(bool if self.kind is Kind.BOOLEAN else str, null=self.missing)


Schema = dict[str, Column]


@dataclass(frozen=True)
class Filter:
    """A step that keeps the rows where an expression is true; NULL and errors count as not true."""

    expression: str


@dataclass(frozen=True)
class Derive:
    """A step that adds or replaces a column; errors give NULL."""

    name: str
    expression: str


Step = Filter | Derive


def check_flat(where: str, column: str, schema: Schema, place: str) -> None:
    """Refuse a column whose values do not compare alike everywhere, such as a nested one."""
    if schema[column].kind is Kind.OPAQUE:
        name, type_name = format_name(column), schema[column].type_name
        field = f", or a field such as {name}.x," if type_name.startswith("STRUCT") else ""
        raise ColumnError(
            f"{where}: {column!r} is {type_name}, whose values cannot be compared reliably. Use "
            f"CAST({name} AS VARCHAR){field} {place}"
        )


def quote_name(name: str) -> str:
    """Quote a column name for SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def match_name(name: str, known: Iterable[str]) -> str:
    """Return the spelling in the schema of a column name that differs in case; else the name itself.

    >>> match_name("VISITS", ["visits", "towns"]), match_name("x", ["X", "x"]), match_name("X1", ["x"])
    ('visits', 'x', 'X1')
    """
    alike = [one for one in known if one.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else name


def format_name(column: str) -> str:
    """Write a column name as people do in SQL: in quotes if it needs them."""
    return column if column.isidentifier() else quote_name(column)


def check_expression(where: str, expression: object) -> str:
    """Return a valid SQL expression over columns, or raise an error on what it must be."""
    if not isinstance(expression, str) or not expression.strip():
        raise QueryError(
            f"{where}: {shown(expression)} is not an SQL expression. Write text such as 'age >= 25'"
        )
    return expression
