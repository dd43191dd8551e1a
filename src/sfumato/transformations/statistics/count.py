"""Counts of units, of rows, and of values that are not NULL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.transformations.grid import Grid, has_value, scaled_down
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.statistic import Norm, Statistic, weighted


@dataclass(frozen=True)
class CountUnits(Statistic):
    """The number of privacy units in a group: each unit contributes one.

    >>> CountUnits().contribution([{}, {}])
    Counter({'units': 1})

    Proof: docs/proofs/count_units.md.
    """

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The coordinate's name."""
        return ("units",)

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """One unit."""
        return (Fraction(1),)

    def contribution(self, rows: Sequence[Values]) -> Counter[Hashable]:
        """Return one, whatever the rows are."""
        return Counter({"units": 1})

    @property
    def largest(self) -> tuple[Fraction, ...]:
        """One."""
        return (Fraction(1),)

    def shares(self, norm: Norm) -> tuple[Fraction, ...]:
        """One."""
        return (Fraction(1),)

    def sensitivity(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return 1/scale, squared for L2."""
        return weighted(norm, self.largest, scales)


@dataclass(frozen=True)
class Count(Statistic):
    """The number of rows, at most `rows` of each unit; with a column, of rows where it has a value.

    A unit with n rows, m of them with a value, counts m * min(1, rows/n). Without a column that is
    a whole number; with one it is cut to the grid.

    >>> Count(rows=2).contribution([{}, {}, {}])
    Counter({'rows': 2})
    >>> Count(rows=1, column="x", exponent=-2).contribution([{"x": 1.0}, {"x": None}])
    Counter({'x.present': 2})

    Proof: docs/proofs/count.md.
    """

    rows: int
    column: str | None = None
    exponent: int = 0

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The coordinate's name."""
        return ("rows",) if self.column is None else (f"{self.column}.present",)

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """One row, or a fraction of one."""
        return (Grid(self.exponent).step,)

    def contribution(self, rows: Sequence[Values]) -> Counter[Hashable]:
        """Return the unit's rows, scaled down to the limit."""
        column = self.column
        values = len(rows) if column is None else sum(has_value(r[column]) for r in rows)
        return Counter({self.coordinates[0]: scaled_down(values << -self.exponent, len(rows), self.rows)})

    @property
    def largest(self) -> tuple[Fraction, ...]:
        """The limit of rows."""
        return (Fraction(self.rows << -self.exponent),)

    def shares(self, norm: Norm) -> tuple[Fraction, ...]:
        """The limit of rows."""
        return self.largest

    def sensitivity(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return rows/scale, squared for L2."""
        return weighted(norm, self.largest, scales)
