"""The statistics that the aggregates of a query require, and the estimates made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.framework import WEIGHT_BITS, Body, Norm
from sfumato.query.aggregates import (
    Aggregate,
    BoundedAggregate,
    CountDistinct,
    CountPrivacyUnits,
    CountRows,
    Covariance,
    Derived,
    Estimate,
    LinearRegression,
    OfColumns,
    Quantiles,
    Sum,
    Weighted,
    Weights,
)
from sfumato.query.aggregates.aggregate import Block, short
from sfumato.query.query import Query
from sfumato.query.schema import Kind, Schema
from sfumato.transformations import (
    Axis,
    Coordinate,
    Count,
    CountUnits,
    CrossMoments,
    Grid,
    Leaves,
    Moments,
    Role,
    Statistic,
    ValueGrid,
    WeightedSum,
    WeightGrid,
    body_in_all,
)
from sfumato.transformations.statistics.cross_moments import square_share
from sfumato.transformations.statistics.moments import SQUARES_SHIFT

# Quantiles are read from noisy counts of single values where these are at most so many, in each group and in
# all groups; the latter take 32 MB. Where nobody knows how many groups come, they may be so many.
MAX_VALUES, MAX_COUNTS, MANY_GROUPS = 1 << 12, 1 << 22, 1 << 14


@dataclass(frozen=True, repr=False)
class Requirements(Spelled):
    """The statistics that a query requires, with the estimates made of them.

    Args:
        statistics: whose numbers get noise.
        estimates: the outputs.
        weights: how much each output matters, by name.
        chosen: counts, and the ranks of which places are chosen from them.
        groups, total: the most groups of a unit; and the most rows in all of them, where that is limited.
    """

    statistics: tuple[Statistic, ...]
    estimates: tuple[Estimate, ...]
    weights: Mapping[str, Fraction]
    chosen: tuple[tuple[Leaves, tuple[Fraction, ...]], ...] = ()
    groups: int = 1
    total: int | None = None

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """All coordinates of the required statistics, in order."""
        return tuple(c for s in self.statistics for c in s.coordinates)

    @property
    def times(self) -> int:
        """How many times one unit may add a vector of the body of the required statistics."""
        return self.groups if self.body.groups == 1 else 1

    @cached_property
    def body(self) -> Body:
        """The body of the required statistics: all that one unit may add to one group, or to all."""
        return body_in_all(self.statistics, self.groups, self.total)

    def get_body(self, statistic: Statistic) -> Body:
        """Return what one unit may add to one of the required statistics."""
        return body_in_all((statistic,), self.groups, self.total)


def requirements(
    query: Query,
    norm: Norm,
    multiplier: Fraction,
    units: bool,
    *,
    joint: bool = False,
    per_group: bool = False,
) -> Requirements:
    """Return the statistics that a query requires, and the estimates made of them.

    Args:
        query: what is asked.
        norm: of the noise that will be added; it decides how squares are shifted.
        multiplier: the expected noise multiplier, from which grids are chosen.
        units: whether a noisy count of units is there anyway, for the selection of groups.
        joint: whether noise is drawn for all numbers together, which needs a count that limits them.
        per_group: whether it is drawn for each group by itself: then quantiles alone need no count.
    Returns:
        Statistics, none twice, and how each output is made of them:

        - with rows=1 counting rows and counting units is one statistic;
        - sum, mean and variance of one column and the same bounds share their numbers;
        - where rows are counted, a column's values are counted as rows less missing values, which
          costs nothing (see `Moments`);
        - a sum is centred where a count is there to give the centre back.
    """
    design = Design(query, norm, multiplier, units, joint, per_group)
    measured = {e.name: e for name, a in query.measured for e in a.estimates(design, name)}
    computed = {n: a.estimate(n, measured) for n, a in query.aggregates if isinstance(a, Derived)}
    estimates = tuple((measured | computed)[name] for name in query.output_names)
    distinct = {id(s): s for s in design.statistics.values()}
    chosen = tuple((leaves, tuple(ranks)) for leaves, ranks in design.chosen.items())
    groups = 1 if query.shared else query.groups  # in all of which a unit adds as much as in one
    return Requirements(
        tuple(distinct.values()), estimates, query.output_weights, chosen, groups, query.total_rows
    )


WeightedBlock = tuple[Weights, Block | str | None]


@dataclass
class Design:
    """The required statistics of one query while they are collected, none twice.

    Args:
        query: what is asked.
        norm: of the noise that will be added; it decides how squares are shifted.
        multiplier: the expected noise multiplier, from which grids are chosen.
        units: whether units are counted, and noisy: for the selection of groups, or asked.
        joint: whether noise is drawn for all numbers together: then a count that limits them is there.
        per_group: whether this is done for each group by itself: then quantiles alone need none.
    """

    query: Query
    norm: Norm
    multiplier: Fraction
    units: bool
    joint: bool = False
    per_group: bool = False
    statistics: dict[str, Statistic] = field(default_factory=dict)
    present: dict[str, str] = field(default_factory=dict)
    null_counts: dict[str, str] = field(default_factory=dict)
    chosen: dict[Leaves, list[Fraction]] = field(default_factory=dict)  # ranks of which places are chosen

    def __post_init__(self) -> None:
        self.schema: Schema = self.query.schema
        self.rows: int = self.query.rows
        asked = [a.each for _, a in self.query.measured]
        self.blocks: set[Block] = {
            block for a in asked if a.needs_moments for block in a.bounds
        }  # columns whose rows are bounded one by one
        row_sums = {a.block for a in asked if isinstance(a, Sum) and self.per_row(a)}
        counts_rows = any(
            (isinstance(a, CountRows) and (a.column is None or not self.missing(a.column)))
            or (isinstance(a, OfColumns) and not self.lacking(a.columns))
            for a in asked
        )
        valued = {b[0] for b in self.blocks} | {
            a.column for a in asked if isinstance(a, CountRows) and a.column
        }
        self.units = (
            self.units
            or any(isinstance(a, CountPrivacyUnits) for a in asked)
            or (counts_rows and self.rows == 1)
        )
        # One count of rows serves every column; a single column with missing values and nothing
        # else to share with is counted by itself, which is one number less.
        single = len(valued) == 1 and self.missing(next(iter(valued)))
        self.base: str | None = None
        if self.rows == 1 and self.units:
            self.base = "units"
        elif counts_rows or (valued and not single):
            self.base = "units" if self.rows == 1 else "rows"
        self.units = self.units or self.base == "units"
        own = self._limited_by_values(valued | {b[0] for b in row_sums}) if self.joint else None
        if self.joint and own is None:
            self._limit(asked)
        if self.base is not None or own is not None:
            self.blocks |= row_sums
        self.lone_sums: set[Block] = row_sums - self.blocks
        # The bounds of a column under which its missing values are counted once.
        self.first_blocks: dict[str, Block] = {b[0]: b for b in sorted(self.blocks, reverse=True)}
        self.squared: set[Block] = {
            block for _, a in self.query.measured if a.needs_squares for block in a.bounds
        }
        self.of_columns = [a for _, a in self.query.measured if isinstance(a, OfColumns)]
        if self.units:
            self.add(CountUnits(self.whole_exponent))
        if self.base == "rows":
            self.add(Count(self.rows, exponent=self.whole_exponent))
        if own is not None:
            self.count_values(own)

    def _limited_by_values(self, columns: set[str]) -> str | None:
        """Return the column whose row count limits all required sums, for a smaller body.

        There may be one count above it, of units or of rows.
        """
        asked = [a.each for _, a in self.query.measured]
        sums_of_units = any(self.of_units(a) for a in asked)
        others = any(
            isinstance(a, (OfColumns, Quantiles, Weighted)) for a in asked
        )  # beside which rows are counted
        if len(columns) != 1 or sums_of_units or others or (self.units and self.base == "rows"):
            return None
        column = next(iter(columns))
        return column if self.missing(column) else None

    def _limit(self, aggregates: list[Aggregate]) -> None:
        """Require the count that limits all other statistics: of units, or of rows."""
        if (
            self.per_group
            and not self.units
            and all(isinstance(a, Quantiles) and a.error_bars for a in aggregates)
        ):
            return
        unit_sums = [a for a in aggregates if self.of_units(a)]
        rising = isinstance(aggregates[0], CountRows) or any(getattr(a, "lower", 0) >= 0 for a in unit_sums)
        if len(set(aggregates)) == 1 and rising and not self.units:
            return  # a single number that is never negative needs no other
        weighted = [a for a in aggregates if isinstance(a, Weighted)]
        if (
            len(weighted) == len(aggregates)
            and not self.units
            and len(set(map(self.weighted_block, weighted))) == 1
        ):
            return  # weights limit weighted values
        self.units = self.units or bool(unit_sums)
        if self.base is None and (self.blocks or not self.units):
            self.base = "units" if self.rows == 1 else "rows"
            self.units = self.units or self.rows == 1

    def missing(self, column: str) -> bool:
        """Whether required statistics must count missing values of a column."""
        return self.schema[column].missing

    def per_row(self, aggregate: Sum) -> bool:
        """Whether a required sum is of bounded rows, else of units' bounded sums."""
        if aggregate.per is not None:
            return aggregate.per == "row"
        return self.rows == 1 and aggregate.block in self.blocks

    def of_units(self, aggregate: Aggregate) -> bool:
        """Whether an aggregate requires sums with a bound per unit, not per row."""
        return isinstance(aggregate, CountDistinct) or (
            isinstance(aggregate, Sum) and not self.per_row(aggregate)
        )

    def fits(self, values: int) -> bool:
        """Whether noisy counts of so many values may be kept for each group, for required quantiles."""
        query = self.query
        known = not (query.private_groups or query.brought_groups)
        groups = len(query.public_groups) if known else MANY_GROUPS
        return values <= MAX_VALUES and values * groups <= MAX_COUNTS

    def add(self, statistic: Statistic) -> None:
        """Add a required statistic, unless its numbers are there."""
        for name in statistic.names:
            self.statistics.setdefault(name, statistic)

    def weight_exponent(self) -> int:
        """The log2 of the grid step of required counts whose rows are scaled."""
        return min(self.whole_exponent, Grid.for_noise(self.multiplier * self.rows).exponent)

    @property
    def whole_exponent(self) -> int:
        """The log2 of the grid step of required counts of units and rows."""
        return -WEIGHT_BITS if self.query.scaled or self.query.shared else 0

    def value_grid(self, block: Block) -> ValueGrid:
        """Return the grid of a column's values between bounds, for required sums."""
        _, lower, upper = block
        half = (upper - lower) / 2
        return ValueGrid.around(lower, upper, Grid.for_noise(self.multiplier * self.rows * half))

    def counted(self, column: str) -> tuple[str, str]:
        """Return the required counts whose difference is the number of rows with a value."""
        if column in self.present:
            return self.present[column], ""
        if not self.missing(column):
            if self.base is None:
                raise AssertionError("a count of rows is part of the design")
            return self.base, ""
        if self.base is not None and column in self.null_counts:
            return self.base, self.null_counts[column]
        return self.count_values(column), ""

    def count_values(self, column: str) -> str:
        """Require the number of rows with a value of a column."""
        own = Count(self.rows, column, self.weight_exponent())
        self.add(own)
        self.present[column] = own.names[0]
        return own.names[0]

    def moments(self, block: Block) -> Moments:
        """Require the sums of a column between bounds, and of squares if any aggregate needs them."""
        column = block[0]
        label = self.label(block)
        found = self.statistics.get(f"{label}.sum")
        if isinstance(found, Moments):
            return found
        grid = self.value_grid(block)
        squares = block in self.squared
        null_count = (
            self.base is not None
            and self.missing(column)
            and column not in self.present
            and block == self.first_blocks[column]
        )
        bits = self._square_bits(grid.half_range) if squares else None
        made = Moments(
            label,
            column,
            self.rows,
            grid,
            centred=block not in self.lone_sums,
            null_count_exponent=self.weight_exponent() if null_count else None,
            square_bits=bits,
        )
        if squares:
            share = Fraction(1, 2) if self.joint else SQUARES_SHIFT[self.norm]
            shift = int(share * made.largest_square)
            made = replace(made, square_centre=shift)
        self.add(made)
        for coordinate in made.coordinates:
            if coordinate.role is Role.NULL_COUNT:
                self.null_counts[column] = coordinate.name
        return made

    def lacking(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of required statistics that may lack a value."""
        return tuple(sorted({column for column in columns if self.missing(column)}))

    def cross(self, lacking: tuple[str, ...]) -> CrossMoments | None:
        """Require sums and products of columns over the rows in which all have a value.

        Args:
            lacking: the columns that may lack one.
        Returns:
            None, where nothing is asked of columns together over these rows.
        """
        together = [a for a in self.of_columns if self.lacking(a.columns) == lacking]
        if not together:
            return None
        label = f"rows{list(lacking)}" if lacking else "rows"
        found = next((s for s in self.statistics.values() if getattr(s, "label", None) == label), None)
        if isinstance(found, CrossMoments):
            return found
        blocks = list(dict.fromkeys(block for a in together for block in a.blocks))
        products: dict[tuple[int, int], None] = {}
        for a in together:
            of = [blocks.index(block) for block in a.blocks]
            pairs = combinations(of, 2) if isinstance(a, Covariance) else combinations_with_replacement(of, 2)
            unasked = {(of[0], of[0])} if isinstance(a, LinearRegression) else set()
            products |= dict.fromkeys((min(p), max(p)) for p in pairs if p not in unasked)
        for place, block in enumerate(blocks):  # squares for variances, too
            if block in self.squared and self.lacking([block[0]]) == lacking:
                products |= {(place, place): None}
        share = Fraction(1, 2) if self.norm is Norm.L1 or self.joint else square_share(len(blocks))
        axes = []
        for block in blocks:
            grid = self._coarse_grid(block)
            axes.append(Axis(self.label(block), block[0], grid, int(share * grid.half_range**2)))
        exponent = self.weight_exponent() if lacking else None
        made = CrossMoments(label, tuple(axes), self.rows, tuple(products), exponent)
        self.add(made)
        return made

    def _coarse_grid(self, block: Block) -> ValueGrid:
        """Return a grid for required products that fit in 64 bits with their noise."""
        _, lower, upper = block
        half, fine = (upper - lower) / 2, (14, 14) if self.joint else (20, 24)
        noise = Grid.for_noise(self.multiplier * self.rows * half, fine[0])
        return ValueGrid.around(
            lower, upper, Grid(max(noise.exponent, Grid.for_noise(half, fine[1]).exponent))
        )

    def weighted_block(self, aggregate: Weighted) -> WeightedBlock:
        """Return the key by which weighted aggregates share required statistics.

        A sum of weights alone is that of weights beside values, where the same rows have these.
        """
        if isinstance(aggregate.aggregate, BoundedAggregate):
            return aggregate.weights, aggregate.aggregate.block
        for _, other in self.query.measured:
            if isinstance(other, Weighted) and isinstance(other.aggregate, BoundedAggregate):
                column = other.aggregate.column
                same = aggregate.column == column or (aggregate.column is None and not self.missing(column))
                if same and other.weights == aggregate.weights:
                    return aggregate.weights, other.aggregate.block
        return aggregate.weights, aggregate.column

    def require_weights(self, aggregate: Weighted) -> WeightedSum:
        """Require the sum of weights, and of values times weights if they are needed."""
        weights, block = self.weighted_block(aggregate)
        whole = self.schema[weights.column].kind in (Kind.INTEGER, Kind.BOOLEAN)
        grid = WeightGrid.up_to(weights.most, whole)
        of_weights = f"{weights.column}[0,{short(weights.most)}]"
        if not isinstance(block, tuple):
            label = of_weights if block is None else f"{block}·{of_weights}"
            made = WeightedSum(label, weights.column, self.rows, grid, block)
        else:
            values = self.value_grid(block)
            largest = weights.most * (block[2] - block[1]) / 2
            noise = Grid.for_noise(self.multiplier * self.rows * largest, 28 if self.joint else 30)
            bits = max(0, noise.exponent - grid.exponent - values.exponent)
            label = f"{self.label(block)}·{of_weights}"
            made = WeightedSum(label, weights.column, self.rows, grid, block[0], values, bits)
        self.add(made)
        return made

    def _square_bits(self, half_range: int) -> int:
        """Return how many bits of required squares are cut: what their noise hides."""
        bits = max(0, 2 * half_range.bit_length() - 32)
        if self.joint:
            # Floats decide how numbers are rounded that are drawn together, but on grids that are too fine.
            noise = self.multiplier * self.rows * Fraction(half_range**2, 2)
            bits = max(bits, Grid.for_noise(noise).exponent)
        return bits

    def label(self, block: Block) -> str:
        """Write a column and its bounds, for the names of required coordinates."""
        column, lower, upper = block
        return f"{column}[{short(lower)},{short(upper)}]"
