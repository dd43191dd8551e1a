"""The number of rows that have a vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.framework import WEIGHT_BITS, WHOLE, Body, Segment
from sfumato.transformations.grid import Grid, as_double, scaled_down
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic


@dataclass(frozen=True)
class VectorCount(Statistic):
    """The number of rows whose list has a length, and no entry that is NULL or NaN: those of `VectorSum`.

    A unit with n rows, m of them with a vector, counts m * min(1, rows/n), cut to the grid as sums are.

    Args:
        column: the column of lists.
        length: of the vectors.
        rows: the limit of rows per unit and group.
        exponent: log2 of the step, at most 0: of one row, or of a fraction of one.

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
        """The number of rows with a vector."""
        name, what = f"{self.column}[{self.length}].vectors", f"rows with a vector of {self.column}"
        return (Coordinate(name, Role.PRESENT, Grid(self.exponent).step, "rows", what),)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the unit's rows with a vector, scaled down to the limit."""
        count = sum(is_vector(row[self.column], self.length) for row in rows) << -self.exponent
        return Counter({self.names[0]: scaled_down(count, len(rows), self.rows, weight)})

    @property
    def divisible(self) -> bool:
        """Whether parts of a row are whole numbers of steps."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "rows": self.rows}
        return {"kind": "vector_rows", **counted}

    @property
    def body(self) -> Body:
        """As many rows as the limit."""
        return Segment(self.names[0], Fraction(self.rows << -self.exponent))


def is_vector(value: Any, length: int) -> bool:
    """Whether a row's list is a vector of a length.

    >>> [is_vector(x, 2) for x in ([1, 2], [1], None, [1, None], [1, float("nan")], [1, float("inf")])]
    [True, False, False, False, False, True]
    """
    return value is not None and len(value) == length and all(as_double(entry) is not None for entry in value)
