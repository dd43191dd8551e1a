"""Unit sums: the sum of a column with bounds on what each unit adds to each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.framework import WHOLE, Body, Segment
from sfumato.sql_text import identifier
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, as_double, scaled_down, steps_half_away
from sfumato.transformations.row_sql import RowSql, SqlPart
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic

# A row is clamped to this many steps before it is added up, so that a unit's own sum is exact in
# 128 bits whatever its rows are: 2^62 steps times 2^64 rows.
HUGE_STEPS = 1 << 62


@dataclass(frozen=True)
class UnitSum(Statistic):
    """A sum of units' sums in a group, each exact and clamped to [lower, upper] steps.

    A unit without a value adds zero.

    Args:
        label: the prefix of the coordinate's name.
        column: the column to add up.
        exponent: log2 of the grid step; 0 for integer columns.
        lower, upper: the bounds in steps.
        integer: whether the column has integers, which are added without conversion to float64.
        centre: the number of steps subtracted from each unit's sum: the midpoint of `ends` if a count of
            units is released too and restores it, which at least halves the sensitivity.
        missing: whether a row can lack a value, so that a unit can have none.

    >>> hours = UnitSum("x", "x", 0, 5, 10, integer=True)
    >>> hours.contribution([{"x": 7}, {"x": 9}, {"x": None}]), hours.contribution([{"x": None}])
    (Counter({'x.total': 10}), Counter({'x.total': 0}))

    Proof: docs/proofs/unit_sum.md.
    """

    label: str
    column: str
    exponent: int
    lower: int
    upper: int
    integer: bool
    centre: int = 0
    missing: bool = True

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of the sum of unit sums, in the column's unit."""
        what = f"sum of {self.column}, bounded per unit and group"
        bounds = float(self.lower * self.step), float(self.upper * self.step)
        return (Coordinate(f"{self.label}.total", Role.SUM, self.step, self.column, what, bounds),)

    @property
    def step(self) -> Fraction:
        """The grid step of the unit sums, in the column's unit."""
        return Grid(self.exponent).step

    @property
    def ends(self) -> tuple[int, int]:
        """The range of a unit's sum, in steps: the bounds, and 0 if a unit can have no value."""
        return (min(self.lower, 0), max(self.upper, 0)) if self.missing else (self.lower, self.upper)

    def row_steps(self, value: Any) -> int | None:
        """Return a row's value in steps, clamped to the huge range; None for NULL and NaN.

        Args:
            value: the row's value; None for NULL.
        Returns:
            A whole number, or None.

        >>> hours = UnitSum("hours", "hours", exponent=-1, lower=0, upper=80, integer=False)
        >>> [hours.row_steps(value) for value in (7.3, 90, None)]
        [15, 180, None]
        """
        if self.integer:
            return None if value is None else min(max(int(value), -HUGE_STEPS), HUGE_STEPS)
        number = as_double(value)
        if number is None:
            return None
        huge = float(HUGE_STEPS * self.step)
        return steps_half_away(min(max(number, -huge), huge), self.exponent)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the clamped unit sum, minus the centre."""
        values = [x for row in rows if (x := self.row_steps(row[self.column])) is not None]
        clamped = 0 if self.missing and not values else min(max(sum(values), self.lower), self.upper)
        return Counter({self.names[0]: scaled_down(clamped - self.centre, 1, 1, weight)})

    @property
    def per_unit(self) -> str:
        """How a unit counts: with its unit sum."""
        return f"with its sum of {self.column} within bounds"

    @property
    def description(self) -> dict[str, Any]:
        """The description of the unit sums for the certificate."""
        ends = {"lower": str(self.lower), "upper": str(self.upper), "centre": str(self.centre)}
        return {"kind": "unit_sum", "name": self.names[0], **ends, "missing": self.missing}

    @property
    def body(self) -> Body:
        """The body of a unit sum: the larger distance of an end from the centre."""
        bound = max(abs(end - self.centre) for end in self.ends)
        return Segment(self.names[0], Fraction(bound))

    @property
    def never_negative(self) -> bool:  # type: ignore[override]
        """Whether no unit sum is below the centre."""
        return self.ends[0] >= self.centre

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL of the unit sums: totals of units in a group, within bounds."""
        name = self.names[0]
        if self.integer:
            value = sql.column(self.column)
            if sql.columns[self.column] == "UHUGEINT":
                value = f"least({value}, {HUGE_STEPS}::UHUGEINT)"
            value = f"CAST({value} AS HUGEINT)"
            clamped = f"least(greatest({value}, {-HUGE_STEPS}), {HUGE_STEPS})"
            row = f"CASE WHEN {value} IS NOT NULL THEN {clamped} END"
        else:
            row = sql.steps(self.column, -HUGE_STEPS, HUGE_STEPS, self.exponent)
        total = f"least(greatest({identifier(name)}, {self.lower}), {self.upper})"
        nothing = 0 if self.missing else min(max(0, self.lower), self.upper)
        total = f"CASE WHEN {identifier(name)} IS NULL THEN {nothing} ELSE {total} END"
        value = sql.value(f"CAST({row} AS BIGINT)", "BIGINT")
        added = sql.scaled(f"({total} - {self.centre})::HUGEINT", None, self.body)
        return [SqlPart(name, f"sum({value})", f"sum({added})")]
