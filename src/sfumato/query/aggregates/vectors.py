"""Sums and means of vectors, which come in a column of lists."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import get_args

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, ParameterError, shown
from sfumato.exact import Number, as_fraction, one_of, positive_int
from sfumato.names import helpful
from sfumato.query.aggregates.aggregate import Aggregate, column_name
from sfumato.query.aggregates.called import remembered
from sfumato.query.choices import Bounded, VectorNorm
from sfumato.query.schema import IN_PLACE, Schema, spelled
from sfumato.transformations import Ball
from sfumato.transformations.statistics.vector_sum import MOST_ENTRIES, NORMS

MOST_ESTIMATED = 64  # entries of vectors whose lengths diagnostics estimate


@dataclass(frozen=True, repr=False)
class VectorSum(Aggregate):
    """The sum of a column of lists of a length, entry by entry; `per` tells whose norm is bounded."""

    column: str
    length: int
    bound: Fraction
    norm: VectorNorm
    per: Bounded

    @property
    def needs_rows(self) -> bool:
        """Bounds are of what a unit adds, unless they are of each row."""
        return self.per == "row"

    @property
    def estimable(self) -> bool:
        """Diagnostics need a column for each entry."""
        return self.length <= MOST_ESTIMATED

    def clamps(self, schema: Schema) -> bool:
        """Vectors may be longer than the bound."""
        return True

    def check(self, name: str, schema: Schema) -> None:
        """Check that the column is there, and holds lists of numbers, of this length if its type tells."""
        super().check(name, schema)
        column = schema[self.column]
        if column.entries is None:
            raise ColumnError(
                f"agg: {name} asks for vectors of column {self.column!r}, which is {column.type_name} and no "
                f"list of numbers; use try_cast({spelled(self.column)} AS DOUBLE[]) {IN_PLACE}"
            )
        if column.length not in (None, self.length):
            raise ColumnError(
                f"agg: {name} asks for vectors of {self.length:,} entries, but column {self.column!r} is "
                f"{column.type_name}; write length={column.length}"
            )

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what is added up, and its bound."""
        column = written.get(self.column, self.column)
        return f"sum of vectors of {column}, {NORMS[Ball(self.norm)]} norm at most {float(self.bound):g}"


@dataclass(frozen=True, repr=False)
class VectorMean(VectorSum):
    """The mean of a column of lists of a length, entry by entry, over the rows that have a vector."""

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what is averaged, and its bound."""
        return super().meaning(written).replace("sum", "mean", 1)


@helpful
@remembered
def vector_sum(
    column: str, *, length: int, bound: Number, norm: VectorNorm = "l2", per: Bounded = "unit"
) -> Aggregate:
    """Add up a column of vectors of one length, entry by entry: embeddings, one-hot codes, flags.

    A longer vector than the bound is shortened to it, and keeps its direction; with norm="linf" each entry is
    clamped. A list that is NULL, of another length, or has an entry that is NULL or NaN is no vector, and
    adds nothing; infinite entries are clamped.

    Args:
        column: a column of lists of numbers, or of arrays.
        length: how many entries a vector has, from 1 to 4,096.
        bound: of the norm, in the unit of the entries, greater than 0. It bounds the sum of what a unit has
            in a group, or with per="row" each row's vector.
        norm: "l2", the root of the sum of squares; "l1", the sum of sizes; "linf", the largest size.
        per: "unit" or "row".
    Returns:
        An aggregate whose output is one column of lists of this length: of whole numbers where the entries
        are whole, and so is the bound, with norm="linf"; else of float64.
    Raises:
        QueryError: the column is no name.
        ParameterError: the length, the bound, the norm or `per` is not admissible.

    >>> vector_sum("embedding", length=3, bound=1)
    VectorSum(column='embedding', length=3, bound=1, norm='l2', per='unit')

    Source:
        docs/proofs/vector_sum.md.
    """
    one_of(per, "per", get_args(Bounded))
    return VectorSum(*_checked("vector_sum", column, length, bound, norm), per)


@helpful
@remembered
def vector_mean(column: str, *, length: int, bound: Number, norm: VectorNorm = "l2") -> Aggregate:
    """Average a column of vectors of one length, entry by entry, over the rows that have one.

    Args:
        column: a column of lists of numbers, or of arrays.
        length: how many entries a vector has, from 1 to 4,096.
        bound: of the norm of each row's vector, in the unit of the entries, greater than 0.
        norm: as of `vector_sum`.
    Returns:
        An aggregate whose output is one column of lists of this length, of float64, each entry between -bound
        and bound: the noisy sum over the noisy number of rows that have a vector. Asked beside
        `vector_sum(..., per="row")` with the same bound it needs no other sum.
    Raises:
        QueryError: the column is no name.
        ParameterError: the length, the bound or the norm is not admissible.

    >>> vector_mean("embedding", length=3, bound=1).norm
    'l2'

    Source:
        docs/proofs/vector_count.md.
    """
    return VectorMean(*_checked("vector_mean", column, length, bound, norm), "row")


def _checked(
    function: str, column: str, length: int, bound: Number, norm: VectorNorm
) -> tuple[str, int, Fraction, VectorNorm]:
    """Return what a function was given, with an exact bound."""
    name = column_name(function, column)
    if positive_int(length, "length") > MOST_ENTRIES:
        raise ParameterError("length", length, f"at most {MOST_ENTRIES:,}")
    one_of(norm, "norm", get_args(VectorNorm))
    exact = as_fraction(bound, f"{function}({shown(column)}) bound")
    if not Fraction(1, 10**100) <= exact <= 10**100:
        raise ParameterError(f"{function}({shown(column)}) bound", bound, "between 1e-100 and 1e100")
    return name, length, exact, norm
