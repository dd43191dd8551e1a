"""How far two places that were chosen are beyond a rank, one on either side of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, Body, GroupedIntegers, L1Distance, Linear, Segment, Transformation
from sfumato.transformations.grid import Grid
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.leaves import Leaves
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic


@dataclass(frozen=True, repr=False)
class Margin(Spelled, Statistic):
    """The rows by which two places are beyond a rank, one below it and one above, whichever is fewer.

    The smaller of the rank less the rows below the first place, and the rows up to the last place less the
    rank: where it is positive, the quantile is between the two. It is no sum over units, but one unit more or
    less moves it by no more than its rows.

    Args:
        leaves: the counts that it is made of.
        rank: the share of all rows, from 0 to 1. Rows are counted in parts of 2^-BITS: below it by the
            multiple of that next below it, above it by the one next above.
        at: the two places, rising; None where they are still to be chosen.

    >>> from sfumato.transformations import Lattice
    >>> leaves = Leaves("x", "x", rows=1, lattice=Lattice(0.0, 30.0, whole=True))
    >>> margin = Margin(leaves, Fraction(1, 2), at=(4, 6))
    >>> margin.total({3: 10, 5: 20, 7: 11}) / 2**20  # 10 below 4, 30 up to 6, and half of all are 20.5
    9.5
    >>> margin.between(below=10, upto=30, counted=41) / 2**20
    9.5

    Proof: docs/proofs/margin.md.
    """

    leaves: Leaves
    rank: Fraction
    at: tuple[int, int] | None = None

    BITS = 20
    additive: ClassVar[bool] = False

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
        step = Grid(self.leaves.exponent - self.BITS).step
        what = f"rows by which places are on both sides of rank {float(self.rank):g} of {self.column}"
        return (
            Coordinate(f"{self.leaves.label}.{float(self.rank)!r}.margin", Role.MARGIN, step, "rows", what),
        )

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the margin of one unit alone.

        Raises:
            ParameterError: no two places are chosen yet.
        """
        added = self.leaves.contribution(rows, weight)
        counts = {key[1]: n for key, n in added.items()}  # type: ignore[index]
        return Counter({self.names[0]: self.total(counts)})

    def total(self, counts: Mapping[int, int]) -> int:
        """Return the margin for counts of all units, by place, in the steps of `leaves`.

        Args:
            counts: of all units, by place.
        Raises:
            ParameterError: no two places are chosen yet.
        """
        if self.at is None:
            raise ParameterError("at", None, "two places, once they are chosen")
        first, last = self.at
        below = sum(n for place, n in counts.items() if place < first)
        upto = sum(n for place, n in counts.items() if place <= last)
        return self.between(below, upto, sum(counts.values()))

    def between(self, below: int, upto: int, counted: int) -> int:
        """Return the margin of so many rows below the first place, up to the last one, and in all.

        Args:
            below, upto, counted: numbers of rows, in steps of the counts.
        """
        least, most = self._shares
        return min(least * counted - (below << self.BITS), (upto << self.BITS) - most * counted)

    @property
    def _shares(self) -> tuple[int, int]:
        """The rank in parts, rounded down and up."""
        parts = self.rank * (1 << self.BITS)
        return math.floor(parts), math.ceil(parts)

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
        counted = {"name": self.names[0], "one": str(1 << -self.leaves.exponent), "rows": self.rows}
        return {"kind": "margin", **counted, "rank": str(self.rank), "bits": self.BITS}

    @property
    def body(self) -> Body:
        """All rows on the side of a place that counts most."""
        least, high = self._shares
        most = max(high, (1 << self.BITS) - least)
        return Segment(self.names[0], self.leaves.body.linf_sensitivities[0] * most)

    def by_group(self, keys: Iterable[Hashable]) -> Transformation:
        """Take the margin of counts of values in each group.

        Args:
            keys: the groups.
        Returns:
            A Transformation from integers by group, the counts, to integers by group. Both metrics are L1
            distances in steps; its map multiplies by what one step of the counts moves the margin by.
        Raises:
            ParameterError: when it is called, no two places are chosen yet.

        >>> from sfumato.transformations import Lattice
        >>> leaves = Leaves("x", "x", rows=1, lattice=Lattice(0.0, 30.0, whole=True))
        >>> median = Margin(leaves, Fraction(1, 2), at=(4, 6)).by_group(["a"])
        >>> median({"a": {("x.leaves", 3): 10, ("x.leaves", 5): 20}}), median.map(1)
        ({'a': Counter({'x.0.5.margin': 5242880})}, Fraction(524288, 1))

        Proof: docs/proofs/margin.md.
        """
        (counted,), (name,), shown = self.leaves.names, self.names, tuple(keys)

        def function(groups: Mapping[Any, Mapping[Any, int]]) -> dict[Any, Counter[Any]]:
            empty: Mapping[Any, int] = {}
            own = {key: {k[1]: n for k, n in groups.get(key, empty).items()} for key in shown}
            return {key: Counter({name: self.total(counts)}) for key, counts in own.items()}

        return Transformation(
            f"margin({name})",
            GroupedIntegers((counted,)),
            GroupedIntegers((name,)),
            L1Distance(((counted, Fraction(1)),)),
            L1Distance(((name, Fraction(1)),)),
            function,
            Linear(self.body.linf_sensitivities[0] / self.leaves.body.linf_sensitivities[0]),
        )
