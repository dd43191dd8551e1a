"""Cross moments: sums, squares and products of several columns, over rows that have a value in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, Body, Norm
from sfumato.framework.contribution_bodies import weigh_norm
from sfumato.sql_text import identifier
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, ValueGrid, scaled_down
from sfumato.transformations.row_sql import RowSql, SqlPart
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic

# With more columns, corners are too many to look at; each number then counts with its largest value.
MAX_CORNERS = 10


@dataclass(frozen=True)
class Axis:
    """A column of cross moments, between bounds.

    Args:
        label: the prefix of the names of its numbers.
        column: the column.
        grid: bounds and step of the values.
        square_centre: the amount subtracted from each square, in squared steps.

    >>> Axis("age", "age", ValueGrid(0, -5, 5)).column
    'age'
    """

    label: str
    column: str
    grid: ValueGrid
    square_centre: int = 0

    @property
    def square_step(self) -> Fraction:
        """The grid step of a cross moment's squares, in squared units of the column."""
        return self.grid.step**2


@dataclass(frozen=True)
class CrossMoments(Statistic):
    """Cross moments: sums and products for covariances, correlations and regressions of some columns.

    A row in which every column has a value, x_i steps from the centre of its bounds, adds x_i to each sum,
    x_i x_j to each requested product, x_i² - c_i to each requested square, and 1 to `complete` if that is
    counted. Any other row adds nothing. A unit with n rows is scaled down by rows/n.

    Args:
        label: the prefix of the coordinates' names.
        axes: the columns, by different labels.
        rows: the limit of rows per unit and group.
        pairs: positions (i, j), i <= j, of the columns with requested products; (i, i) for squares.
        complete_exponent: log2 of the step of the number of complete rows; None if each row is complete.
    Raises:
        ParameterError: a pair occurs twice, is not in order, or refers to columns that do not exist.

    >>> axes = Axis("x", "x", ValueGrid(0, 0, 30)), Axis("y", "y", ValueGrid(0, 0, 10))
    >>> cross = CrossMoments("both", axes, 1, ((0, 1),))
    >>> list(cross.contribution([{"x": 20, "y": 2}]).values())
    [5, -3, -15]
    >>> list(cross.contribution([{"x": 20, "y": None}]).values())
    [0, 0, 0]
    >>> cross.row({"x": 20, "y": 2}), cross.sum_name(1), cross.product_name(0, 1)
    ((5, -3, -15), 'both.y.rows_sum', "both.('x', 'y').rows_products")

    Proof: docs/proofs/cross_moments.md.
    """

    by_rows: ClassVar[bool] = True
    limited: ClassVar[bool] = True

    label: str
    axes: tuple[Axis, ...]
    rows: int
    pairs: tuple[tuple[int, int], ...]
    complete_exponent: int | None = None

    def __post_init__(self) -> None:
        ordered = all(0 <= i <= j < len(self.axes) for i, j in self.pairs)
        if not ordered or len(set(self.pairs)) < len(self.pairs):
            raise ParameterError("pairs", self.pairs, "different pairs of places in order")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the cross moments, without repetition."""
        return tuple(dict.fromkeys(axis.column for axis in self.axes))

    @property
    def complete(self) -> str:
        """The name of the number of complete rows."""
        return f"{self.label}.complete"

    def sum_name(self, i: int) -> str:
        """Return the name of a column's sum among cross moments.

        Args:
            i: the position of a column, from 0.
        Returns:
            The name.
        """
        return f"{self.label}.{self.axes[i].label}.rows_sum"

    def product_name(self, i: int, j: int) -> str:
        """Return the name of the product of two columns, or of one column's squares.

        Args:
            i, j: the positions of two columns, from 0.
        Returns:
            The name.
        """
        one, other = self.axes[i], self.axes[j]
        if i == j:
            return f"{self.label}.{one.label}.rows_squares"
        return f"{self.label}.{(one.label, other.label)}.rows_products"

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinates of cross moments: complete rows if counted, sums, then products."""
        among = f"in rows with a value of {', '.join(self.columns)}"
        found = []
        if self.complete_exponent is not None:
            step = Grid(self.complete_exponent).step
            found.append(Coordinate(self.complete, Role.PRESENT, step, "rows", f"number of rows, {among}"))
        for i, axis in enumerate(self.axes):
            what = f"sum of {axis.column} about the middle of its bounds, bounded per row, {among}"
            found.append(
                Coordinate(self.sum_name(i), Role.SUM, axis.grid.step, axis.column, what, axis.grid.bounds)
            )
        for i, j in self.pairs:
            one, other = self.axes[i], self.axes[j]
            unit = f"{one.column}²" if i == j else f"{one.column}·{other.column}"
            of = f"squares of {one.column}" if i == j else f"products of {one.column} and {other.column}"
            what = f"sum of {of} about the middle of its bounds, bounded per row, {among}"
            step, role = one.grid.step * other.grid.step, Role.SQUARES if i == j else Role.PRODUCTS
            found.append(Coordinate(self.product_name(i, j), role, step, unit, what))
        return tuple(found)

    def row(self, row: Values) -> tuple[int, ...]:
        """Return what one row adds to each cross moment and to the number of complete rows.

        Args:
            row: the row's values by column.
        Returns:
            The amounts.
        """
        values = [axis.grid.centred(row[axis.column]) for axis in self.axes]
        x = [value for value in values if value is not None]
        counted = self.complete_exponent is not None
        if len(x) < len(values):
            return (0,) * (counted + len(values) + len(self.pairs))
        products = (x[i] * x[j] - (self.axes[i].square_centre if i == j else 0) for i, j in self.pairs)
        return (*((1,) if counted else ()), *x, *products)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the unit's cross moments, scaled down to the limit of rows."""
        sums = [sum(part) for part in zip(*(self.row(row) for row in rows), strict=True)]
        if self.complete_exponent is not None:
            sums[0] <<= -self.complete_exponent
        parts = (scaled_down(part, len(rows), self.rows, weight) for part in sums)
        return Counter(dict(zip(self.names, parts, strict=True)))

    @property
    def description(self) -> dict[str, Any]:
        """The description of the cross moments for the certificate."""
        one, axes = self.complete_exponent, list(enumerate(self.axes))
        return {
            "kind": "cross",
            "rows": self.rows,
            "complete": None if one is None else {"name": self.complete, "one": str(1 << -one)},
            "columns": [
                {
                    "name": self.sum_name(i),
                    "lower": str(axis.grid.lower),
                    "upper": str(axis.grid.upper),
                    "centre": str(axis.grid.centre),
                    "square_centre": str(axis.square_centre),
                }
                for i, axis in axes
            ],
            "pairs": [{"name": self.product_name(i, j), "first": i, "second": j} for i, j in self.pairs],
        }

    @property
    def body(self) -> Body:
        """The body of cross moments: the contribution of `rows` rows, each complete or not."""
        return CrossBody(
            self.names,
            self.rows,
            tuple(axis.grid.half_range for axis in self.axes),
            tuple(axis.square_centre for axis in self.axes),
            self.pairs,
            None if self.complete_exponent is None else 1 << -self.complete_exponent,
        )

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL of cross moments: sums of bounded values and products, in 64 bits."""
        complete = sql.value(" AND ".join(f"({sql.valued(column)})" for column in self.columns), "BOOLEAN")
        x = []
        for axis in self.axes:
            grid = axis.grid
            steps = sql.steps(axis.column, grid.lower, grid.upper, grid.exponent)
            x.append(sql.value(f"{steps} - {grid.centre}", "BIGINT"))  # NULL where the row has no value
        only = f"FILTER ({complete})"
        pairs = [f"sum({one}) {only}" for one in x]
        for i, j in self.pairs:
            taken = f" - {self.axes[i].square_centre}" if i == j else ""
            pairs.append(f"sum({x[i]} * {x[j]}{taken}) {only}")
        names, parts = list(self.names), []
        if self.complete_exponent is not None:
            name = names.pop(0)
            total = f"({identifier(name)}::HUGEINT * {1 << -self.complete_exponent})"
            added = f"sum({sql.scaled(total, self.rows, self.body)})"
            parts.append(SqlPart(name, f"count(*) {only}", added, pair_type="BIGINT"))
        for name, pair in zip(names, pairs, strict=True):
            total = f"coalesce({identifier(name)}, 0)::HUGEINT"
            parts.append(SqlPart(name, pair, f"sum({sql.scaled(total, self.rows, self.body)})"))
        return parts


@dataclass(frozen=True)
class CrossBody(Body):
    """The body of cross moments: sums over `rows` rows of (complete, x_i, x_i x_j, x_i² - c_i), or zero.

    Each |x_i| is at most half_ranges[i].

    Args:
        coordinates: the names.
        rows: the limit of rows.
        half_ranges: the largest |x_i|, in steps.
        square_centres: c_i.
        pairs: of the products and squares.
        complete: the weight of a complete row, in steps; None where these are not counted.
    """

    coordinates: tuple[str, ...]
    rows: int
    half_ranges: tuple[int, ...]
    square_centres: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    complete: int | None

    @property
    def names(self) -> tuple[str, ...]:
        """The coordinates of the cross moments."""
        return self.coordinates

    @property
    def linf_sensitivities(self) -> tuple[Fraction, ...]:
        """The largest cross moment of a unit: `rows` times what a row adds at most."""
        return tuple(Fraction(self.rows * size) for size in self._largest())

    def split(self, norm: Norm) -> tuple[Fraction, ...]:
        """Return the noise scales: half the range of each cross moment, all of it for complete rows."""
        h = self.half_ranges
        products = (Fraction(h[i] * h[j], 2 if i == j else 1) for i, j in self.pairs)
        complete = () if self.complete is None else (Fraction(self.complete),)
        return tuple(self.rows * share for share in (*complete, *map(Fraction, h), *products))

    def size(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest weighted size of cross moments; in L2 the square of that.

        In L2 it is exact: in each x_i² the square is convex while the others stay, so it is the largest
        where every x_i is zero or at an end.
        """
        most = weigh_norm(norm, self._largest(), scales)
        if norm is Norm.L1:
            return self.rows * most
        if len(self.half_ranges) <= MAX_CORNERS:
            ends = product(*((0, h) for h in self.half_ranges))
            most = max(weigh_norm(norm, self._at(x), scales) for x in ends)
        return self.rows**2 * most

    def _at(self, x: Sequence[int]) -> tuple[int, ...]:
        complete = () if self.complete is None else (self.complete,)
        centres = self.square_centres
        return (*complete, *x, *(x[i] * x[j] - (centres[i] if i == j else 0) for i, j in self.pairs))

    def _largest(self) -> tuple[int, ...]:
        complete = () if self.complete is None else (self.complete,)
        h, c = self.half_ranges, self.square_centres
        products = (max(c[i], h[i] ** 2 - c[i]) if i == j else h[i] * h[j] for i, j in self.pairs)
        return (*complete, *h, *products)


def square_share(axes: int) -> Fraction:
    """Return a cross moment's c_i as a share of the largest square: centre and ends then weigh alike.

    In L2, with the noise of `CrossBody.split`: d axes at their ends have the size d + d(d-1)/2 + 4d(1-q)²,
    and at the centre 4dq²; where all products are asked.

    >>> square_share(1), square_share(2)
    (Fraction(5, 8), Fraction(11, 16))
    """
    return min(Fraction(1), Fraction(9 + axes, 16))
