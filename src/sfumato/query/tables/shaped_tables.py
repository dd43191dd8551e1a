"""Shaped tables, made of one private table by SELECT, IN or window functions; as plain data.

All are unit-local: the rows that they hold for a unit follow from that unit's rows and public tables alone.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.query.schema import FLOATS, INTEGERS
from sfumato.query.tables.table_part import Part

_TIMES = ("DATE", "TIMESTAMP")
_ZONED = "TIMESTAMP WITH TIME ZONE"
_YEARS = 10_000
LARGEST = 10**18  # a number; so that it and a value are far within 128 bits
# Of months, days and microseconds: what reaches from any year to any other one.
_MAX = (12 * _YEARS, 366 * _YEARS, 366 * _YEARS * 24 * 3600 * 10**6)


@dataclass(frozen=True)
class Distance:
    """The distance of a window frame with RANGE: a number, or a span of time, not negative.

    Args:
        number: in the units of a column of numbers; None of a span.
        span: months, days and microseconds: a month has no fixed number of days, nor has a day one of hours
            where clocks are changed.
    """

    number: Fraction | None = None
    span: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        given = (self.number,) if self.number is not None else self.span
        if any(part < 0 for part in given):
            raise ValueError(
                "a distance in a window cannot be negative. PRECEDING and FOLLOWING give the direction"
            )
        if (self.number or 0) > LARGEST or any(p > most for p, most in zip(self.span, _MAX, strict=True)):
            raise ValueError(f"a distance in a window is at most {LARGEST:,}, or {_YEARS:,} years")

    @property
    def is_zero(self) -> bool:
        """Whether the distance of the window frame is 0."""
        return not (any(self.span) if self.number is None else self.number)

    def misfit(self, kind: str) -> str | None:
        """Return why a window frame cannot have this distance for a column type; else None."""
        number = self.number is not None
        if kind == "HUGEINT" or kind.startswith("DECIMAL(38,"):
            return f"{kind} leaves no room for a distance beyond it: CAST(... AS DOUBLE), or AS BIGINT"
        if kind in INTEGERS or kind in FLOATS or kind.startswith("DECIMAL("):
            return None if number else f"{kind} is a number, but the distance is an INTERVAL. Write a number"
        if kind not in (*_TIMES, _ZONED):
            return f"{kind} is not a number, date or timestamp. Cast it to one with CAST(... AS ...)"
        if number:
            return f"{kind} is a time, but the distance is a number. Write INTERVAL 30 DAYS"
        if kind == _ZONED and any(self.span[:2]):
            return (
                "the day and month of a time with a zone depend on the zone. Write ORDER BY CAST(... "
                "AS TIMESTAMP), or INTERVAL 720 HOURS"
            )
        return None


# Columns that stay as they are: the name that each has in the part, and its new one.
Renamed = tuple[tuple[str, str], ...]
# ROWS, RANGE or GROUPS, the two ends as SQL has them, and their distances.
Frame = tuple[str, str, str, Distance | None, Distance | None]


def same(part: Part) -> Renamed:
    """Return all columns of a table part under their own names."""
    return tuple((name, name) for name in part.schema)


@dataclass(frozen=True)
class Select:
    """A table shaped by SELECT: chosen columns, renamed and in another order.

    Args:
        part: the table.
        columns: (column, new name); one column may be there several times.
        unit: the new name of the privacy unit's column.
    """

    part: Part
    columns: Renamed
    unit: str
    by_rows = True

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The part that columns are selected from, and the columns that stay."""
        return ((self.part, self.columns),)

    @property
    def notes(self) -> list[str]:
        """Notes on the renamed columns for the explanation of a release."""
        renamed = [f"{old} is called {new}" for old, new in self.columns if old != new]
        told = [f"In the table, {', '.join(renamed)}."] if renamed else []
        return [*self.part.sentences("the table"), *told]


