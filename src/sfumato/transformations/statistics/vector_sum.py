"""Vector sums, with a bound on the length of what each unit, or each row, adds; and vectors' number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WEIGHT_BITS, WHOLE, Ball, BallBody, Body, Segment
from sfumato.sql_text import double, identifier
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, as_double, scaled_down, steps_half_away
from sfumato.transformations.row_sql import RowSql, SqlPart, sum_lists_sql
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic
from sfumato.transformations.statistics.unit_sum import HUGE_STEPS

# Before a vector is shortened each entry is clamped to this many steps. With at most `MAX_ENTRIES` of them
# the sum of squares is at most 2^116, and an entry times a radius 2^92: both fit in 128 bits.
FAR_STEPS = 1 << 52
MAX_RADIUS = 1 << 40
MAX_ENTRIES = 4096


@dataclass(frozen=True)
class VectorSum(Statistic):
    """A vector sum in which each unit's exact sum in a group, or each row's vector, is scaled into a ball.

    A vector longer than the radius keeps its direction, except that each entry is truncated towards zero. In
    the L-infinity ball each entry is clamped instead. The result is in the ball, after all rounding. A row
    whose list is NULL, has another length, or has an entry that is NULL or NaN has no vector; infinite
    entries are clamped.

    Args:
        label, column: the prefix of the coordinate's name, and the column.
        length: the length of the vectors.
        exponent: log2 of the grid step of entries.
        radius: the radius of the ball, in steps.
        ball: the norm of the ball.
        rows: the limit of rows per unit and group if each row's vector is scaled into the ball; None if the
            unit's sum is.
    Raises:
        ParameterError: the length or the radius is not valid.

    >>> rows = [{"x": [6, 8]}, {"x": [6, 8]}, {"x": [1]}, {"x": None}]
    >>> VectorSum("x", "x", 2, 0, 10, Ball.L2).contribution(rows)
    Counter({('x.vector', 1): 8, ('x.vector', 0): 6})
    >>> VectorSum("x", "x", 2, 0, 10, Ball.L1, rows=4).contribution(rows)
    Counter({('x.vector', 1): 10, ('x.vector', 0): 8})

    Proof: docs/proofs/vector_sum.md.
    """

    label: str
    column: str
    length: int
    exponent: int
    radius: int
    ball: Ball
    rows: int | None = None

    # Numbers of a group come in a list.
    listed = True

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_ENTRIES:
            raise ParameterError("length", self.length, f"from 1 to {MAX_ENTRIES:,}")
        if not 1 <= self.radius <= MAX_RADIUS:
            raise ParameterError("radius", self.radius, "from 1 to 2^40 steps")

    @property
    def by_rows(self) -> bool:  # type: ignore[override]
        """Whether each row's vector is bounded separately."""
        return self.rows is not None

    @property
    def entries(self) -> int:
        """The length of the vector sum."""
        return self.length

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of a vector sum: one for all entries, which share a noise scale."""
        step = Grid(self.exponent).step
        whose = "unit and group" if self.rows is None else "row"
        what = (
            f"sum of vectors of {self.column}, {self.length:,} entries, {NORMS[self.ball]} norm at most "
            f"{float(self.radius * step):g} per {whose}"
        )
        return (Coordinate(f"{self.label}.vector", Role.VECTOR, step, self.column, what),)

    def row_steps(self, value: Any) -> list[int] | None:
        """Return one row's vector in steps, clamped to the huge range; None if it has none.

        Args:
            value: the row's value; None for NULL.
        Returns:
            The entries, or None.

        >>> place = VectorSum("place", "place", length=2, exponent=-1, radius=10, ball=Ball.L2)
        >>> [place.row_steps(value) for value in ([1.5, 30], [1.5], [1.5, None])]
        [[3, 60], None, None]
        """
        if value is None or len(value) != self.length:
            return None
        numbers = [as_double(entry) for entry in value]
        huge = float(HUGE_STEPS * Grid(self.exponent).step)
        steps = [steps_half_away(min(max(x, -huge), huge), self.exponent) for x in numbers if x is not None]
        return steps if len(steps) == self.length else None

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what the unit adds to each entry of the vector sum, as (coordinate, place)."""
        vectors = [v for row in rows if (v := self.row_steps(row[self.column])) is not None]
        if self.rows is not None:
            vectors = [shrink_into_ball(v, self.radius, self.ball) for v in vectors]
        total = [sum(entries) for entries in zip(*vectors, strict=True)] or [0] * self.length
        if self.rows is None:
            added = [scaled_down(x, 1, 1, weight) for x in shrink_into_ball(total, self.radius, self.ball)]
        else:
            added = [scaled_down(x, len(rows), self.rows, weight) for x in total]
        return Counter({(self.names[0], place): x for place, x in enumerate(added)})

    @property
    def per_unit(self) -> str:
        """How a unit counts: with its vector sum, if that is bounded."""
        return f"with its sum of vectors of {self.column} within the bound"

    @property
    def description(self) -> dict[str, Any]:
        """The description of the vector sum for the certificate."""
        return {
            "kind": "vector",
            "name": self.names[0],
            "length": self.length,
            "radius": str(self.radius),
            "ball": self.ball.value,
            "rows": self.rows,
        }

    @property
    def body(self) -> Body:
        """The body of a vector sum: the ball, or the ball multiplied by the limit of rows."""
        return BallBody(self.names[0], self.length, Fraction(self.radius * (self.rows or 1)), self.ball)

    @property
    def _no_cone(self) -> str:
        """Why no cone holds what a unit adds to a vector sum: it is in a ball."""
        return (
            "noise: K-norm noise is for single numbers, not for vectors. Use 'laplace', 'gaussian' or 'auto'"
        )

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL of the vector sum: sums of lists whose units' sums, or rows, are in the ball."""
        row, stages = sql.earlier(self._steps_sql(sql), "BIGINT[]"), list[tuple[str, str]]()
        name = self.names[0]

        def stage(expression: str, type_name: str) -> str:
            stage_name = f"{name} {len(stages)}"
            sql.types[stage_name] = type_name
            stages.append((identifier(stage_name), expression))
            return stages[-1][0]

        if self.rows is None:
            added = self._within_sql(stage, identifier(name), sql.room)
            if sql.in_part:
                part = sql.scaled("x::HUGEINT", None, self.body)
                added = stage(_each(added, f"CAST({part} AS BIGINT)"), "BIGINT[]")
        else:
            row = self._within_sql(sql.earlier, row, sql.room)
            part = sql.scaled("coalesce(x, 0)::HUGEINT", self.rows, self.body)
            added = stage(_each(identifier(name), part), "HUGEINT[]")
        pair = sum_lists_sql(sql.value(row, "BIGINT[]"), self.length)
        return [
            SqlPart(name, pair, sum_lists_sql(added, self.length), tuple(stages), self.length, "HUGEINT[]")
        ]

    def _steps_sql(self, sql: RowSql) -> str:
        """Return the SQL of a row's vector in steps; NULL where it has none."""
        huge = HUGE_STEPS * 2.0**self.exponent
        clamped = f"least(greatest(x, {double(-huge)}), {double(huge)})"
        steps = f"CAST(round({clamped} * {double(2.0**-self.exponent)}) AS BIGINT)"
        entries, present = _entries(sql, self.column), _is_vector_sql(sql, self.column, self.length)
        return f"CASE WHEN {present} THEN {_each(entries, steps)} END"

    def _within_sql(self, stage: Callable[[str, str], str], vector: str, room: int) -> str:
        """Return the SQL of `within` for vectors; `stage` names an expression that later ones use.

        The root is found from a float, but none that is too small: with any s > 0, (s + q // s) // 2 + 1 is
        above (s + q / s) / 2, which is at least the root of q; of numbers below, only those are taken whose
        squares are not below q. Where the float is right to 2^-31, one of the three is the least.
        """
        radius = self.radius
        if self.ball is Ball.LINF:
            clamped = f"least(greatest(coalesce(x, 0), {-radius}), {radius})"
            return stage(_each(vector, f"CAST({clamped} AS BIGINT)"), "BIGINT[]")
        clamped = f"least(greatest(coalesce(x, 0), {-FAR_STEPS}), {FAR_STEPS})"
        near = stage(_each(vector, f"CAST({clamped} AS BIGINT)"), "BIGINT[]")
        if self.ball is Ball.L1:
            size = stage(f"list_sum({_each(near, 'abs(x)')})::HUGEINT", "HUGEINT")
            longer = f"{size} > {radius}"
        else:
            square = stage(f"list_sum({_each(near, 'x::HUGEINT * x')})", "HUGEINT")
            root = stage(f"greatest(1, CAST(sqrt(CAST({square} AS DOUBLE)) AS HUGEINT))::HUGEINT", "HUGEINT")
            above = stage(f"({root} + {square} // {root}) // 2 + 1", "HUGEINT")
            less = [
                f"WHEN ({above} - {by}) * ({above} - {by}) >= {square} THEN {above} - {by}" for by in (2, 1)
            ]
            size = stage(f"CASE {' '.join(less)} ELSE {above} END", "HUGEINT")
            longer = f"{square} > {radius**2}::HUGEINT"
        shortened = f"CAST(x::HUGEINT * {radius} // {size} AS BIGINT)"
        if self.ball is Ball.L2 or self.length * FAR_STEPS <= room:
            # HUGEINTs take several times as long to divide as BIGINTs.
            size, narrow = stage(f"CAST({size} AS BIGINT)", "BIGINT"), room // radius
            few = f"x BETWEEN {-narrow} AND {narrow} THEN x * {radius}::BIGINT // {size}"
            shortened = f"CASE WHEN {few} ELSE {shortened} END"
        return stage(f"CASE WHEN {longer} THEN {_each(near, shortened)} ELSE {near} END", "BIGINT[]")


