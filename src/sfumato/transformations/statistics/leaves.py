"""The counts of values from which quantiles are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, Body, Segment
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


@dataclass(frozen=True)
class Crossing(Statistic):
    """The values before a place, less a share of all: where it is zero, the place is the quantile.

    Args:
        leaves: the counts that it is made of.
        rank: the share, from 0 to 1: a multiple of 2^-BITS.
        upto: whether values at the place count too.
        at: the place; None where it is still to be chosen, at no place in particular.

    >>> leaves = Leaves("x", "x", rows=1, lattice=Lattice(0.0, 30.0, whole=True))
    >>> Crossing(leaves, Fraction(1, 4), upto=False, at=5).contribution([{"x": 2}])
    Counter({'x.0.25.below': 786432})

    Proof: docs/proofs/crossing.md.
    """

    leaves: Leaves
    rank: Fraction
    upto: bool
    at: int | None = None

    BITS = 20

    @property
    def rows(self) -> int:
        """The limit of rows per unit and group."""
        return self.leaves.rows

    @property
    def column(self) -> str:
        """The column."""
        return self.leaves.column

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """One, counted in parts of the steps of `leaves`."""
        end, word = ("upto", "up to") if self.upto else ("below", "below")
        name = f"{self.leaves.label}.{float(self.rank)!r}.{end}"
        step = Grid(self.leaves.exponent - self.BITS).step
        what = f"rows {word} a place near rank {float(self.rank):g} of {self.column}, less this share of all"
        return (Coordinate(name, Role.CROSSING, step, "rows", what),)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what the unit adds."""
        added = self.leaves.contribution(rows, weight)
        counts = {key[1]: n for key, n in added.items()}  # type: ignore[index]
        return Counter({self.names[0]: self.total(counts)})

    def total(self, counts: Mapping[int, int]) -> int:
        """Return the number for counts of all units, by place, in the steps of `leaves`."""
        if self.at is None:
            raise ParameterError("at", None, "a place, once it is chosen")
        ahead = sum(n for place, n in counts.items() if place < self.at + self.upto)
        return (ahead << self.BITS) - self._share * sum(counts.values())

    @property
    def _share(self) -> int:
        return int(self.rank * (1 << self.BITS))

    @property
    def body(self) -> Body:
        """All rows on the side of the place that counts most."""
        most = max(self._share, (1 << self.BITS) - self._share)
        return Segment(self.names[0], self.leaves.body.linf_sensitivities[0] * most)
