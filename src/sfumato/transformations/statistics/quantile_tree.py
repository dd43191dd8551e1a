"""The tree of counts from which quantiles are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.framework import WHOLE, Body
from sfumato.transformations.grid import Grid, as_double
from sfumato.transformations.rows import Values
from sfumato.transformations.statistics.histogram import HistogramBody, scaled_counts
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic

BRANCHING = 16
HEIGHT = 4
LEAVES = 65_536  # BRANCHING ** HEIGHT


@dataclass(frozen=True)
class QuantileTree(Statistic):
    """Counts of values in the 65,536 leaves of [lower, upper] and in the three levels above them.

    Engines count leaves alone; a node above is the sum of its leaves. A row adds one to one node on
    each of the four levels that carry noise (the root's total is not needed). A unit with n rows
    adds rows/n for each, cut to the grid.

    Args:
        label, column: prefix of the coordinate's name, and the column.
        rows: the limit of rows per unit and group.
        lower, upper: the bounds, as float64.
        exponent: log2 of the step in which rows are counted.

    >>> import numpy as np
    >>> tree = QuantileTree("x", "x", rows=1, lower=0.0, upper=65536.0, exponent=-1)
    >>> tree.contribution([{"x": 2.5}, {"x": 1e9}])
    Counter({('x.tree', 1, 0): 1, ('x.tree', 1, 15): 1, ('x.tree', 2, 0): 1, ('x.tree', 2, 255): 1, ...})
    >>> tree.leaf(2.5), tree.leaf(None), tree.all_leaves(np.array([2.5, 1e9])).tolist()
    (2, None, [2, 65535])
    >>> tree.leaves([{"x": 2.5}, {"x": 1e9}])
    Counter({2: 1, 65535: 1})

    Proof: docs/proofs/quantile_tree.md.
    """

    by_rows: ClassVar[bool] = True
    listed: ClassVar[bool] = True

    label: str
    column: str
    rows: int
    lower: float
    upper: float
    exponent: int

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """One for all nodes, which share a noise scale."""
        what = f"tree of counts of {self.column}, four levels, leaves {self.leaf_width:.4g} wide"
        step, bounds = Grid(self.exponent).step, (self.lower, self.upper)
        return (Coordinate(f"{self.label}.tree", Role.LEAVES, step, "rows", what, bounds),)

    @property
    def factor(self) -> float:
        """Leaves per unit of the column, as the float64 that every engine multiplies by."""
        return LEAVES / (self.upper - self.lower)

    @property
    def leaf_width(self) -> float:
        """The width of a leaf, in the column's unit: values in one leaf are not told apart."""
        return (self.upper - self.lower) / LEAVES

    @property
    def note(self) -> str | None:
        """That leaves are wide, where they are."""
        if self.leaf_width <= 1:
            return None
        return (
            f"Quantiles of {self.column}: between {self.lower:g} and {self.upper:g}, values closer than "
            f"{self.leaf_width:.4g} are not told apart, and error bars are at least about as wide. "
            "Narrower bounds, from public knowledge, make that smaller."
        )

    def leaf(self, value: Any) -> int | None:
        """Return the leaf of a value, computed in float64 as written; None for NULL and NaN.

        Args:
            value: of a row; None for NULL.
        """
        number = as_double(value)
        if number is None:
            return None
        return int(self.all_leaves(np.array([number]))[0])

    def all_leaves(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the leaf of each value, none of which is NaN.

        Args:
            values: of float64.
        """
        clamped = np.clip(values, self.lower, self.upper)
        return np.minimum(((clamped - self.lower) * self.factor).astype(np.int64), LEAVES - 1)

    def leaves(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[int]:
        """Return what a unit with these rows in a group adds to each leaf, scaled down to the limit.

        Args:
            rows: of one unit in a group.
            weight: how much of the unit counts, of `WHOLE`.
        """
        return scaled_counts([self.leaf(r[self.column]) for r in rows], self.rows, self.exponent, weight)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what the unit adds to the nodes of all levels, as (coordinate, level, place)."""
        name, nodes, leaves = self.names[0], Counter[Hashable](), self.leaves(rows, weight)
        for level in range(1, HEIGHT + 1):
            for leaf, counted in leaves.items():
                nodes[name, level, leaf // (LEAVES // BRANCHING**level)] += counted
        return nodes

    @property
    def description(self) -> dict[str, Any]:
        """What a unit may add, as the certificate reads it."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "rows": self.rows}
        return {"kind": "nodes", **counted, "levels": HEIGHT}

    @property
    def body(self) -> Body:
        """All rows in one node of each level, or in several."""
        return HistogramBody(self.names[0], Fraction(self.rows << -self.exponent), levels=HEIGHT)
