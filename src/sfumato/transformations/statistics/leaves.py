"""The counts of values from which quantiles are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import ClassVar

from sfumato.dataclass import dataclass
from sfumato.framework import WHOLE, Body
from sfumato.transformations.grid import Grid
from sfumato.transformations.lattice import Lattice
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.histogram import HistogramBody, scaled_counts
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic


@dataclass(frozen=True)
class Leaves(Statistic):
    """Counts of values at each place of a lattice.

    A row with a value counts one at its place. A unit with n rows adds rows/n for each, cut to the grid.

    Args:
        label, column: prefix of the coordinate's name, and the column.
        rows: the limit of rows per unit and group.
        lattice: the places.
        exponent: log2 of the step in which rows are counted, at most 0.

    >>> leaves = Leaves("x", "x", rows=1, lattice=Lattice(0.0, 30.0, whole=True), exponent=-1)
    >>> leaves.contribution([{"x": 2}, {"x": 1e9}])
    Counter({('x.leaves', 2): 1, ('x.leaves', 30): 1})

    Proof: docs/proofs/leaves.md.
    """

    by_rows: ClassVar[bool] = True
    listed: ClassVar[bool] = True

    label: str
    column: str
    rows: int
    lattice: Lattice
    exponent: int = 0

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """One for all places."""
        bounds = self.lattice.lower, self.lattice.upper
        what = f"counts of values of {self.column}"
        return (
            Coordinate(f"{self.label}.leaves", Role.LEAVES, Grid(self.exponent).step, "rows", what, bounds),
        )

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what the unit adds, as (coordinate, place)."""
        places = [self.lattice.place(r[self.column]) for r in rows]
        counts = scaled_counts(places, self.rows, self.exponent, weight)
        return Counter({(self.names[0], place): n for place, n in counts.items()})

    @property
    def body(self) -> Body:
        """All rows at one place, or at several."""
        return HistogramBody(self.names[0], Fraction(self.rows << -self.exponent))
