"""The sum of a column of vectors, with a bound on the length of what each unit, or each row, adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, Ball, BallBody, Body
from sfumato.transformations.grid import Grid, as_double, scaled_down, steps_half_away
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic
from sfumato.transformations.statistics.unit_sum import HUGE_STEPS

# Before a vector is shortened each entry is clamped to this many steps. With at most `MOST_ENTRIES` of them
# the sum of squares is at most 2^116, and an entry times a radius 2^92: both fit in 128 bits.
FAR_STEPS = 1 << 52
MOST_RADIUS = 1 << 40
MOST_ENTRIES = 4096


@dataclass(frozen=True)
class VectorSum(Statistic):
    """A sum of vectors: each unit's exact sum in a group, or each row's vector, is brought into a ball.

    A vector that is longer than the radius keeps its direction, but for what is cut of each entry towards
    zero; of the L-infinity ball each entry is clamped. So what is added is in the ball, after all rounding. A
    row whose list is NULL, of another length, or has an entry that is NULL or NaN has no vector; infinite
    entries are clamped.

    Args:
        label, column: prefix of the coordinate's name, and the column.
        length: of the vectors.
        exponent: log2 of the grid step of entries.
        radius: of the ball, in steps.
        ball: of which norm.
        rows: the limit of rows per unit and group, where each row's vector is brought into the ball; None
            where the unit's sum is.
    Raises:
        ParameterError: the length or the radius is not admissible.

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
        if not 1 <= self.length <= MOST_ENTRIES:
            raise ParameterError("length", self.length, f"from 1 to {MOST_ENTRIES:,}")
        if not 1 <= self.radius <= MOST_RADIUS:
            raise ParameterError("radius", self.radius, "from 1 to 2^40 steps")

    @property
    def by_rows(self) -> bool:  # type: ignore[override]
        """Where each row's vector is bounded."""
        return self.rows is not None

    @property
    def entries(self) -> int:
        """As many as a vector has."""
        return self.length

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """One for all entries, which share a noise scale."""
        step = Grid(self.exponent).step
        whose = "unit and group" if self.rows is None else "row"
        what = (
            f"sum of vectors of {self.column}, {self.length:,} entries, {NORMS[self.ball]} norm at most "
            f"{float(self.radius * step):g} per {whose}"
        )
        return (Coordinate(f"{self.label}.vector", Role.VECTOR, step, self.column, what),)

    def row_steps(self, value: Any) -> list[int] | None:
        """Return one row's vector in steps, clamped to the huge range; None where it has none.

        Args:
            value: of a row; None for NULL.

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
        """Return what the unit adds to each entry, as (coordinate, place)."""
        vectors = [v for row in rows if (v := self.row_steps(row[self.column])) is not None]
        if self.rows is not None:
            vectors = [within(v, self.radius, self.ball) for v in vectors]
        total = [sum(entries) for entries in zip(*vectors, strict=True)] or [0] * self.length
        if self.rows is None:
            added = [scaled_down(x, 1, 1, weight) for x in within(total, self.radius, self.ball)]
        else:
            added = [scaled_down(x, len(rows), self.rows, weight) for x in total]
        return Counter({(self.names[0], place): x for place, x in enumerate(added)})

    @property
    def per_unit(self) -> str:
        """With its sum, where that is bounded."""
        return f"with its sum of vectors of {self.column} within the bound"

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
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
        """The ball, or one as many times as large as rows count."""
        return BallBody(self.names[0], self.length, Fraction(self.radius * (self.rows or 1)), self.ball)


NORMS = {Ball.L1: "L1", Ball.L2: "L2", Ball.LINF: "L-infinity"}


def within(vector: Sequence[int], radius: int, ball: Ball) -> list[int]:
    """Return a vector of whole numbers in the ball: itself, or shortened, and cut towards zero.

    >>> within([30, -40], 10, Ball.L2), within([1, 1], 1, Ball.L2), within([30, -40], 35, Ball.LINF)
    ([6, -8], [0, 0], [30, -35])
    """
    if ball is Ball.LINF:
        return [min(max(x, -radius), radius) for x in vector]
    near = [min(max(x, -FAR_STEPS), FAR_STEPS) for x in vector]
    if ball.holds(near, radius):
        return near
    # Of L2 the least whole number that is not below the root.
    size = sum(map(abs, near)) if ball is Ball.L1 else isqrt(sum(x * x for x in near) - 1) + 1
    return [abs(x) * radius // size * (1 if x > 0 else -1) for x in near]
