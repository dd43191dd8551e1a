"""Sums and means of vectors: columns of lists, with one output for all entries."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, get_args

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, ParameterError, shown
from sfumato.exact import Number, as_fraction, one_of, positive_int
from sfumato.framework import AtomDomain
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import Interval
from sfumato.query.aggregates.aggregate import Aggregate, aggregate_function, column_name, short
from sfumato.query.aggregates.estimate import LARGEST_WHOLE, MAX_SCALES, MAX_UNITS, Estimate
from sfumato.query.option_names import Bounded, VectorNorm
from sfumato.query.schema import IN_PLACE, Schema, format_name
from sfumato.transformations import Ball, Grid, VectorCount
from sfumato.transformations import VectorSum as Statistic
from sfumato.transformations.grid import get_exponent
from sfumato.transformations.statistics.vector_sum import MAX_ENTRIES, MAX_RADIUS, NORMS

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


@dataclass(frozen=True, repr=False)
class VectorSum(Aggregate):
    """A sum of vectors, entry by entry; `per` says whether norms of rows or of units are bounded."""

    column: str
    length: int
    bound: Fraction
    norm: VectorNorm
    per: Bounded

    @property
    def needs_rows(self) -> bool:
        """Whether a sum of vectors depends on a limit of rows: if norms of rows are bounded."""
        return self.per == "row"

    def clamps(self, schema: Schema) -> bool:
        """Whether the bound of the norm may shorten vectors: it may."""
        return True

    def check(self, name: str, schema: Schema) -> None:
        """Check that the column holds vectors: lists of numbers, of the given length."""
        super().check(name, schema)
        column = schema[self.column]
        if column.entries is None:
            raise ColumnError(
                f"agg: {name} asks for vectors of column {self.column!r}, which is {column.type_name} and no "
                f"list of numbers; use try_cast({format_name(self.column)} AS DOUBLE[]) {IN_PLACE}"
            )
        if column.length not in (None, self.length):
            raise ColumnError(
                f"agg: {name} asks for vectors of {self.length:,} entries, but column {self.column!r} is "
                f"{column.type_name}; write length={column.length}"
            )

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the column of vectors, and the bound of their norm."""
        column = written.get(self.column, self.column)
        return f"sum of vectors of {column}, {NORMS[Ball(self.norm)]} norm at most {float(self.bound):g}"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a sum of vectors."""
        made, whole = self._summed(design)
        rows = design.rows if self.per == "row" else 1
        noise = design.multiplier * rows * self.bound
        most = max(Fraction(MAX_UNITS) * rows * self.bound, MAX_SCALES * noise * self.length)
        return (
            VectorEstimate(
                name, total=made.names[0], whole=whole, wide=most > LARGEST_WHOLE, entries=self.length
            ),
        )

    def _summed(self, design: Design) -> tuple[Statistic, bool]:
        """Add the statistic of the sum of vectors, and return it, and whether entries are whole numbers."""
        entries, bound = design.schema[self.column].entries, self.bound
        noise = design.multiplier * (design.rows if self.per == "row" else 1) * bound
        # What is cut off when a vector is shortened is less than a step, which is too much of a whole
        # number: so numbers stay whole only where entries are clamped, each by itself.
        whole = (
            isinstance(entries, AtomDomain)
            and entries.kind in (int, bool)
            and self.norm == "linf"
            and bound.denominator == 1
            and bound <= MAX_RADIUS
            and not design.query.scaled
            and noise * self.length < 2**50
        )
        grid = _grid(noise, bound)
        if whole:  # but rows that are scaled down
            grid = Grid(0 if self.per == "unit" else min(0, grid.exponent))
        label = f"{self.column}[{self.length}, {self.norm} {short(bound)}]"
        made = Statistic(
            f"{label}.row" if self.per == "row" else label,
            self.column,
            self.length,
            grid.exponent,
            grid.steps_at_least(bound),
            Ball(self.norm),
            design.rows if self.per == "row" else None,
        )
        design.add(made)
        return made, whole


@dataclass(frozen=True, repr=False)
class VectorMean(VectorSum):
    """A mean of vectors, entry by entry, over the rows that have one."""

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the column of vectors that is averaged, and the bound of their norm."""
        return super().meaning(written).replace("sum", "mean", 1)

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a mean of vectors: their sum over the number of rows with one."""
        made, _ = self._summed(design)
        count = VectorCount(self.column, self.length, design.rows, design.weight_exponent())
        design.add(count)
        bound = float(self.bound)
        return (
            VectorMeanEstimate(
                name, count.names[0], total=made.names[0], lower=-bound, upper=bound, entries=self.length
            ),
        )


@aggregate_function("VECTOR_SUM")
def vector_sum(
    column: str, *, length: int, bound: Number, norm: VectorNorm = "l2", per: Bounded = "unit"
) -> Aggregate:
    """Add up a column of vectors of one length, entry by entry: embeddings, one-hot codes, flags.

    A vector longer than the bound is shortened to it and keeps its direction; with norm="linf" each entry is
    clamped. A list that is NULL, has another length, or has an entry that is NULL or NaN adds nothing.
    Infinite entries are clamped.

    Args:
        column: a column of lists or arrays of numbers.
        length: the number of entries of a vector, from 1 to 4,096.
        bound: the largest norm, in the unit of the entries, greater than 0. It bounds a unit's sum in a
            group, or each row's vector with per="row".
        norm: "l2", the root of the sum of squares; "l1", the sum of absolute values; "linf", the largest
            absolute value.
        per: "unit" or "row".
    Returns:
        An aggregate with one output column of lists of this length. The entries are whole numbers if the
        column's entries and the bound are, with norm="linf"; otherwise float64.
    Raises:
        QueryError: the column is not a name.
        ParameterError: the length, the bound, the norm or `per` is not valid.

    >>> vector_sum("embedding", length=3, bound=1)
    VectorSum(column='embedding', length=3, bound=1, norm='l2', per='unit')

    Source:
        docs/proofs/vector_sum.md.
    """
    one_of(per, "per", get_args(Bounded))
    return VectorSum(*_checked("vector_sum", column, length, bound, norm), per)


@aggregate_function("VECTOR_AVG")
def vector_mean(column: str, *, length: int, bound: Number, norm: VectorNorm = "l2") -> Aggregate:
    """Average a column of vectors of one length, entry by entry, over the rows that have a vector.

    Args:
        column: a column of lists or arrays of numbers.
        length: the number of entries of a vector, from 1 to 4,096.
        bound: the largest norm of each row's vector, in the unit of the entries, greater than 0.
        norm: as for `vector_sum`.
    Returns:
        An aggregate with one output column of lists of float64 of this length, with entries from -bound to
        bound: the noisy sum over the noisy number of rows with a vector. Next to `vector_sum(..., per="row")`
        with the same bound it needs no second sum.
    Raises:
        QueryError: the column is not a name.
        ParameterError: the length, the bound or the norm is not valid.

    >>> vector_mean("embedding", length=3, bound=1).norm
    'l2'

    Source:
        docs/proofs/vector_count.md.
    """
    return VectorMean(*_checked("vector_mean", column, length, bound, norm), "row")


def _checked(
    function: str, column: str, length: int, bound: Number, norm: VectorNorm
) -> tuple[str, int, Fraction, VectorNorm]:
    """Return the checked column, length, bound and norm of vectors."""
    name = column_name(function, column)
    if positive_int(length, "length") > MAX_ENTRIES:
        raise ParameterError("length", length, f"at most {MAX_ENTRIES:,}")
    one_of(norm, "norm", get_args(VectorNorm))
    exact = as_fraction(bound, f"{function}({shown(column)}) bound")
    if not Fraction(1, 10**100) <= exact <= 10**100:
        raise ParameterError(f"{function}({shown(column)}) bound", bound, "between 1e-100 and 1e100")
    return name, length, exact, norm


# The radius has at least so many bits of steps, and at most one more than the other.
_MIN_BITS, _MAX_BITS = 20, 31


@dataclass(frozen=True)
class VectorEstimate(Estimate):
    """The estimate of a sum of vectors."""

    kind = "vector_sum"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy sums of vectors, of shape (groups, entries)."""
        return numbers.values[self.total]

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of each entry of a sum of vectors."""
        exact = self.value(numbers)
        half = numbers.noises.tolerance({self.total: np.ones(1)}, failure)
        return Interval(exact - half, exact + half)


@dataclass(frozen=True)
class VectorMeanEstimate(Estimate):
    """The estimate of a mean of vectors: the noisy sum over the noisy count."""

    kind = "vector_mean"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy means of vectors within the bounds, of shape (groups, entries)."""
        count = np.maximum(self.counted(numbers), self.least)[:, None]
        mean: Floats = np.clip(numbers.values[self.total] / count, self.lower, self.upper)
        return mean

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return Fieller's interval of each entry of a mean of vectors."""
        sums = numbers.values[self.total]
        given = {self.total: sums.ravel(), self.count: np.repeat(numbers.values[self.count], sums.shape[1])}
        within = self.lower, self.upper
        found = numbers.noises.ratio(given, {self.total: 1.0}, self.signs, within, failure)
        return found.map(lambda x: x.reshape(sums.shape))


def _grid(noise: Fraction, bound: Fraction) -> Grid:
    """Return the grid of a vector's entries, on which noise is about 2^30 steps."""
    least = get_exponent(bound)
    return Grid(min(max(Grid.for_noise(noise).exponent, least - _MAX_BITS), least - _MIN_BITS))