@dataclass(frozen=True)
class IsIn:
    """A private table with a column that says whether a value is in a public table, as SQL's IN.

    Args:
        part, other: the private table, and a public one of one column.
        column: whose values are looked for.
        name: of the new column.
    """

    part: Part
    other: Part
    column: str
    name: str
    by_rows = True

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The private part of the IN, and the columns that stay."""
        return (self.part, same(self.part)), (self.other, ())

    @property
    def notes(self) -> list[str]:
        """Notes on the IN for the explanation of a release."""
        told = f"In the table, {self.name} = {self.column} IN a public table."
        return [*self.part.sentences("the table"), told]


@dataclass(frozen=True)
class WithValue:
    """A private table with a column that holds one value of a public table, NULL if it has none.

    Args:
        part, other: the private table, and a public one of one column and at most one row.
        name: of the new column.
    """

    part: Part
    other: Part
    name: str
    by_rows = True

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The private part that gets the public value, and the columns that stay."""
        return (self.part, same(self.part)), (self.other, ())

    @property
    def notes(self) -> list[str]:
        """Notes on the public value for the explanation of a release."""
        return [
            *self.part.sentences("the table"),
            f"In the table, {self.name} is the value of a public table.",
        ]


@dataclass(frozen=True)
class Order:
    """A column by which a window orders its rows."""

    column: str
    direction: str


# Window functions that follow from the places of single rows, so that ties must be broken, or from peers.
PLACES, RANKS = ("row_number", "ntile", "lag", "lead"), ("rank", "dense_rank", "percent_rank", "cume_dist")
# Neither has a frame.
NO_FRAME: Frame = ("RANGE", "UNBOUNDED PRECEDING", "CURRENT ROW", None, None)


@dataclass(frozen=True)
class WindowCall:
    """A window function over a unit's rows in an order.

    Args:
        name: of the new column.
        function: such as "lag"; or "" where it is an aggregate.
        aggregate: SQL of the aggregate, or "".
        arguments: columns, or whole numbers: a distance, a place, how many parts.
        by: columns that rows have in common, beside the privacy unit.
        order: of the rows; those that it leaves open are put in order by all their columns.
        unit, start, end: of its frame: ROWS, RANGE or GROUPS, and its ends as SQL has them; NO_FRAME of
            PLACES and RANKS.
        distances: of the two ends of RANGE, which stand where these have {}.
        ignore_nulls: whether rows without a value are passed over.
    """

    name: str
    function: str
    aggregate: str
    arguments: tuple[str | int, ...]
    by: tuple[str, ...]
    order: tuple[Order, ...]
    unit: str
    start: str
    end: str
    ignore_nulls: bool = False
    distances: tuple[Distance | None, Distance | None] = (None, None)

    def __post_init__(self) -> None:
        if (
            self.function in (*PLACES, *RANKS)
            and (self.unit, self.start, self.end, *self.distances) != NO_FRAME
        ):
            raise ValueError(f"{self.function} has no frame")

    @property
    def described(self) -> str:
        """The window function in words."""
        called = self.aggregate or f"{self.function}({', '.join(map(str, self.arguments))})"
        order = ", ".join(f"{one.column} {one.direction}" for one in self.order) or "all columns"
        return f"{called} over rows in the order of {order}"


@dataclass(frozen=True)
class Window:
    """A private table with columns that window functions compute from the rows of one unit."""

    part: Part
    calls: tuple[WindowCall, ...]

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The part under the window functions, and the columns that stay: all."""
        return ((self.part, same(self.part)),)

    @property
    def notes(self) -> list[str]:
        """Notes on the window functions for the explanation of a release."""
        told = [
            f"{call.name} = {call.described}, for each {' and '.join([str(self.part.unit), *call.by])}."
            for call in self.calls
        ]
        return [*self.part.sentences("the table"), *told]


@dataclass(frozen=True)
class Computed:
    """A public table that SQL computes from public tables alone.

    Args:
        parts: public tables, by the names that they have in the SQL.
        sql: a query whose result follows from these tables alone.
    """

    parts: tuple[tuple[str, Part], ...]
    sql: str

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """No part: a public table that SQL computes keeps its columns to itself."""
        return ()

    @property
    def notes(self) -> list[str]:
        """Notes on the computed public table for the explanation of a release."""
        return []
