"""Weighted sums: survey weights, and values times weights, added up with bounds on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, Body, Product, Segment
from sfumato.sql_text import identifier
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, ValueGrid, as_double, has_value, scaled_down, steps_half_away
from sfumato.transformations.row_sql import RowSql, SqlPart
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic


@dataclass(frozen=True)
class WeightGrid:
    """The grid of weights in weighted sums: from 0 to a largest weight, to which larger ones are trimmed.

    Negative weights are 0.

    Args:
        exponent: log2 of the step.
        most: the largest weight, in steps.

    >>> WeightGrid.up_to(Fraction(50), whole=True)
    WeightGrid(exponent=0, most=50)
    >>> [WeightGrid(-1, 100).steps(w) for w in (1.3, -2, 1e9, None, float("nan"))]
    [3, 0, 100, None, None]
    """

    exponent: int
    most: int

    # Of a largest weight: a product with a value of 2^31 steps, and a thousand of these, are in 64 bits.
    BITS: ClassVar[int] = 22

    @classmethod
    def up_to(cls, most: Fraction, whole: bool) -> WeightGrid:
        """Return the grid of weights up to a largest weight, which moves outward to the grid.

        Args:
            most: the largest weight, greater than 0.
            whole: whether weights are whole numbers.
        Returns:
            The grid.
        """
        fine = Grid.for_noise(most, cls.BITS)
        grid = Grid(max(fine.exponent, 0)) if whole else fine
        return cls(grid.exponent, grid.steps_at_least(most))

    @property
    def step(self) -> Fraction:
        """The step of the grid of weights."""
        return Grid(self.exponent).step

    def steps(self, weight: object) -> int | None:
        """Return a weight in steps, trimmed; None if there is no weight.

        Args:
            weight: the row's weight; None for NULL.
        Returns:
            A whole number, or None.
        """
        number = as_double(weight)
        if number is None:
            return None
        return steps_half_away(min(max(number, 0.0), float(self.most * self.step)), self.exponent)

    def _sql(self, sql: RowSql, column: str) -> str:
        """Return the SQL of a weight in steps."""
        return sql.steps(column, 0, self.most, self.exponent)


@dataclass(frozen=True)
class WeightedSum(Statistic):
    """A weighted sum: the weights of rows with a value, and their values times their weights.

    A row with weight w and value x, in steps, the value from the centre of its bounds, adds w to the first
    number and round(w x / 2^bits) to the second; without a weight or a value it adds nothing. A unit with n
    rows is scaled down by rows/n: weights upwards, and values towards zero, so that weights always limit
    values.

    Args:
        label: the prefix of the coordinates' names.
        weight: the column of weights.
        rows: the limit of rows per unit and group.
        weights: bounds and step of the weights.
        column: the column of values; None for only the weights of all rows.
        grid: bounds and step of the values; None for only weights.
        bits: log2 of the coarsening of products.
    Raises:
        ParameterError: there is a grid without a column of values.

    >>> total = WeightedSum("x·w", "w", 1, WeightGrid(0, 50), "x", ValueGrid(0, 0, 30))
    >>> total.contribution([{"x": 20, "w": 4}]), total.contribution([{"x": None, "w": 4}])
    (Counter({'x·w.sum': 20, 'x·w.weight': 4}), Counter({'x·w.weight': 0, 'x·w.sum': 0}))

    Proof: docs/proofs/weighted_sum.md.
    """

    by_rows: ClassVar[bool] = True
    limited: ClassVar[bool] = True
    never_negative: ClassVar[bool] = True

    label: str
    weight: str
    rows: int
    weights: WeightGrid
    column: str | None = None
    grid: ValueGrid | None = None
    bits: int = 0

    def __post_init__(self) -> None:
        if self.grid is not None and self.column is None:
            raise ParameterError("column", self.column, "a column, where there are bounds of its values")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a weighted sum: the weights, and the values."""
        return (self.weight,) if self.column is None else (self.weight, self.column)

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinates of a weighted sum: weights, then weighted values if they are added up."""
        bounds = 0.0, float(self.weights.most * self.weights.step)
        of = "rows" if self.column is None else f"rows with a value of {self.column}"
        what = f"sum of the weights {self.weight} of {of}, trimmed"
        weights = Coordinate(
            f"{self.label}.weight", Role.WEIGHTS, self.weights.step, self.weight, what, bounds
        )
        if self.grid is None or self.column is None:
            return (weights,)
        step = Grid(self.weights.exponent + self.grid.exponent + self.bits).step
        what = f"sum of {self.column} about the middle of its bounds, times {self.weight}, bounded per row"
        values = Coordinate(f"{self.label}.sum", Role.SUM, step, self.column, what, self.grid.bounds)
        return weights, values

    def row(self, row: Values) -> tuple[int, int]:
        """Return what one row adds to the sum of weights and to the weighted sum of values.

        Args:
            row: the row's values by column.
        Returns:
            The amounts.

        >>> income = WeightedSum("income", "w", 1, WeightGrid(0, 50), "income", ValueGrid(0, 0, 90))
        >>> [income.row({"income": 60, "w": w}) for w in (4, 1000, None)]
        [(4, 60), (50, 750), (0, 0)]
        """
        w = self.weights.steps(row[self.weight])
        if w is None or (self.column is not None and not has_value(row[self.column])):
            return 0, 0
        if self.grid is None or self.column is None:
            return w, 0
        x = self.grid.centred(row[self.column])
        return (0, 0) if x is None else (w, (w * x + ((1 << self.bits) >> 1)) >> self.bits)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the unit's weighted sums, scaled down to the limit of rows."""
        weights, values = map(sum, zip(*(self.row(row) for row in rows), strict=True))
        if len(rows) > self.rows:
            weights = -(-weights * self.rows // len(rows))
        found = weights * weight // WHOLE, scaled_down(values, len(rows), self.rows, weight)
        return Counter(dict(zip(self.names, found, strict=False)))

    @property
    def divisible(self) -> bool:
        """Whether fractions of a unit count: a fraction of a weight is not a whole number of steps."""
        return False

    @property
    def largest(self) -> int:
        """The largest |value| of a weighted sum, in steps of products per step of weights."""
        return 0 if self.grid is None else -(-self.grid.half_range >> self.bits)

    @property
    def description(self) -> dict[str, Any]:
        """The description of the weighted sum for the certificate."""
        grid = self.grid
        return {
            "kind": "weighted",
            "name": f"{self.label}.weight",
            "rows": self.rows,
            "weight": str(self.weights.most),
            "values": None
            if grid is None
            else {
                "name": f"{self.label}.sum",
                "lower": str(grid.lower),
                "upper": str(grid.upper),
                "centre": str(grid.centre),
                "bits": self.bits,
            },
        }

    @property
    def body(self) -> Body:
        """The body of a weighted sum: rows of the largest weight, with values at an end of the bounds."""
        most = self.rows * self.weights.most
        sizes = (most, most * self.largest)
        parts = (Segment(name, Fraction(size)) for name, size in zip(self.names, sizes, strict=False))
        return Product(tuple(parts))

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL of the weighted sum: weights of rows with a value, and products in 64 bits."""
        weight = self.weights._sql(sql, self.weight)
        if self.column is not None:
            weight = f"CASE WHEN {sql.valued(self.column)} THEN {weight} END"
        w, name = sql.value(weight, "BIGINT"), identifier(self.names[0])
        total = f"coalesce({name}, 0)::HUGEINT"
        upwards = f"CASE WHEN n <= {self.rows} THEN {total} ELSE ({total} * {self.rows} + n - 1) // n END"
        found = [SqlPart(self.names[0], f"sum({w})", f"sum({upwards})")]
        if self.grid is None or self.column is None:
            return found
        grid = self.grid
        x = f"{sql.steps(self.column, grid.lower, grid.upper, grid.exponent)} - {grid.centre}"
        product = f"({w} * {sql.value(x, 'BIGINT')})"
        if self.bits:
            # Shifted as a number that is not negative: any other is not said to round down.
            least = self.weights.most * self.largest
            half = 1 << (self.bits - 1)
            product = f"((({product} + {(least << self.bits) + half}) >> {self.bits}) - {least})"
        total = f"coalesce({identifier(self.names[1])}, 0)::HUGEINT"
        added = f"sum({sql.scaled(total, self.rows, self.body)})"
        return [*found, SqlPart(self.names[1], f"sum({product})", added)]
