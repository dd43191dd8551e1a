"""Quantile counts: trees of counts with noise, or counts by place, from which quantiles are found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact.time_trees import Tree
from sfumato.framework import WHOLE, Body, GroupedIntegers, L1Distance, Linear, Segment, Transformation
from sfumato.framework.contribution_bodies import SimplexBody
from sfumato.sql_text import double
from sfumato.transformations.contribution_bounding import Values
from sfumato.transformations.grid import Grid, as_double, scaled_counts
from sfumato.transformations.quantile_lattice import Lattice
from sfumato.transformations.row_sql import RowSql
from sfumato.transformations.statistics.statistic import Coordinate, Role, Statistic

BRANCHING = 16
HEIGHT = 4
LEAVES = 65_536  # BRANCHING ** HEIGHT


@dataclass(frozen=True)
class QuantileTree(Statistic):
    """A quantile tree: counts of values in 65,536 leaves of [lower, upper] and the three levels above.

    Engines count only leaves; a node above is the sum of its leaves. A row adds one to one node on each of
    the four levels that have noise (the root's total is not needed). A unit with n rows adds rows/n for each
    row, truncated to the grid.

    Args:
        label, column: the prefix of the coordinate's name, and the column.
        rows: the limit of rows per unit and group.
        lower, upper: the bounds, as float64.
        exponent: log2 of the step of rows.

    >>> import numpy as np
    >>> tree = QuantileTree("x", "x", rows=1, lower=0.0, upper=65536.0, exponent=-1)
    >>> tree.contribution([{"x": 2.5}, {"x": 1e9}])
    Counter({('x.tree', 1, 0): 1, ('x.tree', 2, 0): 1, ('x.tree', 3, 0): 1, ('x.tree', 4, 2): 1, ...})
    >>> tree.leaf(2.5), tree.leaf(None), tree.all_leaves(np.array([2.5, 1e9])).tolist()
    (2, None, [2, 65535])
    >>> tree.leaves([{"x": 2.5}, {"x": 1e9}])
    Counter({2: 1, 65535: 1})

    Proof: docs/proofs/quantile_tree.md.
    """

    by_rows: ClassVar[bool] = True
    by_value: ClassVar[bool] = True
    listed: ClassVar[bool] = True

    label: str
    column: str
    rows: int
    lower: float
    upper: float
    exponent: int

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of a quantile tree: one for all nodes, which share a noise scale."""
        what = f"tree of counts of {self.column}, four levels, leaves {self.leaf_width:.4g} wide"
        step, bounds = Grid(self.exponent).step, (self.lower, self.upper)
        return (Coordinate(f"{self.label}.tree", Role.LEAVES, step, "rows", what, bounds),)

    @property
    def factor(self) -> float:
        """The quantile tree's leaves per unit of the column, as the float64 that engines multiply by."""
        return LEAVES / (self.upper - self.lower)

    @property
    def leaf_width(self) -> float:
        """The width of a leaf: a quantile tree cannot distinguish values in one leaf."""
        return (self.upper - self.lower) / LEAVES

    @property
    def content(self) -> dict[str, Any]:
        """What explanations say about the nodes of a quantile tree: the width of its leaves."""
        return {"leaf_width": self.leaf_width}

    @property
    def note(self) -> str | None:
        """A note that leaves of the quantile tree are wide, if they are."""
        if self.leaf_width <= 1:
            return None
        return (
            f"Quantiles of {self.column}: between {self.lower:g} and {self.upper:g}, values "
            f"closer than {self.leaf_width:.4g} are not distinguished, and error bars are at least "
            "about as wide. Narrower bounds, from public knowledge, reduce this."
        )

    def leaf(self, value: Any) -> int | None:
        """Return the quantile tree's leaf of a value, computed in float64 as written; None for NULL and NaN.

        Args:
            value: the row's value; None for NULL.
        Returns:
            The number of the leaf, or None.
        """
        number = as_double(value)
        if number is None:
            return None
        return int(self.all_leaves(np.array([number]))[0])

    def all_leaves(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the quantile tree's leaf of each value; there must be no NaN.

        Args:
            values: a float64 array.
        Returns:
            The numbers of the leaves.
        """
        clamped = np.clip(values, self.lower, self.upper)
        return np.minimum(((clamped - self.lower) * self.factor).astype(np.int64), LEAVES - 1)

    def leaves(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[int]:
        """Return what a unit's rows add to each leaf of a quantile tree, scaled down to the limit.

        Args:
            rows: the rows of one unit in a group.
            weight: the fraction of the unit that counts, in parts of `WHOLE`.
        Returns:
            The amounts by leaf.
        """
        return scaled_counts([self.leaf(r[self.column]) for r in rows], self.rows, self.exponent, weight)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what a unit adds to a quantile tree's nodes, as (coordinate, level, place)."""
        nodes = Counter[Hashable]()
        for leaf, counted in self.leaves(rows, weight).items():
            nodes.update(dict.fromkeys(self.nodes(leaf), counted))
        return nodes

    def nodes(self, leaf: int) -> Iterator[Hashable]:
        """Return the nodes of a quantile tree that contain a leaf, one on each level.

        Args:
            leaf: the number of the leaf.
        Yields:
            The coordinate, the level and the node's number, for each level.
        """
        for level in range(1, HEIGHT + 1):
            yield self.names[0], level, leaf // (LEAVES // BRANCHING**level)

    @property
    def description(self) -> dict[str, Any]:
        """The description of the quantile tree for the certificate."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "rows": self.rows}
        return {"kind": "nodes", **counted, "levels": HEIGHT}

    @property
    def body(self) -> Body:
        """The body of a quantile tree: all rows in one node of each level, or in several."""
        return SimplexBody(self.names, Fraction(self.rows << -self.exponent), levels=HEIGHT)

    def _place_sql(self, sql: RowSql) -> str:
        """Return the SQL of a value's leaf in the quantile tree; NULL where it has none."""
        value, lower, upper = sql.number(self.column), double(self.lower), double(self.upper)
        place = f"floor((least(greatest({value}, {lower}), {upper}) - {lower}) * {double(self.factor)})"
        leaf = f"least(CAST({place} AS BIGINT), {LEAVES - 1})"
        return f"CASE WHEN {sql.valued(self.column)} THEN {leaf} END"


@dataclass(frozen=True)
class Leaves(Statistic):
    """Quantile counts by lattice point: how many values are nearest to each point.

    A row with a value adds one at its point. A unit with n rows adds rows/n for each row, truncated to the
    grid.

    Args:
        label, column: the prefix of the coordinate's name, and the column.
        rows: the limit of rows per unit and group.
        lattice: the lattice of points.
        exponent: log2 of the step of rows, at most 0.

    >>> leaves = Leaves("x", "x", rows=1, lattice=Lattice(0.0, 30.0, whole=True), exponent=-1)
    >>> leaves.contribution([{"x": 2}, {"x": 1e9}])
    Counter({('x.leaves', 2): 1, ('x.leaves', 30): 1})

    Proof: docs/proofs/leaves.md.
    """

    by_rows: ClassVar[bool] = True
    by_value: ClassVar[bool] = True
    listed: ClassVar[bool] = True
    place_type: ClassVar[str] = "DOUBLE"

    label: str
    column: str
    rows: int
    lattice: Lattice
    exponent: int = 0

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of the quantile counts: one for all lattice points."""
        bounds = self.lattice.lower, self.lattice.upper
        what = f"counts of values of {self.column}"
        return (
            Coordinate(f"{self.label}.leaves", Role.LEAVES, Grid(self.exponent).step, "rows", what, bounds),
        )

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what the unit adds to the quantile counts, as (coordinate, place)."""
        places = [self.lattice.place(r[self.column]) for r in rows]
        counts = scaled_counts(places, self.rows, self.exponent, weight)
        return Counter({(self.names[0], place): n for place, n in counts.items()})

    @property
    def body(self) -> Body:
        """The body of the quantile counts: all rows at one lattice point, or at several."""
        return SimplexBody(self.names, Fraction(self.rows << -self.exponent))

    def _place_sql(self, sql: RowSql) -> str:
        """Return the SQL of a value's place in quantile counts; NULL where it has none."""
        return f"CASE WHEN {sql.valued(self.column)} THEN {self.lattice._sql(sql.number(self.column))} END"


@dataclass(frozen=True)
class ValueTree(Leaves):
    """A value tree: counts of whole numbers and of blocks of consecutive ones, which give ranks.

    A row adds one to its value and to one block on each further level; all levels have noise.

    Args:
        label, column, rows, exponent: as for `Leaves`.
        lattice: the values, all whole numbers within the bounds.
        sizes: the number of values in a block, by level: 1, and then multiples of the previous size.

    >>> tree = ValueTree("x", "x", rows=1, lattice=Lattice(0.0, 30.0, whole=True), exponent=-1, sizes=(1, 6))
    >>> tree.contribution([{"x": 2}, {"x": 1e9}])
    Counter({('x.values', 0, 2): 1, ('x.values', 1, 0): 1, ('x.values', 0, 30): 1, ('x.values', 1, 5): 1})

    Proof: docs/proofs/value_tree.md.
    """

    sizes: tuple[int, ...] = (1,)

    @cached_property
    def tree(self) -> Tree:
        """The blocks of the value tree."""
        return Tree(self.lattice.count, self.sizes)

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of a value tree: one for all values and blocks, which share a noise scale."""
        (leaves,) = super().coordinates
        what = f"{leaves.what}, one by one and in blocks" if self.sizes[1:] else leaves.what
        return (replace(leaves, name=f"{self.label}.values", what=what),)

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return what the unit adds to the value tree, as (coordinate, level, block)."""
        nodes, leaves = Counter[Hashable](), [self.lattice.place(r[self.column]) for r in rows]
        for leaf, counted in scaled_counts(leaves, self.rows, self.exponent, weight).items():
            nodes.update(dict.fromkeys(self.nodes(leaf), counted))
        return nodes

    def nodes(self, leaf: float) -> Iterator[Hashable]:
        """Return the nodes of a value tree that contain a value, one on each level.

        Args:
            leaf: the value, a whole number.
        Yields:
            The coordinate, the level and the block's number, for each level.
        """
        for level, size in enumerate(self.sizes):
            yield self.names[0], level, int(leaf - self.lattice.lower) // size

    @property
    def description(self) -> dict[str, Any]:
        """The description of the value tree for the certificate."""
        counted = {"name": self.names[0], "one": str(1 << -self.exponent), "rows": self.rows}
        return {"kind": "nodes", **counted, "levels": len(self.sizes)}

    @property
    def body(self) -> Body:
        """The body of a value tree: all rows in one block of each level, or in several."""
        return SimplexBody(self.names, Fraction(self.rows << -self.exponent), len(self.sizes))


@dataclass(frozen=True, repr=False)
class Margin(Spelled, Statistic):
    """The margin of two chosen quantiles: the rows by which they bracket a rank, on the weaker side.

    It is the smaller of two numbers: the rank minus the rows below the first point, and the rows up to the
    last point minus the rank. If it is positive, the quantile is between the two. It is not a sum over units,
    but one unit more or less moves it by at most its rows.

    Args:
        leaves: the counts from which it is computed.
        rank: the share of all rows, from 0 to 1. Rows are counted in parts of 2^-BITS: below the rank it uses
            the next lower multiple, above it the next higher one.
        at: the two lattice points, in increasing order; None until they are chosen.

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
    limited: ClassVar[bool] = True
    signed_alone: ClassVar[bool] = True

    @property
    def rows(self) -> int:
        """The limit of rows per unit and group."""
        return self.leaves.rows

    @property
    def column(self) -> str:
        """The column of the quantile's margin."""
        return self.leaves.column

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The coordinate of a quantile's margin, in fractions of the steps of `leaves`."""
        step = Grid(self.leaves.exponent - self.BITS).step
        what = f"rows by which positions bracket rank {float(self.rank):g} of {self.column}"
        return (
            Coordinate(f"{self.leaves.label}.{float(self.rank)!r}.margin", Role.MARGIN, step, "rows", what),
        )

    def contribution(self, rows: Sequence[Values], weight: int = WHOLE) -> Counter[Hashable]:
        """Return the quantile's margin for one unit alone.

        Raises:
            ParameterError: the two lattice points are not chosen yet.
        """
        added = self.leaves.contribution(rows, weight)
        counts = {key[1]: n for key, n in added.items()}  # type: ignore[index]
        return Counter({self.names[0]: self.total(counts)})

    def total(self, counts: Mapping[int, int]) -> int:
        """Return the quantile's margin for counts of all units, in the steps of `leaves`.

        Args:
            counts: the counts of all units, by lattice point.
        Returns:
            The margin.
        Raises:
            ParameterError: the two lattice points are not chosen yet.
        """
        if self.at is None:
            raise ParameterError("at", None, "two places, once they are chosen")
        first, last = self.at
        below = sum(n for place, n in counts.items() if place < first)
        upto = sum(n for place, n in counts.items() if place <= last)
        return self.between(below, upto, sum(counts.values()))

    def between(self, below: int, upto: int, counted: int) -> int:
        """Return the quantile's margin from numbers of rows.

        Args:
            below, upto, counted: the rows below the first point, those up to the last point, and all rows, in
                steps of the counts.
        Returns:
            The margin.
        """
        least, most = self._shares
        return min(least * counted - (below << self.BITS), (upto << self.BITS) - most * counted)

    @cached_property
    def _shares(self) -> tuple[int, int]:
        """The quantile's rank in parts, rounded down and up."""
        parts = self.rank * (1 << self.BITS)
        return math.floor(parts), math.ceil(parts)

    @property
    def description(self) -> dict[str, Any]:
        """The description of the quantile's margin for the certificate."""
        counted = {"name": self.names[0], "one": str(1 << -self.leaves.exponent), "rows": self.rows}
        return {"kind": "margin", **counted, "rank": str(self.rank), "bits": self.BITS}

    @property
    def body(self) -> Body:
        """The body of a quantile's margin: all rows on the side of a point that counts most."""
        least, high = self._shares
        most = max(high, (1 << self.BITS) - least)
        return Segment(self.names[0], self.leaves.body.linf_sensitivities[0] * most)

    def by_group(self, keys: Iterable[Hashable]) -> Transformation:
        """Return the transformation from quantile counts in each group to the margin.

        Args:
            keys: the groups.
        Returns:
            A Transformation from integers by group, the counts, to integers by group. Both metrics are L1
            distances in steps; its map multiplies by the distance that one step of the counts moves the
            margin.
        Raises:
            ParameterError: from a call, the two lattice points are not chosen yet.

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
