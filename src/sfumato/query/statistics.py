"""From aggregates to the statistics that serve them, each number paid for once."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.exact import round_down, round_up
from sfumato.query.aggregates import (
    Aggregate,
    BoundedAggregate,
    CountPrivacyUnits,
    CountRows,
    Mean,
    Quantiles,
    StandardDeviation,
    Sum,
    Variance,
)
from sfumato.query.engine import Kind
from sfumato.query.table import Question, names_of
from sfumato.transformations import (
    Count,
    CountUnits,
    Grid,
    Moments,
    Norm,
    QuantileTree,
    Statistic,
    UnitSum,
    ValueGrid,
)
from sfumato.transformations.statistics.moments import SQUARES_SHIFT
from sfumato.transformations.statistics.unit_sum import HUGE_STEPS

# A sum is shown in 64-bit integers where these hold what so many units (more than anybody has), or noise
# of so many scales (beyond with probability below e^-4000), can add up to; else in float64.
MOST_UNITS, MOST_SCALES = 1 << 40, 1 << 12
LARGEST_WHOLE = 1 << 62
# Leaves are counted in steps of 2^-14 rows, so that 64 bits hold a tree of 2^49 rows.
TREE_EXPONENT = -14


@dataclass(frozen=True)
class Estimate:
    """How one output is computed from noisy numbers; `query.estimates` evaluates it.

    Args:
        name: the output's name.
        kind: "count", "sum", "mean", "variance", "stddev" or "quantile".
        count: the coordinate that counts, where there is one.
        absent: the coordinate of missing values to be taken off the count, where there is one.
        total, squares: coordinates of the sum and of the squares.
        centre: what a value was counted from, in the column's unit.
        square_centre: what a squared distance was counted from, in squared units.
        lower, upper: the bounds in which the output lies.
        reach: the largest distance of a value from the centre, in the column's unit.
        rank: of a quantile.
        whole: whether the output is a whole number.
        wide: a whole number that 64-bit integers may not hold, so shown as float64.
    """

    name: str
    kind: str
    count: str | None = None
    absent: str | None = None
    total: str | None = None
    squares: str | None = None
    centre: float = 0.0
    square_centre: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    reach: float = 0.0
    rank: float = 0.0
    whole: bool = False
    wide: bool = False

    @property
    def integer(self) -> bool:
        """Whether the output's column is int64, else float64: by the question, whatever the rows."""
        return self.whole and not self.wide

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The noisy numbers that the output depends on."""
        return tuple(c for c in (self.count, self.absent, self.total, self.squares) if c is not None)


@dataclass(frozen=True)
class Requirements:
    """Statistics with the estimates made of them."""

    statistics: tuple[Statistic, ...]
    estimates: tuple[Estimate, ...]

    @property
    def coordinates(self) -> tuple[str, ...]:
        """All noisy numbers, in order."""
        return tuple(name for s in self.statistics for name in s.coordinates)


Block = tuple[str, Fraction, Fraction]


@dataclass
class _Builder:
    question: Question
    norm: Norm
    multiplier: Fraction
    units: bool
    statistics: dict[str, Statistic] = field(default_factory=dict)
    present: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schema = self.question.table.schema
        self.rows = self.question.rows
        asked = [a for _, a in self.question.aggregates]
        self.blocks = {
            _block(a) for a in asked if isinstance(a, (Mean, Variance, StandardDeviation))
        }  # columns whose rows are bounded one by one
        row_sums = {_block(a) for a in asked if isinstance(a, Sum) and self.per_row(a)}
        counts_rows = any(
            isinstance(a, CountRows) and (a.column is None or not self.missing(a.column)) for a in asked
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
        if self.base is not None:
            self.blocks |= row_sums
        self.lone_sums = row_sums - self.blocks
        if self.units:
            self.add(CountUnits())
        if self.base == "rows":
            self.add(Count(self.rows))

    def missing(self, column: str) -> bool:
        return self.schema[column].missing

    def per_row(self, aggregate: Sum) -> bool:
        if aggregate.per is not None:
            return aggregate.per == "row"
        return self.rows == 1 and _block(aggregate) in self.blocks

    def add(self, statistic: Statistic) -> None:
        for name in statistic.coordinates:
            self.statistics.setdefault(name, statistic)

    def weight_exponent(self) -> int:
        return min(0, Grid.for_noise(self.multiplier * self.rows).exponent)

    def value_grid(self, block: Block) -> ValueGrid:
        _, lower, upper = block
        half = (upper - lower) / 2
        return ValueGrid.around(lower, upper, Grid.for_noise(self.multiplier * self.rows * half))

    def counted(self, column: str) -> tuple[str, str | None]:
        """Return the coordinates whose difference is the number of rows with a value."""
        if column in self.present:
            count, absent = self.present[column]
            if count is not None:
                return count, absent
        if not self.missing(column):
            if self.base is None:
                raise AssertionError("a count of rows is part of the design")
            return self.base, None
        if self.base is not None:
            for statistic in self.statistics.values():
                if isinstance(statistic, Moments) and statistic.column == column:
                    for name in statistic.coordinates:
                        if name.endswith(".absent"):
                            return self.base, name
        own = Count(self.rows, column, self.weight_exponent())
        self.add(own)
        self.present[column] = (own.coordinates[0], None)
        return own.coordinates[0], None

    def moments(self, block: Block) -> Moments:
        column = block[0]
        label = self.label(block)
        found = self.statistics.get(f"{label}.sum")
        if isinstance(found, Moments):
            return found
        grid = self.value_grid(block)
        squares = any(
            isinstance(a, (Variance, StandardDeviation)) and _block(a) == block
            for _, a in self.question.aggregates
        )
        absent = self.base is not None and self.missing(column) and block == self.first_block(column)
        bits = max(0, 2 * grid.half_range.bit_length() - 32) if squares else None
        made = Moments(
            label,
            column,
            self.rows,
            grid,
            centred=block not in self.lone_sums,
            absent_exponent=self.weight_exponent() if absent else None,
            square_bits=bits,
        )
        if squares:
            shift = int(SQUARES_SHIFT[self.norm] * made.largest_square)
            made = Moments(**{**made.__dict__, "square_centre": shift})
        self.add(made)
        return made

    def first_block(self, column: str) -> Block:
        return min(b for b in self.blocks if b[0] == column)

    def label(self, block: Block) -> str:
        column, lower, upper = block
        return f"{column}[{_short(lower)},{_short(upper)}]"

    def estimate(self, name: str, aggregate: Aggregate) -> tuple[Estimate, ...]:
        if isinstance(aggregate, CountPrivacyUnits):
            return (Estimate(name, "count", "units", whole=True),)
        if isinstance(aggregate, CountRows):
            if aggregate.column is None:
                return (Estimate(name, "count", self.base, whole=True),)
            count, absent = self.counted(aggregate.column)
            return (Estimate(name, "count", count, absent, whole=True),)
        assert isinstance(aggregate, BoundedAggregate)
        if isinstance(aggregate, Quantiles):
            return self.quantiles(name, aggregate)
        if isinstance(aggregate, Sum):
            return (self.sum(name, aggregate),)
        moments = self.moments(_block(aggregate))
        count, absent = self.counted(aggregate.column)
        lower, upper = float(aggregate.lower), float(aggregate.upper)
        width = upper - lower
        centre = float(moments.grid.centre * moments.grid.step)
        shared = {"count": count, "absent": absent, "total": moments.coordinates[0], "centre": centre}
        if isinstance(aggregate, Mean):
            return (Estimate(name, "mean", **shared, lower=lower, upper=upper),)  # type: ignore[arg-type]
        squares = next(c for c in moments.coordinates if c.endswith(".squares"))
        shift = float(moments.square_centre * moments.square_step)
        reach = float(moments.reach * moments.grid.step)
        kind, top = (
            ("variance", width * width / 4) if isinstance(aggregate, Variance) else ("stddev", width / 2)
        )
        return (
            Estimate(name, kind, **shared, squares=squares, square_centre=shift, upper=top, reach=reach),  # type: ignore[arg-type]
        )

    def sum(self, name: str, aggregate: Sum) -> Estimate:
        integer = self.schema[aggregate.column].kind in (Kind.INTEGER, Kind.BOOLEAN)
        per_row = self.per_row(aggregate)
        bound = max(abs(aggregate.lower), abs(aggregate.upper))
        most = max(Fraction(MOST_UNITS), self.multiplier * MOST_SCALES)
        wide = integer and bound * (self.rows if per_row else 1) * most > LARGEST_WHOLE
        if per_row:
            block = _block(aggregate)
            moments = self.moments(block)
            if block in self.lone_sums:
                return Estimate(name, "sum", total=moments.coordinates[0], whole=integer, wide=wide)
            count, absent = self.counted(aggregate.column)
            centre = float(moments.grid.centre * moments.grid.step)
            return Estimate(
                name, "sum", count, absent, moments.coordinates[0], centre=centre, whole=integer, wide=wide
            )
        lower, upper = aggregate.lower, aggregate.upper
        largest = (upper - lower) / 2 if self.units else bound
        # Noise on whole numbers has scales in steps of one; beyond 2^50 of them, or where bounds are
        # beyond what a row is clamped to, a column of integers is put on a grid like any other.
        exact = integer and self.multiplier * bound < 2**50 and bound <= HUGE_STEPS
        if exact:
            grid = Grid(0)
        else:
            bounds = ValueGrid.around(lower, upper, Grid.for_noise(self.multiplier * largest))
            grid = Grid(bounds.exponent)
        low, high = grid.steps_at_most(lower), grid.steps_at_least(upper)
        centre_steps = (low + high) // 2 if self.units else 0
        label = self.label(_block(aggregate))
        made = UnitSum(label, aggregate.column, grid.exponent, low, high, exact, centre_steps)
        self.add(made)
        return Estimate(
            name,
            "sum",
            "units" if self.units else None,
            total=made.coordinates[0],
            centre=float(centre_steps * grid.step),
            whole=integer,
            wide=wide,
        )

    def quantiles(self, name: str, aggregate: Quantiles) -> tuple[Estimate, ...]:
        lower, upper = round_down(aggregate.lower), round_up(aggregate.upper)
        exponent = max(self.weight_exponent(), TREE_EXPONENT)
        tree = QuantileTree(
            self.label(_block(aggregate)), aggregate.column, self.rows, lower, upper, exponent
        )
        self.add(tree)
        return tuple(
            Estimate(output, "quantile", total=tree.coordinates[0], lower=lower, upper=upper, rank=rank)
            for output, rank in zip(names_of(name, aggregate), aggregate.ranks, strict=True)
        )


def requirements(question: Question, norm: Norm, multiplier: Fraction, units: bool) -> Requirements:
    """Choose the statistics that answer a question.

    Args:
        question: what is asked.
        norm: of the noise that will be added; it decides how squares are shifted.
        multiplier: the expected noise multiplier, from which grids are chosen.
        units: whether a noisy count of units is there anyway, for the selection of groups.
    Returns:
        Statistics, none twice, and how each output is made of them:

        - with rows=1 counting rows and counting units is one statistic;
        - sum, mean and variance of one column and the same bounds share their numbers;
        - where rows are counted, a column's values are counted as rows less missing values, which
          costs nothing (see `Moments`);
        - a sum is centred where a count is there to give the centre back.
    """
    builder = _Builder(question, norm, multiplier, units)
    estimates = tuple(e for name, a in question.aggregates for e in builder.estimate(name, a))
    distinct = {id(s): s for s in builder.statistics.values()}
    return Requirements(tuple(distinct.values()), estimates)


def _block(aggregate: BoundedAggregate) -> Block:
    return aggregate.column, aggregate.lower, aggregate.upper


def _short(number: Fraction) -> str:
    """Write a bound such that different bounds are written differently."""
    for text in (f"{float(number):g}", repr(float(number))):
        if number in (Fraction(text), Fraction(float(text))):
            return text
    return str(number)
