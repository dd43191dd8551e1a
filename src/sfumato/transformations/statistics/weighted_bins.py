"""Sums of survey weights of rows in bins: all bins share one limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, Body
from sfumato.transformations.grid import Grid, scaled_down
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.bins import RowsInBins
from sfumato.transformations.statistics.simplex import SimplexBody
from sfumato.transformations.statistics.statistic import Coordinate, Role
from sfumato.transformations.statistics.weighted import WeightGrid


@dataclass(frozen=True)
class WeightsInBins(RowsInBins):
    """The sums of weights of rows in bins: how much of a population is in each.

    A row adds its weight to the bin of its value; one without a weight adds nothing, as one without a value.
    A unit with n rows adds rows/n of that, cut to the grid. Steps are 2^exponent of a step of weights.

    Args:
        label, column, rows, bins, exponent: as of `RowsInBins`.
        weight: the column of weights.
        weights: their largest one and their step.
        once: whether a unit counts once, with its weights divided over its rows.
    Raises:
        ParameterError: a unit counts once, and yet with more than one row.

    >>> from sfumato.transformations import Edges
    >>> of = WeightGrid(0, 50)
    >>> ages = WeightsInBins("age", "age", 2, Edges((0.0, 18.0, 65.0)), -2, weight="w", weights=of)
    >>> ages.contribution([{"age": 3, "w": 10}, {"age": 30, "w": 70}, {"age": 40, "w": None}])
    Counter({'age.bin1': 133, 'age.bin0': 26})

    Proof: docs/proofs/weights_in_bins.md.
    """

    weight: str = field(kw_only=True)
    weights: WeightGrid = field(kw_only=True)
    once: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.once and self.rows != 1:
            raise ParameterError("rows", self.rows, "1: a unit counts once")

    @property
    def by_rows(self) -> bool:  # type: ignore[override]
        """Unless a unit counts once."""
        return not self.once

    @property
    def columns(self) -> tuple[str, ...]:
        """The weights, and the values."""
        return self.weight, self.column

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """One number for each bin."""
        step, bounds = self.weights.step * Grid(self.exponent).step, (0.0, float(self.most_weight))
        of = "units" if self.once else "rows"
        what = f"sum of the weights {self.weight}, trimmed, of {of} in bin"
        return tuple(
            Coordinate(
                f"{self.label}.bin{i}",
                Role.BIN,
                step,
                self.weight,
                f"{what} {i + 1} of {self.column}",
                bounds,
            )
            for i in range(self.bins.count)
        )

    @property
    def per_unit(self) -> str:
        """With its weight."""
        return f"with the mean of its weights {self.weight}, divided over its rows by bins of {self.column}"

    @property
    def each_of(self) -> str:
        """All bins."""
        return f"sum of the weights {self.weight}, trimmed, of {super().each_of}"

    @property
    def most_weight(self) -> Fraction:
        """The largest weight of a row."""
        return self.weights.most * self.weights.step

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the weights of the unit's rows in each bin, scaled down to the limit."""
        sums: Counter[int] = Counter()
        for row in rows:
            place, own = self.bins.place(row[self.column]), self.weights.steps(row[self.weight])
            if place is not None and own is not None:
                sums[place] += own << -self.exponent
        return Counter({self.names[i]: scaled_down(n, len(rows), self.rows, weight) for i, n in sums.items()})

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
        return super().description | {"weight": str(self.weights.most)}

    @property
    def body(self) -> Body:
        """As many rows of the largest weight as the limit, in all bins together."""
        return SimplexBody(self.names, Fraction(self.rows * self.weights.most << -self.exponent))
