"""Moments: sum, sum of squares and number of missing values of a column, with bounds on each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, Body, Norm
from sfumato.sql_text import identifier
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, ValueGrid, scaled_down
from sfumato.transformations.row_sql import RowSql, SqlPart
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic

T = TypeVar("T")

# The point by which squares are shifted, as a share of the largest square, such that rows at the
# middle of the bounds and rows at their ends weigh the same together with the sum; see
# docs/proofs/moments.md. Both norms then reach 25/16 of one statistic, where squares shifted by
# one half reach 2.
SQUARES_SHIFT = {Norm.L1: Fraction(23, 32), Norm.L2: Fraction(5, 8)}
SUM_AND_SQUARES = Fraction(25, 16)


@dataclass(frozen=True)
class Moments(Statistic):
    """Moments of one column: what mean, variance and row-bounded sum need besides a count of rows.

    Each row with a value x, in steps from the centre of its bounds, adds x to `sum` and round(x^2 /
    2^square_bits) - square_centre to `squares`. A row without a value adds 1 to `null_count` and nothing
    else. A row therefore adds to one part or the other, and `null_count` has no cost. A unit with n rows is
    scaled down by rows/n.

    Args:
        label: the prefix of the coordinates' names.
        column: the column.
        rows: the limit of rows per unit and group.
        grid: bounds and step of the values.
        centred: whether values are counted from the midpoint of the bounds instead of from zero.
        null_count_exponent: log2 of the step of `null_count`; None if the column has no missing values.
        square_bits: log2 of the coarsening of squares; None if they are not requested.
        square_centre: the amount subtracted from each coarsened square.
    Raises:
        ParameterError: squares are requested for values that are not centred.

    >>> grid = ValueGrid(0, 0, 30)
    >>> Moments("x", "x", 1, grid, True, 0, 0, 140).contribution([{"x": 20}])
    Counter({'x.sum': 5, 'x.null_count': 0, 'x.squares': -115})

    Proof: docs/proofs/moments.md.
    """

    by_rows: ClassVar[bool] = True
    limited: ClassVar[bool] = True

    label: str
    column: str
    rows: int
    grid: ValueGrid
    centred: bool = True
    null_count_exponent: int | None = None
    square_bits: int | None = None
    square_centre: int = 0

    def __post_init__(self) -> None:
        if self.square_bits is not None and not self.centred:
            # Squares are those of distances from the midpoint; the map knows no other pair.
            raise ParameterError("centred", self.centred, "True where squares are asked")

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinates of the moments: the sum, then missing values and squares if requested."""
        column, grid = self.column, self.grid
        values = f"of {column}{' about the middle of its bounds' if self.centred else ''}, bounded per row"
        return self._ordered(
            Coordinate(
                f"{self.label}.sum", Role.SUM, grid.step, column, f"sum of values {values}", grid.bounds
            ),
            Coordinate(
                f"{self.label}.null_count",
                Role.NULL_COUNT,
                Grid(self.null_count_exponent or 0).step,
                "rows",
                f"rows without a value of {column}",
            ),
            Coordinate(
                f"{self.label}.squares",
                Role.SQUARES,
                self.square_step,
                f"{column}²",
                f"sum of squares {values}",
                grid.bounds,
            ),
        )

    @property
    def square_step(self) -> Fraction:
        """The grid step of the moments' squares, in squared units of the column."""
        return Grid(2 * self.grid.exponent + (self.square_bits or 0)).step

    def _ordered(self, total: T, null_count: T, squares: T) -> tuple[T, ...]:
        return _select_terms(
            total, null_count, squares, self.null_count_exponent is not None, self.square_bits is not None
        )

    def row(self, value: object) -> tuple[int, int, int]:
        """Return what one row adds to the moments: sum, null_count (in rows) and squares.

        Args:
            value: the row's value; None for NULL.
        Returns:
            The three amounts.

        >>> age = Moments("age", "age", 1, ValueGrid(0, 0, 100), null_count_exponent=0, square_bits=0)
        >>> age.row(57), age.row(200), age.row(None)
        ((7, 0, 49), (50, 0, 2500), (0, 1, 0))
        """
        x = self.grid.centred(value)
        if x is None:
            return 0, 1, 0
        bits = self.square_bits or 0
        square = (x * x + ((1 << bits) >> 1) >> bits) - self.square_centre
        return (x if self.centred else x + self.grid.centre), 0, square

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the unit's moments, scaled down to the limit of rows."""
        sums = [sum(part) for part in zip(*(self.row(r[self.column]) for r in rows), strict=True)]
        sums[1] <<= -(self.null_count_exponent or 0)
        parts = self._ordered(*(scaled_down(part, len(rows), self.rows, weight) for part in sums))
        return Counter(dict(zip(self.names, parts, strict=True)))

    @property
    def half_range(self) -> int:
        """The largest |value| of a row in the moments, in steps from the centre or from zero."""
        grid = self.grid
        return grid.half_range if self.centred else max(abs(grid.lower), abs(grid.upper))

    @property
    def largest_square(self) -> int:
        """The largest coarsened square of a row in the moments, before the shift."""
        bits = self.square_bits or 0
        return self.grid.half_range**2 + ((1 << bits) >> 1) >> bits

    @property
    def description(self) -> dict[str, Any]:
        """The description of the moments for the certificate."""
        bits, nulls, grid = self.square_bits, self.null_count_exponent, self.grid
        return {
            "kind": "row_sums",
            "name": f"{self.label}.sum",
            "lower": str(grid.lower),
            "upper": str(grid.upper),
            "centre": str(grid.centre if self.centred else 0),
            "column": self.column,
            "rows": self.rows,
            "nulls": None if nulls is None else {"name": f"{self.label}.null_count", "one": str(1 << -nulls)},
            "squares": None
            if bits is None
            else {"name": f"{self.label}.squares", "bits": bits, "centre": str(self.square_centre)},
        }

    @property
    def body(self) -> Body:
        """The body of the moments: the contribution of `rows` rows, each with a value or without one."""
        names = self._ordered("sum", "null_count", "squares")
        return MomentsBody(
            tuple(f"{self.label}.{name}" for name in names),
            self.rows,
            self.half_range,
            None if self.null_count_exponent is None else 1 << -self.null_count_exponent,
            self.square_bits,
            self.largest_square,
            self.square_centre,
        )

    @property
    def _value_column(self) -> str | None:
        """The column of the moments, unless rows without a value are counted."""
        return self.column if self.null_count_exponent is None else None

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL of the moments: sums of bounded values, and of their squares."""
        grid = self.grid
        offset = grid.centre if self.centred else 0
        # NULL where the row has no value.
        steps = sql.steps(self.column, grid.lower, grid.upper, grid.exponent)
        x = sql.value(f"{steps} - {offset}", "BIGINT")
        parts = []
        for coordinate in self.coordinates:
            name, quoted = coordinate.name, identifier(coordinate.name)
            total, pair_type = f"coalesce({quoted}, 0)::HUGEINT", "HUGEINT"
            if coordinate.role is Role.NULL_COUNT:
                pair, pair_type = f"count(*) - {sql.counted(self.column)}", "BIGINT"
                total = f"({quoted}::HUGEINT * {1 << -(self.null_count_exponent or 0)})"
            elif coordinate.role is Role.SQUARES:  # of values from the centre
                bits = self.square_bits or 0
                half = (1 << bits) >> 1
                pair = f"sum(((({x} * {x}) + {half}) >> {bits}) - {self.square_centre})"
            else:
                pair = f"sum({x})"
            added = f"sum({sql.scaled(total, self.rows, self.body)})"
            parts.append(SqlPart(name, pair, added, pair_type=pair_type))
        return parts


@dataclass(frozen=True)
class MomentsBody(Body):
    """The body of moments: sums over `rows` rows, each (x, 0, shifted square) or (0, null_count, 0).

    The square is x² / 2^square_bits - centre, of |x| <= half_range.

    Args:
        coordinates: sum, rows without a value, and squares; those that are asked.
        rows: the limit of rows.
        half_range: the largest |x|, in steps.
        null_count: the weight of a row without a value, in steps; None where these are not counted.
        square_bits: log2 of the coarsening of squares; None where they are not asked.
        largest_square: the largest coarsened square.
        square_centre: what is taken off each.
    """

    coordinates: tuple[str, ...]
    rows: int
    half_range: int
    null_count: int | None
    square_bits: int | None
    largest_square: int
    square_centre: int

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates of the moments."""
        return self.coordinates

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The largest moments of a unit: `rows` times what a row adds at most."""
        square = max(self.square_centre, self.largest_square - self.square_centre)
        return tuple(
            Fraction(self.rows * size)
            for size in self._ordered(self.half_range, self.null_count or 0, square)
        )

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the noise scales of the moments: half the range of sum and squares.

        The null count's is as much as the other part of the row weighs.
        """
        weight = Fraction(1) if self.square_bits is None else SUM_AND_SQUARES
        # 4/5 is the root of 16/25: for L2 the squares of the weights are compared.
        null_count = 1 / weight if norm is Norm.L1 or weight == 1 else Fraction(4, 5)
        squares = Fraction(self.largest_square, 2)
        shares = self._ordered(Fraction(self.half_range), null_count * (self.null_count or 0), squares)
        return tuple(self.rows * share for share in shares)

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest weighted moments of `rows` rows, each with or without a value."""
        of = dict(zip(self._ordered("sum", "null_count", "squares"), scales, strict=True))
        row = self.with_value(norm, of["sum"], of.get("squares"))
        if self.null_count is not None:
            null_count = Fraction(self.null_count) / of["null_count"]
            row = max(row, null_count if norm is Norm.L1 else null_count**2)
        return row * (self.rows if norm is Norm.L1 else self.rows**2)

    def with_value(self, norm: Norm, sum_scale: Fraction, square_scale: Fraction | None) -> Fraction:
        """Return the largest weighted moments of one row with a value."""
        end = Fraction(self.half_range) / sum_scale
        if square_scale is None or self.square_bits is None:
            return end if norm is Norm.L1 else end**2
        # |coarsened square - its centre| is within half a step of a smooth function of x^2, whose
        # largest values, alone and with |x|, are at x = 0, at the end, or (L1) where slopes cancel before it.
        centre = (self.square_centre + Fraction(1, 2)) / square_scale
        top = (abs(self.largest_square - self.square_centre) + 1) / square_scale
        if norm is Norm.L2:
            return max(centre**2, end**2 + top**2)
        vertex = Fraction(1 << self.square_bits) * square_scale / (2 * sum_scale)
        if vertex > self.half_range:
            return end + top
        return max(centre + vertex / (2 * sum_scale), end + top)

    def _ordered(self, total: T, null_count: T, squares: T) -> tuple[T, ...]:
        return _select_terms(
            total, null_count, squares, self.null_count is not None, self.square_bits is not None
        )


def _select_terms(
    total: T, null_count: T, squares: T, counts_nulls: bool, has_squares: bool
) -> tuple[T, ...]:
    return (total, *((null_count,) if counts_nulls else ()), *((squares,) if has_squares else ()))
