"""Count statistics: the numbers of units, of rows, and of values that are not NULL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.framework import WEIGHT_BITS, WHOLE, Body, Segment
from sfumato.sql_text import identifier
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, has_value, scaled_down, scaled_down_upwards
from sfumato.transformations.row_sql import RowSql, SqlPart
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic


@dataclass(frozen=True)
class CountUnits(Statistic):
    """The count of privacy units in a group: each unit contributes one.

    Args:
        exponent: log2 of the step, at most 0; the step is one unit or a fraction of one.

    >>> from sfumato.framework import WHOLE
    >>> CountUnits().contribution([{}, {}]), CountUnits(-20).contribution([{}], weight=WHOLE // 4)
    (Counter({'units': 1}), Counter({'units': 262144}))

    Proof: docs/proofs/count_units.md.
    """

    counts_units: ClassVar[bool] = True

    exponent: int = 0

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of the count of units."""
        return (Coordinate("units", Role.UNITS, Grid(self.exponent).step, "units", "privacy units"),)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return one, a unit's contribution to the count, whatever the rows are."""
        return Counter({"units": scaled_down(1 << -self.exponent, 1, 1, weight)})

    @property
    def divisible(self) -> bool:
        """Whether fractions of a unit are whole steps of the count."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """The description of the count of units for the certificate."""
        return {"kind": "units", "name": self.names[0], "one": str(1 << -self.exponent)}

    @property
    def body(self) -> Body:
        """The body of the count of units: one."""
        return Segment("units", Fraction(1 << -self.exponent))

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL that counts units, or parts of them."""
        one = sql.whole_number("1", self.exponent)
        return [SqlPart("units", "", "count(*)" if one == "1" else f"sum({one})", pair_type="BIGINT")]


@dataclass(frozen=True)
class Count(Statistic):
    """The count of rows, at most `rows` for each unit; with a column, of rows with a value in it.

    A unit with n rows, m of them with a value, counts m * min(1, rows/n). Without a column that is a whole
    number. With one it is rounded up to the grid and increased by a step, so that it limits sums of these
    values.

    Args:
        rows: the limit of rows per unit and group.
        column: the column whose values are counted, or None.
        exponent: log2 of the step, at most 0; the step is one row or a fraction of one.

    >>> Count(rows=2).contribution([{}, {}, {}])
    Counter({'rows': 2})
    >>> Count(rows=1, column="x", exponent=-2).contribution([{"x": 1.0}, {"x": None}])
    Counter({'x.present': 3})

    Proof: docs/proofs/count.md.
    """

    by_rows: ClassVar[bool] = True
    counts_rows: ClassVar[bool] = True
    limited: ClassVar[bool] = True
    never_negative: ClassVar[bool] = True

    rows: int
    column: str | None = None
    exponent: int = 0

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of the count of rows, in steps of one row or of a fraction of one."""
        step = Grid(self.exponent).step
        if self.column is None:
            return (Coordinate("rows", Role.ROWS, step, "rows", "rows"),)
        name, what = f"{self.column}.present", f"rows with a value of {self.column}"
        return (Coordinate(name, Role.PRESENT, step, "rows", what),)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the count of the unit's rows, scaled down to the limit."""
        column = self.column
        values = len(rows) if column is None else sum(has_value(r[column]) for r in rows)
        counted = scaled_down_upwards(values, len(rows), self.rows, self.exponent, weight)
        return Counter({self.names[0]: counted})

    def _limits(self, other: Statistic) -> bool:
        """Whether another statistic is a sum over the rows that this count counts, each at most a row's.

        Rows that are scaled down are cut towards zero in all sums; they count as a whole number, and those
        with a value are rounded up.
        """
        if not other.limited or getattr(other, "rows", None) != self.rows:
            return False
        return self.column is None or other._value_column == self.column

    @property
    def divisible(self) -> bool:
        """Whether fractions of a row are whole steps of the count."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """The description of the count of rows for the certificate."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "rows": self.rows}
        return counted | (
            {"kind": "rows"} if self.column is None else {"kind": "values", "column": self.column}
        )

    @property
    def body(self) -> Body:
        """The body of the count: as many rows as the limit."""
        return Segment(self.names[0], Fraction(self.rows << -self.exponent))

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL that counts rows, or rows with a value."""
        if self.column is None:
            counted = sql.whole_number(f"least(n, {self.rows})", self.exponent)
            return [SqlPart("rows", "", f"sum({counted})")]
        name, valued = self.names[0], sql.value(sql.valued(self.column), "BOOLEAN")
        present = f"count(*) FILTER ({valued})"
        shifted = f"({identifier(name)}::HUGEINT * {1 << -self.exponent})"
        limit = self.rows << -self.exponent
        added = f"sum({sql.scaled_upwards(shifted, self.rows, limit, self.body)})"
        return [SqlPart(name, present, added, pair_type="BIGINT")]
