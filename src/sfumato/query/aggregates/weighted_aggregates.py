"""Aggregates with survey weights: counts, sums, means and histograms of the population."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import Number, as_fraction
from sfumato.query.aggregates.aggregate import (
    Aggregate,
    check_numeric,
    column_name,
)
from sfumato.query.aggregates.estimate import Estimate
from sfumato.query.schema import Schema

if TYPE_CHECKING:
    from sfumato.plan.required_statistics import Design


@dataclass(frozen=True, repr=False)
class Weights(Spelled):
    """Survey weights: the number of units of the population that a row stands for.

    Args:
        column: the column of weights.
        most: larger ones are trimmed to this.
    """

    column: str
    most: Fraction


@dataclass(frozen=True, repr=False)
class Weighted(Aggregate):
    """An aggregate with survey weights, of the population that rows stand for.

    Args:
        aggregate: the same without weights.
        weights: how many each row stands for.
    """

    in_totals = True

    aggregate: Aggregate
    weights: Weights

    @property
    def column(self) -> str | None:
        """The column of values of a weighted aggregate, if it has one."""
        return next(iter(self.aggregate.columns), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a weighted aggregate: its weights, and its values."""
        return (self.weights.column, *self.aggregate.columns)

    @property
    def needs_rows(self) -> bool:
        """Whether a weighted aggregate depends on a limit of rows, as without weights."""
        return self.aggregate.needs_rows

    @property
    def divisible(self) -> bool:
        """Whether units may be scaled down in a weighted aggregate: they may not."""
        return False

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The bounds of the values of a weighted aggregate."""
        return self.aggregate.bounds

    def clamps(self, schema: Schema) -> bool:
        """Whether a weighted aggregate may clamp something: weights, to the largest."""
        return True

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the output columns of a weighted aggregate, as without weights."""
        return self.aggregate.outputs(name)

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return a weighted aggregate with its columns renamed."""
        weights = replace(self.weights, column=columns[self.weights.column])
        return replace(self, aggregate=self.aggregate.of_columns(columns), weights=weights)

    def check(self, name: str, schema: Schema) -> None:
        """Check that the columns of values and weights hold numbers."""
        super().check(name, schema)
        self.aggregate.check(name, schema)
        check_numeric(f"{name}, by its weights,", self.weights.column, schema)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return a weighted aggregate's description, with its weights."""
        weight = written.get(self.weights.column, self.weights.column)
        return f"{self.aggregate.meaning(written)}, weighted by {weight} up to {float(self.weights.most):g}"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimates of a weighted aggregate."""
        return self.aggregate.weighted_estimates(design, name, self)


def weighted(aggregate: Aggregate, weights: Weights | None) -> Aggregate:
    """Return an aggregate with survey weights, if there are some."""
    return aggregate if weights is None else Weighted(aggregate, weights)


def get_weights(function: str, weight: object, max_weight: Number | None) -> Weights | None:
    """Return the survey weights that an aggregate's function was given, or None.

    Raises:
        QueryError: the weight is no column's name, or one of the two is missing.
        ParameterError: the largest weight is no number from 1e-100 to 1e100.
    """
    if weight is max_weight is None:
        return None
    if weight is None or max_weight is None:
        missing = "weight" if weight is None else "max_weight"
        raise QueryError(
            f"{function}: {missing} is missing, and the noise depends on the largest weight. "
            f"Write {function}(..., weight='w', max_weight=50) with one known beforehand, not read "
            "from the data: larger weights are trimmed to it"
        )
    most = as_fraction(max_weight, "max_weight")
    if not Fraction(1, 10**100) <= most <= 10**100:
        raise ParameterError("max_weight", max_weight, "a number from 1e-100 to 1e100")
    return Weights(column_name(f"{function}: weight", weight), most)
