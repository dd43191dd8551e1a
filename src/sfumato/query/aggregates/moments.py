"""Sums, means and variances of values within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, get_args

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError
from sfumato.exact import Number, one_of
from sfumato.names import helpful
from sfumato.query.aggregates.aggregate import (
    Aggregate,
    BoundedAggregate,
    Unbounded,
    bounds_of,
    column_name,
    is_auto,
)
from sfumato.query.aggregates.automatic import automatic, refuse_magnitudes
from sfumato.query.aggregates.called import remembered
from sfumato.query.aggregates.strata import stratified
from sfumato.query.aggregates.weighted import weighted, weights_of
from sfumato.query.choices import Bounded
from sfumato.query.schema import Schema


@dataclass(frozen=True, repr=False)
class Sum(BoundedAggregate):
    """A sum; `per` tells what the bounds bound: each "row", or each "unit" in a group."""

    kind = "sum"

    per: Bounded | None = None

    @property
    def needs_rows(self) -> bool:
        """Bounds are of what a unit adds, unless they are of each row."""
        return self.per == "row"

    def clamps(self, schema: Schema) -> bool:
        """Whether values may be beyond the bounds, or what a unit adds with all of its rows."""
        return self.per != "row" or super().clamps(schema)


@dataclass(frozen=True, repr=False)
class Mean(BoundedAggregate):
    """A mean."""

    kind = "mean"


@dataclass(frozen=True, repr=False)
class Variance(BoundedAggregate):
    """A variance (divided by the count, not the count less one)."""

    kind = "variance"


@dataclass(frozen=True, repr=False)
class StandardDeviation(BoundedAggregate):
    """The root of a variance."""

    kind = "standard deviation"


@helpful
@remembered
def sum(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    per: Bounded | None = None,
    weight: str | None = None,
    max_weight: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
) -> Aggregate:
    """Add up a column.

    Args:
        column: a numeric column.
        lower, upper: bounds in the column's unit. They bound what each unit adds to a group (its
            exact sum is clamped), or with per="row" each row. Both may be left out, here and below, where
            the table is one of a catalog that declares bounds of the column; these bound each row. With
            "auto", for one or both, a release finds it for a share of its budget (docs/choosing.md).
        per: "unit" or "row". When left out it is "unit"; but where a mean or variance of the same
            column and bounds is asked with rows=1, the sum shares their numbers and is per row.
        weight: a column of survey weights: then the total of the population that the rows stand for is
            estimated, the sum of values times weights (an expansion total). Bounds are of each row.
        max_weight: larger weights are trimmed to this; below 0 they are 0, and rows without one do not count.
        magnitudes: of bounds that are found, the smallest and the largest size that values may have, such as
            (1, 10**6): what is known beforehand, and not read from the data. Larger ones are clamped.
    Returns:
        What `agg` takes: the sum, in the column's unit.
    Raises:
        QueryError: a bound or one of the weights is missing, not finite, or lower is not below upper; or
            bounds are of units beside weights.
    Source:
        Wilson et al. 2020, "Differentially private SQL with bounded user contribution". Proofs:
        docs/proofs/unit_sum.md, per row docs/proofs/moments.md, and with weights docs/proofs/weighted_sum.md.

    >>> sum("docvis", lower=0, upper=60)
    Sum(column='docvis', lower=0, upper=60, per=None)
    """
    if per is not None:
        one_of(per, "per", get_args(Bounded))
    weights = weights_of("sum", weight, max_weight)
    if weights is not None and per == "unit":
        raise QueryError("sum: with weights, bounds are of each row; leave per='unit' out")
    if lower is None and upper is None:
        given = () if weights is None else (("weight", weight), ("max_weight", max_weight))
        return Unbounded(sum, column_name("sum", column), (("per", per), *given))
    if is_auto(lower) or is_auto(upper):
        options: dict[str, Any] = {"per": per}
        if weights is not None:
            options |= {"per": "row", "weight": weight, "max_weight": max_weight}
        return automatic(sum, column, lower, upper, magnitudes, options)
    refuse_magnitudes(sum, magnitudes)
    bounds = bounds_of("sum", column, lower, upper)
    return weighted(Sum(column_name("sum", column), *bounds, per if weights is None else "row"), weights)


@helpful
@remembered
def mean(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    weight: str | None = None,
    max_weight: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
) -> Aggregate:
    """Average a column whose rows are clamped to [lower, upper].

    Args:
        column: a numeric column.
        lower, upper: bounds of each row, in the column's unit.
        weight, max_weight: as of `sum`: then the mean of the population is estimated, the sum of values times
            weights over that of the weights.
        magnitudes: as of `sum`.
    Returns:
        What `agg` takes: the mean, in the column's unit, within the bounds.
    Raises:
        QueryError: a bound or one of the weights is missing, not finite, or lower is not below upper.
    Source:
        The law of the quotient: docs/tolerances.md, "Means". Proofs: docs/proofs/moments.md, and with weights
        docs/proofs/weighted_sum.md.

    >>> mean("income", lower=0, upper=100, weight="w", max_weight=50).weights
    Weights(column='w', most=50)
    """
    weights = weights_of("mean", weight, max_weight)
    if lower is None and upper is None:
        given = () if weights is None else (("weight", weight), ("max_weight", max_weight))
        return Unbounded(mean, column_name("mean", column), given)
    if is_auto(lower) or is_auto(upper):
        options = {} if weights is None else {"weight": weight, "max_weight": max_weight}
        return automatic(mean, column, lower, upper, magnitudes, options)
    refuse_magnitudes(mean, magnitudes)
    bounds = bounds_of("mean", column, lower, upper)
    return weighted(Mean(column_name("mean", column), *bounds), weights)


@helpful
@remembered
def proportion(
    column: str,
    *,
    weight: str | None = None,
    max_weight: Number | None = None,
    stratum: str | None = None,
    asked: Mapping[Any, int] | None = None,
    population: Mapping[Any, int] | None = None,
    confidence: Number = Fraction(19, 20),
) -> Aggregate:
    """Return the share of rows whose answer is true, or of the population that they stand for.

    Args:
        column: of truth values, or of 0 and 1; other numbers are clamped to these. Rows without one do not
            count.
        weight, max_weight: the column of survey weights, and that to which larger ones are trimmed.
        stratum: of a stratified sample, the column that says in which stratum a row is. Then the column is of
            truth values, a missing answer counts as no, and no groups are asked.
        asked, population: how many were asked in each stratum, at least 2, and how many there are: public.
        confidence: of the interval, between 0 and 1.
    Returns:
        An aggregate; of a stratified sample with four outputs: the proportion by its name, and beside it
        `_standard_error`, `_low` and `_high`, of the sample and the noise together.
    Raises:
        QueryError: the column is no name, or one of the weights is missing.
        ParameterError: sizes are not there for the same strata, or out of range.

    >>> proportion("employed")
    Mean(column='employed', lower=0, upper=1)
    >>> sizes = {"asked": {"E": 10, "H": 5}, "population": {"E": 90, "H": 30}}
    >>> proportion("award", stratum="school", **sizes).outputs("p")
    ('p', 'p_standard_error', 'p_low', 'p_high')

    Source:
        Hájek 1971, the ratio of two expansion totals; Cochran 1977, section 5.10. Proofs:
        docs/proofs/weighted_sum.md, docs/proofs/yes_in_strata.md.
    """
    if stratum is None and asked is None and population is None:
        return mean(column_name("proportion", column), lower=0, upper=1, weight=weight, max_weight=max_weight)
    if weight is not None or max_weight is not None:
        raise QueryError(
            "proportion: of strata, weights follow from asked and population; leave weight and max_weight out"
        )
    return stratified(column, stratum, asked, population, confidence)


@helpful
@remembered
def variance(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
) -> Aggregate:
    """Return the population variance of a column whose rows are clamped to [lower, upper].

    Args:
        column: a numeric column.
        lower, upper: bounds of each row, in the column's unit; values beyond them are clamped. With "auto",
            for one or both, a release finds them for a share of its budget (docs/choosing.md).
        magnitudes: of bounds that are found, the smallest and the largest size that values may have.
    Raises:
        QueryError: a bound is missing, not finite, or lower is not below upper; or magnitudes are given of
            bounds that are not found.
    Source:
        The law of what is made of three noisy numbers: docs/tolerances.md, "Variances". Proof:
        docs/proofs/moments.md.

    >>> variance("docvis", lower=0, upper=60)
    Variance(column='docvis', lower=0, upper=60)
    """
    if lower is None and upper is None:
        return Unbounded(variance, column_name("variance", column))
    if is_auto(lower) or is_auto(upper):
        return automatic(variance, column, lower, upper, magnitudes)
    refuse_magnitudes(variance, magnitudes)
    return Variance(column_name("variance", column), *bounds_of("variance", column, lower, upper))


@helpful
@remembered
def stddev(
    column: str,
    *,
    lower: Number | None = None,
    upper: Number | None = None,
    magnitudes: tuple[Number, Number] | None = None,
) -> Aggregate:
    """Return the population standard deviation of a column whose rows are clamped to [lower, upper].

    Args:
        column: a numeric column.
        lower, upper: bounds of each row, in the column's unit; values beyond them are clamped. With "auto",
            for one or both, a release finds them for a share of its budget (docs/choosing.md).
        magnitudes: of bounds that are found, the smallest and the largest size that values may have.
    Raises:
        QueryError: a bound is missing, not finite, or lower is not below upper; or magnitudes are given of
            bounds that are not found.
    Source:
        as `variance`, of which it is the root.

    >>> stddev("docvis", lower=0, upper=60)
    StandardDeviation(column='docvis', lower=0, upper=60)
    """
    if lower is None and upper is None:
        return Unbounded(stddev, column_name("stddev", column))
    if is_auto(lower) or is_auto(upper):
        return automatic(stddev, column, lower, upper, magnitudes)
    refuse_magnitudes(stddev, magnitudes)
    return StandardDeviation(column_name("stddev", column), *bounds_of("stddev", column, lower, upper))
