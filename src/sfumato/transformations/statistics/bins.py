"""Numbers of rows, or of units, in bins of a column's values: all bins share one limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WEIGHT_BITS, WHOLE, Body
from sfumato.transformations.grid import Grid, as_double, has_value
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.histogram import scaled_counts
from sfumato.transformations.statistics.simplex import SimplexBody
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic


class Places(ABC):
    """Public bins, of which each value is in one or in none."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many there are."""

    @abstractmethod
    def place(self, value: Any) -> int | None:
        """Return the bin of a row's value, from 0; None for none, as NULL and NaN have."""


@dataclass(frozen=True)
class Edges(Places):
    """Numbers between edges: each bin holds its lower edge, the last one its upper edge too, as NumPy has it.

    Args:
        edges: increasing float64 numbers, infinities too.
        below, above: whether numbers outside of them have a bin of their own on that side, or none.
    Raises:
        ParameterError: there are fewer than two edges, or they do not increase.

    >>> bins = Edges((0.0, 18.0, 65.0), above=True)
    >>> [bins.place(x) for x in (-1, 0, 17.9, 18, 65, 66, None)]
    [None, 0, 0, 1, 1, 2, None]
    """

    edges: tuple[float, ...]
    below: bool = False
    above: bool = False

    def __post_init__(self) -> None:
        if len(self.edges) < 2 or not all(one < other for one, other in pairwise(self.edges)):
            raise ParameterError(
                "edges", self.edges, "at least two numbers, each greater than the one before"
            )

    @property
    def count(self) -> int:
        """Those between edges, and those outside."""
        return len(self.edges) - 1 + self.below + self.above

    def place(self, value: Any) -> int | None:
        """Return the bin of a number.

        Args:
            value: of a row; None for NULL.
        """
        number = as_double(value)
        if number is None:
            return None
        if number < self.edges[0]:
            return 0 if self.below else None
        if number > self.edges[-1]:
            return self.count - 1 if self.above else None
        return self.below + min(bisect_right(self.edges, number), len(self.edges) - 1) - 1


@dataclass(frozen=True)
class Listed(Places):
    """Values of a list, each a bin.

    Args:
        values: texts, whole numbers, truth values or dates; all of one kind, none twice.
        other: whether all other values have a bin together, behind these, or none.
    Raises:
        ParameterError: there is no value, or one is there twice.

    >>> [Listed(("a", "b"), other=True).place(x) for x in ("b", "c", None)]
    [1, 2, None]
    """

    values: tuple[Hashable, ...]
    other: bool = False

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise ParameterError("values", self.values, "at least one, and none twice")

    @property
    def count(self) -> int:
        """The values, and the others."""
        return len(self.values) + self.other

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {value: place for place, value in enumerate(self.values)}

    def place(self, value: Any) -> int | None:
        """Return the place in the list.

        Args:
            value: of a row; None for NULL.
        """
        if not has_value(value):
            return None
        return self._places.get(value, len(self.values) if self.other else None)


@dataclass(frozen=True)
class RowsInBins(Statistic):
    """The numbers of rows in bins, at most `rows` of each unit in all bins together.

    A row counts one in the bin of its value. A unit with n rows adds rows/n for each, cut to the grid.

    Args:
        label: prefix of the coordinates' names.
        column: whose values are counted; NULL and NaN are in no bin.
        rows: the limit of rows per unit and group.
        bins: where values belong.
        exponent: log2 of the step in which rows are counted, at most 0.

    >>> ages = RowsInBins("age", "age", rows=2, bins=Edges((0.0, 18.0, 65.0)), exponent=-2)
    >>> ages.contribution([{"age": 3}, {"age": 30}, {"age": 40}])
    Counter({'age.bin1': 5, 'age.bin0': 2})
    >>> ages.what(1)
    'rows in bin 2 of age'

    Proof: docs/proofs/rows_in_bins.md.
    """

    by_rows: ClassVar[bool] = True

    label: str
    column: str
    rows: int
    bins: Places
    exponent: int = 0

    @property
    def where(self) -> str | None:
        """The column of truth values that says which rows are in bins at all; None for all rows."""
        return None

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """One number for each bin."""
        step, of = Grid(self.exponent).step, "rows" if self.by_rows else "units"
        return tuple(
            Coordinate(f"{self.label}.bin{i}", Role.BIN, step, of, self.what(i))
            for i in range(self.bins.count)
        )

    def what(self, place: int) -> str:
        """Return what is counted in a bin, in a few words.

        Args:
            place: of a bin, from 0.
        """
        return f"{'rows' if self.by_rows else 'units'} in bin {place + 1} of {self.column}"

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the unit's rows in each bin, scaled down to the limit."""
        where = self.where
        places = [
            self.bins.place(r[self.column]) if where is None or r[where] is True else None for r in rows
        ]
        counts = scaled_counts(places, self.rows, self.exponent, weight)
        return Counter({self.names[place]: n for place, n in counts.items()})

    @property
    def each_of(self) -> str:
        """All bins."""
        return f"{'rows' if self.by_rows else 'units'} in each of {self.bins.count:,} bins of {self.column}"

    @property
    def divisible(self) -> bool:
        """Whether parts of a row are whole numbers of steps."""
        return self.exponent <= -WEIGHT_BITS

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
        rows, one = self.rows if self.by_rows else None, str(1 << -self.exponent)
        return {"kind": "bins", "names": list(self.names), "rows": rows, "one": one, "weight": "1"}

    @property
    def body(self) -> Body:
        """As many rows as the limit, in all bins together."""
        return SimplexBody(self.names, Fraction(self.rows << -self.exponent))


@dataclass(frozen=True)
class UnitsInBins(RowsInBins):
    """The numbers of units in bins: each counts once in all, divided over its rows.

    Raises:
        ParameterError: rows is not 1.

    >>> UnitsInBins("size", "size", 1, Listed(("s", "m")), -2).contribution([{"size": "s"}, {"size": "m"}])
    Counter({'size.bin0': 2, 'size.bin1': 2})

    Proof: docs/proofs/units_in_bins.md.
    """

    by_rows: ClassVar[bool] = False

    @property
    def per_unit(self) -> str:
        """Divided over its rows."""
        return f"divided over its rows by bins of {self.column}"

    def __post_init__(self) -> None:
        if self.rows != 1:
            raise ParameterError("rows", self.rows, "1: a unit counts once")