NORMS = {Ball.L1: "L1", Ball.L2: "L2", Ball.LINF: "L-infinity"}


def shrink_into_ball(vector: Sequence[int], radius: int, ball: Ball) -> list[int]:
    """Return a vector of whole numbers in the ball: itself, or shortened, and cut towards zero.

    >>> shrink_into_ball([30, -40], 10, Ball.L2), shrink_into_ball([1, 1], 1, Ball.L2)
    ([6, -8], [0, 0])
    >>> shrink_into_ball([30, -40], 35, Ball.LINF)
    [30, -35]
    """
    if ball is Ball.LINF:
        return [min(max(x, -radius), radius) for x in vector]
    near = [min(max(x, -FAR_STEPS), FAR_STEPS) for x in vector]
    if ball.holds(near, radius):
        return near
    # Of L2 the least whole number that is not below the root.
    size = sum(map(abs, near)) if ball is Ball.L1 else isqrt(sum(x * x for x in near) - 1) + 1
    return [abs(x) * radius // size * (1 if x > 0 else -1) for x in near]


@dataclass(frozen=True)
class VectorCount(Statistic):
    """The number of vectors: rows whose list has the length and no entry that is NULL or NaN.

    A unit with n rows, m of them with a vector, counts m * min(1, rows/n), truncated to the grid like sums.

    Args:
        column: the column of lists.
        length: the length of the vectors.
        rows: the limit of rows per unit and group.
        exponent: log2 of the step, at most 0; the step is one row or a fraction of one.

    >>> VectorCount("x", 2, rows=2, exponent=-2).contribution([{"x": [1, 2]}, {"x": [1]}, {"x": [0, 0]}])
    Counter({'x[2].vectors': 5})

    Proof: docs/proofs/vector_count.md.
    """

    by_rows: ClassVar[bool] = True

    column: str
    length: int
    rows: int
    exponent: int = 0

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of the number of rows with a vector."""
        name, what = f"{self.column}[{self.length}].vectors", f"rows with a vector of {self.column}"
        return (Coordinate(name, Role.PRESENT, Grid(self.exponent).step, "rows", what),)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the number of the unit's rows with a vector, scaled down to the limit."""
        count = sum(is_vector(row[self.column], self.length) for row in rows) << -self.exponent
        return Counter({self.names[0]: scaled_down(count, len(rows), self.rows, weight)})

    @property
    def divisible(self) -> bool:
        """Whether fractions of a row are whole steps of the number of vectors."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """The description of the number of vectors for the certificate."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "rows": self.rows}
        return {"kind": "vector_rows", **counted}

    @property
    def body(self) -> Body:
        """The body of the number of vectors: as many rows as the limit."""
        return Segment(self.names[0], Fraction(self.rows << -self.exponent))

    def _sql_parts(self, sql: RowSql) -> list[SqlPart]:
        """Return the SQL of the number of rows with a vector."""
        name, present = self.names[0], _is_vector_sql(sql, self.column, self.length)
        total = f"({identifier(name)}::HUGEINT * {1 << -self.exponent})"
        counted = f"count(*) FILTER ({sql.value(f'({present})', 'BOOLEAN')})"
        added = f"sum({sql.scaled(total, self.rows, self.body)})"
        return [SqlPart(name, counted, added, pair_type="BIGINT")]


def is_vector(value: Any, length: int) -> bool:
    """Whether a row's list is a vector of a length.

    >>> [is_vector(x, 2) for x in ([1, 2], [1], None, [1, None], [1, float("nan")], [1, float("inf")])]
    [True, False, False, False, False, True]
    """
    return value is not None and len(value) == length and all(as_double(entry) is not None for entry in value)


def _each(vector: str, x: str) -> str:
    """Return the SQL of a vector with each entry `x` replaced."""
    return f"list_transform({vector}, lambda x: {x})"


def _entries(sql: RowSql, column: str) -> str:
    return f"CAST({sql.column(column)} AS DOUBLE[])"


def _is_vector_sql(sql: RowSql, column: str, length: int) -> str:
    """Return the SQL of `is_vector` for a column of lists."""
    entries = _entries(sql, column)
    valued = [f"len({entries}) = {length}", f"list_count({entries}) = {length}"]
    return " AND ".join([*valued, f"NOT list_bool_or({_each(entries, 'isnan(x)')})"])
